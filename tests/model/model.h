/*
 * model.h - random programs against a naive model
 *
 * A program is a sequence of random steps: allocations, frees, work on blocks,
 * streams that are created and destroyed, trims, limits, options, time, misuse
 * and faults. The model is a plain list of the live blocks, each with the
 * requested size and the streams that have worked on it. It has no pools,
 * segments or events. It checks the promises to a caller:
 *
 *	blocks are aligned, do not overlap, and keep their size and stream
 *	statistics are the sums over the list
 *	a failed call changes nothing
 *	a block keeps its contents
 *	no two streams access the same memory without an order between them
 *	with handle_mb:2 a request fails only if it and the physical pieces
 *	that live blocks lie on exceed the limit
 *	replaying the history gives the snapshot
 *	a graph computes the captured result at each replay, and no request
 *	gets memory that the graph uses
 *
 * The simulated device checks the order of streams at each access. The model
 * itself keeps only the order that a caller has to keep. After each step
 * weir_check() walks all structures, which takes two thirds of the time:
 * WEIR_TEST_CHECK_EVERY=n calls it after one step in n, for programs that run
 * for hours (scripts/soak).
 *
 * A program follows from one number, its seed. A failure prints the seed and
 * the latest steps. WEIR_TEST_SEED=number runs the same program again,
 * WEIR_TEST_SEED=random another one each time, and WEIR_TEST_TRACE=1 prints
 * each step.
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
 * X(name): the steps of a program. The mix decides how often each is chosen;
 * `name` is a field of struct mix and a function step_name().
 */
#define MODEL_STEPS(X)                                                         \
	X(allocate)  /* weir_malloc() for any stream */                        \
	X(release)   /* weir_free() */                                         \
	X(hand_over) /* weir_free_async() on any stream, in order */           \
	X(drain)     /* free most live blocks */                               \
	X(write)     /* fill a block, on its own stream or another */          \
	X(read)      /* read from a block on any stream */                     \
	X(name_use)  /* weir_record_stream() without work */                   \
	X(wait)      /* a stream waits for another */                          \
	X(event)     /* an event is recorded, or waited for some time later */ \
	X(busy)      /* a stream is late */                                    \
	X(sync)      /* the host waits */                                      \
	X(pass_time) /* virtual time passes */                                 \
	X(change)    /* a stream is made, or destroyed with work queued */     \
	X(capture)   /* allocate and free while a stream is captured */        \
	X(pin)       /* weir_pin(), and weir_unpin() some time later */        \
	X(trim)      /* weir_trim() */                                         \
	X(bound)     /* weir_limit_set() */                                    \
	X(configure) /* weir_options_set() */                                  \
	X(crowd)     /* the device has less memory, or all of it again */      \
	X(misuse)    /* calls that must be refused */                          \
	X(ask)       /* queries */                                             \
	X(fault)     /* arm a failure of a driver call */                      \
	X(refusal)   /* arm failures of one entry point, several times */      \
	X(starve)    /* arm a failure of host memory */                        \
	X(snapshot)  /* the history is replayed, and gives the snapshot */     \
	X(graph)     /* a graph is captured, in a new or a shared pool */      \
	X(replay)    /* a graph is replayed */                                 \
	X(reset)     /* a graph is destroyed */                                \
	X(suspend)   /* a graph's pool is suspended, or resumed */             \
	X(pool)      /* a pool is restored, used, trimmed, released */         \
	X(sleep)     /* the device sleeps, blocks are freed, and it wakes */   \
	X(host) /* page-locked memory: allocate, read, write, free, trim */    \
	X(swap) /* pass a block to another thread, get one from it */

enum model_step {
#define MODEL_STEP_ENUM(name) STEP_##name,
	MODEL_STEPS(MODEL_STEP_ENUM)
#undef MODEL_STEP_ENUM
	    STEPS
};

/* A kind of program. Weights are relative; 0 leaves a step out. */
struct mix {
	const char *name;
	const char *conf;         /* options at the start; NULL: the defaults */
	const char *const *confs; /* for `configure`, NULL at the end */
	size_t limit;             /* at the start; 0: none */
	unsigned slots;           /* streams at most, 1 at least */
	unsigned live;            /* blocks that are live on average */
	unsigned small;           /* percent of requests: up to 1 MiB */
	unsigned large;           /* and above 40 MiB */
	unsigned any;             /* and of no stream */
	uint64_t late_ns;         /* how late completions are seen, at most */
	/* All memory is in physical pieces of 2 MiB that can be moved: each
	 * failure is compared with the pieces that are in use. */
	bool pieces;
	bool history; /* is on from the start */
	unsigned weight[STEPS];
};

