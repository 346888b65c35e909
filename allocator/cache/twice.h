/*
 * Blocks that two threads free at the same time: tcache.h, Note [Freed twice at
 * once].
 */
#ifndef ALLOCATOR_CACHE_TWICE_H
#define ALLOCATOR_CACHE_TWICE_H

#include "allocator/cache/types.h"
#include "allocator/memory/block.h"

/* Is the block that is to leave a cache still cached? Else it has left another
 * before: tcache.h, Note [Freed twice at once]. */
static inline bool
twice_is_cached(const struct block *block, size_t bytes)
{
	return __builtin_expect(block_state(block) == BLOCK_CACHED, 1) &&
	    __builtin_expect(block->size == bytes, 1);
}

/* Report a block of `bytes` that was freed twice. Returns what its second free
 * has counted; the bytes that were requested for it are no longer known. */
struct sums twice_report(const struct block *block, size_t bytes);

#endif
