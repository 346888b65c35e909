/*
 * The structures of the allocator, on one page.
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
 *      '---- LEFT <-------'  its memory has been mapped elsewhere
 *
 * An UNMAPPED block is in pool->unmapped of the pools of no stream. A FREE one
 * is in a run, whose first block of its pool is in pool->free. An ACTIVE one
 * with its caller, a PENDING one in arena->waiting, and so is a LEFT one until
 * its old work is done, then in arena->left. While the driver is called without
 * the lock, blocks that are to be mapped are MAPPING, blocks whose memory is to
 * go are LEAVING; these are nowhere. A GUARD block is a zone of an ACTIVE
 * neighbour (guard.h), held and nowhere. A CACHED block is free memory that a
 * thread keeps (tcache.h). The state of a block passes between ACTIVE and
 * CACHED without the lock; all other changes are made with it. Blocks may pass
 * from one stream's pools to another's; neighbours of two pools are never
 * merged, and of a stream's pool only those that one event covers: block.c,
 * Note [Fences]. The pools of WEIR_STREAM_ANY are everyone's: what is in them
 * is complete on every stream.
 *
 * Starts and sizes are multiples of WEIR_GRANULE, in a pool of the kind
 * POOL_FINE of the arena's granule.
 *
 * Every field that is not marked constant is under arena->lock, and every
 * function below is called with it held unless its comment says otherwise.
 */
#ifndef ALLOCATOR_MEMORY_TYPES_H
#define ALLOCATOR_MEMORY_TYPES_H

#include <stdatomic.h>

#include "allocator/cache/depot.h"
#include "allocator/memory/lookup.h"
#include "allocator/memory/sizes.h"
#include "allocator/options.h"
#include "base/list.h"
#include "base/lock.h"
#include "base/tree.h"
#include "streams/use.h"
#include "trace/history.h"

/* Part of the shortest way wherever it is used. */
#define QUICK __attribute__((always_inline))

enum block_state {
	BLOCK_UNMAPPED,
	BLOCK_FREE,
	BLOCK_ACTIVE,
	BLOCK_PENDING,
	BLOCK_CACHED,
	BLOCK_LEFT,
	BLOCK_MAPPING,
	BLOCK_LEAVING,
	BLOCK_GUARD /* a zone of its neighbour: guard.h */
};

/* Does an ACTIVE block lie between zones? */
enum block_guard {
	GUARD_NONE,
	GUARD_CUT, /* that are not to be looked at */
	GUARD_FILLED
};

/* What a free and the malloc after it look at lies in the first 64 bytes, one
 * line of a processor's cache: block_new(). */
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
	uint64_t fence; /* FREE: events recorded on its stream before that */
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
	unsigned busy;       /* blocks LEFT, MAPPING and LEAVING */
	unsigned pins;       /* that lie in it */
	struct tree handles; /* by address; expandable only */
	uint32_t stack;      /* where it was made, of the history's */
};

struct pool {
	struct pools *owner;  /* constant */
	enum pool_kind kind;  /* constant */
	struct tree free;     /* runs, by size, then address: best fit */
	struct tree unmapped; /* by address; of no stream */
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
		struct sums up; /* allocated */
		int64_t peak[TALLIED];
		int64_t began[TALLIED]; /* current, when `up` was 0 */
	} part[PARTS];
};

/* A mark on a stream: Note [Marks]. */
enum { MARKS = 8 };
struct mark {
	CUevent event;
	uint64_t at; /* the tick */
};

struct pools {
	struct arena *arena;   /* constant */
	struct stream *stream; /* constant; a reference */

	struct list link; /* in arena->pools */
	struct pool pool[POOL_KINDS];
	size_t blocks;   /* that belong to it, in any state */
	unsigned pins;   /* threads that use it with the lock left in between */
	unsigned caches; /* of threads, for it */
	unsigned index;  /* where threads look for theirs; constant */
	struct depot *depot; /* NULL before it is needed */

	/* All work queued before this tick is done. */
	uint64_t passed_at;
	uint64_t freed_at; /* the tick of the latest free */
	struct list freed; /* FREE blocks, the earliest freed first; not of
			    * the pools of no stream */
	/* Marks that have not passed yet, the oldest first. */
	struct mark marks[MARKS];
	unsigned mark_count;
	size_t freed_bytes; /* since the latest mark */
	/* What was freed here until this tick may be used, without a wait, by
	 * the request that is served right now. */
	uint64_t usable_until;
	bool ordered;     /* what the stream is behind may be relied on */
	uint64_t capture; /* in this capture only; 0: in none. The two are of
			   * the request that is served right now */
	/* The capture its stream was last seen in, and the tick of the latest
	 * free before that: Note [Memory in a capture]. */
	uint64_t seen_in;
	uint64_t freed_before;
	uint64_t tried; /* the last arena->tries in which it was waited for */
	uint64_t followed; /* and in which all was done to be behind it */
	/* Recorded when the stream ended; NULL where that could not be, or it
	 * has passed. */
	CUevent end_event;
	bool ended;  /* the stream is gone: see Note [A stream ends] */
	bool passed; /* ended, and all its work is done */

