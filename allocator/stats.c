/*
 * Statistics: a device's, and each stream's part. Kept under the arena's lock
 * as things happen; a peak is exact.
 */
#include <stddef.h>
#include <string.h>

#include <weir/host.h>

#include "allocator/arena.h"
#include "allocator/tcache.h"
#include "base/meta.h"
#include "base/status.h"

_Static_assert(offsetof(struct weir_stats, requested_bytes) -
	    offsetof(struct weir_stats, allocation) ==
	STAT3_requested_bytes * sizeof(struct weir_stat3),
    "stats_at() counts from the first to the last");
_Static_assert(offsetof(struct weir_stat3, large_pool) -
	    offsetof(struct weir_stat3, small_pool) ==
	sizeof(struct weir_stat),
    "stats_part() counts from small to large");
_Static_assert(POOL_SMALL % 2 == 0 && POOL_LARGE % 2 == 1 && POOL_FINE % 2 == 0,
    "what is fine is small in stats_part()");

static inline void
up3(struct weir_stat3 *stat, enum pool_kind kind, uint64_t n)
{
	stats_add(&stat->all, n);
	stats_add(stats_part(stat, kind), n);
}

static inline void
down3(struct weir_stat3 *stat, enum pool_kind kind, uint64_t n)
{
	stats_sub(&stat->all, n);
	stats_sub(stats_part(stat, kind), n);
}

static inline void
count_malloc(struct weir_stats *stats, enum pool_kind kind, uint64_t size,
    uint64_t requested)
{
	up3(&stats->allocation, kind, 1);
	up3(&stats->allocated_bytes, kind, size);
	up3(&stats->active, kind, 1);
	up3(&stats->active_bytes, kind, size);
	up3(&stats->requested_bytes, kind, requested);
}

static inline void
count_freed(struct weir_stats *stats, enum pool_kind kind, uint64_t size)
{
	down3(&stats->allocation, kind, 1);
	down3(&stats->allocated_bytes, kind, size);
}

static inline void
count_inactive(struct weir_stats *stats, enum pool_kind kind, uint64_t size,
    uint64_t requested)
{
	down3(&stats->active, kind, 1);
	down3(&stats->active_bytes, kind, size);
	down3(&stats->requested_bytes, kind, requested);
}

void
stats_malloc(struct pool *pool, uint64_t size, uint64_t requested)
{
	struct totals *totals = pool->owner->arena->totals;
	enum pool_kind kind = pool->kind;

	count_malloc(&pool->owner->arena->stats, kind, size, requested);
	count_malloc(&pool->owner->stats, kind, size, requested);
	if (totals == NULL)
		return;
	lock_enter(&totals->lock);
	totals->changes++;
	count_malloc(&totals->stats, kind, size, requested);
	lock_leave(&totals->lock);
}

void
stats_free_pending(struct pool *pool, uint64_t size)
{
	struct totals *totals = pool->owner->arena->totals;

	count_freed(&pool->owner->arena->stats, pool->kind, size);
	count_freed(&pool->owner->stats, pool->kind, size);
	if (totals == NULL)
		return;
	lock_enter(&totals->lock);
	totals->changes++;
	count_freed(&totals->stats, pool->kind, size);
	lock_leave(&totals->lock);
}

void
stats_inactive(struct pool *pool, uint64_t size, uint64_t requested)
{
	struct totals *totals = pool->owner->arena->totals;
	enum pool_kind kind = pool->kind;

	count_inactive(&pool->owner->arena->stats, kind, size, requested);
	count_inactive(&pool->owner->stats, kind, size, requested);
	if (totals == NULL)
		return;
	lock_enter(&totals->lock);
	totals->changes++;
	count_inactive(&totals->stats, kind, size, requested);
	lock_leave(&totals->lock);
}

static inline void
count_free(struct weir_stats *stats, enum pool_kind kind, uint64_t size,
    uint64_t requested)
{
	count_freed(stats, kind, size);
	count_inactive(stats, kind, size, requested);
}

