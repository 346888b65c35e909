/*
 * <weir/weir.h>, <weir/host.h>: freeing. The thread's latest cache takes the
 * block, or free_found() finds another cache for it, or free_locked() frees it
 * under the lock by release_block(). find_refuse() refuses an address of no
 * block.
 */
#include <weir/host.h>

#include "allocator/account/counters.h"
#include "allocator/allocator.h"
#include "allocator/api/find.h"
#include "allocator/cache/tcache.h"
#include "allocator/memory/arena.h"
#include "allocator/memory/emit.h"
#include "allocator/memory/heap.h"
#include "allocator/memory/lookup.h"
#include "allocator/memory/view.h"
#include "allocator/observe/guard.h"
#include "allocator/private/arenas.h"
#include "allocator/request/reclaim.h"
#include "allocator/request/release.h"
#include "base/os.h"
#include "base/status.h"

/* Call the callbacks for a block that is about to be freed, with the arena's
 * lock released. Returns the block with the lock taken again, or NULL if it is
 * no longer live. */
static struct block *
observe_free(const struct block *block) LEAVES(block->arena->lock)
{
	struct weir_trace trace =
	    emit_trace(block, WEIR_TRACE_MEMORY_DEALLOCATION);

	ASSERT(block_state(block) == BLOCK_ACTIVE);
	lock_leave(&block->arena->lock);
	observe(trace);
	/* The callback may have called weir: look the block up again. */
	history_enter(WEIR_HISTORY_ALL);
	return find_exact_locked(trace.address);
}

/* As find_lock(), for a block that is about to be freed: the caller calls
 * history_leave() afterwards in any case. */
static inline QUICK struct block *
lock_to_free(struct block *block, const void *ptr)
{
	history_enter(WEIR_HISTORY_ALL);
	block = find_lock(block, ptr);
	if (block != NULL && observed(WEIR_TRACE_MEMORY_DEALLOCATION) &&
	    block->arena->traits.is_observed) {
		lock_take_over(&block->arena->lock);
		block = observe_free(block);
	}
	return block;
}

/* Release the lock after a free. An arena without an owner gives back its free
 * memory; one with a limit on unused memory what passes that. */
static inline QUICK void
leave_freed(struct arena *arena) LEAVES(arena->lock)
{
	const struct options *options;
	bool unowned = arena->private.owners == 0;

	if (arena->traits.has_idle_limit && options_get(&options) == WEIR_OK)
		reclaim_tidy(arena, options);
	lock_leave(&arena->lock);
	if (unowned)
		arena_empty(arena);
}

/* Free a block under the arena's lock, into the thread's cache if `keep` is set
 * and the cache takes it. `block` is the guess of a lookup without the lock and
 * may not be at the address; `cache` may be the thread's cache for it. */
static inline QUICK enum weir_status
free_under_lock(void *ptr, struct block *block, struct cache *cache, bool keep)
{
	if (os_forked())
		return WEIR_OK;
	if (__builtin_expect(guard_zone != 0, 0))
		guard_look(ptr, true);
	block = lock_to_free(block, ptr);
	if (block == NULL) {
		history_leave();
		return find_refuse("weir_free", ptr);
	}
	struct arena *arena = block->arena;
	lock_take_over(&arena->lock);
	lock_assert_held(&block->arena->lock);
	ASSERT(block->addr == (CUdeviceptr)(uintptr_t)ptr);
	if (!keep)
		release_with(block, cache);
	else if (!tcache_free_traced(block))
		release_block(block);
	leave_freed(arena);
	history_leave();
	return WEIR_OK;
}

static __attribute__((noinline)) enum weir_status
free_locked(void *ptr, struct block *block, struct cache *cache)
{
	return free_under_lock(ptr, block, cache, false);
}

static __attribute__((noinline)) enum weir_status
free_traced(void *ptr, struct block *block, struct cache *cache)
{
	return free_under_lock(ptr, block, cache, true);
}

static __attribute__((noinline)) enum weir_status
free_kept(void *ptr, struct block *block, struct cache *cache)
{
	return tcache_free_in_its(cache, block) ?
	    WEIR_OK :
	    free_locked(ptr, block, cache);
}

/* Free a block that tcache_free() has found and not taken: it belongs to
 * another cache, is traced, or has stream uses. */
static __attribute__((noinline)) enum weir_status
free_found(void *ptr, struct block *block)
{
	struct cache *cache = tcache_for(block);

	return cache->traced           ? free_traced(ptr, block, cache) :
	    tcache_keeps(cache, block) ? free_kept(ptr, block, cache) :
					 free_locked(ptr, block, cache);
}

static __attribute__((noinline)) enum weir_status
free_large(void *ptr, struct block *block)
{
	return tcache_free_large(tcache_own->last, block) ?
	    WEIR_OK :
	    free_found(ptr, block);
}

