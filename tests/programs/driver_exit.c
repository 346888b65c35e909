/*
 * A program that ends while threads allocate and free, and frees once more
 * when its handlers run: before the driver's own end, after it, or both.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/cuda.h"

enum { THREADS = 3 };

static struct cuda cuda;
static context primary;
static address left;
static atomic_int running;

static void *
work(void *argument)
{
	uint32_t seed = (uint32_t)(uintptr_t)argument;
	address ptr;

	if (cuda.set_current(primary) != SUCCESS)
		return NULL;
	atomic_fetch_add(&running, 1);
	/* The driver may end under it: any code will do, a crash will not. */
	for (;;) {
		if (cuda.mem_alloc(&ptr, 1000 + seed % 100000) == SUCCESS)
			cuda.mem_free(ptr);
		else
			usleep(100);
		seed = seed * 1664525u + 1013904223u;
	}
	return NULL;
}

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
	pthread_t thread;

	(void)argv;
	cuda_by_dlsym(&cuda);
	primary = cuda_start(&cuda);
	MUST(cuda.mem_alloc(&left, 1 << 20));
	if (argc == 1)
		atexit(free_late);
	for (uintptr_t i = 0; i < THREADS; i++)
		if (pthread_create(&thread, NULL, work, (void *)(i + 1)) != 0)
			return 3;
	while (atomic_load(&running) < THREADS)
		usleep(100);
	usleep(2000);
	printf("leaving\n");
	exit(0);
}
