/*
 * Sums of what was allocated or freed.
 */
#ifndef ALLOCATOR_MAGAZINES_SUMS_H
#define ALLOCATOR_MAGAZINES_SUMS_H

#include <stdbool.h>
#include <stdint.h>

/* The three sums that the tallied statistics are computed from. */
struct sums {
	int64_t count;
	int64_t bytes;
	int64_t requested;
};

static inline struct sums
sums_plus(struct sums a, struct sums b)
{
	return (struct sums){ a.count + b.count, a.bytes + b.bytes,
		a.requested + b.requested };
}

static inline struct sums
sums_minus(struct sums a, struct sums b)
{
	return (struct sums){ a.count - b.count, a.bytes - b.bytes,
		a.requested - b.requested };
}

static inline int64_t
lesser(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/* The lesser of each of the three sums. */
static inline struct sums
sums_least(struct sums a, struct sums b)
{
	return (struct sums){ lesser(a.count, b.count),
		lesser(a.bytes, b.bytes), lesser(a.requested, b.requested) };
}

/* Is any of the three sums negative? */
static inline bool
sums_lack(const struct sums *sums)
{
	return (sums->count | sums->bytes | sums->requested) < 0;
}

static inline bool
sums_are_zero(const struct sums *sums)
{
	return (sums->count | sums->bytes | sums->requested) == 0;
}

#endif
