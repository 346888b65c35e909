/*
 * A program that captures graphs while memory is allocated and freed: before,
 * after and during a capture, in another thread, and on the captured stream
 * itself.
 */
#include <cuda_runtime.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BYTES = 1 << 16, CAPTURES = 20 };

static void
check(cudaError_t error, const char *what)
{
	if (error == cudaSuccess)
		return;
	fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
	exit(3);
}

#define CHECK(call) check((call), #call)

/* Memory is allocated and freed while another thread captures. */
static void *
allocate_beside(void *argument)
{
	cudaStream_t own = argument;
	void *ptr;

	for (int i = 1; i <= 50; i++) {
		CHECK(cudaMalloc(&ptr, (size_t)i * 3000));
		CHECK(cudaMemsetAsync(ptr, i, (size_t)i * 3000, own));
		CHECK(cudaFree(ptr));
		CHECK(cudaMallocAsync(&ptr, (size_t)i * 5000, own));
		CHECK(cudaFreeAsync(ptr, own));
	}
	return NULL;
}

static cudaGraph_t
capture(cudaStream_t stream, cudaStream_t beside, void *dst, void *src)
{
	enum cudaStreamCaptureStatus status;
	cudaGraph_t graph;
	pthread_t thread;

	CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
	CHECK(cudaMemsetAsync(src, 0x11, BYTES, stream));
	if (pthread_create(&thread, NULL, allocate_beside, beside) != 0)
		exit(3);
	pthread_join(thread, NULL);
	CHECK(
	    cudaMemcpyAsync(dst, src, BYTES, cudaMemcpyDeviceToDevice, stream));
	CHECK(cudaStreamIsCapturing(stream, &status));
	if (status != cudaStreamCaptureStatusActive)
		printf("the capture has been broken: %d\n", (int)status);
	CHECK(cudaStreamEndCapture(stream, &graph));
	return graph;
}

static size_t
replay(cudaGraph_t graph, cudaStream_t stream, void *dst)
{
	static unsigned char host[BYTES];
	cudaGraphExec_t exec;
	size_t wrong = 0;

	memset(host, 0, sizeof(host));
	CHECK(cudaGraphInstantiate(&exec, graph, 0));
	CHECK(cudaGraphLaunch(exec, stream));
	CHECK(
	    cudaMemcpyAsync(host, dst, BYTES, cudaMemcpyDeviceToHost, stream));
	CHECK(cudaStreamSynchronize(stream));
	CHECK(cudaGraphExecDestroy(exec));
	CHECK(cudaGraphDestroy(graph));
	for (size_t i = 0; i < BYTES; i++)
		wrong += host[i] != 0x11;
	return wrong;
}

/* Memory that is allocated and freed in a capture belongs to the graph, in each
 * of its runs. */
static cudaGraph_t
capture_memory(cudaStream_t stream, void *dst)
{
	cudaGraph_t graph;
	void *scratch;

	CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
	CHECK(cudaMallocAsync(&scratch, BYTES, stream));
	CHECK(cudaMemsetAsync(scratch, 0x11, BYTES, stream));
	CHECK(cudaMemcpyAsync(
	    dst, scratch, BYTES, cudaMemcpyDeviceToDevice, stream));
	CHECK(cudaFreeAsync(scratch, stream));
	CHECK(cudaStreamEndCapture(stream, &graph));
	return graph;
}

/* A capture that fails ends as well. */
static void
spoil(cudaStream_t stream)
{
	cudaGraph_t graph = NULL;
	cudaError_t error;

	CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
	error = cudaStreamSynchronize(stream);
	printf("waiting in a capture: %s\n", cudaGetErrorName(error));
	error = cudaStreamEndCapture(stream, &graph);
	printf("its end: %s\n", cudaGetErrorName(error));
	cudaGetLastError();
}

int
main(void)
{
	cudaStream_t stream;
	cudaStream_t beside;
	size_t wrong = 0;
	void *src;
	void *dst;

	CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	CHECK(cudaStreamCreateWithFlags(&beside, cudaStreamNonBlocking));
	for (int i = 0; i < CAPTURES; i++) {
		CHECK(cudaMalloc(&src, BYTES));
		CHECK(cudaMallocAsync(&dst, BYTES, stream));
		wrong += replay(capture(stream, beside, dst, src), stream, dst);
		CHECK(cudaMemsetAsync(dst, 0, BYTES, stream));
		wrong += replay(capture_memory(stream, dst), stream, dst);
		CHECK(cudaFreeAsync(dst, stream));
		CHECK(cudaFree(src));
	}
	spoil(stream);
	allocate_beside(beside);
	CHECK(cudaStreamDestroy(stream));
	CHECK(cudaStreamDestroy(beside));
	CHECK(cudaDeviceSynchronize());
	printf("wrong bytes: %zu\n", wrong);
	return wrong != 0;
}
