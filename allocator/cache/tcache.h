/*
 * Thread caches: blocks that a thread has freed and will probably allocate
 * again.
 *
 * Each thread has a cache for each stream that it allocates on. Cached blocks
 * are free memory of that stream: statistics count them as free, and any thread
 * that finds no memory takes them back.
 *
 * Note [Stopping a cache]
 *
 * The owner works on its cache with no lock and no atomic read-modify-write. It
 * raises `busy`, looks at `wanted`, and stays out if that is set. A thread that
 * stops the cache holds the arena's lock. It sets `wanted`, makes every running
 * thread of the process pass a memory barrier (membarrier(2); without that call
 * the owner has a barrier of its own), and waits until `busy` is down. From
 * then on the cache belongs to it, until it clears `wanted`. This is Dekker's
 * handshake. An owner that is kept out takes the slow path, under the arena's
 * lock.
 *
 * `key` and `key_pool` name the stream whose requests, and the pool whose
 * blocks, the cache takes on the hit paths. They are empty while the cache is
 * wanted, so the hit paths look at them instead of `wanted`.
 *
 * Note [What is in use stays]
 *
 * A request that its pool cannot serve drains caches. It first takes all blocks
 * that its own thread has cached, also in depots that no other thread uses, and
 * the larger blocks of all threads. From other bins and depots it takes only
 * idle blocks, which were not used since the last inspection: the bins of a
 * cache that has counted nothing, and as many magazines as a depot has held all
 * the time. A large request drains caches of other streams only under memory
 * pressure: policy.h, Note [Wait or grow]. Blocks in use stay, because their
 * threads would need them at once and bring them back one by one. Threads that
 * hand memory to each other would otherwise take it from each other for ever,
 * while a little new memory, once, ends that. If no new memory can be had, the
 * program prefers memory to speed, or the host waits briefly for a request, all
 * caches are drained into the pools.
 *
 * An inspection stops all threads that have a cache, and soon after an
 * inspection every cache seems unused. Therefore small requests, of which there
 * may be many, make one only after the pools have served a number of requests
 * for each cache. In between they drain only their own thread's caches.
 *
 * If a thread gets memory that other threads free, and still comes to the pool
 * for a class again and again, it gets more blocks than it asks for, up to a
 * magazine.
 *
 * Note [Places]
 *
 * A thread finds a cache at a place of its two tables, and streams may share a
 * place: of 16 streams some mostly do. If a stream without a cache took the
 * place at once, two streams that are used in turn would take it from each
 * other for ever, and an exchange costs more than a request: the blocks of the
 * cache go to the pool, and its bins are freed. So a cache keeps its place, and
 * the pools serve the requests of the other streams. Each of these is a claim
 * to the place, and the cache loses it after CLAIMS of them in which it was not
 * used: the thread has turned to another stream. Among many
 * streams (arena_has_many_streams()) its thread may not come back for long.
 * Therefore an idle cache (budget.h) gives its larger blocks to the pool there.
 *
 * Note [Complete memory]
 *
 * A device-scope block that was freed and is found complete will probably be
 * requested again in exactly its size. Therefore a thread that polls keeps such
 * blocks whole in the slots of a cache of its own. They are neither merged nor
 * split until a request of another size finds nothing in the pool. This cache
 * is used under the arena's lock only, which each free of such a block needs
 * anyhow for its stream uses. None of the other notes here applies to it.
 *
 * Note [From thread to thread]
 *
 * A magazine is an array of pointers and moves as a whole, through the depot of
 * its stream, so that neither side walks the blocks. Each block is touched once
 * by the thread that frees it and once by the thread that gets it, in one cache
 * line of the processor. A magazine carries the counts of its frees that have
 * not been reported. Without them the second thread would seem to allocate ever
 * more, and to pass a peak with each malloc.
 *
 * Note [Freed twice at once]
 *
 * Two threads that free a block at the same time may both find it allocated and
 * both cache it. To prevent that would need an atomic exchange in each free.
 * Instead a block is checked again when it leaves a cache. The first thread
 * that takes it out changes its state. The second drops its entry, logs an
 * error and takes the free back from the statistics. The block is handed out
 * twice only if both threads take it out within the same few instructions.
 * Under the arena's lock (no thread caches, or traced ones) the second free
 * fails.
 */
#ifndef ALLOCATOR_CACHE_TCACHE_H
#define ALLOCATOR_CACHE_TCACHE_H

