/*
 * Best fit among the runs of a pool.
 */
#ifndef ALLOCATOR_MEMORY_POOL_H
#define ALLOCATOR_MEMORY_POOL_H

#include "allocator/memory/types.h"

/*
 * The block that stands for the best run of a pool for a size class, or NULL.
 *
 * @param plain  for device memory of no stream: only blocks of driver segments
 *               will do
 */
struct block *pool_find(struct pool *pool, const struct options *options,
    size_t rounded, bool plain);

/* Take the front of a run that was found as one ACTIVE block, cut to size; what
 * is left stays free. WEIR_EHOSTMEM, and nothing has changed. */
enum weir_status pool_cut(
    struct block **block, const struct options *options, size_t rounded);
/* Take the best run of a pool so; *out is NULL if there is none. */
enum weir_status pool_take(struct pool *pool, const struct options *options,
    size_t rounded, bool plain, struct block **out);
/* Cut a span: FREE neighbours of any pools that `pool`'s stream may use. */
enum weir_status pool_cut_span(struct span span, struct pool *pool,
    const struct options *options, size_t rounded, struct block **out);

/* Bytes of the largest block in a pool; 0 if it is empty. */
size_t pool_largest(const struct pool *pool);

#endif
