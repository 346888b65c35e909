/*
 * Stacks: return addresses, and a small number for each stack seen.
 *
 * Capturing a stack costs hundreds of nanoseconds a frame and may wait for the
 * dynamic loader. Naming an address (stacks/names.h) waits for another process.
 * So stacks are captured only if the user has asked for them, addresses are
 * named only when a text is written, and neither is done while a lock of weir
 * is held.
 */
#ifndef STACKS_STACK_H
#define STACKS_STACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stacks/tuning.h"

/*
 * Write the return addresses of the current calls into `frames`, innermost
 * first, at most `n` and at most STACK_FRAMES_MAX. The first address is in the
 * function that called this one; with `skip` > 0 (at most 16) it is `skip`
 * calls further out.
 *
 * @return their number; 0 where stacks cannot be captured, and on a thread with
 *         a stack of 16 KiB or little more
 *
 * Thread-safe. The first call in a process may load the compiler's unwinder and
 * allocate.
 */
size_t stack_capture(void **frames, size_t n, size_t skip);

/* Is the calling thread's stack large enough for unwinding? */
bool stack_has_room(void);

/*
 * A table of stacks: each is stored once, under a number above 0. Numbers never
 * change, and stacks are never removed.
 */
struct stack_table;

/*
 * Create a table that uses at most `bytes` of host memory, from 64 KiB to 1
 * GiB; other values are clamped. The memory is committed as the table fills up.
 * A stack of n frames needs n + 2 words. NULL without memory.
 */
struct stack_table *stack_table_create(size_t bytes);
/* Free a table that nobody uses any more. NULL does nothing. */
void stack_table_destroy(struct stack_table *table);

/*
 * The number of a stack of n frames, of which the first STACK_FRAMES_MAX count.
 * 0 if n is 0, or if the stack is new and the table is full.
 *
 * Thread-safe, and takes no lock.
 */
uint32_t stack_table_intern(
    struct stack_table *table, void *const *frames, size_t n);

/* Look up a stack by the number from stack_table_intern(). Returns how many
 * frames it has; *frames is valid until the table is destroyed. 0 frames for
 * number 0. */
size_t stack_table_frames(
    const struct stack_table *table, uint32_t id, void *const **frames);

/* The table's places for stacks are numbered. Returns how many frames the stack
 * in a place has, 0 if there is none; *frames is valid until the table is
 * destroyed. Thread-safe. A table of NULL has no places. */
size_t stack_table_slots(const struct stack_table *table);
size_t stack_table_slot(
    const struct stack_table *table, size_t slot, void *const **frames);

/* How many stacks the table has; and how many could not be stored because it
 * was full. */
size_t stack_table_count(const struct stack_table *table);
uint64_t stack_table_lost(const struct stack_table *table);

#endif
