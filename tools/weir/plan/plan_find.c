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

#include "tools/weir/plan/plan_check.h"
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

/* The search for the best plan. */
struct finding {
	const struct plan_request_to_find *request;
	const struct trace *trace;
	/* The first request of the first round, and the requests of a round; 0:
	 * the trace says where its rounds begin. */
	uint64_t round_first;
	uint64_t round_length;
	struct plan_found *found;
};

static bool
replay_by(const struct finding *in, const char *conf, struct plan_figures *out)
{
	const struct trial_choices choices = {
		.play = { .limit_bytes = UINT64_MAX,
		    .speed = 1,
		    .seed = 1,
		    .round_first = in->round_first,
		    .round_length = in->round_length },
		.conf = conf[0] == '\0' ? NULL : conf,
		.device = in->request->device,
	};
	json_t *figures = NULL;
	bool good =
	    trial_run(in->request->path, &choices, &figures) == TOOL_DONE;

	if (good)
		*out = (struct plan_figures){
			.live = number_in(figures, "peak_live_bytes"),
			.held = number_in(figures, "peak_held_bytes"),
			.waits = number_in(figures, "gpu_waits"),
			.host_waits = number_in(figures, "host_waits"),
			.map_calls = number_in(figures, "map_calls"),
			.ooms = number_in(figures, "ooms"),
			.duration_us = number_in(figures, "duration_us"),
			.delay_us = number_in(figures, "gpu_wait_us"),
			.stall_us = number_in(figures, "gpu_stall_us"),
			.planned = number_in(figures, "planned_allocs"),
			.repeated = number_in(figures, "repeated_large_allocs"),
			.moved = number_in(figures, "moved_large_allocs"),
		};
	json_decref(figures);
	return good;
}