	struct tally tally;
	struct weir_stats stats; /* but those */
};

/* What decay.c remembers. */
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

/* What an arena is like; bits. */
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

	/* Of the device, in its own arena only. */
	_Atomic(struct arena *) others; /* that were ever made, the latest */
	_Atomic(size_t) limit;          /* bytes; SIZE_MAX: none */
	atomic_uint unowned;            /* of the others: to be emptied */
	/* Under the lock, and that of the totals where there are any. */
	struct history_ring history;
	_Atomic(size_t) host_limit; /* of page-locked host memory */
	struct totals *host_totals; /* NULL before there is any */

	struct arena *next_forgotten; /* under the lock of the list */

	struct lock lock;
	struct pools *any_pools;
	struct list pools; /* of every stream, any_pools too */
	unsigned streams;  /* that have pools */
	bool several; /* there were two, or requests of no stream: what they
		       * have freed is in pools->freed, for others */
	unsigned pools_made;
	struct list segments;
	struct list caches; /* of threads */
	struct waiting waiting;
	struct list left;          /* LEFT blocks that can be unmapped */
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
	uint64_t moves;       /* handles mapped at another place so far */
	size_t most_live; /* bytes that callers had, or asked for, at once */
	unsigned ending;  /* pools that have ended but not passed */
	bool forgotten;   /* its context is gone */
	struct tally tally;
	struct weir_stats stats; /* but those */
	/* Of all arenas of the device; NULL while there is but one. */
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
	atomic_bool suspended; /* or about to be: suspend.h */
	bool uncounted;        /* what it holds is no longer held */
	struct copies *copies; /* of what was in it; NULL: none are kept */
	unsigned kept; /* those who need its memory to stay where it is */
	/* Of these, so many only until all work queued when the last of them
	 * ended is done; of that tells the event, if it could be recorded. */
	unsigned keeps_ending;
	uint64_t keeps_ended; /* how often such have been taken off */
	CUevent keep_event;
};

/* What all arenas of a device come to. Plain counters are those of arenas that
 * are no more; those of the others are added when they are read. */
struct totals {
	struct lock lock; /* LOCK_RANK_TOTALS */
	uint64_t changes;
	struct tally tally;
	struct weir_stats stats; /* but those */
	size_t promised;
};

/* ---- lifecycle.c -------------------------------------------------------- */

/* The arena of a device, made at its first use. Holds no lock. */
enum weir_status arena_get(int device, struct arena **out);

/* The arena of a device, or NULL if it has none yet. One load. */
struct arena *arena_peek(int device);

/* The arena after this one of the same device; NULL at the end. Begin with
 * arena_peek(). Arenas are never freed, so this takes no lock. */
static inline struct arena *
arena_next(const struct arena *arena)
{
	return arena == arena->main ?
	    atomic_load_explicit(&arena->others, memory_order_acquire) :
	    arena->next;
}

/* The pools of a stream, made at its first use. */
enum weir_status pools_get(
    struct arena *arena, struct stream *stream, struct pools **out);

/* The same, or NULL if it has none. */
struct pools *pools_peek(
    const struct arena *arena, const struct stream *stream);

/* Is it one of these? Told from where it lies. */
static inline bool
pools_have(const struct pools *pools, const struct pool *pool)
{
	return (uintptr_t)pool - (uintptr_t)pools->pool < sizeof(pools->pool);
}

static inline unsigned
arena_flags(const struct arena *arena)
{
	return atomic_load_explicit(&arena->flags, memory_order_relaxed);
}

static inline bool
arena_is_host(const struct arena *arena)
{
	return (arena_flags(arena) & ARENA_HOST) != 0;
}

/* Does it count for the device's totals and limit? */
static inline bool
arena_is_counted(const struct arena *arena)
{
	return (arena_flags(arena) & (ARENA_UNCOUNTED | ARENA_HOST)) == 0;
}

/* The size class of a request in an arena. */
static inline size_t
arena_class(
    const struct arena *arena, const struct options *options, size_t size)
{
	return arena_is_host(arena) ? size_of_granule(arena->granule, size) :
				      size_class(options, size);
}