/* Free a block in another leaf of the address table than the latest one, or
 * refuse an address of no block. */
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
	if (block == NULL)
		return free_locked(ptr, NULL, &tcache_own->none);
	struct cache *cache = tcache_for(block);
	/* A block with stream uses goes into no cache. */
	return block->pending.uses == NULL && tcache_keeps(cache, block) ?
	    free_kept(ptr, block, cache) :
	    free_locked(ptr, block, cache);
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
host_free_rare(void *ptr)
{
	struct block *block;

	if (ptr == NULL || os_forked() ||
	    (tcache_find_host_leaf(ptr) &&
		tcache_free_host(ptr, &block) == TCACHE_TAKEN))
		return WEIR_OK;
	block = lookup_exact(address(ptr));
	if (block != NULL && !block->arena->traits.is_page_locked &&
	    block_state(block) == BLOCK_ACTIVE)
		return status_set(WEIR_EINVAL,
		    "weir_host_free(%p): it is memory of device %d, not of the "
		    "host",
		    ptr, block->arena->device);
	if (block != NULL && tcache_free_rare(block))
		return WEIR_OK;
	block = find_lock(block, ptr);
	if (block == NULL)
		return find_refuse("weir_host_free", ptr);
	struct arena *arena = block->arena;
	lock_take_over(&arena->lock);
	lock_assert_held(&block->arena->lock);
	release_block(block);
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
allocator_free_done(void *ptr)
{
	if (ptr == NULL || os_forked())
		return WEIR_OK;
	if (__builtin_expect(guard_zone != 0, 0))
		guard_look(ptr, true);
	struct block *block = lock_to_free(lookup_exact(address(ptr)), ptr);
	if (block == NULL) {
		history_leave();
		return find_refuse("weir_free", ptr);
	}
	struct arena *arena = block->arena;
	lock_take_over(&arena->lock);
	lock_assert_held(&block->arena->lock);
	use_clear(&arena->waiting, &block->pending);
	release_block(block);
	leave_freed(arena);
	history_leave();
	return WEIR_OK;
}

/* Move a live block to a stream. All its uses are ordered before this point of
 * the stream. */
static enum weir_status
hand_over(struct block *block, struct stream *stream) HOLDS(block->arena->lock)
{
	struct arena *arena = block->arena;
	struct stream_heap *from = block->pool->owner;
	struct stream_heap *to;

	ASSERT(block_state(block) == BLOCK_ACTIVE);
	lock_assert_held(&arena->lock);
	enum weir_status status = heap_get(arena, stream, &to);
	if (status != WEIR_OK)
		return status;
	/* The steps that can fail come first. WEIR_STREAM_ANY orders nothing: a
	 * block that moves to it keeps its uses, and gets a use of all streams
	 * of the context. */
	if (to == arena->memory.any_heap) {
		status = use_add(&arena->waiting, &block->pending, stream);
		if (status != WEIR_OK)
			return status;
	} else {
		use_clear(&arena->waiting, &block->pending);
		stream_protect(stream);
	}
	struct pool *pool = &to->pool[block->pool->kind];
	if (pool != block->pool) {
		/* First the caches report their counts, which may include this
		 * block. */
		tcache_report_own(arena);
		stats_move_live(block, pool);
		block_move(block, pool);
	}
	lock_assert_held(&from->arena->lock);
	heap_drop_if_done(from);
	return WEIR_OK;
}

static enum weir_status
refuse_device(const void *ptr, int device, weir_stream handle,
    const struct stream *stream)
{
	char name[STREAM_PHRASE];

	return status_set(WEIR_EINVAL,
	    "weir_free_async(%p): the block belongs to device %d, %s to device "
	    "%d",
	    ptr, device, stream_name(handle, name), stream->device);
}

enum weir_status
weir_free_async(void *ptr, weir_stream handle)
{
	struct stream *stream;

	if (tcache_free_on(ptr, handle) || ptr == NULL || os_forked())
		return WEIR_OK;
	struct block *block = lookup_exact(address(ptr));
	if (block == NULL)
		return find_refuse("weir_free_async", ptr);
	/* A default stream is taken to be that of the block's device. */
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
		status = find_refuse("weir_free_async", ptr);
		goto put;
	}
	struct arena *arena = block->arena;
	lock_take_over(&arena->lock);
	lock_assert_held(&block->arena->lock);
	if (!arena->traits.has_streams)
		status = status_set(WEIR_EINVAL,
		    "weir_free_async(%p): host memory belongs to no stream; "
		    "weir_host_record() and weir_host_free() it",
		    ptr);
	else if (stream->device != arena->device)
		status = refuse_device(ptr, arena->device, handle, stream);
	else
		status = hand_over(block, stream);
	if (status == WEIR_OK)
		release_block(block);
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

	/* Only a cache of the named stream may take the block. The key of a
	 * cache that is out of use names no stream. */
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
