/*
 * Measures the delay of weir's waits: delay.h, Note [Measured delay].
 *
 * A wait of the program's holds a reference to a stream, and dropping the last
 * reference takes locks of a lower rank. Therefore waits that are over are
 * copied and released after the lock.
 */
#include "streams/delay.h"

#include "base/meta.h"
#include "base/status.h"
#include "streams/capture.h"
#include "streams/event.h"
#include "streams/stream.h"
#include "streams/tuning.h"
#include "trace/served.h"

static struct lock lock = LOCK_INITIALIZER(LOCK_RANK_DELAY);

/* Has weir ever made a stream wait? If not, no stream is late. */
static atomic_bool begun;

/* Note [Lost time]. */
static _Atomic(uint64_t) lost_ns;

/* ---- Events ------------------------------------------------------------ */

/* Can a wait on this stream be measured? A record on it must not order other
 * streams, and the ring must not be full; this closes waits if it is. */
static bool
can_measure(struct stream *stream)
{
	if (atomic_load(&stream->delay.open_count) == DELAY_OPEN)
		delay_see(stream);
	return stream->handle != WEIR_STREAM_ANY && stream->thread == 0 &&
	    !atomic_load(&stream->ended) && !stream_orders_others(stream) &&
	    atomic_load(&stream->delay.open_count) < DELAY_OPEN;
}

static CUevent
record_timed(struct stream *stream)
{
	CUevent event = NULL;

	status_mute();
	if (event_acquire_timed(stream->context, &event) == WEIR_OK &&
	    stream_record(stream, event) != WEIR_OK) {
		event_release_timed(stream->context, event);
		event = NULL;
	}
	status_unmute();
	return event;
}

static void
release_stall(const struct stream *stream, const struct stall *stall)
{
	if (!atomic_load(&stream->gone)) {
		if (stall->before != NULL)
			event_release_timed(stream->context, stall->before);
		if (stall->after != NULL)
			event_release_timed(stream->context, stall->after);
	}
	if (stall->earlier != NULL)
		stream_put(stall->earlier);
}

/* ---- Waits that begin -------------------------------------------------- */

static struct stall *
stall_at(const struct delay *delay, unsigned i) HOLDS(lock)
{
	return &delay->open[(delay->first + i) % delay->capacity];
}

/* Enlarge the ring. False: there is no host memory. */
static bool
grow_ring(struct delay *delay) HOLDS(lock)
{
	unsigned capacity =
	    delay->capacity == 0 ? DELAY_CAPACITY_FIRST : 2 * delay->capacity;
	struct stall *open = meta_alloc(capacity * sizeof(*open));

	if (open == NULL)
		return false;
	for (unsigned i = 0; i < delay->capacity; i++)
		open[i] = *stall_at(delay, i);
	meta_free(delay->open, delay->capacity * sizeof(*open));
	delay->open = open;
	delay->capacity = capacity;
	delay->first = 0;
	return true;
}

static bool
push_stall(struct stream *stream, struct stall stall)
{
	struct delay *delay = &stream->delay;

	lock_enter(&lock);
	unsigned n = atomic_load(&delay->open_count);
	bool fits = n < DELAY_OPEN && (n < delay->capacity || grow_ring(delay));
	if (fits) {
		*stall_at(delay, n) = stall;
		atomic_store(&delay->open_count, n + 1);
		stream->on_drop = delay_drop;
	}
	lock_leave(&lock);
	return fits;
}

CUevent
delay_begin(struct stream *stream)
{
	return can_measure(stream) ? record_timed(stream) : NULL;
}

void
delay_end(struct stream *stream, CUevent before, bool made)
{
	struct stall stall = { .before = before, .tag = served_here.tag };

	if (before == NULL)
		return;
	if (made)
		stall.after = record_timed(stream);
	if (stall.after != NULL && push_stall(stream, stall))
		atomic_store(&begun, true);
	else
		release_stall(stream, &stall);
}

/* ---- The program's ----------------------------------------------------- */

static uint64_t
late(const struct stream *stream)
{
	return atomic_load(&stream->delay.late_ns);
}

static CUevent
record_in_context(struct stream *stream)
{
	struct driver_guard guard;
	CUevent event = NULL;

	status_mute();
	if (driver_enter(stream->context, &guard) == WEIR_OK) {
		event = record_timed(stream);
		driver_leave(&guard);
	}
	status_unmute();
	return event;
}

