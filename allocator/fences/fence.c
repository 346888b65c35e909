/*
 * What it takes to use memory that a stream may not use yet.
 *
 * Note [Marks]
 *
 * A mark is an event recorded on a stream, with the tick at which that was
 * done. Freeing on the stream's own behalf records none: it would cost more
 * than the free. When some request finds nothing free it looks at what other
 * streams have, and asks each of them that has freed something since it was
 * last known to be done. One that has nothing left to do needs no mark; others
 * get one if they have freed something since the latest. The next request that
 * comes so far sees which have passed, and may wait on the device for one that
 * has not. The oldest are the ones to wait for: the stream has had most time to
 * get there.
 *
 * A stream that lags behind has more to be marked than there are marks. They
 * are thinned out then: without a late one nothing that has been freed lately
 * could ever be waited for.
 *
 * Nothing here waits on the host.
 */
#include "allocator/fences/fence.h"

#include "allocator/memory/arena.h"
#include "allocator/memory/block.h"
#include "allocator/memory/promote.h"
#include "base/status.h"
#include "streams/capture.h"
#include "streams/event.h"
#include "trace/served.h"

/* A stream that allocates gets a mark for each such part of what it holds that
 * is freed on it, if that is more than MARKS_LEAST. */
enum { MARK_SHARE = 1024 };

/* ---- Marks ------------------------------------------------------------- */

/*
 * May a mark be put on the stream from any thread, with no effect on others? A
 * record on the legacy default stream comes between all blocking streams.
 */
static bool
can_mark(const struct pools *pools)
{
	const struct stream *stream = pools->stream;

	return !pools->ended && stream->handle != WEIR_STREAM_ANY &&
	    stream->thread == 0 && !stream_orders_others(stream);
}

static void
drop(struct pools *pools, unsigned i)
{
	event_give(pools->stream->context, pools->marks[i].event);
	pools->mark_count--;
	for (; i < pools->mark_count; i++)
		pools->marks[i] = pools->marks[i + 1];
}

/* Make room for a mark: of those between the oldest and the latest the one
 * goes whose neighbours are closest, so that what is left is spread over the
 * time since the oldest. */
static void
drop_closest(struct pools *pools)
{
	const struct mark *marks = pools->marks;
	unsigned closest = 1;

	for (unsigned i = 2; i + 1 < pools->mark_count; i++)
		if (marks[i + 1].at - marks[i - 1].at <
		    marks[closest + 1].at - marks[closest - 1].at)
			closest = i;
	drop(pools, closest);
}

static uint64_t
latest_mark(const struct pools *pools)
{
	return pools->mark_count > 0 ? pools->marks[pools->mark_count - 1].at :
				       pools->passed_at;
}

/* Record a mark behind all that the stream has freed, if there is none. */
static bool
mark(struct pools *pools)
{
	struct stream *stream = pools->stream;
	struct capture_guard guard;
	struct mark new;

	if (latest_mark(pools) > pools->freed_at) {
		pools->freed_bytes = 0;
		return true;
	}
	if (!can_mark(pools) ||
	    capture_enter(stream->context, &guard) != WEIR_OK)
		return false;
	new.at = order_tick();
	new.ns = driver_time_ns();
	enum weir_status status = stream_mark(stream, &new.event);
	capture_leave(&guard);
	if (status != WEIR_OK)
		return false;
	if (pools->mark_count == MARKS)
		drop_closest(pools);
	pools->marks[pools->mark_count++] = new;
	pools->freed_bytes = 0;
	return true;
}

/* See which marks have passed. */
static void
listen(struct pools *pools)
{
	struct capture_guard guard;

	if (pools->mark_count == 0 || capture_enter(NULL, &guard) != WEIR_OK)
		return;
	while (pools->mark_count > 0 &&
	    event_met(pools->stream->context, pools->marks[0].event)) {
		if (pools->passed_at < pools->marks[0].at)
			pools->passed_at = pools->marks[0].at;
		stream_met(pools->stream, pools->marks[0].at);
		stream_took(pools->stream, pools->marks[0].ns);
		drop(pools, 0);
	}
	capture_leave(&guard);
}

/* Has the stream nothing left to do? False if it cannot be asked. */
static bool
is_idle(struct pools *pools)
{
	struct stream *stream = pools->stream;
	struct capture_guard guard;

	if (pools->ended || stream->handle == WEIR_STREAM_ANY ||
	    stream->thread != 0 ||
	    capture_enter(stream->context, &guard) != WEIR_OK)
		return false;
	bool idle = stream_idle(stream);
	capture_leave(&guard);
	return idle;
}

/* The stream has nothing left to do. */
static void
forget_late(struct pools *pools)
{
	struct capture_guard guard;

	if (!delay_is_known(&pools->stream->delay) ||
	    capture_enter(NULL, &guard) != WEIR_OK)
		return;
	delay_idle(pools->stream);
	capture_leave(&guard);
}

