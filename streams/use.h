/*
 * Keeps the stream uses of blocks, and finds out when a freed block may be used
 * again.
 *
 * While a block is live, weir_record_stream() adds a *stream use* (in short,
 * use) to it for each other stream. When the block is freed, its uses go to the
 * end of the queues of their streams. The block is pending until all are met,
 * in any order. A late stream holds back only the blocks that it used.
 *
 * weir_record_use() records a use whose work is already queued: that use is
 * *past*, and goes to the end of its stream's queue at the call. If it is met
 * while its block is live, it stays on the block, in no queue, until the free
 * drops it, because a free by a thread's cache reads the uses of a block
 * without the lock. A use that lasts until the free covers a past use of the
 * same stream.
 *
 * A use is *fenced* when an event has been recorded on its stream at its place
 * in the queue or later. The queue is in the order of the frees, so an event
 * covers all uses before it. The last use that an event covers carries it. Thus
 * one event serves any number of uses, and the uses that no event covers are
 * the end of the queue.
 *
 * A small block is not worth a driver call of its own. Uses of one stream share
 * an event, which is recorded when USE_BATCH of them or USE_BATCH_BYTES have
 * none, or when a request finds no memory. An event on all work of a context,
 * for WEIR_STREAM_ANY, is dear, so its batch is larger.
 *
 * Note [Glances]
 *
 * A request glances at the pending blocks even if it finds memory: it polls at
 * most two queues, in turn, and skips no unmet event. In the queue of
 * WEIR_STREAM_ANY most requests would learn no more than the request before.
 * Therefore a glance there queries one event. If that is not met and less than
 * BATCH_BYTES_DEAR is pending, the next glances skip the queue: one at first,
 * then twice as many each time, up to PAUSE_MOST. A request that finds no
 * memory polls all queues in any case.
 *
 * As long as less than a batch is pending, requests do not glance. It could
 * stay pending for long although its streams are done, while requests cut new
 * memory. Therefore GLANCES of REQUESTS_A_GLANCE requests glance at it too. A
 * program that uses another stream now and then gets the same address again, as
 * in PyTorch, and the cost for other programs is small.
 *
 * When the context of a stream is gone, all its uses are met and its events no
 * longer exist. The next poll sees this without asking the driver.
 *
 * If an event cannot be recorded now (the stream is being captured, or the
 * driver refuses), weir tries again later, so that a free neither fails nor
 * waits. The host memory that a free needs is allocated with the use.
 *
 * In a capture no event can be recorded, but the order is known (order.h, Note
 * [Order in a capture]). If a use was recorded in a capture, and its stream was
 * still in it at the end of the use, a stream of that capture can be ordered
 * after it, or is found to be. After the capture the use is fenced like others.
 *
 * Everything here is under the lock of the arena that owns `struct waiting`.
 */
#ifndef STREAMS_USE_H
#define STREAMS_USE_H

#include "base/list.h"
#include "base/tree.h"
#include "streams/stream.h"
#include "streams/tuning.h"

/* One stream's unmet uses, in the order of the frees. */
struct use_queue {
	struct stream *stream; /* a reference */
	struct list uses;
	struct use *first; /* the first use that carries an event, or NULL */
	unsigned fresh;    /* uses since the last record */
	size_t fresh_bytes;
	struct list link; /* in waiting.queues */
	unsigned refs;    /* uses of this stream, in the queue or not */
	unsigned pause;   /* glances that will skip it; Note [Glances] */
	unsigned paused;  /* the latest such pause; 0: none */
	/* Its place in waiting.by_stream, by the stream's handle and address:
	 * a stream that has ended may have the handle of another. */
	struct tree_node node;
	uint64_t handle;
	uint64_t address;
};

/* One stream that used one block. */
struct use {
	struct use *next; /* of the same block */
	struct use_queue *queue;
	struct list link;      /* in queue->uses while unmet */
	struct pending *owner; /* NULL: the use stays for its waiters only */
	CUevent event;    /* or NULL: a later use carries it, or none does */
	uint64_t tick;    /* of the event's record */
	uint64_t ns;      /* its time: driver_time_ns() */
	uint64_t at;      /* all its work was queued before this tick */
	uint64_t capture; /* all its work was in this one; 0: it was not */
	uint64_t placed;  /* the tick in it at which the use ended */
	bool past;        /* by weir_record_use(): the use ended there */
	unsigned waiters; /* hosts that wait for `event` with no lock held */
};

/* A block's part: its uses. */
struct pending {
	struct use *uses;
	unsigned unmet;
	bool has_past;    /* one of the uses is past, or was */
	size_t bytes;     /* the block's size, when it is freed */
	struct list link; /* in waiting.pending, oldest first */
};

