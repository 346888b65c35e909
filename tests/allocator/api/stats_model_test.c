/*
 * Every statistic of blocks, for the device and for each stream, against a
 * model that adds and subtracts as the header says: current, peak and the two
 * sums, of all, small and large blocks, with resets in between. WEIR_TEST_SEED
 * in the environment sets the seed.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/device.h"

enum {
	SEED = 20261121,
	STREAMS = 5,
	BLOCKS = 64,
	STEPS = 20000,
	DEVICE = STREAMS
};

/* The counters of a block, in the order of struct counts. */
enum { COUNT, BYTES, REQUESTED, KEPT };

/* One owner: a stream, or the device. By counter, and by kind. */
struct counts {
	struct weir_stat of[KEPT][3];
};

struct owned {
	void *ptr;
	uint64_t size;
	uint64_t requested;
	int stream;
	bool large;
};

struct program {
	uint64_t state;
	bool exact; /* every peak */
	weir_stream stream[STREAMS];
	struct counts counts[STREAMS + 1];
	struct owned blocks[BLOCKS];
	size_t n;
};

static uint64_t
next(struct program *p, uint64_t below)
{
	p->state ^= p->state << 13;
	p->state ^= p->state >> 7;
	p->state ^= p->state << 17;
	return p->state % below;
}

static void
add_to(struct weir_stat *stat, uint64_t amount)
{
	stat->current += amount;
	stat->allocated += amount;
	if (stat->current > stat->peak)
		stat->peak = stat->current;
}

static void
subtract(struct weir_stat *stat, uint64_t amount)
{
	stat->current -= amount;
	stat->freed += amount;
}

/* Change the model's sums of a block's owner and of the device. */
static void
tell(struct program *p, const struct owned *block,
    void (*change)(struct weir_stat *, uint64_t))
{
	const uint64_t amounts[KEPT] = { 1, block->size, block->requested };
	int owners[2] = { block->stream, DEVICE };

	for (int o = 0; o < 2; o++) {
		for (int i = 0; i < KEPT; i++) {
			struct weir_stat *stat = p->counts[owners[o]].of[i];

			change(&stat[0], amounts[i]);
			change(&stat[block->large ? 2 : 1], amounts[i]);
		}
	}
}

/* ---- Steps ------------------------------------------------------------- */

static size_t
any_size(struct program *p)
{
	switch (next(p, 4)) {
	case 0:
		return 1 + next(p, 2000);
	case 1:
		return 1 + next(p, MIB);
	case 2:
		return MIB + next(p, 3);
	default:
		return 1 + next(p, 24 * MIB);
	}
}

static void
step_malloc(struct program *p)
{
	struct owned *block = &p->blocks[p->n];
	size_t size = any_size(p);

	if (p->n == BLOCKS)
		return;
	block->stream = (int)next(p, STREAMS);
	block->ptr = take(size, p->stream[block->stream]);
	block->requested = size;
	block->size = info_of(block->ptr).size;
	block->large = (size + GRANULE - 1) / GRANULE * GRANULE > MIB;
	p->n++;
	tell(p, block, add_to);
}

static void
step_free(struct program *p)
{
	if (p->n == 0)
		return;
	size_t i = next(p, p->n);
	struct owned block = p->blocks[i];

	p->blocks[i] = p->blocks[--p->n];
	if (next(p, 4) != 0) {
		give(block.ptr);
		tell(p, &block, subtract);
		return;
	}
	/* Device-scope memory, and memory freed to WEIR_STREAM_ANY, is pending
	 * until its work is done. */
	int to = (int)next(p, STREAMS - 1);
	if (block.stream == STREAMS - 1)
		to = block.stream;
	EXPECT_OK(weir_free_async(block.ptr, p->stream[to]));
	tell(p, &block, subtract);
	if (to == block.stream)
		return;
	/* The block moves from one stream to another, so for a moment both
	 * count it. */
	struct counts device = p->counts[DEVICE];
	block.stream = to;
	tell(p, &block, add_to);
	tell(p, &block, subtract);
	p->counts[DEVICE] = device;
}

static void
step_reset(struct program *p)
{
	bool peaks = next(p, 2) == 0;

	EXPECT_OK(
	    peaks ? weir_stats_reset_peak(0) : weir_stats_reset_accumulated(0));
	for (int o = 0; o <= STREAMS; o++) {
		for (int i = 0; i < KEPT; i++) {
			for (int k = 0; k < 3; k++) {
				struct weir_stat *stat = &p->counts[o].of[i][k];

				if (peaks)
					stat->peak = stat->current;
				else
					stat->allocated = stat->freed = 0;
			}
		}
	}
}

/* ---- Comparing --------------------------------------------------------- */

/* A peak of a part of the blocks, or of one stream, may be missed if caches
 * allocate. It is never reported too high. */
