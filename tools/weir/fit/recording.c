/*
 * The segments that are older than the trace are those of the snapshot and
 * those that the trace frees, without those that the trace allocates.
 */
#include "tools/weir/fit/recording.h"

#include <stdlib.h>
#include <string.h>

#include "tools/weir/reading/snapshot_lives.h"
#include "tools/weir/tool.h"

#define SMALL_SEGMENT (UINT64_C(2) << 20)

struct segment_event {
	uint64_t address;
	uint32_t event;
};

struct maker {
	const struct snapshot *snapshot;
	struct snapshot_trace trace;
	struct lives lives;
	uint32_t *life_of;  /* by event: life, or LIFE_NONE */
	uint32_t *block_of; /* by life: block of the recording */
	/* The segments of the snapshot, by address. */
	struct recording_segment *final;
	uint32_t final_count;
	struct segment_event *segment_events;
	struct recording *out;
	int64_t now_us;
};

static int
compare_segments(const void *a, const void *b)
{
	const struct recording_segment *first = a;
	const struct recording_segment *second = b;

	if (first->address != second->address)
		return first->address < second->address ? -1 : 1;
	return 0;
}

static int
compare_segment_events(const void *a, const void *b)
{
	const struct segment_event *first = a;
	const struct segment_event *second = b;

	if (first->address != second->address)
		return first->address < second->address ? -1 : 1;
	return first->event < second->event ? -1 : 1;
}

/* The pool of an address in the snapshot's segments, which are sorted; 0 if
 * there is none. */
static uint32_t
pool_at(
    const struct recording_segment *segments, uint32_t count, uint64_t address)
{
	uint32_t low = 0;
	uint32_t high = count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (segments[middle].address <= address)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == 0 ||
	    address - segments[low - 1].address >= segments[low - 1].bytes)
		return 0;
	return segments[low - 1].pool;
}

/* ---- Blocks ---------------------------------------------------------- */

static void
map_recorded_lives(struct maker *maker)
{
	uint32_t first = maker->trace.first;

	memset(
	    maker->life_of, 0xff, maker->trace.count * sizeof(*maker->life_of));
	for (uint32_t i = 0; i < maker->lives.count; i++) {
		const struct life *life = &maker->lives.items[i];

		if (life->alloc != LIFE_NONE)
			maker->life_of[life->alloc - first] = i;
		if (life->requested != LIFE_NONE)
			maker->life_of[life->requested - first] = i;
		if (life->completed != LIFE_NONE)
			maker->life_of[life->completed - first] = i;
	}
}

static bool
is_older(const struct life *life)
{
	return life->alloc == LIFE_NONE && life->previous == LIFE_NONE;
}

static int
compare_blocks(const void *a, const void *b)
{
	const struct recording_block *first = a;
	const struct recording_block *second = b;

	if (first->address != second->address)
		return first->address < second->address ? -1 : 1;
	return 0;
}

static void
add_recorded_block(struct maker *maker, uint32_t id)
{
	const struct life *life = &maker->lives.items[id];
	struct recording *out = maker->out;
	struct recording_block *block = &out->blocks[out->block_count];
	uint32_t pool = 0;

	if (life->alloc != LIFE_NONE)
		pool = maker->snapshot->events.pool[life->alloc];
	*block = (struct recording_block){
		.address = life->address,
		.bytes = life->bytes,
		.stream = life->stream,
		.pool = pool,
		.stack = life->stack,
		/* For the moment: the life. */
		.begin = id,
		.freed = RECORDING_NONE,
		.done = RECORDING_NONE,
	};
	out->block_count++;
}

/* Add all blocks: older ones first, by address. */
static void
add_recorded_blocks(struct maker *maker)
{
	struct recording *out = maker->out;

	for (uint32_t i = 0; i < maker->lives.count; i++) {
		maker->block_of[i] = RECORDING_NONE;
		if (is_older(&maker->lives.items[i]) &&
		    maker->lives.items[i].bytes > 0)
			add_recorded_block(maker, i);
	}
	out->older_count = out->block_count;
	qsort(out->blocks, out->block_count, sizeof(*out->blocks),
	    compare_blocks);
	for (uint32_t i = 0; i < maker->lives.count; i++)
		if (!is_older(&maker->lives.items[i]) &&
		    maker->lives.items[i].bytes > 0)
			add_recorded_block(maker, i);
	for (uint32_t i = 0; i < out->block_count; i++) {
		maker->block_of[out->blocks[i].begin] = i;
		out->blocks[i].begin = RECORDING_NONE;
	}
}

/* Fill in the pools of blocks whose events lack them. Events of blocks and
 * segments are followed backwards: a segment has the pool that the snapshot
 * says until its allocation. What had its addresses before is of the default
 * pool. */
