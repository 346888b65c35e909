/*
 * Allocations of one recording that a program makes in the same place, such as
 * once for each picture. If their sizes differ, they depend on data, and no
 * formula of a single one says how they grow; their mean does.
 *
 * A place is known by its call site and life, and by those of its neighbours;
 * or by the call sites alone, because lives may depend on the number of rounds.
 */
#ifndef TOOLS_WEIR_FIT_FIT_GROUPS_H
#define TOOLS_WEIR_FIT_FIT_GROUPS_H

#include "tools/weir/fit/fit_run.h"

struct fit_group {
	uint64_t place;
	double sum;
	double squares; /* the sum of squares */
	uint64_t least;
	uint64_t most;
	uint32_t count;
	/* Those that other recordings have, and those of them for which one
	 * formula holds. For the caller. */
	uint32_t matched;
	uint32_t agreed;
};

struct fit_groups {
	struct fit_group *items; /* sorted by place */
	uint32_t count;
};

/* Sort the allocations of a recording into groups, by their sites and, if
 * `lives`, by their lives. False without memory. */
bool fit_groups_make(
    const struct fit_run *run, bool lives, struct fit_groups *out);
void fit_groups_drop(struct fit_groups *groups);

/* The standard deviation of a group's sizes. */
double fit_group_spread(const struct fit_group *group);

/* The place of an allocation. */
uint64_t fit_place_of(const struct fit_run *run, uint32_t alloc, bool lives);

/* The group of a place, or NULL. */
struct fit_group *fit_groups_find(
    const struct fit_groups *groups, uint64_t place);

#endif
