/*
 * Memory passes from stream to stream within a capture, by the order of that
 * capture only. The simulated device reports each race when the graphs are
 * replayed.
 */
#include <weir/graph.h>

#include "tests/support/device.h"

enum { SIZE = 4 * MIB };

static weir_stream a;
static weir_stream b;
static weir_stream c;
static struct weir_graph *graph;

static struct weir_graph *
new_graph(void)
{
	struct weir_graph *made = NULL;

	EXPECT_OK(weir_graph_create(0, &made));
	return made;
}

static void
begin_on(struct weir_graph *g, weir_stream stream, struct weir_pool *pool)
{
	EXPECT_OK(
	    weir_graph_capture_begin(g, stream, pool, WEIR_CAPTURE_RELAXED));
}

/* `a` is captured. */
static void
arrange(void)
{
	a = new_stream();
	b = new_stream();
	c = new_stream();
	load_kernels();
	graph = new_graph();
	begin_on(graph, a, NULL);
}

static void
wait_for(weir_stream later, weir_stream earlier)
{
	EXPECT_OK(weir_stream_wait_stream(later, earlier));
}

/* Work that takes time, so that unordered work overlaps. */
static void
work(void *ptr, unsigned char value, weir_stream stream)
{
	busy(stream, 1);
	fill(ptr, SIZE, value, stream);
}

static struct weir_stats
pool_stats(struct weir_graph *g)
{
	struct weir_stats s = { .struct_size = sizeof(s) };
	struct weir_pool *pool;

	EXPECT_OK(weir_graph_pool(g, &pool));
	EXPECT_OK(weir_pool_stats(pool, &s));
	return s;
}

static void
expect_held(size_t blocks)
{
	EXPECT_EQ(pool_stats(graph).reserved_bytes.all.current, blocks * SIZE);
}

/* End the capture and replay the graph again and again, also on streams that
 * were not in the capture. */
static void
replay(void)
{
	weir_stream streams[] = { a, c, b, a };

	EXPECT_OK(weir_graph_capture_end(graph));
	for (int i = 0; i < 4; i++) {
		EXPECT_OK(weir_graph_replay(graph, streams[i]));
		finish(streams[i]);
	}
	expect_healthy();
}

static void
done(void)
{
	weir_graph_destroy(graph);
	trim(0);
	EXPECT_EQ(stats().reserved_bytes.all.current, 0);
	expect_healthy();
}

/* ---- What was freed with no use ---------------------------------------- */

TEST(a_stream_that_has_joined_another_uses_memory_that_it_freed)
{
	arrange();
	wait_for(b, a);
	void *first = take(SIZE, b);
	work(first, 1, b);
	wait_for(a, b);
	give(first); /* joined first, freed then */
	void *second = take(SIZE, a);
	EXPECT_EQ(second, first);
	work(second, 2, a);
	/* And in the other direction, freed first and joined then. */
	give(second);
	wait_for(b, a);
	void *third = take(SIZE, b);
	EXPECT_EQ(third, first);
	work(third, 3, b);
	wait_for(a, b);
	expect_held(1);
	replay();
	expect_filled(third, SIZE, 3, a);
	give(third);
	done();
}

TEST(a_stream_that_has_not_joined_another_gets_other_memory)
{
	arrange();
	wait_for(b, a);
	void *first = take(SIZE, b);
	work(first, 1, b);
	give(first);
	void *second = take(SIZE, a);
	EXPECT_NE(second, first);
	work(second, 2, a);
	/* A join that is older than the work is not enough. */
	wait_for(a, b);
	void *third = take(SIZE, b);
	EXPECT_EQ(third, first);
	work(third, 3, b);
	give(third);
	void *fourth = take(SIZE, a);
	EXPECT_NE(fourth, first);
	work(fourth, 4, a);
	wait_for(a, b);
	expect_held(3);
	replay();
	give(second);
	give(fourth);
	done();
}

TEST(order_passes_from_stream_to_stream_in_a_capture)
{
	arrange();
	wait_for(b, a);
	wait_for(c, a);
	void *first = take(SIZE, c);
	work(first, 1, c);
	give(first);
	wait_for(b, c);
	busy(b, 1);
	wait_for(a, b);
	void *second = take(SIZE, a);
	EXPECT_EQ(second, first);
	work(second, 2, a);
	wait_for(a, c);
	expect_held(1);
	replay();
	give(second);
	done();
}

