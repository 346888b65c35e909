/*
 * Recognises stacks that have been captured before, without unwinding them
 * again.
 *
 * Unwinding costs hundreds of nanoseconds a frame. But a program that allocates
 * in a loop reaches the allocator from the same places again and again, with
 * its stack at the same address. So an unwound stack is stored with the
 * addresses at which its return addresses lay. A later capture with the same
 * frame address checks whether all return addresses are still there. Each
 * return address determines where the next one lies, so if all agree it is the
 * same stack.
 */
#ifndef STACKS_RECALL_H
#define STACKS_RECALL_H

#include <stddef.h>

/* Prepare the storage, unless it has been done. Before that, or if it fails,
 * all stacks are unwound. */
void recall_prepare(void);

/* Like stack_capture(). */
size_t recall_capture(void **frames, size_t n, size_t skip);

#endif
