/*
 * Learning from what the model itself does, on one stream. A step has two
 * phases of very different sizes:
 *
 *	play	many episodes at once; each moment appends to pages of keys and
 *		values, and keeps what was seen and done
 *	learn	a few passes over what was kept, in parts, with activations
 *		and gradients of all layers
 *
 * Episodes differ in number and length, and so do the parts.
 */
#include <stdlib.h>

#include "tools/weir/replay/workload.h"

enum {
	LAYERS = 8,
	WIDTH = 2048,
	MOMENTS = 48,
	/* Moments in a page of keys and values. */
	PAGE = 12,
	PAGES = MOMENTS / PAGE,
	PASSES = 2,
	TOKENS_PER_US = 6,
};

static const uint64_t matrix_bytes = UINT64_C(2) * WIDTH * WIDTH * 2;

struct learner {
	struct work_agent agent;
	struct work_host *host; /* the agent's */
	struct work_stream own;
	uint64_t episodes;
	struct work_block pages[PAGES][LAYERS];
	struct work_block seen[MOMENTS];
	struct work_block scores[MOMENTS];
};

/* A block that the next work computes. */
static struct work_block
compute_block(struct learner *l, uint64_t size, uint64_t us)
{
	struct work_block block = work_alloc(l->host, &l->own, size);

	work_launch(l->host, &l->own, us);
	return block;
}

/* ---- Playing --------------------------------------------------------- */

static void
play_moment(struct learner *l, unsigned moment)
{
	uint64_t state = l->episodes * WIDTH * 2;
	unsigned page = moment / PAGE;

	for (int i = 0; i < LAYERS; i++) {
		if (moment % PAGE == 0)
			l->pages[page][i] =
			    work_alloc(l->host, &l->own, PAGE * state);
		struct work_block wide =
		    compute_block(l, 4 * state, 10 + l->episodes / 16);
		work_free(l->host, &wide);
	}
	l->seen[moment] = compute_block(l, 2 * state, 5);
	l->scores[moment] =
	    compute_block(l, l->episodes * work_random(l->host, 4, 64), 5);
}

static void
play(struct learner *l, unsigned moments)
{
	for (unsigned i = 0; i < moments; i++) {
		play_moment(l, i);
		/* Some episodes end. */
		l->episodes -= work_random(l->host, 0, l->episodes / 32);
	}
	for (unsigned page = 0; page * PAGE < moments; page++)
		for (int i = 0; i < LAYERS; i++)
			work_free(l->host, &l->pages[page][i]);
}

/* ---- Learning -------------------------------------------------------- */

static void
learn_part(struct learner *l, uint64_t tokens)
{
	struct work_block kept[LAYERS];
	struct work_block gradients[LAYERS];
	uint64_t act = tokens * WIDTH * 2;

	for (int i = 0; i < LAYERS; i++) {
		struct work_block wide =
		    compute_block(l, 3 * act, tokens / TOKENS_PER_US);

		kept[i] = compute_block(l, 2 * act, tokens / TOKENS_PER_US);
		work_free(l->host, &wide);
	}
	for (int i = LAYERS - 1; i >= 0; i--) {
		struct work_block wide =
		    compute_block(l, 4 * act, tokens / TOKENS_PER_US);

		gradients[i] =
		    compute_block(l, matrix_bytes, tokens / TOKENS_PER_US);
		work_free(l->host, &wide);
		work_free(l->host, &kept[i]);
	}
	for (int i = 0; i < LAYERS; i++) {
		work_launch(l->host, &l->own, 40);
		work_free(l->host, &gradients[i]);
	}
}

static void
learn(struct learner *l, unsigned moments)
{
	uint64_t most = work_length(l->host, 2048, 16384, 64);

	for (unsigned pass = 0; pass < PASSES; pass++)
		for (uint64_t left = l->episodes * moments; left > 0;) {
			uint64_t part =
			    work_length(l->host, most / 4, most, 64);

			if (part > left)
				part = left;
			learn_part(l, part);
			left -= part;
		}
}

static void
rl_step(struct work_agent *agent)
{
	struct learner *l = (struct learner *)agent;
	unsigned moments = (unsigned)work_random(l->host, MOMENTS / 3, MOMENTS);

	l->episodes = work_length(l->host, 64, 512, 1);
	play(l, moments);
	learn(l, moments);
	for (unsigned i = 0; i < moments; i++) {
		work_free(l->host, &l->seen[i]);
		work_free(l->host, &l->scores[i]);
	}
	/* The program reads how well it did. */
	work_synchronize(l->host, &l->own);
}

struct work_agent *
work_learner(struct workload *workload, unsigned first_stream)
{
	struct learner *l = calloc(1, sizeof(*l));

	if (l == NULL)
		return NULL;
	l->agent.act = rl_step;
	l->agent.host.workload = workload;
	l->host = &l->agent.host;
	l->own.number = first_stream;
	for (int i = 0; i < LAYERS; i++)
		for (int copy = 0; copy < 3; copy++)
			work_alloc(l->host, &l->own, matrix_bytes);
	return &l->agent;
}
