/*
 * What used a block, and when it may be used again.
 *
 * While a block is live, weir_record_stream() hangs a *use* on it for each
 * other stream. When it is freed each use is *marked*: an event is recorded
 * on its stream, and the block is pending until every mark is met, in any
 * order. A late stream holds back only the blocks it used.
 *
 * A mark that cannot be recorded now (its stream is being captured, or the
 * driver refuses) stays unrecorded and is tried again at each poll, so freeing
 * neither fails nor waits. All that freeing needs is allocated when the use is.
 *
 * Everything here is under the lock of the arena that owns `struct waiting`.
 */
#ifndef STREAMS_USE_H
#define STREAMS_USE_H

#include <limits.h>

#include "base/list.h"
#include "streams/stream.h"

/* One stream's uses that wait, in the order they were freed. */
struct use_queue {
	struct stream *stream; /* a reference */
	struct list uses;
	struct list link; /* in waiting.queues */
	unsigned refs;    /* uses that name it, waiting or not */
};

/* One stream that used one block. */
struct use {
	struct use *next; /* of the same block */
	struct use_queue *queue;
	struct list link;      /* in queue->uses while unmet */
	struct pending *owner; /* NULL: it is gone, but for its waiters */
	CUevent event;         /* NULL until recorded */
	uint64_t tick;         /* of the record */
	unsigned waiters; /* hosts that wait for `event` with no lock held */
};

/* A block's side of it. */
struct pending {
	struct use *uses;
	unsigned unmet;
	struct list link; /* in waiting.pending, oldest first */
};

/* An arena's side of it. */
struct waiting {
	struct list queues;
	struct list pending;
	size_t count;      /* of pending */
	struct use *spare; /* through ->next */
	unsigned spares;
	unsigned queue_count;
};

void waiting_init(struct waiting *waiting);

/* Hang a use by `stream` on a live block; nothing if it is there already.
 * WEIR_EHOSTMEM. */
enum weir_status use_add(
    struct waiting *waiting, struct pending *pending, struct stream *stream);

/* Take all uses off; the marks of a pending block are dropped. */
void use_clear(struct waiting *waiting, struct pending *pending);

/* Hand all uses of a live block to one that has none. */
void use_move(struct pending *from, struct pending *to);

/* The block is freed: mark its uses (it has some) and let it wait. */
void waiting_add(struct waiting *waiting, struct pending *pending);

/* As waiting_poll(), past no mark, and for no more than two streams, all of
 * them in turn: what it costs does not grow with what waits. */
size_t waiting_glance(struct waiting *waiting, struct list *done);

/*
 * Ask for marks that have been met.
 *
 * @param skips  how many unmet marks of one stream to look past
 * @param done   pending blocks with no unmet mark left are moved here; their
 *               uses are gone
 * @return the number moved
 */
size_t waiting_poll(struct waiting *waiting, unsigned skips, struct list *done);

/* How many unmet uses `later` is not known to be behind yet; UINT_MAX if one
 * cannot be marked now. */
unsigned use_unknown(const struct pending *pending, const struct stream *later);

/*
 * Put `later` behind every unmet use, by waits on the device where its order is
 * not known. Between driver_enter() and driver_leave() for its context; it is
 * not being captured.
 *
 * @param waits  is raised by the waits made
 * @return false if one could not be made; those before it stand
 */
bool use_follow(struct pending *pending, struct stream *later, uint64_t *waits);

/*
 * A recorded mark of this block to wait for with no lock held, or NULL if
 * none can be recorded now. use_release() ends the hold. The block may become
 * free meanwhile: several hosts may wait for one mark.
 */
struct use *use_hold(struct pending *pending);
enum weir_status use_wait(const struct use *use);
void use_release(struct waiting *waiting, struct use *use);

/* Forget all: the context is gone. Nothing is asked of the driver. */
void waiting_forget(struct waiting *waiting);

#endif
