/*
 * A snapshot in the forms of other tools. Functions that return bool return
 * false, after a complaint, if they fail. ferror() of the file reports a
 * failure to write.
 */
#ifndef TOOLS_WEIR_READING_SNAPSHOT_OUT_H
#define TOOLS_WEIR_READING_SNAPSHOT_OUT_H

#include <stdio.h>

#include "snapshot/model.h"
#include "snapshot/source.h"
#include "tools/weir/tuning.h"

struct timeline;

/* One snapshot as a part of a file. Device d of the snapshot is device
 * `device + d` of the file. */
struct snapshot_part {
	const struct snapshot *snapshot;
	uint32_t device;
	const char *name; /* the rank's snapshot, if the parts are ranks */
};

/* Write JSON of PyTorch's form, with any number of snapshots together. The
 * settings are those of the first snapshot. If the parts have names, the key
 * `weir_ranks` has the name of each rank by its first device. */
void snapshot_out_json(
    const struct snapshot_part *parts, size_t count, FILE *out);

/*
 * Write a trace for Perfetto and chrome://tracing: curves of the allocated and
 * the reserved bytes, a slice for each block's life, and annotations. All
 * devices are on one clock.
 *
 * @param timeline  a profiler's trace, or NULL; the events are added to it, on
 *                  its clock. False, and a complaint, if the trace and the
 *                  snapshot have no moment in common
 */
bool snapshot_out_chrome(const struct snapshot *snapshot,
    const struct timeline *timeline, FILE *out);

/* Write the folded stacks that flame graph tools read: a line
 * "outermost;...;innermost BYTES" for each block in use, and a line without a
 * stack for each free block. */
void snapshot_out_folded(const struct snapshot *snapshot, FILE *out);

/*
 * Write the trace of a device as `weir replay` reads it. Blocks that are older
 * than the trace come first.
 *
 * @param device  must have a trace; see snapshot_traced_device()
 */
bool snapshot_out_csv(const struct snapshot *snapshot, uint32_t device,
    const char *name, FILE *out);

/* A request for a trace of a snapshot, and its result. */
struct csv_request {
	const char *name;
	int device; /* -1: the first that has events; set to the chosen device
		     */
	int next;   /* set to the next device that has events, or -1 */
	/* Set if no event is a request, so that all blocks are older. */
	bool lacks_requests;
	char why[SNAPSHOT_WHY];
};

/*
 * Read a snapshot from a source, and convert a trace of it to CSV. The caller
 * frees the text. False, and `why` set, if the source has no snapshot or the
 * snapshot no such trace.
 */
bool snapshot_csv_of(struct csv_request *request, struct source *source,
    char **text, size_t *length);

/* The first device from `from` on that has events, or UINT32_MAX. */
uint32_t snapshot_traced_device(const struct snapshot *snapshot, uint32_t from);

/* Write a text as a string of JSON, in quotes and with escapes. */
void json_text(const char *text, FILE *out);

#endif
