/*
 * <weir/trace.h>: snapshots. Each arena is copied under its lock, with all
 * thread caches stopped. The copy is then written with no lock held; the
 * history is copied piece by piece between the writes.
 */
#include "allocator/observe/snapshot.h"

#include <stdio.h>
#include <stdlib.h>

#include "allocator/account/totals.h"
#include "allocator/cache/tcache.h"
#include "allocator/host/known.h"
#include "allocator/memory/arena.h"
#include "allocator/memory/block.h"
#include "allocator/memory/emit.h"
#include "allocator/memory/handle.h"
#include "allocator/observe/device_stats.h"
#include "allocator/observe/tuning.h"
#include "base/meta.h"
#include "base/os.h"
#include "base/status.h"
#include "snapshot/write.h"

enum { OPTIONS_MAX = 64, NUMBERS_MAX = 256 };

_Static_assert((int)TRACE_ROUNDUP_CLASSES == (int)ROUNDUP_CLASSES,
    "snapshots have all classes");

/* The parts of a snapshot that the caller asked for. */
struct wish {
	int device; /* or WEIR_DEVICE_ALL */
	bool of_stream;
	weir_stream stream;
	bool of_pool;
	uint64_t graph;
	uint64_t user;
	bool no_trace;
};

/* A copy of one arena's state. */
struct arena_copy {
	struct arena *arena;
	struct trace_segment *segments;
	size_t segment_count;
	size_t segments_bytes;
	struct trace_block *blocks;
	size_t block_count;
	size_t blocks_bytes;
	struct trace_pool pool;
	uint64_t end;    /* the next event's number at the copy */
	uint64_t oldest; /* number of the oldest event that is kept */
	uint64_t begun;  /* number of the ring's first event */
	struct arena_copy *next;
};

/* A copy of one device's state. */
struct part {
	struct arena *main;        /* NULL: no arena, or not asked for */
	struct arena_copy *copies; /* of its arenas, the device's own first */
	struct arena_copy **last;
	struct weir_stats stats;
	uint64_t first; /* number of the oldest event to write */
	uint64_t own;   /* its own arena's copy was made before this event */
	uint64_t end;   /* the number after the last event to write */
	uint64_t recorded;
	uint64_t dropped;
};

/* ---- Looking ----------------------------------------------------------- */

/* Is a block in the snapshot? A block is left out if its driver segment is
 * being freed or its memory has left with a suspended arena: in the history
 * that memory is gone. */
static bool
is_shown(const struct block *block)
{
	lock_assert_held(&block->arena->lock);
	return block_is_held(block) && block_present(block) == block->size &&
	    (block->segment->expandable ||
		block_state(block) != BLOCK_UNMAPPING);
}

static weir_stream
handle_of_block(const struct block *block)
{
	return block->pool->owner->stream->handle;
}

static void
add_block(struct trace_segment *segment, struct arena_copy *copy,
    const struct block *block)
{
	enum block_state state = block_state(block);
	bool active = state == BLOCK_ACTIVE || state == BLOCK_PENDING;

	copy->blocks[copy->block_count++] = (struct trace_block){
		.addr = block->addr,
		.size = block->size,
		.requested = active ? block->requested : 0,
		.stream = (uint64_t)(uintptr_t)handle_of_block(block),
		.stack = active ? block->stack : 0,
		.state = state == BLOCK_ACTIVE ? TRACE_BLOCK_ALLOCATED :
		    state == BLOCK_PENDING     ? TRACE_BLOCK_PENDING :
						 TRACE_BLOCK_INACTIVE,
		.cached = state == BLOCK_CACHED,
		.free = state == BLOCK_FREE,
		.heap = block->pool->owner->index,
		.epoch = block_is_complete(block) ? 0 : block->epoch,
	};
	segment->size += block->size;
	segment->allocated += state == BLOCK_ACTIVE ? block->size : 0;
	segment->active += active ? block->size : 0;
	segment->requested += active ? block->requested : 0;
	segment->block_count++;
}

/* Copy the neighbouring blocks with memory from `first` on, as one segment.
 * Returns the block after them. */
