/*
 * <weir/weir.h>: allocating. The thread's cache serves a request, or
 * allocate_known() by the cache's heap, or allocate_from() by the stream's
 * handle.
 */
#include "allocator/account/counters.h"
#include "allocator/account/totals.h"
#include "allocator/allocator.h"
#include "allocator/api/tuning.h"
#include "allocator/cache/budget.h"
#include "allocator/cache/tcache.h"
#include "allocator/lend/ask.h"
#include "allocator/lifecycle.h"
#include "allocator/memory/arena.h"
#include "allocator/memory/emit.h"
#include "allocator/memory/heap.h"
#include "allocator/memory/segment.h"
#include "allocator/observe/auto_snapshot.h"
#include "allocator/observe/guard.h"
#include "allocator/observe/startup.h"
#include "allocator/private/arenas.h"
#include "allocator/private/route.h"
#include "allocator/private/sleeping.h"
#include "allocator/private/suspension.h"
#include "allocator/request/ladder.h"
#include "allocator/request/oom.h"
#include "allocator/request/reclaim.h"
#include "base/os.h"
#include "base/status.h"
#include "streams/capture.h"

/* ---- By the arena ------------------------------------------------------ */

static __attribute__((noinline)) enum weir_status
refuse_size(size_t size)
{
	if (size == 0)
		return status_set(
		    WEIR_EINVAL, "weir_malloc: the size is 0 bytes");
	return status_set(
	    WEIR_EINVAL, "weir_malloc(%zu bytes): more than 1EB memory", size);
}

static inline enum weir_status
check_size(size_t size)
{
	return size - 1 < WEIR_SIZE_MAX ? WEIR_OK : refuse_size(size);
}

/* Allocate a block with guard zones, without a cache. */
static __attribute__((noinline)) enum weir_status
allocate_guarded(struct stream_heap *heap, const struct options *options,
    size_t size, bool idle, struct block **out)
{
	size_t whole = arena_class(heap->arena, options, size) + 2 * guard_zone;
	struct block *block;

	ASSERT(guard_is_for(heap->arena) && size > 0);
	lock_assert_held(&heap->arena->lock);
	tcache_count_served(heap->arena, 1);
	enum weir_status status = idle ?
	    ladder_allocate_idle(heap, options, whole, &block) :
	    ladder_allocate(
		heap, options, whole, heap_is_device_scope(heap), &block);
	if (status == WEIR_OK)
		status = guard_cut(options, size, &block);
	if (status != WEIR_OK)
		return status;
	block->requested = size;
	lock_assert_held(&block->arena->lock);
	stats_hand_out(options, block);
	emit_alloc(block);
	*out = block;
	return WEIR_OK;
}

/* Where the request looks for a block. */
enum where {
	ANYWHERE,
	KEPT_FIRST, /* first in the thread's complete memory */
	IDLE        /* only in free memory that is usable at once */
};

/* Allocate a block for the heap's stream. `cache` is the thread's cache for the
 * heap, if it has one. */
static inline QUICK enum weir_status
allocate_block(struct stream_heap *heap, struct cache *cache,
    const struct options *options, size_t size, enum where where,
    struct block **out) HOLDS(heap->arena->lock)
{
	struct block *block = NULL;
	enum weir_status status = WEIR_OK;

	ASSERT(size > 0);
	cache = tcache_enter_slow(heap, cache);
	if (guard_is_for(heap->arena))
		return allocate_guarded(
		    heap, options, size, where == IDLE, out);
	tcache_flush(cache);
	tcache_count_served(heap->arena, 1);
	if (where == KEPT_FIRST)
		block = tcache_take_complete(
		    heap, arena_class(heap->arena, options, size));
	if (block == NULL)
		status = where == IDLE ?
		    ladder_allocate_idle(heap, options, size, &block) :
		    ladder_allocate(
			heap, options, size, where == KEPT_FIRST, &block);
	if (status != WEIR_OK)
		return status;
	block->requested = size;
	lock_assert_held(&block->arena->lock);
	stats_hand_out(options, block);
	tcache_account_alloc(cache, block);
	tcache_refill(cache, options, block->size);
	emit_alloc(block);
	*out = block;
	return WEIR_OK;
}

/*
 * Allocate a device-scope block. Every stream may use such a block, so it has a
 * use of WEIR_STREAM_ANY from the start. Its free then needs no host memory and
 * follows the rule for all blocks with uses. The use is made first, because
 * nothing can fail once there is a block.
 */
