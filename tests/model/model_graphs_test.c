/*
 * Random programs of graphs: captures into pools of their own or shared,
 *replays, eager work beside and inside the pools, checkpoints, suspended pools,
 *trims, limits and faults. What must hold after each step:
 *
 *	weir_check() finds no fault, and the simulated device saw no misuse
 *	each graph's output, wherever it lies, is what the graph computes, if
 *	no other graph of its pool has been replayed meanwhile
 *	what eager work has written to a live block is what is read from it
 *	no block that is handed out lies on an address that a graph of another
 *	pool was captured with, and no such address is unmapped
 *	the live blocks of a pool are those of the model
 *
 * WEIR_TEST_SEED and WEIR_TEST_EFFORT are as in model.h.
 */
#include <weir/graph.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/meta.h"
#include "tests/support/device.h"

enum { POOLS = 4, GRAPHS = 6, STREAMS = 3, LIVE = 24, RANGES = 6 };

struct live {
	unsigned char *ptr;
	size_t size;
	unsigned char tag; /* in all its bytes */
};

struct range {
	unsigned char *ptr;
	size_t size;
};

struct pool {
	struct weir_pool *pool; /* NULL: there is none */
	struct live live[LIVE];
	size_t n_live;
	bool suspended;
	struct weir_checkpoint *checkpoint;
	struct live saved[LIVE]; /* that were live then */
	size_t n_saved;
};

struct graph {
	struct weir_graph *graph; /* NULL: there is none */
	struct pool *pool;
	unsigned char *output; /* NULL: freed, and so not to be replayed */
	size_t size;
	unsigned char tag;
	struct range ranges[RANGES]; /* it was captured with */
	size_t n_ranges;
};

static struct model {
	uint64_t random;
	unsigned long step;
	weir_stream streams[STREAMS];
	struct pool pools[POOLS];
	struct pool home; /* the device's own memory */
	struct graph graphs[GRAPHS];
	unsigned char next_tag;
	bool faulty;
	/* What has been done, so that it can be seen that it has been. */
	unsigned captures;
	unsigned replays;
	unsigned suspends;
	unsigned restores;
	unsigned refused; /* calls, by faults */
} m;

static uint64_t
below(uint64_t n)
{
	m.random = m.random * 6364136223846793005u + 1442695040888963407u;
	return (m.random >> 33) % n;
}

static weir_stream
any_stream(void)
{
	return m.streams[below(STREAMS)];
}

static size_t
any_size(void)
{
	return below(3) == 0 ? 1 + below(6 * MIB) : 1 + below(64 * KIB);
}

static unsigned char
new_tag(void)
{
	return (unsigned char)(1 + m.next_tag++ % 255);
}

/* A call has failed: only where faults were armed, and with a text. */
static bool
ok(enum weir_status status, const char *call)
{
	if (status == WEIR_OK)
		return true;
	if (!m.faulty)
		FAIL("step %lu: %s: %s", m.step, call, weir_last_error());
	EXPECT_EQ(weir_last_status(), status);
	m.refused++;
	return false;
}

/* ---- Faults ------------------------------------------------------------ */

static void
arm(void)
{
	if (sim() == NULL || below(4) != 0)
		return;
	m.faulty = true;
	if (below(3) == 0)
		meta_fail(1 + below(8), 1);
	else
		sim()->fail_any(
		    1 + (unsigned)below(40), CUDA_ERROR_OUT_OF_MEMORY);
}

static void
calm(void)
{
	meta_fail(0, 0);
	if (sim() != NULL)
		sim()->fail_any(0, CUDA_SUCCESS);
	m.faulty = false;
}

/* ---- What must hold ---------------------------------------------------- */

static void
wait_for_all(void)
{
	for (int i = 0; i < STREAMS; i++)
		finish(m.streams[i]);
}

static void
expect_apart(const struct pool *pool, const void *ptr, size_t size)
{
	const unsigned char *at = ptr;

	for (int g = 0; g < GRAPHS; g++) {
		const struct graph *graph = &m.graphs[g];
		if (graph->graph == NULL || graph->pool == pool)
			continue;
		for (size_t i = 0; i < graph->n_ranges; i++) {
			const struct range *r = &graph->ranges[i];
			if (at < r->ptr + r->size && r->ptr < at + size)
				FAIL("step %lu: %p lies in memory of a graph",
				    m.step, ptr);
		}
	}
}

