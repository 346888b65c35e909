/*
 * Records fences on streams, and makes streams wait for memory that they may
 * not use yet.
 *
 * Note [Fences]
 *
 * A fence is an event recorded on a stream, and the tick of its record. A free
 * records no fence, because that would cost more than the free. A request that
 * finds no memory polls each other stream that has freed blocks since its
 * completed tick. A stream that has nothing left to do needs no fence; another
 * stream gets a fence if it has freed blocks since its latest one. The next
 * such request sees which fences are met, and may wait on the device for one
 * that is not. The oldest fence is the one to wait for, because its stream has
 * had the most time to meet it.
 *
 * A stream that frees and allocates is fenced now and then as well, by the next
 * request of any stream: a stream that has much free memory may make few
 * requests itself. Its fences tell other streams which of its memory is
 * complete, and tell the stream's own requests how busy it is. Large
 * allocations count as frees do, because a program may free all blocks of a
 * stream on another one: PyTorch's cudaMallocAsync backend does. Such a stream
 * would have no fence and look idle, and an idle stream makes few waits.
 *
 * The only stream of a device needs no fences for itself, and gets none. Where
 * memory is lent to other processes the lending thread fences it now and then
 * (fences_poll_all()): a stream that always has work is never seen idle, and
 * without a fence nothing that it has freed would be known to be complete.
 *
 * A stream that is far behind may need more fences than there are. Then fences
 * in the middle are dropped, because without recent fences no request could
 * wait for blocks that were freed recently.
 *
 * No function here waits on the host.
 */
#include "allocator/fences/fence.h"

#include <string.h>

#include "allocator/account/counters.h"
#include "allocator/fences/tuning.h"
#include "allocator/memory/arena.h"
#include "allocator/memory/block.h"
#include "allocator/memory/promote.h"
#include "base/status.h"
#include "streams/capture.h"
#include "streams/event.h"
#include "trace/served.h"

/* ---- Fences ------------------------------------------------------------- */

/*
 * Can any thread record a fence on the stream without effect on other streams?
 * A record on the legacy default stream orders all blocking streams.
 */
static bool
can_fence(const struct stream_heap *heap)
{
	const struct stream *stream = heap->stream;

	return !heap->ended && stream->handle != WEIR_STREAM_ANY &&
	    stream->thread == 0 && !stream_orders_others(stream);
}

void
fences_drop(struct stream_heap *heap)
{
	struct arena *arena = heap->arena;

	lock_assert_held(&arena->lock);
	ASSERT(heap->fences.count <= FENCES);
	for (unsigned i = 0; i < heap->fences.count; i++)
		event_release(
		    heap->stream->context, heap->fences.ring[i].event);
	heap->fences.count = 0;
	if (arena->fences.due == heap)
		arena->fences.due = NULL;
}

void
fences_forget(struct arena *arena)
{
	lock_assert_held(&arena->lock);
	for (struct list *l = arena->memory.heaps.next;
	     l != &arena->memory.heaps; l = l->next)
		CONTAINER_OF(l, struct stream_heap, link)->fences.count = 0;
	arena->fences.due = NULL;
}

/* Drop `n` fences from the fence `i` on. */
static void
drop_fences(struct stream_heap *heap, unsigned i, unsigned n)
{
	struct fence *first = &heap->fences.ring[i];

	ASSERT(i + n <= heap->fences.count);
	for (unsigned k = 0; k < n; k++)
		event_release(heap->stream->context, first[k].event);
	heap->fences.count -= n;
	memmove(first, first + n, (heap->fences.count - i) * sizeof(*first));
}

/* Drop a fence between the oldest and the latest: the one whose neighbours are
 * closest, so that the rest are spread over the time since the oldest. */
static void
drop_closest(struct stream_heap *heap)
{
	const struct fence *fences = heap->fences.ring;
	unsigned closest = 1;

	ASSERT(heap->fences.count > 2);
	for (unsigned i = 2; i + 1 < heap->fences.count; i++)
		if (fences[i + 1].at - fences[i - 1].at <
		    fences[closest + 1].at - fences[closest - 1].at)
			closest = i;
	drop_fences(heap, closest, 1);
}

