/*
 * A pipeline of producers and consumers on a GPU, written as for any allocator.
 *
 * Producers, each a thread with its own stream, make batches: upload a pattern,
 * fill an offset, add the two. Consumers, with their own streams, copy each
 * batch, bring it back to the host and compare every word. Batches wait in a
 * short queue between them, with an event that marks when the data is ready.
 * Nothing is kept for the next batch: each allocates and frees its memory, some
 * of it while work on it is still queued, as cudaFree() and cudaFreeAsync()
 * allow, and some on another stream than it was allocated for.
 *
 *	pipeline [BATCHES [PAIRS]]
 *
 * Each of PAIRS (default 2) producers makes BATCHES (default 200). Exit status
 * 0 if every word is right, 1 if not, 2 for wrong arguments.
 */
#include <cuda_runtime.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kernels.h"

enum {
	QUEUE_LENGTH = 8,
	PAIRS_MAX = 16,
	BATCHES_MAX = 1000000,
	WORDS_MAX = 1 << 18,
	WORK_NS = 20000, /* the rest of a batch's computing */
};

struct batch {
	uint32_t *data; /* device; from cudaMallocAsync() */
	size_t words;
	uint32_t seed;
	cudaEvent_t ready;
};

/* Between producers and consumers. */
static struct {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct batch batches[QUEUE_LENGTH];
	int count;
	int producers; /* still at work */
} queue = { .lock = PTHREAD_MUTEX_INITIALIZER,
	.changed = PTHREAD_COND_INITIALIZER };

/* The results of one thread. */
struct worker {
	pthread_t thread;
	unsigned number;
	unsigned batches; /* produced or consumed */
	uint64_t allocations;
	uint64_t words;
	uint64_t wrong;
};

static void
check(cudaError_t error, const char *what)
{
	if (error == cudaSuccess)
		return;
	fprintf(stderr, "pipeline: %s: %s\n", what, cudaGetErrorString(error));
	exit(1);
}

#define CHECK(call) check((call), #call)

/* ---- Numbers ----------------------------------------------------------- */

/* A hash: equal for equal input, and spread over all 32 bits. */
static uint32_t
mix(uint32_t x)
{
	x ^= x >> 16;
	x *= 0x7feb352du;
	x ^= x >> 15;
	x *= 0x846ca68bu;
	x ^= x >> 16;
	return x;
}

/* Small and large batches alike: any power of two, and anything below it. */
static size_t
batch_words(uint32_t seed)
{
	uint32_t limit = (uint32_t)WORDS_MAX >> (mix(seed) % 16);

	return 1 + mix(seed + 1) % limit;
}

static uint32_t
pattern(uint32_t seed, size_t i)
{
	return seed * 2654435761u + (uint32_t)i;
}

static uint32_t
offset_of(uint32_t seed)
{
	return mix(seed + 2);
}

/* ---- The queue --------------------------------------------------------- */

static void
put(struct batch batch)
{
	pthread_mutex_lock(&queue.lock);
	while (queue.count == QUEUE_LENGTH)
		pthread_cond_wait(&queue.changed, &queue.lock);
	queue.batches[queue.count++] = batch;
	pthread_cond_broadcast(&queue.changed);
	pthread_mutex_unlock(&queue.lock);
}

static void
leave(void)
{
	pthread_mutex_lock(&queue.lock);
	queue.producers--;
	pthread_cond_broadcast(&queue.changed);
	pthread_mutex_unlock(&queue.lock);
}

/* False when all batches are done. */
static int
take(struct batch *batch)
{
	int taken;

	pthread_mutex_lock(&queue.lock);
	while (queue.count == 0 && queue.producers > 0)
		pthread_cond_wait(&queue.changed, &queue.lock);
	taken = queue.count > 0;
	if (taken) {
		*batch = queue.batches[0];
		queue.count--;
		memmove(queue.batches, queue.batches + 1,
		    (size_t)queue.count * sizeof(*batch));
		pthread_cond_broadcast(&queue.changed);
	}
	pthread_mutex_unlock(&queue.lock);
	return taken;
}

/* ---- Producers --------------------------------------------------------- */

/* data[i] = pattern(seed, i) + offset_of(seed), queued on the stream. */
static struct batch
make(uint32_t seed, uint32_t *host, cudaStream_t stream)
{
	struct batch batch = { .seed = seed, .words = batch_words(seed) };
	size_t bytes = batch.words * sizeof(uint32_t);
	uint32_t *uploaded;
	uint32_t *offset;

	for (size_t i = 0; i < batch.words; i++)
		host[i] = pattern(seed, i);
	CHECK(cudaMalloc((void **)&uploaded, bytes));
	CHECK(cudaMallocAsync((void **)&offset, bytes, stream));
	CHECK(cudaMallocAsync((void **)&batch.data, bytes, stream));
	CHECK(cudaMemcpyAsync(
	    uploaded, host, bytes, cudaMemcpyHostToDevice, stream));
	CHECK(launch_sleep(WORK_NS, stream));
	CHECK(launch_fill(offset, offset_of(seed), batch.words, stream));
	CHECK(launch_add(batch.data, uploaded, offset, batch.words, stream));
	CHECK(cudaFreeAsync(offset, stream));
	CHECK(cudaEventCreateWithFlags(&batch.ready, cudaEventDisableTiming));
	CHECK(cudaEventRecord(batch.ready, stream));
	/* The addition may not have begun. */
	CHECK(cudaFree(uploaded));
	/* The pattern is about to be overwritten, so wait for the copy. */
	CHECK(cudaEventSynchronize(batch.ready));
	return batch;
}

