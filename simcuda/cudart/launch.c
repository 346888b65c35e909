/*
 * Kernels: registered when the program starts, and loaded into a device when
 * one is first launched there, and again after a reset.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "simcuda/cudart/cudart.h"

/* One image of device code, loaded on the devices that use it. */
struct image {
	const struct cudaFatBinary *binary;
	CUmodule modules[RUNTIME_DEVICES];
	/* The device's resets when it was loaded. */
	unsigned resets[RUNTIME_DEVICES];
};

struct kernel {
	/* The address by which the program launches it. */
	const void *host_function;
	char *name;
	struct image *image;
	bool refused; /* the refusal was printed; guarded by the lock */
	struct kernel *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct kernel *kernels; /* guarded by the lock */

void **
__cudaRegisterFatBinary(void *binary)
{
	const struct cudaFatBinary *given = binary;
	struct image *image;

	if (given == NULL || given->magic != CUDA_FAT_BINARY_MAGIC)
		return NULL;
	image = calloc(1, sizeof(*image));
	if (image != NULL)
		image->binary = given;
	return (void **)image;
}

void
__cudaRegisterFatBinaryEnd(void **handle)
{
	(void)handle;
}

void
__cudaRegisterFunction(void **handle, const char *host_function,
    char *device_function, const char *device_name, int thread_limit, void *tid,
    void *bid, void *block, void *grid, int *warp_size)
{
	struct kernel *kernel = calloc(1, sizeof(*kernel));
	char *name = strdup(device_name);

	(void)device_function;
	(void)thread_limit;
	(void)tid;
	(void)bid;
	(void)block;
	(void)grid;
	(void)warp_size;
	/* The call cannot report a failure; the launch will fail. */
	if (handle == NULL || kernel == NULL || name == NULL) {
		free(kernel);
		free(name);
		return;
	}
	*kernel = (struct kernel){ .host_function = host_function,
		.name = name,
		.image = (struct image *)handle };
	pthread_mutex_lock(&lock);
	kernel->next = kernels;
	kernels = kernel;
	pthread_mutex_unlock(&lock);
}

void
__cudaUnregisterFatBinary(void **handle)
{
	struct image *image = (struct image *)handle;

	pthread_mutex_lock(&lock);
	for (struct kernel **k = &kernels; *k != NULL;) {
		struct kernel *kernel = *k;

		if (kernel->image != image) {
			k = &kernel->next;
			continue;
		}
		*k = kernel->next;
		free(kernel->name);
		free(kernel);
	}
	pthread_mutex_unlock(&lock);
	variables_forget(handle);
	free(image);
}

/* Is this a "fat binary", which nvcc puts into a program? */
static bool
is_compiled(const struct image *image)
{
	enum { MAGIC = 0xba55ed50 };
	uint32_t magic;

	memcpy(&magic, image->binary->data, sizeof(magic));
	return magic == (uint32_t)MAGIC;
}

/* There is no processor that could run it. The caller holds the lock. */
static cudaError_t
refuse_launch(struct kernel *kernel)
{
	if (!kernel->refused)
		fprintf(stderr,
		    "simcuda: kernel %s was compiled for a GPU and cannot run "
		    "here; calls that manage memory can.\n",
		    kernel->name);
	kernel->refused = true;
	return cudaErrorNotSupported;
}

/* The image's module on the device. The caller holds the lock. */
static CUresult
load_image(struct image *image, int device, CUmodule *out)
{
	unsigned resets = runtime_resets(device);
	CUresult code;

	if (image->modules[device] == NULL || image->resets[device] != resets) {
		code = driver.cuModuleLoadData(
		    &image->modules[device], image->binary->data);
		if (code != CUDA_SUCCESS) {
			image->modules[device] = NULL;
			return code;
		}
		image->resets[device] = resets;
	}
	*out = image->modules[device];
	return CUDA_SUCCESS;
}

/* The kernel that the program launches by that address, or NULL. */
static struct kernel *
find_kernel(const void *host_function)
{
	struct kernel *kernel;

	pthread_mutex_lock(&lock);
	kernel = kernels;
	while (kernel != NULL && kernel->host_function != host_function)
		kernel = kernel->next;
	pthread_mutex_unlock(&lock);
	return kernel;
}

static cudaError_t
find_function(struct kernel *kernel, int device, CUfunction *out)
{
	cudaError_t error = cudaSuccess;
	CUmodule module;
	CUresult code = CUDA_SUCCESS;

	pthread_mutex_lock(&lock);
	if (is_compiled(kernel->image))
		error = refuse_launch(kernel);
	else
		code = load_image(kernel->image, device, &module);
	if (error == cudaSuccess && code == CUDA_SUCCESS)
		code = driver.cuModuleGetFunction(out, module, kernel->name);
	pthread_mutex_unlock(&lock);
	return error != cudaSuccess ? runtime_error(error) :
				      runtime_check(code);
}

/* ---- launching ---------------------------------------------------------- */

cudaError_t
__cudaGetKernel(cudaKernel_t *kernel, const void *function)
{
	struct kernel *found = find_kernel(function);

	if (kernel == NULL)
		return runtime_error(cudaErrorInvalidValue);
	if (found == NULL)
		return runtime_error(cudaErrorInvalidDeviceFunction);
	*kernel = (cudaKernel_t)found;
	return cudaSuccess;
}

cudaError_t
cudaGetKernel(cudaKernel_t *kernel, const void *function)
{
	return __cudaGetKernel(kernel, function);
}

cudaError_t
__cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **args,
    size_t shared_bytes, cudaStream_t stream)
{
	CUfunction found = NULL;
	int device;
	cudaError_t error = runtime_enter();

	if (error == cudaSuccess && kernel == NULL)
		error = runtime_error(cudaErrorInvalidDeviceFunction);
	if (error == cudaSuccess)
		error = runtime_device(&device);
	if (error == cudaSuccess)
		error = find_function((struct kernel *)kernel, device, &found);
	if (error != cudaSuccess)
		return error;
	if (grid.x == 0 || grid.y == 0 || grid.z == 0 || block.x == 0 ||
	    block.y == 0 || block.z == 0 ||
	    (uint64_t)block.x * block.y * block.z > 1024)
		return runtime_error(cudaErrorInvalidConfiguration);
	return runtime_check(
	    driver.cuLaunchKernel(found, grid.x, grid.y, grid.z, block.x,
		block.y, block.z, (unsigned)shared_bytes, stream, args, NULL));
}

