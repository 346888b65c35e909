/*
 * Stream-ordered memory: cuMemAllocAsync() and memory pools.
 *
 * A pool cuts blocks from chunks. A freed block is idle from that point on in
 * the order of its stream. It serves a request of the same size if the request
 * comes after that point in order, or if the point is done; otherwise the
 * request is made to wait for it. Chunks without a block in use are given back
 * to the device when the host has waited and the pool holds more than its
 * threshold, and when the device is short of memory. During a capture an
 * allocation is a node, whose memory belongs to the graph.
 */
#include <stdlib.h>
#include <sys/mman.h>

#include "simcuda/capture.h"
#include "simcuda/pool.h"
#include "simcuda/tuning.h"

struct chunk {
	struct chunk *next;
	struct pool *pool;
	struct phys *phys;
	uint64_t address;
	size_t cut;  /* bytes at its beginning that are cut into blocks */
	size_t live; /* number of blocks in use */
};

static struct pool *pools;
static size_t n_chunks; /* of all pools */

/* ---- life --------------------------------------------------------------- */

struct pool *
pool_new(struct device *device)
{
	struct pool *pool = sim_alloc(sizeof(*pool));

	pool->device = device;
	pool->handle = handle_new(HANDLE_POOL, pool);
	pool->can_read = pool->can_write = 1u << device->ordinal;
	pool->attributes[CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES] = 1;
	pool->attributes[CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC] = 1;
	pool->attributes[CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES] = 1;
	pool->next = pools;
	pools = pool;
	return pool;
}

static struct pool *
default_pool(struct device *device)
{
	if (device->default_pool == NULL)
		device->default_pool = pool_new(device);
	return device->default_pool;
}

static struct pool *
current_pool(struct device *device)
{
	return device->pool != NULL ? device->pool : default_pool(device);
}

uint64_t
pool_handle(const struct pool *pool)
{
	return pool == NULL ? 0 : pool->handle;
}

static void
count_pool_bytes(
    struct pool *pool, CUmemPool_attribute current, size_t bytes, bool more)
{
	uint64_t *value = &pool->attributes[current];
	uint64_t *high = &pool->attributes[current + 1];

	*value = more ? *value + bytes : *value - bytes;
	if (*high < *value)
		*high = *value;
}

/* ---- chunks ------------------------------------------------------------- */

static CUresult
chunk_new(struct pool *pool, size_t size, struct chunk **out)
{
	struct chunk *chunk = sim_alloc(sizeof(*chunk));
	CUresult code;

	size = (size + SIM_GRANULE - 1) & ~(size_t)(SIM_GRANULE - 1);
	code = phys_new(pool->device, size, &chunk->phys);
	if (code != CUDA_SUCCESS)
		goto free_chunk;
	chunk->address = address_reserve(size, SIM_GRANULE, 0);
	code = CUDA_ERROR_OUT_OF_MEMORY;
	if (chunk->address == 0)
		goto drop_memory;
	if (!phys_map(
		chunk->phys, size, chunk->address, PROT_READ | PROT_WRITE))
		goto drop_address;
	chunk->pool = pool;
	chunk->next = pool->chunks;
	pool->chunks = chunk;
	n_chunks++;
	count_pool_bytes(
	    pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, size, true);
	*out = chunk;
	return CUDA_SUCCESS;

drop_address:
	address_release(chunk->address, size);
drop_memory:
	phys_drop(chunk->phys);
free_chunk:
	free(chunk);
	return code;
}

static void
idle_drop(struct range *range)
{
	point_drop(&range->idle_at);
	mark_drop(range->idle_mark);
	range->idle_mark = NULL;
}

/* Remove the chunk's blocks from the idle lists and the address space. */
static void
forget_blocks(struct chunk *chunk)
{
	struct pool *pool = chunk->pool;

	for (size_t bin = 0; bin < POOL_BINS; bin++) {
		struct range **link = &pool->idle[bin];

		while (*link != NULL) {
			struct range *range = *link;

			if (range->chunk != chunk) {
				link = &range->next_idle;
				continue;
			}
			*link = range->next_idle;
			idle_drop(range);
			range_free(range);
		}
	}
}

