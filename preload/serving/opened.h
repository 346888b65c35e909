/*
 * The parts of other processes' memory that this one has opened.
 */
#ifndef PRELOAD_SERVING_OPENED_H
#define PRELOAD_SERVING_OPENED_H

#include "preload/preload.h"

/* A part of another process's memory that is open here. */
struct opened {
	struct opened *next;
	CUdeviceptr ptr;
	size_t size;
	CUdeviceptr base; /* address of the driver's allocation */
	unsigned times;
};

/* Add a part, or count one more use of it if it is open. Takes ownership of
 * `fresh`, which is allocated as metadata (base/meta.h). */
void opened_remember(struct opened *fresh);

/* Is any part open, in a call that weir takes part in? */
bool opened_any(void);

/* Forget an opened part and return the driver's address of it. A part is closed
 * once. */
CUdeviceptr opened_forget(CUdeviceptr ptr);

/* Find the part that contains an address. */
bool opened_find(CUdeviceptr ptr, struct place *out);

/* The address at which the driver opened the memory that `ptr` begins. */
CUdeviceptr opened_base(CUdeviceptr ptr);

#endif
