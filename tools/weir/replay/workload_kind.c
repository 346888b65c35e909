/*
 * The kinds of programs, and their threads.
 */
#include <stdlib.h>
#include <string.h>

#include "tools/weir/progress.h"
#include "tools/weir/replay/workload.h"

enum {
	AGENTS_MAX = 8,
	/* The most stream numbers that an agent takes beside others. */
	STREAMS = 5,
};

static const struct workload_kind kinds[] = {
	{ .name = "serve", .help = "four threads, many streams", .servers = 4 },
	{ .name = "pipeline", .help = "a loader, four stages", .pipelines = 1 },
	{ .name = "prefetch",
	    .help = "training, gathers ahead",
	    .training = WORK_GATHER },
	{ .name = "reduce",
	    .help = "training, reduces behind",
	    .training = WORK_REDUCE },
	{ .name = "mixed",
	    .help = "both, offloading, serving",
	    .training = WORK_GATHER | WORK_REDUCE | WORK_OFFLOAD,
	    .servers = 2 },
	{ .name = "train",
	    .help = "training, one stream",
	    .training = WORK_ALONE },
	{ .name = "offload",
	    .help = "activations on the host",
	    .offloaders = 1 },
	{ .name = "loader", .help = "batches from the host", .loaders = 1 },
	{ .name = "chat", .help = "a generator that grows", .sole = work_chat },
	{ .name = "rl",
	    .help = "episodes, then training",
	    .sole = work_learner },
	{ .name = "recsys",
	    .help = "lookups, one stream",
	    .sole = work_recommender },
	{ .name = "vectors",
	    .help = "arrays that double",
	    .sole = work_vectors },
	{ .name = "video",
	    .help = "four streams in a row",
	    .sole = work_video },
	{ .name = "crowd", .help = "sixteen streams", .sole = work_crowd },
};

const struct workload_kind *
workload_kind_at(size_t i)
{
	return i < sizeof(kinds) / sizeof(kinds[0]) ? &kinds[i] : NULL;
}

const struct workload_kind *
workload_kind(const char *name)
{
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (strcmp(kinds[i].name, name) == 0)
			return &kinds[i];
	return NULL;
}

static size_t
make_agents(struct workload *workload, const struct workload_kind *kind,
    struct work_agent *agents[AGENTS_MAX])
{
	size_t n = 0;

	if (kind->training != 0) {
		agents[n] = work_trainer(workload, kind->training, STREAMS * n);
		n++;
	}
	for (unsigned i = 0; i < kind->servers; i++, n++)
		agents[n] = work_server(workload, (unsigned)n * STREAMS);
	for (unsigned i = 0; i < kind->pipelines; i++, n++)
		agents[n] = work_pipeline(workload, (unsigned)n * STREAMS);
	for (unsigned i = 0; i < kind->offloaders; i++, n++)
		agents[n] = work_offloader(workload, (unsigned)n * STREAMS);
	for (unsigned i = 0; i < kind->loaders; i++, n++)
		agents[n] = work_loader(workload, (unsigned)n * STREAMS);
	if (kind->sole != NULL)
		agents[n++] = kind->sole(workload, 0);
	return n;
}

/* The agent whose clock is behind those of the others. */
static size_t
next_agent(struct work_agent *const agents[], size_t n)
{
	size_t next = 0;

	for (size_t i = 1; i < n; i++)
		if (agents[i]->host.now_us < agents[next]->host.now_us)
			next = i;
	return next;
}

/* Let a thread take its next step. It has `n` stream numbers. */
static void
act_once(struct work_agent *agent, unsigned first_stream, unsigned n,
    unsigned repeat)
{
	if (repeat > 0 && agent->step % repeat == 0) {
		agent->step = 0;
		work_round(&agent->host, first_stream, n);
	}
	agent->act(agent);
	agent->step++;
}

bool
workload_run(struct workload *workload, const struct workload_kind *kind,
    size_t rows, unsigned repeat)
{
	struct work_agent *agents[AGENTS_MAX];
	size_t n = make_agents(workload, kind, agents);
	bool made = n > 0;
	unsigned streams = kind->sole != NULL ? WORK_CROWD_STREAMS : STREAMS;
	struct progress progress;

	for (size_t i = 0; i < n; i++)
		made &= agents[i] != NULL;
	progress_begin(&progress, PROGRESS_AFTER_MS);
	while (made && workload_rows(workload) < rows) {
		size_t i = next_agent(agents, n);

		act_once(agents[i], (unsigned)i * streams, streams, repeat);
		progress_part(
		    &progress, "making rows", workload_rows(workload), rows);
	}
	progress_end(&progress);
	for (size_t i = 0; i < n; i++)
		free(agents[i]);
	return made;
}
