/* A program that uses the driver and then replaces itself by exec() with a
 * program that does: itself, with an argument. */
#include <stdio.h>
#include <unistd.h>

#include "common/cuda.h"

int
main(int argc, char **argv)
{
	struct cuda cuda;
	address ptr;
	uint64_t wrong;

	cuda_by_dlsym(&cuda);
	cuda_start(&cuda);
	wrong = churn(&cuda, 50, (uint32_t)argc, NULL);
	printf("part %d: wrong words: %llu\n", argc, (unsigned long long)wrong);
	fflush(stdout);
	if (wrong != 0 || argc > 1)
		return wrong != 0;
	/* This is left behind, with work queued on it. */
	MUST(cuda.mem_alloc(&ptr, 1 << 20));
	MUST(cuda.fill(ptr, 1, 1 << 18, NULL));
	execl("/proc/self/exe", argv[0], "again", (char *)NULL);
	return 3;
}
