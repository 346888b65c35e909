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

enum weir_status
block_new(struct arena *arena, CUdeviceptr addr, struct block **out)
{
	enum weir_status status = lookup_prepare(addr);
	if (status != WEIR_OK)
		return status;
	if (arena->spare == NULL) {
		status = make_slab(arena);
		if (status != WEIR_OK)
			return status;
	}
	struct block *block = arena->spare;
	arena->spare = block->next;
	block->addr = addr;
	block->size = 0;
	block->requested = 0;
	block_set_state(block, BLOCK_UNMAPPED);
	block->segment = NULL;
	block->pool = NULL;
	block->prev = NULL;
	block->next = NULL;
	block->pending = (struct pending){ 0 };
	list_init(&block->pending.link);
	block->freed_at = 0;
	block->stack = 0;
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

void
block_split(struct block *block, size_t size, struct block *rest)
{
	rest->size = block->size - size;
	block_set_state(rest, block_state(block));
	rest->segment = block->segment;
	rest->pool = block->pool;
	rest->way = block->way;
	rest->freed_at = block->freed_at;
	rest->prev = block;
	rest->next = block->next;
	if (rest->next != NULL)
		rest->next->prev = rest;
	block->next = rest;
	block->size = size;
	block->pool->owner->blocks++;
	if (block_is_held(rest))
		lookup_set(rest->addr, rest);
}

static struct tree *
tree_of(struct block *block)
{
	return block_state(block) == BLOCK_FREE ? &block->pool->free :
						  &block->pool->unmapped;
}

/* What becomes of inactive_split in one go: only the sum counts. */
struct net {
	int64_t blocks;
	int64_t bytes;
};

static void
net_add(struct net *net, const struct block *block, int sign)
{
	if (!stats_is_inactive_split(block))
		return;
	net->blocks += sign;
	net->bytes += sign * (int64_t)block->size;
}

static void
net_count(const struct net *net, struct pool *pool)
{
	if (net->blocks == 0 && net->bytes == 0)
		return;
	stats_change(pool, STAT3_inactive_split, net->blocks);
	stats_change(pool, STAT3_inactive_split_bytes, net->bytes);
}

static void
take(struct block *block, struct net *net)
{
	net_add(net, block, -1);
	tree_remove(tree_of(block), &block->node);
}

void
block_take(struct block *block)
{
	struct net net = { 0 };

	take(block, &net);
	net_count(&net, block->pool);
}

/* May the two be one? Both are to be FREE or UNMAPPED. */
static bool
mergeable(const struct block *a, const struct block *b)
{
	return a != NULL && b != NULL && block_state(a) == block_state(b) &&
	    a->pool == b->pool;
}

/* Join a block with its next neighbour, which is gone then; both are in no
 * tree. */
static void
absorb_next(struct block *block)
{
	struct block *gone = block->next;

	if (block_is_held(gone))
		lookup_set(gone->addr, NULL);
	block->size += gone->size;
	block->next = gone->next;
	if (block->next != NULL)
		block->next->prev = block;
	if (gone->freed_at > block->freed_at)
		block->freed_at = gone->freed_at;
	block->pool->owner->blocks--;
	block_delete(gone);
}

static struct block *
put(struct block *block, enum block_state state, struct net *net)
{
	bool was_held = block_is_held(block);

	block_set_state(block, state);
	if (block_is_held(block) != was_held)
		lookup_set(block->addr, was_held ? NULL : block);
	block->requested = 0;
	block->stack = 0;
	if (mergeable(block, block->next)) {
		take(block->next, net);
		absorb_next(block);
	}
	if (mergeable(block->prev, block)) {
		block = block->prev;
		take(block, net);
		absorb_next(block);
	}
	tree_insert(tree_of(block), &block->node);
	net_add(net, block, 1);
	return block;
}

struct block *
block_put(struct block *block, enum block_state state)
{
	struct net net = { 0 };

	block = put(block, state, &net);
	net_count(&net, block->pool);
	return block;
}

void
block_hand_out(struct block *block, size_t size, struct block *rest)
{
	struct net net = { 0 };

	take(block, &net);
	block_set_state(block, BLOCK_ACTIVE);
	if (rest != NULL) {
		block_split(block, size, rest);
		put(rest, BLOCK_FREE, &net);
	}
	net_count(&net, block->pool);
}

void
block_move(struct block *block, struct pool *pool)
{
	if (block->pool == pool)
		return;
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
	pools_drop_if_done(block->arena, owner);
}

void
block_set_left(struct block *block)
{
	lookup_set(block->addr, NULL);
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
		absorb_next(first);
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
	pools_drop_if_done(block->arena, owner);
	return block;
}

struct pool *
block_home(struct block *block)
{
	struct pools *owner = block->pool->owner;

	if (owner->passed)
		return &block->arena->any_pools->pool[block->pool->kind];
	return block->pool;
}
