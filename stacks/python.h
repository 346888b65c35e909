/*
 * The Python frames of a stack, if the process has an interpreter.
 *
 * Nothing of Python is linked. Its functions are looked up by name, and only
 * those are used that are public and unchanged since 3.9. Python is called only
 * on a thread that already holds Python's lock; weir never acquires that lock,
 * so no thread waits for it. On a thread without the lock, as in a call through
 * ctypes, the frames are read from the interpreter's structs, if their layout
 * is known (python_layout.h).
 */
#ifndef STACKS_PYTHON_H
#define STACKS_PYTHON_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

extern atomic_bool python_is_found;

/* Look for an interpreter, unless one has been found already. */
void python_look(void);

static inline bool
python_found(void)
{
	return __builtin_expect(
	    atomic_load_explicit(&python_is_found, memory_order_acquire), 0);
}

/*
 * Write the Python frames of the calling thread, innermost first and at most n,
 * as words that differ from every address of code. Returns how many; 0 also
 * where the thread does not hold Python's lock and its frames cannot be read.
 * The caller holds no lock of weir.
 */
size_t python_capture(void **frames, size_t n);

/*
 * Take the frames of the calling thread, which holds Python's lock. Until
 * python_drop(), captures on this thread use them while it does not hold the
 * lock. Does nothing without an interpreter.
 */
void python_hold(void);
void python_drop(void);

/* Is the word a Python frame? */
static inline bool
python_is_frame(const void *word)
{
	return ((uintptr_t)word >> 63) != 0;
}

/* Name the function of a Python frame. The texts are never freed. */
struct python_place {
	const char *function;
	const char *file;
	unsigned line;
};
struct python_place python_describe(const void *word);

#endif
