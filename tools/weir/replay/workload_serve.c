/*
 * A thread that serves requests to a language model, on a stream of its own.
 *
 * A request has a batch of prompts, some with images, which a temporary stream
 * encodes. The keys and values of all layers stay while the answer is made,
 * word by word. They grow by copies to larger blocks. Now and then a temporary
 * stream guesses words. A temporary stream is destroyed while it still has
 * work, and its result may outlive it.
 */
#include <stdlib.h>

#include "tools/weir/replay/workload.h"

enum {
	LAYERS = 12,
	WIDTH = 2048,
	WIDE = 5632,
	VOCABULARY = 32000,
	TEMPORARIES = 2, /* at once */
	/* Places by which keys and values grow. */
	GROWTH = 64,
	/* Tokens per microsecond of one layer. */
	TOKENS_PER_US = 8,
};

struct server {
	struct work_agent agent;
	struct work_host *host; /* the agent's */
	struct work_stream own;
	unsigned first_temporary;
	uint64_t batch;
	uint64_t places; /* capacity of the keys and values, in tokens */
	struct work_block cache[LAYERS];
	/* The latest temporary stream whose result is still in use. */
	struct work_stream encoder;
};

/* A new stream, ordered after the server's queued work. */
static struct work_stream
begin_temporary(struct server *s, unsigned i)
{
	struct work_stream stream = { .number = s->first_temporary + i };

	work_wait(s->host, &stream, &s->own);
	return stream;
}

/* ---- Keys and values ------------------------------------------------- */

static void
make_key_cache(struct server *s, uint64_t places)
{
	s->places = (places + GROWTH - 1) / GROWTH * GROWTH;
	for (int i = 0; i < LAYERS; i++)
		s->cache[i] = work_alloc(
		    s->host, &s->own, 2 * s->batch * s->places * WIDTH * 2);
}

static void
grow_cache(struct server *s)
{
	s->places += GROWTH;
	for (int i = 0; i < LAYERS; i++) {
		struct work_block larger = work_alloc(
		    s->host, &s->own, 2 * s->batch * s->places * WIDTH * 2);

		work_launch(s->host, &s->own, 1 + larger.size / MIB);
		work_free(s->host, &s->cache[i]);
		s->cache[i] = larger;
	}
}

/* ---- Temporary streams ----------------------------------------------- */

/*
 * Encode images on a temporary stream, and return the result for the prompt.
 * The result is a block of a stream that has ended, and the server's own stream
 * uses it.
 */
static struct work_block
encode_images(struct server *s)
{
	struct work_stream stream = begin_temporary(s, 0);
	uint64_t patches = s->batch * work_length(s->host, 128, 1024, 64);
	struct work_block result;

	result = work_alloc(s->host, &stream, patches * WIDTH / 4);
	for (int i = 0; i < 4; i++) {
		struct work_block wide =
		    work_alloc(s->host, &stream, patches * WIDE);
		struct work_block narrow =
		    work_alloc(s->host, &stream, patches * WIDTH * 2);

		work_launch(s->host, &stream, patches / TOKENS_PER_US);
		work_free(s->host, &wide);
		work_free(s->host, &narrow);
	}
	work_wait(s->host, &s->own, &stream);
	work_end(s->host, &stream);
	s->encoder = stream;
	result.own = &s->encoder;
	return result;
}

/* Guess the next words from the scores. The server frees the scores without
 * waiting for this. */
static void
guess_words(struct server *s, struct work_block *scores)
{
	struct work_stream stream = begin_temporary(s, 1);
	struct work_block words;

	words = work_alloc(s->host, &stream, 8 * s->batch * 8);
	for (int i = 0; i < 3; i++) {
		struct work_block state =
		    work_alloc(s->host, &stream, s->batch * WIDE * 64);

		work_launch(s->host, &stream, work_random(s->host, 50, 400));
		work_free(s->host, &state);
	}
	work_use(scores, &stream);
	work_free(s->host, scores);
	work_free(s->host, &words);
	work_end(s->host, &stream);
}

/* ---- A request ------------------------------------------------------- */

/* Run one layer over `tokens` tokens. */
static void
pass_layer(struct server *s, uint64_t tokens)
{
	uint64_t us = 1 + tokens / TOKENS_PER_US;
	struct work_block mixed;
	struct work_block wide;
	struct work_block heads =
	    work_alloc(s->host, &s->own, 3 * tokens * WIDTH * 2);

	work_launch(s->host, &s->own, us / 2);
	mixed = work_alloc(s->host, &s->own, tokens * WIDTH * 2);
	work_launch(s->host, &s->own, us / 4);
	work_free(s->host, &heads);
	wide = work_alloc(s->host, &s->own, tokens * WIDE * 2);
	work_launch(s->host, &s->own, us / 2);
	work_free(s->host, &mixed);
	work_free(s->host, &wide);
}

static void
read_prompt(struct server *s, uint64_t length)
{
	uint64_t tokens = s->batch * length;
	struct work_block prompt = work_alloc(s->host, &s->own, tokens * 8);

	work_launch(s->host, &s->own, 2);
	make_key_cache(s, length);
	if (work_chance(s->host, 3)) {
		struct work_block images = encode_images(s);

		work_launch(s->host, &s->own, 10);
		work_use(&images, &s->own);
		work_free(s->host, &images);
	}
	for (int i = 0; i < LAYERS; i++)
		pass_layer(s, tokens);
	work_free(s->host, &prompt);
}

static void
make_answer(struct server *s, uint64_t length, uint64_t words)
{
	for (uint64_t i = 0; i < words; i++) {
		struct work_block scores;

		if (length + i >= s->places)
			grow_cache(s);
		pass_layer(s, s->batch);
		scores =
		    work_alloc(s->host, &s->own, s->batch * VOCABULARY * 4);
		work_launch(s->host, &s->own, 200);
		if (work_chance(s->host, 8))
			guess_words(s, &scores);
		else
			work_free(s->host, &scores);
	}
}

static void
serve_request(struct work_agent *agent)
{
	struct server *s = (struct server *)agent;
	uint64_t length = work_length(s->host, 64, 2048, 1);
	uint64_t words = work_length(s->host, 8, 96, 1);

	/* The time until the request arrives. */
	s->host->now_us += work_random(s->host, 0, 10000);
	s->batch = work_random(s->host, 1, 6);
	read_prompt(s, length);
	make_answer(s, length, words);
	work_synchronize(s->host, &s->own);
	for (int i = 0; i < LAYERS; i++)
		work_free(s->host, &s->cache[i]);
}

struct work_agent *
work_server(struct workload *workload, unsigned first_stream)
{
	struct server *s = calloc(1, sizeof(*s));

	if (s == NULL)
		return NULL;
	s->agent.act = serve_request;
	s->agent.host.workload = workload;
	s->host = &s->agent.host;
	s->own.number = first_stream;
	s->first_temporary = first_stream + 1;
	return &s->agent;
}