static void
expect_lives(const struct pool *pool)
{
	const void *ptrs[LIVE];
	bool equal = false;

	for (size_t i = 0; i < pool->n_live; i++)
		ptrs[i] = pool->live[i].ptr;
	EXPECT_OK(weir_pool_check_live(pool->pool, ptrs, pool->n_live, &equal));
	if (!equal)
		FAIL("step %lu: other blocks are live", m.step);
}

static void
expect_tag(const struct live *live)
{
	unsigned char ends[2];

	read_back(&ends[0], live->ptr, 1, m.streams[0]);
	read_back(&ends[1], live->ptr + live->size - 1, 1, m.streams[0]);
	if (ends[0] != live->tag || ends[1] != live->tag)
		FAIL("step %lu: %p holds %u and %u, not %u", m.step,
		    (void *)live->ptr, ends[0], ends[1], live->tag);
}

static void
verify(void)
{
	wait_for_all();
	for (int p = 0; p < POOLS; p++) {
		struct pool *pool = &m.pools[p];
		for (size_t i = 0; i < pool->n_live && !pool->suspended; i++)
			expect_tag(&pool->live[i]);
	}
	for (size_t i = 0; i < m.home.n_live; i++)
		expect_tag(&m.home.live[i]);
}

static void
check(void)
{
	calm();
	expect_healthy();
	for (int p = 0; p < POOLS; p++)
		if (m.pools[p].pool != NULL)
			expect_lives(&m.pools[p]);
}

/* ---- Blocks ------------------------------------------------------------ */

static void
add_live(struct pool *pool, void *ptr, size_t size, unsigned char tag)
{
	EXPECT_LT(pool->n_live, LIVE);
	expect_apart(pool, ptr, size);
	pool->live[pool->n_live++] =
	    (struct live){ .ptr = ptr, .size = size, .tag = tag };
}

/* Is it the output of a graph that can be replayed? Then it stays. */
static bool
is_output(const void *ptr)
{
	for (int g = 0; g < GRAPHS; g++)
		if (m.graphs[g].graph != NULL && m.graphs[g].output == ptr)
			return true;
	return false;
}

static void
free_one(struct pool *pool)
{
	if (pool->n_live == 0)
		return;
	size_t i = below(pool->n_live);
	if (is_output(pool->live[i].ptr))
		return;
	/* The program frees what all work is done with. */
	wait_for_all();
	EXPECT_OK(weir_free(pool->live[i].ptr));
	pool->live[i] = pool->live[--pool->n_live];
}

static struct pool *
any_pool(void)
{
	return &m.pools[below(POOLS)];
}

static void
step_allocate(void)
{
	weir_stream stream = any_stream();
	size_t size = any_size();
	unsigned char tag = new_tag();

	if (m.home.n_live == LIVE)
		return;
	arm();
	void *ptr = weir_malloc(size, stream);
	ok(ptr != NULL ? WEIR_OK : weir_last_status(), "weir_malloc");
	calm();
	if (ptr == NULL)
		return;
	add_live(&m.home, ptr, size, tag);
	fill(ptr, size, tag, stream);
}

static void
step_free(void)
{
	arm();
	free_one(below(2) == 0 ? &m.home : any_pool());
}

/* Eager work in a pool: nothing that a graph of it would write on may stay, so
 * it is freed before the next replay; what is live is out of its reach. */
static void
step_allocate_in_pool(void)
{
	struct pool *pool = any_pool();
	weir_stream stream = any_stream();
	struct weir_route *route = NULL;
	size_t size = any_size();

	if (pool->pool == NULL)
		return;
	wait_for_all();
	arm();
	if (!ok(weir_route_stream(pool->pool, stream, &route),
		"weir_route_stream"))
		return;
	void *ptr = weir_malloc(size, stream);
	enum weir_status status = ptr != NULL ? WEIR_OK : weir_last_status();
	if (pool->suspended)
		EXPECT_EQ(status, WEIR_EINVAL);
	else
		ok(status, "weir_malloc");
	calm();
	if (ptr != NULL) {
		expect_apart(pool, ptr, size);
		fill(ptr, size, 0xee, stream);
		finish(stream);
		EXPECT_OK(weir_free(ptr));
	}
	weir_route_end(route);
}

