/*
 * Best fit: the smallest run that is large enough; among equal ones, the one at
 * the lowest address.
 *
 * There is one exception, in expandable segments: if the best run ends where
 * unmapped addresses begin, the next larger run is used instead if it can grow
 * less, because a run that can grow in place is worth keeping.
 */
#include "allocator/memory/pool.h"

#include "allocator/memory/arena.h"
#include "allocator/memory/block.h"
#include "allocator/memory/idle.h"

/* The size that a block's run could have if it grew in place. */
static inline size_t
growable_size(struct block *block)
{
	const struct block *last =
	    block->run == block->size ? block : block_run(block).last;
	const struct block *next = last->next;

	if (next != NULL && block_state(next) == BLOCK_UNMAPPED)
		return block->run + next->size;
	return block->run;
}

/* The first run that is large enough, by size and then address. */
static struct tree_node *
first_of(const struct tree *tree, size_t rounded)
{
	struct tree_node *node = tree->root;
	struct tree_node *found = NULL;

	ASSERT(rounded > 0);
	while (node != NULL) {
		bool enough = block_of_node(node)->run >= rounded;

		found = enough ? node : found;
		node = node->child[!enough];
	}
	return found;
}

/* May a run that is large enough serve the request? */
static inline QUICK bool
serves(const struct block *block, const struct options *options, size_t rounded,
    bool plain)
{
	ASSERT(rounded > 0);
	if (block->segment->expandable)
		return !plain || options->may_sleep;
	if (!plain &&
	    atomic_load_explicit(&arena_keeps_apart, memory_order_relaxed) &&
	    arena_maps(block->arena, options))
		return false;
	if ((block->arena->memory.flags & ARENA_NO_SPLIT) != 0)
		return block->run == rounded;
	if (!block->arena->traits.has_rounding)
		return true;
	return size_serves(options, block->run, rounded);
}

static inline QUICK struct block *
best_fit(struct pool *pool, const struct options *options, size_t rounded,
    bool plain)
{
	struct block *best = NULL;

	ASSERT(rounded > 0);
	for (struct tree_node *n = first_of(&pool->free, rounded); n != NULL;
	     n = tree_next(n)) {
		struct block *block = block_of_node(n);
		if (!serves(block, options, rounded, plain))
			continue;
		if (best == NULL) {
			best = block;
			if (pool->free.count == 1 ||
			    growable_size(best) == best->run)
				break;
			continue;
		}
		if (growable_size(block) < growable_size(best))
			best = block;
		break;
	}
	return best;
}

struct block *
pool_find(struct pool *pool, const struct options *options, size_t rounded,
    bool plain)
{
	lock_assert_held(&pool->owner->arena->lock);
	ASSERT(rounded > 0 && rounded % FINE_GRANULE == 0);
	return best_fit(pool, options, rounded, plain);
}

static inline QUICK bool
splits(const struct block *block, size_t size, const struct options *options,
    size_t rounded)
{
	const struct segment *segment = block->segment;

	if (segment->expandable || !block->arena->traits.has_rounding)
		return size > rounded;
	return size_splits(options, block->pool->kind, false, size, rounded);
}

/* A part of a span that stays free keeps its pool and its free tick, so that
 * the streams that could use it before still can. */
struct left {
	struct pool *pool;
	uint64_t freed_at;
	uint64_t epoch;
};

static struct left
left_of(const struct block *block)
{
	return (struct left){ block->pool, block->freed_at, block->epoch };
}

static void
put_left(struct block *block, const struct left *left) HOLDS(block->arena->lock)
{
	ASSERT(block_state(block) != BLOCK_ACTIVE);
	ASSERT(left->pool->owner->arena == block->arena);
	block_move(block, left->pool);
	block->freed_at = left->freed_at;
	block->epoch = left->epoch;
	block_put(block, BLOCK_FREE);
}

/* Make the records for a cut: of the block, unless it begins the span, and of
 * the rest behind it, if there is any. */
static enum weir_status
make_parts(const struct span *span, CUdeviceptr from, CUdeviceptr end,
    struct block **block, struct block **rest) HOLDS(span->first->arena->lock)
{
	struct arena *arena = span->first->arena;
	enum weir_status status = WEIR_OK;

	ASSERT(from >= span->first->addr && from < end);
	lock_assert_held(&arena->lock);
	if (end < span->last->addr + span->last->size)
		status = block_new(arena, end, rest);
	if (status != WEIR_OK || from == span->first->addr)
		return status;
	status = block_new(arena, from, block);
	if (status != WEIR_OK && *rest != NULL) {
		lock_assert_held(&(*rest)->arena->lock);
		block_delete(*rest);
	}
	return status;
}

enum weir_status
pool_cut_span(struct span span, CUdeviceptr from, struct pool *pool,
    const struct options *options, size_t rounded, struct block **out)
{
	size_t size = span.last->addr + span.last->size - from;
	bool cut = splits(span.first, size, options, rounded);
	struct block *block = NULL;
	struct block *rest = NULL;

	lock_assert_held(&pool->owner->arena->lock);
	ASSERT(span.first->segment == span.last->segment);
	ASSERT(from >= span.first->addr && size >= rounded);
	while (
	    cut && span.last != span.first && span.last->addr >= from + rounded)
		span.last = span.last->prev;
	lock_assert_held(&span.first->arena->lock);
	enum weir_status status = make_parts(
	    &span, from, cut ? from + rounded : from + size, &block, &rest);
	if (status != WEIR_OK)
		return status;
	struct left front = left_of(span.first);
	struct left back = left_of(span.last);
	struct block *whole = block_join(span.first, span.last);
	if (block != NULL) {
		lock_assert_held(&whole->arena->lock);
		block_split(whole, from - whole->addr, block);
	} else
		block = whole;
	if (rest != NULL) {
		lock_assert_held(&block->arena->lock);
		block_split(block, rounded, rest);
	}
	block_set_state(block, BLOCK_ACTIVE);
	if (block != whole) {
		lock_assert_held(&whole->arena->lock);
		put_left(whole, &front);
	}
	if (rest != NULL) {
		lock_assert_held(&rest->arena->lock);
		put_left(rest, &back);
	}
	lock_assert_held(&block->arena->lock);
	block_move(block, pool);
	*out = block;
	return WEIR_OK;
}