static bool
same(const struct weir_stat *is, const struct weir_stat *should, bool exact)
{
	return is->current == should->current && is->peak <= should->peak &&
	    is->peak >= (exact ? should->peak : should->current) &&
	    is->allocated == should->allocated && is->freed == should->freed;
}

static void
compare_stat(const char *name, const char *kind, const struct weir_stat *is,
    const struct weir_stat *should, bool exact)
{
	if (!same(is, should, exact))
		FAIL("%s.%s is %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64
		     ", should be %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64,
		    name, kind, is->current, is->peak, is->allocated, is->freed,
		    should->current, should->peak, should->allocated,
		    should->freed);
}

static void
compare_stat3(const char *name, const struct weir_stat3 *is,
    const struct weir_stat should[3], bool exact, bool all_exact)
{
	compare_stat(name, "all", &is->all, &should[0], all_exact);
	compare_stat(name, "small_pool", &is->small_pool, &should[1], exact);
	compare_stat(name, "large_pool", &is->large_pool, &should[2], exact);
}

/* No block is used by a second stream, so active equals allocated. But
 * device-scope memory is active until the device has done the work before its
 * free. */
static void
compare(struct program *p, int owner, const struct weir_stats *s)
{
	const struct counts *should = &p->counts[owner];
	bool all = p->exact || owner == DEVICE;

	compare_stat3(
	    "allocation", &s->allocation, should->of[COUNT], p->exact, all);
	compare_stat3("allocated_bytes", &s->allocated_bytes, should->of[BYTES],
	    p->exact, all);
	if (owner >= STREAMS - 1)
		return;
	compare_stat3("active", &s->active, should->of[COUNT], p->exact, all);
	compare_stat3(
	    "active_bytes", &s->active_bytes, should->of[BYTES], p->exact, all);
	compare_stat3("requested_bytes", &s->requested_bytes,
	    should->of[REQUESTED], p->exact, all);
}

static void
compare_all(struct program *p)
{
	struct weir_stats s;

	for (int i = 0; i < STREAMS; i++) {
		s = stats_of_stream(p->stream[i]);
		compare(p, i, &s);
	}
	s = stats();
	compare(p, DEVICE, &s);
	EXPECT_EQ(s.pending_bytes,
	    s.active_bytes.all.current - s.allocated_bytes.all.current);
}

static void
run(struct program *p)
{
	const char *seed = getenv("WEIR_TEST_SEED");

	p->state = (seed != NULL ? strtoull(seed, NULL, 0) : SEED) | 1;
	for (int i = 1; i < STREAMS - 1; i++)
		p->stream[i] = new_stream();
	p->stream[STREAMS - 1] = WEIR_STREAM_ANY;
	printf("# seed %" PRIu64 "\n", p->state);
	for (uint64_t i = 0; i < test_effort(STEPS); i++) {
		uint64_t die = next(p, 100);

		if (die < 50)
			step_malloc(p);
		else if (die < 98)
			step_free(p);
		else if (die < 99)
			step_reset(p);
		else
			trim(next(p, 2) * 64 * MIB);
		if (next(p, 8) == 0)
			compare_all(p);
	}
	while (p->n > 0)
		step_free(p);
	compare_all(p);
	trim(0);
	EXPECT_EQ(stats().active_bytes.all.current, 0);
	EXPECT_EQ(stats().reserved_bytes.all.current, 0);
	expect_healthy();
}

TEST(statistics_of_blocks_are_those_of_a_model)
{
	struct program p = { 0 };

	run(&p);
}

TEST(statistics_of_blocks_are_those_of_a_model_without_thread_caches)
{
	struct program p = { .exact = true };

	conf("tcache:0");
	run(&p);
}

TEST(statistics_of_blocks_in_driver_segments_are_those_of_a_model)
{
	struct program p = { 0 };

	conf("expandable_segments:False");
	run(&p);
}

TEST(statistics_of_blocks_are_those_of_a_model_when_memory_is_short)
{
	struct program p = { 0 };

	EXPECT_OK(weir_limit_set(0, (size_t)1 << 30));
	conf("prefer:memory");
	run(&p);
}

/* Take n blocks of a size, and free them: they are cached. */
static void
come_and_go(size_t n, size_t size, weir_stream stream)
{
	void *blocks[BLOCKS];

	for (size_t i = 0; i < n; i++)
		blocks[i] = take(size, stream);
	for (size_t i = 0; i < n; i++)
		give(blocks[i]);
}

/* More than its cache holds: some of it has gone to the depot of the stream. */
TEST(memory_that_one_stream_freed_is_not_in_the_peak_of_another)
{
	weir_stream a = new_stream();
	weir_stream b = new_stream();

	for (size_t size = 512; size <= 64 * KIB; size *= 2) {
		EXPECT_OK(weir_stats_reset_peak(0));
		come_and_go(60, size, a);
		come_and_go(60, size, b);
		EXPECT_EQ(stats().allocated_bytes.all.peak, 60 * size);
		EXPECT_EQ(stats().allocation.all.peak, 60);
	}
}
