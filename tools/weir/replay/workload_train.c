/*
 * Training of a layered model. Transfers beside the computation have streams of
 * their own:
 *
 *	stream 0	computes: forward, backward, optimizer
 *	stream 1	gathers the parameters of a layer, one layer ahead
 *	stream 2	reduces the gradients of a layer over all devices
 *	stream 3	copies activations to the host, and back before their
 *use
 *
 * The model has 16 layers of width 2048, with 16-bit numbers. Batch and length
 * vary from step to step. Every few steps larger batches are evaluated, without
 * gradients.
 */
#include <stdlib.h>

#include "tools/weir/replay/workload.h"

enum {
	LAYERS = 16,
	WIDTH = 2048,
	VOCABULARY = 32000,
	DEVICES = 8,        /* that share the parameters */
	EVALUATE_EVERY = 6, /* steps */
	/* Bytes per microsecond between devices, and to the host. */
	LINK_SPEED = 100000,
	HOST_SPEED = 50000,
	/* Tokens per microsecond of one layer, forward. */
	TOKENS_PER_US = 4,
};

/* Bytes of the parameters of a layer: 12 matrices of its width. */
static const uint64_t layer_bytes = UINT64_C(12) * WIDTH * WIDTH * 2;

struct trainer {
	struct work_agent agent;
	struct work_host *host; /* the agent's */
	bool gathers;
	bool reduces;
	bool offloads;
	struct work_stream compute, gather, reduce, copy;
	uint64_t tokens;                   /* in this step */
	struct work_block gathered[2];     /* this layer's and the next one's */
	struct work_block saved[LAYERS];   /* activations for backward */
	struct work_block reduced[LAYERS]; /* gradients for the optimizer */
	struct work_block residual;        /* output of the latest layer */
};

static uint64_t
activation_bytes(const struct trainer *t)
{
	return t->tokens * WIDTH * 2;
}

/* ---- Parameters ------------------------------------------------------ */

/* Allocate the parameters, or this device's share of them, in 16 bits, and in
 * 32 bits with the optimizer's two averages. They stay until the end. */
static void
hold_parameters(struct trainer *t)
{
	uint64_t share = t->gathers ? layer_bytes / DEVICES : layer_bytes;

	for (int i = 0; i < LAYERS; i++)
		work_alloc(t->host, &t->compute, share);
	work_alloc(t->host, &t->compute, (uint64_t)VOCABULARY * WIDTH * 2);
	for (int i = 0; i < 3 * LAYERS; i++)
		work_alloc(t->host, &t->compute, layer_bytes / DEVICES * 2);
}

/* Begin to gather a layer. At most two layers are held. */
static void
begin_gather(struct trainer *t, unsigned layer)
{
	struct work_block *full = &t->gathered[layer % 2];

	if (!t->gathers)
		return;
	*full = work_alloc(t->host, &t->gather, layer_bytes);
	work_launch(t->host, &t->gather, layer_bytes / LINK_SPEED);
}

static void
await_gathered(struct trainer *t)
{
	if (t->gathers)
		work_wait(t->host, &t->compute, &t->gather);
}

static void
drop_gathered(struct trainer *t, unsigned layer)
{
	struct work_block *full = &t->gathered[layer % 2];

	if (!t->gathers)
		return;
	work_use(full, &t->compute);
	work_free(t->host, full);
}

/* ---- Activations ----------------------------------------------------- */

static void
offload_activation(struct trainer *t, unsigned layer)
{
	struct work_block *saved = &t->saved[layer];

	if (!t->offloads)
		return;
	work_wait(t->host, &t->copy, &t->compute);
	work_launch(t->host, &t->copy, saved->size / HOST_SPEED);
	work_use(saved, &t->copy);
	work_free(t->host, saved);
}

static void
reload_activation(struct trainer *t, unsigned layer)
{
	uint64_t size = t->saved[layer].size;

	if (!t->offloads)
		return;
	t->saved[layer] = work_alloc(t->host, &t->copy, size);
	work_launch(t->host, &t->copy, size / HOST_SPEED);
	work_wait(t->host, &t->compute, &t->copy);
	/* Later work of `compute` uses it. */
	work_use(&t->saved[layer], &t->compute);
}

/* ---- A step ---------------------------------------------------------- */

/* Run attention, then the wide part. `residual` becomes the layer's output. */
static void
forward_layer(struct trainer *t, unsigned layer, bool keep)
{
	struct work_host *host = t->host;
	uint64_t act = activation_bytes(t);
	struct work_block qkv = work_alloc(host, &t->compute, 3 * act);
	struct work_block mixed;
	struct work_block wide;
	struct work_block out;

	work_launch(host, &t->compute, t->tokens / TOKENS_PER_US / 4);
	mixed = work_alloc(host, &t->compute, act);
	work_launch(host, &t->compute, t->tokens / TOKENS_PER_US / 8);
	work_free(host, &qkv);
	wide = work_alloc(host, &t->compute, 4 * act);
	work_launch(host, &t->compute, t->tokens / TOKENS_PER_US / 4);
	out = work_alloc(host, &t->compute, act);
	work_launch(host, &t->compute, t->tokens / TOKENS_PER_US / 4);
	work_free(host, &wide);
	if (keep) {
		t->saved[layer] = mixed;
		offload_activation(t, layer);
	} else {
		work_free(host, &mixed);
	}
	work_free(host, &t->residual);
	t->residual = out;
}

