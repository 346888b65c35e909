/*
 * The structures of the allocator, on one page. Functions on them are declared
 * in block.h, segment.h, ../fences/fence.h and so on.
 *
 *   arena    memory of one device that is kept apart from all other memory:
 *            the device's own arena, and any number of others (docs/adr/0006)
 *   segment  one range of addresses from the driver, tiled by blocks: either
 *            expandable (reserved, and mapped bit by bit by handles) or one
 *            allocation of the driver
 *   block    a cut of a segment; in one state, and of one pool, at a time
 *   pool     the free blocks of one stream and kind (small, large or fine)
 *   run      neighbouring free blocks that a stream may use at once: its own,
 *            and complete ones between and beside them
 *   stream heap, heap
 *            a stream's pools in an arena, one of each kind, with the stream's
 *            statistics
 *
 * A block is
 *
 *   UNMAPPED -- grow --> FREE -- malloc --> ACTIVE -- free --> FREE
 *      ^  ^               |                   |                 ^
 *      |  '--- release ---'                   '---> PENDING ----'
 *      |                  |                    (used on other streams)
 *      '---- VACATED <----'  its memory has been mapped elsewhere
 *
 * An UNMAPPED block is in pool->unmapped of the heap of WEIR_STREAM_ANY. A FREE
 * block is in a run, whose first block of its pool is in pool->free. An ACTIVE
 * block is with its caller. A PENDING block is in arena->waiting, and so
 * is a VACATED one until the old work on it is done; then it is in
 * arena->memory.vacated. While the driver is called without the lock, blocks
 * that get memory are MAPPING and blocks that lose it are UNMAPPING; these are
 * in no list or tree. A GUARD block is a zone of an ACTIVE neighbour (guard.h);
 * it is held and in no list or tree. A CACHED block is free memory that a
 * thread keeps (tcache.h).
 *
 * The state of a block changes between ACTIVE and CACHED without the lock; all
 * other changes are made under it. A block may move from one stream's heap to
 * another's. Neighbours of two pools are never merged. Neighbours of one
 * stream's pool are merged only if each event covers both frees or neither:
 * block.c, Note [Free ticks]. The heap of WEIR_STREAM_ANY serves all streams:
 * its free blocks are complete on every stream.
 *
 * Starts and sizes are multiples of WEIR_GRANULE; in pools of the kind
 * POOL_FINE, of the arena's granule.
 *
 * arena->lock guards every field that is not marked constant (../state.h).
 */
#ifndef ALLOCATOR_MEMORY_TYPES_H
#define ALLOCATOR_MEMORY_TYPES_H

#include <stdatomic.h>

#include "allocator/account/types.h"
#include "allocator/memory/lookup.h"
#include "allocator/memory/traits.h"
#include "allocator/memory/tuning.h"
#include "allocator/options.h"
#include "allocator/policy/sizes.h"
#include "base/assert.h"
#include "base/list.h"
#include "base/lock.h"
#include "base/tree.h"
#include "streams/use.h"
#include "trace/history.h"

struct stream_heap;

enum block_state {
	BLOCK_UNMAPPED,
	BLOCK_VACATED,
	BLOCK_MAPPING,
	/* From here on held: with memory, and in the address table. */
	BLOCK_FREE,
	BLOCK_ACTIVE,
	BLOCK_PENDING,
	BLOCK_CACHED,
	BLOCK_UNMAPPING,
	BLOCK_GUARD /* a zone of its neighbour: guard.h */
};

/* Does an ACTIVE block lie between guard zones? */
enum block_guard {
	GUARD_NONE,
	GUARD_CUT, /* without the pattern: not to be checked */
	GUARD_FILLED
};

/* The fields that a free and the malloc after it read lie in the first 64
 * bytes, one line of a processor's cache: block_new(). */
struct block {
	struct arena *arena; /* never changes: see block_new() */

	CUdeviceptr addr;
	size_t size;
	size_t requested; /* bytes asked for; ACTIVE and PENDING */
	struct pool *pool;
	struct segment *segment;
	_Atomic(enum block_state) state;
	bool oversize;          /* counted as such; ACTIVE */
	uint8_t way;            /* the low bits of pool->owner->index */
	uint8_t guarded;        /* enum block_guard; ACTIVE */
	struct pending pending; /* its uses, until they are met */
	struct block *prev;     /* neighbours by address in the segment */
	struct block *next;
	struct tree_node node; /* in pool->free or pool->unmapped */
	uint64_t freed_at;     /* FREE: the free tick */
	uint64_t epoch; /* FREE: events recorded on its stream before then */
	/* FREE: bytes of the run, if the block is the first of its pool in the
	 * run; 0 for the others; RUN_NONE for a block in no run. */
	size_t run;
	uint32_t stack;    /* of its allocation, in the history */
	uint32_t serial;   /* unique among guarded blocks */
	struct idle *idle; /* FREE: its place in its heap's index; or NULL */
};

