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

/* Enter all free blocks of a heap into the list of its freed blocks. */
static void
add_all_freed(struct stream_heap *heap)
{
	for (int kind = 0; kind < POOL_KINDS; kind++) {
		struct pool *pool = &heap->pool[kind];
		for (struct tree_node *n = tree_first(&pool->free); n != NULL;
		     n = tree_next(n)) {
			struct span run = block_run(block_of_node(n));
			for (struct block *b = run.first;; b = b->next) {
				if (b->pool == pool)
					heap_add_freed(b);
				if (b == run.last)
					break;
			}
		}
	}
}

void
arena_begin_several(struct arena *arena)
{
	if (arena->several)
		return;
	arena->several = true;
	for (struct list *l = arena->heaps.next; l != &arena->heaps;
	     l = l->next) {
		struct stream_heap *heap =
		    CONTAINER_OF(l, struct stream_heap, link);
		if (heap != arena->any_heap)
			add_all_freed(heap);
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
