/*
 * The statistics that each malloc and free changes, for a stream, an arena or a
 * device: types.h, struct tally.
 */
#ifndef ALLOCATOR_ACCOUNT_TALLY_H
#define ALLOCATOR_ACCOUNT_TALLY_H

#include "allocator/state.h"

/* Raise a peak that was passed. */
void tally_raise_peak(struct tally_part *part, enum tallied which);

static inline QUICK void
tally_use_headroom(struct tally_part *part, enum tallied which, int64_t n)
{
	if (__builtin_expect((part->headroom[which] -= n) < 0, 0))
		tally_raise_peak(part, which);
}

/* A change of all tallied statistics by one block, in `part` and PART_ALL. */
typedef void (*tally_count)(struct tally *tally, struct tally_part *part,
    int64_t size, int64_t requested);

static inline QUICK void
tally_use_headrooms(struct tally_part *part, int64_t size, int64_t requested)
{
	const struct sums one = { 1, size, requested };

#define TALLIED_MALLOC(name, sum)                                              \
	tally_use_headroom(part, TALLIED_##name, one.sum);
	TALLIED_STATS(TALLIED_MALLOC)
#undef TALLIED_MALLOC
}

static inline QUICK void
tally_malloc(struct tally *tally, struct tally_part *part, int64_t size,
    int64_t requested)
{
	part->up.count++;
	part->up.bytes += size;
	part->up.requested += requested;
	tally_use_headrooms(&tally->part[PART_ALL], size, requested);
	tally_use_headrooms(part, size, requested);
}

static inline QUICK void
tally_add_freed(struct tally_part *part, int64_t size)
{
	part->headroom[TALLIED_allocation]++;
	part->headroom[TALLIED_allocated_bytes] += size;
}

static inline QUICK void
tally_freed(struct tally *tally, struct tally_part *part, int64_t size,
    int64_t requested)
{
	(void)requested;
	tally_add_freed(&tally->part[PART_ALL], size);
	tally_add_freed(part, size);
}

static inline QUICK void
tally_add_inactive(struct tally_part *part, int64_t size, int64_t requested)
{
	part->headroom[TALLIED_active]++;
	part->headroom[TALLIED_active_bytes] += size;
	part->headroom[TALLIED_requested_bytes] += requested;
}

static inline QUICK void
tally_inactive(struct tally *tally, struct tally_part *part, int64_t size,
    int64_t requested)
{
	tally_add_inactive(&tally->part[PART_ALL], size, requested);
	tally_add_inactive(part, size, requested);
}

static inline QUICK void
tally_free(struct tally *tally, struct tally_part *part, int64_t size,
    int64_t requested)
{
	tally_freed(tally, part, size, requested);
	tally_inactive(tally, part, size, requested);
}

static inline struct tally_part *
tally_part_for(struct tally *tally, const struct pool *pool)
{
	return pool->kind == POOL_LARGE ? &tally->part[PART_LARGE] :
					  &tally->part[PART_SMALL];
}

static inline QUICK void
tally_in(struct tally *tally, const struct pool *pool, uint64_t size,
    uint64_t requested, tally_count count)
{
	count(tally, tally_part_for(tally, pool), (int64_t)size,
	    (int64_t)requested);
}

#endif
