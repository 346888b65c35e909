/*
 * Moves free blocks that have become complete to the heap of WEIR_STREAM_ANY,
 * where every stream may use them.
 *
 * Note [Portions]
 *
 * When a second stream comes, or when the work of a stream is seen to be done,
 * hundreds of thousands of free blocks may be listed or moved. No request pays
 * for more than a portion of them: it lists the largest runs first, moves the
 * blocks that were freed first, and leaves the others to the next requests.
 * Until then arena->memory.behind is set, and complete blocks may be in the
 * heaps of their streams. A search finds these, too, as far as they are listed.
 * Before memory goes back because nothing else is left, arena_promote_all()
 * moves the rest.
 *
 * While pool->unlisted is set, the blocks of runs above the place in the tree
 * that the listing has come to are in pool->freed. A run only rises in the tree
 * when a block is put into it; that lists all blocks of the run: block.c.
 */
#include "allocator/memory/promote.h"

#include "allocator/memory/arena.h"
#include "allocator/memory/block.h"

/* ---- Listing ------------------------------------------------------------ */

/* The next run to list, or NULL. */
static struct block *
next_unlisted(const struct pool *pool)
{
	const struct block key = { .run = pool->listed_run,
		.addr = pool->listed_addr };
	struct tree_node *above = tree_lower_bound(&pool->free, &key.node);
	struct tree_node *next =
	    above != NULL ? tree_prev(above) : tree_last(&pool->free);

	ASSERT(pool->unlisted);
	return next != NULL ? block_of_node(next) : NULL;
}

/* List the largest runs of a pool that are not listed yet. */
static __attribute__((noinline)) void
list_some(struct pool *pool, size_t *left)
{
	struct block *head;

	ASSERT(pool->owner != pool->owner->arena->memory.any_heap);
	while (pool->unlisted && *left > 0) {
		head = next_unlisted(pool);
		pool->unlisted = head != NULL;
		if (head == NULL)
			break;
		pool->listed_run = head->run;
		pool->listed_addr = head->addr;
		lock_assert_held(&head->arena->lock);
		block_list_run(head);
		--*left;
	}
}

static void
begin_listing(struct stream_heap *heap, size_t *left) HOLDS(heap->arena->lock)
{
	ASSERT(heap != heap->arena->memory.any_heap);
	for (int kind = POOL_KINDS - 1; kind >= 0; kind--) {
		struct pool *pool = &heap->pool[kind];
		if (pool->free.count == 0)
			continue;
		pool->unlisted = true;
		pool->listed_run = RUN_NONE;
		pool->listed_addr = 0;
		list_some(pool, left);
		heap_insert_freed(heap);
		heap->arena->memory.behind |= pool->unlisted;
	}
}

void
arena_begin_several(struct arena *arena)
{
	size_t left = BLOCKS_AT_ONCE;

	lock_assert_held(&arena->lock);
	if (arena->memory.several)
		return;
	arena->memory.several = true;
	for (struct list *l = arena->memory.heaps.next;
	     l != &arena->memory.heaps; l = l->next) {
		struct stream_heap *heap =
		    CONTAINER_OF(l, struct stream_heap, link);
		if (heap != arena->memory.any_heap) {
			lock_assert_held(&heap->arena->lock);
			begin_listing(heap, &left);
		}
	}
}

/* ---- Moving ------------------------------------------------------------- */

/* Move the first blocks of a list that are complete. */
static void
promote_freed(struct pool *pool, size_t *left)
{
	ASSERT(pool->owner != pool->owner->arena->memory.any_heap);
	while (!list_empty(&pool->freed) && *left > 0) {
		struct block *block = block_of_pending(pool->freed.next);
		if (block->freed_at > pool->owner->completed_at)
			break;
		lock_assert_held(&block->arena->lock);
		block_promote(block);
		--*left;
	}
}

/* List and move blocks, the large ones first. */
static void
promote_heap(struct stream_heap *heap, bool promotes, size_t *left)
    HOLDS(heap->arena->lock)
{
	ASSERT(heap != heap->arena->memory.any_heap);
	for (int kind = POOL_KINDS - 1; kind >= 0; kind--) {
		struct pool *pool = &heap->pool[kind];
		if (pool->unlisted)
			list_some(pool, left);
		if (promotes && !list_empty(&pool->freed))
			promote_freed(pool, left);
	}
	if (!heap_may_hold_pending(heap))
		heap_remove_freed(heap);
}

void
heap_empty_some(struct stream_heap *heap, size_t *left)
{
	lock_assert_held(&heap->arena->lock);
	ASSERT(heap != heap->arena->memory.any_heap);
	for (int kind = POOL_KINDS - 1; kind >= 0; kind--) {
		struct tree *free = &heap->pool[kind].free;
		for (; free->count > 0 && *left > 0; --*left) {
			struct block *block = block_of_node(tree_last(free));
			lock_assert_held(&block->arena->lock);
			block_promote(block);
		}
	}
}

static void
promote_portion(struct arena *arena, size_t left) HOLDS(arena->lock)
{
	bool promotes = arena_promotes(arena);
	struct stream_heap *next;

	ASSERT(left > 0);
	for (struct stream_heap *p = heap_first_freed(arena); p != NULL;
	     p = next) {
		next = heap_next_freed(p);
		lock_assert_held(&p->arena->lock);
		promote_heap(p, promotes, &left);
	}
	arena->memory.behind = left == 0;
}

void
arena_promote(struct arena *arena)
{
	lock_assert_held(&arena->lock);
	promote_portion(arena, BLOCKS_AT_ONCE);
}

void
arena_promote_all(struct arena *arena)
{
	lock_assert_held(&arena->lock);
	promote_portion(arena, SIZE_MAX);
}
