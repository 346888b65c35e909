/*
 * <weir/weir.h>: allocating, freeing, recording, asking and trimming. The one
 * path: everything that hands out memory ends in weir_malloc_on(), everything
 * that takes it back in malloc_release().
 */
#include "allocator/api/malloc.h"

#include <stdio.h>

#include <weir/host.h>

#include "allocator/allocator.h"
#include "allocator/cache/budget.h"
#include "allocator/cache/depot.h"
#include "allocator/cache/tcache.h"
#include "allocator/fences/fence.h"
#include "allocator/fences/free.h"
#include "allocator/lifecycle.h"
#include "allocator/memory/arena.h"
#include "allocator/memory/block.h"
#include "allocator/memory/counters.h"
#include "allocator/memory/emit.h"
#include "allocator/memory/lookup.h"
#include "allocator/memory/pool.h"
#include "allocator/memory/segment.h"
#include "allocator/memory/totals.h"
#include "allocator/memory/view.h"
#include "allocator/observe/auto_snapshot.h"
#include "allocator/observe/guard.h"
#include "allocator/private/arenas.h"
#include "allocator/private/route.h"
#include "allocator/request/ladder.h"
#include "allocator/request/oom.h"
#include "allocator/request/reclaim.h"
#include "base/os.h"
#include "base/status.h"
#include "streams/capture.h"

/* How many stretches of addresses one request unmaps for others. */
enum { UNMAPPED_AT_ONCE = 4 };

/* ---- Allocating -------------------------------------------------------- */

static enum weir_status
check_size(size_t size)
{
	if (size == 0)
		return status_set(
		    WEIR_EINVAL, "weir_malloc: the size is 0 bytes");
	if (size > WEIR_SIZE_MAX)
		return status_set(WEIR_EINVAL,
		    "weir_malloc(%zu bytes): more than 1EB "
		    "memory",
		    size);
	return WEIR_OK;
}

/* Count a block that has just been handed out. */
static inline QUICK void
count_malloc(const struct options *options, struct block *block)
{
	struct pool *pool = block->pool;

	stats_malloc(pool, block->size, block->requested);
	block->oversize = block->size >= options->max_split_size;
	if (block->oversize) {
		stats_change1(block->arena, STAT1_oversize_allocations, 1);
		stats_add(&pool->owner->stats.oversize_allocations, 1);
	}
}

void
malloc_count(const struct options *options, struct block *block)
{
	count_malloc(options, block);
}

/* Take a block with guard zones, without a cache. */
static __attribute__((noinline)) enum weir_status
take_guarded(struct pools *pools, const struct options *options, size_t size,
    bool idle, struct block **out)
{
	size_t whole =
	    arena_class(pools->arena, options, size) + 2 * guard_zone;
	struct block *block;

	pools->arena->served++;
	enum weir_status status = idle ?
	    take_idle(pools, options, whole, &block) :
	    take_block(pools, options, whole, &block);
	if (status == WEIR_OK)
		status = guard_cut(options, size, &block);
	if (status != WEIR_OK)
		return status;
	block->requested = size;
	count_malloc(options, block);
	tell_alloc(block);
	*out = block;
	return WEIR_OK;
}

/* A block for the stream; or of no stream, if it is used everywhere. */
static inline QUICK enum weir_status
take(struct pools *pools, const struct options *options, size_t size, bool idle,
    bool everywhere, struct block **out)
{
	struct cache *cache = tcache_come(pools);
	struct block *block = NULL;
	enum weir_status status = WEIR_OK;

	if (guard_is_for(pools->arena))
		return take_guarded(pools, options, size, idle, out);
	tcache_settle(cache);
	pools->arena->served++;
	if (everywhere && !idle)
		block = tcache_take_complete(
		    pools, arena_class(pools->arena, options, size));
	if (block == NULL)
		status = idle ? take_idle(pools, options, size, &block) :
				take_block(pools, options, size, &block);
	if (status != WEIR_OK)
		return status;
	block->requested = size;
	count_malloc(options, block);
	tcache_went_out(cache, block);
	tcache_refill(cache, options, block->size);
	tell_alloc(block);
	*out = block;
	return WEIR_OK;
}

/*
 * A block of no stream is used on every stream: it carries a use of
 * WEIR_STREAM_ANY from the start, so that freeing it needs no memory and
 * follows the rule for all used blocks. The use is made first: once there is a
 * block nothing can fail.
 */
static __attribute__((noinline)) enum weir_status
take_used(struct pools *pools, const struct options *options, size_t size,
    bool idle, struct block **out)
{
	struct waiting *waiting = &pools->arena->waiting;
	struct pending uses = { 0 };
	enum weir_status status = use_add(waiting, &uses, pools->stream);
	if (status == WEIR_OK)
		status = take(pools, options, size, idle, true, out);
	if (status != WEIR_OK) {
		use_clear(waiting, &uses);
		return status;
	}
	use_move(&uses, &(*out)->pending);
	return WEIR_OK;
}

/* Host memory is the host's: no stream uses it but those that are recorded. */
static inline bool
is_used_everywhere(const struct pools *pools)
{
	return pools == pools->arena->any_pools && !arena_is_host(pools->arena);
}

/* Serve a request of a stream whose pools are known. Of a shortage *refused is
 * the stream, a reference, if `refused` is not NULL. */
static enum weir_status
serve(struct pools *pools, const struct options *options, size_t size,
    bool idle, void **out, struct stream **refused)
{
	struct block *block;

	pools->pins++;
	enum weir_status status = is_used_everywhere(pools) ?
	    take_used(pools, options, size, idle, &block) :
	    take(pools, options, size, idle, false, &block);
	pools->pins--;
	if (__builtin_expect(status == WEIR_OK, 1)) {
		*out = (void *)(uintptr_t)block->addr;
		return WEIR_OK;
	}
	if (status == WEIR_ENOMEM && refused != NULL)
		*refused = stream_ref(pools->stream);
	pools_drop_if_done(pools);
	return status;
}

