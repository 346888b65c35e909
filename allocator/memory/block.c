/*
 * Blocks: making, cutting, merging, and being in the right tree.
 *
 * Invariants I-1, I-4 and I-5 of docs/invariants.md are kept here: blocks tile
 * their segment, links are symmetric, and no two neighbours that could be one
 * are two.
 *
 * Note [Fences]
 *
 * A free block has one fence: its stream, and the tick of the latest free in
 * it. Other streams may use the block once they are ordered after that tick.
 * Two neighbours of one stream are merged only if no event was recorded on the
 * stream between their frees (block->fence counts the events): every event that
 * others can wait for then covers both or neither, and merging loses nothing.
 * While a device has one stream, nobody else waits, and all are merged.
 *
 * Blocks that are not merged may serve a request together. A run is a row of
 * neighbours that are of one stream's pool or complete. The first of them that
 * is of the pool has the size of the run and stands for it in the tree; a
 * complete block may be part of the runs of two streams, on its left and on its
 * right.
 */
#include "allocator/memory/block.h"

#include "allocator/memory/arena.h"
#include "allocator/memory/counters.h"
#include "allocator/memory/emit.h"
#include "allocator/memory/lookup.h"
#include "base/meta.h"
#include "base/status.h"

enum { BLOCKS_A_SLAB = 64, LINE = 64 };

_Static_assert(offsetof(struct block, pending) +
	    offsetof(struct pending, uses) + sizeof(struct use *) <=
	LINE,
    "what a free looks at is in one line");

/* A block in a slab, with lines of its own. */
enum { STRIDE = (sizeof(struct block) + LINE - 1) / LINE * LINE };

/*
 * Blocks come in slabs that are never given back, and a block never changes
 * its arena: an address looked up without a lock may name a block that has
 * just become another, and its arena must still be there to be locked.
 */
static enum weir_status
make_slab(struct arena *arena)
{
	char *slab = meta_zalloc(BLOCKS_A_SLAB * STRIDE + LINE);
	if (slab == NULL)
		return status_set(WEIR_EHOSTMEM, "no host memory for blocks");
	slab += -(uintptr_t)slab % LINE;
	for (size_t i = 0; i < BLOCKS_A_SLAB; i++) {
		struct block *block =
		    (struct block *)(void *)(slab + i * STRIDE);
		block->arena = arena;
		block->next = arena->spare;
		arena->spare = block;
	}
	return WEIR_OK;
}

/* Turn to the leaf of a place; NULL: there is none yet. */
static __attribute__((noinline)) struct leaf *
turn_to(struct nearby *nearby, CUdeviceptr place)
{
	struct leaf *leaf = lookup_leaf(place);

	if (leaf != NULL)
		*nearby = (struct nearby){ lookup_base(place), leaf };
	return leaf;
}

/* The leaf of a place, mostly that of the latest. */
static inline struct leaf *
leaf_of_arena(struct arena *arena, CUdeviceptr place)
{
	struct nearby *nearby = &arena->starts;

	return __builtin_expect(nearby->base == lookup_base(place), 1) ?
	    nearby->leaf :
	    turn_to(nearby, place);
}

/* Name the block that starts where this one does; NULL for none. */
static inline void
name(const struct block *at, struct block *block)
{
	CUdeviceptr place = lookup_place(at->addr);
	struct leaf *leaf = leaf_of_arena(at->arena, place);

	if (leaf != NULL) /* else a NULL for an address never prepared */
		lookup_set_in_leaf(leaf, place, block, at->segment->alone);
}

/* Make room for a new block: a place in the table of addresses, and a struct.
 */
static __attribute__((noinline)) enum weir_status
prepare_block(struct arena *arena, CUdeviceptr addr)
{
	enum weir_status status = lookup_prepare(addr);

	return status == WEIR_OK && arena->spare == NULL ? make_slab(arena) :
							   status;
}

/* One that lacks what split() sets. */
static inline QUICK enum weir_status new (
    struct arena *arena, CUdeviceptr addr, struct block **out) {
	if (leaf_of_arena(arena, lookup_place(addr)) == NULL ||
	    arena->spare == NULL){
	    enum weir_status status = prepare_block(arena, addr);
	    if (status != WEIR_OK) return status; }
struct block *block = arena->spare;
arena->spare = block->next;
block->addr = addr;
block->requested = 0;
block->pending = (struct pending){ 0 };
list_init(&block->pending.link);
block->stack = 0;
*out = block;
return WEIR_OK;
}

