/*
 * Which devices are asleep. graphs/sleep.c puts them to sleep and wakes them.
 *
 * Requests for the memory of a device that is not awake wait here. A device is
 *
 *   AWAKE -- sleeping_claim() --> CHANGING -- sleeping_settle() --> ASLEEP
 *     ^                            |    ^                              |
 *     '------ sleeping_settle() ---'    '------- sleeping_claim() -----'
 */
#ifndef ALLOCATOR_PRIVATE_SLEEPING_H
#define ALLOCATOR_PRIVATE_SLEEPING_H

#include <weir/sleep.h>

#include "allocator/private/asleep.h"
#include "allocator/state.h"

enum sleeping_phase { SLEEPING_AWAKE, SLEEPING_CHANGING, SLEEPING_ASLEEP };

enum sleeping_phase sleeping_phase(int device);

/* Is the device not awake? */
static inline bool
sleeping_is(int device)
{
	return sleeping_any() && sleeping_phase(device) != SLEEPING_AWAKE;
}

/*
 * Begin to change the phase of a device; from now on no request begins, and no
 * thread keeps a cache for it. False: another thread changes it. The caller
 * ends with sleeping_settle(), which wakes those that wait if the device is
 * awake then.
 *
 * @param was  the phase before
 */
bool sleeping_claim(int device, enum sleeping_phase *was);
void sleeping_settle(int device, enum sleeping_phase phase);

/* Who is to wait while a claimed device is not awake: all but the calling
 * thread, or nobody. */
void sleeping_set_waiters(int device, bool nobody);

/* Wait until the device is awake, with no lock held. WEIR_ENOTREADY if the
 * calling thread is not to wait. `call` begins the error's text. */
enum weir_status sleeping_wait(int device, const char *call);

/* The device was reset: it is awake, with no memory. */
void sleeping_forget(int device);

/*
 * Putting to sleep and waking by text, for api/ctl.c, which lies below the
 * files that do it: graphs/sleep_words.c sets the functions.
 *
 * `change` gets the text of sleep.state. `number` is the n-th number of the
 * latest sleep and wake, with its name and unit; false: there is none.
 */
struct sleeping_number {
	const char *name;
	const char *unit;
	const char *help;
	uint64_t value;
};
struct sleeping_calls {
	enum weir_status (*change)(const char *text);
	bool (*number)(size_t n, struct sleeping_number *out);
};
void sleeping_set_calls(const struct sleeping_calls *calls);
const struct sleeping_calls *sleeping_get_calls(void);

/*
 * Memory that the program has from the driver itself and that leaves with its
 * device: the preload sets the functions. `devices` are those of the call.
 *
 * `copy` finds and copies the memory, and on success keeps the program from
 * changing it until `leave`, which gives it back and counts it. `map` maps it
 * again with its contents, and on success keeps the program from changing it
 * until `back`. After a failure nothing has changed.
 */
struct sleeping_plan {
	bool devices[DEVICES_MAX];
	unsigned flags;     /* enum weir_sleep_flags */
	const char *folder; /* of files for contents; NULL: host memory */
};
struct sleeping_guests {
	enum weir_status (*copy)(const struct sleeping_plan *plan);
	void (*leave)(struct weir_sleep_result *result);
	enum weir_status (*map)(const struct sleeping_plan *plan);
	void (*back)(struct weir_wake_result *result);
};
void sleeping_set_guests(const struct sleeping_guests *guests);
/* Never NULL. */
const struct sleeping_guests *sleeping_get_guests(void);

/* Set the one function that returns when no launch is under way that began
 * before a claim: the preload's. sleeping_end_launches() calls it. */
void sleeping_follow_launches(void (*end)(void));
void sleeping_end_launches(void);

#endif
