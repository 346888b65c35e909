/*
 * Polls instead of growing. To map memory takes a driver call, and its time is
 * often enough for work to end that was queued long ago. Cached blocks go to
 * the pool first, because they cut up what becomes complete around them.
 */
#include "allocator/request/brief.h"

#include "allocator/account/counters.h"
#include "allocator/cache/tcache.h"
#include "allocator/fences/fence.h"
#include "allocator/memory/arena.h"
#include "allocator/memory/forget.h"
#include "allocator/request/reclaim.h"
#include "allocator/request/search.h"
#include "base/os.h"

static enum weir_status
poll_again(struct request *r) HOLDS(r->heap->arena->lock)
{
	reclaim_poll(r->heap->arena, RECLAIM_SKIPS);
	fences_poll(r->heap);
	view_renew(&r->view);
	return search_all(r);
}

/* Let other threads have the arena for a moment. False: the device was reset,
 * and its streams must not be asked any more. */
static bool
make_way(struct arena *arena) HOLDS(arena->lock)
{
	ASSERT(arena->memory.jobs > 0);
	arena_leave_for_driver(arena);
	os_relax();
	arena_enter_from_driver(arena);
	return !arena->memory.forgotten;
}

/* Pay for what was done since `begin`: for one brief wait before it, so that
 * several threads do not begin at once, and afterwards for the rest. To empty
 * the caches of many threads takes longer than a brief wait. */
static void
pay(struct request *r, uint64_t begin, uint64_t waits)
{
	struct arena *arena = r->heap->arena;

	ASSERT(waits > 0);
	policy_charge(&arena->policy, begin, policy_brief_ns() * waits,
	    r->options->delay_percent);
}

/* A poll during which the device's clock stands still, as a simulated one can,
 * has asked nothing, so the next would find nothing new either. */
enum weir_status
brief_wait(struct request *r)
{
	struct arena *arena = r->heap->arena;
	const uint64_t begin = driver_time_ns();
	uint64_t then = 0;
	uint64_t now = begin;

	ASSERT(r->got == NULL);
	pay(r, begin, 1);
	lock_assert_held(&arena->lock);
	tcache_drain(arena);
	enum weir_status status = poll_again(r);
	arena_job_begin(arena);
	while (status == WEIR_OK && r->got == NULL &&
	    now - begin < policy_brief_ns() && now != then && make_way(arena)) {
		status = poll_again(r);
		then = now;
		now = driver_time_ns();
	}
	uint64_t took = driver_time_ns() - begin;
	counter_add(arena, COUNTER_num_brief_waits, 1);
	counter_add(arena, COUNTER_brief_wait_ns, took);
	if (took >= 2 * policy_brief_ns())
		pay(r, begin, took / policy_brief_ns() - 1);
	arena_job_done(arena);
	return status;
}
