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
 * What the program holds has a peak, which no thread sees alone. So each has a
 * limit, for each device: while what it has allocated there, less what it has
 * freed, is not above it, no peak is passed, for all limits together are no
 * more than the peak. Who passes its own takes the lock, adds up what all hold,
 * raises the peak if it is passed, and shares out what is left below it.
 *
 * For one thread the peak is exact. Where several allocate each gets
 * TALLY_SLACK bytes more, so that those who take turns do not come to the lock
 * each time: a peak may be missed by that for each thread, and by what is being
 * allocated while another shares out.
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

/* The process as the ledger has it. Until it has counted anything, and where
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

/* Add to what it holds there; false: not below its limit any more. */
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

/* For a child: it begins with nothing, but for the rows of streams. */
void tally_forget_all(void);

#endif
