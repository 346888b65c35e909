#include "tools/weir/fit/fit_reduction.h"

#include <math.h>

#include "tools/weir/fit/tuning.h"

/* True for a workspace: the next allocation is its counters, one for each
 * column of blocks, and both are freed before another one. A single counter, of
 * 4 bytes, is not told from any other number. */
static bool
is_reduction(const struct fit_run *run, uint32_t alloc)
{
	const struct fit_alloc *parts = &run->allocs[alloc];
	const struct fit_alloc *counters = parts + 1;
	uint64_t columns;

	if (alloc + 1 >= run->count || parts->end != alloc + 2 ||
	    counters->end != alloc + 2 || parts->key != counters->key)
		return false;
	columns = counters->bytes / REDUCTION_COUNTER;
	return counters->bytes % REDUCTION_COUNTER == 0 && columns > 1 &&
	    columns <= REDUCTION_COLUMNS_MAX &&
	    parts->bytes % (columns * REDUCTION_BLOCK) == 0;
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