/* ---- Graphs ------------------------------------------------------------ */

static void
note_range(struct graph *graph, void *ptr, size_t size)
{
	EXPECT_LT(graph->n_ranges, RANGES);
	graph->ranges[graph->n_ranges++] =
	    (struct range){ .ptr = ptr, .size = size };
}

/* The output is made by way of memory that is freed in the capture. */
static void
put_work(struct graph *graph, weir_stream stream)
{
	void *temps[3];

	for (int i = 0; i < 3; i++) {
		temps[i] = weir_malloc(graph->size, stream);
		if (!ok(temps[i] != NULL ? WEIR_OK : weir_last_status(),
			"weir_malloc")) {
			while (i-- > 0)
				EXPECT_OK(weir_free(temps[i]));
			return;
		}
		expect_apart(graph->pool, temps[i], graph->size);
		note_range(graph, temps[i], graph->size);
	}
	graph->output = weir_malloc(graph->size, stream);
	ok(graph->output != NULL ? WEIR_OK : weir_last_status(), "weir_malloc");
	calm();
	fill(temps[0], graph->size, graph->tag, stream);
	copy(temps[1], temps[0], graph->size, stream);
	EXPECT_OK(weir_free(temps[0]));
	copy(temps[2], temps[1], graph->size, stream);
	EXPECT_OK(weir_free(temps[1]));
	if (graph->output != NULL) {
		note_range(graph, graph->output, graph->size);
		copy(graph->output, temps[2], graph->size, stream);
	}
	EXPECT_OK(weir_free(temps[2]));
}

static void
drop_graph(struct graph *graph)
{
	weir_graph_destroy(graph->graph);
	*graph = (struct graph){ 0 };
}

static void
step_capture(void)
{
	struct graph *graph = &m.graphs[below(GRAPHS)];
	struct pool *pool = any_pool();
	weir_stream stream = any_stream();

	if (graph->graph != NULL || pool->pool == NULL || pool->suspended ||
	    pool->n_live == LIVE)
		return;
	wait_for_all();
	arm();
	*graph = (struct graph){
		.pool = pool, .size = any_size(), .tag = new_tag()
	};
	if (!ok(weir_graph_create(below(2), &graph->graph),
		"weir_graph_create"))
		return;
	if (!ok(weir_graph_capture_begin(graph->graph, stream, pool->pool,
		    (enum weir_capture_mode)below(3)),
		"weir_graph_capture_begin")) {
		drop_graph(graph);
		return;
	}
	put_work(graph, stream);
	if (below(8) == 0)
		arm();
	bool captured = below(10) != 0 &&
	    ok(weir_graph_capture_end(graph->graph), "weir_graph_capture_end");
	calm();
	void *output = graph->output;
	size_t size = graph->size;
	unsigned char tag = graph->tag;
	if (!captured || output == NULL)
		drop_graph(graph); /* given up, too */
	if (output == NULL)
		return;
	add_live(pool, output, size, tag);
	fill(output, size, tag, stream);
	finish(stream);
	m.captures += captured;
}

/* Graphs of one pool share memory: a replay out of the order of the captures
 * overwrites what was captured after it. That is filled again. */
static void
mend(const struct graph *graph, weir_stream stream)
{
	struct pool *pool = graph->pool;

	for (size_t i = 0; i < pool->n_live; i++) {
		const struct live *live = &pool->live[i];
		bool hit = false;
		for (size_t k = 0; k < graph->n_ranges; k++) {
			const struct range *r = &graph->ranges[k];
			hit |= live->ptr < r->ptr + r->size &&
			    r->ptr < live->ptr + live->size;
		}
		if (hit && live->ptr != graph->output)
			fill(live->ptr, live->size, live->tag, stream);
	}
}

static void
step_replay(void)
{
	struct graph *graph = &m.graphs[below(GRAPHS)];
	weir_stream stream = any_stream();

	if (graph->graph == NULL || graph->output == NULL)
		return;
	/* Replays of one pool are in one order. */
	wait_for_all();
	if (graph->pool->suspended) {
		EXPECT_STATUS(
		    weir_graph_replay(graph->graph, stream), WEIR_EINVAL);
		return;
	}
	fill(graph->output, graph->size, 0, stream);
	arm();
	bool replayed =
	    ok(weir_graph_replay(graph->graph, stream), "weir_graph_replay");
	calm();
	m.replays += replayed;
	if (replayed)
		mend(graph, stream);
	else
		fill(graph->output, graph->size, graph->tag, stream);
	if (below(2) == 0)
		return;
	finish(stream);
	expect_tag(&(struct live){
	    .ptr = graph->output, .size = graph->size, .tag = graph->tag });
}

