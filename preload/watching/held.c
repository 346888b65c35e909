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
 * the thread that put the device to sleep, whose launches fail.
 */
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "allocator/cache/own.h"
#include "allocator/private/sleeping.h"
#include "base/barrier.h"
#include "base/meta.h"
#include "base/os.h"
#include "base/status.h"
#include "driver/takes.h"
#include "preload/preload.h"

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
	atomic_uint depth; /* of hooks that the thread is in */
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
	atomic_store(&ended->depth, 0);
	atomic_store(&ended->used, false);
}

static void
wait_for_launches(void)
{
	tcache_barrier();
	for (struct launcher *l = atomic_load(&launchers); l != NULL;
	     l = l->next)
		while (l != held_own && atomic_load(&l->depth) > 0)
			sched_yield();
}

static void
prepare_launchers(void)
{
	pthread_key_create(&at_end, launcher_ends);
	tcache_prepare();
	held_quick = tcache_asymmetric;
	sleeping_follow_launches(wait_for_launches);
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
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, prepare_launchers);
	held_own = find_launcher();
	if (held_own != NULL)
		pthread_setspecific(at_end, held_own);
	return held_own;
}

/* Wait until all devices are awake. */
static bool
wait_awake(void)
{
	bool awake = true;

	status_mute();
	for (int i = 0; i < DEVICES_MAX && awake; i++)
		awake =
		    !sleeping_is(i) || sleeping_wait(i, "a launch") == WEIR_OK;
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
		if (depth > 0 || !sleeping_any())
			return true;
		atomic_store(&l->depth, 0);
		if (!wait_awake()) {
			atomic_store(&l->depth, 1);
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
