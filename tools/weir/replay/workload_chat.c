/*
 * A thread that makes several answers at once, on one stream, a word of each by
 * turns. Each layer's keys and values grow with each word: they are copied to
 * blocks that are a word larger, and the old blocks are freed. Answers begin
 * and end at different times, and keep a few small results as long as they
 * last.
 */
#include <stdlib.h>

#include "tools/weir/replay/workload.h"

enum {
	ANSWERS = 5,
	LAYERS = 6,
	WIDTH = 1024, /* of keys, and of values */
	HIDDEN = 2048,
	VOCABULARY = 50000,
	NOTES = 24,
	/* Bytes per microsecond of a copy, and tokens of a layer. */
	COPY_SPEED = 1000000,
	TOKENS_PER_US = 6,
};

struct answer {
	uint64_t batch; /* texts */
	uint64_t length;
	uint64_t words; /* left; 0: the answer has not begun */
	struct work_block keys[LAYERS];
	struct work_block values[LAYERS];
	struct work_block notes[NOTES];
	unsigned n_notes;
};

struct chat {
	struct work_agent agent;
	struct work_host *host; /* the agent's */
	struct work_stream own;
	struct answer answers[ANSWERS];
};

/* Compute with a temporary block. */
static void
compute_with(struct chat *c, uint64_t size, uint64_t us)
{
	struct work_block block = work_alloc(c->host, &c->own, size);

	work_launch(c->host, &c->own, us);
	work_free(c->host, &block);
}

static struct work_block
alloc_words(struct chat *c, const struct answer *a)
{
	return work_alloc(c->host, &c->own, a->batch * a->length * WIDTH * 2);
}

static void
lengthen(struct chat *c, const struct answer *a, struct work_block *block)
{
	struct work_block longer = alloc_words(c, a);

	work_launch(c->host, &c->own, 2 + longer.size / COPY_SPEED);
	work_free(c->host, block);
	*block = longer;
}

static void
begin_answer(struct chat *c, struct answer *a)
{
	a->batch = work_random(c->host, 1, 8);
	a->length = work_length(c->host, 128, 2048, 1);
	a->words = work_length(c->host, 16, 400, 1);
	for (int i = 0; i < LAYERS; i++) {
		uint64_t tokens = a->batch * a->length;
		struct work_block input =
		    work_alloc(c->host, &c->own, tokens * HIDDEN * 2);

		a->keys[i] = alloc_words(c, a);
		a->values[i] = alloc_words(c, a);
		compute_with(
		    c, tokens * HIDDEN * 3, 5 + tokens / TOKENS_PER_US);
		work_free(c->host, &input);
	}
}

static void
say_word(struct chat *c, struct answer *a)
{
	a->length++;
	a->words--;
	for (int i = 0; i < LAYERS; i++) {
		lengthen(c, a, &a->keys[i]);
		lengthen(c, a, &a->values[i]);
		compute_with(c, a->batch * HIDDEN * 8, 20);
	}
	if (work_chance(c->host, 8) && a->n_notes < NOTES)
		a->notes[a->n_notes++] = work_alloc(c->host, &c->own,
		    a->batch * work_length(c->host, 512, 512 << 10, 512));
	compute_with(c, a->batch * VOCABULARY * 4, 40);
}

static void
end_answer(struct chat *c, struct answer *a)
{
	for (int i = 0; i < LAYERS; i++) {
		work_free(c->host, &a->keys[i]);
		work_free(c->host, &a->values[i]);
	}
	while (a->n_notes > 0)
		work_free(c->host, &a->notes[--a->n_notes]);
}

static void
answer_texts(struct work_agent *agent)
{
	struct chat *c = (struct chat *)agent;

	for (int i = 0; i < ANSWERS; i++) {
		struct answer *a = &c->answers[i];

		if (a->words == 0)
			begin_answer(c, a);
		say_word(c, a);
		if (a->words == 0)
			end_answer(c, a);
	}
}

struct work_agent *
work_chat(struct workload *workload, unsigned first_stream)
{
	struct chat *c = calloc(1, sizeof(*c));

	if (c == NULL)
		return NULL;
	c->agent.act = answer_texts;
	c->agent.host.workload = workload;
	c->host = &c->agent.host;
	c->own.number = first_stream;
	for (int i = 0; i < LAYERS; i++)
		work_alloc(c->host, &c->own, UINT64_C(6) * HIDDEN * HIDDEN * 2);
	return &c->agent;
}
