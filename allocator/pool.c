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

	if (next != NULL && next->state == BLOCK_UNMAPPED)
		return block->size + next->size;
	return block->size;
}

static struct block *
best_fit(struct pool *pool, const struct options *options, size_t rounded,
    bool plain)
{
	struct block key = { .size = rounded };
	struct block *best = NULL;

	for (struct tree_node *n = tree_lower_bound(&pool->free, &key.node);
	     n != NULL; n = tree_next(n)) {
		struct block *block = block_of_node(n);
		if (block->segment->expandable ?
			plain :
			!size_serves(options, block->size, rounded))
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

enum weir_status
pool_take(struct pool *pool, const struct options *options, size_t rounded,
    bool plain, struct block **out)
{
	struct block *rest = NULL;
	struct block *block = best_fit(pool, options, rounded, plain);
	if (block == NULL) {
		*out = NULL;
		return WEIR_OK;
	}
	if (size_splits(options, pool->kind, block->segment->expandable,
		block->size, rounded)) {
		enum weir_status status =
		    block_new(pool->owner->arena, block->addr + rounded, &rest);
		if (status != WEIR_OK)
			return status;
	}
	block_hand_out(block, rounded, rest);
	*out = block;
	return WEIR_OK;
}

size_t
pool_largest(const struct pool *pool)
{
	struct tree_node *last = tree_last(&pool->free);

	return last != NULL ? block_of_node(last)->size : 0;
}
