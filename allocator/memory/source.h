/*
 * The driver as a source of segments.
 */
#ifndef ALLOCATOR_MEMORY_SOURCE_H
#define ALLOCATOR_MEMORY_SOURCE_H

#include "allocator/state.h"

/* cuMemAlloc and cuMemFree. */
extern const struct source source_driver;

#endif
