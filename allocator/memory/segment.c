/*
 * Segments: gets memory for pools from the driver, and gives it back.
 *
 * An expandable segment reserves more addresses than the pools of its kind can
 * ever fill, and maps memory as they grow, so that free memory stays in one
 * piece. Memory of WEIR_STREAM_ANY takes the place of cudaMalloc's, which other
 * processes and peers reach in ways that mapped memory does not have. Therefore
 * it is in driver segments. So is all memory if the option expandable_segments
 * is off or the device cannot map memory.
 *
 * Note [One kind of memory]
 *
 * The driver tells mapped memory, which has no context, from memory of
 * cuMemAlloc. A graph's copy node that was made for one kind refuses the other
 * later. A device-scope request always gets memory of driver segments. A
 * request of a stream gets mapped memory or free memory of driver segments,
 * whichever is there. A program that does not know weir takes the memory of a
 * memory pool to be one kind, so for the preload streams get no memory of
 * driver segments while memory can be mapped (arena_keeps_apart).
 */
#include "allocator/memory/segment.h"

#include "allocator/account/counters.h"
#include "allocator/account/totals.h"
#include "allocator/allocator.h"
#include "allocator/memory/arena.h"
#include "allocator/memory/block.h"
#include "allocator/memory/emit.h"
#include "allocator/memory/forget.h"
#include "allocator/memory/handle.h"
#include "allocator/memory/lookup.h"
#include "allocator/memory/pin_time.h"
#include "base/meta.h"
#include "base/os.h"
#include "base/status.h"
#include "trace/served.h"

/* ---- Making and dropping segments -------------------------------------- */

/* Make a segment over [addr, addr + size) that is one block of the pool, which
 * is in no tree. */
static enum weir_status
segment_new(struct pool *pool, CUdeviceptr addr, size_t size, bool expandable,
    struct segment **out) HOLDS(pool->owner->arena->lock)
{
	struct arena *arena = pool->owner->arena;
	struct block *block;
	struct segment *segment = meta_zalloc(sizeof(*segment));

	ASSERT(size > 0 && size % WEIR_GRANULE == 0);
	ASSERT(addr % WEIR_GRANULE == 0);
	if (segment == NULL)
		return status_set(
		    WEIR_EHOSTMEM, "no host memory for a segment");
	lock_assert_held(&arena->lock);
	enum weir_status status = block_new(arena, addr, &block);
	if (status != WEIR_OK) {
		meta_free(segment, sizeof(*segment));
		return status;
	}
	segment->arena = arena;
	segment->addr = addr;
	segment->size = size;
	segment->stream = pool->owner->stream->handle;
	segment->kind = pool->kind;
	segment->expandable = expandable;
	segment->alone = lookup_is_alone(addr, size);
	segment->first = block;
	segment->stack = history_stack();
	segment->index = arena->memory.segments_made++;
	segment->idle.place = segment->index;
	segment->idle.end = UINT64_MAX;
	list_init(&segment->range_link);
	if (expandable)
		list_push_back(&arena->memory.ranges, &segment->range_link);
	tree_init(&segment->handles, TREE_KEY(struct handle, node, addr, addr));
	list_push_back(&arena->memory.segments, &segment->link);
	block->size = size;
	block->segment = segment;
	block_set_pool(block, pool);
	pool->owner->blocks++;
	*out = segment;
	return WEIR_OK;
}

/* Delete a segment that is one block, in no tree and not in the address
 * table. */
static void
segment_delete(struct segment *segment) HOLDS(segment->first->arena->lock)
{
	struct stream_heap *owner = segment->first->pool->owner;

	ASSERT(segment->first->next == NULL);
	ASSERT(segment->busy == 0 && segment->pins == 0);
	ASSERT(segment->handles.count == 0);
	owner->blocks--;
	block_delete(segment->first);
	list_remove(&segment->link);
	list_remove(&segment->range_link);
	meta_free(segment, sizeof(*segment));
}

/* ---- Expandable -------------------------------------------------------- */

/* Reserve addresses for the pools of a kind: nine eighths of the device's
 * memory, because they may come to hold all of it, or an eighth of that for
 * small blocks. More if the request needs more, and less if the system
 * refuses. */
