/*
 * The reasons why a request found no memory, and the remedies.
 *
 * A request is judged at its own moment: later events are undone
 * (snapshot_moment.h). All causes that apply are listed, with their remedies in
 * the order of what these cost: those that cost nothing first. A remedy says
 * how much memory it gives and what it costs, and has a setting to copy, in the
 * form of the allocator that made the snapshot.
 */
#ifndef TOOLS_WEIR_READING_SNAPSHOT_VERDICT_H
#define TOOLS_WEIR_READING_SNAPSHOT_VERDICT_H

#include <jansson.h>

#include "tools/weir/reading/snapshot_callers.h"
#include "tools/weir/reading/snapshot_view.h"

/* A request, and the places of memory that might have served it. */
struct verdict {
	/* The request. */
	uint32_t device;
	uint64_t stream;
	uint64_t bytes;
	uint32_t event;       /* its oom event, or UINT32_MAX */
	uint32_t later;       /* number of events after it */
	uint64_t device_free; /* the driver's free bytes, if free_known */
	bool free_known;
	/* The device's limit, if there was one. */
	bool limited;
	uint64_t limit;
	const char *limit_source; /* "" if the snapshot does not name it */
	/* The callers of the snapshot, which name its stacks. */
	const struct callers *callers;
	/* The moment, and its sums. */
	struct snapshot *moment;
	struct sums all;
	struct sums own;    /* this stream's default pools of this kind */
	struct sums kind;   /* the other kind on this stream */
	struct sums others; /* other streams' default pools */
	struct sums pools;  /* private pools */
	/* A list of {cause, bytes, text, setting, remedies}, and `remedies` one
	 * of {setting, gives_bytes, text}. A setting is null if there is none
	 * to copy; that of a cause is its first remedy's. */
	json_t *causes;
};

/* Find the last failed request of a device, or of all devices for
 * VIEW_ALL_DEVICES. False if no request failed. */
bool verdict_last_failure(
    const struct snapshot *snapshot, int device, struct verdict *out);

/* Judge the request in `verdict`, whose callers are set. False, and a
 * complaint, without memory. The caller calls verdict_drop() in both cases. */
bool verdict_find(const struct snapshot *snapshot, struct verdict *verdict);
void verdict_drop(struct verdict *verdict);

/* The site that the request came from, and its caller. Returns `text`. */
const char *verdict_site(const struct snapshot *snapshot,
    const struct verdict *verdict, char text[CALLERS_TEXT]);

/* A sentence on the request and the free memory. Returns `text`. */
const char *verdict_headline(
    const struct verdict *verdict, char text[VIEW_TEXT]);

#endif