enum weir_status
block_new(struct arena *arena, CUdeviceptr addr, struct block **out)
{
	struct block *block;
	enum weir_status status = new (arena, addr, &block);
	if (status != WEIR_OK)
		return status;
	block->size = 0;
	block_set_state(block, BLOCK_UNMAPPED);
	block->segment = NULL;
	block->pool = NULL;
	block->prev = NULL;
	block->next = NULL;
	block->freed_at = 0;
	block->fence = 0;
	block->run = RUN_NONE;
	*out = block;
	return WEIR_OK;
}

void
block_delete(struct block *block)
{
	struct arena *arena = block->arena;

	block_set_state(block, BLOCK_UNMAPPED);
	block->segment = NULL;
	block->next = arena->spare;
	arena->spare = block;
}

enum weir_status
block_prepare(struct arena *arena, CUdeviceptr addr)
{
	struct block *block;
	enum weir_status status = block_new(arena, addr, &block);
	if (status == WEIR_OK)
		block_delete(block);
	return status;
}

static inline QUICK void
split(struct block *block, size_t size, struct block *rest,
    enum block_state state)
{
	struct block *next = block->next;
	struct pool *pool = block->pool;

	rest->size = block->size - size;
	block_set_state(rest, state);
	rest->segment = block->segment;
	rest->pool = pool;
	rest->way = block->way;
	rest->freed_at = block->freed_at;
	rest->fence = block->fence;
	rest->prev = block;
	rest->next = next;
	if (next != NULL)
		next->prev = rest;
	block->next = rest;
	block->size = size;
	pool->owner->blocks++;
	if (block_state_is_held(state))
		name(rest, rest);
}

void
block_split(struct block *block, size_t size, struct block *rest)
{
	split(block, size, rest, block_state(block));
}

/* The change of inactive_split in one operation: only the sum is counted. */
struct net {
	int64_t blocks;
	int64_t bytes;
};

static inline QUICK void
net_add(struct net *net, const struct block *block, int sign)
{
	if (!stats_is_inactive_split(block))
		return;
	net->blocks += sign;
	net->bytes += sign * (int64_t)block->size;
}

static __attribute__((noinline)) void
count_owned(struct pool *pool, int64_t blocks, int64_t bytes)
{
	stats_change(pool, STAT3_inactive_split, blocks);
	stats_change(pool, STAT3_inactive_split_bytes, bytes);
}

static inline QUICK void
net_count(const struct net *net, struct pool *pool)
{
	if (net->blocks != 0 || net->bytes != 0)
		count_owned(pool, net->blocks, net->bytes);
}

/* ---- Runs -------------------------------------------------------------- */

/* Make the first block of its pool stand for the run that a block is of, and
 * no other. */
static __attribute__((noinline)) void
renew_run(struct block *block)
{
	struct pool *pool = block->pool;
	struct block *head = block;
	struct block *last = block;
	size_t size = block->size;

	for (struct block *b = block->prev; block_is_of_runs(b, pool);
	     b = b->prev) {
		size += b->size;
		if (b->pool == pool)
			head = b;
	}
	for (struct block *b = block->next; block_is_of_runs(b, pool);
	     b = b->next) {
		size += b->size;
		last = b;
	}
	for (struct block *b = head; b != last;) {
		b = b->next;
		if (b->pool == pool && b->run > 0) {
			tree_remove(&pool->free, &b->node);
			b->run = 0;
		}
	}
	if (head->run == size)
		return;
	if (head->run > 0)
		tree_remove(&pool->free, &head->node);
	head->run = size;
	tree_insert(&pool->free, &head->node);
}

/* Something next to a block has changed. */
static __attribute__((noinline)) void
renew_runs_of(struct block *block)
{
	if (!block_is_complete(block)) {
		renew_run(block);
		return;
	}
	if (block_is_in_run(block->prev) && !block_is_complete(block->prev))
		renew_run(block->prev);
	if (block_is_in_run(block->next) && !block_is_complete(block->next))
		renew_run(block->next);
}

void
block_take(struct block *block)
{
	struct net net = { 0 };

	if (block_state(block) != BLOCK_FREE) {
		tree_remove(&block->pool->unmapped, &block->node);
		return;
	}
	net_add(&net, block, -1);
	if (block->run > 0)
		tree_remove(&block->pool->free, &block->node);
	block->run = RUN_NONE;
	if (!list_empty(&block->pending.link))
		list_remove(&block->pending.link);
	if (block_is_in_run(block->prev))
		renew_runs_of(block->prev);
	if (block_is_in_run(block->next))
		renew_runs_of(block->next);
	net_count(&net, block->pool);
}

/* May a neighbour be one with a free block? Of a stream's only what one event
 * covers, or what was freed late would hold back what was freed before. */
