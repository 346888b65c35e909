#include "tools/weir/reading/snapshot_leaks.h"

#include <stdlib.h>

#include "tools/weir/reading/snapshot_lives.h"
#include "tools/weir/tuning.h"

static void
count_life(const struct snapshot *snapshot, const struct snapshot_trace *trace,
    const struct life *life, struct suspect *suspect)
{
	uint64_t at;

	suspect->allocs++;
	if (life->requested != LIFE_NONE || life->completed != LIFE_NONE) {
		suspect->frees++;
		return;
	}
	if (life->block == LIFE_NONE)
		return;
	at = life->alloc - trace->first;
	suspect->live++;
	if (at > suspect->last)
		suspect->last = at;
	suspect->live_bytes += snapshot->blocks[life->block].bytes;
	suspect->parts |= 1u << (unsigned)(at * LEAK_PARTS / trace->count);
}

static int
compare_suspects(const void *a, const void *b)
{
	const struct suspect *one = a;
	const struct suspect *other = b;

	if (one->live_bytes != other->live_bytes)
		return one->live_bytes > other->live_bytes ? -1 : 1;
	if (one->device != other->device)
		return one->device < other->device ? -1 : 1;
	return one->stack < other->stack ? -1 : one->stack > other->stack;
}

/* Set *at_peak if the live bytes of a device's trace end at their peak, so that
 * the trace may end within a step. False, and a complaint, without memory. */
static bool
ends_at_peak(const struct snapshot *snapshot, uint32_t device, bool *at_peak)
{
	const struct snapshot_trace *trace = &snapshot->traces[device];
	uint64_t before;
	uint64_t live;
	uint64_t peak;

	if (!live_bytes_before(snapshot, device, &before))
		return false;
	live = before;
	peak = before;
	for (uint32_t i = trace->first; i < trace->first + trace->count; i++) {
		live_bytes_follow(snapshot, i, &live);
		if (live > peak)
			peak = live;
	}
	*at_peak = live > before &&
	    (live - before) * 100 >= (peak - before) * LEAK_PEAK_PERCENT;
	return true;
}

/* Add the suspects of a device. `by_stack` has an entry for each stack. */
static bool
find_of_device(const struct snapshot *snapshot, uint32_t device,
    unsigned long least, struct suspects *out)
{
	struct suspect *by_stack =
	    calloc(snapshot->stack_count, sizeof(*by_stack));
	struct suspect *items = realloc(
	    out->items, (out->count + snapshot->stack_count) * sizeof(*items));
	struct lives lives = { 0 };
	bool at_peak = false;

	if (items != NULL)
		out->items = items;
	if (by_stack == NULL || items == NULL)
		complain("out of memory");
	if (by_stack == NULL || items == NULL ||
	    !ends_at_peak(snapshot, device, &at_peak) ||
	    !lives_find(snapshot, device, &lives)) {
		free(by_stack);
		return false;
	}
	for (uint32_t i = 0; i < lives.count; i++) {
		const struct life *life = &lives.items[i];

		if (life->alloc == LIFE_NONE || life->stack == 0)
			continue;
		out->traced++;
		count_life(snapshot, &snapshot->traces[device], life,
		    &by_stack[life->stack]);
	}
	for (uint32_t i = 0; i < snapshot->stack_count; i++) {
		struct suspect *suspect = &by_stack[i];

		suspect->at_peak = at_peak;
		suspect->device = device;
		suspect->stack = i;
		if (suspect->live >= least &&
		    2 * suspect->frees < suspect->allocs &&
		    __builtin_popcount(suspect->parts) >= LEAK_PARTS_LEAST)
			out->items[out->count++] = *suspect;
	}
	free(by_stack);
	lives_drop(&lives);
	return true;
}

bool
leaks_find(const struct snapshot *snapshot, const struct view_args *args,
    unsigned long least, struct suspects *out)
{
	for (uint32_t d = 0; d < snapshot->trace_count; d++)
		if (view_has(args, d) && snapshot->traces[d].count > 0 &&
		    !find_of_device(snapshot, d, least, out))
			return false;
	if (out->count > 0)
		qsort(out->items, out->count, sizeof(*out->items),
		    compare_suspects);
	return true;
}