static void
enter(struct arena *arena) ENTERS(arena->lock)
{
	lock_enter(&arena->lock);
	if (waiting_is_due(&arena->waiting) ||
	    waiting_has_glance(&arena->waiting) || arena->ending > 0)
		reclaim_glance(arena);
}

/* Enter the arena for a request that missed its cache. A request of no stream
 * does not poll while there is a complete block of its size. */
static void
enter_for(struct arena *arena, const struct cache *cache,
    const struct options *options, size_t size) ENTERS(arena->lock)
{
	lock_enter(&arena->lock);
	bool due = waiting_is_due(&arena->waiting) &&
	    !(cache->complete &&
		tcache_has_complete(cache, arena_class(arena, options, size)));
	if (due || waiting_has_glance(&arena->waiting) || arena->ending > 0)
		reclaim_glance(arena);
}

static void
leave(struct arena *arena) LEAVES(arena->lock)
{
	/* Unmap memory that was moved elsewhere and is complete by now. */
	if (!list_empty(&arena->left))
		segment_unmap_left(arena, UNMAPPED_AT_ONCE);
	lock_leave(&arena->lock);
}

/* A block of an arena. Takes its lock. */
static enum weir_status
take_from(struct arena *arena, struct stream *stream,
    const struct options *options, size_t size, void **out)
{
	struct pools *pools;
	enum weir_status status;

	if (arena_is_counted(arena) && arena != arena->main)
		tcache_come_elsewhere(arena->main);
	enter(arena);
	if (arena_is_host(arena))
		reclaim_tidy(arena, options);
	if (arena->forgotten)
		status = status_set(WEIR_ECONTEXT,
		    "weir_malloc: device %d has just been reset",
		    arena->device);
	else if (atomic_load(&arena->suspended))
		status = status_set(
		    WEIR_EINVAL, "weir_malloc: the pool is suspended");
	else
		status = pools_get(arena, stream, &pools);
	if (status == WEIR_OK)
		status = serve(pools, options, size, false, out, NULL);
	leave(arena);
	return status;
}

/* Take a free block of another arena that serves requests when memory is short;
 * WEIR_ENOMEM: there is none. */
static enum weir_status
take_from_helpers(struct arena *arena, struct stream *stream,
    const struct options *options, size_t size, void **out)
{
	enum weir_status status = WEIR_ENOMEM;

	for (struct arena *a = arena_next(arena->main);
	     a != NULL && arena == arena->main && status == WEIR_ENOMEM;
	     a = arena_next(a)) {
		struct pools *pools;
		lock_enter(&a->lock);
		if ((arena_flags(a) & ARENA_SERVES_OOM) != 0 && a->owners > 0 &&
		    !atomic_load(&a->suspended) &&
		    pools_get(a, stream, &pools) == WEIR_OK)
			status = serve(pools, options, size, true, out, NULL);
		lock_leave(&a->lock);
	}
	return status;
}

/* Could it be served if no other arena held anything unused? */
static bool
may_fit(const struct arena *arena, size_t rounded)
{
	return rounded <= arena->total_bytes && rounded <= device_limit(arena);
}

/* After a first try: while there is no memory the other arenas of the device
 * give back what they have unused, and it is tried again. */
static enum weir_status
take_hard(struct arena *arena, struct stream *stream,
    const struct options *options, size_t size, enum weir_status status,
    void **out)
{
	size_t rounded = round_up(size, WEIR_GRANULE);

	if (status == WEIR_ENOMEM)
		status = take_from_helpers(arena, stream, options, size, out);
	while (status == WEIR_ENOMEM && may_fit(arena, rounded) &&
	    arena_ask_others(arena, rounded) > 0)
		status = take_from(arena, stream, options, size, out);
	arena_empty_unowned(arena);
	if (status == WEIR_ENOMEM)
		oom_report(arena, stream, size, rounded);
	return status;
}

/* A block of the arena that a route leads to, or of the device's own. */
static enum weir_status
take_routed(struct arena *main, struct stream *stream,
    const struct options *options, size_t size, void **out)
{
	struct arena *arena;
	enum weir_status status = route_find(main, stream, &arena);
	if (status != WEIR_OK)
		return status;
	struct arena *from = arena != NULL ? arena : main;
	status = take_from(from, stream, options, size, out);
	status = take_hard(from, stream, options, size, status, out);
	if (arena != NULL)
		arena_drop(arena);
	return status;
}

/* By a stream's handle. */
static enum weir_status
allocate(int device, weir_stream handle, const struct options *options,
    size_t size, void **out)
{
	struct stream *stream;
	struct arena *arena;
	enum weir_status status = stream_find(device, handle, &stream);
	if (status != WEIR_OK)
		return status;
	status = arena_get(stream->device, &arena);
	if (status == WEIR_OK)
		status = take_routed(arena, stream, options, size, out);
	stream_put(stream);
	return status;
}

enum weir_status
allocator_malloc_in(
    struct arena *arena, size_t size, weir_stream handle, void **out)
{
	const struct options *options;
	struct stream *stream;
	enum weir_status status = check_size(size);
	if (status == WEIR_OK)
		status = options_get(&options);
	if (status == WEIR_OK)
		status = stream_find(arena->device, handle, &stream);
	if (status != WEIR_OK)
		return status;
	history_enter(WEIR_HISTORY_STATE);
	status = take_from(arena, stream, options, size, out);
	status = take_hard(arena, stream, options, size, status, out);
	history_leave();
	if (status == WEIR_OK)
		tell_allocated_at(*out);
	stream_put(stream);
	return status;
}

