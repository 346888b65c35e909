/* The arithmetic of size classes; no state. */
#include "allocator/policy/sizes.h"

#include <stdint.h>

#include "base/assert.h"

static unsigned
log2_floor(size_t n)
{
	ASSERT(n > 0);
	return 63 - (unsigned)__builtin_clzll((unsigned long long)n);
}

/* The divisions for requests of n bytes. There is an entry for each power of
 * two from 1 MiB (also for all smaller sizes) to 32 GiB (also for all larger
 * ones). */
static uint32_t
divisions(const struct options *options, size_t n)
{
	unsigned log = log2_floor(n);
	unsigned i = log < 20 ? 0 : log - 20;

	ASSERT(n > 0);
	return options->roundup[i < ROUNDUP_CLASSES ? i : ROUNDUP_CLASSES - 1];
}

size_t
size_class_divided(const struct options *options, size_t n)
{
	ASSERT(n > 0);
	if (n <= WEIR_GRANULE)
		return WEIR_GRANULE;
	uint32_t parts = divisions(options, n);
	if (parts == 0 || n <= WEIR_GRANULE * parts)
		return round_up(n, WEIR_GRANULE);
	/* Each interval between powers of two has `parts` steps. One step
	 * means the next power of two. */
	size_t power = (size_t)1 << log2_floor(n);
	return round_up(n, power == n ? power : power / parts);
}

/* The most bytes that a driver segment for a size class may have. */
static size_t
size_segment_most(const struct options *options, size_t rounded)
{
	ASSERT(rounded > 0);
	if (rounded <= SMALL_MAX)
		return SMALL_SEGMENT;
	if (rounded < LARGE_EXACT)
		return round_up(options->large_segment_size, SEGMENT_STEP);
	return round_up(rounded, SEGMENT_STEP);
}

size_t
size_segment(const struct options *options, size_t rounded)
{
	size_t most = size_segment_most(options, rounded);
	size_t best = most / rounded;
	size_t best_waste = most;

	ASSERT(rounded > 0);
	if (rounded <= SMALL_MAX || rounded >= LARGE_EXACT)
		return most;
	for (size_t n = best; 2 * n * rounded > most; n--) {
		size_t bytes = n * rounded;
		size_t waste = round_up(bytes, SEGMENT_STEP) - bytes;
		if (waste * best < best_waste * n) {
			best = n;
			best_waste = waste;
		}
	}
	return round_up(best * rounded, SEGMENT_STEP);
}

bool
size_serves(const struct options *options, size_t block, size_t rounded)
{
	ASSERT(block >= rounded);
	/* A segment that was made for a request must serve it, even if rounding
	 * has made the segment oversize and the request is not. */
	if (block <= size_segment_most(options, rounded))
		return true;
	if (rounded < options->max_split_size)
		return block < options->max_split_size;
	return block - rounded < options->max_non_split_rounding;
}

size_t
size_host_segment(enum pool_kind kind, size_t rounded, size_t held)
{
	size_t size = HOST_SEGMENT_LEAST;

	ASSERT(rounded > 0 && kind < POOL_KINDS);
	if (kind == POOL_LARGE) {
		while ((size < HOST_SEGMENT_MOST ||
			   size < HOST_SEGMENT_REQUESTS * rounded) &&
		    size * 2 <= held / 8)
			size *= 2;
		return rounded > size ? rounded : size;
	}
	while (size < SMALL_SEGMENT &&
	    (size < 8 * rounded || size * 2 <= held / 32))
		size *= 2;
	return size;
}