/* Should this wait of the program's be measured? Counts it if so. */
static bool
is_due(struct delay *delay)
{
	uint64_t now = driver_time_ns();
	uint64_t looks = atomic_load(&delay->looks);

	if (looks == 0)
		atomic_store(&delay->looks_since_ns, now);
	uint64_t since = atomic_load(&delay->looks_since_ns);
	if (looks >= DELAY_LOOKS_FIRST + (now - since) / DELAY_LOOK_EVERY_NS)
		return false;
	atomic_fetch_add(&delay->looks, 1);
	return true;
}

/* Does only a measurement say how late the wait makes the stream? It does if
 * the stream is late or may be, or if the other one may be later than is seen.
 */
static bool
is_unsure(const struct stream *stream, const struct stream *earlier)
{
	return delay_is_known(&stream->delay) ||
	    (earlier != NULL && atomic_load(&earlier->delay.open_count) > 0);
}

struct delay_wait
delay_program_begin(CUstream handle, CUevent event, uint64_t tick)
{
	struct delay_wait wait = { 0 };
	struct stream *earlier;

	if (!atomic_load_explicit(&begun, memory_order_relaxed))
		return wait;
	wait.stream = stream_known(handle);
	if (wait.stream == NULL)
		return wait;
	earlier = tick == 0 ? NULL : order_recorded_on(event, tick);
	if (is_unsure(wait.stream, earlier) && is_due(&wait.stream->delay) &&
	    can_measure(wait.stream))
		wait.before = record_in_context(wait.stream);
	if (earlier != NULL)
		stream_put(earlier);
	return wait;
}

static void
set_late(struct stream *stream, uint64_t ns)
{
	uint64_t before = atomic_exchange(&stream->delay.late_ns, ns);

	if (ns != before)
		atomic_fetch_add(
		    &stream->delay.felt_ns, (int64_t)(ns - before));
}

/* Account for a wait of the program's that is not measured. */
static void
inherit_late(struct stream *stream, const struct stream *earlier)
{
	uint64_t other = late(earlier);

	lock_enter(&lock);
	if (late(stream) < other) {
		atomic_fetch_add(
		    &stream->delay.inherited_ns, other - late(stream));
		set_late(stream, other);
	}
	lock_leave(&lock);
}

void
delay_program_end(struct delay_wait wait, CUevent event, uint64_t tick)
{
	struct stall stall = { .before = wait.before };

	if (wait.stream == NULL)
		return;
	if (tick != 0)
		stall.earlier = order_recorded_on(event, tick);
	if (stall.earlier != NULL && wait.before != NULL)
		stall.after = record_in_context(wait.stream);
	if (stall.earlier != NULL && stall.after == NULL)
		inherit_late(wait.stream, stall.earlier);
	if (stall.after == NULL || !push_stall(wait.stream, stall))
		release_stall(wait.stream, &stall);
	stream_put(wait.stream);
}

/* ---- Waits that are over ----------------------------------------------- */