static enum weir_status
reserve_for_kind(
    struct pool *pool, size_t rounded, CUdeviceptr *addr, size_t *size)
{
	struct arena *arena = pool->owner->arena;
	size_t least = round_up(rounded, arena->memory.granularity);
	size_t wish =
	    arena->account.total_bytes + arena->account.total_bytes / 8;
	CUresult code;

	ASSERT(rounded > 0);
	if (pool->kind != POOL_LARGE)
		wish /= 8;
	wish = round_up(wish > least ? wish : least, arena->memory.granularity);
	for (;;) {
		code = driver_peek()->cuMemAddressReserve(
		    addr, wish, arena->memory.granularity, 0, 0);
		if (code == CUDA_SUCCESS || wish == least)
			break;
		wish = round_up(wish / 2, arena->memory.granularity);
		if (wish < least)
			wish = least;
	}
	*size = wish;
	return driver_status(code, "cuMemAddressReserve(%zu bytes)", wish);
}

/* Make a segment over addresses that were just reserved. On failure they are
 * given back. */
static enum weir_status
add_reserved(struct pool *pool, CUdeviceptr addr, size_t size, bool of_places)
    HOLDS(pool->owner->arena->lock)
{
	struct segment *segment;

	lock_assert_held(&pool->owner->arena->lock);
	enum weir_status status = segment_new(pool, addr, size, true, &segment);
	if (status != WEIR_OK) {
		addresses_drop(addr, size);
		return status;
	}
	segment->of_places = of_places;
	lock_assert_held(&segment->first->arena->lock);
	block_put(segment->first, BLOCK_UNMAPPED);
	return WEIR_OK;
}

enum weir_status
segment_reserve(struct pool *pool, size_t rounded)
{
	CUdeviceptr addr;
	size_t size;
	enum weir_status status = reserve_for_kind(pool, rounded, &addr, &size);

	lock_assert_held(&pool->owner->arena->lock);
	ASSERT(
	    pool->owner == pool->owner->arena->memory.any_heap || rounded > 0);
	return status == WEIR_OK ? add_reserved(pool, addr, size, false) :
				   status;
}

enum weir_status
segment_reserve_places(struct pool *pool, size_t bytes, CUdeviceptr *out)
{
	size_t granularity = pool->owner->arena->memory.granularity;
	size_t size = round_up(bytes, granularity);
	CUresult code =
	    driver_peek()->cuMemAddressReserve(out, size, granularity, 0, 0);

	lock_assert_held(&pool->owner->arena->lock);
	ASSERT(bytes > 0);
	if (code != CUDA_SUCCESS)
		return driver_status(
		    code, "cuMemAddressReserve(%zu bytes)", size);
	return add_reserved(pool, *out, size, true);
}

struct segment *
segment_of_places(const struct arena *arena, CUdeviceptr addr)
{
	lock_assert_held(&arena->lock);
	for (const struct list *l = arena->memory.ranges.next;
	     l != &arena->memory.ranges; l = l->next) {
		struct segment *segment =
		    CONTAINER_OF(l, struct segment, range_link);
		if (segment->of_places && addr >= segment->addr &&
		    addr - segment->addr < segment->size)
			return segment;
	}
	return NULL;
}

void
segment_unreserve_if_empty(struct segment *segment)
{
	struct block *block = segment->first;
	struct block *last = block;

	lock_assert_held(&segment->arena->lock);
	ASSERT(block->prev == NULL);
	if (!segment->expandable || segment->of_places ||
	    segment->mapped_bytes > 0 || segment->busy > 0)
		return;
	/* Its unmapped addresses may be several blocks. */
	while (last->next != NULL)
		last = last->next;
	lock_assert_held(&block->arena->lock);
	block = block_join(block, last);
	if (driver_peek()->cuMemAddressFree(segment->addr, segment->size) !=
	    CUDA_SUCCESS) {
		block_put(block, BLOCK_UNMAPPED);
		return;
	}
	lock_assert_held(&segment->first->arena->lock);
	segment_delete(segment);
}

/* ---- Allocations of the driver ----------------------------------------- */

/* Count a driver segment, for the device only: its blocks may move to several
 * streams. */
static void
count_driver_segment(const struct segment *segment, int sign)
    HOLDS(segment->arena->lock)
{
	ASSERT(!segment->expandable && (sign == 1 || sign == -1));
	stats_change_arena(segment->arena, segment->kind, STAT3_segment, sign);
	if (segment->oversize)
		stats_change1(segment->arena, STAT1_oversize_segments, sign);
}

