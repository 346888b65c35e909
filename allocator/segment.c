/*
 * Segments: where the memory of pools comes from, and how it goes back.
 *
 * An expandable segment reserves more addresses than a pool can ever fill and
 * maps memory as the pool grows, so that the pool's free memory stays in one
 * piece. The memory of WEIR_STREAM_ANY stands in for cudaMalloc's, which can
 * be shared with other processes and reached by peers in the ways of old; it
 * is therefore in segments allocated by the driver, as is everything when the
 * option expandable_segments is off or the device cannot map memory.
 */
#include "allocator/segment.h"

#include "allocator/lookup.h"
#include "base/meta.h"
#include "base/status.h"

/* Mapping ahead: a sixty-fourth of what the pool has, so that a growing pool
 * calls the driver a bounded number of times for each doubling. */
enum { AHEAD_SHARE = 64 };

static bool
is_expandable(const struct pool *pool, const struct options *options)
{
	const struct arena *arena = pool->owner->arena;

	return options->expandable_segments && arena->can_map &&
	    pool->owner != arena->any_pools;
}

/* ---- Making and dropping segments -------------------------------------- */

/* A segment over [addr, addr + size) that is one block of the pool, in no
 * tree. */
static enum weir_status
segment_new(struct pool *pool, CUdeviceptr addr, size_t size, bool expandable,
    struct segment **out)
{
	struct arena *arena = pool->owner->arena;
	struct block *block;
	struct segment *segment = meta_zalloc(sizeof(*segment));
	if (segment == NULL)
		return status_set(
		    WEIR_EHOSTMEM, "no host memory for a segment");
	enum weir_status status = block_new(arena, addr, &block);
	if (status != WEIR_OK) {
		meta_free(segment, sizeof(*segment));
		return status;
	}
	segment->arena = arena;
	segment->addr = addr;
	segment->size = size;
	segment->kind = pool->kind;
	segment->expandable = expandable;
	segment->first = block;
	tree_init(&segment->handles, compare_handles);
	list_push_back(&arena->segments, &segment->link);
	block->size = size;
	block->segment = segment;
	block->pool = pool;
	pool->owner->blocks++;
	*out = segment;
	return WEIR_OK;
}

/* Forget a segment that is one block, in no tree and not in the table. */
static void
segment_delete(struct segment *segment)
{
	struct pools *owner = segment->first->pool->owner;

	owner->blocks--;
	block_delete(segment->first);
	list_remove(&segment->link);
	meta_free(segment, sizeof(*segment));
}

/* ---- Expandable -------------------------------------------------------- */

/* Addresses for a pool: nine eighths of the device, as a pool may come to hold
 * all of it, and more where one request needs more; less where the system
 * refuses. Small blocks need an eighth of that. */
static enum weir_status
reserve(struct pool *pool, size_t rounded, CUdeviceptr *addr, size_t *size)
{
	struct arena *arena = pool->owner->arena;
	size_t least = round_up(rounded, arena->granularity);
	size_t wish = arena->total_bytes + arena->total_bytes / 8;
	CUresult code;

	if (pool->kind == POOL_SMALL)
		wish /= 8;
	wish = round_up(wish > least ? wish : least, arena->granularity);
	for (;;) {
		code = driver_peek()->cuMemAddressReserve(
		    addr, wish, arena->granularity, 0, 0);
		if (code == CUDA_SUCCESS || wish == least)
			break;
		wish = round_up(wish / 2, arena->granularity);
		if (wish < least)
			wish = least;
	}
	*size = wish;
	return driver_status(code, "cuMemAddressReserve(%zu bytes)", wish);
}

/* A new segment, all unmapped, in the pool. */
static enum weir_status
reserve_segment(struct pool *pool, size_t rounded)
{
	struct segment *segment;
	CUdeviceptr addr;
	size_t size;
	enum weir_status status = reserve(pool, rounded, &addr, &size);
	if (status != WEIR_OK)
		return status;
	status = segment_new(pool, addr, size, true, &segment);
	if (status != WEIR_OK) {
		driver_peek()->cuMemAddressFree(addr, size);
		return status;
	}
	block_put(segment->first, BLOCK_UNMAPPED);
	return WEIR_OK;
}