uint64_t
marks_see_late(struct pools *pools)
{
	struct capture_guard guard;
	uint64_t late = 0;

	if (!delay_is_known(&pools->stream->delay))
		return 0;
	if (capture_enter(NULL, &guard) == WEIR_OK) {
		late = delay_see(pools->stream);
		capture_leave(&guard);
	}
	if (late == 0 || !is_idle(pools))
		return late;
	forget_late(pools);
	return 0;
}

void
marks_see_delay(struct arena *arena)
{
	uint64_t latest = 0;

	if (arena->stats.num_gpu_waits == 0)
		return;
	for (struct list *l = arena->pools.next; l != &arena->pools;
	     l = l->next) {
		struct pools *pools = CONTAINER_OF(l, struct pools, link);
		uint64_t late = marks_see_late(pools);
		uint64_t waited = delay_take_waited(&pools->stream->delay);
		int64_t felt = delay_take_felt(&pools->stream->delay);
		pools->stats.gpu_wait_ns += waited;
		arena->stats.gpu_wait_ns += waited;
		policy_add_evidence(&arena->evidence, waited, felt);
		if (late > latest)
			latest = late;
	}
	if (latest > arena->late_ns) {
		arena->stats.gpu_delay_ns += latest - arena->late_ns;
		arena->late_ns = latest;
	}
}

bool
marks_ask(struct pools *pools)
{
	uint64_t tick = order_tick();

	if (!is_idle(pools))
		return false;
	pools->passed_at = tick;
	stream_met(pools->stream, tick);
	forget_late(pools);
	return true;
}

static bool
has_free(const struct pools *pools)
{
	return pools->pool[POOL_SMALL].free.count > 0 ||
	    pools->pool[POOL_LARGE].free.count > 0;
}

void
marks_keep_due(struct pools *mine)
{
	struct arena *arena = mine->arena;
	size_t held = mine->stats.reserved_bytes.all.current;

	if (mine->freed_bytes < held / MARK_SHARE || mine == arena->any_pools)
		return;
	status_mute();
	listen(mine);
	if (!mark(mine))
		mine->freed_bytes = 0;
	status_unmute();
}

void
marks_poll(struct pools *mine)
{
	struct arena *arena = mine->arena;
	unsigned n = 0;

	if (mine == arena->any_pools)
		arena_begin_several(arena);
	status_mute();
	marks_see_delay(arena);
	listen(mine);
	for (struct pools *pools = pools_first_freed(arena);
	     pools != NULL && n < MARKS_ASKED;
	     pools = pools_next_freed(pools)) {
		if (pools == mine || pools->passed_at > pools->freed_at ||
		    !has_free(pools))
			continue;
		n++;
		listen(pools);
		if (pools->passed_at > pools->freed_at ||
		    pools->mark_count == MARKS ||
		    (pools->mark_count == 0 && marks_ask(pools)))
			continue;
		mark(pools);
	}
	status_unmute();
	arena_promote(arena);
}

/* ---- Waits on the device ----------------------------------------------- */

/* Put `mine` behind a mark of another stream. */
static bool
wait_for(struct pools *mine, const struct pools *other, const struct mark *mark)
{
	struct stream *stream = mine->stream;
	struct capture_guard guard;

	if (capture_enter(stream->context, &guard) != WEIR_OK)
		return false;
	CUevent before = delay_begin(stream);
	CUresult code =
	    driver_peek()->cuStreamWaitEvent(stream->handle, mark->event, 0);
	delay_end(stream, before, code == CUDA_SUCCESS);
	capture_leave(&guard);
	if (code != CUDA_SUCCESS)
		return false;
	mine->arena->stats.num_gpu_waits++;
	mine->stats.num_gpu_waits++;
	served_waited((uint64_t)(uintptr_t)other->stream->handle);
	order_learn(stream, other->stream, mark->at, 0);
	return true;
}

/* Put `mine` behind another stream in the capture that both are in. */
static bool
join(const struct view *view, const struct pools *other)
{
	struct pools *mine = view->mine;

	if (!pools_are_of(other, view->capture))
		return false;
	uint64_t tick =
	    capture_join(mine->stream, other->stream, view->capture);
	if (tick == 0)
		return false;
	mine->arena->stats.num_gpu_waits++;
	mine->stats.num_gpu_waits++;
	served_waited((uint64_t)(uintptr_t)other->stream->handle);
	order_learn(mine->stream, other->stream, tick, view->capture);
	return true;
}

/*
 * Put `mine` behind the end of a stream that is gone. All that it has is memory
 * of `mine` then: the facts of who is behind whom are bounded, and streams that
 * come and go would drive them out.
 */
static bool
follow_end(struct pools *mine, struct pools *gone)
{
	struct mark end = { .event = gone->end_event, .at = order_now() };

	if (end.event == NULL || !wait_for(mine, gone, &end))
		return false;
	for (int kind = 0; kind < POOL_KINDS; kind++) {
		struct tree *free = &gone->pool[kind].free;
		while (tree_first(free) != NULL) {
			struct block *block = block_of_node(tree_first(free));
			struct span span = { block, block };
			block_put(block_adopt(&span, mine), BLOCK_FREE);
		}
	}
	return true;
}

