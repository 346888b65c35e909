/*
 * The driver, and a context for each thread.
 *
 * The runtime has no call to initialise it: the first call does so. A thread's
 * calls use the primary context of the device that the thread has chosen
 * (default: device 0), unless the program has made another context current.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "simcuda/cudart/cudart.h"

struct runtime_driver driver;

static cudaError_t load_error;

/* One device. */
struct device {
	pthread_mutex_t lock;
	bool retained;     /* by the runtime */
	CUcontext context; /* while retained */
	atomic_uint resets;
};

static struct device devices[RUNTIME_DEVICES];

/* The device that this thread chose, and the context that was made current for
 * it. */
static _Thread_local int chosen;
static _Thread_local struct {
	CUcontext context;
	int device;
	unsigned resets;
} made;

/* ---- The driver -------------------------------------------------------- */

typedef CUresult (*query_function)(const char *symbol, void **function,
    int version, uint64_t flags, int *status);

static query_function query;

static bool
find_driver_symbol(const char *base, int version, uint64_t flags, void *place)
{
	void *function = NULL;
	int status;

	if (query(base, &function, version, flags, &status) != CUDA_SUCCESS)
		return false;
	memcpy(place, &function, sizeof(function));
	return true;
}

static bool
find_all(void)
{
	bool all = true;

#define FIND(name, version, required, params)                                  \
	all &= find_driver_symbol(#name, version, 0, &driver.name) || !required;
	DRIVER_ENTRIES(FIND)
#undef FIND
#define FIND(name, base, version, flags, params)                               \
	all &= find_driver_symbol(base, version, flags, &driver.name) ||       \
	    (version) >= 12000;
	RUNTIME_ENTRIES(FIND)
#undef FIND
	return all;
}

static void
load_runtime(void)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW);
	void *symbol;

	for (int i = 0; i < RUNTIME_DEVICES; i++)
		pthread_mutex_init(&devices[i].lock, NULL);
	load_error = cudaErrorInsufficientDriver;
	if (library == NULL)
		return;
	symbol = dlsym(library, "cuGetProcAddress_v2");
	memcpy(&query, &symbol, sizeof(symbol));
	if (query == NULL || !find_all())
		return;
	load_error = (cudaError_t)driver.cuInit(0);
}

cudaError_t
runtime_load(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, load_runtime);
	return runtime_error(load_error);
}

cudaError_t
cudaGetDriverEntryPointByVersion(const char *symbol, void **function,
    unsigned version, unsigned long long flags,
    enum cudaDriverEntryPointQueryResult *status)
{
	int result = 0;
	CUresult code;
	cudaError_t error = runtime_load();

	if (error != cudaSuccess)
		return error;
	if (symbol == NULL || function == NULL)
		return runtime_error(cudaErrorInvalidValue);
	code = query(symbol, function, (int)version, flags, &result);
	if (status != NULL)
		*status = (enum cudaDriverEntryPointQueryResult)result;
	/* A missing entry is a result, not an error. */
	if (code == CUDA_ERROR_NOT_FOUND) {
		*function = NULL;
		return cudaSuccess;
	}
	return runtime_check(code);
}

cudaError_t
cudaGetDriverEntryPoint(const char *symbol, void **function,
    unsigned long long flags, enum cudaDriverEntryPointQueryResult *status)
{
	return cudaGetDriverEntryPointByVersion(
	    symbol, function, CUDART_VERSION, flags, status);
}

/* ---- Contexts ---------------------------------------------------------- */

cudaError_t
runtime_context(int device, CUcontext *out)
{
	struct device *d;
	CUresult code = CUDA_SUCCESS;

	if (device < 0 || device >= RUNTIME_DEVICES)
		return runtime_error(cudaErrorInvalidDevice);
	d = &devices[device];
	pthread_mutex_lock(&d->lock);
	if (!d->retained) {
		code = driver.cuDevicePrimaryCtxRetain(&d->context, device);
		d->retained = code == CUDA_SUCCESS;
	}
	if (code == CUDA_SUCCESS)
		*out = d->context;
	pthread_mutex_unlock(&d->lock);
	return runtime_check(code);
}

unsigned
runtime_resets(int device)
{
	return atomic_load(&devices[device].resets);
}

static cudaError_t
make_context_current(int device)
{
	CUcontext context = NULL;
	cudaError_t error = runtime_context(device, &context);

	if (error != cudaSuccess)
		return error;
	error = runtime_check(driver.cuCtxSetCurrent(context));
	if (error != cudaSuccess)
		return error;
	made.context = context;
	made.device = device;
	made.resets = runtime_resets(device);
	return cudaSuccess;
}

cudaError_t
runtime_enter(void)
{
	CUcontext current = NULL;
	cudaError_t error = runtime_load();

	if (error != cudaSuccess)
		return error;
	error = runtime_check(driver.cuCtxGetCurrent(&current));
	if (error != cudaSuccess)
		return error;
	/* A context that was current before a reset is initialised again. */
	if (current == NULL ||
	    (current == made.context &&
		made.resets != runtime_resets(made.device)))
		return make_context_current(chosen);
	return cudaSuccess;
}

cudaError_t
runtime_device(int *device)
{
	CUcontext current = NULL;
	cudaError_t error = runtime_check(driver.cuCtxGetCurrent(&current));

	if (error != cudaSuccess)
		return error;
	if (current != NULL)
		return runtime_check(driver.cuCtxGetDevice(device));
	*device = chosen;
	return cudaSuccess;
}

cudaError_t
runtime_choose(int device)
{
	chosen = device;
	return make_context_current(device);
}

cudaError_t
cudaInitDevice(int device, unsigned device_flags, unsigned flags)
{
	CUcontext context;
	cudaError_t error = runtime_load();

	(void)device_flags;
	(void)flags;
	return error != cudaSuccess ? error : runtime_context(device, &context);
}

cudaError_t
cudaDeviceReset(void)
{
	struct device *d;
	CUresult code;
	int device;
	cudaError_t error = runtime_enter();

	if (error == cudaSuccess)
		error = runtime_device(&device);
	if (error != cudaSuccess)
		return error;
	d = &devices[device];
	pthread_mutex_lock(&d->lock);
	code = driver.cuDevicePrimaryCtxReset(device);
	if (code == CUDA_SUCCESS) {
		d->resets++;
		if (d->retained)
			driver.cuDevicePrimaryCtxRelease(device);
		d->retained = false;
	}
	pthread_mutex_unlock(&d->lock);
	if (code == CUDA_SUCCESS)
		driver.cuCtxSetCurrent(NULL);
	return runtime_check(code);
}
