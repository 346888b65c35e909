/*
 * The owner of a frame (program, runtime, framework), and the frame of a stack
 * that an allocation is blamed on.
 *
 * A stack goes from the call that allocated out to the program's start. The
 * inner frames are the recorder's, the CUDA runtime's and a framework's, the
 * outer ones the interpreter's and the C library's. The frame a person looks
 * for is the innermost one of the program between them.
 */
#ifndef TOOLS_WEIR_SNAPSHOT_SITES_H
#define TOOLS_WEIR_SNAPSHOT_SITES_H

#include "trace/snapshot_model.h"

/*
 * How well a frame names an allocation. In a Python program the script is the
 * program and compiled code serves it, so a script of an installed package is
 * above compiled code. tools/viewer/src/sites.js has the same numbers.
 */
enum site_grade {
	SITE_NOISE,     /* the recorder, the interpreter, start of a thread */
	SITE_RUNTIME,   /* CUDA's libraries, libffi, the C and C++ libraries,
			   what all of a framework's allocations pass */
	SITE_FRAMEWORK, /* PyTorch, CuPy, JAX and so on, in any language */
	SITE_COMPILED,  /* compiled code of the program */
	SITE_LIBRARY,   /* a script of an installed package */
	SITE_PROGRAM,   /* a script of the program */
};

/* The grade of a frame, by its name and file. */
enum site_grade site_grade(const struct snapshot *snapshot, uint32_t frame);

/*
 * The frame a stack is blamed on: the innermost one of the best grade. Returns
 * its grade; *frame is UINT32_MAX, and the grade SITE_NOISE, if the stack is
 * empty or has only noise.
 */
enum site_grade site_find(
    const struct snapshot *snapshot, uint32_t stack, uint32_t *frame);

enum { SITE_FUNCTION = 128 };

/*
 * A function's own qualified name, without its return type, its template's
 * arguments and its parameters: "at::native::empty" of
 * "at::Tensor at::native::empty<float>(long, at::Device)". Cut to size.
 */
void site_function(const char *name, char function[SITE_FUNCTION]);

/* "PyTorch", or NULL if the frame is of no framework. */
const char *site_framework(const struct snapshot *snapshot, uint32_t frame);

#endif
