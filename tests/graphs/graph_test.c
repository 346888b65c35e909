/*
 * Graphs: their states, the calls that each state refuses, the state after a
 * failure, memory that is kept while a graph can be replayed, and captures by
 * the program.
 */
#include <weir/graph.h>

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "allocator/memory/arena.h"
#include "allocator/memory/lookup.h"
#include "base/meta.h"
#include "graphs/pool.h"
#include "streams/capture.h"
#include "tests/support/device.h"

static struct weir_graph *
make(unsigned flags)
{
	struct weir_graph *graph = NULL;

	EXPECT_OK(weir_graph_create(flags, &graph));
	return graph;
}

static void
begin(struct weir_graph *graph, weir_stream stream)
{
	EXPECT_OK(
	    weir_graph_capture_begin(graph, stream, NULL, WEIR_CAPTURE_GLOBAL));
}

static struct arena *
arena_of(const void *ptr)
{
	return lookup_exact((CUdeviceptr)(uintptr_t)ptr)->arena;
}

/* ---- States ------------------------------------------------------------ */

TEST(a_graph_with_nothing_in_it_can_only_capture)
{
	struct weir_graph *graph = make(0);
	struct weir_pool *pool;
	void *handle;
	size_t nodes;

	EXPECT_STATUS(weir_graph_capture_end(graph), WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), "before weir_graph_capture_begin");
	EXPECT_STATUS(weir_graph_replay(graph, NULL), WEIR_EINVAL);
	EXPECT_STR_HAS(
	    weir_last_error(), "without a preceding successful capture");
	EXPECT_STATUS(weir_graph_instantiate(graph), WEIR_EINVAL);
	EXPECT_STATUS(weir_graph_pool(graph, &pool), WEIR_EINVAL);
	EXPECT_STATUS(weir_graph_handle(graph, &handle), WEIR_EINVAL);
	EXPECT_STATUS(weir_graph_nodes(graph, &nodes), WEIR_EINVAL);
	EXPECT_NULL(weir_graph_exec(graph));
	EXPECT_OK(weir_graph_reset(graph));
	weir_graph_destroy(graph);
	weir_graph_destroy(NULL);
	EXPECT_STATUS(weir_graph_create(2, &graph), WEIR_EINVAL);
	EXPECT_STATUS(weir_graph_create(0, NULL), WEIR_EINVAL);
	EXPECT_STATUS(weir_graph_reset(NULL), WEIR_EINVAL);
	EXPECT_STATUS(weir_graph_replay(NULL, NULL), WEIR_EINVAL);
}

TEST(a_graph_that_has_a_capture_takes_no_other)
{
	weir_stream stream = new_stream();
	struct weir_graph *graph = make(0);
	struct weir_graph *other = make(0);

	begin(graph, stream);
	EXPECT_STATUS(weir_graph_capture_begin(
			  graph, new_stream(), NULL, WEIR_CAPTURE_GLOBAL),
	    WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), "owns a capture already");
	EXPECT_STATUS(
	    weir_graph_capture_begin(other, stream, NULL, WEIR_CAPTURE_GLOBAL),
	    WEIR_ECAPTURE);
	EXPECT_STR_HAS(weir_last_error(), "is being captured already");
	EXPECT_OK(weir_graph_capture_end(graph));
	EXPECT_STATUS(
	    weir_graph_capture_begin(graph, stream, NULL, WEIR_CAPTURE_GLOBAL),
	    WEIR_EINVAL);
	EXPECT_STATUS(weir_graph_capture_end(graph), WEIR_EINVAL);
	weir_graph_destroy(graph);
	EXPECT_STATUS(weir_graph_capture_begin(
			  other, stream, NULL, (enum weir_capture_mode)3),
	    WEIR_EINVAL);
	weir_graph_destroy(other);
	EXPECT(!capture_any());
	expect_healthy();
}

