/*
 * Page-locked host memory: the cost of a cached pair and of the first
 * gigabytes, and the memory that is held for the loader of a training. And the
 * peers of such memory, which have no streams.
 */
#include <weir/host.h>

#include "tools/bench/bench.h"
#include "tools/bench/gpu.h"

enum { KIB = 1 << 10, MIB = 1 << 20 };

/* ---- Peers ------------------------------------------------------------- */

static void *
pinned_malloc(size_t size, weir_stream stream)
{
	(void)stream;
	return weir_host_malloc(size);
}

static void
pinned_free(void *block, weir_stream stream)
{
	(void)stream;
	weir_host_free(block);
}

static void
pinned_trim(void)
{
	weir_host_trim(0, 0, NULL);
}

static uint64_t
pinned_held(void)
{
	struct weir_stats stats = { .struct_size = sizeof(stats) };

	return weir_host_stats(0, &stats) == WEIR_OK ?
	    stats.reserved_bytes.all.current :
	    0;
}

static bool
register_on(void)
{
	return weir_options_set("pinned_source:system,"
				"pinned_num_register_threads:8") == WEIR_OK;
}

static void
register_off(void)
{
	weir_options_set("pinned_source:handles,"
			 "pinned_num_register_threads:1");
}

static uint64_t host_alloc_bytes;

static size_t
to_pages(size_t size)
{
	return (size + 4095) & ~(size_t)4095;
}

/* The first bytes of a block have its size until it is freed. The benchmarks
 * write to no block. */
static void *
host_alloc_malloc(size_t size, weir_stream stream)
{
	void *block;

	(void)stream;
	if (!gpu_ok(gpu.cuMemHostAlloc(&block, to_pages(size), 0)))
		return NULL;
	host_alloc_bytes += to_pages(size);
	*(size_t *)block = to_pages(size);
	return block;
}

static void
host_alloc_free(void *block, weir_stream stream)
{
	(void)stream;
	host_alloc_bytes -= *(size_t *)block;
	gpu.cuMemFreeHost(block);
}

static uint64_t
host_alloc_held(void)
{
	return host_alloc_bytes;
}

const struct peer peer_pinned = {
	.name = "weir-pinned",
	.what = "weir's page-locked host memory",
	.kind = PEER_PINNED,
	.malloc = pinned_malloc,
	.free = pinned_free,
	.trim = pinned_trim,
	.held = pinned_held,
};

const struct peer peer_registered = {
	.name = "weir-registered",
	.what = "weir's, with pages that 8 threads touch and register",
	.kind = PEER_PINNED,
	.enter = register_on,
	.leave = register_off,
	.malloc = pinned_malloc,
	.free = pinned_free,
	.trim = pinned_trim,
	.held = pinned_held,
};

const struct peer peer_host_alloc = {
	.name = "cudaHostAlloc",
	.what = "cudaHostAlloc and cudaFreeHost",
	.kind = PEER_PINNED,
	.slow = true,
	.malloc = host_alloc_malloc,
	.free = host_alloc_free,
	.held = host_alloc_held,
};

/* ---- Cold -------------------------------------------------------------- */

/* The seconds of a malloc if nothing is cached. The thread is not pinned here,
 * because the threads that weir starts run on the same processors. */
static double
run_cold(const struct sample *sample)
{
	const struct peer *peer = sample->peer;

	unpin();
	uint64_t start = now_ns();
	void *block = peer->malloc(sample->about->size, NULL);
	double seconds = seconds_since(start);

	pin(0);
	if (block == NULL)
		return -1;
	peer->free(block, NULL);
	return seconds;
}

/* ---- A loader ---------------------------------------------------------- */

enum { BATCHES = 16, PARTS = 4, STEPS = 400, STEPS_QUICK = 60 };

/* Choose the sizes of a batch of images, labels and texts. Images have one of
 * five sizes, as in training at several scales. Texts are padded to the longest
 * one. */
static void
roll_batch(struct dice *dice, size_t sizes[PARTS])
{
	size_t side = 160 + 32 * (dice_roll(dice) % 5);
	size_t tokens = 64 + dice_roll(dice) % 1985;

	sizes[0] = 256 * 3 * side * side;
	sizes[1] = 256 * 8;
	sizes[2] = 64 * tokens * 8;
	sizes[3] = 64 * tokens;
}

struct loader {
	void *blocks[BATCHES][PARTS];
	size_t sizes[BATCHES][PARTS];
	size_t live;
	size_t most_live;
	uint64_t most_held;
};

static bool
replace_batch(struct loader *l, const struct sample *sample, struct dice *dice,
    uint64_t at)
{
	const struct peer *peer = sample->peer;

	for (int i = 0; i < PARTS; i++) {
		if (l->blocks[at][i] != NULL)
			peer->free(l->blocks[at][i], NULL);
		l->blocks[at][i] = NULL;
		l->live -= l->sizes[at][i];
		l->sizes[at][i] = 0;
	}
	size_t sizes[PARTS];
	roll_batch(dice, sizes);
	for (int i = 0; i < PARTS; i++) {
		l->blocks[at][i] = peer->malloc(sizes[i], NULL);
		if (l->blocks[at][i] == NULL)
			return false;
		l->sizes[at][i] = sizes[i];
		l->live += sizes[i];
	}
	if (l->live > l->most_live)
		l->most_live = l->live;
	if (sample->about->holds) {
		uint64_t held = peer->held();
		l->most_held = held > l->most_held ? held : l->most_held;
	}
	return true;
}

