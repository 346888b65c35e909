/*
 * The driver as weir itself gets it.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "allocator/allocator.h"
#include "driver/driver.h"
#include "preload/preload.h"

/*
 * Retain the primary context of a device for weir, which keeps it. A program
 * that calls the driver has the context already, and its last release must end
 * the context. So weir takes no reference of its own then. A program that calls
 * weir first has no context, so weir keeps a reference.
 */
static CUresult
retain_without_share(CUcontext *out, CUdevice device)
{
	const struct real *real = real_driver();
	CUcontext context;
	CUresult code = real->cuDevicePrimaryCtxRetain(&context, device);

	if (code != CUDA_SUCCESS)
		return code;
	code = real->cuDevicePrimaryCtxRelease_v2(device);
	if (code == CUDA_SUCCESS)
		*out = context;
	return code;
}

/* The function that weir gets for an entry. */
static void *
for_weir(const char *symbol, void *found)
{
	if (found != NULL && real_driver() != NULL && gate_in_weir > 0 &&
	    strcmp(symbol, "cuDevicePrimaryCtxRetain") == 0)
		return (void *)retain_without_share;
	if (report_wanted())
		found = count_through(symbol, found);
	return found;
}

static CUresult
query_for_weir(const char *symbol, void **function, int version, uint64_t flags)
{
	CUresult code =
	    REAL(cuGetProcAddress)(symbol, function, version, flags);

	if (code == CUDA_SUCCESS)
		*function = for_weir(symbol, *function);
	return code;
}

static CUresult
query_for_weir_v2(const char *symbol, void **function, int version,
    uint64_t flags, CUdriverProcAddressQueryResult *status)
{
	CUresult code =
	    REAL(cuGetProcAddress_v2)(symbol, function, version, flags, status);

	if (code == CUDA_SUCCESS)
		*function = for_weir(symbol, *function);
	return code;
}

/* The driver stays loaded, so real_find() finds it from now on. */
static void
load_driver(void)
{
	/* Ignored in setuid programs, because it names code to be run. */
	const char *path = secure_getenv("WEIR_LIBCUDA");

	dlopen(path != NULL && *path != '\0' ? path : "libcuda.so.1",
	    RTLD_NOW | RTLD_LOCAL);
}

/* For driver_set_finder(): real_find(), but with entries that keep weir from
 * holding primary contexts which the program has released. */
static void *
find_for_weir(const char *symbol)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	void *found;

	if (!real_loaded())
		pthread_once(&once, load_driver);
	found = real_find(symbol);
	if (found == NULL)
		return NULL;
	if (strcmp(symbol, "cuGetProcAddress_v2") == 0)
		return (void *)query_for_weir_v2;
	if (strcmp(symbol, "cuGetProcAddress") == 0)
		return (void *)query_for_weir;
	return for_weir(symbol, found);
}

/* A program that is linked with libweir uses this library's weir, perhaps
 * before any hook is called. So this constructor makes weir's own calls bypass
 * the hooks. */
static __attribute__((constructor)) void
prepare(void)
{
	driver_set_finder(find_for_weir);
	nvml_set_lookup(real_dlsym());
	allocator_keep_apart();
}
