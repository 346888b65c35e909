/*
 * The structures of the allocator, on one page. Functions are in the headers
 * of the files that have them: block.h, segment.h, ../fences/fence.h, ...
 *
 *   arena    memory of one device that is apart from all other: the device's
 *            own, and any number of others (docs/adr/0006)
 *   segment  one range of addresses from the driver, tiled by blocks: either
 *            expandable (reserved, and mapped bit by bit by handles) or one
 *            allocation of the driver
 *   block    a cut of a segment; in one state, and of one pool, at a time
 *   pool     the free blocks of one stream and kind (small, large or fine)
 *   run      free neighbours that a stream may use at once: its own, and
 *            those of no stream between and beside them
 *   pools    the pools of one stream, one of each kind, with its statistics
 *
 * A block is
 *
 *   UNMAPPED -- grow --> FREE -- malloc --> ACTIVE -- free --> FREE
 *      ^  ^               |                   |                 ^
 *      |  '--- release ---'                   '---> PENDING ----'
 *      |                  |                    (used on other streams)
 *      '---- VACATED <----'  its memory has been mapped elsewhere
 *
 * An UNMAPPED block is in pool->unmapped of the pools of no stream. A FREE one
 * is in a run, whose first block of its pool is in pool->free. An ACTIVE one
 * with its caller, a PENDING one in arena->waiting, and so is a VACATED one
 * until its old work is done, then in arena->vacated. While the driver is
 * called without the lock, blocks that are to be mapped are MAPPING, blocks
 * whose memory is to go are UNMAPPING; these are nowhere. A GUARD block is a
 * zone of an ACTIVE neighbour (guard.h), held and nowhere. A CACHED block is
 * free memory that a thread keeps (tcache.h). The state of a block passes
 * between ACTIVE and CACHED without the lock; all other changes are made with
 * it. Blocks may pass from one stream's pools to another's; neighbours of two
 * pools are never merged, and of a stream's pool only those that one event
 * covers: block.c, Note [Free ticks]. The pools of WEIR_STREAM_ANY are
 * everyone's: what is in them is complete on every stream.
 *
 * Starts and sizes are multiples of WEIR_GRANULE, in a pool of the kind
 * POOL_FINE of the arena's granule.
 *
 * Every field that is not marked constant is under arena->lock, and every
 * function of the allocator is called with it held unless its comment says
 * otherwise.
 */
#ifndef ALLOCATOR_MEMORY_TYPES_H
#define ALLOCATOR_MEMORY_TYPES_H

#include <stdatomic.h>

#include "allocator/cache/depot.h"
#include "allocator/memory/lookup.h"
#include "allocator/memory/sizes.h"
#include "allocator/policy/policy.h"
#include "base/list.h"
#include "base/lock.h"
#include "base/tree.h"
#include "streams/use.h"
#include "trace/history.h"

/* Part of the shortest way wherever it is used. */
#define QUICK __attribute__((always_inline))

enum block_state {
	BLOCK_UNMAPPED,
	BLOCK_VACATED,
	BLOCK_MAPPING,
	/* These are held: they have memory, and are in the table of addresses.
	 */
	BLOCK_FREE,
	BLOCK_ACTIVE,
	BLOCK_PENDING,
	BLOCK_CACHED,
	BLOCK_UNMAPPING,
	BLOCK_GUARD /* a zone of its neighbour: guard.h */
};

/* Does an ACTIVE block lie between zones? */
enum block_guard {
	GUARD_NONE,
	GUARD_CUT, /* that are not to be looked at */
	GUARD_FILLED
};

/* The fields that a free and the malloc after it read lie in the first 64
 * bytes, one line of a processor's cache: block_new(). */
struct block {
	struct arena *arena; /* constant, for ever: see block_new() */