/* The kind of pool for a size class. */
static inline enum pool_kind
arena_kind(const struct arena *arena, size_t rounded)
{
	return rounded < FINE_END && arena->granule < WEIR_GRANULE ?
	    POOL_FINE :
	    size_kind(rounded);
}

/* The granule of what is in pools of a kind. */
static inline size_t
arena_granule(const struct arena *arena, enum pool_kind kind)
{
	return kind == POOL_FINE ? arena->granule : WEIR_GRANULE;
}

/* Fill a new arena but for its limit and its place in lists; `main` may be it.
 * WEIR_EHOSTMEM, WEIR_EDRIVER. */
enum weir_status arena_set_up(struct arena *arena, struct arena *main);

/*
 * Leave the lock for calls to the driver, and take it again. A job that does so
 * raises arena->jobs before and ends with arena_job_done(), under the lock:
 * segments and blocks outlast it even if the context goes.
 */
void arena_leave_for_driver(struct arena *arena);
void arena_enter_from_driver(struct arena *arena);
void arena_job_done(struct arena *arena);

/* Bytes held, or about to be. */
size_t arena_held(const struct arena *arena);

/* What is held with prefer:memory, for what was ever alive, before everything
 * that is free is moved together: docs/adr/0004. */
enum { MEMORY_SHARE = 12 };
static inline size_t
arena_memory_most(const struct arena *arena)
{
	return arena->most_live + arena->most_live / MEMORY_SHARE;
}

/* What `size` more bytes may be got from the driver: they count as held from
 * now on, until arena_promised() when they are or have not come. WEIR_ENOMEM if
 * they would pass the limit; *need is then what is missing under it. */
enum weir_status arena_promise(struct arena *arena, size_t size, size_t *need);
void arena_promised(struct arena *arena, size_t size);

/* Drop pools that hold no block and that nobody uses. */
void pools_drop(struct pools *pools);
/* The same if they have ended and passed. */
static inline void
pools_drop_if_done(struct pools *pools)
{
	if (__builtin_expect(pools->passed, 0))
		pools_drop(pools);
}

/* ---- arenas.c ----------------------------------------------------------- */

/*
 * An arena of its own on a device, with one owner; empty. Holds no lock.
 *
 * @param source  NULL: the driver, and expandable segments
 * @param flags   of enum arena_flags
 * @return WEIR_EHOSTMEM; any failure of arena_get()
 */
enum weir_status arena_make(int device, const struct source *source,
    unsigned flags, struct arena **out);

/* One owner more of an arena that is not out of use, or less. With no owner
 * left an arena gives back what is free, and at each free more of it, and is of
 * no use to anyone when all is gone. Holds no lock. */
void arena_hold(struct arena *arena);
/* One owner more, of an arena that may have none, but if it is still what it
 * was in that generation; else false. */
bool arena_revive(struct arena *arena, uint64_t generation);
/* Is it that still? */
bool arena_lives(struct arena *arena, uint64_t generation);
size_t arena_drop(struct arena *arena);

/* Its memory must stay where it is, or need not any more. Holds no lock. */
void arena_keep(struct arena *arena);
void arena_unkeep(struct arena *arena);
/* It need not when all work of the device that is queued now is done. */
void arena_unkeep_later(struct arena *arena);
/* Look whether that is so. Under the lock, from reclaim_poll(). */
void arena_poll_keeps(struct arena *arena);
/* Wait for it, with the lock left. */
void arena_wait_keeps(struct arena *arena);

/* Give back what an arena that nobody owns can; the bytes. Takes the lock. */
size_t arena_empty(struct arena *arena);

/* The same for all of a device, given its own arena, or any. Holds no lock. */
size_t arena_empty_all(struct arena *main);
static inline size_t
arena_empty_unowned(struct arena *arena)
{
	struct arena *main = arena->main;

	return atomic_load_explicit(&main->unowned, memory_order_relaxed) > 0 ?
	    arena_empty_all(main) :
	    0;
}

/* Let the other arenas of the device give back at least `want` bytes, first
 * those that nobody waits for; the bytes given back. Holds no lock. */
size_t arena_ask_others(struct arena *arena, size_t want);

/* cuMemAlloc and cuMemFree. */
extern const struct source source_driver;

/* ---- totals.c ----------------------------------------------------------- */

/* Begin to keep totals, or those of page-locked host memory. WEIR_EHOSTMEM.
 * Under the lock of the device's arena. */
enum weir_status totals_begin(struct arena *main);
enum weir_status totals_begin_host(struct arena *main);