TEST(a_graph_that_is_kept_is_instantiated_when_it_is_wanted)
{
	weir_stream stream = new_stream();
	struct weir_graph *graph = make(WEIR_GRAPH_KEEP);
	struct weir_graph *plain = make(0);
	void *handle = NULL;
	size_t nodes = 0;

	load_kernels();
	begin(graph, stream);
	EXPECT_STATUS(weir_graph_handle(graph, &handle), WEIR_EINVAL);
	unsigned char *ptr = take(1000, stream);
	fill(ptr, 1000, 7, stream);
	EXPECT_OK(weir_graph_capture_end(graph));
	EXPECT_OK(weir_graph_handle(graph, &handle));
	EXPECT_NOT_NULL(handle);
	EXPECT_NULL(weir_graph_exec(graph));
	EXPECT_OK(weir_graph_nodes(graph, &nodes));
	EXPECT_EQ(nodes, 1);
	EXPECT_OK(weir_graph_instantiate(graph));
	EXPECT_NOT_NULL(weir_graph_exec(graph));
	EXPECT_STATUS(weir_graph_instantiate(graph), WEIR_EINVAL);
	EXPECT_OK(weir_graph_replay(graph, stream));
	expect_filled(ptr, 1000, 7, stream);
	/* Or by the first replay. */
	EXPECT_OK(weir_graph_reset(graph));
	begin(graph, stream);
	fill(ptr, 1000, 9, stream);
	EXPECT_OK(weir_graph_capture_end(graph));
	EXPECT_OK(weir_graph_replay(graph, stream));
	expect_filled(ptr, 1000, 9, stream);
	begin(plain, stream);
	fill(ptr, 1000, 9, stream);
	EXPECT_OK(weir_graph_capture_end(plain));
	EXPECT_STATUS(weir_graph_handle(plain, &handle), WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), "WEIR_GRAPH_KEEP");
	EXPECT_STATUS(weir_graph_instantiate(plain), WEIR_EINVAL);
	give(ptr);
	weir_graph_destroy(graph);
	weir_graph_destroy(plain);
	if (sim() != NULL) {
		EXPECT_EQ(sim()->live("graph"), 0);
		EXPECT_EQ(sim()->live("exec"), 0);
	}
	expect_healthy();
}

TEST(an_empty_graph_is_warned_of_on_stderr)
{
	weir_stream stream = new_stream();
	struct weir_graph *graph = make(0);
	char text[512] = "";
	int ends[2];

	begin(graph, stream);
	EXPECT_EQ(pipe(ends), 0);
	int old = dup(STDERR_FILENO);
	dup2(ends[1], STDERR_FILENO);
	enum weir_status status = weir_graph_capture_end(graph);
	dup2(old, STDERR_FILENO);
	close(ends[1]);
	EXPECT_OK(status);
	EXPECT_GT(read(ends[0], text, sizeof(text) - 1), 0);
	EXPECT_STR_HAS(text, "the captured graph is empty");
	weir_graph_destroy(graph);
	expect_healthy();
}

TEST(a_pool_of_another_device_is_refused)
{
	device_need(2);
	weir_stream stream = new_stream();
	struct weir_graph *graph = make(0);
	struct weir_pool *pool = NULL;

	EXPECT_OK(weir_pool_create(1, NULL, 0, &pool));
	EXPECT_STATUS(
	    weir_graph_capture_begin(graph, stream, pool, WEIR_CAPTURE_GLOBAL),
	    WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), "the pool belongs to device 1");
	EXPECT_EQ(weir_pool_use_count(pool), 1);
	begin(graph, stream);
	weir_graph_destroy(graph);
	expect_healthy();
}

