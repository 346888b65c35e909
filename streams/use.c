/*
 * Keeps the uses of blocks in queues, one for each stream, and polls their
 * events. Events are met in the order of their stream, so a poll asks the
 * oldest of each stream first and goes on while they are met. It skips a few
 * unmet events: an event may be late for another reason, and a later one that
 * is met covers all uses before it.
 */
#include "streams/use.h"

#include "base/meta.h"
#include "base/status.h"
#include "streams/capture.h"
#include "streams/event.h"
#include "streams/tuning.h"
#include "trace/served.h"

void
waiting_init(struct waiting *waiting)
{
	list_init(&waiting->queues);
	tree_init(&waiting->by_stream,
	    TREE_KEY(struct use_queue, node, handle, address));
	waiting->latest = NULL;
	list_init(&waiting->pending);
	waiting->count = 0;
	waiting->bytes = 0;
	waiting->spare = NULL;
	waiting->spares = 0;
	waiting->queue_count = 0;
	waiting->until_glances = GLANCES;
	waiting->in_captures = false;
}

/* ---- Queues ------------------------------------------------------------ */

/* The first queue whose key is not less, or NULL. */
static struct use_queue *
queue_from(const struct waiting *waiting, uint64_t handle, uint64_t address)
{
	const struct use_queue wanted = { .handle = handle,
		.address = address };
	struct tree_node *node =
	    tree_lower_bound(&waiting->by_stream, &wanted.node);

	return node != NULL ? CONTAINER_OF(node, struct use_queue, node) : NULL;
}

static struct use_queue *
queue_next(const struct use_queue *queue)
{
	struct tree_node *node = tree_next(&queue->node);

	return node != NULL ? CONTAINER_OF(node, struct use_queue, node) : NULL;
}

static struct use_queue *
queue_search(const struct waiting *waiting, const struct stream *stream)
{
	struct use_queue *queue =
	    queue_from(waiting, (uintptr_t)stream->handle, (uintptr_t)stream);

	return queue != NULL && queue->stream == stream ? queue : NULL;
}

/* Most uses are of the stream of the use before. */
static inline struct use_queue *
queue_find(const struct waiting *waiting, const struct stream *stream)
{
	if (waiting->latest != NULL && waiting->latest->stream == stream)
		return waiting->latest;
	return queue_search(waiting, stream);
}

static struct use_queue *
queue_get(struct waiting *waiting, struct stream *stream)
{
	struct use_queue *queue = queue_find(waiting, stream);
	if (queue != NULL) {
		waiting->latest = queue;
		return queue;
	}
	queue = meta_alloc(sizeof(*queue));
	if (queue == NULL)
		return NULL;
	queue->stream = stream_ref(stream);
	queue->refs = 0;
	queue->first = NULL;
	queue->fresh = 0;
	queue->fresh_bytes = 0;
	queue->pause = 0;
	queue->paused = 0;
	list_init(&queue->uses);
	list_push_front(&waiting->queues, &queue->link);
	queue->handle = (uintptr_t)stream->handle;
	queue->address = (uintptr_t)stream;
	tree_insert(&waiting->by_stream, &queue->node);
	waiting->latest = queue;
	waiting->queue_count++;
	return queue;
}

/* Drop a reference to a queue. An unused queue stays while there are few: its
 * stream will probably use another block. */
static void
queue_put(struct waiting *waiting, struct use_queue *queue)
{
	if (--queue->refs > 0 ||
	    (waiting->queue_count <= QUEUES_KEPT &&
		!atomic_load(&queue->stream->ended)))
		return;
	list_remove(&queue->link);
	tree_remove(&waiting->by_stream, &queue->node);
	if (waiting->latest == queue)
		waiting->latest = NULL;
	waiting->queue_count--;
	stream_put(queue->stream);
	meta_free(queue, sizeof(*queue));
}

/* Drop unused queues of streams that have ended. */
static void
drop_ended(struct waiting *waiting)
{
	struct list *next;

	for (struct list *l = waiting->queues.next; l != &waiting->queues;
	     l = next) {
		struct use_queue *queue =
		    CONTAINER_OF(l, struct use_queue, link);
		next = l->next;
		if (queue->refs > 0 || !atomic_load(&queue->stream->ended))
			continue;
		queue->refs++;
		queue_put(waiting, queue);
	}
}

