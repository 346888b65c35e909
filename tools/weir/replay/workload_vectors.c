/*
 * Arrays that double, on one stream, as in a join of tables whose result has an
 * unknown size. Rows are appended to one of several arrays; an array that is
 * full is copied to one of twice the size. A result that is complete is copied
 * to a block of its exact size, is used for a while, and is freed.
 */
#include <stdlib.h>

#include "tools/weir/replay/workload.h"

enum {
	ARRAYS = 12,
	RESULTS = 20,
	APPENDS = 200, /* in a step */
	FIRST = 256 << 10,
	COPY_SPEED = 1000000, /* bytes per microsecond */
};

struct vectors {
	struct work_agent agent;
	struct work_host *host; /* the agent's */
	struct work_stream own;
	struct {
		struct work_block block; /* size 0: none */
		uint64_t used;
		uint64_t goal; /* bytes of the result */
	} arrays[ARRAYS];
	struct work_block results[RESULTS]; /* size 0: none */
	unsigned next_result;
};

static struct work_block
copy_to(struct vectors *v, uint64_t size, uint64_t used)
{
	struct work_block copy = work_alloc(v->host, &v->own, size);

	work_launch(v->host, &v->own, 2 + used / COPY_SPEED);
	return copy;
}

/* Copy a complete array to its exact size, in the place of an older result. */
static void
complete(struct vectors *v, unsigned i)
{
	struct work_block *result = &v->results[v->next_result];

	if (result->size > 0)
		work_free(v->host, result);
	*result = copy_to(v, v->arrays[i].used, v->arrays[i].used);
	work_free(v->host, &v->arrays[i].block);
	v->arrays[i].block.size = 0;
	v->next_result = (v->next_result + 1) % RESULTS;
}

static void
append(struct vectors *v, unsigned i, uint64_t bytes)
{
	struct work_block *block = &v->arrays[i].block;

	if (block->size == 0) {
		v->arrays[i].used = 0;
		v->arrays[i].goal =
		    work_length(v->host, MIB, 256 * (uint64_t)MIB, 512);
		*block = work_alloc(v->host, &v->own, FIRST);
	}
	v->arrays[i].used += bytes;
	while (v->arrays[i].used > block->size) {
		struct work_block twice =
		    copy_to(v, 2 * block->size, block->size);

		work_free(v->host, block);
		*block = twice;
	}
	if (v->arrays[i].used >= v->arrays[i].goal)
		complete(v, i);
}

static void
join_tables(struct work_agent *agent)
{
	struct vectors *v = (struct vectors *)agent;

	for (int i = 0; i < APPENDS; i++) {
		uint64_t bytes = work_length(v->host, 4096, 8 * MIB, 512);
		struct work_block found = copy_to(v, bytes, bytes);

		append(v, (unsigned)work_random(v->host, 0, ARRAYS - 1), bytes);
		work_free(v->host, &found);
	}
}

struct work_agent *
work_vectors(struct workload *workload, unsigned first_stream)
{
	struct vectors *v = calloc(1, sizeof(*v));

	if (v == NULL)
		return NULL;
	v->agent.act = join_tables;
	v->agent.host.workload = workload;
	v->host = &v->agent.host;
	v->own.number = first_stream;
	return &v->agent;
}
