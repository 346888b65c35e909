/*
 * The driver's calls that fail under programs which run under the preload:
 * those of weir, of the preload, and of the program through a hook.
 */
#ifndef TESTS_PRELOAD_FAKE_FAILING_H
#define TESTS_PRELOAD_FAKE_FAILING_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "driver/entries.h"
#include "preload/hooks.h"

/* By base name. A name may be there more than once. */
static const char *const failing[] = {
#define FAILING_ENTRY(name, version, required, params) #name,
	DRIVER_ENTRIES(FAILING_ENTRY)
#undef FAILING_ENTRY
#define FAILING_HOOK(name, base, version, streams, use, params) base,
	    HOOKS(FAILING_HOOK)
#undef FAILING_HOOK
		"cuDevicePrimaryCtxGetState",
};

enum { FAILING = sizeof(failing) / sizeof(failing[0]) };

/* Is the name not to be used? It has been in the list before, or it is the call
 * by which a runtime finds the driver: without it the runtime says in its own
 * words that the driver is too old. */
static inline bool
failing_skips(size_t i)
{
	for (size_t k = 0; k < i; k++)
		if (strcmp(failing[k], failing[i]) == 0)
			return true;
	return strcmp(failing[i], "cuGetProcAddress") == 0;
}

#endif