static struct use *
use_alloc(struct waiting *waiting)
{
	struct use *use = waiting->spare;

	if (use == NULL)
		return meta_alloc(sizeof(*use));
	waiting->spare = use->next;
	waiting->spares--;
	return use;
}

static void
use_drop(struct waiting *waiting, struct use *use)
{
	if (waiting->spares == USES_KEPT) {
		meta_free(use, sizeof(*use));
		return;
	}
	use->next = waiting->spare;
	waiting->spare = use;
	waiting->spares++;
}

/* The use of a block by a stream, or NULL. A block that many streams use is
 * looked through only for a stream that uses some block. */
static inline struct use *
use_of(const struct waiting *waiting, const struct pending *pending,
    const struct stream *stream)
{
	struct use *use = pending->uses;

	for (unsigned n = 1; use != NULL && use->queue->stream != stream; n++) {
		const struct use_queue *queue;

		if (n == USES_FEW) {
			queue = queue_find(waiting, stream);
			if (queue == NULL || queue->refs == 0)
				return NULL;
		}
		use = use->next;
	}
	return use;
}

/* Add a new use to a block; NULL: there is no host memory. */
static inline struct use *
use_hang(
    struct waiting *waiting, struct pending *pending, struct stream *stream)
{
	struct use *use = use_alloc(waiting);

	if (use == NULL)
		return NULL;
	use->queue = queue_get(waiting, stream);
	if (use->queue == NULL) {
		use_drop(waiting, use);
		return NULL;
	}
	use->queue->refs++;
	list_init(&use->link);
	use->owner = pending;
	use->event = NULL;
	use->tick = 0;
	use->capture = waiting->in_captures ? capture_of(stream) : 0;
	use->placed = 0;
	use->past = false;
	use->waiters = 0;
	use->next = pending->uses;
	pending->uses = use;
	return use;
}

static enum weir_status
no_use_memory(void)
{
	return status_set(
	    WEIR_EHOSTMEM, "recording a stream: no host memory for its use");
}

struct stream *
use_known(const struct waiting *waiting, weir_stream handle)
{
	if (stream_is_default(handle) || handle == WEIR_STREAM_ANY)
		return NULL;
	const struct use_queue *queue = waiting->latest;
	if (queue == NULL || queue->stream->handle != handle ||
	    atomic_load(&queue->stream->ended))
		queue = queue_from(waiting, (uintptr_t)handle, 0);
	while (queue != NULL && queue->stream->handle == handle) {
		if (!atomic_load(&queue->stream->ended))
			return queue->stream;
		queue = queue_next(queue);
	}
	return NULL;
}

/* ---- Events ------------------------------------------------------------ */

/* The first use from here to the end of its queue that carries an event. */
static struct use *
carrier_from(const struct use_queue *queue, const struct list *l)
{
	for (; l != &queue->uses; l = l->next) {
		struct use *use = CONTAINER_OF(l, struct use, link);
		if (use->event != NULL)
			return use;
	}
	return NULL;
}

/* Is the context of the queue's stream gone? Then all its work is done and its
 * events no longer exist. */
static bool
is_gone(const struct use_queue *queue)
{
	return atomic_load(&queue->stream->gone);
}

/* Remove a use from its queue. If the use before it has no event, it gets this
 * one's event, unless a host waits for this one. */
static void
unlink_use(struct use *use)
{
	struct use_queue *queue = use->queue;
	struct list *before = use->link.prev;
	struct list *after = use->link.next;

	list_remove(&use->link);
	if (use->event == NULL)
		return;
	if (before != &queue->uses && use->waiters == 0) {
		struct use *heir = CONTAINER_OF(before, struct use, link);
		if (heir->event == NULL) {
			heir->event = use->event;
			heir->tick = use->tick;
			heir->ns = use->ns;
			use->event = NULL;
			if (queue->first == use)
				queue->first = heir;
			return;
		}
	}
	if (queue->first == use)
		queue->first = carrier_from(queue, after);
}

static struct use *
last_of(const struct use_queue *queue)
{
	return CONTAINER_OF(queue->uses.prev, struct use, link);
}