#include "allocator/cache/complete.h"
#include "allocator/cache/drain.h"
#include "allocator/cache/make.h"
#include "allocator/cache/own.h"
#include "allocator/cache/refill.h"
#include "allocator/cache/stop.h"
#include "allocator/memory/arena.h"
#include "allocator/memory/block.h"
#include "allocator/memory/lookup.h"
#include "base/os.h"

/* ---- The owner --------------------------------------------------------- */

/* The calling thread's cache for a stream, or for an arena of page-locked
 * memory; or NULL. Its heap may be used only under the arena's lock, and only
 * if the cache is alive then. A cache for a default stream is for that of
 * ->context: the caller asks tcache_is_current(). */
static inline struct cache *tcache_find(int device, weir_stream handle);
struct cache *tcache_find_host(const struct arena *arena);

/* As tcache_find(), if the caller knows that `context` is current for a default
 * stream; `context` is NULL for another stream. NULL also for a traced
 * cache. */
struct cache *tcache_find_in(weir_stream handle, CUcontext context);

/* Make the leaf of an address the thread's latest, so that tcache_free(), or
 * tcache_free_host(), finds the block. False if a retry is of no use: it is the
 * latest already, or no block can start there. */
static inline bool tcache_find_leaf(const void *ptr);
bool tcache_find_host_leaf(const void *ptr);
bool tcache_turn_to_leaf(CUdeviceptr place); /* slow path of the first */

static inline bool
tcache_find_leaf(const void *ptr)
{
	CUdeviceptr place = (CUdeviceptr)(uintptr_t)ptr;

	return lookup_base(place) != tcache_own->nearby.base &&
	    tcache_turn_to_leaf(place);
}

/* Allocate a block of a cache, or free one into it, in the cases that the hit
 * paths below leave out. NULL or false: not done. */
void *tcache_malloc_in(struct cache *cache, size_t size);
static inline bool tcache_free_rare(struct block *block);
bool tcache_free_in_its(struct cache *cache, struct block *block);

static inline bool
tcache_enter(struct cache *cache)
{
	if (__builtin_expect(tcache_asymmetric, 1)) {
		atomic_store_explicit(&cache->busy, 1, memory_order_relaxed);
		atomic_signal_fence(memory_order_seq_cst);
	} else {
		atomic_exchange(&cache->busy, 1);
	}
	if (__builtin_expect(atomic_load(&cache->wanted) == 0, 1))
		return true;
	atomic_store_explicit(&cache->busy, 0, memory_order_release);
	return false;
}

static inline void
tcache_leave(struct cache *cache)
{
	atomic_store_explicit(&cache->busy, 0, memory_order_release);
}

/* Count a block of the large pool, which the cache's other sums count too. */
static inline void
tcache_count_large(struct sums *sums, size_t bytes, size_t requested)
{
	sums->count++;
	sums->bytes += (int64_t)bytes;
	sums->requested += (int64_t)requested;
}

/* The bin of a size class: &bins[rounded / granule] in one shift. */
static inline QUICK struct bin *
tcache_bin_of(struct bin *bins, size_t granule, size_t rounded)
{
	_Static_assert(FINE_GRANULE % sizeof(struct bin) == 0, "one shift");
	size_t offset = rounded / (granule / sizeof(struct bin));

	return (struct bin *)(void *)((char *)bins + offset);
}

static inline QUICK struct bin *
tcache_bin(struct cache *cache, size_t rounded)
{
	return tcache_bin_of(cache->bins, WEIR_GRANULE, rounded);
}

static inline QUICK struct bin *
tcache_fine_bin(struct cache *cache, size_t rounded)
{
	return tcache_bin_of(&cache->bins[TCACHE_FINE], FINE_GRANULE, rounded);
}

/* Is the context of a default stream's cache current? */
bool tcache_is_current(const struct cache *cache);

static inline struct cache *
tcache_find(int device, weir_stream handle)
{
	if (handle == NULL)
		handle = WEIR_STREAM_LEGACY;
	struct cache *cache = tcache_own->by_handle[tcache_way(handle)];
	if (atomic_load_explicit(&cache->handle, memory_order_relaxed) !=
		handle ||
	    (device != cache->device &&
		(device != WEIR_DEVICE_CURRENT || handle == WEIR_STREAM_ANY)))
		return NULL;
	return cache;
}

