/*
 * The allocations of one device of a snapshot or trace, as rows in the order in
 * which they were made. Rows that the file lacks are added, so that every block
 * has one allocation, and its free comes after it.
 *
 * Blocks that are older than the recording have no row 'a'. They come first
 * among the blocks, by address.
 */
#ifndef TOOLS_WEIR_FIT_RECORDING_H
#define TOOLS_WEIR_FIT_RECORDING_H

#include "snapshot/model.h"

enum { RECORDING_NONE = UINT32_MAX };

/* Actions as in trace_file.h: a f c of blocks, S s m u of segments. */
struct recording_row {
	char action;
	uint32_t index; /* a, f, c: in blocks; S, s, m, u: in segments */
	int64_t time_us;
};

struct recording_block {
	uint64_t address;
	uint64_t bytes; /* requested */
	uint64_t stream;
	uint32_t pool;  /* of the snapshot */
	uint32_t stack; /* of the snapshot */
	uint32_t begin; /* rows; RECORDING_NONE: before the recording, or never
			 */
	uint32_t freed;
	uint32_t done;
};

struct recording_segment {
	uint64_t address;
	uint64_t bytes;
	uint64_t stream;
	uint32_t pool;
	bool small;
	bool expandable;
};

struct recording {
	const struct snapshot *snapshot; /* must outlive the recording */
	uint32_t device;
	struct recording_row *rows;
	uint32_t row_count;
	struct recording_block *blocks;
	uint32_t block_count;
	uint32_t older_count; /* blocks before the recording */
	/* The first older_segments of these are older than the recording, by
	 * address. The others are those of rows. */
	struct recording_segment *segments;
	uint32_t segment_count;
	uint32_t older_segments;
};

/* False, and a complaint, without memory. */
bool recording_make(
    const struct snapshot *snapshot, uint32_t device, struct recording *out);
void recording_drop(struct recording *recording);

#endif
