/*
 * Statistics: a device's, and each stream's part. Kept under the arena's lock
 * as things happen; a peak is exact.
 */
#include "allocator/memory/counters.h"

#include <stddef.h>
#include <string.h>

#include <weir/host.h>

#include "allocator/cache/depot.h"
#include "allocator/cache/tcache.h"
#include "allocator/memory/arena.h"
#include "allocator/memory/block.h"
#include "allocator/memory/totals.h"
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

_Static_assert(offsetof(struct weir_stat3, small_pool) ==
	    PART_SMALL * sizeof(struct weir_stat) &&
	offsetof(struct weir_stat3, large_pool) ==
	    PART_LARGE * sizeof(struct weir_stat),
    "parts are numbered as they lie");

/* ---- Tallies ----------------------------------------------------------- */

static __attribute__((noinline, cold)) void
raise_peak(struct tally_part *part, enum tallied which)
{
	part->peak[which] -= part->room[which];
	part->room[which] = 0;
}

static inline void
use_room(struct tally_part *part, enum tallied which, int64_t n)
{
	if (__builtin_expect((part->room[which] -= n) < 0, 0))
		raise_peak(part, which);
}

typedef void (*count)(struct tally_part *part, int64_t size, int64_t requested);

static inline QUICK void
count_malloc(struct tally_part *part, int64_t size, int64_t requested)
{
	const struct sums one = { 1, size, requested };

	part->up.count++;
	part->up.bytes += size;
	part->up.requested += requested;
#define TALLIED_MALLOC(name, sum) use_room(part, TALLIED_##name, one.sum);
	TALLIED_STATS(TALLIED_MALLOC)
#undef TALLIED_MALLOC
}

static inline void
count_freed(struct tally_part *part, int64_t size, int64_t requested)
{
	(void)requested;
	part->room[TALLIED_allocation]++;
	part->room[TALLIED_allocated_bytes] += size;
}

static inline void
count_inactive(struct tally_part *part, int64_t size, int64_t requested)
{
	part->room[TALLIED_active]++;
	part->room[TALLIED_active_bytes] += size;
	part->room[TALLIED_requested_bytes] += requested;
}

static inline void
count_free(struct tally_part *part, int64_t size, int64_t requested)
{
	count_freed(part, size, requested);
	count_inactive(part, size, requested);
}

static inline struct tally_part *
part_for(struct tally *tally, const struct pool *pool)
{
	return pool->kind == POOL_LARGE ? &tally->part[PART_LARGE] :
					  &tally->part[PART_SMALL];
}

static inline QUICK void
count_in(struct tally *tally, const struct pool *pool, uint64_t size,
    uint64_t requested, count count)
{
	count(&tally->part[PART_ALL], (int64_t)size, (int64_t)requested);
	count(part_for(tally, pool), (int64_t)size, (int64_t)requested);
}

static __attribute__((noinline)) void
count_in_totals(struct totals *totals, const struct pool *pool, uint64_t size,
    uint64_t requested, count count)
{
	lock_enter(&totals->lock);
	totals->changes++;
	count_in(&totals->tally, pool, size, requested, count);
	lock_leave(&totals->lock);
}

/* For a pool's stream, its arena and its device. */
static inline QUICK void
count_all(
    const struct pool *pool, uint64_t size, uint64_t requested, count count)
{
	struct arena *arena = pool->owner->arena;

	count_in(&arena->tally, pool, size, requested, count);
	count_in(&pool->owner->tally, pool, size, requested, count);
	if (__builtin_expect(arena->totals != NULL, 0))
		count_in_totals(arena->totals, pool, size, requested, count);
}

void
stats_malloc(struct pool *pool, uint64_t size, uint64_t requested)
{
	count_all(pool, size, requested, count_malloc);
}

void
stats_free(struct pool *pool, uint64_t size, uint64_t requested)
{
	count_all(pool, size, requested, count_free);
}

void
stats_free_pending(struct pool *pool, uint64_t size)
{
	count_all(pool, size, 0, count_freed);
}

void
stats_inactive(struct pool *pool, uint64_t size, uint64_t requested)
{
	count_all(pool, size, requested, count_inactive);
}

void
stats_move(
    struct pool *from, struct pool *to, uint64_t size, uint64_t requested)
{
	count_in(&from->owner->tally, from, size, requested, count_free);
	count_in(&to->owner->tally, to, size, requested, count_malloc);
}

