/*
 * Passes the rows of a trace, with the freed blocks of each stream in the order
 * of their frees, and how many of them each stream may use.
 */
#include "tools/weir/plan/plan_lives.h"

#include <stdlib.h>

#include "snapshot/plan_file.h"
#include "tools/weir/plan/plan_reuse.h"
#include "tools/weir/plan/plan_steady.h"
#include "tools/weir/plan/tuning.h"
#include "tools/weir/tool.h"

/* The blocks that a stream freed, in the order of their frees: those that only
 * it has used, and those that others have used too. */
enum freed_kind { FREED_OWN, FREED_SHARED, FREED_KINDS };

/* A request whose block was freed. */
struct freed {
	enum freed_kind kind;
	uint32_t number; /* in its list */
	uint32_t next;   /* the request after it there */
	uint64_t row;    /* of its free */
	/* When all work before its free is over, and the frees before it in its
	 * list. */
	uint64_t done_us;
};

struct freed_list {
	uint32_t first; /* requests */
	uint32_t last;
	uint32_t count;
};

/* How much of a list a stream may use. */
struct ready {
	uint32_t last;  /* request of it; PLAN_NO_REQUEST: none */
	uint32_t known; /* so many of it at least, by the recording */
};

struct life_stream {
	uint64_t done_us; /* when its work is over */
	struct freed_list freed[FREED_KINDS];
	/* For each stream: the row up to which this one is ordered after its
	 * work, and what this one may use of its freed blocks. */
	uint64_t ordered[PLAN_STREAMS];
	struct ready ready[PLAN_STREAMS][FREED_KINDS];
};

struct life_pass {
	const struct trace *trace;
	const struct plan_requests *requests;
	enum plan_rule rule;
	struct plan_lives *out;
	struct plan_names names;
	struct life_stream *streams;
	struct freed *freed; /* by request */
	/* For each of the latest requests, how many blocks of each list its
	 * stream could use then: [(request % PLAN_ENTRIES * streams + own) *
	 * FREED_KINDS + kind]. A place in a round comes again sooner. */
	uint32_t *could_use;
	bool *lives_on; /* requests whose memory is not freed */
	uint32_t made;  /* requests so far */
	struct plan_reuse reuse;
	uint32_t recorded; /* the round that counts with PLAN_AS_RECORDED */
	bool failed;       /* without memory */
};

/* The plan's request that one of the trace is. */
static uint32_t
planned_of(const struct plan_requests *requests, uint32_t request)
{
	return request < requests->round ?
	    request :
	    requests->round + (request - requests->round) % requests->length;
}

static void
lengthen(uint32_t *life, uint32_t by)
{
	if (*life < by)
		*life = by;
}

/* Is a request of a round that does not count with PLAN_AS_RECORDED? */
static bool
is_of_another_round(const struct life_pass *pass, uint32_t request)
{
	const struct plan_requests *requests = pass->requests;

	return request >= requests->round &&
	    (request - requests->round) / requests->length != pass->recorded;
}

/* A request's memory may serve stream `s` from request `until` on. */
static void
add_life(struct life_pass *pass, uint32_t request, uint32_t s, uint32_t until)
{
	const struct plan_requests *requests = pass->requests;
	uint32_t planned = planned_of(requests, request);

	if (pass->rule == PLAN_AS_RECORDED &&
	    is_of_another_round(pass, request))
		return;
	lengthen(&pass->out->lives[(size_t)planned * requests->streams + s],
	    until == PLAN_NO_REQUEST ? until : until - request);
}

/* May stream `s` use a freed block of stream `own`? */
static bool
is_ready(const struct life_pass *pass, const struct freed *freed, uint32_t own,
    uint32_t s, uint64_t now_us)
{
	const struct life_stream *by = &pass->streams[s];

	if (own == s && freed->kind == FREED_OWN)
		return true;
	if (pass->rule == PLAN_AS_RECORDED)
		return by->ready[own][freed->kind].known > freed->number ||
		    (own == s && freed->done_us <= now_us);
	return pass->rule == PLAN_BY_CALLS || freed->done_us <= now_us ||
	    (freed->kind == FREED_OWN && by->ordered[own] > freed->row);
}

/* The first request of a list that a stream may not use, or
 * PLAN_NO_REQUEST. */
static uint32_t
first_unready(const struct life_pass *pass, const struct ready *ready,
    const struct freed_list *list)
{
	return ready->last == PLAN_NO_REQUEST ? list->first :
						pass->freed[ready->last].next;
}

