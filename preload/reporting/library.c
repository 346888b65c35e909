/*
 * The numbers of weir itself, for a report.
 *
 * A program that calls weir directly, being linked with libweir or through an
 * adapter, uses this library's weir: the library exports weir's calls and comes
 * first. The hooks do not count its allocations, but weir's statistics do, so
 * the report uses those. A statically linked program does not export weir's
 * functions and has no numbers here.
 */
#include <dlfcn.h>
#include <string.h>

#include <weir/host.h>

#include "preload/reporting/tally.h"

typedef enum weir_status read_stats(int device, struct weir_stats *out);

/* The calls of the program's libweir. */
struct library {
	read_stats *stats;
	read_stats *host_stats;
	enum weir_status (*host_source)(int device, enum weir_host_source *out);
};

static bool
find_call(const char *name, void *out)
{
	void *found = real_dlsym()(RTLD_DEFAULT, name);

	memcpy(out, &found, sizeof(found));
	return found != NULL;
}

static bool
find_library(struct library *library)
{
	return find_call("weir_stats", &library->stats) &&
	    find_call("weir_host_stats", &library->host_stats) &&
	    find_call("weir_host_source", &library->host_source);
}

static void
forget_numbers(struct report *report)
{
	report->allocations_served = 0;
	report->frees_served = 0;
	report->peak_live_bytes = 0;
	report->live_bytes_at_exit = 0;
	report->live_blocks_at_exit = 0;
	report->peak_held_bytes = 0;
	memset(&report->memory, 0, sizeof(report->memory));
	memset(&report->pinned, 0, sizeof(report->pinned));
}

/* The number of allocations on all devices so far. */
static uint64_t
count_all(const struct library *library)
{
	uint64_t count = 0;

	for (int i = 0; i < LEDGER_DEVICES; i++) {
		struct weir_stats stats = { .struct_size = sizeof(stats) };

		if (library->stats(i, &stats) != WEIR_OK)
			break;
		count += stats.allocation.all.allocated;
	}
	return count;
}

static void
add_library_counters(struct counters *to, const struct weir_stats *stats)
{
	struct counters counters;

	counters_read(&counters, stats, 0);
	for (size_t i = 0; i < COUNTER_COUNT; i++)
		to->values[i] += counters.values[i];
}

static void
add_device(struct report *report, const struct weir_stats *device,
    const struct weir_stats *pinned)
{
	report->allocations_served += device->allocation.all.allocated;
	report->frees_served += device->allocation.all.freed;
	report->peak_live_bytes += device->requested_bytes.all.peak;
	report->live_bytes_at_exit += device->requested_bytes.all.current;
	report->live_blocks_at_exit += device->allocation.all.current;
	report->peak_held_bytes += device->reserved_bytes.all.peak;
	add_library_counters(&report->memory, device);
	add_library_counters(&report->pinned, pinned);
}

/* The source is known of a device that holds such memory. */
static const char *
name_source(
    const struct library *library, int device, const struct weir_stats *pinned)
{
	enum weir_host_source source;

	if (pinned->reserved_bytes.all.current == 0 ||
	    library->host_source(device, &source) != WEIR_OK)
		return NULL;
	return weir_host_source_name(source);
}

static bool
add_library_device(
    struct report *report, const struct library *library, int device)
{
	struct weir_stats stats = { .struct_size = sizeof(stats) };
	struct weir_stats pinned = { .struct_size = sizeof(pinned) };
	const char *source;

	if (library->stats(device, &stats) != WEIR_OK ||
	    library->host_stats(device, &pinned) != WEIR_OK)
		return false;
	add_device(report, &stats, &pinned);
	source = name_source(library, device, &pinned);
	if (source != NULL)
		report->pinned_source = source;
	return true;
}

bool
library_report(struct report *report)
{
	struct library library;

	/* The driver is loaded, or there would be no report. */
	if (!find_library(&library) ||
	    count_all(&library) <= report->allocations_served)
		return false;
	bool mixed = report->allocations_served > 0;
	forget_numbers(report);
	for (int i = 0; i < LEDGER_DEVICES; i++)
		if (!add_library_device(report, &library, i))
			break;
	report->library = !mixed;
	report->serving = report->serving || report->library;
	return true;
}
