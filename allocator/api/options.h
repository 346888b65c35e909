/*
 * Options that a program sets while it runs.
 */
#ifndef ALLOCATOR_API_OPTIONS_H
#define ALLOCATOR_API_OPTIONS_H

#include "base/status.h"

/* Set one option and make all thread caches follow it. Errors are those of
 * option_set(). */
enum weir_status option_change(
    const char *caller, const char *key, const char *value);

#endif