/* Are records on the queue's stream dear? */
static bool
is_dear(const struct use_queue *queue)
{
	return queue->stream->handle == WEIR_STREAM_ANY;
}

/* Record one event for the uses of a queue that have none, at least one. The
 * queue's context has been entered. False if the driver refuses now. */
static bool
record_queue(struct use_queue *queue)
{
	struct use *last = last_of(queue);

	last->tick = order_tick();
	if (!is_dear(queue))
		last->ns = driver_time_ns();
	if (stream_fence(queue->stream, &last->event) != WEIR_OK)
		return false;
	if (queue->first == NULL)
		queue->first = last;
	queue->fresh = 0;
	queue->fresh_bytes = 0;
	return true;
}

/* Fence all uses of a queue that is not empty. False if the driver refuses
 * now. */
static bool
fence_uses(struct use_queue *queue)
{
	struct capture_guard guard;

	if (last_of(queue)->event != NULL)
		return true;
	if (is_gone(queue) ||
	    capture_enter(queue->stream->context, &guard) != WEIR_OK)
		return false;
	bool done = record_queue(queue);
	capture_leave(&guard);
	return done;
}

/* Find the use whose event covers this use, which is in its queue. Record one
 * if need be; NULL if that cannot be done now. */
static struct use *
carrier_of(struct use *use)
{
	struct use *carrier = carrier_from(use->queue, &use->link);

	if (is_gone(use->queue))
		return NULL;
	if (carrier == NULL && fence_uses(use->queue))
		carrier = carrier_from(use->queue, &use->link);
	return carrier;
}

/* Have enough uses collected for an event? */
static bool
is_full(const struct use_queue *queue)
{
	size_t bytes = is_dear(queue) ? USE_BATCH_BYTES_DEAR : USE_BATCH_BYTES;

	return queue->fresh >= USE_BATCH || queue->fresh_bytes >= bytes;
}

/* ---- Uses -------------------------------------------------------------- */

/* Give back the event of a use that is in no queue any more. */
static inline void
free_event(const struct use *use)
{
	if (use->event != NULL && !is_gone(use->queue))
		event_release(use->queue->stream->context, use->event);
}

/* Free a use. While a host waits for its event, it stays, without a block. */
static void
use_free(struct waiting *waiting, struct use *use)
{
	if (!list_empty(&use->link))
		unlink_use(use);
	use->owner = NULL;
	if (use->waiters > 0)
		return;
	free_event(use);
	queue_put(waiting, use->queue);
	use_drop(waiting, use);
}

/* Remove a use from its block. */
static inline void
use_remove(struct waiting *waiting, struct use *use)
{
	struct use **at = &use->owner->uses;

	while (*at != use)
		at = &(*at)->next;
	*at = use->next;
	use_free(waiting, use);
}

/* Record a use by a stream that has a use of the block already. */
static __attribute__((noinline)) enum weir_status
use_again(struct waiting *waiting, struct pending *pending, struct use *old)
{
	struct stream *stream = old->queue->stream;

	if (old->past) {
		if (use_hang(waiting, pending, stream) == NULL)
			return no_use_memory();
		use_remove(waiting, old);
	} else if (old->capture != 0) {
		old->capture = waiting->in_captures ? capture_of(stream) : 0;
	}
	return WEIR_OK;
}

enum weir_status
use_add(struct waiting *waiting, struct pending *pending, struct stream *stream)
{
	struct use *old = use_of(waiting, pending, stream);

	if (old != NULL)
		return use_again(waiting, pending, old);
	if (use_hang(waiting, pending, stream) == NULL)
		return no_use_memory();
	return WEIR_OK;
}

static void
leave_pending(struct waiting *waiting, struct pending *pending)
{
	list_remove(&pending->link);
	waiting->count--;
	waiting->bytes -= pending->bytes;
}

void
use_clear(struct waiting *waiting, struct pending *pending)
{
	while (pending->uses != NULL) {
		struct use *use = pending->uses;
		pending->uses = use->next;
		use_free(waiting, use);
	}
	if (pending->unmet > 0) {
		pending->unmet = 0;
		leave_pending(waiting, pending);
	}
}

void
use_move(struct pending *from, struct pending *to)
{
	to->uses = from->uses;
	from->uses = NULL;
	for (struct use *u = to->uses; u != NULL; u = u->next)
		u->owner = to;
}

