/*
 * model.h - random programs against a naive model
 *
 * A program is a row of random steps: allocating, freeing, work on blocks,
 * streams that come and go, trims, limits, options, time, misuse and faults.
 * The model is a plain list of the blocks that are live, each with what was
 * asked for and which streams have worked on it. It knows no pools, segments
 * or events; it knows what a caller is promised:
 *
 *	blocks are aligned, do not overlap, and stay what they were said to be
 *	statistics are the sums over the list
 *	a failed call changes nothing
 *	what was written to a block is what is read from it
 *	no two streams touch the same memory without an order between them
 *	with handle_mb:2 a request fails only if it and the physical pieces
 *	that live blocks lie on pass the limit
 *	replaying the history gives the snapshot
 *	a graph computes at each replay what it was captured to, and nobody
 *	has memory that it works with
 *
 * The last is for the simulated device to see: it checks each access against
 * the order of the streams. The model itself keeps the order a caller owes,
 * and no more. After each step weir_check() walks all structures too, which
 * takes two thirds of the time: WEIR_TEST_CHECK_EVERY=n asks it after one step
 * in n, for programs that run for hours (scripts/soak).
 *
 * All of it follows from one number. A failure prints it and the steps before;
 * WEIR_TEST_SEED=number runs the same program again, WEIR_TEST_SEED=random
 * another one each time, and WEIR_TEST_TRACE=1 prints each step as it is made.
 */
#ifndef TESTS_MODEL_MODEL_H
#define TESTS_MODEL_MODEL_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/graph.h>
#include <weir/stream.h>

#include "driver/abi.h"

/*
 * X(name, what): what a program is made of. How often each is chosen is up to
 * the mix; `name` is a field of struct mix and a function step_name().
 */
#define MODEL_STEPS(X)                                                         \
	X(allocate)  /* weir_malloc() for any stream */                        \
	X(release)   /* weir_free() */                                         \
	X(hand_over) /* weir_free_async() on any stream, in due order */       \
	X(drain)     /* free most of what is live */                           \
	X(write)     /* fill a block on a stream of its own or another */      \
	X(read)      /* read from a block on any stream */                     \
	X(name_use)  /* weir_record_stream() without work */                   \
	X(wait)      /* a stream waits for another */                          \
	X(event)     /* an event is recorded, or waited for some time later */ \
	X(busy)      /* a stream is late */                                    \
	X(sync)      /* the host waits */                                      \
	X(pass_time) /* virtual time goes by */                                \
	X(change)    /* a stream is made, or destroyed with work queued */     \
	X(capture)   /* blocks come and go while a stream is captured */       \
	X(pin)       /* weir_pin(), and weir_unpin() some time later */        \
	X(trim)      /* weir_trim() */                                         \
	X(bound)     /* weir_limit_set() */                                    \
	X(configure) /* weir_options_set() */                                  \
	X(crowd)     /* the device has less memory, or all of it again */      \
	X(misuse)    /* what must be refused */                                \
	X(ask)       /* what can be asked */                                   \
	X(fault)     /* arm a failure of a driver call */                      \
	X(refusal)   /* arm failures of one entry, several times over */       \
	X(starve)    /* arm a failure of host memory */                        \
	X(snapshot)  /* the history is replayed, and gives the snapshot */     \
	X(graph)     /* a graph is captured, in a pool of its own or shared */ \
	X(replay)    /* it is replayed */                                      \
	X(reset)     /* it goes */                                             \
	X(suspend)   /* its pool is suspended, or resumed */                   \
	X(pool)      /* a pool is restored, worked in, trimmed, released */    \
	X(swap)      /* give a block to another thread, take one of it */

enum model_step {
#define MODEL_STEP_ENUM(name) STEP_##name,
	MODEL_STEPS(MODEL_STEP_ENUM)
#undef MODEL_STEP_ENUM
	    STEPS
};

/* A kind of program. Weights are relative; 0 leaves a step out. */
struct mix {
	const char *name;
	const char *conf; /* options from the start; NULL: the defaults */
	const char *const *confs; /* for `configure`, NULL at the end */
	size_t limit;             /* from the start; 0: none */
	unsigned slots;           /* streams at most, 1 at least */
	unsigned live;            /* blocks that are live on average */
	unsigned small;           /* of a hundred requests: up to 1 MiB */
	unsigned large;           /* and above 40 MiB */
	unsigned any;             /* and for no stream */
	uint64_t late_ns;         /* how late completions are seen, at most */
	/* Everything is in physical pieces of 2 MiB that can be moved: each
	 * failure is held against the pieces that are in use. */
	bool pieces;
	bool history; /* is on from the start */
	unsigned weight[STEPS];
};

