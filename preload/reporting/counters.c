/*
 * Counting for a report: the program's requests and its memory, and weir's own
 * numbers.
 *
 * Note [Without caching]
 *
 * The memory that the driver alone would have held for the program is an
 * estimate: an allocation of 2 MiB or more has its own pages of 2 MiB each;
 * smaller ones share pages, in units of 512 bytes. It is not known where the
 * driver places small allocations. The estimate assumes no gaps between them,
 * so it is a lower bound.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "allocator/allocator.h"
#include "driver/driver.h"
#include "preload/ends.h"
#include "preload/reporting/tally.h"

/* See Note [Without caching]. */
enum { UNIT = 512 };

/* The driver calls of this thread before its current call of a hook. */
static PRELOAD_THREAD uint64_t calls_before;

/* Where the report is written; NULL if none is wanted. */
static char *destination;

/* The destination as a path that does not depend on the folder, which the
 * program may change. NULL without memory. */
static char *
fixed_destination(const char *value)
{
	bool relative = strcmp(value, "-") != 0 && *value != '/';
	char *folder = relative ? getcwd(NULL, 0) : NULL;
	char *fixed = NULL;

	if (folder == NULL)
		return strdup(value);
	if (asprintf(&fixed, "%s/%s", folder, value) < 0)
		fixed = NULL;
	free(folder);
	return fixed;
}

static void
read_destination(void)
{
	const char *value = getenv("WEIR_REPORT");

	if (value == NULL || *value == '\0')
		return;
	destination = fixed_destination(value);
	/* A child begins with empty counters, so it reports only its own calls.
	 */
	pthread_atfork(NULL, NULL, tally_forget_all);
}

const char *
report_destination(void)
{
	return destination;
}

_Atomic(enum report_answer) report_answer;

bool
report_read(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, read_destination);
	atomic_store_explicit(&report_answer,
	    destination != NULL ? REPORT_WANTED : REPORT_NONE,
	    memory_order_release);
	return destination != NULL;
}

/* ---- Counting ---------------------------------------------------------- */

void
report_count_call(enum hook_id id)
{
	ledger_add(&tally_own()->calls[id].seen, 1);
	calls_before = count_of_thread();
}

static bool
needed_no_driver(void)
{
	return count_of_thread() == calls_before;
}

/* The failure may be another out of memory. */
void
report_count_failed(void)
{
	if (!needed_no_driver())
		report_publish();
}

void
report_count_served(enum hook_id id)
{
	struct tally_calls *calls = &tally_own()->calls[id];

	ledger_add(&calls->served, 1);
	if (needed_no_driver())
		ledger_add(&calls->saved, 1);
	else if (count_has_news())
		report_publish();
}

static size_t
slot_of(int device)
{
	return (unsigned)device < LEDGER_DEVICES ? (size_t)device :
						   LEDGER_DEVICES - 1;
}

/* The key of a stream: made of the device for default streams, else the handle.
 * Never 0. */
static uintptr_t
stream_key_of(int device, weir_stream handle)
{
	uintptr_t stream = (uintptr_t)handle;
	uintptr_t place = (uintptr_t)device + 1;

	if (handle == WEIR_STREAM_ANY)
		stream = 0;
	return stream <= (uintptr_t)WEIR_STREAM_PER_THREAD ?
	    stream | place << 8 :
	    stream;
}

/* Called only after the thread has counted something. */
static unsigned
device_row_of(int device, weir_stream stream)
{
	struct ledger_stream *streams = tally_process()->streams;
	static PRELOAD_THREAD unsigned latest;
	uintptr_t key = stream_key_of(device, stream);

	if (atomic_load(&streams[latest].key) == key)
		return latest;
	for (unsigned i = 0; i < REPORT_STREAMS - 1; i++) {
		uintptr_t found = atomic_load(&streams[i].key);

		if (found == 0 &&
		    atomic_compare_exchange_strong(
			&streams[i].key, &found, key)) {
			atomic_store(&streams[i].device, device);
			found = key;
		}
		if (found == key)
			return latest = i;
	}
	return REPORT_STREAMS - 1;
}

static struct tally_bytes
bytes_of(uint64_t bytes)
{
	return (struct tally_bytes){ { [LEDGER_LIVE] = (int64_t)bytes,
	    [LEDGER_UNCACHED] = ledger_multiple(
		bytes >= LEDGER_PAGE ? LEDGER_PAGE : UNIT, bytes) } };
}