/* Allocate memory from the arena's source, with the lock released. */
static enum weir_status
allocate_from_source(struct arena *arena, size_t size, CUdeviceptr *addr)
    HOLDS(arena->lock)
{
	struct source source = arena->memory.source;

	ASSERT(size > 0 && arena->memory.jobs > 0);
	arena_leave_for_driver(arena);
	const uint64_t began_ns = pin_time_now(arena);
	enum weir_status status =
	    source.take(source.closure, arena->device, size, addr);
	if (status == WEIR_OK &&
	    (*addr == 0 || *addr % WEIR_GRANULE != 0 ||
		(arena->memory.own_source &&
		    (segment_owner(*addr) != NULL ||
			segment_owner(*addr + size - 1) != NULL)))) {
		source.give(source.closure, arena->device, *addr, size);
		status = status_set(WEIR_EINVAL,
		    "%s(%zu bytes, device %d): %#llx is no address of its own "
		    "at a multiple of 512",
		    source.name, size, arena->device,
		    (unsigned long long)*addr);
	}
	arena_enter_from_driver(arena);
	if (status == WEIR_OK)
		pin_time_took(arena, began_ns, size,
		    arena->account.stats.reserved_bytes.all.current + size);
	return status;
}

static bool
free_to_source(struct arena *arena, CUdeviceptr addr, size_t size)
    HOLDS(arena->lock)
{
	struct source source = arena->memory.source;

	ASSERT(size > 0 && arena->memory.jobs > 0);
	arena_leave_for_driver(arena);
	const uint64_t began_ns = pin_time_now(arena);
	bool given = source.give(source.closure, arena->device, addr, size);
	arena_enter_from_driver(arena);
	pin_time_gave(arena, began_ns);
	return given;
}

size_t
segment_size_for(
    const struct arena *arena, const struct options *options, size_t rounded)
{
	const struct weir_stat3 *reserved =
	    &arena->account.stats.reserved_bytes;
	enum pool_kind kind = arena_kind(arena, rounded);

	ASSERT(rounded > 0);
	if ((arena_flags(arena) & ARENA_NO_SPLIT) != 0)
		return rounded;
	if (arena->traits.has_rounding)
		return size_segment(options, rounded);
	if (arena->traits.can_map)
		return round_up(rounded, arena->memory.granularity);
	return size_host_segment(kind, rounded,
	    kind == POOL_LARGE ? reserved->large_pool.current :
				 reserved->small_pool.current);
}

static enum weir_status
grow_by_segment(struct pool *pool, const struct options *options,
    size_t rounded, size_t size, size_t *need) HOLDS(pool->owner->arena->lock)
{
	struct arena *arena = pool->owner->arena;
	struct segment *segment;
	CUdeviceptr addr;

	ASSERT(size >= rounded);
	*need = size;
	lock_assert_held(&arena->lock);
	enum weir_status status = arena_promise(arena, size, need);
	if (status != WEIR_OK)
		return status;
	status = allocate_from_source(arena, size, &addr);
	if (status != WEIR_OK)
		goto drop_promise;
	status = segment_new(pool, addr, size, false, &segment);
	if (status != WEIR_OK)
		goto drop_memory;
	/* The record for the block that is cut off when the request is
	 * served. */
	status = block_prepare(arena, addr + rounded);
	if (status != WEIR_OK)
		goto drop_segment;
	segment->mapped_bytes = size;
	segment->oversize = size >= options->max_split_size;
	stats_change(pool, STAT3_reserved_bytes, (int64_t)size);
	counter_add(arena, COUNTER_num_device_alloc, 1);
	served_here.served.grown_bytes += size;
	lock_assert_held(&segment->arena->lock);
	count_driver_segment(segment, 1);
	emit_segment(segment, true);
	lock_assert_held(&segment->first->arena->lock);
	block_put(segment->first, BLOCK_FREE);
	arena_promised(arena, size);
	return WEIR_OK;

drop_segment:
	lock_assert_held(&segment->first->arena->lock);
	segment_delete(segment);
drop_memory:
	free_to_source(arena, addr, size);
drop_promise:
	arena_promised(arena, size);
	return status;
}

