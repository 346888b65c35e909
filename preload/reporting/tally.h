/*
 * The counters of each thread for a report.
 *
 * Note [Counting]
 *
 * A counter is written by one thread, by plain loads and stores. Reading adds
 * up the counters of all threads. A thread that ends leaves its counters, with
 * their values, to a thread that begins, so the sums stay right. Once a thread
 * has counted anything, counting takes no lock and allocates nothing.
 * tools/report/ledger.h describes where the counters are.
 *
 * Note [Peaks]
 *
 * The peak of the program's memory is a sum over threads, which no single
 * thread knows. So each thread has a limit for each device, and the sum of all
 * limits is at most the peak: while every thread's allocated minus freed bytes
 * stay within its limit, the peak is not exceeded. A thread that exceeds its
 * limit takes the lock, adds up the bytes of all threads, raises the peak if
 * the sum is above it, and divides the rest into new limits.
 *
 * With one thread the peak is exact. With several, each limit is TALLY_SLACK
 * bytes higher, so that threads that alternate do not take the lock each time.
 * A peak may be missed by that much for each thread, and by the bytes that are
 * being allocated while limits are divided.
 */
#ifndef PRELOAD_REPORTING_TALLY_H
#define PRELOAD_REPORTING_TALLY_H

#include <stdbool.h>
#include <stdint.h>

#include "preload/preload.h"
#include "preload/tuning.h"
#include "tools/report/ledger.h"

/* The bytes that a block counts for. */
struct tally_bytes {
	int64_t of[LEDGER_PEAKS];
};

/* The process's record in the ledger. Before anything is counted, and if the
 * ledger has no room, a record that no other process sees. */
struct ledger_process *tally_process(void);

/* The ledger that has the record; NULL if none has. */
struct ledger *tally_ledger(void);

/* Will another process write this process's report to this destination? Makes
 * no system call. */
bool tally_is_promised(const char *destination);

/* Replace the report's numbers by those of the libweir that the program is
 * linked with, if that library served the program (library.c). False: they
 * stay. */
bool library_report(struct report *report);

/* The calling thread's counters, or NULL. */
extern PRELOAD_THREAD struct tally *tally_of_thread;
struct tally *tally_begin(void);

static inline struct tally *
tally_own(void)
{
	struct tally *tally = tally_of_thread;

	return __builtin_expect(tally != NULL, 1) ? tally : tally_begin();
}

/* Called by the thread that owns the counters when it has exceeded a limit. */
void tally_pass(const struct tally *own, size_t device);

/* Add to the bytes of a thread on a device; false if its limit is exceeded now.
 */
static inline bool
tally_rise(struct ledger_held *held, enum ledger_peak which, int64_t bytes)
{
	return ledger_add(&held->bytes[which], bytes) <=
	    ledger_now(&held->limit[which]);
}

static inline void
tally_allocated(struct tally *own, size_t device, struct tally_bytes bytes)
{
	struct ledger_held *held = &own->held[device];

	ledger_add(&held->blocks, 1);
	bool below = tally_rise(held, LEDGER_LIVE, bytes.of[LEDGER_LIVE]);
	below &= tally_rise(held, LEDGER_UNCACHED, bytes.of[LEDGER_UNCACHED]);
	if (__builtin_expect(!below, 0))
		tally_pass(own, device);
}

static inline void
tally_freed(struct tally *own, size_t device, struct tally_bytes bytes)
{
	struct ledger_held *held = &own->held[device];

	ledger_add(&held->blocks, -1);
	for (int i = 0; i < LEDGER_PEAKS; i++)
		ledger_add(&held->bytes[i], -bytes.of[i]);
}

/* The device has ended, and with it the program's memory there. */
void tally_forget(size_t device);

/* Called in a child: all its counters begin at 0; the rows of streams stay. */
void tally_forget_all(void);

#endif
