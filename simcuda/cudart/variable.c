/*
 * Device variables: registered when the program starts, and given memory on a
 * device when they are first used there, and again after a reset. A managed
 * variable has one memory for all devices.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "simcuda/cudart/cudart.h"

struct variable {
	void **handle;    /* handle of its image */
	const void *host; /* address of the host variable that stands for it */
	void **managed;   /* where its address is stored, or NULL */
	char *name;
	size_t size;
	CUdeviceptr memory[RUNTIME_DEVICES]; /* 0 before the first use */
	/* The device's resets when it got its memory. */
	unsigned resets[RUNTIME_DEVICES];
	struct variable *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct variable *variables; /* guarded by the lock */

static void
add_variable(const struct variable *what, const char *name)
{
	struct variable *variable = malloc(sizeof(*variable));
	char *copy = strdup(name);

	/* The call cannot report a failure; the variable's use will fail. */
	if (variable == NULL || copy == NULL) {
		free(variable);
		free(copy);
		return;
	}
	*variable = *what;
	variable->name = copy;
	pthread_mutex_lock(&lock);
	variable->next = variables;
	variables = variable;
	pthread_mutex_unlock(&lock);
}

void
__cudaRegisterVar(void **handle, char *host_variable, char *device_variable,
    const char *device_name, int external, size_t size, int constant,
    int global)
{
	struct variable variable = {
		.handle = handle, .host = host_variable, .size = size
	};

	(void)device_variable;
	(void)external;
	(void)constant;
	(void)global;
	add_variable(&variable, device_name);
}

void
__cudaRegisterManagedVar(void **handle, void **host_pointer,
    char *device_variable, const char *device_name, int external, size_t size,
    int constant, int global)
{
	struct variable variable = { .handle = handle,
		.host = host_pointer,
		.managed = host_pointer,
		.size = size };

	(void)device_variable;
	(void)external;
	(void)constant;
	(void)global;
	add_variable(&variable, device_name);
}

void
variables_forget(void **handle)
{
	pthread_mutex_lock(&lock);
	for (struct variable **v = &variables; *v != NULL;) {
		struct variable *variable = *v;

		if (variable->handle != handle) {
			v = &variable->next;
			continue;
		}
		*v = variable->next;
		free(variable->name);
		free(variable);
	}
	pthread_mutex_unlock(&lock);
}

/* The image, which has the initial value, is not read. */
static void
say_zero(const struct variable *variable)
{
	fprintf(stderr,
	    "simcuda: variable %s begins as zeroes: its initial value is "
	    "not known here.\n",
	    variable->name);
}

/* ---- managed variables -------------------------------------------------- */

/* No caller checks a result: on failure the program finds a null pointer. */
char
__cudaInitModule(void **handle)
{
	if (runtime_enter() != cudaSuccess)
		return 0;
	pthread_mutex_lock(&lock);
	for (struct variable *v = variables; v != NULL; v = v->next) {
		CUdeviceptr found = 0;

		if (v->handle != handle || v->managed == NULL ||
		    v->memory[0] != 0)
			continue;
		if (driver.cuMemAllocManaged(
			&found, v->size, cudaMemAttachGlobal) != CUDA_SUCCESS)
			continue;
		memset((void *)(uintptr_t)found, 0, v->size);
		v->memory[0] = found;
		*v->managed = (void *)(uintptr_t)found;
		say_zero(v);
	}
	pthread_mutex_unlock(&lock);
	return 1;
}

/* ---- variables of a device ---------------------------------------------- */

/* The memory is mapped and not allocated, because tools count a program's own
 * allocations and the runtime's are none. */
static CUresult
map_memory(int device, size_t size, CUdeviceptr *out)
{
	CUmemAllocationProp prop = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = { CU_MEM_LOCATION_TYPE_DEVICE, device } };
	CUmemAccessDesc access = { prop.location,
		CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
	CUmemGenericAllocationHandle handle;
	size_t granularity = 0;
	CUdeviceptr place = 0;
	CUresult code = driver.cuMemGetAllocationGranularity(
	    &granularity, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM);

	if (code != CUDA_SUCCESS)
		return code;
	size = (size + granularity - 1) / granularity * granularity;
	code = driver.cuMemAddressReserve(&place, size, 0, 0, 0);
	if (code != CUDA_SUCCESS)
		return code;
	code = driver.cuMemCreate(&handle, size, &prop, 0);
	if (code != CUDA_SUCCESS)
		goto free_place;
	code = driver.cuMemMap(place, size, 0, handle, 0);
	/* The mapping keeps the memory alive. */
	driver.cuMemRelease(handle);
	if (code != CUDA_SUCCESS)
		goto free_place;
	code = driver.cuMemSetAccess(place, size, &access, 1);
	if (code != CUDA_SUCCESS)
		goto unmap;
	*out = place;
	return CUDA_SUCCESS;

unmap:
	driver.cuMemUnmap(place, size);
free_place:
	driver.cuMemAddressFree(place, size);
	return code;
}

/* Make sure that the variable has memory on the device, filled with zeroes at
 * the first use and after a reset. The caller holds the lock. */
static CUresult
give_memory(struct variable *variable, int device)
{
	unsigned resets = runtime_resets(device);
	CUresult code = CUDA_SUCCESS;

	if (variable->memory[device] != 0 && variable->resets[device] == resets)
		return CUDA_SUCCESS;
	if (variable->memory[device] == 0)
		code = map_memory(
		    device, variable->size, &variable->memory[device]);
	if (code == CUDA_SUCCESS)
		code = driver.cuMemsetD8Async(variable->memory[device], 0,
		    variable->size, cudaStreamLegacy);
	if (code == CUDA_SUCCESS)
		code = driver.cuStreamSynchronize(cudaStreamLegacy);
	if (code == CUDA_SUCCESS)
		variable->resets[device] = resets;
	else
		variable->resets[device] = resets - 1;
	return code;
}