static void
chunk_free(struct chunk *chunk)
{
	struct pool *pool = chunk->pool;
	struct chunk **link = &pool->chunks;
	size_t size = chunk->phys->size;

	forget_blocks(chunk);
	while (*link != chunk)
		link = &(*link)->next;
	*link = chunk->next;
	n_chunks--;
	count_pool_bytes(
	    pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, size, false);
	address_release(chunk->address, size);
	phys_drop(chunk->phys);
	free(chunk);
}

/* Have all frees in the chunk happened, in time? */
static bool
chunk_is_done(const struct chunk *chunk)
{
	for (size_t bin = 0; bin < POOL_BINS; bin++) {
		const struct range *range = chunk->pool->idle[bin];

		for (; range != NULL; range = range->next_idle) {
			if (range->chunk == chunk &&
			    (!range->idle_mark->known || !range->freed ||
				!time_reached(range->idle_mark->visible_ns)))
				return false;
		}
	}
	return true;
}

static void
trim_pool(struct pool *pool, uint64_t keep_bytes)
{
	struct chunk *chunk = pool->chunks, *next;

	for (; chunk != NULL; chunk = next) {
		next = chunk->next;
		if (pool->attributes[CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT] <=
		    keep_bytes)
			return;
		if (chunk->live == 0 && chunk_is_done(chunk))
			chunk_free(chunk);
	}
}

/* A destroyed pool is freed together with its last memory. */
static void
reap_pools(void)
{
	struct pool **link = &pools;

	while (*link != NULL) {
		struct pool *pool = *link;

		/* Imported blocks refer to their pool for ever. */
		if (!pool->destroyed || pool->chunks != NULL ||
		    pool->n_graph_ranges > 0 || pool->imported) {
			link = &pool->next;
			continue;
		}
		*link = pool->next;
		free(pool);
	}
}

void
pool_synced(void)
{
	if (n_chunks == 0)
		return;
	for (struct pool *pool = pools; pool != NULL; pool = pool->next)
		trim_pool(pool,
		    pool->destroyed ?
			0 :
			pool->attributes[CU_MEMPOOL_ATTR_RELEASE_THRESHOLD]);
	reap_pools();
}

void
pool_reclaim(struct device *device)
{
	for (struct pool *pool = pools; pool != NULL; pool = pool->next) {
		if (pool->device == device)
			trim_pool(pool, 0);
	}
}

/* ---- blocks ------------------------------------------------------------- */

static struct range **
bin_of(struct pool *pool, size_t size)
{
	return &pool->idle[size / SIM_SMALL % POOL_BINS];
}

/* How an idle block can serve the stream; greater values are better. */
enum fit { FIT_NONE, FIT_BY_WAITING, FIT_DONE, FIT_IN_ORDER };

static enum fit
block_fits(const struct range *range, const struct stream *stream,
    const struct point *at)
{
	const struct pool *pool = range->pool;
	bool same = range->idle_at.slot == at->slot;

	if ((same ||
		pool->attributes
		    [CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES]) &&
	    point_has(at, range->idle_at.slot, range->idle_at.epoch))
		return FIT_IN_ORDER;
	if (pool->attributes[CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC] &&
	    range->idle_mark->known &&
	    time_reached(range->idle_mark->visible_ns))
		return FIT_DONE;
	if (pool->attributes
		[CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES] &&
	    stream->context->device == pool->device)
		return FIT_BY_WAITING;
	return FIT_NONE;
}

