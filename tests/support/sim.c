/*
 * Finding the simulated device's controls.
 */
#include "tests/support/sim.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/test.h"

static struct simcuda_api api;
static const struct simcuda_api *found;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* Any control missing where others are is a fault of the library. */
static void
find_control(void *library, const char *name, void *out, size_t size)
{
	void *symbol = dlsym(library, name);

	if (symbol == NULL)
		FAIL("the simulated driver lacks %s", name);
	memcpy(out, &symbol, size);
}

static void
find_controls(void)
{
	const char *path = getenv("WEIR_LIBCUDA");
	void *library;

	if (path == NULL || *path == '\0')
		path = "libcuda.so.1";
	library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (library == NULL || dlsym(library, "simcuda_version") == NULL)
		return;
#define FIND_CONTROL(result, name, params)                                     \
	find_control(library, "simcuda_" #name, &api.name, sizeof(api.name));
	SIMCUDA_CONTROLS(FIND_CONTROL)
#undef FIND_CONTROL
	if (api.version() != SIMCUDA_VERSION)
		FAIL("the simulated driver's controls are of version %d",
		    api.version());
	found = &api;
}

const struct simcuda_api *
sim(void)
{
	pthread_once(&once, find_controls);
	return found;
}
