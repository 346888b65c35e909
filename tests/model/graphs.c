/*
 * The steps of graphs: captures of several streams in private pools, replays,
 * checkpoints, and pools that are suspended, beside all other steps.
 *
 * A captured graph passes a number from block to block and from stream to
 * stream, through memory that is freed in the capture before and after the
 * waits that order it. So a replay writes the number to the graph's output if
 * and only if none of its blocks was reused too early. Other work of the same
 * capture writes other numbers at the same time. The simulated device reports
 * races within a graph, and memory that is unmapped while a graph can use it;
 * these steps check that such memory is not handed out.
 *
 * The caller has to keep an order: graphs of a pool are not replayed at once,
 * and no other work uses the pool meanwhile. Therefore these steps wait for the
 * device first, and leave a replay queued while the ordinary steps run.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weir/graph.h>
#include <weir/sleep.h>

#include "driver/driver.h"
#include "tests/model/model.h"
#include "tests/support/device.h"
#include "tests/support/sim.h"

/* Streams of one capture, and blocks that pass the number on. */
enum { FORKS = 3, LINKS = 6 };

static struct model_pool *
any_pool(struct model *m)
{
	return &m->pools[model_below(m, MODEL_POOLS)];
}

/* Accept a failure for want of memory, under a limit, or because work is not
 * known to be done yet. */
static bool
ok(struct model *m, enum weir_status status, const char *call)
{
	if ((status == WEIR_ENOMEM || status == WEIR_ENOTREADY) &&
	    weir_last_error()[0] != '\0')
		return false;
	return model_ok(m, status, call);
}

/* ---- What must hold ---------------------------------------------------- */

void
model_expect_no_graph(struct model *m, const struct model_block *b)
{
	for (int g = 0; g < MODEL_GRAPHS; g++) {
		const struct model_graph *graph = &m->graphs[g];
		for (size_t i = 0; i < graph->n_ranges; i++)
			model_expect(m,
			    graph->ranges[i].at + graph->ranges[i].size <=
				    b->at ||
				b->at + b->bytes <= graph->ranges[i].at,
			    "%p lies in memory of graph %d", (void *)b->at, g);
	}
}

/* The live blocks of the pools are the outputs of their graphs. */
void
model_check_graphs(struct model *m)
{
	for (int p = 0; p < MODEL_POOLS; p++) {
		const void *ptrs[MODEL_GRAPHS];
		bool equal = false;
		size_t n = 0;
		if (m->pools[p].pool == NULL)
			continue;
		for (int g = 0; g < MODEL_GRAPHS; g++)
			if (m->graphs[g].graph != NULL &&
			    m->graphs[g].pool == &m->pools[p])
				ptrs[n++] = m->graphs[g].output.at;
		/* The call needs host memory, which an armed fault may
		 * refuse. */
		model_expect(m,
		    weir_pool_check_live(m->pools[p].pool, ptrs, n, &equal) !=
			    WEIR_OK ||
			equal,
		    "other blocks than %zu outputs are live in pool %d", n, p);
	}
}

/* Check, when all work is done, that each replay has written its number. */
static void
rest(struct model *m)
{
	model_verify(m);
	for (int g = 0; g < MODEL_GRAPHS; g++) {
		struct model_graph *graph = &m->graphs[g];
		uint32_t ends[2];
		size_t size = graph->output.size;
		if (!graph->replayed)
			continue;
		graph->replayed = false;
		read_back(&ends[0], graph->output.at, 4, NULL);
		read_back(&ends[1], graph->output.at + size - 4, 4, NULL);
		model_expect(m, ends[0] == graph->tag && ends[1] == graph->tag,
		    "graph %d wrote %#x and %#x, not %#x", g, ends[0], ends[1],
		    graph->tag);
	}
}

/* ---- Capturing --------------------------------------------------------- */

struct link {
	char *at; /* NULL: it is freed */
	unsigned fork;
};

/* A capture that is under way; `good` until a call has failed. */
struct capture {
	struct model *m;
	struct model_graph *graph;
	weir_stream streams[FORKS]; /* the first is captured, others forked */
	unsigned forks;
	struct link links[LINKS];
	size_t size;
	bool good;
};

static bool
done(struct capture *c, enum weir_status status, const char *call)
{
	c->good = ok(c->m, status, call) && c->good;
	return c->good;
}