/* Give back the addresses of a segment that has nothing mapped. If the driver
 * refuses, the segment stays and can be grown again. */
static void
unreserve_if_empty(struct segment *segment)
{
	struct block *block = segment->first;
	struct block *last = block;

	if (segment->mapped_bytes > 0)
		return;
	/* Its addresses may have come to belong to several pools. */
	while (last->next != NULL)
		last = last->next;
	block = block_join(block, last);
	if (driver_peek()->cuMemAddressFree(segment->addr, segment->size) !=
	    CUDA_SUCCESS) {
		block_put(block, BLOCK_UNMAPPED);
		return;
	}
	segment_delete(segment);
}

/* A run of free and unmapped blocks that a request fits in once mapped. */
struct run {
	struct block *start;
	size_t missing; /* bytes to map */
};

static bool
in_run(const struct block *block, const struct pool *pool)
{
	return block != NULL && block->pool == pool &&
	    (block->state == BLOCK_FREE || block->state == BLOCK_UNMAPPED);
}

/* What of a block of a run is to be mapped, `have` bytes lying before it. */
static size_t
missing_in(const struct block *block, size_t have, size_t rounded)
{
	size_t granularity = block->arena->granularity;

	if (block->state != BLOCK_UNMAPPED || have >= rounded)
		return 0;
	size_t want = round_up(rounded - have, granularity);
	return want < block->size ? want : block->size;
}

/* Measure the run through an unmapped block; false if it is too short. */
static bool
measure(struct block *unmapped, size_t rounded, struct run *run)
{
	struct pool *pool = unmapped->pool;
	struct block *block = unmapped;
	size_t have = 0;

	if (in_run(block->prev, pool) && block->prev->state == BLOCK_FREE)
		block = block->prev;
	*run = (struct run){ .start = block };
	for (; have < rounded && in_run(block, pool); block = block->next) {
		run->missing += missing_in(block, have, rounded);
		have += block->size;
	}
	return have >= rounded;
}

/* The run that needs the least new memory, the lowest of equals. */
static bool
find_run(struct pool *pool, size_t rounded, struct run *best)
{
	bool found = false;

	for (struct tree_node *n = tree_first(&pool->unmapped); n != NULL;
	     n = tree_next(n)) {
		struct run run;
		if (measure(block_of_node(n), rounded, &run) &&
		    (!found || run.missing < best->missing)) {
			*best = run;
			found = true;
		}
	}
	return found;
}

/* Let the pool have the unmapped addresses of streams that have ended. */
static bool
adopt_addresses(struct pool *pool, size_t rounded)
{
	struct pool *any = &pool->owner->arena->any_pools->pool[pool->kind];

	for (struct tree_node *n = tree_first(&any->unmapped); n != NULL;
	     n = tree_next(n)) {
		struct block *block = block_of_node(n);
		if (block->size < round_up(rounded, block->arena->granularity))
			continue;
		block_take(block);
		block_move(block, pool);
		block_put(block, BLOCK_UNMAPPED);
		return true;
	}
	return false;
}

/*
 * Mapping a run: first the memory of all its unmapped parts, which can fail
 * and is undone then; after that the blocks, which cannot. Only the last part
 * may be mapped in part, and then its rest is a block made beforehand.
 */
struct mapping {
	struct run run;
	size_t rounded;
	size_t ahead;       /* bytes to map beyond what is missing */
	struct block *last; /* the last unmapped block of the run */
	size_t last_size;   /* what is mapped of it */
	struct block *rest; /* what is not, or NULL */
};

/* Bytes to map of a block of the run. */
static size_t
part_of(const struct mapping *m, const struct block *block, size_t have)
{
	if (block == m->last)
		return m->last_size;
	return missing_in(block, have, m->rounded);
}