/* Order `mine` after all work that another stream has been given by now. */
static bool
follow_all(const struct view *view, struct pools *other)
{
	if (view->capture != 0)
		return join(view, other);
	if (other->ended)
		return follow_end(view->mine, other);
	return mark(other) &&
	    wait_for(view->mine, other, &other->marks[other->mark_count - 1]);
}

enum wait_cost
marks_cost(const struct pools *mine, const struct stream *other, uint64_t tick,
    bool is_use)
{
	uint64_t now = order_now();
	struct wait_facts facts = { .left = stream_left(other, tick),
		.age = now > tick ? now - tick : 0,
		.busy = mine->mark_count > 0 ? now - mine->marks[0].at : 0,
		.is_use = is_use };

	return policy_wait_cost(&facts);
}

/* May the mark `i` of `other` be waited for? */
static bool
may_wait(const struct pools *mine, const struct pools *other, unsigned i,
    enum waits waits)
{
	return waits == WAITS_ANY ||
	    policy_allows(waits,
		marks_cost(mine, other->stream, other->marks[i].at, false));
}

/* The marks of a stream that another one can wait for: in a capture, none. */
static unsigned
marks_of(const struct pools *other, const struct view *view)
{
	return view->capture == 0 ? other->mark_count : 0;
}

/* By the age of the event, and of the oldest of the stream. */
static struct forecast
forecast_of(const struct stream *stream, uint64_t ns, uint64_t oldest_ns)
{
	uint64_t now = driver_time_ns();
	uint64_t latency = atomic_load(&stream->latency_ns);

	return (struct forecast){ .ns = policy_forecast(
				      latency, now - oldest_ns, now - ns),
		.age_ns = now - ns };
}

bool
marks_forecast(const struct view *view, const struct pools *other,
    uint64_t tick, struct forecast *out)
{
	for (unsigned i = 0; i < marks_of(other, view); i++)
		if (other->marks[i].at >= tick) {
			*out = forecast_of(other->stream, other->marks[i].ns,
			    other->marks[0].ns);
			return true;
		}
	return false;
}

bool
marks_forecast_use(const struct use *use, struct forecast *out)
{
	uint64_t ns;
	uint64_t oldest_ns;

	if (!use_times(use, &ns, &oldest_ns))
		return false;
	*out = forecast_of(use->queue->stream, ns, oldest_ns);
	return true;
}

bool
marks_follow(const struct view *view, struct pools *other, uint64_t tick,
    enum waits waits)
{
	if (tick <= view_ask(view, other))
		return true;
	for (unsigned i = 0; i < marks_of(other, view); i++)
		if (other->marks[i].at >= tick &&
		    may_wait(view->mine, other, i, waits))
			return wait_for(view->mine, other, &other->marks[i]);
	return waits == WAITS_ANY && follow_all(view, other);
}

/* The smallest block that is enough of those freed until a tick. */
static struct block *
find_freed(const struct pools *pools, enum pool_kind kind, size_t rounded,
    uint64_t until)
{
	struct block *best = NULL;

	for (struct list *l = pools->freed.next; l != &pools->freed;
	     l = l->next) {
		struct block *block = block_of_pending(l);
		if (block->freed_at <= until && block->pool->kind == kind &&
		    block->size >= rounded && block->segment->expandable &&
		    (best == NULL || block->size < best->size))
			best = block;
	}
	return best;
}

struct block *
marks_find(const struct view *view, struct pools *other, size_t rounded,
    enum waits waits)
{
	enum pool_kind kind = size_kind(rounded);
	uint64_t until = view_ask(view, other);
	struct block *block = NULL;

	if (other->freed_at <= until || list_empty(&other->freed))
		return NULL;
	for (unsigned i = 0; i < marks_of(other, view) && block == NULL; i++)
		if (other->marks[i].at > until &&
		    may_wait(view->mine, other, i, waits))
			block = find_freed(
			    other, kind, rounded, other->marks[i].at);
	if (block == NULL && waits == WAITS_ANY)
		block = find_freed(other, kind, rounded, UINT64_MAX);
	return block;
}

bool
marks_follow_next(const struct view *view, struct pools *other,
    uint64_t *followed_until, enum waits waits)
{
	uint64_t until = view_ask(view, other);

	if (until < *followed_until)
		until = *followed_until;
	if (other->freed_at <= until)
		return false;
	for (unsigned i = 0; i < marks_of(other, view); i++)
		if (other->marks[i].at > until &&
		    may_wait(view->mine, other, i, waits)) {
			*followed_until = other->marks[i].at;
			return wait_for(view->mine, other, &other->marks[i]);
		}
	*followed_until = other->freed_at;
	return waits == WAITS_ANY && follow_all(view, other);
}
