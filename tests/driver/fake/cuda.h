/*
 * A driver library with faults that a test selects: fake/cuda.c built as
 * fake/cuda.so beside the test programs. It counts contexts and capture modes
 * and has no device. Tests that need a working driver use simcuda.
 *
 * The test sets the fields of the one struct in the library before weir loads
 * it, and reads the counts afterwards.
 */
#ifndef WEIR_TESTS_DRIVER_FAKE_CUDA_H
#define WEIR_TESTS_DRIVER_FAKE_CUDA_H

#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "driver/abi.h"
#include "tests/support/test.h"

struct fake_cuda {
	int version;         /* the result of cuDriverGetVersion(): 13000 */
	int devices;         /* 2 */
	const char *missing; /* an entry point that it lacks */
	const char *failing; /* an entry point that returns `code` */
	CUresult code;       /* CUDA_ERROR_UNKNOWN */
	void (*on_init)(void);

	int inits;
	int retains;
	int pushes;
	int pops;
	int exchanges;
};

/* A file beside the test program, `name` as "fake/cuda.so". */
static inline const char *
fake_path(const char *name, char *path, size_t size)
{
	ssize_t n = readlink("/proc/self/exe", path, size);

	EXPECT_GT(n, 0);
	EXPECT_LT((size_t)n, size);
	path[n] = '\0';
	n = strrchr(path, '/') - path + 1;
	EXPECT_LT(
	    snprintf(path + n, size - (size_t)n, "%s", name), size - (size_t)n);
	return path;
}

/* Make weir use the fake. Returns its controls, with their defaults. */
static inline struct fake_cuda *
fake_cuda_use(void)
{
	char path[4096];
	void *library;
	struct fake_cuda *fake;

	setenv(
	    "WEIR_LIBCUDA", fake_path("fake/cuda.so", path, sizeof(path)), 1);
	library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (library == NULL)
		FAIL("%s", dlerror());
	fake = dlsym(library, "fake_cuda");
	EXPECT_NOT_NULL(fake);
	return fake;
}

/* The fake's address for an entry point, or NULL. */
static inline void *
fake_cuda_entry(const char *name)
{
	char path[4096];
	void *library = dlopen(fake_path("fake/cuda.so", path, sizeof(path)),
	    RTLD_NOW | RTLD_LOCAL);
	void *function = dlsym(library, "fake_entry");
	void *(*entry)(const char *name);

	memcpy(&entry, &function, sizeof(entry));
	return entry(name);
}

#endif
