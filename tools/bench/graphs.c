/*
 * Graphs and their pools: the time of a thousand captures that share a pool and
 * the memory that they hold, the speed of suspending and resuming a pool, and
 * the time to take and restore a checkpoint of ten thousand blocks.
 */
#include <weir/graph.h>

#include "tools/bench/bench.h"
#include "tools/bench/gpu.h"

enum { KIB = 1 << 10, MIB = 1 << 20, GIB = 1 << 30 };

/* ---- The peer ---------------------------------------------------------- */

static void *
graphs_malloc(size_t size, weir_stream stream)
{
	return weir_malloc(size, stream);
}

static void
graphs_free(void *block, weir_stream stream)
{
	(void)stream;
	weir_free(block);
}

static void
graphs_trim(void)
{
	weir_trim(0, 0, NULL);
}

const struct peer peer_pools = {
	.name = "weir-pools",
	.what = "weir's graphs and their private pools",
	.kind = PEER_POOLS,
	.malloc = graphs_malloc,
	.free = graphs_free,
	.trim = graphs_trim,
};

static bool
ok(enum weir_status status)
{
	return status == WEIR_OK;
}

/* Fail a sample whose calls succeeded, but with wrong results. */
static double
fail_because(const struct sample *sample, const char *why)
{
	sample->session->why = why;
	return -1;
}

static uint64_t
held_by(struct weir_pool *pool)
{
	struct weir_stats stats = { .struct_size = sizeof(stats) };

	return ok(weir_pool_stats(pool, &stats)) ?
	    stats.reserved_bytes.all.current :
	    0;
}

/* ---- Captures ---------------------------------------------------------- */

enum { GRAPHS_MAX = 1000, BLOCKS = 16 };

/* Capture a graph that allocates blocks from 64 KiB to 8 MiB, uses each with a
 * kernel, and frees all but the last. Returns the last block, which is the
 * output of the graph. */
static void *
capture_blocks(struct weir_graph *graph, struct weir_pool *pool)
{
	weir_stream stream = gpu.streams[0];
	void *blocks[BLOCKS] = { NULL };
	bool done = ok(weir_graph_capture_begin(
	    graph, stream, pool, WEIR_CAPTURE_THREAD_LOCAL));

	if (!done)
		return NULL;
	for (unsigned i = 0; done && i < BLOCKS; i++) {
		blocks[i] = weir_malloc((size_t)(64 * KIB) << (i % 8), stream);
		done = blocks[i] != NULL && gpu_sleep(stream, 1000);
		if (i >= 2)
			weir_free(blocks[i - 2]);
	}
	weir_free(blocks[BLOCKS - 2]);
	if (ok(weir_graph_capture_end(graph)) && done)
		return blocks[BLOCKS - 1];
	weir_free(blocks[BLOCKS - 1]);
	return NULL;
}

struct captured {
	struct weir_pool *pool;
	struct weir_graph *graphs[GRAPHS_MAX];
	uint64_t held_first;
	uint64_t held_last;
};

/* Capture `count` graphs. The output of each graph is freed before the next
 * capture, as if it had been copied out. */
static bool
capture_all(struct captured *c, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		if (!ok(weir_graph_create(0, &c->graphs[i])))
			return false;
		void *output = capture_blocks(c->graphs[i], c->pool);
		if (output == NULL)
			return false;
		weir_free(output);
		if (i == 0)
			c->held_first = held_by(c->pool);
	}
	c->held_last = held_by(c->pool);
	return true;
}

static bool
replay_all(const struct captured *c, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		if (!ok(weir_graph_replay(c->graphs[i], gpu.streams[1])))
			return false;
	return gpu_wait();
}

/* The seconds of the captures; or, with `shared`, the held bytes at the end
 * over those after the first capture. */
static double
run_captures(const struct sample *sample)
{
	static struct captured c; /* of one thread */
	unsigned count = sample->about->count;

	c = (struct captured){ 0 };
	if (!ok(weir_pool_create(0, NULL, 0, &c.pool)))
		return -1;
	uint64_t start = now_ns();
	bool done = capture_all(&c, count);
	double seconds = seconds_since(start);
	done = done && replay_all(&c, count);
	for (unsigned i = 0; i < count; i++)
		weir_graph_destroy(c.graphs[i]);
	weir_pool_release(c.pool);
	if (!done)
		return -1;
	return sample->about->shared ?
	    (double)c.held_last / (double)c.held_first :
	    seconds;
}

/* ---- Suspending -------------------------------------------------------- */