static inline QUICK bool
go_together(const struct block *neighbour, const struct block *block)
{
	return neighbour->pool == block->pool &&
	    (neighbour->fence == block->fence || block->arena->streams < 2 ||
		block_is_complete(block));
}

static inline bool
mergeable(const struct block *neighbour, const struct block *block)
{
	return block_is_in_run(neighbour) && go_together(neighbour, block);
}

/* Join a block with its next neighbour, which is gone then and in no tree. */
static inline QUICK void
absorb_next(struct block *block, bool held)
{
	struct block *gone = block->next;
	struct block *next = gone->next;

	if (held)
		name(gone, NULL);
	block->size += gone->size;
	block->next = next;
	if (next != NULL)
		next->prev = block;
	if (gone->freed_at > block->freed_at) {
		block->freed_at = gone->freed_at;
		block->fence = gone->fence;
	}
	block->pool->owner->blocks--;
	if (!list_empty(&gone->pending.link))
		list_remove(&gone->pending.link);
	block_delete(gone);
}

/* Addresses without memory are of no stream. */
static struct pool *
unmapped_pool(const struct block *block)
{
	return &block->arena->any_pools->pool[block->segment->kind];
}

static struct block *
put_unmapped(struct block *block)
{
	struct tree *tree = &unmapped_pool(block)->unmapped;

	block_move(block, unmapped_pool(block));
	if (block_is_held(block))
		name(block, NULL);
	block_set_state(block, BLOCK_UNMAPPED);
	block->requested = 0;
	block->stack = 0;
	if (block->next != NULL && block_state(block->next) == BLOCK_UNMAPPED) {
		tree_remove(tree, &block->next->node);
		absorb_next(block, false);
	}
	if (block->prev != NULL && block_state(block->prev) == BLOCK_UNMAPPED) {
		block = block->prev;
		absorb_next(block, false);
	} else {
		tree_insert(tree, &block->node);
	}
	return block;
}

/* Where a block is that is on its way into its pool. */
struct putting {
	struct block *block;
	bool placed; /* it is in the tree, if not where it belongs */
	struct net net;
};

static inline QUICK void
put_with_next(struct putting *p)
{
	struct tree *tree = &p->block->pool->free;
	struct block *next = p->block->next;

	net_add(&p->net, next, -1);
	if (next->run > 0 && !p->placed) {
		p->block->run = next->run;
		tree_replace(tree, &next->node, &p->block->node);
		p->placed = true;
	} else if (next->run > 0) {
		tree_remove(tree, &next->node);
	}
	absorb_next(p->block, true);
}

static inline QUICK void
put_with_prev(struct putting *p)
{
	if (p->placed)
		tree_remove(&p->block->pool->free, &p->block->node);
	p->block = p->block->prev;
	net_add(&p->net, p->block, -1);
	absorb_next(p->block, true);
	p->placed = p->block->run > 0;
}

/* It is a run by itself. */
static inline QUICK void
put_alone(struct putting *p)
{
	struct block *block = p->block;
	struct tree *tree = &block->pool->free;

	block->run = block->size;
	if (p->placed)
		tree_raised(tree, &block->node);
	else
		tree_insert(tree, &block->node);
}

static inline QUICK struct block *
put_ends(struct putting *p)
{
	struct block *block = p->block;

	net_add(&p->net, block, 1);
	net_count(&p->net, block->pool);
	if (block->arena->several && !block_is_complete(block)) {
		list_remove(&block->pending.link);
		pools_add_freed(block);
	}
	return block;
}

/* There is more beside it than what it is joined with. */
static __attribute__((noinline)) struct block *
put_beside(struct putting p)
{
	while (mergeable(p.block->next, p.block))
		put_with_next(&p);
	while (mergeable(p.block->prev, p.block))
		put_with_prev(&p);
	if (block_is_complete(p.block))
		put_alone(&p);
	renew_runs_of(p.block);
	return put_ends(&p);
}

/* Is what is free a run by itself that a block can be joined with? */
static inline QUICK bool
joins(const struct block *neighbour, const struct block *block)
{
	return neighbour->run == neighbour->size &&
	    go_together(neighbour, block);
}

static inline QUICK bool
is_free(const struct block *block)
{
	return block != NULL && block_state(block) == BLOCK_FREE;
}

/* It takes the place of its next neighbour in the tree, or is joined to the one
 * before, which is in its place: mostly that is where they belong. */
