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
 * The range gets its addresses, which it keeps, when the program makes the
 * first request that is believed to be the plan's (snapshot/plan_follow.h). All
 * of it is mapped then, or in a program that begins otherwise the round's part
 * of it, if the device comes to hold as much without a plan (plan->held_bytes).
 * Otherwise it is mapped place by place, as requests come: when a round begins,
 * what the warm-up left cached is still in use or not complete, and graphs may
 * hold much.
 *
 * A request first looks at its planned place, and gets it if the memory there
 * is ready. If some of the place is not mapped, free memory that the request
 * may use moves there from elsewhere, and new memory is mapped within
 * plan->held_bytes. If the memory is not ready, the request waits for it inside
 * its stream (policy.h, Note [Wait or grow]): so each round, from the first one
 * on, has the same addresses. If the request does not get its place, or the
 * plan does not have it, it is served as without a plan; but if that comes to a
 * remap or to new memory, this is mapped at the place. So beyond
 * plan->held_bytes a plan takes no new memory that the request would not take
 * without it. Memory of the range is free memory like any other: a limit, a
 * trim and sleep treat all memory alike, and a plan that is dropped leaves only
 * free memory behind. But while the program follows the plan, none of it moves
 * elsewhere as long as other memory can be had, because the next round lacks
 * it; and a request that the plan does not have prefers memory elsewhere, also
 * new memory within plan->held_bytes, because it may live for many rounds.
 *
 * The range may lose memory again: to a trim, to decay, or to a request that
 * would fail. Its places are then mapped again in the same way. A plan for
 * which PLAN_RENEWALS times its bytes were mapped again is dropped; so is one
 * after PLAN_DIFFERING rounds in a row that differed. A round in which the
 * waits for its places have made a stream too late differs, too.
 *
 * Thread caches keep no large blocks while there is a plan, because the
 * requests that they serve would be missing in the order, and the blocks that
 * they keep lie in places of others. Requests in captures, in private pools,
 * and of memory of the whole device (WEIR_STREAM_ANY) are not planned.
 */
#ifndef ALLOCATOR_REQUEST_PLAN_H
#define ALLOCATOR_REQUEST_PLAN_H

#include "allocator/memory/grow.h"
#include "allocator/request/request.h"

/* Read the plan that the options name, for the device's own arena. Without a
 * plan that can be read, the arena has none, and the log says why. */
void plan_load(struct arena *arena, const struct options *options);

/* Forget the plan of an arena whose context is gone. */
void plan_forget(struct arena *arena) HOLDS(arena->lock);

/* Follow the plan with a request that is in no capture, and set r->planned to
 * its place, if it has one. The arena must have a plan, which it may drop. */
void plan_find_place(struct request *r) HOLDS(r->heap->arena->lock);

/* A request of an arena with a plan does not wait for its planned place,
 * because the plan's waits have delayed its stream too much. */
void plan_note_late(const struct arena *arena) HOLDS(arena->lock);

/* The bytes of new memory that a request may get at its place although there
 * may be free memory elsewhere. */
size_t plan_new_most(const struct request *r) HOLDS(r->heap->arena->lock);

/* Map what the request's planned place lacks, with `new_most` bytes of new
 * memory at most, and serve the request there. Releases the lock in between.
 * That there is not enough memory, or that the place is in use, is no error. */
enum weir_status plan_map_place(struct request *r, enum grow_how how,
    size_t new_most) HOLDS(r->heap->arena->lock);

#endif
