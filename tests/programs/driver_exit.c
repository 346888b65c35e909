/*
 * A program that ends while threads allocate and free, and frees once more in
 * its exit handlers: before the driver's own end, after it, or both.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/busy.h"
#include "common/cuda.h"

enum { THREADS = 3 };

static struct cuda cuda;
static address left;

static void
free_late(void)
{
	result code = cuda.mem_free(left);

	if (code != SUCCESS && code != DEINITIALIZED) {
		fprintf(stderr, "late free: %d\n", code);
		_exit(4);
	}
	left = 0;
}

__attribute__((destructor)) static void
free_last(void)
{
	if (left != 0)
		free_late();
}

int
main(int argc, char **argv)
{
	context primary;

	(void)argv;
	cuda_by_dlsym(&cuda);
	primary = cuda_start(&cuda);
	MUST(cuda.mem_alloc(&left, 1 << 20));
	if (argc == 1)
		atexit(free_late);
	if (busy_start(&cuda, primary, THREADS) < THREADS)
		return 3;
	usleep(2000);
	printf("leaving\n");
	exit(0);
}
