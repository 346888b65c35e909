/*
 * Growth: a program that has warmed up needs no more in the last third of its
 * events than in the third before. The first third is left to the warm-up.
 */
#include "tools/weir/verbs/check_gates.h"

#include <inttypes.h>
#include <stdlib.h>

#include "tools/weir/reading/snapshot_callers.h"
#include "tools/weir/reading/snapshot_leaks.h"
#include "tools/weir/reading/snapshot_lives.h"
#include "tools/weir/tuning.h"

/* The most live bytes in each third of a device's trace, and at its end. */
struct peaks {
	uint64_t third[GATE_PARTS];
	uint64_t most;
};

static bool
find_peaks(
    const struct snapshot *snapshot, uint32_t device, struct peaks *peaks)
{
	const struct snapshot_trace *trace = &snapshot->traces[device];
	uint64_t live;

	if (!live_bytes_before(snapshot, device, &live))
		return false;
	peaks->third[0] = live;
	for (uint64_t i = 0; i < trace->count; i++) {
		uint64_t *third = &peaks->third[i * GATE_PARTS / trace->count];

		live_bytes_follow(snapshot, trace->first + (uint32_t)i, &live);
		if (live > *third)
			*third = live;
	}
	for (unsigned i = 0; i < GATE_PARTS; i++)
		if (peaks->third[i] > peaks->most)
			peaks->most = peaks->third[i];
	return true;
}

/* ---- The bounds -------------------------------------------------------- */

static void
check_peak(const struct gates *gates, uint32_t device,
    const struct peaks *peaks, struct faults *faults)
{
	char peak[VIEW_TEXT];
	char bound[VIEW_TEXT];

	if (gates->max_peak > 0 && peaks->most > gates->max_peak)
		add_fault(faults, "max-peak", device, FAULT_ANYWHERE,
		    "%s were live at most; the bound is %s",
		    bytes_format(peaks->most, peak, sizeof(peak)),
		    bytes_format(gates->max_peak, bound, sizeof(bound)));
}

static void
check_growth(const struct gates *gates, uint32_t device,
    const struct peaks *peaks, struct faults *faults)
{
	double allowed =
	    (double)peaks->third[1] * (1 + gates->growth_percent / 100);
	char before[VIEW_TEXT];
	char after[VIEW_TEXT];

	if (gates->no_growth && (double)peaks->third[2] > allowed)
		add_fault(faults, "no-growth", device, FAULT_ANYWHERE,
		    "%s were live at most in the last third of the trace, and "
		    "%s in the third before; %g %% more are allowed",
		    bytes_format(peaks->third[2], after, sizeof(after)),
		    bytes_format(peaks->third[1], before, sizeof(before)),
		    gates->growth_percent);
}

static bool
check_device(const struct snapshot *snapshot, uint32_t device,
    const struct gates *gates, struct faults *faults)
{
	struct peaks peaks = { 0 };
	bool traced = device < snapshot->trace_count &&
	    snapshot->traces[device].count > 0;

	if (traced && !find_peaks(snapshot, device, &peaks))
		return false;
	if (!traced) {
		struct sums sums = sums_of(snapshot, (int)device);

		if (gates->no_growth && sums.segments > 0) {
			complain("--no-growth: device %" PRIu32
				 " has no trace; record the history",
			    device);
			return false;
		}
		peaks.most = sums.allocated;
	}
	check_peak(gates, device, &peaks, faults);
	check_growth(gates, device, &peaks, faults);
	return true;
}

static bool
check_leaks(const struct snapshot *snapshot, const struct view_args *args,
    struct faults *faults)
{
	struct suspects found = { 0 };
	char text[CALLERS_TEXT];
	char blocks[VIEW_TEXT];
	char bytes[VIEW_TEXT];
	bool done = leaks_find(snapshot, args, LEAKS_LEAST, &found);

	if (done && found.traced == 0) {
		complain("--no-leaks: the trace has no allocation with a "
			 "stack; record the history with stacks");
		done = false;
	}
	for (size_t i = 0; done && i < found.count; i++) {
		const struct suspect *suspect = &found.items[i];

		add_fault(faults, "no-leaks", suspect->device, FAULT_ANYWHERE,
		    "%s in %s allocated by %s may leak: weir leaks has the "
		    "evidence",
		    bytes_format(suspect->live_bytes, bytes, sizeof(bytes)),
		    plural_text(suspect->live, "block", blocks),
		    callers_text(args->callers, suspect->stack, text));
	}
	free(found.items);
	return done;
}

bool
gates_check(const struct snapshot *snapshot, const struct view_args *args,
    const struct gates *gates, struct faults *faults)
{
	bool by_device = gates->max_peak > 0 || gates->no_growth;

	for (uint32_t d = 0; by_device && d < snapshot_device_count(snapshot);
	     d++)
		if (view_has(args, d) &&
		    !check_device(snapshot, d, gates, faults))
			return false;
	return !gates->no_leaks || check_leaks(snapshot, args, faults);
}
