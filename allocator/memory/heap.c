/*
 * Finds or makes the heap of a stream that allocates.
 */
#include "allocator/memory/heap.h"

#include "allocator/memory/arena.h"
#include "allocator/memory/promote.h"

enum weir_status
heap_get_rare(
    struct arena *arena, struct stream *stream, struct stream_heap **out)
{
	struct stream_heap *heap = heap_peek(arena, stream);
	enum weir_status status = WEIR_OK;

	ASSERT(stream->device == arena->device);
	lock_assert_held(&arena->lock);
	if (heap == NULL) {
		status = heap_make(arena, stream, &heap);
		/* Memory of an earlier stream, which has ended, may be there
		 * too. */
		if (status == WEIR_OK &&
		    (arena->memory.streams > 1 ||
			(heap->index > 1 && arena_promotes(arena))))
			arena_begin_several(arena);
	}
	*out = heap;
	return status;
}