static uint64_t
latest_fence(const struct stream_heap *heap)
{
	return heap->fences.count > 0 ?
	    heap->fences.ring[heap->fences.count - 1].at :
	    heap->completed_at;
}

/* Record a fence on the stream, unless its latest fence covers the tick. */
static bool
record_fence(struct stream_heap *heap, uint64_t tick)
{
	struct stream *stream = heap->stream;
	struct capture_guard guard;
	struct fence new;

	ASSERT(heap->fences.count <= FENCES);
	if (latest_fence(heap) > tick) {
		heap->fences.unfenced_bytes = 0;
		return true;
	}
	if (!can_fence(heap) ||
	    capture_enter(stream->context, &guard) != WEIR_OK)
		return false;
	new.at = order_tick();
	new.ns = driver_time_ns();
	enum weir_status status = stream_fence(stream, &new.event);
	capture_leave(&guard);
	if (status != WEIR_OK)
		return false;
	if (heap->fences.count == FENCES)
		drop_closest(heap);
	heap->fences.ring[heap->fences.count++] = new;
	heap->fences.unfenced_bytes = 0;
	return true;
}

/* Poll which fences are met. */
static void
poll_fences(struct stream_heap *heap)
{
	struct capture_guard guard;
	unsigned met = 0;

	ASSERT(heap->fences.count <= FENCES);
	if (heap->fences.count == 0 || capture_enter(NULL, &guard) != WEIR_OK)
		return;
	while (met < heap->fences.count &&
	    event_met(heap->stream->context, heap->fences.ring[met].event)) {
		const struct fence *fence = &heap->fences.ring[met++];

		if (heap->completed_at < fence->at)
			heap->completed_at = fence->at;
		stream_met(heap->stream, fence->at);
		stream_took(heap->stream, fence->ns);
	}
	drop_fences(heap, 0, met);
	capture_leave(&guard);
}

/* Questions to streams, which enter each context once for a row of them. */
struct questions {
	CUcontext context; /* that is entered; NULL: none */
	struct capture_guard guard;
};

static void
questions_end(struct questions *q)
{
	if (q->context != NULL)
		capture_leave(&q->guard);
	q->context = NULL;
}

static bool
questions_enter(struct questions *q, CUcontext context)
{
	if (q->context == context)
		return true;
	questions_end(q);
	if (capture_enter(context, &q->guard) != WEIR_OK)
		return false;
	q->context = context;
	return true;
}

/* Has the stream nothing left to do? False if it cannot be asked. */
static bool
heap_is_idle(struct stream_heap *heap, struct questions *q)
{
	struct stream *stream = heap->stream;

	return !heap->ended && stream->handle != WEIR_STREAM_ANY &&
	    stream->thread == 0 && questions_enter(q, stream->context) &&
	    stream_idle(stream);
}

/* The stream, whose delay is known, has nothing left to do. */
static void
forget_late(struct stream_heap *heap)
{
	struct capture_guard guard;

	ASSERT(delay_is_known(&heap->stream->delay));
	if (capture_enter(NULL, &guard) != WEIR_OK)
		return;
	delay_idle(heap->stream);
	capture_leave(&guard);
}

uint64_t
fences_see_late(struct stream_heap *heap)
{
	struct capture_guard guard;
	struct questions questions = { .context = NULL };
	uint64_t late = 0;

	lock_assert_held(&heap->arena->lock);
	if (!delay_is_known(&heap->stream->delay))
		return 0;
	if (capture_enter(NULL, &guard) == WEIR_OK) {
		late = delay_see(heap->stream);
		capture_leave(&guard);
	}
	if (late == 0)
		return 0;
	bool idle = heap_is_idle(heap, &questions);
	questions_end(&questions);
	if (!idle)
		return late;
	forget_late(heap);
	return 0;
}

/* Account for weir's waits that are over: how long they took, and how late the
 * latest stream is: streams/delay.h, Note [Measured delay]. */