/* See what stream `s` may use by now of a list of stream `own`. */
static void
pass_list(struct life_pass *pass, uint32_t s, uint32_t own,
    enum freed_kind kind, uint64_t now_us)
{
	struct ready *ready = &pass->streams[s].ready[own][kind];
	const struct freed_list *list = &pass->streams[own].freed[kind];
	uint32_t next = first_unready(pass, ready, list);

	while (next != PLAN_NO_REQUEST &&
	    is_ready(pass, &pass->freed[next], own, s, now_us)) {
		add_life(pass, next, s, pass->made);
		ready->last = next;
		next = pass->freed[next].next;
	}
}

/* Stream `s` makes a request: see what it may use by now. */
static void
pass_ready(struct life_pass *pass, uint32_t s, uint64_t now_us)
{
	for (uint32_t own = 0; own < pass->requests->streams; own++)
		for (int kind = 0; kind < FREED_KINDS; kind++)
			pass_list(pass, s, own, (enum freed_kind)kind, now_us);
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
		lengthen(&pass->out->live[planned_of(pass->requests, i)],
		    PLAN_NO_REQUEST);
		for (uint32_t s = 0; s < pass->requests->streams; s++)
			add_life(pass, i, s, PLAN_NO_REQUEST);
	}
}

/* Pass the freed blocks that stream `s` may not use. */
static void
pass_unready(struct life_pass *pass, uint32_t s)
{
	for (uint32_t own = 0; own < pass->requests->streams; own++)
		for (int kind = 0; kind < FREED_KINDS; kind++) {
			uint32_t i = first_unready(pass,
			    &pass->streams[s].ready[own][kind],
			    &pass->streams[own].freed[kind]);

			for (; i != PLAN_NO_REQUEST; i = pass->freed[i].next)
				if (is_kept(pass, i))
					add_life(pass, i, s, PLAN_NO_REQUEST);
		}
}

/* ---- As recorded ------------------------------------------------------- */

/* A request of a stream, and the pass. */
struct reusing {
	struct life_pass *pass;
	uint32_t s;
};

static uint32_t *
could_use_at(const struct life_pass *pass, uint32_t request)
{
	return &pass->could_use[(size_t)(request % PLAN_ENTRIES) *
	    pass->requests->streams * FREED_KINDS];
}

/* Note what stream `s` may use by now. */
static void
note_usable(const struct life_pass *pass, uint32_t s)
{
	uint32_t *could_use = could_use_at(pass, pass->made);

	for (uint32_t of = 0; of < pass->requests->streams; of++)
		for (int kind = 0; kind < FREED_KINDS; kind++) {
			uint32_t last = pass->streams[s].ready[of][kind].last;

			*could_use++ = last == PLAN_NO_REQUEST ?
			    0 :
			    pass->freed[last].number + 1;
		}
}

/* The stream got memory that a request had. It may use now what the stream of
 * that request could use. */
static void
note_reused(void *about, uint32_t request)
{
	const struct reusing *by = about;
	const struct life_pass *pass = by->pass;
	const struct freed *freed = &pass->freed[request];
	uint32_t own = pass->requests->list[request].stream;
	struct life_stream *stream = &pass->streams[by->s];

	if (pass->lives_on[request])
		return;
	lengthen(&stream->ready[own][freed->kind].known, freed->number + 1);
	if (pass->made - request > PLAN_ENTRIES)
		return;
	const uint32_t *could_use = could_use_at(pass, request);
	for (uint32_t of = 0; of < pass->requests->streams; of++)
		for (int kind = 0; kind < FREED_KINDS; kind++)
			lengthen(&stream->ready[of][kind].known, *could_use++);
}

static void
note_unmapped(void *about, uint32_t request)
{
	(void)about;
	(void)request;
}

/* Stream `s` gets the memory of a row, or it is unmapped. */
static void
pass_memory(struct life_pass *pass, size_t i, uint32_t s, uint32_t request)
{
	uint64_t addr = pass->trace->addrs[i];
	struct reusing by = { pass, s };
	const struct plan_owned owned = { addr,
		addr + pass->trace->rows[i].size, request };

	if (!plan_reuse_give(&pass->reuse, &owned,
		request == PLAN_NO_REQUEST ? note_unmapped : note_reused, &by))
		pass->failed = true;
}

/* Note where the request under way lies, if its round counts. */
static void
note_address(struct life_pass *pass, uint64_t addr)
{
	if (pass->out->addrs != NULL && !is_of_another_round(pass, pass->made))
		pass->out->addrs[planned_of(pass->requests, pass->made)] = addr;
}

