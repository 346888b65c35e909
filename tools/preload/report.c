/*
 * The report: what the program asked for, and what weir did about it.
 *
 * WEIR_REPORT=FILE writes it as JSON when the program ends, WEIR_REPORT=- as
 * text to stderr. "%p" in FILE stands for the process, since children inherit
 * the variable. A process that never came to the driver writes nothing. With
 * no WEIR_REPORT nothing is counted.
 *
 * Note [Without caching]
 *
 * What the driver alone would have held for the program is told by a rule: an
 * allocation of 2 MiB or more has pages of its own, of 2 MiB each; smaller ones
 * share pages, in units of 512 bytes. How the driver places small ones is not
 * known, so they are taken to lie without gaps, and what is told is the least
 * it would have held.
 */
#include "tools/preload/report.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/os.h"
#include "driver/driver.h"
#include "tools/preload/tally.h"

/* ---- Counters ---------------------------------------------------------- */

/* Note [Without caching]. */
enum { PAGE = 2 << 20, UNIT = 512 };

/* What a device's arena has told before it was forgotten. */
struct past {
	uint64_t peak_held_bytes;
	uint64_t host_waits;
	uint64_t gpu_waits;
	uint64_t ooms;
};
static struct past pasts[TALLY_DEVICES];

/* A row is a stream's once its key is set; the last is of all others. */
static struct {
	atomic_uintptr_t key; /* 0: free */
	atomic_int device;
} streams[REPORT_STREAMS];

/* The driver calls of this thread when its present call of a hook began. */
static PRELOAD_THREAD uint64_t calls_before;

/* Where the report goes; NULL if nobody wants one. */
static char *destination;

static void
read_destination(void)
{
	const char *value = getenv("WEIR_REPORT");

	if (value == NULL || *value == '\0')
		return;
	destination = strdup(value);
	/* A child starts from nothing, and so reports only what it does itself.
	 */
	pthread_atfork(NULL, NULL, tally_forget_all);
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
	tally_add(&tally_own()->calls[id].seen, 1);
	calls_before = count_of_thread();
}

static bool
needed_no_driver(void)
{
	return count_of_thread() == calls_before;
}

void
report_count_served(enum hook_id id)
{
	struct tally_calls *calls = &tally_own()->calls[id];

	tally_add(&calls->served, 1);
	if (needed_no_driver())
		tally_add(&calls->saved, 1);
}

static size_t
slot_of(int device)
{
	return (unsigned)device < TALLY_DEVICES ? (size_t)device :
						  TALLY_DEVICES - 1;
}

/* What distinguishes a stream: default ones are of a device, others have a
 * handle of their own. Never 0. */
static uintptr_t
key_of(int device, weir_stream handle)
{
	uintptr_t stream = (uintptr_t)handle;
	uintptr_t place = (uintptr_t)device + 1;

	if (handle == WEIR_STREAM_ANY)
		stream = 0;
	return stream <= (uintptr_t)WEIR_STREAM_PER_THREAD ?
	    stream | place << 8 :
	    stream;
}

static unsigned
row_of(int device, weir_stream stream)
{
	static PRELOAD_THREAD unsigned latest;
	uintptr_t key = key_of(device, stream);

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

static int64_t
multiple_of(int64_t unit, uint64_t bytes)
{
	return ((int64_t)bytes + unit - 1) & -unit;
}

static struct tally_bytes
bytes_of(uint64_t bytes)
{
	return (struct tally_bytes){ { [TALLY_LIVE] = (int64_t)bytes,
	    [TALLY_UNCACHED] =
		multiple_of(bytes >= PAGE ? PAGE : UNIT, bytes) } };
}

void
report_count_allocated(const struct request *request, CUdeviceptr ptr)
{
	struct tally *own = tally_own();
	struct tally_stream *stream =
	    &own->streams[row_of(request->device, request->stream)];

	tally_add(&stream->requests, 1);
	tally_add(&stream->bytes, (int64_t)request->bytes);
	if (needed_no_driver())
		tally_add(&stream->hits, 1);
	tally_allocated(
	    own, slot_of(request->device), bytes_of(request->bytes));
	sites_allocated(ptr, request->device, request->bytes);
}

void
report_count_freed(int device, size_t bytes)
{
	tally_freed(tally_own(), slot_of(device), bytes_of(bytes));
}

struct report_place
report_place(int device, weir_stream stream)
{
	return (struct report_place){ .row = row_of(device, stream),
		.slot = (unsigned)slot_of(device) };
}

/* The first call of a thread is counted apart, so that the others have no
 * registers to save. */
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
	tally_add(&own->calls[id].quick, 1);
	tally_add(&own->streams[place.row].quick, 1);
	tally_add(&own->streams[place.row].bytes, (int64_t)bytes);
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
	tally_add(&own->calls[id].quick, 1);
	tally_freed(own, place.slot, bytes_of(bytes));
}

