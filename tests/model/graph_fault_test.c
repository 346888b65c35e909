/*
 * The fault sweep over captures, private pools, routes, checkpoints and
 * suspended pools: whatever call fails, no pool, route, capture or reservation
 * is left behind. The simulated device reports if memory of an existing graph
 * is unmapped.
 */
#include <weir/graph.h>
#include <weir/host.h>

#include <stdlib.h>
#include <string.h>

#include "driver/driver.h"
#include "streams/capture.h"
#include "tests/model/sweep.h"
#include "tests/support/device.h"
#include "tests/support/sim.h"

static bool
is_destroying(const char *entry)
{
	return entry != NULL && strstr(entry, "Destroy") != NULL;
}

/* Is a fault that the driver keeps an object that it should destroy? */
static bool
is_kept_by_driver(const struct run *run)
{
	return is_destroying(run->fault.entry) ||
	    is_destroying(run->fault.second);
}

/* Whatever has failed, end everything. */
static void
expect_over(const struct run *run)
{
	EXPECT(!capture_any());
	if (!is_kept_by_driver(run)) {
		EXPECT_EQ(sim()->live("graph"), 0);
		EXPECT_EQ(sim()->live("exec"), 0);
	}
}

static struct weir_graph *
new_graph(struct run *run, unsigned flags)
{
	struct weir_graph *graph = NULL;

	/* The driver's calls put work on streams. */
	TRY(run, weir_set_device(0));
	TRY(run, weir_graph_create(flags, &graph));
	return graph;
}

/* A capture with work on memory that is allocated in it; returns its output,
 * live, or NULL. */
static void *
capture(struct run *run, struct weir_graph *graph, struct weir_pool *pool,
    weir_stream on)
{
	void *block;

	sim()->guard_graphs(!is_kept_by_driver(run));
	if (graph == NULL || on == NULL ||
	    !TRY(run,
		weir_graph_capture_begin(graph, on, pool, WEIR_CAPTURE_GLOBAL)))
		return NULL;
	void *temp = allocate(run, 3 * MEGABYTE, on);
	block = allocate(run, 3 * MEGABYTE, on);
	work_late(temp, 3 * MEGABYTE, on);
	work_late(block, 3 * MEGABYTE, on);
	release(run, temp);
	TRY(run, weir_graph_capture_end(graph));
	return block;
}

static void
destroy(struct weir_graph *graph)
{
	weir_graph_destroy(graph);
	run_expect_whole("weir_graph_destroy");
}

static void
play_graph(struct run *run)
{
	struct weir_graph *graph = new_graph(run, 0);
	weir_stream on = stream(run, 0);
	size_t nodes = 0;

	for (int i = 0; i < 2 && graph != NULL; i++) {
		void *block = capture(run, graph, NULL, on);
		if (weir_graph_nodes(graph, &nodes) == WEIR_OK) {
			TRY(run, weir_graph_replay(graph, on));
			TRY(run, weir_graph_replay(graph, stream(run, 1)));
		}
		TRY(run, weir_trim(0, 0, NULL));
		TRY(run, weir_graph_reset(graph));
		release(run, block);
	}
	destroy(graph);
	expect_over(run);
}

/* When the graph is reset, the host waits for the context. */
static void
play_graph_of_old_driver(struct run *run)
{
	if (run_without_context_records(run))
		play_graph(run);
}

static void
play_shared_pool(struct run *run)
{
	struct weir_graph *graph[2] = { new_graph(run, WEIR_GRAPH_KEEP),
		new_graph(run, 0) };
	struct weir_pool *pool = NULL;
	weir_stream on = stream(run, 0);
	void *block[2] = { NULL, NULL };

	if (TRY(run, weir_pool_create(0, NULL, 0, &pool))) {
		for (int i = 0; i < 2; i++)
			block[i] = capture(run, graph[i], pool, on);
		for (int i = 0; i < 2; i++)
			if (block[i] != NULL)
				weir_graph_replay(graph[i], on);
		run_expect_whole("weir_graph_replay");
	}
	release(run, block[0]);
	TRY(run, weir_trim(0, 0, NULL));
	destroy(graph[0]);
	destroy(graph[1]);
	weir_pool_release(pool);
	run_expect_whole("weir_pool_release");
	release(run, block[1]);
	expect_over(run);
}

/* End a capture that the work in it may have broken. */
static enum weir_status
end_broken(struct run *run, struct weir_graph *graph)
{
	bool calm = run->calm;

	run->calm = false;
	run_begin(run);
	enum weir_status status = weir_graph_capture_end(graph);
	run_end(run, status, "weir_graph_capture_end");
	run->calm = calm;
	return status;
}

