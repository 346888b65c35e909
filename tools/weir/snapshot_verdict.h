/*
 * Why a request found no memory, and what would have served it.
 *
 * The request is judged at its own moment: what happened after it is undone
 * (snapshot_moment.h). All causes that apply are listed, the easiest to remedy
 * first, each with the bytes that its remedy gives and the setting to copy, in
 * the words of the allocator that made the snapshot.
 */
#ifndef TOOLS_WEIR_SNAPSHOT_VERDICT_H
#define TOOLS_WEIR_SNAPSHOT_VERDICT_H

#include <jansson.h>

#include "tools/weir/snapshot_view.h"

/* A request, and where memory was that might have served it. */
struct verdict {
	/* The request. */
	uint32_t device;
	uint64_t stream;
	uint64_t bytes;
	uint32_t event;       /* that tells of it, or UINT32_MAX */
	uint32_t later;       /* events after it */
	uint64_t device_free; /* the driver's free bytes, if told_free */
	bool told_free;
	/* The device's limit, if there was one. */
	bool limited;
	uint64_t limit;
	const char *limit_source; /* "" if that is not told */
	/* The moment, and its sums. */
	struct snapshot *moment;
	struct sums all;
	struct sums own;    /* this stream's default pools of this kind */
	struct sums kind;   /* the other kind on this stream */
	struct sums others; /* other streams' default pools */
	struct sums pools;  /* private pools */
	/* A list of {cause, bytes, text, setting}; `setting` is null if there
	 * is none to copy. */
	json_t *causes;
};

/* The last request of a device that failed, or of any for VIEW_ALL_DEVICES.
 * False: the trace has none. */
bool verdict_last_failure(
    const struct snapshot *snapshot, int device, struct verdict *out);

/* Judge the request that is in `verdict`. False, and a complaint, without
 * memory; verdict_drop() follows either way. */
bool verdict_find(const struct snapshot *snapshot, struct verdict *verdict);
void verdict_drop(struct verdict *verdict);

/* The request and the free memory in a sentence. Returns `text`. */
const char *verdict_headline(
    const struct verdict *verdict, char text[VIEW_TEXT]);

#endif
