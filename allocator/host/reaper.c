/*
 * The reaper: a thread that polls pending host memory, and gives back host
 * memory that has not been used for long. The program's threads do the same
 * work when they allocate; the reaper only spares them the time.
 *
 * The option pinned_use_background_threads starts it. Without the option, it
 * starts when the copies of a suspended pool are freed: they may be large, and
 * a program that only replays graphs makes no request that would give them
 * back. Then it runs seldom, and only while memory is pending or decays.
 *
 * The reaper also gets reserves ahead (pinned_reserve_segment_size_mb,
 * weir_host_reserve()), because pinning hundreds of GiB takes minutes.
 */
#include "allocator/host/reaper.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <time.h>

#include "allocator/account/counters.h"
#include "allocator/host/known.h"
#include "allocator/host/tuning.h"
#include "allocator/memory/block.h"
#include "allocator/memory/grow.h"
#include "allocator/request/decay.h"
#include "allocator/request/reclaim.h"
#include "base/os.h"
#include "base/status.h"

/* The interval while memory is pending, and the interval otherwise. */
static const uint64_t busy_ns = 200 * 1000;
static const uint64_t idle_ns = 20 * 1000 * 1000;
/* The interval without the option. */
static const uint64_t seldom_ns = 500 * 1000 * 1000;
static const uint64_t for_ever = UINT64_MAX;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static sem_t wakes; /* made once */
static pthread_t thread;
static atomic_bool stopping;
static atomic_bool running;
static atomic_bool asleep; /* until it is woken */

/* Reasons to look at host memory again. */
struct found {
	bool waits;  /* memory is pending */
	bool unused; /* memory is free that may go back */
	bool grows;  /* a reserve is not complete */
};

/* Get the next part of the arena's reserve. If that fails, the reserve is what
 * there is. */
static bool
grow_reserve(struct arena *arena, const struct options *options)
{
	struct pool *pool = &arena->memory.any_heap->pool[POOL_LARGE];
	size_t held = arena->account.stats.reserved_bytes.all.current;

	ASSERT(arena->traits.is_page_locked);
	if (held >= arena->host.reserve_bytes || arena->memory.forgotten)
		return false;
	size_t missing = round_up(
	    arena->host.reserve_bytes - held, arena->memory.granularity);
	if (arena->traits.can_map)
		missing = min_size(missing, RESERVE_STEP);
	lock_assert_held(&pool->owner->arena->lock);
	enum weir_status status = pool_prepare(pool, options, missing);
	while (status == WEIR_ENOMEM && missing > arena->memory.granularity) {
		missing = round_up(missing / 2, arena->memory.granularity);
		status = pool_prepare(pool, options, missing);
	}
	if (status != WEIR_OK)
		arena->host.reserve_bytes = held;
	return held < arena->host.reserve_bytes;
}

static bool
has_unused(const struct arena *arena)
{
	return arena->account.stats.reserved_bytes.all.current >
	    tally_now(&arena->account.tally, PART_ALL, TALLIED_active_bytes) +
	    arena->host.reserve_bytes;
}

static void
reap_arena(
    struct arena *arena, const struct options *options, struct found *found)
{
	ASSERT(arena->traits.is_page_locked);
	lock_enter(&arena->lock);
	reclaim_poll(arena, RECLAIM_SKIPS);
	do
		decay_run(arena, options);
	while (decay_is_under_way(arena));
	found->waits |= arena->waiting.count > 0;
	found->grows |= grow_reserve(arena, options);
	found->unused |= has_unused(arena);
	lock_leave(&arena->lock);
}

/* Do the work that is due. Returns how long the thread may sleep. */
static uint64_t
reap_all(void)
{
	struct found found = { false };
	const struct options *options;

	if (options_get(&options) != WEIR_OK)
		return for_ever;
	for (int device = 0; device < DEVICES_MAX; device++) {
		for (unsigned kind = 0; kind < HOST_KINDS; kind++) {
			struct arena *arena = host_arena_peek(device, kind);
			if (arena != NULL)
				reap_arena(arena, options, &found);
		}
	}
	if (found.grows)
		return 0;
	if (options->pinned_background)
		return found.waits ? busy_ns : idle_ns;
	return found.waits ||
		(found.unused && options->decay_ms != OPTION_OFF) ?
	    seldom_ns :
	    for_ever;
}

static struct timespec
time_in(uint64_t ns)
{
	struct timespec until;

	ASSERT(ns != for_ever);
	clock_gettime(CLOCK_REALTIME, &until);
	ns += (uint64_t)until.tv_nsec;
	until.tv_sec += (time_t)(ns / 1000000000);
	until.tv_nsec = (long)(ns % 1000000000);
	return until;
}

/* Sleep for `ns`, or until woken. True when the process ends. */
static bool
reaper_nap(uint64_t ns)
{
	struct timespec until = time_in(ns == for_ever ? 0 : ns);
	int result;

	atomic_store(&asleep, ns == for_ever);
	do
		result = ns == for_ever ? sem_wait(&wakes) :
					  sem_timedwait(&wakes, &until);
	while (result != 0 && errno == EINTR);
	atomic_store(&asleep, false);
	while (sem_trywait(&wakes) == 0)
		; /* several wakes are one */
	return atomic_load(&stopping);
}

static void *
reaper_run(void *unused)
{
	(void)unused;
	pthread_setname_np(pthread_self(), "weir-reap");
	status_mute();
	while (!reaper_nap(reap_all()))
		;
	return NULL;
}

/* The driver may be unloaded after this returns. */
static void
reaper_stop(void)
{
	if (os_forked())
		return;
	atomic_store(&stopping, true);
	sem_post(&wakes);
	pthread_join(thread, NULL);
}

static void
make_wakes(void)
{
	sem_init(&wakes, 0, 0);
}

/* The thread may not run yet. */
static void
wake_up(void)
{
	pthread_once(&once, make_wakes);
	sem_post(&wakes);
}

void
host_reap_start(void)
{
	if (atomic_load_explicit(&running, memory_order_relaxed) ||
	    atomic_exchange(&running, true)) {
		if (atomic_load_explicit(&asleep, memory_order_relaxed))
			wake_up();
		return;
	}
	pthread_once(&once, make_wakes);
	if (os_thread_start(&thread, reaper_run, NULL))
		atexit(reaper_stop);
	else
		atomic_store(&running, false);
}

void
host_reap_freed(void)
{
	const struct options *options;

	if (options_get(&options) != WEIR_OK || options->decay_ms == OPTION_OFF)
		return;
	host_reap_start();
	wake_up();
}