/* Compute the gradients of a layer. `residual` becomes the gradient of its
 * input. */
static void
backward_layer(struct trainer *t, unsigned layer)
{
	struct work_host *host = t->host;
	uint64_t act = activation_bytes(t);
	struct work_block again = work_alloc(host, &t->compute, 4 * act);
	struct work_block before;
	struct work_block gradient;

	work_launch(host, &t->compute, t->tokens / TOKENS_PER_US);
	gradient = work_alloc(host, &t->compute, layer_bytes);
	work_launch(host, &t->compute, t->tokens / TOKENS_PER_US);
	before = work_alloc(host, &t->compute, act);
	work_launch(host, &t->compute, t->tokens / TOKENS_PER_US / 2);
	if (t->offloads)
		work_use(&t->saved[layer], &t->compute);
	work_free(host, &again);
	work_free(host, &t->saved[layer]);
	work_free(host, &t->residual);
	t->residual = before;
	t->reduced[layer] = gradient;
	if (!t->reduces)
		return;
	t->reduced[layer] = work_alloc(host, &t->reduce, layer_bytes / DEVICES);
	work_wait(host, &t->reduce, &t->compute);
	work_launch(host, &t->reduce, layer_bytes / LINK_SPEED);
	work_use(&gradient, &t->reduce);
	work_free(host, &gradient);
}

static void
forward(struct trainer *t, bool keep)
{
	t->residual = work_alloc(t->host, &t->compute, activation_bytes(t));
	begin_gather(t, 0);
	for (unsigned i = 0; i < LAYERS; i++) {
		await_gathered(t);
		if (i + 1 < LAYERS)
			begin_gather(t, i + 1);
		forward_layer(t, i, keep);
		drop_gathered(t, i);
	}
}

static void
backward(struct trainer *t)
{
	begin_gather(t, LAYERS - 1);
	for (unsigned i = LAYERS; i-- > 0;) {
		await_gathered(t);
		if (i > 0)
			begin_gather(t, i - 1);
		reload_activation(t, i);
		backward_layer(t, i);
		drop_gathered(t, i);
	}
}

/* Compute the scores of all words, and the loss from them. */
static void
compute_loss(struct trainer *t)
{
	uint64_t size = t->tokens * VOCABULARY * 2;
	struct work_block scores = work_alloc(t->host, &t->compute, size);
	struct work_block loss;

	work_launch(t->host, &t->compute, t->tokens / TOKENS_PER_US);
	loss = work_alloc(t->host, &t->compute, 4);
	work_launch(t->host, &t->compute, t->tokens / TOKENS_PER_US / 4);
	work_free(t->host, &scores);
	work_free(t->host, &loss);
}

static void
optimize(struct trainer *t)
{
	if (t->reduces)
		work_wait(t->host, &t->compute, &t->reduce);
	for (unsigned i = 0; i < LAYERS; i++) {
		struct work_block update =
		    work_alloc(t->host, &t->compute, layer_bytes / DEVICES * 2);

		work_launch(t->host, &t->compute, 50);
		if (t->reduces)
			work_use(&t->reduced[i], &t->compute);
		work_free(t->host, &update);
		work_free(t->host, &t->reduced[i]);
	}
}

/* Run one step of training or of evaluation. */
static void
train(struct work_agent *agent)
{
	struct trainer *t = (struct trainer *)agent;
	uint64_t batch = work_random(t->host, 1, 4);

	if ((agent->step + 1) % EVALUATE_EVERY == 0) {
		t->tokens = 8 * work_length(t->host, 256, 1536, 8);
		forward(t, false);
		work_free(t->host, &t->residual);
		work_synchronize(t->host, &t->compute);
		return;
	}
	t->tokens = batch * work_length(t->host, 256, 2048, 8);
	forward(t, true);
	compute_loss(t);
	backward(t);
	work_free(t->host, &t->residual);
	optimize(t);
}

struct work_agent *
work_trainer(
    struct workload *workload, unsigned training, unsigned first_stream)
{
	struct trainer *t = calloc(1, sizeof(*t));

	if (t == NULL)
		return NULL;
	t->agent.act = train;
	t->agent.host.workload = workload;
	t->host = &t->agent.host;
	t->gathers = (training & WORK_GATHER) != 0;
	t->reduces = (training & WORK_REDUCE) != 0;
	t->offloads = (training & WORK_OFFLOAD) != 0;
	t->compute.number = first_stream;
	t->gather.number = first_stream + 1;
	t->reduce.number = first_stream + 2;
	t->copy.number = first_stream + 3;
	hold_parameters(t);
	return &t->agent;
}
