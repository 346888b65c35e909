/*
 * The streams that use a block, and when its memory may be used again.
 *
 * While a block is live, weir_record_stream() hangs a *use* on it for each
 * other stream. When it is freed its uses go to the end of the queues of their
 * streams, and the block is pending until all are met, in any order. A late
 * stream holds back only the blocks it used.
 *
 * weir_record_use() says that a stream's use is queued by now: that use is
 * *past*, and goes to the end of its stream's queue at the call. One that is
 * met while its block is live stays on the block, in no queue, until the free
 * drops it: a free by a thread's cache reads the uses of a block with no lock.
 * A use that lasts until the free covers any of the same stream before it.
 *
 * A use is *fenced* when an event has been recorded on its stream at its place
 * in the queue or behind it: the queue is in the order of the frees, so an
 * event tells of all before it. One event, carried by the last use it tells
 * of, thus serves any number, and those without are the end of the queue.
 *
 * Little memory is not worth a call to the driver for each block: uses of one
 * stream share an event, which is recorded when some have come together, or
 * much memory, or when memory is missed. A stream's own event is cheap, and the
 * earlier the sooner met; an event on all work of a context, for
 * WEIR_STREAM_ANY, is dear, and much is more there.
 *
 * Note [Glances]
 *
 * A request that misses no memory has a glance at what waits. With
 * WEIR_STREAM_ANY each would ask the driver once or more for what the next is
 * told as well. So a glance there settles no more than one event. One that
 * finds none met, where little memory waits, lets some go by before the next,
 * twice as many as last time, up to a few. Who misses memory asks in any case.
 *
 * Less than a batch may wait for long, although its streams are done, while new
 * memory is cut for its own stream. So once in a while a few requests have a
 * glance at it too: a program that uses another stream now and then has the
 * same address again, as in PyTorch, and one that does so all the time pays
 * nothing to speak of.
 *
 * When the context of a stream goes, all its uses are met, and its events are
 * no more: the next poll sees it, and nothing is asked of the driver.
 *
 * An event that cannot be recorded now (the stream is being captured, or the
 * driver refuses) is tried again later, so freeing neither fails nor waits.
 * All that freeing needs is allocated when the use is.
 *
 * In a capture no event can be recorded, but its order is known (order.h, Note
 * [Order in a capture]): a use that was named there, by a stream that still was
 * in it at its end, may be followed in that capture, or found to be over.
 * When the capture has ended it is fenced like others.
 *
 * Everything here is under the lock of the arena that owns `struct waiting`.
 */
#ifndef STREAMS_USE_H
#define STREAMS_USE_H

#include "base/list.h"
#include "streams/stream.h"

/* Uses of a stream wait for each other until there are as many, or so much
 * memory. */
enum { USE_BATCH = 16, USE_BATCH_BYTES = 1 << 20 };

/* Little memory is glanced at so often, once in so many requests. */
enum { GLANCES = 3, REQUESTS_A_GLANCE = 1024 };

/* One stream's uses that wait, in the order they were freed. */
struct use_queue {
	struct stream *stream; /* a reference */
	struct list uses;
	struct use *first; /* of them that carries an event, or NULL */
	unsigned fresh;    /* uses that came since the last record */
	size_t fresh_bytes;
	struct list link; /* in waiting.queues */
	unsigned refs;    /* uses that name it, waiting or not */
	unsigned pause;   /* glances that go by; Note [Glances] */
	unsigned paused;  /* the latest such pause, 0 if none */
};

/* One stream that used one block. */
struct use {
	struct use *next; /* of the same block */
	struct use_queue *queue;
	struct list link;      /* in queue->uses while unmet */
	struct pending *owner; /* NULL: it is gone, but for its waiters */
	CUevent event;         /* or NULL: one behind it tells, or none yet */
	uint64_t tick;         /* of the record, and its time: */
	uint64_t ns;           /* driver_time_ns() */
	uint64_t at;           /* all of it was queued before this tick */
	uint64_t capture;      /* all of it was in this one; 0: or was not */
	uint64_t placed;       /* its stream's place in that, at its end */
	bool past;             /* by weir_record_use(): it ended at the call */
	unsigned waiters; /* hosts that wait for `event` with no lock held */
};

/* A block's part: its uses. */
struct pending {
	struct use *uses;
	unsigned unmet;
	bool has_past;    /* one of them is, or was */
	size_t bytes;     /* of the block, when it is freed */
	struct list link; /* in waiting.pending, oldest first */
};

