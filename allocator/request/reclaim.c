/*
 * Makes pending memory free, and gives free memory back to the driver.
 *
 * Note [Completed work]
 *
 * A free block has its free tick (streams/order.h). heap->completed_at is a
 * tick up to which all work queued on the heap's stream is known to be done.
 * Blocks with a free tick up to it are complete: any stream may use them, and
 * they may be unmapped. Other streams may also use blocks whose free tick they
 * are ordered after. Blocks that are found to be complete move to the heap of
 * WEIR_STREAM_ANY, where all blocks are complete: arena_promote().
 *
 * Note [A stream ends]
 *
 * When a stream ends, weir records an event after all its work. Once that is
 * met, its free blocks move to the heap of WEIR_STREAM_ANY, and so does each of
 * its live blocks when it is freed. There may be hundreds of thousands of free
 * and cached blocks, so each poll moves a portion of them. Until all are moved
 * the heap is in arena->memory.emptied, and its blocks are complete where they
 * are.
 */
#include "allocator/request/reclaim.h"

#include <limits.h>

#include "allocator/account/counters.h"
#include "allocator/account/totals.h"
#include "allocator/cache/tcache.h"
#include "allocator/fences/fence.h"
#include "allocator/fences/free.h"
#include "allocator/memory/arena.h"
#include "allocator/memory/block.h"
#include "allocator/memory/emit.h"
#include "allocator/memory/handle.h"
#include "allocator/memory/idle.h"
#include "allocator/memory/keep.h"
#include "allocator/memory/lookup.h"
#include "allocator/memory/promote.h"
#include "allocator/memory/segment.h"
#include "allocator/request/tuning.h"
#include "base/meta.h"
#include "base/os.h"
#include "base/status.h"
#include "streams/event.h"
#include "trace/served.h"

/* ---- Becoming free ----------------------------------------------------- */

static void
end_pending(struct block *block) HOLDS(block->arena->lock)
{
	ASSERT(block_state(block) == BLOCK_PENDING);
	ASSERT(block->pending.uses == NULL);
	emit_free_completed(block);
	lock_assert_held(&block->pool->owner->arena->lock);
	stats_inactive(block->pool, block->size, block->requested);
}

void
reclaim_pending_to(struct block *block, struct pool *pool)
{
	struct stream_heap *owner = block->pool->owner;

	lock_assert_held(&block->arena->lock);
	ASSERT(block_state(block) == BLOCK_PENDING);
	ASSERT(pool->owner->arena == block->arena);
	end_pending(block);
	block_set_state(block, BLOCK_UNMAPPING); /* a held state, in no tree */
	block_move(block, pool);
	lock_assert_held(&owner->arena->lock);
	heap_drop_if_done(owner);
	stream_protect(pool->owner->stream);
	block_free(block);
}

/* Complete a heap: its stream has ended, and all the stream's work is done. */
static void
complete_heap(struct stream_heap *heap) HOLDS(heap->arena->lock)
{
	ASSERT(heap->ended && !heap->completed);
	heap_complete(heap);
	heap->completed_at = order_tick();
	fences_drop(heap);
	if (heap->end_event != NULL)
		event_release(heap->stream->context, heap->end_event);
	heap->end_event = NULL;
}

/* Move the memory of heaps that have completed, and drop these, as far as there
 * are blocks left to move. */
static bool
empty_completed(struct arena *arena, size_t left)
{
	bool any = false;

	ASSERT(left > 0);
	while (!list_empty(&arena->memory.emptied) && left > 0) {
		struct stream_heap *heap = CONTAINER_OF(
		    arena->memory.emptied.next, struct stream_heap, ended_link);
		lock_assert_held(&heap->arena->lock);
		depot_empty_some(heap, &left);
		heap_empty_some(heap, &left);
		any = true;
		if (left == 0)
			break;
		heap_remove_ended(heap);
		heap_drop_if_done(heap);
		left--;
	}
	return any;
}

