/*
 * Where calls come from: return addresses, one small number for each stack
 * that was met, and the names behind addresses.
 *
 * To take a stack costs some hundred nanoseconds a frame and may wait for the
 * dynamic loader; to name an address reads the debug information of files. So
 * stacks are taken where somebody has asked for them, addresses are named when
 * a text is written, and neither while a lock of weir is held.
 */
#ifndef TRACE_STACK_H
#define TRACE_STACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* More frames of a stack, the outermost ones, are left out. */
enum { STACK_FRAMES_MAX = 64 };

/*
 * Write the return addresses of the calls that led here into `frames`, at most
 * `n` of them and STACK_FRAMES_MAX, innermost first: the first is in the
 * function that called this one, or with `skip` > 0 (at most 16) in one that
 * many calls further out.
 *
 * @return their number; 0 where stacks cannot be found, and on a thread with a
 *         stack of 16 KiB or little more
 *
 * Thread-safe. The first call in a process may load the compiler's unwinder
 * and allocate.
 */
size_t stack_capture(void **frames, size_t n, size_t skip);

/* May the calling thread unwind its stack? */
bool stack_has_room(void);

/*
 * Stacks that were met, each once, under numbers above 0. A number stays that
 * stack's; nothing is ever taken out.
 */
struct stack_table;

/*
 * A table that takes at most `bytes` (from 64 KiB to 1 GiB, other values are
 * taken to the nearest) of host memory, which it uses as it fills up. A stack
 * of n frames takes n + 2 words. NULL without memory.
 */
struct stack_table *stack_table_create(size_t bytes);
/* Nobody may use it any more. NULL does nothing. */
void stack_table_destroy(struct stack_table *table);

/*
 * The number of a stack of n frames, of which the first STACK_FRAMES_MAX
 * count; 0 if n is 0, or if it is new and the table is full.
 *
 * Thread-safe, and takes no lock.
 */
uint32_t stack_table_intern(
    struct stack_table *table, void *const *frames, size_t n);

/* The stack with a number that stack_table_intern() has given: how many frames
 * it has, and where they are until the table is destroyed. No frames for 0. */
size_t stack_table_frames(
    const struct stack_table *table, uint32_t id, void *const **frames);

/* The stacks in it, and how many calls were answered 0 for want of room. */
size_t stack_table_count(const struct stack_table *table);
uint64_t stack_table_lost(const struct stack_table *table);

/* The function and line at an address. Texts are cut to size; "": not known. */
struct stack_place {
	char function[256]; /* C++ names as they are written in the source */
	char file[256];     /* the source, by its path */
	unsigned line;      /* of the file; 0 if it is not known */
	char object[256];   /* the program or library, by its path */
	size_t offset;      /* of the address, from the object's start */
};

/*
 * Name a return address that stack_capture() has found. Calls that the
 * compiler has put in line are places of their own, innermost first.
 *
 * Names come from the debug information and the symbols of the object, as far
 * as it has them. There is no name if the object is no longer loaded, or if
 * another took its place.
 *
 * @return how many of `places` were filled in, at least 1 if n > 0
 *
 * Thread-safe; opens files and allocates.
 */
size_t stack_describe(
    const void *address, struct stack_place *places, size_t n);

/*
 * A place in one line, "function (file.c:12)", "function (libx.so)" or
 * "libx.so+0x120", files without their folders; "?" if nothing is known.
 */
const char *stack_place_text(
    const struct stack_place *place, char *text, size_t size);

#endif
