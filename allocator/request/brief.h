/*
 * Lets the host wait for a moment before a request takes new memory: policy.h,
 * Note [Wait or grow].
 */
#ifndef ALLOCATOR_REQUEST_BRIEF_H
#define ALLOCATOR_REQUEST_BRIEF_H

#include "allocator/request/request.h"

/* Serve the request with memory that threads have cached or that becomes
 * complete while the host polls for policy_brief_ns(), and account for the
 * attempt. Releases the lock in between, so the device may be forgotten. */
enum weir_status brief_wait(struct request *r) HOLDS(r->heap->arena->lock);

#endif