/* ---- What weir has to tell --------------------------------------------- */

static struct past
add(struct past a, struct past b)
{
	if (b.peak_held_bytes > a.peak_held_bytes)
		a.peak_held_bytes = b.peak_held_bytes;
	a.host_waits += b.host_waits;
	a.gpu_waits += b.gpu_waits;
	a.ooms += b.ooms;
	return a;
}

static struct past
present(int device)
{
	struct weir_stats stats = { .struct_size = sizeof(stats) };

	if (weir_stats(device, &stats) != WEIR_OK)
		return (struct past){ 0 };
	return (struct past){ .peak_held_bytes = stats.reserved_bytes.all.peak,
		.host_waits = stats.num_host_waits,
		.gpu_waits = stats.num_gpu_waits,
		.ooms = stats.num_ooms };
}

void
report_device_ends(int device)
{
	size_t slot = slot_of(device);

	if (!report_wanted())
		return;
	pasts[slot] = add(pasts[slot], present(device));
	tally_forget(slot);
}

/* Over all devices; peaks are added up. */
static struct past
total(void)
{
	const struct driver *driver = driver_peek();
	struct past sum = { 0 };

	if (driver == NULL || !gate_started())
		return sum;
	for (int i = 0; i < driver->device_count && i < TALLY_DEVICES; i++) {
		struct past one = add(pasts[i], present(i));
		uint64_t held_bytes = sum.peak_held_bytes + one.peak_held_bytes;

		sum = add(sum, one);
		sum.peak_held_bytes = held_bytes;
	}
	return sum;
}

/* ---- Putting it together ----------------------------------------------- */

static const enum hook_id allocations[] = { HOOK_cuMemAlloc_v2,
	HOOK_cuMemAllocPitch_v2, HOOK_cuMemAllocAsync,
	HOOK_cuMemAllocAsync_ptsz, HOOK_cuMemAllocFromPoolAsync,
	HOOK_cuMemAllocFromPoolAsync_ptsz };
static const enum hook_id frees[] = { HOOK_cuMemFree_v2, HOOK_cuMemFreeAsync,
	HOOK_cuMemFreeAsync_ptsz };

static struct report_calls
calls_of(const struct tally_calls *calls)
{
	uint64_t quick = (uint64_t)tally_now(&calls->quick);

	return (struct report_calls){
		.seen = (uint64_t)tally_now(&calls->seen) + quick,
		.served = (uint64_t)tally_now(&calls->served) + quick,
		.saved = (uint64_t)tally_now(&calls->saved) + quick
	};
}

static void
gather_calls(struct report *report, const struct tally *sum)
{
	for (int i = 0; i < HOOK_COUNT; i++)
		report->calls[i] = calls_of(&sum->calls[i]);
	for (size_t i = 0; i < sizeof(allocations) / sizeof(*allocations);
	     i++) {
		const struct report_calls *c = &report->calls[allocations[i]];

		report->allocations_served += c->served;
		report->calls_saved += c->saved;
	}
	for (size_t i = 0; i < sizeof(frees) / sizeof(*frees); i++) {
		const struct report_calls *c = &report->calls[frees[i]];

		report->frees_served += c->served;
		report->calls_saved += c->saved;
	}
}

static void
gather_entries(struct report *report, const struct tally *sum)
{
	for (size_t i = 0; i < COUNT_ENTRIES; i++) {
		struct report_entry *entry = &report->entries[i];

		entry->calls = (uint64_t)tally_now(&sum->entries[i].calls);
		entry->ns = (uint64_t)tally_now(&sum->entries[i].ns);
		report->driver_calls += entry->calls;
		report->driver_ns += entry->ns;
	}
}

static weir_stream
stream_of(uintptr_t key)
{
	if ((key & 0xff) > (uintptr_t)WEIR_STREAM_PER_THREAD ||
	    key >> 8 > TALLY_DEVICES)
		return (weir_stream)key;
	return (key & 0xff) == 0 ? WEIR_STREAM_ANY : (weir_stream)(key & 0xff);
}

