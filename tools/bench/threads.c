/*
 * Several threads: pairs in each thread, and blocks that one thread allocates
 * and another frees.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "tools/bench/bench.h"
#include "tools/bench/gpu.h"

enum {
	SIZE = 64 << 10,
	WARM_UP = 64, /* pairs of each thread before the measurement */
	SPINS = 1000, /* before a yield to other threads */
	CACHE_LINE = 64,
	RING_SLOTS = 1024,
	RING_STEP = 32, /* slots handed over at once */
};

/* A barrier: threads wait until all have reached it. */
struct gate {
	atomic_uint missing;
	atomic_bool broken; /* a thread could not start or failed */
};

static bool
gate_pass(struct gate *gate)
{
	unsigned spins = 0;

	atomic_fetch_sub(&gate->missing, 1);
	while (atomic_load_explicit(&gate->missing, memory_order_acquire) > 0) {
		if (atomic_load(&gate->broken))
			return false;
		if (++spins % SPINS == 0)
			sched_yield();
	}
	return true;
}

/*
 * A ring from one producer to one consumer. Each side publishes its place only
 * once in RING_STEP slots, and reads the other's place only when it must. So
 * the ring costs little compared with the measured calls.
 */
struct ring {
	_Alignas(CACHE_LINE) atomic_size_t filled;   /* by the producer */
	_Alignas(CACHE_LINE) atomic_size_t consumed; /* by the consumer */
	_Alignas(CACHE_LINE) void *slots[RING_SLOTS];
};

struct worker {
	_Alignas(CACHE_LINE) pthread_t thread;
	const struct sample *sample;
	struct gate *gate;
	struct ring *ring; /* NULL: the thread does pairs */
	bool consumes;
	unsigned index;
	weir_stream stream;
	uint64_t start_ns;
	uint64_t end_ns;
	bool done;
};

/* ---- Work -------------------------------------------------------------- */

static bool
pairs_in_thread(const struct peer *peer, weir_stream stream, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++) {
		void *block = peer->malloc(SIZE, stream);

		if (block == NULL)
			return false;
		peer->free(block, stream);
	}
	return true;
}

/* Wait until the other side's place is at least `wanted`. Returns the place. */
static size_t
await_place(const atomic_size_t *place, size_t wanted)
{
	unsigned spins = 0;
	size_t now;

	while (
	    (now = atomic_load_explicit(place, memory_order_acquire)) < wanted)
		if (++spins % SPINS == 0)
			sched_yield();
	return now;
}

/* Put blocks into the ring. NULL in the ring means that no more will follow. */
static bool
produce_blocks(struct worker *worker)
{
	const struct peer *peer = worker->sample->peer;
	struct ring *ring = worker->ring;
	size_t n = worker->sample->n;
	size_t consumed = 0;

	for (size_t i = 0; i < n; i++) {
		void *block = peer->malloc(SIZE, worker->stream);

		if (i - consumed == RING_SLOTS)
			consumed =
			    await_place(&ring->consumed, i + 1 - RING_SLOTS);
		ring->slots[i % RING_SLOTS] = block;
		if ((i + 1) % RING_STEP == 0 || i + 1 == n || block == NULL)
			atomic_store_explicit(
			    &ring->filled, i + 1, memory_order_release);
		if (block == NULL)
			return false;
	}
	return true;
}

static bool
consume_blocks(struct worker *worker)
{
	const struct peer *peer = worker->sample->peer;
	struct ring *ring = worker->ring;
	size_t n = worker->sample->n;
	size_t filled = 0;

	for (size_t i = 0; i < n; i++) {
		void *block;

		if (i == filled)
			filled = await_place(&ring->filled, i + 1);
		block = ring->slots[i % RING_SLOTS];
		if ((i + 1) % RING_STEP == 0)
			atomic_store_explicit(
			    &ring->consumed, i + 1, memory_order_release);
		if (block == NULL)
			return false;
		peer->free(block, worker->stream);
	}
	return true;
}