/* Serve a request by the thread's cache for the stream. False if that cache is
 * out of use, or the stream may be captured. */
static bool
allocate_known(struct cache *cache, const struct options *options, size_t size,
    void **out, enum weir_status *status)
{
	struct stream *refused = NULL;
	struct arena *arena = cache->arena;

	enter_for(arena, cache, options, size);
	bool alive =
	    tcache_is_alive(cache) && !capture_possible(cache->pools->stream);
	if (alive)
		*status =
		    serve(cache->pools, options, size, false, out, &refused);
	leave(arena);
	if (refused != NULL) {
		*status =
		    take_hard(arena, refused, options, size, *status, out);
		stream_put(refused);
	} else {
		arena_empty_unowned(arena);
	}
	return alive;
}

/* Begin what the options ask for, before the stack of the call is taken: a
 * history that begins now has the stack of the first allocation too. */
static enum weir_status
attend_first(const struct options *options)
{
	const struct driver *driver;
	enum weir_status status = driver_get(&driver);

	if (status == WEIR_OK)
		attend_begin(options);
	return status;
}

/* By the arena. `cache` is what the thread has for the stream, or NULL. */
static __attribute__((noinline)) void *
malloc_slow(int device, size_t size, weir_stream stream, struct cache *cache)
{
	const struct options *options;
	void *ptr;
	enum weir_status status = check_size(size);
	if (status == WEIR_OK)
		status = options_get(&options);
	if (status == WEIR_OK && cache == NULL)
		status = attend_first(options);
	if (status != WEIR_OK)
		return NULL;
	history_enter(WEIR_HISTORY_STATE);
	if (cache == NULL ||
	    !allocate_known(cache, options, size, &ptr, &status))
		status = allocate(device, stream, options, size, &ptr);
	history_leave();
	if (status != WEIR_OK)
		return NULL;
	if (__builtin_expect(guard_zone != 0, 0))
		guard_fill(ptr);
	tell_allocated_at(ptr);
	return ptr;
}

static __attribute__((noinline)) void *
malloc_rare(int device, size_t size, weir_stream stream)
{
	struct cache *cache = tcache_find(device, stream);
	void *ptr = cache != NULL && cache->keeps ?
	    tcache_malloc_in(cache, size) :
	    NULL;

	return ptr != NULL ? ptr : malloc_slow(device, size, stream, cache);
}

static __attribute__((noinline)) void *
malloc_large(int device, size_t size, weir_stream stream)
{
	void *ptr;

	if (tcache_malloc_large(device, size, stream, &ptr))
		return ptr;
	return malloc_rare(device, size, stream);
}

static inline QUICK void *
malloc_on(int device, size_t size, weir_stream stream)
{
	void *ptr;

	if (tcache_malloc(device, size, stream, &ptr))
		return ptr;
	return size > TCACHE_BINNED ? malloc_large(device, size, stream) :
				      malloc_rare(device, size, stream);
}

void *
weir_malloc_on(int device, size_t size, weir_stream stream)
{
	return malloc_on(device, size, stream);
}

void *
weir_malloc(size_t size, weir_stream stream)
{
	return malloc_on(WEIR_DEVICE_CURRENT, size, stream);
}

/* For a default stream of the device's primary context: all but the shortest
 * way. */
static __attribute__((noinline)) void *
malloc_primary_rare(int device, size_t size, weir_stream stream)
{
	struct driver_guard guard;
	CUcontext primary;
	void *ptr;

	if (size > TCACHE_BINNED &&
	    tcache_malloc_primary_large(device, size, stream, &ptr))
		return ptr;
	enum weir_status status = device_resolve(device, &device);
	if (status == WEIR_OK)
		status = driver_context(device, &primary);
	if (status != WEIR_OK)
		return NULL;
	struct cache *cache = tcache_find_in(stream, primary);
	ptr = cache != NULL ? tcache_malloc_in(cache, size) : NULL;
	if (ptr != NULL || driver_enter_unrelaxed(primary, &guard) != WEIR_OK)
		return ptr;
	ptr = malloc_rare(device, size, stream);
	driver_leave(&guard);
	return ptr;
}

void *
weir_malloc_primary(int device, size_t size, weir_stream stream)
{
	void *ptr;

	if (!stream_is_default(stream))
		return malloc_on(device, size, stream);
	if (stream == NULL)
		stream = WEIR_STREAM_LEGACY;
	if (tcache_malloc_primary(device, size, stream, &ptr))
		return ptr;
	return malloc_primary_rare(device, size, stream);
}

static __attribute__((noinline)) void *
malloc_cached_rare(size_t size, weir_stream stream, CUcontext context)
{
	struct cache *cache = tcache_find_in(stream, context);

	return cache != NULL ? tcache_malloc_in(cache, size) : NULL;
}

void *
allocator_malloc_cached(
    int device, size_t size, weir_stream stream, CUcontext context)
{
	void *ptr;

	if (tcache_malloc(device, size, stream, &ptr) ||
	    (size > TCACHE_BINNED &&
		tcache_malloc_large(device, size, stream, &ptr)))
		return ptr;
	return malloc_cached_rare(size, stream, context);
}

/* ---- Finding ----------------------------------------------------------- */

static CUdeviceptr
address(const void *ptr)
{
	return (CUdeviceptr)(uintptr_t)ptr;
}

/* Under its arena's lock. */
static bool
is_live(const struct block *block)
{
	return block->segment != NULL && block_state(block) == BLOCK_ACTIVE;
}

/* Is this the live block that holds the address? Under its arena's lock. */
static bool
holds(const struct block *block, CUdeviceptr addr)
{
	return is_live(block) && addr - block->addr < block->size;
}

