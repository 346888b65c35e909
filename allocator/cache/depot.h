/*
 * Magazines of blocks of one class, and the depot of a stream, through which
 * full ones pass from thread to thread.
 *
 * A thread works with a bin, which has two magazines: a thread that frees and
 * allocates in turn at the end of one changes to the other, and not each time
 * to the depot. A bin belongs to its thread and needs no lock; a depot has one.
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
	struct sums in;        /* frees that it has counted in a depot */
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

/* The class of a size with this granule; 0: it is in no bin. */
static inline size_t
class_of(size_t granule, size_t size)
{
	if (size < FINE_END && granule < WEIR_GRANULE)
		return TCACHE_FINE + size / FINE_GRANULE;
	return size > TCACHE_BINNED ? 0 : size / WEIR_GRANULE;
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

/* Free the two magazines of a bin; they are empty. */
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

/* A bin without magazines is full, too. */
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

/* Full magazines of a stream, for any thread, and empty ones. A shelf mostly
 * lies in one line of a processor's cache. */
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

/* Free a depot that has no full magazine; NULL does nothing. */
void depot_delete(struct depot *depot);

/* Where the magazine that a cache gets comes from: there is none, the cache put
 * it there itself (as far as is known), or another cache may have. */
enum depot_taken { DEPOT_NONE, DEPOT_OWN, DEPOT_SHARED };

/*
 * Take a full magazine of a class, in exchange for the empty first one of a
 * bin.
 *
 * @param in  set to the frees that the magazine has counted, if there is one;
 *            the depot no longer counts them
 */
enum depot_taken depot_take(struct depot *depot, const struct cache *user,
    struct bin *bin, size_t n, struct sums *in);

/*
 * Put the full first magazine of a bin into the depot, with the frees that its
 * ->in counts, in exchange for an empty one. Any thread may take it then.
 * False, and it stays in the bin, if the depot would hold more than `max` bytes
 * or there is no memory.
 */
bool depot_put(
    struct depot *depot, const struct cache *user, struct bin *bin, size_t max);

/* Which magazines to take out of a depot: those that stayed there since the
 * last such call, or all. */
enum drain { DRAIN_IDLE, DRAIN_ALL };

/* Take full magazines out; they are linked by ->next and belong to the caller.
 */
struct magazine *depot_take_many(struct depot *depot, enum drain which);

/* Take the counts of frees that magazines have brought; the caller adds them to
 * the statistics. */
static inline struct sums
depot_untold(struct depot *depot)
{
	lock_enter(&depot->lock);
	struct sums in = depot->in;
	depot->in = (struct sums){ 0 };
	lock_leave(&depot->lock);
	return in;
}

/* Has no other cache used the depot since the last call with `look`? */
bool depot_is_own(struct depot *depot, const struct cache *user, bool look);

#endif
