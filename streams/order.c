/*
 * Keeps facts of order between streams. A fact holds for work queued after it
 * was learned. An event recorded at tick t therefore carries the facts of its
 * stream that were learned before t. No copy is kept for the event, only t. A
 * fact that a newer one has replaced since is lost to the event.
 */
#include "streams/order.h"

#include "base/status.h"
#include "streams/capture.h"
#include "streams/stream.h"
#include "streams/tuning.h"

/*
 * The latest record of an event. A place of the table holds the event that came
 * last.
 *
 * While the driver is recording, the event stands for the old record or the new
 * one, so nothing is known of it. If two records run at once, their order in
 * the driver is not known, so neither is kept.
 */
struct record {
	CUevent event;         /* NULL: no record is known here */
	struct stream *stream; /* a reference; NULL: the record is under way */
	uint64_t tick;         /* of the record that began last in this place */
	uint64_t capture; /* its stream was in this one before it; 0: none */
	unsigned calls;   /* records under way, of any event in this place */
};

static struct lock lock = LOCK_INITIALIZER(LOCK_RANK_ORDER);
static struct record records[ORDER_EVENTS] GUARDED_BY(lock);

/* ---- Facts ------------------------------------------------------------- */

static struct order_fact *
find_fact(struct order_facts *facts, uint64_t id) HOLDS(lock)
{
	for (unsigned i = 0; i < facts->count; i++)
		if (facts->facts[i].id == id)
			return &facts->facts[i];
	return NULL;
}

/* Find the place for a fact about a stream: that of the stream's present fact,
 * a new one, or that of the fact that was learned first. */
static struct order_fact *
place_for(struct order_facts *facts, uint64_t id) HOLDS(lock)
{
	struct order_fact *fact = find_fact(facts, id);
	if (fact != NULL)
		return fact;
	if (facts->count < ORDER_KNOWN) {
		fact = &facts->facts[facts->count++];
	} else {
		fact = &facts->facts[0];
		for (unsigned i = 1; i < ORDER_KNOWN; i++)
			if (facts->facts[i].learned < fact->learned)
				fact = &facts->facts[i];
	}
	*fact = (struct order_fact){ .id = id };
	return fact;
}

static void
add_fact(struct order_facts *facts, struct order_fact new) HOLDS(lock)
{
	struct order_fact *fact = place_for(facts, new.id);

	if (new.until > fact->until)
		*fact = new;
}

/* Note the capture that a stream is in, and drop its facts about an earlier
 * one. */
static void
enter_capture(struct order *order, uint64_t capture) HOLDS(lock)
{
	if (order->capture == capture)
		return;
	order->capture = capture;
	order->captured.count = 0;
	order->since = 0;
}

/* A stream's facts in a capture, or outside of captures (0); NULL: none are
 * known. */
static struct order_facts *
facts_of_capture(const struct order *order, uint64_t capture) HOLDS(lock)
{
	struct order *o = (struct order *)order;

	if (capture == 0)
		return &o->facts;
	return o->capture == capture ? &o->captured : NULL;
}

static void
learn(struct order *later, const struct order *earlier, uint64_t tick,
    uint64_t capture) HOLDS(lock)
{
	uint64_t now = order_tick();

	if (later->id == earlier->id)
		return;
	if (capture != 0)
		enter_capture(later, capture);
	struct order_facts *facts = facts_of_capture(later, capture);
	const struct order_facts *known = facts_of_capture(earlier, capture);
	for (unsigned i = 0; known != NULL && i < known->count; i++) {
		struct order_fact fact = known->facts[i];
		if (fact.learned > tick || fact.id == later->id)
			continue;
		fact.learned = now;
		add_fact(facts, fact);
	}
	/* Add this fact last, so that none of the others replaces it: a caller
	 * that has just waited for `earlier` must find the order. */
	add_fact(facts, (struct order_fact){ earlier->id, tick, now });
}

void
order_learn(struct stream *later, const struct stream *earlier, uint64_t tick,
    uint64_t capture)
{
	lock_enter(&lock);
	learn(&later->order, &earlier->order, tick, capture);
	lock_leave(&lock);
}

uint64_t
order_after(
    const struct stream *later, const struct stream *earlier, uint64_t capture)
{
	uint64_t until = 0;

	if (later == earlier)
		return UINT64_MAX;
	lock_enter(&lock);
	struct order_facts *facts = facts_of_capture(&later->order, capture);
	const struct order_fact *fact =
	    facts != NULL ? find_fact(facts, earlier->order.id) : NULL;
	if (fact != NULL)
		until = fact->until;
	lock_leave(&lock);
	return until;
}

