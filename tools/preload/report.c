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
#include "tools/preload/preload.h"

/* ---- Counters ---------------------------------------------------------- */

typedef atomic_uint_fast64_t counter;

static struct {
	counter seen;
	counter served;
	counter saved;
} calls[HOOK_COUNT];

/* Of all devices. */
static counter live_blocks;
static counter live_bytes;
static counter peak_live_bytes;

/* Note [Without caching]. */
enum { PAGE = 2 << 20, UNIT = 512 };
static counter live_pages; /* bytes, of those that have pages of their own */
static counter live_small; /* bytes, of those that share pages */
static counter peak_uncached_bytes;

/* Devices above are not told apart. */
enum { DEVICES = 64 };

/* What a device's arena has told before it was forgotten. */
struct past {
	uint64_t peak_held_bytes;
	uint64_t host_waits;
	uint64_t gpu_waits;
	uint64_t ooms;
};
static struct past pasts[DEVICES];

/* What the program holds of a device. */
static struct {
	counter bytes;
	counter blocks;
	counter pages;
	counter small;
} held[DEVICES];

/* A row is a stream's once its key is set; the last is of all others. */
static struct {
	atomic_uintptr_t key; /* 0: free */
	atomic_int device;
	counter requests;
	counter hits;
	counter bytes;
} streams[REPORT_STREAMS];

/* The driver calls of this thread when its present call of a hook began. */
static PRELOAD_THREAD uint64_t calls_before;

/* Where the report goes; NULL if nobody wants one. */
static char *destination;

/* A child starts from nothing, and so reports only what it does itself. */
static void
forget_counts(void)
{
	memset(calls, 0, sizeof(calls));
}