/* The live block that starts at an address, with its arena's lock taken; or
 * NULL, with none. The first look-up takes no lock: a struct block is never
 * freed, so it is checked again under the lock. */
static inline QUICK struct block *
lock_found(struct block *block, const void *ptr) UNCHECKED
{
	if (block == NULL)
		return NULL;
	struct arena *arena = block->arena;
	lock_enter(&arena->lock);
	if (block->addr == address(ptr) && is_live(block))
		return block;
	lock_leave(&arena->lock);
	return NULL;
}

static struct block *
find_exact_locked(const void *ptr)
{
	return lock_found(lookup_exact(address(ptr)), ptr);
}

/*
 * The live block that holds an address, with its arena's lock taken; or NULL,
 * with none. It is looked up without the lock, and again under it, when it
 * cannot change.
 */
static struct block *
find_locked(const void *ptr) UNCHECKED
{
	struct block *block = find_exact_locked(ptr);

	if (block != NULL) /* mostly */
		return block;
	block = lookup_floor(address(ptr));
	while (block != NULL) {
		struct arena *arena = block->arena;
		lock_enter(&arena->lock);
		struct block *again = lookup_floor(address(ptr));
		if (again == block && holds(block, address(ptr)))
			return block;
		lock_leave(&arena->lock);
		if (again == block)
			return NULL;
		block = again;
	}
	return NULL;
}

bool
allocator_owns(CUdeviceptr addr)
{
	return segment_owner(addr) != NULL;
}

bool
allocator_owns_host(CUdeviceptr addr)
{
	const struct arena *arena = segment_owner(addr);

	return arena != NULL && arena_is_host(arena);
}

bool
allocator_find(const void *ptr, struct allocator_block *out)
{
	struct block *block = lookup_exact(address(ptr));

	if (block == NULL || block_state(block) != BLOCK_ACTIVE)
		return false;
	out->device = block->arena->device;
	out->host = arena_is_host(block->arena);
	out->requested_bytes = block->requested;
	out->of_no_stream = pools_have(block->arena->any_pools, block->pool);
	return true;
}

/* Refuse an address that is in no live block. It may be in a block that was
 * freed, or just past the end of one. */
static enum weir_status
refuse_unused(const char *call, const void *ptr) UNCHECKED
{
	struct block *block = lookup_floor(address(ptr));
	struct arena *arena = block != NULL ? block->arena : NULL;
	bool ours = false;
	bool mapped = false;
	size_t behind = 0; /* bytes of the block that ends there */

	if (arena != NULL) {
		lock_enter(&arena->lock);
		ours = block->segment != NULL &&
		    address(ptr) - block->addr < block->size;
		mapped = ours && block_state(block) != BLOCK_UNMAPPED;
		if (ours && block->addr == address(ptr) &&
		    block->prev != NULL &&
		    block_state(block->prev) == BLOCK_ACTIVE)
			behind = block->prev->size;
		lock_leave(&arena->lock);
	}
	if (!ours)
		return status_set(
		    WEIR_EINVAL, "%s(%p): not allocated by weir", call, ptr);
	if (behind != 0)
		return status_set(WEIR_EINVAL,
		    "%s(%p): freed before, or one past a block: the block of "
		    "%zu bytes before it is allocated",
		    call, ptr, behind);
	return status_set(WEIR_EINVAL,
	    mapped ? "%s(%p): freed before: it lies in memory that is cached" :
		     "%s(%p): freed before: its memory has been given back to "
		     "the driver",
	    call, ptr);
}

/* Say why an address cannot be freed. */
static enum weir_status
refuse(const char *call, const void *ptr) UNCHECKED
{
	struct block *block = find_locked(ptr);

	if (block != NULL) {
		CUdeviceptr base = block->addr;
		size_t size = block->size;
		lock_leave(&block->arena->lock);
		if (base == address(ptr)) /* it was allocated just now */
			return status_set(
			    WEIR_EINVAL, "%s(%p): freed before", call, ptr);
		return status_set(WEIR_EINVAL,
		    "%s(%p): not the start of a block: it is "
		    "%llu bytes into the block of %zu bytes "
		    "at %#llx",
		    call, ptr, (unsigned long long)(address(ptr) - base), size,
		    (unsigned long long)base);
	}
	return refuse_unused(call, ptr);
}

/* ---- Freeing ----------------------------------------------------------- */

static void
count_free(struct block *block)
{
	if (!block->oversize)
		return;
	stats_change1(block->arena, STAT1_oversize_allocations, -1);
	stats_sub(&block->pool->owner->stats.oversize_allocations, 1);
}

/* The block was used elsewhere: it waits for that. */
static void
release_later(struct block *block, uint64_t freed_at)
{
	struct pools *owner = block->pool->owner;

	stats_free_pending(block->pool, block->size);
	block_set_state(block, BLOCK_PENDING);
	block->freed_at = freed_at;
	if (owner->freed_at < freed_at)
		owner->freed_at = freed_at;
	block->pending.bytes = block->size;
	waiting_add(&block->arena->waiting, &block->pending);
}

/* Are all uses of a block by other streams complete? If its stream is captured:
 * are they all ordered before the stream's next work in that capture? */
static bool
is_over(struct block *block, struct position place)
{
	if (__builtin_expect(block->pending.has_past, 0)) {
		use_drop_met(&block->arena->waiting, &block->pending);
		if (block->pending.uses == NULL)
			return true;
	}
	return place.capture != 0 && block->arena->kept > 0 &&
	    use_is_over(
		&block->pending, block->pool->owner->stream, place.capture);
}

