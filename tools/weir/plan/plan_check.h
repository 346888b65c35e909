/*
 * How far a recording follows a plan.
 */
#ifndef TOOLS_WEIR_PLAN_PLAN_CHECK_H
#define TOOLS_WEIR_PLAN_PLAN_CHECK_H

#include <stdbool.h>
#include <stdint.h>

#include "snapshot/plan_file.h"
#include "tools/weir/plan/plan_rounds.h"

struct plan_checked {
	uint64_t requests; /* large ones of the recording */
	uint64_t planned;  /* of these, those that would look at a place */
	uint64_t rounds;   /* that did not differ */
	uint64_t others;   /* requests that are not known as the plan's, since
			    * a round was followed first */
	uint64_t first_other;      /* the number of the first, from 1 on */
	uint64_t first_other_size; /* its bytes */
	bool joined;               /* a round was followed, ever */
	uint64_t dropped_at; /* the request at which the plan would be dropped;
			      * 0: it would not */
};

/* Follow a plan with a recording's requests; `device` as for a replay. False,
 * and a complaint, if it cannot be read. */
bool plan_check(const struct plan *plan, const char *path, int device,
    struct plan_checked *out);

/* Likewise, with requests that were read; `out` begins as zero. */
void plan_check_requests(const struct plan *plan,
    const struct plan_requests *requests, struct plan_checked *out);

/* Did every round follow the plan? */
static inline bool
plan_fits(const struct plan_checked *checked)
{
	return checked->joined && checked->others == 0;
}

#endif
