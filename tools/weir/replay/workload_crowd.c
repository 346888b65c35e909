/*
 * Sixteen streams, to which a host gives jobs by turns. A job's blocks live
 * until its end, many beside those of the other jobs. Now and then a job's
 * result goes to the stream that has the next turn.
 */
#include <stdlib.h>

#include "tools/weir/replay/workload.h"

enum {
	STREAMS = WORK_CROWD_STREAMS,
	PARTS = 6,
	WEIGHTS = 12,
};

struct crowd {
	struct work_agent agent;
	struct work_host *host; /* the agent's */
	struct work_stream streams[STREAMS];
	struct work_block parts[STREAMS][PARTS];
	unsigned n[STREAMS];
	unsigned turn;
};

static uint64_t
job_bytes(struct crowd *c)
{
	return work_length(c->host, 256 << 10, 48 * (uint64_t)MIB, 512);
}

/* End the job of a stream. The result goes to another stream, at times. */
static void
end_job(struct crowd *c, unsigned i, struct work_stream *other)
{
	if (c->n[i] > 0 && work_chance(c->host, 3)) {
		work_wait(c->host, other, &c->streams[i]);
		work_launch(c->host, other, work_random(c->host, 20, 200));
		work_use(&c->parts[i][0], other);
	}
	while (c->n[i] > 0)
		work_free(c->host, &c->parts[i][--c->n[i]]);
}

/* Do a part of the job of the stream whose turn it is. */
static void
take_turn(struct work_agent *agent)
{
	struct crowd *c = (struct crowd *)agent;
	unsigned i = c->turn;
	struct work_block scratch;

	c->turn = (unsigned)work_random(c->host, 0, STREAMS - 1);
	if (c->n[i] == PARTS || (c->n[i] > 1 && work_chance(c->host, 4)))
		end_job(c, i, &c->streams[c->turn]);
	c->parts[i][c->n[i]++] =
	    work_alloc(c->host, &c->streams[i], job_bytes(c));
	scratch = work_alloc(c->host, &c->streams[i], job_bytes(c));
	work_launch(c->host, &c->streams[i], work_length(c->host, 50, 1600, 1));
	work_free(c->host, &scratch);
}

struct work_agent *
work_crowd(struct workload *workload, unsigned first_stream)
{
	struct crowd *c = calloc(1, sizeof(*c));

	if (c == NULL)
		return NULL;
	c->agent.act = take_turn;
	c->agent.host.workload = workload;
	c->host = &c->agent.host;
	for (unsigned i = 0; i < STREAMS; i++)
		c->streams[i].number = first_stream + i;
	for (int i = 0; i < WEIGHTS; i++)
		work_alloc(c->host, &c->streams[0], 16 * MIB);
	return &c->agent;
}
