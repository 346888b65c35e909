/*
 * The counters of each thread for a report.
 *
 * Note [Counting]
 *
 * A counter is written by one thread, by plain loads and stores, and added up
 * over all threads when it is read. A thread that ends leaves its counters as
 * they stand to one that begins, so that sums stay what they are. Counting
 * takes no lock and no memory once a thread has counted anything. Where the
 * counters lie: tools/report/ledger.h.
 *
 * Note [Peaks]
 *
 * The peak of the program's memory is a sum over threads, which no thread sees
 * alone. So each thread has a limit for each device, and all limits together
 * are at most the peak: while every thread's allocated minus freed bytes stay
 * within its limit, the peak is not exceeded. A thread that exceeds its limit
 * takes the lock, adds up the bytes of all threads, raises the peak if the sum
 * is above it, and shares out the rest as new limits.
 *
 * With one thread the peak is exact. With several, each limit is TALLY_SLACK
 * bytes higher, so that threads that take turns do not take the lock each time.
 * A peak may be missed by that much for each thread, and by the bytes that are
 * being allocated while limits are shared out.
 */
#ifndef TOOLS_PRELOAD_TALLY_H
#define TOOLS_PRELOAD_TALLY_H

#include <stdbool.h>
#include <stdint.h>

#include "tools/preload/preload.h"
#include "tools/report/ledger.h"

enum { TALLY_SLACK = 1 << 20 };

/* The bytes that a block counts for. */
struct tally_bytes {
	int64_t of[LEDGER_PEAKS];
};

/* The process, by the ledger's record. Until it has counted anything, and where
 * there is no room in the ledger, one that no other process sees. */
struct ledger_process *tally_process(void);

/* The ledger it is in; NULL: in none. */
struct ledger *tally_ledger(void);

/* The numbers of the libweir that the program is linked with, if it was that
 * which served it; of library.c. */
void library_report(struct report *report);

/* The calling thread's, or NULL. */
extern PRELOAD_THREAD struct tally *tally_of_thread;
struct tally *tally_begin(void);

static inline struct tally *
tally_own(void)
{
	struct tally *tally = tally_of_thread;

	return __builtin_expect(tally != NULL, 1) ? tally : tally_begin();
}

/* The calling thread, whose it is, has passed a limit there. */
void tally_pass(const struct tally *own, size_t device);

/* Add to the bytes that it holds there; false: not below its limit any more.
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

/* The program's memory of a device has ended with the device. */
void tally_forget(size_t device);

/* For a child: all its counters begin at 0; the rows of streams stay. */
void tally_forget_all(void);

#endif
