/*
 * Detects blocks that two threads free at the same time: tcache.h, Note [Freed
 * twice at once].
 */
#ifndef ALLOCATOR_CACHE_TWICE_H
#define ALLOCATOR_CACHE_TWICE_H

#include "allocator/cache/types.h"
#include "allocator/memory/block.h"

/* Is a block that leaves a cache still cached? If not, it has left another
 * cache before. */
static inline bool
twice_is_cached(const struct block *block, size_t bytes)
{
	return __builtin_expect(block_state(block) == BLOCK_CACHED, 1) &&
	    __builtin_expect(block->size == bytes, 1);
}

/* Report a block of `bytes` that was freed twice. Returns the sums that its
 * second free has counted; the requested bytes may be wrong, because they are
 * no longer known. */
struct sums twice_report(const struct block *block, size_t bytes);

#endif
