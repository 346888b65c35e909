/*
 * Blocks: makes, cuts and merges them, and keeps each in the right tree.
 *
 * This file keeps the invariants I-1, I-4 and I-5 of docs/invariants.md: blocks
 * tile their segment, links are symmetric, and neighbours that can be merged
 * are merged.
 *
 * Note [Free ticks]
 *
 * A free block has one free tick: the tick of the latest free in it, on its
 * stream. Other streams may use the block once they are ordered after that
 * tick. Two neighbours of one stream are merged only if no event was recorded
 * on the stream between their frees (block->epoch counts the events). Every
 * event that other streams can wait for then covers both frees or neither, so
 * merging loses nothing. While a device has one stream, all neighbours are
 * merged, because no other stream waits; but not where memory is lent to other
 * processes, which get what was free before a fence.
 *
 * Blocks that are not merged may serve a request together. A run is a row of
 * neighbours that are of one stream's pool or complete. The first block of the
 * pool in the run has the run's size and stands for the run in the tree. A
 * complete block may be part of the runs of two streams, one before it and one
 * after it. In the heap of WEIR_STREAM_ANY each complete block is a run by
 * itself.
 */
#include "allocator/memory/block.h"

#include "allocator/account/counters.h"
#include "allocator/memory/arena.h"
#include "allocator/memory/emit.h"
#include "allocator/memory/handle.h"
#include "allocator/memory/idle.h"
#include "allocator/memory/lookup.h"
#include "allocator/memory/starts.h"
#include "allocator/memory/tuning.h"
#include "base/meta.h"
#include "base/status.h"

enum { LINE = 64 }; /* bytes of a cache line */

_Static_assert(offsetof(struct block, pending) +
	    offsetof(struct pending, uses) + sizeof(struct use *) <=
	LINE,
    "what a free looks at is in one line");

/* The distance of blocks in a slab; each has cache lines of its own. */
enum { STRIDE = (sizeof(struct block) + LINE - 1) / LINE * LINE };

/*
 * Make a slab of records. Slabs are never freed, and a record never changes its
 * arena: a lookup without the lock may find a record that has just become
 * another block, and must still find the arena to lock.
 */
static enum weir_status
make_slab(struct arena *arena)
{
	char *slab = meta_zalloc(BLOCKS_A_SLAB * STRIDE + LINE);
	if (slab == NULL)
		return status_set(WEIR_EHOSTMEM, "no host memory for blocks");
	slab += -(uintptr_t)slab % LINE;
	for (size_t i = 0; i < BLOCKS_A_SLAB; i++) {
		struct block *block =
		    (struct block *)(void *)(slab + i * STRIDE);
		block->arena = arena;
		list_init(&block->pending.link);
		block->next = arena->memory.spare;
		arena->memory.spare = block;
	}
	return WEIR_OK;
}

enum weir_status
block_make_room(struct arena *arena, CUdeviceptr addr)
{
	enum weir_status status = lookup_prepare(addr);

	lock_assert_held(&arena->lock);
	ASSERT(addr % FINE_GRANULE == 0);
	return status == WEIR_OK && arena->memory.spare == NULL ?
	    make_slab(arena) :
	    status;
}

enum weir_status
block_new(struct arena *arena, CUdeviceptr addr, struct block **out)
{
	struct leaf *leaf;
	struct block *block;
	enum weir_status status = block_spare(arena, addr, &leaf, &block);

	lock_assert_held(&arena->lock);
	ASSERT(addr % FINE_GRANULE == 0);
	if (status != WEIR_OK)
		return status;
	block->addr = addr;
	block->size = 0;
	block_set_state(block, BLOCK_UNMAPPED);
	block->segment = NULL;
	block->pool = NULL;
	block->prev = NULL;
	block->next = NULL;
	block->freed_at = 0;
	block->epoch = 0;
	block->run = RUN_NONE;
	*out = block;
	return WEIR_OK;
}

void
block_delete(struct block *block)
{
	struct arena *arena = block->arena;

	lock_assert_held(&block->arena->lock);
	ASSERT(block->pending.uses == NULL && list_empty(&block->pending.link));
	ASSERT(block->idle == NULL);
	ASSERT(block->requested == 0 && block->stack == 0);
	block_set_state(block, BLOCK_UNMAPPED);
	block->segment = NULL;
	block->next = arena->memory.spare;
	arena->memory.spare = block;
}

