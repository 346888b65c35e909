#include "tools/weir/reading/snapshot_settings.h"

#include <stdio.h>
#include <string.h>

#include "tools/weir/reading/snapshot_view.h"

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

/* Append the options that are set, without `key`, each with a comma. Returns
 * the length, or `begin` if they do not fit. */
static int
append_options(const struct snapshot *snapshot, const char *key, int begin,
    char text[SETTINGS_LINE])
{
	char plain[VIEW_TEXT];
	int n = begin;

	for (uint32_t i = 0; i < snapshot->setting_count && n < SETTINGS_LINE;
	     i++) {
		const char *name =
		    snapshot_text(snapshot, snapshot->settings[i].name);

		if (strncmp(name, option_prefix, sizeof(option_prefix) - 1) !=
			0 ||
		    strcmp(name + sizeof(option_prefix) - 1, key) == 0)
			continue;
		plain_text(name + sizeof(option_prefix) - 1, plain);
		n += snprintf(
		    text + n, (size_t)(SETTINGS_LINE - n), "%s:", plain);
		if (n >= SETTINGS_LINE)
			break;
		plain_text(snapshot_text(snapshot, snapshot->settings[i].value),
		    plain);
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
	int n = append_options(snapshot, key, begin, text);

	snprintf(text + n, (size_t)(SETTINGS_LINE - n), "%s:%s", key, value);
	return text;
}

const char *
settings_weir_conf(const struct snapshot *snapshot, char text[SETTINGS_LINE])
{
	int n = append_options(snapshot, "", 0, text);

	text[n > 0 ? n - 1 : 0] = '\0';
	return text;
}