/* The seconds of the rounds and of freeing all blocks; or, for a case that
 * `holds`, the peak of held bytes over the peak of live bytes. */
static double
run_loader(const struct sample *sample)
{
	const struct peer *peer = sample->peer;
	struct loader l = { 0 };
	struct dice dice = { 1 };
	bool done = true;
	uint64_t start = now_ns();

	for (uint64_t i = 0; done && i < sample->n; i++)
		done = replace_batch(&l, sample, &dice, i % BATCHES);
	for (int at = 0; at < BATCHES; at++)
		for (int i = 0; i < PARTS; i++)
			if (l.blocks[at][i] != NULL)
				peer->free(l.blocks[at][i], NULL);
	double seconds = seconds_since(start);
	if (!done)
		return -1;
	return sample->about->holds ?
	    (double)l.most_held / (double)l.most_live :
	    seconds;
}

/* ---- Small blocks ------------------------------------------------------ */

enum { SMALLS = 4000, SMALL_LEAST = 8, ROUNDS_A_LOOK = 16 };

struct smalls {
	void *blocks[SMALLS];
	uint32_t sizes[SMALLS];
	size_t live;
	size_t most_live;
	uint64_t most_held;
};

static bool
replace_small(struct smalls *s, const struct sample *sample, struct dice *dice)
{
	const struct peer *peer = sample->peer;
	size_t at = dice_roll(dice) % SMALLS;

	if (s->blocks[at] != NULL)
		peer->free(s->blocks[at], NULL);
	s->live -= s->sizes[at];
	s->sizes[at] = (uint32_t)(SMALL_LEAST +
	    dice_roll(dice) % (sample->about->size - SMALL_LEAST + 1));
	s->blocks[at] = peer->malloc(s->sizes[at], NULL);
	if (s->blocks[at] == NULL)
		s->sizes[at] = 0;
	s->live += s->sizes[at];
	if (s->live > s->most_live)
		s->most_live = s->live;
	return s->blocks[at] != NULL;
}

/* Repeatedly replace one of many live blocks by one of another size. Returns a
 * figure like that of run_loader(). */
static double
run_small(const struct sample *sample)
{
	static struct smalls s;
	const struct peer *peer = sample->peer;
	struct dice dice = { 1 };
	bool done = true;

	s = (struct smalls){ 0 };
	uint64_t start = now_ns();
	for (uint64_t i = 0; done && i < sample->n; i++) {
		done = replace_small(&s, sample, &dice);
		if (!sample->about->holds || i % ROUNDS_A_LOOK != 0)
			continue;
		uint64_t held = peer->held();
		s.most_held = held > s.most_held ? held : s.most_held;
	}
	for (int i = 0; i < SMALLS; i++)
		if (s.blocks[i] != NULL)
			peer->free(s.blocks[i], NULL);
	double seconds = seconds_since(start);
	if (!done)
		return -1;
	return sample->about->holds ?
	    (double)s.most_held / (double)s.most_live :
	    seconds;
}

/* ---- All --------------------------------------------------------------- */

static bool
measure_pairs(struct session *session)
{
	static const struct bench_case sizes[] = {
		{ .name = "pair, 1000 B", .size = 1000 },
		{ .name = "pair, 4 KiB", .size = 4 * KIB },
		{ .name = "pair, 64 KiB", .size = 64 * KIB },
		{ .name = "pair, 1 MiB", .size = MIB },
		{ .name = "pair, 16 MiB", .size = 16 * MIB },
	};

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct bench_case about = sizes[i];

		about.run = run_pairs;
		about.kinds = PEER_PINNED;
		about.ops = 1;
		if (!measure(session, &about))
			return false;
	}
	return true;
}

static bool
measure_small(struct session *session)
{
	struct bench_case about = {
		.name = "8 B to 4 KiB, held for live",
		.run = run_small,
		.kinds = PEER_PINNED,
		.holds = true,
		.cold = true,
		.few = true,
		.rounds = session->quick ? 5 * SMALLS : 16 * SMALLS,
		.rounds_slow = SMALLS / 4,
		.ops = 1,
		.unit = UNIT_PERCENT,
		.size = 4 * KIB,
	};

	if (!measure(session, &about))
		return false;
	about.name = "8 B to 4 KiB, one replaced";
	about.holds = false;
	about.unit = UNIT_NS;
	return measure(session, &about);
}

bool
bench_pinned(struct session *session)
{
	unsigned steps = session->quick ? STEPS_QUICK : STEPS;
	/* The simulated device uses real host memory. */
	bool small = session->quick || session->simulated;
	const struct bench_case cases[] = {
		{ .name = small ? "cold, 64 MiB" : "cold, 8 GiB",
		    .run = run_cold,
		    .kinds = PEER_PINNED,
		    .cold = true,
		    .few = true,
		    .rounds = 1,
		    .unit = UNIT_MS,
		    .size = (size_t)(small ? 64 : 8192) * MIB },
		{ .name = "loader, held for live",
		    .run = run_loader,
		    .kinds = PEER_PINNED,
		    .holds = true,
		    .cold = true,
		    .few = true,
		    .rounds = steps,
		    .rounds_slow = STEPS_QUICK,
		    .unit = UNIT_PERCENT },
		{ .name = "loader, a batch",
		    .run = run_loader,
		    .kinds = PEER_PINNED,
		    .cold = true,
		    .few = true,
		    .rounds = steps,
		    .rounds_slow = STEPS_QUICK,
		    .ops = 1 },
	};

	if (!measure_pairs(session) || !measure_small(session))
		return false;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		if (!measure(session, &cases[i]))
			return false;
	return true;
}