enum weir_status
block_prepare(struct arena *arena, CUdeviceptr addr)
{
	struct block *block;
	enum weir_status status = block_new(arena, addr, &block);

	ASSERT(addr != 0);
	lock_assert_held(&arena->lock);
	if (status == WEIR_OK) {
		lock_assert_held(&block->arena->lock);
		block_delete(block);
	}
	return status;
}

void
block_split(struct block *block, size_t size, struct block *rest)
{
	struct block *next = block->next;
	struct pool *pool = block->pool;
	enum block_state state = block_state(block);

	lock_assert_held(&block->arena->lock);
	ASSERT(block_state(block) != BLOCK_ACTIVE);
	ASSERT(block_state(block) != BLOCK_PENDING);
	ASSERT(block->run == RUN_NONE && block->idle == NULL);
	ASSERT(size > 0 && size < block->size);
	ASSERT(rest->segment == NULL && rest->addr == block->addr + size);
	rest->size = block->size - size;
	block_set_state(rest, state);
	rest->segment = block->segment;
	rest->pool = pool;
	rest->way = block->way;
	rest->freed_at = block->freed_at;
	rest->epoch = block->epoch;
	rest->prev = block;
	rest->next = next;
	if (next != NULL)
		next->prev = rest;
	block->next = rest;
	block->size = size;
	pool->owner->blocks++;
	if (block_state_is_held(state)) {
		lock_assert_held(&rest->arena->lock);
		start_name(rest);
	}
}

/* Blocks and bytes of inactive_split, which expandable segments do not have. */
struct inactive {
	int64_t blocks;
	int64_t bytes;
};

static inline void
add_inactive_block(struct inactive *sum, const struct block *block)
{
	if (!block_is_in_run(block) || !block_is_inactive_split(block))
		return;
	sum->blocks++;
	sum->bytes += (int64_t)block->size;
}

/* Sum over the neighbouring FREE blocks around a block, and itself if it is
 * FREE. */
static __attribute__((noinline)) struct inactive
inactive_around(const struct block *block)
{
	struct inactive sum = { 0 };

	ASSERT(block->segment != NULL);
	add_inactive_block(&sum, block);
	for (const struct block *b = block->next; block_is_in_run(b);
	     b = b->next)
		add_inactive_block(&sum, b);
	for (const struct block *b = block->prev; block_is_in_run(b);
	     b = b->prev)
		add_inactive_block(&sum, b);
	return sum;
}

/* Count the difference of two sums. */
static __attribute__((noinline)) void
count_inactive(struct pool *pool, struct inactive before, struct inactive after)
{
	int64_t blocks = after.blocks - before.blocks;
	int64_t bytes = after.bytes - before.bytes;

	if (blocks == 0 && bytes == 0)
		return;
	lock_assert_held(&pool->owner->arena->lock);
	stats_change(pool, STAT3_inactive_split, blocks);
	stats_change(pool, STAT3_inactive_split_bytes, bytes);
}

void
block_count_front(const struct block *front, const struct block *rest)
{
	struct inactive before = { 1, (int64_t)(front->size + rest->size) };
	struct inactive after = { 1, (int64_t)rest->size };

	lock_assert_held(&rest->arena->lock);
	ASSERT(front->next == rest && rest->prev == front);
	ASSERT(block_state(rest) == BLOCK_FREE);
	if (front->prev == NULL && rest->next == NULL)
		before =
		    (struct inactive){ 0 }; /* the whole segment was free */
	count_inactive(rest->pool, before, after);
}

/* ---- Runs -------------------------------------------------------------- */

void
block_list_run(struct block *head)
{
	const struct pool *pool = head->pool;

	lock_assert_held(&head->arena->lock);
	ASSERT(block_is_in_run(head) && !block_is_complete(head));
	for (struct block *b = head; block_is_of_runs(b, pool); b = b->next)
		if (b->pool == pool && list_empty(&b->pending.link)) {
			lock_assert_held(&b->arena->lock);
			heap_add_freed(b);
		}
}

/* Recompute the run that a block is part of: the first block of its pool stands
 * for it, and no other. */
