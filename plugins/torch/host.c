/*
 * Page-locked memory for PyTorch: weir's memory, and pools of it for graphs. At
 * each launch a graph accesses host memory that the program may have freed
 * since the capture. So memory that is allocated while requests are routed to a
 * pool stays with that pool until the pool is not used any more.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "plugins/torch/filter.h"
#include "plugins/torch/forks.h"
#include "plugins/torch/weir_torch.h"

/* A block of a pool. */
struct host_block {
	void *ptr;
	size_t size;
	bool live;
	bool recorded; /* a stream use is recorded: not reused */
	struct host_block *next;
};

struct host_pool {
	struct weir_torch_id id;
	int uses;
	struct filter_slot *slot; /* NULL: no request is routed to it */
	struct host_block *blocks;
	struct host_pool *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct host_pool *pools; /* the oldest first; guarded by the lock */
static atomic_uint pool_count;  /* changed under the lock */

static struct host_pool *
host_pool_find(struct weir_torch_id id)
{
	for (struct host_pool *p = pools; p != NULL; p = p->next)
		if (p->id.graph == id.graph && p->id.user == id.user)
			return p;
	return NULL;
}

static struct host_block *
host_block_find(const void *ptr, struct host_pool **pool)
{
	const char *at = ptr;

	for (struct host_pool *p = pools; p != NULL; p = p->next)
		for (struct host_block *b = p->blocks; b != NULL; b = b->next) {
			const char *start = b->ptr;
			if (at < start || at >= start + b->size)
				continue;
			*pool = p;
			return b;
		}
	return NULL;
}

/* ---- Allocating -------------------------------------------------------- */

/* A free block of the pool that wastes at most an eighth. */
static void *
reuse_block(struct host_pool *pool, size_t size)
{
	for (struct host_block *b = pool->blocks; b != NULL; b = b->next) {
		if (b->live || b->recorded || b->size < size ||
		    b->size - size > b->size / 8)
			continue;
		b->live = true;
		return b->ptr;
	}
	return NULL;
}

static void *
malloc_in(struct host_pool *pool, size_t size)
{
	void *ptr = reuse_block(pool, size);

	if (ptr != NULL)
		return ptr;
	struct host_block *block = calloc(1, sizeof(*block));
	if (block == NULL)
		return NULL;
	block->ptr = weir_host_malloc(size);
	if (block->ptr == NULL) {
		free(block);
		return NULL;
	}
	block->size = size;
	block->live = true;
	block->next = pool->blocks;
	pool->blocks = block;
	return block->ptr;
}

void *
weir_torch_host_malloc(size_t size, weir_stream stream)
{
	if (forks_refused())
		return NULL;
	void *ptr = NULL;
	bool routed = false;

	if (atomic_load_explicit(&pool_count, memory_order_relaxed) == 0)
		return weir_host_malloc(size);
	pthread_mutex_lock(&lock);
	filter_request_begin();
	for (struct host_pool *p = pools; p != NULL && !routed; p = p->next) {
		if (p->slot == NULL || !filter_ask(stream, p->slot))
			continue;
		ptr = malloc_in(p, size);
		routed = true;
	}
	filter_request_end();
	pthread_mutex_unlock(&lock);
	return routed ? ptr : weir_host_malloc(size);
}

enum weir_status
weir_torch_host_free(void *ptr)
{
	if (forks_refused())
		return WEIR_OK;
	struct host_pool *pool;

	if (ptr == NULL)
		return WEIR_OK;
	if (atomic_load_explicit(&pool_count, memory_order_relaxed) == 0)
		return weir_host_free(ptr);
	pthread_mutex_lock(&lock);
	struct host_block *block = host_block_find(ptr, &pool);
	bool twice = block != NULL && !block->live;
	if (block != NULL)
		block->live = false;
	pthread_mutex_unlock(&lock);
	if (twice)
		return WEIR_EINVAL;
	return block != NULL ? WEIR_OK : weir_host_free(ptr);
}

enum weir_status
weir_torch_host_record(const void *ptr, weir_stream stream)
{
	if (forks_refused())
		return WEIR_EFORK;
	struct host_pool *pool;

	if (atomic_load_explicit(&pool_count, memory_order_relaxed) > 0) {
		pthread_mutex_lock(&lock);
		struct host_block *block = host_block_find(ptr, &pool);
		if (block != NULL)
			block->recorded = true;
		pthread_mutex_unlock(&lock);
	}
	return weir_host_record(ptr, stream);
}

/* ---- Pools ------------------------------------------------------------- */

/* The caller holds the lock. NULL without memory. */
static struct host_pool *
host_pool_make(struct weir_torch_id id)
{
	struct host_pool **end = &pools;
	struct host_pool *pool = calloc(1, sizeof(*pool));

	if (pool == NULL)
		return NULL;
	pool->id = id;
	while (*end != NULL)
		end = &(*end)->next;
	*end = pool;
	atomic_fetch_add(&pool_count, 1);
	return pool;
}

/* Remove a pool that is not used any more from the list. Its blocks are passed
 * to release_blocks() without the lock. */
static struct host_block *
take_if_over(struct host_pool *pool)
{
	struct host_pool **at = &pools;

	if (pool->uses > 0 || pool->slot != NULL)
		return NULL;
	while (*at != pool)
		at = &(*at)->next;
	*at = pool->next;
	struct host_block *blocks = pool->blocks;
	free(pool);
	atomic_fetch_sub(&pool_count, 1);
	return blocks;
}

/* Free blocks are given back when queued launches are done; live blocks become
 * ordinary ones. */
static void
release_blocks(struct host_block *block)
{
	while (block != NULL) {
		struct host_block *next = block->next;
		if (!block->live || block->recorded)
			(void)weir_host_record(block->ptr, WEIR_STREAM_ANY);
		if (!block->live)
			(void)weir_host_free(block->ptr);
		free(block);
		block = next;
	}
}

enum weir_status
weir_torch_host_begin(
    struct weir_torch_id id, const struct weir_torch_filter *filter)
{
	if (forks_refused())
		return WEIR_EFORK;
	enum weir_status status = WEIR_OK;
	struct filter_slot *slot = filter_open(filter);