/* Record the event of a stream's end. `stream` is WEIR_STREAM_ANY's if the
 * stream itself is gone. */
static void
fence_end(struct stream_heap *heap, struct stream *stream)
{
	struct driver_guard guard;

	ASSERT(heap->ended);
	status_mute();
	if (driver_enter(stream->context, &guard) == WEIR_OK) {
		/* If this fails now, a poll tries to record it again. */
		(void)stream_fence(stream, &heap->end_event);
		driver_leave(&guard);
	}
	status_unmute();
}

void
reclaim_end_later(struct stream_heap *heap)
{
	lock_assert_held(&heap->arena->lock);
	ASSERT(!heap->ended);
	if (heap->ended)
		return;
	heap_end(heap);
	tcache_end(heap);
}

void
reclaim_end(struct stream_heap *heap)
{
	lock_assert_held(&heap->arena->lock);
	ASSERT(heap != heap->arena->memory.any_heap);
	if (heap->ended)
		return;
	reclaim_end_later(heap);
	fence_end(heap, heap->stream);
}

static bool
end_has_completed(struct stream_heap *heap)
{
	struct driver_guard guard;
	CUresult code;

	ASSERT(heap->ended && !heap->completed);
	if (heap->end_event == NULL)
		fence_end(heap, heap->arena->any);
	if (heap->end_event == NULL ||
	    driver_enter(heap->stream->context, &guard) != WEIR_OK)
		return false;
	code = driver_peek()->cuEventQuery(heap->end_event);
	driver_leave(&guard);
	return code == CUDA_SUCCESS;
}

/* Query the ends of streams, each in turn, until `unmet` of them are not met.
 * Then move a portion of the memory of those that are. */
static bool
poll_ended(struct arena *arena, unsigned unmet)
{
	ASSERT(arena->memory.ending > 0 || list_empty(&arena->memory.ended));
	while (!list_empty(&arena->memory.ended) && unmet > 0) {
		struct list *l = arena->memory.ended.next;
		struct stream_heap *heap =
		    CONTAINER_OF(l, struct stream_heap, ended_link);
		lock_assert_held(&heap->arena->lock);
		if (end_has_completed(heap)) {
			complete_heap(heap);
			continue;
		}
		heap_poll_later(heap);
		unmet--;
	}
	return empty_completed(arena, BLOCKS_AT_ONCE);
}

/* Make the pending blocks of a list free, whose uses are all met. With `keep`,
 * device-scope blocks are kept for requests of their size. */
static bool
free_done(struct arena *arena, struct list *done, bool keep)
{
	bool any = false;

	while (!list_empty(done)) {
		struct block *block = block_of_pending(done->next);
		list_remove(&block->pending.link);
		lock_assert_held(&block->arena->lock);
		if (block_state(block) == BLOCK_VACATED) {
			segment_add_vacated(block);
			continue;
		}
		end_pending(block);
		if (arena->waiting.in_captures)
			block_free(block);
		else if (!keep ||
		    block->pool->owner != arena->memory.any_heap ||
		    block->segment->expandable || !tcache_keep_complete(block))
			block_free_since(block);
		any = true;
	}
	return any;
}

static bool
poll_arena(struct arena *arena, unsigned skips, bool keep) HOLDS(arena->lock)
{
	struct list done;
	bool any = poll_ended(arena, ENDS_ASKED);

	arena_poll_keeps(arena);
	list_init(&done);
	waiting_poll(&arena->waiting, skips, &done);
	return free_done(arena, &done, keep) || any;
}

bool
reclaim_poll(struct arena *arena, unsigned skips)
{
	lock_assert_held(&arena->lock);
	return poll_arena(arena, skips, false);
}

void
reclaim_poll_complete(struct arena *arena)
{
	lock_assert_held(&arena->lock);
	poll_arena(arena, RECLAIM_SKIPS, true);
}

