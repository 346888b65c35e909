/*
 * Free memory that is complete on every stream becomes memory of no stream,
 * which any stream may use.
 */
#include "allocator/memory/promote.h"

#include "allocator/memory/block.h"

static void
promote_freed(struct pools *pools)
{
	struct arena *arena = pools->arena;

	while (!list_empty(&pools->freed)) {
		struct block *block = block_of_pending(pools->freed.next);
		if (block->freed_at > pools->passed_at)
			break;
		block_take(block);
		block_move(block, &arena->any_pools->pool[block->pool->kind]);
		block_put(block, BLOCK_FREE);
	}
}

void
arena_begin_several(struct arena *arena)
{
	if (arena->several)
		return;
	arena->several = true;
	for (struct list *l = arena->segments.next; l != &arena->segments;
	     l = l->next) {
		struct segment *segment = CONTAINER_OF(l, struct segment, link);
		for (struct block *b = segment->first; b != NULL; b = b->next)
			if (block_is_in_run(b) && !block_is_complete(b))
				list_push_back(
				    &b->pool->owner->freed, &b->pending.link);
	}
}

void
arena_promote(struct arena *arena)
{
	if (!arena->several || !arena_promotes(arena))
		return;
	for (struct list *l = arena->pools.next; l != &arena->pools;
	     l = l->next) {
		struct pools *pools = CONTAINER_OF(l, struct pools, link);
		if (pools != arena->any_pools)
			promote_freed(pools);
	}
}
