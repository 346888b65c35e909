/*
 * Making traces: a model of a program that allocates, queues work on streams
 * and frees, and that writes the rows of a trace.
 *
 * The model has a queue for each stream. Work has a duration. It begins when
 * three conditions are met: the host has queued it, the earlier work of its
 * stream is done, and the work that the stream waits for is done. The host
 * queues as fast as it can, and waits when it is more than a few milliseconds
 * ahead of the device. A block that another stream uses has an `r` row at its
 * free, and a `c` row when that use is over. Page-locked memory has R, F and C
 * rows in the same places.
 *
 * Each thread of the program is a host with a clock of its own. A stream and a
 * block belong to one host. All choices follow from the seed.
 */
#ifndef TOOLS_WEIR_REPLAY_WORKLOAD_H
#define TOOLS_WEIR_REPLAY_WORKLOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum {
	/* Streams that may use one block. */
	WORK_USES = 4,
	MIB = 1 << 20,
	/* The streams of a crowd, the most of an agent. */
	WORK_CROWD_STREAMS = 16,
};

struct workload;

/* A thread of the program. */
struct work_host {
	struct workload *workload;
	uint64_t now_us;
	/* A thread that repeats itself has random numbers of its own, which
	 * begin anew with each round. */
	bool repeats;
	uint64_t random;
};

/* A stream, by its number in the trace. */
struct work_stream {
	unsigned number;
	uint64_t done_us; /* the end of all its work */
};

struct work_block {
	uint64_t address;
	uint64_t size;                 /* bytes */
	const struct work_stream *own; /* page-locked: the first to use it */
	bool pinned;                   /* page-locked host memory */
	struct {
		unsigned stream;
		uint64_t done_us;
	} uses[WORK_USES];
	unsigned n_uses;
};

/* Begin a trace. All random choices follow from `seed`. NULL without memory. */
struct workload *workload_new(uint64_t seed);
void workload_free(struct workload *workload);
/* The number of rows so far. */
size_t workload_rows(const struct workload *workload);

/*
 * Write the trace: a comment about it, the header and all rows, in the order of
 * time. False if memory was lacking, here or in an earlier call. ferror(out)
 * reports a failed write.
 */
bool workload_write(struct workload *workload, const char *name, FILE *out);

/* ---- Choices --------------------------------------------------------- */

/* A random number from low to high, all equally likely. */
uint64_t work_random(struct work_host *host, uint64_t low, uint64_t high);
/* A random multiple of `step` from low to high. Small ones are more likely: all
 * ranges from a number to its double are equally likely. */
uint64_t work_length(
    struct work_host *host, uint64_t low, uint64_t high, uint64_t step);
/* True with the probability 1/n. */
bool work_chance(struct work_host *host, uint64_t n);

/* ---- Actions of the host --------------------------------------------- */

struct work_block work_alloc(
    struct work_host *host, const struct work_stream *stream, uint64_t size);
/* Allocate page-locked host memory that `stream` is to use first. */
struct work_block work_pin(
    struct work_host *host, const struct work_stream *stream, uint64_t size);
/* Free a block. Uses of device memory by its own stream need no call of
 * work_use(). */
void work_free(struct work_host *host, const struct work_block *block);
/* Queue work of a duration. */
void work_launch(
    struct work_host *host, struct work_stream *stream, uint64_t duration_us);
/* Note that the latest work of `stream` uses the block. */
void work_use(struct work_block *block, const struct work_stream *stream);
/* Order later work of `stream` after all present work of `other`. */
void work_wait(struct work_host *host, struct work_stream *stream,
    const struct work_stream *other);
/* Begin a round: the host repeats its actions since the call before. Its
 * streams are those of the `n` numbers from `first_stream` on that have
 * allocated. */
void work_round(struct work_host *host, unsigned first_stream, unsigned n);
/* Let the host wait for the stream. work_await() also writes this as a row, so
 * that a host that is played late waits as well. */
void work_synchronize(struct work_host *host, const struct work_stream *stream);
void work_await(struct work_host *host, const struct work_stream *stream);
/* Destroy the stream. A new stream may then have its number. */
void work_end(struct work_host *host, const struct work_stream *stream);

/* ---- Programs -------------------------------------------------------- */

/* A thread of the program. An agent is the first field of a larger struct,
 * which malloc() makes and free() ends. */
struct work_agent {
	struct work_host host;
	/* Do one request or one step. All its temporary memory is freed at the
	 * end; memory that the program keeps stays. */
	void (*act)(struct work_agent *agent);
	unsigned step; /* number of calls of act() in this round */
};

/* Parts of a training that have streams of their own; bits. */
enum work_training {
	WORK_GATHER = 1,  /* parameters, before they are used */
	WORK_REDUCE = 2,  /* gradients */
	WORK_OFFLOAD = 4, /* activations */
	WORK_ALONE = 8,   /* none of these: one stream */
};

/* An agent that trains a model. It takes 4 stream numbers. These functions
 * return NULL without memory. */
struct work_agent *work_trainer(
    struct workload *workload, unsigned training, unsigned first_stream);
/* An agent that serves requests on a stream of its own and on temporary
 * streams. It takes 3 stream numbers. */
struct work_agent *work_server(
    struct workload *workload, unsigned first_stream);
/* An agent that feeds a row of producers and consumers. It takes 5 stream
 * numbers. */
struct work_agent *work_pipeline(
    struct workload *workload, unsigned first_stream);
/* An agent that trains a model, and keeps in page-locked memory what the
 * backward pass needs of the forward pass. It takes 2 stream numbers. */
struct work_agent *work_offloader(
    struct workload *workload, unsigned first_stream);
/* An agent that loads batches into page-locked memory and trains with them. It
 * takes 2 stream numbers. */
struct work_agent *work_loader(
    struct workload *workload, unsigned first_stream);
/* Agents with one stream. One answers texts whose keys and values grow, one
 * plays and learns, one recommends, and one has arrays that double. */
struct work_agent *work_chat(struct workload *workload, unsigned first_stream);
struct work_agent *work_learner(
    struct workload *workload, unsigned first_stream);
struct work_agent *work_recommender(
    struct workload *workload, unsigned first_stream);
struct work_agent *work_vectors(
    struct workload *workload, unsigned first_stream);
/* An agent that decodes and encodes videos. It takes 4 stream numbers. */
struct work_agent *work_video(struct workload *workload, unsigned first_stream);
/* An agent that gives jobs to WORK_CROWD_STREAMS streams. */
struct work_agent *work_crowd(struct workload *workload, unsigned first_stream);

/* A kind of program. */
struct workload_kind {
	const char *name;
	const char *help;
	unsigned training; /* bits of enum work_training; 0: no trainer */
	unsigned servers;
	unsigned pipelines;
	unsigned offloaders;
	unsigned loaders;
	/* Makes the sole agent of a program that has none of the above. */
	struct work_agent *(*sole)(
	    struct workload *workload, unsigned first_stream);
};

/* The kind with a name, or at an index from 0; NULL if there is none. */
const struct workload_kind *workload_kind(const char *name);
const struct workload_kind *workload_kind_at(size_t i);

/* Let the program run until it has made `rows` rows, and then end all its work.
 * Each thread repeats its first `repeat` steps; 0: no repetition. False without
 * memory. */
bool workload_run(struct workload *workload, const struct workload_kind *kind,
    size_t rows, unsigned repeat);

#endif
