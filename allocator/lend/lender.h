/*
 * The lending thread: it gives back memory that the process does not use.
 */
#ifndef ALLOCATOR_LEND_LENDER_H
#define ALLOCATOR_LEND_LENDER_H

#include "allocator/state.h"

/* Start the thread of a device, given its own arena, if the process is a member
 * of a group there. Once for each device; failures are logged. */
void lender_begin(struct arena *main);

#endif
