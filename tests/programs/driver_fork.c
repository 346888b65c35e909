/*
 * A program that forks. A child forked before the driver was used may use it. A
 * child forked afterwards may not, and must neither hang nor harm its parent.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/cuda.h"

static struct cuda cuda;

static uint64_t
use(uint32_t seed)
{
	cuda_start(&cuda);
	return churn(&cuda, 50, seed, NULL);
}

static void
report(const char *who, pid_t child)
{
	int status;

	waitpid(child, &status, 0);
	printf(
	    "%s: exit %d\n", who, WIFEXITED(status) ? WEXITSTATUS(status) : -1);
}

int
main(void)
{
	uint64_t wrong;
	address kept;
	address ptr;
	pid_t child;

	cuda_by_dlsym(&cuda);
	child = fork();
	if (child == 0)
		exit(use(1) == 0 ? 10 : 11);
	report("child before", child);

	wrong = use(2);
	MUST(cuda.mem_alloc(&kept, 4000));
	MUST(cuda.fill(kept, 3, 1000, NULL));
	fflush(stdout);
	child = fork();
	if (child == 0) {
		result allocated = cuda.mem_alloc(&ptr, 1000);

		/* The codes differ between drivers, but each of them fails. */
		cuda.mem_free(kept);
		exit(allocated != SUCCESS ? 20 : 21);
	}
	report("child after", child);

	MUST(cuda.mem_free(kept));
	wrong += churn(&cuda, 50, 3, NULL);
	printf("wrong words: %llu\n", (unsigned long long)wrong);
	return wrong != 0;
}
