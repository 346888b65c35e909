/*
 * Makes the waits on the device that are worth their price: policy.h, Note
 * [Wait or grow].
 */
#ifndef ALLOCATOR_REQUEST_PRICE_H
#define ALLOCATOR_REQUEST_PRICE_H

#include "allocator/request/request.h"

/* Serve the request from the row of blocks that needs the shortest wait, if
 * that wait is worth its price. */
enum weir_status price_wait(struct request *r) HOLDS(r->heap->arena->lock);

/* Serve the request at its place, if no wait for that takes longer. UINT64_MAX:
 * any wait, also one whose time cannot be forecast. */
enum weir_status price_place(struct request *r, uint64_t longest_ns)
    HOLDS(r->heap->arena->lock);

#endif