/*
 * The streams of a program. Slot 0 is the legacy default stream, slot 1 that
 * of the thread; the next come from weir's pool and stay; the rest come and
 * go. Two more numbers name an owner of blocks that is no slot.
 */
enum {
	SLOT_LEGACY,
	SLOT_PER_THREAD,
	SLOT_POOL,
	SLOT_POOL_END = SLOT_POOL + 3,
	SLOTS = 32,
	SLOT_ANY = SLOTS, /* WEIR_STREAM_ANY */
	SLOT_GONE,        /* a stream that has ended */
	SLOT_NONE,
};

enum slot_kind { SLOT_EMPTY, SLOT_SHARED, SLOT_CREATED, SLOT_FOREIGN };

struct slot {
	enum slot_kind kind;
	weir_stream stream;
};

struct model_block {
	char *at;
	size_t size;        /* asked for */
	size_t bytes;       /* of the block, as weir said at first */
	weir_stream stream; /* it belongs to */
	unsigned owner;     /* the slot of that stream */
	uint32_t uses;      /* slots named by weir_record_stream() */
	uint32_t past;      /* slots named by weir_record_use() */
	bool used_by_gone;  /* and a stream that has ended */
	uint32_t tag;       /* what it is filled with; 0: not filled */
	unsigned writer;    /* slot whose work the next one must come after */
	uint32_t readers;   /* and those, for a write or a free */
};

enum {
	MODEL_LIVE_MAX = 192,
	MODEL_PROBES = 256,
	MODEL_STALE = 16,
	MODEL_EVENTS = 12,
	MODEL_PINS = 6,
	MODEL_LOG = 20,
	MODEL_LINE = 120,
};

enum { MODEL_POOLS = 3, MODEL_GRAPHS = 5, MODEL_RANGES = 20 };

/* A graph, whose output is live as long as it is. */
struct model_graph {
	struct weir_graph *graph; /* NULL: there is none */
	struct model_pool *pool;
	struct model_block output;
	uint32_t tag;  /* that it writes there */
	bool replayed; /* and has not been seen to have written */
	struct model_range {
		char *at;
		size_t size;
	} ranges[MODEL_RANGES]; /* it was captured with */
	size_t n_ranges;
};

struct model_pool {
	struct weir_pool *pool; /* NULL: there is none */
	bool suspended;
	struct weir_checkpoint *checkpoint;
	struct model_block saved[MODEL_GRAPHS]; /* outputs at that time */
	size_t n_saved;
};

struct model_crew;
struct history_replay;

struct model {
	const struct mix *mix;
	struct model_crew *crew; /* the other threads; NULL: there are none */
	unsigned number;         /* of this thread */
	uint64_t seed;
	uint64_t random;
	uint64_t step;
	uint64_t check_every; /* steps for each weir_check() */
	bool simulated;
	bool trace;
	unsigned captured; /* the slot that is; else SLOT_NONE */

	struct slot slots[SLOTS];
	struct model_block blocks[MODEL_LIVE_MAX];
	size_t n_blocks;
	/* Words that work on streams reads into host memory, page-locked so
	 * that nobody waits, to be compared once all work is done. */
	uint32_t *read;
	uint32_t expected[MODEL_PROBES];
	size_t n_probes;
	void *stale[MODEL_STALE]; /* addresses freed lately */
	struct weir_event *events[MODEL_EVENTS];
	char *pinned[MODEL_PINS]; /* first bytes; NULL: none */

	unsigned armed;       /* steps until faults are taken away; 0: none */
	uint64_t faults;      /* of the driver's calls when all have been met */
	size_t limit;         /* in force */
	size_t total;         /* of the device */
	size_t held_at_start; /* of the device, by all */
	bool exact_classes;   /* no rounding but to the granule */
	bool alone;           /* statistics are those of its blocks alone */

	/* Bytes that were freed since nothing was pending: those used on a
	 * slot, and in SLOT_GONE those for which only the whole context can be
	 * asked, because the stream is gone or all may have used them. */
	size_t held_back[SLOT_GONE + 1];

	struct history_replay *replay; /* NULL: without a history */

	struct model_pool pools[MODEL_POOLS];
	struct model_graph graphs[MODEL_GRAPHS];
	/* Counts of steps, by which tests see that they were made. */
	unsigned captures;
	unsigned replays;
	unsigned suspends;
	unsigned restores;

	/* The statistics that are expected. */
	size_t peak_bytes;
	uint64_t mallocs;
	uint64_t frees;
	uint64_t ooms;
	size_t reserved; /* after the last step */