	CUdeviceptr addr;
	size_t size;
	size_t requested; /* bytes asked for; ACTIVE and PENDING */
	struct pool *pool;
	struct segment *segment;
	_Atomic(enum block_state) state;
	bool oversize;          /* counted as such; ACTIVE */
	uint8_t way;            /* the low bits of pool->owner->index */
	uint8_t guarded;        /* enum block_guard; ACTIVE */
	struct pending pending; /* uses, and the wait for them */
	struct block *prev;     /* neighbours by address in the segment */
	struct block *next;
	struct tree_node node; /* in pool->free or pool->unmapped */
	uint64_t freed_at;     /* FREE: the tick of the latest free in it */
	uint64_t epoch; /* FREE: events recorded on its stream before that */
	/* FREE: bytes of the run, in the first of its pool there; 0 in the
	 * others, RUN_NONE in a block that is in no run. */
	size_t run;
	uint32_t stack;  /* where it was allocated, of the history's */
	uint32_t serial; /* no other guarded block has it */
};

struct segment {
	/* Constant. */
	struct arena *arena;
	CUdeviceptr addr;
	size_t size;
	weir_stream stream; /* it was made for; its blocks may be others' */
	enum pool_kind kind;
	bool expandable;
	bool oversize; /* counted as such: options may change */
	bool shared;   /* host memory that is cut */
	bool alone;    /* in its words of the table: lookup_is_alone() */

	struct list link; /* in arena->segments */
	struct block *first;
	size_t mapped_bytes;
	unsigned busy;       /* blocks VACATED, MAPPING and UNMAPPING */
	unsigned pins;       /* that lie in it */
	struct tree handles; /* by address; expandable only */
	uint32_t stack;      /* where it was made, of the history's */
};

struct pool {
	struct stream_heap *owner; /* constant */
	enum pool_kind kind;       /* constant */
	struct tree free;          /* runs, by size, then address: best fit */
	struct tree unmapped;      /* by address; of no stream */
};

/*
 * The statistics that each malloc and free changes (of struct weir_stats those
 * that TALLIED_STATS() names, which are not kept there), in as few places as
 * they can be told from: stats_all(). What is current is the peak less the
 * room below it, so that a free changes the room only, and a malloc sees by its
 * sign whether it has passed the peak.
 */
#define TALLIED_STATS(X)                                                       \
	X(allocation, count)                                                   \
	X(allocated_bytes, bytes)                                              \
	X(active, count)                                                       \
	X(active_bytes, bytes)                                                 \
	X(requested_bytes, requested)
enum tallied {
#define TALLIED_ENUM(name, sum) TALLIED_##name,
	TALLIED_STATS(TALLIED_ENUM)
#undef TALLIED_ENUM
	    TALLIED
};
enum stat_part { PART_ALL, PART_SMALL, PART_LARGE, PARTS };
struct tally {
	struct tally_part {
		int64_t room[TALLIED];
		/* Allocated; not of PART_ALL, which has the sum. */
		struct sums up;
		int64_t peak[TALLIED];
		int64_t began[TALLIED]; /* current, when `up` was 0 */
	} part[PARTS];
};

/* A fence on a stream: Note [Fences]. */
enum { FENCES = 64 };
struct fence {
	CUevent event;
	uint64_t at; /* the tick */
	uint64_t ns; /* and the time: driver_time_ns() */
};

struct stream_heap {
	struct arena *arena;   /* constant */
	struct stream *stream; /* constant; a reference */

	struct list link; /* in arena->pools */
	/* NULL before a magazine comes to it, with no lock. Here, so that who
	 * looks at those of all streams reads one line of each. */
	_Atomic(struct depot *) depot;
	struct pool pool[POOL_KINDS];
	size_t blocks;   /* that belong to it, in any state */
	unsigned pins;   /* threads that use it with the lock left in between */
	unsigned caches; /* of threads, for it */
	uint64_t index;  /* later ones have a larger one; constant */