/* How often they have changed; 0 if there are none (NULL). */
uint64_t totals_changes(struct totals *totals);

/* Of the device: bytes held or about to be, held, and with callers; what is
 * left of the limit, SIZE_MAX if there is none; and the limit. */
size_t device_held(const struct arena *arena);
size_t device_reserved(const struct arena *arena);
size_t device_live(const struct arena *arena);
size_t device_room(const struct arena *arena);
/* The limit, but at most what the device has; and what is left of that. */
size_t device_size(const struct arena *arena);
size_t device_left(const struct arena *arena);
size_t device_limit(const struct arena *arena);

/* All statistics of a device, given its own arena, or of its page-locked host
 * memory. Holds no lock. */
void device_stats(struct arena *main, struct weir_stats *out);
void device_host_stats(struct arena *main, struct weir_stats *out);

/* ---- block.c ------------------------------------------------------------ */

/* A block for a start at `addr`, all zero but its arena and addr; later calls
 * on it cannot fail. WEIR_EHOSTMEM. Memory of blocks is reused for blocks
 * only. */
enum weir_status block_new(
    struct arena *arena, CUdeviceptr addr, struct block **out);
void block_delete(struct block *block);

/* See to it that the next block_new(), if it is for `addr`, cannot fail.
 * WEIR_EHOSTMEM. */
enum weir_status block_prepare(struct arena *arena, CUdeviceptr addr);

/*
 * Cut `size` bytes off the front of a block that is in no tree: it keeps the
 * front, `rest` (from block_new() for its address) becomes the part behind,
 * equal in state, pool and segment. Neither is put in a tree.
 */
void block_split(struct block *block, size_t size, struct block *rest);

/*
 * Put a block that is in no tree into its pool as FREE or UNMAPPED, merged
 * with neighbours of the same state and pool, which must be in their trees.
 * Returns the merged block.
 */
struct block *block_put(struct block *block, enum block_state state);

/* Take a FREE or UNMAPPED block out of its pool's tree. */
void block_take(struct block *block);

/* Take a FREE block as ACTIVE; or `size` bytes of it, and the rest stays in the
 * pool: WEIR_EHOSTMEM, and nothing has changed. */
void block_hand_out(struct block *block);
enum weir_status block_hand_out_front(struct block *block, size_t size);

/* Put a block that was MAPPING, LEAVING or LEFT into the pool it belongs in by
 * now, and count the memory it has got or lost. */
void block_settle(struct block *block, enum block_state state);

/* A LEAVING block's memory has gone elsewhere. */
void block_set_left(struct block *block);

static inline enum block_state
block_state(const struct block *block)
{
	return atomic_load_explicit(&block->state, memory_order_relaxed);
}

static inline void
block_set_state(struct block *block, enum block_state state)
{
	atomic_store_explicit(&block->state, state, memory_order_relaxed);
}

/* Does it count as held? It has memory, and is in the table of addresses. */
static inline bool
block_state_is_held(enum block_state state)
{
	return state == BLOCK_FREE || state == BLOCK_ACTIVE ||
	    state == BLOCK_PENDING || state == BLOCK_CACHED ||
	    state == BLOCK_LEAVING || state == BLOCK_GUARD;
}

static inline bool
block_is_held(const struct block *block)
{
	return block_state_is_held(block_state(block));
}

/* Whoever frees a block looks at it with no lock, and so at nothing that is
 * behind its pool: another thread may just have freed it as well. */
static inline void
block_set_pool(struct block *block, struct pool *pool)
{
	block->pool = pool;
	block->way = (uint8_t)pool->owner->index;
}

/* Change the pool of a block that is in no tree; statistics by stream move. */
void block_move_to(struct block *block, struct pool *pool);
static inline void
block_move(struct block *block, struct pool *pool)
{
	if (block->pool != pool)
		block_move_to(block, pool);
}

/* Join neighbours of one state, FREE or UNMAPPED, and of any pools, into one
 * block of the first one's pool that is in no tree. */
struct block *block_join(struct block *first, const struct block *last);

/* Neighbouring FREE blocks of any pools, from `first` to `last`. */
struct span {
	struct block *first;
	struct block *last;
};

/* Join a span that `pools` may use into one block of theirs that is FREE and in
 * no tree. From now on it is their stream's order that protects it. */
struct block *block_adopt(const struct span *span, struct pools *pools);

/* The pool a block's memory goes to when it is free. */
static inline struct pool *
block_home(const struct block *block)
{
	if (__builtin_expect(block->pool->owner->passed, 0))
		return &block->arena->any_pools->pool[block->pool->kind];
	return block->pool;
}

