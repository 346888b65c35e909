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
 * its live blocks when it is freed.
 */
#include "allocator/request/reclaim.h"

#include "allocator/cache/tcache.h"
#include "allocator/fences/fence.h"
#include "allocator/fences/free.h"
#include "allocator/memory/arena.h"
#include "allocator/memory/block.h"
#include "allocator/memory/counters.h"
#include "allocator/memory/emit.h"
#include "allocator/memory/keep.h"
#include "allocator/memory/promote.h"
#include "allocator/memory/segment.h"
#include "allocator/memory/totals.h"
#include "base/meta.h"
#include "base/os.h"
#include "base/status.h"
#include "streams/event.h"
#include "trace/served.h"

/* Host memory that may stay unused: one part in HOST_SPARE_SHARE of the peak of
 * requested bytes, and at least HOST_SPARE_LEAST. */
enum {
	HOST_SPARE_SHARE = 8,
	HOST_SPARE_SHARE_FAST = 2, /* with prefer:speed */
	HOST_SPARE_LEAST = 16 << 20
};

/* A poll asks ended streams until so many have not completed. A stream that
 * ends after many others is therefore noticed some polls later. */
enum { ENDS_ASKED = 1 };

/* ---- Becoming free ----------------------------------------------------- */

static void
end_pending(struct block *block)
{
	emit_free_completed(block);
	stats_inactive(block->pool, block->size, block->requested);
}

void
reclaim_pending_to(struct block *block, struct pool *pool)
{
	struct stream_heap *owner = block->pool->owner;

	end_pending(block);
	block_set_state(block, BLOCK_UNMAPPING); /* a held state, in no tree */
	block_move(block, pool);
	heap_drop_if_done(owner);
	stream_protect(pool->owner->stream);
	block_free(block);
}

/* Move all blocks of a tree to a pool of the heap of WEIR_STREAM_ANY. */
static void
move_to_any(struct tree *tree, struct pool *any, enum block_state state)
{
	struct tree_node *node;

	while ((node = tree_first(tree)) != NULL) {
		struct block *block = block_of_node(node);
		block_take(block);
		block_move(block, any);
		block_put(block, state);
	}
}

/* Complete a heap: its stream has ended, and all the stream's work is done. */
static void
complete_heap(struct stream_heap *heap)
{
	struct arena *arena = heap->arena;

	heap->completed = true;
	heap_remove_ended(heap);
	fences_drop(heap);
	if (heap->end_event != NULL)
		event_release(heap->stream->context, heap->end_event);
	heap->end_event = NULL;
	for (int kind = 0; kind < POOL_KINDS; kind++) {
		struct pool *pool = &heap->pool[kind];
		struct pool *any = &arena->any_heap->pool[kind];
		move_to_any(&pool->free, any, BLOCK_FREE);
		move_to_any(&pool->unmapped, any, BLOCK_UNMAPPED);
	}
	heap_drop_if_done(heap);
}

/* Record the event of a stream's end. `stream` is WEIR_STREAM_ANY's if the
 * stream itself is gone. */
static void
fence_end(struct stream_heap *heap, struct stream *stream)
{
	struct driver_guard guard;

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
	if (heap->ended)
		return;
	heap_end(heap);
	tcache_end(heap);
}

void
reclaim_end(struct stream_heap *heap)
{
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

	if (heap->end_event == NULL)
		fence_end(heap, heap->arena->any);
	if (heap->end_event == NULL ||
	    driver_enter(heap->stream->context, &guard) != WEIR_OK)
		return false;
	code = driver_peek()->cuEventQuery(heap->end_event);
	driver_leave(&guard);
	return code == CUDA_SUCCESS;
}

/* Query the ends of streams, each in turn, until `unmet` of them are not
 * met. */
static bool
poll_ended(struct arena *arena, unsigned unmet)
{
	bool any = false;

	while (!list_empty(&arena->ended) && unmet > 0) {
		struct list *l = arena->ended.next;
		struct stream_heap *heap =
		    CONTAINER_OF(l, struct stream_heap, ended_link);
		if (end_has_completed(heap)) {
			complete_heap(heap);
			any = true;
			continue;
		}
		list_remove(l);
		list_push_back(&arena->ended, l);
		unmet--;
	}
	return any;
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
		if (block_state(block) == BLOCK_VACATED) {
			list_push_back(&arena->vacated, &block->pending.link);
			continue;
		}
		end_pending(block);
		if (arena->waiting.in_captures)
			block_free(block);
		else if (!keep || block->pool->owner != arena->any_heap ||
		    block->segment->expandable || !tcache_keep_complete(block))
			block_free_since(block);
		any = true;
	}
	return any;
}

static bool
poll_arena(struct arena *arena, unsigned skips, bool keep)
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
	return poll_arena(arena, skips, false);
}

void
reclaim_poll_complete(struct arena *arena)
{
	poll_arena(arena, RECLAIM_SKIPS, true);
}