static void
gather_streams(struct report *report, const struct tally *sum)
{
	for (size_t i = 0; i < REPORT_STREAMS; i++) {
		const struct tally_stream *stream = &sum->streams[i];
		bool others = i == REPORT_STREAMS - 1;
		uint64_t quick = (uint64_t)tally_now(&stream->quick);
		uint64_t requests =
		    (uint64_t)tally_now(&stream->requests) + quick;

		if (requests == 0)
			continue;
		report->streams[report->n_streams++] = (struct report_stream){
			.device = others ? -1 : atomic_load(&streams[i].device),
			.stream = stream_of(atomic_load(&streams[i].key)),
			.requests = requests,
			.hits = (uint64_t)tally_now(&stream->hits) + quick,
			.bytes = (uint64_t)tally_now(&stream->bytes)
		};
	}
}

/* While threads go on, one may have been seen to free what another was not yet
 * seen to allocate. */
static uint64_t
at_least_none(int64_t n)
{
	return n > 0 ? (uint64_t)n : 0;
}

static void
gather_memory(struct report *report, const struct tally *sum)
{
	int64_t blocks = 0;
	int64_t bytes = 0;

	for (size_t i = 0; i < TALLY_DEVICES; i++) {
		blocks += tally_now(&sum->held[i].blocks);
		bytes += tally_now(&sum->held[i].bytes[TALLY_LIVE]);
	}
	report->live_blocks = at_least_none(blocks);
	report->live_bytes = at_least_none(bytes);
	report->peak_live_bytes = (uint64_t)tally_peak_of(TALLY_LIVE);
	/* Those that share pages share the last one too. */
	report->uncached_bytes = (uint64_t)multiple_of(
	    PAGE, (uint64_t)tally_peak_of(TALLY_UNCACHED));
}

static void
gather(struct report *report, const struct tally *counted)
{
	struct past sum = total();

	*report = (struct report){ .serving = gate_started(),
		.peak_held_bytes = sum.peak_held_bytes,
		.host_waits = sum.host_waits,
		.gpu_waits = sum.gpu_waits,
		.ooms = sum.ooms,
		.barriers = watch_barriers(),
		.leaks = sites_leaks(),
		.top = sites_top() };
	gather_calls(report, counted);
	gather_entries(report, counted);
	gather_streams(report, counted);
	gather_memory(report, counted);
}

const char *
report_stream_name(const struct report_stream *stream, char *text, size_t size)
{
	if (stream->device < 0)
		snprintf(text, size, "others");
	else if (stream->stream == WEIR_STREAM_ANY)
		snprintf(text, size, "no stream");
	else if (stream->stream == WEIR_STREAM_LEGACY)
		snprintf(text, size, "legacy default");
	else if (stream->stream == WEIR_STREAM_PER_THREAD)
		snprintf(text, size, "per-thread default");
	else
		snprintf(text, size, "%p", (void *)stream->stream);
	return text;
}

/* ---- Writing ----------------------------------------------------------- */

/* The file of this process: "%p" in its name is the process. NULL without
 * memory. The caller frees it. */
static char *
file_name(void)
{
	const char *mark = strstr(destination, "%p");
	char *path;

	if (mark == NULL)
		return strdup(destination);
	if (asprintf(&path, "%.*s%ld%s", (int)(mark - destination), destination,
		(long)getpid(), mark + 2) < 0)
		return NULL;
	return path;
}

static void
write_file(const char *path, const struct report *report)
{
	FILE *file = path == NULL ? NULL : fopen(path, "we");
	bool failed;

	if (file == NULL) {
		log_write(LOG_ERROR, "WEIR_REPORT: %s: %s", destination,
		    strerror(errno));
		return;
	}
	report_write_json(file, report);
	failed = ferror(file) != 0;
	if (fclose(file) != 0 || failed)
		log_write(
		    LOG_ERROR, "WEIR_REPORT: %s: cannot be written", path);
}

/* Escapes only where they are seen: on a terminal, and not if NO_COLOR is set.
 */
static bool
colour_wanted(void)
{
	const char *plain = getenv("NO_COLOR");

	return isatty(STDERR_FILENO) && (plain == NULL || *plain == '\0');
}

static bool
anything_seen(const struct tally *sum)
{
	for (int i = 0; i < HOOK_COUNT; i++)
		if (tally_now(&sum->calls[i].seen) != 0)
			return true;
	return false;
}

/* Reads what is in memory and calls no driver: it may be gone. */
__attribute__((destructor)) static void
write_report(void)
{
	static struct report report;
	static struct tally sum;

	if (os_forked())
		return;
	tally_read(&sum);
	if (!anything_seen(&sum))
		return;
	gather(&report, &sum);
	if (strcmp(destination, "-") == 0) {
		report_write_text(stderr, &report, colour_wanted());
	} else {
		char *path = file_name();

		write_file(path, &report);
		free(path);
	}
	free(report.leaks);
	free(report.top);
}
