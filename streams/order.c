/*
 * A fact holds for work queued after it was learned. An event recorded at tick
 * t therefore carries those facts of its stream that were learned before t;
 * no copy is kept for it, only t. A fact that has been replaced by a newer one
 * since is lost to it.
 */
#include "streams/order.h"

#include "base/status.h"
#include "streams/capture.h"
#include "streams/stream.h"

enum { EVENTS_KNOWN = 2048 }; /* a power of two */

/*
 * The latest record of an event; one a place, the last one to come.
 *
 * While the driver is recording, the event stands for the old record or the
 * new one: nothing is known of it. Of two records at once the driver's order
 * is not known either, so then neither is believed.
 */
struct record {
	CUevent event;         /* NULL: nothing is known here */
	struct stream *stream; /* a reference; NULL: being recorded */
	uint64_t tick;         /* of the last record to begin here */
	uint64_t capture;      /* that its stream was in before it; 0: none */
	unsigned calls;        /* records under way, of whatever event */
};

static struct lock lock = LOCK_INITIALIZER(LOCK_RANK_ORDER);
static struct record records[EVENTS_KNOWN] GUARDED_BY(lock);
_Atomic(uint64_t) order_last;
static _Atomic(uint64_t) ids;

void
order_init(struct order *order)
{
	*order = (struct order){ .id = 1 + atomic_fetch_add(&ids, 1) };
}

/* ---- Facts ------------------------------------------------------------- */

static struct order_fact *
find_fact(struct order_facts *facts, uint64_t id) HOLDS(lock)
{
	for (unsigned i = 0; i < facts->count; i++)
		if (facts->facts[i].id == id)
			return &facts->facts[i];
	return NULL;
}

/* Where a fact about a stream is to be: its place, a new one, or that of the
 * fact that has been there for longest. */
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

/* A stream is in a capture: what it knew in another one is of no use. */
static void
enter_capture(struct order *order, uint64_t capture) HOLDS(lock)
{
	if (order->capture == capture)
		return;
	order->capture = capture;
	order->captured.count = 0;
	order->since = 0;
}

/* A stream's order in a capture, or in none; NULL: no order is known. */
static struct order_facts *
facts_in(const struct order *order, uint64_t capture) HOLDS(lock)
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
	struct order_facts *facts = facts_in(later, capture);
	const struct order_facts *known = facts_in(earlier, capture);
	for (unsigned i = 0; known != NULL && i < known->count; i++) {
		struct order_fact fact = known->facts[i];
		if (fact.learned > tick || fact.id == later->id)
			continue;
		fact.learned = now;
		add_fact(facts, fact);
	}
	/* Last, so that none of them takes its place: who has waited for it
	 * must not find that it has not. */
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
order_until(
    const struct stream *later, const struct stream *earlier, uint64_t capture)
{
	uint64_t until = 0;

	if (later == earlier)
		return UINT64_MAX;
	lock_enter(&lock);
	struct order_facts *facts = facts_in(&later->order, capture);
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
	bool told = capture_look(stream, &where.capture, &front);

	/* The tick is taken after the look: it must not be before anything that
	 * was seen. */
	lock_enter(&lock);
	where.tick = order_tick();
	if (told && where.capture != 0) {
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

	return &records[(hash >> 32) % EVENTS_KNOWN];
}

static void
put(struct stream *stream)
{
	if (stream != NULL)
		stream_put(stream);
}

/* The capture that a stream is in. It may leave it, or enter one, before the
 * driver's call that is about to be made: then the wait that is to tell of the
 * record fails, or the two are not in one. */
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
	put(old);
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
	put(stream);
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
	put(old);
}

/* The tick of the record an event stands for; 0: it is not known. */
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
	bool told = capture_ask(later, &capture) == WEIR_OK;
	status_unmute();
	lock_enter(&lock);
	const struct record *record = record_of(event);
	/* An event of a capture is waited for in that capture, and no other one
	 * is, but where the graph waits for it at each replay. */
	if (told && record->event == event && record->tick == tick &&
	    record->capture == capture) {
		learn(&later->order, &record->stream->order, tick, capture);
		atomic_store(&later->order.is_seen, true);
		atomic_store(&record->stream->order.is_seen, true);
	}
	lock_leave(&lock);
	stream_protect(later);
	stream_put(later);
}