/* A graph goes with its replays still queued. */
static void
step_reset(void)
{
	struct graph *graph = &m.graphs[below(GRAPHS)];

	if (graph->graph == NULL)
		return;
	arm();
	/* What the driver does not destroy it may launch for all we know. */
	if (m.faulty && sim() != NULL)
		calm();
	drop_graph(graph);
}

/* ---- Pools ------------------------------------------------------------- */

static void
step_pool(void)
{
	struct pool *pool = any_pool();

	if (pool->pool == NULL) {
		arm();
		ok(weir_pool_create(0, NULL,
		       below(4) == 0 ? WEIR_POOL_USE_ON_OOM : 0, &pool->pool),
		    "weir_pool_create");
		return;
	}
	if (below(6) != 0 || pool->suspended)
		return;
	/* Released with its graphs, its blocks freed later. */
	for (int g = 0; g < GRAPHS; g++)
		if (m.graphs[g].graph != NULL && m.graphs[g].pool == pool)
			drop_graph(&m.graphs[g]);
	weir_pool_release(pool->pool);
	weir_checkpoint_drop(pool->checkpoint);
	wait_for_all();
	for (size_t i = 0; i < pool->n_live; i++)
		EXPECT_OK(weir_free(pool->live[i].ptr));
	*pool = (struct pool){ 0 };
}

static void
step_suspend(void)
{
	struct pool *pool = any_pool();

	if (pool->pool == NULL)
		return;
	wait_for_all();
	if (sim() != NULL)
		sim()->guard_graphs(0);
	arm();
	if (!pool->suspended)
		pool->suspended =
		    ok(weir_pool_suspend(pool->pool, true, NULL), "suspend");
	else
		pool->suspended =
		    !ok(weir_pool_resume(pool->pool), "weir_pool_resume");
	calm();
	m.suspends += pool->suspended;
	if (sim() != NULL)
		sim()->guard_graphs(1);
}

static void
step_checkpoint(void)
{
	struct pool *pool = any_pool();

	if (pool->pool == NULL || pool->suspended)
		return;
	wait_for_all();
	weir_checkpoint_drop(pool->checkpoint);
	pool->checkpoint = NULL;
	arm();
	if (!ok(weir_checkpoint_take(pool->pool, &pool->checkpoint),
		"weir_checkpoint_take"))
		return;
	memcpy(pool->saved, pool->live, sizeof(pool->live));
	pool->n_saved = pool->n_live;
}

static bool
is_among(void *const *list, size_t n, const void *ptr)
{
	for (size_t i = 0; i < n; i++)
		if (list[i] == ptr)
			return true;
	return false;
}

/* Graphs whose output is not live any more are of no use. */
static void
drop_stale_graphs(const struct pool *pool)
{
	for (int g = 0; g < GRAPHS; g++) {
		struct graph *graph = &m.graphs[g];
		bool lives = false;
		for (size_t i = 0; i < pool->n_live; i++)
			lives |= pool->live[i].ptr == graph->output &&
			    pool->live[i].size == graph->size;
		if (graph->graph != NULL && graph->pool == pool && !lives)
			drop_graph(graph);
	}
}

