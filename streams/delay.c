/*
 * Note [Measured delay] is in delay.h.
 *
 * A wait of the program's holds a reference to a stream, and giving back the
 * last one takes locks of a lower rank. So what a look has closed is put aside
 * and given back when the lock has been left.
 */
#include "streams/delay.h"

#include "base/status.h"
#include "streams/event.h"
#include "streams/stream.h"
#include "trace/served.h"

/* Two events with nothing between them are no further apart. */
enum { NO_WAIT_NS = 5000 };

static struct lock lock = LOCK_INITIALIZER(LOCK_RANK_DELAY);

/* Has weir ever made a stream wait? Else no stream is late. */
static atomic_bool begun;

/* ---- Events ------------------------------------------------------------ */

/* May events be recorded on the stream, with no effect on others? Makes room
 * for one more wait if it can. */
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
	if (event_take_timed(stream->context, &event) == WEIR_OK &&
	    stream_record(stream, event) != WEIR_OK) {
		event_give_timed(stream->context, event);
		event = NULL;
	}
	status_unmute();
	return event;
}

static void
give_back(const struct stream *stream, const struct stall *stall)
{
	if (!atomic_load(&stream->gone)) {
		if (stall->before != NULL)
			event_give_timed(stream->context, stall->before);
		if (stall->behind != NULL)
			event_give_timed(stream->context, stall->behind);
	}
	if (stall->earlier != NULL)
		stream_put(stall->earlier);
}

/* ---- Waits that begin -------------------------------------------------- */

static bool
push(struct delay *delay, struct stall stall)
{
	lock_enter(&lock);
	unsigned n = atomic_load(&delay->open_count);
	bool fits = n < DELAY_OPEN;
	if (fits) {
		delay->open[n] = stall;
		atomic_store(&delay->open_count, n + 1);
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
		stall.behind = record_timed(stream);
	if (stall.behind != NULL && push(&stream->delay, stall))
		atomic_store(&begun, true);
	else
		give_back(stream, &stall);
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

struct delay_wait
delay_program_begin(CUstream handle)
{
	struct delay_wait wait = { 0 };

	if (!atomic_load_explicit(&begun, memory_order_relaxed))
		return wait;
	wait.stream = stream_known(handle);
	if (wait.stream != NULL && delay_is_known(&wait.stream->delay) &&
	    can_measure(wait.stream))
		wait.before = record_in_context(wait.stream);
	return wait;
}

/* A wait that is not measured. */
static void
join(struct stream *stream, const struct stream *earlier)
{
	uint64_t own = late(stream);
	uint64_t other = late(earlier);

	while (own < other &&
	    !atomic_compare_exchange_weak(&stream->delay.late_ns, &own, other))
		;
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
		stall.behind = record_in_context(wait.stream);
	if (stall.earlier != NULL && stall.behind == NULL)
		join(wait.stream, stall.earlier);
	if (stall.behind == NULL || !push(&wait.stream->delay, stall))
		give_back(wait.stream, &stall);
	stream_put(wait.stream);
}

/* ---- Waits that are over ----------------------------------------------- */

/* The time between two complete events; 0 where the driver does not tell. */
static uint64_t
time_between(const struct stall *stall)
{
	float ms = 0;

	if (driver_peek()->cuEventElapsedTime(
		&ms, stall->before, stall->behind) != CUDA_SUCCESS ||
	    !(ms > 0))
		return 0;
	return (uint64_t)((double)ms * 1e6);
}

static void
count(struct delay *delay, const struct stall *stall)
{
	uint64_t ns = time_between(stall);

	if (stall->earlier == NULL) {
		atomic_fetch_add(&delay->late_ns, ns);
		atomic_fetch_add(&delay->waited_ns, ns);
		served_measured(stall->tag, ns);
	} else if (ns > NO_WAIT_NS) {
		atomic_store(&delay->late_ns, late(stall->earlier));
	}
}

/* Take the oldest wait off if it is over. */
static bool
close_first(struct stream *stream, struct stall *out) HOLDS(lock)
{
	struct delay *delay = &stream->delay;
	unsigned n = atomic_load(&delay->open_count);

	if (n == 0 || !event_met(stream->context, delay->open[0].behind))
		return false;
	*out = delay->open[0];
	count(delay, out);
	for (unsigned i = 0; i + 1 < n; i++)
		delay->open[i] = delay->open[i + 1];
	atomic_store(&delay->open_count, n - 1);
	return true;
}

uint64_t
delay_see(struct stream *stream)
{
	struct stall closed[DELAY_OPEN];
	unsigned n = 0;

	if (atomic_load(&stream->delay.open_count) == 0 ||
	    atomic_load(&stream->gone))
		return late(stream);
	lock_enter(&lock);
	while (n < DELAY_OPEN && close_first(stream, &closed[n]))
		n++;
	lock_leave(&lock);
	for (unsigned i = 0; i < n; i++)
		give_back(stream, &closed[i]);
	return late(stream);
}

void
delay_idle(struct stream *stream)
{
	delay_see(stream);
	atomic_store(&stream->delay.late_ns, 0);
}

void
delay_drop(struct stream *stream)
{
	struct delay *delay = &stream->delay;
	struct stall dropped[DELAY_OPEN];

	if (!delay_is_known(delay))
		return;
	lock_enter(&lock);
	unsigned n = atomic_exchange(&delay->open_count, 0);
	for (unsigned i = 0; i < n; i++)
		dropped[i] = delay->open[i];
	lock_leave(&lock);
	for (unsigned i = 0; i < n; i++)
		give_back(stream, &dropped[i]);
}
