/*
 * Waiting on the device for memory: policy.h, Note [Wait or grow].
 */
#ifndef ALLOCATOR_REQUEST_WAIT_H
#define ALLOCATOR_REQUEST_WAIT_H

#include "allocator/request/request.h"

enum readiness { READY, CHANGED, REFUSED };

/* Put the stream behind all work on a span, or on as much of it as changes its
 * blocks: then it is to be looked for again. */
enum readiness wait_for_span(struct request *r, const struct span *span);

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
