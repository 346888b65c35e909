/* Threads that allocate and free at once, each on its own stream, and all of
 * them on the default stream. */
#include <pthread.h>
#include <stdio.h>

#include "common/cuda.h"

enum { THREADS = 8, ROUNDS = 200 };

static struct cuda cuda;
static context primary;

struct work {
	pthread_t thread;
	uint32_t number;
	uint64_t wrong;
};

static void *
work(void *argument)
{
	struct work *work = argument;
	stream own;

	MUST(cuda.set_current(primary));
	MUST(cuda.stream_create(&own, 1, 0));
	work->wrong = churn(&cuda, ROUNDS, work->number + 1, own);
	work->wrong += churn(&cuda, ROUNDS, work->number + 100, NULL);
	MUST(cuda.stream_destroy(own));
	return NULL;
}

int
main(void)
{
	struct work all[THREADS] = { { 0 } };
	uint64_t wrong = 0;

	cuda_by_dlsym(&cuda);
	primary = cuda_start(&cuda);
	for (uint32_t i = 0; i < THREADS; i++) {
		all[i].number = i;
		if (pthread_create(&all[i].thread, NULL, work, &all[i]) != 0)
			return 3;
	}
	for (int i = 0; i < THREADS; i++) {
		pthread_join(all[i].thread, NULL);
		wrong += all[i].wrong;
	}
	printf("wrong words: %llu\n", (unsigned long long)wrong);
	return wrong != 0;
}