static enum weir_status
plan(struct mapping *m)
{
	size_t have = 0;

	m->last = NULL;
	m->rest = NULL;
	for (struct block *b = m->run.start; have < m->rounded; b = b->next) {
		size_t missing = missing_in(b, have, m->rounded);
		if (missing > 0) {
			m->last = b;
			m->last_size = missing;
		}
		have += b->size;
	}
	if (m->last == NULL)
		return status_set(WEIR_ENOMEM, "nothing to map");
	size_t room = m->last->size - m->last_size;
	m->last_size += m->ahead < room ? m->ahead : room;
	if (m->last_size == m->last->size)
		return WEIR_OK;
	return block_new(
	    m->last->arena, m->last->addr + m->last_size, &m->rest);
}

/* Unmap the parts before `end` again. */
static void
undo_parts(const struct mapping *m, const struct block *end)
{
	size_t have = 0;

	for (struct block *b = m->run.start; b != end; b = b->next) {
		size_t part = part_of(m, b, have);
		if (part > 0)
			handles_unmap(b->segment, b->addr, part);
		have += b->size;
	}
}

static enum weir_status
map_parts(const struct mapping *m)
{
	size_t have = 0;

	for (struct block *b = m->run.start; have < m->rounded; b = b->next) {
		size_t part = part_of(m, b, have);
		if (part > 0) {
			enum weir_status status =
			    handles_map(b->segment, b->addr, part);
			if (status != WEIR_OK) {
				undo_parts(m, b);
				return status;
			}
		}
		have += b->size;
	}
	return WEIR_OK;
}

/* Make what is mapped free blocks of the pool, merged with the run. */
static void
commit_parts(const struct mapping *m)
{
	CUdeviceptr end = m->last->addr + m->last_size;
	struct block *block = m->run.start;

	while (block != NULL && block->addr < end) {
		if (block->state == BLOCK_UNMAPPED) {
			struct block *rest = NULL;
			block_take(block);
			if (block->addr + block->size > end) {
				rest = m->rest;
				block_split(block, m->last_size, rest);
			}
			stats_change(block->pool, STAT3_reserved_bytes,
			    (int64_t)block->size);
			block->freed_seq = 0; /* nothing has run on it */
			block = block_put(block, BLOCK_FREE);
			if (rest != NULL)
				block_put(rest, BLOCK_UNMAPPED);
		}
		block = block->next;
	}
}

/* The block that is cut off when the request is served is prepared as well: a
 * pool does not grow for a request that then fails. */
static enum weir_status
map_run(struct run run, size_t rounded, size_t ahead)
{
	struct mapping m = { .run = run, .rounded = rounded, .ahead = ahead };
	enum weir_status status = plan(&m);
	if (status != WEIR_OK)
		return status;
	status = block_prepare(run.start->arena, run.start->addr + rounded);
	if (status != WEIR_OK)
		goto drop_rest;
	status = map_parts(&m);
	if (status != WEIR_OK)
		goto drop_rest;
	commit_parts(&m);
	return WEIR_OK;

drop_rest:
	if (m.rest != NULL)
		block_delete(m.rest);
	return status;
}

/* Mapping ahead pays while a pool grows; never beyond the limit. */
static size_t
ahead_of(const struct pool *pool, const struct options *options, size_t missing)
{
	const struct arena *arena = pool->owner->arena;
	const struct weir_stats *stats = &pool->owner->stats;
	size_t ahead =
	    round_down(stats->reserved_bytes.all.current / AHEAD_SHARE,
		arena->granularity);
	size_t held = arena->stats.reserved_bytes.all.current;

	if (ahead > options->growth_max)
		ahead = round_down(options->growth_max, arena->granularity);
	ahead = ahead > missing ? ahead - missing : 0;
	if (arena->limit - held < missing + ahead)
		ahead = 0;
	return ahead;
}

/* WEIR_ENOMEM if `size` more bytes would pass the limit; *need is then what is
 * missing under it. */
static enum weir_status
check_limit(const struct arena *arena, size_t size, size_t *need)
{
	size_t held = arena->stats.reserved_bytes.all.current;

	if (held <= arena->limit && size <= arena->limit - held)
		return WEIR_OK;
	*need = held + size - arena->limit;
	return status_set(WEIR_ENOMEM,
	    "%zu bytes beyond the %zu held pass the limit of "
	    "%zu on device %d",
	    size, held, arena->limit, arena->device);
}