TEST(neighbours_of_several_streams_serve_together_in_a_capture)
{
	arrange();
	wait_for(b, a);
	char *mine = take(SIZE, a);
	char *other = take(SIZE, b);
	work(mine, 1, a);
	work(other, 2, b);
	give(mine);
	give(other);
	wait_for(a, b);
	/* Each in turn, wherever it lies. */
	char *one = take(SIZE, a);
	char *two = take(SIZE, a);
	EXPECT(one == mine || one == other);
	EXPECT(two == mine || two == other);
	work(one, 3, a);
	work(two, 4, a);
	expect_held(2);
	replay();
	expect_filled(one, SIZE, 3, a);
	expect_filled(two, SIZE, 4, a);
	give(one);
	give(two);
	done();
}

/* ---- What was used on other streams ------------------------------------ */

/* A block of `a` that `b` uses after it. */
static void *
take_for_both(void)
{
	void *block = take(SIZE, a);

	work(block, 1, a);
	wait_for(b, a);
	work(block, 2, b);
	record(block, b);
	return block;
}

TEST(a_block_used_on_a_stream_that_has_been_joined_is_free_at_once)
{
	arrange();
	void *first = take_for_both();
	wait_for(a, b);
	give(first);
	EXPECT_EQ(pool_stats(graph).pending_bytes, 0);
	void *second = take(SIZE, a);
	EXPECT_EQ(second, first);
	work(second, 3, a);
	expect_held(1);
	replay();
	expect_filled(second, SIZE, 3, a);
	give(second);
	done();
}

TEST(a_block_used_on_another_stream_is_used_again_when_that_is_joined)
{
	arrange();
	void *first = take_for_both();
	give(first);
	EXPECT_EQ(pool_stats(graph).pending_bytes, SIZE);
	void *second = take(SIZE, a);
	EXPECT_NE(second, first);
	work(second, 3, a);
	wait_for(a, b);
	void *third = take(SIZE, a);
	EXPECT_EQ(third, first);
	work(third, 4, a);
	expect_held(2);
	replay();
	expect_filled(third, SIZE, 4, a);
	give(second);
	give(third);
	done();
}

/* By the stream that used it, which is ordered after its owner. */
TEST(a_block_passes_to_the_stream_that_used_it)
{
	arrange();
	void *first = take_for_both();
	give(first);
	void *second = take(SIZE, b);
	EXPECT_EQ(second, first);
	work(second, 3, b);
	wait_for(a, b);
	expect_held(1);
	replay();
	give(second);
	done();
}

TEST(a_use_outside_of_the_capture_holds_a_block_back_until_it_is_done)
{
	weir_stream outside = new_stream();

	arrange();
	void *first = take(SIZE, a);
	/* Work of another stream that is not captured, on memory of a graph. */
	busy(outside, LATE_MS);
	fill(first, SIZE, 1, outside);
	record(first, outside);
	give(first);
	EXPECT_EQ(pool_stats(graph).pending_bytes, SIZE);
	void *second = take(SIZE, a);
	EXPECT_NE(second, first);
	finish(outside);
	settle();
	void *third = take(SIZE, a);
	EXPECT_EQ(third, first);
	work(third, 2, a);
	replay();
	give(second);
	give(third);
	done();
}

/* The block was used before its stream joined the capture: a wait for the
 * stream in the capture does not cover that use. */
TEST(a_use_before_the_capture_is_not_of_the_capture)
{
	struct weir_pool *pool = NULL;

	a = new_stream();
	b = new_stream();
	c = new_stream();
	load_kernels();
	EXPECT_OK(weir_pool_create(0, NULL, 0, &pool));
	void *first = weir_pool_malloc(pool, SIZE, a);
	fill(first, SIZE, 0, a);
	wait_for(b, a);
	busy(b, LATE_MS);
	fill(first, SIZE, 1, b);
	record(first, b);
	graph = new_graph();
	begin_on(graph, a, pool);
	wait_for(b, a);
	busy(b, 1);
	record(first, b); /* once more */
	wait_for(a, b);
	give(first);
	EXPECT_EQ(pool_stats(graph).pending_bytes, SIZE);
	void *second = take(SIZE, a);
	EXPECT_NE(second, first);
	work(second, 2, a);
	EXPECT_OK(weir_graph_capture_end(graph));
	/* Replayed beside that work. */
	EXPECT_OK(weir_graph_replay(graph, c));
	finish(c);
	finish(b);
	give(second);
	weir_pool_release(pool);
	done();
}

/* ---- What belongs to others -------------------------------------------- */

/* Memory that a stream freed before the capture is covered by the capture's
 * order only if that work is done; also if the stream itself uses the memory in
 * between. */
