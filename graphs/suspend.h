/*
 * Suspends arenas: the physical memory of an arena goes back to the driver, and
 * its addresses and blocks stay.
 *
 * A pool is suspended by arena_suspend() in one call. A device sleeps in steps,
 * so that all that can fail is done for all of its arenas before any memory
 * goes: suspending_begin(), suspending_copy(), then suspending_finish(), which
 * cannot fail, or suspending_cancel(). It wakes in steps too: resuming_begin(),
 * resuming_map(), then resuming_finish() or resuming_cancel().
 */
#ifndef GRAPHS_SUSPEND_H
#define GRAPHS_SUSPEND_H

#include <weir/sleep.h>

#include "allocator/state.h"
#include "graphs/suspend_copies.h"

/*
 * Wait for all work of the device, then give the physical memory of the arena
 * back. Until it is resumed, blocks can be freed but not allocated. A handle
 * that the driver does not unmap stays. The caller holds no lock.
 *
 * @param copy copy its contents to page-locked host memory
 * @param freed  bytes given back
 * @return WEIR_EINVAL it is suspended already, or pages of it are pinned
 *         WEIR_ENOTSUP it has segments of the driver, whose addresses would
 *                         be lost
 *         WEIR_ENOTREADY  memory is being mapped
 *         WEIR_ECAPTURE, WEIR_EHOSTMEM, WEIR_EDRIVER. Nothing has changed then
 */
enum weir_status arena_suspend(struct arena *arena, bool copy, size_t *freed);

/*
 * Map physical memory at the same addresses again, with its contents if they
 * were copied. The caller holds no lock. An arena that sleeps is refused.
 */
enum weir_status arena_resume(struct arena *arena);

/* ---- In steps ----------------------------------------------------------- */

/* How an arena goes to sleep. */
struct sleep_plan {
	unsigned flags; /* enum weir_sleep_flags */
	/* Ranges without contents: in order, apart from each other. */
	const struct copy_range *discards;
	size_t discard_count;
	bool discard;       /* keep no contents of this arena */
	const char *folder; /* of a file for contents; NULL: host memory */
};

struct suspending {
	struct arena *arena;
	struct sleep_plan plan;
	/* NULL, and 0 ranges: nothing has to be copied. */
	struct copy_range *ranges;
	size_t range_count;
	struct copies *copies;
	/* Bytes given back; bytes copied; live bytes that are not copied. */
	size_t freed_bytes;
	size_t copied_bytes;
	size_t discarded_bytes;
	struct weir_sleep_stay stays[WEIR_SLEEP_REASON_COUNT];
};

/* Begin: `arena` and `plan` are set. Gives back free memory that no graph
 * keeps. WEIR_ENOTREADY: memory is being mapped; WEIR_EINVAL: it is suspended
 * already; WEIR_EHOSTMEM. Nothing is to be undone then. All work of the device
 * is done. The caller holds no lock, here and below. */
enum weir_status suspending_begin(struct suspending *s);
/* WEIR_EHOSTMEM, WEIR_EFILE, WEIR_EDRIVER; the caller cancels then. */
enum weir_status suspending_copy(struct suspending *s);
void suspending_finish(struct suspending *s);
void suspending_cancel(struct suspending *s);

struct resuming {
	struct arena *arena;
	size_t mapped_bytes; /* to be taken from the driver */
	size_t copied_bytes;
};

/* Begin: `arena` is set. WEIR_EINVAL: it does not sleep; WEIR_ENOTREADY;
 * WEIR_ENOMEM: the limit. Nothing is to be undone then. */
enum weir_status resuming_begin(struct resuming *r);
/* Map and copy. WEIR_ENOMEM, WEIR_EHOSTMEM, WEIR_EFILE, WEIR_EDRIVER; the
 * caller cancels then. */
enum weir_status resuming_map(struct resuming *r);
void resuming_finish(struct resuming *r);
void resuming_cancel(struct resuming *r);

#endif
