/*
 * The calls a report counts by name: hooks of the program's, and entries of
 * the driver that weir calls itself.
 */
#ifndef TOOLS_REPORT_NAMES_H
#define TOOLS_REPORT_NAMES_H

#include <stddef.h>

#include "driver/abi.h"
#include "tools/preload/hooks.h"

/* The entries. */
enum {
#define COUNT_ENTRY(name, version, required, params) COUNT_##name,
	DRIVER_ENTRIES(COUNT_ENTRY)
#undef COUNT_ENTRY
	    COUNT_ENTRIES
};

/* "cuMemAlloc", for an index below COUNT_ENTRIES. */
const char *count_name(size_t i);

/* "cuMemAlloc_v2": the hook's name as the driver exports it. */
const char *hook_name(enum hook_id id);

#endif
