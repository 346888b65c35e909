/*
 * Rounding: a request to its size class, a driver segment to its size.
 *
 * Everything is a multiple of WEIR_GRANULE, but for small page-locked memory. A
 * size class of at most 1 MiB is small. Driver segments are 2 MiB for small
 * blocks, `large_segment_size` (20 MiB) for those below 10 MiB, and the size
 * itself in steps of 2 MiB above.
 */
#ifndef ALLOCATOR_MEMORY_SIZES_H
#define ALLOCATOR_MEMORY_SIZES_H

#include <stdbool.h>
#include <stddef.h>

#include "allocator/options.h"

/* POOL_FINE: of a granule below WEIR_GRANULE; it counts as small. */
enum pool_kind { POOL_SMALL, POOL_LARGE, POOL_FINE, POOL_KINDS };

enum {
	SMALL_MAX = 1 << 20,     /* the largest small size class */
	SMALL_SEGMENT = 2 << 20, /* what small blocks are cut from */
	LARGE_EXACT = 10 << 20,  /* from here segments are made to measure */
	SEGMENT_STEP = 2 << 20,
	/* The largest request for host memory that shares a segment. */
	HOST_SHARED_MAX = 256 << 10,
	/* The finest granule of a source, a line of a host's cache; and what is
	 * smaller than this has it: of more 512 bytes are an eighth at most. */
	FINE_GRANULE = 64,
	FINE_END = 4 << 10,
	HOST_SEGMENT_LEAST = 256 << 10, /* that is cut */
};

/* n up to a multiple of `step`, a power of two. */
static inline size_t
round_up(size_t n, size_t step)
{
	return (n + step - 1) & ~(step - 1);
}

static inline size_t
round_down(size_t n, size_t step)
{
	return n & ~(step - 1);
}

static inline size_t
min_size(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* n times a bound that may be SIZE_MAX, for none. */
static inline size_t
times(size_t bound, size_t n)
{
	return bound > SIZE_MAX / n ? SIZE_MAX : bound * n;
}

/* The size class of a request of 1 <= n <= WEIR_SIZE_MAX bytes. */
static inline size_t size_class(const struct options *options, size_t n);
size_t size_class_divided(const struct options *options, size_t n);

static inline size_t
size_class(const struct options *options, size_t n)
{
	return options->rounds ? size_class_divided(options, n) :
				 round_up(n, WEIR_GRANULE);
}

static inline enum pool_kind
size_kind(size_t rounded)
{
	return rounded <= SMALL_MAX ? POOL_SMALL : POOL_LARGE;
}

/* Bytes of the driver segment made for a size class. */
size_t size_segment(const struct options *options, size_t rounded);

/* Is a block of `block` bytes to be cut when `rounded` are wanted? */
static inline bool
size_splits(const struct options *options, enum pool_kind kind, bool expandable,
    size_t block, size_t rounded)
{
	size_t rest = block - rounded;

	if (kind != POOL_LARGE || expandable)
		return rest > 0;
	return rounded < options->max_split_size && rest > SMALL_MAX;
}

/* May a driver-segment block of `block` bytes serve `rounded` at all? Keeps
 * oversize blocks (max_split_size) for oversize requests. */
bool size_serves(const struct options *options, size_t block, size_t rounded);

/* The size class of a request where what is smaller than FINE_END has a granule
 * of its own. */
static inline size_t
size_of_granule(size_t granule, size_t n)
{
	return round_up(n, n < FINE_END ? granule : WEIR_GRANULE);
}

/*
 * Page-locked host memory. Blocks up to 256 KiB are cut from shared segments,
 * of which an eighth at most is lost to a block that does not fit; a new one is
 * a thirty-second of what is held in such at most, if it need not be more: a
 * power of two from 256 KiB to 2 MiB. Larger blocks have a segment each, exact
 * to the page. A free one serves requests that leave no more than an eighth of
 * theirs unused.
 *
 * @param held  bytes of the segments that are shared
 */
size_t size_host_segment(size_t rounded, size_t held, size_t page);
bool size_host_serves(size_t block, size_t rounded);

#endif