static __attribute__((noinline)) void
refresh_run(struct block *block)
{
	struct pool *pool = block->pool;
	struct block *head = block;
	struct block *last = block;
	size_t size = block->size;

	ASSERT(block_is_in_run(block));
	for (struct block *b = block->prev; block_is_of_runs(b, pool);
	     b = b->prev) {
		size += b->size;
		if (b->pool == pool)
			head = b;
	}
	for (struct block *b = block->next; block_is_of_runs(b, pool);
	     b = b->next) {
		size += b->size;
		last = b;
	}
	for (struct block *b = head; b != last;) {
		b = b->next;
		if (b->pool == pool && b->run > 0) {
			tree_remove(&pool->free, &b->node);
			b->run = 0;
		}
	}
	if (head->run == size)
		return;
	if (__builtin_expect(pool->unlisted, 0)) {
		lock_assert_held(&head->arena->lock);
		block_list_run(head);
	}
	if (head->run > 0)
		tree_remove(&pool->free, &head->node);
	head->run = size;
	tree_insert(&pool->free, &head->node);
}

/* Recompute the runs of a FREE block whose neighbour has changed. */
static __attribute__((noinline)) void
refresh_runs_of(struct block *block)
{
	if (!block_is_complete(block)) {
		refresh_run(block);
		return;
	}
	if (block_is_in_run(block->prev) && !block_is_complete(block->prev))
		refresh_run(block->prev);
	if (block_is_in_run(block->next) && !block_is_complete(block->next))
		refresh_run(block->next);
}

void
block_take(struct block *block)
{
	lock_assert_held(&block->arena->lock);
	ASSERT(block_state(block) == BLOCK_FREE ||
	    block_state(block) == BLOCK_UNMAPPED);
	ASSERT(block_state(block) != BLOCK_FREE || block->run != RUN_NONE);
	if (block_state(block) != BLOCK_FREE) {
		tree_remove(&block->pool->unmapped, &block->node);
		return;
	}
	if (!block->segment->expandable) {
		struct inactive before = { 0 };
		add_inactive_block(&before, block);
		count_inactive(block->pool, before, (struct inactive){ 0 });
	}
	if (block->run > 0)
		tree_remove(&block->pool->free, &block->node);
	if (block->idle != NULL)
		idle_take(block);
	block->run = RUN_NONE;
	if (!list_empty(&block->pending.link))
		list_remove(&block->pending.link);
	if (block_is_in_run(block->prev))
		refresh_runs_of(block->prev);
	if (block_is_in_run(block->next))
		refresh_runs_of(block->next);
}

/* May a neighbour be merged with a free block? Blocks of one stream only if
 * each event covers both frees or neither; otherwise the later free would hold
 * back the block that was freed earlier. */
static inline QUICK bool
go_together(const struct block *neighbour, const struct block *block)
{
	return neighbour->pool == block->pool &&
	    (neighbour->epoch == block->epoch ||
		!arena_heeds_fences(block->arena) || block_is_complete(block));
}

static inline bool
mergeable(const struct block *neighbour, const struct block *block)
{
	return block_is_in_run(neighbour) && go_together(neighbour, block);
}

/* Delete a block that its neighbour has absorbed. It is in no tree. */
static inline QUICK void
delete_absorbed(struct block *gone) HOLDS(gone->arena->lock)
{
	ASSERT(gone->pool->owner->blocks > 0);
	gone->pool->owner->blocks--;
	if (!list_empty(&gone->pending.link))
		list_remove(&gone->pending.link);
	block_delete(gone);
}

/* Absorb the next neighbour. If both free ticks are equal, the epoch of the
 * block at the lower address stays; so in absorb_prev(). */
static inline QUICK void
absorb_next(struct block *block, bool held) HOLDS(block->arena->lock)
{
	struct block *gone = block->next;
	struct block *next = gone->next;

	ASSERT(gone != NULL && gone->addr == block->addr + block->size);
	ASSERT(gone->segment == block->segment);
	if (held) {
		lock_assert_held(&gone->arena->lock);
		start_unname(gone);
	}
	block->size += gone->size;
	block->next = next;
	if (next != NULL)
		next->prev = block;
	if (gone->freed_at > block->freed_at) {
		block->freed_at = gone->freed_at;
		block->epoch = gone->epoch;
	}
	if (gone->idle != NULL)
		idle_absorb(block, gone);
	lock_assert_held(&gone->arena->lock);
	delete_absorbed(gone);
}

