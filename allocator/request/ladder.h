/*
 * The ladder of a request.
 */
#ifndef ALLOCATOR_REQUEST_LADDER_H
#define ALLOCATOR_REQUEST_LADDER_H

#include "allocator/memory/types.h"

/* A block for a request, by every means there is: Note [Reclaim ladder].
 * WEIR_ENOMEM, WEIR_EHOSTMEM, WEIR_EDRIVER. May leave and retake the lock. */
enum weir_status take_block(struct pools *pools, const struct options *options,
    size_t size, struct block **out);

/* Serve a request from free memory that may be used at once. WEIR_ENOMEM is
 * returned without a report of it. */
enum weir_status take_idle(struct pools *pools, const struct options *options,
    size_t size, struct block **out);

#endif
