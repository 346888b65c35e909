/*
 * The stage: its clock and its timers. On a GPU they run in real time, in which
 * a timer ends a little late, so that the times here are milliseconds apart.
 */
#include <stdlib.h>
#include <string.h>

#include <weir/stream.h>

#include "tests/support/test.h"
#include "tools/weir/replay/stage.h"

#define MS UINT64_C(1000000)

static struct stage *
started(void)
{
	struct stage *stage = stage_open();

	EXPECT_NOT_NULL(stage);
	EXPECT(stage_start(stage));
	return stage;
}

static weir_stream
new_stream(void)
{
	weir_stream stream;

	EXPECT_EQ(weir_stream_create(0, 0, &stream), WEIR_OK);
	return stream;
}

/* True if the stream has work until `time_ns`, and none 10 ms later. */
static void
expect_busy_until(struct stage *stage, weir_stream stream, uint64_t time_ns)
{
	stage_wait_until(stage, time_ns - 2 * MS);
	EXPECT_EQ(weir_stream_query(stream), WEIR_ENOTREADY);
	stage_wait_until(stage, time_ns + 10 * MS);
	EXPECT_EQ(weir_stream_query(stream), WEIR_OK);
}

TEST(waiting_ends_at_the_time_and_not_before)
{
	struct stage *stage = started();

	EXPECT_LT(stage_now_ns(stage), 50 * MS);
	stage_wait_until(stage, 50 * MS);
	EXPECT_GE(stage_now_ns(stage), 50 * MS);
	EXPECT_LT(stage_now_ns(stage), 80 * MS);
	/* A wait for a past time returns at once. */
	stage_wait_until(stage, 10 * MS);
	EXPECT_LT(stage_now_ns(stage), 80 * MS);
	stage_close(stage);
}

TEST(an_occupied_stream_is_busy_until_the_time)
{
	struct stage *stage = started();
	weir_stream stream = new_stream();

	EXPECT_EQ(weir_stream_query(stream), WEIR_OK);
	EXPECT(stage_occupy(stage, stream, 60 * MS));
	expect_busy_until(stage, stream, 60 * MS);
	stage_close(stage);
}

TEST(uses_of_one_stream_do_not_add_up)
{
	struct stage *stage = started();
	weir_stream stream = new_stream();

	for (uint64_t i = 1; i <= 30; i++)
		EXPECT(stage_occupy(stage, stream, 30 * MS + i * MS));
	expect_busy_until(stage, stream, 60 * MS);
	stage_close(stage);
}

TEST(an_earlier_use_after_a_later_one_changes_nothing)
{
	struct stage *stage = started();
	weir_stream stream = new_stream();

	EXPECT(stage_occupy(stage, stream, 60 * MS));
	EXPECT(stage_occupy(stage, stream, 30 * MS));
	expect_busy_until(stage, stream, 60 * MS);
	stage_close(stage);
}

TEST(a_time_that_has_passed_occupies_nothing)
{
	struct stage *stage = started();
	weir_stream stream = new_stream();

	stage_wait_until(stage, 20 * MS);
	EXPECT(stage_occupy(stage, stream, 10 * MS));
	EXPECT_EQ(weir_stream_query(stream), WEIR_OK);
	stage_close(stage);
}

TEST(each_stream_is_busy_for_its_own_time)
{
	enum { STREAMS = 6 };
	struct stage *stage = started();
	weir_stream streams[STREAMS];

	/* The latest use is first, so that one timer cannot serve two of them.
	 */
	for (int i = 0; i < STREAMS; i++) {
		streams[i] = new_stream();
		EXPECT(stage_occupy(
		    stage, streams[i], (uint64_t)(STREAMS - i) * 40 * MS));
	}
	for (int i = STREAMS; i-- > 0;)
		expect_busy_until(
		    stage, streams[i], (uint64_t)(STREAMS - i) * 40 * MS);
	stage_close(stage);
}

TEST(a_stream_that_waits_for_another_is_not_delayed_by_its_uses)
{
	struct stage *stage = started();
	weir_stream first = new_stream();
	weir_stream second = new_stream();

	EXPECT(stage_occupy(stage, first, 40 * MS));
	EXPECT_EQ(weir_stream_wait_stream(second, first), WEIR_OK);
	EXPECT(stage_occupy(stage, second, 60 * MS));
	expect_busy_until(stage, second, 60 * MS);
	stage_close(stage);
}