/* Take the idle block that suits the stream best, or NULL. */
static struct range *
take_idle(struct pool *pool, size_t size, struct stream *stream)
{
	struct range **best = NULL, *range;
	struct point at = line_point(&stream->line);
	enum fit best_fit = FIT_NONE;
	unsigned tried = 0;

	for (struct range **link = bin_of(pool, size); *link != NULL &&
	     tried < POOL_IDLE_TRIED && best_fit != FIT_IN_ORDER;
	     link = &(*link)->next_idle) {
		enum fit fit;

		if ((*link)->size != size)
			continue;
		tried++;
		fit = block_fits(*link, stream, &at);
		if (fit > best_fit) {
			best = link;
			best_fit = fit;
		}
	}
	point_drop(&at);
	if (best == NULL)
		return NULL;
	range = *best;
	*best = range->next_idle;
	line_join(&stream->line, &range->idle_at);
	stream_wait_mark(stream, range->idle_mark);
	idle_drop(range);
	return range;
}

/* The size that a pool may have, in whole granules. */
static uint64_t
pool_limit(const struct pool *pool)
{
	size_t size = pool->props.maxSize;

	if (size == 0 || size > SIZE_MAX - SIM_GRANULE)
		return UINT64_MAX;
	return (size + SIM_GRANULE - 1) & ~(size_t)(SIM_GRANULE - 1);
}

/* May the pool grow by that much? If idle memory is in the way it is given
 * back, and waited for if it is not done. */
static bool
has_room(struct pool *pool, size_t size, struct context *context)
{
	uint64_t limit = pool_limit(pool);
	const uint64_t *reserved =
	    &pool->attributes[CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT];

	size = (size + SIM_GRANULE - 1) & ~(size_t)(SIM_GRANULE - 1);
	if (size > limit)
		return false;
	for (int tries = 0; *reserved > limit - size && tries < 2; tries++) {
		if (tries > 0)
			context_wait(context);
		trim_pool(pool, limit - size);
	}
	return *reserved <= limit - size;
}

static CUresult
cut_block(
    struct pool *pool, size_t size, struct context *context, struct range **out)
{
	struct chunk *chunk = pool->chunks;
	CUresult code = CUDA_ERROR_OUT_OF_MEMORY;

	if (chunk != NULL && chunk->phys->size - chunk->cut >= size) {
		code = CUDA_SUCCESS;
	} else {
		if (size < POOL_CHUNK_MIN &&
		    pool_limit(pool) >= POOL_CHUNK_MIN &&
		    pool->attributes[CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT] <=
			pool_limit(pool) - POOL_CHUNK_MIN)
			code = chunk_new(pool, POOL_CHUNK_MIN, &chunk);
		if (code == CUDA_ERROR_OUT_OF_MEMORY &&
		    has_room(pool, size, context))
			code = chunk_new(pool, size, &chunk);
	}
	if (code != CUDA_SUCCESS)
		return code;
	*out = range_new(RANGE_POOLED, chunk->address + chunk->cut, size);
	(*out)->phys = chunk->phys;
	chunk->phys->refs++;
	(*out)->phys_offset = chunk->cut;
	(*out)->chunk = chunk;
	(*out)->pool = pool;
	chunk->cut += size;
	return CUDA_SUCCESS;
}

static CUresult
alloc_on(
    struct pool *pool, size_t size, struct stream *stream, struct range **out)
{
	struct action action = { .kind = OP_ALLOC };
	CUresult code = CUDA_SUCCESS;
	struct range *range;

	if (size == 0)
		return CUDA_ERROR_INVALID_VALUE;
	if (size > pool->device->limit_bytes)
		return CUDA_ERROR_OUT_OF_MEMORY;
	size = (size + SIM_SMALL - 1) & ~(size_t)(SIM_SMALL - 1);
	stream_order(stream);
	line_join_host(&stream->line);
	range = take_idle(pool, size, stream);
	if (range == NULL)
		code = cut_block(pool, size, stream->context, &range);
	if (code != CUDA_SUCCESS)
		return code;
	range->context = NULL;
	range->released = false;
	range->sync_memops = false;
	range->can_read = pool->can_read;
	range->can_write = pool->can_write;
	range->chunk->live++;
	count_pool_bytes(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, size, true);
	action.range = range;
	op_submit(stream, &action);
	*out = range;
	return CUDA_SUCCESS;
}