static inline QUICK struct block *
put_free(struct block *block)
{
	struct putting p = { .block = block };
	bool alone = !block_is_complete(block);

	if (!block_is_held(block))
		name(block, block);
	block_set_state(block, BLOCK_FREE);
	block->requested = 0;
	block->stack = 0;
	block->run = 0;
	if (is_free(block->next)) {
		if (alone && joins(block->next, block))
			put_with_next(&p);
		else
			alone = false;
	}
	if (is_free(block->prev)) {
		if (alone && joins(block->prev, block))
			put_with_prev(&p);
		else
			alone = false;
	}
	if (!alone)
		return put_beside(p);
	put_alone(&p);
	return put_ends(&p);
}

struct block *
block_put(struct block *block, enum block_state state)
{
	return state == BLOCK_FREE ? put_free(block) : put_unmapped(block);
}

void
block_hand_out(struct block *block)
{
	block_take(block);
	block_set_state(block, BLOCK_ACTIVE);
}

/* Hand out the front of a block whose neighbours are of its run, or of others'.
 */
static __attribute__((noinline)) void
hand_out_front_of_run(struct block *block, size_t size, struct block *rest)
{
	block_take(block);
	rest->run = RUN_NONE;
	split(block, size, rest, BLOCK_FREE);
	block_set_state(block, BLOCK_ACTIVE);
	put_free(rest);
}

/* The rest takes its place in the tree, where it belongs, mostly. It has no
 * free neighbour, as the block had none. */
enum weir_status
block_hand_out_front(struct block *block, size_t size)
{
	struct tree *tree = &block->pool->free;
	struct net net = { 0 };
	struct block *rest;
	enum weir_status status = new (block->arena, block->addr + size, &rest);
	if (status != WEIR_OK)
		return status;
	if (block->run != block->size || block_is_complete(block)) {
		hand_out_front_of_run(block, size, rest);
		return WEIR_OK;
	}
	net_add(&net, block, -1);
	split(block, size, rest, BLOCK_FREE);
	rest->run = rest->size;
	tree_replace(tree, &block->node, &rest->node);
	tree_lowered(tree, &rest->node);
	if (!list_empty(&block->pending.link)) {
		list_insert_before(&block->pending.link, &rest->pending.link);
		list_remove(&block->pending.link);
	}
	block_set_state(block, BLOCK_ACTIVE);
	net_add(&net, rest, 1);
	net_count(&net, block->pool);
	return WEIR_OK;
}

void
block_move_to(struct block *block, struct pool *pool)
{
	if (block_is_held(block) && !block->arena->uncounted) {
		int64_t size = (int64_t)block->size;
		stats_change_stream(block->pool, STAT3_reserved_bytes, -size);
		stats_change_stream(pool, STAT3_reserved_bytes, size);
	}
	block->pool->owner->blocks--;
	pool->owner->blocks++;
	block_set_pool(block, pool);
}

void
block_settle(struct block *block, enum block_state state)
{
	struct pools *owner = block->pool->owner;
	CUdeviceptr addr = block->addr;
	bool was_held = block_is_held(block);
	int64_t size = (int64_t)block->size;

	/* Its stream may have ended meanwhile: first it goes where it belongs
	 * by now, then what it has got or lost is counted there. */
	block_move(block,
	    state == BLOCK_FREE ? block_home(block) : unmapped_pool(block));
	struct pool *pool = block->pool;
	block = block_put(block, state);
	if (block_is_held(block) != was_held) {
		stats_change(
		    pool, STAT3_reserved_bytes, was_held ? -size : size);
		tell_range(block, addr, (size_t)size, !was_held);
	}
	pools_drop_if_done(owner);
}

void
block_set_left(struct block *block)
{
	name(block, NULL);
	block_set_state(block, BLOCK_LEFT);
	tell_range(block, block->addr, block->size, false);
}

struct block *
block_join(struct block *first, const struct block *last)
{
	CUdeviceptr end = last->addr + last->size;

	block_take(first);
	while (first->addr + first->size < end) {
		struct block *next = first->next;
		bool held = block_is_held(next);
		block_take(next);
		block_move(next, first->pool);
		absorb_next(first, held);
	}
	struct pools *owner = first->pool->owner;
	if (first->freed_at > owner->freed_at)
		owner->freed_at = first->freed_at;
	return first;
}

struct block *
block_adopt(const struct span *span, struct pools *pools)
{
	struct pools *owner = span->first->pool->owner;
	struct block *block = block_join(span->first, span->last);

	block_move(block, &pools->pool[block->pool->kind]);
	/* A mark that their stream has already is not behind what this one was
	 * behind before. */
	if (owner != pools || span->first != span->last) {
		stream_protect(pools->stream);
		block->freed_at = order_tick();
		block_set_fence(block);
		pools->freed_at = block->freed_at;
	}
	pools_drop_if_done(owner);
	return block;
}