void
reclaim_glance(struct arena *arena)
{
	struct list done;

	lock_assert_held(&arena->lock);
	poll_ended(arena, ENDS_ASKED);
	list_init(&done);
	waiting_glance(&arena->waiting, &done);
	free_done(arena, &done, true);
}

/* Poll each stream that may have uncompleted frees, without a wait. */
void
reclaim_refresh(struct arena *arena)
{
	lock_assert_held(&arena->lock);
	fences_ask_all(arena);
	arena_promote(arena);
}

void
reclaim_look(struct arena *arena)
{
	lock_enter(&arena->lock);
	reclaim_poll(arena, RECLAIM_SKIPS);
	reclaim_refresh(arena);
	lock_leave(&arena->lock);
}

/* ---- Giving back -------------------------------------------------------- */

static bool
has_completed(const struct block *block)
{
	return block->freed_at <= block->pool->owner->completed_at;
}

/* May the memory of a block go back, as far as its free tick matters? */
static bool
is_old(const struct block *block, uint64_t latest)
{
	return block_is_in_run(block) && block->freed_at <= latest &&
	    has_completed(block);
}

/* The row of free memory around an old block. A handle may lie under blocks of
 * several streams. */
static struct span
row_around(struct block *block, uint64_t latest)
{
	struct span span = { block, block };

	ASSERT(block_is_in_run(block));
	while (is_old(span.first->prev, latest))
		span.first = span.first->prev;
	while (is_old(span.last->next, latest))
		span.last = span.last->next;
	return span;
}

/* Is all complete memory in the heap of WEIR_STREAM_ANY, once
 * arena_promote() has run? Complete neighbours are one block there. */
static bool
is_promoted(const struct arena *arena)
{
	return arena->memory.several && arena_promotes(arena) &&
	    !arena->memory.behind && list_empty(&arena->memory.emptied);
}

/* The longest unused block of the index with a free tick up to `latest` whose
 * work is done, or NULL. */
static struct block *
oldest_idle(struct arena *arena, uint64_t latest) HOLDS(arena->lock)
{
	lock_assert_held(&arena->memory.any_heap->arena->lock);
	struct block *oldest = idle_first(arena->memory.any_heap);

	for (struct list *l = arena->memory.heaps.next;
	     l != &arena->memory.heaps && !is_promoted(arena); l = l->next) {
		struct stream_heap *heap =
		    CONTAINER_OF(l, struct stream_heap, link);
		lock_assert_held(&heap->arena->lock);
		struct block *block = idle_first(heap);
		if (block != NULL && has_completed(block) &&
		    (oldest == NULL || block->freed_at < oldest->freed_at))
			oldest = block;
	}
	return oldest != NULL && oldest->freed_at <= latest ? oldest : NULL;
}

/* The bytes that may go back. */
static size_t
beyond_reserve(const struct arena *arena)
{
	size_t held = arena->account.stats.reserved_bytes.all.current;

	return held > arena->host.reserve_bytes ?
	    held - arena->host.reserve_bytes :
	    0;
}

/* Are all blocks over a range old? Returns the first of them, or NULL. */
static struct block *
old_over(CUdeviceptr addr, size_t size, uint64_t latest)
{
	struct block *first = lookup_floor(addr);
	struct block *b = first;

	while (is_old(b, latest) && b->addr + b->size < addr + size)
		b = b->next;
	return is_old(b, latest) ? first : NULL;
}

static void
keep_older(struct block **oldest, struct block *block)
{
	if (block != NULL &&
	    (*oldest == NULL || block->freed_at < (*oldest)->freed_at))
		*oldest = block;
}

/*
 * The longest unused row none of whose blocks is in the index, because each
 * handle in it lies under several of them. There are such rows only where
 * complete neighbours stay apart: has_pieces(). All handles and driver segments
 * are walked, which are far fewer than the blocks; of the blocks only those
 * over handles that begin with old ones.
 */
