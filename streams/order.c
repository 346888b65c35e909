/*
 * A fact holds for work queued after it was learned. An event recorded at tick
 * t therefore carries those facts of its stream that were learned before t;
 * no copy is kept for it, only t. A fact that has been replaced by a newer one
 * since is lost to it.
 */
#include "streams/order.h"

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
	unsigned calls;        /* records under way, of whatever event */
};

static struct lock lock = LOCK_INITIALIZER(LOCK_RANK_ORDER);
static struct record records[EVENTS_KNOWN] GUARDED_BY(lock);
_Atomic(uint64_t) order_last;
static _Atomic(uint64_t) ids;

void
order_init(struct order *order)
{
	order->id = 1 + atomic_fetch_add(&ids, 1);
	order->count = 0;
}

uint64_t
order_tick(void)
{
	return 1 + atomic_fetch_add(&order_last, 1);
}

/* ---- Facts ------------------------------------------------------------- */

static const struct order_fact *
find(const struct order *order, uint64_t id) HOLDS(lock)
{
	for (unsigned i = 0; i < order->count; i++)
		if (order->facts[i].id == id)
			return &order->facts[i];
	return NULL;
}

/* Where a fact about a stream is to be: its place, a new one, or that of the
 * fact that has been there for longest. */
static struct order_fact *
place(struct order *order, uint64_t id) HOLDS(lock)
{
	struct order_fact *fact = (struct order_fact *)find(order, id);
	if (fact != NULL)
		return fact;
	if (order->count < ORDER_KNOWN) {
		fact = &order->facts[order->count++];
	} else {
		fact = &order->facts[0];
		for (unsigned i = 1; i < ORDER_KNOWN; i++)
			if (order->facts[i].learned < fact->learned)
				fact = &order->facts[i];
	}
	*fact = (struct order_fact){ .id = id };
	return fact;
}

static void
add(struct order *order, struct order_fact new) HOLDS(lock)
{
	if (new.id == order->id)
		return;
	struct order_fact *fact = place(order, new.id);
	if (new.until > fact->until)
		*fact = new;
}

static void
learn(struct order *later, const struct order *earlier, uint64_t tick)
    HOLDS(lock)
{
	uint64_t now = order_tick();

	if (later->id == earlier->id)
		return;
	for (unsigned i = 0; i < earlier->count; i++) {
		struct order_fact fact = earlier->facts[i];
		if (fact.learned > tick)
			continue;
		fact.learned = now;
		add(later, fact);
	}
	/* Last, so that none of them takes its place: who has waited for it
	 * must not find that it has not. */
	add(later, (struct order_fact){ earlier->id, tick, now });
}

void
order_learn(struct stream *later, const struct stream *earlier, uint64_t tick)
{
	lock_enter(&lock);
	learn(&later->order, &earlier->order, tick);
	lock_leave(&lock);
}

uint64_t
order_until(const struct stream *later, const struct stream *earlier)
{
	uint64_t until = 0;

	if (later == earlier)
		return UINT64_MAX;
	lock_enter(&lock);
	const struct order_fact *fact = find(&later->order, earlier->order.id);
	if (fact != NULL)
		until = fact->until;
	lock_leave(&lock);
	return until;
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

uint64_t
order_recording(CUevent event)
{
	if (event == NULL)
		return 0;
	lock_enter(&lock);
	uint64_t tick = order_tick();
	struct record *record = record_of(event);
	struct stream *old = record->stream;
	bool alone = record->calls++ == 0 && !capture_any();
	record->event = alone ? event : NULL;
	record->stream = NULL;
	record->tick = tick;
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
	if (handle != NULL && !capture_any())
		stream = stream_known(handle);
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

	if (event == NULL || capture_any())
		return 0;
	lock_enter(&lock);
	const struct record *record = record_of(event);
	if (record->event == event && record->stream != NULL)
		tick = record->tick;
	lock_leave(&lock);
	return tick;
}

void
order_waited(CUstream handle, CUevent event, uint64_t tick)
{
	if (tick == 0 || capture_any())
		return;
	struct stream *later = stream_known(handle);
	if (later == NULL)
		return;
	lock_enter(&lock);
	const struct record *record = record_of(event);
	if (record->event == event && record->tick == tick)
		learn(&later->order, &record->stream->order, tick);
	lock_leave(&lock);
	stream_put(later);
}
