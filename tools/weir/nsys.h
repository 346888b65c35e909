/*
 * A recording of Nsight Systems as `nsys export --type sqlite` writes it, made
 * into a trace of Chrome's form: kernels, copies and fills of each device by
 * stream, calls of the runtime and the driver, and NVTX ranges and marks by
 * thread.
 */
#ifndef TOOLS_WEIR_NSYS_H
#define TOOLS_WEIR_NSYS_H

#include <stddef.h>

/* The first number of a process in the trace that stands for a device: above
 * all process ids. */
enum { NSYS_DEVICE_PROCESS = 1 << 24 };

/*
 * Make the trace.
 *
 * @param text    the trace's text with a NUL behind it; the caller frees it
 * @return NULL, or the fault of the database
 */
const char *nsys_to_chrome(
    const void *database, size_t bytes, char **text, size_t *length);

#endif
