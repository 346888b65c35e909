/*
 * An arena whose context is gone forgets its segments and blocks, once its last
 * job has ended.
 */
#include "allocator/memory/forget.h"

#include "allocator/account/totals.h"
#include "allocator/memory/arena.h"
#include "allocator/memory/block.h"
#include "allocator/memory/handle.h"
#include "allocator/memory/idle.h"
#include "allocator/memory/lookup.h"
#include "allocator/memory/pin.h"
#include "base/meta.h"

/*
 * Free the handles and addresses of a segment. Memory that the driver allocated
 * is gone with the context, but physical memory that was created and mapped,
 * and reserved addresses, belong to the process and stay. If the driver has
 * freed them too, these calls fail, which is no error. Each is tried twice,
 * because nobody tries later.
 */
static void
forget_handles(struct segment *segment)
{
	struct tree_node *node;

	while ((node = tree_first(&segment->handles)) != NULL) {
		struct handle *handle = CONTAINER_OF(node, struct handle, node);

		addresses_drop_mapping(handle->addr, handle->size);
		if (handle->id != 0)
			handle_drop_hold(handle->id);
		tree_remove(&segment->handles, node);
		meta_free(handle, sizeof(*handle));
	}
	addresses_drop(segment->addr, segment->size);
}

static void
forget_segment(struct segment *segment)
{
	struct block *next;

	ASSERT(segment->arena->memory.forgotten);
	for (struct block *b = segment->first; b != NULL; b = next) {
		next = b->next;
		if (block_is_held(b))
			lookup_set(b->addr, NULL);
		if (block_state(b) == BLOCK_VACATED)
			addresses_drop_mapping(b->addr, b->size);
		if (b->pending.uses != NULL)
			use_clear(&segment->arena->waiting, &b->pending);
		list_init(&b->pending.link); /* its list is forgotten too */
		b->requested = 0;
		b->stack = 0;
		b->idle = NULL;
		lock_assert_held(&b->arena->lock);
		block_delete(b);
	}
	list_remove(&segment->link);
	list_remove(&segment->range_link);
	if (segment->expandable)
		forget_handles(segment);
	else if (segment->arena->memory.source.forget != NULL)
		segment->arena->memory.source.forget(
		    segment->arena->memory.source.closure,
		    segment->arena->device, segment->addr, segment->size);
	meta_free(segment, sizeof(*segment));
}

static void
forget_contents(struct arena *arena) HOLDS(arena->lock)
{
	ASSERT(arena->memory.forgotten && arena->memory.jobs == 0);
	lock_assert_held(&arena->lock);
	waiting_forget(&arena->waiting);
	pins_forget(arena);
	arena->memory.keep_event = NULL;
	arena->memory.kept -= arena->memory.keeps_ending;
	arena->memory.keeps_ending = 0;
	for (struct list *l = arena->memory.heaps.next;
	     l != &arena->memory.heaps; l = l->next) {
		struct stream_heap *heap =
		    CONTAINER_OF(l, struct stream_heap, link);
		lock_assert_held(&heap->arena->lock);
		heap->end_event = NULL;
		idle_forget(heap);
	}
	while (!list_empty(&arena->memory.segments))
		forget_segment(CONTAINER_OF(
		    arena->memory.segments.next, struct segment, link));
	list_init(&arena->memory.vacated);
	handles_release_again(arena);
	account_forget(arena);
	arena->memory.most_pinned = 0;
	arena->memory.pinned_bytes = 0;
	arena->memory.pinned_ns = 0;
}

void
memory_forget(struct arena *arena)
{
	ASSERT(!arena->memory.forgotten);
	lock_assert_held(&arena->lock);
	arena->memory.forgotten = true;
	if (arena->memory.jobs == 0)
		forget_contents(arena);
}

void
arena_job_done(struct arena *arena)
{
	lock_assert_held(&arena->lock);
	ASSERT(arena->memory.jobs > 0);
	if (--arena->memory.jobs == 0 && arena->memory.forgotten)
		forget_contents(arena);
}