	/* All work queued before this tick is done. */
	uint64_t completed_at;
	uint64_t freed_at;  /* the tick of the latest free */
	uint64_t pended_at; /* and of the latest that left a PENDING block */
	struct list freed;  /* FREE blocks, the earliest freed first; not of
			     * the pools of no stream */
	struct tree_node free_node; /* in arena->having_freed */
	bool in_having_freed;
	/* Fences that have not passed yet, the oldest first. */
	struct fence fences[FENCES];
	unsigned fence_count;
	size_t freed_bytes; /* since the latest fence */
	/* The capture its stream was last seen in, and the tick of the latest
	 * free before that: Note [Memory in a capture]. */
	uint64_t seen_in;
	uint64_t freed_before;
	uint64_t tried; /* the last arena->tries in which it was waited for */
	/* Recorded when the stream ended; NULL where that could not be, or it
	 * has passed. */
	CUevent end_event;
	bool ended;     /* the stream is gone: see Note [A stream ends] */
	bool completed; /* ended, and all its work is done */
	struct list ended_link; /* in arena->ended */

	struct tally tally;
	struct weir_stats stats; /* but those */
};

/* The state of decay.c. */
enum { DECAY_STEPS = 5 };
struct decay {
	uint64_t at_ns[DECAY_STEPS]; /* when these ticks were taken */
	uint64_t tick[DECAY_STEPS];  /* 0: not yet */
	unsigned next;               /* the place of the next one */
	uint64_t latest_ns;
	size_t bytes;    /* given back since memory was last new */
	unsigned slower; /* the time is doubled so often */
};

enum { DEVICES_MAX = 128 };

/*
 * Where the driver segments of an arena come from. Both are called with no lock
 * held and the arena's context current.
 */
struct source {
	const char *name; /* in errors */
	size_t granule;   /* of what is small; 0: WEIR_GRANULE */
	/* Memory of the device, at a multiple of 512; or an error, told. */
	enum weir_status (*take)(
	    void *closure, int device, size_t size, CUdeviceptr *out);
	/* False: it cannot be given back now and stays. */
	bool (*give)(void *closure, int device, CUdeviceptr addr, size_t size);
	/* The context is gone, and what the driver had of it; NULL: nothing is
	 * left to do. */
	void (*forget)(
	    void *closure, int device, CUdeviceptr addr, size_t size);
	void *closure;
};

/* The traits of an arena; bits. */
enum arena_flags {
	ARENA_NO_SPLIT = 1,   /* each block is a driver segment of its own */
	ARENA_UNCOUNTED = 2,  /* neither in the device's totals nor its limit */
	ARENA_SERVES_OOM = 4, /* what is free there serves the last need */
	ARENA_HOST = 8,       /* page-locked host memory: Note [Host memory] */
	ARENA_SEGMENTS = 16,  /* in segments of the driver, never expandable */
};

struct totals;

struct arena {
	/* Constant. */
	int device;
	CUcontext context;  /* the primary one */
	size_t granularity; /* bytes of the smallest mapping */
	size_t total_bytes; /* of the device, or of the host */
	struct stream *any; /* WEIR_STREAM_ANY here; a reference */
	bool can_map;       /* the device has virtual memory management */
	struct arena *main; /* the device's own; this one, if it is that */
	struct arena *next; /* of the others of the device */

	/* About the whole device; set in the device's own arena only. */
	_Atomic(struct arena *) others; /* that were ever made, the latest */
	_Atomic(size_t) limit;          /* bytes; SIZE_MAX: none */
	atomic_uint unowned;            /* of the others: to be emptied */
	/* Under the lock, and that of the totals where there are any. */
	struct history_ring history;
	_Atomic(size_t) host_limit; /* of page-locked host memory */
	struct totals *host_totals; /* NULL before there is any */

	struct arena *next_forgotten; /* under the lock of the list */