static void
free_before(bool finished, bool between)
{
	struct weir_pool *pool = NULL;

	a = new_stream();
	b = new_stream();
	c = new_stream();
	EXPECT_OK(weir_pool_create(0, NULL, 0, &pool));
	void *first = weir_pool_malloc(pool, SIZE, b);
	busy(b, LATE_MS);
	fill(first, SIZE, 1, b);
	give(first);
	if (finished)
		finish(b);
	graph = new_graph();
	begin_on(graph, a, pool);
	wait_for(b, a);
	if (between) {
		EXPECT_EQ(take(SIZE, b), first);
		give(first);
	}
	busy(b, 1);
	wait_for(a, b);
	void *second = take(SIZE, a);
	EXPECT_EQ(second == first, finished);
	work(second, 2, a);
	EXPECT_OK(weir_graph_capture_end(graph));
	EXPECT_OK(weir_graph_replay(graph, c));
	finish(c);
	finish(b);
	expect_healthy();
	give(second);
	weir_pool_release(pool);
	done();
}

TEST(memory_freed_before_a_capture_is_not_taken_by_its_order)
{
	load_kernels();
	for (int between = 0; between < 2; between++) {
		free_before(false, between);
		free_before(true, between);
	}
}

TEST(two_captures_of_one_pool_do_not_take_from_each_other)
{
	struct weir_graph *other = new_graph();
	struct weir_pool *pool;

	conf("prefer:memory");
	arrange();
	EXPECT_OK(weir_graph_pool(graph, &pool));
	begin_on(other, b, pool);
	void *first = take(SIZE, a);
	work(first, 1, a);
	give(first);
	void *used = take(SIZE, a);
	wait_for(c, a);
	work(used, 2, c);
	record(used, c);
	give(used);
	/* One block was freed by its stream, and one waits: neither serves the
	 * request. */
	void *second = take(SIZE, b);
	EXPECT(second != first && second != used);
	work(second, 3, b);
	EXPECT_OK(weir_graph_capture_end(other));
	wait_for(a, c);
	replay();
	EXPECT_OK(weir_graph_replay(other, b));
	finish(b);
	give(second);
	weir_graph_destroy(other);
	done();
}

TEST(a_stream_outside_is_not_ordered_by_a_capture)
{
	struct weir_pool *pool;

	conf("prefer:memory");
	arrange();
	EXPECT_OK(weir_graph_pool(graph, &pool));
	void *first = take(SIZE, a);
	work(first, 1, a);
	give(first);
	void *used = take(SIZE, a);
	wait_for(c, a);
	work(used, 2, c);
	record(used, c);
	give(used);
	void *second = weir_pool_malloc(pool, SIZE, b);
	EXPECT(second != first && second != used);
	fill(second, SIZE, 3, b);
	EXPECT(!is_done(b));
	finish(b); /* it is in no capture */
	wait_for(a, c);
	replay();
	give(second);
	done();
}

/* ---- Behind an edge of the graph --------------------------------------- */

TEST(a_capture_gets_no_edge_that_it_does_not_need)
{
	arrange();
	wait_for(b, a);
	void *first = take(SIZE, b);
	work(first, 1, b);
	give(first);
	EXPECT_NE(take(SIZE, a), first);
	EXPECT_EQ(pool_stats(graph).num_gpu_waits, 0);
	weir_graph_destroy(graph);
}

/* A limit that leaves space for one block beside the kept memory. */
static void
under_pressure(const char *options, size_t limit)
{
	conf(options);
	arrange();
	EXPECT_OK(weir_limit_set(0, limit));
	wait_for(b, a);
	void *first = take(SIZE, b);
	work(first, 1, b);
	give(first);
	void *second = take(SIZE, a); /* ordered after b, by an edge */
	EXPECT_EQ(second, first);
	work(second, 2, a);
	record(second, b);
	wait_for(b, a);
	work(second, 3, b);
	give(second); /* waits for b */
	void *third = take(SIZE, a);
	EXPECT_EQ(third, first);
	work(third, 4, a);
	EXPECT_EQ(pool_stats(graph).num_gpu_waits, 2);
	expect_held(1);
	/* The program joins the streams that it has forked. */
	wait_for(a, b);
	replay();
	expect_filled(third, SIZE, 4, a);
	give(third);
	EXPECT_OK(weir_limit_set(0, SIZE_MAX));
	done();
}

TEST(where_memory_is_preferred_a_stream_is_put_behind_another_in_the_graph)
{
	under_pressure("prefer:memory", SIZE_MAX);
}