static void *
run_worker(void *argument)
{
	struct worker *worker = argument;
	const struct sample *sample = worker->sample;
	bool ready;

	pin(worker->index);
	ready = weir_set_device(0) == WEIR_OK &&
	    pairs_in_thread(sample->peer, worker->stream, WARM_UP);
	if (!ready)
		atomic_store(&worker->gate->broken, true);
	if (!gate_pass(worker->gate) || !ready)
		return NULL;
	worker->start_ns = now_ns();
	if (worker->ring == NULL)
		worker->done =
		    pairs_in_thread(sample->peer, worker->stream, sample->n);
	else if (worker->consumes)
		worker->done = consume_blocks(worker);
	else
		worker->done = produce_blocks(worker);
	worker->end_ns = now_ns();
	return NULL;
}

/* ---- Threads ----------------------------------------------------------- */

/* The seconds from the first start to the last end. */
static double
seconds_of_workers(const struct worker *workers, unsigned count)
{
	uint64_t start = UINT64_MAX;
	uint64_t end = 0;

	for (unsigned i = 0; i < count; i++) {
		if (!workers[i].done)
			return -1;
		if (workers[i].start_ns < start)
			start = workers[i].start_ns;
		if (workers[i].end_ns > end)
			end = workers[i].end_ns;
	}
	return (double)(end - start) / 1e9;
}

static double
run_workers(struct worker *workers, unsigned count)
{
	struct gate gate = { count, false };
	unsigned started;

	/* Threads may start on any processor; each pins itself. */
	unpin();
	for (started = 0; started < count; started++) {
		struct worker *worker = &workers[started];

		worker->gate = &gate;
		worker->index = count <= processors() ? started : UINT32_MAX;
		if (pthread_create(&worker->thread, NULL, run_worker, worker) !=
		    0) {
			atomic_store(&gate.broken, true);
			break;
		}
	}
	for (unsigned i = 0; i < started; i++)
		pthread_join(workers[i].thread, NULL);
	pin(0);
	return started == count ? seconds_of_workers(workers, count) : -1;
}

/* Run `count` threads with `n` pairs each, on streams of their own; or, with
 * `shared`, on one stream. */
static double
run_threads(const struct sample *sample)
{
	struct worker workers[THREADS_MAX] = { 0 };

	for (unsigned i = 0; i < sample->about->count; i++) {
		workers[i].sample = sample;
		workers[i].stream = gpu.streams[sample->about->shared ? 0 : i];
	}
	return run_workers(workers, sample->about->count);
}

/* Run `count` producers and as many consumers. Each producer hands `n` blocks
 * to its consumer. */
static double
run_handover(const struct sample *sample)
{
	unsigned count = sample->about->count;
	struct worker workers[THREADS_MAX] = { 0 };
	struct ring *rings = aligned_alloc(CACHE_LINE, count * sizeof(*rings));
	double seconds;

	if (rings == NULL)
		return -1;
	for (unsigned i = 0; i < 2 * count; i++) {
		atomic_init(&rings[i / 2].filled, 0);
		atomic_init(&rings[i / 2].consumed, 0);
		workers[i].sample = sample;
		workers[i].stream = gpu.streams[i / 2];
		workers[i].ring = &rings[i / 2];
		workers[i].consumes = i % 2 == 1;
	}
	seconds = run_workers(workers, 2 * count);
	free(rings);
	return seconds;
}

/* Measure a case for each power of two up to `max`. Its name is the count and
 * `detail`, as in "4, own streams". */
static bool
each_count(struct session *session, struct bench_case *about, unsigned max,
    const char *detail)
{
	for (unsigned count = 1; count <= max; count *= 2) {
		char name[64];

		snprintf(name, sizeof(name), "%u%s", count, detail);
		about->name = name;
		about->count = count;
		about->ops = count;
		if (!measure(session, about))
			return false;
	}
	return true;
}

bool
bench_threads(struct session *session)
{
	struct bench_case about = {
		.run = run_threads,
		.kinds = PEER_HERE,
		.unit = UNIT_MILLION,
	};
	unsigned max = session->quick ? 2 : THREADS_MAX;

	if (!each_count(session, &about, max, ", own streams"))
		return false;
	about.shared = true;
	return each_count(session, &about, max, ", one stream");
}

bool
bench_handover(struct session *session)
{
	struct bench_case about = {
		.run = run_handover,
		.kinds = PEER_HERE,
		.unit = UNIT_MILLION,
	};

	return each_count(
	    session, &about, session->quick ? 1 : THREADS_MAX / 2, "");
}
