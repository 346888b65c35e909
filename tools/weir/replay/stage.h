/*
 * The stage on which a trace is played: device 0, its clock, and work that
 * keeps a stream busy until a given time.
 *
 * On a GPU the clock is the host's, and a wait takes time. On the simulated
 * device the clock is virtual time, and a wait moves it. All else is the same
 * on both. Times are nanoseconds since stage_start().
 *
 * A stream is kept busy until a time by a *timer*: a stream of the stage's own
 * that runs one sleeping kernel, for which the stream waits. A kernel on the
 * stream itself would end late whenever the stream waits for another first, and
 * the delays would add up. After the wait the stream has a kernel that takes no
 * time, so that a wait of weir's that lasts longer delays work.
 */
#ifndef TOOLS_WEIR_REPLAY_STAGE_H
#define TOOLS_WEIR_REPLAY_STAGE_H

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

/* Begin to count time, and the counts below. */
bool stage_start(struct stage *stage);
uint64_t stage_now_ns(struct stage *stage);
/* Wait until `time_ns`. Returns at once if that is over. */
void stage_wait_until(struct stage *stage, uint64_t time_ns);

/*
 * Wait for all work of all streams. The simulated device reports for how long
 * weir's waits have stalled streams since stage_start(), and by how much they
 * have delayed work. Both are 0 on a GPU.
 */
bool stage_finish(
    struct stage *stage, uint64_t *stalled_ns, uint64_t *delayed_ns);

/* Make `stream` wait for the work of `other`, by a call of weir. This is an
 * order of the program, which does not count as a wait of weir. */
bool stage_order(struct stage *stage, weir_stream stream, weir_stream other);

/* Queue work on `stream` that takes `duration_ns`. */
bool stage_work(struct stage *stage, weir_stream stream, uint64_t duration_ns);

/* Keep `stream` busy until `time_ns`. Earlier work of the stream may last
 * longer. */
bool stage_occupy(struct stage *stage, weir_stream stream, uint64_t time_ns);

/* Find a stream of the stage that is busy until `time_ns`, or a little
 * longer. */
bool stage_busy_stream(struct stage *stage, uint64_t time_ns, weir_stream *out);

/*
 * Write the first and the last bytes of a block on `stream`. `mark` may be
 * NULL; it holds an event that is recorded after each write of the block. If
 * *mark has an event, the write waits for it, as a program orders the streams
 * that use a block. stage_unmark() destroys the event.
 */
bool stage_touch(struct stage *stage, weir_stream stream, void *address,
    size_t size, void **mark);
void stage_unmark(struct stage *stage, void **mark);

/* A block, and the number of its pattern, from 1. */
struct stage_block {
	void *address;
	size_t size;
	uint32_t number;
};

/*
 * Write a block's pattern to the whole block on `stream`. If `mark` is not
 * NULL, its event is recorded after the write; stage_unmark() destroys it.
 */
bool stage_write(struct stage *stage, weir_stream stream,
    const struct stage_block *block, void **mark);

/*
 * Queue a check on `stream` that the block has its whole pattern. If `mark` is
 * not NULL, it is an event for which the check waits, and which is recorded
 * again after the check if `again` says so. The simulated device compares a few
 * words, but checks the order of all accesses.
 */
bool stage_verify(struct stage *stage, weir_stream stream,
    const struct stage_block *block, void *mark, bool again);

/* Write the pattern of a block of page-locked memory with the host, and count
 * the words that differ from it. */
void stage_host_write(struct stage *stage, const struct stage_block *block);
void stage_host_verify(struct stage *stage, const struct stage_block *block);

/* Wait for all checks. *words is the number of words that differed, and *number
 * the number of the first such block. */
bool stage_mismatches(struct stage *stage, uint64_t *words, uint32_t *number);

/*
 * The number of faults that the simulated device has found: memory that two
 * streams used at once, or that was not mapped. Complains of the first faults.
 * 0 on a GPU, which does not check.
 */
unsigned stage_violations(struct stage *stage);

/* Bytes of the device that were allocated since stage_start(), by the driver's
 * count of free bytes. */
bool stage_driver_held(struct stage *stage, uint64_t *bytes);

/*
 * Driver calls since stage_start() by entry point, without the stage's own
 * calls. An object, or null on a GPU, where calls are not counted.
 */
json_t *stage_driver_calls(struct stage *stage);

#endif
