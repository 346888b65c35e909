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
 * this process's work. The lease falls with the memory. What the process has
 * freed since its streams were fenced the last time is not lent at once, but
 * the thread fences them with each look, so that it is when the asker asks
 * again.
 *
 * Memory also decays without being asked for: decay.c gives back what has not
 * been used for `decay_ms` at one of the next requests, and a process that
 * makes no request would keep it. If there was no request since its last look,
 * the thread runs the decay.
 *
 * Note [Dozing]
 *
 * A member that was not given enough raises `doze_until_ns` in the slot of a
 * member that may sleep, and rings its bell. The thread puts the device to
 * sleep if until that time
 *
 *   - the process was not used for `decay_ms`: no request, no launch, no wake;
 *   - the lease is more than the guarantee. What a member holds within its
 *     guarantee it has asked for, and others might take it. What it holds
 *     beyond that was lent to it; others may take it until it wakes;
 *   - no work is in flight, and no capture is under way.
 *
 * `dozing` says that it has begun: the asker then waits as long as it takes.
 * The lease falls with the memory. The first launch or request wakes the
 * device, on its own thread, with the help that a request has (ask.h).
 *
 * If this process is killed meanwhile, the asker gets its lease as that of any
 * dead member. If the asker is killed, the device sleeps all the same, until it
 * is used.
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
#include "allocator/fences/fence.h"
#include "allocator/lend/tuning.h"
#include "allocator/memory/arena.h"
#include "allocator/options.h"
#include "allocator/private/arenas.h"
#include "allocator/private/sleeping.h"
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
	atomic_bool works; /* it may call the driver */
	/* Up to the latest look: requests, launches, and when it was used. */
	uint64_t served;
	uint64_t launched;
	uint64_t used_ns;
	bool unused; /* no request since the look before */
};

static struct lender lenders[DEVICES_MAX];
static atomic_bool stopping;

/* Find out how far the streams have come, and fence them: what they have freed
 * by now can be lent once their work of now has ended. */
static void
follow_streams(struct arena *main)
{
	for (struct arena *a = main; a != NULL; a = arena_next(a)) {
		lock_enter(&a->lock);
		if (arena_is_leased(a) && !a->memory.forgotten)
			fences_poll_all(a);
		lock_leave(&a->lock);
	}
}

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

/* ---- Looking ------------------------------------------------------------ */

static uint64_t
count_requests(struct arena *main)
{
	uint64_t served = 0;

	for (struct arena *a = main; a != NULL; a = arena_next(a)) {
		lock_enter(&a->lock);
		if (a == main)
			tcache_report(a);
		if (arena_is_leased(a) && !a->memory.forgotten)
			served += a->cache.served;
		lock_leave(&a->lock);
	}
	return served;
}

/* Was the process used since the latest look? A process that sleeps is used,
 * so that its idle time begins when it wakes. */
static void
look_for_uses(struct lender *lender, struct arena *main)
{
	uint64_t served = count_requests(main);
	uint64_t launched = sleeping_count_launches();

	if (lender->used_ns == 0 || served != lender->served ||
	    launched != lender->launched || sleeping_is(lender->device))
		lender->used_ns = os_monotonic_ns();
	lender->unused = served == lender->served;
	lender->served = served;
	lender->launched = launched;
}

/* Run the decay of all arenas, if there was no request between two looks. */
static void
decay_unused(const struct lender *lender, struct arena *main)
{
	const struct options *options;

	if (!lender->unused || options_get(&options) != WEIR_OK)
		return;
	for (struct arena *a = main; a != NULL; a = arena_next(a)) {
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

/* ---- Dozing ------------------------------------------------------------- */

/* May the process be put to sleep for others at all? */
static bool
may_doze(const struct options *options)
{
	return options->may_sleep && options->decay_ms != OPTION_OFF &&
	    sleeping_holds_launches() && sleeping_get_calls() != NULL;
}

/* May it be now? */
static bool
is_idle(const struct lender *lender, const struct ledger_slot *slot,
    const struct options *options)
{
	return may_doze(options) && !sleeping_is(lender->device) &&
	    atomic_load(&slot->lease) > atomic_load(&slot->guarantee) &&
	    os_monotonic_ns() - lender->used_ns >=
	    options->decay_ms * UINT64_C(1000000);
}

/* Fall asleep, if another member has asked for it and may still wait. */
static void
doze_if_asked(const struct lender *lender, struct ledger_slot *slot)
{
	const struct options *options;
	uint64_t until_ns = atomic_exchange(&slot->doze_until_ns, 0);
	size_t bytes = 0;

	if (until_ns == 0 || os_monotonic_ns() >= until_ns ||
	    options_get(&options) != WEIR_OK || !is_idle(lender, slot, options))
		return;
	atomic_store(&slot->dozing, 1);
	if (sleeping_get_calls()->doze(lender->device, &bytes) == WEIR_OK)
		atomic_fetch_add(&slot->given, bytes);
	atomic_store(&slot->dozing, 0);
}

/* Say when the process was last used, for the order in which members are
 * asked. */
static void
publish_use(const struct lender *lender, struct ledger_slot *slot)
{
	const struct options *options;
	bool may = options_get(&options) == WEIR_OK && may_doze(options);

	atomic_store(&slot->used_ns, may ? lender->used_ns : 0);
}

/* ---- The thread --------------------------------------------------------- */

/* Do what was asked for. Returns the bell that was answered. */
static uint32_t
answer_bell(struct lender *lender, struct ledger_slot *slot, struct arena *main)
{
	uint32_t bell = atomic_load(&slot->bell);
	uint64_t asked = atomic_exchange(&slot->asked, 0);

	if (asked > 0)
		atomic_fetch_add(&slot->given, give_back(main, asked));
	look_for_uses(lender, main);
	doze_if_asked(lender, slot);
	publish_use(lender, slot);
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
	while ((file = member_file(lender->device)) != NULL) {
		struct ledger_slot *slot = ledger_own_slot(file);
		struct arena *main = arena_peek(lender->device);
		uint32_t bell = atomic_load(&slot->bell);

		/* Dekker's handshake with the end of the process. */
		atomic_store(&lender->works, true);
		if (atomic_load(&stopping))
			break;
		/* After a reset of the device the process has no memory. */
		if (main != NULL) {
			follow_streams(main);
			bell = answer_bell(lender, slot, main);
			decay_unused(lender, main);
		}
		atomic_store(&lender->works, false);
		if (!atomic_load(&stopping))
			futex_shared_wait(&slot->bell, bell, lender_nap_ns());
	}
	atomic_store(&lender->works, false);
	return NULL;
}

/* Without its ledger a thread cannot be woken, and sleeps on: it calls no
 * driver any more. */
static void
lender_leave(const struct lender *lender, const struct timespec *until)
{
	const struct timespec pause = { .tv_nsec = 1000000 };
	struct timespec now;

	do {
		if (!atomic_load(&lender->works))
			break;
		nanosleep(&pause, NULL);
		clock_gettime(CLOCK_REALTIME, &now);
	} while (now.tv_sec <= until->tv_sec);
	pthread_detach(lender->thread);
}

static void
lender_join(const struct lender *lender, struct ledger_slot *slot,
    const struct timespec *until)
{
	atomic_fetch_add(&slot->bell, 1);
	futex_shared_wake(&slot->bell);
	pthread_timedjoin_np(lender->thread, NULL, until);
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
		const struct lender *lender = &lenders[device];

		if (!atomic_load(&lender->started))
			continue;
		if (file != NULL)
			lender_join(lender, ledger_own_slot(file), &until);
		else
			lender_leave(lender, &until);
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
