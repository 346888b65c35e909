/*
 * The driver API's calls on handles of memory, declared as a program without a
 * toolkit declares them.
 */
#ifndef TESTS_PROGRAMS_HANDLES_H
#define TESTS_PROGRAMS_HANDLES_H

#include "common/cuda.h"

typedef unsigned long long handle;

struct location {
	int type, id;
};

struct handle_wish {
	int type, handle_types;
	struct location location;
	void *security;
	unsigned char rest[8];
};

struct access {
	struct location location;
	int flags;
};

/* X(name, params), for cuda_fetch(). */
#define HANDLE_FUNCTIONS(X)                                                    \
	X(cuMemCreate,                                                         \
	    (handle *, size_t, const struct handle_wish *,                     \
		unsigned long long))                                           \
	X(cuMemRelease, (handle))                                              \
	X(cuMemRetainAllocationHandle, (handle *, void *))                     \
	X(cuMemAddressReserve,                                                 \
	    (address *, size_t, size_t, address, unsigned long long))          \
	X(cuMemAddressFree, (address, size_t))                                 \
	X(cuMemMap, (address, size_t, size_t, handle, unsigned long long))     \
	X(cuMemUnmap, (address, size_t))                                       \
	X(cuMemSetAccess, (address, size_t, const struct access *, size_t))    \
	X(cuMemExportToShareableHandle,                                        \
	    (void *, handle, int, unsigned long long))                         \
	X(cuMemImportFromShareableHandle, (handle *, void *, int))

#endif