enum phase { SUSPEND, RESUME };
enum { PIECES_MAX = 64, WORD = 0x5ca1ab1e };

/* A graph that writes the first and the last word of each piece. */
struct suspended {
	struct weir_pool *pool;
	struct weir_graph *graph;
	CUdeviceptr pieces[PIECES_MAX];
	unsigned count;
	size_t piece; /* bytes */
};

static CUdeviceptr
last_word(const struct suspended *s, unsigned i)
{
	return s->pieces[i] + s->piece - 4;
}

static bool
capture_pieces(struct suspended *s, size_t size)
{
	weir_stream stream = gpu.streams[0];

	s->piece = size >= GIB ? (size_t)GIB / 2 : size / 4;
	s->count = (unsigned)(size / s->piece);
	if (s->count > PIECES_MAX ||
	    !ok(weir_pool_create(0, NULL, 0, &s->pool)) ||
	    !ok(weir_graph_create(0, &s->graph)) ||
	    !ok(weir_graph_capture_begin(
		s->graph, stream, s->pool, WEIR_CAPTURE_THREAD_LOCAL)))
		return false;
	bool done = true;
	for (unsigned i = 0; i < s->count && done; i++) {
		s->pieces[i] =
		    (CUdeviceptr)(uintptr_t)weir_malloc(s->piece, stream);
		done = s->pieces[i] != 0 &&
		    gpu_ok(gpu.cuMemsetD32Async(
			s->pieces[i], WORD + i, 1, stream)) &&
		    gpu_ok(gpu.cuMemsetD32Async(
			last_word(s, i), WORD + i, 1, stream));
	}
	return ok(weir_graph_capture_end(s->graph)) && done;
}

/* True if all pieces have the values that the graph writes. */
static bool
is_written(const struct suspended *s)
{
	for (unsigned i = 0; i < s->count; i++) {
		uint32_t words[2] = { 0, 0 };
		if (!gpu_ok(gpu.cuMemcpyDtoH(&words[0], s->pieces[i], 4)) ||
		    !gpu_ok(gpu.cuMemcpyDtoH(&words[1], last_word(s, i), 4)) ||
		    words[0] != WORD + i || words[1] != WORD + i)
			return false;
	}
	return true;
}

static bool
replay_suspended(const struct suspended *s)
{
	return ok(weir_graph_replay(s->graph, gpu.streams[1])) && gpu_wait();
}

/* The seconds of one phase. Resuming lasts until the graph has been
 * replayed. */
static double
suspend_and_resume(const struct sample *sample, const struct suspended *s)
{
	bool copy = sample->about->shared;
	size_t freed = 0;

	if (!replay_suspended(s))
		return -1;
	uint64_t start = now_ns();
	if (!ok(weir_pool_suspend(s->pool, copy, &freed)))
		return -1;
	double suspending = seconds_since(start);
	if (freed < sample->about->size || held_by(s->pool) != 0)
		return fail_because(sample, "the pool kept some memory");
	start = now_ns();
	if (!ok(weir_pool_resume(s->pool)))
		return -1;
	if (copy && !is_written(s))
		return fail_because(sample, "the content was not restored");
	if (!replay_suspended(s))
		return -1;
	double resuming = seconds_since(start);
	if (!is_written(s))
		return fail_because(sample, "the replay gave wrong results");
	return sample->about->count == SUSPEND ? suspending : resuming;
}

/* The thread is not pinned here, because the threads that weir starts run on
 * the same processors. */
static double
run_suspend(const struct sample *sample)
{
	struct suspended s = { 0 };
	double seconds = -1;

	unpin();
	if (capture_pieces(&s, sample->about->size))
		seconds = suspend_and_resume(sample, &s);
	weir_graph_destroy(s.graph);
	for (unsigned i = 0; i < s.count; i++)
		weir_free((void *)(uintptr_t)s.pieces[i]);
	weir_pool_release(s.pool);
	pin(0);
	return seconds;
}

/* ---- Checkpoints ------------------------------------------------------- */

enum { LIVE_MAX = 20000 };

/* Allocate `count` blocks of the pool, and leave every other one live. */
static bool
fill_pool(struct weir_pool *pool, void *blocks[], unsigned count)
{
	weir_stream stream = gpu.streams[0];
	struct dice dice = { 1 };

	for (unsigned i = 0; i < count; i++) {
		size_t size = 512 + dice_roll(&dice) % (32 * KIB);
		blocks[i] = weir_pool_malloc(pool, size, stream);
		if (blocks[i] == NULL)
			return false;
	}
	for (unsigned i = 0; i < count; i += 2) {
		weir_free(blocks[i]);
		blocks[i] = NULL;
	}
	return gpu_wait();
}