static void
fences_see_delay(struct arena *arena) HOLDS(arena->lock)
{
	uint64_t latest = 0;

	lock_assert_held(&arena->lock);
	if (arena->account.stats.num_gpu_waits == 0)
		return;
	for (struct list *l = arena->memory.heaps.next;
	     l != &arena->memory.heaps; l = l->next) {
		struct stream_heap *heap =
		    CONTAINER_OF(l, struct stream_heap, link);
		lock_assert_held(&heap->arena->lock);
		uint64_t late = fences_see_late(heap);
		uint64_t waited = delay_take_waited(&heap->stream->delay);
		int64_t felt = delay_take_felt(&heap->stream->delay);
		counter_add_of(heap, COUNTER_gpu_wait_ns, waited);
		policy_add_evidence(&arena->policy.evidence, waited, felt);
		if (late > latest)
			latest = late;
	}
	latest += delay_lost_ns();
	if (latest > arena->fences.late_ns) {
		counter_add(arena, COUNTER_gpu_delay_ns,
		    latest - arena->fences.late_ns);
		arena->fences.late_ns = latest;
	}
}

/* See whether the stream is done. */
static bool
ask(struct stream_heap *heap, struct questions *q)
{
	uint64_t tick = order_tick();

	if (!heap_is_idle(heap, q))
		return false;
	heap->completed_at = tick;
	stream_met(heap->stream, tick);
	if (delay_is_known(&heap->stream->delay))
		forget_late(heap);
	return true;
}

static bool
has_free(const struct stream_heap *heap)
{
	return heap->pool[POOL_SMALL].free.count > 0 ||
	    heap->pool[POOL_LARGE].free.count > 0;
}

/* Fence the stream if it is due. */
static void
fence_if_due(struct stream_heap *heap)
{
	size_t held = heap->stats.reserved_bytes.all.current;
	uint64_t latest = heap->freed_at > heap->fences.served_at ?
	    heap->freed_at :
	    heap->fences.served_at;

	ASSERT(heap != heap->arena->memory.any_heap);
	if (heap->fences.unfenced_bytes < FENCES_LEAST ||
	    heap->fences.unfenced_bytes < held / FENCE_SHARE)
		return;
	status_mute();
	poll_fences(heap);
	if (!record_fence(heap, latest))
		heap->fences.unfenced_bytes = 0;
	status_unmute();
}

void
fences_upkeep_due(struct stream_heap *mine)
{
	struct stream_heap *other = mine->arena->fences.due;

	lock_assert_held(&mine->arena->lock);
	mine->arena->fences.due = NULL;
	if (mine != mine->arena->memory.any_heap)
		fence_if_due(mine);
	if (other != NULL && other != mine)
		fence_if_due(other);
}

/* Poll how far a stream has come that has freed since, and fence it if it is
 * not done. */
static void
follow(struct stream_heap *heap, struct questions *q)
{
	poll_fences(heap);
	if (heap->completed_at > heap->freed_at ||
	    (heap->fences.count == 0 && ask(heap, q)))
		return;
	record_fence(heap, heap->freed_at);
}

void
fences_poll(struct stream_heap *mine)
{
	struct arena *arena = mine->arena;
	struct questions questions = { .context = NULL };
	unsigned n = 0;

	if (mine == arena->memory.any_heap) {
		lock_assert_held(&arena->lock);
		arena_begin_several(arena);
	}
	status_mute();
	lock_assert_held(&arena->lock);
	fences_see_delay(arena);
	poll_fences(mine);
	for (struct stream_heap *heap = heap_first_freed(arena);
	     heap != NULL && n < FENCES_ASKED; heap = heap_next_freed(heap)) {
		if (heap == mine || heap->completed_at > heap->freed_at ||
		    (!has_free(heap) && !heap_may_hold_pending(heap)))
			continue;
		n++;
		follow(heap, &questions);
	}
	questions_end(&questions);
	status_unmute();
	/* A device-scope request finds complete memory only there. */
	if (mine == arena->memory.any_heap)
		arena_promote_all(arena);
	else
		arena_promote(arena);
}

