/*
 * One thread on one stream: pairs, batches, and replacements in random order.
 */
#include <stdlib.h>

#include "tools/bench/bench.h"
#include "tools/bench/gpu.h"

enum {
	KIB = 1 << 10,
	MIB = 1 << 20,
	GIB = 1 << 30,
	BATCH = 256,
	REPLACE_STEPS = 1 << 16,
	REPLACE_LIVE_MAX = 4096,
};

/* ---- pair -------------------------------------------------------------- */

double
run_pairs(const struct sample *sample)
{
	const struct peer *peer = sample->peer;
	weir_stream stream = gpu.streams[0];
	size_t size = sample->about->size;
	uint64_t start;

	if (peer->pairs != NULL)
		return peer->pairs(peer, size, sample->n);
	start = now_ns();
	for (uint64_t i = 0; i < sample->n; i++) {
		void *block = peer->malloc(size, stream);

		if (block == NULL)
			return -1;
		peer->free(block, stream);
	}
	return seconds_since(start);
}

bool
bench_pair(struct session *session)
{
	static const struct bench_case sizes[] = {
		{ .name = "512 B", .size = 512 },
		{ .name = "4 KiB", .size = 4 * KIB },
		{ .name = "64 KiB", .size = 64 * KIB },
		{ .name = "1 MiB", .size = MIB },
		{ .name = "2 MiB", .size = 2 * MIB },
		{ .name = "16 MiB", .size = 16 * MIB },
		{ .name = "128 MiB", .size = 128 * MIB },
		{ .name = "1 GiB", .size = GIB },
	};

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct bench_case about = sizes[i];

		about.run = run_pairs;
		about.kinds = PEER_HERE | PEER_CHILD;
		about.ops = 1;
		if (!measure(session, &about))
			return false;
	}
	return true;
}

/* ---- batch ------------------------------------------------------------- */

/* Allocate BATCH blocks, and free them in reverse order. */
static double
run_batch(const struct sample *sample)
{
	const struct peer *peer = sample->peer;
	weir_stream stream = gpu.streams[0];
	size_t size = sample->about->size;
	void *blocks[BATCH];
	uint64_t start = now_ns();

	for (uint64_t i = 0; i < sample->n; i++) {
		size_t live = 0;

		while (live < BATCH &&
		    (blocks[live] = peer->malloc(size, stream)) != NULL)
			live++;
		if (live < BATCH) {
			while (live > 0)
				peer->free(blocks[--live], stream);
			return -1;
		}
		while (live > 0)
			peer->free(blocks[--live], stream);
	}
	return seconds_since(start);
}

bool
bench_batch(struct session *session)
{
	static const struct bench_case sizes[] = {
		{ .name = "512 B", .size = 512 },
		{ .name = "64 KiB", .size = 64 * KIB },
		{ .name = "1 MiB", .size = MIB },
		{ .name = "16 MiB", .size = 16 * MIB },
	};

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct bench_case about = sizes[i];

		about.run = run_batch;
		about.kinds = PEER_HERE;
		about.ops = BATCH;
		if (!measure(session, &about))
			return false;
	}
	return true;
}

/* ---- replace ----------------------------------------------------------- */

/* A replacement of one block by another. Steps are made before the measurement,
 * so that the measured loop makes no random numbers. */
struct step {
	uint32_t slot; /* modulo the number of blocks */
	uint32_t size;
};

/* Make steps with sizes from 512 bytes to 16 MiB. All powers of two are equally
 * likely. */
static void
make_steps(struct step steps[REPLACE_STEPS])
{
	struct dice dice = { 1 };

	for (size_t i = 0; i < REPLACE_STEPS; i++) {
		uint64_t roll = dice_roll(&dice);
		uint32_t power = UINT32_C(512) << roll % 15;

		steps[i].slot = (uint32_t)(roll >> 32);
		steps[i].size = power + (uint32_t)(roll >> 8) % power;
	}
}

static uint64_t
replace_blocks(const struct sample *sample, void **live)
{
	const struct peer *peer = sample->peer;
	const struct step *steps = sample->about->data;
	uint32_t mask = sample->about->count - 1;
	weir_stream stream = gpu.streams[0];
	uint64_t i;

	for (i = 0; i < sample->n; i++) {
		const struct step *step = &steps[i % REPLACE_STEPS];
		uint32_t slot = step->slot & mask;

		peer->free(live[slot], stream);
		live[slot] = peer->malloc(step->size, stream);
		if (live[slot] == NULL)
			break;
	}
	return i;
}

/* Keep `count` blocks live, a power of two. Each step frees one of them and
 * allocates one of another size. */
static double
run_replace(const struct sample *sample)
{
	const struct peer *peer = sample->peer;
	const struct step *steps = sample->about->data;
	weir_stream stream = gpu.streams[0];
	unsigned count = sample->about->count;
	void *live[REPLACE_LIVE_MAX] = { NULL };
	double seconds = -1;
	unsigned filled = 0;
	uint64_t start;

	while (filled < count &&
	    (live[filled] = peer->malloc(steps[filled].size, stream)) != NULL)
		filled++;
	start = now_ns();
	if (filled == count && replace_blocks(sample, live) == sample->n)
		seconds = seconds_since(start);
	for (unsigned i = 0; i < count; i++)
		if (live[i] != NULL)
			peer->free(live[i], stream);
	return seconds;
}

bool
bench_replace(struct session *session)
{
	struct step *steps = calloc(REPLACE_STEPS, sizeof(*steps));
	struct bench_case about = {
		.name = "64 blocks",
		.run = run_replace,
		.kinds = PEER_HERE,
		.ops = 1,
		.count = 64,
		.data = steps,
	};
	bool done;

	if (steps == NULL)
		return false;
	make_steps(steps);
	done = measure(session, &about);
	about.name = session->quick ? "256 blocks" : "4,096 blocks";
	about.count = session->quick ? 256 : REPLACE_LIVE_MAX;
	done = done && measure(session, &about);
	free(steps);
	return done;
}