/* Make the block idle after the point. */
static void
block_release(struct range *range, struct point at, struct mark *mark)
{
	struct range **bin = bin_of(range->pool, range->size);

	range->released = true;
	range->idle_at = at;
	range->idle_mark = mark;
	range->next_idle = *bin;
	*bin = range;
	range->chunk->live--;
	count_pool_bytes(
	    range->pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, range->size, false);
}

static void
check_order(const struct range *range, struct stream *stream)
{
	struct point at = line_point(&stream->line);
	const struct use *use = range_unknown_use(range, &at);

	if (use != NULL)
		violation("freeing %#llx (%zu bytes) on stream %llu, which is "
			  "not after its use on stream %llu",
		    (unsigned long long)range->start, range->size,
		    (unsigned long long)stream->id,
		    (unsigned long long)slot_label(use->slot));
	point_drop(&at);
}

/* Free a block in the order of the stream. */
static CUresult
pool_free_on(struct range *range, struct stream *stream)
{
	struct action action = { .kind = OP_FREE, .range = range };

	stream_order(stream);
	line_join_host(&stream->line);
	check_order(range, stream);
	op_submit(stream, &action);
	if (range->graph_memory)
		graph_memory_set_live(range, false);
	else if (range->chunk == NULL)
		range->released = true;
	else
		block_release(
		    range, line_point(&stream->line), stream_mark(stream));
	return CUDA_SUCCESS;
}

CUresult
pool_free_now(struct range *range)
{
	struct mark *mark;

	memory_check_unused(range, "freeing");
	range->freed = true;
	if (range->graph_memory || range->chunk == NULL) {
		range->released = !range->graph_memory;
		if (range->graph_memory)
			graph_memory_set_live(range, false);
		return CUDA_SUCCESS;
	}
	mark = mark_new();
	mark_resolve(mark, time_now());
	block_release(range, host_point(), mark);
	return CUDA_SUCCESS;
}

bool
pool_is_imported(const struct range *range)
{
	return range->kind == RANGE_IPC && range->pool != NULL;
}

/* ---- in graphs ---------------------------------------------------------- */

/* Allocate separate memory, which nothing but a launch makes usable. */
static CUresult
alloc_node(
    struct stream *stream, struct pool *pool, size_t size, struct range **out)
{
	CUresult code = CUDA_SUCCESS;
	struct range *range;
	struct node *node;

	if (stream->capture->invalidated)
		return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	code = alloc_new(stream->context, size, &range);
	if (code != CUDA_SUCCESS)
		return code;
	node = capture_node(stream, CU_GRAPH_NODE_TYPE_MEM_ALLOC, &code);
	node->range = range;
	range->graph_memory = true;
	range->freed = true;
	range->pool = pool;
	pool->n_graph_ranges++;
	range->phys->device->graph_bytes += range->size;
	graph_memory_hold(range);
	*out = range;
	return CUDA_SUCCESS;
}

void
graph_memory_hold(struct range *range)
{
	if (range != NULL && range->graph_memory)
		range->graph_holds++;
}

void
graph_memory_drop(struct range *range)
{
	if (range == NULL || !range->graph_memory || --range->graph_holds > 0)
		return;
	range->pool->n_graph_ranges--;
	range->phys->device->graph_bytes -= range->size;
	alloc_free(range);
}

/* The driver counts what graphs hold. Here it keeps nothing back, so that there
 * is nothing to trim. */
CUresult
cuDeviceGetGraphMemAttribute(
    CUdevice device, CUgraphMem_attribute attribute, void *value)
{
	CUresult code = gate_enter(E_cuDeviceGetGraphMemAttribute);

	if (code == CUDA_SUCCESS && device_find(device) == NULL)
		code = CUDA_ERROR_INVALID_DEVICE;
	if (code == CUDA_SUCCESS &&
	    (value == NULL ||
		(unsigned)attribute > CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH))
		code = CUDA_ERROR_INVALID_VALUE;
	if (code == CUDA_SUCCESS)
		*(uint64_t *)value = device_find(device)->graph_bytes;
	return gate_leave(code);
}

