/*
 * Stacks whose blocks may pile up.
 *
 * A leak is a place in a program that allocates repeatedly and does not free.
 * A stack of a trace is suspect if three things are true: it has several live
 * blocks; it has freed less than half of its allocations; and its live blocks
 * are from several parts of the trace. The third condition exempts memory that
 * one step of a program allocates and keeps.
 */
#ifndef TOOLS_WEIR_READING_SNAPSHOT_LEAKS_H
#define TOOLS_WEIR_READING_SNAPSHOT_LEAKS_H

#include "tools/weir/reading/snapshot_view.h"
#include "tools/weir/tuning.h"

struct suspect {
	uint32_t device;
	uint32_t stack;
	uint64_t allocs;
	uint64_t frees;
	uint64_t live;
	uint64_t live_bytes;
	uint64_t
	    last; /* event of the latest live block, from the trace's first */
	bool at_peak;   /* the trace ends with its most live bytes */
	unsigned parts; /* a bit for each part of the trace with a live block */
};

struct suspects {
	size_t count;
	struct suspect *items;
	uint64_t traced; /* allocations with a stack */
};

/* Find the suspects of the selected devices, those with the most live bytes
 * first. `least` is how many live blocks a suspect has at least. The caller
 * frees `items`, which is NULL at first. False, and a complaint, without
 * memory. */
bool leaks_find(const struct snapshot *snapshot, const struct view_args *args,
    unsigned long least, struct suspects *out);

#endif