static struct block *
oldest_in_pieces(const struct arena *arena, uint64_t latest)
{
	struct block *oldest = NULL;

	for (const struct handle *h = handles_first(arena); h != NULL;
	     h = handles_next(h))
		if (h->pins == 0)
			keep_older(&oldest, old_over(h->addr, h->size, latest));
	for (const struct list *l = arena->memory.segments.next;
	     l != &arena->memory.segments; l = l->next) {
		const struct segment *s = CONTAINER_OF(l, struct segment, link);
		if (!s->expandable && s->pins == 0)
			keep_older(&oldest, old_over(s->addr, s->size, latest));
	}
	return oldest;
}

/* May complete neighbours lie in different heaps? Besides several streams, one
 * stream and WEIR_STREAM_ANY may share a handle: a block was freed on the
 * latter, or its stream has ended. */
static bool
has_pieces(const struct arena *arena)
{
	const struct pool *any = arena->memory.any_heap->pool;
	bool shared = arena->memory.several;

	for (int kind = 0; kind < POOL_KINDS && !shared; kind++)
		shared = tree_first(&any[kind].free) != NULL;
	return shared && !is_promoted(arena);
}

/* The longest unused row. A request that fails is the more frequent the less
 * there is to give back, so all blocks that are yet to be moved are moved only
 * once it is known that a row is among them: then each has its place in the
 * index, and the next row is found there. */
static struct block *
oldest_block(struct arena *arena, uint64_t latest) HOLDS(arena->lock)
{
	struct block *block = oldest_idle(arena, latest);

	if (block != NULL || !has_pieces(arena))
		return block;
	block = oldest_in_pieces(arena, latest);
	if (block == NULL ||
	    (!arena->memory.behind && list_empty(&arena->memory.emptied)))
		return block;
	arena_promote_all(arena);
	empty_completed(arena, SIZE_MAX);
	block = oldest_idle(arena, latest);
	return block != NULL || !has_pieces(arena) ?
	    block :
	    oldest_in_pieces(arena, latest);
}

/* The driver has refused to free memory at an address: do not ask again in this
 * search. */
static void
put_off(const struct arena *arena, CUdeviceptr addr)
{
	struct block *block = lookup_floor(addr);

	if (block != NULL && block->arena == arena && block_is_in_run(block)) {
		lock_assert_held(&block->arena->lock);
		idle_put_off(block, order_tick());
	}
}

/* The bytes that go back together, of a row: a handle, or a segment. */
static size_t
piece_of(const struct span *row)
{
	const struct segment *segment = row->first->segment;

	ASSERT(row->last->segment == segment);
	if (!segment->expandable)
		return segment->size;
	const struct handle *handle =
	    handle_first_within(segment, row->first->addr,
		row->last->addr + row->last->size - row->first->addr);
	return handle != NULL ? handle->size : 0;
}

/* Give back memory of a row: a reserve stays whole. */
static size_t
shed_row(struct arena *arena, const struct span *row, size_t want)
    HOLDS(arena->lock)
{
	lock_assert_held(&row->first->arena->lock);
	if (arena->host.reserve_bytes == 0)
		return segment_release(row, want);
	return piece_of(row) <= beyond_reserve(arena) ?
	    segment_release(row, 1) :
	    0;
}

/* How much to give back. */
struct amount {
	size_t want;     /* bytes, at least */
	unsigned pieces; /* rows, at most */
	uint64_t latest; /* free tick */
};

/*
 * Give back complete memory, the longest unused first. Returns the bytes given
 * back, and lowers amount->pieces by the rows that were tried.
 */