/* A capture that is aborted, and one that unjoined work breaks. */
static void
play_broken_captures(struct run *run)
{
	struct weir_graph *graph = new_graph(run, 0);
	weir_stream on = stream(run, 0);
	weir_stream forked = stream(run, 1);

	if (graph == NULL || on == NULL || forked == NULL) {
		destroy(graph);
		return;
	}
	if (TRY(run,
		weir_graph_capture_begin(
		    graph, on, NULL, WEIR_CAPTURE_RELAXED))) {
		release(run, allocate(run, 1000, on));
		TRY(run, weir_graph_reset(graph));
	}
	if (TRY(run,
		weir_graph_capture_begin(
		    graph, on, NULL, WEIR_CAPTURE_RELAXED))) {
		void *block = allocate(run, 1000, on);
		if (TRY(run, weir_stream_wait_stream(forked, on)))
			work_late(block, 1000, forked);
		enum weir_status status = end_broken(run, graph);
		EXPECT(!run->calm || status == WEIR_ECAPTURE);
		release(run, block);
	}
	destroy(graph);
	expect_over(run);
}

static void *
take_pages(void *closure, int device, size_t size)
{
	CUdeviceptr addr = 0;

	(void)closure;
	(void)device;
	return driver_peek()->cuMemAlloc(&addr, size) == CUDA_SUCCESS ?
	    (void *)(uintptr_t)addr :
	    NULL;
}

static bool
give_pages(void *closure, int device, void *ptr, size_t size)
{
	(void)closure;
	(void)device;
	(void)size;
	return driver_peek()->cuMemFree((CUdeviceptr)(uintptr_t)ptr) ==
	    CUDA_SUCCESS;
}

static void
play_pools(struct run *run)
{
	struct weir_pool_source source = { .struct_size = sizeof(source),
		.name = "pages",
		.take = take_pages,
		.give = give_pages };
	struct weir_pool *pool[2] = { NULL, NULL };
	struct weir_route *route = NULL;
	weir_stream on = stream(run, 0);
	weir_stream other = stream(run, 1);
	void *block[3] = { NULL, NULL, NULL };
	uint64_t id = 0;

	TRY(run, weir_pool_create(0, NULL, WEIR_POOL_USE_ON_OOM, &pool[0]));
	TRY(run, weir_pool_create(0, &source, WEIR_POOL_NO_SPLIT, &pool[1]));
	if (pool[0] != NULL &&
	    TRY(run, weir_route_stream(pool[0], on, &route))) {
		block[0] = allocate(run, 5 * MEGABYTE, on);
		release(run, allocate(run, 1000, on));
		weir_route_end(route);
		run_expect_whole("weir_route_end");
	}
	if (pool[1] != NULL && TRY(run, weir_route_thread(pool[1], &route))) {
		block[1] = allocate(run, 5 * MEGABYTE, on);
		block[2] = allocate(run, 1000, NULL);
		weir_route_end(route);
	}
	if (block[0] != NULL && TRY(run, weir_record_stream(block[0], other)))
		work_late(block[0], MEGABYTE, other);
	release(run, block[0]);
	if (pool[0] != NULL)
		TRY(run, weir_pool_trim(pool[0], 0, NULL));
	release(run, block[1]);
	id = weir_pool_id(pool[1]);
	weir_pool_release(pool[0]);
	weir_pool_release(pool[1]);
	run_expect_whole("weir_pool_release");
	if (block[2] != NULL && TRY(run, weir_pool_find(id, &pool[1])))
		weir_pool_release(pool[1]);
	release(run, block[2]);
	release(run, allocate(run, 1000, on));
}

/* Memory that libraries register, open to both devices. */
static void
play_registrable(struct run *run)
{
	struct weir_pool *pool = NULL;
	struct weir_route *route = NULL;
	weir_stream on = stream(run, 0);

	if (TRY(run, weir_pool_create(0, NULL, WEIR_POOL_REGISTRABLE, &pool)) &&
	    TRY(run, weir_route_thread(pool, &route))) {
		void *small = allocate(run, 1000, on);
		void *large = allocate(run, 30 * MEGABYTE, on);

		work_late(large, 30 * MEGABYTE, on);
		release(run, large);
		release(run, small);
		TRY(run, weir_pool_trim(pool, 0, NULL));
		release(run, allocate(run, 5 * MEGABYTE, on));
	}
	weir_route_end(route);
	weir_pool_release(pool);
	run_expect_whole("weir_pool_release");
}

/* The memory has fabric handles. */
static void
play_fabric(struct run *run)
{
	run_on("fabric", 1);
	play_registrable(run);
}

/* The device says that it has fabric handles, and the driver makes none. */
static void
play_missing_fabric(struct run *run)
{
	run_on("fabric", 2);
	play_registrable(run);
}

