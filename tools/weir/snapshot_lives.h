/*
 * The lives of addresses in a trace: from an allocation to its free, joined
 * with the blocks that the snapshot shows.
 *
 * A trace is the last part of what happened, so a life may begin before it;
 * one that has a block at the end goes on.
 */
#ifndef TOOLS_WEIR_SNAPSHOT_LIVES_H
#define TOOLS_WEIR_SNAPSHOT_LIVES_H

#include "trace/snapshot_model.h"

enum { LIFE_NONE = UINT32_MAX };

struct life {
	uint64_t address;
	uint64_t bytes; /* requested */
	uint64_t stream;
	uint32_t alloc;     /* event, or LIFE_NONE: before the trace */
	uint32_t requested; /* event of its free, or LIFE_NONE */
	uint32_t completed; /* event of the free's end, or LIFE_NONE */
	uint32_t block;     /* that it has now, or LIFE_NONE */
	uint32_t previous;  /* life of this address, or LIFE_NONE */
	uint32_t stack;     /* of the allocation */
	bool lost;          /* its end is not in the trace, and it has none */
};

struct lives {
	uint32_t count;
	struct life *items; /* in the order they are first seen */
};

/* Find the lives of one device. False, and a complaint, without memory. */
bool lives_find(
    const struct snapshot *snapshot, uint32_t device, struct lives *out);

void lives_drop(struct lives *lives);

/* The time of the first and of the last event of a device that has one; 0
 * where there is none. */
void trace_times(const struct snapshot *snapshot, uint32_t device,
    int64_t *first, int64_t *last);

#endif
