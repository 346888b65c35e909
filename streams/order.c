/*
 * A fact holds for work queued after it was learned. An event recorded at tick
 * t therefore carries those facts of its stream that were learned before t;
 * no copy is kept for it, only t. A fact that has been replaced by a newer one
 * since is lost to it.
 */
#include "streams/order.h"

#include <stdatomic.h>

#include "streams/capture.h"
#include "streams/stream.h"

enum { EVENTS_KNOWN = 2048 }; /* a power of two */

/* The latest record of an event; one a place, the last one to come. */
struct record {
	CUevent event;         /* NULL: nothing is known here */
	struct stream *stream; /* a reference */
	uint64_t tick;
};

static struct lock lock = LOCK_INITIALIZER(LOCK_RANK_ORDER);
static struct record records[EVENTS_KNOWN] GUARDED_BY(lock);
static _Atomic(uint64_t) last_tick;
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
	return 1 + atomic_fetch_add(&last_tick, 1);
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
	add(later, (struct order_fact){ earlier->id, tick, now });
	for (unsigned i = 0; i < earlier->count; i++) {
		struct order_fact fact = earlier->facts[i];
		if (fact.learned > tick)
			continue;
		fact.learned = now;
		add(later, fact);
	}
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

/* Put a record in the place of an event; returns the stream that it knew. */
static struct stream *
replace(CUevent event, struct record new)
{
	lock_enter(&lock);
	struct record *record = record_of(event);
	struct stream *old = NULL;
	if (new.event != NULL || record->event == event) {
		old = record->stream;
		*record = new;
	}
	lock_leave(&lock);
	return old;
}

void
order_recorded(CUevent event, CUstream handle)
{
	struct record new = { 0 };

	if (event == NULL)
		return;
	if (!capture_any())
		new.stream = stream_known(handle);
	if (new.stream != NULL) {
		new.event = event;
		new.tick = order_tick();
	}
	struct stream *old = replace(event, new);
	if (old != NULL)
		stream_put(old);
}

void
order_gone(CUevent event)
{
	struct stream *old = replace(event, (struct record){ 0 });

	if (old != NULL)
		stream_put(old);
}

void
order_waited(CUstream handle, CUevent event)
{
	if (event == NULL || capture_any())
		return;
	struct stream *later = stream_known(handle);
	if (later == NULL)
		return;
	lock_enter(&lock);
	struct record *record = record_of(event);
	if (record->event == event)
		learn(&later->order, &record->stream->order, record->tick);
	lock_leave(&lock);
	stream_put(later);
}
