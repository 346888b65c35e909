/*
 * Waits on the device that are worth their price: policy.h, Note [Wait or
 * grow].
 */
#ifndef ALLOCATOR_REQUEST_PRICE_H
#define ALLOCATOR_REQUEST_PRICE_H

#include "allocator/request/request.h"

/* Serve the request from the run of memory that the stream has to wait for
 * least, if that wait is worth its price. */
enum weir_status price_wait(struct request *r);

#endif
