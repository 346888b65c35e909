/*
 * The cost of mallocs and frees that no thread cache serves: a hit in the pool,
 * cutting a block, joining blocks, memory of another stream, pieces mapped
 * together, mapping new memory.
 */
#include <stdlib.h>

#include "tools/bench/bench.h"
#include "tools/bench/gpu.h"

enum {
	PIECES = 512,
	PIECE = 64 << 10,
	MIB = 1 << 20,
};

/* Cut one free range into PIECES, from its start; or (`shared`) the frees that
 * join them again, in the same order. */
static double
run_pieces(const struct sample *sample)
{
	const struct peer *peer = sample->peer;
	weir_stream stream = gpu.streams[0];
	void *pieces[PIECES];
	double cutting = 0;
	double joining = 0;

	for (uint64_t round = 0; round < sample->n; round++) {
		uint64_t start = now_ns();
		unsigned live = 0;

		while (live < PIECES &&
		    (pieces[live] = peer->malloc(PIECE, stream)) != NULL)
			live++;
		cutting += seconds_since(start);
		start = now_ns();
		for (unsigned i = 0; i < live; i++)
			peer->free(pieces[i], stream);
		joining += seconds_since(start);
		if (live < PIECES)
			return -1;
	}
	return sample->about->shared ? joining : cutting;
}

/* malloc when nothing is cached. */
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

/* ---- Memory that is there, but not on this stream or in one piece -------- */

/* The seconds of a malloc, which weir must serve from what it holds: it may
 * have no more. */
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
		sample->session->why = "took new memory";
		seconds = -1;
	}
	peer->free(block, stream);
	return seconds;
}

/* A block that another stream has freed, when all its work is done; or
 * (`shared`) while that stream is busy with it. */
static double
take_theirs(const struct sample *sample)
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

/* `count` free pieces between as many live ones are wanted as one block. */
static double
take_pieces(const struct sample *sample)
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

/* With `shared` the options let weir hold little, in handles of one piece: by
 * default it takes some new memory before it makes a stream wait or moves
 * memory together. */
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
		double one =
		    in_pieces ? take_pieces(sample) : take_theirs(sample);
		seconds = one < 0 ? -1 : seconds + one;
	}
	if (waits)
		weir_options_set("prefer:balance,handle_mb:32");
	return seconds;
}

static bool
measure_there(struct session *session)
{
	/* Pages that are simulated are touched all the same. */
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