static __attribute__((noinline)) enum weir_status
allocate_device_scope(struct stream_heap *heap, struct cache *cache,
    const struct options *options, size_t size, bool idle, struct block **out)
{
	ASSERT(heap == heap->arena->memory.any_heap && size > 0);
	struct waiting *waiting = &heap->arena->waiting;
	struct pending uses = { 0 };
	enum weir_status status = use_add(waiting, &uses, heap->stream);
	if (status == WEIR_OK) {
		lock_assert_held(&heap->arena->lock);
		status = allocate_block(
		    heap, cache, options, size, idle ? IDLE : KEPT_FIRST, out);
	}
	if (status != WEIR_OK) {
		use_clear(waiting, &uses);
		return status;
	}
	use_move(&uses, &(*out)->pending);
	return WEIR_OK;
}

/* Serve a request of a stream by its heap. `cache` is the thread's cache for
 * the heap, if it has one. */
static inline QUICK enum weir_status
serve_heap(struct stream_heap *heap, struct cache *cache,
    const struct options *options, size_t size, bool idle, void **out)
    HOLDS(heap->arena->lock)
{
	struct block *block;

	ASSERT(size > 0);
	heap->pins++;
	enum weir_status status = heap_is_device_scope(heap) ?
	    allocate_device_scope(heap, cache, options, size, idle, &block) :
	    allocate_block(
		heap, cache, options, size, idle ? IDLE : ANYWHERE, &block);
	heap->pins--;
	if (__builtin_expect(status == WEIR_OK, 1))
		*out = (void *)(uintptr_t)block->addr;
	return status;
}

/* Serve a request of a stream; finds its heap, or makes it. */
static __attribute__((noinline)) enum weir_status
serve_stream(struct arena *arena, struct stream *stream,
    const struct options *options, size_t size, bool idle, void **out)
    HOLDS(arena->lock)
{
	ASSERT(stream->device == arena->device);
	struct stream_heap *heap;
	enum weir_status status = heap_get(arena, stream, &heap);
	if (status != WEIR_OK)
		return status;
	lock_assert_held(&heap->arena->lock);
	status = serve_heap(heap, tcache_of(heap), options, size, idle, out);
	if (status != WEIR_OK)
		heap_drop_if_done(heap);
	return status;
}

static void
enter_arena(struct arena *arena) ENTERS(arena->lock)
{
	lock_enter(&arena->lock);
	if (waiting_is_due(&arena->waiting) ||
	    waiting_has_glance(&arena->waiting) || arena->memory.ending > 0)
		reclaim_glance(arena);
}

/* Take the lock for a request that missed its cache, and poll what is due. A
 * device-scope request does not poll pending blocks while the cache has a
 * complete block of its size. */
static void
enter_for(struct arena *arena, const struct cache *cache,
    const struct options *options, size_t size) ENTERS(arena->lock)
{
	lock_enter(&arena->lock);
	if (arena->waiting.count == 0 && arena->memory.ending == 0)
		return;
	bool due = waiting_is_due(&arena->waiting) &&
	    !(cache->complete &&
		tcache_has_complete(cache, arena_class(arena, options, size)));
	if (due || waiting_has_glance(&arena->waiting) ||
	    arena->memory.ending > 0)
		reclaim_glance(arena);
}

static void
leave_arena(struct arena *arena) LEAVES(arena->lock)
{
	/* Unmap VACATED blocks whose old work is done. */
	if (!list_empty(&arena->memory.vacated))
		segment_unmap_vacated(arena, UNMAPPED_AT_ONCE);
	lock_leave(&arena->lock);
}

/* Is the request to wait until its device is awake? A request that has begun
 * before the device was put to sleep finds its arena suspended. */
static bool
is_put_off(struct arena *arena)
{
	return arena_is_counted(arena) && sleeping_is(arena->device) &&
	    (!arena_is_suspended(arena) || arena->private.suspension.sleeps);
}

