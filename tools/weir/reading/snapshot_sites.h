/*
 * The owner of a frame (program, runtime, framework), and the site of a stack:
 * the frame by which an allocation is named.
 *
 * A stack begins with the call that allocated and ends with the program's
 * start. The inner frames belong to the recorder, the CUDA runtime and a
 * framework, and the outer frames to the interpreter and the C library. The
 * site is the innermost frame of the program between them.
 */
#ifndef TOOLS_WEIR_READING_SNAPSHOT_SITES_H
#define TOOLS_WEIR_READING_SNAPSHOT_SITES_H

#include "snapshot/model.h"
#include "tools/weir/tuning.h"

/*
 * The grade of a frame says how well it names an allocation; a higher grade is
 * better. In a Python program the script is the program, and compiled code
 * serves it, so that a script of an installed package has a higher grade than
 * compiled code. tools/viewer/src/sites.js has the same numbers.
 */
enum site_grade {
	SITE_NOISE,     /* the recorder, the interpreter, start of a thread */
	SITE_RUNTIME,   /* CUDA's libraries, libffi, the C and C++ libraries,
			   functions that all allocations of a framework call */
	SITE_FRAMEWORK, /* PyTorch, CuPy, JAX and so on, in any language */
	SITE_COMPILED,  /* compiled code of the program */
	SITE_LIBRARY,   /* a script of an installed package */
	SITE_PROGRAM,   /* a script of the program */
};

/* The grade of a frame, by its name and file. */
enum site_grade site_grade(const struct snapshot *snapshot, uint32_t frame);

/*
 * Find the site of a stack: the innermost frame of the highest grade. Returns
 * its grade. If the stack is empty or has only noise, *frame is UINT32_MAX and
 * the grade SITE_NOISE.
 */
enum site_grade site_find(
    const struct snapshot *snapshot, uint32_t stack, uint32_t *frame);

/*
 * Write a function's qualified name, without its return type, template
 * arguments and parameters: "at::native::empty" for
 * "at::Tensor at::native::empty<float>(long, at::Device)". The name is cut to
 * its size.
 */
void site_function(const char *name, char function[SITE_FUNCTION]);

/* The name of the framework that a frame belongs to, such as "PyTorch", or
 * NULL. */
const char *site_framework(const struct snapshot *snapshot, uint32_t frame);

#endif