/* Absorb the previous neighbour. Both are held. */
static inline QUICK void
absorb_prev(struct block *block) HOLDS(block->arena->lock)
{
	struct block *gone = block->prev;
	struct block *prev = gone->prev;

	ASSERT(gone != NULL && block->addr == gone->addr + gone->size);
	ASSERT(gone->segment == block->segment);
	start_unname(block);
	block->addr = gone->addr;
	start_rename(block);
	block->size += gone->size;
	block_link_after(prev, block);
	if (gone->freed_at >= block->freed_at) {
		block->freed_at = gone->freed_at;
		block->epoch = gone->epoch;
	}
	if (gone->idle != NULL)
		idle_absorb(block, gone);
	lock_assert_held(&gone->arena->lock);
	delete_absorbed(gone);
}

/* The pool of unmapped addresses, which belong to no stream. */
static struct pool *
unmapped_pool(const struct block *block)
{
	return &block->arena->memory.any_heap->pool[block->segment->kind];
}

struct block *
block_put_unmapped(struct block *block)
{
	struct tree *tree = &unmapped_pool(block)->unmapped;

	lock_assert_held(&block->arena->lock);
	ASSERT(block->segment->expandable);
	ASSERT(block->run == RUN_NONE && block->idle == NULL);
	ASSERT(block->pending.uses == NULL);
	block_move(block, unmapped_pool(block));
	if (block_is_held(block))
		start_unname(block);
	block_set_state(block, BLOCK_UNMAPPED);
	block->requested = 0;
	block->stack = 0;
	if (block->next != NULL && block_state(block->next) == BLOCK_UNMAPPED) {
		tree_remove(tree, &block->next->node);
		absorb_next(block, false);
	}
	if (block->prev != NULL && block_state(block->prev) == BLOCK_UNMAPPED) {
		block = block->prev;
		absorb_next(block, false);
		tree_raised(tree, &block->node);
	} else {
		tree_insert(tree, &block->node);
	}
	return block;
}

/* A block that is being put into its pool. When it is joined with neighbours,
 * the record that stays is one that is in the tree already, because its place
 * there is mostly right. */
struct putting {
	struct block *block;
	bool placed; /* it is in the tree, perhaps at the wrong place */
};

/* Shall the neighbour's record stay when it is joined with the block? If not,
 * the neighbour is in no tree afterwards. */
static bool
stays(struct putting *p, struct block *neighbour)
{
	if (neighbour->run == 0)
		return false;
	if (!p->placed)
		return true;
	tree_remove(&neighbour->pool->free, &neighbour->node);
	return false;
}

static void
put_with_next(struct putting *p) HOLDS(p->block->arena->lock)
{
	struct block *next = p->block->next;

	if (stays(p, next)) {
		lock_assert_held(&next->arena->lock);
		absorb_prev(next);
		p->block = next;
		p->placed = true;
	} else {
		absorb_next(p->block, true);
	}
}

static void
put_with_prev(struct putting *p) HOLDS(p->block->arena->lock)
{
	struct block *prev = p->block->prev;

	if (stays(p, prev)) {
		lock_assert_held(&prev->arena->lock);
		absorb_next(prev, true);
		p->block = prev;
		p->placed = true;
	} else {
		absorb_prev(p->block);
	}
}

/* Put a block into its pool in the general case: some neighbour may be free
 * without being merged with it. */
static __attribute__((noinline)) struct block *
put_beside(struct block *block)
{
	struct putting p = { .block = block };

	ASSERT(block_state(block) != BLOCK_ACTIVE);
	block->run = 0;
	while (mergeable(p.block->next, p.block)) {
		lock_assert_held(&p.block->arena->lock);
		put_with_next(&p);
	}
	while (mergeable(p.block->prev, p.block)) {
		lock_assert_held(&p.block->arena->lock);
		put_with_prev(&p);
	}
	refresh_run(p.block);
	return p.block;
}

