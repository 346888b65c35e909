/*
 * Training of a model that recommends, on one stream. A batch has features of
 * many tables. The rows that it looks up differ in number by table and batch,
 * and so do the blocks for them: the numbers of the rows, sorted and without
 * repetitions, the rows, their sums and their gradients. The tables themselves
 * stay. Every few batches a cache of hot rows is made anew, larger or smaller.
 */
#include <stdlib.h>

#include "tools/weir/replay/workload.h"

enum {
	TABLES = 24,
	WIDTH = 128,
	DENSE = 4,
	CACHE_EVERY = 40, /* batches */
	ROWS_PER_US = 2000,
};

struct recommender {
	struct work_agent agent;
	struct work_host *host; /* the agent's */
	struct work_stream own;
	struct work_block sums[TABLES];
	struct work_block unique[TABLES];
	struct work_block hot; /* size 0: none yet */
};

static struct work_block
compute_rows_of(struct recommender *r, uint64_t rows, uint64_t bytes)
{
	struct work_block block = work_alloc(r->host, &r->own, rows * bytes);

	work_launch(r->host, &r->own, 3 + rows / ROWS_PER_US);
	return block;
}

static void
look_up(struct recommender *r, unsigned table, uint64_t batch)
{
	uint64_t each = work_length(r->host, 1, 40, 1);
	uint64_t rows = batch * each + work_random(r->host, 0, batch);
	struct work_block numbers = compute_rows_of(r, rows, 8);
	struct work_block sorted = compute_rows_of(r, rows, 16);
	struct work_block looked_up;

	r->unique[table] =
	    compute_rows_of(r, rows / work_random(r->host, 1, 6) + 1, 8);
	work_free(r->host, &numbers);
	looked_up = compute_rows_of(r, rows, (uint64_t)WIDTH * 2);
	work_free(r->host, &sorted);
	r->sums[table] = compute_rows_of(r, batch, (uint64_t)WIDTH * 4);
	work_free(r->host, &looked_up);
}

static void
learn_rows(struct recommender *r, unsigned table)
{
	uint64_t rows = r->unique[table].size / 8;
	struct work_block gradients =
	    compute_rows_of(r, rows, (uint64_t)WIDTH * 4);

	work_free(r->host, &r->sums[table]);
	work_launch(r->host, &r->own, 3 + rows / ROWS_PER_US);
	work_free(r->host, &gradients);
	work_free(r->host, &r->unique[table]);
}

static void
renew_cache(struct recommender *r)
{
	uint64_t rows = work_length(r->host, 100000, 1600000, 1);
	struct work_block hot = compute_rows_of(r, rows, (uint64_t)WIDTH * 2);

	if (r->hot.size > 0)
		work_free(r->host, &r->hot);
	r->hot = hot;
}

static void
recommend_step(struct work_agent *agent)
{
	struct recommender *r = (struct recommender *)agent;
	uint64_t batch = work_length(r->host, 1024, 8192, 256);
	struct work_block dense[DENSE];

	if (agent->step % CACHE_EVERY == 0)
		renew_cache(r);
	for (unsigned i = 0; i < TABLES; i++)
		look_up(r, i, batch);
	for (int i = 0; i < DENSE; i++)
		dense[i] = compute_rows_of(r, batch, TABLES * WIDTH * 2);
	for (int i = DENSE - 1; i >= 0; i--)
		work_free(r->host, &dense[i]);
	for (unsigned i = TABLES; i-- > 0;)
		learn_rows(r, i);
}

struct work_agent *
work_recommender(struct workload *workload, unsigned first_stream)
{
	struct recommender *r = calloc(1, sizeof(*r));

	if (r == NULL)
		return NULL;
	r->agent.act = recommend_step;
	r->agent.host.workload = workload;
	r->host = &r->agent.host;
	r->own.number = first_stream;
	for (int i = 0; i < TABLES; i++)
		work_alloc(r->host, &r->own,
		    work_length(r->host, 2000, 128000, 1) * WIDTH * 4);
	return &r->agent;
}
