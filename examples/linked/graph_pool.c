/*
 * A CUDA graph whose memory serves no other request.
 *
 *	cc -o graph_pool graph_pool.c $(pkg-config --cflags --libs weir) \
 *	    -lcudart
 *
 * Memory that is allocated during a capture comes from a pool that the graph
 * keeps. It may be freed within the capture, as here. The addresses belong to
 * the graph until it is reset.
 */
#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weir/graph.h>
#include <weir/host.h>
#include <weir/stream.h>
#include <weir/weir.h>

enum { BYTES = 1 << 20, REPLAYS = 3 };

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
	struct weir_stats stats = { .struct_size = sizeof(stats) };
	struct weir_graph *graph;
	struct weir_pool *pool;
	weir_stream stream;
	unsigned char *in, *out;
	void *scratch, *other;

	need(weir_stream_create(WEIR_DEVICE_CURRENT, 0, &stream) == WEIR_OK,
	    "a stream");
	need(weir_graph_create(WEIR_GRAPH_DEFAULT, &graph) == WEIR_OK,
	    "a graph");
	/* Memory that replays read and write lives as long as the graph. */
	in = weir_host_malloc(BYTES);
	out = weir_host_malloc(BYTES);
	need(in != NULL && out != NULL, "page-locked memory");

	need(weir_graph_capture_begin(
		 graph, stream, NULL, WEIR_CAPTURE_GLOBAL) == WEIR_OK,
	    "the capture");
	scratch = weir_malloc(BYTES, stream);
	need(scratch != NULL, "memory in the capture");
	cudaMemcpyAsync(scratch, in, BYTES, cudaMemcpyHostToDevice, stream);
	cudaMemcpyAsync(out, scratch, BYTES, cudaMemcpyDeviceToHost, stream);
	weir_free(scratch);
	need(weir_graph_capture_end(graph) == WEIR_OK, "the end of it");

	/* A request now gets other memory than the graph's. */
	other = weir_malloc(BYTES, stream);
	need(other != NULL, "a block");
	printf("the graph keeps its memory: %s\n",
	    other != scratch ? "yes" : "no");
	for (int i = 1; i <= REPLAYS; i++) {
		memset(in, i, BYTES);
		need(weir_graph_replay(graph, stream) == WEIR_OK, "a replay");
		need(weir_stream_synchronize(stream) == WEIR_OK, "its end");
		printf("replay %d gave %d\n", i, out[BYTES - 1]);
	}

	need(weir_graph_pool(graph, &pool) == WEIR_OK, "the pool");
	need(weir_pool_stats(pool, &stats) == WEIR_OK, "its statistics");
	printf("the pool holds its block: %s\n",
	    stats.reserved_bytes.all.current >= BYTES ? "yes" : "no");
	weir_graph_destroy(graph);
	weir_free(other);
	weir_host_free(in);
	weir_host_free(out);
	weir_stream_destroy(stream);
	return 0;
}