static void
step_restore(void)
{
	struct pool *pool = any_pool();
	struct weir_restored out = { .struct_size = sizeof(out) };

	if (pool->checkpoint == NULL || pool->suspended)
		return;
	wait_for_all();
	arm();
	enum weir_status status =
	    weir_checkpoint_restore(pool->pool, pool->checkpoint, &out);
	/* With no graph to keep it, memory may have gone. */
	if (status == WEIR_EINVAL) {
		EXPECT_STR_HAS(weir_last_error(), "could not find");
		return;
	}
	if (!ok(status, "weir_checkpoint_restore"))
		return;
	calm();
	m.restores++;
	EXPECT_EQ(out.n_freed, pool->n_live);
	EXPECT_EQ(out.n_live, pool->n_saved);
	for (size_t i = 0; i < pool->n_live; i++)
		EXPECT(is_among(out.freed, out.n_freed, pool->live[i].ptr));
	for (size_t i = 0; i < pool->n_saved; i++)
		EXPECT(is_among(out.live, out.n_live, pool->saved[i].ptr));
	weir_restored_drop(&out);
	memcpy(pool->live, pool->saved, sizeof(pool->live));
	pool->n_live = pool->n_saved;
	drop_stale_graphs(pool);
	/* Their contents are not part of it. */
	for (size_t i = 0; i < pool->n_live; i++)
		fill(pool->live[i].ptr, pool->live[i].size, pool->live[i].tag,
		    m.streams[0]);
	for (int g = 0; g < GRAPHS; g++)
		if (m.graphs[g].graph != NULL && m.graphs[g].pool == pool)
			fill(m.graphs[g].output, m.graphs[g].size,
			    m.graphs[g].tag, m.streams[0]);
	for (size_t i = 0; i < pool->n_live; i++)
		for (int g = 0; g < GRAPHS; g++)
			if (m.graphs[g].graph != NULL &&
			    m.graphs[g].output == pool->live[i].ptr)
				pool->live[i].tag = m.graphs[g].tag;
	wait_for_all();
}

static void
step_trim(void)
{
	arm();
	if (below(2) == 0)
		ok(weir_trim(0, below(2) * below(64 * MIB), NULL), "trim");
	else if (any_pool()->pool != NULL)
		ok(weir_limit_set(0, below(2) == 0 ? SIZE_MAX : 512 * MIB),
		    "weir_limit_set");
}

static void
step_late(void)
{
	busy(any_stream(), 1);
}

/* ---- The programs ------------------------------------------------------ */

static void
clear(void)
{
	calm();
	EXPECT_OK(weir_limit_set(0, SIZE_MAX));
	for (int g = 0; g < GRAPHS; g++)
		drop_graph(&m.graphs[g]);
	wait_for_all();
	for (int p = 0; p < POOLS; p++) {
		struct pool *pool = &m.pools[p];
		for (size_t i = 0; i < pool->n_live; i++)
			EXPECT_OK(weir_free(pool->live[i].ptr));
		weir_checkpoint_drop(pool->checkpoint);
		weir_pool_release(pool->pool);
	}
	for (size_t i = 0; i < m.home.n_live; i++)
		EXPECT_OK(weir_free(m.home.live[i].ptr));
	trim(0);
	EXPECT_EQ(stats().reserved_bytes.all.current, 0);
	EXPECT_EQ(stats().active.all.current, 0);
	expect_healthy();
}

TEST_TIMEOUT(random_programs_of_graphs, 300)
{
	static void (*const steps[])(void) = { step_allocate, step_allocate,
		step_free, step_free, step_allocate_in_pool, step_capture,
		step_capture, step_replay, step_replay, step_replay, step_reset,
		step_pool, step_suspend, step_checkpoint, step_restore,
		step_trim, step_late };
	const char *seed = getenv("WEIR_TEST_SEED");
	uint64_t n = test_effort(device_is_simulated() ? 8000 : 1000);

	n = n < 240 ? 240 : n; /* fewer do not come to all that is counted */
	m.random = seed != NULL ? strtoull(seed, NULL, 0) : 20;
	fprintf(stderr, "# graphs: %llu steps, seed %llu\n",
	    (unsigned long long)n, (unsigned long long)m.random);
	load_kernels();
	for (int i = 0; i < STREAMS; i++)
		m.streams[i] = new_stream();
	if (sim() != NULL)
		sim()->guard_graphs(1);
	for (m.step = 0; m.step < n; m.step++) {
		steps[below(sizeof(steps) / sizeof(steps[0]))]();
		check();
		if (m.step % 50 == 49)
			verify();
	}
	verify();
	fprintf(stderr,
	    "# %u captures, %u replays, %u suspends, %u restores, %u refused\n",
	    m.captures, m.replays, m.suspends, m.restores, m.refused);
	EXPECT_GT(m.captures, n / 200);
	EXPECT_GT(m.replays, n / 200);
	EXPECT_GT(m.suspends, n / 200);
	EXPECT_GT(m.restores, n / 200);
	clear();
}
