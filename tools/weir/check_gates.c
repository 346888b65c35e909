/*
 * Live bytes are those that the program requested and has not freed. The sum is
 * played from the beginning of the trace; blocks from before it count from its
 * begin on.
 *
 * Growth: a program that has warmed up needs no more in the last third of its
 * events than in the third before. The first third is left to the warm-up.
 */
#include "tools/weir/check_gates.h"

#include <inttypes.h>
#include <stdlib.h>

#include "tools/weir/snapshot_callers.h"
#include "tools/weir/snapshot_leaks.h"
#include "tools/weir/snapshot_lives.h"

enum { THIRDS = 3 };

/* The most live bytes in each third of a device's trace, and at its end. */
struct peaks {
	uint64_t third[THIRDS];
	uint64_t most;
};

static bool add_miss(json_t *list, const char *rule, uint32_t device,
    const char *format, ...) __attribute__((format(printf, 4, 5)));

static bool
add_miss(
    json_t *list, const char *rule, uint32_t device, const char *format, ...)
{
	json_t *one = json_object();
	va_list args;

	va_start(args, format);
	json_object_set_new(one, "rule", json_string(rule));
	put_number(one, "device", device);
	json_object_set_new(one, "what", json_vsprintf(format, args));
	va_end(args);
	if (json_array_append_new(list, one) == 0)
		return true;
	complain("out of memory");
	return false;
}

/* ---- Live bytes -------------------------------------------------------- */

/* Without a trace, what the blocks of the file say. */
static uint64_t
live_now(const struct snapshot *snapshot, uint32_t device)
{
	struct sums sums = { 0 };

	for (uint32_t i = 0; i < snapshot->segment_count; i++)
		if (snapshot->segments[i].device == device)
			sums_add(&sums, snapshot, &snapshot->segments[i]);
	return sums.allocated;
}

/* The change of the live bytes at each event of the trace; [0] has also what
 * was live before. */
static void
add_changes(const struct snapshot_trace *trace, const struct lives *lives,
    int64_t *change)
{
	for (uint32_t i = 0; i < lives->count; i++) {
		const struct life *life = &lives->items[i];
		uint32_t end = life->requested != LIFE_NONE ? life->requested :
							      life->completed;

		if (life->lost)
			continue;
		change[life->alloc == LIFE_NONE ? 0 :
						  life->alloc - trace->first] +=
		    (int64_t)life->bytes;
		if (end != LIFE_NONE)
			change[end - trace->first] -= (int64_t)life->bytes;
	}
}

static bool
find_peaks(
    const struct snapshot *snapshot, uint32_t device, struct peaks *peaks)
{
	const struct snapshot_trace *trace = &snapshot->traces[device];
	int64_t *change = calloc(trace->count, sizeof(*change));
	struct lives lives;
	int64_t live = 0;

	if (change == NULL) {
		complain("out of memory");
		return false;
	}
	if (!lives_find(snapshot, device, &lives)) {
		free(change);
		return false;
	}
	add_changes(trace, &lives, change);
	for (uint64_t i = 0; i < trace->count; i++) {
		uint64_t *third = &peaks->third[i * THIRDS / trace->count];

		live += change[i];
		if (live > 0 && (uint64_t)live > *third)
			*third = (uint64_t)live;
	}
	for (unsigned i = 0; i < THIRDS; i++)
		if (peaks->third[i] > peaks->most)
			peaks->most = peaks->third[i];
	lives_drop(&lives);
	free(change);
	return true;
}

/* ---- The bounds -------------------------------------------------------- */

static bool
check_peak(const struct gates *gates, uint32_t device,
    const struct peaks *peaks, json_t *list)
{
	char peak[VIEW_TEXT];
	char bound[VIEW_TEXT];

	if (gates->max_peak == 0 || peaks->most <= gates->max_peak)
		return true;
	return add_miss(list, "max-peak", device,
	    "%s were live at most; the bound is %s",
	    bytes_format(peaks->most, peak, sizeof(peak)),
	    bytes_format(gates->max_peak, bound, sizeof(bound)));
}

static bool
check_growth(const struct gates *gates, uint32_t device,
    const struct peaks *peaks, json_t *list)
{
	double allowed =
	    (double)peaks->third[1] * (1 + gates->growth_percent / 100);
	char before[VIEW_TEXT];
	char after[VIEW_TEXT];

	if (!gates->no_growth || (double)peaks->third[2] <= allowed)
		return true;
	return add_miss(list, "no-growth", device,
	    "%s were live at most in the last third of the trace, and %s in "
	    "the third before; %g %% more are allowed",
	    bytes_format(peaks->third[2], after, sizeof(after)),
	    bytes_format(peaks->third[1], before, sizeof(before)),
	    gates->growth_percent);
}

static bool
check_device(const struct snapshot *snapshot, uint32_t device,
    const struct gates *gates, json_t *list)
{
	struct peaks peaks = { 0 };

	if (device < snapshot->trace_count &&
	    snapshot->traces[device].count > 0) {
		if (!find_peaks(snapshot, device, &peaks))
			return false;
	} else if (gates->no_growth) {
		complain("--no-growth: device %" PRIu32
			 " has no trace; record the history",
		    device);
		return false;
	} else {
		peaks.most = live_now(snapshot, device);
	}
	return check_peak(gates, device, &peaks, list) &&
	    check_growth(gates, device, &peaks, list);
}

static bool
check_leaks(
    const struct snapshot *snapshot, const struct view_args *args, json_t *list)
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

		done = add_miss(list, "no-leaks", suspect->device,
		    "%s in %s allocated by %s may leak: %s",
		    bytes_format(suspect->live_bytes, bytes, sizeof(bytes)),
		    plural_text(suspect->live, "block", blocks),
		    callers_text(args->callers, suspect->stack, text),
		    "weir leaks has the evidence");
	}
	free(found.items);
	return done;
}

static bool
has_memory(const struct snapshot *snapshot, uint32_t device)
{
	for (uint32_t i = 0; i < snapshot->segment_count; i++)
		if (snapshot->segments[i].device == device)
			return true;
	return device < snapshot->trace_count &&
	    snapshot->traces[device].count > 0;
}

bool
gates_check(const struct snapshot *snapshot, const struct view_args *args,
    const struct gates *gates, json_t *list)
{
	uint32_t devices = snapshot->trace_count;

	for (uint32_t i = 0; i < snapshot->segment_count; i++)
		if (snapshot->segments[i].device >= devices)
			devices = snapshot->segments[i].device + 1;
	for (uint32_t d = 0;
	     (gates->max_peak > 0 || gates->no_growth) && d < devices; d++)
		if (view_has(args, d) && has_memory(snapshot, d) &&
		    !check_device(snapshot, d, gates, list))
			return false;
	return !gates->no_leaks || check_leaks(snapshot, args, list);
}
