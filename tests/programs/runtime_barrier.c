/*
 * Results are copied to the host and a block is freed, and between them is a
 * wait of the kind that the argument names:
 *
 *	free		none: a reader of the results relies on cudaFree()
 *	stream, device, event, query, callback
 *			for that
 *	after		as stream, but after the free
 *	pageable	none, but the copy is to memory that is not pinned
 *	thread		as stream, but another thread waits
 *
 * The copied results are not checked: with a wait they are certain, and without
 * one they are not.
 */
#include <cuda_runtime.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 10, BYTES = 64 << 10 };

static cudaStream_t stream;
static cudaEvent_t event;
static const char *kind = "free";

static void
check(cudaError_t error, const char *what)
{
	if (error == cudaSuccess)
		return;
	fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
	exit(3);
}

#define CHECK(call) check((call), #call)

static bool
is(const char *name)
{
	return strcmp(kind, name) == 0;
}

static void *
wait_elsewhere(void *unused)
{
	CHECK(cudaStreamSynchronize(stream));
	return unused;
}

static void
called_back(void *unused)
{
	(void)unused;
}

static void
wait_for_it(void)
{
	pthread_t thread;

	if (is("stream") || is("after"))
		CHECK(cudaStreamSynchronize(stream));
	else if (is("device"))
		CHECK(cudaDeviceSynchronize());
	else if (is("event"))
		CHECK(cudaEventSynchronize(event));
	else if (is("callback"))
		CHECK(cudaLaunchHostFunc(stream, called_back, NULL));
	else if (is("query"))
		while (cudaStreamQuery(stream) != cudaSuccess)
			;
	else if (is("thread") &&
	    (pthread_create(&thread, NULL, wait_elsewhere, NULL) != 0 ||
		pthread_join(thread, NULL) != 0))
		exit(3);
}

static void
turn(void *to)
{
	void *results;
	void *scratch;

	CHECK(cudaMalloc(&results, BYTES));
	CHECK(cudaMalloc(&scratch, BYTES));
	CHECK(cudaMemsetAsync(results, 1, BYTES, stream));
	CHECK(cudaMemcpyAsync(
	    to, results, BYTES, cudaMemcpyDeviceToHost, stream));
	CHECK(cudaEventRecord(event, stream));
	if (!is("after"))
		wait_for_it();
	CHECK(cudaFree(scratch));
	if (is("after"))
		wait_for_it();
	CHECK(cudaFree(results));
}

int
main(int argc, char **argv)
{
	static char pageable[BYTES];
	void *pinned;

	if (argc > 1)
		kind = argv[1];
	CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	CHECK(cudaEventCreate(&event));
	CHECK(cudaMallocHost(&pinned, BYTES));
	for (int i = 0; i < ROUNDS; i++)
		turn(is("pageable") ? pageable : pinned);
	printf("rounds: %d\n", ROUNDS);
	return 0;
}
