/*
 * The frames of a thread that does not hold Python's lock, read from the
 * interpreter's own structs, as profilers read them.
 *
 * Only the thread itself changes its frames, and frames keep their code. So the
 * thread may read them without the lock, but must not count a reference or call
 * a function that does. The structs differ between versions; those of CPython
 * 3.9 to 3.13 are known. The first reads of a structure go through the kernel,
 * so that a wrong address is an error and no fault, and every code object and
 * text is checked; if one is wrong, reading stops for good.
 */
#ifndef TRACE_PYTHON_LAYOUT_H
#define TRACE_PYTHON_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>

/* Look for the layout of the interpreter that has been found. Once. */
bool layout_find(void);

/* A walk along the frames of a thread, from the innermost. */
struct layout_walk {
	const void *frame; /* the next one; NULL: the end */
	const void *code;  /* of the frame that was last gone by */
	int line;
};

/* Begin with the calling thread's frames; false if there is none, or if they
 * cannot be read. */
bool layout_begin(struct layout_walk *walk);
/* Go by one frame; false at the end. */
bool layout_next(struct layout_walk *walk);
/* The walk has come to its end or to as many frames as are wanted. */
void layout_end(const struct layout_walk *walk);

enum { LAYOUT_TEXT = 512 };

/* The names of a code as UTF-8, cut where they are too long. */
bool layout_names(
    const void *code, char function[LAYOUT_TEXT], char file[LAYOUT_TEXT]);

#endif
