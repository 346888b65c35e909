/*
 * The differences between the memory of arenas.
 *
 * Expandable device memory, driver segments and page-locked host memory are
 * served by the same code. Where they have to be treated differently, the code
 * reads a trait of the arena. A trait is one difference, and is named for it:
 * the code asks whether blocks are ordered by streams, and not which memory it
 * has. So a new kind of memory needs a new table here, and no new branch.
 *
 * Each arena has a copy of its table, which never changes while the arena
 * exists. The copy fits in one line of a processor's cache, so that a request
 * follows no pointer for it. The flags of an arena (enum arena_flags) are
 * apart, because they differ between arenas of the same memory and may change.
 */
#ifndef ALLOCATOR_MEMORY_TRAITS_H
#define ALLOCATOR_MEMORY_TRAITS_H

#include <stdbool.h>
#include <stddef.h>

/* A device has two sets of totals, with a limit each. */
enum account { ACCOUNT_DEVICE, ACCOUNT_HOST };

struct traits {
	const char *name; /* unique */

	/* ---- What the memory is ---- */

	/* It can come in expandable segments, so that free memory is mapped
	 * where a request needs it. A source allocates and frees whole
	 * segments, so its memory cannot. Memory of streams also needs the
	 * option expandable_segments: heap_maps(). */
	bool can_map;
	/* It lies in page-locked memory of the host. weir_host_free() and
	 * weir_host_record() refuse other memory, and snapshots list it
	 * apart. */
	bool is_page_locked;
	/* Whose totals and limit it counts for. Page-locked memory takes
	 * nothing from the device. */
	enum account account;

	/* ---- Who may use it ---- */

	/* A block belongs to the stream that it was allocated for, and the
	 * stream's order says when it may be used again. The host is ordered
	 * after no stream, so page-locked blocks belong to none: they wait only
	 * for uses that were recorded. Nor do captures, routes and private
	 * pools concern them. */
	bool has_streams;
	/* Callbacks are called for its blocks, and for a request that it cannot
	 * serve. Like PyTorch's, they report device memory. */
	bool is_observed;

	/* ---- Sizes ---- */

	/* Options round requests up (roundup_power2_divisions and others). They
	 * are PyTorch's, for device memory; without them a request is rounded
	 * to the granule. */
	bool has_rounding;
	/* The largest small size class. Larger ones are in pools of their own.
	 * Where no options round requests, large ones are rounded to whole
	 * pages. So they begin at a page as well, as programs expect of the
	 * driver's page-locked memory. */
	size_t small_max;

	/* ---- What stays unused ---- */

	/* Held memory is bounded by the peak of live bytes (reclaim_bound()):
	 * page-locked memory is taken from all programs of the machine, so it
	 * goes back without garbage collection being asked for. */
	bool is_bounded;
	/* Unused memory has a limit of its own, pinned_idle_mb. Blocks that
	 * threads cache count as unused, so under this limit none are cached.
	 */
	bool has_idle_limit;
	/* Decay looks at the clock once in so many requests, a power of two.
	 * Reading the clock is dear beside a device request. Page-locked
	 * requests are few, so that memory would stay too long. */
	unsigned decay_requests;

	/* ---- Thread caches ---- */

	/* Cached blocks return to the pools at times, to merge with neighbours
	 * there; otherwise page-locked memory would exceed its bound. In device
	 * memory, what a thread uses stays cached: tcache.h, Note [What is in
	 * use stays]. */
	bool drains_caches;
	/* A cache that lacks a size gets several blocks of it at once. With a
	 * bound on unused memory that would be too much. */
	bool refills_caches;
};

/* Memory of the device, mapped bit by bit where the options allow it. */
extern const struct traits traits_expandable;
/* Memory of the device in segments of the driver, or of another source. */
extern const struct traits traits_segments;
/* Page-locked memory of the host in pieces from the driver, or of registered
 * pages. */
extern const struct traits traits_page_locked;
/* Page-locked memory of the host, mapped bit by bit. */
extern const struct traits traits_host_mapped;

#endif