/*
 * The streams of a program. Slot 0 is the legacy default stream, slot 1 that of
 * the thread. The next slots have streams of weir's pool, which stay; the
 * others are created and destroyed. Two more numbers name an owner of blocks
 * that is not a slot.
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
	size_t size;        /* requested */
	size_t bytes;       /* size of the block, as weir reported it first */
	weir_stream stream; /* the stream that it belongs to */
	unsigned owner;     /* the slot of that stream */
	uint32_t uses;      /* slots named by weir_record_stream() */
	uint32_t past;      /* slots named by weir_record_use() */
	bool used_by_gone;  /* and a stream that has ended */
	uint32_t tag;       /* the fill value; 0: not filled */
	unsigned writer;    /* the next work must come after this slot's work */
	uint32_t readers;   /* and for a write or a free after these */
};

enum {
	MODEL_LIVE_MAX = 192,
	MODEL_PROBES = 256,
	MODEL_STALE = 16,
	MODEL_EVENTS = 12,
	MODEL_PINS = 6,
	MODEL_HOST = 24,
	MODEL_LOG = 20,
	MODEL_LINE = 120,
};

enum { MODEL_POOLS = 3, MODEL_GRAPHS = 5, MODEL_RANGES = 20 };

/* A graph, whose output is live as long as the graph. */
struct model_graph {
	struct weir_graph *graph; /* NULL: there is none */
	struct model_pool *pool;
	struct model_block output;
	uint32_t tag;  /* that replays write to the output */
	bool replayed; /* a replay has not yet been checked */
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

/* A block of page-locked memory. */
struct model_host {
	unsigned char *at; /* NULL: none */
	size_t size;
	unsigned char mark; /* what the host wrote */
	bool is_read;       /* a stream may still read it */
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
	uint64_t check_every; /* number of steps for each weir_check() */
	bool simulated;
	bool trace;
	unsigned captured; /* the slot that is; else SLOT_NONE */

	struct slot slots[SLOTS];
	struct model_block blocks[MODEL_LIVE_MAX];
	size_t n_blocks;
	/* The words that work on streams reads into host memory, page-locked so
	 * that no thread waits. They are compared when all work is done. */
	uint32_t *read;
	uint32_t expected[MODEL_PROBES];
	size_t n_probes;
	void *stale[MODEL_STALE]; /* addresses freed lately */
	struct weir_event *events[MODEL_EVENTS];
	char *pinned[MODEL_PINS]; /* first bytes; NULL: none */
	struct model_host host[MODEL_HOST];

	unsigned armed;       /* steps until faults are taken away; 0: none */
	uint64_t faults;      /* driver calls when all faults have been met */
	size_t limit;         /* in force */
	size_t total;         /* of the device */
	size_t held_at_start; /* of the device, by all */
	bool exact_classes;   /* no rounding but to the granule */
	bool alone;           /* the statistics are of its blocks alone */

	/* Bytes that were freed since nothing was pending: those used on a
	 * slot, and in SLOT_GONE those that only a query of the whole context
	 * covers, because the stream has ended or all streams may have used
	 * them. */
	size_t held_back[SLOT_GONE + 1];

	struct history_replay *replay; /* NULL: without a history */

	struct model_pool pools[MODEL_POOLS];
	struct model_graph graphs[MODEL_GRAPHS];
	/* Counts of steps, by which tests check that they were made. */
	unsigned captures;
	unsigned replays;
	unsigned suspends;
	unsigned restores;
	unsigned sleeps;

	/* The statistics that are expected. */
	size_t peak_bytes;
	uint64_t mallocs;
	uint64_t frees;
	uint64_t ooms;
	size_t reserved; /* after the last step */