static size_t
shed(struct arena *arena, struct amount *amount) HOLDS(arena->lock)
{
	struct block *block;
	size_t freed = 0;

	ASSERT(amount->pieces > 0);
	if (arena_is_kept(arena))
		return 0;
	/* Moved memory goes back only after its old addresses are unmapped. */
	reclaim_poll(arena, RECLAIM_SKIPS);
	segment_unmap_vacated(arena, SIZE_MAX);
	arena_promote(arena);
	uint64_t now = order_tick();
	if (amount->latest > now)
		amount->latest = now;
	size_t want = min_size(amount->want, beyond_reserve(arena));
	while (freed < want && amount->pieces > 0 &&
	    (block = oldest_block(arena, amount->latest)) != NULL) {
		struct span row = row_around(block, amount->latest);
		CUdeviceptr addr = block->addr;
		size_t bytes = shed_row(arena, &row, want - freed);
		if (bytes == 0)
			put_off(arena, addr);
		freed += bytes;
		amount->pieces--;
	}
	return freed;
}

/* The average free tick of idle memory; 0: there is none. */
static uint64_t
average_tick(const struct arena *arena)
{
	uint64_t sum = 0;
	size_t count = 0;

	ASSERT(!list_empty(&arena->memory.heaps));
	for (const struct list *l = arena->memory.heaps.next;
	     l != &arena->memory.heaps; l = l->next) {
		const struct stream_heap *heap =
		    CONTAINER_OF(l, struct stream_heap, link);
		if (is_promoted(arena) && heap != arena->memory.any_heap)
			continue;
		sum += heap->idle.since_sum;
		count += heap->idle.tree.count;
	}
	return count > 0 ? sum / count : 0;
}

/* Give back memory that has been unused for longer than the average, until the
 * held bytes are within the threshold. */
void
reclaim_collect(struct arena *arena, const struct options *options)
{
	size_t limit = device_limit(arena) < arena->account.total_bytes ?
	    device_limit(arena) :
	    arena->account.total_bytes;
	double threshold = options->garbage_collection_threshold;
	size_t bound = (size_t)(threshold * (double)limit);

	lock_assert_held(&arena->lock);
	if (threshold <= 0 || arena_is_kept(arena))
		return;
	size_t held = device_held(arena);
	if (held <= bound)
		return;
	tcache_drain(arena);
	reclaim_refresh(arena);
	if (oldest_idle(arena, UINT64_MAX) == NULL)
		return;
	counter_add(arena, COUNTER_num_gc, 1);
	struct amount amount = { .want = held - bound,
		.pieces = UINT_MAX,
		.latest = average_tick(arena) };
	shed(arena, &amount);
}

/* ---- Memory with a bound, or a limit on what is unused ------------------ */

static size_t
unused_bytes(const struct arena *arena)
{
	return arena->account.stats.reserved_bytes.all.current -
	    tally_now(&arena->account.tally, PART_ALL, TALLIED_active_bytes);
}

size_t
reclaim_note_live(struct arena *arena, size_t rounded)
{
	size_t live = tally_now(&arena->account.tally, PART_ALL,
			  TALLIED_requested_bytes) +
	    rounded;

	lock_assert_held(&arena->lock);
	return policy_note_live(&arena->policy, live);
}

size_t
reclaim_spare(const struct arena *arena, const struct options *options)
{
	size_t share = options->prefer == PREFER_SPEED ? HOST_SPARE_SHARE_FAST :
							 HOST_SPARE_SHARE;
	size_t spare = arena->policy.most_live / share;

	return spare < HOST_SPARE_LEAST ? HOST_SPARE_LEAST : spare;
}

size_t
reclaim_beyond(
    const struct arena *arena, const struct options *options, size_t bytes)
{
	size_t held =
	    arena_held(arena) + segment_size_for(arena, options, bytes);
	size_t bound = arena->policy.most_live + reclaim_spare(arena, options);

	return held > bound ? held - bound : 0;
}

void
reclaim_bound_again(struct arena *arena)
{
	lock_assert_held(&arena->lock);
	if (arena->traits.is_bounded)
		policy_forget_peak(&arena->policy,
		    tally_now(&arena->account.tally, PART_ALL,
			TALLIED_requested_bytes));
}

