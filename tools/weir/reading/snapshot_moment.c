/*
 * Events of segments are undone from the last one backwards, in an array of
 * ranges that is sorted by address and has no overlaps. Events of blocks are
 * not undone: the lives (snapshot_lives.h) have the begin and the end of each
 * block, and the lives that span the event are the blocks. The rest of a range
 * is free.
 */
#include "tools/weir/reading/snapshot_moment.h"

#include <stdlib.h>
#include <string.h>

#include "tools/weir/reading/snapshot_lives.h"
#include "tools/weir/reading/torch_sizes.h"
#include "tools/weir/tool.h"

/* ---- Ranges ------------------------------------------------------------ */

struct ranges {
	struct snapshot_segment *items;
	size_t count;
	size_t capacity;
	bool failed; /* memory was lacking */
};

static uint64_t
end_of(const struct snapshot_segment *range)
{
	return range->address + range->bytes;
}

/* The first range that ends above an address. */
static size_t
find_above(const struct ranges *ranges, uint64_t address)
{
	size_t low = 0;
	size_t high = ranges->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (end_of(&ranges->items[middle]) > address)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

static void
insert_range(
    struct ranges *ranges, size_t at, const struct snapshot_segment *range)
{
	if (ranges->count == ranges->capacity) {
		size_t capacity = 2 * ranges->capacity + 64;
		struct snapshot_segment *items =
		    realloc(ranges->items, capacity * sizeof(*items));

		if (items == NULL) {
			ranges->failed = true;
			return;
		}
		ranges->items = items;
		ranges->capacity = capacity;
	}
	memmove(&ranges->items[at + 1], &ranges->items[at],
	    (ranges->count - at) * sizeof(*range));
	ranges->items[at] = *range;
	ranges->count++;
}

/* Remove all memory from `low` up to `high`. */
static void
remove_range(struct ranges *ranges, uint64_t low, uint64_t high)
{
	size_t first = find_above(ranges, low);
	size_t last;

	if (first >= ranges->count || low >= high)
		return;
	struct snapshot_segment *range = &ranges->items[first];

	if (range->address < low) {
		struct snapshot_segment behind = *range;

		range->bytes = low - range->address;
		first++;
		if (end_of(&behind) > high) {
			behind.bytes = end_of(&behind) - high;
			behind.address = high;
			insert_range(ranges, first, &behind);
			return;
		}
	}
	for (last = first;
	     last < ranges->count && end_of(&ranges->items[last]) <= high;
	     last++)
		;
	memmove(&ranges->items[first], &ranges->items[last],
	    (ranges->count - last) * sizeof(*range));
	ranges->count -= last - first;
	if (first == ranges->count || ranges->items[first].address >= high)
		return;
	range = &ranges->items[first];
	range->bytes = end_of(range) - high;
	range->address = high;
}

static void
add_range(struct ranges *ranges, const struct snapshot_segment *range)
{
	if (range->bytes == 0 || range->bytes > UINT64_MAX - range->address)
		return;
	remove_range(ranges, range->address, end_of(range));
	insert_range(ranges, find_above(ranges, range->address), range);
}

/* ---- Segments ---------------------------------------------------------- */

static void
undo_event(
    struct ranges *ranges, const struct snapshot *snapshot, uint32_t event)
{
	const struct snapshot_events *events = &snapshot->events;
	struct snapshot_segment range = {
		.address = events->address[event],
		.bytes = events->bytes[event],
		.stream = events->stream[event],
		.stack = events->stack[event],
		.pool = events->pool[event],
		.device = events->device[event],
		.small = events->bytes[event] <= TORCH_SMALL_SEGMENT,
		.expandable = events->action[event] == SNAPSHOT_SEGMENT_UNMAP,
	};

	switch (events->action[event]) {
	case SNAPSHOT_SEGMENT_ALLOC:
	case SNAPSHOT_SEGMENT_MAP:
		if (range.bytes <= UINT64_MAX - range.address)
			remove_range(ranges, range.address, end_of(&range));
		break;
	case SNAPSHOT_SEGMENT_FREE:
	case SNAPSHOT_SEGMENT_UNMAP:
		add_range(ranges, &range);
		break;
	default:
		break;
	}
}

/* True if two neighbouring ranges are one segment. */
static bool
are_one_segment(
    const struct snapshot_segment *a, const struct snapshot_segment *b)
{
	return a->expandable && b->expandable && end_of(a) == b->address &&
	    a->stream == b->stream && a->pool == b->pool;
}

/* Join the pieces of an expandable segment. The segment is small only if all
 * its pieces are. */
static void
join_ranges(struct ranges *ranges)
{
	size_t kept = 0;

	for (size_t i = 0; i < ranges->count; i++) {
		struct snapshot_segment *last =
		    kept > 0 ? &ranges->items[kept - 1] : NULL;

		if (last != NULL && are_one_segment(last, &ranges->items[i])) {
			last->small = last->small && ranges->items[i].small;
			last->bytes += ranges->items[i].bytes;
		} else {
			ranges->items[kept++] = ranges->items[i];
		}
	}
	ranges->count = kept;
}

static struct ranges
find_ranges(const struct snapshot *snapshot, uint32_t device, uint32_t event)
{
	struct snapshot_trace trace = snapshot->traces[device];
	struct ranges ranges = { 0 };

	for (uint32_t i = 0; i < snapshot->segment_count; i++)
		if (snapshot->segments[i].device == device)
			add_range(&ranges, &snapshot->segments[i]);
	for (uint32_t i = trace.first + trace.count; i > event + 1; i--)
		undo_event(&ranges, snapshot, i - 1);
	join_ranges(&ranges);
	return ranges;
}

/* ---- Blocks ------------------------------------------------------------ */

struct blocks {
	struct snapshot_block *items;
	uint32_t count;
};

static int
compare_blocks(const void *a, const void *b)
{
	uint64_t one = ((const struct snapshot_block *)a)->address;
	uint64_t other = ((const struct snapshot_block *)b)->address;

	return one < other ? -1 : one > other;
}

/* True if the trace has free_completed events. Old traces have only
 * free_requested. */
static bool
has_completions(const struct snapshot *snapshot, uint32_t device)
{
	struct snapshot_trace trace = snapshot->traces[device];

	for (uint32_t i = 0; i < trace.count; i++)
		if (snapshot->events.action[trace.first + i] ==
		    SNAPSHOT_FREE_COMPLETED)
			return true;
	return false;
}

/* True if the block was in use right after the event. */
static bool
spans(const struct life *life, uint32_t event, bool completions)
{
	uint32_t end = completions ? life->completed : life->requested;

	if (life->alloc != LIFE_NONE && life->alloc > event)
		return false;
	return end == LIFE_NONE ? life->block != LIFE_NONE : end > event;
}

static struct snapshot_block
block_of(
    const struct snapshot *snapshot, const struct life *life, uint32_t event)
{
	struct snapshot_block block = {
		.address = life->address,
		.bytes = (life->bytes + TORCH_GRANULE - 1) / TORCH_GRANULE *
		    TORCH_GRANULE,
		.requested_bytes = life->bytes,
		.stream = life->stream,
		.stack = life->stack,
	};

	if (life->block != LIFE_NONE)
		block = snapshot->blocks[life->block];
	block.state = life->requested != LIFE_NONE && life->requested <= event ?
	    SNAPSHOT_PENDING :
	    SNAPSHOT_ACTIVE;
	return block;
}

/* Find the blocks in use at an event, sorted by address. */
static bool
find_blocks(const struct snapshot *snapshot, uint32_t device, uint32_t event,
    struct blocks *out)
{
	bool completions = has_completions(snapshot, device);
	struct lives lives;

	if (!lives_find(snapshot, device, &lives))
		return false;
	*out = (struct blocks){ .items = calloc((size_t)lives.count + 1,
				    sizeof(*out->items)) };
	for (uint32_t i = 0; i < lives.count && out->items != NULL; i++)
		if (spans(&lives.items[i], event, completions))
			out->items[out->count++] =
			    block_of(snapshot, &lives.items[i], event);
	lives_drop(&lives);
	if (out->items == NULL) {
		complain("out of memory");
		return false;
	}
	qsort(out->items, out->count, sizeof(*out->items), compare_blocks);
	return true;
}

static void
append_block(struct snapshot *moment, struct snapshot_segment *segment,
    const struct snapshot_block *block)
{
	moment->blocks[moment->block_count++] = *block;
	segment->block_count++;
}

static void
append_free(struct snapshot *moment, struct snapshot_segment *segment,
    uint64_t from, uint64_t to)
{
	const struct snapshot_block block = {
		.address = from,
		.bytes = to - from,
		.stream = segment->stream,
		.state = SNAPSHOT_INACTIVE,
	};

	if (from < to)
		append_block(moment, segment, &block);
}

/* Tile a segment with its blocks, from *next on, and with free blocks between
 * them. Blocks that lie in no segment are skipped. */
static void
tile(struct snapshot *moment, struct snapshot_segment *segment,
    const struct blocks *blocks, uint32_t *next)
{
	uint64_t at = segment->address;
	uint64_t end = end_of(segment);
	bool large = false;

	segment->first_block = moment->block_count;
	segment->block_count = 0;
	for (; *next < blocks->count && blocks->items[*next].address < end;
	     (*next)++) {
		struct snapshot_block block = blocks->items[*next];

		if (block.address < at)
			continue;
		append_free(moment, segment, at, block.address);
		if (block.bytes > end - block.address)
			block.bytes = end - block.address;
		if (block.requested_bytes > block.bytes)
			block.requested_bytes = block.bytes;
		append_block(moment, segment, &block);
		large = large || block.bytes > TORCH_SMALL_MAX;
		at = block.address + block.bytes;
	}
	append_free(moment, segment, at, end);
	segment->small = segment->small && !large;
}

/* ---- The call ---------------------------------------------------------- */

/* Copy the device's segments and all blocks of the file. */
static bool
copy_end(
    struct snapshot *moment, const struct snapshot *snapshot, uint32_t device)
{
	moment->segments = calloc(
	    (size_t)snapshot->segment_count + 1, sizeof(*moment->segments));
	moment->blocks =
	    calloc((size_t)snapshot->block_count + 1, sizeof(*moment->blocks));
	moment->segment_count = 0;
	if (moment->segments == NULL || moment->blocks == NULL)
		return false;
	memcpy(moment->blocks, snapshot->blocks,
	    snapshot->block_count * sizeof(*moment->blocks));
	for (uint32_t i = 0; i < snapshot->segment_count; i++)
		if (snapshot->segments[i].device == device)
			moment->segments[moment->segment_count++] =
			    snapshot->segments[i];
	return true;
}

/* Make the segments and blocks of the moment after an event. */
static bool
build_moment(struct snapshot *moment, const struct snapshot *snapshot,
    uint32_t device, uint32_t event)
{
	struct ranges ranges = find_ranges(snapshot, device, event);
	struct blocks blocks = { 0 };
	uint32_t next = 0;

	moment->segments = ranges.items;
	moment->segment_count = (uint32_t)ranges.count;
	moment->block_count = 0;
	if (ranges.failed || !find_blocks(snapshot, device, event, &blocks))
		return false;
	moment->blocks = calloc(2 * (size_t)blocks.count + ranges.count + 1,
	    sizeof(*moment->blocks));
	for (size_t i = 0; i < ranges.count && moment->blocks != NULL; i++)
		tile(moment, &ranges.items[i], &blocks, &next);
	free(blocks.items);
	return moment->blocks != NULL;
}

struct snapshot *
moment_new(const struct snapshot *snapshot, uint32_t device, uint32_t event)
{
	struct snapshot *moment = calloc(1, sizeof(*moment));

	if (moment == NULL) {
		complain("out of memory");
		return NULL;
	}
	*moment = *snapshot;
	moment->host_count = 0;
	moment->segments = NULL;
	moment->blocks = NULL;
	if (event == UINT32_MAX ? copy_end(moment, snapshot, device) :
				  build_moment(moment, snapshot, device, event))
		return moment;
	complain("out of memory");
	moment_free(moment);
	return NULL;
}

void
moment_free(struct snapshot *moment)
{
	if (moment == NULL)
		return;
	free(moment->segments);
	free(moment->blocks);
	free(moment);
}

/* ---- The peak ---------------------------------------------------------- */

uint64_t
moment_held_peak(const struct snapshot *snapshot, uint32_t device)
{
	const struct snapshot_events *events = &snapshot->events;
	struct snapshot_trace trace = { 0 };
	uint64_t held = 0;
	uint64_t peak;

	for (uint32_t i = 0; i < snapshot->segment_count; i++)
		if (snapshot->segments[i].device == device)
			held += snapshot->segments[i].bytes;
	peak = held;
	if (device < snapshot->trace_count)
		trace = snapshot->traces[device];
	for (uint32_t i = trace.first + trace.count; i-- > trace.first;) {
		uint8_t action = events->action[i];
		uint64_t bytes = events->bytes[i];

		if (action == SNAPSHOT_SEGMENT_ALLOC ||
		    action == SNAPSHOT_SEGMENT_MAP)
			held -= bytes < held ? bytes : held;
		else if (action == SNAPSHOT_SEGMENT_FREE ||
		    action == SNAPSHOT_SEGMENT_UNMAP)
			held += bytes;
		if (held > peak)
			peak = held;
	}
	return peak;
}
