/*
 * Memory pools as the program sees them.
 *
 * The driver creates each pool, which costs nothing while it is empty. The
 * driver's handle is the key of weir's record of the pool. The memory comes
 * from weir like all stream-ordered memory, so pools share unused memory and
 * differ only in their counters. The size that a pool reports is the most that
 * was in use since its last trim, as for a pool that caches.
 *
 * weir does not serve every pool. The driver keeps a pool that is shared with
 * other processes, bounded, or not on a device. A pool is returned to the
 * driver when the program restricts its reuse, or gives another device access
 * and weir cannot open its own memory to that device.
 *
 * Note [Opened pools]
 *
 * A graph's copy node that was made for memory of one device refuses memory
 * that more devices may use, and the reverse. So opening a pool must not change
 * the memory of others. A pool that is opened before the program allocates from
 * it gets an arena of its own, and only that is opened. If the program has
 * allocated from it already, or if it is a default pool, all memory of the
 * device that is in no such arena is opened (access.c).
 *
 * The release threshold applies only if the program has set it. The driver's
 * default, 0, would release everything at each synchronisation. Programs use
 * weir to avoid this cost.
 */
#include <stdatomic.h>

#include "allocator/allocator.h"
#include "base/log.h"
#include "base/meta.h"
#include "preload/ends.h"
#include "preload/lock.h"
#include "preload/tuning.h"
#include "streams/capture.h"

/* One pool; the counters are in bytes. */
struct mempool {
	/* Constant. */
	CUmemoryPool handle; /* NULL for a device's default pool */
	int device;

	struct mempool *next; /* in its bucket, or spare; guarded by `lock` */
	size_t blocks;        /* blocks in the table; guarded by `lock` */
	atomic_bool destroyed;
	/* Bits by attribute: the reuse that the program has restricted. */
	atomic_uint reuse_off;
	/* Bits by device: devices that may use this pool but not weir's memory.
	 */
	atomic_ulong peers;
	/* NULL unless other devices may use the pool: Note [Opened pools]. */
	_Atomic(struct arena *) arena;
	atomic_ulong users; /* bits by device: those of the arena */
	atomic_bool threshold_set;
	_Atomic uint64_t threshold;
	_Atomic uint64_t used;
	_Atomic uint64_t used_high;
	_Atomic uint64_t held; /* the most used since the last trim */
	_Atomic uint64_t held_high;
};

/* A block of a pool that is not its device's default pool. */
struct mempool_block {
	struct mempool_block *next;
	struct mempool *pool;
	CUdeviceptr ptr;
};

/* Guards the pools and their blocks. No call is made while it is held. The
 * memory of a pool's record is used again for pools only, so a thread with an
 * old pointer reads another pool's record. */
static struct lock lock = LOCK_INITIALIZER(LOCK_RANK_TABLE);
static struct mempool *pools[POOL_BUCKETS];
static struct mempool *spare;
static struct mempool_block *spare_blocks;
static struct mempool_block *blocks[POOL_BLOCK_BUCKETS];
atomic_size_t mempool_blocks; /* in the table */

static struct mempool defaults[PRELOAD_DEVICES];
static _Atomic(CUmemoryPool) default_handles[PRELOAD_DEVICES];

/* The pool that a device allocates from; NULL is its default pool. `foreign`
 * stands for a pool that weir does not serve. */
static _Atomic(struct mempool *) current[PRELOAD_DEVICES];
static struct mempool foreign;

/* The number of pools with a threshold, including destroyed ones. */
static atomic_uint thresholds;

static bool
device_known(int device)
{
	return device >= 0 && device < PRELOAD_DEVICES;
}

/* ---- Counting ---------------------------------------------------------- */

static uint64_t
granules(size_t bytes)
{
	return (bytes + WEIR_GRANULE - 1) / WEIR_GRANULE * WEIR_GRANULE;
}

static void
raise_high(_Atomic uint64_t *place, uint64_t value)
{
	uint64_t seen = atomic_load_explicit(place, memory_order_relaxed);

	while (
	    seen < value && !atomic_compare_exchange_weak(place, &seen, value))
		;
}

static void
count_up(struct mempool *pool, size_t bytes)
{
	uint64_t n = granules(bytes);
	uint64_t now = atomic_fetch_add(&pool->used, n) + n;

	raise_high(&pool->used_high, now);
	raise_high(&pool->held, now);
	raise_high(&pool->held_high, now);
}

