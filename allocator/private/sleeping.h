/*
 * Which devices are asleep. graphs/sleep.c puts them to sleep and wakes them.
 *
 * Requests for the memory of a device that is not awake wait here. A device is
 *
 *   AWAKE -- sleeping_claim() --> CHANGING -- sleeping_settle() --> ASLEEP
 *     ^                            |    ^                              |
 *     '------ sleeping_settle() ---'    '------- sleeping_claim() -----'
 *
 * A device that *dozes* was put to sleep for another process, and not by the
 * user: the first thread that would wait for it wakes it (lend/lender.c, Note
 * [Dozing]).
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

/* Does the device doze, once its claim ends ASLEEP? For the holder of the
 * claim. */
void sleeping_set_doze(int device, bool dozes);
bool sleeping_get_doze(int device);

/* Wait until the device is awake, with no lock held; wake it if it dozes.
 * WEIR_ENOTREADY if the calling thread is not to wait; a failure of the wake,
 * as WEIR_ENOMEM. `call` begins the error's text. */
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
	/* Let a device doze, if it is awake and has no work in flight: else
	 * WEIR_ENOTREADY, or as weir_sleep(). Wake one that dozes:
	 * WEIR_ENOTREADY if it does not, or another thread wakes it. */
	enum weir_status (*doze)(int device, size_t *freed_bytes);
	enum weir_status (*wake)(int device);
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
 * until `back`. After a failure nothing has changed. `away` is how many bytes
 * `map` would map on a device, for the help of others.
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
	size_t (*away)(int device);
};
void sleeping_set_guests(const struct sleeping_guests *guests);
/* Never NULL. */
const struct sleeping_guests *sleeping_get_guests(void);

/*
 * The preload's functions on launches. `end` returns when no launch is under
 * way that began before a claim. `count` is the launches so far. `holds_all`:
 * it holds all launches of the process while a device is not awake, so that a
 * device may doze.
 */
struct sleeping_launches {
	void (*end)(void);
	uint64_t (*count)(void);
	bool holds_all;
};
void sleeping_follow_launches(const struct sleeping_launches *launches);
void sleeping_end_launches(void);
uint64_t sleeping_count_launches(void);
bool sleeping_holds_launches(void);

#endif
