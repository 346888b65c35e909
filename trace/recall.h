/*
 * Stacks that have been met before are known again without unwinding.
 *
 * Unwinding costs hundreds of nanoseconds a frame. But a program that allocates
 * in a loop comes from the same places again and again, and then with its
 * stack at the same address. So a stack that has been unwound is kept with the
 * addresses at which its return addresses lay. Whoever comes with the same
 * frame address looks whether all of them are still there: each return address
 * fixes where the next one is, so if all agree it is the same stack.
 */
#ifndef TRACE_RECALL_H
#define TRACE_RECALL_H

#include <stddef.h>

/* Get ready, if it has not happened. Until then, and where it cannot be, all
 * stacks are unwound. */
void recall_prepare(void);

/* As stack_capture(). */
size_t recall_capture(void **frames, size_t n, size_t skip);

#endif