/* Serve a request of a stream from an arena. Takes its lock. */
static enum weir_status
allocate_from(struct arena *arena, struct stream *stream,
    const struct options *options, size_t size, void **out)
{
	enum weir_status status;

	ASSERT(stream->device == arena->device);
	if (arena_is_counted(arena) && arena != arena->main)
		tcache_enter_elsewhere(arena->main);
	enter_arena(arena);
	while (__builtin_expect(is_put_off(arena), 0)) {
		leave_arena(arena);
		status = sleeping_wait(arena->device, "weir_malloc");
		if (status != WEIR_OK)
			return status;
		enter_arena(arena);
	}
	if (arena->traits.has_idle_limit)
		reclaim_tidy(arena, options);
	if (arena->memory.forgotten)
		status = status_set(WEIR_ECONTEXT,
		    "weir_malloc: device %d has just been reset",
		    arena->device);
	else if (arena_is_suspended(arena))
		status = status_set(
		    WEIR_EINVAL, "weir_malloc: the pool is suspended");
	else
		status = serve_stream(arena, stream, options, size, false, out);
	leave_arena(arena);
	return status;
}

/* Allocate from free memory of another arena that serves requests when memory
 * is short. WEIR_ENOMEM: there is none. */
static enum weir_status
allocate_from_helpers(struct arena *arena, struct stream *stream,
    const struct options *options, size_t size, void **out)
{
	enum weir_status status = WEIR_ENOMEM;

	for (struct arena *a = arena_next(arena->main);
	     a != NULL && arena == arena->main && status == WEIR_ENOMEM;
	     a = arena_next(a)) {
		lock_enter(&a->lock);
		if ((arena_flags(a) & ARENA_SERVES_OOM) != 0 &&
		    a->private.owners > 0 && !arena_is_suspended(a))
			status =
			    serve_stream(a, stream, options, size, true, out);
		lock_leave(&a->lock);
	}
	return status;
}

/* Could the request be served if no other arena held unused memory? */
static bool
may_fit(const struct arena *arena, size_t rounded)
{
	return rounded <= arena->account.total_bytes &&
	    rounded <= device_limit(arena);
}

/* Write the snapshot of a failure; the thread keeps the status, which is the
 * report. */
static void
write_oom_snapshot(void)
{
	status_mute();
	auto_snapshot_oom();
	status_unmute();
}

/* Go on with a request after its first try, which ended with `status`. While
 * memory is short, make the other arenas of the device give back unused memory,
 * then other processes of the group, and try again. */
static enum weir_status
allocate_hard(struct arena *arena, struct stream *stream,
    const struct options *options, size_t size, enum weir_status status,
    void **out)
{
	size_t rounded = round_up(size, WEIR_GRANULE);
	struct help help = { 0 };

	ASSERT(size > 0);
	/* A device that could not wake has asked for its memory already. */
	bool asleep = arena_is_counted(arena) && sleeping_is(arena->device);

	if (status == WEIR_ENOMEM && !asleep)
		status =
		    allocate_from_helpers(arena, stream, options, size, out);
	while (status == WEIR_ENOMEM && !asleep && may_fit(arena, rounded) &&
	    (arena_ask_others(arena, rounded) > 0 ||
		help_request(&help, arena, rounded)))
		status = allocate_from(arena, stream, options, size, out);
	help_end(&help, arena);
	arena_empty_unowned(arena);
	if (status == WEIR_ENOMEM) {
		oom_report(arena, stream, size, rounded);
		if (arena->traits.is_observed)
			write_oom_snapshot();
	}
	return status;
}

/* Serve a request from the arena that a route leads to, or from the device's
 * own. */
static enum weir_status
allocate_routed(struct arena *main, struct stream *stream,
    const struct options *options, size_t size, void **out)
{
	ASSERT(main == main->main);
	struct arena *arena;
	enum weir_status status = route_find(main, stream, &arena);
	if (status != WEIR_OK)
		return status;
	struct arena *from = arena != NULL ? arena : main;
	status = allocate_from(from, stream, options, size, out);
	if (__builtin_expect(status != WEIR_OK, 0))
		status =
		    allocate_hard(from, stream, options, size, status, out);
	else
		arena_empty_unowned(from);
	if (arena != NULL)
		arena_drop(arena);
	return status;
}

/* Serve a request by the stream's handle. */
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
		status = allocate_routed(arena, stream, options, size, out);
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
	status = allocate_from(arena, stream, options, size, out);
	status = allocate_hard(arena, stream, options, size, status, out);
	history_leave();
	if (status == WEIR_OK)
		emit_allocated_at(*out);
	stream_put(stream);
	return status;
}

/* Serve a request by the heap of the thread's cache. False if the cache is out
 * of use or the stream may be captured. */