/* A driver would crash on a handle that is none. */
TEST(a_replay_on_no_stream_of_the_graph_s_device_is_refused)
{
	weir_stream stream = new_stream();
	weir_stream gone;
	struct weir_graph *graph = make(0);

	EXPECT_OK(weir_stream_create(0, 0, &gone));
	EXPECT_OK(weir_stream_destroy(gone));
	begin(graph, stream);
	EXPECT_OK(weir_graph_capture_end(graph));
	EXPECT_STATUS(weir_graph_replay(graph, WEIR_STREAM_ANY), WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), "WEIR_STREAM_ANY");
	EXPECT_STATUS(weir_graph_replay(graph, gone), WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), "it was destroyed");
	EXPECT_STATUS(weir_graph_replay(graph, (weir_stream)(UINTPTR_MAX - 2)),
	    WEIR_EINVAL);
	EXPECT_OK(weir_graph_replay(graph, NULL));
	EXPECT_OK(weir_graph_replay(graph, WEIR_STREAM_LEGACY));
	EXPECT_OK(weir_graph_replay(graph, WEIR_STREAM_PER_THREAD));
	EXPECT_OK(weir_graph_replay(graph, stream));
	EXPECT_OK(weir_device_synchronize(0));
	weir_graph_destroy(graph);
	expect_healthy();
}

TEST(a_replay_on_a_stream_of_another_device_is_refused)
{
	device_need(2);
	weir_stream stream = new_stream();
	weir_stream guest;
	struct weir_graph *graph = make(0);

	begin(graph, stream);
	EXPECT_OK(weir_graph_capture_end(graph));
	EXPECT_OK(weir_stream_create(1, 0, &guest));
	EXPECT_STATUS(weir_graph_replay(graph, guest), WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), "belongs to device 1, not 0");
	EXPECT_OK(weir_stream_destroy(guest));
	weir_graph_destroy(graph);
	expect_healthy();
}

/* ---- What a graph keeps ------------------------------------------------ */

TEST(memory_of_a_graph_stays_while_it_can_be_replayed)
{
	weir_stream stream = new_stream();
	struct weir_graph *graph = make(0);
	struct weir_pool *pool = NULL;

	load_kernels();
	begin(graph, stream);
	unsigned char *ptr = take(4 * MIB, stream);
	struct arena *arena = arena_of(ptr);
	EXPECT_NE(arena, arena_peek(0));
	EXPECT_OK(weir_graph_pool(graph, &pool));
	EXPECT_EQ(pool->arena, arena);
	fill(ptr, 4 * MIB, 3, stream);
	give(ptr);
	EXPECT_OK(weir_graph_capture_end(graph));
	EXPECT_OK(weir_graph_pool(graph, &pool));
	EXPECT_EQ(weir_pool_use_count(pool), 1);
	EXPECT_EQ(trim(0), 0);
	EXPECT_OK(weir_pool_trim(pool, 0, NULL));
	EXPECT_EQ(reserved(), 4 * MIB);
	/* No other request gets it either. */
	EXPECT_NE(take(4 * MIB, stream), ptr);
	for (int i = 0; i < 3; i++)
		EXPECT_OK(weir_graph_replay(graph, stream));
	finish(stream);
	EXPECT_EQ(reserved(), 8 * MIB);
	weir_graph_destroy(graph);
	trim(0);
	EXPECT_EQ(reserved(), 4 * MIB);
	EXPECT(!arena->private.in_use);
	expect_healthy();
}

TEST(memory_of_a_graph_that_is_reset_waits_for_its_replays)
{
	weir_stream stream = new_stream();
	weir_stream other = new_stream();
	struct weir_graph *graph = make(0);

	load_kernels();
	begin(graph, stream);
	unsigned char *ptr = take(4 * MIB, stream);
	fill(ptr, 4 * MIB, 3, stream);
	busy(stream, LATE_MS);
	fill(ptr, 4 * MIB, 4, stream);
	give(ptr);
	EXPECT_OK(weir_graph_capture_end(graph));
	EXPECT_OK(weir_graph_replay(graph, other));
	/* The graph's stream is idle, the stream of the replay is not. */
	weir_graph_destroy(graph);
	EXPECT_EQ(reserved(), 4 * MIB);
	EXPECT(!is_done(other));
	give(take(512, NULL));
	EXPECT_EQ(reserved(), 6 * MIB);
	trim(0);
	EXPECT(is_done(other));
	EXPECT_EQ(reserved(), 0);
	expect_healthy();
}

