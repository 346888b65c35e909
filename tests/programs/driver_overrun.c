/* A program that writes behind its block. */
#include <dlfcn.h>
#include <string.h>

#include "common/cuda.h"

static address __attribute__((noinline))
take_for_overrun(const struct cuda *cuda)
{
	address ptr;

	MUST(cuda->mem_alloc(&ptr, 1000));
	return ptr;
}

int
main(void)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW);
	void *symbol = dlsym(library, "cuMemsetD8_v2");
	result (*fill)(address, unsigned char, size_t);
	struct cuda cuda;
	address ptr;

	if (symbol == NULL)
		return 3;
	memcpy(&fill, &symbol, sizeof(symbol));
	cuda_by_dlsym(&cuda);
	cuda_start(&cuda);
	ptr = take_for_overrun(&cuda);
	MUST(fill(ptr + 1000, 1, 4));
	MUST(cuda.mem_free(ptr));
	return 0;
}