/* A place in the index of idle memory, in each handle and each segment:
 * idle.h, Note [Idle memory]. */
struct idle {
	struct tree_node node; /* in heap->idle, if there is a block */
	struct block *block;   /* NULL: the place is unused */
	uint64_t since;        /* the block's free tick */
	uint64_t place;  /* the handle's address, or the segment's index */
	CUdeviceptr end; /* of the handle; UINT64_MAX for a segment */
};

struct idle_index {
	struct tree tree;   /* by free tick */
	uint64_t since_sum; /* of the free ticks; may wrap around */
};

struct segment {
	/* Constant. */
	struct arena *arena;
	CUdeviceptr addr;
	size_t size;
	weir_stream stream; /* it was made for; blocks may move to others */
	enum pool_kind kind;
	bool expandable;
	bool oversize; /* counted as oversize: options may change */
	bool alone;    /* lookup_is_alone() of its addresses */
	/* Memory is mapped at the places only that requests name:
	 * pool_grow_at(). Its addresses stay reserved while it is empty. Not
	 * constant: arena_open_places(). */
	bool of_places;
	uint64_t index; /* larger in later segments */

	struct list link;       /* in arena->memory.segments */
	struct list range_link; /* in arena->memory.ranges; expandable only */
	struct idle idle;       /* driver segments only */
	struct block *first;
	size_t mapped_bytes;
	unsigned busy;       /* VACATED, MAPPING and UNMAPPING blocks */
	unsigned pins;       /* pins that lie in it */
	struct tree handles; /* by address; expandable only */
	uint32_t stack;      /* of its making, in the history */
};

struct pool {
	struct stream_heap *owner; /* constant */
	enum pool_kind kind;       /* constant */
	struct tree free;          /* runs, by size, then address: best fit */
	/* By size, then address; heap of WEIR_STREAM_ANY only. */
	struct tree unmapped;
	/* FREE blocks, the earliest freed first, where other streams find them;
	 * unused for WEIR_STREAM_ANY and while arena->memory.several is not
	 * set. */
	struct list freed;
	/* Not all of them are in the list yet, but those of runs above this
	 * place in the tree: promote.c, Note [Portions]. */
	bool unlisted;
	size_t listed_run;
	CUdeviceptr listed_addr;
};

/*
 * The source of an arena's driver segments. Its functions are called with no
 * lock held and the arena's context current.
 */
struct source {
	const char *name;            /* in errors */
	const struct traits *traits; /* of an arena over it */
	size_t granule;              /* of small blocks; 0: WEIR_GRANULE */
	/* Allocate memory at a multiple of 512; sets the status on failure. */
	enum weir_status (*take)(
	    void *closure, int device, size_t size, CUdeviceptr *out);
	/* Free memory. False: that is not possible now, and the memory
	 * stays. */
	bool (*give)(void *closure, int device, CUdeviceptr addr, size_t size);
	/* The context is gone, with the driver's memory: free the rest. NULL:
	 * there is no rest. */
	void (*forget)(
	    void *closure, int device, CUdeviceptr addr, size_t size);
	void *closure;
};

/* How an arena is used; bits. What its memory is, its traits say. */
enum arena_flags {
	ARENA_NO_SPLIT = 1,   /* each block is a driver segment of its own */
	ARENA_SERVES_OOM = 2, /* its free memory serves the last need */
};

/* Neighbouring FREE blocks of any pools, from `first` to `last`. */
struct span {
	struct block *first;
	struct block *last;
};

/* The view of one request: how far it may use each stream's free memory
 * (view.h). An answer stays true, but more memory may become usable. */
struct view {
	struct stream_heap *mine;
	bool ordered;     /* the stream's order may be relied on */
	uint64_t capture; /* the capture that the request is in; 0: none */
	/* The tick of the record of the stream's oldest fence or use that is
	 * not met, set by fences_see_busy(); 0: it has none. */
	uint64_t busy_since;
	unsigned asked; /* places of kept[] that are in use, a bit each */
	struct {
		const struct stream_heap *heap;
		uint64_t until;
	} kept[VIEW_KEPT]; /* by heap->index */
};

#endif
