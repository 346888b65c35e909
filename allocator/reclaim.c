/*
 * Getting memory that is not simply there.
 *
 * Note [Reclaim ladder]
 *
 * A request that its own pool cannot serve tries, in this order, and searches
 * again after every step that changed something:
 *
 *   1. memory of no stream, which is complete everywhere
 *   2. pending blocks whose uses have ended meanwhile
 *   3. free blocks of other streams that this one may use without a wait
 *   4. mapping such memory, and its own, from several places at one
 *   5. memory behind a wait on the device, as far as `prefer` has it
 *   6. new memory from the driver, within the limit; before it, what the
 *      collector finds old (garbage_collection_threshold)
 *   7. memory behind a wait on the device, whatever `prefer` says
 *   8. memory that other pools hold free and no work uses any more goes back
 *      to the driver, the longest unused first, as much as is missing
 *   9. the host waits for pending blocks, the oldest first, one at a time
 *  10. the host waits for one stream at a time whose free memory is then as
 *      in 8
 *
 * Only 9 and 10 wait, with no lock held, and for no more than is needed. When
 * all of it is exhausted the request fails.
 *
 * Note [What has passed]
 *
 * A free block remembers the tick (streams/order.h) of the latest free in it.
 * Once all work queued on a stream at a tick is done, pools->passed_at is that
 * tick, and blocks freed until then may be used by anyone, and unmapped. Other
 * streams may also use what was freed before a point that they are behind.
 * Memory of no stream has always passed.
 *
 * Note [A stream ends]
 *
 * At its end an event is recorded behind all the stream's work. When that has
 * passed its free memory and addresses go to the pools of no stream, and so
 * does each of its live blocks when it is freed.
 */
#include "allocator/arena.h"

#include "base/meta.h"
#include "base/status.h"
#include "streams/event.h"

/* How many late marks of a stream a search for memory looks past. */
enum { SKIPS = 64 };

/* ---- Becoming free ----------------------------------------------------- */

void
reclaim_put(struct block *block)
{
	struct arena *arena = block->arena;
	struct pools *owner = block->pool->owner;

	block_move(block, block_home(block));
	block->freed_at = order_tick();
	block->pool->owner->freed_at = block->freed_at;
	block_put(block, BLOCK_FREE);
	pools_drop_if_done(arena, owner);
}

static void
count_inactive(struct block *block)
{
	struct pool *pool = block->pool;

	stats_change(pool, STAT3_active, -1);
	stats_change(pool, STAT3_active_bytes, -(int64_t)block->size);
	stats_change(pool, STAT3_requested_bytes, -(int64_t)block->requested);
}

/* All blocks of a tree go to the pools of no stream. */
static void
give_to_any(struct tree *tree, struct pool *any, enum block_state state)
{
	struct tree_node *node;

	while ((node = tree_first(tree)) != NULL) {
		struct block *block = block_of_node(node);
		block_take(block);
		block_move(block, any);
		block_put(block, state);
	}
}

/* All work of a stream that has ended is done. */
static void
pass(struct pools *pools)
{
	struct arena *arena = pools->arena;

	pools->passed = true;
	arena->ending--;
	if (pools->beat_event != NULL)
		event_give(pools->stream->context, pools->beat_event);
	pools->beat_event = NULL;
	if (pools->end_event != NULL)
		event_give(pools->stream->context, pools->end_event);
	pools->end_event = NULL;
	for (int kind = 0; kind < POOL_KINDS; kind++) {
		struct pool *pool = &pools->pool[kind];
		struct pool *any = &arena->any_pools->pool[kind];
		give_to_any(&pool->free, any, BLOCK_FREE);
		give_to_any(&pool->unmapped, any, BLOCK_UNMAPPED);
	}
	pools_drop_if_done(arena, pools);
}

