/*
 * A pipeline: a loader and four stages, each on a stream of its own. Each stage
 * consumes the block of the stage before, and the host frees that block as soon
 * as its use is queued. The stages differ in speed and the batches in length,
 * so that the number of blocks between the stages varies.
 *
 * The results of some batches are kept for a while, as for a running average of
 * the last few.
 */
#include <stdlib.h>

#include "tools/weir/replay/workload.h"

enum {
	STAGES = 4,
	LAYERS = 3, /* of each stage */
	WIDTH = 4096,
	BATCH = 4,
	KEPT = 8,
	/* Bytes per microsecond from the host. */
	HOST_SPEED = 50000,
};

struct pipeline {
	struct work_agent agent;
	struct work_host *host; /* the agent's */
	struct work_stream loader;
	struct work_stream stages[STAGES];
	struct work_block kept[KEPT]; /* size 0: none */
	unsigned batch;
};

/* Tokens per microsecond of one layer, by stage. */
static const uint64_t speed[STAGES] = { 9, 7, 4, 8 };

static struct work_block
load_batch(struct pipeline *p, uint64_t tokens)
{
	struct work_block words = work_alloc(p->host, &p->loader, tokens * 8);
	struct work_block input =
	    work_alloc(p->host, &p->loader, tokens * WIDTH * 2);

	work_launch(p->host, &p->loader, input.size / HOST_SPEED);
	work_free(p->host, &words);
	return input;
}

/* Run one stage. It consumes `input` and returns its result. */
static struct work_block
pass_stage(
    struct pipeline *p, unsigned i, struct work_block *input, uint64_t tokens)
{
	struct work_stream *stream = &p->stages[i];
	struct work_stream *before = i == 0 ? &p->loader : &p->stages[i - 1];
	uint64_t size = tokens * WIDTH * 2;
	struct work_block output;

	work_wait(p->host, stream, before);
	for (int layer = 0; layer < LAYERS; layer++) {
		struct work_block heads = work_alloc(p->host, stream, 3 * size);
		struct work_block wide;

		work_launch(p->host, stream, tokens / speed[i] / 2);
		wide = work_alloc(p->host, stream, 4 * size);
		work_free(p->host, &heads);
		work_launch(p->host, stream, tokens / speed[i] / 2);
		if (layer == 0) {
			work_use(input, stream);
			work_free(p->host, input);
		}
		work_free(p->host, &wide);
	}
	output = work_alloc(p->host, stream, size);
	work_launch(p->host, stream, 10);
	return output;
}

static void
keep_result(struct pipeline *p, struct work_block *result)
{
	struct work_block *kept = &p->kept[p->batch % KEPT];

	if (kept->size != 0)
		work_free(p->host, kept);
	*kept = *result;
}

static void
pass_batch(struct work_agent *agent)
{
	struct pipeline *p = (struct pipeline *)agent;
	uint64_t tokens = BATCH * work_length(p->host, 128, 2048, 16);
	struct work_block block = load_batch(p, tokens);

	for (unsigned i = 0; i < STAGES; i++)
		block = pass_stage(p, i, &block, tokens);
	p->batch++;
	if (work_chance(p->host, 4))
		keep_result(p, &block);
	else
		work_free(p->host, &block);
}

struct work_agent *
work_pipeline(struct workload *workload, unsigned first_stream)
{
	struct pipeline *p = calloc(1, sizeof(*p));

	if (p == NULL)
		return NULL;
	p->agent.act = pass_batch;
	p->agent.host.workload = workload;
	p->host = &p->agent.host;
	p->loader.number = first_stream;
	for (unsigned i = 0; i < STAGES; i++) {
		p->stages[i].number = first_stream + 1 + i;
		/* The parameters of the stage. */
		for (int layer = 0; layer < LAYERS; layer++)
			work_alloc(p->host, &p->stages[i],
			    UINT64_C(12) * WIDTH * WIDTH);
	}
	return &p->agent;
}