static void
queue(struct capture *c, CUresult code, const char *call)
{
	c->good = model_driver_ok(c->m, code, call) && c->good;
}

static void
put(struct capture *c, const char *at, uint32_t tag, unsigned fork)
{
	if (c->good)
		queue(c,
		    driver_peek()->cuMemsetD32Async((CUdeviceptr)(uintptr_t)at,
			tag, c->size / 4, c->streams[fork]),
		    "cuMemsetD32Async");
}

static void
hand_on(struct capture *c, const char *to, const char *from, unsigned fork)
{
	if (c->good)
		queue(c,
		    driver_peek()->cuMemcpyAsync((CUdeviceptr)(uintptr_t)to,
			(CUdeviceptr)(uintptr_t)from, c->size,
			c->streams[fork]),
		    "cuMemcpyAsync");
}

static void
join(struct capture *c, unsigned later, unsigned earlier)
{
	if (later != earlier && c->good)
		done(c,
		    weir_stream_wait_stream(
			c->streams[later], c->streams[earlier]),
		    "weir_stream_wait_stream");
}

static char *
take_link(struct capture *c, unsigned fork)
{
	if (!c->good)
		return NULL;
	char *at = weir_malloc(c->size, c->streams[fork]);
	done(c, at != NULL ? WEIR_OK : weir_last_status(), "weir_malloc");
	if (at == NULL)
		return NULL;
	const struct model_block b = { .at = at, .bytes = c->size };
	struct model_graph *graph = c->graph;
	/* The address may belong to another graph of the same pool. */
	for (size_t i = 0; i < c->m->n_blocks; i++) {
		const struct model_block *o = &c->m->blocks[i];
		model_expect(c->m,
		    b.at + b.bytes <= o->at || o->at + o->bytes <= b.at,
		    "%p of a capture overlaps the live %p", (void *)b.at,
		    (void *)o->at);
	}
	graph->ranges[graph->n_ranges++] =
	    (struct model_range){ .at = at, .size = c->size };
	return at;
}

static void
drop_link(struct capture *c, struct link *link)
{
	if (link->at != NULL)
		model_expect(c->m, weir_free(link->at) == WEIR_OK,
		    "weir_free(%p): %s", (void *)link->at, weir_last_error());
	link->at = NULL;
}

/* Work that does not concern the number, on any stream of the capture, in
 * memory that is freed at once. */
static void
disturb(struct capture *c)
{
	unsigned fork = (unsigned)model_below(c->m, c->forks);
	struct link link = { NULL, fork };

	if (c->graph->n_ranges + LINKS >= MODEL_RANGES)
		return;
	link.at = take_link(c, fork);
	put(c, link.at, 0xdeadbeef, fork);
	drop_link(c, &link);
}

/* The number passes from one link to the next. */
static void
pass_on(struct capture *c, unsigned i)
{
	struct link *from = &c->links[i - 1];
	struct link *to = &c->links[i];

	to->fork = (unsigned)model_below(c->m, c->forks);
	join(c, to->fork, from->fork);
	to->at = take_link(c, to->fork);
	if (!c->good)
		return;
	hand_on(c, to->at, from->at, to->fork);
	if (to->fork != from->fork)
		done(c, weir_record_stream(from->at, c->streams[to->fork]),
		    "weir_record_stream");
	if (model_chance(c->m, 30)) /* joined first, and freed then */
		join(c, from->fork, to->fork);
	if (model_chance(c->m, 70))
		drop_link(c, from);
	if (model_chance(c->m, 40))
		disturb(c);
}

static void
put_work(struct capture *c)
{
	unsigned n = 2 + (unsigned)model_below(c->m, LINKS - 2);

	for (unsigned i = 1; i < c->forks; i++)
		join(c, i, 0);
	c->links[0].at = take_link(c, 0);
	put(c, c->links[0].at, c->graph->tag, 0);
	for (unsigned i = 1; i < n && c->good; i++)
		pass_on(c, i);
	for (unsigned i = 1; i < c->forks; i++)
		join(c, 0, i);
	c->graph->output.at = take_link(c, 0);
	hand_on(c, c->graph->output.at, c->links[n - 1].at, 0);
	for (unsigned i = 0; i < LINKS; i++)
		drop_link(c, &c->links[i]);
}