/* Record the end of a stream; on the context where the stream is gone. */
static void
mark_end(struct pools *pools, struct stream *stream)
{
	struct driver_guard guard;
	CUevent event;

	status_mute();
	if (driver_enter(stream->context, &guard) == WEIR_OK) {
		if (event_take(stream->context, &event) == WEIR_OK) {
			if (stream_record(stream, event) == WEIR_OK)
				pools->end_event = event;
			else
				event_give(stream->context, event);
		}
		driver_leave(&guard);
	}
	status_unmute();
}

void
reclaim_end_later(struct pools *pools)
{
	if (pools->ended)
		return;
	pools->ended = true;
	pools->arena->ending++;
}

void
reclaim_end(struct pools *pools)
{
	if (pools->ended)
		return;
	reclaim_end_later(pools);
	mark_end(pools, pools->stream);
}

static bool
end_has_passed(struct pools *pools)
{
	struct driver_guard guard;
	CUresult code;

	if (pools->end_event == NULL)
		mark_end(pools, pools->arena->any);
	if (pools->end_event == NULL ||
	    driver_enter(pools->stream->context, &guard) != WEIR_OK)
		return false;
	code = driver_peek()->cuEventQuery(pools->end_event);
	driver_leave(&guard);
	return code == CUDA_SUCCESS;
}

static bool
poll_ended(struct arena *arena)
{
	bool any = false;
	struct list *next;

	if (arena->ending == 0)
		return false;
	for (struct list *l = arena->pools.next; l != &arena->pools; l = next) {
		struct pools *pools = CONTAINER_OF(l, struct pools, link);
		next = l->next;
		if (pools->ended && !pools->passed && end_has_passed(pools)) {
			pass(pools);
			any = true;
		}
	}
	return any;
}

bool
reclaim_poll(struct arena *arena, unsigned skips)
{
	struct list done;
	bool any = poll_ended(arena);

	list_init(&done);
	waiting_poll(&arena->waiting, skips, &done);
	while (!list_empty(&done)) {
		struct block *block = block_of_pending(done.next);
		list_remove(&block->pending.link);
		if (block->state == BLOCK_LEFT) {
			list_push_back(&arena->left, &block->pending.link);
			continue;
		}
		count_inactive(block);
		reclaim_put(block);
		any = true;
	}
	return any;
}

/* ---- What may be used without a wait ----------------------------------- */

uint64_t
pools_until(const struct pools *pools, const struct pools *by)
{
	uint64_t until = pools->passed_at;

	if (pools == by)
		return UINT64_MAX;
	if (by->ordered) {
		uint64_t behind = order_until(by->stream, pools->stream);
		until = behind > until ? behind : until;
	}
	return until;
}

/*
 * May a mark be put on the stream from any thread, with no effect on others? A
 * record on the legacy default stream comes between all blocking streams.
 */
static bool
can_beat(const struct pools *pools)
{
	const struct stream *stream = pools->stream;

	return !pools->ended && stream->handle != WEIR_STREAM_ANY &&
	    stream->thread == 0 && !stream_orders_others(stream);
}

/* Record a mark on the stream, unless there is one that says as much. */
static bool
beat(struct pools *pools)
{
	struct stream *stream = pools->stream;
	struct driver_guard guard;
	CUevent event;

	if (pools->beat_event != NULL && pools->beat_at > pools->freed_at)
		return true;
	if (!can_beat(pools) ||
	    driver_enter(stream->context, &guard) != WEIR_OK)
		return false;
	bool done = false;
	if (event_take(stream->context, &event) == WEIR_OK) {
		uint64_t tick = order_tick();
		done = stream_record(stream, event) == WEIR_OK;
		if (done && pools->beat_event != NULL)
			event_give(stream->context, pools->beat_event);
		if (done) {
			pools->beat_event = event;
			pools->beat_at = tick;
		} else {
			event_give(stream->context, event);
		}
	}
	driver_leave(&guard);
	return done;
}

