/*
 * Declarations that the parts of weir-bench share.
 *
 * A benchmark is a list of cases. Each case is run with every peer. The peers
 * take turns from sample to sample, so that changes over time (clocks, other
 * processes) affect all peers alike. A sample is a loop that is long enough for
 * the cost of reading the clock to vanish. The report has the median of the
 * samples, and the 10th and the 90th percentile.
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
	UNIT_NS,      /* nanoseconds per operation */
	UNIT_MILLION, /* million operations per second */
	UNIT_MS,      /* milliseconds per round */
	UNIT_PERCENT, /* run() returns a share instead of seconds */
	UNIT_GIB,     /* GiB per second; operations are bytes */
};

struct session;
struct sample;

struct bench_case {
	const char *name; /* the case in its table, such as "64 KiB" */
	/* Do `sample->n` rounds. Returns their seconds, or less than 0 if the
	 * peer failed. */
	double (*run)(const struct sample *sample);
	unsigned kinds;  /* bits of enum peer_kind: the peers of the case */
	bool records;    /* only peers that have record() */
	bool not_slow;   /* no slow peers */
	bool holds;      /* only peers that have held() */
	bool cold;       /* trim the peer before each sample */
	bool few;        /* few samples, because each takes seconds */
	uint64_t rounds; /* of a sample; 0: as many as take session->sample_s */
	uint64_t rounds_slow; /* rounds of slow peers; 0: `rounds` */
	uint64_t ops;         /* operations per round that the unit counts */
	enum unit unit;

	/* Parameters of run(), which documents them. */
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
	const char *what;    /* description, one line */
	const char *heading; /* of the column with the cases */
	const char *base;    /* the peer that ratios compare with */
	bool (*run)(struct session *session);
};

struct session {
	const struct peer *peers[PEERS_MAX];
	size_t peer_count;
	unsigned repeat;
	double sample_s;
	bool quick; /* few and small cases, to check that all of them work */
	bool simulated;
	bool json_only;
	const char *const
	    *traces; /* paths for the replay; NULL ends the list */

	const struct bench *bench; /* the running benchmark */
	struct table *table;       /* of the running benchmark */
	json_t *results;
	json_t *left_out; /* peers that are left out, with the reasons */
	unsigned failures;
	const char
	    *why; /* the fault of a run() that is not the peer's, or NULL */
};

/* All benchmarks in the order in which they run. The last entry has no name. */
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

/* The loop of several benchmarks: `n` times malloc and free of `about->size`
 * on the first stream. */
double run_pairs(const struct sample *sample);

/* ---- measure.c --------------------------------------------------------- */

/* Measure a case with every peer that suits it, and report the results. A peer
 * that fails is reported, and the measurement goes on. False without memory. */
bool measure(struct session *session, const struct bench_case *about);

/* The time of the host's clock. */
uint64_t now_ns(void);

/* Seconds since `start_ns`. */
double seconds_since(uint64_t start_ns);

/* Let this thread run only on the i-th processor that the process may use. Does
 * nothing if the process has no more than i. */
void pin(unsigned i);
/* Let this thread run on all processors again. */
void unpin(void);
/* The number of processors that the process may use. */
unsigned processors(void);

/* Pseudo-random numbers that are the same in each run. */
struct dice {
	uint64_t state;
};
uint64_t dice_roll(struct dice *dice);

/* ---- stats.c ----------------------------------------------------------- */

struct spread {
	double median;
	double p10; /* the 10th percentile */
	double p90;
};

/* The spread of some samples, count > 0. Sorts the samples. */
struct spread spread_of(double *samples, size_t count);

/* ---- report.c ---------------------------------------------------------- */

/* The results of one peer in a case. */
struct result {
	const struct peer *peer;
	uint64_t rounds;
	double samples[REPEAT_MAX]; /* in the case's unit, in order of time */
	unsigned count;
	struct spread spread;
	double ratio;    /* how many times worse than the base; 0: unknown */
	char error[256]; /* why the peer failed; "" if it did not */
};

void report_begin(struct session *session, const struct bench *bench);
void report_add(struct session *session, const struct bench_case *about,
    const struct result *result);
bool report_end(struct session *session);

/* All results of a run as one object. */
json_t *report_json(const struct session *session);

/* ---- peers.c, plugin.c --------------------------------------------------- */

/* The bytes that weir holds of device 0. */
uint64_t weir_held(void);

extern const struct peer *const builtin_peers[]; /* NULL ends the list */

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

/* Load a library that defines a peer. On failure NULL, and a complaint. */
const struct peer *plugin_open(const char *path);

/*
 * Start a command as a peer, "NAME=COMMAND". The command prints "ready", or the
 * reason why it cannot run. Then it reads lines "SIZE N" until its input ends,
 * and answers each line with the seconds of N pairs of SIZE bytes. On failure
 * NULL, and a complaint.
 */
const struct peer *child_open(const char *text);
/* End the commands that child_open() started. */
void children_close(void);

/* A child process. */
struct child {
	pid_t pid;
	FILE *to;   /* its stdin */
	FILE *from; /* its stdout */
};

/* Start the program argv[0], which is searched in PATH. False, and a complaint,
 * on failure. */
bool child_start(struct child *child, char *const argv[]);
/* Close the child's input, and wait for its end. Returns its exit status, or -1
 * if a signal ended it. */
int child_end(struct child *child);

#endif
