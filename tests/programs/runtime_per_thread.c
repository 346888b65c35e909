/*
 * A program compiled so that stream 0 is the calling thread's own: threads pass
 * memory to each other, allocated on one such stream and freed on another.
 */
#define CUDA_API_PER_THREAD_DEFAULT_STREAM 1
#include <cuda_runtime.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { THREADS = 4, ROUNDS = 100, BYTES = 40000 };

static void
check(cudaError_t error, const char *what)
{
	if (error == cudaSuccess)
		return;
	fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
	exit(3);
}

#define CHECK(call) check((call), #call)

/* The place between two neighbours in the ring of threads. */
static struct place {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	void *memory; /* NULL: empty */
} places[THREADS];

struct work {
	pthread_t thread;
	int number;
	unsigned wrong;
};

static void
put(struct place *place, void *memory)
{
	pthread_mutex_lock(&place->lock);
	while (place->memory != NULL)
		pthread_cond_wait(&place->changed, &place->lock);
	place->memory = memory;
	pthread_cond_signal(&place->changed);
	pthread_mutex_unlock(&place->lock);
}

static void *
take(struct place *place)
{
	void *memory;

	pthread_mutex_lock(&place->lock);
	while (place->memory == NULL)
		pthread_cond_wait(&place->changed, &place->lock);
	memory = place->memory;
	place->memory = NULL;
	pthread_cond_signal(&place->changed);
	pthread_mutex_unlock(&place->lock);
	return memory;
}

static unsigned
wrong_bytes(const void *memory, int value)
{
	static _Thread_local unsigned char host[BYTES];
	unsigned wrong = 0;

	CHECK(cudaMemcpyAsync(host, memory, BYTES, cudaMemcpyDeviceToHost, 0));
	CHECK(cudaStreamSynchronize(0));
	for (int i = 0; i < BYTES; i++)
		wrong += host[i] != value;
	return wrong;
}

static void *
run(void *argument)
{
	struct work *work = argument;
	struct place *left = &places[work->number];
	struct place *right = &places[(work->number + 1) % THREADS];

	for (int i = 0; i < ROUNDS; i++) {
		void *scratch;
		void *memory;

		CHECK(cudaMallocAsync(&memory, BYTES, 0));
		CHECK(cudaMallocAsync(&scratch, BYTES, 0));
		CHECK(cudaMemsetAsync(scratch, i, BYTES, 0));
		CHECK(cudaMemcpyAsync(
		    memory, scratch, BYTES, cudaMemcpyDeviceToDevice, 0));
		CHECK(cudaFreeAsync(scratch, 0));
		CHECK(cudaStreamSynchronize(0));
		put(right, memory);
		memory = take(left);
		work->wrong += wrong_bytes(memory, i);
		CHECK(cudaFreeAsync(memory, 0));
	}
	return NULL;
}

int
main(void)
{
	struct work all[THREADS] = { { 0 } };
	unsigned wrong = 0;

	for (int i = 0; i < THREADS; i++) {
		pthread_mutex_init(&places[i].lock, NULL);
		pthread_cond_init(&places[i].changed, NULL);
	}
	for (int i = 0; i < THREADS; i++) {
		all[i].number = i;
		if (pthread_create(&all[i].thread, NULL, run, &all[i]) != 0)
			return 3;
	}
	for (int i = 0; i < THREADS; i++) {
		pthread_join(all[i].thread, NULL);
		wrong += all[i].wrong;
	}
	printf("wrong bytes: %u\n", wrong);
	return wrong != 0;
}
