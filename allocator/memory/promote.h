/*
 * Free memory that is complete everywhere becomes memory of no stream.
 */
#ifndef ALLOCATOR_MEMORY_PROMOTE_H
#define ALLOCATOR_MEMORY_PROMOTE_H

#include "allocator/memory/types.h"

/* What streams have freed and are done with becomes memory of no stream. Not in
 * other arenas: their requests are to get the same addresses when they are
 * restored. */
static inline bool
arena_promotes(const struct arena *arena)
{
	return arena == arena->main && arena->kept == 0;
}
/* From now on others than one stream may have use for it. */
void arena_begin_several(struct arena *arena);
void arena_promote(struct arena *arena);

#endif