TEST(a_busy_stream_is_busy_until_the_time)
{
	struct stage *stage = started();
	weir_stream early;
	weir_stream late;

	EXPECT(stage_busy_stream(stage, 80 * MS, &late));
	EXPECT(stage_busy_stream(stage, 40 * MS, &early));
	EXPECT_NE(early, late);
	expect_busy_until(stage, early, 40 * MS);
	expect_busy_until(stage, late, 80 * MS);
	stage_close(stage);
}

TEST(more_uses_than_timers_share_them)
{
	enum { USES = 100 };
	struct stage *stage = started();
	weir_stream stream = NULL;

	for (uint64_t i = USES; i-- > 0;)
		EXPECT(stage_busy_stream(stage, 100 * MS + i * MS, &stream));
	/* All timers are busy longer than the last use, one of them only a
	 * little. */
	stage_wait_until(stage, 98 * MS);
	EXPECT_EQ(weir_stream_query(stream), WEIR_ENOTREADY);
	stage_wait_until(stage, 220 * MS);
	EXPECT_EQ(weir_stream_query(stream), WEIR_OK);
	stage_close(stage);
}

TEST(memory_taken_since_the_start_is_counted_by_the_driver)
{
	struct stage *stage = started();
	weir_stream stream = new_stream();
	uint64_t held;
	void *block;

	EXPECT(stage_driver_held(stage, &held));
	EXPECT_EQ(held, 0);
	block = weir_malloc(64 << 20, stream);
	EXPECT_NOT_NULL(block);
	EXPECT(stage_driver_held(stage, &held));
	EXPECT_GE(held, 64 << 20);
	EXPECT_LE(held, 128 << 20);
	EXPECT_EQ(weir_free(block), WEIR_OK);
	stage_close(stage);
}

TEST(driver_calls_of_the_stage_are_not_counted)
{
	struct stage *stage = started();
	weir_stream stream;
	uint64_t held;
	json_t *calls;

	if (!stage_simulated(stage)) {
		calls = stage_driver_calls(stage);
		EXPECT(json_is_null(calls));
		SKIP("driver calls are counted on the simulated device only");
	}
	stream = new_stream();
	EXPECT(stage_start(stage));
	EXPECT(stage_occupy(stage, stream, 10 * MS));
	EXPECT(stage_occupy(stage, stream, 5 * MS));
	EXPECT(stage_driver_held(stage, &held));
	calls = stage_driver_calls(stage);
	EXPECT_EQ(json_object_size(calls), 0);
	json_decref(calls);
	EXPECT_EQ(weir_stream_query(stream), WEIR_ENOTREADY);
	calls = stage_driver_calls(stage);
	EXPECT_EQ(
	    json_integer_value(json_object_get(calls, "cuStreamQuery")), 1);
	json_decref(calls);
	stage_close(stage);
}

TEST(writes_that_nothing_orders_are_seen)
{
	struct stage *stage = started();
	weir_stream first;
	weir_stream second;
	char *block;

	if (!stage_simulated(stage))
		SKIP("races are seen on the simulated device only");
	first = new_stream();
	second = new_stream();
	block = weir_malloc(1 << 20, first);
	EXPECT_NOT_NULL(block);
	EXPECT(stage_touch(stage, first, block, 1 << 20, NULL));
	EXPECT_EQ(weir_device_synchronize(0), WEIR_OK);
	EXPECT_EQ(stage_violations(stage), 0);
	EXPECT(stage_touch(stage, first, block, 1 << 20, NULL));
	EXPECT(stage_touch(stage, second, block, 1 << 20, NULL));
	EXPECT_EQ(weir_device_synchronize(0), WEIR_OK);
	EXPECT_GT(stage_violations(stage), 0);
	EXPECT_EQ(weir_free(block), WEIR_OK);
	stage_close(stage);
}