void
stats_free(struct pool *pool, uint64_t size, uint64_t requested)
{
	struct totals *totals = pool->owner->arena->totals;
	enum pool_kind kind = pool->kind;

	count_free(&pool->owner->arena->stats, kind, size, requested);
	count_free(&pool->owner->stats, kind, size, requested);
	if (totals == NULL)
		return;
	lock_enter(&totals->lock);
	totals->changes++;
	count_free(&totals->stats, kind, size, requested);
	lock_leave(&totals->lock);
}

void
stats_flow3(
    struct weir_stat3 *stat, enum pool_kind kind, uint64_t up, uint64_t down)
{
	struct weir_stat *part = stats_part(stat, kind);

	stat->all.current += up - down;
	stat->all.allocated += up;
	stat->all.freed += down;
	part->current += up - down;
	part->allocated += up;
	part->freed += down;
}

void
stats_flow(struct pool *pool, enum stat3 which, uint64_t up, uint64_t down)
{
	struct arena *arena = pool->owner->arena;
	struct totals *totals = arena->totals;

	stats_flow3(stats_at(&arena->stats, which), pool->kind, up, down);
	stats_flow3(stats_at(&pool->owner->stats, which), pool->kind, up, down);
	if (totals == NULL)
		return;
	lock_enter(&totals->lock);
	totals->changes++;
	stats_flow3(stats_at(&totals->stats, which), pool->kind, up, down);
	lock_leave(&totals->lock);
}

static struct weir_stat *
stat1_at(struct weir_stats *stats, enum stat1 which)
{
	return which == STAT1_oversize_segments ? &stats->oversize_segments :
						  &stats->oversize_allocations;
}

static void
change1(struct weir_stat *stat, int delta)
{
	if (delta > 0)
		stats_add(stat, (uint64_t)delta);
	else
		stats_sub(stat, (uint64_t)-delta);
}

void
stats_change1(struct arena *arena, enum stat1 which, int delta)
{
	struct totals *totals = arena->totals;

	change1(stat1_at(&arena->stats, which), delta);
	if (totals == NULL)
		return;
	lock_enter(&totals->lock);
	change1(stat1_at(&totals->stats, which), delta);
	lock_leave(&totals->lock);
}

void
stats_note_peaks(struct weir_stats *stats)
{
	for (int i = 0; i < STAT3S; i++) {
		struct weir_stat3 *stat = stats_at(stats, (enum stat3)i);
		stats_note_peak(&stat->all);
		stats_note_peak(&stat->small_pool);
		stats_note_peak(&stat->large_pool);
	}
}

void
stats_note_arena_peaks(struct arena *arena)
{
	struct totals *totals = arena->totals;

	stats_note_peaks(&arena->stats);
	if (totals == NULL)
		return;
	lock_enter(&totals->lock);
	stats_note_peaks(&totals->stats);
	lock_leave(&totals->lock);
}

/* ---- Reading ----------------------------------------------------------- */

size_t
stats_pending_bytes(struct arena *arena, const struct stream *stream)
{
	size_t sum = 0;

	for (struct list *l = arena->waiting.pending.next;
	     l != &arena->waiting.pending; l = l->next) {
		struct block *block = block_of_pending(l);
		if (block_state(block) == BLOCK_PENDING &&
		    (stream == NULL || block->pool->owner->stream == stream))
			sum += block->size;
	}
	return sum;
}

static enum weir_status
check_out(const struct weir_stats *out, const char *call)
{
	if (out == NULL || out->struct_size < sizeof(*out))
		return status_set(WEIR_EINVAL,
		    "%s: out is NULL or its struct_size is not "
		    "set",
		    call);
	return WEIR_OK;
}

static enum weir_status
read_stats(int device, struct weir_stats *out, const char *call,
    void (*read)(struct arena *, struct weir_stats *))
{
	const struct options *options;
	struct weir_stats copy = { 0 };
	enum weir_status status = check_out(out, call);
	if (status != WEIR_OK)
		return status;
	status = options_get(&options);
	if (status != WEIR_OK)
		return status;
	status = device_resolve(device, &device);
	if (status != WEIR_OK)
		return status;
	struct arena *arena = arena_peek(device);
	if (arena != NULL)
		read(arena, &copy);
	copy.struct_size = out->struct_size;
	copy.max_split_size = options->max_split_size;
	copy.metadata_bytes = meta_bytes();
	*out = copy;
	return WEIR_OK;
}

