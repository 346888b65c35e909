/*
 * A program that has freed memory, and then loads a module for which there is
 * no memory: the simulated driver refuses it once.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cuda.h"

static const char image[] =
    ".version 8.0\n.target sm_70\n"
    ".address_size 64\n"
    ".visible .entry idle_sleep_ns(.param .u64 ns) { ret; }\n";

int
main(void)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW);
	int (*fail)(const char *, unsigned, unsigned, result);
	result (*load)(void **, const void *);
	struct cuda cuda;
	void *symbol;
	void *module;
	address ptr;

	cuda_by_dlsym(&cuda);
	symbol = dlsym(library, "simcuda_fail");
	memcpy(&fail, &symbol, sizeof(symbol));
	symbol = dlsym(library, "cuModuleLoadData");
	memcpy(&load, &symbol, sizeof(symbol));
	if (fail == NULL || load == NULL)
		return 3;
	cuda_start(&cuda);
	fail("cuModuleLoadData", 1, 1, OUT_OF_MEMORY);
	printf("nothing to give back: %d\n", load(&module, image));
	MUST(cuda.mem_alloc(&ptr, 64 << 20));
	MUST(cuda.mem_free(ptr));
	fail("cuModuleLoadData", 1, 1, OUT_OF_MEMORY);
	printf("something to give back: %d\n", load(&module, image));
	printf("at last: %d\n", load(&module, image));
	return 0;
}