/* A block that is in no run. */
#define RUN_NONE SIZE_MAX

/* Is it FREE, and in its pool? */
static inline bool
block_is_in_run(const struct block *block)
{
	return block != NULL && block_state(block) == BLOCK_FREE &&
	    block->run != RUN_NONE;
}

/* Is it complete on every stream? */
static inline bool
block_is_complete(const struct block *block)
{
	return block->pool->owner == block->arena->any_pools;
}

/* All of the run that a block of a tree stands for. */
struct span block_run(struct block *head);

/* Fence a block that has been freed, or moved, at block->freed_at. */
static inline void
block_set_fence(struct block *block)
{
	block->fence = atomic_load_explicit(
	    &block->pool->owner->stream->records, memory_order_relaxed);
}

int compare_run_address(const struct tree_node *a, const struct tree_node *b);
int compare_address(const struct tree_node *a, const struct tree_node *b);

static inline struct block *
block_of_node(struct tree_node *node)
{
	return CONTAINER_OF(node, struct block, node);
}

static inline struct block *
block_of_pending(struct list *link)
{
	return CONTAINER_OF(link, struct block, pending.link);
}

/* ---- pool.c ------------------------------------------------------------- */

/*
 * The block that stands for the best run of a pool for a size class, or NULL.
 *
 * @param plain  only blocks of driver segments will do
 */
struct block *pool_find(struct pool *pool, const struct options *options,
    size_t rounded, bool plain);

/* Take the front of a run that was found as one ACTIVE block, cut to size; what
 * is left stays free. WEIR_EHOSTMEM, and nothing has changed. */
enum weir_status pool_cut(
    struct block **block, const struct options *options, size_t rounded);
/* The same of FREE neighbours of any pools that a pool's stream may use. */
enum weir_status pool_cut_span(struct span span, struct pool *pool,
    const struct options *options, size_t rounded, struct block **out);

/* Bytes of the largest block in a pool; 0 if it is empty. */
size_t pool_largest(const struct pool *pool);

/* ---- segment.c ---------------------------------------------------------- */

/* What memory may be mapped. */
enum grow_how {
	GROW_MOVED, /* only what is free elsewhere and may be used already */
	GROW_AHEAD, /* that, and new memory, with some for the next requests */
	GROW_NEW,   /* only new memory, with some for the next requests */
	GROW_EXACT, /* whatever there is, and not a byte too much */
};

/*
 * Get memory into a pool so that a block of `rounded` bytes fits. Leaves the
 * lock in between, so another thread may be faster to take it.
 *
 * @param need  on WEIR_ENOMEM: bytes that are missing under the limit or in
 *              the device
 * @return WEIR_ENOMEM; WEIR_EHOSTMEM; WEIR_EDRIVER. Nothing has changed then.
 */
enum weir_status segment_grow(struct pool *pool, const struct options *options,
    size_t rounded, enum grow_how how, size_t *need);

/*
 * Give memory of a span back to the driver: at least `want` bytes if it has as
 * many to give. The caller has seen to it that all work on it is done. Its
 * blocks may be gone, joined or cut afterwards. Leaves the lock in between.
 *
 * @return bytes given back; 0 also if the driver refuses
 */
size_t segment_release(const struct span *span, size_t want);

/* Unmap at most `max` blocks of arena->left. Leaves the lock in between. */
void segment_unmap_left(struct arena *arena, size_t max);

/* Give back the addresses of segments that have nothing mapped. */
void segment_unreserve(struct arena *arena);

/* Bytes of the driver segment that would be made for a size class. */
size_t segment_size_for(
    const struct arena *arena, const struct options *options, size_t rounded);

/* Bytes of whole handles (or of a whole driver segment) in a span. */
size_t segment_releasable(const struct span *span);

/* ---- fence.c ------------------------------------------------------------ */

/* How many streams one request asks about. */
enum { MARKS_ASKED = 64 };

/* A stream that allocates is marked each time so much has been freed on it. */
enum { MARKS_LEAST = 4 << 20 };

/* Mark the stream of a request now and then, so that others can tell what of
 * its memory is done with. */
void marks_keep_due(struct pools *mine);
static inline void
marks_keep(struct pools *mine)
{
	if (mine->freed_bytes >= MARKS_LEAST && mine->arena->streams > 1)
		marks_keep_due(mine);
}

/* See how far the streams have come, and mark those that are not done for the
 * next time. */
void marks_poll(struct pools *mine);

/* Ask a stream whether it has nothing left to do, and remember it. */
bool marks_ask(struct pools *pools);