/* Lower the pool's held bytes to `keep`, or to the bytes in use if there are
 * more. True if that changed them. */
static bool
lower_held(struct mempool *pool, uint64_t keep)
{
	uint64_t used = atomic_load(&pool->used);
	uint64_t held = atomic_load(&pool->held);

	if (keep < used)
		keep = used;
	while (held > keep)
		if (atomic_compare_exchange_weak(&pool->held, &held, keep))
			return true;
	return false;
}

static uint64_t
idle_of(const struct mempool *pool)
{
	uint64_t used = atomic_load(&pool->used);
	uint64_t held = atomic_load(&pool->held);

	return held > used ? held - used : 0;
}

/* ---- Finding ----------------------------------------------------------- */

static CUmemoryPool
mempool_default_handle(int device)
{
	CUmemoryPool handle;

	if (!device_known(device))
		return NULL;
	handle = atomic_load(&default_handles[device]);
	if (handle == NULL &&
	    real_driver()->cuDeviceGetDefaultMemPool(&handle, device) ==
		CUDA_SUCCESS)
		atomic_store(&default_handles[device], handle);
	return handle;
}

static struct mempool *
default_of(int device)
{
	return &defaults[device];
}

/* Looked up by address, since the device in a default pool's record is 0. */
static int
pool_device(const struct mempool *pool)
{
	if (pool >= defaults && pool < defaults + PRELOAD_DEVICES)
		return (int)(pool - defaults);
	return pool->device;
}

struct arena *
mempool_arena(const struct mempool *pool)
{
	return atomic_load_explicit(&pool->arena, memory_order_acquire);
}

bool
mempool_is_default(const struct mempool *pool)
{
	return pool == default_of(pool_device(pool));
}

static struct mempool *
find_default(CUmemoryPool handle)
{
	int count = 0;

	if (real_driver()->cuDeviceGetCount(&count) != CUDA_SUCCESS)
		return NULL;
	for (int i = 0; i < count && i < PRELOAD_DEVICES; i++)
		if (mempool_default_handle(i) == handle)
			return default_of(i);
	return NULL;
}

/* The record of a pool; NULL if only the driver serves it. */
static struct mempool *
find_served(CUmemoryPool handle)
{
	struct mempool *pool;

	if (handle == NULL || !gate_admits())
		return NULL;
	preload_lock(&lock);
	pool = pools[hash_bucket_of((uintptr_t)handle, POOL_BUCKETS)];
	while (pool != NULL && pool->handle != handle)
		pool = pool->next;
	preload_unlock(&lock);
	return pool != NULL ? pool : find_default(handle);
}

struct mempool *
mempool_serving(int device, CUmemoryPool handle, bool of_device)
{
	struct mempool *pool;

	if (!device_known(device))
		return NULL;
	if (of_device)
		pool = atomic_load(&current[device]);
	else
		pool = find_served(handle);
	if (of_device && pool == NULL)
		pool = default_of(device);
	if (pool == NULL || pool == &foreign || pool_device(pool) != device ||
	    atomic_load(&pool->destroyed) ||
	    atomic_load(&pool->reuse_off) != 0 ||
	    atomic_load(&pool->peers) != 0)
		return NULL;
	return pool;
}

/* ---- Blocks ------------------------------------------------------------ */

bool
mempool_prepare(struct mempool *pool, struct mempool_block **out)
{
	*out = NULL;
	if (mempool_is_default(pool))
		return true;
	preload_lock(&lock);
	*out = spare_blocks;
	if (*out != NULL)
		spare_blocks = (*out)->next;
	preload_unlock(&lock);
	if (*out == NULL)
		*out = meta_alloc(sizeof(**out));
	if (*out == NULL)
		return false;
	(*out)->pool = pool;
	return true;
}

static void
make_spare(struct mempool_block *block) HOLDS(lock)
{
	block->next = spare_blocks;
	spare_blocks = block;
}

void
mempool_unprepare(struct mempool_block *block)
{
	if (block == NULL)
		return;
	preload_lock(&lock);
	make_spare(block);
	preload_unlock(&lock);
}