/* Has the latest mark passed? */
static void
listen(struct pools *pools)
{
	struct stream *stream = pools->stream;
	struct driver_guard guard;

	if (pools->beat_event == NULL ||
	    driver_enter(stream->context, &guard) != WEIR_OK)
		return;
	if (driver_peek()->cuEventQuery(pools->beat_event) == CUDA_SUCCESS) {
		if (pools->passed_at < pools->beat_at)
			pools->passed_at = pools->beat_at;
		event_give(stream->context, pools->beat_event);
		pools->beat_event = NULL;
	}
	driver_leave(&guard);
}

static bool
has_free(const struct pools *pools)
{
	return pools->pool[POOL_SMALL].free.count > 0 ||
	    pools->pool[POOL_LARGE].free.count > 0;
}

/* See which other streams have passed, and mark those that have not, for the
 * next time. No more than a few are asked: the rest have their turn later. */
static void
ask_others(struct pools *mine)
{
	enum { ASKED = 64 };
	struct arena *arena = mine->arena;
	struct list *l = arena->pools.next;

	status_mute();
	for (unsigned n = 0; l != &arena->pools && n < ASKED; l = l->next) {
		struct pools *pools = CONTAINER_OF(l, struct pools, link);
		if (pools == mine || pools == arena->any_pools ||
		    pools->passed_at > pools->freed_at || !has_free(pools))
			continue;
		n++;
		listen(pools);
		if (pools->passed_at <= pools->freed_at &&
		    pools->beat_event == NULL)
			beat(pools);
	}
	status_unmute();
}

/* ---- What can go back to the driver ------------------------------------ */

/* Is the stream idle right now? False if it cannot be asked. */
static bool
stream_idle(struct pools *pools)
{
	struct stream *stream = pools->stream;
	struct driver_guard guard;
	bool idle = false;

	if (pools->ended || stream->handle == WEIR_STREAM_ANY ||
	    stream->thread != 0)
		return false;
	if (driver_enter(stream->context, &guard) != WEIR_OK)
		return false;
	if (!stream_capturing(stream))
		idle = driver_peek()->cuStreamQuery(stream->handle) ==
		    CUDA_SUCCESS;
	driver_leave(&guard);
	return idle;
}

/* Bring passed_at up to date where that takes no wait. */
static void
refresh_passed(struct arena *arena)
{
	status_mute();
	for (struct list *l = arena->pools.next; l != &arena->pools;
	     l = l->next) {
		struct pools *pools = CONTAINER_OF(l, struct pools, link);
		uint64_t tick = order_tick();
		if (pools->passed_at <= pools->freed_at && stream_idle(pools))
			pools->passed_at = tick;
	}
	status_unmute();
}

/*
 * A search over spans: runs of neighbouring free blocks, whatever their pools,
 * since a handle may lie under blocks of several streams.
 */
struct search {
	uint64_t latest; /* freed no later than this */
	/* Spans whose work is done, if NULL; else spans that are held back by
	 * the work of this stream, alone or with others. */
	const struct pools *waiting;
	/* Found. */
	struct span oldest;
	uint64_t oldest_seq;
	size_t bytes; /* that could be given back, of all */
	size_t count;
	uint64_t seqs; /* sum over spans of the latest free in each */
};

static bool
has_passed(const struct block *block)
{
	return block->freed_at <= block->pool->owner->passed_at;
}

static bool
eligible(const struct block *block, const struct search *search)
{
	return block != NULL && block->state == BLOCK_FREE &&
	    block->freed_at <= search->latest &&
	    (search->waiting != NULL || has_passed(block));
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
			    !has_passed(next))
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

/*
 * Give back at least `want` bytes, of what was freed no later than `latest`
 * and has passed, the longest unused first. Returns the bytes given back.
 */
static size_t
shed(struct arena *arena, size_t want, uint64_t latest)
{
	size_t freed = 0;

	segment_unmap_left(arena, SIZE_MAX);
	while (freed < want) {
		struct search search = { .latest = latest };
		search_arena(arena, &search);
		if (search.oldest.first == NULL)
			break;
		size_t bytes = segment_release(&search.oldest, want - freed);
		if (bytes == 0) /* refused: not again in this search */
			search.oldest.first->freed_at = order_tick();
		freed += bytes;
	}
	return freed;
}

