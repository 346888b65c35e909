/*
 * The holders of a snapshot's memory: sums of the blocks in use, for each stack
 * that allocated some.
 */
#ifndef TOOLS_WEIR_READING_SNAPSHOT_HOLDERS_H
#define TOOLS_WEIR_READING_SNAPSHOT_HOLDERS_H

#include "snapshot/model.h"

struct holder {
	uint64_t key;   /* hash of the frames, the same in all snapshots */
	uint32_t stack; /* of this snapshot */
	uint64_t blocks;
	uint64_t bytes;     /* of the blocks */
	uint64_t requested; /* bytes that callers requested */
	uint64_t largest;   /* bytes of the largest block */
};

struct holders {
	size_t count;
	struct holder *items;         /* most bytes first */
	const struct holder **by_key; /* the items, sorted by their keys */
};

/* Find the holders of a device, or of all devices for -1. False, and a
 * complaint, without memory. */
bool holders_find(
    const struct snapshot *snapshot, int device, struct holders *out);

void holders_drop(struct holders *holders);

/* The holder with this key, or NULL. */
const struct holder *holders_get(const struct holders *holders, uint64_t key);

#endif
