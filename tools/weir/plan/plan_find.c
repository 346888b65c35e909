/*
 * Makes a plan by each rule of lives, replays the recording with each, and
 * keeps the best one.
 */
#include "tools/weir/plan/plan_find.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <weir/weir.h>

#include "tools/weir/plan/plan_pack.h"
#include "tools/weir/plan/tuning.h"
#include "tools/weir/replay/trial.h"
#include "tools/weir/tool.h"

/* ---- Replays ----------------------------------------------------------- */

static uint64_t
number_in(const json_t *figures, const char *key)
{
	return (uint64_t)json_integer_value(json_object_get(figures, key));
}

static bool
replay_by(const struct plan_request_to_find *request, const char *conf,
    struct plan_figures *out)
{
	const struct trial_choices choices = {
		.play = { .limit_bytes = UINT64_MAX, .speed = 1, .seed = 1 },
		.conf = conf[0] == '\0' ? NULL : conf,
		.device = request->device,
	};
	json_t *figures = NULL;
	bool good = trial_run(request->path, &choices, &figures) == TOOL_DONE;

	if (good)
		*out = (struct plan_figures){
			.live = number_in(figures, "peak_live_bytes"),
			.held = number_in(figures, "peak_held_bytes"),
			.waits = number_in(figures, "gpu_waits"),
			.host_waits = number_in(figures, "host_waits"),
			.map_calls = number_in(figures, "map_calls"),
			.ooms = number_in(figures, "ooms"),
			.duration_us = number_in(figures, "duration_us"),
			.moved = number_in(figures, "moved_allocs"),
		};
	json_decref(figures);
	return good;
}

/* Replay with a plan, from a file that is removed. */
static bool
replay_planned(const struct plan_request_to_find *request,
    const struct plan *plan, struct plan_figures *out)
{
	char path[] = "/tmp/weir-plan-XXXXXX";
	int fd = mkstemp(path);
	char *conf = NULL;
	bool good = false;

	if (fd < 0) {
		complain("cannot write a file in /tmp: %s", strerror(errno));
		return false;
	}
	close(fd);
	if (plan_write(plan, path) != WEIR_OK)
		complain("%s", weir_last_error());
	else if (asprintf(&conf, "%s%splan:%s",
		     request->conf != NULL ? request->conf : "",
		     request->conf != NULL ? "," : "", path) < 0)
		complain("out of memory");
	else {
		good = replay_by(request, conf, out);
		free(conf);
	}
	unlink(path);
	return good;
}

/* ---- Plans ------------------------------------------------------------- */

/* Make the plan's requests: those before the round, and the round. */
static struct plan *
plan_of(const struct plan_requests *requests)
{
	uint32_t count = requests->round + requests->length;
	struct plan *plan;

	if (plan_new(count, &plan) != WEIR_OK) {
		complain("%s", weir_last_error());
		return NULL;
	}
	plan->round = requests->round;
	plan->streams = requests->streams;
	for (uint32_t i = 0; i < count; i++)
		plan->entries[i] = (struct plan_entry){
			.size = requests->list[i].size,
			.offset = PLAN_NO_PLACE,
			.stream = requests->list[i].stream,
		};
	return plan;
}

/* Does a plan cost nothing: no memory, no failure and no wait? */
static bool
costs_nothing(
    const struct plan_figures *with, const struct plan_figures *without)
{
	return with->held <= without->held && with->ooms <= without->ooms &&
	    with->waits <= without->waits &&
	    with->host_waits <= without->host_waits;
}

/* Plans that hold about as much are told apart by their waits and calls. */
static bool
is_better_plan(const struct plan_figures *a, const struct plan_figures *b,
    const struct plan_figures *without)
{
	uint64_t least = a->held < b->held ? a->held : b->held;
	uint64_t most = a->held < b->held ? b->held : a->held;

	if (costs_nothing(a, without) != costs_nothing(b, without))
		return costs_nothing(a, without);
	if (a->ooms != b->ooms)
		return a->ooms < b->ooms;
	if (most - least > least / PLANNED_SAME_SHARE)
		return a->held < b->held;
	return a->waits + a->map_calls < b->waits + b->map_calls;
}

/* Pack the requests with these lives, replay the plan, and keep it if it is the
 * best so far. */
static bool
try_lives(const struct plan_request_to_find *request,
    const struct plan_requests *requests, const struct plan_lives *lives,
    bool from_start, struct plan_found *found)
{
	struct plan_figures figures = { 0 };
	struct plan *plan = plan_of(requests);
	bool good = plan != NULL && plan_pack(plan, lives, from_start);

	/* Without bytes, no request can have a place. */
	if (good && plan->round_bytes > 0)
		good = replay_planned(request, plan, &figures);
	if (good && plan->round_bytes > 0 &&
	    (found->plan == NULL ||
		is_better_plan(&figures, &found->with, &found->without))) {
		struct plan *worse = found->plan;

		found->plan = plan;
		found->with = figures;
		plan = worse;
	}
	plan_free(plan);
	return good;
}

/* Try the plan of a rule, with places for the requests before the first round
 * and without. */