/* Captures by the program, which weir finds late or not at all. */
static void
play_own_captures(struct run *run)
{
	struct weir_graph *graph = new_graph(run, 0);
	weir_stream on = stream(run, 0);
	CUgraph made = NULL;

	TRY(run, weir_options_set("tcache:0"));
	for (int i = 0; i < 2 && on != NULL && graph != NULL; i++) {
		const struct driver *driver = driver_peek();
		if (driver->cuStreamBeginCapture(
			on, CU_STREAM_CAPTURE_MODE_RELAXED) != CUDA_SUCCESS)
			continue;
		void *block = allocate(run, 3 * MEGABYTE, on);
		bool is_registered =
		    i == 1 && TRY(run, weir_graph_register(graph, on, NULL));
		release(run, allocate(run, 1000, on));
		made = NULL;
		if (driver->cuStreamEndCapture(on, &made) != CUDA_SUCCESS)
			driver->cuStreamEndCapture(on, &made);
		if (made != NULL &&
		    driver->cuGraphDestroy(made) != CUDA_SUCCESS)
			driver->cuGraphDestroy(made);
		if (is_registered)
			TRY(run, weir_graph_capture_end(graph));
		TRY(run, weir_trim(0, 0, NULL));
		TRY(run, weir_graph_reset(graph));
		release(run, block);
		release(run, allocate(run, 1000, on));
	}
	destroy(graph);
	TRY(run, weir_options_set("tcache:16777216"));
	expect_over(run);
}

/* Memory passes from stream to stream, by the order of the capture and behind
 * an edge. A failed fork or join may break it. */
static void
play_forks(struct run *run)
{
	struct weir_graph *graph = new_graph(run, 0);
	weir_stream on = stream(run, 0);
	weir_stream forked = stream(run, 1);

	if (graph == NULL || on == NULL || forked == NULL ||
	    !TRY(run,
		weir_graph_capture_begin(
		    graph, on, NULL, WEIR_CAPTURE_RELAXED))) {
		destroy(graph);
		return;
	}
	TRY(run, weir_options_set("prefer:memory"));
	bool forks = TRY(run, weir_stream_wait_stream(forked, on));
	void *block = allocate(run, 3 * MEGABYTE, forks ? forked : on);
	work_late(block, 3 * MEGABYTE, forks ? forked : on);
	release(run, block);
	block = allocate(run, 3 * MEGABYTE, on);
	work_late(block, 3 * MEGABYTE, on);
	if (block != NULL && forks &&
	    TRY(run, weir_record_stream(block, forked)) &&
	    TRY(run, weir_stream_wait_stream(forked, on)))
		work_late(block, 3 * MEGABYTE, forked);
	release(run, block);
	release(run, allocate(run, 3 * MEGABYTE, on));
	TRY(run, weir_stream_wait_stream(on, forked));
	enum weir_status status = end_broken(run, graph);
	EXPECT(!run->calm || status == WEIR_OK);
	if (status == WEIR_OK)
		TRY(run, weir_graph_replay(graph, forked));
	destroy(graph);
	TRY(run, weir_options_set("prefer:balance"));
	expect_over(run);
}

/* Memory of copies until one failed counts as page-locked memory that was in
 * use and is cached; none of it is in use any more. */
static bool
suspend(struct run *run, struct weir_pool *pool, bool copy)
{
	struct weir_stats host = { .struct_size = sizeof(host) };

	run_begin(run);
	enum weir_status status = weir_pool_suspend(pool, copy, NULL);
	if (status != WEIR_OK) {
		EXPECT_OK(weir_host_stats(0, &host));
		EXPECT_EQ(host.allocated_bytes.all.current,
		    run->host_before.allocated_bytes.all.current);
		host.max_split_size = 0;
		run->host_before = host;
	}
	return run_end(run, status, "weir_pool_suspend");
}

/* Between replays the pool of a graph is suspended. */
static void
play_suspend(struct run *run)
{
	struct weir_graph *graph = new_graph(run, 0);
	struct weir_pool *pool = NULL;
	weir_stream on = stream(run, 0);
	void *block = NULL;

	if (TRY(run, weir_pool_create(0, NULL, 0, &pool)))
		block = capture(run, graph, pool, on);
	for (int i = 0; i < 2 && block != NULL; i++) {
		weir_graph_replay(graph, on);
		sim()->guard_graphs(0);
		if (suspend(run, pool, i == 0) &&
		    !TRY(run, weir_pool_resume(pool)))
			TRY(run, weir_pool_resume(pool));
		sim()->guard_graphs(!is_kept_by_driver(run));
		weir_graph_replay(graph, on);
		run_expect_whole("weir_graph_replay");
	}
	/* The same, without a resume. */
	destroy(graph);
	if (pool != NULL)
		suspend(run, pool, true);
	release(run, block);
	weir_pool_release(pool);
	run_expect_whole("weir_pool_release");
	expect_over(run);
}

