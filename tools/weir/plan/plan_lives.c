/*
 * Passes the rows of a trace, with the freed blocks of each stream in the order
 * of their frees, and how many of them each stream may use.
 */
#include "tools/weir/plan/plan_lives.h"

#include <stdlib.h>

#include "snapshot/plan_file.h"
#include "tools/weir/plan/tuning.h"
#include "tools/weir/tool.h"

/* A block that was freed. */
struct freed {
	uint32_t request;
	bool used_elsewhere; /* by streams that are not its own */
	uint64_t row;        /* of its free */
	uint64_t done_us;    /* when all work before its free is over */
};

struct life_stream {
	uint64_t done_us;    /* when its work is over */
	struct freed *freed; /* its blocks */
	uint32_t freed_count;
	uint64_t latest_us; /* the latest done_us of them */
	/* For each stream: the row up to which this one is ordered after its
	 * work, and how many of its freed blocks this one may use. */
	uint64_t ordered[PLAN_STREAMS];
	uint32_t ready[PLAN_STREAMS];
};

struct life_pass {
	const struct trace *trace;
	const struct plan_requests *requests;
	enum plan_rule rule;
	struct plan_lives *out;
	struct plan_names names;
	struct life_stream *streams;
	struct freed *freed; /* of all streams */
	bool *lives_on;      /* requests whose memory is not freed */
	uint32_t made;       /* requests so far */
};

/* Lengthen the life of a request: it lasts until request `until`. The life of
 * request i of the plan is lives[i * step + s]. */
static void
lengthen(const struct life_pass *pass, uint32_t *lives, uint32_t step,
    uint32_t s, uint32_t request, uint32_t until)
{
	const struct plan_requests *requests = pass->requests;
	uint32_t life = until == PLAN_NO_REQUEST ? until : until - request;
	uint32_t i = request;

	if (request >= requests->round)
		i = requests->round +
		    (request - requests->round) % requests->length;
	if (lives[i * step + s] < life)
		lives[i * step + s] = life;
}

/* A request's memory may serve stream `s` from request `until` on. */
static void
add_life(struct life_pass *pass, uint32_t request, uint32_t s, uint32_t until)
{
	lengthen(
	    pass, pass->out->lives, pass->requests->streams, s, request, until);
}

/* May stream `s` use a freed block of stream `own`? */
static bool
is_ready(const struct life_pass *pass, const struct freed *freed, uint32_t own,
    uint32_t s, uint64_t now_us)
{
	if (pass->rule == PLAN_BY_CALLS || freed->done_us <= now_us)
		return true;
	return !freed->used_elsewhere &&
	    (own == s || pass->streams[s].ordered[own] > freed->row);
}

/* Stream `s` makes a request: see what it may use by now. */
static void
pass_ready(struct life_pass *pass, uint32_t s, uint64_t now_us)
{
	for (uint32_t own = 0; own < pass->requests->streams; own++) {
		const struct life_stream *of = &pass->streams[own];
		uint32_t *ready = &pass->streams[s].ready[own];

		while (*ready < of->freed_count &&
		    is_ready(pass, &of->freed[*ready], own, s, now_us))
			add_life(
			    pass, of->freed[(*ready)++].request, s, pass->made);
	}
}

/* A request that keeps its memory to the trace's end may do so for ever, if it
 * is older than a round. */
static bool
is_kept(const struct life_pass *pass, uint32_t request)
{
	return request + pass->requests->length < pass->made;
}

/* Pass the requests that were not freed. */
static void
pass_live(struct life_pass *pass)
{
	for (uint32_t i = 0; i < pass->made; i++) {
		if (!pass->lives_on[i] || !is_kept(pass, i))
			continue;
		lengthen(pass, pass->out->live, 1, 0, i, PLAN_NO_REQUEST);
		for (uint32_t s = 0; s < pass->requests->streams; s++)
			add_life(pass, i, s, PLAN_NO_REQUEST);
	}
}

