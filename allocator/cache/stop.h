/*
 * Stopping caches: tcache.h, Note [Stopping a cache]. Under the arena's lock.
 */
#ifndef ALLOCATOR_CACHE_STOP_H
#define ALLOCATOR_CACHE_STOP_H

#include "allocator/cache/types.h"

/* Keep the owners of an arena's caches out, of one stream's or, for NULL, of
 * all; they are out when this returns. */
void caches_stop(struct arena *arena, const struct stream_heap *heap);

/* Keep all owners out and report all counts; let the owners in again. */
void tcache_stop(struct arena *arena);
void tcache_go(struct arena *arena);

/* Report to the statistics what all caches have counted so far. */
void tcache_tell(struct arena *arena);

#endif
