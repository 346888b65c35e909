/*
 * One pass over the events, with a hash table of the lives by address.
 */
#include "tools/weir/reading/snapshot_lives.h"

#include <stdlib.h>

#include "tools/weir/tool.h"

/* An entry of the table, which uses open addressing and removes no entry. */
struct place {
	uint64_t address;
	uint32_t life; /* life that has not ended, or LIFE_NONE */
	uint32_t last; /* latest life at this address, or LIFE_NONE */
	bool used;
};

struct finder {
	const struct snapshot *snapshot;
	struct lives *lives;
	struct place *places;
	size_t place_count; /* a power of two */
};

static struct place *
life_place(struct finder *finder, uint64_t address)
{
	size_t mask = finder->place_count - 1;
	size_t i = (size_t)(address * UINT64_C(0x9e3779b97f4a7c15) >> 20);

	for (;; i++) {
		struct place *place = &finder->places[i & mask];

		if (!place->used) {
			*place = (struct place){ address, LIFE_NONE, LIFE_NONE,
				true };
			return place;
		}
		if (place->address == address)
			return place;
	}
}

static struct life *
begin_life(struct finder *finder, struct place *place)
{
	struct lives *lives = finder->lives;
	struct life *life = &lives->items[lives->count];

	*life = (struct life){
		.address = place->address,
		.alloc = LIFE_NONE,
		.requested = LIFE_NONE,
		.completed = LIFE_NONE,
		.block = LIFE_NONE,
		.previous = place->last,
	};
	place->life = lives->count++;
	place->last = place->life;
	return life;
}

/* The life at an address. If there is none, begin one that is older than the
 * trace. */
static struct life *
life_of(struct finder *finder, struct place *place, uint32_t event)
{
	const struct snapshot_events *events = &finder->snapshot->events;
	struct life *life;

	if (place->life != LIFE_NONE)
		return &finder->lives->items[place->life];
	life = begin_life(finder, place);
	life->bytes = events->bytes[event];
	life->stream = events->stream[event];
	return life;
}

static void
follow_event(struct finder *finder, uint32_t i)
{
	const struct snapshot_events *events = &finder->snapshot->events;
	uint8_t action = events->action[i];
	struct place *place;
	struct life *life;

	if (action != SNAPSHOT_ALLOC && action != SNAPSHOT_FREE_REQUESTED &&
	    action != SNAPSHOT_FREE_COMPLETED)
		return;
	place = life_place(finder, events->address[i]);
	if (action == SNAPSHOT_ALLOC) {
		if (place->life != LIFE_NONE)
			finder->lives->items[place->life].lost =
			    finder->lives->items[place->life].requested ==
			    LIFE_NONE;
		life = begin_life(finder, place);
		life->alloc = i;
		life->bytes = events->bytes[i];
		life->stream = events->stream[i];
		life->stack = events->stack[i];
		return;
	}
	life = life_of(finder, place, i);
	if (action == SNAPSHOT_FREE_REQUESTED) {
		if (life->requested == LIFE_NONE)
			life->requested = i;
		return;
	}
	life->completed = i;
	place->life = LIFE_NONE;
}

static void
join_blocks(struct finder *finder, const struct snapshot_segment *segment)
{
	const struct snapshot *snapshot = finder->snapshot;

	for (uint32_t i = 0; i < segment->block_count; i++) {
		uint32_t id = segment->first_block + i;
		const struct snapshot_block *block = &snapshot->blocks[id];
		struct place *place;
		struct life *life;

		if (block->state == SNAPSHOT_INACTIVE)
			continue;
		place = life_place(finder, block->address);
		if (place->life == LIFE_NONE) {
			life = begin_life(finder, place);
			life->bytes = block->requested_bytes;
			life->stream = segment->stream;
			life->stack = block->stack;
		}
		life = &finder->lives->items[place->life];
		life->block = id;
		if (life->stack == 0)
			life->stack = block->stack;
	}
}

/* True if the latest event on the memory at an address unmapped it. Blocks of a
 * suspended pool live on without memory. */
static bool
is_unmapped(const struct snapshot_events *events, struct snapshot_trace trace,
    uint64_t address)
{
	for (uint32_t i = trace.first + trace.count; i-- > trace.first;) {
		uint8_t action = events->action[i];

		if ((action == SNAPSHOT_SEGMENT_MAP ||
			action == SNAPSHOT_SEGMENT_UNMAP) &&
		    address - events->address[i] < events->bytes[i])
			return action == SNAPSHOT_SEGMENT_UNMAP;
	}
	return false;
}

bool
lives_find(const struct snapshot *snapshot, uint32_t device, struct lives *out)
{
	struct finder finder = { .snapshot = snapshot, .lives = out };
	struct snapshot_trace trace = { 0 };
	size_t most = 1;

	if (device < snapshot->trace_count)
		trace = snapshot->traces[device];
	most += trace.count;
	for (uint32_t i = 0; i < snapshot->segment_count; i++)
		if (snapshot->segments[i].device == device)
			most += snapshot->segments[i].block_count;
	for (finder.place_count = 64; finder.place_count < 2 * most;)
		finder.place_count *= 2;
	finder.places = calloc(finder.place_count, sizeof(*finder.places));
	*out = (struct lives){ .items = calloc(most, sizeof(*out->items)) };
	if (finder.places == NULL || out->items == NULL || most >= LIFE_NONE) {
		complain("out of memory");
		free(finder.places);
		lives_drop(out);
		return false;
	}
	for (uint32_t i = 0; i < trace.count; i++)
		follow_event(&finder, trace.first + i);
	for (uint32_t i = 0; i < snapshot->segment_count; i++)
		if (snapshot->segments[i].device == device)
			join_blocks(&finder, &snapshot->segments[i]);
	for (uint32_t i = 0; i < out->count; i++)
		if (out->items[i].block == LIFE_NONE &&
		    out->items[i].requested == LIFE_NONE &&
		    out->items[i].completed == LIFE_NONE)
			out->items[i].lost = !is_unmapped(
			    &snapshot->events, trace, out->items[i].address);
	free(finder.places);
	return true;
}

void
lives_drop(struct lives *lives)
{
	free(lives->items);
	*lives = (struct lives){ 0 };
}

bool
live_bytes_before(
    const struct snapshot *snapshot, uint32_t device, uint64_t *live)
{
	struct lives lives;

	*live = 0;
	if (!lives_find(snapshot, device, &lives))
		return false;
	for (uint32_t i = 0; i < lives.count; i++)
		if (lives.items[i].alloc == LIFE_NONE)
			*live += lives.items[i].bytes;
	lives_drop(&lives);
	return true;
}

void
live_bytes_follow(
    const struct snapshot *snapshot, uint32_t event, uint64_t *live)
{
	const struct snapshot_events *events = &snapshot->events;

	if (events->action[event] == SNAPSHOT_ALLOC)
		*live += events->bytes[event];
	else if (events->action[event] == SNAPSHOT_FREE_REQUESTED)
		*live -=
		    *live < events->bytes[event] ? *live : events->bytes[event];
}

void
trace_times(const struct snapshot *snapshot, uint32_t device, int64_t *first,
    int64_t *last)
{
	struct snapshot_trace trace = { 0 };

	*first = 0;
	*last = 0;
	if (device < snapshot->trace_count)
		trace = snapshot->traces[device];
	for (uint32_t i = 0; i < trace.count; i++) {
		int64_t now = snapshot->events.time_us[trace.first + i];

		if (now <= 0)
			continue;
		if (*first == 0 || now < *first)
			*first = now;
		if (now > *last)
			*last = now;
	}
}