static void *
produce(void *argument)
{
	struct worker *worker = argument;
	cudaStream_t stream;
	uint32_t *host;

	CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	CHECK(cudaMallocHost((void **)&host, WORDS_MAX * sizeof(uint32_t)));
	for (uint32_t i = 0; i < worker->batches; i++) {
		struct batch batch =
		    make(worker->number << 20 | i, host, stream);

		worker->allocations += 3;
		worker->words += batch.words;
		put(batch);
	}
	leave();
	CHECK(cudaFreeHost(host));
	CHECK(cudaStreamDestroy(stream));
	return NULL;
}

/* ---- Consumers --------------------------------------------------------- */

static uint64_t
wrong_words(const struct batch *batch, const uint32_t *host)
{
	uint32_t offset = offset_of(batch->seed);
	uint64_t wrong = 0;

	for (size_t i = 0; i < batch->words; i++)
		wrong += host[i] != pattern(batch->seed, i) + offset;
	return wrong;
}

/* The batch is freed on this stream, not on the one it was made on. */
static uint64_t
use(const struct batch *batch, uint32_t *host, cudaStream_t stream)
{
	size_t bytes = batch->words * sizeof(uint32_t);
	uint32_t *copied;

	CHECK(cudaStreamWaitEvent(stream, batch->ready, 0));
	CHECK(cudaMalloc((void **)&copied, bytes));
	CHECK(launch_copy(copied, batch->data, batch->words, stream));
	CHECK(cudaFreeAsync(batch->data, stream));
	CHECK(cudaMemcpyAsync(
	    host, copied, bytes, cudaMemcpyDeviceToHost, stream));
	CHECK(cudaFree(copied));
	CHECK(cudaStreamSynchronize(stream));
	CHECK(cudaEventDestroy(batch->ready));
	return wrong_words(batch, host);
}

static void *
consume(void *argument)
{
	struct worker *worker = argument;
	struct batch batch;
	cudaStream_t stream;
	uint32_t *host;

	CHECK(cudaStreamCreate(&stream));
	CHECK(cudaMallocHost((void **)&host, WORDS_MAX * sizeof(uint32_t)));
	while (take(&batch)) {
		worker->batches++;
		worker->allocations++;
		worker->words += batch.words;
		worker->wrong += use(&batch, host, stream);
	}
	CHECK(cudaFreeHost(host));
	CHECK(cudaStreamDestroy(stream));
	return NULL;
}

/* ---- The program ------------------------------------------------------- */

static void
usage(void)
{
	fprintf(stderr,
	    "usage: pipeline [BATCHES [PAIRS]]\n"
	    "BATCHES from 1 to 1000000, PAIRS from 1 to 16\n");
	exit(2);
}

/* A whole number from 1 to max, or exit. */
static unsigned
number(const char *text, unsigned max)
{
	char *end;
	unsigned long value = strtoul(text, &end, 10);

	if (*text == '\0' || *end != '\0' || value == 0 || value > max)
		usage();
	return (unsigned)value;
}

static void
run(struct worker *workers, unsigned pairs, unsigned batches)
{
	queue.producers = (int)pairs;
	for (unsigned i = 0; i < 2 * pairs; i++) {
		int producer = i < pairs;

		workers[i].number = i;
		workers[i].batches = producer ? batches : 0;
		if (pthread_create(&workers[i].thread, NULL,
			producer ? produce : consume, &workers[i]) != 0) {
			fprintf(stderr, "pipeline: no thread\n");
			exit(1);
		}
	}
	for (unsigned i = 0; i < 2 * pairs; i++)
		pthread_join(workers[i].thread, NULL);
}

static double
seconds_since(const struct timespec *start)
{
	struct timespec now;

	timespec_get(&now, TIME_UTC);
	return (double)(now.tv_sec - start->tv_sec) +
	    (double)(now.tv_nsec - start->tv_nsec) * 1e-9;
}

int
main(int argc, char **argv)
{
	static struct worker workers[2 * PAIRS_MAX];
	unsigned batches = argc > 1 ? number(argv[1], BATCHES_MAX) : 200;
	unsigned pairs = argc > 2 ? number(argv[2], PAIRS_MAX) : 2;
	struct worker total = { .number = 0 };
	struct cudaDeviceProp properties;
	struct timespec start;

	if (argc > 3)
		usage();
	CHECK(cudaGetDeviceProperties(&properties, 0));
	printf("device      %s\n", properties.name);
	timespec_get(&start, TIME_UTC);
	run(workers, pairs, batches);
	CHECK(cudaDeviceSynchronize());
	for (unsigned i = 0; i < 2 * pairs; i++) {
		total.allocations += workers[i].allocations;
		if (i < pairs)
			continue;
		total.batches += workers[i].batches;
		total.words += workers[i].words;
		total.wrong += workers[i].wrong;
	}
	printf("threads     %u, each with a stream\n", 2 * pairs);
	printf("batches     %u, %.1f MiB\n", total.batches,
	    (double)total.words * sizeof(uint32_t) / (1 << 20));
	printf("allocations %llu, all freed\n",
	    (unsigned long long)total.allocations);
	printf("wrong words %llu\n", (unsigned long long)total.wrong);
	fflush(stdout);
	fprintf(stderr, "pipeline: %.3f s\n", seconds_since(&start));
	return total.wrong == 0 && total.batches == pairs * batches ? 0 : 1;
}