/* The end of every free: pending if it was used elsewhere, else free. */
void
malloc_release(struct block *block)
{
	struct pool *pool = block->pool;
	struct cache *cache = tcache_come(pool->owner);

	tcache_settle(cache);
	if (__builtin_expect(block->guarded != GUARD_NONE, 0))
		guard_release(block);
	count_free(block);
	if (block->pending.uses != NULL) {
		struct position place = pools_position(pool->owner);
		if (!is_over(block, place)) {
			tell_free_requested(block);
			release_later(block, place.tick);
			return;
		}
		use_clear(&block->arena->waiting, &block->pending);
	}
	tell_freed(block);
	stats_free(pool, block->size, block->requested);
	tcache_came_in(cache, block);
	block_free(block);
}

/* Call the callbacks for a block that is about to be freed, with the lock left.
 * Returns the block if it is still there, with its arena's lock taken, or NULL.
 */
static struct block *
tell_first(const struct block *block) UNCHECKED
{
	struct weir_trace trace =
	    tell_trace(block, WEIR_TRACE_MEMORY_DEALLOCATION);

	lock_leave(&block->arena->lock);
	observe(trace);
	/* The callback may have called weir: look the block up again. */
	history_enter(WEIR_HISTORY_ALL);
	return find_exact_locked(trace.address);
}

/* As lock_found(), for a block that is to be freed: the caller calls
 * history_leave() afterwards in any case. */
static inline QUICK struct block *
lock_to_free(struct block *block, const void *ptr) UNCHECKED
{
	history_enter(WEIR_HISTORY_ALL);
	block = lock_found(block, ptr);
	return block != NULL && observed(WEIR_TRACE_MEMORY_DEALLOCATION) &&
		!arena_is_host(block->arena) ?
	    tell_first(block) :
	    block;
}

/* Leave the lock after a free. An arena without an owner gives its free memory
 * back; host memory gives back what may not stay unused. */
static inline QUICK void
leave_freed(struct arena *arena) UNCHECKED
{
	const struct options *options;
	bool unowned = arena->owners == 0;

	if (arena_is_host(arena) && options_get(&options) == WEIR_OK)
		reclaim_tidy(arena, options);
	lock_leave(&arena->lock);
	if (unowned)
		arena_empty(arena);
}

/* Free under the arena's lock; with `keep` into the thread's cache, if it takes
 * the block. `block` is only a guess and may not be at the address. */
static inline QUICK enum weir_status
free_locked(struct block *block, void *ptr, bool keep) UNCHECKED
{
	if (__builtin_expect(guard_zone != 0, 0))
		guard_look(ptr, true);
	block = lock_to_free(block, ptr);
	if (block == NULL) {
		history_leave();
		return refuse("weir_free", ptr);
	}
	struct arena *arena = block->arena;
	if (!keep || !tcache_keep(block))
		malloc_release(block);
	leave_freed(arena);
	history_leave();
	return WEIR_OK;
}

static __attribute__((noinline)) enum weir_status
free_traced(void *ptr, struct block *block)
{
	return free_locked(block, ptr, true);
}

/* Free an address whose block did not fit the caches. `block` is the block that
 * is believed to start there, or NULL. */
static __attribute__((noinline)) enum weir_status
free_slow(void *ptr, struct block *block)
{
	return os_forked() ? WEIR_OK : free_locked(block, ptr, false);
}

static __attribute__((noinline)) enum weir_status
free_kept(void *ptr, struct block *block, struct cache *cache)
{
	return tcache_free_in_its(cache, block) ? WEIR_OK :
						  free_slow(ptr, block);
}

/* A block that tcache_free() has found and not taken. */
static __attribute__((noinline)) enum weir_status
free_found(void *ptr, struct block *block)
{
	struct cache *cache = tcache_for(block);

	if (cache->traced)
		return free_traced(ptr, block);
	return cache->keeps ? free_kept(ptr, block, cache) :
			      free_slow(ptr, block);
}

/* A block that is not where the latest one was takes the shortest way too. */
static __attribute__((noinline)) enum weir_status
free_unknown(void *ptr)
{
	struct block *block;
	enum tcache_taken taken = TCACHE_UNKNOWN;

	if (ptr == NULL)
		return WEIR_OK;
	if (tcache_find_leaf(ptr))
		taken = tcache_free(ptr, &block);
	if (taken == TCACHE_TAKEN)
		return WEIR_OK;
	if (taken != TCACHE_UNKNOWN)
		return free_found(ptr, block);
	block = lookup_exact(address(ptr));
	/* One that others have used is no cache's. */
	if (block != NULL && block->pending.uses == NULL &&
	    tcache_free_rare(block))
		return WEIR_OK;
	return free_slow(ptr, block);
}

static __attribute__((noinline)) enum weir_status
free_large(void *ptr, struct block *block)
{
	return tcache_free_large(tcache_own->last, block) ?
	    WEIR_OK :
	    free_found(ptr, block);
}

enum weir_status
weir_free(void *ptr)
{
	struct block *block;

	switch (tcache_free(ptr, &block)) {
	case TCACHE_TAKEN:
		return WEIR_OK;
	case TCACHE_TOO_LARGE:
		return free_large(ptr, block);
	case TCACHE_NOT_TAKEN:
		return free_found(ptr, block);
	default:
		return free_unknown(ptr);
	}
}