static void
read_destination(void)
{
	const char *value = getenv("WEIR_REPORT");

	if (value == NULL || *value == '\0')
		return;
	destination = strdup(value);
	pthread_atfork(NULL, NULL, forget_counts);
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

static void
count_up(counter *place, uint64_t n)
{
	atomic_fetch_add_explicit(place, n, memory_order_relaxed);
}

static void
count_down(counter *place, uint64_t n)
{
	atomic_fetch_sub_explicit(place, n, memory_order_relaxed);
}

static uint64_t
count_now(counter *place)
{
	return atomic_load_explicit(place, memory_order_relaxed);
}

static void
raise_to(counter *place, uint64_t value)
{
	uint64_t old = count_now(place);

	while (value > old && !atomic_compare_exchange_weak(place, &old, value))
		;
}

void
report_count_call(enum hook_id id)
{
	count_up(&calls[id].seen, 1);
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
	count_up(&calls[id].served, 1);
	if (needed_no_driver())
		count_up(&calls[id].saved, 1);
}

static int
slot_of(int device)
{
	return device >= 0 && device < DEVICES ? device : DEVICES - 1;
}

/* What distinguishes a stream: default ones are of a device, others have a
 * handle of their own. Never 0. */
static uintptr_t
key_of(const struct request *request)
{
	uintptr_t stream = (uintptr_t)request->stream;
	uintptr_t device = (uintptr_t)request->device + 1;

	if (request->stream == WEIR_STREAM_ANY)
		stream = 0;
	return stream <= (uintptr_t)WEIR_STREAM_PER_THREAD ?
	    stream | device << 8 :
	    stream;
}

static size_t
row_of(const struct request *request)
{
	static PRELOAD_THREAD size_t latest;
	uintptr_t key = key_of(request);

	if (atomic_load(&streams[latest].key) == key)
		return latest;
	for (size_t i = 0; i < REPORT_STREAMS - 1; i++) {
		uintptr_t found = atomic_load(&streams[i].key);

		if (found == 0 &&
		    atomic_compare_exchange_strong(
			&streams[i].key, &found, key)) {
			atomic_store(&streams[i].device, request->device);
			found = key;
		}
		if (found == key)
			return latest = i;
	}
	return REPORT_STREAMS - 1;
}

static void
count_request(const struct request *request)
{
	size_t row = row_of(request);

	count_up(&streams[row].requests, 1);
	count_up(&streams[row].bytes, request->bytes);
	if (needed_no_driver())
		count_up(&streams[row].hits, 1);
}

static uint64_t
multiple_of(uint64_t unit, uint64_t bytes)
{
	return (bytes + unit - 1) / unit * unit;
}

/* Where an allocation counts for what the driver would have held, and as how
 * much. */
static uint64_t
uncached(uint64_t bytes, counter **all, counter **of_device, int slot)
{
	bool own_pages = bytes >= PAGE;

	*all = own_pages ? &live_pages : &live_small;
	*of_device = own_pages ? &held[slot].pages : &held[slot].small;
	return multiple_of(own_pages ? PAGE : UNIT, bytes);
}

void
report_count_allocated(const struct request *request, CUdeviceptr ptr)
{
	int slot = slot_of(request->device);
	uint64_t bytes = request->bytes;
	counter *of_device;
	counter *all;

	count_request(request);
	count_up(&held[slot].bytes, bytes);
	count_up(&held[slot].blocks, 1);
	count_up(&live_blocks, 1);
	raise_to(
	    &peak_live_bytes, atomic_fetch_add(&live_bytes, bytes) + bytes);
	bytes = uncached(bytes, &all, &of_device, slot);
	count_up(all, bytes);
	count_up(of_device, bytes);
	raise_to(&peak_uncached_bytes,
	    count_now(&live_pages) + multiple_of(PAGE, count_now(&live_small)));
	sites_allocated(ptr, request->device, request->bytes);
}

void
report_count_freed(int device, size_t bytes)
{
	int slot = slot_of(device);
	counter *of_device;
	uint64_t rounded;
	counter *all;

	count_down(&held[slot].bytes, bytes);
	count_down(&held[slot].blocks, 1);
	count_down(&live_bytes, bytes);
	count_down(&live_blocks, 1);
	rounded = uncached(bytes, &all, &of_device, slot);
	count_down(all, rounded);
	count_down(of_device, rounded);
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
	int slot = slot_of(device);

	if (!report_wanted())
		return;
	pasts[slot] = add(pasts[slot], present(device));
	count_down(&live_bytes, atomic_exchange(&held[slot].bytes, 0));
	count_down(&live_blocks, atomic_exchange(&held[slot].blocks, 0));
	count_down(&live_pages, atomic_exchange(&held[slot].pages, 0));
	count_down(&live_small, atomic_exchange(&held[slot].small, 0));
}

/* Over all devices; peaks are added up. */
static struct past
total(void)
{
	const struct driver *driver = driver_peek();
	struct past sum = { 0 };

	if (driver == NULL || !gate_started())
		return sum;
	for (int i = 0; i < driver->device_count && i < DEVICES; i++) {
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

static void
gather_calls(struct report *report)
{
	for (int i = 0; i < HOOK_COUNT; i++)
		report->calls[i] =
		    (struct report_calls){ count_now(&calls[i].seen),
			    count_now(&calls[i].served),
			    count_now(&calls[i].saved) };
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
	for (size_t i = 0; i < count_entries(); i++) {
		report->driver_calls += count_of(i);
		report->driver_ns += count_ns(i);
	}
}

static weir_stream
stream_of(uintptr_t key)
{
	if ((key & 0xff) > (uintptr_t)WEIR_STREAM_PER_THREAD ||
	    key >> 8 > DEVICES)
		return (weir_stream)key;
	return (key & 0xff) == 0 ? WEIR_STREAM_ANY : (weir_stream)(key & 0xff);
}

static void
gather_streams(struct report *report)
{
	for (size_t i = 0; i < REPORT_STREAMS; i++) {
		bool others = i == REPORT_STREAMS - 1;

		if (count_now(&streams[i].requests) == 0)
			continue;
		report->streams[report->n_streams++] = (struct report_stream){
			.device = others ? -1 : atomic_load(&streams[i].device),
			.stream = stream_of(atomic_load(&streams[i].key)),
			.requests = count_now(&streams[i].requests),
			.hits = count_now(&streams[i].hits),
			.bytes = count_now(&streams[i].bytes)
		};
	}
}

static void
gather(struct report *report)
{
	struct past sum = total();

	*report = (struct report){ .serving = gate_started(),
		.peak_live_bytes = count_now(&peak_live_bytes),
		.live_bytes = count_now(&live_bytes),
		.live_blocks = count_now(&live_blocks),
		.uncached_bytes = count_now(&peak_uncached_bytes),
		.peak_held_bytes = sum.peak_held_bytes,
		.host_waits = sum.host_waits,
		.gpu_waits = sum.gpu_waits,
		.ooms = sum.ooms,
		.barriers = watch_barriers(),
		.leaks = sites_leaks(),
		.top = sites_top() };
	gather_calls(report);
	gather_streams(report);
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
anything_seen(void)
{
	for (int i = 0; i < HOOK_COUNT; i++)
		if (count_now(&calls[i].seen) != 0)
			return true;
	return false;
}

/* Reads what is in memory and calls no driver: it may be gone. */
__attribute__((destructor)) static void
write_report(void)
{
	static struct report report;

	if (!anything_seen() || os_forked())
		return;
	gather(&report);
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