/* No life is shorter than until the free, in any round. */
static void
settle_recorded(const struct life_pass *pass)
{
	const struct plan_lives *out = pass->out;

	for (size_t i = 0; i < (size_t)out->count * out->streams; i++)
		lengthen(&out->lives[i], out->live[i / out->streams]);
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
	bool shared = block->used_until_us != 0 || block->freed_elsewhere;
	enum freed_kind kind = shared ? FREED_SHARED : FREED_OWN;
	struct freed_list *list = &own->freed[kind];
	uint64_t before_us =
	    list->count == 0 ? 0 : pass->freed[list->last].done_us;
	pass->freed[request] = (struct freed){
		.kind = kind,
		.number = list->count++,
		.next = PLAN_NO_REQUEST,
		.row = row_index,
		.done_us = later_of(later_of(before_us, own->done_us),
		    later_of(
			pass->streams[freer].done_us, block->used_until_us)),
	};
	if (list->first == PLAN_NO_REQUEST)
		list->first = request;
	else
		pass->freed[list->last].next = request;
	list->last = request;
	pass->lives_on[request] = false;
	lengthen(&pass->out->live[planned_of(pass->requests, request)],
	    pass->made - request);
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

	if (pass->rule == PLAN_AS_RECORDED &&
	    (row->action == 'u' || row->action == 's'))
		pass_memory(pass, i, 0, PLAN_NO_REQUEST);
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
		note_address(pass, pass->trace->addrs[i]);
		if (pass->rule == PLAN_AS_RECORDED)
			pass_memory(pass, i, streams.own, pass->made);
		pass_ready(pass, streams.own, row->time_us);
		if (pass->rule == PLAN_AS_RECORDED)
			note_usable(pass, streams.own);
		pass->lives_on[pass->made++] = true;
	}
}

/* All lists are empty. */
static void
begin_lists(const struct life_pass *pass)
{
	for (uint32_t s = 0; s < pass->requests->streams; s++)
		for (int kind = 0; kind < FREED_KINDS; kind++) {
			struct life_stream *stream = &pass->streams[s];

			stream->freed[kind].first = PLAN_NO_REQUEST;
			for (int own = 0; own < PLAN_STREAMS; own++)
				stream->ready[own][kind].last = PLAN_NO_REQUEST;
		}
}

/* Pass the whole trace. */
static void
pass_trace(struct life_pass *pass)
{
	begin_lists(pass);
	for (size_t i = 0; i < pass->trace->row_count; i++)
		pass_row(pass, i);
	pass_live(pass);
	for (uint32_t s = 0; s < pass->requests->streams; s++)
		pass_unready(pass, s);
	if (pass->rule == PLAN_AS_RECORDED)
		settle_recorded(pass);
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
		.could_use = calloc((size_t)requests->streams * FREED_KINDS *
			(count < PLAN_ENTRIES ? count : PLAN_ENTRIES),
		    sizeof(*pass.could_use)),
		.lives_on = calloc(count, sizeof(*pass.lives_on)),
	};
	bool made;

	*out = (struct plan_lives){
		.count = planned,
		.streams = requests->streams,
		.lives = calloc(
		    (size_t)planned * requests->streams, sizeof(*out->lives)),
		.live = calloc(planned, sizeof(*out->live)),
		.addrs = trace->recorded_of_weir ?
		    calloc(planned, sizeof(*out->addrs)) :
		    NULL,
	};
	made = pass.streams != NULL && pass.freed != NULL &&
	    pass.could_use != NULL && pass.lives_on != NULL &&
	    out->lives != NULL && out->live != NULL &&
	    (out->addrs != NULL || !trace->recorded_of_weir) &&
	    plan_names_begin(&pass.names, trace) &&
	    (!trace->recorded_of_weir ||
		plan_steady_round(trace, requests, &pass.recorded));
	if (made) {
		pass_trace(&pass);
		made = !pass.failed;
	}
	plan_names_drop(&pass.names);
	plan_reuse_drop(&pass.reuse);
	free(pass.streams);
	free(pass.freed);
	free(pass.could_use);
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
	free(lives->addrs);
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

/* Is a request's memory freed before the last request? If it is freed later,
 * such as when the program ends, it would have lived longer. */
static bool
knows_life(const struct plan_requests *requests, const uint32_t *lives,
    uint64_t request)
{
	return lives[request] != 0 &&
	    request + lives[request] < requests->count;
}

/* Has each request the life of the one `distance` requests before? */
static bool
lives_repeat(const struct plan_requests *requests, const uint32_t *lives,
    uint64_t distance)
{
	for (uint64_t i = requests->round + requests->length + distance;
	     i < requests->count; i++)
		if (knows_life(requests, lives, i) &&
		    lives[i - distance] != 0 && lives[i] != lives[i - distance])
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
