/*
 * The cost of mallocs and frees that no thread cache serves: a hit in the pool,
 * splitting a block, merging blocks, memory of another stream, pieces that are
 * mapped together, and new memory.
 */
#include <stdlib.h>

#include "tools/bench/bench.h"
#include "tools/bench/gpu.h"

enum {
	PIECES = 512,
	PIECE = 64 << 10,
	MIB = 1 << 20,
};

/* The seconds of PIECES mallocs, which split one free range from its start; or,
 * with `shared`, of the frees in the same order, which merge the pieces. */
static double
run_pieces(const struct sample *sample)
{
	const struct peer *peer = sample->peer;
	weir_stream stream = gpu.streams[0];
	void *pieces[PIECES];
	double splitting = 0;
	double merging = 0;

	for (uint64_t round = 0; round < sample->n; round++) {
		uint64_t start = now_ns();
		unsigned live = 0;

		while (live < PIECES &&
		    (pieces[live] = peer->malloc(PIECE, stream)) != NULL)
			live++;
		splitting += seconds_since(start);
		start = now_ns();
		for (unsigned i = 0; i < live; i++)
			peer->free(pieces[i], stream);
		merging += seconds_since(start);
		if (live < PIECES)
			return -1;
	}
	return sample->about->shared ? merging : splitting;
}

/* The seconds of a malloc if nothing is cached. */
static double
run_map(const struct sample *sample)
{
	const struct peer *peer = sample->peer;
	weir_stream stream = gpu.streams[0];
	double seconds = 0;

	for (uint64_t i = 0; i < sample->n; i++) {
		uint64_t start;
		void *block;

		if (peer->trim != NULL)
			peer->trim();
		start = now_ns();
		block = peer->malloc(sample->about->size, stream);
		seconds += seconds_since(start);
		if (block == NULL)
			return -1;
		peer->free(block, stream);
	}
	return seconds;
}

/* ---- Held memory of another stream, or in pieces ------------------------- */

/* The seconds of a malloc. weir must serve it from the memory it holds: a limit
 * allows no more. */
static double
timed_malloc(const struct sample *sample, size_t size, weir_stream stream)
{
	const struct peer *peer = sample->peer;
	bool is_weir = peer->kind == PEER_WEIR;
	uint64_t before = weir_held();
	if (is_weir && weir_limit_set(0, before) != WEIR_OK)
		return -1;
	uint64_t start = now_ns();
	void *block = peer->malloc(size, stream);
	double seconds = seconds_since(start);
	if (is_weir && weir_limit_set(0, SIZE_MAX) != WEIR_OK)
		return -1;
	if (block == NULL)
		return -1;
	if (is_weir && weir_held() > before) {
		sample->session->why = "weir allocated new memory";
		seconds = -1;
	}
	peer->free(block, stream);
	return seconds;
}

/* The seconds of a malloc whose memory another stream has freed. All work of
 * that stream is done; or, with `shared`, it is still busy. */
static double
malloc_from_other_stream(const struct sample *sample)
{
	const struct peer *peer = sample->peer;
	bool is_busy = sample->about->shared;
	size_t size = sample->about->size;

	peer->trim();
	void *theirs = peer->malloc(size, gpu.streams[1]);
	if (theirs == NULL)
		return -1;
	bool done = !is_busy || gpu_sleep(gpu.streams[1], 500 * 1000);
	peer->free(theirs, gpu.streams[1]);
	if (!done || (!is_busy && !gpu_wait()))
		return -1;
	double seconds = timed_malloc(sample, size, gpu.streams[0]);
	return gpu_wait() ? seconds : -1;
}

/* The seconds of a malloc of `count` free pieces as one block. The pieces lie
 * between live blocks. */
