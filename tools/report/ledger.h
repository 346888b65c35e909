/*
 * The ledger: where processes keep the counters of a report.
 *
 * Note [Counters that outlive the process]
 *
 * A process that a signal ends runs no code of ours, so its counters must lie
 * where another process can read them. `weir run` makes a file in memory, the
 * ledger, stays, and names it to the program in WEIR_REPORT_LEDGER. Each
 * process of the program that counts anything takes a slot for itself and one
 * for each of its threads, and counts there by plain stores, as it would in
 * memory of its own. After the program's end `weir run` reads the ledger and
 * writes the reports that the processes did not write themselves. Without a
 * ledger of `weir run` the slots are in memory of the process.
 *
 * The ledger is sealed against a change of its size, and belongs to the user.
 * A process may still write anything into it, so a reader believes no index
 * and no length: the worst is a report of wrong numbers.
 *
 * A forked child takes slots of its own when it first counts. A process that
 * calls exec starts again: its earlier counts are dropped, because one process
 * number has one report. When all slots are taken, those of ended processes are
 * used again, unless their report is not written yet.
 */
#ifndef TOOLS_REPORT_LEDGER_H
#define TOOLS_REPORT_LEDGER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "tools/report/names.h"
#include "tools/report/report.h"

/* Where the ledger is, as a path that can be opened. */
#define LEDGER_VARIABLE "WEIR_REPORT_LEDGER"

enum {
	LEDGER_SLOTS = 1024,
	LEDGER_DEVICES = 64,   /* those above are counted with the last */
	LEDGER_PAGE = 2 << 20, /* report.c, Note [Without caching] */
};

typedef _Atomic int64_t ledger_count;
/* Not a bool: another process may have written any byte. */
typedef _Atomic(uint8_t) ledger_flag;

/* Bytes that have a peak. */
enum ledger_peak {
	LEDGER_LIVE,     /* as asked for */
	LEDGER_UNCACHED, /* report.c, Note [Without caching] */
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
		ledger_count quick; /* all three at once, and in none */
	} calls[HOOK_COUNT];
	struct tally_stream {
		ledger_count requests;
		ledger_count hits;
		ledger_count quick; /* both at once, and in neither */
		ledger_count bytes;
	} streams[REPORT_STREAMS];
	struct tally_entry {
		ledger_count calls;
		ledger_count ns;
	} entries[COUNT_ENTRIES];
	struct ledger_held held[LEDGER_DEVICES];
};

struct ledger_thread {
	_Atomic uint32_t next; /* the slot of another; 0: none */
	ledger_flag used;      /* by a thread that has not ended */
	struct tally tally;
};

/* A device's arena, as it told of itself. */
struct ledger_arena {
	ledger_count peak_held_bytes;
	ledger_count host_waits;
	ledger_count gpu_waits;
	ledger_count ooms;
};

/* A process. */
struct ledger_process {
	char program[256]; /* its name, cut */
	ledger_flag serving;
	ledger_flag reported;     /* it has written its report itself */
	_Atomic uint32_t threads; /* the slot of the first; 0: none */
	ledger_count devices;     /* those that anything was allocated on */
	ledger_count peaks[LEDGER_PEAKS];
	/* The program's memory of a device when the device was reset. */
	struct ledger_held forgotten[LEDGER_DEVICES];
	/* Arenas that were forgotten, and those that are there. */
	struct ledger_arena past[LEDGER_DEVICES];
	struct ledger_arena now[LEDGER_DEVICES];
	/* A row is a stream's once its key is set; the last is of all others.*/
	struct ledger_stream {
		atomic_uintptr_t key; /* 0: free */
		atomic_int device;
	} streams[REPORT_STREAMS];
	/* For threads without a slot. They share it, so some of their counts
	 * may be lost. */
	struct ledger_thread others;
};

struct ledger;

/* Make one in memory that others can open; its descriptor, or -1 with errno. */
int ledger_make(void);

/* Map the ledger of a descriptor. NULL if it is no ledger of this version. */
struct ledger *ledger_map(int fd);

/* Map that of a path, or make one of this process alone; NULL without memory.*/
struct ledger *ledger_open(const char *path);

/* Take a slot that is zero throughout; 0 if all are taken. A process' own slot
 * is of one kind, those of its threads of the other. */
uint32_t ledger_take_process(struct ledger *ledger, pid_t pid);
uint32_t ledger_take_thread(struct ledger *ledger, pid_t pid);

/* The content of a slot; NULL if the number is no slot, or of another kind. */
struct ledger_process *ledger_process(struct ledger *ledger, uint32_t slot);
struct ledger_thread *ledger_thread(struct ledger *ledger, uint32_t slot);

/* The process a slot is of. */
pid_t ledger_owner(const struct ledger *ledger, uint32_t slot);

/* Add up the counters of all threads; but of no device what was held before it
 * was forgotten. Limits are of no use then. */
void ledger_sum(struct ledger *ledger, const struct ledger_process *process,
    struct tally *sum);

/* The report of a process as far as its counters tell: all but who it is and
 * its sites. False: it made no call that counts. */
bool ledger_report(struct ledger *ledger, const struct ledger_process *process,
    struct report *report);

/* Bytes rounded up to a multiple of a power of two. */
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