	char log[MODEL_LOG]
		[MODEL_LINE]; /* the last steps, by step % MODEL_LOG */
};

/* Run a program of a mix to its end, when all is freed and given back. */
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
/* Check, after model_clear(), that nothing is held. */
void model_close(struct model *m);

/* A number below n; true in `percent` of a hundred cases. */
uint64_t model_below(struct model *m, uint64_t n);
bool model_chance(struct model *m, unsigned percent);

/* Fail the test with a text, the seed and the last steps. */
_Noreturn void model_fail(struct model *m, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Fail the test unless a condition holds. */
void model_expect(struct model *m, bool holds, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Describe this step, for the text of a failure. */
void model_say(struct model *m, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Did the call succeed? A failure must have a text, and a fault must be armed
 * that may have caused it. */
bool model_ok(struct model *m, enum weir_status status, const char *call);
/* Did a call of the driver succeed? model_ok() says what a failure needs. */
bool model_driver_ok(struct model *m, CUresult code, const char *call);

/* Disarm all faults. */
void model_calm(struct model *m);

/* Check everything that must hold after a step. */
void model_check(struct model *m);
/* Check the part that must hold at any time, whatever other threads do. */
void model_check_health(struct model *m);
/* Compare the sums over the blocks of several models with the statistics. */
void model_check_sums(struct model *const models[], size_t n);

/* Check that the snapshot follows from the history, if there is one. No other
 * thread is at work. */
void model_check_replay(struct model *m);

/* Bytes before and behind each block that `guard` takes. */
size_t model_zone(void);

/* Wait for the device and compare what was read. */
void model_verify(struct model *m);

/* The steps, in steps.c, world.c, graphs.c, ask.c and crew.c, one function
 * each. Each describes itself by model_say(). */
#define MODEL_STEP_FUNCTION(name) void step_##name(struct model *m);
MODEL_STEPS(MODEL_STEP_FUNCTION)
#undef MODEL_STEP_FUNCTION

/* The set of one slot; empty for SLOT_NONE and the like. */
static inline uint32_t
slot_bit(unsigned slot)
{
	return slot < SLOTS ? (uint32_t)1 << slot : 0;
}

weir_stream model_stream(const struct model *m, unsigned slot);
/* A random slot that has a stream; a random live block or NULL. */
unsigned model_any_slot(struct model *m);
struct model_block *model_any_block(struct model *m);
bool model_is_live(const struct model *m, const void *address);
/* Check that weir_block_info() agrees with the model. */
struct weir_block_info model_expect_info(
    struct model *m, const struct model_block *b, const void *address);
/* Make a stream wait for another. False if a fault prevented it. */
bool model_wait(struct model *m, unsigned slot, unsigned other);
/* Check that the block overlaps no block of the model. */
void model_expect_apart(
    struct model *m, const struct model_block *b, const struct model *other);
/* Make `slot` wait for all work on a block that must come before work of the
 * given kind. False if a fault prevented it. */
bool model_order(
    struct model *m, const struct model_block *b, unsigned slot, bool write);
/* Check that no graph uses the block, which is not of its pool. */
void model_expect_no_graph(struct model *m, const struct model_block *b);
/* Check the pools after a step; drop all of them. */
void model_check_graphs(struct model *m);
void model_clear_graphs(struct model *m);
/* All work is done: no stream reads page-locked memory. */
void model_host_read(struct model *m);
/* Free all page-locked memory. */
void model_clear_host(struct model *m);
/* Undo a pin, if there is one. */
void model_unpin(struct model *m, unsigned i);
/* Fill a block on the stream of a slot. */
void model_write(struct model *m, struct model_block *b, unsigned slot);
/* Free a block the plain way. */
void model_release(struct model *m, size_t i);
/* Allocate, for any stream or for one, and free any block. These are steps of a
 * capture as well. */
void model_allocate(struct model *m, unsigned slot);
void model_release_any(struct model *m);
/* End the stream of a slot. False if a fault prevented it. */
bool model_end_stream(struct model *m, unsigned slot);

/* ---- Between threads --------------------------------------------------- */

enum { MODEL_THREADS = 4, MODEL_MAILBOX = 16 };

struct model_crew {
	pthread_mutex_t mutex;
	pthread_barrier_t barrier;
	struct model_block mailbox[MODEL_MAILBOX];
	size_t n_mail;
	struct model *models[MODEL_THREADS];
	weir_stream shared; /* work on blocks in the mailbox is in its order */
};

#endif