static const struct block *
add_run(
    const struct wish *wish, struct arena_copy *copy, const struct block *first)
{
	const struct block *block = first;
	size_t blocks = copy->block_count;
	bool wanted = !wish->of_stream;
	struct trace_segment segment = {
		.device = first->arena->device,
		.addr = first->addr,
		.stream = (uint64_t)(uintptr_t)first->segment->stream,
		.pool = first->arena->memory.pool,
		.stack = first->segment->stack,
		.small = first->segment->kind != POOL_LARGE,
		.expandable = first->segment->expandable,
		.number = (uint32_t)copy->segment_count,
		.blocks = copy->blocks + blocks,
	};

	for (; block != NULL && is_shown(block); block = block->next) {
		add_block(&segment, copy, block);
		wanted = wanted || handle_of_block(block) == wish->stream;
	}
	if (wanted)
		copy->segments[copy->segment_count++] = segment;
	else
		copy->block_count = blocks;
	return block;
}

/* Allocate the arrays for all segments and blocks of the arena.
 * WEIR_EHOSTMEM. */
static enum weir_status
make_copy_arrays(struct arena_copy *copy)
{
	struct arena *arena = copy->arena;
	size_t blocks = 0;

	for (struct list *l = arena->memory.segments.next;
	     l != &arena->memory.segments; l = l->next) {
		const struct segment *segment =
		    CONTAINER_OF(l, struct segment, link);
		for (const struct block *b = segment->first; b != NULL;
		     b = b->next)
			blocks++;
	}
	/* Each segment of the copy has a block at least. */
	copy->blocks_bytes = (blocks + 1) * sizeof(*copy->blocks);
	copy->segments_bytes = (blocks + 1) * sizeof(*copy->segments);
	copy->blocks = meta_map(copy->blocks_bytes);
	copy->segments = meta_map(copy->segments_bytes);
	if (copy->blocks == NULL || copy->segments == NULL)
		return status_set(
		    WEIR_EHOSTMEM, "no host memory for a snapshot");
	return WEIR_OK;
}

static void
look_at_segments(const struct wish *wish, struct arena_copy *copy)
{
	struct arena *arena = copy->arena;

	for (struct list *l = arena->memory.segments.next;
	     l != &arena->memory.segments; l = l->next) {
		const struct block *b =
		    CONTAINER_OF(l, struct segment, link)->first;
		while (b != NULL)
			b = is_shown(b) ? add_run(wish, copy, b) : b->next;
	}
}

/* Did the caller ask for this arena? Memory of no stream belongs to no private
 * pool either. */
static bool
is_wanted(const struct wish *wish, const struct arena *arena)
{
	if (!arena->traits.has_streams)
		return !wish->of_pool && !wish->of_stream;
	return !wish->of_pool ||
	    (wish->graph == arena->memory.pool.graph &&
		wish->user == arena->memory.pool.user);
}

/* Copy the state of an arena. Later changes belong to the next snapshot. */
static enum weir_status
copy_arena(const struct wish *wish, struct arena_copy *copy)
{
	struct arena *arena = copy->arena;

	lock_enter(&arena->lock);
	tcache_stop(arena);
	enum weir_status status = make_copy_arrays(copy);
	if (status == WEIR_OK) {
		if (is_wanted(wish, arena))
			look_at_segments(wish, copy);
		copy->pool = arena->memory.pool;
		const struct history_ring *ring = emit_ring_enter(arena);
		copy->end = ring->next;
		copy->oldest = history_oldest(ring);
		copy->begun = ring->first;
		emit_ring_leave(arena);
		if (arena == arena->main)
			emit_snapshot(arena);
	}
	tcache_go(arena);
	lock_leave(&arena->lock);
	return status;
}

static enum weir_status
part_of_arena(const struct wish *wish, struct part *part, struct arena *arena)
{
	struct arena_copy *copy = meta_zalloc(sizeof(*copy));

	if (copy == NULL)
		return status_set(
		    WEIR_EHOSTMEM, "no host memory for a snapshot");
	copy->arena = arena;
	*part->last = copy;
	part->last = &copy->next;
	enum weir_status status = copy_arena(wish, copy);
	if (copy->end > part->end)
		part->end = copy->end;
	return status;
}

/* Copy the arenas of a device, one after the other. */
static enum weir_status
part_of_device(const struct wish *wish, struct part *part)
{
	enum weir_status status = WEIR_OK;
	struct arena *main = part->main;

	for (struct arena *a = main; a != NULL && status == WEIR_OK;
	     a = arena_next(a))
		status = part_of_arena(wish, part, a);
	if (status != WEIR_OK)
		return status;
	device_stats(main, &part->stats);
	part->first = part->copies->oldest;
	part->own = part->copies->end;
	part->recorded = part->end - part->copies->begun;
	part->dropped = part->first - part->copies->begun;
	return WEIR_OK;
}

/* ---- Writing ----------------------------------------------------------- */

