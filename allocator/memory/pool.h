/*
 * Best fit among the runs of a pool.
 */
#ifndef ALLOCATOR_MEMORY_POOL_H
#define ALLOCATOR_MEMORY_POOL_H

#include "allocator/state.h"

/*
 * Find the block that stands for the best run of a pool for a size class, or
 * NULL.
 *
 * @param plain for device-scope memory: use driver segments only
 */
struct block *pool_find(struct pool *pool, const struct options *options,
    size_t rounded, bool plain) HOLDS(pool->owner->arena->lock);

/* Allocate the front of the run that pool_find() found, as one ACTIVE block;
 * the rest stays free. WEIR_EHOSTMEM: nothing has changed. */
enum weir_status pool_cut(
    struct block **block, const struct options *options, size_t rounded);
/* Find the best run of a pool and do so; *out is NULL if there is none. */
enum weir_status pool_take(struct pool *pool, const struct options *options,
    size_t rounded, bool plain, struct block **out)
    HOLDS(pool->owner->arena->lock);
/* Do so with a span: FREE neighbours of any pools that the stream of `pool` may
 * use. The block begins at `from`, an address in the span's first block. */
enum weir_status pool_cut_span(struct span span, CUdeviceptr from,
    struct pool *pool, const struct options *options, size_t rounded,
    struct block **out) HOLDS(pool->owner->arena->lock);

/* Bytes of the largest run of a pool; 0 if it is empty. */
size_t pool_largest(const struct pool *pool);

#endif