/* The run to map for a request, in addresses found, adopted or reserved. */
static enum weir_status
find_or_make_run(struct pool *pool, size_t rounded, struct run *run)
{
	if (find_run(pool, rounded, run))
		return WEIR_OK;
	if (!adopt_addresses(pool, rounded)) {
		enum weir_status status = reserve_segment(pool, rounded);
		if (status != WEIR_OK)
			return status;
	}
	if (find_run(pool, rounded, run))
		return WEIR_OK;
	return status_set(WEIR_ENOMEM, "no addresses for %zu bytes", rounded);
}

static enum weir_status
grow_expandable(struct pool *pool, const struct options *options,
    size_t rounded, size_t *need)
{
	struct arena *arena = pool->owner->arena;
	struct run run;

	*need = round_up(rounded, arena->granularity);
	enum weir_status status = WEIR_OK;
	if (rounded > arena->total_bytes)
		return status_set(WEIR_ENOMEM,
		    "%zu bytes are more than device %d has", rounded,
		    arena->device);
	status = find_or_make_run(pool, rounded, &run);
	if (status != WEIR_OK)
		return status;
	struct segment *segment = run.start->segment;
	*need = run.missing;
	if (run.missing == 0) /* another thread has freed it meanwhile */
		return WEIR_OK;
	status = check_limit(arena, run.missing, need);
	if (status == WEIR_OK) {
		size_t ahead = ahead_of(pool, options, run.missing);
		status = map_run(run, rounded, ahead);
		if (status == WEIR_ENOMEM && ahead > 0)
			status = map_run(run, rounded, 0);
	}
	if (status != WEIR_OK)
		unreserve_if_empty(segment);
	return status;
}

/* ---- Allocations of the driver ----------------------------------------- */

/* A segment of the driver is counted for the device only: its blocks may come
 * to belong to several streams. */
static void
count_driver_segment(const struct segment *segment, int sign)
{
	struct weir_stats *stats = &segment->arena->stats;

	stats_change_arena(segment->arena, segment->kind, STAT3_segment, sign);
	if (!segment->oversize)
		return;
	if (sign > 0)
		stats_add(&stats->oversize_segments, 1);
	else
		stats_sub(&stats->oversize_segments, 1);
}

static enum weir_status
grow_driver(struct pool *pool, const struct options *options, size_t rounded,
    size_t *need)
{
	const struct driver *driver = driver_peek();
	struct arena *arena = pool->owner->arena;
	size_t size = size_segment(options, rounded);
	struct segment *segment;
	CUdeviceptr addr;

	*need = size;
	enum weir_status status = check_limit(arena, size, need);
	if (status != WEIR_OK)
		return status;
	CUresult code = driver->cuMemAlloc(&addr, size);
	status = driver_status(
	    code, "cuMemAlloc(%zu bytes, device %d)", size, arena->device);
	if (status != WEIR_OK)
		return status;
	status = segment_new(pool, addr, size, false, &segment);
	if (status != WEIR_OK)
		goto drop_memory;
	/* What is cut off when the request is served: see map_run(). */
	status = block_prepare(arena, addr + rounded);
	if (status != WEIR_OK)
		goto drop_segment;
	segment->mapped_bytes = size;
	segment->oversize = size >= options->max_split_size;
	stats_change(pool, STAT3_reserved_bytes, (int64_t)size);
	arena->stats.num_device_alloc++;
	count_driver_segment(segment, 1);
	block_put(segment->first, BLOCK_FREE);
	return WEIR_OK;

drop_segment:
	segment_delete(segment);
drop_memory:
	driver->cuMemFree(addr);
	return status;
}

