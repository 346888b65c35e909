/*
 * A program that is linked with libweir and orders its streams with the
 * driver's events: a stream that waits for another one gets memory that the
 * other has freed, though the other is still busy. Prints whether it did.
 */
#include <stdio.h>
#include <stdlib.h>
#include <weir/weir.h>

#include "common/cuda.h"

enum { FILLS = 200, NON_BLOCKING = 1, NO_TIMING = 2 };

static const size_t bytes = (size_t)32 << 20;

typedef struct event_st *event;

static struct cuda cuda;
static struct {
	result (*create)(event *, unsigned);
	result (*record)(event, stream);
	result (*wait)(stream, event, unsigned);
} events;

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

int
main(void)
{
	stream first;
	stream second;
	event done;

	cuda_by_dlsym(&cuda);
	cuda_start(&cuda);
	cuda_fetch("cuEventCreate", &events.create);
	cuda_fetch("cuEventRecord", &events.record);
	cuda_fetch("cuStreamWaitEvent", &events.wait);
	MUST(cuda.stream_create(&first, NON_BLOCKING, 0));
	MUST(cuda.stream_create(&second, NON_BLOCKING, 0));
	MUST(events.create(&done, NO_TIMING));
	weir_free(allocate(second)); /* weir meets the stream */
	void *one = allocate(first);
	void *kept = allocate(first);

	for (unsigned i = 0; i < FILLS; i++)
		MUST(cuda.fill((address)(uintptr_t)one, i, bytes / 4, first));
	weir_free(one);
	MUST(events.record(done, first));
	MUST(events.wait(second, done, 0));
	printf("the same memory: %s\n", allocate(second) == one ? "yes" : "no");
	weir_free(kept);
	return 0;
}