/* Pass the freed blocks that stream `s` may not use. */
static void
pass_unready(struct life_pass *pass, uint32_t s)
{
	for (uint32_t own = 0; own < pass->requests->streams; own++) {
		const struct life_stream *of = &pass->streams[own];

		for (uint32_t i = pass->streams[s].ready[own];
		     i < of->freed_count; i++)
			if (is_kept(pass, of->freed[i].request))
				add_life(pass, of->freed[i].request, s,
				    PLAN_NO_REQUEST);
	}
}

/* ---- Rows -------------------------------------------------------------- */

static uint64_t
later_of(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static void
pass_free(struct life_pass *pass, size_t row_index, uint32_t freer)
{
	const struct trace_row *row = &pass->trace->rows[row_index];
	const struct trace_block *block = &pass->trace->blocks[row->block];
	uint32_t request = pass->requests->of_block[row->block];

	if (request == PLAN_NO_REQUEST)
		return;
	struct life_stream *own =
	    &pass->streams[pass->requests->list[request].stream];
	own->latest_us = later_of(own->latest_us,
	    later_of(own->done_us,
		later_of(pass->streams[freer].done_us, block->used_until_us)));
	own->freed[own->freed_count++] = (struct freed){
		.request = request,
		.used_elsewhere =
		    block->used_until_us != 0 || block->freed_elsewhere,
		.row = row_index,
		.done_us = own->latest_us,
	};
	pass->lives_on[request] = false;
	lengthen(pass, pass->out->live, 1, 0, request, pass->made);
}

/* Stream `s` waits for the work of another one. */
static void
pass_wait(struct life_pass *pass, size_t row_index, uint32_t s, uint32_t other)
{
	struct life_stream *waits = &pass->streams[s];
	const struct life_stream *for_it = &pass->streams[other];

	waits->done_us = later_of(waits->done_us, for_it->done_us);
	for (uint32_t i = 0; i < pass->requests->streams; i++)
		waits->ordered[i] =
		    later_of(waits->ordered[i], for_it->ordered[i]);
	waits->ordered[other] = row_index;
}

static void
pass_row(struct life_pass *pass, size_t i)
{
	const struct trace_row *row = &pass->trace->rows[i];
	struct plan_row_streams streams;

	if (!plan_names_concern(row))
		return;
	streams = plan_names_pass(&pass->names, row);
	struct life_stream *own = &pass->streams[streams.own];
	if (row->action == 'k')
		own->done_us = later_of(own->done_us, row->time_us) + row->size;
	else if (row->action == 'w')
		pass_wait(pass, i, streams.own, streams.other);
	else if (row->action == 'f')
		pass_free(pass, i, streams.own);
	else if (row->action == 'a' &&
	    pass->requests->of_block[row->block] != PLAN_NO_REQUEST) {
		pass_ready(pass, streams.own, row->time_us);
		pass->lives_on[pass->made++] = true;
	}
}

/* Give each stream a part of `freed` for its blocks. */
static void
divide_freed(struct life_pass *pass)
{
	const struct plan_requests *requests = pass->requests;
	uint32_t count[PLAN_STREAMS] = { 0 };
	struct freed *next = pass->freed;

	for (uint32_t i = 0; i < requests->count; i++)
		count[requests->list[i].stream]++;
	for (uint32_t s = 0; s < requests->streams; s++) {
		pass->streams[s].freed = next;
		next += count[s];
	}
}

/* Pass the whole trace. */
static void
pass_trace(struct life_pass *pass)
{
	divide_freed(pass);
	for (size_t i = 0; i < pass->trace->row_count; i++)
		pass_row(pass, i);
	pass_live(pass);
	for (uint32_t s = 0; s < pass->requests->streams; s++)
		pass_unready(pass, s);
}

bool
plan_lives_make(const struct trace *trace, const struct plan_requests *requests,
    enum plan_rule rule, struct plan_lives *out)
{
	uint32_t planned = requests->round + requests->length;
	size_t count = requests->count;
	struct life_pass pass = {
		.trace = trace,
		.requests = requests,
		.rule = rule,
		.out = out,
		.streams = calloc(requests->streams, sizeof(*pass.streams)),
		.freed = calloc(count, sizeof(*pass.freed)),
		.lives_on = calloc(count, sizeof(*pass.lives_on)),
	};
	bool made;

	*out = (struct plan_lives){
		.count = planned,
		.streams = requests->streams,
		.lives = calloc(
		    (size_t)planned * requests->streams, sizeof(*out->lives)),
		.live = calloc(planned, sizeof(*out->live)),
	};
	made = pass.streams != NULL && pass.freed != NULL &&
	    pass.lives_on != NULL && out->lives != NULL && out->live != NULL &&
	    plan_names_begin(&pass.names, trace);
	if (made)
		pass_trace(&pass);
	plan_names_drop(&pass.names);
	free(pass.streams);
	free(pass.freed);
	free(pass.lives_on);
	if (made)
		return true;
	plan_lives_drop(out);
	complain("out of memory");
	return false;
}

void
plan_lives_drop(struct plan_lives *lives)
{
	free(lives->lives);
	free(lives->live);
	*lives = (struct plan_lives){ 0 };
}

/* ---- Shapes ------------------------------------------------------------ */

/* The lives of all requests until their frees; 0: they are not freed. NULL
 * without memory. */
static uint32_t *
lives_until_free(
    const struct trace *trace, const struct plan_requests *requests)
{
	uint32_t *lives = calloc((size_t)requests->count + 1, sizeof(*lives));
	uint32_t made = 0;

	for (size_t i = 0; lives != NULL && i < trace->row_count; i++) {
		const struct trace_row *row = &trace->rows[i];
		uint32_t request;

		if (row->action != 'a' && row->action != 'f')
			continue;
		request = requests->of_block[row->block];
		if (request == PLAN_NO_REQUEST)
			continue;
		if (row->action == 'a')
			made++;
		else
			lives[request] = made - request;
	}
	return lives;
}

/* The longest life of a request that is not of the first round. */
static uint64_t
longest_life(const struct plan_requests *requests, const uint32_t *lives)
{
	uint64_t most = (uint64_t)requests->length * PLANNED_AS_ONE;
	uint64_t longest = 0;

	for (uint64_t i = requests->round + (uint64_t)requests->length;
	     i < requests->count; i++)
		if (lives[i] <= most && lives[i] > longest)
			longest = lives[i];
	return longest;
}

/* Has each request the life of the one `distance` requests before? */
static bool
lives_repeat(const struct plan_requests *requests, const uint32_t *lives,
    uint64_t distance)
{
	for (uint64_t i = requests->round + requests->length + distance;
	     i < requests->count; i++)
		if (lives[i] != 0 && lives[i - distance] != 0 &&
		    lives[i] != lives[i - distance])
			return false;
	return true;
}

static uint32_t
rounds_of_lives(const struct plan_requests *requests, const uint32_t *lives)
{
	uint64_t longest = longest_life(requests, lives);
	uint32_t least =
	    (uint32_t)((longest + requests->length - 1) / requests->length);

	for (uint32_t n = least; n > 1 && n <= PLANNED_AS_ONE; n++)
		if (lives_repeat(
			requests, lives, (uint64_t)n * requests->length))
			return n;
	return least > 1 ? least : 1;
}

/* Does a request's memory live longer than a round? */
static bool
outlives_round(const struct plan_requests *requests, const uint32_t *lives,
    uint64_t request)
{
	return lives[request] == 0 || lives[request] > requests->length;
}

/* plan_shapes.to_skip */
static uint32_t
requests_to_skip(const struct plan_requests *requests, const uint32_t *lives)
{
	for (uint32_t n = requests->length; n > 0; n--) {
		uint64_t request = requests->round + (uint64_t)n - 1;

		if (outlives_round(requests, lives, request) &&
		    !outlives_round(
			requests, lives, request + requests->length))
			return n;
	}
	return 0;
}

bool
plan_shapes_find(const struct trace *trace,
    const struct plan_requests *requests, struct plan_shapes *out)
{
	uint32_t *lives = lives_until_free(trace, requests);

	if (lives == NULL) {
		complain("out of memory");
		return false;
	}
	out->as_one = rounds_of_lives(requests, lives);
	out->to_skip = requests_to_skip(requests, lives);
	free(lives);
	return true;
}
