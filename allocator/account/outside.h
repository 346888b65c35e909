/*
 * Counts the device memory of the process that weir does not hold: what the
 * program has from the driver itself, by device and kind.
 *
 * The preload adds and releases it (preload/serving/outside.c). With
 * `limit_counts:all` the sum counts in the device's limit; totals.h has the
 * claim of both sides.
 */
#ifndef ALLOCATOR_ACCOUNT_OUTSIDE_H
#define ALLOCATOR_ACCOUNT_OUTSIDE_H

#include <stdbool.h>
#include <stddef.h>

#include <weir/weir.h>

enum outside_kind {
#define OUTSIDE_KIND(name, label) OUTSIDE_##name,
	WEIR_OUTSIDE_KINDS(OUTSIDE_KIND)
#undef OUTSIDE_KIND
	    OUTSIDE_KINDS
};

/* Does memory of this kind count in a limit? Another process counts what is
 * imported. */
static inline bool
outside_is_limited(enum outside_kind kind)
{
	return kind != OUTSIDE_imported;
}

/* Add memory that is there; take it off again. A device is one that the driver
 * has. Neither fails. */
void outside_add(int device, enum outside_kind kind, size_t bytes);
void outside_release(int device, enum outside_kind kind, size_t bytes);

/*
 * Memory that the driver is about to be asked for: it counts at once, if the
 * memory that a limit may cover is then no more than `most`. False: it does
 * not. When the driver has answered, the claim is kept, which raises the peak,
 * or dropped. A claim is at most WEIR_SIZE_MAX.
 */
bool outside_claim(
    int device, enum outside_kind kind, size_t bytes, size_t most);
void outside_keep(int device, enum outside_kind kind, size_t bytes);
void outside_drop(int device, enum outside_kind kind, size_t bytes);

/* Set a kind that is measured as a whole. */
void outside_set(int device, enum outside_kind kind, size_t bytes);

/* Does the limit of a device cover this memory, as the options are now? */
bool outside_counts(void);

/* Bytes of all kinds that a limit may cover; and those that this one covers: 0
 * with `limit_counts:weir`. One load each. */
size_t outside_bytes(int device);
size_t outside_in_limit(int device);

/* Write the fields outside_... of the statistics. */
void outside_read(int device, struct weir_stats *out);

/* Begin peaks, or sums, again. */
void outside_reset_peaks(int device);
void outside_reset_sums(int device);

/* Write "4.00 GiB of cuMemCreate, 1.00 GiB of managed memory" for the kinds
 * that hold memory; "nothing" if none does. */
enum { OUTSIDE_TEXT = 512 };
void outside_describe(int device, char text[OUTSIDE_TEXT]);

#endif