static __attribute__((noinline)) enum weir_status
host_free_rare(void *ptr) UNCHECKED
{
	struct block *block;

	if (ptr == NULL || os_forked() ||
	    (tcache_find_host_leaf(ptr) &&
		tcache_free_host(ptr, &block) == TCACHE_TAKEN))
		return WEIR_OK;
	block = lookup_exact(address(ptr));
	if (block != NULL && !arena_is_host(block->arena) &&
	    block_state(block) == BLOCK_ACTIVE)
		return status_set(WEIR_EINVAL,
		    "weir_host_free(%p): it is memory of device %d, not of the "
		    "host",
		    ptr, block->arena->device);
	if (block != NULL && tcache_free_rare(block))
		return WEIR_OK;
	block = lock_found(block, ptr);
	if (block == NULL)
		return refuse("weir_host_free", ptr);
	struct arena *arena = block->arena;
	malloc_release(block);
	leave_freed(arena);
	return WEIR_OK;
}

static __attribute__((noinline)) enum weir_status
host_free_large(void *ptr, struct block *block)
{
	return tcache_free_large(tcache_own->last_host, block) ?
	    WEIR_OK :
	    host_free_rare(ptr);
}

enum weir_status
weir_host_free(void *ptr)
{
	struct block *block;

	switch (tcache_free_host(ptr, &block)) {
	case TCACHE_TAKEN:
		return WEIR_OK;
	case TCACHE_TOO_LARGE:
		return host_free_large(ptr, block);
	default:
		return host_free_rare(ptr);
	}
}

enum weir_status
allocator_free_done(void *ptr) UNCHECKED
{
	if (ptr == NULL || os_forked())
		return WEIR_OK;
	if (__builtin_expect(guard_zone != 0, 0))
		guard_look(ptr, true);
	struct block *block = lock_to_free(lookup_exact(address(ptr)), ptr);
	if (block == NULL) {
		history_leave();
		return refuse("weir_free", ptr);
	}
	struct arena *arena = block->arena;
	use_clear(&arena->waiting, &block->pending);
	malloc_release(block);
	leave_freed(arena);
	history_leave();
	return WEIR_OK;
}

/* Count a live block for another stream. */
static void
count_move(struct block *block, struct pool *to)
{
	struct pool *from = block->pool;

	stats_move(from, to, block->size, block->requested);
	if (block->oversize) {
		stats_sub(&from->owner->stats.oversize_allocations, 1);
		stats_add(&to->owner->stats.oversize_allocations, 1);
	}
}

/* Make a block belong to a stream, where all uses of the block are ordered
 * before this point of the stream. */
static enum weir_status
hand_over(struct block *block, struct stream *stream)
{
	struct arena *arena = block->arena;
	struct pools *from = block->pool->owner;
	struct pools *to;
	enum weir_status status = pools_get(arena, stream, &to);
	if (status != WEIR_OK)
		return status;
	/* Move a block to another stream. WEIR_STREAM_ANY orders nothing: such
	 * a block keeps its uses, and gets one of all streams of the context.
	 * The steps that can fail come first. */
	if (to == arena->any_pools) {
		status = use_add(&arena->waiting, &block->pending, stream);
		if (status != WEIR_OK)
			return status;
	} else {
		use_clear(&arena->waiting, &block->pending);
	}
	struct pool *pool = &to->pool[block->pool->kind];
	if (pool != block->pool) {
		/* Report first: the cache may have counted this block. */
		tcache_tell_news(arena);
		count_move(block, pool);
		block_move(block, pool);
	}
	pools_drop_if_done(from);
	return WEIR_OK;
}

enum weir_status
weir_free_async(void *ptr, weir_stream handle) UNCHECKED
{
	struct stream *stream;

	if (tcache_free_on(ptr, handle) || ptr == NULL || os_forked())
		return WEIR_OK;
	struct block *block = lookup_exact(address(ptr));
	if (block == NULL)
		return refuse("weir_free_async", ptr);
	/* A default stream is that of the block's device. */
	int device = stream_is_default(handle) || handle == WEIR_STREAM_ANY ?
	    block->arena->device :
	    WEIR_DEVICE_CURRENT;
	enum weir_status status = stream_find(device, handle, &stream);
	if (status != WEIR_OK)
		return status;
	if (__builtin_expect(guard_zone != 0, 0))
		guard_look(ptr, stream->device == block->arena->device);
	block = lock_to_free(block, ptr);
	if (block == NULL) {
		status = refuse("weir_free_async", ptr);
		goto put;
	}
	struct arena *arena = block->arena;
	if (arena_is_host(arena))
		status = status_set(WEIR_EINVAL,
		    "weir_free_async(%p): host memory is of no stream; "
		    "weir_host_record() and weir_host_free() it",
		    ptr);
	else if (stream->device != arena->device)
		status = status_set(WEIR_EINVAL,
		    "weir_free_async(%p): the block is of "
		    "device %d, stream %p of device %d",
		    ptr, arena->device, (void *)handle, stream->device);
	else
		status = hand_over(block, stream);
	if (status == WEIR_OK)
		malloc_release(block);
	leave_freed(arena);
put:
	history_leave();
	stream_put(stream);
	return status;
}

static __attribute__((noinline)) bool
free_cached_rare(
    void *ptr, weir_stream stream, CUcontext context, size_t *requested_bytes)
{
	const struct cache *cache = tcache_find_in(stream, context);
	struct block *block = lookup_exact(address(ptr));

	if (cache == NULL || block == NULL)
		return false;
	size_t requested = block->requested;
	if (!tcache_free_in(cache, block))
		return false;
	*requested_bytes = requested;
	return true;
}

bool
allocator_free_cached(
    void *ptr, weir_stream stream, CUcontext context, size_t *requested_bytes)
{
	struct tcache *t = tcache_own;
	struct block *block = tcache_block(&t->nearby, address(ptr));
	struct cache *cache = t->last;

	/* The cache that takes the block must be that of the named stream, or
	 * it is out of use. */
	if (block == NULL ||
	    atomic_load_explicit(&cache->key, memory_order_acquire) != stream)
		return free_cached_rare(ptr, stream, context, requested_bytes);
	size_t requested = block->requested;
	enum tcache_taken taken = tcache_put(cache, block);
	if (taken == TCACHE_NOT_TAKEN ||
	    (taken == TCACHE_TOO_LARGE && !tcache_free_large(cache, block)))
		return free_cached_rare(ptr, stream, context, requested_bytes);
	*requested_bytes = requested;
	return true;
}