/* Restore a checkpoint: the live blocks are freed, and the blocks of the
 * checkpoint are live at their old addresses. */
static bool
restore_checkpoint(const struct sample *sample, struct weir_pool *pool,
    const struct weir_checkpoint *checkpoint)
{
	struct weir_restored restored = { .struct_size = sizeof(restored) };

	if (!ok(weir_checkpoint_restore(pool, checkpoint, &restored)))
		return false;
	if (restored.n_live != sample->about->count / 2)
		sample->session->why = "not all blocks were restored";
	bool done = restored.n_live == sample->about->count / 2;
	weir_restored_drop(&restored);
	return done;
}

/* The seconds to take a checkpoint; or, with `shared`, to restore one. */
static double
run_checkpoint(const struct sample *sample)
{
	static void *blocks[LIVE_MAX]; /* of one thread */
	struct weir_checkpoint *made = NULL;
	struct weir_pool *pool = NULL;
	unsigned count = sample->about->count;

	for (unsigned i = 0; i < count; i++)
		blocks[i] = NULL;
	if (!ok(weir_pool_create(0, NULL, 0, &pool)))
		return -1;
	bool done = fill_pool(pool, blocks, count);
	uint64_t start = now_ns();
	done = done && ok(weir_checkpoint_take(pool, &made));
	double seconds = seconds_since(start);
	if (done && sample->about->shared) {
		start = now_ns();
		done = restore_checkpoint(sample, pool, made);
		seconds = seconds_since(start);
	}
	for (unsigned i = 0; i < count; i++)
		weir_free(blocks[i]);
	weir_checkpoint_drop(made);
	weir_pool_release(pool);
	return done ? seconds : -1;
}

/* ---- All --------------------------------------------------------------- */

static bool
measure_captures(struct session *session)
{
	struct bench_case about = {
		.name = session->quick ? "capture, 20 graphs" :
					 "capture, 1,000 graphs",
		.run = run_captures,
		.kinds = PEER_POOLS,
		.cold = true,
		.few = true,
		.rounds = 1,
		.count = session->quick ? 20 : GRAPHS_MAX,
	};

	about.ops = about.count;
	if (!measure(session, &about))
		return false;
	about.name = "held in the end for the first";
	about.unit = UNIT_PERCENT;
	about.shared = true;
	return measure(session, &about);
}

static bool
measure_suspend(struct session *session)
{
	/* The simulated device uses real host memory. */
	bool small = session->quick || session->simulated;
	static const char *const names[2][4] = {
		{ "suspend, 20 GiB", "resume and replay, 20 GiB",
		    "suspend, 20 GiB copied", "resume and replay, copied" },
		{ "suspend, 64 MiB", "resume and replay, 64 MiB",
		    "suspend, 64 MiB copied", "resume and replay, copied" },
	};

	for (unsigned i = 0; i < 4; i++) {
		size_t size = small ? (size_t)64 * MIB : (size_t)20 * GIB;
		const struct bench_case about = {
			.name = names[small][i],
			.run = run_suspend,
			.kinds = PEER_POOLS,
			.cold = true,
			.few = true,
			.rounds = 1,
			.ops = size,
			.unit = UNIT_GIB,
			.size = size,
			.count = i % 2 == 0 ? SUSPEND : RESUME,
			.shared = i >= 2,
		};
		if (!measure(session, &about))
			return false;
	}
	return true;
}

static bool
measure_checkpoints(struct session *session)
{
	static const char *const names[2][2] = {
		{ "checkpoint, 10,000 blocks", "restore, 10,000 blocks" },
		{ "checkpoint, 100 blocks", "restore, 100 blocks" },
	};

	for (unsigned i = 0; i < 2; i++) {
		const struct bench_case about = {
			.name = names[session->quick][i],
			.run = run_checkpoint,
			.kinds = PEER_POOLS,
			.cold = true,
			.few = true,
			.rounds = 1,
			.unit = UNIT_MS,
			/* Half of the blocks are free. */
			.count = session->quick ? 100 : 10000,
			.shared = i == 1,
		};
		if (!measure(session, &about))
			return false;
	}
	return true;
}

bool
bench_graphs(struct session *session)
{
	return measure_captures(session) && measure_suspend(session) &&
	    measure_checkpoints(session);
}
