/*
 * Blocks: making, cutting, merging, and being in the right tree.
 *
 * Invariants I-1, I-4 and I-5 of docs/invariants.md are kept here: blocks tile
 * their segment, links are symmetric, and no two neighbours that could be one
 * are two.
 */
#include "allocator/arena.h"
#include "allocator/lookup.h"
#include "allocator/tell.h"
#include "base/meta.h"
#include "base/status.h"

enum { BLOCKS_A_SLAB = 64, LINE = 64 };

_Static_assert(offsetof(struct block, pending) +
	    offsetof(struct pending, uses) + sizeof(struct use *) <=
	LINE,
    "what a free looks at is in one line");

/* A block in a slab, with lines of its own. */
enum { STRIDE = (sizeof(struct block) + LINE - 1) / LINE * LINE };

int
compare_address(const struct tree_node *a, const struct tree_node *b)
{
	CUdeviceptr x = CONTAINER_OF(a, struct block, node)->addr;
	CUdeviceptr y = CONTAINER_OF(b, struct block, node)->addr;

	return (x > y) - (x < y);
}

int
compare_size_address(const struct tree_node *a, const struct tree_node *b)
{
	size_t x = CONTAINER_OF(a, struct block, node)->size;
	size_t y = CONTAINER_OF(b, struct block, node)->size;

	if (x != y)
		return x < y ? -1 : 1;
	return compare_address(a, b);
}

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
leaf_of(struct arena *arena, CUdeviceptr place)
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
	struct leaf *leaf = leaf_of(at->arena, place);

	if (leaf != NULL) /* else a NULL for an address never prepared */
		lookup_set_in_leaf(leaf, place, block, at->segment->alone);
}

/* What a new block may lack. */
static __attribute__((noinline)) enum weir_status
prepare(struct arena *arena, CUdeviceptr addr)
{
	enum weir_status status = lookup_prepare(addr);

	return status == WEIR_OK && arena->spare == NULL ? make_slab(arena) :
							   status;
}

/* One that lacks what split() sets. */
static inline QUICK enum weir_status new (
    struct arena *arena, CUdeviceptr addr, struct block **out) {
	if (leaf_of(arena, lookup_place(addr)) == NULL || arena->spare == NULL){
	    enum weir_status status = prepare(arena, addr);
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

static inline struct tree *
tree_of(struct block *block, enum block_state state)
{
	return state == BLOCK_FREE ? &block->pool->free :
				     &block->pool->unmapped;
}

/* What becomes of inactive_split in one go: only the sum counts. */
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
count(struct pool *pool, int64_t blocks, int64_t bytes)
{
	stats_change(pool, STAT3_inactive_split, blocks);
	stats_change(pool, STAT3_inactive_split_bytes, bytes);
}

static inline QUICK void
net_count(const struct net *net, struct pool *pool)
{
	if (net->blocks != 0 || net->bytes != 0)
		count(pool, net->blocks, net->bytes);
}

void
block_take(struct block *block)
{
	struct net net = { 0 };

	net_add(&net, block, -1);
	tree_remove(tree_of(block, block_state(block)), &block->node);
	net_count(&net, block->pool);
}

/* May a neighbour be one with a block of this state, FREE or UNMAPPED? */
static inline bool
mergeable(const struct block *neighbour, const struct pool *pool,
    enum block_state state)
{
	return neighbour != NULL && block_state(neighbour) == state &&
	    neighbour->pool == pool;
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
	if (gone->freed_at > block->freed_at)
		block->freed_at = gone->freed_at;
	block->pool->owner->blocks--;
	block_delete(gone);
}

/* It takes the place of its next neighbour in the tree, or is joined to the one
 * before, which is in its place: mostly that is where they belong. */
struct block *
block_put(struct block *block, enum block_state state)
{
	const bool held = state == BLOCK_FREE;
	struct pool *pool = block->pool;
	struct tree *tree = tree_of(block, state);
	bool placed = false;
	struct net net = { 0 };

	if (block_is_held(block) != held)
		name(block, held ? block : NULL);
	block_set_state(block, state);
	block->requested = 0;
	block->stack = 0;
	if (mergeable(block->next, pool, state)) {
		net_add(&net, block->next, -1);
		tree_replace(tree, &block->next->node, &block->node);
		absorb_next(block, held);
		placed = true;
	}
	if (mergeable(block->prev, pool, state)) {
		if (placed)
			tree_remove(tree, &block->node);
		block = block->prev;
		net_add(&net, block, -1);
		absorb_next(block, held);
		placed = true;
	}
	if (placed)
		tree_raised(tree, &block->node);
	else
		tree_insert(tree, &block->node);
	net_add(&net, block, 1);
	net_count(&net, pool);
	return block;
}

void
block_hand_out(struct block *block)
{
	block_take(block);
	block_set_state(block, BLOCK_ACTIVE);
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
	net_add(&net, block, -1);
	split(block, size, rest, BLOCK_FREE);
	tree_replace(tree, &block->node, &rest->node);
	tree_lowered(tree, &rest->node);
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
	block_move(block, block_home(block));
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
		block_take(next);
		block_move(next, first->pool);
		absorb_next(first, block_is_held(next));
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
		block->freed_at = order_tick();
		pools->freed_at = block->freed_at;
	}
	pools_drop_if_done(owner);
	return block;
}
