/*
 * The bytes are a program of captures, private pools and checkpoints. Memory
 * that a live graph keeps is given to no other request, and in the end
 * weir_check() finds no fault.
 */
#include <stdlib.h>
#include <string.h>

#include <weir/graph.h>
#include <weir/stream.h>

#include "tests/fuzz/fuzz.h"

enum { GRAPHS = 3, BLOCKS = 16, STREAMS = 2 };

static struct weir_graph *graphs[GRAPHS];
static struct weir_pool *pool;
static struct weir_checkpoint *checkpoint;
static weir_stream streams[STREAMS];
static int capturing; /* the graph, from 1; 0: none */
static void *blocks[BLOCKS];

static void
allocate(struct fuzz_steps *steps, int n)
{
	size_t size = (size_t)fuzz_number(steps, 2) << 6;
	weir_stream on = streams[fuzz_byte(steps) % STREAMS];

	if (blocks[n] == NULL)
		blocks[n] = weir_malloc(size, on);
	else if (weir_free(blocks[n]) == WEIR_OK)
		blocks[n] = NULL;
}

static void
capture(struct fuzz_steps *steps, int g)
{
	if (capturing != 0) {
		weir_graph_capture_end(graphs[capturing - 1]);
		capturing = 0;
		return;
	}
	if (graphs[g] != NULL) {
		weir_graph_destroy(graphs[g]);
		graphs[g] = NULL;
	}
	if (weir_graph_create(0, &graphs[g]) != WEIR_OK) {
		graphs[g] = NULL;
		return;
	}
	if (weir_graph_capture_begin(graphs[g],
		streams[fuzz_byte(steps) % STREAMS],
		fuzz_byte(steps) & 1 ? pool : NULL,
		WEIR_CAPTURE_RELAXED) == WEIR_OK)
		capturing = g + 1;
}

static void
work_in_pool(struct fuzz_steps *steps)
{
	unsigned what = fuzz_byte(steps) % 5;
	void *ptr;

	if (capturing != 0)
		return;
	if (what == 0 && checkpoint == NULL) {
		if (weir_checkpoint_take(pool, &checkpoint) != WEIR_OK)
			checkpoint = NULL;
	} else if (what == 1 && checkpoint != NULL) {
		struct weir_restored restored = { 0 };

		if (weir_checkpoint_restore(pool, checkpoint, &restored) ==
		    WEIR_OK) {
			for (size_t i = 0; i < restored.n_live; i++)
				weir_free(restored.live[i]);
			weir_restored_drop(&restored);
		}
	} else if (what == 2 && checkpoint != NULL) {
		weir_checkpoint_drop(checkpoint);
		checkpoint = NULL;
	} else if (what == 3) {
		weir_pool_trim(pool, 0, NULL);
	} else {
		ptr = weir_pool_malloc(
		    pool, (size_t)fuzz_number(steps, 2) << 4, streams[0]);
		if (ptr != NULL && (fuzz_byte(steps) & 1))
			weir_free(ptr);
	}
}

static void
step(struct fuzz_steps *steps)
{
	unsigned what = fuzz_byte(steps) % 10;
	unsigned n = fuzz_byte(steps);
	int g = (int)(n % GRAPHS);

	if (what < 4)
		allocate(steps, (int)(n % BLOCKS));
	else if (what < 6)
		capture(steps, g);
	else if (what == 6 && capturing == 0 && graphs[g] != NULL)
		weir_graph_replay(graphs[g], streams[n % STREAMS]);
	else if (what == 7 && capturing == 0 && graphs[g] != NULL)
		weir_graph_reset(graphs[g]);
	else if (what == 8)
		work_in_pool(steps);
	else
		weir_stream_wait_stream(streams[n & 1], streams[n >> 1 & 1]);
}

static void
begin(void)
{
	fuzz_device();
	fuzz_expect(weir_pool_create(0, NULL, 0, &pool) == WEIR_OK, "pool");
	for (int i = 0; i < STREAMS; i++)
		fuzz_expect(weir_stream_create(
				WEIR_DEVICE_CURRENT, 0, &streams[i]) == WEIR_OK,
		    "weir_stream_create");
}

static void
finish(void)
{
	if (capturing != 0)
		weir_graph_capture_end(graphs[capturing - 1]);
	capturing = 0;
	fuzz_expect_healthy();
	if (checkpoint != NULL)
		weir_checkpoint_drop(checkpoint);
	checkpoint = NULL;
	for (int i = 0; i < BLOCKS; i++) {
		if (blocks[i] != NULL)
			weir_free(blocks[i]);
		blocks[i] = NULL;
	}
	for (int g = 0; g < GRAPHS; g++) {
		weir_graph_destroy(graphs[g]);
		graphs[g] = NULL;
	}
	weir_pool_release(pool);
	weir_device_synchronize(0);
	for (int i = 0; i < STREAMS; i++)
		weir_stream_destroy(streams[i]);
	weir_trim(0, 0, NULL);
	fuzz_expect_healthy();
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_steps steps = { data, data + size };

	begin();
	while (fuzz_more(&steps))
		step(&steps);
	finish();
	return 0;
}