/* A stream that can be captured, and is not one of those. */
static bool
add_stream(struct capture *c)
{
	unsigned slot = model_any_slot(c->m);
	weir_stream stream = model_stream(c->m, slot);

	if (slot <= SLOT_PER_THREAD)
		return false;
	for (unsigned i = 0; i < c->forks; i++)
		if (c->streams[i] == stream)
			return false;
	c->streams[c->forks++] = stream;
	return true;
}

/* Destroy a graph with no fault armed, so that it is destroyed for certain. */
static void
drop_graph(struct model *m, struct model_graph *graph)
{
	model_calm(m);
	weir_graph_destroy(graph->graph);
	*graph = (struct model_graph){ 0 };
}

static void
capture(struct capture *c)
{
	struct model *m = c->m;
	struct model_graph *graph = c->graph;

	if (!done(c, weir_graph_create(model_below(m, 2), &graph->graph),
		"weir_graph_create") ||
	    !done(c,
		weir_graph_capture_begin(graph->graph, c->streams[0],
		    graph->pool->pool,
		    (enum weir_capture_mode)model_below(m, 3)),
		"weir_graph_capture_begin")) {
		drop_graph(m, graph);
		return;
	}
	put_work(c);
	if (c->good && model_chance(m, 95))
		done(c, weir_graph_capture_end(graph->graph),
		    "weir_graph_capture_end");
	else
		c->good = false;
	char *output = graph->output.at;
	if (!c->good)
		drop_graph(m, graph);
	if (!c->good && output != NULL)
		model_expect(m, weir_free(output) == WEIR_OK, "weir_free: %s",
		    weir_last_error());
}

/* Arm a failure that the next graph calls may meet, or none. */
static void
arm_some(struct model *m)
{
	if (m->mix->weight[STEP_fault] == 0 || !model_chance(m, 25))
		return;
	if (model_chance(m, 70))
		step_fault(m);
	else
		step_starve(m);
}

static bool
choose_streams(struct capture *c)
{
	for (int i = 0; i < 5 && c->forks < FORKS; i++)
		add_stream(c);
	return c->forks > 0;
}

void
step_graph(struct model *m)
{
	struct model_graph *graph = &m->graphs[model_below(m, MODEL_GRAPHS)];
	struct model_pool *pool = any_pool(m);
	struct capture c = { .m = m, .graph = graph, .good = true };

	if (graph->graph != NULL || pool->suspended)
		return;
	if (pool->pool == NULL) {
		model_say(m, "make a pool");
		ok(m, weir_pool_create(0, NULL, 0, &pool->pool),
		    "weir_pool_create");
		return;
	}
	if (!choose_streams(&c))
		return;
	rest(m);
	arm_some(m);
	c.size = 4 + 4 * model_below(m, model_chance(m, 30) ? MIB : 16 * KIB);
	*graph = (struct model_graph){ .pool = pool,
		.tag = (uint32_t)model_below(m, UINT32_MAX) + 1,
		.output.size = c.size };
	model_say(m, "capture %zu bytes on %u streams", c.size, c.forks);
	capture(&c);
	if (graph->graph == NULL)
		return;
	model_calm(m);
	struct weir_block_info info = { .struct_size = sizeof(info) };
	model_ok(
	    m, weir_block_info(graph->output.at, &info), "weir_block_info");
	graph->output.bytes = info.size;
	m->captures++;
}

/* ---- Graphs and pools that are there ----------------------------------- */

static struct model_graph *
any_graph(struct model *m)
{
	struct model_graph *graph = &m->graphs[model_below(m, MODEL_GRAPHS)];

	return graph->graph != NULL ? graph : NULL;
}

void
step_replay(struct model *m)
{
	struct model_graph *graph = any_graph(m);
	weir_stream stream = model_stream(m, model_any_slot(m));

	if (graph == NULL)
		return;
	/* A destroy or release that the driver refused is checked elsewhere. */
	rest(m);
	model_say(m, "replay graph %d", (int)(graph - m->graphs));
	if (graph->pool->suspended) {
		model_expect(m,
		    weir_graph_replay(graph->graph, stream) == WEIR_EINVAL,
		    "a graph of a suspended pool is replayed");
		return;
	}
	arm_some(m);
	graph->replayed =
	    ok(m, weir_graph_replay(graph->graph, stream), "weir_graph_replay");
	m->replays += graph->replayed;
}

