/*
 * The counters of each thread for a report (tally.h).
 */
#include "preload/reporting/tally.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "preload/lock.h"

PRELOAD_THREAD struct tally *tally_of_thread;

/* Guards the data that follow, the list of threads, and all limits. */
static struct lock lock = LOCK_INITIALIZER(LOCK_RANK_REPORT);
static bool begun;
static struct ledger *ledger;
static pid_t own_pid;
static struct ledger_process lonely; /* used while there is no ledger */
static struct ledger_process *process = &lonely;

struct ledger_process *
tally_process(void)
{
	return process;
}

struct ledger *
tally_ledger(void)
{
	return ledger;
}

bool
tally_is_promised(const char *destination)
{
	return process != &lonely &&
	    ledger_is_promised(ledger, own_pid, destination);
}

/* ---- Threads ----------------------------------------------------------- */

static pthread_key_t end_key;
static bool ends_are_seen;

static struct ledger_thread *
first_thread(void)
{
	return &process->others;
}

static struct ledger_thread *
next_thread(const struct ledger_thread *thread)
{
	uint32_t next = thread == &process->others ?
	    atomic_load(&process->threads) :
	    atomic_load(&thread->next);

	return next == 0 ? NULL : ledger_thread(ledger, next);
}

/* Destructors of other libraries may run later and count again: then the thread
 * begins anew. */
static void
end_counting(void *value)
{
	struct ledger_thread *own = value;

	tally_of_thread = NULL;
	preload_lock(&lock);
	atomic_store(&own->used, false);
	preload_unlock(&lock);
}

static void
watch_ends(void)
{
	ends_are_seen = pthread_key_create(&end_key, end_counting) == 0;
}

/* Callers of report_place() use the rows of streams already, so they are
 * copied. */
static void
copy_streams(struct ledger_process *to, const struct ledger_process *from)
{
	for (size_t i = 0; i < REPORT_STREAMS; i++) {
		atomic_store(&to->streams[i].device,
		    atomic_load(&from->streams[i].device));
		atomic_store(
		    &to->streams[i].key, atomic_load(&from->streams[i].key));
	}
}

/* Called when the first thread of the process counts. */
static void
begin_process(void) HOLDS(lock)
{
	uint32_t slot = 0;

	begun = true;
	own_pid = getpid();
	if (ledger == NULL)
		ledger = ledger_open(getenv(LEDGER_VARIABLE));
	if (ledger != NULL)
		slot = ledger_acquire_process(ledger, own_pid);
	if (slot != 0) {
		struct ledger_process *made = ledger_process(ledger, slot);

		snprintf(made->program, sizeof(made->program), "%s",
		    program_invocation_name);
		copy_streams(made, &lonely);
		process = made;
	}
	atomic_store(&process->others.used, true);
}

/* Take the counters that an ended thread has left, or new ones. If there are
 * none, take the counters that several threads share. */
static struct ledger_thread *
take_own(void) HOLDS(lock)
{
	struct ledger_thread *own;
	uint32_t slot;

	for (own = first_thread(); own != NULL && atomic_load(&own->used);
	     own = next_thread(own))
		;
	if (own == NULL && process != &lonely) {
		slot = ledger_acquire_thread(ledger, getpid());
		own = slot == 0 ? NULL : ledger_thread(ledger, slot);
		if (own != NULL) {
			atomic_store(
			    &own->next, atomic_load(&process->threads));
			atomic_store(&process->threads, slot);
		}
	}
	if (own == NULL)
		own = &process->others;
	atomic_store(&own->used, true);
	return own;
}

struct tally *
tally_begin(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct ledger_thread *own;

	pthread_once(&once, watch_ends);
	preload_lock(&lock);
	if (!begun)
		begin_process();
	own = take_own();
	preload_unlock(&lock);
	tally_of_thread = &own->tally;
	if (own != &process->others && ends_are_seen)
		pthread_setspecific(end_key, own);
	return tally_of_thread;
}

