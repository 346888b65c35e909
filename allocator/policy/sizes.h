/*
 * Rounds requests to size classes, and driver segments to their sizes.
 *
 * All sizes are multiples of WEIR_GRANULE, except those of small page-locked
 * memory. A size class of at most 1 MiB is small. A driver segment has 2 MiB
 * for small blocks. For size classes below 10 MiB it has a multiple of the size
 * class, between a half of `large_segment_size` (20 MiB) and all of it, and for
 * larger ones the size class, both rounded to 2 MiB.
 */
#ifndef ALLOCATOR_POLICY_SIZES_H
#define ALLOCATOR_POLICY_SIZES_H

#include <stdbool.h>
#include <stddef.h>

#include "allocator/options.h"

/* POOL_FINE: of a granule below WEIR_GRANULE; it counts as small. */
enum pool_kind { POOL_SMALL, POOL_LARGE, POOL_FINE, POOL_KINDS };

enum {
	SMALL_MAX = 1 << 20,     /* the largest small size class */
	SMALL_SEGMENT = 2 << 20, /* a segment of small blocks */
	LARGE_EXACT = 10 << 20,  /* from here, the request's size */
	SEGMENT_STEP = 2 << 20,
	/* The largest small request for page-locked memory. Rounding a larger
	 * one to pages of 64 KiB wastes at most a fifth. */
	HOST_SMALL_MAX = 256 << 10,
	/* The finest granule of a source, a cache line of the host; and the
	 * size below which blocks have it. For larger ones 512 bytes are an
	 * eighth at most. */
	FINE_GRANULE = 64,
	FINE_END = 4 << 10,
	/* The largest handle of page-locked memory. From here on the driver's
	 * calls cost as much for each MiB, and smaller handles are easier to
	 * move and to give back: docs/adr/0013. */
	HOST_HANDLE_MAX = 8 << 20,
	/* Segments of page-locked memory that is not mapped: the smallest, and
	 * the largest that is larger than this many times its first request.
	 * Segments cannot be merged. A program with requests of any size needs
	 * segments with room for several of them, or each size would have
	 * segments of its own: training that offloads blocks of up to 192 MiB
	 * held 4.3 times its peak in segments of one block each, and 1.2 times
	 * with room for four. */
	HOST_SEGMENT_LEAST = 256 << 10,
	HOST_SEGMENT_MOST = 64 << 20,
	HOST_SEGMENT_REQUESTS = 4,
};

/* Round n up to a multiple of `step`, a power of two. */
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

/* A bound times n; SIZE_MAX is no bound. */
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

/* Bytes of the driver segment made for a size class. Blocks of the size class
 * fill it, but for less than 2 MiB: a tail would stay unused in a program that
 * repeats one size. */
size_t size_segment(const struct options *options, size_t rounded);

/* Should a block of `block` bytes be cut for a request of `rounded`? */
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

/* The size class of a request where sizes below FINE_END have a granule of
 * their own. */
static inline size_t
size_of_granule(size_t granule, size_t n)
{
	return round_up(n, n < FINE_END ? granule : WEIR_GRANULE);
}

/*
 * Bytes of a new segment of page-locked memory that is not mapped. A segment
 * for small blocks has a power of two of bytes, from 256 KiB to 2 MiB: at least
 * eight times the block, so that a block that does not fit wastes at most an
 * eighth, and otherwise at most a thirty-second of the bytes held. A segment
 * for large blocks has a power of two as well, up to 64 MiB, and at most an
 * eighth of the bytes held; or the size of the request, if that is more.
 *
 * @param held bytes of the segments for blocks of this kind
 */
size_t size_host_segment(enum pool_kind kind, size_t rounded, size_t held);

#endif
