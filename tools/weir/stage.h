/*
 * The stage a trace is played on: device 0, its clock, and work that keeps a
 * stream busy until a given time.
 *
 * On a GPU the clock is the host's, and waiting takes time; on the simulated
 * device it is the simulation's virtual time, which is moved. Otherwise the
 * two are played alike. Times are nanoseconds since stage_start().
 *
 * To be busy until a time, a stream is made to wait for a *timer*: a stream
 * of the stage's own that runs one sleeping kernel. A kernel on the stream
 * itself would end late whenever the stream waits for something else first,
 * and each delay would add to the next. What follows the wait on the stream is
 * work that takes no time: so a wait of weir's that lasts longer delays it.
 */
#ifndef TOOLS_WEIR_STAGE_H
#define TOOLS_WEIR_STAGE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include <weir/weir.h>

struct stage;

/*
 * Open device 0, make its context current on this thread, and load the
 * kernels. NULL, and a complaint, on failure.
 */
struct stage *stage_open(void);
void stage_close(struct stage *stage);

/* True on the simulated device. */
bool stage_simulated(const struct stage *stage);

/* Time, and the counts below, begin now. */
bool stage_start(struct stage *stage);
uint64_t stage_now_ns(struct stage *stage);
/* Return at `time_ns`, or at once if that has passed. */
void stage_wait_until(struct stage *stage, uint64_t time_ns);

/*
 * Wait for all work of all streams. The simulated device reports how long
 * weir's waits have stalled streams since stage_start(), and by how much they
 * have delayed work; both are 0 on a GPU.
 */
bool stage_finish(
    struct stage *stage, uint64_t *stalled_ns, uint64_t *delayed_ns);

/* `stream` waits for what is on `other`: the program's order, made through
 * weir, and no wait of weir's. */
bool stage_order(struct stage *stage, weir_stream stream, weir_stream other);

/* Give `stream` work that takes so long, after its work so far. */
bool stage_work(struct stage *stage, weir_stream stream, uint64_t duration_ns);

/* Keep `stream` busy until `time_ns`, and longer only by work it had. */
bool stage_occupy(struct stage *stage, weir_stream stream, uint64_t time_ns);

/* A stream of the stage that is busy until `time_ns`, or not much longer. */
bool stage_busy_stream(struct stage *stage, uint64_t time_ns, weir_stream *out);

/*
 * Write the first and the last bytes of a block, on `stream`, after the write
 * that `mark` stands for, if it does for one; it then stands for this write.
 * A program orders its streams so where several use a block. `mark` may be
 * NULL; stage_unmark() ends one.
 */
bool stage_touch(struct stage *stage, weir_stream stream, void *address,
    size_t size, void **mark);
void stage_unmark(struct stage *stage, void **mark);

/* A block and the number whose pattern it holds, from 1. */
struct stage_block {
	void *address;
	size_t size;
	uint32_t number;
};

/*
 * Write a block's pattern to all of it, on `stream`; `mark`, if not NULL, then
 * stands for this write and is ended by stage_unmark().
 */
bool stage_write(struct stage *stage, weir_stream stream,
    const struct stage_block *block, void **mark);

/*
 * See on `stream`, when it comes to that, that all of the pattern is there,
 * after the write that `mark` stands for unless that is NULL. The simulated
 * device compares a few words, but checks the order of all accesses.
 */
bool stage_verify(struct stage *stage, weir_stream stream,
    const struct stage_block *block, void *mark);

/* Wait for all checks; words that differed, and the number of a block where
 * some did. */
bool stage_mismatches(struct stage *stage, uint64_t *words, uint32_t *number);

/*
 * How many faults of order the simulated device has seen: memory used by two
 * streams at once, or not mapped. Complains of the first. 0 on a GPU, which
 * does not look.
 */
unsigned stage_violations(struct stage *stage);

/* Bytes of the device that were free at stage_start() and are not now, as the
 * driver counts them. */
bool stage_driver_held(struct stage *stage, uint64_t *bytes);

/*
 * Driver calls since stage_start() by entry point, without the stage's own: an
 * object, or null on a GPU, where they are not counted.
 */
json_t *stage_driver_calls(struct stage *stage);

#endif