static void
insert_block(struct mempool_block *block)
{
	struct mempool_block **at =
	    &blocks[hash_bucket_of((uintptr_t)block->ptr, POOL_BLOCK_BUCKETS)];

	preload_lock(&lock);
	block->next = *at;
	*at = block;
	block->pool->blocks++;
	preload_unlock(&lock);
	atomic_fetch_add(&mempool_blocks, 1);
}

void
mempool_allocated(struct mempool *pool, struct mempool_block *block,
    CUdeviceptr ptr, size_t bytes)
{
	count_up(pool, bytes);
	if (block == NULL)
		return;
	block->ptr = ptr;
	insert_block(block);
}

static struct mempool_block **
record_place_of(CUdeviceptr ptr) HOLDS(lock)
{
	struct mempool_block **at =
	    &blocks[hash_bucket_of((uintptr_t)ptr, POOL_BLOCK_BUCKETS)];

	while (*at != NULL && (*at)->ptr != ptr)
		at = &(*at)->next;
	return at;
}

struct mempool_block *
mempool_take_block(CUdeviceptr ptr)
{
	struct mempool_block **at;
	struct mempool_block *block;

	preload_lock(&lock);
	at = record_place_of(ptr);
	block = *at;
	if (block != NULL)
		*at = block->next;
	preload_unlock(&lock);
	if (block != NULL)
		atomic_fetch_sub(&mempool_blocks, 1);
	return block;
}

void
mempool_put_back(struct mempool_block *block)
{
	if (block == NULL)
		return;
	preload_lock(&lock);
	block->pool->blocks--; /* insert_block() counts it again */
	preload_unlock(&lock);
	insert_block(block);
}

/* Called when a pool has lost a block or its handle: with neither left, its
 * record is spare. */
static void
retire_pool(struct mempool *pool) HOLDS(lock)
{
	if (!atomic_load(&pool->destroyed) || pool->blocks > 0)
		return;
	pool->next = spare;
	spare = pool;
}

void
mempool_freed(struct mempool_block *block, int device, size_t bytes)
{
	struct mempool *pool =
	    block != NULL ? block->pool : default_of(device % PRELOAD_DEVICES);

	atomic_fetch_sub(&pool->used, granules(bytes));
	if (block == NULL)
		return;
	preload_lock(&lock);
	pool->blocks--;
	retire_pool(pool);
	make_spare(block);
	preload_unlock(&lock);
}

CUmemoryPool
mempool_handle_of(CUdeviceptr ptr, int device)
{
	struct mempool_block *block;
	CUmemoryPool handle = NULL;

	preload_lock(&lock);
	block = *record_place_of(ptr);
	if (block != NULL && !atomic_load(&block->pool->destroyed))
		handle = block->pool->handle;
	preload_unlock(&lock);
	return block != NULL ? handle : mempool_default_handle(device);
}

/* ---- Life -------------------------------------------------------------- */

static bool
can_serve(const CUmemPoolProps *props)
{
	return props->allocType == CU_MEM_ALLOCATION_TYPE_PINNED &&
	    props->handleTypes == CU_MEM_HANDLE_TYPE_NONE &&
	    props->location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
	    device_known(props->location.id) && props->maxSize == 0 &&
	    props->usage == 0;
}

static struct mempool *
new_pool(void)
{
	struct mempool *pool;

	preload_lock(&lock);
	pool = spare;
	if (pool != NULL)
		spare = pool->next;
	preload_unlock(&lock);
	return pool != NULL ? pool : meta_alloc(sizeof(*pool));
}

/* Make a record of a new pool. Without memory for it, only the driver serves
 * the pool. */
static void
adopt(CUmemoryPool handle, int device)
{
	struct mempool **at =
	    &pools[hash_bucket_of((uintptr_t)handle, POOL_BUCKETS)];
	struct mempool *pool = new_pool();

	if (pool == NULL)
		return;
	*pool = (struct mempool){ .handle = handle, .device = device };
	preload_lock(&lock);
	pool->next = *at;
	*at = pool;
	preload_unlock(&lock);
}

CUresult
cuMemPoolCreate(CUmemoryPool *out, const CUmemPoolProps *props)
{
	CUresult code;

	report_call(HOOK_cuMemPoolCreate);
	code = REAL(cuMemPoolCreate)(out, props);
	if (code == CUDA_SUCCESS && gate_admits() && can_serve(props))
		adopt(*out, props->location.id);
	return code;
}

