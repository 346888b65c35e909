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

#include "tools/preload/tally.h"

typedef enum weir_status read_stats(int device, struct weir_stats *out);

static read_stats *
find_stats(void)
{
	void *found = dlsym(RTLD_DEFAULT, "weir_stats");
	read_stats *stats = NULL;

	_Static_assert(sizeof(found) == sizeof(stats), "of one size");
	memcpy(&stats, &found, sizeof(stats));
	return stats;
}

static void
forget_numbers(struct report *report)
{
	report->allocations_served = 0;
	report->frees_served = 0;
	report->peak_live_bytes = 0;
	report->live_bytes = 0;
	report->live_blocks = 0;
	report->peak_held_bytes = 0;
	report->host_waits = 0;
	report->brief_waits = 0;
	report->gpu_waits = 0;
	report->ooms = 0;
}

/* The number of allocations on all devices so far. */
static uint64_t
count_all(read_stats *read)
{
	uint64_t count = 0;

	for (int i = 0; i < LEDGER_DEVICES; i++) {
		struct weir_stats stats = { .struct_size = sizeof(stats) };

		if (read(i, &stats) != WEIR_OK)
			break;
		count += stats.allocation.all.allocated;
	}
	return count;
}

static void
add_device(struct report *report, const struct weir_stats *stats)
{
	report->allocations_served += stats->allocation.all.allocated;
	report->frees_served += stats->allocation.all.freed;
	report->peak_live_bytes += stats->requested_bytes.all.peak;
	report->live_bytes += stats->requested_bytes.all.current;
	report->live_blocks += stats->allocation.all.current;
	report->peak_held_bytes += stats->reserved_bytes.all.peak;
	report->host_waits += stats->num_host_waits;
	report->brief_waits += stats->num_brief_waits;
	report->gpu_waits += stats->num_gpu_waits;
	report->ooms += stats->num_ooms;
}

bool
library_report(struct report *report)
{
	read_stats *read = find_stats();

	/* The driver is loaded, or there would be no report. */
	if (read == NULL || count_all(read) <= report->allocations_served)
		return false;
	bool mixed = report->allocations_served > 0;
	forget_numbers(report);
	for (int i = 0; i < LEDGER_DEVICES; i++) {
		struct weir_stats stats = { .struct_size = sizeof(stats) };

		if (read(i, &stats) != WEIR_OK)
			break;
		add_device(report, &stats);
	}
	report->library = !mixed;
	report->serving = report->serving || report->library;
	return true;
}
