/*
 * The indexes find exactly the rows that a walk over all blocks finds, in the
 * memory of a random program with three streams.
 */
#include "allocator/memory/spans.h"

#include <limits.h>

#include "allocator/allocator.h"
#include "allocator/memory/arena.h"
#include "allocator/memory/block.h"
#include "tests/support/device.h"

enum { STREAMS = 3, LIVE = 48, STEPS = 1500, STEPS_A_LOOK = 10, ROWS = 4096 };

/* Rows, in the order found; a row is known by its first block and its size. */
struct rows {
	struct {
		const struct block *first;
		size_t size;
	} row[ROWS];
	size_t count;
};

static void
add_row(struct rows *rows, const struct block *first, const struct block *last)
{
	EXPECT_GT(ROWS, rows->count);
	rows->row[rows->count].first = first;
	rows->row[rows->count++].size = last->addr + last->size - first->addr;
}

static void
found(struct span_search *search, const struct span *span)
{
	add_row(search->to, span->first, span->last);
}

static bool
is_free(void *about, const struct block *block)
{
	(void)about;
	return block_state(block) == BLOCK_FREE;
}

static bool
is_idle(void *about, const struct block *block)
{
	return is_free(about, block) || block_state(block) == BLOCK_PENDING;
}

/* A request may use the blocks of some heaps, and complete ones. */
static bool
is_free_of(void *about, const struct block *block)
{
	return is_free(about, block) &&
	    (block->pool->owner == about || block_is_complete(block));
}

/* A move leaves some blocks out. */
static bool
is_free_and_odd(void *about, const struct block *block)
{
	return is_free(about, block) && (block->addr >> 21) % 2 == 1;
}

static void
walk_segment(const struct span_search *search, const struct segment *segment,
    struct rows *rows)
{
	for (struct block *b = segment->first; b != NULL; b = b->next) {
		struct block *last = b;

		if (!search->is_good(search->about, b))
			continue;
		while (last->next != NULL &&
		    search->is_good(search->about, last->next))
			last = last->next;
		if (last->addr + last->size - b->addr >= search->least)
			add_row(rows, b, last);
		b = last;
	}
}

static void
walk(const struct span_search *search, struct rows *rows)
{
	const struct list *segments = &search->mine->arena->memory.segments;

	for (const struct list *l = segments->next; l != segments;
	     l = l->next) {
		const struct segment *s = CONTAINER_OF(l, struct segment, link);
		if (s->expandable &&
		    (search->kind == SPANS_OF_ALL_KINDS ||
			search->kind == s->kind))
			walk_segment(search, s, rows);
	}
}

static bool
has_row(const struct rows *rows, const struct block *first, size_t size)
{
	for (size_t i = 0; i < rows->count; i++)
		if (rows->row[i].first == first && rows->row[i].size == size)
			return true;
	return false;
}

static size_t
compare(struct span_search search)
{
	static struct rows indexed;
	static struct rows walked;

	indexed.count = 0;
	walked.count = 0;
	search.found = found;
	search.to = &indexed;
	search.most = SIZE_MAX;
	spans_find(&search);
	walk(&search, &walked);
	EXPECT_EQ(indexed.count, walked.count);
	for (size_t i = 0; i < walked.count; i++)
		EXPECT_EQ(
		    has_row(&indexed, walked.row[i].first, walked.row[i].size),
		    true);
	return walked.count;
}

/* Make every kind of search, for each stream's heap. Returns how many rows
 * there were. */
static size_t
compare_all(struct arena *arena)
{
	static bool (*const good[])(void *, const struct block *) = { is_free,
		is_idle, is_free_of, is_free_and_odd };
	size_t rows = 0;

	for (struct list *l = arena->memory.heaps.next;
	     l != &arena->memory.heaps; l = l->next) {
		struct stream_heap *heap =
		    CONTAINER_OF(l, struct stream_heap, link);
		for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
			struct span_search search = { .mine = heap,
				.kind = POOL_SMALL,
				.least = GRANULE,
				.is_good = good[i],
				.about = heap };
			if (heap == arena->memory.any_heap)
				continue;
			rows += compare(search);
			search.kind = POOL_LARGE;
			search.least = 3 * MIB;
			rows += compare(search);
			search.kind = SPANS_OF_ALL_KINDS;
			search.largest = UINT_MAX;
			rows += compare(search);
		}
	}
	return rows;
}

static uint32_t
roll(uint32_t *state)
{
	*state = *state * 1664525u + 1013904223u;
	return *state >> 8;
}

static void
compare_in_program(const char *options, unsigned streams)
{
	weir_stream stream[STREAMS] = { NULL };
	void *live[LIVE] = { NULL };
	uint32_t dice = 1;
	size_t rows = 0;

	conf(options);
	for (unsigned i = 0; i < streams; i++)
		stream[i] = new_stream();
	for (unsigned step = 0; step < STEPS; step++) {
		void **block = &live[roll(&dice) % LIVE];
		weir_stream own = stream[roll(&dice) % streams];
		size_t size = roll(&dice) % 2 == 0 ?
		    1 + roll(&dice) % (256 * KIB) :
		    1 + roll(&dice) % (8 * MIB);

		if (*block == NULL) {
			*block = take(size, own);
			continue;
		}
		if (roll(&dice) % 4 == 0)
			record(*block, stream[roll(&dice) % streams]);
		give(*block);
		*block = NULL;
		if (roll(&dice) % 8 == 0)
			busy(own, 1);
		if (step % STEPS_A_LOOK > 0)
			continue;
		struct arena *arena = arena_peek(0);
		lock_enter(&arena->lock);
		rows += compare_all(arena);
		lock_leave(&arena->lock);
	}
	EXPECT_GT(rows, STEPS);
	expect_healthy();
	for (unsigned i = 0; i < LIVE; i++)
		give(live[i]);
}

TEST(indices_find_the_same_as_a_walk)
{
	compare_in_program("tcache:0", STREAMS);
}

TEST(indices_find_the_same_as_a_walk_with_one_stream)
{
	compare_in_program("tcache:0", 1);
}

TEST(indices_find_the_same_as_a_walk_where_no_stream_waits)
{
	compare_in_program("tcache:0,prefer:speed", STREAMS);
}

/* The blocks that were freed first are looked at first, and of the others those
 * that are large enough. */
TEST(a_request_finds_a_large_block_behind_very_many_freed_ones)
{
	static char *blocks[2 * SPANS_ASKED];
	weir_stream a = new_stream();
	weir_stream b = new_stream();
	size_t size = (size_t)40 * MIB;

	take(512, b);
	for (size_t i = 0; i < 2 * SPANS_ASKED; i++)
		blocks[i] = take(2 * MIB, a);
	char *large = take(size, a);
	take(2 * MIB, a);
	busy(a, LATE_MS);
	for (size_t i = 0; i < 2 * SPANS_ASKED; i += 2)
		give(blocks[i]);
	give(large);
	EXPECT_OK(weir_stream_wait_stream(b, a));
	EXPECT_EQ(take(size, b), large);
	EXPECT_EQ(is_done(a), false);
	expect_healthy();
}
