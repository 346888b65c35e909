/*
 * The fault sweep over captures, private pools, routes: whatever call fails, no
 * pool, route, capture or reservation is left behind. The device tells if
 * memory goes that a graph in being works with.
 */
#include <weir/graph.h>

#include <string.h>

#include "driver/driver.h"
#include "streams/capture.h"
#include "tests/model/sweep.h"
#include "tests/support/device.h"
#include "tests/support/sim.h"

/* Is it the fault that the driver keeps what it was to destroy? */
static bool
is_kept_by_driver(const struct run *run)
{
	return run->fault.entry != NULL &&
	    strstr(run->fault.entry, "Destroy") != NULL;
}

/* Whatever has failed, all is over. */
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

	/* Work is put on streams by the driver's own calls. */
	TRY(run, weir_set_device(0));
	TRY(run, weir_graph_create(flags, &graph));
	return graph;
}

/* A capture with work on its own memory; its output, live, or NULL. */
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

/* A capture that is given up, and one that is broken by work that is not
 * joined. */
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
		TRY(run, weir_stream_wait_stream(forked, on));
		work_late(block, 1000, forked);
		bool calm = run->calm;
		run->calm = false;
		run_begin(run);
		enum weir_status status = weir_graph_capture_end(graph);
		run_end(run, status, "weir_graph_capture_end");
		run->calm = calm;
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

/* A program's own captures, of which weir learns late or not at all. */
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
		bool told =
		    i == 1 && TRY(run, weir_graph_register(graph, on, NULL));
		release(run, allocate(run, 1000, on));
		made = NULL;
		if (driver->cuStreamEndCapture(on, &made) != CUDA_SUCCESS)
			driver->cuStreamEndCapture(on, &made);
		if (made != NULL &&
		    driver->cuGraphDestroy(made) != CUDA_SUCCESS)
			driver->cuGraphDestroy(made);
		if (told)
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

#define SCENARIOS(X)                                                           \
	X(graph)                                                               \
	X(shared_pool)                                                         \
	X(broken_captures)                                                     \
	X(pools)                                                               \
	X(own_captures)

SCENARIOS(SCENARIO_TESTS)
