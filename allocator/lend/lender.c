/*
 * The lending thread: it gives back memory that the process does not use, to
 * members of its group that ask for some, and after a while without requests.
 *
 * Note [Lending]
 *
 * A member that is short raises `asked` in another member's slot and rings its
 * bell. The bell is a futex in the ledger, which needs no socket and reaches a
 * process in another PID namespace. The thread gives back complete free memory,
 * the longest unused first, until it has given as much or there is no more, and
 * says so in `answered`. It waits for no stream, so the asker need not wait for
 * this process's work. The lease falls with the memory.
 *
 * Memory also decays without being asked for: decay.c gives back what has not
 * been used for `decay_ms` at one of the next requests, and a process that
 * makes no request would keep it. If there was no request since its last look,
 * the thread runs the decay.
 *
 * The thread calls the driver, in the device's primary context, as weir_trim()
 * does on a thread of the program.
 */
#include "allocator/lend/lender.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "allocator/account/totals.h"
#include "allocator/cache/tcache.h"
#include "allocator/lend/tuning.h"
#include "allocator/memory/arena.h"
#include "allocator/options.h"
#include "allocator/private/arenas.h"
#include "allocator/request/decay.h"
#include "allocator/request/reclaim.h"
#include "allocator/share/member.h"
#include "base/futex.h"
#include "base/log.h"
#include "base/os.h"
#include "base/status.h"

struct lender {
	pthread_t thread;
	int device;
	atomic_bool started;
	uint64_t served; /* requests up to the latest look */
};

static struct lender lenders[DEVICES_MAX];
static atomic_bool stopping;

/* Give back at least `want` bytes of a device, as far as there are so many that
 * no work uses. Returns the bytes. */
static size_t
give_back(struct arena *main, size_t want)
{
	size_t bytes = 0;

	for (struct arena *a = main; a != NULL && bytes < want;
	     a = arena_next(a))
		if (arena_is_leased(a))
			bytes += arena_shed_idle(a, want - bytes);
	return bytes;
}

/* Run the decay of all arenas, if there was no request since the latest look.
 */
static void
decay_unused(struct lender *lender, struct arena *main)
{
	const struct options *options;
	uint64_t served = 0;

	if (options_get(&options) != WEIR_OK)
		return;
	for (struct arena *a = main; a != NULL; a = arena_next(a)) {
		lock_enter(&a->lock);
		if (arena_is_leased(a) && !a->memory.forgotten)
			served += a->cache.served;
		lock_leave(&a->lock);
	}
	bool unused = served == lender->served;
	lender->served = served;
	for (struct arena *a = main; a != NULL && unused; a = arena_next(a)) {
		lock_enter(&a->lock);
		reclaim_poll(a, RECLAIM_SKIPS);
		if (arena_is_leased(a) && !a->memory.forgotten)
			do
				decay_run(a, options);
			while (decay_is_under_way(a));
		lock_leave(&a->lock);
	}
}

/* How long the thread sleeps if nobody rings. */
static uint64_t
lender_nap_ns(void)
{
	const struct options *options;
	uint64_t ms = LENDER_NAP_MS;

	if (options_get(&options) == WEIR_OK &&
	    options->decay_ms != OPTION_OFF && options->decay_ms / 4 < ms)
		ms = options->decay_ms / 4 + 1;
	return ms * 1000000;
}

/* Do what was asked for. Returns the bell that was answered. */
static uint32_t
answer_bell(struct ledger_slot *slot, struct arena *main)
{
	uint32_t bell = atomic_load(&slot->bell);
	uint64_t asked = atomic_exchange(&slot->asked, 0);

	if (asked > 0)
		atomic_fetch_add(&slot->given, give_back(main, asked));
	lock_enter(&main->lock);
	tcache_report(main);
	arena_settle_lease(main);
	size_t held = device_reserved(main);
	size_t live = device_live(main);
	lock_leave(&main->lock);
	atomic_store(&slot->idle, held > live ? held - live : 0);
	if (atomic_exchange(&slot->answered, bell) != bell)
		futex_shared_wake(&slot->answered);
	return bell;
}

static void *
lender_run(void *argument)
{
	struct lender *lender = argument;
	struct ledger_file *file;

	pthread_setname_np(pthread_self(), "weir-lend");
	status_mute();
	while (!atomic_load(&stopping) &&
	    (file = member_file(lender->device)) != NULL) {
		struct ledger_slot *slot = ledger_own_slot(file);
		struct arena *main = arena_peek(lender->device);
		uint32_t bell = atomic_load(&slot->bell);

		/* After a reset of the device the process has no memory. */
		if (main != NULL) {
			bell = answer_bell(slot, main);
			decay_unused(lender, main);
		}
		if (!atomic_load(&stopping))
			futex_shared_wait(&slot->bell, bell, lender_nap_ns());
	}
	return NULL;
}

/* End the threads: the driver may be unloaded after this returns. */
static void
lenders_stop(void)
{
	struct timespec until;

	if (os_forked())
		return;
	atomic_store(&stopping, true);
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += LENDER_END_S;
	for (int device = 0; device < DEVICES_MAX; device++) {
		struct ledger_file *file = member_file(device);

		if (!atomic_load(&lenders[device].started))
			continue;
		if (file != NULL) {
			struct ledger_slot *slot = ledger_own_slot(file);
			atomic_fetch_add(&slot->bell, 1);
			futex_shared_wake(&slot->bell);
		}
		pthread_timedjoin_np(lenders[device].thread, NULL, &until);
	}
}

void
lender_begin(struct arena *main)
{
	static atomic_bool has_end;
	struct lender *lender = &lenders[main->device];

	ASSERT(main == main->main);
	if (member_file(main->device) == NULL ||
	    atomic_exchange(&lender->started, true))
		return;
	lender->device = main->device;
	if (!os_thread_start(&lender->thread, lender_run, lender)) {
		atomic_store(&lender->started, false);
		log_write(LOG_WARN,
		    "device %d: no thread can be started that lends memory",
		    main->device);
	} else if (!atomic_exchange(&has_end, true)) {
		atexit(lenders_stop);
	}
}
