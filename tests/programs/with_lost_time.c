/*
 * A program that is linked with libweir and whose host waits by the driver's
 * own calls. In each round weir makes the second stream wait for the first, and
 * then the host waits for the second. Prints the rounds after which weir
 * counted no delay beside that of the rounds before.
 */
#include <stdio.h>
#include <stdlib.h>
#include <weir/weir.h>

#include "common/cuda.h"

enum { FILLS = 20, NON_BLOCKING = 1, NO_TIMING = 2 };

static const size_t bytes = (size_t)4 << 20;

typedef struct event_st *event;

static struct cuda cuda;
static event done;
static struct {
	result (*create)(event *, unsigned);
	result (*record)(event, stream);
	result (*synchronize)(event);
	result (*copy_out_async)(void *, address, size_t, stream);
} entries;

static void *
allocate(stream on)
{
	void *ptr = weir_malloc(bytes, (weir_stream)on);

	if (ptr == NULL) {
		fprintf(stderr, "%s\n", weir_last_error());
		exit(1);
	}
	return ptr;
}

static void
fill(void *ptr, stream on)
{
	for (unsigned i = 0; i < FILLS; i++)
		MUST(cuda.fill((address)(uintptr_t)ptr, i, bytes / 4, on));
}

static void
wait_for_stream(stream on, address ptr)
{
	(void)ptr;
	MUST(cuda.stream_synchronize(on));
}

static void
wait_for_event(stream on, address ptr)
{
	(void)ptr;
	MUST(entries.record(done, on));
	MUST(entries.synchronize(done));
}

static void
wait_for_context(stream on, address ptr)
{
	(void)on, (void)ptr;
	MUST(cuda.synchronize());
}

static void
wait_for_copy(stream on, address ptr)
{
	static char to[16];

	MUST(entries.copy_out_async(to, ptr, sizeof(to), on));
	MUST(cuda.stream_synchronize(on));
}

static uint64_t
delay_ns(void)
{
	struct weir_stats stats = { .struct_size = sizeof(stats) };

	if (weir_stats(0, &stats) != WEIR_OK)
		exit(1);
	return stats.gpu_delay_ns;
}

int
main(void)
{
	static void (*const waits[])(stream, address) = { wait_for_stream,
		wait_for_event, wait_for_context, wait_for_copy };
	stream first;
	stream second;
	uint64_t before = 0;

	cuda_by_dlsym(&cuda);
	cuda_start(&cuda);
	cuda_fetch("cuEventCreate", &entries.create);
	cuda_fetch("cuEventRecord", &entries.record);
	cuda_fetch("cuEventSynchronize", &entries.synchronize);
	cuda_fetch("cuMemcpyDtoHAsync_v2", &entries.copy_out_async);
	MUST(cuda.stream_create(&first, NON_BLOCKING, 0));
	MUST(cuda.stream_create(&second, NON_BLOCKING, 0));
	MUST(entries.create(&done, NO_TIMING));
	for (unsigned i = 0; i < sizeof(waits) / sizeof(waits[0]); i++) {
		void *one = allocate(first);

		fill(one, first);
		weir_free(one);
		void *two = allocate(second);

		fill(two, second);
		waits[i](second, (address)(uintptr_t)two);
		weir_free(two);
		weir_free(allocate(first)); /* weir looks at its waits */
		uint64_t now = delay_ns();

		if (now - before < delay_ns() / (2 * (i + 1)))
			printf("round %u\n", i + 1);
		before = now;
	}
	printf("delayed: %s\n", before > 0 ? "yes" : "no");
	return 0;
}
