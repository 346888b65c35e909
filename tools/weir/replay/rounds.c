/*
 * Comparison of the requests of a round with those of the round before.
 */
#include "tools/weir/replay/rounds.h"

#include <stdlib.h>

struct request {
	const void *address;
	uint64_t size;
};

struct round {
	struct request *requests;
	size_t count;
	size_t capacity;
};

struct stream_rounds {
	bool begun; /* the stream has rounds */
	struct round before;
	struct round now;
};

struct rounds {
	struct rounds_count count;
	unsigned streams;
	struct stream_rounds of[];
};

struct rounds *
rounds_new(unsigned streams)
{
	struct rounds *rounds =
	    calloc(1, sizeof(*rounds) + streams * sizeof(rounds->of[0]));

	if (rounds != NULL)
		rounds->streams = streams;
	return rounds;
}

void
rounds_free(struct rounds *rounds)
{
	for (unsigned i = 0; rounds != NULL && i < rounds->streams; i++) {
		free(rounds->of[i].before.requests);
		free(rounds->of[i].now.requests);
	}
	free(rounds);
}

void
rounds_begin(struct rounds *rounds, unsigned stream)
{
	struct stream_rounds *of = &rounds->of[stream];
	struct round ended = of->now;

	of->now = of->before;
	of->now.count = 0;
	of->before = ended;
	of->begun = true;
	rounds->count.any = true;
}

static void
compare_requests(struct rounds *rounds, const struct request *before,
    const struct request *now)
{
	bool changed = before->address != now->address;
	bool large = now->size > ROUNDS_LARGE_ABOVE;

	if (before->size != now->size)
		return;
	rounds->count.compared++;
	rounds->count.changed += changed;
	rounds->count.large_compared += large;
	rounds->count.large_changed += large && changed;
}

bool
rounds_add(
    struct rounds *rounds, unsigned stream, uint64_t size, const void *address)
{
	struct stream_rounds *of = &rounds->of[stream];
	struct request request = { .address = address, .size = size };
	struct round *now = &of->now;

	if (!of->begun)
		return true;
	if (now->count == now->capacity) {
		size_t capacity = now->capacity == 0 ? 256 : 2 * now->capacity;
		struct request *requests =
		    realloc(now->requests, capacity * sizeof(request));

		if (requests == NULL)
			return false;
		now->requests = requests;
		now->capacity = capacity;
	}
	if (now->count < of->before.count)
		compare_requests(
		    rounds, &of->before.requests[now->count], &request);
	now->requests[now->count++] = request;
	return true;
}

void
rounds_reset(struct rounds *rounds)
{
	rounds->count = (struct rounds_count){ .any = rounds->count.any };
}

struct rounds_count
rounds_count(const struct rounds *rounds)
{
	return rounds->count;
}
