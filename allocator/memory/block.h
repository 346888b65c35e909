/*
 * Blocks: makes, cuts and merges them, and keeps each in the right tree.
 */
#ifndef ALLOCATOR_MEMORY_BLOCK_H
#define ALLOCATOR_MEMORY_BLOCK_H

#include "allocator/memory/starts.h"
#include "allocator/state.h"

/* Make a block for a start at `addr`, all zero but its arena and addr. Later
 * calls on it cannot fail. WEIR_EHOSTMEM. Records of blocks are reused for
 * blocks only. block_delete() is for a block without uses, in no list, with
 * ->requested and ->stack 0. */
enum weir_status block_new(struct arena *arena, CUdeviceptr addr,
    struct block **out) HOLDS(arena->lock);
void block_delete(struct block *block) HOLDS(block->arena->lock);

/* Make sure that the next block_new(), if it is for `addr`, cannot fail.
 * WEIR_EHOSTMEM. */
enum weir_status block_prepare(struct arena *arena, CUdeviceptr addr)
    HOLDS(arena->lock);

/* Allocate a place in the address table for a start at `addr`, and an unused
 * record. WEIR_EHOSTMEM. */
enum weir_status block_make_room(struct arena *arena, CUdeviceptr addr)
    HOLDS(arena->lock);

/* As block_new(), but the caller sets all fields that block_delete() does not
 * leave 0. Also gets the leaf of its start. */
static inline QUICK enum weir_status
block_spare(struct arena *arena, CUdeviceptr addr, struct leaf **leaf,
    struct block **out) HOLDS(arena->lock)
{
	CUdeviceptr place = lookup_place(addr);

	*leaf = start_leaf(arena, place);
	if (__builtin_expect(*leaf == NULL || arena->memory.spare == NULL, 0)) {
		enum weir_status status = block_make_room(arena, addr);
		if (status != WEIR_OK)
			return status;
		*leaf = start_leaf(arena, place);
	}
	*out = arena->memory.spare;
	arena->memory.spare = (*out)->next;
	return WEIR_OK;
}

/* Link a block after its previous neighbour, or as the first of its segment. */
static inline void
block_link_after(struct block *prev, struct block *block)
{
	block->prev = prev;
	if (prev != NULL)
		prev->next = block;
	else
		block->segment->first = block;
}

/*
 * Cut a block that is in no tree after `size` bytes. It keeps the front; `rest`
 * (from block_new() for its address) becomes the part after it, with the state,
 * pool and segment of the block. Neither is put into a tree.
 */
void block_split(struct block *block, size_t size, struct block *rest)
    HOLDS(block->arena->lock);

/*
 * Put a block that is in no tree into its pool as FREE or UNMAPPED, merged with
 * neighbours of that state and pool, which must be in their trees. Returns the
 * merged block.
 */
struct block *block_put_free(struct block *block) HOLDS(block->arena->lock);
struct block *block_put_unmapped(struct block *block) HOLDS(block->arena->lock);
static inline struct block *
block_put(struct block *block, enum block_state state) HOLDS(block->arena->lock)
{
	return state == BLOCK_FREE ? block_put_free(block) :
				     block_put_unmapped(block);
}

/* Remove a FREE or UNMAPPED block from its pool's tree. */
void block_take(struct block *block) HOLDS(block->arena->lock);

/* List the blocks of a run that its pool's list of freed blocks lacks. */
void block_list_run(struct block *head) HOLDS(head->arena->lock);

/* Move a FREE block of a stream's heap, which is complete, to the heap of
 * WEIR_STREAM_ANY. */
void block_promote(struct block *block) HOLDS(block->arena->lock);

/* Count in inactive_split that `front` has been cut off the FREE block `rest`,
 * in a driver segment. */
void block_count_front(const struct block *front, const struct block *rest)
    HOLDS(rest->arena->lock);

/* Put a block that was MAPPING, UNMAPPING or VACATED into the pool that it
 * belongs to by now, and count the memory that it got or lost. */
void block_commit(struct block *block, enum block_state state)
    HOLDS(block->arena->lock);