cudaError_t
__cudaLaunchKernel_ptsz(cudaKernel_t kernel, dim3 grid, dim3 block, void **args,
    size_t shared_bytes, cudaStream_t stream)
{
	return __cudaLaunchKernel(
	    kernel, grid, block, args, shared_bytes, per_thread(stream));
}

cudaError_t
cudaLaunchKernel(const void *function, dim3 grid, dim3 block, void **args,
    size_t shared_bytes, cudaStream_t stream)
{
	return __cudaLaunchKernel((cudaKernel_t)find_kernel(function), grid,
	    block, args, shared_bytes, stream);
}

cudaError_t
cudaLaunchKernel_ptsz(const void *function, dim3 grid, dim3 block, void **args,
    size_t shared_bytes, cudaStream_t stream)
{
	return cudaLaunchKernel(
	    function, grid, block, args, shared_bytes, per_thread(stream));
}

/* The device runs one operation of a stream at a time, so all its blocks run
 * together. */
cudaError_t
cudaLaunchCooperativeKernel(const void *function, dim3 grid, dim3 block,
    void **args, size_t shared_bytes, cudaStream_t stream)
{
	return cudaLaunchKernel(
	    function, grid, block, args, shared_bytes, stream);
}

/* ---- what is between <<< and >>> ---------------------------------------- */

/* An argument of a launch may be a launch itself, so there are several. */
enum { CALLS = 16 };

static _Thread_local struct call {
	dim3 grid, block;
	size_t shared_bytes;
	struct CUstream_st *stream;
} calls[CALLS];
static _Thread_local unsigned n_calls;

unsigned
__cudaPushCallConfiguration(
    dim3 grid, dim3 block, size_t shared_bytes, struct CUstream_st *stream)
{
	if (n_calls == CALLS)
		return (unsigned)runtime_error(cudaErrorInvalidConfiguration);
	calls[n_calls++] = (struct call){ grid, block, shared_bytes, stream };
	return 0;
}

cudaError_t
__cudaPopCallConfiguration(
    dim3 *grid, dim3 *block, size_t *shared_bytes, void *stream)
{
	const struct call *call;

	if (n_calls == 0)
		return runtime_error(cudaErrorInvalidConfiguration);
	call = &calls[--n_calls];
	*grid = call->grid;
	*block = call->block;
	*shared_bytes = call->shared_bytes;
	*(struct CUstream_st **)stream = call->stream;
	return cudaSuccess;
}