TEST(writes_of_a_mark_are_ordered)
{
	struct stage *stage = started();
	weir_stream first = new_stream();
	weir_stream second = new_stream();
	void *mark = NULL;
	char *block = weir_malloc(100, first);

	EXPECT_NOT_NULL(block);
	EXPECT(stage_occupy(stage, first, 30 * MS));
	EXPECT(stage_touch(stage, first, block, 100, &mark));
	EXPECT_NOT_NULL(mark);
	EXPECT(stage_touch(stage, second, block, 100, &mark));
	/* The second write waits for the first. */
	expect_busy_until(stage, second, 30 * MS);
	EXPECT_EQ(stage_violations(stage), 0);
	stage_unmark(stage, &mark);
	EXPECT_NULL(mark);
	stage_unmark(stage, &mark);
	EXPECT_EQ(weir_free(block), WEIR_OK);
	stage_close(stage);
}

/* ---- What weir's waits cost ------------------------------------------ */

TEST(the_end_comes_when_all_work_is_done)
{
	struct stage *stage = started();
	weir_stream first = new_stream();
	weir_stream second = new_stream();
	uint64_t stalled_ns;
	uint64_t delayed_ns;

	EXPECT(stage_work(stage, first, 20 * MS));
	EXPECT(stage_work(stage, first, 20 * MS));
	EXPECT(stage_work(stage, second, 30 * MS));
	EXPECT(stage_finish(stage, &stalled_ns, &delayed_ns));
	EXPECT_GE(stage_now_ns(stage), 40 * MS);
	EXPECT_LT(stage_now_ns(stage), 60 * MS);
	EXPECT_EQ(stalled_ns, 0);
	EXPECT_EQ(delayed_ns, 0);
	stage_close(stage);
}

TEST(only_waits_of_weir_count)
{
	struct stage *stage = started();
	weir_stream busy = new_stream();
	weir_stream other = new_stream();
	void *block = weir_malloc(100, busy);
	void *mark = NULL;
	uint64_t stalled_ns;
	uint64_t delayed_ns;

	EXPECT_NOT_NULL(block);
	EXPECT(stage_work(stage, busy, 20 * MS));
	/* Waits of the stage, and waits of the program. */
	EXPECT(stage_touch(stage, busy, block, 100, &mark));
	EXPECT(stage_touch(stage, other, block, 100, &mark));
	EXPECT(stage_order(stage, new_stream(), busy));
	EXPECT(stage_occupy(stage, new_stream(), 15 * MS));
	EXPECT(stage_finish(stage, &stalled_ns, &delayed_ns));
	EXPECT_EQ(stalled_ns, 0);
	EXPECT_EQ(delayed_ns, 0);
	EXPECT(stage_work(stage, busy, 20 * MS));
	EXPECT_EQ(weir_stream_wait_stream(other, busy), WEIR_OK);
	EXPECT(stage_work(stage, other, MS));
	EXPECT(stage_finish(stage, &stalled_ns, &delayed_ns));
	if (stage_simulated(stage)) {
		EXPECT_GT(stalled_ns, 19 * MS);
		EXPECT_LT(stalled_ns, 21 * MS);
		EXPECT_GT(delayed_ns, 19 * MS);
		EXPECT_LT(delayed_ns, 21 * MS);
	} else {
		EXPECT_EQ(stalled_ns, 0);
		EXPECT_EQ(delayed_ns, 0);
	}
	stage_unmark(stage, &mark);
	EXPECT_EQ(weir_free(block), WEIR_OK);
	stage_close(stage);
}

TEST(waits_before_the_start_do_not_count)
{
	struct stage *stage = started();
	weir_stream other = new_stream();
	weir_stream busy = new_stream();
	uint64_t stalled_ns;
	uint64_t delayed_ns;

	EXPECT(stage_work(stage, busy, 20 * MS));
	EXPECT_EQ(weir_stream_wait_stream(other, busy), WEIR_OK);
	EXPECT(stage_work(stage, other, MS));
	EXPECT(stage_finish(stage, &stalled_ns, &delayed_ns));
	EXPECT(stage_start(stage));
	EXPECT(stage_finish(stage, &stalled_ns, &delayed_ns));
	EXPECT_EQ(stalled_ns, 0);
	EXPECT_EQ(delayed_ns, 0);
	stage_close(stage);
}

/* ---- Content --------------------------------------------------------- */

/* The number of words that differ if the pattern of a block is expected `shift`
 * bytes after its place. */