/* The key of a cache for this heap: the stream's handle; for memory of no
 * stream the address of the arena, which is no stream's handle. */
static inline weir_stream
tcache_key(const struct stream_heap *heap)
{
	return heap->arena->traits.has_streams ? heap->stream->handle :
						 (weir_stream)heap->arena;
}

/* Count a block that is allocated. False, with nothing counted, if that would
 * pass a peak. */
static inline QUICK bool
tcache_count_out(struct cache *cache, int64_t bytes, int64_t requested)
{
	struct sums *budget = &cache->budget;

	if (__builtin_expect(--budget->count < 0, 0))
		goto count;
	if (__builtin_expect((budget->bytes -= bytes) < 0, 0))
		goto bytes;
	if (__builtin_expect((budget->requested -= requested) < 0, 0))
		goto requested;
	cache->out.count++;
	cache->out.bytes += bytes;
	cache->out.requested += requested;
	return true;

	/* The fences keep the compiler from holding the old values in
	 * registers, which would cost the hit path instructions. */
requested:
	atomic_signal_fence(memory_order_seq_cst);
	budget->requested += requested;
bytes:
	atomic_signal_fence(memory_order_seq_cst);
	budget->bytes += bytes;
count:
	atomic_signal_fence(memory_order_seq_cst);
	budget->count++;
	return false;
}

static inline void
tcache_count_in(struct cache *cache, size_t bytes, size_t requested)
{
	cache->budget.count++;
	cache->budget.bytes += (int64_t)bytes;
	cache->budget.requested += (int64_t)requested;
}

/* Allocate a small size from a cache of the calling thread, if the cache is for
 * `key` and has a block of the size. False: not done. This is the hit path.
 *
 * @param fine from a fine pool: the size is below FINE_END
 */
static inline QUICK bool
tcache_take(
    bool fine, struct cache *cache, weir_stream key, size_t size, void **out)
{
	/* 0 bytes, and sizes that overflow, round to 0, whose bin is empty. */
	size_t rounded = round_up(size, fine ? FINE_GRANULE : WEIR_GRANULE);

	if (!fine && __builtin_expect(rounded > TCACHE_BINNED, 0))
		return false;
	atomic_store_explicit(&cache->busy, 1, memory_order_relaxed);
	atomic_signal_fence(memory_order_seq_cst);
	if (__builtin_expect(
		atomic_load_explicit(&cache->key, memory_order_acquire) != key,
		0))
		goto not_this_way;
	struct bin *bin =
	    fine ? tcache_fine_bin(cache, rounded) : tcache_bin(cache, rounded);
	if (__builtin_expect(bin_empty(bin), 0))
		goto not_this_way;
	struct block *block = bin->top[-1];
	/* Note [Freed twice at once]; the slow path drops it. */
	if (__builtin_expect(block_state(block) != BLOCK_CACHED, 0))
		goto not_this_way;
	if (!tcache_count_out(cache, (int64_t)rounded, (int64_t)size))
		goto not_this_way;
	bin->top--;
	block->requested = size;
	block_set_state(block, BLOCK_ACTIVE);
	*out = (void *)(uintptr_t)block->addr;
	tcache_leave(cache);
	return true;

not_this_way:
	tcache_leave(cache);
	return false;
}

/* Allocate the block that was freed last, for a size above the bins', if it has
 * that size. False: not done. */
static inline QUICK bool
tcache_take_large(struct cache *cache, weir_stream key, size_t size, void **out)
{
	size_t rounded = round_up(size, WEIR_GRANULE);

	atomic_store_explicit(&cache->busy, 1, memory_order_relaxed);
	atomic_signal_fence(memory_order_seq_cst);
	if (atomic_load_explicit(&cache->key, memory_order_acquire) != key)
		goto not_this_way;
	/* slot[0] has no size. */
	struct slot *slot = &cache->slot[cache->slots];
	if (slot->size != rounded || rounded == 0)
		goto not_this_way;
	struct block *block = slot->block;
	if (__builtin_expect(block_state(block) != BLOCK_CACHED, 0))
		goto not_this_way;
	if (!tcache_count_out(cache, (int64_t)rounded, (int64_t)size))
		goto not_this_way;
	cache->slots--;
	if (rounded > cache->small_max) {
		tcache_count_large(&cache->large_out, rounded, size);
		cache->owner->large_hits++;
	}
	block->requested = size;
	block_set_state(block, BLOCK_ACTIVE);
	*out = (void *)(uintptr_t)block->addr;
	tcache_leave(cache);
	return true;

not_this_way:
	tcache_leave(cache);
	return false;
}