/* An arena's part: the queues of its streams, and its pending blocks. */
struct waiting {
	struct list queues;
	struct list pending;
	size_t count;      /* of pending */
	size_t bytes;      /* of pending */
	struct use *spare; /* through ->next */
	unsigned spares;
	unsigned queue_count;
	/* Requests to come until glances start anew; the last GLANCES of them
	 * glance at little memory. */
	unsigned until_glances;
	bool in_captures; /* its blocks are used in captures; constant */
};

void waiting_init(struct waiting *waiting);

/* Hang a use by `stream` on a live block; nothing if it is there already.
 * WEIR_EHOSTMEM. */
enum weir_status use_add(
    struct waiting *waiting, struct pending *pending, struct stream *stream);

/* Hang a use by `stream`, which is queued by now, on a live block of some
 * bytes, in place of an earlier such use; nothing if a use is there that lasts
 * until the free. WEIR_EHOSTMEM, and then all is as it was. */
enum weir_status use_add_past(struct waiting *waiting, struct pending *pending,
    size_t bytes, struct stream *stream);

/* Remove the uses that are met from a live block that is about to be freed. */
void use_drop_met(struct waiting *waiting, struct pending *pending);

/* The stream of a handle, if it is no default stream and has used memory here
 * lately; or NULL. It stays as long as the lock is held. */
struct stream *use_known(const struct waiting *waiting, weir_stream handle);

/* Take all uses off; the fences of a pending block are dropped. */
void use_clear(struct waiting *waiting, struct pending *pending);

/* Hand all uses of a live block to one that has none. None is past. */
void use_move(struct pending *from, struct pending *to);

/* The block is freed: let it wait for its uses (it has some). Fences them, or
 * leaves that to those that follow. */
void waiting_add(struct waiting *waiting, struct pending *pending);

/* Does so much wait that a request should look at it even if it misses no
 * memory? */
static inline bool
waiting_is_due(const struct waiting *waiting)
{
	return waiting->count >= USE_BATCH || waiting->bytes >= USE_BATCH_BYTES;
}

/* Does little memory wait that a request should look at all the same? Each call
 * is a request; Note [Glances]. */
static inline bool
waiting_has_glance(struct waiting *waiting)
{
	if (waiting->count == 0 || --waiting->until_glances >= GLANCES)
		return false;
	if (waiting->until_glances == 0)
		waiting->until_glances = REQUESTS_A_GLANCE;
	return true;
}

/* As waiting_poll(), past no event, and for no more than two streams, all of
 * them in turn: what it costs does not grow with what waits. Records none that
 * is dear. */
size_t waiting_glance(struct waiting *waiting, struct list *done);

/*
 * Fence what is not, and ask for uses that have been met.
 *
 * @param skips  how many unmet events of one stream to look past
 * @param done   pending blocks with no unmet fence left are moved here; their
 *               uses are gone
 * @return the number moved
 */
size_t waiting_poll(struct waiting *waiting, unsigned skips, struct list *done);

/*
 * Put `later` behind every unmet use, by waits on the device where its order is
 * not known. Between driver_enter() and driver_leave() for its context.
 *
 * @param capture  that `later` is in; 0: it is not being captured
 * @param waits    is raised by the waits made; NULL: none may be
 * @return false if one could not be made; those before it stand
 */
bool use_follow(struct pending *pending, struct stream *later, uint64_t capture,
    uint64_t *waits);

/* Is `stream`, which is in a capture, behind all uses of its block, which is
 * about to be freed? Then they hold nothing back. */
bool use_is_over(const struct pending *pending, const struct stream *stream,
    uint64_t capture);

/* Is `later`, which is in no capture, known to come after every unmet use? */
bool use_is_ordered(const struct pending *pending, const struct stream *later);

/* Is a use over when `later`, which is in no capture, comes to what it is given
 * next? */
bool use_is_before(const struct use *use, const struct stream *later);

/* The times at which the event that tells of an unmet use was recorded, and the
 * oldest open event of its stream; false: no event tells of it yet, or the use
 * is of all streams, whose times are not kept. */
bool use_times(const struct use *use, uint64_t *ns, uint64_t *oldest_ns);

/* Does an event tell of an unmet use? If not, none has been recorded yet. */
bool use_is_fenced(const struct use *use);

/*
 * A use whose event tells of one of this block's, to wait for with no lock
 * held; it may be another block's. NULL if none can be recorded now.
 * use_release() ends the hold. The block may become free meanwhile: several
 * hosts may wait for one event.
 */
struct use *use_hold(struct pending *pending);
enum weir_status use_wait(const struct use *use);
void use_release(struct waiting *waiting, struct use *use);

/* Forget all: the context is gone. Nothing is asked of the driver. */
void waiting_forget(struct waiting *waiting);

#endif