CUresult
cuDeviceGraphMemTrim(CUdevice device)
{
	CUresult code = gate_enter(E_cuDeviceGraphMemTrim);

	if (code == CUDA_SUCCESS && device_find(device) == NULL)
		code = CUDA_ERROR_INVALID_DEVICE;
	return gate_leave(code);
}

void
graph_memory_set_live(struct range *range, bool live)
{
	bool was = range->graph_live;

	if (was == live)
		return;
	range->graph_live = live;
	if (live)
		graph_memory_hold(range);
	else
		graph_memory_drop(range);
}

/* Add a node that frees the memory, once in each graph. */
static CUresult
free_node(struct stream *stream, struct range *range)
{
	const struct graph *graph = stream->capture->graph;
	CUresult code = CUDA_SUCCESS;
	struct node *node;

	if (!range->graph_memory)
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < graph->n; i++) {
		if (graph->nodes[i]->type == CU_GRAPH_NODE_TYPE_MEM_FREE &&
		    graph->nodes[i]->range == range)
			return CUDA_ERROR_INVALID_VALUE;
	}
	node = capture_node(stream, CU_GRAPH_NODE_TYPE_MEM_FREE, &code);
	if (node == NULL)
		return code;
	node->range = range;
	graph_memory_hold(range);
	return CUDA_SUCCESS;
}

/* ---- calls -------------------------------------------------------------- */