static void
find_pools(struct maker *maker)
{
	const struct snapshot_events *events = &maker->snapshot->events;
	struct recording_segment *final = maker->final;

	for (uint32_t i = maker->trace.first + maker->trace.count;
	     i-- > maker->trace.first;) {
		struct recording_segment key = { .address =
						     events->address[i] };
		struct recording_segment *found;
		uint32_t block;
		uint32_t id;

		if (events->action[i] == SNAPSHOT_SEGMENT_ALLOC) {
			found = bsearch(&key, final, maker->final_count,
			    sizeof(*final), compare_segments);
			if (found != NULL && !found->expandable)
				found->pool = 0;
		}
		id = maker->life_of[i - maker->trace.first];
		if (events->action[i] != SNAPSHOT_ALLOC || id == LIFE_NONE)
			continue;
		block = maker->block_of[id];
		if (block == RECORDING_NONE ||
		    maker->out->blocks[block].pool != 0)
			continue;
		maker->out->blocks[block].pool =
		    pool_at(final, maker->final_count, key.address);
	}
}

/* ---- Rows ------------------------------------------------------------ */

static void
add_recorded_row(struct maker *maker, char action, uint32_t index)
{
	struct recording *out = maker->out;

	out->rows[out->row_count++] = (struct recording_row){
		.action = action,
		.index = index,
		.time_us = maker->now_us,
	};
}

static void
begin_recorded(struct maker *maker, uint32_t id)
{
	struct recording_block *block = &maker->out->blocks[id];

	block->begin = maker->out->row_count;
	add_recorded_row(maker, 'a', id);
}

static void
free_recorded(struct maker *maker, uint32_t id)
{
	struct recording_block *block = &maker->out->blocks[id];

	if (block->freed != RECORDING_NONE)
		return;
	block->freed = maker->out->row_count;
	add_recorded_row(maker, 'f', id);
}

static void
complete_recorded(struct maker *maker, uint32_t id)
{
	struct recording_block *block = &maker->out->blocks[id];

	free_recorded(maker, id);
	if (block->done != RECORDING_NONE)
		return;
	block->done = maker->out->row_count;
	add_recorded_row(maker, 'c', id);
}

/* Begin a block. The block before at its address has ended. */
static void
begin_life_of(struct maker *maker, uint32_t id)
{
	uint32_t before = maker->lives.items[id].previous;

	if (before != LIFE_NONE && maker->block_of[before] != RECORDING_NONE)
		complete_recorded(maker, maker->block_of[before]);
	begin_recorded(maker, maker->block_of[id]);
}

static void
add_life_event(struct maker *maker, uint32_t event)
{
	uint32_t id = maker->life_of[event - maker->trace.first];
	const struct life *life;
	uint32_t block;

	if (id == LIFE_NONE || maker->block_of[id] == RECORDING_NONE)
		return;
	life = &maker->lives.items[id];
	block = maker->block_of[id];
	if (event == life->alloc) {
		begin_life_of(maker, id);
		return;
	}
	if (block >= maker->out->older_count &&
	    maker->out->blocks[block].begin == RECORDING_NONE)
		begin_life_of(maker, id);
	/* A block whose completion the file lacks waits to the end, or until
	 * its address is allocated again. */
	if (event == life->requested)
		free_recorded(maker, block);
	else
		complete_recorded(maker, block);
}

static void
add_segment_event(struct maker *maker, uint32_t event)
{
	static const char letters[] = {
		[SNAPSHOT_SEGMENT_ALLOC] = 'S',
		[SNAPSHOT_SEGMENT_FREE] = 's',
		[SNAPSHOT_SEGMENT_MAP] = 'm',
		[SNAPSHOT_SEGMENT_UNMAP] = 'u',
	};
	const struct snapshot_events *events = &maker->snapshot->events;
	struct recording *out = maker->out;
	uint8_t action = events->action[event];

	if (action < SNAPSHOT_SEGMENT_ALLOC || action > SNAPSHOT_SEGMENT_UNMAP)
		return;
	out->segments[out->segment_count] = (struct recording_segment){
		.address = events->address[event],
		.bytes = events->bytes[event],
		.stream = events->stream[event],
		.pool = events->pool[event],
		.small = events->bytes[event] == SMALL_SEGMENT,
		.expandable = action >= SNAPSHOT_SEGMENT_MAP,
	};
	add_recorded_row(maker, letters[action], out->segment_count++);
}

static void
add_recorded_rows(struct maker *maker)
{
	const struct snapshot_events *events = &maker->snapshot->events;

	for (uint32_t i = 0; i < maker->trace.count; i++) {
		uint32_t event = maker->trace.first + i;

		if (events->time_us[event] > maker->now_us)
			maker->now_us = events->time_us[event];
		add_segment_event(maker, event);
		add_life_event(maker, event);
	}
}

/* ---- Segments -------------------------------------------------------- */

static void
add_final_segments(struct maker *maker)
{
	const struct snapshot *snapshot = maker->snapshot;
	struct recording *out = maker->out;

	for (uint32_t i = 0; i < snapshot->segment_count; i++) {
		const struct snapshot_segment *segment = &snapshot->segments[i];

		if (segment->device != out->device)
			continue;
		out->segments[out->segment_count++] =
		    (struct recording_segment){
			    .address = segment->address,
			    .bytes = segment->bytes,
			    .stream = segment->stream,
			    .pool = segment->pool,
			    .small = segment->small,
			    .expandable = segment->expandable,
		    };
	}
	qsort(out->segments, out->segment_count, sizeof(*out->segments),
	    compare_segments);
	memcpy(maker->final, out->segments,
	    out->segment_count * sizeof(*out->segments));
	maker->final_count = out->segment_count;
}