/* An arena's part: the queues of its streams, and its pending blocks. */
struct waiting {
	struct list queues;
	struct tree by_stream;    /* the same queues */
	struct use_queue *latest; /* the one that was found last, or NULL */
	struct list pending;
	size_t count;      /* of pending */
	size_t bytes;      /* of pending */
	struct use *spare; /* through ->next */
	unsigned spares;
	unsigned queue_count;
	/* Counts requests down from REQUESTS_A_GLANCE; the last GLANCES of them
	 * glance at less than a batch. */
	unsigned until_glances;
	bool in_captures; /* its blocks are used in captures; constant */
};

void waiting_init(struct waiting *waiting);

/* Say whether blocks of it are used in captures, before there are any. */
static inline void
waiting_set_in_captures(struct waiting *waiting, bool in_captures)
{
	waiting->in_captures = in_captures;
}

/* Add a use by `stream` to a live block, unless it has one that lasts until the
 * free. WEIR_EHOSTMEM. */
enum weir_status use_add(
    struct waiting *waiting, struct pending *pending, struct stream *stream);

/* Add a past use by `stream` to a live block of some bytes, in place of an
 * earlier past use. Does nothing if the stream has a use that lasts until the
 * free. WEIR_EHOSTMEM: nothing has changed. */
enum weir_status use_add_past(struct waiting *waiting, struct pending *pending,
    size_t bytes, struct stream *stream);

/* Remove the met uses from a live block that is about to be freed. */
void use_drop_met(struct waiting *waiting, struct pending *pending);

/* The stream of a handle that has used memory of the arena lately; NULL for
 * others and for default streams. Valid while the lock is held. */
struct stream *use_known(const struct waiting *waiting, weir_stream handle);

/* Remove all uses. A pending block is no longer pending. */
void use_clear(struct waiting *waiting, struct pending *pending);

/* Move all uses of a live block to a block that has none. No use is past. */
void use_move(struct pending *from, struct pending *to);

/* Make a freed block with uses pending, and queue its uses. Fences them, or
 * leaves that to a later use or poll. */
void waiting_add(struct waiting *waiting, struct pending *pending);

/* Is so much pending that each request should glance at it? */
static inline bool
waiting_is_due(const struct waiting *waiting)
{
	return waiting->count >= USE_BATCH || waiting->bytes >= USE_BATCH_BYTES;
}

/* Should this request glance at less than a batch? Each call counts as a
 * request; Note [Glances]. */
static inline bool
waiting_has_glance(struct waiting *waiting)
{
	if (waiting->count == 0 || --waiting->until_glances >= GLANCES)
		return false;
	if (waiting->until_glances == 0)
		waiting->until_glances = REQUESTS_A_GLANCE;
	return true;
}

/* As waiting_poll(), but for at most two streams, all of them in turn, and
 * without skipping an unmet event, so that the cost does not grow with the
 * memory that is pending. Records no dear event. */
size_t waiting_glance(struct waiting *waiting, struct list *done);

/*
 * Fence all uses, and settle those that are met.
 *
 * @param skips how many unmet events of one stream to skip
 * @param done pending blocks whose uses are all met are moved here, without
 * uses
 * @return the number moved
 */
size_t waiting_poll(struct waiting *waiting, unsigned skips, struct list *done);

/*
 * Order `later` after every unmet use, by waits on the device where no order is
 * known. Between driver_enter() and driver_leave() for its context.
 *
 * @param capture the capture that `later` is in; 0: none
 * @param waits raised by the number of waits made; NULL: no wait may be made
 * @return false if `later` could not be ordered after a use; waits that were
 * made before stay
 */
bool use_follow(struct pending *pending, struct stream *later, uint64_t capture,
    uint64_t *waits);

/* Is `stream`, in a capture, ordered after all uses of a block of its own that
 * is about to be freed? Then the block need not be pending. */
bool use_is_over(const struct pending *pending, const struct stream *stream,
    uint64_t capture);

/* Is `later`, which is in no capture, ordered after every unmet use? */
bool use_is_ordered(const struct pending *pending, const struct stream *later);

/* Is a use over before the next work of `later`, which is in no capture,
 * begins? */
bool use_is_before(const struct use *use, const struct stream *later);

/* Get the times at which the event that covers an unmet use, and the oldest
 * open event of its stream, were recorded. False: no event covers the use yet,
 * or the use is of WEIR_STREAM_ANY, whose times are not kept. */
bool use_times(const struct use *use, uint64_t *ns, uint64_t *oldest_ns);

/* Find the oldest use by a stream that carries an event; NULL: there is none.
 * The event was not met when it was last asked. */
const struct use *use_first_open(
    const struct waiting *waiting, const struct stream *stream);

/* Does an event cover an unmet use? */
bool use_is_fenced(const struct use *use);

/*
 * Hold a use whose event covers a use of this block, to wait for it with no
 * lock held. It may be a use of another block. NULL if no event can be recorded
 * now. use_release() ends the hold. Several hosts may wait for one event, and
 * the block may become free meanwhile.
 */
struct use *use_hold(struct pending *pending);
enum weir_status use_wait(const struct use *use);
void use_release(struct waiting *waiting, struct use *use);

/* Forget all events, because the context is gone. Does not call the driver. */
void waiting_forget(struct waiting *waiting);

#endif
