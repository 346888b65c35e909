/* Another tool that replaces cuMemAlloc, counts, and calls the next library's
 * function. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHOWN __attribute__((visibility("default")))

SHOWN int cuMemAlloc_v2(unsigned long long *out, size_t bytes);

static unsigned long calls;

int
cuMemAlloc_v2(unsigned long long *out, size_t bytes)
{
	int (*next)(unsigned long long *, size_t);
	void *symbol = dlsym(RTLD_NEXT, "cuMemAlloc_v2");

	memcpy(&next, &symbol, sizeof(symbol));
	__atomic_fetch_add(&calls, 1, __ATOMIC_RELAXED);
	return next(out, bytes);
}

__attribute__((destructor)) static void
tell(void)
{
	fprintf(stderr, "interposer: %d\n", calls > 0);
}
