/*
 * What a row of requests repeats.
 *
 * A run is a part of the row in which each request equals the one `period`
 * requests before it, from the `period`-th on, and which is no part of a longer
 * one.
 */
#ifndef TOOLS_WEIR_PLAN_PLAN_RUNS_H
#define TOOLS_WEIR_PLAN_PLAN_RUNS_H

#include <stdbool.h>
#include <stdint.h>

struct plan_request {
	uint64_t size;   /* bytes, a size class */
	uint32_t stream; /* from 0 on; a stream that ends gives its number to
			    no other one */
};

struct plan_run {
	uint32_t first;
	uint32_t length; /* 0: nothing repeats itself */
	uint32_t period; /* the shortest one */
};

/*
 * Find the longest run that has its period PLANNED_ROUNDS times, and lasts to
 * the end of the row or has more than half of it; one whose first period ends
 * within `most` requests of the row, if there is one.
 *
 * @return false without memory
 */
bool plan_longest_run(const struct plan_request *list, uint32_t count,
    uint32_t most, struct plan_run *out);

#endif