TEST(a_live_output_outlasts_its_graph)
{
	weir_stream stream = new_stream();
	struct weir_graph *graph = make(0);

	load_kernels();
	begin(graph, stream);
	unsigned char *ptr = take(4 * MIB, stream);
	unsigned char *temp = take(4 * MIB, stream);
	fill(ptr, 4 * MIB, 3, stream);
	give(temp);
	EXPECT_OK(weir_graph_capture_end(graph));
	EXPECT_OK(weir_graph_replay(graph, stream));
	weir_graph_destroy(graph);
	trim(0);
	EXPECT_EQ(reserved(), 4 * MIB);
	expect_filled(ptr, 4 * MIB, 3, stream);
	give(ptr);
	EXPECT_EQ(reserved(), 0);
	expect_healthy();
}

TEST(graphs_that_share_a_pool_keep_it_until_the_last_is_reset)
{
	weir_stream stream = new_stream();
	struct weir_graph *graph[2] = { make(0), make(0) };
	struct weir_pool *pool = NULL;
	void *first = NULL;

	load_kernels();
	EXPECT_OK(weir_pool_create(0, NULL, 0, &pool));
	for (int i = 0; i < 2; i++) {
		EXPECT_OK(weir_graph_capture_begin(
		    graph[i], stream, pool, WEIR_CAPTURE_GLOBAL));
		void *ptr = take(4 * MIB, stream);
		fill(ptr, 4 * MIB, 3, stream);
		give(ptr);
		EXPECT(first == NULL || first == ptr);
		first = ptr;
		EXPECT_OK(weir_graph_capture_end(graph[i]));
	}
	EXPECT_EQ(weir_pool_use_count(pool), 3);
	weir_graph_destroy(graph[0]);
	trim(0);
	EXPECT_EQ(reserved(), 4 * MIB);
	weir_graph_destroy(graph[1]);
	trim(0);
	EXPECT_EQ(reserved(), 0);
	EXPECT_EQ(weir_pool_use_count(pool), 1);
	EXPECT_EQ(pool->arena->memory.kept, 0);
	expect_healthy();
}

/* ---- Captures that break ----------------------------------------------- */

TEST(a_capture_that_was_broken_leaves_nothing_and_the_graph_goes_on)
{
	weir_stream stream = new_stream();
	weir_stream forked = new_stream();
	struct weir_graph *graph = make(0);

	load_kernels();
	for (int i = 0; i < 3; i++) {
		begin(graph, stream);
		void *ptr = take(4 * MIB, stream);
		struct arena *arena = arena_of(ptr);
		/* Work that is forked and never joined. */
		EXPECT_OK(weir_stream_wait_stream(forked, stream));
		fill(ptr, 512, 1, forked);
		EXPECT_STATUS(weir_graph_capture_end(graph), WEIR_ECAPTURE);
		EXPECT(!capture_any());
		EXPECT_EQ(arena->memory.kept, 0);
		give(ptr);
		trim(0);
		EXPECT(!arena->private.in_use);
		EXPECT_EQ(reserved(), 0);
		give(take(4 * MIB, stream));
		trim(0);
	}
	begin(graph, stream);
	EXPECT_OK(weir_graph_capture_end(graph));
	weir_graph_destroy(graph);
	expect_healthy();
}

TEST(a_capture_that_is_given_up_ends_routing_and_releases_the_pool)
{
	weir_stream stream = new_stream();
	struct weir_graph *graph = make(0);

	begin(graph, stream);
	void *ptr = take(4 * MIB, stream);
	struct arena *arena = arena_of(ptr);
	weir_graph_destroy(graph);
	EXPECT_EQ(arena->memory.kept, 0);
	EXPECT_EQ(arena_of(take(4 * MIB, stream)), arena_peek(0));
	fill(ptr, 4 * MIB, 1, stream); /* the stream is no longer captured */
	expect_filled(ptr, 4 * MIB, 1, stream);
	give(ptr);
	EXPECT(!arena->private.in_use);
	EXPECT(!capture_any());
	expect_healthy();
}

