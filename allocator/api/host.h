/*
 * <weir/host.h>: page-locked host memory.
 */
#ifndef ALLOCATOR_API_HOST_H
#define ALLOCATOR_API_HOST_H

#include "allocator/state.h"

/*
 * Allocate host memory for weir's own use. The pages are registered, whatever
 * the options say for other requests, so that several threads can make them
 * exist; if the driver cannot register them, it allocates them.
 * weir_host_free() frees the memory. The caller holds no lock.
 *
 * @return WEIR_EHOSTMEM, WEIR_EDRIVER
 */
enum weir_status host_get(int device, size_t size, void **out);

#endif
