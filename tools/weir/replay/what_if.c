/*
 * A setting is played as `weir replay --conf`, or `weir replay --as torch`,
 * plays it, and the memory that it holds becomes a curve.
 */
#include "tools/weir/replay/what_if.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/weir/reading/snapshot_lives.h"
#include "tools/weir/reading/snapshot_view.h"
#include "tools/weir/replay/trial.h"
#include "tools/weir/tool.h"
#include "tools/weir/torch/torch_replay.h"

static const char *const usual[] = { "weir", "prefer:memory", "handle_mb:2",
	"torch", "torch,expandable_segments:True" };

/* A setting without its limit. */
struct played_setting {
	char text[WHAT_IF_TEXT]; /* as conf of weir, or as of the model */
	uint64_t limit_bytes;
	bool torch;
};

/* Take limit:BYTES out of a setting. */
static bool
take_limit(
    struct played_setting *out, const char *setting, char why[WHAT_IF_WHY])
{
	char copy[WHAT_IF_TEXT];
	char *rest = copy;
	char *part;

	*out = (struct played_setting){ .limit_bytes = UINT64_MAX };
	if (strlen(setting) >= sizeof(copy)) {
		snprintf(why, WHAT_IF_WHY, "the setting has more than %d bytes",
		    WHAT_IF_TEXT - 1);
		return false;
	}
	memcpy(copy, setting, strlen(setting) + 1);
	while ((part = strsep(&rest, ",")) != NULL) {
		size_t length = strlen(out->text);

		if (strncmp(part, "limit:", 6) != 0) {
			snprintf(out->text + length, sizeof(out->text) - length,
			    "%s%s", length == 0 ? "" : ",", part);
		} else if (!bytes_parse(part + 6, &out->limit_bytes) ||
		    out->limit_bytes == 0) {
			snprintf(why, WHAT_IF_WHY,
			    "limit:BYTES is a size such as limit:8G, not "
			    "'%.100s'",
			    part);
			return false;
		}
	}
	return true;
}

static bool
read_setting(
    struct played_setting *out, const char *setting, char why[WHAT_IF_WHY])
{
	struct torch_conf conf;
	char fault[TORCH_CONF_WHY];

	if (!take_limit(out, setting, why))
		return false;
	out->torch = strncmp(out->text, "torch", 5) == 0 &&
	    (out->text[5] == '\0' || out->text[5] == ',');
	if (strcmp(out->text, "weir") == 0)
		out->text[0] = '\0';
	if (out->torch && !torch_as_parse(out->text, &conf, fault)) {
		snprintf(why, WHAT_IF_WHY, "%s", fault);
		return false;
	}
	return true;
}

bool
what_if_add(struct what_if *what_if, const char *setting, char why[WHAT_IF_WHY])
{
	struct played_setting played;

	if (what_if->count == WHAT_IF_MOST) {
		snprintf(why, WHAT_IF_WHY, "at most %d settings at a time",
		    WHAT_IF_MOST);
		return false;
	}
	if (!read_setting(&played, setting, why))
		return false;
	what_if->settings[what_if->count++] = setting;
	return true;
}

void
what_if_add_usual(struct what_if *what_if)
{
	for (size_t i = 0; i < sizeof(usual) / sizeof(usual[0]) &&
	     what_if->count < WHAT_IF_MOST;
	     i++)
		what_if->settings[what_if->count++] = usual[i];
}

/* ---- Playing ----------------------------------------------------------- */

/* Copy a number of `from`, or null. */
static void
copy_number(json_t *to, const char *key, const json_t *from, const char *name)
{
	json_t *value = json_object_get(from, name);

	if (value == NULL)
		json_object_set_new(to, key, json_null());
	else
		json_object_set(to, key, value);
}

static json_t *
play_weir(const char *path, int device, const struct played_setting *with)
{
	const struct trial_choices choices = {
		.play = { .limit_bytes = with->limit_bytes,
		    .speed = 1,
		    .seed = 1,
		    .curve = true },
		.conf = with->text[0] == '\0' ? NULL : with->text,
		.device = device, /* -1: a CSV has no numbers of devices */
	};
	json_t *figures;
	json_t *one = NULL;

	if (!trial_conf_accepted("--what-if", choices.conf))
		return NULL;
	if (trial_run(path, &choices, &figures) == TOOL_DONE) {
		one = json_object();
		copy_number(one, "held", figures, "held_curve");
		copy_number(one, "peak_held_bytes", figures, "peak_held_bytes");
		copy_number(one, "ooms", figures, "ooms");
		copy_number(one, "host_waits", figures, "host_waits");
		copy_number(one, "gpu_waits", figures, "gpu_waits");
		copy_number(one, "gpu_wait_us", figures, "gpu_wait_us");
		put_number(one, "driver_calls",
		    (uint64_t)(json_integer_value(
				   json_object_get(figures, "device_allocs")) +
			json_integer_value(
			    json_object_get(figures, "device_frees"))));
	}
	json_decref(figures);
	return one;
}

static json_t *
play_torch(const struct snapshot *snapshot, uint32_t device,
    const struct played_setting *with, uint64_t span_us)
{
	struct torch_conf conf;
	struct torch_played played;
	struct recording recording;
	struct held_curve curve;
	char why[TORCH_CONF_WHY];
	json_t *one = NULL;

	held_curve_begin(&curve, span_us);
	if (!torch_as_parse(with->text, &conf, why) ||
	    !recording_make(snapshot, device, &recording))
		return NULL;
	if (torch_replay(
		&recording, &conf, with->limit_bytes, false, &curve, &played)) {
		const struct torch_figures *figures = &played.figures;

		one = json_object();
		json_object_set_new(one, "held", held_curve_json(&curve));
		put_number(one, "peak_held_bytes", figures->reserved.peak);
		put_number(one, "ooms", figures->ooms);
		json_object_set_new(one, "host_waits", json_null());
		json_object_set_new(one, "gpu_waits", json_null());
		json_object_set_new(one, "gpu_wait_us", json_null());
		put_number(one, "driver_calls",
		    figures->device_allocs + figures->device_frees);
	}
	recording_drop(&recording);
	return one;
}

static json_t *
play_setting(const char *setting, const char *path,
    const struct snapshot *snapshot, uint32_t device)
{
	struct played_setting with;
	char why[WHAT_IF_WHY];
	int64_t first;
	int64_t last;
	json_t *one;

	if (!read_setting(&with, setting, why))
		return NULL;
	trace_times(snapshot, device, &first, &last);
	one = with.torch ?
	    play_torch(snapshot, device, &with, (uint64_t)(last - first)) :
	    play_weir(
		path, snapshot->trace_count == 1 ? -1 : (int)device, &with);
	if (one != NULL) {
		put_number(one, "device", device);
		json_object_set_new(one, "setting", json_of_text(setting));
		put_number(one, "span_us", (uint64_t)(last - first));
	}
	return one;
}

json_t *
what_if_play(const struct what_if *what_if, const char *path,
    const struct snapshot *snapshot)
{
	json_t *list = json_array();

	trial_forget_environment();
	for (uint32_t d = 0; d < snapshot->trace_count; d++)
		for (size_t i = 0; i < what_if->count; i++) {
			json_t *one;

			if (snapshot->traces[d].count == 0)
				continue;
			one = play_setting(
			    what_if->settings[i], path, snapshot, d);
			if (one == NULL) {
				json_decref(list);
				return NULL;
			}
			json_array_append_new(list, one);
		}
	return list;
}
