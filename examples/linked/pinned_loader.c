/*
 * A loader of batches through page-locked memory.
 *
 *	cc -o pinned_loader pinned_loader.c $(pkg-config --cflags --libs weir) \
 *	    -lcudart
 *
 * Each batch gets another page-locked buffer. The host fills the buffer and
 * goes on while it is copied. The buffer is freed right after the copy was
 * queued: weir_host_record() records the stream's use, so weir hands the buffer
 * out again only after the copy. Two or three buffers are enough for all
 * batches.
 */
#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <weir/host.h>
#include <weir/stream.h>
#include <weir/weir.h>

enum { BATCH = 1 << 20, BATCHES = 64 };

static void
need(int ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "%s: %s\n", what, weir_last_error());
	exit(1);
}

/* A real loader reads a file or runs a decoder here. */
static void
fill(unsigned char *batch, int number)
{
	for (size_t i = 0; i < BATCH; i++)
		batch[i] = (unsigned char)(number + i);
}

int
main(void)
{
	static unsigned char back[BATCH];
	struct weir_stats stats = { .struct_size = sizeof(stats) };
	unsigned char *device;
	weir_stream stream;
	size_t wrong = 0;

	need(weir_stream_create(WEIR_DEVICE_CURRENT, 0, &stream) == WEIR_OK,
	    "a stream");
	device = weir_malloc((size_t)BATCHES * BATCH, stream);
	need(device != NULL, "device memory");
	for (int i = 0; i < BATCHES; i++) {
		unsigned char *buffer = weir_host_malloc(BATCH);

		need(buffer != NULL, "a buffer");
		fill(buffer, i);
		cudaMemcpyAsync(device + (size_t)i * BATCH, buffer, BATCH,
		    cudaMemcpyHostToDevice, stream);
		need(weir_host_record(buffer, stream) == WEIR_OK, "a record");
		weir_host_free(buffer);
		if (i % 2 == 1)
			weir_stream_synchronize(
			    stream); /* stands for the training */
	}
	for (int i = 0; i < BATCHES; i++) {
		need(weir_copy(back, device + (size_t)i * BATCH, BATCH,
			 stream) == WEIR_OK,
		    "a copy back");
		for (size_t k = 0; k < BATCH; k++)
			wrong += back[k] != (unsigned char)(i + k);
	}
	need(weir_host_stats(WEIR_DEVICE_CURRENT, &stats) == WEIR_OK,
	    "statistics");
	printf("batches: %d, wrong bytes: %zu\n", BATCHES, wrong);
	printf("a few buffers served them all: %s\n",
	    stats.allocated_bytes.all.peak <= 8 * BATCH ? "yes" : "no");
	weir_free(device);
	weir_stream_destroy(stream);
	return wrong != 0;
}