static void
activate(struct block *block) HOLDS(block->arena->lock)
{
	ASSERT(block_state(block) == BLOCK_FREE);
	block_take(block);
	block_set_state(block, BLOCK_ACTIVE);
}

/* Make the front of a free block ACTIVE and put the rest back. */
static enum weir_status
activate_front(struct block *block, size_t size) HOLDS(block->arena->lock)
{
	struct block *rest;
	enum weir_status status =
	    block_new(block->arena, block->addr + size, &rest);

	ASSERT(block_is_in_run(block) && size > 0 && size < block->size);
	if (status != WEIR_OK)
		return status;
	block_take(block);
	block_split(block, size, rest);
	block_set_state(block, BLOCK_ACTIVE);
	lock_assert_held(&rest->arena->lock);
	block_put_free(rest);
	return WEIR_OK;
}

static enum weir_status
cut_whole_run(struct block **block, const struct options *options,
    size_t rounded) HOLDS((*block)->arena->lock)
{
	struct span run = block_run(*block);

	ASSERT(rounded > 0);
	lock_assert_held(&(*block)->pool->owner->arena->lock);
	return pool_cut_span(
	    run, run.first->addr, (*block)->pool, options, rounded, block);
}

/* Cut a run of several blocks, or a block that may be part of other runs. */
static __attribute__((noinline)) enum weir_status
cut_run(struct block **block, const struct options *options, size_t rounded)
{
	struct block *head = *block;

	ASSERT((*block)->run >= rounded);
	if (head->run != head->size &&
	    (head->size < rounded || block_is_in_run(head->prev) ||
		!splits(head, head->run, options, rounded))) {
		lock_assert_held(&(*block)->arena->lock);
		return cut_whole_run(block, options, rounded);
	}
	if (head->size > rounded && splits(head, head->run, options, rounded)) {
		lock_assert_held(&head->arena->lock);
		return activate_front(head, rounded);
	}
	lock_assert_held(&head->arena->lock);
	activate(head);
	return WEIR_OK;
}

/* Cut the front off a block that is a run by itself and part of no other run.
 * The rest keeps its record in the tree, mostly at its place. It has no free
 * neighbour, because the whole had none. */
static inline QUICK enum weir_status
cut_front(struct block **block, size_t size)
{
	struct block *rest = *block;
	struct block *front;
	struct leaf *leaf;
	CUdeviceptr addr = rest->addr;

	ASSERT(block_is_in_run(rest) && size > 0 && size < rest->size);
	lock_assert_held(&rest->arena->lock);
	enum weir_status status =
	    block_spare(rest->arena, addr + size, &leaf, &front);
	if (status != WEIR_OK)
		return status;
	struct segment *segment = rest->segment;
	front->addr = addr;
	front->size = size;
	front->segment = segment;
	front->pool = rest->pool;
	front->way = rest->way;
	front->freed_at = rest->freed_at;
	front->epoch = rest->epoch;
	front->run = RUN_NONE;
	front->next = rest;
	block_link_after(rest->prev, front);
	block_set_state(front, BLOCK_ACTIVE);
	lock_assert_held(&front->arena->lock);
	start_rename(front);
	rest->prev = front;
	rest->addr = addr + size;
	rest->size -= size;
	rest->run = rest->size;
	lookup_set_in_leaf(
	    leaf, lookup_place(addr + size), rest, segment->alone);
	tree_lowered(&rest->pool->free, &rest->node);
	if (rest->idle != NULL)
		idle_cut(rest);
	rest->pool->owner->blocks++;
	if (!segment->expandable)
		block_count_front(front, rest);
	*block = front;
	return WEIR_OK;
}

/* May a complete block be part of the runs of streams? */
static inline bool
is_in_others(const struct block *block)
{
	return block_is_in_run(block->prev) || block_is_in_run(block->next);
}

static inline QUICK enum weir_status
cut_head(struct block **block, const struct options *options, size_t rounded,
    bool plain)
{
	struct block *head = *block;

	ASSERT(block_is_in_run(head) && head->run >= rounded);
	if (head->run != head->size || (plain && is_in_others(head)))
		return cut_run(block, options, rounded);
	if (splits(head, head->size, options, rounded))
		return cut_front(block, rounded);
	lock_assert_held(&head->arena->lock);
	activate(head);
	return WEIR_OK;
}

enum weir_status
pool_cut(struct block **block, const struct options *options, size_t rounded)
{
	return cut_head(block, options, rounded, block_is_complete(*block));
}

enum weir_status
pool_take(struct pool *pool, const struct options *options, size_t rounded,
    bool plain, struct block **out)
{
	struct block *block = best_fit(pool, options, rounded, plain);
	enum weir_status status =
	    block != NULL ? cut_head(&block, options, rounded, plain) : WEIR_OK;

	lock_assert_held(&pool->owner->arena->lock);
	ASSERT(rounded > 0 && rounded % FINE_GRANULE == 0);
	*out = status == WEIR_OK ? block : NULL;
	return status;
}

size_t
pool_largest(const struct pool *pool)
{
	struct tree_node *last = tree_last(&pool->free);

	return last != NULL ? block_of_node(last)->run : 0;
}
