/*
 * docs/behaviours.md, rows on graphs and private pools.
 */
#include <weir/graph.h>

#include <pthread.h>

#include "tests/support/device.h"

enum { WORDS = 1000, BYTES = WORDS * 4, SMALL_BUFFER = 2 * MIB };

/* ---- Help -------------------------------------------------------------- */

static struct weir_graph *
new_graph(void)
{
	struct weir_graph *graph = NULL;

	EXPECT_OK(weir_graph_create(0, &graph));
	return graph;
}

/* The pool of a graph that was captured, or 0. */
static struct weir_pool *
pool_of(struct weir_graph *graph, bool share)
{
	struct weir_pool *pool = NULL;

	if (share)
		EXPECT_OK(weir_graph_pool(graph, &pool));
	return pool;
}

static void
begin(struct weir_graph *graph, weir_stream stream, struct weir_pool *pool)
{
	EXPECT_OK(
	    weir_graph_capture_begin(graph, stream, pool, WEIR_CAPTURE_GLOBAL));
}

static void
end(struct weir_graph *graph)
{
	EXPECT_OK(weir_graph_capture_end(graph));
}

/* n words with one value, written by eager work that is done. */
static uint32_t *
words(uint32_t value, size_t n, weir_stream stream)
{
	uint32_t *ptr = take(n * 4, stream);

	fill(ptr, n * 4, 0, stream);
	if (value != 0) {
		fill(ptr, n * 4, 1, stream); /* 0x01010101 */
		EXPECT_EQ(value, 0x01010101);
	}
	finish(stream);
	return ptr;
}

static uint32_t
word(const uint32_t *ptr, weir_stream stream)
{
	uint32_t value[2];

	read_back(value, ptr, 8, stream);
	EXPECT_EQ(value[0], value[1]);
	return value[0];
}

/* to = a + b, in new memory, in words. */
static uint32_t *
sum(const uint32_t *a, const uint32_t *b, weir_stream stream)
{
	uint32_t *to = take(BYTES, stream);

	add(to, a, b, WORDS, stream);
	return to;
}

/* 2 * (t + one), with temporary memory; t is freed. */
static uint32_t *
with_temps(uint32_t *t, const uint32_t *one, weir_stream stream)
{
	uint32_t *x = sum(t, one, stream);
	uint32_t *y = sum(t, one, stream);
	uint32_t *z = sum(x, y, stream);

	give(x);
	give(y);
	give(t);
	return z;
}

static void
replay(struct weir_graph *graph, weir_stream stream)
{
	EXPECT_OK(weir_graph_replay(graph, stream));
}

/* ---- One graph --------------------------------------------------------- */

