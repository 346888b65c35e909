/*
 * What a malloc or free costs that no thread cache serves: a hit in the pool,
 * cutting a block, joining blocks, mapping new memory.
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
	return true;
}
