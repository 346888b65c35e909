/* Threads with the smallest possible stack: one of them makes the first use of
 * the driver, and each allocates, frees, queries and makes wrong calls. */
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "common/cuda.h"

enum { THREADS = 4, BYTES = 3 << 20 };

/* A sanitizer needs as much for itself. */
#if defined __has_feature
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED
#endif
#endif
#if defined SANITIZED || defined __SANITIZE_ADDRESS__ ||                       \
    defined __SANITIZE_THREAD__
enum { MORE = 1 << 20 };
#else
enum { MORE = 0 };
#endif

static struct cuda cuda;
static context primary;
static char host[1024];

static uint64_t
use(stream on)
{
	address plain = 0;
	address ordered = 0;
	void *pinned = NULL;
	size_t size = 0;
	address base = 0;
	uint64_t wrong = 0;

	MUST(cuda.mem_alloc(&plain, BYTES));
	MUST(cuda.mem_alloc_async(&ordered, 1000, on));
	MUST(cuda.host_alloc(&pinned, 5000, 0));
	MUST(cuda.fill(ordered, 7, 250, on));
	MUST(cuda.stream_synchronize(on));
	MUST(cuda.copy_out(host, ordered, 1000));
	wrong += host[4] != 7;
	MUST(cuda.get_range(&base, &size, plain + 100));
	wrong += base != plain || size != BYTES;
	wrong += cuda.mem_free(plain + 512) == SUCCESS;
	wrong += cuda.mem_alloc(&base, (size_t)1 << 50) == SUCCESS;
	MUST(cuda.get_info(&size, &size));
	MUST(cuda.free_host(pinned));
	MUST(cuda.mem_free_async(ordered, on));
	MUST(cuda.mem_free(plain));
	return wrong;
}

static void *
work(void *argument)
{
	uint64_t *wrong = argument;
	stream own;

	if (primary == NULL) {
		primary = cuda_start(&cuda);
		MUST(cuda.set_current(primary));
	}
	MUST(cuda.set_current(primary));
	MUST(cuda.stream_create(&own, 1, 0));
	*wrong = use(own) + use(NULL);
	MUST(cuda.stream_destroy(own));
	return NULL;
}

int
main(void)
{
	pthread_attr_t attributes;
	uint64_t wrong = 0;

	cuda_by_dlsym(&cuda);
	pthread_attr_init(&attributes);
	if (pthread_attr_setstacksize(&attributes, PTHREAD_STACK_MIN + MORE) !=
	    0)
		return 3;
	for (int i = 0; i < THREADS; i++) {
		pthread_t thread;
		uint64_t its = 1;

		if (pthread_create(&thread, &attributes, work, &its) != 0)
			return 3;
		pthread_join(thread, NULL);
		wrong += its;
	}
	printf("wrong answers: %llu\n", (unsigned long long)wrong);
	return wrong != 0;
}