static inline QUICK struct block *
if_free(struct block *neighbour)
{
	return neighbour != NULL && block_state(neighbour) == BLOCK_FREE ?
	    neighbour :
	    NULL;
}

/* Is a free neighbour a run by itself that is merged with the block? */
static inline QUICK bool
joins(const struct block *neighbour, const struct block *block)
{
	return neighbour->run == neighbour->size &&
	    go_together(neighbour, block);
}

/* Put a block into its pool in the simple case: each free neighbour is a run by
 * itself and is merged with it. A record that is in the tree mostly keeps its
 * place. */
static inline QUICK struct block *
put_simply(struct block *block, struct block *prev, struct block *next)
    HOLDS(block->arena->lock)
{
	struct tree *tree = &block->pool->free;
	struct block *whole = prev != NULL ? prev : next;

	ASSERT(prev == NULL || prev == block->prev);
	ASSERT(next == NULL || next == block->next);
	if (whole == NULL) {
		block->run = block->size;
		tree_insert(tree, &block->node);
		return block;
	}
	if (prev == NULL) {
		lock_assert_held(&next->arena->lock);
		absorb_prev(next);
	} else {
		lock_assert_held(&prev->arena->lock);
		absorb_next(prev, true);
		if (next != NULL) {
			tree_remove(tree, &next->node);
			absorb_next(prev, true);
		}
	}
	whole->run = whole->size;
	tree_raised(tree, &whole->node);
	return whole;
}

/* Put a block that is complete on every stream: it is a run by itself, and a
 * part of the runs beside it. */
static __attribute__((noinline)) struct block *
put_complete(struct block *block, struct block *prev, struct block *next)
{
	if (prev != NULL && !joins(prev, block))
		prev = NULL;
	if (next != NULL && !joins(next, block))
		next = NULL;
	lock_assert_held(&block->arena->lock);
	block = put_simply(block, prev, next);
	if (block_is_in_run(block->prev) || block_is_in_run(block->next))
		refresh_runs_of(block);
	return block;
}

struct block *
block_put_free(struct block *block)
{
	struct block *next = if_free(block->next);
	struct block *prev = if_free(block->prev);
	bool expandable = block->segment->expandable;
	struct inactive before = { 0 };

	lock_assert_held(&block->arena->lock);
	ASSERT(block->size > 0);
	ASSERT(block->run == RUN_NONE && block->idle == NULL);
	ASSERT(block->pending.uses == NULL);
	if (!expandable)
		before = inactive_around(block);
	if (!block_is_held(block))
		start_name(block);
	block_set_state(block, BLOCK_FREE);
	block->requested = 0;
	block->stack = 0;
	if (block_is_complete(block))
		block = put_complete(block, prev, next);
	else if ((next != NULL && !joins(next, block)) ||
	    (prev != NULL && !joins(prev, block)))
		block = put_beside(block);
	else
		block = put_simply(block, prev, next);
	if (!expandable)
		count_inactive(block->pool, before, inactive_around(block));
	idle_put_large(block, expandable);
	if (block->arena->memory.several && !block_is_complete(block)) {
		list_remove(&block->pending.link);
		heap_add_freed(block);
	}
	return block;
}

void
block_promote(struct block *block)
{
	struct stream_heap *any = block->arena->memory.any_heap;

	lock_assert_held(&block->arena->lock);
	ASSERT(block_is_in_run(block) && !block_is_complete(block));
	if (!block->segment->expandable) {
		block_take(block);
		block_move(block, &any->pool[block->pool->kind]);
		block_put_free(block);
		return;
	}
	/* Its neighbours stay parts of the same runs, or join it. */
	if (block->run > 0)
		tree_remove(&block->pool->free, &block->node);
	if (block->idle != NULL)
		idle_take(block);
	list_remove(&block->pending.link);
	block_move(block, &any->pool[block->pool->kind]);
	block = put_complete(block, if_free(block->prev), if_free(block->next));
	idle_put_large(block, true);
}

