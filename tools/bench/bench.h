/*
 * Declarations that the parts of weir-bench share.
 *
 * A benchmark is a list of cases. Each case is run with every peer, the peers
 * taking turns from sample to sample so that what changes with time (clocks,
 * other processes) hits all alike. A sample is a loop long enough that reading
 * the clock before and after it costs nothing; what is reported is the median
 * of the samples and the tenths at either end.
 */
#ifndef TOOLS_BENCH_BENCH_H
#define TOOLS_BENCH_BENCH_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "tools/bench/peer.h"

enum { PEERS_MAX = 96, REPEAT_MAX = 1000, THREADS_MAX = 16 };

enum unit {
	UNIT_NS,      /* nanoseconds an operation */
	UNIT_MILLION, /* million operations a second */
	UNIT_MS,      /* milliseconds a round */
	UNIT_PERCENT, /* run() tells a share and no time */
	UNIT_GIB,     /* GiB a second; operations are bytes */
};

struct session;
struct sample;

struct bench_case {
	const char *name; /* "64 KiB": what distinguishes it, for the table */
	/* Do `sample->n` rounds: the seconds they took, less than 0 if the
	 * peer failed. */
	double (*run)(const struct sample *sample);
	unsigned kinds;  /* of enum peer_kind, that it can be run with */
	bool records;    /* only with peers that have record() */
	bool not_slow;   /* and not with slow ones */
	bool holds;      /* only with peers that have held() */
	bool cold;       /* all memory is given back before each sample */
	bool few;        /* each sample costs seconds: take a few */
	uint64_t rounds; /* of a sample; 0: as many as take session->sample_s */
	uint64_t rounds_slow; /* of slow peers, unless it is 0 */
	uint64_t ops;         /* operations a round, of those the unit counts */
	enum unit unit;

	/* For run(), which documents them. */
	size_t size;
	unsigned count;
	bool shared;
	const void *data;
};

struct sample {
	struct session *session;
	const struct bench_case *about;
	const struct peer *peer;
	uint64_t n; /* rounds */
};

struct bench {
	const char *name;
	const char *what;    /* one line */
	const char *heading; /* of the column that names the case */
	const char *base;    /* the peer that ratios are to */
	bool (*run)(struct session *session);
};

struct session {
	const struct peer *peers[PEERS_MAX];
	size_t peer_count;
	unsigned repeat;
	double sample_s;
	bool quick; /* few and small cases, to see that all works */
	bool simulated;
	bool json_only;
	const char *const *traces; /* paths for the replay, up to NULL */

	const struct bench *bench; /* the one that is running */
	struct table *table;       /* of it */
	json_t *results;
	json_t *left_out; /* peers, and why */
	unsigned failures;
	const char *why; /* of a run() that failed, if the peer is not it */
};

/* In the order in which they are run; up to one without a name. */
extern const struct bench benches[];

bool bench_pair(struct session *session);
bool bench_batch(struct session *session);
bool bench_replace(struct session *session);
bool bench_threads(struct session *session);
bool bench_handover(struct session *session);
bool bench_record(struct session *session);
bool bench_pending(struct session *session);
bool bench_kernels(struct session *session);
bool bench_busy(struct session *session);
bool bench_miss(struct session *session);
bool bench_random(struct session *session);
bool bench_pinned(struct session *session);
bool bench_graphs(struct session *session);
bool bench_history(struct session *session);
bool bench_tensors(struct session *session);
bool bench_replay(struct session *session);

/* A loop several benchmarks have: `n` times malloc and free of `about->size`
 * on the first stream. */
double run_pairs(const struct sample *sample);

/* ---- measure.c --------------------------------------------------------- */

/* Measure a case with every peer that suits it and report it. False without
 * memory; a peer that fails is reported and is no reason to stop. */
bool measure(struct session *session, const struct bench_case *about);

/* The host's clock. */
uint64_t now_ns(void);

/* Seconds since `start_ns`. */
double seconds_since(uint64_t start_ns);

/* Let this thread run on the i-th processor that the process may use, if
 * there are more than i. */
void pin(unsigned i);
/* Let it run on all of them again. */
void unpin(void);
unsigned processors(void);

/* Pseudo-random numbers, the same in each run. */
struct dice {
	uint64_t state;
};
uint64_t dice_roll(struct dice *dice);

/* ---- stats.c ----------------------------------------------------------- */

struct spread {
	double median;
	double p10; /* a tenth of the samples is lower */
	double p90;
};

/* Sorts the samples; count > 0. */
struct spread spread_of(double *samples, size_t count);

/* ---- report.c ---------------------------------------------------------- */

/* The results of one peer in a case. */
struct result {
	const struct peer *peer;
	uint64_t rounds;
	double samples[REPEAT_MAX]; /* in the case's unit, in order of time */
	unsigned count;
	struct spread spread;
	double ratio;    /* times worse than the base; 0: unknown */
	char error[256]; /* or why there is none of that */
};

void report_begin(struct session *session, const struct bench *bench);
void report_add(struct session *session, const struct bench_case *about,
    const struct result *result);
bool report_end(struct session *session);

/* All of a run as one object. */
json_t *report_json(const struct session *session);

/* ---- peers.c, plugin.c --------------------------------------------------- */

/* The bytes that weir holds of device 0. */
uint64_t weir_held(void);

extern const struct peer *const builtin_peers[]; /* up to NULL */

/* graphs.c */
extern const struct peer peer_pools;

/* history.c */
extern const struct peer peer_history;
extern const struct peer peer_stacks;

/* tensors.c */
extern const struct peer peer_tensors;
extern const struct peer peer_straight;

/* pinned.c */
extern const struct peer peer_pinned;
extern const struct peer peer_registered;
extern const struct peer peer_host_alloc;

/* The peer that a library defines; NULL, and a complaint. */
const struct peer *plugin_open(const char *path);

/*
 * A peer that a command is, "NAME=COMMAND"; NULL, and a complaint. The command
 * prints "ready", or why it is not; then it reads lines "SIZE N" and answers
 * each with the seconds that N pairs of SIZE bytes took, until its input ends.
 */
const struct peer *child_open(const char *text);
/* End the commands that child_open() started. */
void children_close(void);

/* A program that runs beside this one. */
struct child {
	pid_t pid;
	FILE *to;   /* its stdin */
	FILE *from; /* its stdout */
};

/* Start argv[0], looked for in PATH. False, and a complaint, on failure. */
bool child_start(struct child *child, char *const argv[]);
/* Close its input and wait for its end: its exit status, -1 for a signal. */
int child_end(struct child *child);

#endif
