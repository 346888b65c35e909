/*
 * The best plan for a trace, with the figures of replays.
 */
#ifndef TOOLS_WEIR_PLAN_PLAN_FIND_H
#define TOOLS_WEIR_PLAN_PLAN_FIND_H

#include <stdbool.h>

#include "snapshot/plan_file.h"

enum { PLAN_WHY = 160 };

/* The figures of a replay. */
struct plan_figures {
	uint64_t live;  /* the peak, in bytes */
	uint64_t held;  /* likewise */
	uint64_t waits; /* inside streams */
	uint64_t host_waits;
	uint64_t map_calls;
	uint64_t ooms;
	uint64_t duration_us;
	uint64_t delay_us; /* of work, by waits inside streams */
	uint64_t stall_us; /* of streams by them, with work or without */
	uint64_t planned;  /* requests that got their place */
	uint64_t repeated; /* large requests that the round before had too */
	uint64_t moved;    /* of these, those with another address */
	uint64_t unplaced; /* requests of the plan's round without a place */
};

struct plan_found {
	struct plan *plan; /* NULL: there are no rounds, and `why` says so */
	char why[PLAN_WHY];
	uint64_t rounds; /* of the recording, in a row */
	uint64_t placed; /* requests of the recording that have a place */
	bool has_work;   /* the recording says which work streams have */
	bool is_of_weir; /* it does not, but shows what weir waited for */
	struct plan_figures without;
	struct plan_figures with; /* of the plan */
};

struct plan_request_to_find {
	const char *path; /* of the recording */
	int device;       /* of a snapshot; -1: the first that has a trace */
	const char *conf; /* options of weir, or NULL */
};

/* Find the plan with which a replay holds least. The replays run in children,
 * on the simulated device. False, and a complaint, on failure. */
bool plan_find(
    const struct plan_request_to_find *request, struct plan_found *out);
void plan_found_drop(struct plan_found *found);

/* Does the plan help: does the replay hold no more with it, serve as many
 * requests, and lose no time by waits that a step would show? */
bool plan_helps(const struct plan_found *found);

#endif