static int
compare_segments(const void *a, const void *b)
{
	const struct trace_segment *const *x = a;
	const struct trace_segment *const *y = b;

	return ((*x)->addr > (*y)->addr) - ((*x)->addr < (*y)->addr);
}

/* How many segments of host memory, or of device memory, a copy has. */
static size_t
count_of(const struct arena_copy *copy, bool host)
{
	return copy->arena->traits.is_page_locked == host ?
	    copy->segment_count :
	    0;
}

/* Call act() for each segment of all arenas of a device, by address. */
static enum weir_status
each_segment(const struct part *part, bool host,
    void (*act)(void *closure, const struct trace_segment *segment),
    void *closure)
{
	const struct trace_segment **all;
	size_t n = 0;

	for (const struct arena_copy *v = part->copies; v != NULL; v = v->next)
		n += count_of(v, host);
	if (n == 0)
		return WEIR_OK;
	size_t size = n * sizeof(*all);
	all = meta_map(size);
	if (all == NULL)
		return status_set(
		    WEIR_EHOSTMEM, "no host memory for a snapshot");
	n = 0;
	for (const struct arena_copy *v = part->copies; v != NULL; v = v->next)
		for (size_t i = 0; i < count_of(v, host); i++)
			all[n++] = &v->segments[i];
	qsort(all, n, sizeof(*all), compare_segments);
	for (size_t i = 0; i < n; i++)
		act(closure, all[i]);
	meta_unmap(all, size);
	return WEIR_OK;
}

static void
write_segment(void *closure, const struct trace_segment *segment)
{
	snapshot_write_segment(closure, segment);
}

static enum weir_status
write_device_segments(
    struct snapshot_file *s, const struct part *part, bool host)
{
	return each_segment(part, host, write_segment, s);
}

static enum weir_status
write_segments(struct snapshot_file *s, const struct part *parts, int n)
{
	enum weir_status status = WEIR_OK;

	snapshot_write_segments(s);
	for (int i = 0; i < n && status == WEIR_OK; i++)
		status = write_device_segments(s, &parts[i], false);
	snapshot_write_segments_end(s);
	snapshot_write_host_segments(s);
	for (int i = 0; i < n && status == WEIR_OK; i++)
		status = write_device_segments(s, &parts[i], true);
	snapshot_write_host_segments_end(s);
	return status;
}

/* Is an event older than the copy of its arena? If the arena is gone, compare
 * with the copy of the device's own arena. */
static bool
is_older(const struct part *part, const struct trace_event *event, uint64_t seq)
{
	for (const struct arena_copy *v = part->copies; v != NULL; v = v->next)
		if (v->pool.graph == event->pool.graph &&
		    v->pool.user == event->pool.user)
			return seq < v->end;
	return seq < part->own;
}

/* Write `n` events, of which the first has the number `from`. */
static void
write_piece(struct snapshot_file *s, const struct part *part,
    const struct trace_event *events, size_t n, uint64_t from)
{
	if (from + n <= part->own) { /* the usual case */
		snapshot_write_events(s, events, n, from);
		return;
	}
	for (size_t i = 0; i < n; i++)
		if (is_older(part, &events[i], from + i))
			snapshot_write_events(s, &events[i], 1, from + i);
}

/* Write the events of one device. They are copied in pieces, under its lock. */
static void
write_events(
    struct snapshot_file *s, struct part *part, struct trace_event *events)
{
	uint64_t from = part->first;

	while (from < part->end) {
		uint64_t before = from;
		lock_enter(&part->main->lock);
		const struct history_ring *ring = emit_ring_enter(part->main);
		size_t n = history_copy(
		    ring, &from, part->end, events, EVENTS_AT_ONCE);
		emit_ring_leave(part->main);
		lock_leave(&part->main->lock);
		if (n == 0)
			from = part->end;
		part->dropped += from - before;
		write_piece(s, part, events, n, from);
		from += n;
	}
}

static enum weir_status
write_traces(
    struct snapshot_file *s, const struct wish *wish, struct part *parts, int n)
{
	size_t size = EVENTS_AT_ONCE * sizeof(struct trace_event);
	struct trace_event *events = meta_alloc(size);

	if (events == NULL)
		return status_set(
		    WEIR_EHOSTMEM, "no host memory for a snapshot");
	snapshot_write_traces(s);
	for (int i = 0; i < n; i++) {
		snapshot_write_trace(s);
		if (parts[i].copies != NULL && !wish->no_trace)
			write_events(s, &parts[i], events);
		snapshot_write_trace_end(s);
	}
	snapshot_write_traces_end(s);
	meta_free(events, size);
	return WEIR_OK;
}

