/*
 * The lives of blocks in a trace: from an allocation to its free, joined with
 * the blocks of the snapshot.
 *
 * A trace has the last events of a program, so that a life may begin before the
 * trace. A life that has a block in the snapshot has not ended.
 */
#ifndef TOOLS_WEIR_READING_SNAPSHOT_LIVES_H
#define TOOLS_WEIR_READING_SNAPSHOT_LIVES_H

#include "snapshot/model.h"

enum { LIFE_NONE = UINT32_MAX };

struct life {
	uint64_t address;
	uint64_t bytes; /* requested */
	uint64_t stream;
	uint32_t alloc;     /* event; LIFE_NONE if before the trace */
	uint32_t requested; /* event free_requested, or LIFE_NONE */
	uint32_t completed; /* event free_completed, or LIFE_NONE */
	uint32_t block;     /* block of the snapshot, or LIFE_NONE */
	uint32_t previous;  /* life before at this address, or LIFE_NONE */
	uint32_t stack;     /* of the allocation */
	bool lost;          /* the trace has no free of it, the snapshot no
			       block */
};

struct lives {
	uint32_t count;
	struct life *items; /* in the order of their first events */
};

/* Find the lives of one device. False, and a complaint, without memory. */
bool lives_find(
    const struct snapshot *snapshot, uint32_t device, struct lives *out);

void lives_drop(struct lives *lives);

/* The bytes that were live when a device's trace begins. False, and a
 * complaint, without memory. */
bool live_bytes_before(
    const struct snapshot *snapshot, uint32_t device, uint64_t *live);

/* Add an event to the live bytes: those that the program requested and has not
 * freed. */
void live_bytes_follow(
    const struct snapshot *snapshot, uint32_t event, uint64_t *live);

/* The first and the last time of a device's events; 0 if no event has a
 * time. */
void trace_times(const struct snapshot *snapshot, uint32_t device,
    int64_t *first, int64_t *last);

#endif
