/*
 * Finds or makes the heap of a stream that allocates.
 */
#ifndef ALLOCATOR_MEMORY_HEAP_H
#define ALLOCATOR_MEMORY_HEAP_H

#include "allocator/state.h"

/* Get the heap of a stream in an arena, made if need be. WEIR_EHOSTMEM. */
enum weir_status heap_get_rare(struct arena *arena, struct stream *stream,
    struct stream_heap **out) HOLDS(arena->lock);
static inline enum weir_status
heap_get(struct arena *arena, struct stream *stream, struct stream_heap **out)
    HOLDS(arena->lock)
{
	if (arena != arena->main || stream->heap == NULL)
		return heap_get_rare(arena, stream, out);
	*out = stream->heap;
	return WEIR_OK;
}

#endif
