/*
 * Who holds the memory of a snapshot: blocks in use, added up by the stack
 * that allocated them.
 */
#ifndef TOOLS_WEIR_SNAPSHOT_HOLDERS_H
#define TOOLS_WEIR_SNAPSHOT_HOLDERS_H

#include "trace/snapshot_model.h"

struct holder {
	uint64_t key; /* of the text of its frames, equal in other snapshots */
	uint32_t stack; /* of the snapshot it was first seen in */
	uint64_t blocks;
	uint64_t bytes;     /* of the blocks */
	uint64_t requested; /* of them */
	uint64_t largest;   /* block */
};

struct holders {
	size_t count;
	struct holder *items;         /* most bytes first */
	const struct holder **by_key; /* the same, by their keys */
};

/* Find the holders of a device, or of all for -1. False, and a complaint,
 * without memory. */
bool holders_find(
    const struct snapshot *snapshot, int device, struct holders *out);

void holders_drop(struct holders *holders);

/* The one with this key, or NULL. */
const struct holder *holders_get(const struct holders *holders, uint64_t key);

#endif
