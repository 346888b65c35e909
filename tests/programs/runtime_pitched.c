/* A program with memory of two and three dimensions: the pitches that it gets,
 * rows and slices that are written, copied and read, and refused calls. */
#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void
check(cudaError_t error, const char *what)
{
	if (error == cudaSuccess)
		return;
	fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
	exit(3);
}

#define CHECK(call) check((call), #call)

static unsigned char
pattern(size_t x, size_t y, size_t z)
{
	return (unsigned char)(x * 7 + y * 13 + z * 31);
}

static unsigned char *
make_host(struct cudaExtent extent)
{
	unsigned char *host =
	    malloc(extent.width * extent.height * extent.depth);

	if (host == NULL)
		exit(3);
	return host;
}

static size_t
try_pitch(size_t width, size_t height)
{
	struct cudaExtent extent = make_cudaExtent(width, height, 1);
	unsigned char *host = make_host(extent);
	unsigned char *back = make_host(extent);
	size_t wrong = 0;
	size_t pitch;
	void *a;
	void *b;

	for (size_t y = 0; y < height; y++)
		for (size_t x = 0; x < width; x++)
			host[y * width + x] = pattern(x, y, 0);
	CHECK(cudaMallocPitch(&a, &pitch, width, height));
	CHECK(cudaMallocPitch(&b, &pitch, width, height));
	printf("%zu x %zu: pitch %zu, aligned %d\n", width, height, pitch,
	    (size_t)a % 256 == 0);
	CHECK(cudaMemset2D(b, pitch, 0xff, pitch, height));
	CHECK(cudaMemcpy2D(
	    a, pitch, host, width, width, height, cudaMemcpyHostToDevice));
	CHECK(cudaMemcpy2D(
	    b, pitch, a, pitch, width, height, cudaMemcpyDeviceToDevice));
	CHECK(cudaFree(a));
	memset(back, 0, width * height);
	CHECK(cudaMemcpy2D(
	    back, width, b, pitch, width, height, cudaMemcpyDeviceToHost));
	CHECK(cudaFree(b));
	for (size_t i = 0; i < width * height; i++)
		wrong += back[i] != host[i];
	free(host);
	free(back);
	return wrong;
}

static void
copy_volume(struct cudaPitchedPtr to, struct cudaPitchedPtr from,
    struct cudaExtent extent, enum cudaMemcpyKind kind)
{
	struct cudaMemcpy3DParms what;

	memset(&what, 0, sizeof(what));
	what.srcPtr = from;
	what.dstPtr = to;
	what.extent = extent;
	what.kind = kind;
	CHECK(cudaMemcpy3D(&what));
}

static size_t
try_volume(size_t width, size_t height, size_t depth)
{
	struct cudaExtent extent = make_cudaExtent(width, height, depth);
	unsigned char *host = make_host(extent);
	struct cudaPitchedPtr plain =
	    make_cudaPitchedPtr(host, width, width, height);
	struct cudaPitchedPtr a;
	struct cudaPitchedPtr b;
	size_t wrong = 0;

	for (size_t z = 0; z < depth; z++)
		for (size_t y = 0; y < height; y++)
			for (size_t x = 0; x < width; x++)
				host[(z * height + y) * width + x] =
				    pattern(x, y, z);
	CHECK(cudaMalloc3D(&a, extent));
	CHECK(cudaMalloc3D(&b, extent));
	printf("%zu x %zu x %zu: pitch %zu, %zu x %zu\n", width, height, depth,
	    a.pitch, a.xsize, a.ysize);
	CHECK(cudaMemset3D(b, 0xee, extent));
	copy_volume(a, plain, extent, cudaMemcpyHostToDevice);
	copy_volume(b, a, extent, cudaMemcpyDeviceToDevice);
	CHECK(cudaFree(a.ptr));
	memset(host, 0, width * height * depth);
	copy_volume(plain, b, extent, cudaMemcpyDeviceToHost);
	CHECK(cudaFree(b.ptr));
	for (size_t z = 0; z < depth; z++)
		for (size_t y = 0; y < height; y++)
			for (size_t x = 0; x < width; x++)
				wrong += host[(z * height + y) * width + x] !=
				    pattern(x, y, z);
	free(host);
	return wrong;
}

static void
try_errors(void)
{
	struct cudaPitchedPtr volume;
	size_t pitch = 1;
	void *ptr = &ptr;

	printf("no width: %s",
	    cudaGetErrorName(cudaMallocPitch(&ptr, &pitch, 0, 10)));
	printf(", %d, %zu\n", ptr == NULL, pitch);
	printf("no height: %s",
	    cudaGetErrorName(cudaMallocPitch(&ptr, &pitch, 10, 0)));
	printf(", %d\n", ptr == NULL);
	printf("nowhere: %s\n",
	    cudaGetErrorName(cudaMallocPitch(NULL, &pitch, 10, 10)));
	printf("too much: %s\n",
	    cudaGetErrorName(
		cudaMallocPitch(&ptr, &pitch, 1 << 20, (size_t)1 << 30)));
	printf("too much in three: %s\n",
	    cudaGetErrorName(cudaMalloc3D(
		&volume, make_cudaExtent(1 << 20, 1 << 15, 1 << 15))));
	CHECK(cudaMallocPitch(&ptr, &pitch, 100, 10));
	CHECK(cudaFree(ptr));
	printf("freed again: %s\n", cudaGetErrorName(cudaFree(ptr)));
	cudaGetLastError();
}

int
main(void)
{
	static const size_t widths[] = { 1, 4, 255, 256, 511, 512, 513, 1000,
		1024, 4095, 65537 };
	size_t wrong = 0;

	for (size_t i = 0; i < sizeof(widths) / sizeof(*widths); i++) {
		wrong += try_pitch(widths[i], 3 + i);
		wrong += try_volume(widths[i] % 1500 + 1, 5, 2 + i % 3);
	}
	try_errors();
	printf("wrong bytes: %zu\n", wrong);
	return wrong != 0;
}
