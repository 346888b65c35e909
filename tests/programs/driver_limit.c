/*
 * A program that asks how much memory there is before it allocates any, and
 * after.
 */
#include <stdio.h>

#include "common/cuda.h"

int
main(void)
{
	struct cuda cuda;
	size_t free_bytes;
	size_t total;
	address ptr;

	cuda_by_dlsym(&cuda);
	cuda_start(&cuda);
	MUST(cuda.get_info(&free_bytes, &total));
	printf("first: %zu of %zu MiB\n", free_bytes >> 20, total >> 20);
	MUST(cuda.mem_alloc(&ptr, 64 << 20));
	MUST(cuda.get_info(&free_bytes, &total));
	printf("then: %zu of %zu MiB\n", free_bytes >> 20, total >> 20);
	MUST(cuda.mem_free(ptr));
	return 0;
}
