/*
 * A program that is linked with libweir asks the driver for memory in ranges of
 * NVTX, sleeps without the contents of "kv cache", and prints how much it
 * discards and copies, in MiB.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <weir/sleep.h>

#include "common/cuda.h"
#include "common/nvtx.h"

static const size_t mib = (size_t)1 << 20;
static struct cuda cuda;

static void
allocate(size_t size)
{
	address block;

	MUST(cuda.mem_alloc(&block, size * mib));
}

/* The thread ends within the range. */
static void *
allocate_in_range(void *context)
{
	MUST(cuda.set_current(context));
	nvtx_push("kv cache");
	allocate(8);
	return NULL;
}

int
main(void)
{
	static const char *const name = "kv cache";
	struct weir_sleep_options how = { .struct_size = sizeof(how),
		.discard_names = &name,
		.discard_name_count = 1 };
	struct weir_sleep_result slept = { .struct_size = sizeof(slept) };
	pthread_t thread;
	context current;

	printf("tool %d\n", nvtx_load());
	cuda_by_dlsym(&cuda);
	current = cuda_start(&cuda);
	allocate(2);
	nvtx_push("step");
	nvtx_push(name);
	allocate(32);
	nvtx_push("layer");
	allocate(64);
	nvtx_pop();
	nvtx_pop();
	allocate(4);
	nvtx_pop();
	pthread_create(&thread, NULL, allocate_in_range, current);
	pthread_join(thread, NULL);
	allocate(16);
	if (weir_sleep(0, &how, &slept) != WEIR_OK) {
		fprintf(stderr, "%s\n", weir_last_error());
		return 1;
	}
	printf("discarded %zu, copied %zu\n", slept.discarded_bytes / mib,
	    slept.copied_bytes / mib);
	return weir_wake(0, 0, NULL) == WEIR_OK ? 0 : 1;
}
