/*
 * The report: what the program asked for, and what weir did about it.
 *
 * WEIR_REPORT=FILE writes it as JSON when the program ends, WEIR_REPORT=- as
 * text to stderr. "%p" in FILE stands for the process, since children inherit
 * the variable. A process that never came to the driver writes nothing. With
 * no WEIR_REPORT nothing is counted.
 */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/os.h"
#include "driver/driver.h"
#include "tools/preload/preload.h"

static atomic_uint_fast64_t seen[HOOK_COUNT];
static atomic_uint_fast64_t served[HOOK_COUNT];
static atomic_uint_fast64_t live_bytes; /* of all devices */
static atomic_uint_fast64_t peak_live_bytes;

/* What a device's arena has told before it was forgotten. */
struct past {
	uint64_t peak_held_bytes;
	uint64_t host_waits;
	uint64_t gpu_waits;
	uint64_t ooms;
};

/* Devices above are not told apart. */
enum { DEVICES = 64 };
static struct past pasts[DEVICES];
static atomic_uint_fast64_t device_live_bytes[DEVICES];

/* Where the report goes; NULL if nobody wants one. */
static char *destination;

/* A child starts from nothing, and so reports only what it does itself. */
static void
forget_counts(void)
{
	for (enum hook_id i = 0; i < HOOK_COUNT; i++) {
		atomic_store(&seen[i], 0);
		atomic_store(&served[i], 0);
	}
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

bool
report_wanted(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	static atomic_bool ready;

	if (!atomic_load_explicit(&ready, memory_order_acquire)) {
		pthread_once(&once, read_destination);
		atomic_store_explicit(&ready, true, memory_order_release);
	}
	return destination != NULL;
}

void
report_call(enum hook_id id)
{
	if (report_wanted())
		atomic_fetch_add_explicit(&seen[id], 1, memory_order_relaxed);
}

void
report_served(enum hook_id id, CUresult code)
{
	if (code == CUDA_SUCCESS && report_wanted())
		atomic_fetch_add_explicit(&served[id], 1, memory_order_relaxed);
}

static int
slot_of(int device)
{
	return device >= 0 && device < DEVICES ? device : DEVICES - 1;
}

void
report_allocated(int device, size_t bytes)
{
	uint64_t now;
	uint64_t peak;

	if (!report_wanted())
		return;
	atomic_fetch_add(&device_live_bytes[slot_of(device)], bytes);
	now = atomic_fetch_add(&live_bytes, bytes) + bytes;
	peak = atomic_load(&peak_live_bytes);
	while (now > peak &&
	    !atomic_compare_exchange_weak(&peak_live_bytes, &peak, now))
		;
}

void
report_freed(int device, size_t bytes)
{
	if (!report_wanted())
		return;
	atomic_fetch_sub(&device_live_bytes[slot_of(device)], bytes);
	atomic_fetch_sub(&live_bytes, bytes);
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
	atomic_fetch_sub(
	    &live_bytes, atomic_exchange(&device_live_bytes[slot], 0));
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
		uint64_t held = sum.peak_held_bytes + one.peak_held_bytes;

		sum = add(sum, one);
		sum.peak_held_bytes = held;
	}
	return sum;
}

static uint64_t
count(enum hook_id id)
{
	return atomic_load(&seen[id]);
}

static uint64_t
allocations_served(void)
{
	return atomic_load(&served[HOOK_cuMemAlloc_v2]) +
	    atomic_load(&served[HOOK_cuMemAllocPitch_v2]) +
	    atomic_load(&served[HOOK_cuMemAllocAsync]) +
	    atomic_load(&served[HOOK_cuMemAllocAsync_ptsz]) +
	    atomic_load(&served[HOOK_cuMemAllocFromPoolAsync]) +
	    atomic_load(&served[HOOK_cuMemAllocFromPoolAsync_ptsz]);
}

static uint64_t
frees_served(void)
{
	return atomic_load(&served[HOOK_cuMemFree_v2]) +
	    atomic_load(&served[HOOK_cuMemFreeAsync]) +
	    atomic_load(&served[HOOK_cuMemFreeAsync_ptsz]);
}

static uint64_t
driver_calls(void)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < count_entries(); i++)
		sum += count_of(i);
	return sum;
}

/* ---- Writing ----------------------------------------------------------- */

/* A JSON string. Bytes that are not ASCII are taken for Latin-1: a program's
 * name may hold anything, and the file must stay readable. */