/* Give back what has been unused for longer than the average, until what is
 * held is within the threshold. */
static void
collect(struct arena *arena, const struct options *options)
{
	size_t limit = arena->limit < arena->total_bytes ? arena->limit :
							   arena->total_bytes;
	double threshold = options->garbage_collection_threshold;
	size_t bound = (size_t)(threshold * (double)limit);
	size_t held = arena->stats.reserved_bytes.all.current;
	struct search search = { .latest = UINT64_MAX };

	if (threshold <= 0 || held <= bound)
		return;
	refresh_passed(arena);
	search_arena(arena, &search);
	if (search.count == 0)
		return;
	arena->stats.num_gc++;
	shed(arena, held - bound, search.seqs / search.count);
}

/* ---- Waiting ----------------------------------------------------------- */

/* Wait for the oldest pending block that can be waited for; for memory, or for
 * addresses as well. */
static bool
wait_pending(struct arena *arena, bool addresses) UNCHECKED
{
	struct use *use = NULL;

	for (struct list *l = arena->waiting.pending.next;
	     l != &arena->waiting.pending && use == NULL; l = l->next)
		if (addresses || block_of_pending(l)->state != BLOCK_LEFT)
			use = use_hold(&block_of_pending(l)->pending);
	if (use == NULL)
		return false;
	arena->stats.num_host_waits++;
	lock_leave(&arena->lock);
	enum weir_status status = use_wait(use);
	lock_enter(&arena->lock);
	use_release(use);
	reclaim_poll(arena, SKIPS);
	return status == WEIR_OK;
}

/* The pools with most memory that waiting for their stream would let go. */
static struct pools *
most_unpassed(struct arena *arena)
{
	struct pools *most = NULL;
	size_t most_bytes = 0;

	for (struct list *l = arena->pools.next; l != &arena->pools;
	     l = l->next) {
		struct pools *pools = CONTAINER_OF(l, struct pools, link);
		struct search search = { .latest = UINT64_MAX,
			.waiting = pools };
		if (pools->tried == arena->tries)
			continue;
		search_arena(arena, &search);
		if (search.bytes > most_bytes) {
			most = pools;
			most_bytes = search.bytes;
		}
	}
	return most;
}

static bool
wait_stream(struct arena *arena) UNCHECKED
{
	struct pools *pools = most_unpassed(arena);
	if (pools == NULL)
		return false;
	/* A stream that is gone cannot be named: wait for the context. */
	struct stream *stream = pools->ended ? arena->any : pools->stream;
	uint64_t tick = order_tick();

	pools->tried = arena->tries;
	pools->pins++;
	arena->stats.num_host_waits++;
	lock_leave(&arena->lock);
	enum weir_status status = stream_wait_host(stream);
	lock_enter(&arena->lock);
	if (status == WEIR_OK && pools->passed_at < tick)
		pools->passed_at = tick;
	poll_ended(arena);
	pools->pins--;
	pools_drop_if_done(arena, pools);
	return true;
}

/* ---- Waits on the device ----------------------------------------------- */

/* Can waits be put into the stream? */
static bool
can_wait(struct pools *pools)
{
	struct stream *stream = pools->stream;
	struct driver_guard guard;

	if (stream->handle == WEIR_STREAM_ANY || pools->ended ||
	    driver_enter(stream->context, &guard) != WEIR_OK)
		return false;
	bool capturing = stream_capturing(stream);
	driver_leave(&guard);
	return !capturing;
}

static bool
wait_for_event(struct pools *pools, CUevent event)
{
	struct stream *stream = pools->stream;
	struct driver_guard guard;

	if (driver_enter(stream->context, &guard) != WEIR_OK)
		return false;
	CUresult code =
	    driver_peek()->cuStreamWaitEvent(stream->handle, event, 0);
	driver_leave(&guard);
	if (code != CUDA_SUCCESS)
		return false;
	pools->arena->stats.num_gpu_waits++;
	pools->stats.num_gpu_waits++;
	return true;
}