/* Fill in the pools of older blocks. */
static void
find_older_pools(struct maker *maker)
{
	struct recording *out = maker->out;

	for (uint32_t i = 0; i < out->older_count; i++)
		if (out->blocks[i].pool == 0)
			out->blocks[i].pool = pool_at(maker->final,
			    maker->final_count, out->blocks[i].address);
}

/* The events that allocate and free segments, by address and time, into `at`,
 * which has room for them. Returns their number. */
static uint32_t
list_segment_events(const struct maker *maker, struct segment_event *at)
{
	const struct snapshot_events *events = &maker->snapshot->events;
	uint32_t n = 0;

	for (uint32_t i = 0; i < maker->trace.count; i++) {
		uint32_t event = maker->trace.first + i;

		if (events->action[event] == SNAPSHOT_SEGMENT_ALLOC ||
		    events->action[event] == SNAPSHOT_SEGMENT_FREE)
			at[n++] =
			    (struct segment_event){ events->address[event],
				    event };
	}
	qsort(at, n, sizeof(*at), compare_segment_events);
	return n;
}

/* Keep the segments that are older than the rows: those whose address the rows
 * do not allocate first, of the snapshot and of the rows that free them. */
static void
find_older_segments(struct maker *maker)
{
	struct recording *out = maker->out;
	const struct snapshot_events *events = &maker->snapshot->events;
	const struct segment_event *at = maker->segment_events;
	uint32_t n = list_segment_events(maker, maker->segment_events);
	uint32_t kept = 0;

	/* Both are sorted by address: keep what has no event. */
	for (uint32_t i = 0, k = 0; i < out->segment_count; i++) {
		while (k < n && at[k].address < out->segments[i].address)
			k++;
		if ((k == n || at[k].address != out->segments[i].address) &&
		    !out->segments[i].expandable)
			out->segments[kept++] = out->segments[i];
	}
	for (uint32_t k = 0; k < n; k++) {
		uint32_t event = at[k].event;

		if ((k > 0 && at[k].address == at[k - 1].address) ||
		    events->action[event] != SNAPSHOT_SEGMENT_FREE)
			continue;
		out->segments[kept++] = (struct recording_segment){
			.address = at[k].address,
			.bytes = events->bytes[event],
			.stream = events->stream[event],
			.pool = events->pool[event],
			.small = events->bytes[event] == SMALL_SEGMENT,
		};
	}
	qsort(out->segments, kept, sizeof(*out->segments), compare_segments);
	out->segment_count = kept;
	out->older_segments = kept;
}

/* ---- The whole ------------------------------------------------------- */

static bool
make_room(struct maker *maker)
{
	struct recording *out = maker->out;
	size_t lives = maker->lives.count;
	size_t events = maker->trace.count;

	maker->life_of = calloc(events + 1, sizeof(*maker->life_of));
	maker->block_of = calloc(lives + 1, sizeof(*maker->block_of));
	out->blocks = calloc(lives + 1, sizeof(*out->blocks));
	/* Each life has three rows, each event of a segment one. */
	out->rows = calloc(3 * lives + events + 1, sizeof(*out->rows));
	maker->final =
	    calloc(maker->snapshot->segment_count + 1, sizeof(*maker->final));
	maker->segment_events =
	    calloc(events + 1, sizeof(*maker->segment_events));
	out->segments = calloc(maker->snapshot->segment_count + 2 * events + 1,
	    sizeof(*out->segments));
	return maker->final != NULL && maker->segment_events != NULL &&
	    maker->life_of != NULL && maker->block_of != NULL &&
	    out->blocks != NULL && out->rows != NULL && out->segments != NULL;
}

bool
recording_make(
    const struct snapshot *snapshot, uint32_t device, struct recording *out)
{
	struct maker maker = { .snapshot = snapshot, .out = out };
	bool good;

	*out = (struct recording){ .snapshot = snapshot, .device = device };
	if (device < snapshot->trace_count)
		maker.trace = snapshot->traces[device];
	if (!lives_find(snapshot, device, &maker.lives))
		return false;
	good = make_room(&maker);
	if (good) {
		map_recorded_lives(&maker);
		add_recorded_blocks(&maker);
		add_final_segments(&maker);
		find_pools(&maker);
		find_older_pools(&maker);
		find_older_segments(&maker);
		add_recorded_rows(&maker);
	} else {
		complain("out of memory");
		recording_drop(out);
	}
	free(maker.life_of);
	free(maker.block_of);
	free(maker.final);
	free(maker.segment_events);
	lives_drop(&maker.lives);
	return good;
}

void
recording_drop(struct recording *recording)
{
	free(recording->rows);
	free(recording->blocks);
	free(recording->segments);
	recording->rows = NULL;
	recording->blocks = NULL;
	recording->segments = NULL;
}
