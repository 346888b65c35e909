/*
 * Which devices are asleep, and the threads that wait until they are awake.
 *
 * A claim is a compare-and-swap on the device's phase. It is never held by a
 * thread that waits for another claim, so two sleepers cannot lock each other
 * out; the second one fails. Waiting threads sleep on `changes`, which every
 * settled claim raises.
 */
#include "allocator/private/sleeping.h"

#include "allocator/share/member.h"
#include "base/futex.h"
#include "base/os.h"
#include "base/status.h"

/* `waits_not`: nobody waits, requests fail. `dozes`: who waits wakes it.
 * `sleeper`: the thread that does not wait, by os_thread_id(). */
static struct sleeping {
	_Atomic(enum sleeping_phase) phase;
	atomic_bool waits_not;
	atomic_bool dozes;
	_Atomic(uint32_t) sleeper;
} sleeping[DEVICES_MAX];

atomic_uint sleeping_devices;
static atomic_uint changes;
static _Atomic(const struct sleeping_launches *) followed;
static _Atomic(const struct sleeping_calls *) by_text;

enum sleeping_phase
sleeping_phase(int device)
{
	return device >= 0 && device < DEVICES_MAX ?
	    atomic_load(&sleeping[device].phase) :
	    SLEEPING_AWAKE;
}

bool
sleeping_claim(int device, enum sleeping_phase *was)
{
	struct sleeping *s = &sleeping[device];
	enum sleeping_phase phase = atomic_load(&s->phase);

	ASSERT(device >= 0 && device < DEVICES_MAX);
	do
		if (phase == SLEEPING_CHANGING)
			return false;
	while (!atomic_compare_exchange_weak(
	    &s->phase, &phase, SLEEPING_CHANGING));
	if (phase == SLEEPING_AWAKE) {
		atomic_store(&s->waits_not, false);
		atomic_store(&s->sleeper, os_thread_id());
		atomic_fetch_add(&sleeping_devices, 1);
	}
	*was = phase;
	return true;
}

/* Say to the group whether a device sleeps. */
static void
publish_phase(int device, enum sleeping_phase phase)
{
	member_set_state(device,
	    phase == SLEEPING_AWAKE                  ? LEDGER_AWAKE :
		atomic_load(&sleeping[device].dozes) ? LEDGER_DOZES :
						       LEDGER_ASLEEP);
}

void
sleeping_settle(int device, enum sleeping_phase phase)
{
	struct sleeping *s = &sleeping[device];
	enum sleeping_phase claimed = SLEEPING_CHANGING;

	ASSERT(phase != SLEEPING_CHANGING);
	/* Under the claim: nobody else publishes another phase meanwhile. */
	publish_phase(device, phase);
	/* After sleeping_forget() the device is awake already. */
	if (!atomic_compare_exchange_strong(&s->phase, &claimed, phase)) {
		publish_phase(device, SLEEPING_AWAKE);
		return;
	}
	if (phase == SLEEPING_AWAKE)
		atomic_fetch_sub(&sleeping_devices, 1);
	/* One of those that wait wakes a device that dozes. */
	else if (!atomic_load(&s->dozes))
		return;
	atomic_fetch_add(&changes, 1);
	futex_wake_all(&changes);
}

void
sleeping_set_waiters(int device, bool nobody)
{
	struct sleeping *s = &sleeping[device];

	ASSERT(sleeping_phase(device) != SLEEPING_AWAKE);
	atomic_store(&s->waits_not, nobody);
	atomic_store(&s->sleeper, os_thread_id());
}

void
sleeping_set_doze(int device, bool dozes)
{
	ASSERT(sleeping_phase(device) == SLEEPING_CHANGING);
	atomic_store(&sleeping[device].dozes, dozes);
}

bool
sleeping_get_doze(int device)
{
	return atomic_load(&sleeping[device].dozes);
}

enum weir_status
sleeping_wait(int device, const char *call)
{
	struct sleeping *s = &sleeping[device];

	for (;;) {
		unsigned seen = atomic_load(&changes);
		enum sleeping_phase phase = sleeping_phase(device);
		if (phase == SLEEPING_AWAKE)
			return WEIR_OK;
		if (phase == SLEEPING_ASLEEP && atomic_load(&s->dozes)) {
			enum weir_status status =
			    sleeping_get_calls()->wake(device);
			/* Otherwise another thread wakes it. */
			if (status != WEIR_ENOTREADY)
				return status;
		} else if (atomic_load(&s->waits_not))
			return status_set(WEIR_ENOTREADY,
			    "%s: device %d is asleep, and requests fail until "
			    "weir_wake()",
			    call, device);
		else if (atomic_load(&s->sleeper) == os_thread_id())
			return status_set(WEIR_ENOTREADY,
			    "%s: device %d is asleep, and this thread has put "
			    "it to sleep; call weir_wake() first",
			    call, device);
		futex_sleep_while(&changes, seen);
	}
}

void
sleeping_forget(int device)
{
	struct sleeping *s = &sleeping[device];

	if (atomic_exchange(&s->phase, SLEEPING_AWAKE) == SLEEPING_AWAKE)
		return;
	publish_phase(device, SLEEPING_AWAKE);
	atomic_fetch_sub(&sleeping_devices, 1);
	atomic_fetch_add(&changes, 1);
	futex_wake_all(&changes);
}

void
sleeping_follow_launches(const struct sleeping_launches *launches)
{
	atomic_store(&followed, launches);
}

void
sleeping_end_launches(void)
{
	const struct sleeping_launches *launches = atomic_load(&followed);

	if (launches != NULL)
		launches->end();
}

uint64_t
sleeping_count_launches(void)
{
	const struct sleeping_launches *launches = atomic_load(&followed);

	return launches != NULL ? launches->count() : 0;
}

bool
sleeping_holds_launches(void)
{
	const struct sleeping_launches *launches = atomic_load(&followed);

	return launches != NULL && launches->holds_all;
}

/* ---- Guests -------------------------------------------------------------- */

static enum weir_status
no_guests(const struct sleeping_plan *plan)
{
	(void)plan;
	return WEIR_OK;
}

static void
no_guests_leave(struct weir_sleep_result *result)
{
	(void)result;
}

static void
no_guests_back(struct weir_wake_result *result)
{
	(void)result;
}

static size_t
no_guests_away(int device)
{
	(void)device;
	return 0;
}

static const struct sleeping_guests nobody = { no_guests, no_guests_leave,
	no_guests, no_guests_back, no_guests_away };
static _Atomic(const struct sleeping_guests *) present_guests = &nobody;

void
sleeping_set_guests(const struct sleeping_guests *guests)
{
	atomic_store(&present_guests, guests);
}

const struct sleeping_guests *
sleeping_get_guests(void)
{
	return atomic_load(&present_guests);
}

/* ---- Text -----------------------------------------------------------------
 */

void
sleeping_set_calls(const struct sleeping_calls *calls)
{
	atomic_store(&by_text, calls);
}

const struct sleeping_calls *
sleeping_get_calls(void)
{
	return atomic_load(&by_text);
}
