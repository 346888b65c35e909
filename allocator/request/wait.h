/*
 * Makes streams wait on the device for memory: policy.h, Note [Wait or grow].
 */
#ifndef ALLOCATOR_REQUEST_WAIT_H
#define ALLOCATOR_REQUEST_WAIT_H

#include "allocator/request/request.h"

/* Find the row of neighbouring blocks that fits best among those that need only
 * good waits, as the request's is_good() says. False if there is none. */
bool wait_find_best(struct request *r, struct span *span);

/* Serve the request from that row, behind all waits that it needs. Does not
 * serve it if there is no row or a wait is refused. */
enum weir_status wait_for_best(struct request *r) HOLDS(r->heap->arena->lock);

/* Serve the request at the place that it had the round before, behind all waits
 * that it needs. Does not serve it if one of them is not good or is refused. */
enum weir_status wait_for_place(struct request *r) HOLDS(r->heap->arena->lock);

/* Bytes of a kind that are held and not live: the most that searches and waits
 * can bring. */
size_t wait_idle_bytes(const struct arena *arena, enum pool_kind kind);

/* Serve the request from the best fit in all memory, with any waits. */
enum weir_status wait_best_fit(struct request *r) HOLDS(r->heap->arena->lock);

/* Serve the request with waits within the limits. */
enum weir_status wait_on_device(struct request *r, enum waits waits)
    HOLDS(r->heap->arena->lock);

/* Make the stream wait for some memory. False: there is none to wait for. */
bool wait_for_some(struct request *r) HOLDS(r->heap->arena->lock);

#endif
