/*
 * What each thread counts for a report.
 *
 * Note [Counting]
 *
 * A counter is written by one thread, by plain loads and stores, and added up
 * over all threads when it is read. A thread that ends leaves its counters as
 * they stand to one that begins, so that sums stay what they are. Counting
 * takes no lock and no memory once a thread has counted anything.
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

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "tools/preload/preload.h"
#include "tools/preload/report.h"

enum {
	TALLY_DEVICES = 64, /* those above are counted with the last */
	TALLY_SLACK = 1 << 20,
};

typedef _Atomic int64_t tally_count;

/* Bytes that have a peak. */
enum tally_peak {
	TALLY_LIVE,     /* as asked for */
	TALLY_UNCACHED, /* report.c, Note [Without caching] */
	TALLY_PEAKS
};

/* What a block counts for. */
struct tally_bytes {
	int64_t of[TALLY_PEAKS];
};

/* What the program holds of a device. */
struct tally_held {
	tally_count blocks;
	tally_count bytes[TALLY_PEAKS];
	tally_count limit[TALLY_PEAKS]; /* written under the lock */
};

/* A thread's, zero at first; or sums of them. All are tally_count. */
struct tally {
	struct tally_calls {
		tally_count seen;
		tally_count served;
		tally_count saved;
		tally_count quick; /* all three at once, and in none of them */
	} calls[HOOK_COUNT];
	struct tally_stream {
		tally_count requests;
		tally_count hits;
		tally_count quick; /* both at once, and in neither */
		tally_count bytes;
	} streams[REPORT_STREAMS];
	struct tally_entry {
		tally_count calls;
		tally_count ns;
	} entries[COUNT_ENTRIES];
	struct tally_held held[TALLY_DEVICES];
};

/* The calling thread's, or NULL. */
extern PRELOAD_THREAD struct tally *tally_of_thread;
struct tally *tally_begin(void);

static inline struct tally *
tally_own(void)
{
	struct tally *tally = tally_of_thread;

	return __builtin_expect(tally != NULL, 1) ? tally : tally_begin();
}

static inline int64_t
tally_now(const tally_count *place)
{
	return atomic_load_explicit(place, memory_order_relaxed);
}

static inline int64_t
tally_add(tally_count *place, int64_t n)
{
	int64_t now = tally_now(place) + n;

	atomic_store_explicit(place, now, memory_order_relaxed);
	return now;
}

/* The calling thread, whose it is, has passed a limit there. */
void tally_pass(const struct tally *own, size_t device);

/* Add to what it holds there; false: not below its limit any more. */
static inline bool
tally_rise(struct tally_held *held, enum tally_peak which, int64_t bytes)
{
	return tally_add(&held->bytes[which], bytes) <=
	    tally_now(&held->limit[which]);
}

static inline void
tally_allocated(struct tally *own, size_t device, struct tally_bytes bytes)
{
	struct tally_held *held = &own->held[device];

	tally_add(&held->blocks, 1);
	bool below = tally_rise(held, TALLY_LIVE, bytes.of[TALLY_LIVE]);
	below &= tally_rise(held, TALLY_UNCACHED, bytes.of[TALLY_UNCACHED]);
	if (__builtin_expect(!below, 0))
		tally_pass(own, device);
}

static inline void
tally_freed(struct tally *own, size_t device, struct tally_bytes bytes)
{
	struct tally_held *held = &own->held[device];

	tally_add(&held->blocks, -1);
	for (int i = 0; i < TALLY_PEAKS; i++)
		tally_add(&held->bytes[i], -bytes.of[i]);
}

/* What the program holds of a device has ended with it. */
void tally_forget(size_t device);

/* Add up those of all threads; but of no device is told what it held before
 * tally_forget(). Limits are of no use then. */
void tally_read(struct tally *sum);
int64_t tally_peak_of(enum tally_peak which);

/* For a child: it begins with nothing. */
void tally_forget_all(void);

#endif