/* Find out, in pools->usable_until of all pools, what a request of `mine` may
 * use without a wait. Again after the lock was left. */
void marks_find_usable(const struct pools *mine);

/* Is it free, and may the request that is served right now use it? */
static inline bool
block_is_usable(const struct block *block)
{
	return block != NULL && block_state(block) == BLOCK_FREE &&
	    block->freed_at <= block->pool->owner->usable_until;
}

/* Which marks of other streams, and uses of pending blocks, are waited for,
 * beside those that cost nothing: ladder.c, Note [Wait or grow]. All zero: any,
 * and new ones are made. */
struct patience {
	unsigned age;  /* marks with at least so many younger ones */
	bool half_way; /* marks the stream has come half the way to */
	unsigned uses; /* uses with at least so many younger ones, */
	unsigned near; /* and, if the stream has nothing to do, not further away
			* than so many ticks */
};

/* May a request rely on what its stream is behind, and can it be put behind
 * more? Kept in mine->ordered; mine->capture says in which capture. */
bool marks_can_wait(struct pools *mine);

/* Where the stream is: for a free, and a request in a capture. */
struct position marks_position_captured(struct pools *pools);
static inline struct position
marks_position(struct pools *pools)
{
	if (pools->arena->waiting.in_captures)
		return marks_position_captured(pools);
	return (struct position){ .tick = order_tick() };
}

static inline bool
patience_is_any(struct patience patience)
{
	return patience.age == 0 && !patience.half_way;
}

/* Ticks of another's work that a stream with nothing to do may wait for. */
enum { NEAR = 64 };

/* What a wait for a tick of another stream delays: Note [What a wait costs]. To
 * a stream with nothing to do, what is more than `near` ticks away is far. */
enum wait_cost { WAIT_FREE, WAIT_DEAR, WAIT_FAR };
enum wait_cost marks_cost(const struct pools *mine, const struct stream *other,
    uint64_t tick, unsigned near);

/* Put `mine` behind what `other` freed until a tick, by a wait on the device
 * if that is not known. */
bool marks_follow(struct pools *mine, struct pools *other, uint64_t tick,
    struct patience patience);

/* The best block for a request of `mine` that the earliest mark of `other` lets
 * go that is waited for; NULL: none does. Wait by marks_follow(). */
struct block *marks_find(const struct pools *mine, struct pools *other,
    size_t rounded, struct patience patience);

/* Put `mine` behind the next mark of `other`; false if nothing comes of it. */
bool marks_follow_next(
    struct pools *mine, struct pools *other, struct patience patience);

/* Drop the marks of pools; of those whose context is gone. */
void marks_drop(struct pools *pools);
void marks_forget(struct pools *pools);

/* ---- reclaim.c ---------------------------------------------------------- */

/* How many late marks of a stream a search for memory looks past. */
enum { RECLAIM_SKIPS = 64 };

/* Free the pending blocks whose uses have ended and take over from streams
 * that have; true if any memory became free. `skips` as for waiting_poll(). */
bool reclaim_poll(struct arena *arena, unsigned skips);
/* The same, but memory of no stream may be kept for requests of its size:
 * tcache.h, Note [Complete memory]. */
void reclaim_poll_complete(struct arena *arena);

/* See to a few of the streams that pending blocks wait for; as the second. */
void reclaim_glance(struct arena *arena);

/* A pending block whose uses are gone becomes free, of another pool. */
void reclaim_pending_to(struct block *block, struct pool *pool);

/* What streams have freed and are done with becomes memory of no stream. Not in
 * other arenas: their requests are to get the same addresses when they are
 * restored. */
static inline bool
arena_promotes(const struct arena *arena)
{
	return arena == arena->main && arena->kept == 0;
}
/* From now on others than one stream may have use for it. */
void reclaim_begin_several(struct arena *arena);
void reclaim_promote(struct arena *arena);

/* See which streams are idle, where that takes no wait. */
void reclaim_refresh(struct arena *arena);
/* The same, and free what can be; before and after a capture. Takes the lock.
 */
void reclaim_look(struct arena *arena);

/* Give back what the collector finds old. */
void reclaim_collect(struct arena *arena, const struct options *options);

/* Host memory: before more is taken for a request, give back what is held
 * beyond an eighth more than the most that was ever asked for at once. */
void reclaim_bound(
    struct arena *arena, const struct options *options, size_t rounded);

/* Host memory: give back what is unused beyond the cap. */
void reclaim_tidy(struct arena *arena, const struct options *options);

/* Give back at least `want` bytes of what no work uses, the longest unused
 * first; returns the bytes given back. */
size_t reclaim_shed(struct arena *arena, size_t want);