void
block_move_to(struct block *block, struct pool *pool)
{
	lock_assert_held(&block->arena->lock);
	ASSERT(pool != block->pool && pool->owner->arena == block->arena);
	ASSERT(block->pool->owner->blocks > 0);
	if (block_is_held(block)) {
		int64_t size = (int64_t)block_present(block);
		lock_assert_held(&block->pool->owner->arena->lock);
		stats_change_stream(block->pool, STAT3_reserved_bytes, -size);
		lock_assert_held(&pool->owner->arena->lock);
		stats_change_stream(pool, STAT3_reserved_bytes, size);
	}
	block->pool->owner->blocks--;
	pool->owner->blocks++;
	block_set_pool(block, pool);
}

/* Its stream may have ended meanwhile. First move the block to the pool that it
 * belongs to by now; memory that it got or lost is counted there. */
static struct block *
put_home(struct block *block, enum block_state state, struct pool **home)
    HOLDS(block->arena->lock)
{
	ASSERT(state == BLOCK_FREE || state == BLOCK_UNMAPPED);
	ASSERT(block_state(block) == BLOCK_MAPPING ||
	    block_state(block) == BLOCK_UNMAPPING ||
	    block_state(block) == BLOCK_VACATED);
	block_move(block,
	    state == BLOCK_FREE ? block_home(block) : unmapped_pool(block));
	*home = block->pool;
	return block_put(block, state);
}

void
block_commit(struct block *block, enum block_state state)
{
	struct stream_heap *owner = block->pool->owner;
	struct pool *pool;
	CUdeviceptr addr = block->addr;
	bool was_held = block_is_held(block);
	int64_t size = (int64_t)block->size;

	lock_assert_held(&block->arena->lock);
	block = put_home(block, state, &pool);
	if (block_is_held(block) != was_held) {
		lock_assert_held(&pool->owner->arena->lock);
		stats_change(
		    pool, STAT3_reserved_bytes, was_held ? -size : size);
		emit_range(block, addr, (size_t)size, !was_held);
	}
	lock_assert_held(&owner->arena->lock);
	heap_drop_if_done(owner);
}

struct block *
block_commit_absent(struct block *block)
{
	struct stream_heap *owner = block->pool->owner;
	struct pool *pool;

	lock_assert_held(&block->arena->lock);
	ASSERT(block_state(block) == BLOCK_UNMAPPING);
	block = put_home(block, BLOCK_UNMAPPED, &pool);
	lock_assert_held(&owner->arena->lock);
	heap_drop_if_done(owner);
	return block;
}

void
block_set_vacated(struct block *block)
{
	lock_assert_held(&block->arena->lock);
	ASSERT(block_state(block) == BLOCK_UNMAPPING);
	start_unname(block);
	block_set_state(block, BLOCK_VACATED);
	emit_range(block, block->addr, block->size, false);
}

struct block *
block_join(struct block *first, const struct block *last)
{
	CUdeviceptr end = last->addr + last->size;

	lock_assert_held(&first->arena->lock);
	ASSERT(first->segment == last->segment && first->addr <= last->addr);
	block_take(first);
	while (first->addr + first->size < end) {
		struct block *next = first->next;
		bool held = block_is_held(next);
		lock_assert_held(&next->arena->lock);
		block_take(next);
		block_move(next, first->pool);
		absorb_next(first, held);
	}
	struct stream_heap *owner = first->pool->owner;
	if (first->freed_at > owner->freed_at)
		owner->freed_at = first->freed_at;
	return first;
}

struct block *
block_adopt(const struct span *span, struct stream_heap *heap)
{
	struct stream_heap *owner = span->first->pool->owner;

	lock_assert_held(&heap->arena->lock);
	ASSERT(block_state(span->first) == BLOCK_FREE);
	ASSERT(span->first->segment == span->last->segment);
	ASSERT(heap->arena == span->first->arena);
	lock_assert_held(&span->first->arena->lock);
	struct block *block = block_join(span->first, span->last);
	lock_assert_held(&block->arena->lock);
	block_move(block, &heap->pool[block->pool->kind]);
	/* An event that was recorded on the heap's stream before does not cover
	 * the work that the memory was ordered after until now, so the block
	 * gets a new free tick. */
	if (owner != heap || span->first != span->last) {
		stream_protect(heap->stream);
		block->freed_at = order_tick();
		block_set_epoch(block);
		heap->freed_at = block->freed_at;
	}
	lock_assert_held(&owner->arena->lock);
	heap_drop_if_done(owner);
	return block;
}
