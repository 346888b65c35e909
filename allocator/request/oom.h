/*
 * The report of a request that found no memory.
 */
#ifndef ALLOCATOR_REQUEST_OOM_H
#define ALLOCATOR_REQUEST_OOM_H

#include "allocator/state.h"

/* Set the report of a request that found no memory as the last error, then
 * call the observers. Holds no lock. Returns WEIR_ENOMEM. */
enum weir_status oom_report(struct arena *arena, struct stream *stream,
    size_t requested, size_t rounded);

#endif