	char log[MODEL_LOG]
		[MODEL_LINE]; /* the last steps, by step % MODEL_LOG */
};

/* Run a program of a mix, to its end: all freed, all given back. */
void model_run(const struct mix *mix, uint64_t steps);

/* Run four programs at once, one a thread, that free each other's blocks. */
void model_run_threads(const struct mix *mix, uint64_t steps);

/* ---- For the steps and the threads ------------------------------------- */

/* The seed of this run, from the environment. */
uint64_t model_seed(const struct mix *mix);

void model_open(struct model *m, const struct mix *mix, uint64_t seed);
void model_steps(struct model *m, uint64_t steps);
/* Free all blocks and end the streams that can end. */
void model_clear(struct model *m);
/* After model_clear(): nothing is held any more. */
void model_close(struct model *m);

/* A number below n; true in `percent` of a hundred cases. */
uint64_t model_below(struct model *m, uint64_t n);
bool model_chance(struct model *m, unsigned percent);

/* Fail the test with a text, the seed and the last steps. */
_Noreturn void model_fail(struct model *m, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Fail it unless a condition holds. */
void model_expect(struct model *m, bool holds, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Say what this step does, for a failure to print. */
void model_say(struct model *m, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Was the call a success? A failure must have a text, and there must be a
 * fault armed that may have caused it. */
bool model_ok(struct model *m, enum weir_status status, const char *call);
/* model_ok() for a call of the driver. */
bool model_driver_ok(struct model *m, CUresult code, const char *call);

/* Take all faults away. */
void model_calm(struct model *m);

/* All that must hold after a step. */
void model_check(struct model *m);
/* The part that must hold at any time, whatever other threads do. */
void model_check_health(struct model *m);
/* The sums over the blocks of several models against the statistics. */
void model_check_sums(struct model *const models[], size_t n);

/* The snapshot is what the history says, where there is one. Nobody else is at
 * work. */
void model_check_replay(struct model *m);

/* Bytes before and behind each block that `guard` takes. */
size_t model_zone(void);

/* Wait for the device and compare what was read. */
void model_verify(struct model *m);

/* The steps, in steps.c, world.c, graphs.c, ask.c and crew.c, one function
 * each: what it did is said by model_say(). */
#define MODEL_STEP_FUNCTION(name) void step_##name(struct model *m);
MODEL_STEPS(MODEL_STEP_FUNCTION)
#undef MODEL_STEP_FUNCTION

/* The set of one slot; empty for what is none. */
static inline uint32_t
slot_bit(unsigned slot)
{
	return slot < SLOTS ? (uint32_t)1 << slot : 0;
}

weir_stream model_stream(const struct model *m, unsigned slot);
/* A slot that has a stream, and a live block or NULL, by chance. */
unsigned model_any_slot(struct model *m);
struct model_block *model_any_block(struct model *m);
bool model_is_live(const struct model *m, const void *address);
/* weir_block_info() says of a block what the model knows. */
struct weir_block_info model_expect_info(
    struct model *m, const struct model_block *b, const void *address);
/* Make a stream wait for another. False if a fault was in the way. */
bool model_wait(struct model *m, unsigned slot, unsigned other);
/* The block overlaps none of the model's. */
void model_expect_apart(
    struct model *m, const struct model_block *b, const struct model *other);
/* Make `slot` wait for all work on a block that work of the given kind on it
 * must come after. False if a fault was in the way. */
bool model_order(
    struct model *m, const struct model_block *b, unsigned slot, bool write);
/* No graph works with the block, which is not of its pool. */
void model_expect_no_graph(struct model *m, const struct model_block *b);
/* Check the pools after a step; drop all of them. */
void model_check_graphs(struct model *m);
void model_clear_graphs(struct model *m);
/* Undo a pin, if there is one. */
void model_unpin(struct model *m, unsigned i);
/* Free a block the plain way. */
void model_release(struct model *m, size_t i);
/* Allocate, for any stream or for one, and free any block: steps of a capture
 * as well. */
void model_allocate(struct model *m, unsigned slot);
void model_release_any(struct model *m);
/* End the stream of a slot. False if a fault was in the way. */
bool model_end_stream(struct model *m, unsigned slot);

/* ---- Between threads --------------------------------------------------- */

enum { MODEL_THREADS = 4, MODEL_MAILBOX = 16 };

struct model_crew {
	pthread_mutex_t mutex;
	pthread_barrier_t barrier;
	struct model_block mailbox[MODEL_MAILBOX];
	size_t n_mail;
	struct model *models[MODEL_THREADS];
	weir_stream shared; /* blocks in the mailbox are in its order */
};

#endif
