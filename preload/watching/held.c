/*
 * Holds kernels, copies, fills and graphs back while a device is asleep.
 *
 * Note [Holding launches]
 *
 * A launch on memory that has left would fault, so a hook waits until all
 * devices are awake. It raises its thread's `depth`, then looks whether a
 * device is not awake. A sleeper claims the device, makes every running thread
 * pass a memory barrier, and waits until each depth is 0: Dekker's handshake,
 * as in tcache.h, Note [Stopping a cache]. A launch that got past the look has
 * then been queued, and the sleeper waits for its work. A hook that is called
 * within another one does not wait, because the sleeper waits for the outer.
 *
 * weir's own calls do not pass the hooks. The waker is the agent's thread, or
 * the thread that put the device to sleep, whose launches fail. A device that
 * dozes is woken by the first launch. If others hold its memory for longer than
 * a request would wait, the launch tries again: programs know what to do about
 * a request that fails, and not about a launch.
 */
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "allocator/cache/own.h"
#include "allocator/private/sleeping.h"
#include "base/barrier.h"
#include "base/log.h"
#include "base/meta.h"
#include "base/os.h"
#include "base/status.h"
#include "driver/takes.h"
#include "preload/preload.h"
#include "preload/tuning.h"

/* ---- What is held ------------------------------------------------------ */

/* Is each row of driver/entries.h decided in driver/takes.h? Otherwise this
 * does not compile; and what is held needs a hook. */
enum asleep { RUNS, WAITS, HELD };

enum {
#define DECIDE(symbol, kind, asleep) ASLEEP_##symbol = asleep,
	DRIVER_TAKES(DECIDE)
#undef DECIDE
};

#define HOOKED_NO 0
#define HOOKED_SERVE 1
#define HOOKED_WATCH 1
#define HOOKED_CHECK 1
#define HOOKED_HOLD 1
#define IS_DECIDED(                                                            \
    U, kind, symbol, base, version, simulated, hook, called, params)           \
	_Static_assert((int)ASLEEP_##symbol == (int)RUNS || HOOKED_##hook,     \
	    #symbol " is held, and has no hook");
DRIVER_CALLS(IS_DECIDED, )
#undef IS_DECIDED

/* ---- Holding ----------------------------------------------------------- */

/* Never freed: another thread uses it after its thread has ended. */
struct launcher {
	atomic_uint depth; /* of hooks that the thread is in, and its launches:
			      HELD_ONE */
	atomic_bool used;  /* by a thread */
	struct launcher *next;
};

PRELOAD_THREAD struct launcher *held_own;
bool held_quick;
static _Atomic(struct launcher *) launchers;
static pthread_key_t at_end;

static void
launcher_ends(void *launcher)
{
	struct launcher *ended = launcher;

	held_own = NULL;
	atomic_fetch_and(&ended->depth, ~(HELD_ONE - 1U));
	atomic_store(&ended->used, false);
}

static void prepare_launchers_once(void);

static void
wait_for_launches(void)
{
	prepare_launchers_once();
	tcache_barrier();
	for (struct launcher *l = atomic_load(&launchers); l != NULL;
	     l = l->next)
		while (l != held_own && atomic_load(&l->depth) % HELD_ONE > 0)
			sched_yield();
}

static uint64_t
count_launches(void)
{
	uint64_t n = 0;

	for (struct launcher *l = atomic_load(&launchers); l != NULL;
	     l = l->next)
		n += atomic_load(&l->depth) / HELD_ONE;
	return n;
}

static void
follow_launches(void)
{
	static const struct sleeping_launches some = { wait_for_launches,
		count_launches, false };
	static const struct sleeping_launches all = { wait_for_launches,
		count_launches, true };

	sleeping_follow_launches(held_wanted() ? &all : &some);
}

/* Before the first launch, because a device may doze before it. Only notes
 * functions: most processes with the preload use no device. */
static __attribute__((constructor)) void
offer_to_hold(void)
{
	if (held_wanted())
		follow_launches();
}

static void
prepare_launchers(void)
{
	pthread_key_create(&at_end, launcher_ends);
	tcache_prepare();
	held_quick = tcache_asymmetric;
	follow_launches();
}

static void
prepare_launchers_once(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, prepare_launchers);
}

static struct launcher *
find_launcher(void)
{
	struct launcher *l = atomic_load(&launchers);
	bool unused = false;

	while (l != NULL &&
	    !atomic_compare_exchange_strong(&l->used, &unused, true)) {
		unused = false;
		l = l->next;
	}
	if (l != NULL)
		return l;
	l = meta_zalloc(sizeof(*l));
	if (l == NULL)
		return NULL;
	atomic_store(&l->used, true);
	l->next = atomic_load(&launchers);
	while (!atomic_compare_exchange_weak(&launchers, &l->next, l))
		;
	return l;
}

/* Without host memory the thread is not held. */
static struct launcher *
make_launcher(void)
{
	prepare_launchers_once();
	held_own = find_launcher();
	if (held_own != NULL)
		pthread_setspecific(at_end, held_own);
	return held_own;
}

/* Wait until a device is awake. */
static bool
wait_for_device(int device)
{
	const struct timespec pause = { .tv_nsec = HELD_RETRY_MS * 1000000L };
	enum weir_status status = sleeping_wait(device, "a launch");

	for (unsigned tries = 1; status == WEIR_ENOMEM; tries++) {
		if (tries == HELD_LONG_MS / HELD_RETRY_MS)
			log_write(LOG_WARN,
			    "device %d: a launch waits until other processes "
			    "have given the memory back that this one slept "
			    "for",
			    device);
		nanosleep(&pause, NULL);
		status = sleeping_wait(device, "a launch");
	}
	return status == WEIR_OK;
}

/* Wait until all devices are awake. */
static bool
wait_awake(void)
{
	bool awake = true;

	status_mute();
	for (int i = 0; i < DEVICES_MAX && awake; i++)
		awake = !sleeping_is(i) || wait_for_device(i);
	status_unmute();
	return awake;
}

bool
held_wait(void)
{
	struct launcher *l = held_own != NULL ? held_own : make_launcher();

	if (l == NULL || os_forked() || gate_in_weir != 0)
		return true;
	unsigned depth = atomic_load_explicit(&l->depth, memory_order_relaxed);
	for (;;) {
		atomic_store(&l->depth, depth + 1);
		barrier_full();
		if (depth % HELD_ONE > 0 || !sleeping_any())
			return true;
		atomic_store(&l->depth, depth);
		if (!wait_awake()) {
			atomic_store(&l->depth, depth + 1);
			return false;
		}
	}
}

static bool wanted;

static void
read_held_settings(void)
{
	const char *value = getenv("WEIR_MAY_SLEEP");

	wanted = value != NULL && *value != '\0' && strcmp(value, "0") != 0;
}

bool
held_wanted(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, read_held_settings);
	return wanted;
}
