/*
 * The Python frames of a stack, where an interpreter is in the process.
 *
 * Nothing of Python is linked: its calls are found by their names, and only
 * such are used as are public and the same from 3.9 on. Python is asked only on
 * a thread that holds its lock already; it is never taken, so nobody waits. On
 * a thread without it, as in a call of ctypes, the frames are read from the
 * interpreter's structs, if these are known (python_layout.h).
 */
#ifndef TRACE_PYTHON_H
#define TRACE_PYTHON_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

extern atomic_bool python_is_found;

/* Look for an interpreter, if none has been found. */
void python_look(void);

static inline bool
python_found(void)
{
	return __builtin_expect(
	    atomic_load_explicit(&python_is_found, memory_order_acquire), 0);
}

/*
 * Write the Python frames of the calling thread, innermost first, at most n, as
 * words that no address of code equals. Returns how many; 0 also where the
 * thread does not hold Python's lock and its frames cannot be read. Holds no
 * lock of weir.
 */
size_t python_capture(void **frames, size_t n);

/*
 * Take the frames of the calling thread, which holds Python's lock, for
 * captures on it while it does not, until python_drop(). Nothing without an
 * interpreter.
 */
void python_hold(void);
void python_drop(void);

/* Is the word a Python frame? */
static inline bool
python_is_frame(const void *word)
{
	return ((uintptr_t)word >> 63) != 0;
}

/* The function that the word of a Python frame names, for ever. */
struct python_place {
	const char *function;
	const char *file;
	unsigned line;
};
struct python_place python_describe(const void *word);

#endif
