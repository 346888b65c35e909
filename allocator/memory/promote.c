/*
 * Moves free blocks that have become complete to the heap of WEIR_STREAM_ANY,
 * where every stream may use them.
 */
#include "allocator/memory/promote.h"

#include "allocator/memory/arena.h"
#include "allocator/memory/block.h"

static void
promote_freed(struct stream_heap *heap)
{
	while (!list_empty(&heap->freed)) {
		struct block *block = block_of_pending(heap->freed.next);
		if (block->freed_at > heap->completed_at)
			break;
		block_promote(block);
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
				heap_add_freed(b);
	}
}

void
arena_promote(struct arena *arena)
{
	struct stream_heap *next;

	for (struct stream_heap *p = heap_first_freed(arena); p != NULL;
	     p = next) {
		next = heap_next_freed(p);
		if (arena_promotes(arena))
			promote_freed(p);
		if (!heap_may_hold_pending(p))
			heap_remove_freed(p);
	}
}