TEST(a_captured_graph_computes_again_at_each_replay)
{
	weir_stream stream = new_stream();
	struct weir_graph *graph = new_graph();
	CUstreamCaptureStatus status;

	load_kernels();
	uint32_t *a = words(0x01010101, WORDS, stream);
	device_driver()->cuStreamIsCapturing(stream, &status);
	EXPECT_EQ(status, CU_STREAM_CAPTURE_STATUS_NONE);
	begin(graph, stream, NULL);
	device_driver()->cuStreamIsCapturing(stream, &status);
	EXPECT_EQ(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
	uint32_t *b = sum(a, a, stream);
	for (int i = 0; i < 9; i++)
		add(b, b, a, WORDS, stream);
	end(graph);
	device_driver()->cuStreamIsCapturing(stream, &status);
	EXPECT_EQ(status, CU_STREAM_CAPTURE_STATUS_NONE);
	for (int i = 0; i < 3; i++) {
		fill(b, BYTES, 0, stream);
		replay(graph, stream);
		EXPECT_EQ(word(b, stream), 11u * 0x01010101);
	}
	/* Replaying is allowed on the default stream. */
	fill(b, BYTES, 0, stream);
	finish(stream);
	replay(graph, NULL);
	EXPECT_EQ(word(b, NULL), 11u * 0x01010101);
	give(b);
	weir_graph_destroy(graph);
	give(a);
	trim(0);
	EXPECT_EQ(reserved(), 0);
	expect_healthy();
}

TEST(a_graph_that_is_reset_captures_again)
{
	weir_stream stream = new_stream();
	struct weir_graph *graph = new_graph();

	load_kernels();
	uint32_t *a = words(0x01010101, WORDS, stream);
	for (unsigned i = 1; i < 4; i++) {
		begin(graph, stream, NULL);
		uint32_t *b = sum(a, a, stream);
		for (unsigned n = 1; n < i; n++)
			add(b, b, a, WORDS, stream);
		end(graph);
		replay(graph, stream);
		EXPECT_EQ(word(b, stream), (i + 1) * 0x01010101);
		give(b);
		EXPECT_OK(weir_graph_reset(graph));
		trim(0);
		EXPECT_EQ(reserved(), SMALL_BUFFER);
	}
	weir_graph_destroy(graph);
	give(a);
	expect_healthy();
}

TEST(a_hundred_captures_leak_nothing)
{
	weir_stream stream = new_stream();

	load_kernels();
	uint32_t *a = words(0x01010101, WORDS, stream);
	size_t held = 0;
	for (int i = 0; i < 100; i++) {
		struct weir_graph *graph = new_graph();
		begin(graph, stream, NULL);
		uint32_t *workspace = take(64 * KIB, stream);
		uint32_t *b = sum(a, a, stream);
		give(workspace);
		end(graph);
		replay(graph, stream);
		EXPECT_EQ(word(b, stream), 2u * 0x01010101);
		give(b);
		weir_graph_destroy(graph);
		trim(0);
		if (i == 0)
			held = reserved();
		EXPECT_EQ(reserved(), held);
	}
	EXPECT_EQ(stats().allocation.all.current, 1);
	give(a);
	expect_healthy();
}

TEST(state_of_a_graph_costs_an_exact_number_of_blocks_and_all_returns)
{
	enum { GRAPHS = 3, STATES = 2 };
	weir_stream stream = new_stream();
	struct weir_graph *graphs[GRAPHS];
	void *state[GRAPHS][2];

	load_kernels();
	uint32_t *a = words(0x01010101, WORDS, stream);
	size_t live = stats().active_bytes.all.current;
	uint64_t blocks = stats().active.all.current;
	/* A seed and an offset, one word each, for each generator of a graph:
	 * they are allocated before its capture and outlive it. */
	for (int i = 0; i < GRAPHS; i++) {
		graphs[i] = new_graph();
		for (int k = 0; k < STATES; k++)
			state[i][k] = take(8, stream);
		begin(graphs[i], stream, NULL);
		uint32_t *b = sum(a, a, stream);
		give(b);
		end(graphs[i]);
		EXPECT_EQ(stats().active.all.current,
		    blocks + (uint64_t)(i + 1) * STATES);
		EXPECT_EQ(stats().active_bytes.all.current,
		    live + (size_t)(i + 1) * STATES * 512);
	}
	EXPECT_EQ(reserved(), (1 + GRAPHS) * SMALL_BUFFER);
	for (int i = 0; i < GRAPHS; i++) {
		weir_graph_destroy(graphs[i]);
		for (int k = 0; k < STATES; k++)
			give(state[i][k]);
	}
	EXPECT_EQ(stats().active_bytes.all.current, live);
	EXPECT_EQ(stats().active.all.current, blocks);
	trim(0);
	EXPECT_EQ(reserved(), SMALL_BUFFER);
	give(a);
	expect_healthy();
}

/* ---- What is refused --------------------------------------------------- */

TEST(capturing_the_default_stream_is_refused)
{
	struct weir_graph *graph = new_graph();

	EXPECT_STATUS(
	    weir_graph_capture_begin(graph, NULL, NULL, WEIR_CAPTURE_GLOBAL),
	    WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(),
	    "CUDA graphs must be captured on a non-default stream");
	EXPECT_STATUS(weir_graph_capture_begin(graph, WEIR_STREAM_PER_THREAD,
			  NULL, WEIR_CAPTURE_GLOBAL),
	    WEIR_EINVAL);
	weir_graph_destroy(graph);
	EXPECT_EQ(reserved(), 0);
	expect_healthy();
}

TEST(an_empty_graph_warns_and_replays)
{
	weir_stream stream = new_stream();
	struct weir_graph *graph = new_graph();
	size_t nodes = 1;

	begin(graph, stream, NULL);
	end(graph);
	EXPECT_OK(weir_graph_nodes(graph, &nodes));
	EXPECT_EQ(nodes, 0);
	replay(graph, stream);
	finish(stream);
	weir_graph_destroy(graph);
	expect_healthy();
}

TEST(out_of_memory_in_a_capture_is_reported_and_the_stream_goes_on)
{
	weir_stream stream = new_stream();
	struct weir_graph *graph = new_graph();

	load_kernels();
	uint32_t *a = words(0x01010101, WORDS, stream);
	begin(graph, stream, NULL);
	EXPECT_NO_MEMORY(weir_malloc((size_t)1 << 40, stream), WEIR_ENOMEM);
	EXPECT_STR_HAS(weir_last_error(), "Tried to allocate 1.00 TiB");
	uint32_t *b = sum(a, a, stream);
	end(graph);
	replay(graph, stream);
	EXPECT_EQ(word(b, stream), 2u * 0x01010101);
	/* The stream goes on, too, if the program resets the graph at once. */
	EXPECT_OK(weir_graph_reset(graph));
	begin(graph, stream, NULL);
	EXPECT_NO_MEMORY(weir_malloc((size_t)1 << 40, stream), WEIR_ENOMEM);
	EXPECT_OK(weir_graph_reset(graph));
	give(b);
	fill(a, BYTES, 0, stream);
	EXPECT_EQ(word(a, stream), 0);
	weir_graph_destroy(graph);
	trim(0);
	EXPECT_EQ(reserved(), SMALL_BUFFER);
	expect_healthy();
}

/* New memory of both kinds, of weir and of the driver. */
static void *
allocate_elsewhere(void *argument)
{
	CUdeviceptr addr = 0;
	CUcontext context = NULL;
	CUresult *code = argument;

	give(take(64 * MIB, WEIR_STREAM_ANY));
	give(take(64 * MIB, NULL));
	driver_context(0, &context);
	device_driver()->cuCtxSetCurrent(context);
	*code = device_driver()->cuMemAlloc(&addr, MIB);
	if (*code == CUDA_SUCCESS)
		device_driver()->cuMemFree(addr);
	return NULL;
}

static void
allocate_meanwhile(
    enum weir_capture_mode mode, CUresult *code, enum weir_status *status)
{
	weir_stream stream = new_stream();
	struct weir_graph *graph = new_graph();
	pthread_t thread;

	uint32_t *a = words(0x01010101, WORDS, stream);
	EXPECT_OK(weir_graph_capture_begin(graph, stream, NULL, mode));
	EXPECT_EQ(pthread_create(&thread, NULL, allocate_elsewhere, code), 0);
	EXPECT_EQ(pthread_join(thread, NULL), 0);
	uint32_t *b = take(BYTES, stream);
	*status = weir_graph_capture_end(graph);
	give(b);
	give(a);
	weir_graph_destroy(graph);
	trim(0);
	EXPECT_EQ(reserved(), 0);
	expect_healthy();
}

TEST(other_threads_allocate_while_a_stream_is_captured)
{
	CUresult code;
	enum weir_status status;

	load_kernels();
	allocate_meanwhile(WEIR_CAPTURE_THREAD_LOCAL, &code, &status);
	EXPECT_EQ(code, CUDA_SUCCESS);
	EXPECT_EQ(status, WEIR_OK);
	allocate_meanwhile(WEIR_CAPTURE_RELAXED, &code, &status);
	EXPECT_EQ(code, CUDA_SUCCESS);
	EXPECT_EQ(status, WEIR_OK);
	/* In the strictest mode weir's own calls for a thread break nothing;
	 * the thread's own calls do. */
	allocate_meanwhile(WEIR_CAPTURE_GLOBAL, &code, &status);
	EXPECT_NE(code, CUDA_SUCCESS);
	EXPECT_EQ(status, WEIR_ECAPTURE);
}

/* ---- Several graphs ---------------------------------------------------- */

/* Two graphs, of which the second uses the output of the first. Returns the
 * bytes that are held for them. */
static size_t
two_in_a_row(bool share)
{
	weir_stream stream = new_stream();
	struct weir_graph *g0 = new_graph();
	struct weir_graph *g1 = new_graph();
	uint32_t *a = words(0, WORDS, stream);
	uint32_t *one = words(0x01010101, WORDS, stream);

	begin(g0, stream, NULL);
	uint32_t *b = sum(a, a, stream);
	for (int i = 0; i < 5; i++)
		b = with_temps(b, one, stream);
	end(g0);
	begin(g1, stream, pool_of(g0, share));
	for (int i = 0; i < 5; i++)
		b = with_temps(b, one, stream);
	end(g1);
	for (int i = 0; i < 2; i++) {
		replay(g0, stream);
		replay(g1, stream);
		EXPECT_EQ(word(b, stream), 2046u * 0x01010101);
	}
	size_t held = reserved();
	give(b);
	weir_graph_destroy(g0);
	weir_graph_destroy(g1);
	give(a);
	give(one);
	trim(0);
	EXPECT_EQ(reserved(), 0);
	expect_healthy();
	return held;
}

TEST(sharing_a_pool_saves_exactly_one_small_buffer)
{
	load_kernels();
	size_t apart = two_in_a_row(false);
	size_t shared = two_in_a_row(true);
	EXPECT_EQ(apart - shared, SMALL_BUFFER);
}

static void
three_in_a_row(bool share)
{
	weir_stream stream = new_stream();
	struct weir_graph *g[3] = { new_graph(), new_graph(), new_graph() };
	const uint32_t one = 0x01010101;
	uint32_t *a = words(one, WORDS, stream);

	begin(g[0], stream, NULL);
	uint32_t *c = sum(a, a, stream); /* 2 */
	uint32_t *d = sum(c, a, stream); /* 3 */
	end(g[0]);
	begin(g[1], stream, pool_of(g[0], share));
	uint32_t *e = sum(c, a, stream); /* 3 */
	give(c);
	end(g[1]);
	begin(g[2], stream, pool_of(g[0], share));
	uint32_t *f = sum(d, d, stream); /* 6, in the place of c if shared */
	end(g[2]);
	EXPECT_EQ(f == c, share);

	for (int i = 0; i < 3; i++)
		replay(g[i], stream);
	EXPECT_EQ(word(e, stream), 3 * one);
	EXPECT_EQ(word(f, stream), 6 * one);
	/* Out of order, g1 reads what g2 left there if they share a pool. */
	replay(g[0], stream);
	replay(g[2], stream);
	replay(g[1], stream);
	EXPECT_EQ(word(f, stream), 6 * one);
	EXPECT_EQ(word(e, stream), share ? 7 * one : 3 * one);
	for (int i = 0; i < 3; i++)
		weir_graph_destroy(g[i]);
	give(d);
	give(e);
	give(f);
	give(a);
	trim(0);
	EXPECT_EQ(reserved(), 0);
	expect_healthy();
}

TEST(replay_out_of_order_corrupts_if_and_only_if_pools_are_shared)
{
	load_kernels();
	three_in_a_row(false);
	three_in_a_row(true);
}

/* Do two graphs that are replayed at the same time disturb each other? */
static bool
disturbed_at_once(bool share)
{
	weir_stream stream = new_stream();
	weir_stream other = new_stream();
	struct weir_graph *g0 = new_graph();
	struct weir_graph *g1 = new_graph();
	const uint32_t one = 0x01010101;
	uint32_t *a = words(one, WORDS, stream);

	begin(g0, stream, NULL);
	uint32_t *x = sum(a, a, stream);
	busy(stream, LATE_MS);
	uint32_t *b = sum(x, x, stream); /* 4 */
	give(x);
	end(g0);
	begin(g1, stream, pool_of(g0, share));
	uint32_t *y = sum(a, a, stream); /* in the place of x, if shared */
	add(y, y, a, WORDS, stream);
	uint32_t *c = sum(y, y, stream); /* 6 */
	give(y);
	end(g1);
	replay(g0, stream);
	busy(other, LATE_MS / 3);
	replay(g1, other);
	EXPECT_EQ(word(c, other), 6 * one);
	bool disturbed = word(b, stream) != 4 * one;
	weir_graph_destroy(g0);
	weir_graph_destroy(g1);
	give(b);
	give(c);
	give(a);
	trim(0);
	EXPECT_EQ(reserved(), 0);
	return disturbed;
}

TEST(replay_at_once_corrupts_if_and_only_if_pools_are_shared)
{
	load_kernels();
	EXPECT(!disturbed_at_once(false));
	expect_healthy();
	EXPECT(disturbed_at_once(true));
	if (sim() != NULL) {
		/* The simulated device reports that the two race. */
		EXPECT_GT(sim()->violations(), 0);
		sim()->reset();
	}
	expect_healthy();
}

/* ---- Several streams --------------------------------------------------- */

TEST(blocks_freed_with_uses_pending_outlast_a_capture)
{
	weir_stream s0 = new_stream();
	weir_stream s1 = new_stream();
	weir_stream s2 = new_stream();
	struct weir_graph *graph = new_graph();

	load_kernels();
	conf("tcache:0");
	uint32_t *a = words(0x01010101, WORDS, s1);
	uint32_t *before = take(BYTES, s1);
	record(before, s0);
	busy(s0, LATE_MS);
	fill(before, BYTES, 1, s0);
	give(before);
	EXPECT_EQ(stats().pending_bytes, 4096);
	begin(graph, s1, NULL);
	/* A query of that event would break the capture. */
	uint32_t *b = sum(a, a, s1);
	EXPECT_NE(b, before);
	/* One is used elsewhere in the capture itself. */
	EXPECT_OK(weir_stream_wait_stream(s2, s1));
	add(b, b, a, WORDS, s2);
	record(b, s2);
	give(b);
	EXPECT_EQ(stats().pending_bytes, 8192);
	uint32_t *c = take(BYTES, s1);
	EXPECT_NE(c, b);
	EXPECT_OK(weir_stream_wait_stream(s1, s2));
	end(graph);
	EXPECT_OK(weir_device_synchronize(0));
	settle();
	/* A later request finds that both are done. */
	give(take(BYTES, s1));
	give(c);
	weir_graph_destroy(graph);
	trim(0);
	EXPECT_EQ(stats().pending_bytes, 0);
	give(a);
	EXPECT_EQ(stats().active_bytes.all.current, 0);
	expect_healthy();
}

TEST(streams_that_are_not_captured_are_not_held_up)
{
	weir_stream captured = new_stream();
	weir_stream own = new_stream();
	weir_stream use = new_stream();
	struct weir_graph *graph = new_graph();

	load_kernels();
	conf("tcache:0");
	void *ptr = take(4 * MIB, own);
	void *of_default = take(4 * MIB, own);
	EXPECT_OK(weir_graph_capture_begin(
	    graph, captured, NULL, WEIR_CAPTURE_RELAXED));
	busy(captured, 1);
	record(ptr, use);
	record(of_default, NULL);
	busy(use, LATE_MS);
	give(ptr);
	give(of_default);
	EXPECT_EQ(stats().pending_bytes, 8 * MIB);
	finish(use);
	settle();
	/* The capture goes on. */
	void *first = take(4 * MIB, own);
	void *second = take(4 * MIB, own);
	EXPECT(first == ptr || second == ptr);
	EXPECT(first == of_default || second == of_default);
	EXPECT_EQ(stats().pending_bytes, 0);
	end(graph);
	weir_graph_destroy(graph);
	expect_healthy();
}

TEST(work_forked_in_a_capture_draws_on_the_same_pool)
{
	weir_stream stream = new_stream();
	weir_stream forked = new_stream();
	weir_stream apart = new_stream();
	struct weir_graph *graph = new_graph();
	struct weir_stats s = { .struct_size = sizeof(s) };

	load_kernels();
	uint32_t *a = words(0x01010101, WORDS, stream);
	begin(graph, stream, NULL);
	EXPECT_OK(weir_stream_wait_stream(forked, stream));
	uint32_t *b = sum(a, a, forked);
	uint32_t *elsewhere = take(BYTES, apart);
	EXPECT_OK(weir_stream_wait_stream(stream, forked));
	uint32_t *c = sum(b, a, stream);
	end(graph);
	EXPECT_OK(weir_pool_stats(pool_of(graph, true), &s));
	EXPECT_EQ(s.allocation.all.current, 2);
	EXPECT_EQ(info_of(b).stream, forked);
	replay(graph, stream);
	EXPECT_EQ(word(c, stream), 3u * 0x01010101);
	give(elsewhere);
	give(b);
	give(c);
	weir_graph_destroy(graph);
	give(a);
	trim(0);
	EXPECT_EQ(reserved(), 0);
	expect_healthy();
}

/* ---- Checkpoints ------------------------------------------------------- */

/* A checkpoint of a row of blocks of the original tests' sizes, with two live
 * blocks or more around each freed one. */
static struct weir_checkpoint *
checkpoint(struct weir_pool *pool)
{
	struct weir_checkpoint *made = NULL;

	EXPECT_OK(weir_checkpoint_take(pool, &made));
	return made;
}

static struct weir_stats
pool_stats(struct weir_pool *pool)
{
	struct weir_stats s = { .struct_size = sizeof(s) };

	EXPECT_OK(weir_pool_stats(pool, &s));
	return s;
}

/* Check that the live blocks of the pool are exactly these. */
static bool
lives(struct weir_pool *pool, void *const *ptrs, size_t n)
{
	bool equal = false;

	EXPECT_OK(
	    weir_pool_check_live(pool, (const void *const *)ptrs, n, &equal));
	return equal;
}

/*
 * Blocks of `sizes` are live in a pool that a graph keeps, except for those
 * whose bit of `freed` is set. Whatever follows, a restore brings back exactly
 * these blocks, and once the pool has grown for them the same requests get the
 * same addresses after each restore.
 */
static void
absorb(const size_t *sizes, size_t n, unsigned freed)
{
	weir_stream stream = new_stream();
	struct weir_graph *graph = new_graph();
	struct weir_restored out = { .struct_size = sizeof(out) };
	void *ptr[16] = { NULL };
	void *live[16] = { NULL };
	void *again[16] = { NULL };
	size_t n_live = 0;

	begin(graph, stream, NULL);
	for (size_t i = 0; i < n; i++)
		ptr[i] = take(sizes[i], stream);
	fill(ptr[0], 512, 1, stream);
	for (size_t i = 0; i < n; i++) {
		if (freed & 1u << i)
			give(ptr[i]);
		else
			live[n_live++] = ptr[i];
	}
	end(graph);
	struct weir_pool *pool = pool_of(graph, true);
	struct weir_stats before = pool_stats(pool);
	struct weir_checkpoint *made = checkpoint(pool);
	EXPECT(lives(pool, live, n_live));
	for (int round = 0; round < 3; round++) {
		for (size_t i = 0; i < n; i++) {
			void *got = weir_pool_malloc(pool, sizes[i], stream);
			EXPECT_NOT_NULL(got);
			EXPECT(round < 2 || got == again[i]);
			again[i] = got;
		}
		if (round == 1)
			give(live[0]);
		EXPECT_OK(weir_checkpoint_restore(pool, made, &out));
		EXPECT_EQ(out.n_live, n_live);
		EXPECT_EQ(out.n_freed, n + n_live - (round == 1));
		weir_restored_drop(&out);
		EXPECT(lives(pool, live, n_live));
		struct weir_stats after = pool_stats(pool);
		EXPECT_EQ(after.active_bytes.all.current,
		    before.active_bytes.all.current);
		EXPECT_EQ(after.requested_bytes.all.current,
		    before.requested_bytes.all.current);
		expect_healthy();
	}
	replay(graph, stream);
	finish(stream);
	for (size_t i = 0; i < n_live; i++)
		give(live[i]);
	EXPECT(lives(pool, NULL, 0));
	weir_checkpoint_drop(made);
	weir_graph_destroy(graph);
	trim(0);
	EXPECT_EQ(reserved(), 0);
	expect_healthy();
}

TEST(a_pool_s_blocks_are_saved_and_restored)
{
	static const size_t simple[] = { 512, MIB };
	static const size_t many[] = { 512, 512, 512, 512, 512, 512, 512, 512,
		512, 512, 512, 512 };
	static const size_t mixed[] = { 512, 3 * MIB, 700 * KIB, 12 * MIB,
		64 * KIB, 2 * MIB, 512, 9 * MIB };

	for (int kind = 0; kind < 2; kind++) {
		conf(kind == 0 ? "expandable_segments:True" :
				 "expandable_segments:False");
		absorb(simple, 2, 0);
		absorb(simple, 2, 1u << 1);
		absorb(many, 12, 1u << 5);                     /* middle */
		absorb(many, 12, 1u << 3 | 1u << 7);           /* multiple */
		absorb(many, 12, 1u << 4 | 1u << 5 | 1u << 6); /* contiguous */
		absorb(many, 12, 1u << 10 | 1u << 11);         /* following */
		absorb(mixed, 8, 0);
		absorb(mixed, 8, 0x5a);
		absorb(mixed, 8, 0xa4);
	}
}

TEST(the_owner_of_a_pointer_after_a_restore_is_reported)
{
	weir_stream stream = new_stream();
	struct weir_graph *graph = new_graph();
	struct weir_restored out = { .struct_size = sizeof(out) };

	load_kernels();
	uint32_t *a = words(0x01010101, WORDS, stream);
	begin(graph, stream, NULL);
	uint32_t *dies = sum(a, a, stream);
	uint32_t *stays = sum(dies, a, stream);
	end(graph);
	struct weir_pool *pool = pool_of(graph, true);
	struct weir_checkpoint *made = checkpoint(pool);
	/* One has been freed since, and its memory belongs to another block. */
	give(dies);
	uint32_t *other = weir_pool_malloc(pool, BYTES, stream);
	EXPECT_EQ(other, dies);
	EXPECT_OK(weir_checkpoint_restore(pool, made, &out));
	EXPECT_EQ(out.n_freed, 2);
	EXPECT_EQ(out.n_live, 2);
	weir_restored_drop(&out);
	/* It belongs to the restored block now, and is freed only once. */
	replay(graph, stream);
	EXPECT_EQ(word(dies, stream), 2u * 0x01010101);
	give(dies);
	EXPECT_STATUS(weir_free(other), WEIR_EINVAL);
	give(stays);
	weir_checkpoint_drop(made);
	weir_graph_destroy(graph);
	give(a);
	expect_healthy();
}

struct routed {
	struct weir_pool *pool;
	weir_stream stream;
	void *ptr;
};

static void *
allocate_routed(void *argument)
{
	struct routed *routed = argument;
	struct weir_route *route = NULL;

	EXPECT_OK(weir_route_thread(routed->pool, &route));
	routed->ptr = take(4 * MIB, routed->stream);
	weir_route_end(route);
	return NULL;
}

TEST(a_thread_is_routed_to_a_pool)
{
	struct routed routed = { .stream = new_stream() };
	struct weir_stats s;
	pthread_t thread;

	conf("expandable_segments:False,tcache:0");
	EXPECT_OK(weir_pool_create(0, NULL, 0, &routed.pool));
	EXPECT_EQ(pthread_create(&thread, NULL, allocate_routed, &routed), 0);
	EXPECT_EQ(pthread_join(thread, NULL), 0);
	/* One segment for the thread's requests, */
	s = pool_stats(routed.pool);
	EXPECT_EQ(s.segment.all.current, 1);
	EXPECT(lives(routed.pool, &routed.ptr, 1));
	/* which other requests do not use. */
	void *mine = take(4 * MIB, routed.stream);
	EXPECT_EQ(stats().segment.all.current, 2);
	EXPECT_EQ(pool_stats(routed.pool).segment.all.current, 1);
	/* Four segments, if each request needs one, */
	void *more[3];
	for (int i = 0; i < 3; i++)
		more[i] =
		    weir_pool_malloc(routed.pool, 20 * MIB, routed.stream);
	EXPECT_EQ(pool_stats(routed.pool).segment.all.current, 4);
	/* and none when all are freed and given back. */
	for (int i = 0; i < 3; i++)
		give(more[i]);
	give(routed.ptr);
	finish(routed.stream);
	EXPECT_OK(weir_pool_trim(routed.pool, 0, NULL));
	EXPECT_EQ(pool_stats(routed.pool).segment.all.current, 0);
	give(mine);
	weir_pool_release(routed.pool);
	expect_healthy();
}
