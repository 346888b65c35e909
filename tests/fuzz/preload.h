/*
 * Support for the fuzz programs that call the preload's hooks. They are linked
 * with libweir_preload.so, so that they call its dlsym(), and load simcuda as a
 * CUDA program loads its driver.
 */
#ifndef TESTS_FUZZ_PRELOAD_H
#define TESTS_FUZZ_PRELOAD_H

#include <dlfcn.h>
#include <stdlib.h>

#include "driver/abi.h"
#include "tests/fuzz/fuzz.h"

/* A function of the driver that has no hook. */
static inline void *
fuzz_driver(const char *name)
{
	static void *driver;

	if (driver == NULL)
		driver = dlopen(getenv("WEIR_LIBCUDA"), RTLD_NOW | RTLD_GLOBAL);
	fuzz_expect(driver != NULL, "WEIR_LIBCUDA cannot be loaded");
	void *found = dlsym(driver, name);

	fuzz_expect(found != NULL, name);
	return found;
}

/* cuInit(), once. */
static inline void
fuzz_init(void)
{
	CUresult (*init)(unsigned) =
	    (CUresult(*)(unsigned))fuzz_driver("cuInit");

	fuzz_expect(init(0) == CUDA_SUCCESS, "cuInit");
}

#endif
