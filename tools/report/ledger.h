/*
 * The ledger: shared memory for the counters of reports.
 *
 * Note [Counters that outlive the process]
 *
 * A process that a signal ends runs no code of weir at its end, so that its
 * counters must be where another process can read them. `weir run` makes a file
 * in memory, the ledger, and passes its path to the program in
 * WEIR_REPORT_LEDGER. Each process of the program acquires a slot for itself
 * and a slot for each of its threads at its first count, and counts there by
 * plain stores, as in memory of its own. After the program's end `weir run`
 * reads the ledger and writes the reports that the processes have not written
 * themselves. Without `weir run` the slots are in memory of the process.
 *
 * The ledger is sealed against a change of its size, and belongs to the user. A
 * process may still write anything into it, so that a reader trusts no index
 * and no length. At worst a report has wrong numbers.
 *
 * A forked child acquires slots of its own at its first count. A process that
 * calls exec starts again: its earlier counts are dropped, because a process id
 * has one report. When all slots are in use, those of ended processes are
 * reused, unless their report is not written yet.
 */
#ifndef TOOLS_REPORT_LEDGER_H
#define TOOLS_REPORT_LEDGER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "tools/report/names.h"
#include "tools/report/report.h"

/* The variable with the path of the ledger. */
#define LEDGER_VARIABLE "WEIR_REPORT_LEDGER"

enum {
	LEDGER_SLOTS = 1024,
	LEDGER_DEVICES = 64,   /* the last one counts all further devices */
	LEDGER_PAGE = 2 << 20, /* counters.c, Note [Without caching] */
};

typedef _Atomic int64_t ledger_count;
/* Not a bool: another process may have written any byte. */
typedef _Atomic(uint8_t) ledger_flag;

/* Bytes that have a peak. */
enum ledger_peak {
	LEDGER_LIVE,     /* requested bytes */
	LEDGER_UNCACHED, /* counters.c, Note [Without caching] */
	LEDGER_PEAKS
};

/* The program's memory of a device. */
struct ledger_held {
	ledger_count blocks;
	ledger_count bytes[LEDGER_PEAKS];
	ledger_count limit[LEDGER_PEAKS]; /* tally.h, Note [Peaks] */
};

/* A thread's counters, or sums of them. All are ledger_count. */
struct tally {
	struct tally_calls {
		ledger_count seen;
		ledger_count served;
		ledger_count saved;
		ledger_count quick; /* calls that count in all three above */
	} calls[HOOK_COUNT];
	struct tally_stream {
		ledger_count requests;
		ledger_count hits;
		ledger_count quick; /* requests that count in both above */
		ledger_count bytes;
	} streams[REPORT_STREAMS];
	struct tally_entry {
		ledger_count calls;
		ledger_count ns;
	} entries[COUNT_ENTRIES];
	struct ledger_held held[LEDGER_DEVICES];
};

struct ledger_thread {
	_Atomic uint32_t next; /* the slot of the next thread; 0: none */
	ledger_flag used;      /* the thread has not ended */
	struct tally tally;
};

/* weir's statistics of a device. */
struct ledger_arena {
	ledger_count memory[COUNTER_COUNT];
	ledger_count pinned[COUNTER_COUNT];
};

/* A process. */
struct ledger_process {
	char program[256]; /* its name, cut */
	ledger_flag serving;
	ledger_flag reported;     /* the process has written its report */
	ledger_flag ended;        /* it ran its exit handlers, and leaves the
				     report to `weir run` */
	_Atomic uint32_t threads; /* the slot of the first; 0: none */
	ledger_count barriers;    /* report.h */
	ledger_count devices;     /* number of devices with allocations */
	/* 1 + enum host_source of its latest page-locked memory; 0: none */
	ledger_count pinned_source;
	ledger_count peaks[LEDGER_PEAKS];
	/* The program's memory of a device when the device was reset. */
	struct ledger_held forgotten[LEDGER_DEVICES];
	/* Arenas before and after the latest reset of their devices. */
	struct ledger_arena past[LEDGER_DEVICES];
	struct ledger_arena now[LEDGER_DEVICES];
	/* A row belongs to a stream once its key is set. The last row counts
	 * all other streams. */
	struct ledger_stream {
		atomic_uintptr_t key; /* 0: free */
		atomic_int device;
	} streams[REPORT_STREAMS];
	/* Shared by threads without a slot, so that some of their counts may be
	 * lost. */
	struct ledger_thread others;
};

struct ledger;

/* Make a ledger that other processes can open. Returns its descriptor, or -1
 * with errno. */
int ledger_make(void);

/* Map the ledger of a descriptor. NULL if it is no ledger of this version. */
struct ledger *ledger_map(int fd);

/* Map the ledger of a path. If there is none, make a ledger of this process
 * alone. NULL without memory. */
struct ledger *ledger_open(const char *path);

/* Acquire a slot for a process or for one of its threads. All bytes of the slot
 * are 0. Returns 0 if all slots are in use. */
uint32_t ledger_acquire_process(struct ledger *ledger, pid_t pid);
uint32_t ledger_acquire_thread(struct ledger *ledger, pid_t pid);

/* The content of a slot. NULL if the number is no slot, or the slot has another
 * kind. */
struct ledger_process *ledger_process(struct ledger *ledger, uint32_t slot);
struct ledger_thread *ledger_thread(struct ledger *ledger, uint32_t slot);

/* The process that a slot belongs to. */
pid_t ledger_owner(const struct ledger *ledger, uint32_t slot);

/*
 * The process that made the ledger promises to write the report of one process
 * after its end, to this destination. That process then writes nothing at its
 * end, when it may be short of rights, of files, of room on its disk and of
 * readers of its stderr.
 */
void ledger_promise(struct ledger *ledger, pid_t pid, const char *destination);
bool ledger_is_promised(
    const struct ledger *ledger, pid_t pid, const char *destination);

/* Make the report of a process from its counters. This is all but its name and
 * its sites. False if the process made no call that is counted. */
bool ledger_report(struct ledger *ledger, const struct ledger_process *process,
    struct report *report);

/* Round bytes up to a multiple of a power of two. */
static inline int64_t
ledger_multiple(int64_t unit, uint64_t bytes)
{
	return (int64_t)((bytes + (uint64_t)unit - 1) & -(uint64_t)unit);
}

static inline int64_t
ledger_now(const ledger_count *place)
{
	return atomic_load_explicit(place, memory_order_relaxed);
}

static inline void
ledger_set(ledger_count *place, int64_t value)
{
	atomic_store_explicit(place, value, memory_order_relaxed);
}

static inline int64_t
ledger_add(ledger_count *place, int64_t n)
{
	int64_t now = (int64_t)((uint64_t)ledger_now(place) + (uint64_t)n);

	ledger_set(place, now);
	return now;
}

#endif