void
reclaim_glance(struct arena *arena)
{
	struct list done;

	poll_ended(arena, ENDS_ASKED);
	list_init(&done);
	waiting_glance(&arena->waiting, &done);
	free_done(arena, &done, true);
}

/* ---- What can go back to the driver ------------------------------------ */

/* Poll each stream that may have uncompleted frees, without a wait. */
void
reclaim_refresh(struct arena *arena)
{
	status_mute();
	for (struct list *l = arena->heaps.next; l != &arena->heaps;
	     l = l->next) {
		struct stream_heap *heap =
		    CONTAINER_OF(l, struct stream_heap, link);
		if (heap->completed_at <= heap->freed_at)
			fences_ask(heap);
	}
	status_unmute();
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

/*
 * A search over spans: rows of neighbouring free blocks of any pools, because a
 * handle may lie under blocks of several streams.
 */
struct search {
	uint64_t latest; /* the latest free tick of a block */
	/* NULL: find spans whose work is done. Otherwise: find spans that the
	 * work of this stream holds back, alone or with others. */
	const struct stream_heap *waiting;
	/* The results. */
	struct span oldest;
	uint64_t oldest_seq;
	size_t bytes; /* that all spans could give back */
	size_t count;
	uint64_t seqs; /* the sum of the latest free tick of each span */
};

static bool
has_completed(const struct block *block)
{
	return block->freed_at <= block->pool->owner->completed_at;
}

static bool
eligible(const struct block *block, const struct search *search)
{
	return block != NULL && block_state(block) == BLOCK_FREE &&
	    block->freed_at <= search->latest &&
	    (search->waiting != NULL || has_completed(block));
}

static void
consider(struct search *search, const struct span *span, uint64_t seq)
{
	size_t bytes = segment_releasable(span);

	if (bytes == 0)
		return;
	search->bytes += bytes;
	search->count++;
	search->seqs += seq;
	if (search->oldest.first == NULL || seq < search->oldest_seq) {
		search->oldest = *span;
		search->oldest_seq = seq;
	}
}

static void
search_segment(const struct segment *segment, struct search *search)
{
	struct block *next;

	for (struct block *b = segment->first; b != NULL; b = next) {
		struct span span = { b, b };
		uint64_t seq = 0;
		bool held = search->waiting == NULL;

		next = b->next;
		if (!eligible(b, search))
			continue;
		for (next = b; eligible(next, search); next = next->next) {
			span.last = next;
			if (next->freed_at > seq)
				seq = next->freed_at;
			if (next->pool->owner == search->waiting &&
			    !has_completed(next))
				held = true;
		}
		if (held)
			consider(search, &span, seq);
	}
}

static void
search_arena(const struct arena *arena, struct search *search)
{
	for (struct list *l = arena->segments.next; l != &arena->segments;
	     l = l->next)
		search_segment(CONTAINER_OF(l, struct segment, link), search);
}

static void
put_off(struct block *block)
{
	if (block->segment == NULL) /* it is part of another block by now */
		return;
	block->freed_at = order_tick();
	block->pool->owner->freed_at = block->freed_at;
}

/*
 * Give back at least `want` bytes of complete memory with free ticks up to
 * `latest`, the longest unused first. Returns the bytes given back.
 */
static size_t
shed(struct arena *arena, size_t want, uint64_t latest)
{
	size_t freed = 0;

	if (arena->kept > 0)
		return 0;
	/* Moved memory goes back only after its old addresses are unmapped. */
	reclaim_poll(arena, RECLAIM_SKIPS);
	segment_unmap_vacated(arena, SIZE_MAX);
	uint64_t now = order_tick();
	if (latest > now)
		latest = now;
	while (freed < want) {
		struct search search = { .latest = latest };
		search_arena(arena, &search);
		if (search.oldest.first == NULL)
			break;
		size_t bytes = segment_release(&search.oldest, want - freed);
		if (bytes ==
		    0) /* the driver refused: skip the span in this search */
			put_off(search.oldest.first);
		freed += bytes;
	}
	return freed;
}

/* Give back memory that has been unused for longer than the average, until the
 * held bytes are within the threshold. */
void
reclaim_collect(struct arena *arena, const struct options *options)
{
	size_t limit = device_limit(arena) < arena->total_bytes ?
	    device_limit(arena) :
	    arena->total_bytes;
	double threshold = options->garbage_collection_threshold;
	size_t bound = (size_t)(threshold * (double)limit);
	struct search search = { .latest = UINT64_MAX };

	if (threshold <= 0 || arena->kept > 0)
		return;
	size_t held = device_held(arena);
	if (held <= bound)
		return;
	tcache_drain(arena);
	reclaim_refresh(arena);
	search_arena(arena, &search);
	if (search.count == 0)
		return;
	arena->stats.num_gc++;
	shed(arena, held - bound, search.seqs / search.count);
}

/* ---- Memory with a bound, or a limit on what is unused ------------------ */

static size_t
unused_bytes(const struct arena *arena)
{
	return arena->stats.reserved_bytes.all.current -
	    tally_now(&arena->tally, PART_ALL, TALLIED_active_bytes);
}

void
reclaim_bound(
    struct arena *arena, const struct options *options, size_t rounded)
{
	size_t share = options->prefer == PREFER_SPEED ? HOST_SPARE_SHARE_FAST :
							 HOST_SPARE_SHARE;
	size_t live =
	    tally_now(&arena->tally, PART_ALL, TALLIED_requested_bytes) +
	    rounded;
	size_t held =
	    arena_held(arena) + segment_size_for(arena, options, rounded);

	if (arena->most_live < live)
		arena->most_live = live;
	size_t spare = arena->most_live / share;
	if (spare < HOST_SPARE_LEAST)
		spare = HOST_SPARE_LEAST;
	if (held > arena->most_live + spare)
		shed(arena, held - arena->most_live - spare, UINT64_MAX);
}

void
reclaim_bound_again(struct arena *arena)
{
	if (arena->traits.is_bounded)
		arena->most_live =
		    tally_now(&arena->tally, PART_ALL, TALLIED_requested_bytes);
}

void
reclaim_tidy(struct arena *arena, const struct options *options)
{
	size_t unused = unused_bytes(arena);

	if (unused > options->pinned_idle) {
		tcache_drain(arena);
		shed(arena, unused - options->pinned_idle, UINT64_MAX);
	}
}

/* ---- Waiting ----------------------------------------------------------- */

/* Wait for the oldest pending block that can be waited for; with `addresses`,
 * or for a VACATED one. */
static bool
wait_pending(struct arena *arena, bool addresses) UNCHECKED
{
	struct use *use = NULL;

	for (struct list *l = arena->waiting.pending.next;
	     l != &arena->waiting.pending && use == NULL; l = l->next)
		if (addresses ||
		    block_state(block_of_pending(l)) != BLOCK_VACATED)
			use = use_hold(&block_of_pending(l)->pending);
	if (use == NULL)
		return false;
	arena->stats.num_host_waits++;
	served_here.served.host_waits++;
	lock_leave(&arena->lock);
	enum weir_status status = use_wait(use);
	lock_enter(&arena->lock);
	use_release(&arena->waiting, use);
	reclaim_poll(arena, RECLAIM_SKIPS);
	return status == WEIR_OK;
}

/* The heap whose stream holds back the most memory. */
static struct stream_heap *
most_uncompleted(struct arena *arena)
{
	struct stream_heap *most = NULL;
	size_t most_bytes = 0;

	for (struct list *l = arena->heaps.next; l != &arena->heaps;
	     l = l->next) {
		struct stream_heap *heap =
		    CONTAINER_OF(l, struct stream_heap, link);
		struct search search = { .latest = UINT64_MAX,
			.waiting = heap };
		if (heap->tried == arena->tries)
			continue;
		search_arena(arena, &search);
		if (search.bytes > most_bytes) {
			most = heap;
			most_bytes = search.bytes;
		}
	}
	return most;
}

static bool
wait_stream(struct arena *arena) UNCHECKED
{
	struct stream_heap *heap = most_uncompleted(arena);
	if (heap == NULL)
		return false;
	/* An ended stream cannot be named: wait for the context. */
	struct stream *stream = heap->ended ? arena->any : heap->stream;
	uint64_t tick = order_tick();

	heap->tried = arena->tries;
	heap->pins++;
	arena->stats.num_host_waits++;
	served_here.served.host_waits++;
	lock_leave(&arena->lock);
	enum weir_status status = stream_wait_host(stream);
	lock_enter(&arena->lock);
	if (status == WEIR_OK && heap->completed_at < tick)
		heap->completed_at = tick;
	poll_ended(arena, arena->ending);
	heap->pins--;
	heap_drop_if_done(heap);
	return true;
}

bool
reclaim_wait(struct arena *arena)
{
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
	return shed(arena, want, UINT64_MAX);
}

size_t
reclaim_shed_old(struct arena *arena, uint64_t latest)
{
	return shed(arena, SIZE_MAX, latest);
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
	arena->tries++;
	if (arena->waiting.count > 0)
		arena->stats.num_sync_all_streams++;
	arena_wait_keeps(arena);
	reclaim_poll(arena, RECLAIM_SKIPS);
	size_t unmet = unmet_uses(arena);
	for (size_t n = 0; n < unmet && arena->waiting.count > 0; n++)
		if (!wait_pending(arena, true))
			break;
	uint64_t latest = order_tick();
	reclaim_refresh(arena);
	while (arena->kept == 0 && unused_bytes(arena) > *keep) {
		size_t bytes = shed(arena, unused_bytes(arena) - *keep, latest);
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
