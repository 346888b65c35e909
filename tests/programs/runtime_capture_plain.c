/*
 * A program that allocates plain memory, and frees some, on the thread that
 * captures a graph, in each mode of capture. The driver refuses both calls in
 * all modes but the relaxed one, and breaks the capture.
 */
#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BYTES = 24 << 20, SMALL = 4096 };

static cudaStream_t stream;

static void
check(cudaError_t error, const char *what)
{
	if (error == cudaSuccess)
		return;
	fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
	exit(3);
}

#define CHECK(call) check((call), #call)

/* The graph writes the expected words. */
static size_t
replay(cudaGraph_t graph, const void *memory)
{
	unsigned char *host = malloc(BYTES);
	cudaGraphExec_t exec;
	size_t wrong = 0;

	if (host == NULL)
		exit(3);
	CHECK(cudaGraphInstantiate(&exec, graph, 0));
	CHECK(cudaGraphLaunch(exec, stream));
	CHECK(cudaMemcpyAsync(
	    host, memory, BYTES, cudaMemcpyDeviceToHost, stream));
	CHECK(cudaStreamSynchronize(stream));
	CHECK(cudaGraphExecDestroy(exec));
	for (size_t i = 0; i < BYTES; i++)
		wrong += host[i] != 0x2a;
	free(host);
	return wrong;
}

static size_t
try_mode(const char *name, enum cudaStreamCaptureMode mode)
{
	enum cudaStreamCaptureStatus status;
	cudaError_t errors[4];
	cudaGraph_t graph = NULL;
	size_t wrong = 0;
	void *before;
	void *large = NULL;
	void *small = NULL;

	CHECK(cudaMalloc(&before, SMALL));
	CHECK(cudaMemsetAsync(before, 1, SMALL, stream));
	CHECK(cudaStreamBeginCapture(stream, mode));
	errors[0] = cudaMalloc(&large, BYTES);
	errors[1] = cudaFree(before);
	errors[2] = cudaMalloc(&small, SMALL);
	if (errors[0] == cudaSuccess)
		cudaMemsetAsync(large, 0x2a, BYTES, stream);
	if (cudaStreamIsCapturing(stream, &status) != cudaSuccess)
		status = cudaStreamCaptureStatusInvalidated;
	errors[3] = cudaStreamEndCapture(stream, &graph);
	printf("%s: malloc %s, free %s, malloc %s, the same %d, status %d, "
	       "end %s\n",
	    name, cudaGetErrorName(errors[0]), cudaGetErrorName(errors[1]),
	    cudaGetErrorName(errors[2]), small == before, (int)status,
	    cudaGetErrorName(errors[3]));
	cudaGetLastError();
	if (errors[3] == cudaSuccess) {
		wrong = replay(graph, large);
		CHECK(cudaGraphDestroy(graph));
	}
	if (errors[1] != cudaSuccess)
		CHECK(cudaFree(before));
	CHECK(cudaFree(large));
	CHECK(cudaFree(small));
	return wrong;
}

int
main(void)
{
	size_t wrong;

	CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	wrong = try_mode("global", cudaStreamCaptureModeGlobal);
	wrong += try_mode("thread", cudaStreamCaptureModeThreadLocal);
	wrong += try_mode("relaxed", cudaStreamCaptureModeRelaxed);
	CHECK(cudaStreamDestroy(stream));
	printf("wrong bytes: %zu\n", wrong);
	return wrong != 0;
}
