/*
 * Gives memory that has not been used for a while back to the driver.
 *
 * Note [Decay]
 *
 * Once in so many requests under the arena's lock as its traits say
 * (decay_requests), weir reads the clock, and each quarter of `decay_ms`
 * it keeps the tick (streams/order.h) of that moment. Memory that was freed at
 * or before a tick that is `decay_ms` old, and has been free since, was not
 * needed in all that time. Whole handles under such memory go back to the
 * driver, if all work on them is done; a portion of them at each such request,
 * so that no request waits long for the driver.
 *
 * A program that needs memory again and again, but seldom, would give it back
 * and allocate it again each time. Therefore the time is doubled whenever new
 * memory is needed after some has decayed, until it is 64 times `decay_ms`.
 * Thus the number of such cycles is small, however long the program runs.
 *
 * No thread runs the decay (except for host memory, reaper.c). A program that
 * makes no requests keeps its memory until it makes one or calls weir_trim().
 */
#include "allocator/request/decay.h"

#include "allocator/account/counters.h"
#include "allocator/cache/tcache.h"
#include "allocator/memory/arena.h"
#include "allocator/request/reclaim.h"
#include "allocator/request/tuning.h"
#include "base/os.h"

static uint64_t
decay_ns(const struct arena *arena, const struct options *options)
{
	return (options->decay_ms * 1000000) << arena->request.decay.slower;
}

/* The latest tick that is old enough; 0: none is. */
static uint64_t
old_tick(const struct decay *decay, uint64_t until_ns)
{
	uint64_t tick = 0;

	ASSERT(decay->next < DECAY_STEPS);
	for (unsigned i = 0; i < DECAY_STEPS; i++)
		if (decay->at_ns[i] <= until_ns && decay->tick[i] > tick)
			tick = decay->tick[i];
	return tick;
}

static void
keep_tick(struct decay *decay, uint64_t now_ns)
{
	ASSERT(decay->next < DECAY_STEPS);
	decay->at_ns[decay->next] = now_ns;
	decay->tick[decay->next] = order_tick();
	decay->next = (decay->next + 1) % DECAY_STEPS;
	decay->latest_ns = now_ns;
}

/* Give back a portion of the memory that is due. */
static void
shed_portion(struct arena *arena) HOLDS(arena->lock)
{
	struct decay *decay = &arena->request.decay;
	bool all;
	size_t bytes = reclaim_shed_old(arena, decay->due, &all);

	if (all)
		decay->due = 0;
	decay->bytes += bytes;
	if (bytes > 0)
		reclaim_bound_again(arena);
}

void
decay_run(struct arena *arena, const struct options *options)
{
	struct decay *decay = &arena->request.decay;

	lock_assert_held(&arena->lock);
	if (options->decay_ms == OPTION_OFF)
		return;
	uint64_t now_ns = os_time_ns();
	uint64_t time_ns = decay_ns(arena, options);
	/* The first call keeps a tick in any case: the clock may have started
	 * just now. */
	if (decay->latest_ns == 0 ||
	    now_ns - decay->latest_ns >= time_ns / (DECAY_STEPS - 1)) {
		uint64_t tick =
		    now_ns > time_ns ? old_tick(decay, now_ns - time_ns) : 0;
		if (arena->traits
			.drains_caches) /* otherwise cached blocks would stay */
			tcache_drain(arena);
		keep_tick(decay, now_ns);
		if (tick != 0) {
			decay->due = tick;
			reclaim_refresh(arena);
		}
	}
	if (decay->due != 0)
		shed_portion(arena);
}

void
decay_regret(struct arena *arena)
{
	struct decay *decay = &arena->request.decay;

	lock_assert_held(&arena->lock);
	if (decay->bytes == 0)
		return;
	decay->bytes = 0;
	if (decay->slower < SLOWER_MAX)
		decay->slower++;
}