static uint64_t
mismatches(struct stage *stage, const struct stage_block *block,
    uint32_t number, size_t shift)
{
	struct stage_block seen = { .address = (char *)block->address + shift,
		.size = block->size - shift,
		.number = number };
	weir_stream stream = new_stream();
	uint64_t before;
	uint64_t after;
	uint32_t first;

	EXPECT(stage_mismatches(stage, &before, &first));
	EXPECT(stage_write(stage, stream, block, NULL));
	EXPECT(stage_verify(stage, stream, &seen, NULL, false));
	EXPECT(stage_mismatches(stage, &after, &first));
	if (after != 0)
		EXPECT_EQ(first, number);
	return after - before;
}

TEST(written_bytes_are_there)
{
	static const size_t sizes[] = { 1, 4, 5, 64, 100, 512, 4096, 1 << 20,
		(1 << 20) + 1, 7 << 20, (64 << 20) + 4 };
	struct stage *stage = started();

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct stage_block block = {
			.address = weir_malloc(sizes[i], NULL),
			.size = sizes[i],
			.number = (uint32_t)i + 1,
		};

		EXPECT_NOT_NULL(block.address);
		EXPECT_EQ(mismatches(stage, &block, block.number, 0), 0);
		EXPECT_EQ(weir_free(block.address), WEIR_OK);
	}
	stage_close(stage);
}

TEST(another_block_or_another_place_is_seen)
{
	struct stage *stage = started();
	struct stage_block block = {
		.address = weir_malloc(3 << 20, NULL),
		.size = 3 << 20,
		.number = 7,
	};
	uint64_t all = (3 << 20) / 4;

	EXPECT_NOT_NULL(block.address);
	/* The simulated device checks both ends, and the words at the begin of
	 * granules. */
	if (stage_simulated(stage))
		all = 16 + 1 + 16;
	EXPECT_EQ(mismatches(stage, &block, 8, 0), all);
	EXPECT_GE(mismatches(stage, &block, 8, 4), 16);
	EXPECT_EQ(weir_free(block.address), WEIR_OK);
	stage_close(stage);
}

TEST(another_owner_of_the_end_of_a_block_is_seen)
{
	struct stage *stage = started();
	struct stage_block block = {
		.address = weir_malloc(8 << 20, NULL),
		.size = 8 << 20,
		.number = 3,
	};
	struct stage_block tail = {
		.address = (char *)block.address + (8 << 20) - 512,
		.size = 512,
		.number = 4,
	};
	uint64_t words;
	uint32_t first;
	void *mark = NULL;

	EXPECT_NOT_NULL(block.address);
	EXPECT(stage_write(stage, NULL, &block, &mark));
	EXPECT_NOT_NULL(mark);
	EXPECT(stage_verify(stage, new_stream(), &block, mark, false));
	EXPECT(stage_mismatches(stage, &words, &first));
	EXPECT_EQ(words, 0);
	EXPECT(stage_write(stage, NULL, &tail, NULL));
	EXPECT(stage_verify(stage, NULL, &block, NULL, false));
	EXPECT(stage_verify(stage, NULL, &tail, NULL, false));
	EXPECT(stage_mismatches(stage, &words, &first));
	EXPECT_EQ(words, stage_simulated(stage) ? 16 : 128);
	EXPECT_EQ(first, 3);
	EXPECT_EQ(stage_violations(stage), 0);
	stage_unmark(stage, &mark);
	EXPECT_EQ(weir_free(block.address), WEIR_OK);
	stage_close(stage);
}

/* The simulated device does not compare all words, but it checks the order of
 * all bytes. */
TEST(a_write_into_the_middle_that_nothing_orders_is_seen)
{
	struct stage *stage = started();
	struct stage_block block = {
		.address = weir_malloc(8 << 20, NULL),
		.size = 8 << 20,
		.number = 3,
	};

	EXPECT_NOT_NULL(block.address);
	if (!stage_simulated(stage))
		SKIP("races are seen on the simulated device only");
	EXPECT(stage_write(stage, new_stream(), &block, NULL));
	EXPECT(stage_touch(stage, new_stream(),
	    (char *)block.address + (1 << 20) + 512, 4, NULL));
	EXPECT_EQ(weir_device_synchronize(0), WEIR_OK);
	EXPECT_GT(stage_violations(stage), 0);
	EXPECT_EQ(weir_free(block.address), WEIR_OK);
	stage_close(stage);
}