/* Read all options as text; returns their number. */
static size_t
read_options(struct weir_option *options, struct trace_option *out)
{
	size_t n = 0;

	static const char *const sources[] = { NULL, "environment", "call" };

	status_mute();
	while (n < OPTIONS_MAX && weir_option_at(n, &options[n]) == WEIR_OK) {
		out[n] = (struct trace_option){ options[n].key,
			options[n].value, sources[options[n].source] };
		n++;
	}
	status_unmute();
	return n;
}

/* The option or call that set the limit of a device. */
static const char *
limit_source(const struct arena *main, const struct options *options)
{
	size_t limit = device_limit(main);

	ASSERT(main == main->main);
	if (limit == options->memory_limit)
		return "memory_limit_mb";
	if (limit ==
	    (size_t)(options->memory_fraction *
		(double)main->account.total_bytes))
		return "per_process_memory_fraction";
	return "weir_limit_set()";
}

/* Where page-locked memory of a device comes from. NULL if there is none. */
static const char *
pinned_source(const struct part *part, const struct options *options)
{
	enum weir_host_source source;

	for (const struct arena_copy *copy = part->copies; copy != NULL;
	     copy = copy->next)
		if (copy->arena->traits.account == ACCOUNT_HOST &&
		    host_source_known(part->main, options, &source))
			return options_source_name(source);
	return NULL;
}

/* The data of the snapshot's last parts. */
struct rest {
	struct weir_option options[OPTIONS_MAX];
	struct trace_option texts[OPTIONS_MAX];
	struct trace_device devices[DEVICES_MAX];
	struct trace_number numbers[DEVICES_MAX][NUMBERS_MAX];
};

static size_t
list_devices(
    struct rest *rest, const struct options *options, struct part *parts, int n)
{
	size_t count = 0;

	for (int i = 0; i < n; i++) {
		struct trace_number *numbers = rest->numbers[count];
		size_t k = 0;
		if (parts[i].main == NULL)
			continue;
		parts[i].stats.max_split_size = options->max_split_size;
		parts[i].stats.metadata_bytes = meta_bytes();
		while (k < NUMBERS_MAX &&
		    weir_stats_item(&parts[i].stats, k, &numbers[k].name,
			&numbers[k].value))
			k++;
		rest->devices[count++] = (struct trace_device){
			.device = i,
			.recorded = parts[i].recorded,
			.dropped = parts[i].dropped,
			.total_bytes = parts[i].main->account.total_bytes,
			.limit_bytes = device_limit(parts[i].main),
			.limit_source = limit_source(parts[i].main, options),
			.pinned_source = pinned_source(&parts[i], options),
			.numbers = numbers,
			.number_count = k,
		};
	}
	return count;
}

static enum weir_status
write_rest(struct snapshot_file *s, const struct options *options,
    const struct wish *wish, struct part *parts, int n)
{
	const char *conf = getenv("PYTORCH_CUDA_ALLOC_CONF");
	if (conf == NULL)
		conf = getenv("PYTORCH_ALLOC_CONF");
	struct rest *rest = meta_map(sizeof(*rest));
	if (rest == NULL)
		return status_set(
		    WEIR_EHOSTMEM, "no host memory for a snapshot");
	size_t devices = list_devices(rest, options, parts, n);
	struct trace_settings settings = {
		.conf = conf != NULL ? conf : "",
		.max_split_size = options->max_split_size == OPTION_UNLIMITED ?
		    UINT64_MAX :
		    options->max_split_size,
		.garbage_collection_threshold =
		    options->garbage_collection_threshold,
		.expandable_segments = options->expandable_segments,
		.pinned_register = options->pinned_register,
		.pinned_threads = options->pinned_threads,
		.roundup = options->roundup,
		.partial = wish->of_stream || wish->of_pool,
		.options = rest->texts,
		.option_count = read_options(rest->options, rest->texts),
	};

	for (size_t i = 0; i < devices; i++)
		settings.overflowed |= rest->devices[i].dropped > 0;
	snapshot_write_settings(s, &settings, rest->devices, devices);
	snapshot_write_annotations(s);
	snapshot_write_weir(s, &settings, rest->devices, devices);
	meta_unmap(rest, sizeof(*rest));
	return WEIR_OK;
}

/* ---- The call ---------------------------------------------------------- */

