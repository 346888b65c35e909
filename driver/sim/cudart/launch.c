/*
 * Kernels: registered when the program starts, loaded into a device when one
 * is first launched there, and again after a reset.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "driver/sim/cudart/cudart.h"

/* One image of device code, loaded on the devices that use it. */
struct image {
	const struct cudaFatBinary *binary;
	CUmodule modules[RUNTIME_DEVICES];
	unsigned resets[RUNTIME_DEVICES]; /* when it was loaded */
};

struct kernel {
	const void *host_function; /* what the program launches it by */
	char *name;
	struct image *image;
	struct kernel *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct kernel *kernels; /* under the lock */

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
	/* There is no way to say so; its launch will fail. */
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
	free(image);
}

/* The image's module on the device. Under the lock. */
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

static cudaError_t
find_function(const void *host_function, int device, CUfunction *out)
{
	const struct kernel *kernel;
	CUmodule module;
	CUresult code;

	pthread_mutex_lock(&lock);
	kernel = kernels;
	while (kernel != NULL && kernel->host_function != host_function)
		kernel = kernel->next;
	if (kernel == NULL) {
		pthread_mutex_unlock(&lock);
		return runtime_error(cudaErrorInvalidDeviceFunction);
	}
	code = load_image(kernel->image, device, &module);
	if (code == CUDA_SUCCESS)
		code = driver.cuModuleGetFunction(out, module, kernel->name);
	pthread_mutex_unlock(&lock);
	return runtime_check(code);
}

cudaError_t
cudaLaunchKernel(const void *function, dim3 grid, dim3 block, void **args,
    size_t shared_bytes, cudaStream_t stream)
{
	CUfunction found = NULL;
	int device;
	cudaError_t error = runtime_enter();

	if (error == cudaSuccess)
		error = runtime_device(&device);
	if (error == cudaSuccess)
		error = find_function(function, device, &found);
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
cudaLaunchKernel_ptsz(const void *function, dim3 grid, dim3 block, void **args,
    size_t shared_bytes, cudaStream_t stream)
{
	return cudaLaunchKernel(
	    function, grid, block, args, shared_bytes, per_thread(stream));
}
