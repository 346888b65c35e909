/*
 * The places that a plan gives to a program's large requests.
 *
 * Note [A placement made ahead]
 *
 * A program that repeats itself needs no search: `weir plan` computes from a
 * recording where each large request of a round should lie, so that the whole
 * round fits a range of little more than the peak of its live bytes
 * (snapshot/plan_file.h). The option plan:FILE gives that plan to the device's
 * own arena.
 *
 * The range is free memory like any other. It is mapped at once, when the
 * program makes the first request that is believed to be the plan's
 * (snapshot/plan_follow.h); in a program that begins otherwise, only the
 * round's part of it. From then on a request first looks at its
 * planned place, and gets it if the memory there is ready, or if a wait for it
 * is within the budget: as for the place that it had the round before
 * (places.h). If it does not get it, or the plan does not have the request, it
 * is served as without a plan. So memory is never reserved, a limit, a trim and
 * sleep treat all memory alike, and a plan that is dropped leaves only free
 * memory behind.
 *
 * At the begin of a round the range may have lost memory: to a trim, to decay,
 * or to a remap for another request. Then the plan begins again in a new range,
 * into which free memory moves, PLAN_RENEWALS times at most. A plan whose range
 * cannot be mapped is dropped; so is one after PLAN_DIFFERING rounds in a row
 * that differed.
 *
 * Thread caches keep no large blocks while there is a plan, because the
 * requests that they serve would be missing in the order, and the blocks that
 * they keep lie in places of others. Requests in captures, in private pools,
 * and of memory of the whole device (WEIR_STREAM_ANY) are not planned.
 */
#ifndef ALLOCATOR_REQUEST_PLAN_H
#define ALLOCATOR_REQUEST_PLAN_H

#include "allocator/request/request.h"

/* Read the plan that the options name, for the device's own arena. Without a
 * plan that can be read, the arena has none, and the log says why. */
void plan_load(struct arena *arena, const struct options *options);

/* Forget the plan of an arena whose context is gone. */
void plan_forget(struct arena *arena) HOLDS(arena->lock);

/* Follow the plan with a request that is in no capture, and set r->place to its
 * place, or to 0. May map the range, and release the lock meanwhile. The arena
 * must have a plan, which it may drop. */
void plan_find_place(struct request *r) HOLDS(r->heap->arena->lock);

#endif