void
reclaim_tidy(struct arena *arena, const struct options *options)
{
	size_t unused = unused_bytes(arena);

	lock_assert_held(&arena->lock);
	if (unused > options->pinned_idle) {
		tcache_drain(arena);
		reclaim_shed(arena, unused - options->pinned_idle);
	}
}

/* ---- Waiting ----------------------------------------------------------- */

/* Wait for the oldest pending block that can be waited for; with `addresses`,
 * or for a VACATED one. */
static bool
wait_pending(struct arena *arena, bool addresses) HOLDS(arena->lock)
{
	struct use *use = NULL;

	ASSERT(arena->waiting.count > 0 || list_empty(&arena->waiting.pending));
	for (struct list *l = arena->waiting.pending.next;
	     l != &arena->waiting.pending && use == NULL; l = l->next)
		if (addresses ||
		    block_state(block_of_pending(l)) != BLOCK_VACATED)
			use = use_hold(&block_of_pending(l)->pending);
	if (use == NULL)
		return false;
	counter_add(arena, COUNTER_num_host_waits, 1);
	served_here.served.host_waits++;
	lock_leave(&arena->lock);
	enum weir_status status = use_wait(use);
	lock_enter(&arena->lock);
	use_release(&arena->waiting, use);
	reclaim_poll(arena, RECLAIM_SKIPS);
	return status == WEIR_OK;
}

/* The bytes of the latest idle blocks of a heap whose work is not done. */
static size_t
uncompleted_bytes(const struct stream_heap *heap)
{
	struct tree_node *node = tree_last(&heap->idle.tree);
	size_t bytes = 0;

	ASSERT(heap->completed_at < heap->freed_at);
	for (unsigned n = 0; n < FREED_ASKED && node != NULL; n++) {
		const struct block *block = idle_of_node(node)->block;
		if (has_completed(block))
			break;
		bytes += idle_is_right(block) ? block->size : 0;
		node = tree_prev(node);
	}
	return bytes;
}

/* May a block go back once all streams are done? */
static bool
is_free_at_all(const struct block *block)
{
	return block_is_in_run(block);
}

static bool
pool_holds_in_pieces(const struct pool *pool, unsigned *left)
{
	for (struct list *l = pool->freed.next; l != &pool->freed;
	     l = l->next) {
		struct block *block = block_of_pending(l);
		struct span row = { block, block };
		if (*left == 0)
			return true;
		--*left;
		if (has_completed(block))
			continue;
		for (; *left > 0 && is_free_at_all(row.first->prev); --*left)
			row.first = row.first->prev;
		for (; *left > 0 && is_free_at_all(row.last->next); --*left)
			row.last = row.last->next;
		if (segment_releasable(&row) > 0)
			return true;
	}
	return pool->unlisted;
}

/* Does the stream hold back memory only together with others? Looks at its
 * freed blocks. If they are too many, assume that it does. */
static bool
holds_in_pieces(const struct stream_heap *heap)
{
	unsigned left = FREED_ASKED;

	for (int kind = 0; kind < POOL_KINDS; kind++)
		if (pool_holds_in_pieces(&heap->pool[kind], &left))
			return true;
	return false;
}

/* The heap whose stream holds back the most memory, alone or with others. */
static struct stream_heap *
most_uncompleted(struct arena *arena)
{
	struct stream_heap *most = NULL;
	size_t most_bytes = 0;

	for (struct list *l = arena->memory.heaps.next;
	     l != &arena->memory.heaps; l = l->next) {
		struct stream_heap *heap =
		    CONTAINER_OF(l, struct stream_heap, link);
		if (heap->tried == arena->request.tries ||
		    heap->completed_at >= heap->freed_at)
			continue;
		size_t bytes = uncompleted_bytes(heap);
		if (bytes > most_bytes ||
		    (most == NULL && holds_in_pieces(heap))) {
			most = heap;
			most_bytes = bytes;
		}
	}
	return most;
}

