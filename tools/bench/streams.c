/*
 * Blocks that several streams use, and kernels with an allocation each.
 */
#include <stdlib.h>

#include "tools/bench/bench.h"
#include "tools/bench/gpu.h"

enum {
	SIZE = 64 << 10,
	PENDING = 1000,
	PENDING_STREAMS = GPU_STREAMS - 1,
	/* Pairs that are measured while blocks are pending. */
	PENDING_PAIRS = 20000,
	PENDING_CHUNK = 500, /* pairs between two looks at the clock */
	PENDING_LIMIT_MS = 50,
	PENDING_BUSY_MS = 400, /* streams are busy for longer than the limit */
	KERNEL_STREAMS = 4,
	KERNEL_CLOCKS = 1000000,
	KERNEL_SIZE = 1 << 20,
};

/* ---- record ------------------------------------------------------------ */

/* A cycle: malloc on one stream, use on a second one, free. */
static double
run_record(const struct sample *sample)
{
	const struct peer *peer = sample->peer;
	weir_stream stream = gpu.streams[0];
	weir_stream user = gpu.streams[1];
	uint64_t start = now_ns();

	for (uint64_t i = 0; i < sample->n; i++) {
		void *block = peer->malloc(SIZE, stream);
		bool recorded;

		if (block == NULL)
			return -1;
		recorded = peer->record(block, stream, user);
		peer->free(block, stream);
		if (!recorded)
			return -1;
	}
	return seconds_since(start);
}

bool
bench_record(struct session *session)
{
	static const struct bench_case about = {
		.name = "64 KiB",
		.run = run_record,
		.kinds = PEER_DEVICE,
		.records = true,
		.ops = 1,
	};

	return measure(session, &about);
}

/* ---- pending ----------------------------------------------------------- */

/* Free PENDING blocks that busy streams use, so that the blocks are pending. */
static bool
make_pending(const struct peer *peer, void **blocks)
{
	weir_stream stream = gpu.streams[0];
	bool good = true;

	for (unsigned i = 1; i <= PENDING_STREAMS; i++)
		if (!gpu_sleep(
			gpu.streams[i], (uint64_t)PENDING_BUSY_MS * 1000000))
			return false;
	for (unsigned i = 0; i < PENDING; i++) {
		weir_stream user = gpu.streams[1 + i % PENDING_STREAMS];

		good = good && peer->record(blocks[i], stream, user);
		peer->free(blocks[i], stream);
	}
	return good;
}

/* Measure pairs until there are `n`, or until the time limit. Returns the
 * seconds of `n` pairs. */
static double
pairs_in_time(const struct sample *sample)
{
	uint64_t start = now_ns();
	uint64_t done = 0;
	struct sample chunk = *sample;
	double seconds = 0;

	chunk.n = PENDING_CHUNK;
	while (
	    done < sample->n && seconds_since(start) < PENDING_LIMIT_MS / 1e3) {
		double more = run_pairs(&chunk);

		if (more < 0)
			return -1;
		seconds += more;
		done += chunk.n;
	}
	return seconds * (double)sample->n / (double)done;
}

/* The seconds of `n` pairs on a stream while `count` of its blocks are
 * pending. */
static double
run_pending(const struct sample *sample)
{
	const struct peer *peer = sample->peer;
	weir_stream stream = gpu.streams[0];
	void *blocks[PENDING + 1] = { NULL };
	unsigned count = sample->about->count;
	unsigned filled = 0;
	double seconds = -1;

	/* One block more than will be pending, so that one can be reused. */
	while (filled <= count &&
	    (blocks[filled] = peer->malloc(SIZE, stream)) != NULL)
		filled++;
	if (filled <= count) {
		while (filled > 0)
			peer->free(blocks[--filled], stream);
		return -1;
	}
	peer->free(blocks[count], stream);
	if (count == 0)
		return pairs_in_time(sample);
	if (make_pending(peer, blocks)) {
		seconds = pairs_in_time(sample);
		if (!gpu_is_busy(gpu.streams[PENDING_STREAMS])) {
			sample->session->why =
			    "the blocks did not stay pending";
			seconds = -1;
		}
	}
	return gpu_wait() ? seconds : -1;
}

bool
bench_pending(struct session *session)
{
	struct bench_case about = {
		.name = "0 blocks",
		.run = run_pending,
		.kinds = PEER_WEIR | PEER_CACHING,
		.records = true,
		.rounds = session->quick ? PENDING_CHUNK : PENDING_PAIRS,
		.ops = 1,
		.size = SIZE,
	};

	if (!measure(session, &about))
		return false;
	about.name = "1,000 blocks";
	about.count = PENDING;
	return measure(session, &about);
}

/* ---- kernels ----------------------------------------------------------- */

/* Launch `count` kernels in turn on KERNEL_STREAMS streams, with a block for
 * each, and wait for all. */
static double
run_kernels(const struct sample *sample)
{
	const struct peer *peer = sample->peer;
	uint64_t start = gpu_now_ns();

	for (unsigned i = 0; i < sample->about->count; i++) {
		weir_stream stream = gpu.streams[i % KERNEL_STREAMS];
		void *block = peer->malloc(KERNEL_SIZE, stream);
		bool launched;

		if (block == NULL)
			return -1;
		launched = gpu_spin(stream, KERNEL_CLOCKS);
		peer->free(block, stream);
		if (!launched)
			return -1;
	}
	if (!gpu_wait())
		return -1;
	return (double)(gpu_now_ns() - start) / 1e9;
}

bool
bench_kernels(struct session *session)
{
	struct bench_case about = {
		.name = "warm",
		.run = run_kernels,
		.kinds = PEER_DEVICE | PEER_NONE,
		.rounds = 1,
		.ops = 1,
		.unit = UNIT_MS,
		.count = session->quick ? 8 : 128,
	};

	if (!measure(session, &about))
		return false;
	about.name = "cold";
	about.cold = true;
	return measure(session, &about);
}