static bool
try_rule(const struct plan_request_to_find *request, const struct trace *trace,
    const struct plan_requests *requests, enum plan_rule rule,
    struct plan_found *found)
{
	struct plan_lives lives;
	bool good;

	if (!plan_lives_make(trace, requests, rule, &lives))
		return false;
	good = try_lives(request, requests, &lives, false, found) &&
	    (requests->round < PLAN_SEEN ||
		try_lives(request, requests, &lives, true, found));
	plan_lives_drop(&lives);
	return good;
}

static bool
try_rules(const struct plan_request_to_find *request, const struct trace *trace,
    const struct plan_requests *requests, struct plan_found *found)
{
	/* The rules differ in streams only. */
	int rules = requests->streams > 1 ? PLAN_RULES : 1;

	for (int rule = 0; rule < rules; rule++)
		if (!try_rule(
			request, trace, requests, (enum plan_rule)rule, found))
			return false;
	return true;
}

/* Does a request of the round lack a place? */
static bool
lacks_places(const struct plan *plan)
{
	for (uint32_t i = plan->round; i < plan->count; i++)
		if (plan->entries[i].offset == PLAN_NO_PLACE)
			return true;
	return false;
}

/*
 * Requests that live longer than a round lack a place. There are two reasons,
 * and a remedy for each: in the first round the program makes what it keeps, so
 * the round begins with the second one; or it takes new memory before it frees
 * the old, and has two places for it in turn, so the round is two of them.
 */
static const struct round_shape {
	uint32_t skipped; /* rounds */
	uint32_t length;  /* in rounds */
} round_shapes[] = { { 0, 1 }, { 1, 1 }, { 0, 2 }, { 1, 2 } };

/* Give the round another shape. False: the recording is too short for it, or
 * the plan would be too long. */
static bool
shape_round(struct plan_requests *requests, const struct round_shape *shape)
{
	uint64_t length = (uint64_t)requests->length * shape->length;
	uint64_t round =
	    requests->round + (uint64_t)requests->length * shape->skipped;

	if (round + length > PLAN_ENTRIES ||
	    round + PLANNED_ROUNDS * length > requests->count)
		return false;
	requests->round = (uint32_t)round;
	requests->length = (uint32_t)length;
	return true;
}

/* Try the shapes, until the best plan has a place for each request. */
static bool
try_shapes(const struct plan_request_to_find *request,
    const struct trace *trace, const struct plan_requests *requests,
    struct plan_found *found)
{
	for (size_t i = 0; i < sizeof(round_shapes) / sizeof(*round_shapes);
	     i++) {
		struct plan_requests shaped = *requests;

		if (found->plan != NULL && !lacks_places(found->plan))
			break;
		if (shape_round(&shaped, &round_shapes[i]) &&
		    !try_rules(request, trace, &shaped, found))
			return false;
	}
	return true;
}

/* Is there a round that a plan can list? */
static bool
has_plan(const struct plan_requests *requests, struct plan_found *found)
{
	if (requests->count == 0)
		snprintf(found->why, sizeof(found->why),
		    "it has no request above %d KiB", PLANNED_ABOVE / 1024);
	else if (requests->length == 0)
		snprintf(found->why, sizeof(found->why),
		    "the requests above %d KiB do not repeat to its end",
		    PLANNED_ABOVE / 1024);
	else if (requests->streams > PLAN_STREAMS)
		snprintf(found->why, sizeof(found->why),
		    "it has %" PRIu32 " streams, and a plan %d at most",
		    requests->streams, PLAN_STREAMS);
	else if (requests->round + (uint64_t)requests->length > PLAN_ENTRIES)
		snprintf(found->why, sizeof(found->why),
		    "its first round ends after %" PRIu32
		    " requests, and a plan has %d at most",
		    requests->round + requests->length, PLAN_ENTRIES);
	else
		return true;
	return false;
}

static bool
find_plan(const struct plan_request_to_find *request, const struct trace *trace,
    const struct plan_requests *requests, struct plan_found *out)
{
	if (!has_plan(requests, out))
		return true;
	out->rounds = (requests->count - requests->round) / requests->length;
	if (!replay_by(request, request->conf != NULL ? request->conf : "",
		&out->without))
		return false;
	if (!try_shapes(request, trace, requests, out))
		return false;
	if (out->plan == NULL)
		snprintf(out->why, sizeof(out->why),
		    "no large request of a round is freed within a round");
	return true;
}

bool
plan_find(const struct plan_request_to_find *request, struct plan_found *out)
{
	struct trace_error error;
	struct plan_requests requests;
	struct trace trace;
	bool good;

	*out = (struct plan_found){ 0 };
	if (!trace_read_device(
		request->path, request->device, &trace, &error)) {
		complain("%s", error.text);
		return false;
	}
	good = plan_requests_make(&trace, &requests);
	if (good) {
		good = find_plan(request, &trace, &requests, out);
		plan_requests_drop(&requests);
	}
	trace_drop(&trace);
	if (!good)
		plan_found_drop(out);
	return good;
}

void
plan_found_drop(struct plan_found *found)
{
	plan_free(found->plan);
	found->plan = NULL;
}

bool
plan_helps(const struct plan_found *found)
{
	return found->plan != NULL &&
	    costs_nothing(&found->with, &found->without);
}