enum weir_status
segment_grow_driver(struct pool *pool, const struct options *options,
    size_t rounded, bool exact, size_t *need)
{
	const struct arena *arena = pool->owner->arena;
	size_t size = segment_size_for(arena, options, rounded);
	size_t least = round_up(rounded, SEGMENT_STEP);
	enum weir_status status =
	    grow_by_segment(pool, options, rounded, size, need);

	ASSERT(rounded > 0 && pool->kind < POOL_KINDS);
	lock_assert_held(&pool->owner->arena->lock);
	if (status != WEIR_ENOMEM || !exact || least >= size ||
	    !arena->traits.has_rounding ||
	    (arena_flags(arena) & ARENA_NO_SPLIT) != 0)
		return status;
	return grow_by_segment(pool, options, rounded, least, need);
}

/* ---- Giving back ------------------------------------------------------- */

static CUdeviceptr
span_end(const struct span *span)
{
	return span->last->addr + span->last->size;
}

static size_t
span_size(const struct span *span)
{
	return span_end(span) - span->first->addr;
}

size_t
segment_releasable(const struct span *span)
{
	const struct segment *segment = span->first->segment;
	CUdeviceptr start;

	ASSERT(span->first->segment == span->last->segment);
	if (segment->expandable)
		return handles_within(
		    segment, span->first->addr, span_size(span), &start);
	return segment->pins == 0 && span_size(span) == segment->size ?
	    segment->size :
	    0;
}

/* ---- Cutting ----------------------------------------------------------- */

enum weir_status
cut_prepare(const struct block *first, const struct block *last,
    CUdeviceptr start, size_t size, struct cut *cut)
{
	lock_assert_held(&first->arena->lock);
	ASSERT(start >= first->addr && size > 0);
	ASSERT(start + size <= last->addr + last->size);
	*cut = (struct cut){ .start = start, .size = size };
	if (start > first->addr &&
	    block_new(first->arena, start, &cut->middle) != WEIR_OK)
		return WEIR_EHOSTMEM;
	if (start + size < last->addr + last->size &&
	    block_new(first->arena, start + size, &cut->after) != WEIR_OK) {
		cut_drop(cut);
		return WEIR_EHOSTMEM;
	}
	return WEIR_OK;
}

void
cut_drop(struct cut *cut)
{
	if (cut->middle != NULL) {
		lock_assert_held(&cut->middle->arena->lock);
		block_delete(cut->middle);
	}
	if (cut->after != NULL) {
		lock_assert_held(&cut->after->arena->lock);
		block_delete(cut->after);
	}
	*cut = (struct cut){ 0 };
}

struct block *
cut_make(struct block *block, struct cut *cut)
{
	CUdeviceptr start = cut->start;
	size_t size = cut->size;
	struct block *middle = block;

	lock_assert_held(&block->arena->lock);
	ASSERT(start >= block->addr && size > 0);
	ASSERT(start + size <= block->addr + block->size);
	ASSERT((cut->middle != NULL) == (start > block->addr));
	ASSERT(
	    (cut->after != NULL) == (start + size < block->addr + block->size));
	if (cut->middle != NULL) {
		block_split(block, start - block->addr, cut->middle);
		middle = cut->middle;
	}
	if (cut->after != NULL) {
		lock_assert_held(&middle->arena->lock);
		block_split(middle, size, cut->after);
	}
	block_set_state(middle,
	    BLOCK_UNMAPPING); /* so that the other parts do not merge with it */
	if (cut->after != NULL) {
		lock_assert_held(&cut->after->arena->lock);
		block_put(cut->after, BLOCK_FREE);
	}
	if (cut->middle != NULL)
		block_put(block, BLOCK_FREE);
	*cut = (struct cut){ 0 };
	return middle;
}

struct block *
cut_with_handles(struct block *first, struct block *last, struct cut *cut,
    struct handle **handles)
{
	struct segment *segment = first->segment;

	lock_assert_held(&first->arena->lock);
	ASSERT(segment->expandable);
	struct block *block = block_join(first, last);
	lock_assert_held(&block->arena->lock);
	block = cut_make(block, cut);
	lock_assert_held(&segment->arena->lock);
	*handles = handles_take(segment, block->addr, block->size);
	return block;
}

/* ---- Back to the driver ------------------------------------------------ */