static enum weir_status
read_wish(const struct weir_snapshot *what, struct wish *wish)
{
	static const char call[] = "weir_snapshot";

	*wish = (struct wish){ .device = WEIR_DEVICE_ALL };
	if (what == NULL)
		return WEIR_OK;
	if (what->struct_size < sizeof(*what))
		return status_set(
		    WEIR_EINVAL, "%s: struct_size is not set", call);
	wish->of_stream = what->of_stream;
	wish->stream = what->stream != NULL ? what->stream : WEIR_STREAM_LEGACY;
	wish->of_pool = what->of_pool;
	wish->graph = what->pool_id[0];
	wish->user = what->pool_id[1];
	wish->no_trace = what->no_trace;
	if (what->device == WEIR_DEVICE_ALL)
		return WEIR_OK;
	return device_resolve(what->device, &wish->device);
}

static enum weir_status
check_call(const char *path, enum weir_snapshot_format format)
{
	static const char call[] = "weir_snapshot_write";

	if (os_forked())
		return status_forked(call);
	if (path == NULL || *path == '\0')
		return status_set(WEIR_EINVAL, "%s: there is no path", call);
	if (format != WEIR_SNAPSHOT_PICKLE && format != WEIR_SNAPSHOT_JSON)
		return status_set(
		    WEIR_EINVAL, "%s: unknown format %d", call, (int)format);
	return WEIR_OK;
}

static void
drop_parts(struct part *parts, int n)
{
	for (int i = 0; i < n; i++) {
		while (parts[i].copies != NULL) {
			struct arena_copy *copy = parts[i].copies;
			parts[i].copies = copy->next;
			meta_unmap(copy->segments, copy->segments_bytes);
			meta_unmap(copy->blocks, copy->blocks_bytes);
			meta_free(copy, sizeof(*copy));
		}
	}
	meta_unmap(parts, DEVICES_MAX * sizeof(*parts));
}

/* Copy all devices that the caller asked for. */
static enum weir_status
parts_of_all(const struct wish *wish, struct part *parts, int n)
{
	enum weir_status status = WEIR_OK;

	for (int i = 0; i < n && status == WEIR_OK; i++) {
		if (wish->device != WEIR_DEVICE_ALL && wish->device != i)
			continue;
		parts[i].main = arena_peek(i);
		parts[i].last = &parts[i].copies;
		if (parts[i].main != NULL)
			status = part_of_device(wish, &parts[i]);
	}
	return status;
}

/* Write a new file at `path`; NULL: the file that is open as `fd`. */
static enum weir_status
begin_file(const char *path, int fd, enum weir_snapshot_format format,
    struct snapshot_file **out)
{
	struct out *file;
	enum weir_status status =
	    path != NULL ? out_open(path, &file) : out_onto(fd, &file);
	if (status != WEIR_OK)
		return status;
	status = snapshot_write_begin(file, format, out);
	if (status != WEIR_OK)
		out_abandon(file);
	return status;
}

static enum weir_status
write_parts(
    struct snapshot_file *s, const struct wish *wish, struct part *parts, int n)
{
	const struct options *options;
	enum weir_status status = options_get(&options);
	if (status == WEIR_OK)
		status = write_segments(s, parts, n);
	if (status == WEIR_OK)
		status = write_traces(s, wish, parts, n);
	if (status == WEIR_OK)
		status = write_rest(s, options, wish, parts, n);
	if (status == WEIR_OK)
		return snapshot_write_close(s);
	snapshot_write_abandon(s);
	return status;
}

static enum weir_status
write_snapshot(const char *path, int fd, enum weir_snapshot_format format,
    const struct wish *wish)
{
	/* With no driver loaded there are no arenas. */
	const struct driver *driver = driver_peek();
	struct snapshot_file *s;
	int n = driver != NULL ? driver->device_count : 0;
	if (n > DEVICES_MAX)
		n = DEVICES_MAX;
	struct part *parts = meta_map(DEVICES_MAX * sizeof(*parts));
	if (parts == NULL)
		return status_set(
		    WEIR_EHOSTMEM, "no host memory for a snapshot");
	enum weir_status status = parts_of_all(wish, parts, n);
	if (status == WEIR_OK)
		status = begin_file(path, fd, format, &s);
	if (status == WEIR_OK)
		status = write_parts(s, wish, parts, n);
	drop_parts(parts, n);
	return status;
}

