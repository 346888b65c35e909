/*
 * The frames of a thread that does not hold Python's lock, read from the
 * interpreter's own structs, as profilers do.
 *
 * Only the thread itself changes its frames, and frames keep their code alive.
 * So the thread may read them without the lock, but must not count a reference
 * or call a function that does. The structs differ between versions; those of
 * CPython 3.9 to 3.13 are known. The first reads of a struct go through the
 * kernel, so that a wrong address is an error and not a fault, and every code
 * object and text is checked. If one is wrong, frames are never read again.
 */
#ifndef STACKS_PYTHON_LAYOUT_H
#define STACKS_PYTHON_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>

#include "stacks/tuning.h"

/* Look for the layout of the interpreter that has been found. Called once. */
bool layout_find(void);

/* A walk over the frames of a thread, from the innermost out. */
struct layout_walk {
	const void *frame; /* the next frame; NULL: the end */
	const void *code;  /* the code of the current frame */
	int line;
};

/* Begin with the calling thread's innermost frame; false if there is none, or
 * if the frames cannot be read. */
bool layout_begin(struct layout_walk *walk);
/* Go to the next frame; false at the end. */
bool layout_next(struct layout_walk *walk);
/* End the walk, whether or not it has reached the last frame. */
void layout_end(const struct layout_walk *walk);

/* Copy the names of a code as UTF-8, cut to LAYOUT_TEXT. */
bool layout_names(
    const void *code, char function[LAYOUT_TEXT], char file[LAYOUT_TEXT]);

#endif
