#include "tools/weir/reading/snapshot_settings.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "tools/weir/reading/snapshot_view.h"
#include "tools/weir/tool.h"

static const char option_prefix[] = "allocator_settings.weir_options.";

bool
settings_of_weir(const struct snapshot *snapshot)
{
	static const char ours[] = "allocator_settings.weir_";

	for (uint32_t i = 0; i < snapshot->setting_count; i++)
		if (strncmp(snapshot_text(snapshot, snapshot->settings[i].name),
			ours, sizeof(ours) - 1) == 0)
			return true;
	return setting_value(snapshot, "weir.version") != NULL;
}

static bool
setting_is_set(const struct snapshot *snapshot, const char *name)
{
	const char *value = setting_value(snapshot, name);

	return value != NULL && strcmp(value, "True") == 0;
}

bool
settings_expandable(const struct snapshot *snapshot)
{
	if (setting_is_set(snapshot, "allocator_settings.expandable_segments"))
		return true;
	for (uint32_t i = 0; i < snapshot->segment_count; i++)
		if (snapshot->segments[i].expandable)
			return true;
	return false;
}

const char *
settings_of_device(
    const struct snapshot *snapshot, const char *name, uint32_t device)
{
	char path[VIEW_TEXT];

	snprintf(
	    path, sizeof(path), "allocator_settings.%s.%" PRIu32, name, device);
	return setting_value(snapshot, path);
}

uint64_t
settings_gpu_wait_ns(const struct snapshot *snapshot, uint32_t device)
{
	const char *value =
	    settings_of_device(snapshot, "weir_gpu_wait_ns", device);
	uint64_t ns;

	return value != NULL && count_parse(value, UINT64_MAX, &ns) ? ns : 0;
}

const char *
settings_weir_option(const struct snapshot *snapshot, const char *key)
{
	char name[VIEW_TEXT];

	snprintf(name, sizeof(name), "%s%s", option_prefix, key);
	return setting_value(snapshot, name);
}

const char *
settings_torch_line(const struct snapshot *snapshot, const char *option,
    char text[SETTINGS_LINE])
{
	const char *conf = setting_value(
	    snapshot, "allocator_settings.PYTORCH_CUDA_ALLOC_CONF");
	char plain[VIEW_TEXT] = "";

	if (conf != NULL)
		plain_text(conf, plain);
	snprintf(text, SETTINGS_LINE, "export PYTORCH_CUDA_ALLOC_CONF=%s%s%s",
	    plain, plain[0] != '\0' ? "," : "", option);
	return text;
}

/* Is it an option that says where memory comes from and goes? Others write
 * files, reach other processes or cost time, and a replay is told its limit. */
static bool
is_replayed(const char *key)
{
	static const char *const keys[] = { "decay_ms", "delay_percent",
		"expandable_segments", "garbage_collection_threshold",
		"handle_mb", "large_segment_size_mb",
		"max_non_split_rounding_mb", "max_split_size_mb", "may_sleep",
		"prefer", "roundup_power2_divisions", "tcache" };

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		if (strcmp(key, keys[i]) == 0)
			return true;
	return false;
}

/* True if no other option can follow in the value: a list has brackets. */
static bool
is_one_value(const char *value)
{
	const char *end = strpbrk(value, ",]");

	if (value[0] == '[')
		end = strchr(value, ']');
	return end == NULL || (value[0] == '[' && end[1] == '\0');
}

/* Append the options that are set, without `key`, each with a comma; with
 * `replayed` those that a replay may have. Returns the length, or `begin` if
 * they do not fit. */
static int
append_options(const struct snapshot *snapshot, const char *key, bool replayed,
    int begin, char text[SETTINGS_LINE])
{
	char plain[VIEW_TEXT];
	int n = begin;

	for (uint32_t i = 0; i < snapshot->setting_count && n < SETTINGS_LINE;
	     i++) {
		const char *name =
		    snapshot_text(snapshot, snapshot->settings[i].name);
		const char *value =
		    snapshot_text(snapshot, snapshot->settings[i].value);

		if (strncmp(name, option_prefix, sizeof(option_prefix) - 1) !=
		    0)
			continue;
		name += sizeof(option_prefix) - 1;
		if (strcmp(name, key) == 0 ||
		    (replayed && !(is_replayed(name) && is_one_value(value))))
			continue;
		plain_text(name, plain);
		n += snprintf(
		    text + n, (size_t)(SETTINGS_LINE - n), "%s:", plain);
		if (n >= SETTINGS_LINE)
			break;
		plain_text(value, plain);
		n += snprintf(
		    text + n, (size_t)(SETTINGS_LINE - n), "%s,", plain);
	}
	return n < SETTINGS_LINE - 64 ? n : begin;
}

const char *
settings_weir_line(const struct snapshot *snapshot, const char *key,
    const char *value, char text[SETTINGS_LINE])
{
	int begin = snprintf(text, SETTINGS_LINE, "export WEIR_CONF=");
	int n = append_options(snapshot, key, false, begin, text);

	snprintf(text + n, (size_t)(SETTINGS_LINE - n), "%s:%s", key, value);
	return text;
}

const char *
settings_replayed(const struct snapshot *snapshot, const char *key,
    const char *value, char text[SETTINGS_LINE])
{
	int n = append_options(snapshot, key != NULL ? key : "", true, 0, text);

	if (key != NULL)
		snprintf(
		    text + n, (size_t)(SETTINGS_LINE - n), "%s:%s", key, value);
	else
		text[n > 0 ? n - 1 : 0] = '\0';
	return text;
}