	struct lock lock;
	struct stream_heap *any_heap;
	struct list heaps; /* of every stream, any_heap too; by index */
	/* Heaps with blocks in ->freed or with pending ones, and some that
	 * had, the first made first: heap_first_freed(). */
	struct tree having_freed;
	unsigned streams; /* that have pools */
	bool several;     /* there were two, or requests of no stream: what they
			   * have freed is in heap->freed, for others */
	uint64_t heaps_made;
	struct list segments;
	struct list caches; /* of threads */
	unsigned keeping;   /* of these, which keep blocks */
	struct waiting waiting;
	struct list vacated;       /* VACATED blocks that can be unmapped */
	struct handle *unreleased; /* in no segment, through ->next */
	struct tree pins;          /* struct pin, by address */
	struct decay decay;
	struct block *spare;  /* blocks in no segment, through ->next */
	struct nearby starts; /* where the latest was named */
	unsigned jobs;        /* under way with the lock left in between */
	size_t promised;      /* bytes that jobs are getting from the driver */
	size_t shared_bytes;  /* of segments that are host memory that is cut */
	uint64_t tries;       /* requests that came to waiting, so far */
	uint64_t served;      /* requests so far, and what was given ahead */
	uint64_t looked;      /* `served` when all caches were looked at */
	uint64_t polled;   /* `served` when streams were last polled for it */
	uint64_t moves;    /* handles mapped at another place so far */
	uint64_t began_ns; /* when it was made: driver_time_ns() */
	uint64_t late_ns;  /* the most that a stream was seen to be late by */
	struct evidence evidence; /* of what weir's waits cost */
	size_t most_live; /* bytes that callers had, or asked for, at once */
	/* Pools that have ended but not passed, the next to ask first, and how
	 * many. */
	struct list ended;
	unsigned ending;
	bool forgotten; /* its context is gone */
	struct tally tally;
	struct weir_stats stats; /* but those */
	/* Totals of all arenas of the device; NULL while there is but one. */
	struct totals *totals;
	struct trace_pool pool; /* which one it is, in the history */

	/* Note [Other arenas]. */
	struct source source;
	bool own_source; /* not the driver's */
	size_t granule;  /* of what is smaller than FINE_END */
	/* Set under the lock, and looked at without: an arena that has just
	 * been made, or is of use again, has nothing that they could be wrong
	 * of. */
	atomic_uint flags;
	bool in_use;
	uint64_t generation; /* how often it has gone out of use */
	unsigned owners;
	atomic_bool suspended; /* or about to be: graphs/suspend.h */
	bool uncounted;        /* what it holds is no longer held */
	/* Drops that for good if no block of it is live or pending; set while
	 * it is uncounted. May leave and retake the lock, in a job of the
	 * caller's. */
	void (*drop_suspended)(struct arena *arena);
	struct copies *copies; /* of what was in it; NULL: none are kept */
	size_t copies_bytes;   /* of that structure */
	unsigned kept; /* those who need its memory to stay where it is */
	/* How many of `kept` have ended. They count until all work that was
	 * queued when the last of them ended is done: keep_event says so, if it
	 * could be recorded. */
	unsigned keeps_ending;
	uint64_t keeps_ended; /* how often such have been taken off */
	CUevent keep_event;
};

/* The sums over all arenas of a device. Plain counters hold the counts of
 * arenas that are gone; a reader adds those of the arenas that live. */
struct totals {
	struct lock lock; /* LOCK_RANK_TOTALS */
	uint64_t changes;
	struct tally tally;
	struct weir_stats stats; /* but those */
	size_t promised;
};

/* Neighbouring FREE blocks of any pools, from `first` to `last`. */
struct span {
	struct block *first;
	struct block *last;
};

/* How many streams a request keeps the answer for; others are asked again. */
enum { VIEW_KEPT = 16 };

/* What a request knows of the memory it may use: view.h. It lives in one
 * request. What it says stays true, but more may become usable. */
struct view {
	struct stream_heap *mine;
	bool ordered;     /* what the stream is behind may be relied on */
	uint64_t capture; /* in this capture only; 0: in none */
	struct {
		const struct stream_heap
		    *heap; /* NULL: nobody was asked about */
		uint64_t until;
	} kept[VIEW_KEPT]; /* by heap->index */
};

/* The statistics of struct weir_stats that are a struct weir_stat3. */
enum stat3 {
#define STAT3_ENUM(name) STAT3_##name,
	WEIR_STAT3S(STAT3_ENUM)
#undef STAT3_ENUM
	    STAT3S
};

#endif
