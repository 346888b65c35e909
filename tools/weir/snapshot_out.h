/*
 * A snapshot in the forms of other tools. Each returns false if there is no
 * memory, and has complained; that all of it was written the caller asks of
 * the file.
 */
#ifndef TOOLS_WEIR_SNAPSHOT_OUT_H
#define TOOLS_WEIR_SNAPSHOT_OUT_H

#include <stdio.h>

#include "trace/snapshot_model.h"
#include "trace/source.h"

struct timeline;

enum { SNAPSHOT_WHY = 256 };

/* One snapshot as a part of a file: its device d is `device + d` there. */
struct snapshot_part {
	const struct snapshot *snapshot;
	uint32_t device;
};

/* JSON of PyTorch's form, of any number of snapshots together; the settings
 * are those of the first. */
void snapshot_out_json(
    const struct snapshot_part *parts, size_t count, FILE *out);

/*
 * For Perfetto and chrome://tracing: curves of what is allocated and reserved,
 * a slice for each block's life, annotations. All devices are on one clock.
 *
 * @param timeline  a profiler's trace to put it all into, on that one's clock;
 *                  NULL: none. False, and told, if they are of different times
 */
bool snapshot_out_chrome(const struct snapshot *snapshot,
    const struct timeline *timeline, FILE *out);

/* A line "outermost;...;innermost BYTES" for each block in use, and one for
 * what is free of each stream, as flame graph tools read it. */
void snapshot_out_folded(const struct snapshot *snapshot, FILE *out);

/*
 * The trace of a device as `weir replay` reads it; blocks that were there
 * before come first.
 *
 * @param device  one that has a trace; see snapshot_traced_device()
 */
bool snapshot_out_csv(const struct snapshot *snapshot, uint32_t device,
    const char *name, FILE *out);

/* A request for a trace of a snapshot, and its result. */
struct csv_request {
	const char *name;
	int device; /* or -1: the first that has events; then the one it is */
	int next;   /* the next device that has events, or -1 */
	char why[SNAPSHOT_WHY];
};

/*
 * Make CSV of a snapshot that is still text of some form, in memory that the
 * caller frees. False, and `why` set, if it is no snapshot or has no such
 * trace.
 */
bool snapshot_csv_of(struct csv_request *request, struct source *source,
    char **text, size_t *length);

/* The first device from `from` on that has events, or UINT32_MAX. */
uint32_t snapshot_traced_device(const struct snapshot *snapshot, uint32_t from);

/* A text in quotes, with what JSON wants escaped. */
void json_text(const char *text, FILE *out);

#endif