static size_t
release_driver(const struct span *span) HOLDS(span->first->arena->lock)
{
	struct segment *segment = span->first->segment;
	struct arena *arena = segment->arena;
	size_t size = segment->size;

	ASSERT(!span->first->segment->expandable);
	if (segment_releasable(span) != size)
		return 0;
	struct block *block = block_join(span->first, span->last);
	block_set_state(block, BLOCK_UNMAPPING);
	/* From its free on, another thread may get these addresses. */
	lookup_set(block->addr, NULL);
	lock_assert_held(&segment->arena->lock);
	emit_segment(segment, false);
	lock_assert_held(&arena->lock);
	if (!free_to_source(arena, segment->addr, size)) {
		lookup_set(block->addr, block);
		emit_segment(segment, true);
		lock_assert_held(&block->arena->lock);
		block_commit(block, BLOCK_FREE);
		return 0;
	}
	lock_assert_held(&block->pool->owner->arena->lock);
	stats_change(block->pool, STAT3_reserved_bytes, -(int64_t)size);
	counter_add(arena, COUNTER_num_device_free, 1);
	count_driver_segment(segment, -1);
	struct stream_heap *owner = block->pool->owner;
	lock_assert_held(&segment->first->arena->lock);
	segment_delete(segment);
	lock_assert_held(&owner->arena->lock);
	heap_drop_if_done(owner);
	return size;
}

/* Release and unmap handles, without the lock. A handle that was released but
 * that the driver does not unmap stays mapped, with id 0. */
static bool
unmap_for_good(struct handle *handles, CUdeviceptr addr, size_t size)
{
	for (struct handle *h = handles; h != NULL; h = h->next) {
		if (h->id != 0 &&
		    driver_peek()->cuMemRelease(h->id) != CUDA_SUCCESS)
			return false;
		h->id = 0;
	}
	return driver_peek()->cuMemUnmap(addr, size) == CUDA_SUCCESS;
}

/* Do so with the arena's lock released. */
static bool
unmap_unlocked(struct arena *arena, struct handle *handles, CUdeviceptr addr,
    size_t size) HOLDS(arena->lock)
{
	arena_leave_for_driver(arena);
	const uint64_t began_ns = pin_time_now(arena);
	bool released = unmap_for_good(handles, addr, size);
	arena_enter_from_driver(arena);
	pin_time_gave(arena, began_ns);
	return released;
}

/* Free the handles of a released range, or put them back. */
static void
settle_handles(struct segment *segment, struct handle *handles, bool released)
    HOLDS(segment->arena->lock)
{
	struct handle *next;

	ASSERT(segment->expandable);
	for (; handles != NULL; handles = next) {
		next = handles->next;
		if (released) {
			meta_free(handles, sizeof(*handles));
			counter_add(segment->arena, COUNTER_num_device_free, 1);
		} else {
			handle_insert(segment, handles);
		}
	}
}

static size_t
release_expandable(const struct span *span, size_t want)
    HOLDS(span->first->arena->lock)
{
	struct segment *segment = span->first->segment;
	struct arena *arena = segment->arena;
	struct handle *handles;
	struct cut cut;
	CUdeviceptr start;
	size_t size =
	    handles_within(segment, span->first->addr, span_size(span), &start);

	ASSERT(want > 0);
	if (size == 0)
		return 0;
	if (size > want) {
		/* Keep the low end, where the rest can grow in place. */
		CUdeviceptr end = start + size;
		start = handle_floor(segment, end - want)->addr;
		size = end - start;
	}
	if (cut_prepare(span->first, span->last, start, size, &cut) != WEIR_OK)
		return 0;
	struct block *block =
	    cut_with_handles(span->first, span->last, &cut, &handles);
	segment->busy++;
	lock_assert_held(&segment->arena->lock);
	lock_assert_held(&arena->lock);
	lock_assert_held(&block->arena->lock);
	bool released = unmap_unlocked(arena, handles, start, size);
	settle_handles(segment, handles, released);
	segment->busy--;
	if (!released) {
		block_commit(block, BLOCK_FREE);
		return 0;
	}
	counter_add(arena, COUNTER_num_unmap_calls, 1);
	block_commit(block, BLOCK_UNMAPPED);
	segment_unreserve_if_empty(segment);
	return size;
}

