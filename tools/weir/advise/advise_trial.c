#include "tools/weir/advise/advise_trial.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/weir/reading/snapshot_moment.h"
#include "tools/weir/reading/snapshot_out.h"
#include "tools/weir/reading/snapshot_view.h"
#include "tools/weir/replay/trial.h"
#include "tools/weir/tool.h"
#include "tools/weir/torch/torch_replay.h"

/* Above all addresses of devices. */
#define FAILED_ADDRESS (UINT64_C(1) << 60)

/* Write the recording to a file of its own. */
static bool
write_case(
    struct advise_case *c, const struct snapshot *snapshot, uint32_t device)
{
	int fd;
	FILE *file;
	bool good;

	strcpy(c->written, "/tmp/weir-advise-XXXXXX");
	fd = mkstemp(c->written);
	file = fd < 0 ? NULL : fdopen(fd, "w");
	if (file == NULL) {
		complain("cannot write a file in /tmp: %s", strerror(errno));
		if (fd >= 0)
			close(fd);
		return false;
	}
	good = snapshot_out_csv(snapshot, device, "recording", file);
	if (fclose(file) != 0 && good) {
		complain("cannot write %s: %s", c->written, strerror(errno));
		good = false;
	}
	c->path = c->written;
	c->device = -1;
	return good;
}

bool
advise_case_whole(struct advise_case *c, const struct snapshot *snapshot,
    uint32_t device, const char *path, uint64_t limit)
{
	*c = (struct advise_case){
		.path = path,
		.device = (int)device,
		.limit = limit,
	};
	if (recording_make(snapshot, device, &c->recording) &&
	    (path != NULL || write_case(c, snapshot, device)))
		return true;
	advise_case_drop(c);
	return false;
}

/* Copy the parts of a snapshot that the case changes: the trace ends with
 * `event`, which becomes an allocation. */
static bool
cut_at_failure(
    struct advise_case *c, const struct snapshot *snapshot, uint32_t event)
{
	const struct snapshot_events *events = &snapshot->events;
	uint32_t device = events->device[event];
	size_t n = events->count;

	c->traces = calloc(snapshot->trace_count, sizeof(*c->traces));
	c->address = calloc(n, sizeof(*c->address));
	c->action = calloc(n, sizeof(*c->action));
	if (c->traces == NULL || c->address == NULL || c->action == NULL) {
		complain("out of memory");
		return false;
	}
	memcpy(c->traces, snapshot->traces,
	    snapshot->trace_count * sizeof(*c->traces));
	memcpy(c->address, events->address, n * sizeof(*c->address));
	memcpy(c->action, events->action, n * sizeof(*c->action));
	c->traces[device].count = event - c->traces[device].first + 1;
	c->address[event] = FAILED_ADDRESS;
	c->action[event] = SNAPSHOT_ALLOC;
	c->moment->traces = c->traces;
	c->moment->events.address = c->address;
	c->moment->events.action = c->action;
	return true;
}

bool
advise_case_failure(
    struct advise_case *c, const struct snapshot *snapshot, uint32_t event)
{
	uint32_t device = snapshot->events.device[event];
	uint64_t held;

	*c = (struct advise_case){ 0 };
	c->moment = moment_new(snapshot, device, event);
	if (c->moment == NULL)
		return false;
	held = sums_of(c->moment, (int)device).reserved;
	c->limit = held + snapshot->events.address[event];
	if (cut_at_failure(c, snapshot, event) &&
	    recording_make(c->moment, device, &c->recording) &&
	    write_case(c, c->moment, device))
		return true;
	advise_case_drop(c);
	return false;
}

void
advise_case_drop(struct advise_case *c)
{
	recording_drop(&c->recording);
	if (c->written[0] != '\0')
		unlink(c->written);
	moment_free(c->moment);
	free(c->traces);
	free(c->address);
	free(c->action);
	*c = (struct advise_case){ 0 };
}

/* ---- Replays --------------------------------------------------------- */

static uint64_t
figure_of(const json_t *figures, const char *key)
{
	return (uint64_t)json_integer_value(json_object_get(figures, key));
}

static bool
play_weir(
    const struct advise_case *c, const char *conf, struct advise_figures *out)
{
	struct trial_choices choices = {
		.play = { .limit_bytes = c->limit, .speed = 1, .seed = 1 },
		.conf = conf[0] == '\0' ? NULL : conf,
		.device = c->device,
	};
	json_t *figures = NULL;
	bool good = trial_run(c->path, &choices, &figures) == TOOL_DONE;

	if (good)
		*out = (struct advise_figures){
			.held = figure_of(figures, "peak_held_bytes"),
			.ooms = figure_of(figures, "ooms"),
			.calls = figure_of(figures, "device_allocs") +
			    figure_of(figures, "device_frees") +
			    figure_of(figures, "map_calls") +
			    figure_of(figures, "unmap_calls"),
			.host_waits = figure_of(figures, "host_waits"),
			.gpu_waits = figure_of(figures, "gpu_waits"),
			.delay_us = figure_of(figures, "gpu_wait_us"),
			.duration_us = figure_of(figures, "duration_us"),
		};
	json_decref(figures);
	return good;
}

static bool
play_torch(const struct recording *recording, uint64_t limit,
    const char *settings, struct advise_figures *out)
{
	struct torch_played played;
	struct torch_conf conf;
	char why[TORCH_CONF_WHY];

	torch_conf_init(&conf);
	if (!torch_conf_parse(settings, &conf, why)) {
		complain("%s", why);
		return false;
	}
	if (!torch_replay(recording, &conf, limit, false, NULL, &played))
		return false;
	*out = (struct advise_figures){
		.held = played.figures.reserved.peak,
		.ooms = played.figures.ooms,
		.calls =
		    played.figures.device_allocs + played.figures.device_frees,
		.retries = played.figures.retries,
	};
	return true;
}

bool
advise_play(const struct advise_case *c,
    const struct advise_allocator *allocator, struct advise_figures *out)
{
	if (allocator->weir)
		return play_weir(c, allocator->conf, out);
	return play_torch(&c->recording, c->limit, allocator->conf, out);
}

bool
advise_play_fresh(const struct advise_case *c, const char *settings,
    struct advise_figures *out)
{
	struct recording fresh = c->recording;

	fresh.older_segments = 0;
	return play_torch(&fresh, c->limit, settings, out);
}

uint64_t
advise_older_held(const struct advise_case *c)
{
	uint64_t held = 0;

	for (uint32_t i = 0; i < c->recording.older_segments; i++)
		held += c->recording.segments[i].bytes;
	return held;
}

bool
advise_has_request(const struct advise_case *c)
{
	return c->recording.block_count > c->recording.older_count;
}
