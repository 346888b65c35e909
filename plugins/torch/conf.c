/*
 * Settings in PyTorch's syntax become options of weir, which reads them as
 * PyTorch does. The adapter itself needs to know only whether they ask for
 * expandable segments.
 */
#include "plugins/torch/conf.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plugins/torch/forks.h"
#include "plugins/torch/weir_torch.h"

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

/* Does the text, without blanks, ask for expandable segments? *asks keeps its
 * value if the text does not mention them. */
static void
find_expandable(const char *text, bool *asks)
{
	struct item item;

	for (const char *at = text; next_setting(at, &item); at = item.rest)
		if (is_setting(&item, "expandable_segments"))
			*asks = item.value_length == 4 &&
			    strncmp(item.value, "True", 4) == 0;
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

	if (bare == NULL)
		return WEIR_EHOSTMEM;
	enum weir_status status = weir_options_set_pytorch(bare);
	find_expandable(bare, &asks);
	if (status == WEIR_OK)
		atomic_store(&expandable, asks);
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

	if (bare == NULL)
		return;
	find_expandable(bare, &asks);
	atomic_store(&expandable, asks);
	free(bare);
}

enum weir_status
weir_torch_conf_follow(const char *text)
{
	if (forks_refused())
		return WEIR_EFORK;
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