/* The parent's counters are left as they are, also in shared memory. */
void
tally_forget_all(void)
{
	struct ledger_process *parent = process;

	lock_init(&lock, LOCK_RANK_REPORT);
	if (parent != &lonely) {
		memset(&lonely, 0, sizeof(lonely));
		copy_streams(&lonely, parent);
	} else {
		memset(&lonely.others, 0, sizeof(lonely.others));
		memset(lonely.forgotten, 0, sizeof(lonely.forgotten));
		memset(lonely.peaks, 0, sizeof(lonely.peaks));
	}
	process = &lonely;
	begun = false;
	tally_of_thread = NULL;
	if (ends_are_seen)
		pthread_setspecific(end_key, NULL);
}

/* ---- Peaks ------------------------------------------------------------- */

/* The number of devices that have rows. */
static size_t
devices(void)
{
	size_t n = (size_t)ledger_now(&process->devices);

	return n < LEDGER_DEVICES ? n : LEDGER_DEVICES;
}

/* Does this thread share in the bytes below the peak? */
static bool
shares(const struct ledger_thread *o, const struct ledger_held *held, int which)
{
	return atomic_load(&o->used) &&
	    (ledger_now(&held->bytes[which]) != 0 ||
		ledger_now(&held->limit[which]) != 0);
}

/* The sum over all threads. */
static int64_t
held_now(int which) HOLDS(lock)
{
	int64_t sum = 0;

	for (size_t device = 0; device < devices(); device++) {
		sum -= ledger_now(&process->forgotten[device].bytes[which]);
		for (const struct ledger_thread *o = first_thread(); o != NULL;
		     o = next_thread(o))
			sum += ledger_now(&o->tally.held[device].bytes[which]);
	}
	return sum;
}

/* Count the other shares; *threads says whether other threads have any. */
static int
count_others(const struct tally *own, size_t device, int which, bool *threads)
    HOLDS(lock)
{
	int n = 0;

	*threads = false;
	for (const struct ledger_thread *o = first_thread(); o != NULL;
	     o = next_thread(o))
		for (size_t d = 0; d < devices(); d++) {
			if ((&o->tally == own && d == device) ||
			    !shares(o, &o->tally.held[d], which))
				continue;
			n++;
			*threads |= &o->tally != own;
		}
	return n;
}

/* Divide the bytes below the peak: half for the thread that has called, the
 * rest for the others. A thread that does not share has its current bytes as
 * its limit. */
static void
share_out(const struct tally *own, size_t device, int which, int64_t room)
    HOLDS(lock)
{
	bool threads;
	int others = count_others(own, device, which, &threads);
	int64_t slack = threads ? TALLY_SLACK : 0;
	int64_t part = others > 0 ? room / 2 / others : 0;

	for (struct ledger_thread *o = first_thread(); o != NULL;
	     o = next_thread(o))
		for (size_t d = 0; d < devices(); d++) {
			struct ledger_held *held = &o->tally.held[d];
			int64_t limit = ledger_now(&held->bytes[which]);

			if (&o->tally == own && d == device)
				limit += room - part * others + slack;
			else if (shares(o, held, which))
				limit += part + slack;
			atomic_store_explicit(
			    &held->limit[which], limit, memory_order_relaxed);
		}
}

void
tally_pass(const struct tally *own, size_t device)
{
	preload_lock(&lock);
	if (device >= devices())
		ledger_set(&process->devices, (int64_t)device + 1);
	for (int i = 0; i < LEDGER_PEAKS; i++) {
		int64_t now = held_now(i);

		if (now > ledger_now(&process->peaks[i]))
			ledger_set(&process->peaks[i], now);
		share_out(own, device, i, ledger_now(&process->peaks[i]) - now);
	}
	preload_unlock(&lock);
}

void
tally_forget(size_t device)
{
	struct ledger_held *sum = &process->forgotten[device];

	preload_lock(&lock);
	memset(sum, 0, sizeof(*sum));
	for (const struct ledger_thread *t = first_thread(); t != NULL;
	     t = next_thread(t)) {
		const struct ledger_held *held = &t->tally.held[device];

		ledger_add(&sum->blocks, ledger_now(&held->blocks));
		for (int i = 0; i < LEDGER_PEAKS; i++)
			ledger_add(&sum->bytes[i], ledger_now(&held->bytes[i]));
	}
	preload_unlock(&lock);
}