/* Put a stream behind all that was freed on another. */
static bool
follow_pools(struct pools *mine, struct pools *other)
{
	if (other->freed_at <= pools_until(other, mine))
		return true;
	if (!beat(other) || !wait_for_event(mine, other->beat_event))
		return false;
	order_learn(mine->stream, other->stream, other->beat_at);
	return true;
}

/* Make a pending block free memory of these pools, behind waits. */
static bool
claim(struct pools *mine, struct block *block)
{
	struct arena *arena = mine->arena;
	struct pools *owner = block->pool->owner;
	struct driver_guard guard;
	uint64_t waits = 0;

	if (owner != mine && owner != arena->any_pools &&
	    block->freed_at > pools_until(owner, mine) &&
	    !follow_pools(mine, owner))
		return false;
	if (driver_enter(mine->stream->context, &guard) != WEIR_OK)
		return false;
	bool done = use_follow(&block->pending, mine->stream, &waits);
	driver_leave(&guard);
	arena->stats.num_gpu_waits += waits;
	mine->stats.num_gpu_waits += waits;
	if (!done)
		return false;
	use_clear(&arena->waiting, &block->pending);
	count_inactive(block);
	block->state = BLOCK_LEAVING; /* in no tree; it counts as held */
	block_move(block, &mine->pool[block->pool->kind]);
	pools_drop_if_done(arena, owner);
	reclaim_put(block);
	return true;
}

/* Bytes that are not in use by callers, of a kind: what waits can bring. */
static size_t
idle_bytes(const struct arena *arena, enum pool_kind kind)
{
	const struct weir_stats *stats = &arena->stats;

	return kind == POOL_SMALL ? stats->reserved_bytes.small_pool.current -
		stats->allocated_bytes.small_pool.current :
				    stats->reserved_bytes.large_pool.current -
		stats->allocated_bytes.large_pool.current;
}

/* ---- The ladder -------------------------------------------------------- */

/* One request on its way. */
struct request {
	struct pools *pools;
	const struct options *options;
	size_t rounded;
	enum pool_kind kind;
	size_t need;       /* bytes the driver or the limit could not give */
	struct block *got; /* ACTIVE, of pools */
};

static enum weir_status
hand(struct request *r, struct block *block)
{
	enum weir_status status = pool_cut(block, r->options, r->rounded);
	if (status != WEIR_OK)
		return status;
	block_move(block, &r->pools->pool[r->kind]);
	r->got = block;
	return WEIR_OK;
}

/* Requests of no stream are served from segments of the driver only. */
static enum weir_status
search_free(struct request *r)
{
	struct pools *any = r->pools->arena->any_pools;
	struct block *block = pool_find(&r->pools->pool[r->kind], r->options,
	    r->rounded, r->pools == any, UINT64_MAX);

	if (block == NULL && r->pools != any)
		block = pool_find(&any->pool[r->kind], r->options, r->rounded,
		    false, UINT64_MAX);
	return block != NULL ? hand(r, block) : WEIR_OK;
}

/* The best block of another stream that may be used already. */
static enum weir_status
search_others(struct request *r)
{
	struct arena *arena = r->pools->arena;
	struct block *best = NULL;

	for (struct list *l = arena->pools.next; l != &arena->pools;
	     l = l->next) {
		struct pools *pools = CONTAINER_OF(l, struct pools, link);
		struct pool *pool = &pools->pool[r->kind];
		if (pools == r->pools || pool->free.count == 0)
			continue;
		struct block *block = pool_find(pool, r->options, r->rounded,
		    r->pools == arena->any_pools, pools_until(pools, r->pools));
		if (block != NULL && (best == NULL || block->size < best->size))
			best = block;
	}
	return best != NULL ? hand(r, best) : WEIR_OK;
}

