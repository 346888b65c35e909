/*
 * Training with batches that are loaded ahead into page-locked memory:
 *
 *	stream 0	computes
 *	stream 1	copies batches to the device
 *
 * A batch has images, in one of five sizes as in training at several scales,
 * their labels, and texts with their masks, padded to the longest one. 16
 * batches are loaded. Each step copies the oldest batch to the device, frees
 * it and loads another one in its place.
 */
#include <stdlib.h>

#include "tools/weir/replay/workload.h"

enum {
	BATCHES = 16,
	PARTS = 4,
	IMAGES = 256,
	TEXTS = 64,
	WIDTH = 1024, /* of the model */
	/* Bytes per microsecond from the host. */
	HOST_SPEED = 50000,
	/* Time of the computation, and of the host for loading a batch. */
	LAYERS = 4,
	LAYER_US = 2500,
	LOAD_US = 500,
};

struct loader {
	struct work_agent agent;
	struct work_host *host; /* the agent's */
	struct work_stream compute, copy;
	struct work_block batches[BATCHES][PARTS]; /* size 0: not loaded yet */
	unsigned oldest;
};

static void
load_batch(struct loader *l, struct work_block batch[PARTS])
{
	uint64_t side = 160 + 32 * work_random(l->host, 0, 4);
	uint64_t tokens = work_random(l->host, 64, 2048);
	const uint64_t sizes[PARTS] = { IMAGES * 3 * side * side, IMAGES * 8,
		TEXTS * tokens * 8, TEXTS * tokens };

	for (int i = 0; i < PARTS; i++)
		batch[i] = work_pin(l->host, &l->copy, sizes[i]);
	l->host->now_us += LOAD_US;
}

/* Copy a batch to the device, and free it on the host. */
static void
copy_batch(struct loader *l, struct work_block batch[PARTS],
    struct work_block copies[PARTS])
{
	for (int i = 0; i < PARTS; i++) {
		copies[i] = work_alloc(l->host, &l->copy, batch[i].size);
		work_launch(l->host, &l->copy, batch[i].size / HOST_SPEED + 1);
		work_use(&batch[i], &l->copy);
		work_free(l->host, &batch[i]);
	}
}

static void
train_with(struct loader *l, struct work_block copies[PARTS])
{
	work_wait(l->host, &l->compute, &l->copy);
	for (int i = 0; i < LAYERS; i++) {
		struct work_block result =
		    work_alloc(l->host, &l->compute, 4 * copies[0].size);

		work_launch(l->host, &l->compute, LAYER_US);
		work_free(l->host, &result);
	}
	for (int i = 0; i < PARTS; i++) {
		work_use(&copies[i], &l->compute);
		work_free(l->host, &copies[i]);
	}
}

static void
load_step(struct work_agent *agent)
{
	struct loader *l = (struct loader *)agent;
	struct work_block *batch = l->batches[l->oldest];
	struct work_block copies[PARTS];

	l->oldest = (l->oldest + 1) % BATCHES;
	if (batch[0].size == 0) {
		load_batch(l, batch);
		return;
	}
	copy_batch(l, batch, copies);
	train_with(l, copies);
	load_batch(l, batch);
	/* The program reads the loss. */
	work_await(l->host, &l->compute);
}

struct work_agent *
work_loader(struct workload *workload, unsigned first_stream)
{
	struct loader *l = calloc(1, sizeof(*l));

	if (l == NULL)
		return NULL;
	l->agent.act = load_step;
	l->agent.host.workload = workload;
	l->host = &l->agent.host;
	l->compute.number = first_stream;
	l->copy.number = first_stream + 1;
	/* The model's matrices. */
	for (int i = 0; i < 12 * LAYERS; i++)
		work_alloc(l->host, &l->compute, UINT64_C(4) * WIDTH * WIDTH);
	return &l->agent;
}