static void
count_flow(
    struct tally_part *part, const struct sums *out, const struct sums *in)
{
	part->up.count += out->count;
	part->up.bytes += out->bytes;
	part->up.requested += out->requested;
#define TALLIED_FLOW(name, sum)                                                \
	part->room[TALLIED_##name] += in->sum - out->sum;
	TALLIED_STATS(TALLIED_FLOW)
#undef TALLIED_FLOW
}

static void
flow_in(struct tally *tally, const struct pool *pool, const struct sums *out,
    const struct sums *in)
{
	count_flow(&tally->part[PART_ALL], out, in);
	count_flow(part_for(tally, pool), out, in);
}

void
stats_flow(struct pool *pool, const struct sums *out, const struct sums *in)
{
	struct arena *arena = pool->owner->arena;
	struct totals *totals = arena->totals;

	flow_in(&arena->tally, pool, out, in);
	flow_in(&pool->owner->tally, pool, out, in);
	if (totals == NULL)
		return;
	lock_enter(&totals->lock);
	totals->changes++;
	flow_in(&totals->tally, pool, out, in);
	lock_leave(&totals->lock);
}

void
stats_note_peaks(struct tally *tally)
{
	for (int part = 0; part < PARTS; part++)
		for (int i = 0; i < TALLIED; i++)
			use_room(&tally->part[part], (enum tallied)i, 0);
}

void
stats_note_arena_peaks(struct arena *arena)
{
	struct totals *totals = arena->totals;

	stats_note_peaks(&arena->tally);
	if (totals == NULL)
		return;
	lock_enter(&totals->lock);
	stats_note_peaks(&totals->tally);
	lock_leave(&totals->lock);
}

/* One statistic of a part. */
static struct weir_stat
stat_of(const struct tally_part *part, enum tallied which, int64_t up)
{
	int64_t now = part->peak[which] - part->room[which];

	return (struct weir_stat){ .current = (uint64_t)now,
		.peak = (uint64_t)part->peak[which],
		.allocated = (uint64_t)up,
		.freed = (uint64_t)(up - (now - part->began[which])) };
}

struct weir_stats
stats_all(const struct weir_stats *stats, const struct tally *tally)
{
	struct weir_stats out = *stats;

	for (int i = 0; i < PARTS; i++) {
		const struct tally_part *part = &tally->part[i];
#define TALLIED_FILL(name, sum)                                                \
	(&out.name.all)[i] = stat_of(part, TALLIED_##name, part->up.sum);
		TALLIED_STATS(TALLIED_FILL)
#undef TALLIED_FILL
	}
	return out;
}

/* ---- The others --------------------------------------------------------- */

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
	*out = stats_all(&arena->stats, &arena->tally);
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
		if (pools != NULL && arena_is_counted(arena)) {
			struct weir_stats part =
			    stats_all(&pools->stats, &pools->tally);
			add_all(&copy, &part);
		}
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

enum reset { RESET_PEAKS, RESET_SUMS };

static void
reset_stat(struct weir_stat *stat, enum reset what)
{
	if (what == RESET_PEAKS) {
		stat->peak = stat->current;
	} else {
		stat->allocated = 0;
		stat->freed = 0;
	}
}

static void
reset_part(struct tally_part *part, enum reset what)
{
	for (int i = 0; i < TALLIED; i++) {
		int64_t now = part->peak[i] - part->room[i];

		if (what == RESET_SUMS) {
			part->began[i] = now;
		} else {
			part->peak[i] = now;
			part->room[i] = 0;
		}
	}
	if (what == RESET_SUMS)
		part->up = (struct sums){ 0 };
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
reset_all(struct weir_stats *stats, struct tally *tally, enum reset what)
{
	for (int i = 0; i < STAT3S; i++) {
		struct weir_stat3 *stat = stats_at(stats, (enum stat3)i);
		reset_stat(&stat->all, what);
		reset_stat(&stat->small_pool, what);
		reset_stat(&stat->large_pool, what);
	}
	reset_stat(&stats->oversize_allocations, what);
	reset_stat(&stats->oversize_segments, what);
	for (int i = 0; i < PARTS; i++)
		reset_part(&tally->part[i], what);
	if (what == RESET_SUMS)
		stats_zero_counters(stats);
}

static void
reset_arena(struct arena *arena, enum reset what)
{
	lock_enter(&arena->lock);
	struct totals *totals = arena->totals;
	tcache_tell(arena);
	reset_all(&arena->stats, &arena->tally, what);
	for (struct list *l = arena->pools.next; l != &arena->pools;
	     l = l->next) {
		struct pools *pools = CONTAINER_OF(l, struct pools, link);
		reset_all(&pools->stats, &pools->tally, what);
	}
	if (arena == arena->main && totals != NULL) {
		lock_enter(&totals->lock);
		reset_all(&totals->stats, &totals->tally, what);
		lock_leave(&totals->lock);
	}
	tcache_tell(arena); /* of the new peaks */
	lock_leave(&arena->lock);
}

static void
reset_host_totals(struct arena *main, enum reset what)
{
	lock_enter(&main->lock);
	struct totals *totals = main->host_totals;
	lock_leave(&main->lock);
	if (totals == NULL)
		return;
	lock_enter(&totals->lock);
	reset_all(&totals->stats, &totals->tally, what);
	lock_leave(&totals->lock);
}

static enum weir_status
reset(int device, bool host, enum reset what)
{
	enum weir_status status = device_resolve(device, &device);
	if (status != WEIR_OK)
		return status;
	struct arena *arena = arena_peek(device);
	if (arena == NULL)
		return WEIR_OK;
	for (struct arena *a = arena; a != NULL; a = arena_next(a))
		if (arena_is_host(a) == host)
			reset_arena(a, what);
	if (host)
		reset_host_totals(arena, what);
	return WEIR_OK;
}

enum weir_status
weir_stats_reset_peak(int device)
{
	return reset(device, false, RESET_PEAKS);
}

enum weir_status
weir_host_stats_reset_peak(int device)
{
	return reset(device, true, RESET_PEAKS);
}

enum weir_status
weir_stats_reset_accumulated(int device)
{
	return reset(device, false, RESET_SUMS);
}

enum weir_status
weir_host_stats_reset_accumulated(int device)
{
	return reset(device, true, RESET_SUMS);
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