size_t
segment_release(const struct span *span, size_t want)
{
	struct arena *arena = span->first->arena;
	struct driver_guard guard;
	size_t released = 0;

	lock_assert_held(&span->first->arena->lock);
	ASSERT(want > 0 && block_state(span->first) == BLOCK_FREE);
	lock_assert_held(&arena->lock);
	status_mute();
	arena_job_begin(arena);
	if (driver_enter(arena->context, &guard) == WEIR_OK) {
		released = span->first->segment->expandable ?
		    release_expandable(span, want) :
		    release_driver(span);
		driver_leave(&guard);
	}
	lock_assert_held(&arena->lock);
	if (released > 0)
		arena_settle_lease(arena);
	arena_job_done(arena);
	status_unmute();
	return released;
}

/* ---- Vacated addresses ------------------------------------------------- */

/* Unmap the VACATED blocks of a list. Blocks that the driver refuses to unmap
 * go back to arena->memory.vacated. */
static void
unmap_vacated(struct arena *arena, struct list *unmapping) HOLDS(arena->lock)
{
	struct list refused;
	struct list done;

	ASSERT(arena->memory.jobs > 0);
	list_init(&refused);
	list_init(&done);
	arena_leave_for_driver(arena);
	const uint64_t began_ns = pin_time_now(arena);
	while (!list_empty(unmapping)) {
		struct block *block = block_of_pending(unmapping->next);
		CUresult code =
		    driver_peek()->cuMemUnmap(block->addr, block->size);
		list_remove(&block->pending.link);
		list_push_back(code == CUDA_SUCCESS ? &done : &refused,
		    &block->pending.link);
	}
	arena_enter_from_driver(arena);
	pin_time_moved(arena, pin_time_now(arena) - began_ns);
	while (!list_empty(&refused)) {
		struct list *link = refused.next;
		list_remove(link);
		list_push_back(&arena->memory.vacated, link);
	}
	while (!list_empty(&done)) {
		struct block *block = block_of_pending(done.next);
		struct segment *segment = block->segment;
		list_remove(&block->pending.link);
		counter_add(arena, COUNTER_num_unmap_calls, 1);
		segment->busy--;
		lock_assert_held(&block->arena->lock);
		block_commit(block, BLOCK_UNMAPPED);
		lock_assert_held(&segment->arena->lock);
		segment_unreserve_if_empty(segment);
	}
}

void
segment_unmap_vacated(struct arena *arena, size_t max)
{
	struct driver_guard guard;
	struct list unmapping;

	ASSERT(max > 0);
	lock_assert_held(&arena->lock);
	list_init(&unmapping);
	for (size_t n = 0; n < max && !list_empty(&arena->memory.vacated);
	     n++) {
		struct list *link = arena->memory.vacated.next;
		list_remove(link);
		list_push_back(&unmapping, link);
	}
	if (list_empty(&unmapping))
		return;
	lock_assert_held(&arena->lock);
	status_mute();
	arena_job_begin(arena);
	if (driver_enter(arena->context, &guard) == WEIR_OK) {
		unmap_vacated(arena, &unmapping);
		driver_leave(&guard);
	}
	while (!list_empty(&unmapping)) { /* the context could not be entered */
		struct list *link = unmapping.next;
		list_remove(link);
		list_push_back(&arena->memory.vacated, link);
	}
	arena_job_done(arena);
	status_unmute();
}

void
segment_unreserve(struct arena *arena)
{
	struct driver_guard guard;
	struct list *next;

	lock_assert_held(&arena->lock);
	status_mute();
	if (driver_enter(arena->context, &guard) == WEIR_OK) {
		for (struct list *l = arena->memory.ranges.next;
		     l != &arena->memory.ranges; l = next) {
			next = l->next;
			struct segment *segment =
			    CONTAINER_OF(l, struct segment, range_link);
			lock_assert_held(&segment->arena->lock);
			segment_unreserve_if_empty(segment);
		}
		handles_release_again(arena);
		driver_leave(&guard);
	}
	status_unmute();
}

struct arena *
segment_owner(CUdeviceptr addr)
{
	struct block *block = lookup_floor(addr);

	if (block == NULL)
		return NULL;
	struct arena *arena = block->arena;
	lock_enter(&arena->lock);
	bool ours = block->segment != NULL && addr - block->addr < block->size;
	lock_leave(&arena->lock);
	return ours ? arena : NULL;
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

	return arena != NULL && arena->traits.is_page_locked;
}