static bool
wait_stream(struct arena *arena) HOLDS(arena->lock)
{
	struct stream_heap *heap = most_uncompleted(arena);
	if (heap == NULL)
		return false;
	/* An ended stream cannot be named: wait for the context. */
	struct stream *stream = heap->ended ? arena->any : heap->stream;
	uint64_t tick = order_tick();

	heap->tried = arena->request.tries;
	heap->pins++;
	counter_add(arena, COUNTER_num_host_waits, 1);
	served_here.served.host_waits++;
	lock_leave(&arena->lock);
	enum weir_status status = stream_wait_host(stream);
	lock_enter(&arena->lock);
	if (status == WEIR_OK && heap->completed_at < tick)
		heap->completed_at = tick;
	poll_ended(arena, arena->memory.ending);
	heap->pins--;
	lock_assert_held(&heap->arena->lock);
	heap_drop_if_done(heap);
	return true;
}

bool
reclaim_wait(struct arena *arena)
{
	lock_assert_held(&arena->lock);
	if (wait_pending(arena, false) || wait_stream(arena))
		return true;
	/* Moved memory may still be mapped at its old addresses: wait for
	 * those. */
	if (!wait_pending(arena, true))
		return false;
	segment_unmap_vacated(arena, SIZE_MAX);
	return true;
}

size_t
reclaim_shed(struct arena *arena, size_t want)
{
	struct amount amount = {
		.want = want, .pieces = UINT_MAX, .latest = UINT64_MAX
	};

	lock_assert_held(&arena->lock);
	return shed(arena, &amount);
}

size_t
reclaim_shed_old(struct arena *arena, uint64_t latest, bool *all)
{
	struct amount amount = {
		.want = SHED_BYTES, .pieces = SHED_PIECES, .latest = latest
	};
	size_t bytes = shed(arena, &amount);

	lock_assert_held(&arena->lock);
	*all = bytes < amount.want && amount.pieces > 0;
	return bytes;
}

/* ---- Trim -------------------------------------------------------------- */

/* Count the unmet uses. reclaim_trim() waits for no more than these, because
 * other threads may go on freeing. */
static size_t
unmet_uses(const struct arena *arena)
{
	size_t unmet = 0;

	for (struct list *l = arena->waiting.pending.next;
	     l != &arena->waiting.pending; l = l->next)
		unmet += block_of_pending(l)->pending.unmet;
	return unmet;
}

size_t
reclaim_trim(struct arena *arena, size_t *keep)
{
	size_t sum = 0;

	lock_enter(&arena->lock);
	tcache_drain(arena);
	tcache_report(arena);
	reclaim_begin_waits(arena);
	if (arena->waiting.count > 0)
		counter_add(arena, COUNTER_num_sync_all_streams, 1);
	arena_wait_keeps(arena);
	reclaim_poll(arena, RECLAIM_SKIPS);
	size_t unmet = unmet_uses(arena);
	for (size_t n = 0; n < unmet && arena->waiting.count > 0; n++)
		if (!wait_pending(arena, true))
			break;
	uint64_t latest = order_tick();
	reclaim_refresh(arena);
	while (!arena_is_kept(arena) && unused_bytes(arena) > *keep) {
		struct amount amount = { .want = unused_bytes(arena) - *keep,
			.pieces = UINT_MAX,
			.latest = latest };
		size_t bytes = shed(arena, &amount);
		sum += bytes;
		if (bytes == 0 && !wait_stream(arena))
			break;
	}
	reclaim_bound_again(arena);
	segment_unmap_vacated(arena, SIZE_MAX);
	/* Free addresses without memory, also those that the driver refused to
	 * free before. */
	segment_unreserve(arena);
	size_t stays = unused_bytes(arena);
	*keep -= stays < *keep ? stays : *keep;
	lock_leave(&arena->lock);
	return sum;
}
