#include "tools/weir/fit/fit_reduction.h"

#include <math.h>

#include "tools/weir/fit/tuning.h"

/* True for a workspace: the next allocation is its counters, and both are freed
 * before another one. */
static bool
is_reduction(const struct fit_run *run, uint32_t alloc)
{
	const struct fit_alloc *parts = &run->allocs[alloc];
	const struct fit_alloc *counters = parts + 1;

	return alloc + 1 < run->count && parts->end == alloc + 2 &&
	    counters->end == alloc + 2 && parts->key == counters->key &&
	    counters->bytes % REDUCTION_COUNTER == 0 &&
	    counters->bytes <= REDUCTION_COUNTERS_MAX &&
	    parts->bytes % REDUCTION_LANES == 0 &&
	    parts->bytes >= REDUCTION_LANES * counters->bytes;
}

double
fit_reduction_bytes(const struct fit_run *run, uint32_t alloc, double bytes)
{
	/* The sizes of the pattern are right as they are. */
	double most =
	    fmax((double)REDUCTION_BYTES_MAX, (double)run->allocs[alloc].bytes);

	if (bytes <= most || !is_reduction(run, alloc))
		return bytes;
	return fmax(most, bytes / REDUCTION_GROWTH);
}
