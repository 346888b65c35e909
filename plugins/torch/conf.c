/*
 * Settings in PyTorch's syntax become options of weir. The syntax is equal, but
 * some keys have no meaning for weir.
 */
#include "plugins/torch/conf.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plugins/torch/weir_torch.h"

/* Keys for details of PyTorch's own allocators that weir does not have. */
static const char *const passed_over[] = { "backend",
	"release_lock_on_cudamalloc", "release_lock_on_hipmalloc",
	"pinned_use_hip_host_register", "pinned_free_catch_all",
	"pinned_max_round_threshold_mb", "pinned_max_cached_size_mb",
	"graph_capture_record_stream_reuse", "throw_on_cudamalloc_oom",
	"expandable_segments_reserve", "expandable_segments_reserve_by_class" };

static atomic_bool expandable;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char *followed; /* the last text; guarded by the lock */

bool
conf_asks_expandable(void)
{
	return atomic_load(&expandable);
}

/* One item of a text: "key:value". */
struct item {
	const char *key;
	size_t key_length;
	const char *value;
	size_t value_length;
	const char *rest;
};

/* Read the next item of a text without blanks; commas in brackets do not end
 * it. */
static bool
next_setting(const char *at, struct item *out)
{
	int depth = 0;
	const char *end;

	while (*at == ',')
		at++;
	if (*at == '\0')
		return false;
	for (end = at; *end != '\0' && (*end != ',' || depth > 0); end++)
		depth += (*end == '[') - (*end == ']');
	out->key = at;
	out->key_length = strcspn(at, ":,");
	if (out->key_length > (size_t)(end - at))
		out->key_length = (size_t)(end - at);
	out->value = at + out->key_length + (at[out->key_length] == ':');
	out->value_length = out->value < end ? (size_t)(end - out->value) : 0;
	out->rest = end;
	return true;
}

static bool
is_setting(const struct item *item, const char *key)
{
	return strlen(key) == item->key_length &&
	    strncmp(item->key, key, item->key_length) == 0;
}

static bool
is_passed_over(const struct item *item)
{
	for (size_t i = 0; i < sizeof(passed_over) / sizeof(*passed_over); i++)
		if (is_setting(item, passed_over[i]))
			return true;
	return false;
}

/* Read the value of an option that is in force. */
static void
read_option(const char *key, char *value, size_t size)
{
	struct weir_option option;

	value[0] = '\0';
	for (size_t i = 0; weir_option_at(i, &option) == WEIR_OK; i++)
		if (strcmp(option.key, key) == 0) {
			snprintf(value, size, "%s", option.value);
			return;
		}
}

/* The options for weir: first PyTorch's defaults, then the text. */
static char *
translate(const char *text, bool *asks_expandable)
{
	static const char begin[] =
	    "max_split_size_mb:unlimited,garbage_collection_threshold:0,"
	    "roundup_power2_divisions:0,max_non_split_rounding_mb:";
	char large[128];
	struct item item;
	size_t size = sizeof(begin) + sizeof(large) + strlen(text) + 8;
	char *out = malloc(size);

	if (out == NULL)
		return NULL;
	read_option("large_segment_size_mb", large, sizeof(large));
	for (const char *at = text; next_setting(at, &item); at = item.rest)
		if (is_setting(&item, "large_segment_size_mb"))
			snprintf(large, sizeof(large), "%.*s",
			    (int)item.value_length, item.value);
	size_t used = (size_t)snprintf(
	    out, size, "%s%s", begin, large[0] != '\0' ? large : "20");
	for (const char *at = text; next_setting(at, &item); at = item.rest) {
		if (is_passed_over(&item))
			continue;
		if (is_setting(&item, "expandable_segments"))
			*asks_expandable = item.value_length == 4 &&
			    strncmp(item.value, "True", 4) == 0;
		used += (size_t)snprintf(out + used, size - used, ",%.*s",
		    (int)(item.rest - item.key), item.key);
	}
	return out;
}

/* The text without blanks, which PyTorch ignores. */
static char *
without_blanks(const char *text)
{
	char *out = malloc(strlen(text) + 1);
	char *to = out;

	if (out == NULL)
		return NULL;
	for (; *text != '\0'; text++)
		if (strchr(" \t\n\r\v\f", *text) == NULL)
			*to++ = *text;
	*to = '\0';
	return out;
}

enum weir_status
weir_torch_conf(const char *text)
{
	bool asks = atomic_load(&expandable);
	char *bare = without_blanks(text != NULL ? text : "");
	char *all = bare != NULL ? translate(bare, &asks) : NULL;
	enum weir_status status =
	    all != NULL ? weir_options_set(all) : WEIR_EHOSTMEM;

	if (status == WEIR_OK)
		atomic_store(&expandable, asks);
	free(all);
	free(bare);
	return status;
}

/* weir has already read the environment, and WEIR_CONF overrides it. So only
 * the setting for private pools is read from the first text. */
static void
learn_first(const char *text)
{
	bool asks = false;
	char *bare = without_blanks(text);
	char *all = bare != NULL ? translate(bare, &asks) : NULL;

	if (all != NULL)
		atomic_store(&expandable, asks);
	free(all);
	free(bare);
}

enum weir_status
weir_torch_conf_follow(const char *text)
{
	enum weir_status status = WEIR_OK;

	pthread_mutex_lock(&lock);
	bool first = followed == NULL;
	char *copy = NULL;
	if (first || strcmp(followed, text) != 0)
		copy = strdup(text);
	if (copy != NULL) {
		free(followed);
		followed = copy;
	}
	pthread_mutex_unlock(&lock);
	if (copy == NULL)
		return status;
	if (first)
		learn_first(text);
	else
		status = weir_torch_conf(text);
	return status;
}