static bool
is_wanted(weir_stream stream, void *closure)
{
	return stream == *(weir_stream *)closure;
}

/* Forget the blocks that a restore has freed; those that are live now belong to
 * the run. */
static void
take_over(struct run *run, const struct weir_restored *restored)
{
	for (size_t i = 0; i < restored->n_freed; i++)
		for (int b = 0; b < RUN_BLOCKS; b++)
			if (run->blocks[b] == restored->freed[i])
				run->blocks[b] = NULL;
	for (size_t i = 0, b = 0; i < restored->n_live; b++)
		if (run->blocks[b] == NULL)
			run->blocks[b] = restored->live[i++];
}

/* If unused memory is given back before each request, a checkpoint could not be
 * restored: the pool then keeps its memory. */
static unsigned
flags_to_restore(void)
{
	return getenv("WEIR_TEST_HOSTILE") != NULL ? WEIR_POOL_KEEP : 0;
}

/* A pool by a filter; its blocks are restored, and pass from one stream to
 * another. */
static void
play_checkpoint(struct run *run)
{
	struct weir_restored restored = { .struct_size = sizeof(restored) };
	struct weir_checkpoint *made = NULL;
	struct weir_pool *pool = NULL;
	struct weir_route *route = NULL;
	weir_stream on = stream(run, 0);

	if (on != NULL &&
	    TRY(run, weir_pool_create(0, NULL, flags_to_restore(), &pool)) &&
	    TRY(run, weir_route_filter(pool, is_wanted, &on, &route))) {
		void *freed = allocate(run, 5 * MEGABYTE, on);
		allocate(run, 1000, on);
		release(run, freed);
		TRY(run, weir_checkpoint_take(pool, &made));
		void *block = allocate(run, 3 * MEGABYTE, on);
		allocate(run, 9 * MEGABYTE, on);
		work_late(block, MEGABYTE, on);
		/* All use comes before the free in the order of its stream. */
		if (TRY(run, weir_stream_wait_stream(stream(run, 1), on)))
			release_on(run, block, stream(run, 1));
	}
	for (int i = 0; i < 2 && made != NULL; i++) {
		if (!TRY(run, weir_checkpoint_restore(pool, made, &restored)))
			continue;
		take_over(run, &restored);
		weir_restored_drop(&restored);
	}
	weir_checkpoint_drop(made);
	weir_route_end(route);
	weir_pool_release(pool);
	run_expect_whole("weir_pool_release");
	expect_over(run);
}

/* A capture by the program, with the pool that it names. */
static void
play_register(struct run *run)
{
	struct weir_graph *graph = new_graph(run, 0);
	struct weir_pool *pool = NULL;
	weir_stream on = stream(run, 0);
	const struct driver *driver = driver_peek();
	CUgraph made = NULL;

	if (graph != NULL && on != NULL &&
	    TRY(run, weir_pool_create(0, NULL, 0, &pool)) &&
	    driver->cuStreamBeginCapture(on, CU_STREAM_CAPTURE_MODE_RELAXED) ==
		CUDA_SUCCESS) {
		bool is_registered =
		    TRY(run, weir_graph_register(graph, on, pool));
		release(run, allocate(run, 3 * MEGABYTE, on));
		release(run, allocate(run, 1000, on));
		if (driver->cuStreamEndCapture(on, &made) != CUDA_SUCCESS)
			driver->cuStreamEndCapture(on, &made);
		if (made != NULL &&
		    driver->cuGraphDestroy(made) != CUDA_SUCCESS)
			driver->cuGraphDestroy(made);
		if (is_registered)
			TRY(run, weir_graph_capture_end(graph));
	}
	destroy(graph);
	weir_pool_release(pool);
	run_expect_whole("weir_pool_release");
	release(run, allocate(run, 1000, on));
	expect_over(run);
}

SCENARIO_TESTS(graph)
SCENARIO_TESTS(graph_of_old_driver)
SCENARIO_TESTS(shared_pool)
SCENARIO_TESTS(broken_captures)
SCENARIO_UNDOING(broken_captures)
SCENARIO_TESTS(forks)
SCENARIO_UNDOING(forks)
SCENARIO_TESTS(suspend)
SCENARIO_TESTS(checkpoint)
SCENARIO_TESTS(pools)
SCENARIO_TESTS(registrable)
SCENARIO_UNDOING(registrable)
SCENARIO_TESTS(fabric)
SCENARIO_UNDOING(fabric)
SCENARIO_TESTS(missing_fabric)
SCENARIO_TESTS(own_captures)
SCENARIO_TESTS(register)

TEST_TIMEOUT(each_driver_entry_is_reached_or_has_a_reason, 300)
{
	sweep_reach("graph_fault_test");
}