/* Note the position at which a use in a capture ends, if its stream is still in
 * that capture. */
static void
place(struct use *use)
{
	struct position where = order_position(use->queue->stream);
	if (where.capture != use->capture)
		use->capture = 0;
	use->placed = where.tick;
}

bool
use_is_over(const struct pending *pending, const struct stream *stream,
    uint64_t capture)
{
	for (struct use *u = pending->uses; u != NULL; u = u->next) {
		if (u->capture != 0 && !u->past)
			place(u);
		if (u->capture != capture ||
		    order_after(stream, u->queue->stream, capture) < u->placed)
			return false;
	}
	return true;
}

/* Append a use of a block of some bytes to its queue. */
static inline void
enqueue(struct use *use, size_t bytes)
{
	struct use_queue *queue = use->queue;

	if (use->capture != 0)
		place(use);
	uint64_t worked_at = atomic_load_explicit(
	    &queue->stream->worked_at, memory_order_acquire);
	use->at = worked_at != 0 ? worked_at : order_now() + 1;
	list_push_back(&queue->uses, &use->link);
	queue->fresh++;
	queue->fresh_bytes += bytes;
	if (is_full(queue)) {
		status_mute();
		fence_uses(queue);
		status_unmute();
	}
}

enum weir_status
use_add_past(struct waiting *waiting, struct pending *pending, size_t bytes,
    struct stream *stream)
{
	struct use *old = use_of(waiting, pending, stream);

	if (old != NULL && !old->past)
		return WEIR_OK;
	struct use *use = use_hang(waiting, pending, stream);
	if (use == NULL)
		return no_use_memory();
	if (old != NULL)
		use_remove(waiting, old);
	use->past = true;
	pending->has_past = true;
	enqueue(use, bytes);
	return WEIR_OK;
}

/* Was a past use met while its block was live? It is then in no queue. */
static bool
is_met(const struct use *use)
{
	return use->past && list_empty(&use->link);
}

void
use_drop_met(struct waiting *waiting, struct pending *pending)
{
	struct use *next;

	pending->has_past = false;

	for (struct use *u = pending->uses; u != NULL; u = next) {
		next = u->next;
		if (is_met(u))
			use_remove(waiting, u);
	}
}

void
waiting_add(struct waiting *waiting, struct pending *pending)
{
	pending->unmet = 0;
	for (struct use *u = pending->uses; u != NULL; u = u->next) {
		pending->unmet++;
		if (!u->past)
			enqueue(u, pending->bytes);
	}
	list_push_back(&waiting->pending, &pending->link);
	waiting->count++;
	waiting->bytes += pending->bytes;
}

/* ---- Polling ----------------------------------------------------------- */

/* Remove a met use from its block. Returns the block if this was its last unmet
 * use. A live block keeps the use, which is then in no queue. */
static struct pending *
settle_use(struct waiting *waiting, struct use *use)
{
	struct pending *pending = use->owner;

	if (__builtin_expect(pending->unmet == 0, 0)) {
		unlink_use(use);
		if (use->waiters == 0) {
			free_event(use);
			use->event = NULL;
		}
		return NULL;
	}
	use_remove(waiting, use);
	return --pending->unmet == 0 ? pending : NULL;
}

/* Settle the uses of a queue up to `last`, whose event is met. Blocks without
 * unmet uses are moved to `done`; returns their number. */
static size_t
settle_until(struct waiting *waiting, struct use_queue *queue,
    const struct use *last, struct list *done)
{
	struct list *next = queue->uses.next;
	struct use *use = NULL;
	size_t moved = 0;

	while (use != last) {
		use = CONTAINER_OF(next, struct use, link);
		next = next->next;
		struct pending *pending = settle_use(waiting, use);
		if (pending != NULL) {
			leave_pending(waiting, pending);
			list_push_back(done, &pending->link);
			moved++;
		}
	}
	return moved;
}

/* Settle all uses of a queue whose stream's context is gone. */
static size_t
settle_gone(struct waiting *waiting, struct use_queue *queue, struct list *done)
{
	const struct use *last =
	    CONTAINER_OF(queue->uses.prev, struct use, link);

	queue->refs++; /* as in poll_queue() */
	size_t moved = settle_until(waiting, queue, last, done);
	queue_put(waiting, queue);
	return moved;
}

