/*
 * Free memory that is complete on every stream becomes memory of no stream,
 * which any stream may use.
 */
#include "allocator/memory/promote.h"

#include "allocator/memory/arena.h"
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
				pools_add_freed(b);
	}
}

void
arena_promote(struct arena *arena)
{
	struct pools *next;

	for (struct pools *p = pools_first_freed(arena); p != NULL; p = next) {
		next = pools_next_freed(p);
		if (arena_promotes(arena))
			promote_freed(p);
		pools_remove_freed(p);
	}
}