/* Everything that takes no wait and nothing new. */
static enum weir_status
search_all(struct request *r)
{
	enum weir_status status = search_free(r);

	if (status == WEIR_OK && r->got == NULL)
		status = search_others(r);
	return status;
}

/* Map what may be used, new or not, until there is a block for the request:
 * another thread may take what was mapped for it. A shortage is not told yet:
 * the ladder may still make it good. */
static enum weir_status
grow(struct request *r, enum grow_how how)
{
	struct pool *pool = &r->pools->pool[r->kind];
	enum weir_status status = WEIR_OK;

	while (status == WEIR_OK && r->got == NULL) {
		status_mute();
		status =
		    segment_grow(pool, r->options, r->rounded, how, &r->need);
		if (status != WEIR_OK && status != WEIR_ENOMEM)
			return status_unmute_and_tell();
		status_unmute();
		if (status == WEIR_OK && r->pools->arena->forgotten)
			return status_set(WEIR_ECONTEXT,
			    "device %d has just been reset",
			    r->pools->arena->device);
		if (status == WEIR_OK)
			status = search_free(r);
	}
	return status;
}

/* Move memory together if that is enough; no shortage is an error here. */
static enum weir_status
remap(struct request *r)
{
	enum weir_status status;

	if (idle_bytes(r->pools->arena, POOL_SMALL) +
		idle_bytes(r->pools->arena, POOL_LARGE) <
	    r->rounded)
		return WEIR_OK;
	status = grow(r, GROW_MOVED);
	return status == WEIR_ENOMEM ? WEIR_OK : status;
}

static enum weir_status
search_and_remap(struct request *r)
{
	enum weir_status status = search_all(r);

	if (status == WEIR_OK && r->got == NULL)
		status = remap(r);
	return status;
}

/* Take pending blocks behind waits, the oldest first, while they may help. */
static enum weir_status
claim_pending(struct request *r, bool only_mine)
{
	struct arena *arena = r->pools->arena;
	enum weir_status status = WEIR_OK;
	struct list *next;
	size_t got = 0;

	for (struct list *l = arena->waiting.pending.next;
	     l != &arena->waiting.pending && status == WEIR_OK &&
	     r->got == NULL;
	     l = next) {
		struct block *block = block_of_pending(l);
		size_t size = block->size;
		next = l->next;
		if (block->state == BLOCK_LEFT ||
		    block->pool->kind != r->kind ||
		    (only_mine && block->pool->owner != r->pools) ||
		    !claim(r->pools, block))
			continue;
		got += size;
		if (got >= r->rounded || size >= r->rounded)
			status = search_free(r);
	}
	return status;
}

/* Put the stream behind one other after the other. */
static enum weir_status
follow_others(struct request *r)
{
	struct arena *arena = r->pools->arena;
	enum weir_status status = WEIR_OK;
	struct list *next;

	for (struct list *l = arena->pools.next;
	     l != &arena->pools && status == WEIR_OK && r->got == NULL;
	     l = next) {
		struct pools *pools = CONTAINER_OF(l, struct pools, link);
		next = l->next;
		if (pools == r->pools || pools == arena->any_pools ||
		    pools->pool[r->kind].free.count == 0 ||
		    pools->freed_at <= pools_until(pools, r->pools) ||
		    !follow_pools(r->pools, pools))
			continue;
		status = search_all(r);
	}
	return status;
}

static enum weir_status
wait_on_device(struct request *r, bool all)
{
	enum weir_status status = WEIR_OK;

	if (idle_bytes(r->pools->arena, r->kind) < r->rounded ||
	    !can_wait(r->pools))
		return WEIR_OK;
	status_mute();
	status = claim_pending(r, true);
	if (all && status == WEIR_OK && r->got == NULL)
		status = claim_pending(r, false);
	if (all && status == WEIR_OK && r->got == NULL)
		status = follow_others(r);
	status_unmute();
	if (status == WEIR_OK && r->got == NULL)
		status = search_and_remap(r);
	return status;
}