/* Give back all that no work uses and that was freed no later than a tick;
 * returns the bytes given back. */
size_t reclaim_shed_old(struct arena *arena, uint64_t latest);

/* Wait on the host, with the lock left, for the oldest pending block or for the
 * stream that holds back most; false if there is nothing to wait for. */
bool reclaim_wait(struct arena *arena);

/* weir_trim() of one arena: all but *keep bytes of what is unused, which falls
 * by what has stayed. Takes the lock. Returns the bytes given back. */
size_t reclaim_trim(struct arena *arena, size_t *keep);

/* The stream of these pools is about to go: Note [A stream ends]. */
void reclaim_end(struct pools *pools);
/* The same without a call to the driver: a later poll records the end. */
void reclaim_end_later(struct pools *pools);

/* A block becomes free: into the pool it belongs in by now. */
void reclaim_put(struct block *block);

/* The same for one that was freed before, at block->freed_at. */
void reclaim_put_since(struct block *block);

/* ---- decay.c ------------------------------------------------------------ */

enum { DECAY_REQUESTS = 64 };

/* Give back what has not been used for long: Note [Decay]. May leave and retake
 * the lock. */
void decay_run(struct arena *arena, const struct options *options);
/* The same, now and then. */
static inline void
decay_look(struct arena *arena, const struct options *options)
{
	if (arena->served % DECAY_REQUESTS == 0 || arena_is_host(arena))
		decay_run(arena, options);
}

/* New memory is needed. */
void decay_regret(struct arena *arena);

/* ---- pin.c -------------------------------------------------------------- */

/* Pages that weir_pin() keeps where they are: those that lie, in part or whole,
 * under [addr, addr + size) of one segment. */
struct pin {
	struct tree_node node; /* in arena->pins */
	CUdeviceptr addr;
	size_t size;
	struct segment *segment;
	unsigned times; /* weir_unpin() calls that are to come */
};

int compare_pins(const struct tree_node *a, const struct tree_node *b);

/* Forget all pins: the memory they are of is gone. */
void pins_forget(struct arena *arena);

/* ---- ladder.c ----------------------------------------------------------- */

/* A block for a request, by every means there is: Note [Reclaim ladder].
 * WEIR_ENOMEM, WEIR_EHOSTMEM, WEIR_EDRIVER. May leave and retake the lock. */
enum weir_status take_block(struct pools *pools, const struct options *options,
    size_t size, struct block **out);

/* The same, of what may be used at once. WEIR_ENOMEM is not told. */
enum weir_status take_idle(struct pools *pools, const struct options *options,
    size_t size, struct block **out);

/* ---- malloc.c ----------------------------------------------------------- */

/* Count a block that has just been handed out; end the life of one, as by
 * weir_free(). */
void malloc_count(const struct options *options, struct block *block);
void malloc_release(struct block *block);

/* ---- stream_end.c ------------------------------------------------------- */

/* Have the per-thread default streams of ending threads ended. */
void stream_end_watch_threads(void);

/* ---- counters.c --------------------------------------------------------- */

/* The statistics of struct weir_stats that are a struct weir_stat3. */
enum stat3 {
#define STAT3_ENUM(name) STAT3_##name,
	WEIR_STAT3S(STAT3_ENUM)
#undef STAT3_ENUM
	    STAT3S
};

/* The statistics that are a struct weir_stat3 lie one behind the other. */
static inline struct weir_stat3 *
stats_at(struct weir_stats *stats, enum stat3 which)
{
	return &(&stats->allocation)[which];
}

/*
 * Threads tell what they have counted one after the other, so a free may be
 * told before its malloc: until all have told, what is current may be below 0.
 */
static inline uint64_t
tally_now(const struct tally *tally, enum stat_part part, enum tallied which)
{
	const struct tally_part *p = &tally->part[part];
	int64_t now = p->peak[which] - p->room[which];

	return now > 0 ? (uint64_t)now : 0;
}

static inline enum stat_part
part_of(enum pool_kind kind)
{
	return kind == POOL_LARGE ? PART_LARGE : PART_SMALL;
}

/* All statistics. */
struct weir_stats stats_all(
    const struct weir_stats *stats, const struct tally *tally);

static inline void
stats_note_peak(struct weir_stat *stat)
{
	if ((int64_t)stat->current > (int64_t)stat->peak)
		stat->peak = stat->current;
}

static inline void
stats_add(struct weir_stat *stat, uint64_t n)
{
	stat->current += n;
	stat->allocated += n;
	stats_note_peak(stat);
}