enum weir_status
weir_stats(int device, struct weir_stats *out)
{
	return read_stats(device, out, "weir_stats", device_stats);
}

enum weir_status
weir_host_stats(int device, struct weir_stats *out)
{
	return read_stats(device, out, "weir_host_stats", device_host_stats);
}

enum weir_status
arena_stats(struct arena *arena, struct weir_stats *out)
{
	const struct options *options;
	enum weir_status status = check_out(out, "weir_pool_stats");
	if (status == WEIR_OK)
		status = options_get(&options);
	if (status != WEIR_OK)
		return status;
	size_t struct_size = out->struct_size;
	lock_enter(&arena->lock);
	tcache_tell(arena);
	*out = arena->stats;
	out->pending_bytes = stats_pending_bytes(arena, NULL);
	lock_leave(&arena->lock);
	out->struct_size = struct_size;
	out->max_split_size = options->max_split_size;
	return WEIR_OK;
}

static void
add_stat(struct weir_stat *to, const struct weir_stat *from)
{
	to->current += from->current;
	to->peak += from->peak;
	to->allocated += from->allocated;
	to->freed += from->freed;
}

/* Add all that is counted. Peaks were not at one time: the sum is a bound. */
static void
add_all(struct weir_stats *to, const struct weir_stats *from)
{
	for (int i = 0; i < STAT3S; i++) {
		struct weir_stat3 *stat = stats_at(to, (enum stat3)i);
		const struct weir_stat3 *part =
		    stats_at((struct weir_stats *)from, (enum stat3)i);
		add_stat(&stat->all, &part->all);
		add_stat(&stat->small_pool, &part->small_pool);
		add_stat(&stat->large_pool, &part->large_pool);
	}
	add_stat(&to->oversize_allocations, &from->oversize_allocations);
	add_stat(&to->oversize_segments, &from->oversize_segments);
	stats_add_counters(to, from);
}

enum weir_status
weir_stats_stream(int device, weir_stream handle, struct weir_stats *out)
{
	const struct options *options;
	struct weir_stats copy = { 0 };
	struct stream *stream;
	enum weir_status status = check_out(out, "weir_stats_stream");
	if (status != WEIR_OK)
		return status;
	status = options_get(&options);
	if (status != WEIR_OK)
		return status;
	status = stream_lookup(device, handle, &stream);
	if (status != WEIR_OK)
		return status;
	struct arena *arena =
	    stream != NULL ? arena_peek(stream->device) : NULL;
	for (; arena != NULL; arena = arena_next(arena)) {
		lock_enter(&arena->lock);
		tcache_tell(arena);
		struct pools *pools = pools_peek(arena, stream);
		if (pools != NULL && arena_is_counted(arena))
			add_all(&copy, &pools->stats);
		if (arena_is_counted(arena))
			copy.pending_bytes +=
			    stats_pending_bytes(arena, stream);
		lock_leave(&arena->lock);
	}
	if (stream != NULL)
		stream_put(stream);
	copy.struct_size = out->struct_size;
	copy.max_split_size = options->max_split_size;
	*out = copy;
	return WEIR_OK;
}

/* ---- Resets ------------------------------------------------------------ */

static void
reset_peak(struct weir_stat *stat)
{
	stat->peak = stat->current;
}

static void
reset_sums(struct weir_stat *stat)
{
	stat->allocated = 0;
	stat->freed = 0;
}

static void
each_stat(struct weir_stats *stats, void (*apply)(struct weir_stat *))
{
	for (int i = 0; i < STAT3S; i++) {
		struct weir_stat3 *stat = stats_at(stats, (enum stat3)i);
		apply(&stat->all);
		apply(&stat->small_pool);
		apply(&stat->large_pool);
	}
	apply(&stats->oversize_allocations);
	apply(&stats->oversize_segments);
}

void
stats_zero_counters(struct weir_stats *stats)
{
#define COUNTER_ZERO(name) stats->name = 0;
	WEIR_COUNTERS(COUNTER_ZERO)
#undef COUNTER_ZERO
}

void
stats_add_counters(struct weir_stats *to, const struct weir_stats *from)
{
#define COUNTER_ADD(name) to->name += from->name;
	WEIR_COUNTERS(COUNTER_ADD)
#undef COUNTER_ADD
}