/* Steps 7 to 10. */
static enum weir_status
take_hard(struct request *r)
{
	struct arena *arena = r->pools->arena;
	enum weir_status status = wait_on_device(r, true);
	bool waited = false;

	if (status != WEIR_OK || r->got != NULL)
		return status;
	arena->tries++;
	refresh_passed(arena);
	status = WEIR_ENOMEM;
	while (status == WEIR_ENOMEM) {
		if (shed(arena, r->need, UINT64_MAX) == 0) {
			if (!waited) {
				arena->stats.num_alloc_retries++;
				r->pools->stats.num_alloc_retries++;
			}
			waited = true;
			if (!wait_pending(arena, false) && !wait_stream(arena))
				break;
		}
		status = search_all(r);
		if (status == WEIR_OK && r->got == NULL)
			status = grow(r, GROW_EXACT);
	}
	return status;
}

static enum weir_status
take(struct request *r)
{
	struct arena *arena = r->pools->arena;
	enum weir_status status = search_free(r);

	if (status != WEIR_OK || r->got != NULL)
		return status;
	r->pools->ordered = can_wait(r->pools);
	reclaim_poll(arena, SKIPS);
	ask_others(r->pools);
	status = search_and_remap(r);
	if (status != WEIR_OK || r->got != NULL)
		return status;
	if (r->options->prefer != PREFER_SPEED) {
		status = wait_on_device(r, r->options->prefer == PREFER_MEMORY);
		if (status != WEIR_OK || r->got != NULL)
			return status;
	}
	collect(arena, r->options);
	status = grow(r, GROW_AHEAD);
	if (status == WEIR_ENOMEM)
		status = grow(r, GROW_EXACT);
	if (status != WEIR_ENOMEM)
		return status;
	if (r->rounded > arena->total_bytes || r->rounded > arena->limit)
		return status;
	return take_hard(r);
}

enum weir_status
reclaim_take(struct pools *pools, const struct options *options, size_t rounded,
    struct block **out)
{
	struct request r = { .pools = pools,
		.options = options,
		.rounded = rounded,
		.kind = size_kind(rounded),
		.need = rounded };

	if (options->reclaim_always) {
		reclaim_poll(pools->arena, SKIPS);
		refresh_passed(pools->arena);
		shed(pools->arena, SIZE_MAX, UINT64_MAX);
	}
	enum weir_status status = take(&r);
	*out = r.got;
	return status;
}

/* ---- Trim -------------------------------------------------------------- */

static size_t
unused_bytes(const struct arena *arena)
{
	return arena->stats.reserved_bytes.all.current -
	    arena->stats.active_bytes.all.current;
}

/* What there is to wait for now; other threads may go on freeing. */
static size_t
unmet_uses(const struct arena *arena)
{
	size_t unmet = 0;

	for (struct list *l = arena->waiting.pending.next;
	     l != &arena->waiting.pending; l = l->next)
		unmet += block_of_pending(l)->pending.unmet;
	return unmet;
}

enum weir_status
reclaim_trim(struct arena *arena, size_t keep, size_t *freed)
{
	size_t sum = 0;

	lock_enter(&arena->lock);
	arena->tries++;
	if (arena->waiting.count > 0)
		arena->stats.num_sync_all_streams++;
	reclaim_poll(arena, SKIPS);
	size_t unmet = unmet_uses(arena);
	for (size_t n = 0; n < unmet && arena->waiting.count > 0; n++)
		if (!wait_pending(arena, true))
			break;
	uint64_t latest = order_tick();
	refresh_passed(arena);
	while (unused_bytes(arena) > keep) {
		size_t bytes = shed(arena, unused_bytes(arena) - keep, latest);
		sum += bytes;
		if (bytes == 0 && !wait_stream(arena))
			break;
	}
	/* Addresses that a stream left, or that the driver refused before. */
	segment_unreserve(arena);
	lock_leave(&arena->lock);
	*freed = sum;
	return WEIR_OK;
}
