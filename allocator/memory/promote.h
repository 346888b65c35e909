/*
 * Free memory that is complete everywhere becomes memory of no stream.
 */
#ifndef ALLOCATOR_MEMORY_PROMOTE_H
#define ALLOCATOR_MEMORY_PROMOTE_H

#include "allocator/memory/types.h"

/* Does memory become memory of no stream when the stream that freed it is done
 * with it? In a device's own arena only: requests to other arenas get the same
 * addresses again after a restore. */
static inline bool
arena_promotes(const struct arena *arena)
{
	return arena == arena->main && arena->kept == 0;
}
/* From now on others than one stream may have use for it. */
void arena_begin_several(struct arena *arena);
void arena_promote(struct arena *arena);

#endif
