/*
 * The pools of a stream that allocates.
 */
#include "allocator/memory/pools.h"

#include "allocator/memory/arena.h"
#include "allocator/memory/promote.h"

enum weir_status
pools_get(struct arena *arena, struct stream *stream, struct pools **out)
{
	struct pools *pools = pools_peek(arena, stream);
	enum weir_status status = WEIR_OK;

	if (pools == NULL) {
		status = pools_make(arena, stream, &pools);
		if (status == WEIR_OK && arena->streams > 1)
			arena_begin_several(arena);
	}
	*out = pools;
	return status;
}