TEST(a_request_that_would_fail_is_put_behind_another_stream_in_the_graph)
{
	under_pressure("prefer:balance", SIZE);
}

/* A branch that was never joined is still an error if its work is not
 * joined. */
TEST(an_edge_joins_no_stream_that_the_program_does_not)
{
	conf("prefer:memory");
	arrange();
	wait_for(b, a);
	wait_for(c, a);
	void *first = take(SIZE, b);
	work(first, 1, b);
	give(first);
	void *second = take(SIZE, c);
	EXPECT_EQ(
	    second, first); /* c is ordered after b, and not joined either */
	work(second, 2, c);
	EXPECT_STATUS(weir_graph_capture_end(graph), WEIR_ECAPTURE);
	give(second);
	finish(a);
	done();
}

TEST(where_no_event_can_be_recorded_a_capture_goes_on_without_an_edge)
{
	device_need_sim("calls fail");
	conf("prefer:memory");
	arrange();
	wait_for(b, a);
	void *first = take(SIZE, b);
	work(first, 1, b);
	give(first);
	sim()->fail("cuStreamWaitEvent", 1, 100, CUDA_ERROR_UNKNOWN);
	void *second = take(SIZE, a);
	EXPECT_NE(second, first);
	sim()->reset();
	sim()->fail("cuStreamGetCaptureInfo", 1, 1, CUDA_ERROR_UNKNOWN);
	work(second, 2, a);
	wait_for(a, b);
	sim()->reset();
	replay();
	give(second);
	done();
}

/* ---- Several graphs ---------------------------------------------------- */

TEST(graphs_of_several_streams_share_a_pool_in_their_order)
{
	struct weir_graph *next = new_graph();
	struct weir_pool *pool;

	arrange();
	wait_for(b, a);
	void *first = take(SIZE, b);
	work(first, 1, b);
	void *used = take(SIZE, a);
	work(used, 2, a);
	wait_for(b, a);
	work(used, 2, b);
	record(used, b);
	give(used);
	give(first);
	wait_for(a, b);
	expect_held(2);
	EXPECT_OK(weir_graph_capture_end(graph));
	/* All of it serves the next graph, whichever stream that is on. */
	EXPECT_OK(weir_graph_pool(graph, &pool));
	begin_on(next, c, pool);
	void *third = take(SIZE, c);
	void *fourth = take(SIZE, c);
	EXPECT(third == first || third == used);
	EXPECT(fourth == first || fourth == used);
	work(third, 3, c);
	work(fourth, 4, c);
	expect_held(2);
	EXPECT_OK(weir_graph_capture_end(next));
	for (int i = 0; i < 3; i++) {
		weir_stream on = i == 1 ? a : c;
		EXPECT_OK(weir_graph_replay(graph, on));
		EXPECT_OK(weir_graph_replay(next, on));
		finish(on);
		expect_filled(third, SIZE, 3, on);
		expect_filled(fourth, SIZE, 4, on);
	}
	weir_graph_destroy(next);
	give(third);
	give(fourth);
	done();
}

/* Each graph with a separate pool: in any order, and at once. */
TEST(graphs_with_separate_pools_replay_in_any_order)
{
	struct weir_graph *graphs[3];
	unsigned char *output[3];

	for (unsigned char i = 0; i < 3; i++) {
		arrange();
		graphs[i] = graph;
		wait_for(b, a);
		void *temp = take(SIZE, b);
		work(temp, 10 + i, b);
		wait_for(a, b);
		output[i] = take(SIZE, a);
		copy(output[i], temp, SIZE, a);
		give(temp); /* used on a, which is ordered after b */
		wait_for(b, a);
		void *over = take(SIZE, b);
		EXPECT_EQ(over, temp);
		work(over, 20 + i, b);
		give(over);
		wait_for(a, b);
		EXPECT_OK(weir_graph_capture_end(graph));
	}
	for (int i = 0; i < 9; i++) {
		weir_stream on[] = { a, b, c };
		EXPECT_OK(weir_graph_replay(
		    graphs[(i * 2 + i / 3) % 3], on[(i * 2 + i / 3) % 3]));
	}
	for (int i = 0; i < 3; i++)
		EXPECT_OK(weir_device_synchronize(0));
	for (unsigned char i = 0; i < 3; i++) {
		expect_filled(output[i], SIZE, 10 + i, a);
		give(output[i]);
		weir_graph_destroy(graphs[i]);
	}
	trim(0);
	EXPECT_EQ(stats().reserved_bytes.all.current, 0);
	expect_healthy();
}