/* How to poll a queue. */
struct look {
	bool fences;    /* record an event for uses that have none */
	bool once;      /* stop after one met event */
	unsigned skips; /* how many unmet events to skip */
};

/* Query the events of a queue, and settle the uses that they cover. */
static size_t
query_queue(struct waiting *waiting, struct use_queue *queue, struct look look,
    struct list *done)
{
	size_t moved = 0;

	for (struct use *use = queue->first; use != NULL;) {
		struct list *after = use->link.next;
		if (event_met(queue->stream->context, use->event)) {
			stream_met(queue->stream, use->tick);
			if (!is_dear(queue))
				stream_took(queue->stream, use->ns);
			moved += settle_until(waiting, queue, use, done);
			if (look.once)
				break;
		} else if (look.skips-- == 0) {
			break;
		}
		use = carrier_from(queue, after);
	}
	return moved;
}

/* Poll a queue that is not empty. */
static size_t
poll_queue(struct waiting *waiting, struct use_queue *queue, struct look look,
    struct list *done)
{
	bool unfenced = look.fences && last_of(queue)->event == NULL;
	struct capture_guard guard;

	if (is_gone(queue))
		return settle_gone(waiting, queue, done);
	if ((queue->first == NULL && !unfenced) ||
	    capture_enter(unfenced ? queue->stream->context : NULL, &guard) !=
		WEIR_OK)
		return 0;
	queue->refs++; /* settling the last use must not free it under us */
	if (unfenced)
		record_queue(queue); /* tried again later */
	size_t moved = query_queue(waiting, queue, look, done);
	capture_leave(&guard);
	queue_put(waiting, queue);
	return moved;
}

/* Glance at a queue of WEIR_STREAM_ANY: Note [Glances]. */
static size_t
glance_dear(struct waiting *waiting, struct use_queue *queue, struct list *done)
{
	const struct look look = { .once = true };

	if (queue->pause > 0) {
		queue->pause--;
		return 0;
	}
	queue->refs++; /* as in poll_queue() */
	size_t moved = poll_queue(waiting, queue, look, done);
	if (moved > 0 || waiting->bytes >= USE_BATCH_BYTES_DEAR)
		queue->paused = 0;
	else if (queue->paused < GLANCES_PAUSED)
		queue->paused = queue->paused == 0 ? 1 : 2 * queue->paused;
	queue->pause = queue->paused;
	queue_put(waiting, queue);
	return moved;
}

size_t
waiting_glance(struct waiting *waiting, struct list *done)
{
	const struct look look = { .fences = false };
	unsigned looks = waiting->queue_count <= 2 ? 2 : 1;
	size_t moved = 0;

	status_mute();
	for (unsigned n = waiting->queue_count; n > 0 && looks > 0; n--) {
		struct use_queue *queue =
		    CONTAINER_OF(waiting->queues.next, struct use_queue, link);
		list_remove(&queue->link);
		list_push_back(&waiting->queues, &queue->link);
		if (list_empty(&queue->uses) ||
		    (!is_gone(queue) && queue->first == NULL &&
			(is_dear(queue) || !fence_uses(queue))))
			continue;
		looks--;
		moved += is_dear(queue) ?
		    glance_dear(waiting, queue, done) :
		    poll_queue(waiting, queue, look, done);
	}
	status_unmute();
	return moved;
}

size_t
waiting_poll(struct waiting *waiting, unsigned skips, struct list *done)
{
	const struct look look = { .fences = true, .skips = skips };
	struct list *next;
	size_t moved = 0;

	if (waiting->count == 0)
		return 0;
	drop_ended(waiting);
	status_mute();
	for (struct list *l = waiting->queues.next; l != &waiting->queues;
	     l = next) {
		struct use_queue *queue =
		    CONTAINER_OF(l, struct use_queue, link);
		next = l->next;
		if (list_empty(&queue->uses))
			continue;
		moved += poll_queue(waiting, queue, look, done);
	}
	status_unmute();
	return moved;
}

/* Order `later` after a use in their capture, where an event of the use could
 * not be waited for. */
