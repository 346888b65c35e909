/*
 * A recording as a list of allocations, in a form in which recordings of one
 * program can be compared.
 *
 * The frees between two allocations have no order that matters: a program that
 * drops a table frees in the order of its hashes. So a block ends in a gap,
 * which is the number of the last allocation before its free.
 */
#ifndef TOOLS_WEIR_FIT_FIT_RUN_H
#define TOOLS_WEIR_FIT_FIT_RUN_H

#include "tools/weir/fit/recording.h"

enum { FIT_NEVER = UINT32_MAX };

struct fit_alloc {
	uint64_t key;   /* call site, stream and pool; equal in all runs */
	uint64_t bytes; /* requested */
	int64_t time_us;
	uint32_t end;    /* gap of its free, or FIT_NEVER */
	uint32_t done;   /* gap of its completion, or FIT_NEVER */
	uint32_t stack;  /* of the snapshot */
	uint32_t order;  /* rank among all frees */
	uint16_t stream; /* numbers in the order of first use */
	uint16_t pool;
	bool older; /* than the recording */
	bool vague; /* its site is that of many other allocations */
};

struct fit_run {
	const char *path;
	struct snapshot *snapshot;
	uint32_t device;
	struct fit_alloc *allocs;
	uint32_t count;
	uint32_t *emptied; /* gaps in which cached memory was freed */
	uint32_t emptied_count;
};

/* Read a snapshot or trace, without a list of its allocations. False, and a
 * complaint, on failure; then *out is empty. */
bool fit_run_load(const char *path, struct fit_run *out);

/* List the allocations. `keys` has a number for each stack (fit_sites.h). False
 * without memory. */
bool fit_run_list(struct fit_run *run, const uint64_t *keys);
void fit_run_drop(struct fit_run *run);

#endif