static uint64_t
lesser_ns(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* The time between two completed events, in ns; 0 if the driver does not
 * say. */
static uint64_t
time_between(CUevent first, CUevent second)
{
	float ms = 0;

	if (driver_peek()->cuEventElapsedTime(&ms, first, second) !=
		CUDA_SUCCESS ||
	    !(ms > 0))
		return 0;
	return (uint64_t)((double)ms * 1e6);
}

/* Does the next wait follow this one, which is over, with no work between? */
static bool
is_followed(const struct stream *stream, const struct stall *stall) HOLDS(lock)
{
	const struct delay *delay = &stream->delay;
	if (atomic_load(&delay->open_count) == 0)
		return false;
	CUevent next = stall_at(delay, 0)->before;
	return event_met(stream->context, next) &&
	    time_between(stall->after, next) < DELAY_NO_WAIT_NS;
}

/* Account for a wait of weir's. */
static void
count_own(struct stream *stream, const struct stall *stall, uint64_t ns)
    HOLDS(lock)
{
	struct delay *delay = &stream->delay;

	atomic_fetch_add(&delay->waited_ns, ns);
	served_measured(stall->tag, ns);
	delay->undecided_ns += ns;
}

/* Account for a wait of the program's. The stream's own part of its lateness
 * does not grow, and does not include the other stream's own part. */
static void
count_program(struct stream *stream, const struct stall *stall, uint64_t ns)
    HOLDS(lock)
{
	struct delay *delay = &stream->delay;
	uint64_t before = late(stream) + delay->undecided_ns + ns;
	uint64_t other = late(stall->earlier);
	uint64_t after = lesser_ns(before, other);
	uint64_t own = lesser_ns(delay_own(delay) + delay->undecided_ns,
	    after - lesser_ns(after, delay_own(&stall->earlier->delay)));

	if (ns <= DELAY_NO_WAIT_NS)
		return;
	if (atomic_load(&delay->slack_ns) < before - after)
		atomic_store(&delay->slack_ns, before - after);
	set_late(stream, after);
	atomic_store(&delay->inherited_ns, after - own);
	delay->undecided_ns = 0;
}

/* Waits that are over and have been removed from their rings. They are released
 * without the lock, and in this order: a wait of the program's has a reference
 * to the stream of the waits that were closed for it. */
struct closed {
	unsigned n;
	unsigned depth; /* of the chain of streams */
	struct {
		struct stream *stream;
		struct stall stall;
	} waits[DELAY_CLOSED_AT_ONCE];
};

/* Has the first event completed no later than the second? True if the driver
 * does not say. Both have completed. */
static bool
is_before(CUevent first, CUevent second)
{
	float ms = 0;

	return driver_peek()->cuEventElapsedTime(&ms, first, second) !=
	    CUDA_SUCCESS ||
	    ms >= 0;
}

static bool close_first(
    struct stream *stream, CUevent until, struct closed *out) HOLDS(lock);

/* Account for the waits of a stream that ended before an event; NULL: for all
 * that are over. False if there is no room for more. */
static bool
close_until(struct stream *stream, CUevent until, struct closed *out)
    HOLDS(lock)
{
	struct delay *delay = &stream->delay;

	if (delay->is_closing || atomic_load(&stream->gone) ||
	    out->depth == DELAY_STREAMS_DEEP)
		return true;
	delay->is_closing = true;
	out->depth++;
	while (close_first(stream, until, out))
		;
	out->depth--;
	delay->is_closing = false;
	return out->n < DELAY_CLOSED_AT_ONCE;
}

/* Remove the oldest wait from the ring if it ended before an event and there is
 * room for it. What the other stream had waited for until then counts first, so
 * that it is as late as it was. */
static bool
close_first(struct stream *stream, CUevent until, struct closed *out)
{
	struct delay *delay = &stream->delay;
	unsigned n = atomic_load(&delay->open_count);
	struct stall stall;

	if (n == 0 || out->n == DELAY_CLOSED_AT_ONCE)
		return false;
	stall = *stall_at(delay, 0);
	if (!event_met(stream->context, stall.after) ||
	    (until != NULL && !is_before(stall.after, until)))
		return false;
	if (stall.earlier != NULL &&
	    !close_until(stall.earlier, stall.after, out))
		return false;
	delay->first = (delay->first + 1) % delay->capacity;
	atomic_store(&delay->open_count, n - 1);
	uint64_t ns = time_between(stall.before, stall.after);
	if (stall.earlier == NULL)
		count_own(stream, &stall, ns);
	else
		count_program(stream, &stall, ns);
	if (delay->undecided_ns > 0 && !is_followed(stream, &stall)) {
		set_late(stream, late(stream) + delay->undecided_ns);
		delay->undecided_ns = 0;
	}
	out->waits[out->n].stream = stream;
	out->waits[out->n++].stall = stall;
	return true;
}

/* Account for the waits of a stream that are over. */
static void
close_all(struct stream *stream)
{
	struct closed closed = { .depth = 0 };

	do {
		closed.n = 0;
		lock_enter(&lock);
		close_until(stream, NULL, &closed);
		lock_leave(&lock);
		for (unsigned i = 0; i < closed.n; i++)
			release_stall(
			    closed.waits[i].stream, &closed.waits[i].stall);
	} while (closed.n == DELAY_CLOSED_AT_ONCE);
}

/* Account for the waits that are over on all streams, before a stream's
 * lateness is dropped: others may have waited for it until now. */
static void
close_everywhere(void)
{
	struct stream *streams[DELAY_STREAMS_AT_ONCE];
	unsigned n = stream_late_ones(streams, DELAY_STREAMS_AT_ONCE);

	for (unsigned i = 0; i < n; i++) {
		close_all(streams[i]);
		stream_put(streams[i]);
	}
}

/* Bound the lateness: a stream that has done all work up to some time ago is
 * late by that time at most. */
static void
bound_late(struct stream *stream)
{
	uint64_t met = atomic_load(&stream->met_ns);
	uint64_t now = driver_time_ns();

	if (met == 0 || late(stream) <= now - met)
		return;
	close_everywhere();
	lock_enter(&lock);
	set_late(stream, now - met);
	lock_leave(&lock);
}

uint64_t
delay_see(struct stream *stream)
{
	if (atomic_load(&stream->delay.open_count) > 0)
		close_all(stream);
	if (late(stream) > 0)
		bound_late(stream);
	return late(stream);
}

/* ---- The host's waits -------------------------------------------------- */

uint64_t
delay_host_begins(void)
{
	return atomic_load_explicit(&begun, memory_order_relaxed) ?
	    driver_time_ns() :
	    0;
}

uint64_t
delay_lost_ns(void)
{
	return atomic_load(&lost_ns);
}

static uint64_t
time_since(uint64_t began_ns)
{
	uint64_t now = driver_time_ns();

	return now < began_ns ? 0 : now - began_ns;
}

/* The host has lost the time by which the stream is late, of `most` at most.
 * The streams have felt it for good, so felt_ns stays. */
static uint64_t
lose(struct stream *stream, uint64_t most)
{
	lock_enter(&lock);
	uint64_t lost = lesser_ns(late(stream), most);
	atomic_fetch_sub(&stream->delay.late_ns, lost);
	lock_leave(&lock);
	return lost;
}

/* The host has waited for all streams: the latest one decides. */
static uint64_t
lose_latest(uint64_t most)
{
	struct stream *streams[DELAY_STREAMS_AT_ONCE];
	unsigned n = stream_late_ones(streams, DELAY_STREAMS_AT_ONCE);
	uint64_t lost = 0;

	for (unsigned i = 0; i < n; i++) {
		delay_see(streams[i]);
		uint64_t one = lose(streams[i], most);

		if (lost < one)
			lost = one;
		stream_put(streams[i]);
	}
	return lost;
}

/* The host has waited for a stream, or for all (NULL). */
static void
host_waited(struct stream *stream, uint64_t began_ns)
{
	uint64_t most = time_since(began_ns);
	struct capture_guard guard;
	uint64_t lost;

	if (capture_enter(NULL, &guard) != WEIR_OK)
		return;
	close_everywhere();
	if (stream != NULL) {
		delay_see(stream);
		lost = lose(stream, most);
	} else {
		lost = lose_latest(most);
	}
	capture_leave(&guard);
	atomic_fetch_add(&lost_ns, lost);
}

void
delay_host_waited(CUstream handle, uint64_t began_ns)
{
	struct stream *stream;

	if (handle == WEIR_STREAM_ANY) {
		delay_host_waited_all(began_ns);
		return;
	}
	stream = began_ns == 0 ? NULL : stream_known(handle);
	if (stream == NULL)
		return;
	host_waited(stream, began_ns);
	stream_put(stream);
}

void
delay_host_waited_event(CUevent event, uint64_t began_ns)
{
	uint64_t tick = began_ns == 0 ? 0 : order_waiting(event);
	struct stream *stream =
	    tick == 0 ? NULL : order_recorded_on(event, tick);

	if (stream == NULL)
		return;
	host_waited(stream, began_ns);
	stream_put(stream);
}

void
delay_host_waited_all(uint64_t began_ns)
{
	if (began_ns != 0)
		host_waited(NULL, began_ns);
}

/* ---- Streams without work ---------------------------------------------- */

void
delay_idle(struct stream *stream)
{
	delay_see(stream);
	if (late(stream) > 0)
		close_everywhere();
	lock_enter(&lock);
	if (late(stream) > 0)
		atomic_store(&stream->delay.slack_ns, 0);
	set_late(stream, 0);
	atomic_store(&stream->delay.inherited_ns, 0);
	stream->delay.undecided_ns = 0;
	lock_leave(&lock);
}

void
delay_drop(struct stream *stream)
{
	struct delay *delay = &stream->delay;

	lock_enter(&lock);
	struct stall *open = delay->open;
	unsigned capacity = delay->capacity;
	unsigned first = delay->first;
	unsigned n = atomic_exchange(&delay->open_count, 0);
	delay->open = NULL;
	delay->capacity = 0;
	delay->first = 0;
	delay->undecided_ns = 0;
	lock_leave(&lock);
	for (unsigned i = 0; i < n; i++)
		release_stall(stream, &open[(first + i) % capacity]);
	meta_free(open, capacity * sizeof(*open));
}