/* The graph is destroyed while its replay is queued, with its output or before
 * it. */
void
step_reset(struct model *m)
{
	struct model_graph *graph = any_graph(m);

	if (graph == NULL)
		return;
	char *output = graph->output.at;
	model_say(m, "drop graph %d", (int)(graph - m->graphs));
	drop_graph(m, graph);
	model_expect(m, weir_free(output) == WEIR_OK, "weir_free: %s",
	    weir_last_error());
}

void
step_suspend(struct model *m)
{
	struct model_pool *pool = any_pool(m);

	if (pool->pool == NULL)
		return;
	rest(m);
	model_say(m, "%s a pool", pool->suspended ? "resume" : "suspend");
	if (m->simulated)
		sim()->guard_graphs(0);
	arm_some(m);
	if (!pool->suspended)
		pool->suspended = ok(m,
		    weir_pool_suspend(pool->pool, model_chance(m, 50), NULL),
		    "weir_pool_suspend");
	else
		pool->suspended =
		    !ok(m, weir_pool_resume(pool->pool), "weir_pool_resume");
	model_calm(m);
	if (m->simulated)
		sim()->guard_graphs(1);
	m->suspends += pool->suspended;
}

/* Only a fault makes a wake fail. It is repeated then. */
static void
wake(struct model *m)
{
	if (ok(m, weir_wake(0, 0, NULL), "weir_wake"))
		return;
	model_calm(m);
	model_ok(m, weir_wake(0, 0, NULL), "weir_wake");
}

void
step_sleep(struct model *m)
{
	const struct weir_sleep_options options = {
		.struct_size = sizeof(options),
		.flags = model_chance(m, 30) ? WEIR_SLEEP_LIVE_ONLY : 0,
	};
	uint64_t frees = model_below(m, 8);

	if (m->crew != NULL || m->captured != SLOT_NONE)
		return;
	rest(m);
	model_say(m, "the device sleeps");
	if (m->simulated)
		sim()->guard_graphs(0);
	arm_some(m);
	if (ok(m, weir_sleep(0, &options, NULL), "weir_sleep")) {
		m->sleeps++;
		for (uint64_t i = 0; i < frees; i++)
			model_release_any(m);
		model_check_health(m);
		wake(m);
	}
	model_calm(m);
	if (m->simulated)
		sim()->guard_graphs(1);
}

/* Eager work in a pool, which is done before the next graph step. */
static void
work_in(struct model *m, struct model_pool *pool)
{
	size_t size = 4 + 4 * model_below(m, MIB);
	unsigned slot = model_any_slot(m);
	struct model_block b = { .size = size,
		.bytes = size,
		.at =
		    weir_pool_malloc(pool->pool, size, model_stream(m, slot)) };

	if (!ok(m, b.at != NULL ? WEIR_OK : weir_last_status(),
		"weir_pool_malloc"))
		return;
	model_expect_apart(m, &b, m);
	driver_peek()->cuMemsetD32Async(
	    (CUdeviceptr)(uintptr_t)b.at, 1, size / 4, model_stream(m, slot));
	model_expect(
	    m, weir_free(b.at) == WEIR_OK, "weir_free: %s", weir_last_error());
}

static struct model_graph *
graph_with(struct model *m, const struct model_pool *pool, const void *output)
{
	for (int g = 0; g < MODEL_GRAPHS; g++)
		if (m->graphs[g].graph != NULL && m->graphs[g].pool == pool &&
		    m->graphs[g].output.at == output)
			return &m->graphs[g];
	return NULL;
}

static void
checkpoint(struct model *m, struct model_pool *pool)
{
	weir_checkpoint_drop(pool->checkpoint);
	pool->checkpoint = NULL;
	pool->n_saved = 0;
	arm_some(m);
	if (!ok(m, weir_checkpoint_take(pool->pool, &pool->checkpoint),
		"weir_checkpoint_take"))
		return;
	for (int g = 0; g < MODEL_GRAPHS; g++)
		if (m->graphs[g].graph != NULL && m->graphs[g].pool == pool)
			pool->saved[pool->n_saved++] = m->graphs[g].output;
}

static bool
is_saved(const struct model_pool *pool, const struct model_block *output)
{
	for (size_t i = 0; i < pool->n_saved; i++)
		if (pool->saved[i].at == output->at &&
		    pool->saved[i].size == output->size)
			return true;
	return false;
}