	if (slot == NULL)
		return WEIR_EHOSTMEM;
	pthread_mutex_lock(&lock);
	struct host_pool *pool = host_pool_find(id);
	if (pool == NULL)
		pool = host_pool_make(id);
	if (pool == NULL)
		status = WEIR_EHOSTMEM;
	else if (pool->slot != NULL)
		status = WEIR_EINVAL;
	if (status == WEIR_OK) {
		pool->slot = slot;
		pool->uses++;
	}
	pthread_mutex_unlock(&lock);
	if (status != WEIR_OK) {
		filter_disown(slot);
		filter_close(slot);
	}
	return status;
}

enum weir_status
weir_torch_host_end(struct weir_torch_id id)
{
	if (forks_refused())
		return WEIR_OK;
	struct filter_slot *slot = NULL;
	struct host_block *blocks = NULL;

	pthread_mutex_lock(&lock);
	struct host_pool *pool = host_pool_find(id);
	if (pool != NULL) {
		slot = pool->slot;
		pool->slot = NULL;
		blocks = take_if_over(pool);
	}
	pthread_mutex_unlock(&lock);
	release_blocks(blocks);
	if (slot == NULL)
		return WEIR_EINVAL;
	filter_close(slot);
	return WEIR_OK;
}

enum weir_status
weir_torch_host_release(struct weir_torch_id id)
{
	if (forks_refused())
		return WEIR_OK;
	struct host_block *blocks = NULL;

	pthread_mutex_lock(&lock);
	struct host_pool *pool = host_pool_find(id);
	bool used = pool != NULL && pool->uses > 0;
	if (used) {
		pool->uses--;
		blocks = take_if_over(pool);
	}
	pthread_mutex_unlock(&lock);
	release_blocks(blocks);
	return used ? WEIR_OK : WEIR_EINVAL;
}