void
stats_add_current(struct weir_stats *to, const struct weir_stats *from)
{
#define STAT3_ADD(name) to->name.all.current += from->name.all.current;
	WEIR_STAT3S(STAT3_ADD)
#undef STAT3_ADD
}

static void
reset_all(struct weir_stats *stats, void (*apply)(struct weir_stat *))
{
	each_stat(stats, apply);
	if (apply == reset_sums)
		stats_zero_counters(stats);
}

static void
reset_arena(struct arena *arena, void (*apply)(struct weir_stat *))
{
	lock_enter(&arena->lock);
	struct totals *totals = arena->totals;
	tcache_tell(arena);
	reset_all(&arena->stats, apply);
	for (struct list *l = arena->pools.next; l != &arena->pools;
	     l = l->next)
		reset_all(&CONTAINER_OF(l, struct pools, link)->stats, apply);
	if (arena == arena->main && totals != NULL) {
		lock_enter(&totals->lock);
		reset_all(&totals->stats, apply);
		lock_leave(&totals->lock);
	}
	tcache_tell(arena); /* of the new peaks */
	lock_leave(&arena->lock);
}

static void
reset_host_totals(struct arena *main, void (*apply)(struct weir_stat *))
{
	lock_enter(&main->lock);
	struct totals *totals = main->host_totals;
	lock_leave(&main->lock);
	if (totals == NULL)
		return;
	lock_enter(&totals->lock);
	reset_all(&totals->stats, apply);
	lock_leave(&totals->lock);
}

static enum weir_status
reset(int device, bool host, void (*apply)(struct weir_stat *))
{
	enum weir_status status = device_resolve(device, &device);
	if (status != WEIR_OK)
		return status;
	struct arena *arena = arena_peek(device);
	if (arena == NULL)
		return WEIR_OK;
	for (struct arena *a = arena; a != NULL; a = arena_next(a))
		if (arena_is_host(a) == host)
			reset_arena(a, apply);
	if (host)
		reset_host_totals(arena, apply);
	return WEIR_OK;
}

enum weir_status
weir_stats_reset_peak(int device)
{
	return reset(device, false, reset_peak);
}

enum weir_status
weir_host_stats_reset_peak(int device)
{
	return reset(device, true, reset_peak);
}

enum weir_status
weir_stats_reset_accumulated(int device)
{
	return reset(device, false, reset_sums);
}

enum weir_status
weir_host_stats_reset_accumulated(int device)
{
	return reset(device, true, reset_sums);
}

/* ---- Names ------------------------------------------------------------- */

struct item {
	const char *name;
	size_t offset;
};

#define ITEM_STAT(name, field)                                                 \
	{ name ".current", offsetof(struct weir_stats, field.current) },       \
	    { name ".peak", offsetof(struct weir_stats, field.peak) },         \
	    { name ".allocated",                                               \
		    offsetof(struct weir_stats, field.allocated) },            \
	    { name ".freed", offsetof(struct weir_stats, field.freed) },
#define ITEM_STAT3(name)                                                       \
	ITEM_STAT(#name ".all", name.all)                                      \
	ITEM_STAT(#name ".small_pool", name.small_pool)                        \
	ITEM_STAT(#name ".large_pool", name.large_pool)
#define ITEM_COUNTER(name) { #name, offsetof(struct weir_stats, name) },

static const struct item items[] = { WEIR_STAT3S(ITEM_STAT3) ITEM_STAT(
    "oversize_allocations", oversize_allocations) ITEM_STAT("oversize_segments",
    oversize_segments) WEIR_COUNTERS(ITEM_COUNTER) ITEM_COUNTER(max_split_size)
	    ITEM_COUNTER(pending_bytes) ITEM_COUNTER(metadata_bytes) };

bool
weir_stats_item(const struct weir_stats *stats, size_t i, const char **name,
    uint64_t *value)
{
	if (i >= sizeof(items) / sizeof(items[0]) || stats == NULL ||
	    name == NULL || value == NULL)
		return false;
	*name = items[i].name;
	memcpy(value, (const char *)stats + items[i].offset, sizeof(*value));
	return true;
}
