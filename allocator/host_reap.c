/*
 * The thread that looks after freed host memory, if the option
 * pinned_use_background_threads asks for one: it polls what waits for streams,
 * and gives back what has been unused for long, so that the program's threads
 * find it done. Nothing depends on it; what it does they do too.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "allocator/host.h"
#include "allocator/tcache.h"
#include "base/os.h"
#include "base/status.h"

/* While something waits it is looked at so often; else now and then. */
static const uint64_t busy_ns = 200 * 1000;
static const uint64_t idle_ns = 20 * 1000 * 1000;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t wake = PTHREAD_COND_INITIALIZER;
static pthread_t thread;
static bool stopping; /* under the mutex */
static atomic_bool running;

/* True if something waits. */
static bool
look_at(struct arena *arena, const struct options *options)
{
	lock_enter(&arena->lock);
	reclaim_poll(arena, RECLAIM_SKIPS);
	decay_run(arena, options);
	bool waits = arena->waiting.count > 0;
	lock_leave(&arena->lock);
	return waits;
}

static bool
look_at_all(void)
{
	const struct options *options;
	bool waits = false;

	if (options_get(&options) != WEIR_OK || !options->pinned_background)
		return false;
	for (int device = 0; device < DEVICES_MAX; device++) {
		for (unsigned kind = 0; kind < HOST_KINDS; kind++) {
			struct arena *arena = host_arena_peek(device, kind);
			if (arena != NULL)
				waits |= look_at(arena, options);
		}
	}
	return waits;
}

/* Sleep; true when the process ends. */
static bool
nap(uint64_t ns)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	ns += (uint64_t)until.tv_nsec;
	until.tv_sec += (time_t)(ns / 1000000000);
	until.tv_nsec = (long)(ns % 1000000000);
	pthread_mutex_lock(&mutex);
	while (!stopping &&
	    pthread_cond_timedwait(&wake, &mutex, &until) != ETIMEDOUT)
		;
	bool stop = stopping;
	pthread_mutex_unlock(&mutex);
	return stop;
}

static void *
run(void *unused)
{
	(void)unused;
	pthread_setname_np(pthread_self(), "weir-reap");
	status_mute();
	while (!nap(look_at_all() ? busy_ns : idle_ns))
		;
	return NULL;
}

/* The driver may be gone after this. */
static void
stop(void)
{
	if (os_forked())
		return;
	pthread_mutex_lock(&mutex);
	stopping = true;
	pthread_cond_broadcast(&wake);
	pthread_mutex_unlock(&mutex);
	pthread_join(thread, NULL);
}

void
host_reap_start(void)
{
	if (atomic_load_explicit(&running, memory_order_relaxed) ||
	    atomic_exchange(&running, true))
		return;
	if (os_thread_start(&thread, run, NULL))
		atexit(stop);
	else
		atomic_store(&running, false);
}