/* Put a block that is UNMAPPING, whose memory had left before, likewise as
 * UNMAPPED: it is counted and in the history as gone already. Returns the block
 * that it is part of then. */
struct block *block_commit_absent(struct block *block)
    HOLDS(block->arena->lock);

/* Make an UNMAPPING block VACATED: its memory is mapped elsewhere. */
void block_set_vacated(struct block *block) HOLDS(block->arena->lock);

static inline enum block_state
block_state(const struct block *block)
{
	return atomic_load_explicit(&block->state, memory_order_relaxed);
}

static inline void
block_set_state(struct block *block, enum block_state state)
{
	atomic_store_explicit(&block->state, state, memory_order_relaxed);
}

/* Does a block count as inactive_split? It is free, and only a part of its
 * driver segment. */
static inline bool
block_is_inactive_split(const struct block *block)
{
	return !block->segment->expandable &&
	    block_state(block) == BLOCK_FREE &&
	    (block->prev != NULL || block->next != NULL);
}

/* Does a block in this state count as held? */
static inline bool
block_state_is_held(enum block_state state)
{
	return state >= BLOCK_FREE;
}

static inline bool
block_is_held(const struct block *block)
{
	return block_state_is_held(block_state(block));
}

/* Set the pool of a block. A free reads the block without the lock, so it uses
 * ->way and does not follow ->pool: another thread may just have freed the
 * block too. */
static inline void
block_set_pool(struct block *block, struct pool *pool)
{
	block->pool = pool;
	block->way = (uint8_t)pool->owner->index;
}

/* Change the pool of a block that is in no tree, and the statistics of both
 * streams. */
void block_move_to(struct block *block, struct pool *pool)
    HOLDS(block->arena->lock);
static inline void
block_move(struct block *block, struct pool *pool) HOLDS(block->arena->lock)
{
	if (block->pool != pool)
		block_move_to(block, pool);
}

/* Join neighbours of one state, FREE or UNMAPPED, and of any pools, into one
 * block of the first one's pool, which is in no tree. */
struct block *block_join(struct block *first, const struct block *last)
    HOLDS(first->arena->lock);

/* Join a span that `heap` may use into one FREE block of the heap, which is in
 * no tree. From now on the order of the heap's stream protects it. */
struct block *block_adopt(const struct span *span, struct stream_heap *heap)
    HOLDS(heap->arena->lock);

/* The pool that a block goes to when it is free. */
static inline struct pool *
block_home(const struct block *block)
{
	if (__builtin_expect(block->pool->owner->completed, 0))
		return &block->arena->memory.any_heap->pool[block->pool->kind];
	return block->pool;
}

/* The `run` of a block that is in no run. */
#define RUN_NONE SIZE_MAX

/* Is the block FREE and in its pool? */
static inline bool
block_is_in_run(const struct block *block)
{
	return block != NULL && block_state(block) == BLOCK_FREE &&
	    block->run != RUN_NONE;
}

/* Is the free block complete, so that every stream may use it? */
static inline bool
block_is_complete(const struct block *block)
{
	return block->pool->owner == block->arena->memory.any_heap;
}

/* Can the block be part of a run of this pool? */
static inline bool
block_is_of_runs(const struct block *block, const struct pool *pool)
{
	return block_is_in_run(block) &&
	    (block->pool == pool || block_is_complete(block));
}

/* The run that a block of pool->free stands for. */
static inline struct span
block_run(struct block *head)
{
	struct span run = { head, head };
	const struct pool *pool = head->pool;

	if (head->run == head->size)
		return run;
	while (block_is_of_runs(run.first->prev, pool))
		run.first = run.first->prev;
	while (block_is_of_runs(run.last->next, pool))
		run.last = run.last->next;
	return run;
}

/* Set the epoch of a block whose free tick was just set. */
static inline void
block_set_epoch(struct block *block)
{
	block->epoch = atomic_load_explicit(
	    &block->pool->owner->stream->records, memory_order_relaxed);
}

static inline struct block *
block_of_node(struct tree_node *node)
{
	return CONTAINER_OF(node, struct block, node);
}

static inline struct block *
block_of_pending(struct list *link)
{
	return CONTAINER_OF(link, struct block, pending.link);
}

#endif