static void
drop_arena_of(struct mempool *pool)
{
	struct arena *arena = atomic_exchange(&pool->arena, NULL);

	if (arena == NULL)
		return;
	gate_enter_weir();
	allocator_drop_arena(arena);
	gate_leave_weir();
}

/* The program has destroyed a pool: nothing more is allocated from it, and its
 * blocks live on. */
static void
drop_pool(CUmemoryPool handle)
{
	struct mempool **at =
	    &pools[hash_bucket_of((uintptr_t)handle, POOL_BUCKETS)];
	struct mempool *pool;
	struct mempool *its;

	pool = find_served(handle);
	if (pool != NULL)
		drop_arena_of(pool);
	preload_lock(&lock);
	while (*at != NULL && (*at)->handle != handle)
		at = &(*at)->next;
	pool = *at;
	if (pool != NULL) {
		*at = pool->next;
		its = pool;
		atomic_compare_exchange_strong(
		    &current[pool->device], &its, NULL);
		atomic_store(&pool->destroyed, true);
		retire_pool(pool);
	}
	preload_unlock(&lock);
	gate_changed();
}

CUresult
cuMemPoolDestroy(CUmemoryPool handle)
{
	CUresult code;

	report_call(HOOK_cuMemPoolDestroy);
	code = REAL(cuMemPoolDestroy)(handle);
	if (code == CUDA_SUCCESS && gate_admits())
		drop_pool(handle);
	return code;
}

static CUresult
set_current(CUresult code, int device, CUmemoryPool handle)
{
	struct mempool *pool;

	if (code != CUDA_SUCCESS || !gate_admits() || !device_known(device))
		return code;
	pool = find_served(handle);
	if (pool == NULL)
		pool = &foreign;
	else if (pool == default_of(device))
		pool = NULL;
	atomic_store(&current[device], pool);
	gate_changed();
	return code;
}

CUresult
cuDeviceSetMemPool(CUdevice device, CUmemoryPool handle)
{
	report_call(HOOK_cuDeviceSetMemPool);
	return set_current(
	    REAL(cuDeviceSetMemPool)(device, handle), device, handle);
}

CUresult
cuMemSetMemPool(
    CUmemLocation *location, CUmemAllocationType type, CUmemoryPool handle)
{
	CUresult code;

	report_call(HOOK_cuMemSetMemPool);
	code = REAL(cuMemSetMemPool)(location, type, handle);
	if (code != CUDA_SUCCESS ||
	    location->type != CU_MEM_LOCATION_TYPE_DEVICE ||
	    type != CU_MEM_ALLOCATION_TYPE_PINNED)
		return code;
	return set_current(code, location->id, handle);
}

/* The context of a device has ended, and with it weir's memory there. */
void
mempool_device_ends(int device)
{
	if (!device_known(device))
		return;
	preload_lock(&lock);
	for (int i = 0; i < POOL_BLOCK_BUCKETS; i++) {
		struct mempool_block **at = &blocks[i];

		while (*at != NULL) {
			struct mempool_block *block = *at;

			if (block->pool->device != device) {
				at = &block->next;
				continue;
			}
			*at = block->next;
			atomic_fetch_sub(&mempool_blocks, 1);
			block->pool->blocks--;
			retire_pool(block->pool);
			make_spare(block);
		}
	}
	for (int i = 0; i < POOL_BUCKETS; i++)
		for (struct mempool *p = pools[i]; p != NULL; p = p->next)
			if (p->device == device) {
				/* The driver's pool is open still. */
				if (atomic_exchange(&p->arena, NULL) != NULL)
					atomic_fetch_or(
					    &p->peers, atomic_load(&p->users));
				atomic_store(&p->used, 0);
				atomic_store(&p->held, 0);
			}
	preload_unlock(&lock);
	atomic_store(&default_of(device)->used, 0);
	atomic_store(&default_of(device)->held, 0);
}

/* ---- Trimming ---------------------------------------------------------- */

