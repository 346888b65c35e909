/*
 * Maps memory into expandable segments: remap.c, Note [Remapping].
 */
#ifndef ALLOCATOR_MEMORY_REMAP_H
#define ALLOCATOR_MEMORY_REMAP_H

#include "allocator/memory/grow.h"

/* As pool_grow(), for an expandable segment. */
enum weir_status map_for(struct view *view, struct pool *pool,
    const struct options *options, size_t rounded, enum grow_how how,
    size_t *need) HOLDS(pool->owner->arena->lock);

/* As pool_grow_at(). */
enum weir_status map_at(struct view *view, struct pool *pool,
    const struct options *options, struct grow_at *at, enum grow_how how)
    HOLDS(pool->owner->arena->lock);

/* As pool_prepare(), for an expandable segment. */
enum weir_status map_new(struct view *view, struct pool *pool,
    const struct options *options, size_t size, size_t *need)
    HOLDS(pool->owner->arena->lock);

#endif