/* Replay with a plan, from a file that is removed. */
static bool
replay_planned(
    const struct finding *in, const struct plan *plan, struct plan_figures *out)
{
	const char *own = in->request->conf;
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
	else if (asprintf(&conf, "%s%splan:%s", own != NULL ? own : "",
		     own != NULL ? "," : "", path) < 0)
		complain("out of memory");
	else {
		good = replay_by(in, conf, out);
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
	/* The range is mapped whatever it takes, so that the replay shows what
	 * the plan needs: settle_plan(). */
	plan->held_bytes = UINT64_MAX;
	for (uint32_t i = 0; i < count; i++)
		plan->entries[i] = (struct plan_entry){
			.size = requests->list[i].size,
			.offset = PLAN_NO_PLACE,
			.stream = requests->list[i].stream,
		};
	return plan;
}

/* Do a good many more requests have another address than in the round before
 * with one plan than with the other? */
static bool
moves_more(const struct plan_figures *a, const struct plan_figures *b)
{
	return a->moved > b->moved + b->repeated / PLANNED_MOVED_SHARE;
}

/* The microseconds of the host's calls by which streams wait. */
static uint64_t
calls_us(const struct plan_figures *figures)
{
	return figures->waits * PLANNED_WAIT_NS / 1000;
}

/* Is a time longer than the one without a plan by what a step would show? */
static bool
is_longer(uint64_t with, uint64_t without, const struct plan_figures *program)
{
	return with > without + program->duration_us / PLANNED_COST_SHARE;
}

/* Does the program take longer than without a plan? */
static bool
lasts_longer(
    const struct plan_figures *with, const struct plan_figures *without)
{
	return is_longer(with->duration_us + calls_us(with),
	    without->duration_us + calls_us(without), without);
}

/* Is more work delayed by waits than without a plan? The program need not take
 * longer then: a copy has time until it is needed. */
static bool
delays_more(const struct plan_figures *with, const struct plan_figures *without)
{
	return is_longer(with->delay_us + calls_us(with),
	    without->delay_us + calls_us(without), without);
}

/* Do streams come to wait for longer than without a plan, with or without work?
 * The trace of a snapshot does not know the work of streams, so that only this
 * tells which waits may delay some. */
static bool
stalls_more(const struct plan_figures *with, const struct plan_figures *without)
{
	return is_longer(with->stall_us, without->stall_us, without);
}

/* Do waits cost time? A plan may delay work if the program takes no longer, and
 * fewer addresses change for it. The recording of a program that ran under weir
 * shows how long waits may be, but not their cost. */
static bool
costs_time(const struct plan_figures *with, const struct plan_found *found)
{
	const struct plan_figures *without = &found->without;

	if (found->is_of_weir)
		return stalls_more(with, without);
	return lasts_longer(with, without) ||
	    (delays_more(with, without) && !moves_more(without, with));
}

/* Does a plan cost nothing: no memory, no failure, no wait of the host, and no
 * time that a step would show? */
static bool
costs_nothing(const struct plan_figures *with, const struct plan_found *found)
{
	const struct plan_figures *without = &found->without;

	return with->held <= without->held && with->ooms <= without->ooms &&
	    with->host_waits <= without->host_waits && !costs_time(with, found);
}

/* Among plans that cost nothing one is better by which fewer addresses change.
 * Plans that hold about as much are told apart by what they cost. */
static bool
is_better_plan(const struct plan_figures *a, const struct plan_figures *b,
    const struct plan_found *found)
{
	const struct plan_figures *without = &found->without;
	uint64_t least = a->held < b->held ? a->held : b->held;
	uint64_t most = a->held < b->held ? b->held : a->held;

	if (costs_nothing(a, found) != costs_nothing(b, found))
		return costs_nothing(a, found);
	if (a->ooms != b->ooms)
		return a->ooms < b->ooms;
	if (moves_more(a, b) || moves_more(b, a))
		return moves_more(b, a);
	/* A request without a place may take that of another one. */
	if ((a->unplaced == 0) != (b->unplaced == 0))
		return a->unplaced == 0;
	if (found->is_of_weir && (stalls_more(a, b) || stalls_more(b, a)))
		return stalls_more(b, a);
	if (delays_more(a, without) != delays_more(b, without))
		return delays_more(b, without);
	if (!found->has_work &&
	    stalls_more(a, without) != stalls_more(b, without))
		return stalls_more(b, without);
	if (most - least > least / PLANNED_SAME_SHARE)
		return a->held < b->held;
	return a->waits + a->map_calls < b->waits + b->map_calls;
}

/* The lives of a round by both rules. */
struct lives_tried {
	struct plan_lives by_calls;
	struct plan_lives longer;
};

/* A way to plan that is tried. */
struct attempt {
	struct finding *in;
	const struct plan_requests *requests;
	struct plan_packing how;
	/* The latest plan: its bytes, and the figures of its replay. */
	uint64_t round_bytes;
	uint64_t range_bytes;
	struct plan_figures figures;
};

/* The requests of the round without a place. */
static uint64_t
count_unplaced(const struct plan *plan)
{
	uint64_t count = 0;

	for (uint32_t i = plan->round; i < plan->count; i++)
		count += plan->entries[i].offset == PLAN_NO_PLACE;
	return count;
}

/* Replay a plan, and keep it if it is the best so far. `plan` becomes the one
 * that is not kept. */
static bool
try_plan(struct attempt *attempt, struct plan **plan)
{
	struct finding *in = attempt->in;
	struct plan_found *found = in->found;
	struct plan *better = *plan;

	attempt->round_bytes = better->round_bytes;
	attempt->range_bytes = better->bytes;
	attempt->figures = (struct plan_figures){ 0 };
	/* Without bytes, no request can have a place. */
	if (better->round_bytes == 0)
		return true;
	if (!replay_planned(in, better, &attempt->figures))
		return false;
	attempt->figures.unplaced = count_unplaced(better);
	if (found->plan != NULL &&
	    !is_better_plan(&attempt->figures, &found->with, found))
		return true;
	*plan = found->plan;
	found->plan = better;
	found->with = attempt->figures;
	return true;
}

/* Pack the requests, and try the plan. */
static bool
try_packing(struct attempt *attempt)
{
	struct plan *plan = plan_of(attempt->requests);
	bool good = plan != NULL && plan_pack(plan, &attempt->how) &&
	    try_plan(attempt, &plan);

	plan_free(plan);
	return good;
}

/* The bytes of a round up to which longer lives count: more than `least` and
 * less than `most`. */
struct bounds {
	uint64_t least;
	uint64_t most;
};

/* Choose the bytes to try next. The replay with the latest ones held `excess`
 * bytes too much; 0: nothing. */
static uint64_t
choose_between(const struct bounds *bounds, uint64_t excess)
{
	uint64_t middle = bounds->least + (bounds->most - bounds->least) / 2;

	if (excess > 0 && excess < bounds->most - bounds->least)
		middle = bounds->most - excess;
	return middle / PLAN_GRANULE * PLAN_GRANULE;
}

/* The bytes that the latest replay held more than one without a plan. */
static uint64_t
held_too_much(const struct attempt *attempt)
{
	uint64_t held = attempt->figures.held;
	uint64_t most = attempt->in->found->without.held;

	return held > most ? held - most : 0;
}

/* Are there no bytes between the bounds that make a difference? */
static bool
are_close(const struct bounds *bounds)
{
	return bounds->most <=
	    bounds->least + bounds->most / PLANNED_SAME_SHARE;
}

/*
 * Search between the bounds for the bytes of the round with which the replay
 * holds as much as without a plan, so that streams wait for as few places as
 * possible. `start_bytes`: of the range, before the round. The replay with the
 * most bytes held `excess` bytes too much.
 */
static bool
search_bytes(struct attempt *attempt, struct bounds bounds,
    uint64_t start_bytes, uint64_t excess)
{
	for (int n = 0; n < PLANNED_HALVINGS && !are_close(&bounds); n++) {
		uint64_t chosen = choose_between(&bounds, excess);

		attempt->how.round_most = chosen;
		attempt->how.range_most = chosen + start_bytes;
		if (!try_packing(attempt))
			return false;
		excess = held_too_much(attempt);
		if (excess > 0)
			bounds.most = chosen;
		else
			bounds.least = chosen;
	}
	return true;
}

/*
 * By the lives of PLAN_BY_WORK streams do not wait. If that needs more memory
 * than the program holds without a plan, some requests get places for which
 * their streams wait. The first search takes any such places, the second one
 * those with the shortest waits. Neither is always better: a request that
 * misses its place takes that of another one. The latest plan must be that of
 * PLAN_BY_WORK.
 */
static bool
try_both(
    struct attempt *attempt, const struct lives_tried *lives, uint64_t least)
{
	const struct bounds bounds = { least, attempt->round_bytes };
	uint64_t start_bytes = attempt->range_bytes - attempt->round_bytes;
	uint64_t excess = held_too_much(attempt);

	if (excess == 0)
		return true;
	attempt->how.lives = &lives->by_calls;
	attempt->how.longer = &lives->longer;
	attempt->how.parts = 1;
	if (!search_bytes(attempt, bounds, start_bytes, excess))
		return false;
	attempt->how.parts = PLANNED_PARTS;
	return search_bytes(attempt, bounds, start_bytes, excess);
}

/* Try each rule of lives, then both. */
static bool
try_lives(struct attempt *attempt, const struct lives_tried *lives)
{
	/* The rules differ in streams only. */
	bool has_streams = attempt->requests->streams > 1;
	uint64_t least;

	attempt->how.longer = NULL;
	attempt->how.lives = &lives->by_calls;
	if (!try_packing(attempt))
		return false;
	least = attempt->round_bytes;
	if (!has_streams)
		return true;
	attempt->how.lives = &lives->longer;
	attempt->how.round_most = UINT64_MAX;
	attempt->how.range_most = UINT64_MAX;
	attempt->how.as_recorded = attempt->in->found->is_of_weir;
	bool good = try_packing(attempt) && try_both(attempt, lives, least);
	attempt->how.as_recorded = false;
	return good;
}

static bool
make_lives(const struct finding *in, const struct plan_requests *requests,
    struct lives_tried *out)
{
	const struct trace *trace = in->trace;
	bool is_of_weir = in->found->is_of_weir;

	return plan_lives_make(
		   trace, requests, PLAN_BY_CALLS, &out->by_calls) &&
	    plan_lives_make(trace, requests,
		is_of_weir ? PLAN_AS_RECORDED : PLAN_BY_WORK, &out->longer);
}

static void
drop_lives(struct lives_tried *lives)
{
	plan_lives_drop(&lives->by_calls);
	plan_lives_drop(&lives->longer);
}

/* Try the plans of a round, with places for the requests before it and without.
 */
static bool
try_round(struct finding *in, const struct plan_requests *requests)
{
	struct lives_tried lives = { 0 };
	struct attempt attempt = { .in = in,
		.requests = requests,
		.how = { .unit = requests->unit } };
	bool good =
	    make_lives(in, requests, &lives) && try_lives(&attempt, &lives);

	attempt.how.from_start = true;
	if (good && requests->round > 0)
		good = try_lives(&attempt, &lives);
	drop_lives(&lives);
	return good;
}

/*
 * Requests that live longer than a round lack a place. There are two reasons,
 * and a remedy for each: the first round makes memory that the program keeps,
 * so the round begins after that; or the program repeats its requests more
 * often than their lives, such as one that takes new memory before it frees the
 * old, so several rounds are one.
 */
static const struct round_shape {
	bool skips;  /* the requests that plan_shapes.to_skip counts */
	bool as_one; /* as many rounds as plan_shapes.as_one */
} round_shapes[] = { { false, false }, { true, false }, { false, true },
	{ true, true } };

/* Give the round another shape. False: the recording is too short for it, or
 * the plan would be too long. */
static bool
shape_round(struct plan_requests *requests, const struct round_shape *shape,
    const struct plan_shapes *known)
{
	uint64_t length =
	    (uint64_t)requests->length * (shape->as_one ? known->as_one : 1);
	uint64_t round =
	    requests->round + (uint64_t)(shape->skips ? known->to_skip : 0);

	if (round + length > PLAN_ENTRIES ||
	    round + PLANNED_ROUNDS * length > requests->count)
		return false;
	requests->round = (uint32_t)round;
	requests->length = (uint32_t)length;
	return true;
}

/* Try the shapes, until the best plan has a place for each request. */
static bool
try_shapes(struct finding *in, const struct plan_requests *requests)
{
	struct plan_shapes known;

	if (!plan_shapes_find(in->trace, requests, &known))
		return false;
	for (size_t i = 0; i < sizeof(round_shapes) / sizeof(*round_shapes);
	     i++) {
		const struct round_shape *shape = &round_shapes[i];
		struct plan_requests shaped = *requests;

		if (in->found->plan != NULL && in->found->with.unplaced == 0)
			break;
		if ((shape->as_one && known.as_one == 1) ||
		    (shape->skips && known.to_skip == 0))
			continue;
		if (shape_round(&shaped, shape, &known) &&
		    !try_round(in, &shaped))
			return false;
	}
	return true;
}

/* Is there a round that a plan can list? */
static bool
has_plan(const struct trace *trace, const struct plan_requests *requests,
    struct plan_found *found)
{
	if (trace->lacks_requests)
		snprintf(found->why, sizeof(found->why),
		    "its history has no request: its blocks are older");
	else if (requests->count == 0)
		snprintf(found->why, sizeof(found->why),
		    "it has no request above %d KiB", PLANNED_ABOVE / 1024);
	else if (requests->length == 0)
		snprintf(found->why, sizeof(found->why),
		    "the requests above %d KiB do not repeat to its end, nor "
		    "for half of it",
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

/* How many requests of the recording have a place? */
static uint64_t
placed_requests(const struct plan *plan, const struct plan_requests *requests)
{
	struct plan_checked checked = { 0 };

	plan_check_requests(plan, requests, &checked);
	return checked.planned;
}

/* Let the best plan hold no more than the program does without it, and replay
 * it so, as the program will follow it. */
static bool
settle_plan(struct finding *in)
{
	struct plan *plan = in->found->plan;

	plan->held_bytes = in->found->without.held;
	return replay_planned(in, plan, &in->found->with);
}

/* Has the trace rows that begin rounds? */
static bool
says_rounds(const struct trace *trace)
{
	for (size_t i = 0; i < trace->row_count; i++)
		if (trace->rows[i].action == 'n')
			return true;
	return false;
}

/* Take what the program did under weir, as far as it is known. A replay knows
 * no work that it was not told of, so that it holds more or less. */
static void
note_recorded(const struct trace *trace, struct plan_figures *without)
{
	if (trace->recorded_held_bytes > 0)
		without->held = trace->recorded_held_bytes;
	if (trace->recorded_wait_us > without->stall_us)
		without->stall_us = trace->recorded_wait_us;
}

static bool
find_plan(const struct plan_request_to_find *request, const struct trace *trace,
    const struct plan_requests *requests, struct plan_found *out)
{
	bool says = says_rounds(trace);
	struct finding in = { .request = request,
		.trace = trace,
		.round_first = requests->round,
		.round_length = says ? 0 : requests->length,
		.found = out };

	if (!has_plan(trace, requests, out))
		return true;
	out->rounds = (requests->count - requests->round) / requests->length;
	out->has_work = trace->has_work;
	out->is_of_weir = trace->recorded_of_weir && !trace->has_work;
	if (!replay_by(
		&in, request->conf != NULL ? request->conf : "", &out->without))
		return false;
	if (trace->recorded_of_weir)
		note_recorded(trace, &out->without);
	if (!try_shapes(&in, requests) ||
	    (out->plan != NULL && !settle_plan(&in)))
		return false;
	if (out->plan != NULL)
		out->placed = placed_requests(out->plan, requests);
	else
		snprintf(out->why, sizeof(out->why),
		    "no large request of a round is freed within a round");
	return true;
}

static void
say_error(enum weir_log_level level, const char *text, void *user)
{
	(void)level;
	(void)user;
	complain("%s", text);
}

bool
plan_find(const struct plan_request_to_find *request, struct plan_found *out)
{
	struct trace_error error;
	struct plan_requests requests;
	struct trace trace;
	bool good;

	*out = (struct plan_found){ 0 };
	/* A plan that a replay drops is no news: it is not kept. */
	weir_log_set(WEIR_LOG_ERROR, say_error, NULL);
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
	return found->plan != NULL && costs_nothing(&found->with, found);
}