TEST(a_capture_with_no_host_memory_for_it_does_not_begin)
{
	weir_stream stream = new_stream();
	struct weir_graph *graph = make(0);
	bool failed = false;

	give(take(512, stream));
	for (unsigned long nth = 1; nth < 30; nth++) {
		meta_fail(nth, 1);
		enum weir_status status = weir_graph_capture_begin(
		    graph, stream, NULL, WEIR_CAPTURE_GLOBAL);
		meta_fail(0, 0);
		expect_healthy();
		if (status == WEIR_OK)
			break;
		failed = true;
		EXPECT_EQ(status, WEIR_EHOSTMEM);
		EXPECT(!capture_any());
	}
	EXPECT(failed);
	weir_graph_destroy(graph);
	expect_healthy();
}

/* ---- Captures by CUDA's own calls -------------------------------------- */

TEST(a_program_s_own_capture_is_registered_and_keeps_its_memory)
{
	weir_stream stream = new_stream();
	struct weir_graph *graph = make(0);
	struct weir_pool *pool = NULL;

	load_kernels();
	void *before = take(4 * MIB, stream);
	give(before); /* the thread has it cached */
	EXPECT_STATUS(weir_graph_register(graph, stream, NULL), WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), "is not being captured");
	capture_begin(stream);
	EXPECT_OK(weir_graph_register(graph, stream, NULL));
	unsigned char *ptr = take(4 * MIB, stream);
	EXPECT_NE(ptr, before);
	fill(ptr, 4 * MIB, 3, stream);
	EXPECT_STATUS(weir_graph_capture_end(graph), WEIR_ECAPTURE);
	EXPECT_STR_HAS(weir_last_error(), "still being captured");
	give(ptr);
	capture_end(stream);
	EXPECT_OK(weir_graph_capture_end(graph));
	EXPECT_STATUS(weir_graph_replay(graph, stream), WEIR_EINVAL);
	EXPECT_OK(weir_graph_pool(graph, &pool));
	EXPECT_OK(weir_pool_trim(pool, 0, NULL));
	EXPECT_EQ(
	    pool->arena->account.stats.reserved_bytes.all.current, 4 * MIB);
	weir_graph_destroy(graph);
	trim(0);
	EXPECT_EQ(reserved(), 0);
	expect_healthy();
}

TEST(memory_of_a_capture_from_before_its_registration_is_the_graph_s)
{
	weir_stream stream = new_stream();
	struct weir_graph *graph = make(0);
	struct weir_pool *pool = NULL;

	load_kernels();
	capture_begin(stream);
	void *ptr = take(4 * MIB, stream);
	struct arena *arena = arena_of(ptr);
	EXPECT_NE(arena, arena_peek(0));
	EXPECT_OK(weir_pool_create(0, NULL, 0, &pool));
	EXPECT_STATUS(weir_graph_register(graph, stream, pool), WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), "before the pool was given");
	EXPECT_OK(weir_graph_register(graph, stream, NULL));
	EXPECT_EQ(arena_of(take(512, stream)), arena);
	give(ptr);
	capture_end(stream);
	EXPECT_OK(weir_graph_capture_end(graph));
	give(take(512, stream));
	trim(0);
	EXPECT_EQ(arena->account.stats.reserved_bytes.all.current, 6 * MIB);
	weir_graph_destroy(graph);
	trim(0);
	EXPECT_EQ(arena->account.stats.reserved_bytes.all.current, 2 * MIB);
	expect_healthy();
}

TEST(a_registered_capture_draws_on_the_pool_that_was_given)
{
	weir_stream stream = new_stream();
	struct weir_graph *graph = make(0);
	struct weir_pool *pool = NULL;

	EXPECT_OK(weir_pool_create(0, NULL, 0, &pool));
	capture_begin(stream);
	EXPECT_OK(weir_graph_register(graph, stream, pool));
	EXPECT_EQ(weir_pool_use_count(pool), 2);
	EXPECT_EQ(arena_of(take(512, stream)), pool->arena);
	/* It is dropped with the capture still on. */
	weir_graph_destroy(graph);
	EXPECT_EQ(weir_pool_use_count(pool), 1);
	capture_end(stream);
	expect_healthy();
}