static void
write_string(FILE *file, const char *text)
{
	fputc('"', file);
	for (const unsigned char *c = (const unsigned char *)text; *c != '\0';
	     c++) {
		if (*c == '"' || *c == '\\')
			fprintf(file, "\\%c", *c);
		else if (*c < 0x20 || *c >= 0x7f)
			fprintf(file, "\\u%04x", *c);
		else
			fputc(*c, file);
	}
	fputc('"', file);
}

static void
write_number(FILE *file, const char *key, uint64_t value)
{
	fprintf(file, "  \"%s\": %" PRIu64 ",\n", key, value);
}

static void
write_calls(FILE *file)
{
	const char *comma = "";

	fprintf(file, "  \"calls\": {");
	for (enum hook_id i = 0; i < HOOK_COUNT; i++) {
		if (count(i) == 0)
			continue;
		fprintf(file,
		    "%s\n    \"%s\": { \"seen\": %" PRIu64
		    ", \"served\": %" PRIu64 " }",
		    comma, hooks[i].name, count(i),
		    (uint64_t)atomic_load(&served[i]));
		comma = ",";
	}
	fprintf(file, "\n  },\n");
}

static void
write_driver_calls(FILE *file)
{
	const char *comma = "";

	fprintf(file, "  \"driver_calls\": {");
	for (size_t i = 0; i < count_entries(); i++) {
		if (count_of(i) == 0)
			continue;
		fprintf(file, "%s\n    \"%s\": %" PRIu64, comma, count_name(i),
		    count_of(i));
		comma = ",";
	}
	fprintf(file, "\n  }\n");
}

static void
write_json(FILE *file)
{
	struct past sum = total();

	fprintf(file, "{\n  \"program\": ");
	write_string(file, program_invocation_name);
	fprintf(file, ",\n  \"pid\": %ld,\n  \"weir\": \"%s\",\n",
	    (long)getpid(), weir_version());
	fprintf(
	    file, "  \"serving\": %s,\n", gate_started() ? "true" : "false");
	write_number(file, "allocations_served", allocations_served());
	write_number(file, "frees_served", frees_served());
	write_number(file, "peak_live_bytes", atomic_load(&peak_live_bytes));
	write_number(file, "live_bytes_at_exit", atomic_load(&live_bytes));
	write_number(file, "peak_held_bytes", sum.peak_held_bytes);
	write_number(file, "host_waits", sum.host_waits);
	write_number(file, "gpu_waits", sum.gpu_waits);
	write_number(file, "ooms", sum.ooms);
	write_calls(file);
	write_driver_calls(file);
	fprintf(file, "}\n");
}

static void
write_row(const char *name, uint64_t value)
{
	fprintf(stderr, "  %-22s %12" PRIu64 "\n", name, value);
}

static void
write_size(const char *name, uint64_t bytes)
{
	char text[32];

	fprintf(stderr, "  %-22s %12s\n", name,
	    os_format_bytes(bytes, text, sizeof(text)));
}

static void
write_text(void)
{
	struct past sum = total();

	fprintf(stderr, "weir: %s, process %ld%s\n", program_invocation_name,
	    (long)getpid(),
	    gate_started() ? "" : " (served nothing: see the messages above)");
	write_row("allocations served", allocations_served());
	write_row("frees served", frees_served());
	write_row("driver calls of weir", driver_calls());
	write_row("waits of the host", sum.host_waits);
	write_row("waits in streams", sum.gpu_waits);
	write_row("out of memory", sum.ooms);
	write_size("peak live", atomic_load(&peak_live_bytes));
	write_size("peak held", sum.peak_held_bytes);
	write_size("live at exit", atomic_load(&live_bytes));
}

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
write_file(const char *path)
{
	FILE *file = path == NULL ? NULL : fopen(path, "we");
	bool failed;

	if (file == NULL) {
		log_write(LOG_ERROR, "WEIR_REPORT: %s: %s", destination,
		    strerror(errno));
		return;
	}
	write_json(file);
	failed = ferror(file) != 0;
	if (fclose(file) != 0 || failed)
		log_write(
		    LOG_ERROR, "WEIR_REPORT: %s: cannot be written", path);
}

/* Reads what is in memory and calls no driver: it may be gone. */
__attribute__((destructor)) static void
report(void)
{
	bool any = false;

	for (enum hook_id i = 0; i < HOOK_COUNT; i++)
		any = any || count(i) != 0;
	if (!any || os_forked())
		return;
	if (strcmp(destination, "-") == 0) {
		write_text();
	} else {
		char *path = file_name();

		write_file(path);
		free(path);
	}
}
