/*
 * Magazines of blocks of one class, and the depot of a stream, through which
 * full ones pass from thread to thread.
 *
 * What a thread works with is a bin, of two magazines, so that going back and
 * forth at the end of one stays with them. A bin is its owner's; a depot has a
 * lock.
 */
#ifndef ALLOCATOR_CACHE_DEPOT_H
#define ALLOCATOR_CACHE_DEPOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/weir.h>

#include "allocator/memory/sizes.h"
#include "base/list.h"
#include "base/lock.h"

struct block;
struct cache;

enum {
	TCACHE_BINS = 128, /* exact classes of 512 bytes, to 64 KiB */
	/* Behind them those of 64 bytes, of fine pools. They begin with one of
	 * no bytes. */
	TCACHE_FINE = TCACHE_BINS + 1,
	TCACHE_CLASSES = TCACHE_FINE + FINE_END / FINE_GRANULE - 1,
	TCACHE_BATCH = 64, /* blocks of one class that move together, at most */
	TCACHE_DEPOT = 256, /* magazines of one class in a depot, at most */
};

enum {
	TCACHE_BINNED = TCACHE_BINS << 9, /* bytes of the largest class */
	TCACHE_MAGAZINE = 1 << 20, /* of a class in a magazine, at most */
};

/* ---- Sums -------------------------------------------------------------- */

/* Three sums that statistics are made of. */
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

/* The lesser of each of the three. */
static inline struct sums
sums_least(struct sums a, struct sums b)
{
	return (struct sums){ lesser(a.count, b.count),
		lesser(a.bytes, b.bytes), lesser(a.requested, b.requested) };
}

/* Is any of the three negative? */
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

/* ---- Magazines and bins ------------------------------------------------ */

/* Blocks of one class. */
struct magazine {
	struct magazine *next; /* in a depot */
	unsigned count;        /* while it is not the first of a bin */
	unsigned n;            /* its class; constant */
	struct sums in;        /* frees that it has brought to a depot */
	struct block *blocks[];
};

/* All NULL before the first block comes. */
struct bin {
	struct block **top;    /* behind the last block of the first magazine */
	struct block **bottom; /* its ->blocks */
	struct block **end;    /* where it is full */
	struct magazine *second;
};

/* The bytes of a block of a class. */
static inline size_t
class_bytes(size_t n)
{
	return n <= TCACHE_BINS ? n * WEIR_GRANULE :
				  (n - TCACHE_FINE) * FINE_GRANULE;
}

/* Blocks of a full magazine. */
static inline unsigned
magazine_max(size_t n)
{
	size_t max = TCACHE_MAGAZINE / class_bytes(n);

	return max < TCACHE_BATCH ? (unsigned)max : TCACHE_BATCH;
}

/* NULL does nothing. */
void magazine_delete(struct magazine *magazine);

/* The two magazines of a class, if it has none; false: no memory. */
bool bin_make(struct bin *bin, size_t n);

/* Without them again; they are empty. */
void bin_delete(struct bin *bin);

/* The first magazine of a bin that has some. */
static inline struct magazine *
bin_first(const struct bin *bin)
{
	return CONTAINER_OF(bin->bottom, struct magazine, blocks);
}

static inline bool
bin_empty(const struct bin *bin)
{
	return bin->top == bin->bottom;
}

/* So is one with no magazines. */
static inline bool
bin_full(const struct bin *bin)
{
	return bin->top == bin->end;
}

/* Make a magazine the first of a bin; returns the one that was, or NULL. */
static inline struct magazine *
bin_change(struct bin *bin, struct magazine *magazine)
{
	struct magazine *old = bin->bottom != NULL ? bin_first(bin) : NULL;

	if (old != NULL)
		old->count = (unsigned)(bin->top - bin->bottom);
	bin->bottom = magazine->blocks;
	bin->top = bin->bottom + magazine->count;
	bin->end = bin->bottom + magazine_max(magazine->n);
	return old;
}

static inline void
bin_swap(struct bin *bin)
{
	if (bin->second != NULL)
		bin->second = bin_change(bin, bin->second);
}

/* ---- Depots ------------------------------------------------------------ */

/* Full magazines of a stream, for any thread, and empty ones; of a class all in
 * one line of a processor's cache, mostly. */
struct depot {
	struct lock lock; /* over all that follows */
	size_t bytes;
	struct sums in;           /* frees that are still to be told */
	const struct cache *user; /* the latest; it may be no more */
	bool shared; /* others have used it since it was last looked at */
	struct shelf {
		struct magazine *full;
		struct magazine *empty;
		unsigned count; /* of full ones */
		unsigned idle;  /* the fewest since this was last looked at */
	} shelves[TCACHE_CLASSES + 1]; /* by class */
};

/* NULL: no memory. */
struct depot *depot_new(void);

/* What has no full magazine; NULL does nothing. */
void depot_delete(struct depot *depot);

/* What a cache finds: nothing, what it brought itself, as far as is known, or
 * what others may have. */
enum depot_taken { DEPOT_NONE, DEPOT_OWN, DEPOT_SHARED };

/*
 * A full magazine of a class, in place of the empty first one of a bin.
 *
 * @param in  what it brings along, unless there is none: frees, which the
 *            depot tells no more
 */
enum depot_taken depot_take(struct depot *depot, const struct cache *user,
    struct bin *bin, size_t n, struct sums *in);

/*
 * The full first magazine of a bin, which brings what is in its ->in, for an
 * empty one; it is anyone's then. False, and it stays: the depot would hold
 * more than `max` bytes, or there is no memory.
 */
bool depot_put(
    struct depot *depot, const struct cache *user, struct bin *bin, size_t max);

/* What is to be taken out of a depot: what it has had throughout since this was
 * last asked, or everything. */
enum drain { DRAIN_IDLE, DRAIN_ALL };

/* Full magazines, through ->next; the caller's. */
struct magazine *depot_take_many(struct depot *depot, enum drain which);

/* The frees that magazines have brought; the caller tells them. */
static inline struct sums
depot_untold(struct depot *depot)
{
	lock_enter(&depot->lock);
	struct sums in = depot->in;
	depot->in = (struct sums){ 0 };
	lock_leave(&depot->lock);
	return in;
}

/* Has only this cache used the depot since all were looked at? That begins anew
 * with a `look`. */
bool depot_is_own(struct depot *depot, const struct cache *user, bool look);

#endif