/* The bytes that the pools of a device may keep unused. */
static uint64_t
idle_of_all(int device)
{
	uint64_t sum = idle_of(default_of(device));

	preload_lock(&lock);
	for (int i = 0; i < POOL_BUCKETS; i++)
		for (struct mempool *p = pools[i]; p != NULL; p = p->next)
			if (p->device == device)
				sum += idle_of(p);
	preload_unlock(&lock);
	return sum;
}

/* Unused memory that is not stream-ordered belongs to no pool. */
static uint64_t
idle_plain(int device)
{
	struct weir_stats stats = { .struct_size = sizeof(stats) };

	if (weir_stats_stream(device, WEIR_STREAM_ANY, &stats) != WEIR_OK)
		return 0;
	/* While the device sleeps live memory is not held. */
	return stats.reserved_bytes.all.current >
		stats.allocated_bytes.all.current ?
	    stats.reserved_bytes.all.current -
		stats.allocated_bytes.all.current :
	    0;
}

/* Free the memory that no pool of the device may keep. This waits for streams,
 * which would break a capture. */
static void
trim(int device)
{
	if (!gate_started() || capture_any())
		return;
	gate_enter_weir();
	weir_trim(device, idle_of_all(device) + idle_plain(device), NULL);
	gate_leave_weir();
}

CUresult
cuMemPoolTrimTo(CUmemoryPool handle, size_t keep_bytes)
{
	struct mempool *pool;
	CUresult code;

	report_call(HOOK_cuMemPoolTrimTo);
	code = REAL(cuMemPoolTrimTo)(handle, keep_bytes);
	if (code != CUDA_SUCCESS)
		return code;
	pool = find_served(handle);
	if (pool == NULL)
		return code;
	lower_held(pool, keep_bytes);
	trim(pool_device(pool));
	return code;
}

static bool
apply_threshold(struct mempool *pool)
{
	return atomic_load(&pool->threshold_set) &&
	    lower_held(pool, atomic_load(&pool->threshold));
}

/* All work in a context of the device is done. */
static void
synchronized(void)
{
	bool lowered;
	int device;

	if (atomic_load(&thresholds) == 0 || !gate_started() ||
	    !gate_context(&device) || !device_known(device))
		return;
	lowered = apply_threshold(default_of(device));
	preload_lock(&lock);
	for (int i = 0; i < POOL_BUCKETS; i++)
		for (struct mempool *p = pools[i]; p != NULL; p = p->next)
			if (p->device == device)
				lowered |= apply_threshold(p);
	preload_unlock(&lock);
	if (lowered)
		trim(device);
}

CUresult
cuCtxSynchronize(void)
{
	CUresult code;

	watch_begin(HOOK_cuCtxSynchronize);
	code = REAL(cuCtxSynchronize)();
	watch_lose_time();
	watch_end(HOOK_cuCtxSynchronize);
	watch_wait();
	if (code == CUDA_SUCCESS) {
		races_waited_all();
		synchronized();
	}
	return code;
}

/* NULL names the current context, too. */
static bool
is_current(CUcontext context)
{
	CUcontext current = NULL;

	return context == NULL ||
	    (gate_started() &&
		real_driver()->cuCtxGetCurrent(&current) == CUDA_SUCCESS &&
		context == current);
}

CUresult
cuCtxSynchronize_v2(CUcontext context)
{
	CUresult code;

	watch_begin(HOOK_cuCtxSynchronize_v2);
	code = REAL(cuCtxSynchronize_v2)(context);
	watch_lose_time();
	watch_end(HOOK_cuCtxSynchronize_v2);
	watch_wait();
	if (code == CUDA_SUCCESS)
		races_waited_all();
	if (code == CUDA_SUCCESS && is_current(context))
		synchronized();
	return code;
}

/* ---- Attributes -------------------------------------------------------- */

/* The driver has accepted the value. */
static void
attribute_set(struct mempool *pool, int attribute, const void *value)
{
	unsigned bit = 1u << attribute;

	switch (attribute) {
	case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
	case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
	case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
		if (*(const int *)value == 0)
			atomic_fetch_or(&pool->reuse_off, bit);
		else
			atomic_fetch_and(&pool->reuse_off, ~bit);
		gate_changed();
		return;
	case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
		atomic_store(&pool->threshold, *(const uint64_t *)value);
		if (!atomic_exchange(&pool->threshold_set, true))
			atomic_fetch_add(&thresholds, 1);
		return;
	case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
		atomic_store(&pool->held_high, atomic_load(&pool->held));
		return;
	case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
		atomic_store(&pool->used_high, atomic_load(&pool->used));
		return;
	default:
		return;
	}
}