static double
malloc_from_pieces(const struct sample *sample)
{
	const struct peer *peer = sample->peer;
	weir_stream stream = gpu.streams[0];
	void *pieces[PIECES];
	unsigned live = 0;
	unsigned all = 2 * sample->about->count;
	size_t piece = sample->about->size / sample->about->count;
	double seconds = -1;

	peer->trim();
	while (
	    live < all && (pieces[live] = peer->malloc(piece, stream)) != NULL)
		live++;
	for (unsigned i = 1; i < live; i += 2)
		peer->free(pieces[i], stream);
	if (live == all && gpu_wait())
		seconds = timed_malloc(sample, sample->about->size, stream);
	for (unsigned i = 0; i < live; i += 2)
		peer->free(pieces[i], stream);
	return gpu_wait() ? seconds : -1;
}

/* Set options with which weir holds little memory, in handles of one piece. By
 * default weir allocates some new memory before it makes a stream wait or moves
 * memory. */
static bool
hold_little(const struct bench_case *about)
{
	size_t handle = about->count > 0 ? about->size / about->count : 0;
	char conf[64];

	handle = handle < 2 * MIB ? 2 * MIB : handle;
	snprintf(
	    conf, sizeof(conf), "prefer:memory,handle_mb:%zu", handle / MIB);
	return weir_options_set(conf) == WEIR_OK;
}

static double
run_there(const struct sample *sample)
{
	bool in_pieces = sample->about->count != 0;
	bool waits = sample->about->shared && sample->peer->kind == PEER_WEIR;
	double seconds = 0;

	if (waits && !hold_little(sample->about))
		return -1;
	for (uint64_t i = 0; i < sample->n && seconds >= 0; i++) {
		double one = in_pieces ? malloc_from_pieces(sample) :
					 malloc_from_other_stream(sample);
		seconds = one < 0 ? -1 : seconds + one;
	}
	if (waits)
		weir_options_set("prefer:balance,handle_mb:32");
	return seconds;
}

static bool
measure_there(struct session *session)
{
	/* The simulated device uses real host memory. */
	bool small = session->quick || session->simulated;
	const struct bench_case cases[] = {
		{ .name = "64 MiB of another stream", .size = 64 * MIB },
		{ .name = "the same, still busy",
		    .size = 64 * MIB,
		    .shared = true },
		{ .name = "64 MiB in 16 pieces",
		    .size = 64 * MIB,
		    .count = 16,
		    .shared = true },
		{ .name =
			small ? "1 GiB in 256 pieces" : "10 GiB in 256 pieces",
		    .size = (size_t)(small ? 1024 : 10240) * MIB,
		    .count = PIECES / 2,
		    .shared = true,
		    .few = true },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct bench_case about = cases[i];

		about.run = run_there;
		about.kinds = PEER_DEVICE;
		about.rounds = about.few || session->quick ? 1 : 10;
		about.ops = 1;
		about.not_slow = true;
		if (!measure(session, &about))
			return false;
	}
	return true;
}

/* ---- All --------------------------------------------------------------- */

bool
bench_miss(struct session *session)
{
	const struct bench_case cases[] = {
		{ .name = "hit",
		    .run = run_pairs,
		    .kinds = PEER_HERE,
		    .ops = 1,
		    .size = PIECE },
		{ .name = "split",
		    .run = run_pieces,
		    .kinds = PEER_HERE,
		    .ops = PIECES },
		{ .name = "merge",
		    .run = run_pieces,
		    .kinds = PEER_HERE,
		    .ops = PIECES,
		    .shared = true },
		{ .name = "map 2 MiB",
		    .run = run_map,
		    .kinds = PEER_DEVICE,
		    .rounds = session->quick ? 1 : 100,
		    .ops = 1,
		    .size = 2 * MIB },
		{ .name = "map 64 MiB",
		    .run = run_map,
		    .kinds = PEER_DEVICE,
		    .rounds = session->quick ? 1 : 50,
		    .ops = 1,
		    .size = 64 * MIB },
		{ .name = "map 1 GiB",
		    .run = run_map,
		    .kinds = PEER_DEVICE,
		    .rounds = session->quick ? 1 : 10,
		    .ops = 1,
		    .size = 1024 * MIB },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		if (!measure(session, &cases[i]))
			return false;
	return measure_there(session);
}