/* Ask each stream that may have work since what it has freed, or follow it. */
static void
see_behind(struct arena *arena, bool follows)
{
	struct questions questions = { .context = NULL };

	lock_assert_held(&arena->lock);
	status_mute();
	for (struct list *l = arena->memory.heaps.next;
	     l != &arena->memory.heaps; l = l->next) {
		struct stream_heap *heap =
		    CONTAINER_OF(l, struct stream_heap, link);
		if (heap->completed_at > heap->freed_at)
			continue;
		if (follows)
			follow(heap, &questions);
		else
			ask(heap, &questions);
	}
	questions_end(&questions);
	status_unmute();
}

void
fences_ask_all(struct arena *arena)
{
	ASSERT(arena->memory.any_heap->completed_at == UINT64_MAX);
	see_behind(arena, false);
}

void
fences_poll_all(struct arena *arena)
{
	ASSERT(!arena->memory.forgotten);
	arena_begin_lending(arena);
	see_behind(arena, true);
}

/* ---- Waits on the device ----------------------------------------------- */

/* Make `mine` wait for a fence of another stream. */
static bool
wait_for(struct stream_heap *mine, const struct stream_heap *other,
    const struct fence *fence)
{
	struct stream *stream = mine->stream;
	struct capture_guard guard;

	ASSERT(mine != other && fence->event != NULL);
	if (capture_enter(stream->context, &guard) != WEIR_OK)
		return false;
	CUevent before = delay_begin(stream);
	CUresult code =
	    driver_peek()->cuStreamWaitEvent(stream->handle, fence->event, 0);
	delay_end(stream, before, code == CUDA_SUCCESS);
	capture_leave(&guard);
	if (code != CUDA_SUCCESS)
		return false;
	lock_assert_held(&mine->arena->lock);
	counter_add_of(mine, COUNTER_num_gpu_waits, 1);
	served_waited((uint64_t)(uintptr_t)other->stream->handle);
	order_learn(stream, other->stream, fence->at, 0);
	return true;
}

/* Order `mine` after another stream in the capture that both are in. */
static bool
join_captured(const struct view *view, const struct stream_heap *other)
{
	struct stream_heap *mine = view->mine;

	ASSERT(view->capture != 0);
	if (!heap_order_covers(other, view->capture))
		return false;
	uint64_t tick =
	    capture_join(mine->stream, other->stream, view->capture);
	if (tick == 0)
		return false;
	lock_assert_held(&mine->arena->lock);
	counter_add_of(mine, COUNTER_num_gpu_waits, 1);
	served_waited((uint64_t)(uintptr_t)other->stream->handle);
	order_learn(mine->stream, other->stream, tick, view->capture);
	return true;
}

/*
 * Make `mine` wait for the end of an ended stream. Free blocks of that stream
 * then move to `mine`, mostly all of them, because the number of order facts is
 * bounded, and streams that come and go would drive other facts out.
 */
static bool
follow_end(struct stream_heap *mine, struct stream_heap *gone)
    HOLDS(mine->arena->lock)
{
	struct fence end = { .event = gone->end_event, .at = order_now() };
	unsigned left = BLOCKS_AT_ONCE;

	ASSERT(gone != mine && gone->arena == mine->arena);
	if (end.event == NULL || !wait_for(mine, gone, &end))
		return false;
	for (int kind = POOL_KINDS - 1; kind >= 0; kind--) {
		const struct tree *free = &gone->pool[kind].free;
		for (; free->count > 0 && left > 0; left--) {
			struct block *block = block_of_node(tree_last(free));
			struct span span = { block, block };
			block = block_adopt(&span, mine);
			lock_assert_held(&block->arena->lock);
			block_put(block, BLOCK_FREE);
		}
	}
	return true;
}

/* Order `mine` after all present work of another stream. */
static bool
follow_all(const struct view *view, struct stream_heap *other)
    HOLDS(view->mine->arena->lock)
{
	if (view->capture != 0)
		return join_captured(view, other);
	if (other->ended)
		return follow_end(view->mine, other);
	return record_fence(other, other->freed_at) &&
	    wait_for(view->mine, other,
		&other->fences.ring[other->fences.count - 1]);
}

