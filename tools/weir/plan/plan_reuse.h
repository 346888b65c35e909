/*
 * Which requests had the memory of a trace's later ones, by their addresses.
 */
#ifndef TOOLS_WEIR_PLAN_PLAN_REUSE_H
#define TOOLS_WEIR_PLAN_PLAN_REUSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A range of addresses, and the request that had it last. */
struct plan_owned {
	uint64_t begin;
	uint64_t end;
	uint32_t request;
};

/* The ranges, by address. All zero: none. */
struct plan_reuse {
	struct plan_owned *list;
	size_t count;
	size_t capacity;
};

void plan_reuse_drop(struct plan_reuse *reuse);

/*
 * Give a range to a request; PLAN_NO_REQUEST: to none.
 *
 * @param reused is called for each part that a request had before
 * @return false without memory
 */
bool plan_reuse_give(struct plan_reuse *reuse, const struct plan_owned *given,
    void (*reused)(void *about, uint32_t request), void *about);

#endif