void
report_count_allocated(const struct request *request)
{
	struct tally *own = tally_own();
	struct tally_stream *stream =
	    &own->streams[device_row_of(request->device, request->stream)];

	ledger_add(&stream->requests, 1);
	ledger_add(&stream->bytes, (int64_t)request->bytes);
	if (needed_no_driver())
		ledger_add(&stream->hits, 1);
	tally_allocated(
	    own, slot_of(request->device), bytes_of(request->bytes));
}

void
report_count_freed(int device, size_t bytes)
{
	tally_freed(tally_own(), slot_of(device), bytes_of(bytes));
}

struct report_place
report_place(int device, weir_stream stream)
{
	tally_own();
	return (struct report_place){ .row = device_row_of(device, stream),
		.slot = (unsigned)slot_of(device) };
}

/* The first count of a thread is a separate function, so that later counts need
 * not save registers. */
static __attribute__((noinline)) void
begin_with_malloc(enum hook_id id, struct report_place place, size_t bytes)
{
	tally_begin();
	report_count_quick_malloc(id, place, bytes);
}

void
report_count_quick_malloc(
    enum hook_id id, struct report_place place, size_t bytes)
{
	struct tally *own = tally_of_thread;

	if (__builtin_expect(own == NULL, 0)) {
		begin_with_malloc(id, place, bytes);
		return;
	}
	ledger_add(&own->calls[id].quick, 1);
	ledger_add(&own->streams[place.row].quick, 1);
	ledger_add(&own->streams[place.row].bytes, (int64_t)bytes);
	tally_allocated(own, place.slot, bytes_of(bytes));
}

static __attribute__((noinline)) void
begin_with_free(enum hook_id id, struct report_place place, size_t bytes)
{
	tally_begin();
	report_count_quick_free(id, place, bytes);
}

void
report_count_quick_free(
    enum hook_id id, struct report_place place, size_t bytes)
{
	struct tally *own = tally_of_thread;

	if (__builtin_expect(own == NULL, 0)) {
		begin_with_free(id, place, bytes);
		return;
	}
	ledger_add(&own->calls[id].quick, 1);
	tally_freed(own, place.slot, bytes_of(bytes));
}

/* ---- weir's own numbers ------------------------------------------------ */

/* The functions below copy a device's counts to the ledger, which outlives the
 * process. They change only in calls that make driver calls. The threads of
 * some programs have small stacks, so that only one has statistics there at a
 * time.
 */
static __attribute__((noinline)) bool
publish_memory(int device, bool pinned, ledger_count *now)
{
	struct weir_stats stats;
	struct counters counters;

	if (!allocator_glance(device, pinned, &stats))
		return false;
	counters_read(&counters, &stats, 0);
	for (size_t i = 0; i < COUNTER_COUNT; i++)
		ledger_set(&now[i], (int64_t)counters.values[i]);
	return true;
}

static void
publish_arena(int device)
{
	struct ledger_arena *now = &tally_process()->now[slot_of(device)];

	enum weir_host_source source;

	if (publish_memory(device, false, now->memory) &&
	    publish_memory(device, true, now->pinned) &&
	    allocator_host_source(device, &source))
		ledger_set(
		    &tally_process()->pinned_source, 1 + (int64_t)source);
}

void
report_publish(void)
{
	const struct driver *driver = driver_peek();

	if (driver == NULL || !gate_started())
		return;
	atomic_store(&tally_process()->serving, true);
	for (int i = 0; i < driver->device_count && i < LEDGER_DEVICES; i++)
		publish_arena(i);
}

/* Add the counters of a memory to those of its earlier lives. */
static void
keep_counters(ledger_count *past, ledger_count *now)
{
	for (size_t i = 0; i < COUNTER_COUNT; i++) {
		if (counter_rows[i].kind == COUNTER_SUM)
			ledger_add(&past[i], ledger_now(&now[i]));
		else if (counter_rows[i].kind == COUNTER_PEAK &&
		    ledger_now(&now[i]) > ledger_now(&past[i]))
			ledger_set(&past[i], ledger_now(&now[i]));
		ledger_set(&now[i], 0);
	}
}

void
report_device_ends(int device)
{
	struct ledger_arena *past;
	struct ledger_arena *now;

	if (!report_wanted())
		return;
	publish_arena(device);
	past = &tally_process()->past[slot_of(device)];
	now = &tally_process()->now[slot_of(device)];
	keep_counters(past->memory, now->memory);
	keep_counters(past->pinned, now->pinned);
	tally_forget(slot_of(device));
}