enum weir_status
segment_grow(struct pool *pool, const struct options *options, size_t rounded,
    size_t *need)
{
	struct driver_guard guard;
	enum weir_status status =
	    driver_enter(pool->owner->arena->context, &guard);
	if (status != WEIR_OK)
		return status;
	status = is_expandable(pool, options) ?
	    grow_expandable(pool, options, rounded, need) :
	    grow_driver(pool, options, rounded, need);
	driver_leave(&guard);
	return status;
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

	if (segment->expandable)
		return handles_within(
		    segment, span->first->addr, span_size(span), &start);
	return span_size(span) == segment->size ? segment->size : 0;
}

static size_t
release_driver(const struct span *span)
{
	struct segment *segment = span->first->segment;
	struct arena *arena = segment->arena;
	size_t size = segment->size;

	if (span_size(span) != size ||
	    driver_peek()->cuMemFree(segment->addr) != CUDA_SUCCESS)
		return 0;
	struct block *block = block_join(span->first, span->last);
	lookup_set(block->addr, NULL);
	stats_change(block->pool, STAT3_reserved_bytes, -(int64_t)size);
	arena->stats.num_device_free++;
	count_driver_segment(segment, -1);
	segment_delete(segment);
	return size;
}

/* The blocks that unmapping the middle of a block leaves around it. */
struct cut {
	struct block
	    *middle;         /* from where it is unmapped, or NULL: the start */
	struct block *after; /* behind it, or NULL */
};

static bool
prepare_cut(
    const struct span *span, CUdeviceptr start, size_t size, struct cut *cut)
{
	struct arena *arena = span->first->arena;

	*cut = (struct cut){ 0 };
	if (start > span->first->addr &&
	    block_new(arena, start, &cut->middle) != WEIR_OK)
		return false;
	if (start + size < span_end(span) &&
	    block_new(arena, start + size, &cut->after) != WEIR_OK) {
		if (cut->middle != NULL)
			block_delete(cut->middle);
		return false;
	}
	return true;
}

static void
drop_cut(struct cut *cut)
{
	if (cut->middle != NULL)
		block_delete(cut->middle);
	if (cut->after != NULL)
		block_delete(cut->after);
}

static size_t
release_expandable(const struct span *span, size_t want)
{
	struct segment *segment = span->first->segment;
	struct cut cut;
	CUdeviceptr start;
	size_t size =
	    handles_within(segment, span->first->addr, span_size(span), &start);

	if (size == 0)
		return 0;
	if (size > want) {
		/* Keep the low end: what is left grows in place. */
		CUdeviceptr end = start + size;
		start = handle_floor(segment, end - want)->addr;
		size = end - start;
	}
	if (!prepare_cut(span, start, size, &cut))
		return 0;
	if (!handles_unmap(segment, start, size)) {
		drop_cut(&cut);
		return 0;
	}
	struct block *block = block_join(span->first, span->last);
	struct block *middle = block;
	if (cut.middle != NULL) {
		block_split(block, start - block->addr, cut.middle);
		middle = cut.middle;
	}
	if (cut.after != NULL)
		block_split(middle, size, cut.after);
	stats_change(middle->pool, STAT3_reserved_bytes, -(int64_t)size);
	block_put(middle, BLOCK_UNMAPPED);
	if (cut.middle != NULL)
		block_put(block, BLOCK_FREE);
	if (cut.after != NULL)
		block_put(cut.after, BLOCK_FREE);
	unreserve_if_empty(segment);
	return size;
}

size_t
segment_release(const struct span *span, size_t want)
{
	struct driver_guard guard;
	size_t released = 0;

	status_mute();
	if (driver_enter(span->first->arena->context, &guard) == WEIR_OK) {
		released = span->first->segment->expandable ?
		    release_expandable(span, want) :
		    release_driver(span);
		driver_leave(&guard);
	}
	status_unmute();
	return released;
}

void
segment_unreserve(struct arena *arena)
{
	struct driver_guard guard;
	struct list *next;

	status_mute();
	if (driver_enter(arena->context, &guard) == WEIR_OK) {
		for (struct list *l = arena->segments.next;
		     l != &arena->segments; l = next) {
			next = l->next;
			unreserve_if_empty(
			    CONTAINER_OF(l, struct segment, link));
		}
		driver_leave(&guard);
	}
	status_unmute();
}