void
fences_see_busy(struct view *view)
{
	const struct stream_heap *mine = view->mine;
	const struct use *use =
	    use_first_open(&mine->arena->waiting, mine->stream);

	ASSERT(mine->fences.count <= FENCES);
	lock_assert_held(&view->mine->arena->lock);
	view->busy_since = mine->fences.count > 0 ? mine->fences.ring[0].at : 0;
	if (use != NULL &&
	    (view->busy_since == 0 || use->tick < view->busy_since))
		view->busy_since = use->tick;
}

enum wait_cost
fences_cost(const struct view *view, const struct stream *other, uint64_t tick,
    bool is_use)
{
	uint64_t now = order_now();
	struct wait_facts facts = { .left = stream_left(other, tick),
		.age = now > tick ? now - tick : 0,
		.busy = view->busy_since > 0 ? now - view->busy_since : 0,
		.is_use = is_use };

	return policy_wait_cost(&facts);
}

/* Do the wait limits allow a wait for the fence `i` of `other`? */
static bool
may_wait(const struct view *view, const struct stream_heap *other, unsigned i,
    enum waits waits)
{
	return waits == WAITS_ANY ||
	    policy_allows(waits,
		fences_cost(
		    view, other->stream, other->fences.ring[i].at, false));
}

/* How many fences of a stream the request can wait for: in a capture, none. */
static unsigned
fences_of(const struct stream_heap *other, const struct view *view)
{
	return view->capture == 0 ? other->fences.count : 0;
}

/* The first fence that covers all frees of a stream up to a tick; fences_of()
 * if none does. */
static unsigned
fence_from(
    const struct view *view, const struct stream_heap *other, uint64_t tick)
{
	unsigned from = 0;
	unsigned to = fences_of(other, view);

	ASSERT(other->fences.count <= FENCES);
	while (from < to) {
		unsigned middle = (from + to) / 2;
		if (other->fences.ring[middle].at >= tick)
			to = middle;
		else
			from = middle + 1;
	}
	return from;
}

/* Make a forecast from the times of an event and of the stream's oldest
 * event. */
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
fences_forecast(const struct view *view, const struct stream_heap *other,
    uint64_t tick, struct forecast *out)
{
	unsigned i = fence_from(view, other, tick);

	ASSERT(other->arena == view->mine->arena);
	if (i == fences_of(other, view))
		return false;
	*out = forecast_of(
	    other->stream, other->fences.ring[i].ns, other->fences.ring[0].ns);
	return true;
}

bool
fences_forecast_use(const struct use *use, struct forecast *out)
{
	uint64_t ns;
	uint64_t oldest_ns;

	if (!use_times(use, &ns, &oldest_ns))
		return false;
	*out = forecast_of(use->queue->stream, ns, oldest_ns);
	return true;
}

bool
fences_allow(const struct view *view, const struct stream_heap *other,
    uint64_t tick, enum waits waits)
{
	unsigned i = fence_from(view, other, tick);

	ASSERT(other->arena == view->mine->arena);
	return i < fences_of(other, view) && may_wait(view, other, i, waits);
}

bool
fences_follow(const struct view *view, struct stream_heap *other, uint64_t tick,
    enum waits waits)
{
	lock_assert_held(&view->mine->arena->lock);
	ASSERT(other->arena == view->mine->arena);
	if (tick <= view_ask(view, other))
		return true;
	unsigned i = fence_from(view, other, tick);
	if (i < fences_of(other, view) && may_wait(view, other, i, waits))
		return wait_for(view->mine, other, &other->fences.ring[i]);
	return waits == WAITS_ANY && follow_all(view, other);
}

bool
fences_follow_next(const struct view *view, struct stream_heap *other,
    uint64_t *followed_until)
{
	uint64_t until = view_ask(view, other);

	lock_assert_held(&view->mine->arena->lock);
	ASSERT(other->arena == view->mine->arena);
	if (until < *followed_until)
		until = *followed_until;
	if (other->freed_at <= until)
		return false;
	unsigned i = fence_from(view, other, until + 1);
	if (i < fences_of(other, view)) {
		*followed_until = other->fences.ring[i].at;
		return wait_for(view->mine, other, &other->fences.ring[i]);
	}
	*followed_until = other->freed_at;
	return follow_all(view, other);
}