CUresult
cuMemPoolSetAttribute(
    CUmemoryPool handle, CUmemPool_attribute attribute, void *value)
{
	struct mempool *pool;
	CUresult code;

	report_call(HOOK_cuMemPoolSetAttribute);
	code = REAL(cuMemPoolSetAttribute)(handle, attribute, value);
	if (code != CUDA_SUCCESS)
		return code;
	pool = find_served(handle);
	if (pool != NULL)
		attribute_set(pool, attribute, value);
	return code;
}

/* A pool grows by pages. */
static uint64_t
pages(uint64_t bytes)
{
	return (bytes + POOL_PAGE - 1) / POOL_PAGE * POOL_PAGE;
}

/* The bytes of weir, to be added to a counter of the driver's pool. The driver
 * counts the memory that it has served itself. */
static uint64_t
weir_share(struct mempool *pool, int attribute)
{
	switch (attribute) {
	case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
		return pages(atomic_load(&pool->held));
	case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
		return pages(atomic_load(&pool->held_high));
	case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
		return atomic_load(&pool->used);
	case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
		return atomic_load(&pool->used_high);
	default:
		return 0;
	}
}

CUresult
cuMemPoolGetAttribute(
    CUmemoryPool handle, CUmemPool_attribute attribute, void *value)
{
	struct mempool *pool;
	CUresult code;

	report_call(HOOK_cuMemPoolGetAttribute);
	code = REAL(cuMemPoolGetAttribute)(handle, attribute, value);
	if (code != CUDA_SUCCESS ||
	    attribute < CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT)
		return code;
	pool = find_served(handle);
	if (pool != NULL)
		*(uint64_t *)value += weir_share(pool, attribute);
	return code;
}

/* ---- Access ------------------------------------------------------------ */

/* The arena of a pool that is about to be opened, made if need be; NULL if its
 * memory is that of the device: Note [Opened pools]. */
static struct arena *
opened_arena(struct mempool *pool)
{
	struct arena *arena = mempool_arena(pool);
	size_t used;

	if (arena != NULL || mempool_is_default(pool) ||
	    !allocator_maps(pool->device))
		return arena;
	preload_lock(&lock);
	used = pool->blocks;
	preload_unlock(&lock);
	if (used > 0 || allocator_make_arena(pool->device, &arena) != WEIR_OK)
		return NULL;
	atomic_store(&pool->arena, arena);
	return arena;
}

/* Let a device use a pool's memory. False: weir cannot. */
static bool
open_to(struct mempool *pool, int user)
{
	struct arena *arena = opened_arena(pool);

	if (arena == NULL)
		return access_grant(pool_device(pool), user);
	if (allocator_open_arena(arena, user) != WEIR_OK) {
		log_write(LOG_WARN,
		    "device %d gets no access to a pool of device %d: %s", user,
		    pool->device, weir_last_error());
		return false;
	}
	atomic_fetch_or(&pool->users, 1ul << user);
	return true;
}

CUresult
cuMemPoolSetAccess(
    CUmemoryPool handle, const CUmemAccessDesc *access, size_t count)
{
	struct mempool *pool;
	CUresult code;

	report_call(HOOK_cuMemPoolSetAccess);
	code = REAL(cuMemPoolSetAccess)(handle, access, count);
	pool = code == CUDA_SUCCESS ? find_served(handle) : NULL;
	for (size_t i = 0; i < count && pool != NULL; i++) {
		const CUmemAccessDesc *one = &access[i];
		unsigned long bit;

		if (one->location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
		    !device_known(one->location.id) ||
		    one->location.id == pool_device(pool))
			continue;
		bit = 1ul << one->location.id;
		if (one->flags == CU_MEM_ACCESS_FLAGS_PROT_NONE) {
			atomic_fetch_and(&pool->peers, ~bit);
			gate_changed();
			continue;
		}
		gate_enter_weir();
		bool granted = open_to(pool, one->location.id);
		gate_leave_weir();
		if (granted)
			continue;
		atomic_fetch_or(&pool->peers, bit);
		gate_changed();
	}
	return code;
}
