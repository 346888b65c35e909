/*
 * What a request does where free memory does not fit it: wait on the device,
 * move memory together, or take more from the driver.
 *
 * Decisions alone, from facts alone: nothing here takes a lock, changes
 * anything, or knows an arena or a driver. request/ladder.c gathers the facts
 * and does what is decided.
 *
 * Note [Wait or grow]
 *
 * `prefer:speed` does not wait. `prefer:memory` waits whenever there is memory
 * to be had by it. Between the two a stream waits for what it finds done when
 * it comes to it (fence.c, Note [What a wait costs]), and for more by the
 * memory pressure: what would be held with the request, over the most that was
 * ever alive at once.
 *
 *   NONE      up to a 64th more
 *   LOW       up to a fifth more: new memory is taken
 *   MEDIUM    up to a third more: waits come first, for marks that their
 * streams have come at least half the way to since they were made, and for any
 * use of a pending block, twice as far away if the stream has nothing to do
 *   HIGH      up to a half more: for any but the latest mark, and for uses four
 *             times as far away
 *   CRITICAL  beyond: waits have not kept memory down, so their cost is for
 *             nothing. Only for the oldest marks, and for the uses of pending
 *             blocks that are as old
 *
 * Each of these is at least 64 MiB more.
 *
 * A move costs calls that new memory would cost once and for all, so moves have
 * a budget: a program that goes on as it did must not go on calling the driver.
 * It is smaller while hardly more is held than was alive, and where waits are
 * made. With `prefer:memory` it is without bounds beyond a twelfth more than
 * was alive. docs/adr/0004 has the figures.
 */
#ifndef ALLOCATOR_POLICY_PRESSURE_H
#define ALLOCATOR_POLICY_PRESSURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "allocator/options.h"

/* More is worse. */
enum pressure {
	PRESSURE_NONE,
	PRESSURE_LOW,
	PRESSURE_MEDIUM,
	PRESSURE_HIGH,
	PRESSURE_CRITICAL
};

/* Ticks of another's work that a stream with nothing to do may wait for. */
enum { NEAR = 64 };

/* No mark has so many younger ones: none is waited for. */
enum { AGE_NEVER = 1 << 20 };

/* Which marks of other streams, and uses of pending blocks, are waited for,
 * beside those that cost nothing. All zero: any, and new marks are made. */
struct wait_limits {
	unsigned age;  /* marks with at least so many younger ones */
	bool half_way; /* marks the stream has come half the way to */
	unsigned uses; /* uses with at least so many younger ones, */
	unsigned near; /* and, if the stream has nothing to do, not further away
			* than so many ticks */
};

static inline bool
wait_limits_allow_any(struct wait_limits limits)
{
	return limits.age == 0 && !limits.half_way;
}

/* Does anything but what is free of cost lie within them? */
static inline bool
wait_limits_allow_some(struct wait_limits limits)
{
	return limits.age < AGE_NEVER;
}

/* What a decision goes by. */
struct pressure_facts {
	enum prefer prefer;
	enum pressure pressure; /* when the request began to search */
	bool is_captured;  /* its stream is, in a capture that it may use */
	size_t held_bytes; /* with the request */
	size_t most_live_bytes; /* that were alive at once, with the request */
	uint64_t moves;         /* handles moved so far */
	uint64_t served;        /* requests so far */
};

/* The pressure at which so much is held. */
enum pressure pressure_of(size_t held_bytes, size_t most_live_bytes);

/* What the request may wait for. */
struct wait_limits pressure_wait_limits(const struct pressure_facts *facts);

/* Is it to look for memory behind waits at all? */
bool pressure_may_wait(const struct pressure_facts *facts);

/* May memory be moved together for it? */
bool pressure_may_move(const struct pressure_facts *facts);

/* With prefer:memory, the most that is held before all free memory is moved. */
enum { MEMORY_SHARE = 12 };
static inline size_t
pressure_memory_most(size_t most_live_bytes)
{
	return most_live_bytes + most_live_bytes / MEMORY_SHARE;
}

#endif
