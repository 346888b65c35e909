/*
 * The calls that a report counts by name: the hooks that the program calls, and
 * the driver's entry points that weir calls.
 */
#ifndef TOOLS_REPORT_NAMES_H
#define TOOLS_REPORT_NAMES_H

#include <stddef.h>

#include "driver/abi.h"
#include "preload/hooks.h"

/* The driver's entry points. */
enum {
#define COUNT_ENTRY(name, version, required, params) COUNT_##name,
	DRIVER_ENTRIES(COUNT_ENTRY)
#undef COUNT_ENTRY
	    COUNT_ENTRIES
};

/* The name of an entry point, such as "cuMemAlloc". i < COUNT_ENTRIES. */
const char *count_name(size_t i);

/* The hook's name as the driver exports it, such as "cuMemAlloc_v2". */
const char *hook_name(enum hook_id id);

#endif