/* The two hit paths of a malloc on a stream. */
static inline QUICK bool
tcache_malloc(int device, size_t size, weir_stream handle, void **out)
{
	struct cache *cache = tcache_own->by_handle[tcache_way(handle)];

	if (device != WEIR_DEVICE_CURRENT && device != cache->device)
		return false;
	return tcache_take(false, cache, handle, size, out);
}

static inline QUICK bool
tcache_malloc_large(int device, size_t size, weir_stream handle, void **out)
{
	struct cache *cache = tcache_own->by_handle[tcache_way(handle)];

	if (device != WEIR_DEVICE_CURRENT && device != cache->device)
		return false;
	return tcache_take_large(cache, handle, size, out);
}

/* As the two above, for LEGACY or PER_THREAD of the device's primary context,
 * whatever context is current. */
static inline QUICK bool
tcache_malloc_primary(int device, size_t size, weir_stream handle, void **out)
{
	struct cache *cache = tcache_own->by_handle[tcache_way(handle)];

	return device == cache->device &&
	    tcache_take(false, cache, tcache_primary_key(handle), size, out);
}

static inline QUICK bool
tcache_malloc_primary_large(
    int device, size_t size, weir_stream handle, void **out)
{
	struct cache *cache = tcache_own->by_handle[tcache_way(handle)];

	return device == cache->device &&
	    tcache_take_large(cache, tcache_primary_key(handle), size, out);
}

/* The result of a free into a cache; UNKNOWN: tcache_block() finds no block. */
enum tcache_taken {
	TCACHE_TAKEN,
	TCACHE_TOO_LARGE,
	TCACHE_NOT_TAKEN,
	TCACHE_UNKNOWN
};

/* The live block that starts at a place, if the place lies in `nearby` and the
 * block has no uses; or NULL. */
static inline QUICK struct block *
tcache_block(const struct nearby *nearby, CUdeviceptr place)
{
	CUdeviceptr offset = place - nearby->base;

	/* In another leaf, or no place where a block can start. */
	if (__builtin_expect((offset & ~LOOKUP_STARTS) != 0, 0))
		return NULL;
	struct block *block = lookup_at(nearby->leaf, offset);
	if (__builtin_expect(block == NULL, 0))
		return NULL;
	os_fetch_for_write(block);
	if (__builtin_expect(block_state(block) != BLOCK_ACTIVE, 0) ||
	    __builtin_expect(block->pending.uses != NULL, 0))
		return NULL;
	return block;
}

/* Put a block into the bin of its class and leave the cache, which the caller
 * has entered. */
static inline QUICK enum tcache_taken
tcache_push(
    struct cache *cache, struct bin *bin, struct block *block, size_t size)
{
	struct block **top = bin->top;
	bool taken = top != bin->end;

	if (__builtin_expect(taken, 1)) {
		*top = block;
		bin->top = top + 1;
		block_set_state(block, BLOCK_CACHED);
		tcache_count_in(cache, size, block->requested);
	}
	tcache_leave(cache);
	return taken ? TCACHE_TAKEN : TCACHE_NOT_TAKEN;
}

/* Free a block into a cache of the calling thread, if the cache is for its
 * pool. */
static inline QUICK enum tcache_taken
tcache_put(struct cache *cache, struct block *block)
{
	size_t size = block->size;

	if (__builtin_expect(size > TCACHE_BINNED, 0))
		return TCACHE_TOO_LARGE;
	atomic_store_explicit(&cache->busy, 1, memory_order_relaxed);
	atomic_signal_fence(memory_order_seq_cst);
	if (__builtin_expect(atomic_load_explicit(&cache->key_pool,
				 memory_order_acquire) != block->pool,
		0)) {
		tcache_leave(cache);
		return TCACHE_NOT_TAKEN;
	}
	return tcache_push(cache, tcache_bin(cache, size), block, size);
}

/* Free a block into the cache that the thread freed to last. This is the hit
 * path of a free, for a small size and a bin that is not full. *out is the
 * block, unless the result is UNKNOWN. */
static inline QUICK enum tcache_taken
tcache_free(void *ptr, struct block **out)
{
	struct tcache *t = tcache_own;
	struct block *block =
	    tcache_block(&t->nearby, (CUdeviceptr)(uintptr_t)ptr);

	if (__builtin_expect(block == NULL, 0))
		return TCACHE_UNKNOWN;
	*out = block;
	return tcache_put(t->last, block);
}