enum weir_status
weir_snapshot_write(const char *path, enum weir_snapshot_format format,
    const struct weir_snapshot *what)
{
	if (os_forked())
		return status_forked("weir_snapshot_write");
	struct wish wish;
	enum weir_status status = check_call(path, format);
	if (status == WEIR_OK)
		status = read_wish(what, &wish);
	if (status != WEIR_OK)
		return status;
	return write_snapshot(path, -1, format, &wish);
}

/* ---- Visiting ---------------------------------------------------------- */

struct visit {
	weir_segment_visitor visitor;
	void *user;
	struct weir_block_view *blocks; /* as many as any segment has */
};

static weir_stream
stream_view(uint64_t handle)
{
	return handle == (uint64_t)(uintptr_t)WEIR_STREAM_LEGACY ?
	    NULL :
	    (weir_stream)(uintptr_t)handle;
}

static enum weir_block_state
state_view(enum trace_block_state state)
{
	return state == TRACE_BLOCK_ALLOCATED ? WEIR_BLOCK_ALLOCATED :
	    state == TRACE_BLOCK_PENDING      ? WEIR_BLOCK_PENDING :
						WEIR_BLOCK_INACTIVE;
}

static void
visit_segment(void *closure, const struct trace_segment *segment)
{
	const struct visit *visit = closure;

	for (size_t i = 0; i < segment->block_count; i++) {
		const struct trace_block *b = &segment->blocks[i];
		visit->blocks[i] = (struct weir_block_view){
			.address = (void *)(uintptr_t)b->addr,
			.size = b->size,
			.requested_bytes = b->requested,
			.stream = stream_view(b->stream),
			.state = state_view(b->state),
		};
	}
	visit->visitor(
	    &(struct weir_segment_view){
		.struct_size = sizeof(struct weir_segment_view),
		.device = segment->device,
		.address = (void *)(uintptr_t)segment->addr,
		.size = segment->size,
		.allocated_bytes = segment->allocated,
		.active_bytes = segment->active,
		.requested_bytes = segment->requested,
		.stream = stream_view(segment->stream),
		.pool_id = { segment->pool.graph, segment->pool.user },
		.small = segment->small,
		.expandable = segment->expandable,
		.blocks = visit->blocks,
		.block_count = segment->block_count,
		.number = segment->number },
	    visit->user);
}

/* The number of blocks of the segment that has the most. */
static size_t
most_blocks(const struct part *parts, int n)
{
	size_t most = 1;

	for (int i = 0; i < n; i++)
		for (const struct arena_copy *v = parts[i].copies; v != NULL;
		     v = v->next)
			for (size_t k = 0; k < v->segment_count; k++)
				if (v->segments[k].block_count > most)
					most = v->segments[k].block_count;
	return most;
}

static enum weir_status
visit_all(struct visit *visit, const struct part *parts, int n)
{
	enum weir_status status = WEIR_OK;
	size_t size = most_blocks(parts, n) * sizeof(*visit->blocks);

	visit->blocks = meta_map(size);
	if (visit->blocks == NULL)
		return status_set(
		    WEIR_EHOSTMEM, "no host memory for a snapshot");
	for (int i = 0; i < n && status == WEIR_OK; i++)
		status = each_segment(&parts[i], false, visit_segment, visit);
	meta_unmap(visit->blocks, size);
	return status;
}

enum weir_status
weir_segments_visit(
    const struct weir_snapshot *what, weir_segment_visitor visitor, void *user)
{
	static const char call[] = "weir_segments_visit";
	const struct driver *driver = driver_peek();
	int n = driver != NULL ? driver->device_count : 0;
	struct visit visit = { .visitor = visitor, .user = user };
	struct wish wish;

	if (os_forked())
		return status_forked(call);
	if (visitor == NULL)
		return status_set(WEIR_EINVAL, "%s: visitor is NULL", call);
	enum weir_status status = read_wish(what, &wish);
	if (status != WEIR_OK)
		return status;
	struct part *parts = meta_map(DEVICES_MAX * sizeof(*parts));
	if (parts == NULL)
		return status_set(
		    WEIR_EHOSTMEM, "no host memory for a snapshot");
	if (n > DEVICES_MAX)
		n = DEVICES_MAX;
	status = parts_of_all(&wish, parts, n);
	if (status == WEIR_OK)
		status = visit_all(&visit, parts, n);
	drop_parts(parts, n);
	return status;
}

enum weir_status
snapshot_onto(int fd, enum weir_snapshot_format format)
{
	const struct wish all = { .device = WEIR_DEVICE_ALL };

	return write_snapshot(NULL, fd, format, &all);
}