/* The address of the variable on the current device, and its size. `written` is
 * true if the caller writes all of it, so that its initial value does not
 * matter. */
static cudaError_t
find_variable(
    const void *symbol, size_t written, CUdeviceptr *where, size_t *size)
{
	struct variable *variable;
	CUresult code;
	int device = 0;
	cudaError_t error = runtime_enter();

	if (error == cudaSuccess)
		error = runtime_device(&device);
	if (error != cudaSuccess)
		return error;
	pthread_mutex_lock(&lock);
	variable = variables;
	while (variable != NULL && variable->host != symbol)
		variable = variable->next;
	if (variable == NULL) {
		pthread_mutex_unlock(&lock);
		return runtime_error(cudaErrorInvalidSymbol);
	}
	if (variable->managed != NULL)
		device = 0;
	else if (variable->memory[device] == 0 && written < variable->size)
		say_zero(variable);
	code = variable->managed != NULL ? CUDA_SUCCESS :
					   give_memory(variable, device);
	*where = variable->memory[device];
	*size = variable->size;
	pthread_mutex_unlock(&lock);
	return runtime_check(code);
}

cudaError_t
cudaGetSymbolAddress(void **ptr, const void *symbol)
{
	CUdeviceptr where;
	size_t size;
	cudaError_t error = find_variable(symbol, 0, &where, &size);

	if (error == cudaSuccess && ptr == NULL)
		return runtime_error(cudaErrorInvalidValue);
	if (error == cudaSuccess)
		*ptr = (void *)(uintptr_t)where;
	return error;
}

cudaError_t
cudaGetSymbolSize(size_t *size, const void *symbol)
{
	CUdeviceptr where;
	size_t found;
	cudaError_t error = find_variable(symbol, SIZE_MAX, &where, &found);

	if (error == cudaSuccess && size == NULL)
		return runtime_error(cudaErrorInvalidValue);
	if (error == cudaSuccess)
		*size = found;
	return error;
}

/* Find a part of the variable. */
static cudaError_t
find_part(
    const void *symbol, size_t size, size_t offset, bool writes, void **where)
{
	CUdeviceptr start;
	size_t whole;
	cudaError_t error =
	    find_variable(symbol, writes ? size : 0, &start, &whole);

	if (error != cudaSuccess)
		return error;
	if (offset > whole || size > whole - offset)
		return runtime_error(cudaErrorInvalidValue);
	*where = (void *)(uintptr_t)(start + offset);
	return cudaSuccess;
}

cudaError_t
cudaMemcpyToSymbol(const void *symbol, const void *src, size_t size,
    size_t offset, enum cudaMemcpyKind kind)
{
	void *where = NULL;
	cudaError_t error = find_part(symbol, size, offset, true, &where);

	return error != cudaSuccess ? error :
				      cudaMemcpy(where, src, size, kind);
}

cudaError_t
cudaMemcpyFromSymbol(void *dst, const void *symbol, size_t size, size_t offset,
    enum cudaMemcpyKind kind)
{
	void *where = NULL;
	cudaError_t error = find_part(symbol, size, offset, false, &where);

	return error != cudaSuccess ? error :
				      cudaMemcpy(dst, where, size, kind);
}

cudaError_t
cudaMemcpyToSymbolAsync(const void *symbol, const void *src, size_t size,
    size_t offset, enum cudaMemcpyKind kind, cudaStream_t stream)
{
	void *where = NULL;
	cudaError_t error = find_part(symbol, size, offset, true, &where);

	return error != cudaSuccess ?
	    error :
	    cudaMemcpyAsync(where, src, size, kind, stream);
}

cudaError_t
cudaMemcpyFromSymbolAsync(void *dst, const void *symbol, size_t size,
    size_t offset, enum cudaMemcpyKind kind, cudaStream_t stream)
{
	void *where = NULL;
	cudaError_t error = find_part(symbol, size, offset, false, &where);

	return error != cudaSuccess ?
	    error :
	    cudaMemcpyAsync(dst, where, size, kind, stream);
}

cudaError_t
cudaMemcpyToSymbol_ptds(const void *symbol, const void *src, size_t size,
    size_t offset, enum cudaMemcpyKind kind)
{
	void *where = NULL;
	cudaError_t error = find_part(symbol, size, offset, true, &where);

	return error != cudaSuccess ? error :
				      cudaMemcpy_ptds(where, src, size, kind);
}

cudaError_t
cudaMemcpyFromSymbol_ptds(void *dst, const void *symbol, size_t size,
    size_t offset, enum cudaMemcpyKind kind)
{
	void *where = NULL;
	cudaError_t error = find_part(symbol, size, offset, false, &where);

	return error != cudaSuccess ? error :
				      cudaMemcpy_ptds(dst, where, size, kind);
}

cudaError_t
cudaMemcpyToSymbolAsync_ptsz(const void *symbol, const void *src, size_t size,
    size_t offset, enum cudaMemcpyKind kind, cudaStream_t stream)
{
	return cudaMemcpyToSymbolAsync(
	    symbol, src, size, offset, kind, per_thread(stream));
}

cudaError_t
cudaMemcpyFromSymbolAsync_ptsz(void *dst, const void *symbol, size_t size,
    size_t offset, enum cudaMemcpyKind kind, cudaStream_t stream)
{
	return cudaMemcpyFromSymbolAsync(
	    dst, symbol, size, offset, kind, per_thread(stream));
}
