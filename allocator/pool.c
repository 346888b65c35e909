/*
 * Best fit: the smallest free block that is large enough, and of these the one
 * with the lowest address.
 *
 * One exception, in expandable segments: of two blocks that both serve, one
 * that ends where unmapped addresses begin is the worse choice, because it can
 * grow in place and the other cannot.
 */
#include "allocator/arena.h"
#include "allocator/lookup.h"

/* The size it could have without moving. */
static size_t
growable_size(const struct block *block)
{
	const struct block *next = block->next;

	if (next != NULL && block_state(next) == BLOCK_UNMAPPED)
		return block->size + next->size;
	return block->size;
}

/* The first block, by size and then address, that is large enough. */
static struct tree_node *
first_of(const struct tree *tree, size_t rounded)
{
	struct tree_node *node = tree->root;
	struct tree_node *found = NULL;

	while (node != NULL) {
		bool enough = block_of_node(node)->size >= rounded;

		found = enough ? node : found;
		node = node->child[!enough];
	}
	return found;
}

/* Looking for one that was freed early enough goes on no longer than this. */
enum { LOOKS = 16 };

/* May the block, large enough, be given for the request? */
static bool
serves(const struct block *block, const struct options *options, size_t rounded,
    bool plain)
{
	if (block->segment->expandable)
		return !plain;
	if ((block->arena->flags & ARENA_NO_SPLIT) != 0)
		return block->size == rounded;
	if (arena_is_host(block->arena)) {
		bool shared = block->segment->shared;
		return shared == (rounded <= HOST_SHARED_MAX) &&
		    (shared || size_host_serves(block->size, rounded));
	}
	return size_serves(options, block->size, rounded);
}

struct block *
pool_find(struct pool *pool, const struct options *options, size_t rounded,
    bool plain, uint64_t until)
{
	struct block *best = NULL;
	unsigned late = 0;

	for (struct tree_node *n = first_of(&pool->free, rounded); n != NULL;
	     n = tree_next(n)) {
		struct block *block = block_of_node(n);
		if (block->freed_at > until) {
			if (++late == LOOKS)
				break;
			continue;
		}
		if (!serves(block, options, rounded, plain))
			continue;
		if (best == NULL) {
			best = block;
			if (growable_size(best) == best->size)
				break;
			continue;
		}
		if (growable_size(block) < growable_size(best))
			best = block;
		break;
	}
	return best;
}

static bool
splits(const struct block *block, const struct options *options, size_t rounded)
{
	enum pool_kind kind = block->pool->kind;

	if (arena_is_host(block->arena) && !block->segment->shared)
		return false;
	return size_splits(
	    options, kind, block->segment->expandable, block->size, rounded);
}

enum weir_status
pool_cut(struct block *block, const struct options *options, size_t rounded)
{
	if (splits(block, options, rounded))
		return block_hand_out_front(block, rounded);
	block_hand_out(block);
	return WEIR_OK;
}

size_t
pool_largest(const struct pool *pool)
{
	struct tree_node *last = tree_last(&pool->free);

	return last != NULL ? block_of_node(last)->size : 0;
}
