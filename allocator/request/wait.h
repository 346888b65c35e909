/*
 * Waiting on the device for memory: policy.h, Note [Wait or grow].
 */
#ifndef ALLOCATOR_REQUEST_WAIT_H
#define ALLOCATOR_REQUEST_WAIT_H

#include "allocator/request/request.h"

/* Serve the request from the row of good blocks that fits best, behind the
 * waits that it takes; nothing if there is none, or a wait is refused. */
enum weir_status wait_for_best(
    struct request *r, bool (*is_good)(void *r, const struct block *));

/* Bytes that are held and not with callers, of a kind: all that searching and
 * waiting can bring. */
size_t wait_idle_bytes(const struct arena *arena, enum pool_kind kind);

/* The best fit of all memory there is, with whatever waits it takes. */
enum weir_status wait_best_fit(struct request *r);

/* Serve the request behind waits that cost no more than allowed. */
enum weir_status wait_on_device(struct request *r, enum waits waits);

/* Make the stream wait for some memory. False: there is none that it could wait
 * for. */
bool wait_for_some(struct request *r);

#endif