static CUresult
alloc_async(
    CUdeviceptr *address, size_t size, struct pool *pool, CUstream handle)
{
	CUresult code = CUDA_SUCCESS;
	struct stream *stream = stream_for_work(handle, &code);
	struct range *range = NULL;

	if (code != CUDA_SUCCESS)
		return code;
	if (address == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	if (pool == NULL)
		pool = current_pool(stream->context->device);
	if (stream->capture != NULL)
		code = alloc_node(stream, pool, size, &range);
	else
		code = alloc_on(pool, size, stream, &range);
	if (code == CUDA_SUCCESS)
		*address = range->start;
	return code;
}

CUresult
cuMemAllocAsync(CUdeviceptr *address, size_t size, CUstream stream)
{
	CUresult code = gate_enter(E_cuMemAllocAsync);

	if (code == CUDA_SUCCESS)
		code = alloc_async(address, size, NULL, stream);
	return gate_leave(code);
}

struct pool *
pool_find(CUmemoryPool handle, CUresult *why)
{
	struct pool *pool = handle_find(HANDLE_POOL, handle_bits(handle));

	if (pool == NULL)
		*why = CUDA_ERROR_INVALID_VALUE;
	return pool;
}

CUresult
cuMemAllocFromPoolAsync(
    CUdeviceptr *address, size_t size, CUmemoryPool handle, CUstream stream)
{
	CUresult code = gate_enter(E_cuMemAllocFromPoolAsync);
	struct pool *pool = NULL;

	if (code == CUDA_SUCCESS)
		pool = pool_find(handle, &code);
	if (code == CUDA_SUCCESS && pool->imported)
		code = CUDA_ERROR_INVALID_VALUE;
	if (code == CUDA_SUCCESS)
		code = alloc_async(address, size, pool, stream);
	return gate_leave(code);
}

static CUresult
free_async(CUdeviceptr address, CUstream handle)
{
	CUresult code = CUDA_SUCCESS;
	struct stream *stream = stream_for_work(handle, &code);
	struct range *range = memory_find(address);

	if (code != CUDA_SUCCESS)
		return code;
	if (range == NULL || range->start != address)
		return CUDA_ERROR_INVALID_VALUE;
	if (stream->capture != NULL)
		return free_node(stream, range);
	if (range_is_released(range))
		return CUDA_ERROR_INVALID_VALUE;
	if (range->kind == RANGE_POOLED || range->graph_memory)
		return pool_free_on(range, stream);
	if (range->kind != RANGE_ALLOC && !pool_is_imported(range))
		return CUDA_ERROR_INVALID_VALUE;
	/* The caller has ordered the free, which is as good as waiting for the
	 * stream. */
	check_order(range, stream);
	stream_wait(stream);
	if (range->kind == RANGE_ALLOC)
		alloc_free(range);
	else
		ipc_close(range);
	return CUDA_SUCCESS;
}

CUresult
cuMemFreeAsync(CUdeviceptr address, CUstream stream)
{
	CUresult code = gate_enter(E_cuMemFreeAsync);

	if (code == CUDA_SUCCESS && address != 0)
		code = free_async(address, stream);
	return gate_leave(code);
}

enum which { THE_DEFAULT, THE_CURRENT };

static CUresult
range_pool_of(CUmemoryPool *pool, CUdevice ordinal, enum which which)
{
	struct device *device = device_find(ordinal);

	if (pool == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	if (device == NULL)
		return CUDA_ERROR_INVALID_DEVICE;
	*pool = handle_pointer(
	    (which == THE_DEFAULT ? default_pool(device) : current_pool(device))
		->handle);
	return CUDA_SUCCESS;
}

static CUresult
set_pool(CUdevice ordinal, CUmemoryPool handle)
{
	CUresult code = CUDA_SUCCESS;
	struct device *device = device_find(ordinal);
	struct pool *pool;

	if (device == NULL)
		return CUDA_ERROR_INVALID_DEVICE;
	pool = pool_find(handle, &code);
	if (code == CUDA_SUCCESS && (pool->device != device || pool->imported))
		code = CUDA_ERROR_INVALID_VALUE;
	if (code == CUDA_SUCCESS)
		device->pool = pool;
	return code;
}

CUresult
cuDeviceGetDefaultMemPool(CUmemoryPool *pool, CUdevice ordinal)
{
	CUresult code = gate_enter(E_cuDeviceGetDefaultMemPool);

	if (code == CUDA_SUCCESS)
		code = range_pool_of(pool, ordinal, THE_DEFAULT);
	return gate_leave(code);
}

CUresult
cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice ordinal)
{
	CUresult code = gate_enter(E_cuDeviceGetMemPool);

	if (code == CUDA_SUCCESS)
		code = range_pool_of(pool, ordinal, THE_CURRENT);
	return gate_leave(code);
}

CUresult
cuDeviceSetMemPool(CUdevice ordinal, CUmemoryPool handle)
{
	CUresult code = gate_enter(E_cuDeviceSetMemPool);

	if (code == CUDA_SUCCESS)
		code = set_pool(ordinal, handle);
	return gate_leave(code);
}

/* check_pool_location() for pools: only pinned memory of devices is simulated.
 */
static CUresult
check_pool_location(const CUmemLocation *location, CUmemAllocationType type)
{
	if (location == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	if (location->type != CU_MEM_LOCATION_TYPE_DEVICE ||
	    type != CU_MEM_ALLOCATION_TYPE_PINNED)
		return CUDA_ERROR_NOT_SUPPORTED;
	return CUDA_SUCCESS;
}

CUresult
cuMemGetDefaultMemPool(
    CUmemoryPool *pool, CUmemLocation *location, CUmemAllocationType type)
{
	CUresult code = gate_enter(E_cuMemGetDefaultMemPool);

	if (code == CUDA_SUCCESS)
		code = check_pool_location(location, type);
	if (code == CUDA_SUCCESS)
		code = range_pool_of(pool, location->id, THE_DEFAULT);
	return gate_leave(code);
}

CUresult
cuMemGetMemPool(
    CUmemoryPool *pool, CUmemLocation *location, CUmemAllocationType type)
{
	CUresult code = gate_enter(E_cuMemGetMemPool);

	if (code == CUDA_SUCCESS)
		code = check_pool_location(location, type);
	if (code == CUDA_SUCCESS)
		code = range_pool_of(pool, location->id, THE_CURRENT);
	return gate_leave(code);
}

CUresult
cuMemSetMemPool(
    CUmemLocation *location, CUmemAllocationType type, CUmemoryPool pool)
{
	CUresult code = gate_enter(E_cuMemSetMemPool);

	if (code == CUDA_SUCCESS)
		code = check_pool_location(location, type);
	if (code == CUDA_SUCCESS)
		code = set_pool(location->id, pool);
	return gate_leave(code);
}

CUresult
cuMemPoolCreate(CUmemoryPool *out, const CUmemPoolProps *props)
{
	CUresult code = gate_enter(E_cuMemPoolCreate);
	struct pool *pool;

	if (code == CUDA_SUCCESS &&
	    (out == NULL || props == NULL ||
		props->allocType != CU_MEM_ALLOCATION_TYPE_PINNED))
		code = CUDA_ERROR_INVALID_VALUE;
	if (code == CUDA_SUCCESS &&
	    (props->location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
		(props->handleTypes &
		    ~CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) != 0))
		code = CUDA_ERROR_NOT_SUPPORTED;
	if (code == CUDA_SUCCESS && device_find(props->location.id) == NULL)
		code = CUDA_ERROR_INVALID_DEVICE;
	if (code == CUDA_SUCCESS) {
		pool = pool_new(device_find(props->location.id));
		pool->props = *props;
		*out = handle_pointer(pool->handle);
	}
	return gate_leave(code);
}

CUresult
cuMemPoolDestroy(CUmemoryPool handle)
{
	CUresult code = gate_enter(E_cuMemPoolDestroy);
	struct pool *pool = NULL;

	if (code == CUDA_SUCCESS)
		pool = pool_find(handle, &code);
	if (code == CUDA_SUCCESS && pool == pool->device->default_pool)
		code = CUDA_ERROR_INVALID_VALUE;
	if (code != CUDA_SUCCESS)
		return gate_leave(code);
	if (pool->device->pool == pool)
		pool->device->pool = NULL;
	handle_drop(HANDLE_POOL, pool->handle);
	pool->handle = 0;
	pool->destroyed = true;
	trim_pool(pool, 0);
	reap_pools();
	return gate_leave(CUDA_SUCCESS);
}

/* The first three are int, the others have 64 bits. */
static bool
is_int(CUmemPool_attribute attribute)
{
	return attribute <= CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES;
}

static CUresult
set_attribute(struct pool *pool, CUmemPool_attribute attribute, void *value)
{
	uint64_t given;

	if (is_int(attribute)) {
		pool->attributes[attribute] = *(int *)value != 0;
		return CUDA_SUCCESS;
	}
	given = *(cuuint64_t *)value;
	switch (attribute) {
	case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
		pool->attributes[attribute] = given;
		return CUDA_SUCCESS;
	case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
	case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
		/* These can only be reset. */
		if (given != 0)
			return CUDA_ERROR_INVALID_VALUE;
		pool->attributes[attribute] = pool->attributes[attribute - 1];
		return CUDA_SUCCESS;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

CUresult
cuMemPoolSetAttribute(
    CUmemoryPool handle, CUmemPool_attribute attribute, void *value)
{
	CUresult code = gate_enter(E_cuMemPoolSetAttribute);
	struct pool *pool = NULL;

	if (code == CUDA_SUCCESS)
		pool = pool_find(handle, &code);
	if (code == CUDA_SUCCESS &&
	    (value == NULL ||
		(unsigned)attribute - 1 >= CU_MEMPOOL_ATTR_USED_MEM_HIGH))
		code = CUDA_ERROR_INVALID_VALUE;
	if (code == CUDA_SUCCESS)
		code = set_attribute(pool, attribute, value);
	return gate_leave(code);
}

CUresult
cuMemPoolGetAttribute(
    CUmemoryPool handle, CUmemPool_attribute attribute, void *value)
{
	CUresult code = gate_enter(E_cuMemPoolGetAttribute);
	struct pool *pool = NULL;

	if (code == CUDA_SUCCESS)
		pool = pool_find(handle, &code);
	if (code == CUDA_SUCCESS &&
	    (value == NULL ||
		(unsigned)attribute - 1 >= CU_MEMPOOL_ATTR_USED_MEM_HIGH))
		code = CUDA_ERROR_INVALID_VALUE;
	if (code != CUDA_SUCCESS)
		return gate_leave(code);
	if (is_int(attribute))
		*(int *)value = (int)pool->attributes[attribute];
	else
		*(cuuint64_t *)value = pool->attributes[attribute];
	return gate_leave(CUDA_SUCCESS);
}

CUresult
cuMemPoolTrimTo(CUmemoryPool handle, size_t keep)
{
	CUresult code = gate_enter(E_cuMemPoolTrimTo);
	struct pool *pool = NULL;

	if (code == CUDA_SUCCESS)
		pool = pool_find(handle, &code);
	if (code == CUDA_SUCCESS)
		trim_pool(pool, keep);
	return gate_leave(code);
}

static CUresult
set_access(struct pool *pool, const CUmemAccessDesc *access)
{
	uint32_t bit;

	if (access->location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
	    device_find(access->location.id) == NULL)
		return CUDA_ERROR_INVALID_DEVICE;
	bit = 1u << access->location.id;
	/* The pool's own device always has access. */
	if (access->location.id == pool->device->ordinal)
		return access->flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE ?
		    CUDA_SUCCESS :
		    CUDA_ERROR_INVALID_DEVICE;
	pool->can_read &= ~bit;
	pool->can_write &= ~bit;
	if (access->flags != CU_MEM_ACCESS_FLAGS_PROT_NONE)
		pool->can_read |= bit;
	if (access->flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
		pool->can_write |= bit;
	return CUDA_SUCCESS;
}

/* Give the blocks in use the access rights of their pool. */
static void
spread_access(const struct pool *pool)
{
	struct range *range = tree_at_or_after(&sim.memory, 0);

	while (range != NULL) {
		if (range->kind == RANGE_POOLED && range->pool == pool) {
			range->can_read = pool->can_read;
			range->can_write = pool->can_write;
		}
		range =
		    tree_at_or_after(&sim.memory, range->start + range->size);
	}
}

CUresult
cuMemPoolSetAccess(
    CUmemoryPool handle, const CUmemAccessDesc *access, size_t n_access)
{
	CUresult code = gate_enter(E_cuMemPoolSetAccess);
	struct pool *pool = NULL;

	if (code == CUDA_SUCCESS)
		pool = pool_find(handle, &code);
	if (code == CUDA_SUCCESS && access == NULL)
		code = CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < n_access && code == CUDA_SUCCESS; i++)
		code = set_access(pool, &access[i]);
	if (code == CUDA_SUCCESS)
		spread_access(pool);
	return gate_leave(code);
}

CUresult
cuMemPoolGetAccess(
    CUmemAccess_flags *flags, CUmemoryPool handle, CUmemLocation *location)
{
	CUresult code = gate_enter(E_cuMemPoolGetAccess);
	struct pool *pool = NULL;
	uint32_t bit;

	if (code == CUDA_SUCCESS)
		pool = pool_find(handle, &code);
	if (code == CUDA_SUCCESS &&
	    (flags == NULL || location == NULL ||
		location->type != CU_MEM_LOCATION_TYPE_DEVICE ||
		device_find(location->id) == NULL))
		code = CUDA_ERROR_INVALID_VALUE;
	if (code != CUDA_SUCCESS)
		return gate_leave(code);
	bit = 1u << location->id;
	*flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
	if ((pool->can_write & bit) != 0)
		*flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
	else if ((pool->can_read & bit) != 0)
		*flags = CU_MEM_ACCESS_FLAGS_PROT_READ;
	return gate_leave(CUDA_SUCCESS);
}