/* ---- Recording --------------------------------------------------------- */

/* A call that says where a block is used. */
struct record {
	const char *call;
	bool host; /* host memory only */
	bool past; /* all of the use is queued by now */
};

static enum weir_status
record_use(
    const struct record *record, struct block *block, struct stream *stream)
{
	struct waiting *waiting = &block->arena->waiting;

	return record->past ?
	    use_add_past(waiting, &block->pending, block->size, stream) :
	    use_add(waiting, &block->pending, stream);
}

/* The stream and the first byte of its block are mostly known; false: find
 * out. */
static bool
record_known(const struct record *record, const void *ptr, weir_stream handle,
    enum weir_status *status) UNCHECKED
{
	struct block *block =
	    ptr != NULL && !os_forked() ? find_exact_locked(ptr) : NULL;
	if (block == NULL)
		return false;
	struct arena *arena = block->arena;
	struct stream *stream = record->host == arena_is_host(arena) ?
	    use_known(&arena->waiting, handle) :
	    NULL;
	bool known = stream != NULL && stream != block->pool->owner->stream;
	if (known)
		*status = record_use(record, block, stream);
	lock_leave(&arena->lock);
	return known;
}

static enum weir_status
record(const struct record *record, const void *ptr, weir_stream handle)
    UNCHECKED
{
	struct stream *stream;
	enum weir_status status;

	if (record_known(record, ptr, handle, &status))
		return status;
	if (os_forked())
		return status_set(WEIR_EFORK, "%s: %s", record->call,
		    weir_status_text(WEIR_EFORK));
	status = stream_find(WEIR_DEVICE_CURRENT, handle, &stream);
	if (status != WEIR_OK)
		return status;
	struct block *block = ptr != NULL ? find_locked(ptr) : NULL;
	if (block == NULL) {
		status = status_set(WEIR_EINVAL,
		    "%s(%p): no live block of weir holds this address",
		    record->call, ptr);
		goto put;
	}
	struct arena *arena = block->arena;
	if (record->host && !arena_is_host(arena))
		status = status_set(WEIR_EINVAL,
		    "%s(%p): it is memory of device %d, not of the host",
		    record->call, ptr, arena->device);
	else if (block->pool->owner->stream != stream || arena_is_host(arena))
		status = record_use(record, block, stream);
	lock_leave(&arena->lock);
put:
	stream_put(stream);
	return status;
}

enum weir_status
weir_record_stream(const void *ptr, weir_stream stream)
{
	static const struct record call = { .call = "weir_record_stream" };

	return record(&call, ptr, stream);
}

enum weir_status
weir_record_use(const void *ptr, weir_stream stream)
{
	static const struct record call = { .call = "weir_record_use",
		.past = true };

	return record(&call, ptr, stream);
}

enum weir_status
weir_host_record(const void *ptr, weir_stream stream)
{
	static const struct record call = { .call = "weir_host_record",
		.host = true };

	return record(&call, ptr, stream);
}

/* ---- Asking ------------------------------------------------------------ */

/* The run of mapped blocks around a block. */
static void
describe_run(const struct block *block, struct weir_block_info *info)
{
	const struct block *first = block;
	const struct block *last = block;

	while (first->prev != NULL && block_is_held(first->prev))
		first = first->prev;
	while (last->next != NULL && block_is_held(last->next))
		last = last->next;
	info->segment = (void *)(uintptr_t)first->addr;
	info->segment_size = last->addr + last->size - first->addr;
}

enum weir_status
weir_block_info(const void *ptr, struct weir_block_info *out) UNCHECKED
{
	if (out == NULL || out->struct_size < sizeof(*out))
		return status_set(WEIR_EINVAL,
		    "weir_block_info: out is NULL or its "
		    "struct_size is not set");
	struct block *block =
	    ptr != NULL && !os_forked() ? find_locked(ptr) : NULL;
	if (block == NULL)
		return status_set(WEIR_EINVAL,
		    "weir_block_info(%p): no live block of weir "
		    "holds this address",
		    ptr);
	struct arena *arena = block->arena;
	out->address = (void *)(uintptr_t)block->addr;
	out->size = block->size;
	out->requested_bytes = block->requested;
	out->device = arena->device;
	out->stream = block->pool->owner->stream->handle;
	out->expandable = block->segment->expandable;
	describe_run(block, out);
	lock_leave(&arena->lock);
	return WEIR_OK;
}

enum weir_status
weir_largest_free(int device, weir_stream handle, size_t *bytes)
{
	struct stream *stream;
	size_t largest = 0;

	if (bytes == NULL)
		return status_set(
		    WEIR_EINVAL, "weir_largest_free: bytes is NULL");
	enum weir_status status = stream_find(device, handle, &stream);
	if (status != WEIR_OK)
		return status;
	struct arena *arena = arena_peek(stream->device);
	if (arena != NULL) {
		lock_enter(&arena->lock);
		tcache_drain(arena);
		for (int k = 0; k < POOL_KINDS && stream->pools; k++) {
			struct pools *pools = stream->pools;
			size_t n = pool_largest(&pools->pool[k]);
			largest = n > largest ? n : largest;
		}
		lock_leave(&arena->lock);
	}
	stream_put(stream);
	*bytes = largest;
	return WEIR_OK;
}