/* Graphs whose outputs are no longer live are destroyed; live blocks without a
 * graph are freed. */
static void
settle_outputs(struct model *m, struct model_pool *pool)
{
	for (int g = 0; g < MODEL_GRAPHS; g++)
		if (m->graphs[g].graph != NULL && m->graphs[g].pool == pool &&
		    !is_saved(pool, &m->graphs[g].output))
			drop_graph(m, &m->graphs[g]);
	for (size_t i = 0; i < pool->n_saved; i++)
		if (graph_with(m, pool, pool->saved[i].at) == NULL)
			model_expect(m, weir_free(pool->saved[i].at) == WEIR_OK,
			    "weir_free: %s", weir_last_error());
}

static void
restore(struct model *m, struct model_pool *pool)
{
	struct weir_restored restored = { .struct_size = sizeof(restored) };
	size_t live = 0;

	for (int g = 0; g < MODEL_GRAPHS; g++)
		live += m->graphs[g].graph != NULL && m->graphs[g].pool == pool;
	arm_some(m);
	enum weir_status status =
	    weir_checkpoint_restore(pool->pool, pool->checkpoint, &restored);
	/* Without a graph that keeps it, memory may have been given back. */
	if (status == WEIR_EINVAL &&
	    strstr(weir_last_error(), "could not find") != NULL)
		return;
	if (!ok(m, status, "weir_checkpoint_restore"))
		return;
	model_calm(m);
	model_expect(m, restored.n_freed == live, "%zu freed, %zu were live",
	    restored.n_freed, live);
	model_expect(m, restored.n_live == pool->n_saved,
	    "%zu live, %zu were saved", restored.n_live, pool->n_saved);
	weir_restored_drop(&restored);
	settle_outputs(m, pool);
	m->restores++;
}

static void
drop_pool(struct model *m, struct model_pool *pool)
{
	for (int g = 0; g < MODEL_GRAPHS; g++) {
		char *output = m->graphs[g].output.at;
		if (m->graphs[g].graph == NULL || m->graphs[g].pool != pool)
			continue;
		drop_graph(m, &m->graphs[g]);
		model_expect(m, weir_free(output) == WEIR_OK, "weir_free: %s",
		    weir_last_error());
	}
	weir_checkpoint_drop(pool->checkpoint);
	weir_pool_release(pool->pool);
	*pool = (struct model_pool){ 0 };
}

void
step_pool(struct model *m)
{
	struct model_pool *pool = any_pool(m);
	unsigned what = (unsigned)model_below(m, 10);

	if (pool->pool == NULL)
		return;
	rest(m);
	if (model_chance(m, 70))
		settle(); /* events are seen late */
	model_say(m, "pool %d: %u", (int)(pool - m->pools), what);
	if (what == 0)
		drop_pool(m, pool);
	else if (what == 1)
		model_ok(
		    m, weir_pool_trim(pool->pool, 0, NULL), "weir_pool_trim");
	else if (pool->suspended)
		model_expect(m, weir_pool_malloc(pool->pool, 512, NULL) == NULL,
		    "a suspended pool gives memory");
	else if (what < 4)
		work_in(m, pool);
	else if (pool->checkpoint == NULL || what < 6)
		checkpoint(m, pool);
	else
		restore(m, pool);
}

void
model_clear_graphs(struct model *m)
{
	/* Each operation is made at least six times in 1000 steps, at random.
	 * With few steps no number is expected. */
	uint64_t least = m->step < 4000 || getenv("WEIR_TEST_SKIP") != NULL ?
	    0 :
	    m->step / 1000;

	if (m->mix->weight[STEP_graph] > 0)
		fprintf(stderr,
		    "# %u captures, %u replays, %u suspends, %u restores, "
		    "%u sleeps\n",
		    m->captures, m->replays, m->suspends, m->restores,
		    m->sleeps);
	model_expect(m,
	    m->mix->weight[STEP_graph] == 0 ||
		(m->captures >= least && m->replays >= least &&
		    m->suspends >= least && m->restores >= least &&
		    (m->mix->weight[STEP_sleep] == 0 || m->sleeps >= least)),
	    "too little has been done");
	for (int p = 0; p < MODEL_POOLS; p++)
		if (m->pools[p].pool != NULL)
			drop_pool(m, &m->pools[p]);
}