struct position
order_position(struct stream *stream)
{
	struct order *order = &stream->order;
	struct position where = { 0 };
	uint64_t front = 0;
	bool answered = capture_look(stream, &where.capture, &front);

	/* Take the tick after the look, so that it is later than all work that
	 * the look has seen. */
	lock_enter(&lock);
	where.tick = order_tick();
	if (answered && where.capture != 0) {
		enter_capture(order, where.capture);
		if (order->since == 0 || order->front != front) {
			order->front = front;
			order->since = where.tick;
		}
		where.tick = order->since;
	}
	lock_leave(&lock);
	return where;
}

/* ---- Events of a program ----------------------------------------------- */

static struct record *
record_of(CUevent event)
{
	uint64_t hash = (uint64_t)(uintptr_t)event * 0x9e3779b97f4a7c15u;

	return &records[(hash >> 32) % ORDER_EVENTS];
}

static void
put_if_known(struct stream *stream)
{
	if (stream != NULL)
		stream_put(stream);
}

/* The capture that a stream is in. The stream may leave it, or enter one,
 * before the driver's record. Then a wait for the event fails, or the waiting
 * stream is in another capture, and order_waited() learns nothing. */
static uint64_t
capture_now(CUstream handle)
{
	struct stream *stream = capture_none() ? NULL : stream_known(handle);
	if (stream == NULL)
		return 0;
	uint64_t capture = order_position(stream).capture;
	stream_put(stream);
	return capture;
}

uint64_t
order_recording(CUevent event, CUstream handle)
{
	if (event == NULL)
		return 0;
	uint64_t capture = capture_now(handle);
	lock_enter(&lock);
	uint64_t tick = order_tick();
	struct record *record = record_of(event);
	struct stream *old = record->stream;
	record->event = record->calls++ == 0 ? event : NULL;
	record->stream = NULL;
	record->tick = tick;
	record->capture = capture;
	lock_leave(&lock);
	put_if_known(old);
	return tick;
}

void
order_recorded(CUevent event, CUstream handle, uint64_t tick)
{
	struct stream *stream = NULL;

	if (event == NULL)
		return;
	if (handle != NULL)
		stream = stream_known(handle);
	if (stream != NULL)
		atomic_fetch_add(&stream->records, 1);
	lock_enter(&lock);
	struct record *record = record_of(event);
	record->calls--;
	if (record->event == event && record->tick == tick) {
		record->stream = stream;
		if (stream == NULL)
			record->event = NULL;
		stream = NULL;
	}
	lock_leave(&lock);
	put_if_known(stream);
}

void
order_gone(CUevent event)
{
	struct stream *old = NULL;

	if (event == NULL)
		return;
	lock_enter(&lock);
	struct record *record = record_of(event);
	if (record->event == event) {
		old = record->stream;
		record->event = NULL;
		record->stream = NULL;
	}
	lock_leave(&lock);
	put_if_known(old);
}

/* The tick of the record that an event stands for; 0: it is not known. */
uint64_t
order_waiting(CUevent event)
{
	uint64_t tick = 0;

	if (event == NULL)
		return 0;
	lock_enter(&lock);
	const struct record *record = record_of(event);
	if (record->event == event && record->stream != NULL)
		tick = record->tick;
	lock_leave(&lock);
	return tick;
}

struct stream *
order_recorded_on(CUevent event, uint64_t tick)
{
	struct stream *stream = NULL;

	lock_enter(&lock);
	const struct record *record = record_of(event);
	if (record->event == event && record->tick == tick &&
	    record->stream != NULL)
		stream = stream_ref(record->stream);
	lock_leave(&lock);
	return stream;
}

void
order_waited(CUstream handle, CUevent event, uint64_t tick)
{
	uint64_t capture;
	struct stream *later = tick != 0 ? stream_known(handle) : NULL;
	if (later == NULL)
		return;
	status_mute();
	bool answered = capture_ask(later, &capture) == WEIR_OK;
	status_unmute();
	lock_enter(&lock);
	const struct record *record = record_of(event);
	/* In a capture only the capture's own events can be waited for, except
	 * where the graph waits for an event at each replay. */
	if (answered && record->event == event && record->tick == tick &&
	    record->capture == capture) {
		learn(&later->order, &record->stream->order, tick, capture);
		atomic_store(&later->order.is_seen, true);
		atomic_store(&record->stream->order.is_seen, true);
	}
	lock_leave(&lock);
	stream_protect(later);
	stream_put(later);
}