static enum weir_status
driver_memory(int device, size_t *free_bytes, size_t *total_bytes)
{
	struct driver_guard guard;
	CUcontext context;
	enum weir_status status = driver_context(device, &context);
	if (status != WEIR_OK)
		return status;
	status = driver_enter(context, &guard);
	if (status != WEIR_OK)
		return status;
	CUresult code = driver_peek()->cuMemGetInfo(free_bytes, total_bytes);
	driver_leave(&guard);
	return driver_status(code, "cuMemGetInfo(device %d)", device);
}

/* Read both at one moment: memory that moved from one to the other in between
 * would count twice. */
static enum weir_status
arena_memory(struct arena *arena, size_t *free_bytes, size_t *total_bytes)
{
	lock_enter(&arena->lock);
	tcache_tell(arena);
	enum weir_status status =
	    driver_memory(arena->device, free_bytes, total_bytes);
	if (status == WEIR_OK) {
		/* Pending blocks count as free: a request waits for them before
		 * it fails. Memory that a job has just given back may still
		 * count as held, so the sum is bounded by the memory that is
		 * not used. */
		size_t used = device_live(arena);
		size_t held = device_reserved(arena);
		if (*total_bytes > device_limit(arena))
			*total_bytes = device_limit(arena);
		size_t room = *total_bytes > used ? *total_bytes - used : 0;
		*free_bytes += held > used ? held - used : 0;
		if (*free_bytes > room)
			*free_bytes = room;
	}
	lock_leave(&arena->lock);
	return status;
}

enum weir_status
weir_memory_info(int device, size_t *free_bytes, size_t *total_bytes)
{
	size_t available;
	size_t total;

	enum weir_status status = device_resolve(device, &device);
	if (status != WEIR_OK)
		return status;
	struct arena *arena = arena_peek(device);
	status = arena != NULL ? arena_memory(arena, &available, &total) :
				 driver_memory(device, &available, &total);
	if (status != WEIR_OK)
		return status;
	if (free_bytes != NULL)
		*free_bytes = available;
	if (total_bytes != NULL)
		*total_bytes = total;
	return WEIR_OK;
}

/* ---- Trimming and limits ----------------------------------------------- */

static size_t
trim_one(int device, size_t keep)
{
	struct arena *main = arena_peek(device);
	size_t sum = main != NULL ? route_tidy(main) : 0;

	if (main != NULL)
		guard_look_at_all(main, NULL);

	for (struct arena *a = main; a != NULL; a = arena_next(a))
		if (!arena_is_host(a))
			sum += reclaim_trim(a, &keep);
	/* And what could not be emptied when its last block was freed. */
	if (main != NULL)
		sum += arena_empty_unowned(main);
	return sum;
}

enum weir_status
weir_trim(int device, size_t keep_bytes, size_t *freed_bytes)
{
	const struct driver *driver;
	size_t sum = 0;
	enum weir_status status = driver_get(&driver);
	if (status != WEIR_OK)
		return status;
	history_enter(WEIR_HISTORY_ALL);
	if (device == WEIR_DEVICE_ALL) {
		for (int i = 0; i < driver->device_count; i++)
			sum += trim_one(i, keep_bytes);
	} else {
		status = device_resolve(device, &device);
		if (status == WEIR_OK)
			sum = trim_one(device, keep_bytes);
	}
	history_leave();
	if (status == WEIR_OK && freed_bytes != NULL)
		*freed_bytes = sum;
	return status;
}

/* The arena of a device that a limit is for; made if need be, so that a limit
 * can be set before the first allocation. */
static enum weir_status
limit_arena(int device, struct arena **out)
{
	enum weir_status status = device_resolve(device, &device);
	if (status != WEIR_OK)
		return status;
	return arena_get(device, out);
}

enum weir_status
weir_limit_set(int device, size_t bytes)
{
	struct arena *arena;
	enum weir_status status = limit_arena(device, &arena);
	if (status != WEIR_OK)
		return status;
	atomic_store(&arena->limit, bytes);
	return WEIR_OK;
}

enum weir_status
weir_limit_get(int device, size_t *bytes)
{
	struct arena *arena;

	if (bytes == NULL)
		return status_set(WEIR_EINVAL, "weir_limit_get: bytes is NULL");
	enum weir_status status = limit_arena(device, &arena);
	if (status != WEIR_OK)
		return status;
	*bytes = atomic_load(&arena->limit);
	return WEIR_OK;
}

enum weir_status
weir_fraction_set(int device, double fraction)
{
	struct arena *arena;

	if (!(fraction >= 0 && fraction <= 1))
		return status_set(WEIR_EINVAL,
		    "invalid fraction:%g. Please set within "
		    "[0, 1].",
		    fraction);
	enum weir_status status = limit_arena(device, &arena);
	if (status != WEIR_OK)
		return status;
	if (fraction == 1)
		return weir_limit_set(arena->device, SIZE_MAX);
	return weir_limit_set(
	    arena->device, (size_t)(fraction * (double)arena->total_bytes));
}

enum weir_status
weir_fraction_get(int device, double *fraction)
{
	struct arena *arena;
	size_t limit;

	if (fraction == NULL)
		return status_set(
		    WEIR_EINVAL, "weir_fraction_get: fraction is NULL");
	enum weir_status status = limit_arena(device, &arena);
	if (status != WEIR_OK)
		return status;
	status = weir_limit_get(arena->device, &limit);
	if (status != WEIR_OK)
		return status;
	*fraction = limit == SIZE_MAX ?
	    1.0 :
	    (double)limit / (double)arena->total_bytes;
	return WEIR_OK;
}

enum weir_status
weir_init(void)
{
	const struct options *options;
	const struct driver *driver;
	enum weir_status status = options_get(&options);
	if (status != WEIR_OK)
		return status;
	return driver_get(&driver);
}