static inline void
stats_sub(struct weir_stat *stat, uint64_t n)
{
	stat->current -= n;
	stat->freed += n;
}

/* The part of a statistic that is of a kind of pools: they lie so too, and of
 * the kinds only the large one is odd. */
static inline struct weir_stat *
stats_part(struct weir_stat3 *stat, enum pool_kind kind)
{
	return &(&stat->small_pool)[kind % 2];
}

static inline void
stats_change3(struct weir_stat3 *stat, enum pool_kind kind, int64_t delta)
{
	struct weir_stat *part = stats_part(stat, kind);

	if (delta >= 0) {
		stats_add(&stat->all, (uint64_t)delta);
		stats_add(part, (uint64_t)delta);
	} else {
		stats_sub(&stat->all, (uint64_t)-delta);
		stats_sub(part, (uint64_t)-delta);
	}
}

/* Change a statistic of a stream only: memory has moved between streams. Here
 * and below: one that is not tallied. */
static inline void
stats_change_stream(struct pool *pool, enum stat3 which, int64_t delta)
{
	stats_change3(stats_at(&pool->owner->stats, which), pool->kind, delta);
}

void totals_change(struct totals *totals, enum pool_kind kind, enum stat3 which,
    int64_t delta);

/* The same for the arena only, and its device. */
static inline void
stats_change_arena(
    struct arena *arena, enum pool_kind kind, enum stat3 which, int64_t delta)
{
	stats_change3(stats_at(&arena->stats, which), kind, delta);
	if (arena->totals != NULL)
		totals_change(arena->totals, kind, which, delta);
}

/* Change a statistic of a pool's stream and of its arena. */
static inline void
stats_change(struct pool *pool, enum stat3 which, int64_t delta)
{
	stats_change_arena(pool->owner->arena, pool->kind, which, delta);
	stats_change_stream(pool, which, delta);
}

/* A block has been handed out; has been freed; or first that, while it waits,
 * and then the rest. */
void stats_malloc(struct pool *pool, uint64_t size, uint64_t requested);
void stats_free(struct pool *pool, uint64_t size, uint64_t requested);
void stats_free_pending(struct pool *pool, uint64_t size);
void stats_inactive(struct pool *pool, uint64_t size, uint64_t requested);

/* Much at once. Peaks are not looked at: what has been counted in several
 * places is told one after the other, and only the sum has been. */
void stats_flow(
    struct pool *pool, const struct sums *out, const struct sums *in);
void stats_note_peaks(struct tally *tally);
/* Of an arena, and its device. */
void stats_note_arena_peaks(struct arena *arena);

/* All that is counted for a live block goes over to another stream. */
void stats_move(
    struct pool *from, struct pool *to, uint64_t size, uint64_t requested);

/* Statistics of an arena and its device that are one struct weir_stat. */
enum stat1 { STAT1_oversize_allocations, STAT1_oversize_segments };
void stats_change1(struct arena *arena, enum stat1 which, int delta);

/* Add plain counters, or make them 0. */
void stats_add_counters(struct weir_stats *to, const struct weir_stats *from);
void stats_zero_counters(struct weir_stats *stats);

/* Add what is current. */
void stats_add_current(struct weir_stats *to, const struct weir_stats *from);

/* weir_stats() of one arena. Takes the lock. */
enum weir_status arena_stats(struct arena *arena, struct weir_stats *out);

/* Bytes of pending blocks, of a stream's or of all. */
size_t stats_pending_bytes(struct arena *arena, const struct stream *stream);

/* A block's share of inactive_split: it is free, but part of its segment of
 * the driver is in use. */
static inline bool
stats_is_inactive_split(const struct block *block)
{
	return !block->segment->expandable &&
	    block_state(block) == BLOCK_FREE &&
	    (block->prev != NULL || block->next != NULL);
}

/* ---- check.c ------------------------------------------------------------ */

/* Where weir_check() tells its faults. */
struct check {
	char *text;
	size_t size;
	size_t used;
	size_t faults;
};

void arena_check(struct arena *arena, struct check *check);

/* One more fault. */
void check_fault(struct check *check, const char *text);

/* Totals (or NULL) against the sums over their arenas, unless they have
 * changed since they were at `changes`. Takes their lock. */
void totals_check(struct totals *totals, uint64_t changes,
    const struct weir_stats *sums, struct check *check);

/* ---- oom.c -------------------------------------------------------------- */

/* Set the report of a request that found no memory as the last error, then
 * call the observers. Holds no lock. Returns WEIR_ENOMEM. */
enum weir_status oom_report(struct arena *arena, struct stream *stream,
    size_t requested, size_t rounded);

#endif
