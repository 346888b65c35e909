/*
 * Conversion of a recording of Nsight Systems, as `nsys export --type sqlite`
 * writes it, to a trace of Chrome's form. The trace has the kernels, copies and
 * fills of each device by stream, and the calls of the runtime and the driver
 * and the NVTX ranges and marks by thread.
 */
#ifndef TOOLS_WEIR_EXPORT_NSYS_H
#define TOOLS_WEIR_EXPORT_NSYS_H

#include <stddef.h>

/* In the trace, device 0 is the process of this number, which is above all
 * process ids. The next devices follow. */
enum { NSYS_DEVICE_PROCESS = 1 << 24 };

/*
 * Convert a database.
 *
 * @param text    the trace's text with a NUL after it; the caller frees it
 * @return NULL, or the fault of the database
 */
const char *nsys_to_chrome(
    const void *database, size_t bytes, char **text, size_t *length);

#endif
