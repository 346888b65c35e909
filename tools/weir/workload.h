/*
 * Making traces: a model of a program that allocates, queues work on streams
 * and frees, written as the rows of a trace.
 *
 * The model is a queue for each stream. Work has a duration. It begins when the
 * host has queued it, the earlier work of its stream is done, and so is the
 * work that the stream waits for. The host queues as fast as it can, and waits
 * when it is more than a few milliseconds ahead of the device. A block used on
 * a stream that is not its own has an `r` row at its free, and its `c` row when
 * that use is over.
 *
 * Threads of the program are hosts, each with a clock of its own; streams and
 * blocks belong to one host. Everything follows from the seed.
 */
#ifndef TOOLS_WEIR_WORKLOAD_H
#define TOOLS_WEIR_WORKLOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum {
	/* Streams that may use one block. */
	WORK_USES = 4,
	MIB = 1 << 20,
};

struct workload;

/* A thread of the program. */
struct work_host {
	struct workload *workload;
	uint64_t now_us;
	/* Where it repeats itself: its own random numbers, which begin anew
	 * with each round. */
	bool repeats;
	uint64_t random;
};

/* A stream, by its number in the trace. */
struct work_stream {
	unsigned number;
	uint64_t done_us; /* all its work is */
};

struct work_block {
	uint64_t address;
	uint64_t size; /* bytes */
	const struct work_stream *own;
	struct {
		unsigned stream;
		uint64_t done_us;
	} uses[WORK_USES];
	unsigned n_uses;
};

/* Every random choice follows from `seed`. NULL without memory. */
struct workload *workload_new(uint64_t seed);
void workload_free(struct workload *workload);
/* Rows so far. */
size_t workload_rows(const struct workload *workload);

/*
 * Write the trace: a comment about it, the header and all rows, in the order of
 * time. False if memory was lacking, now or while it was made; ferror() reports
 * a failed write.
 */
bool workload_write(struct workload *workload, const char *name, FILE *out);

/* ---- Choices --------------------------------------------------------- */

/* From low to high, all alike. */
uint64_t work_random(struct work_host *host, uint64_t low, uint64_t high);
/* A multiple of `step` from low to high, of which small ones are more likely:
 * each doubling is as likely as the next. */
uint64_t work_length(
    struct work_host *host, uint64_t low, uint64_t high, uint64_t step);
/* True once in `n`. */
bool work_chance(struct work_host *host, uint64_t n);

/* ---- What the host does ---------------------------------------------- */

struct work_block work_alloc(
    struct work_host *host, const struct work_stream *stream, uint64_t size);
/* The block's own stream needs no word for using it. */
void work_free(struct work_host *host, const struct work_block *block);
/* Queue work of that duration. */
void work_launch(
    struct work_host *host, struct work_stream *stream, uint64_t duration_us);
/* The last work queued on `stream` uses the block. */
void work_use(struct work_block *block, const struct work_stream *stream);
/* Later work on `stream` comes after all work that is on `other` now. */
void work_wait(struct work_host *host, struct work_stream *stream,
    const struct work_stream *other);
/* A round begins: what the host does from here on it has done since the call
 * before. Its streams are those from a number on that have allocated. */
void work_round(struct work_host *host, unsigned first_stream, unsigned n);
/* The host waits for the stream. */
void work_synchronize(struct work_host *host, const struct work_stream *stream);
/* Destroy the stream; its number may then name another. */
void work_end(struct work_host *host, const struct work_stream *stream);

/* ---- Programs -------------------------------------------------------- */

/* A thread of the program that does one thing after another. Each is the first
 * field of a larger struct, is made by malloc() and ends by free(). */
struct work_agent {
	struct work_host host;
	/* A request, a step: every operation that was begun is ended; memory
	 * that the program keeps stays. */
	void (*act)(struct work_agent *agent);
	unsigned step; /* how often it has acted in this round; from 0 */
};

/* Parts of a training that have streams of their own; bits. */
enum work_training {
	WORK_GATHER = 1,  /* parameters, before they are used */
	WORK_REDUCE = 2,  /* gradients */
	WORK_OFFLOAD = 4, /* activations */
	WORK_ALONE = 8,   /* none of these: one stream */
};

/* Trains a model; takes 4 stream numbers. NULL without memory, as below. */
struct work_agent *work_trainer(
    struct workload *workload, unsigned training, unsigned first_stream);
/* Serves requests on a stream of its own and on temporary ones; takes 3. */
struct work_agent *work_server(
    struct workload *workload, unsigned first_stream);
/* Feeds a row of producers and consumers; takes 5. */
struct work_agent *work_pipeline(
    struct workload *workload, unsigned first_stream);

/* A kind of program. */
struct workload_kind {
	const char *name;
	const char *help;
	unsigned training; /* of enum work_training; 0: there is no trainer */
	unsigned servers;
	unsigned pipelines;
};

/* By name, and by index from 0 on; NULL if there is none. */
const struct workload_kind *workload_kind(const char *name);
const struct workload_kind *workload_kind_at(size_t i);

/* Let the program run until it has made that many rows, and then end all its
 * work. `repeat` is how many steps of each thread are a round that it repeats;
 * 0: it does not. False if memory is lacking. */
bool workload_run(struct workload *workload, const struct workload_kind *kind,
    size_t rows, unsigned repeat);

#endif