/* The calling thread's cache at the place for a block; it may be for another
 * heap. */
static inline struct cache *
tcache_for(const struct block *block)
{
	return tcache_own->by_heap[block->way % TCACHE_WAYS];
}

/* Does the cache keep blocks of the block's heap? Their addresses tell. */
static inline bool
tcache_keeps(const struct cache *cache, const struct block *block)
{
	return cache->keeps && heap_owns(cache->heap, block->pool);
}

static inline bool
tcache_free_rare(struct block *block)
{
	struct cache *cache = tcache_for(block);

	return tcache_keeps(cache, block) && tcache_free_in_its(cache, block);
}

/* Free a block into the cache of the thread's latest weir_host_free(), which
 * takes host memory only. */
static inline QUICK enum tcache_taken
tcache_free_host(void *ptr, struct block **out)
{
	struct tcache *t = tcache_own;
	CUdeviceptr addr = (CUdeviceptr)(uintptr_t)ptr;
	CUdeviceptr place = lookup_place(addr);
	struct block *block = tcache_block(
	    place == addr ? &t->nearby_host : &t->nearby_fine, place);

	/* An invalid pointer may have the place of a block: compare the
	 * address. */
	if (__builtin_expect(block == NULL || block->addr != addr, 0))
		return TCACHE_UNKNOWN;
	*out = block;
	size_t size = block->size;
	if (__builtin_expect(size > TCACHE_BINNED, 0))
		return TCACHE_TOO_LARGE;
	struct cache *cache = t->last_host;
	atomic_store_explicit(&cache->busy, 1, memory_order_relaxed);
	atomic_signal_fence(memory_order_seq_cst);
	const struct pool *pool =
	    atomic_load_explicit(&cache->key_pool, memory_order_acquire);
	if (__builtin_expect(block->pool == pool, 1))
		return tcache_push(cache, tcache_bin(cache, size), block, size);
	/* The fine pool lies after the small one. */
	if ((uintptr_t)block->pool - (uintptr_t)pool ==
	    POOL_FINE * sizeof(*pool))
		return tcache_push(
		    cache, tcache_fine_bin(cache, size), block, size);
	tcache_leave(cache);
	return TCACHE_NOT_TAKEN;
}

/* Put a block into an unused slot of its cache, which the caller has
 * entered. */
static inline void
tcache_put_slot(struct cache *cache, struct block *block)
{
	/* Set the free tick: streams that are ordered after it may use the
	 * block. */
	block->freed_at = order_now() + 1;
	cache->slot[++cache->slots] =
	    (struct slot){ .size = block->size, .block = block };
	block_set_state(block, BLOCK_CACHED);
	tcache_count_in(cache, block->size, block->requested);
	if (block->size > cache->small_max)
		tcache_count_large(
		    &cache->large_in, block->size, block->requested);
}

/* Free a block into a slot, after tcache_put() has returned
 * TCACHE_TOO_LARGE. */
static inline QUICK bool
tcache_free_large(struct cache *cache, struct block *block)
{
	enum pool_kind kind =
	    block->size > cache->small_max ? POOL_LARGE : POOL_SMALL;
	atomic_store_explicit(&cache->busy, 1, memory_order_relaxed);
	atomic_signal_fence(memory_order_seq_cst);
	bool taken = atomic_load_explicit(
			 &cache->key_pool, memory_order_acquire) != NULL &&
	    cache->pool[kind] == block->pool && cache->slots < TCACHE_SLOTS;
	if (taken)
		tcache_put_slot(cache, block);
	tcache_leave(cache);
	return taken;
}

/* Free a block into a cache of the calling thread, but only if the block's
 * stream is the named one, or that of the given cache. */
bool tcache_free_on(void *ptr, weir_stream stream);
bool tcache_free_in(const struct cache *cache, struct block *block);

/* Under the arena's lock: free a block into the calling thread's cache, if that
 * is traced, and emit the free to the history. False: not done. */
bool tcache_free_traced(struct block *block) HOLDS(block->arena->lock);

/* Remove the latest block of a size from the slots; NULL: there is none. The
 * cache is entered, or used under the arena's lock. */
struct block *tcache_slot_find(struct cache *cache, size_t size);

#endif
