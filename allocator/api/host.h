/*
 * <weir/host.h>: page-locked host memory.
 */
#ifndef ALLOCATOR_API_HOST_H
#define ALLOCATOR_API_HOST_H

#include "allocator/memory/types.h"

/*
 * Memory of weir's own, to be given back with weir_host_free(): pages that are
 * registered, whatever the options have for others, so that several threads get
 * it faster; from the driver where that registers none. Holds no lock.
 *
 * @return WEIR_EHOSTMEM, WEIR_EDRIVER
 */
enum weir_status host_get(int device, size_t size, void **out);

#endif