static inline bool
allocate_known(struct cache *cache, const struct options *options, size_t size,
    void **out, enum weir_status *status)
{
	struct stream *refused = NULL;
	struct arena *arena = cache->arena;

	ASSERT(size > 0);
	enter_for(arena, cache, options, size);
	struct stream_heap *heap = cache->heap;
	bool alive = tcache_is_alive(cache) && !capture_possible(heap->stream);
	if (alive) {
		lock_assert_held(&heap->arena->lock);
		*status = serve_heap(heap, cache, options, size, false, out);
		if (__builtin_expect(*status != WEIR_OK, 0)) {
			if (*status == WEIR_ENOMEM)
				refused = stream_ref(heap->stream);
			heap_drop_if_done(heap);
		}
	}
	leave_arena(arena);
	if (refused != NULL) {
		*status =
		    allocate_hard(arena, refused, options, size, *status, out);
		stream_put(refused);
	} else {
		arena_empty_unowned(arena);
	}
	return alive;
}

/* Begin the history and snapshots that the options ask for. This comes before
 * the call's stack is recorded, so that the history has the stack of the first
 * allocation too. */
static enum weir_status
begin_startup(const struct options *options)
{
	const struct driver *driver;
	enum weir_status status = driver_get(&driver);

	if (status == WEIR_OK)
		startup_begin(options);
	return status;
}

/* Serve a request by the arena. `cache` is the thread's cache for the stream,
 * or NULL. */
static __attribute__((noinline)) void *
malloc_slow(int device, size_t size, weir_stream stream, struct cache *cache)
{
	const struct options *options;
	void *ptr;
	if (os_forked()) {
		status_forked("weir_malloc");
		return NULL;
	}
	enum weir_status status = check_size(size);
	if (status == WEIR_OK)
		status = options_get(&options);
	if (status == WEIR_OK && cache == NULL && !auto_snapshot_has_begun())
		status = begin_startup(options);
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
	emit_allocated_at(ptr);
	return ptr;
}

/* ---- By the thread's cache ---------------------------------------------- */

static __attribute__((noinline)) void *
malloc_kept(int device, size_t size, weir_stream stream, struct cache *cache)
{
	void *ptr = tcache_malloc_in(cache, size);

	return ptr != NULL ? ptr : malloc_slow(device, size, stream, cache);
}

/* Serve a request by the thread's cache for the stream, which may be NULL. */
static inline QUICK void *
malloc_with(int device, size_t size, weir_stream stream, struct cache *cache)
{
	return cache != NULL && cache->keeps ?
	    malloc_kept(device, size, stream, cache) :
	    malloc_slow(device, size, stream, cache);
}

/* Serve a request for a default stream; the cache is for that of one
 * context. */
static __attribute__((noinline)) void *
malloc_default(int device, size_t size, weir_stream stream, struct cache *cache)
{
	return malloc_with(
	    device, size, stream, tcache_is_current(cache) ? cache : NULL);
}

static __attribute__((noinline)) void *
malloc_rare(int device, size_t size, weir_stream stream)
{
	struct cache *cache = tcache_find(device, stream);

	return cache != NULL && cache->context != NULL ?
	    malloc_default(device, size, stream, cache) :
	    malloc_with(device, size, stream, cache);
}

static __attribute__((noinline)) void *
malloc_large(int device, size_t size, weir_stream stream)
{
	void *ptr;

	if (tcache_malloc_large(device, size, stream, &ptr))
		return ptr;
	return malloc_rare(device, size, stream);
}

/* Serve a request that the latest cache's small blocks cannot. */
static inline QUICK void *
malloc_other(int device, size_t size, weir_stream stream)
{
	return size > TCACHE_BINNED ? malloc_large(device, size, stream) :
				      malloc_rare(device, size, stream);
}

static inline QUICK void *
malloc_on(int device, size_t size, weir_stream stream)
{
	void *ptr;

	if (tcache_malloc(device, size, stream, &ptr))
		return ptr;
	return malloc_other(device, size, stream);
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

/* Serve a request for a default stream of the device's primary context, if the
 * latest cache cannot. */
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

void *
allocator_malloc_for_driver(int device, size_t size, weir_stream stream)
{
	void *ptr;

	/* A cache has no memory of a route's. */
	if (tcache_malloc(device, size, stream, &ptr))
		return ptr;
	route_driver_begin();
	ptr = malloc_other(device, size, stream);
	route_driver_end();
	return ptr;
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
