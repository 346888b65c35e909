/*
 * Magazines hold blocks of one class. Full magazines pass from thread to thread
 * through the depot of a stream.
 *
 * A thread works with a bin, which has two magazines. A thread that frees and
 * allocates in turn at the end of one magazine changes to the other one, and
 * need not go to the depot each time. A bin belongs to its thread and needs no
 * lock; a depot has a lock.
 */
#ifndef ALLOCATOR_MAGAZINES_DEPOT_H
#define ALLOCATOR_MAGAZINES_DEPOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/weir.h>

#include "allocator/magazines/sums.h"
#include "allocator/magazines/tuning.h"
#include "allocator/policy/sizes.h"
#include "base/list.h"
#include "base/lock.h"

struct block;
struct cache;

enum {
	TCACHE_BINS = 128, /* exact classes of 512 bytes, to 64 KiB */
	/* After them the classes of 64 bytes, for fine pools. The first of
	 * these has 0 bytes and is unused. */
	TCACHE_FINE = TCACHE_BINS + 1,
	TCACHE_CLASSES = TCACHE_FINE + FINE_END / FINE_GRANULE - 1,
};

enum { TCACHE_BINNED = TCACHE_BINS << 9 }; /* bytes of the largest class */

/* ---- Magazines and bins ------------------------------------------------ */

/* Blocks of one class. */
struct magazine {
	struct magazine *next; /* in a depot */
	unsigned count;        /* valid while it is not the first of a bin */
	unsigned n;            /* its class; constant */
	struct sums in;        /* the frees that it brought to a depot */
	struct block *blocks[];
};

/* All NULL before its first block. */
struct bin {
	struct block **top;    /* after the last block of the first magazine */
	struct block **bottom; /* the first magazine's ->blocks */
	struct block **end;    /* `top` when it is full */
	struct magazine *second;
};

/* The bytes of a block of a class. */
static inline size_t
class_bytes(size_t n)
{
	return n <= TCACHE_BINS ? n * WEIR_GRANULE :
				  (n - TCACHE_FINE) * FINE_GRANULE;
}

/* The class of a size in an arena with this granule; 0: no bin holds it. */
static inline size_t
class_of(size_t granule, size_t size)
{
	if (size < FINE_END && granule < WEIR_GRANULE)
		return TCACHE_FINE + size / FINE_GRANULE;
	return size > TCACHE_BINNED ? 0 : size / WEIR_GRANULE;
}

/* The number of blocks in a full magazine. */
static inline unsigned
magazine_max(size_t n)
{
	size_t max = TCACHE_MAGAZINE / class_bytes(n);

	return max < TCACHE_BATCH ? (unsigned)max : TCACHE_BATCH;
}

/* Free a magazine. NULL does nothing. */
void magazine_delete(struct magazine *magazine);

/* Make the two magazines of a bin if it has none. False: no host memory. */
bool bin_make(struct bin *bin, size_t n);

/* Free the two magazines of a bin. Blocks in them, of which there are some only
 * if the context is gone, are forgotten. */
void bin_delete(struct bin *bin);

/* The first magazine of a bin that has magazines. */
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

/* Is the bin full? A bin without magazines is full and empty. */
static inline bool
bin_full(const struct bin *bin)
{
	return bin->top == bin->end;
}

/* Make a magazine the first of a bin. Returns the first one before, or NULL. */
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

/* The depot of a stream: full and empty magazines, for any thread. A shelf
 * mostly lies in one cache line. */
struct depot {
	struct lock lock; /* over all that follows */
	size_t bytes;
	struct sums in;           /* frees that are not reported yet */
	const struct cache *user; /* the latest; it may be gone */
	bool shared; /* several have used it since the last inspection */
	struct shelf {
		struct magazine *full;
		struct magazine *empty;
		unsigned count; /* full magazines */
		unsigned idle;  /* the least count since the last inspection */
	} shelves[TCACHE_CLASSES + 1]; /* by class */
};

/* Make a depot. NULL: no host memory. */
struct depot *depot_new(void);

/* Free a depot that has no full magazine; NULL does nothing. */
void depot_delete(struct depot *depot);

/* Who brought the magazine that a cache gets: there is none; the cache itself,
 * as far as is known; or perhaps another cache. */
enum depot_taken { DEPOT_NONE, DEPOT_OWN, DEPOT_SHARED };

/*
 * Exchange the empty first magazine of a bin for a full one of its class.
 *
 * @param in if there is one, set to the frees that the magazine brought, which
 * the depot no longer counts
 */
enum depot_taken depot_take(struct depot *depot, const struct cache *user,
    struct bin *bin, size_t n, struct sums *in);

/*
 * Exchange the full first magazine of a bin for an empty one. The depot counts
 * the frees in its ->in, and any thread may then get the magazine. False: the
 * magazine stays in the bin, because the depot would hold more than `max` bytes
 * or there is no host memory.
 */
bool depot_put(
    struct depot *depot, const struct cache *user, struct bin *bin, size_t max);

/* The magazines to remove from a depot: as many as stayed there since the last
 * such call, or all. */
enum drain { DRAIN_IDLE, DRAIN_ALL };

/* Remove full magazines, until those with *most blocks or more are removed,
 * which *most is lowered by. They are linked by ->next and belong to the
 * caller. */
struct magazine *depot_take_many(
    struct depot *depot, enum drain which, size_t *most);

/* Take the frees that magazines have brought; the caller adds them to the
 * statistics. */
static inline struct sums
depot_take_unreported(struct depot *depot)
{
	lock_enter(&depot->lock);
	struct sums in = depot->in;
	depot->in = (struct sums){ 0 };
	lock_leave(&depot->lock);
	return in;
}

/* Has no cache but `user` used the depot since the last call with `look`? NULL:
 * the caller has none. */
bool depot_is_own(struct depot *depot, const struct cache *user, bool look);

#endif
