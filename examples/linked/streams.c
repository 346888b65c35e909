/*
 * Memory of one stream that another one uses, and when weir hands it out again.
 *
 *	cc -o streams streams.c $(pkg-config --cflags --libs weir) -lcudart
 *
 * A block belongs to the stream that it was allocated for. When it is freed,
 * that stream can reuse it at once, because the stream runs its work in order.
 * If another stream uses the block, call weir_record_stream(); then the block
 * waits until that stream has done the work that it had queued at the free.
 */
#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <weir/stream.h>
#include <weir/weir.h>

enum { BYTES = 8 << 20 };

static void
need(int ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "%s: %s\n", what, weir_last_error());
	exit(1);
}

int
main(void)
{
	static unsigned char host[BYTES];
	weir_stream maker, reader;
	void *block, *next, *later;

	need(weir_stream_create(WEIR_DEVICE_CURRENT, 0, &maker) == WEIR_OK,
	    "a stream");
	need(weir_stream_create(WEIR_DEVICE_CURRENT, 0, &reader) == WEIR_OK,
	    "a stream");

	/* With one stream only, the next request gets the same memory. */
	block = weir_malloc(BYTES, maker);
	need(block != NULL, "a block");
	cudaMemsetAsync(block, 1, BYTES, maker);
	weir_free(block);
	next = weir_malloc(BYTES, maker);
	need(next != NULL, "a block");
	printf(
	    "its own stream has it again: %s\n", next == block ? "yes" : "no");

	/* The reader is ordered after the maker, and uses the block too. */
	cudaMemsetAsync(next, 2, BYTES, maker);
	need(weir_stream_wait_stream(reader, maker) == WEIR_OK, "a wait");
	cudaMemcpyAsync(host, next, BYTES, cudaMemcpyDeviceToHost, reader);
	need(weir_record_stream(next, reader) == WEIR_OK, "a record");
	weir_free(next); /* freed now, though the reader may not be done */
	need(weir_stream_synchronize(reader) == WEIR_OK, "the reader");
	printf("the reader saw: %d\n", host[BYTES - 1]);

	/* All work is done, so the block is free again. */
	later = weir_malloc(BYTES, maker);
	need(later != NULL, "a block");
	printf("after the reader it is free again: %s\n",
	    later == next ? "yes" : "no");
	weir_free(later);
	weir_stream_destroy(reader);
	weir_stream_destroy(maker);
	return 0;
}
