/*
 * What other parts of the tree may ask of the allocator beyond <weir/weir.h>.
 */
#ifndef ALLOCATOR_ALLOCATOR_H
#define ALLOCATOR_ALLOCATOR_H

#include <stdbool.h>

#include "driver/abi.h"

/* The primary context of a device has been reset: all its memory is gone.
 * Addresses in it are foreign from now on. Of the driver nothing is asked but
 * to take back what outlives a context: mappings and reserved addresses. */
void allocator_forget_device(int device);

/* True if an address lies in a range weir has from the driver, be it in use,
 * cached or unmapped: freeing it is not for the driver. */
bool allocator_owns(CUdeviceptr addr);

#endif