static bool
follow_captured(const struct use *use, struct stream *later, uint64_t capture,
    uint64_t *waits)
{
	struct stream *stream = use->queue->stream;

	if (use->capture != capture)
		return false;
	if (order_after(later, stream, capture) >= use->placed)
		return true;
	uint64_t tick =
	    waits != NULL ? capture_join(later, stream, capture) : 0;
	if (tick == 0)
		return false;
	++*waits;
	served_waited((uint64_t)(uintptr_t)stream->handle);
	order_learn(later, stream, tick, capture);
	return true;
}

/* Is a use over before the next work of `later`, which is in no capture,
 * begins? */
static bool
is_before(const struct use *use, const struct stream *later)
{
	const struct stream *stream = use->queue->stream;

	return stream == later || is_gone(use->queue) ||
	    order_after(later, stream, 0) >= use->at;
}

static bool
follow_use(struct use *use, struct stream *later, uint64_t *waits)
{
	struct stream *stream = use->queue->stream;
	if (is_before(use, later))
		return true;
	const struct use *carrier = waits != NULL ? carrier_of(use) : NULL;
	if (carrier == NULL)
		return false;
	CUevent before = delay_begin(later);
	CUresult code =
	    driver_peek()->cuStreamWaitEvent(later->handle, carrier->event, 0);
	delay_end(later, before, code == CUDA_SUCCESS);
	if (code != CUDA_SUCCESS)
		return false;
	++*waits;
	served_waited((uint64_t)(uintptr_t)stream->handle);
	order_learn(later, stream, carrier->tick, 0);
	return true;
}

bool
use_follow(struct pending *pending, struct stream *later, uint64_t capture,
    uint64_t *waits)
{
	bool done = true;

	for (struct use *u = pending->uses; u != NULL && done; u = u->next)
		done = capture != 0 ?
		    follow_captured(u, later, capture, waits) :
		    follow_use(u, later, waits);
	return done;
}

bool
use_is_before(const struct use *use, const struct stream *later)
{
	return is_met(use) || is_before(use, later);
}

bool
use_is_ordered(const struct pending *pending, const struct stream *later)
{
	for (const struct use *u = pending->uses; u != NULL; u = u->next)
		if (!use_is_before(u, later))
			return false;
	return true;
}

bool
use_times(const struct use *use, uint64_t *ns, uint64_t *oldest_ns)
{
	const struct use *carrier = carrier_from(use->queue, &use->link);

	if (carrier == NULL || is_dear(use->queue))
		return false;
	*ns = carrier->ns;
	*oldest_ns = use->queue->first->ns;
	return true;
}

const struct use *
use_first_open(const struct waiting *waiting, const struct stream *stream)
{
	const struct use_queue *queue = queue_find(waiting, stream);

	return queue != NULL ? queue->first : NULL;
}

bool
use_is_fenced(const struct use *use)
{
	return carrier_from(use->queue, &use->link) != NULL;
}

/* ---- Waiting ----------------------------------------------------------- */

struct use *
use_hold(struct pending *pending)
{
	for (struct use *u = pending->uses; u != NULL; u = u->next) {
		struct use *carrier = carrier_of(u);
		if (carrier != NULL) {
			carrier->waiters++;
			return carrier;
		}
	}
	return NULL;
}

enum weir_status
use_wait(const struct use *use)
{
	struct driver_guard guard;
	enum weir_status status =
	    driver_enter(use->queue->stream->context, &guard);
	if (status != WEIR_OK)
		return status;
	CUresult code = driver_peek()->cuEventSynchronize(use->event);
	driver_leave(&guard);
	return driver_status(code, "cuEventSynchronize(stream %p)",
	    (void *)use->queue->stream->handle);
}

void
use_release(struct waiting *waiting, struct use *use)
{
	use->waiters--;
	if (use->owner == NULL)
		use_free(waiting, use);
}

void
waiting_forget(struct waiting *waiting)
{
	for (struct list *l = waiting->queues.next; l != &waiting->queues;
	     l = l->next) {
		struct use_queue *queue =
		    CONTAINER_OF(l, struct use_queue, link);
		for (struct list *m = queue->uses.next; m != &queue->uses;
		     m = m->next)
			CONTAINER_OF(m, struct use, link)->event = NULL;
		queue->first = NULL;
	}
}
