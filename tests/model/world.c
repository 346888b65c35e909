/*
 * The steps that change the surroundings of the blocks: time, streams that are
 * created and destroyed, memory given back, limits, options, and faults.
 */
#include <string.h>

#include "base/meta.h"
#include "base/os.h"
#include "driver/driver.h"
#include "tests/model/model.h"
#include "tests/support/device.h"
#include "tests/support/sim.h"

/* ---- Time -------------------------------------------------------------- */

void
step_wait(struct model *m)
{
	unsigned slot = model_any_slot(m);
	unsigned other = model_any_slot(m);

	model_say(m, "stream %u waits for stream %u", slot, other);
	model_wait(m, slot, other);
}

/* An event may have been recorded long before a stream waits for it: then it
 * orders less than the time of the wait suggests. */
void
step_event(struct model *m)
{
	unsigned slot = model_any_slot(m);
	unsigned i = (unsigned)model_below(m, MODEL_EVENTS);

	if (m->events[i] == NULL) {
		model_say(m, "make event %u", i);
		model_ok(m, weir_event_create(0, &m->events[i]),
		    "weir_event_create");
		return;
	}
	if (model_chance(m, 40)) {
		model_say(m, "record event %u on stream %u", i, slot);
		model_ok(m,
		    weir_event_record(m->events[i], model_stream(m, slot)),
		    "weir_event_record");
		return;
	}
	model_say(m, "stream %u waits for event %u", slot, i);
	model_ok(m, weir_stream_wait_event(model_stream(m, slot), m->events[i]),
	    "weir_stream_wait_event");
}

void
step_busy(struct model *m)
{
	unsigned slot = model_any_slot(m);
	unsigned milliseconds = 1;

	/* A fault must not hit the launch of the kernel that keeps a stream
	 * busy. */
	if (m->armed > 0)
		return;
	if (m->simulated)
		milliseconds += (unsigned)model_below(m, 20);
	model_say(m, "stream %u is busy for %u ms", slot, milliseconds);
	busy(model_stream(m, slot), milliseconds);
}

/* All work is done: no other work has to come after any of it. */
static void
forget_order(struct model *m)
{
	for (size_t i = 0; i < m->n_blocks; i++) {
		m->blocks[i].writer = SLOT_NONE;
		m->blocks[i].readers = 0;
	}
}

void
step_sync(struct model *m)
{
	unsigned slot = model_any_slot(m);
	enum weir_status status;

	if (model_chance(m, 20)) {
		model_say(m, "wait for the device");
		model_verify(m);
		forget_order(m);
		return;
	}
	if (model_chance(m, 50)) {
		model_say(m, "wait for stream %u", slot);
		model_ok(m, weir_stream_synchronize(model_stream(m, slot)),
		    "weir_stream_synchronize");
		return;
	}
	model_say(m, "is stream %u done?", slot);
	status = weir_stream_query(model_stream(m, slot));
	if (status != WEIR_ENOTREADY)
		model_ok(m, status, "weir_stream_query");
}

void
step_pass_time(struct model *m)
{
	uint64_t ns = (uint64_t)1 << model_below(m, 24);

	model_say(m, "%llu ns pass", (unsigned long long)ns);
	if (m->simulated)
		sim()->advance_ns(ns);
	/* Memory that is unused for some hundreds of such steps decays. */
	os_time_skip((uint64_t)50 * 1000000 * model_below(m, 8));
}

/* ---- Streams ----------------------------------------------------------- */

static void
make_stream(struct model *m, unsigned i)
{
	struct slot *slot = &m->slots[i];
	unsigned flags =
	    model_chance(m, 50) ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT;

	if (model_chance(m, 60)) {
		model_say(m, "make stream %u", i);
		if (model_ok(m,
			weir_stream_create(
			    0, -(int)model_below(m, 3), &slot->stream),
			"weir_stream_create"))
			slot->kind = SLOT_CREATED;
		return;
	}
	model_say(m, "make stream %u without weir", i);
	if (model_driver_ok(m,
		driver_peek()->cuStreamCreateWithPriority(
		    &slot->stream, flags, 0),
		"cuStreamCreateWithPriority"))
		slot->kind = SLOT_FOREIGN;
}

/* The legacy default stream takes the place of a stream that ends: it waits for
 * that stream if the stream has written or read a block. */
static bool
pass_order_on(struct model *m, unsigned slot)
{
	bool needed = false;

	for (size_t i = 0; i < m->n_blocks; i++) {
		const struct model_block *b = &m->blocks[i];

		if (b->writer == slot || (b->readers & slot_bit(slot)) != 0)
			needed = true;
	}
	return !needed || model_wait(m, SLOT_LEGACY, slot);
}

static void
stream_ended(struct model *m, unsigned slot)
{
	for (size_t i = 0; i < m->n_blocks; i++) {
		struct model_block *b = &m->blocks[i];

		if (b->owner == slot)
			b->owner = SLOT_GONE;
		if (b->writer == slot)
			b->writer = SLOT_LEGACY;
		if ((b->readers & slot_bit(slot)) != 0)
			b->readers |= slot_bit(SLOT_LEGACY);
		b->readers &= ~slot_bit(slot);
		if (((b->uses | b->past) & slot_bit(slot)) != 0)
			b->used_by_gone = true;
		b->uses &= ~slot_bit(slot);
		b->past &= ~slot_bit(slot);
	}
	m->held_back[SLOT_GONE] += m->held_back[slot];
	m->held_back[slot] = 0;
	m->slots[slot].kind = SLOT_EMPTY;
}

bool
model_end_stream(struct model *m, unsigned slot)
{
	weir_stream stream = model_stream(m, slot);
	bool created = m->slots[slot].kind == SLOT_CREATED;

	if (!pass_order_on(m, slot))
		return false;
	if (created &&
	    model_ok(m, weir_stream_destroy(stream), "weir_stream_destroy")) {
		stream_ended(m, slot);
		return true;
	}
	if (created ||
	    !model_ok(m, weir_stream_retire(stream), "weir_stream_retire"))
		return false;
	if (!model_driver_ok(
		m, driver_peek()->cuStreamDestroy(stream), "cuStreamDestroy")) {
		model_calm(m);
		model_driver_ok(m, driver_peek()->cuStreamDestroy(stream),
		    "cuStreamDestroy");
	}
	stream_ended(m, slot);
	return true;
}

void
step_change(struct model *m)
{
	unsigned slot;

	if (m->mix->slots <= SLOT_POOL_END)
		return;
	slot = SLOT_POOL_END +
	    (unsigned)model_below(m, m->mix->slots - SLOT_POOL_END);
	if (m->slots[slot].kind == SLOT_EMPTY) {
		make_stream(m, slot);
		return;
	}
	model_say(m, "end stream %u", slot);
	model_end_stream(m, slot);
}

/*
 * A stream is captured for a while, with no work, so that it can neither be
 * fenced nor made to wait. What it is given meanwhile it uses afterwards.
 */
/* Free a block, mostly while its stream still works on it, and allocate for the
 * stream, which may get the block's memory. */
static void
replace_any(struct model *m)
{
	struct model_block *b = model_any_block(m);

	if (b == NULL)
		return;
	unsigned owner = b->owner;
	bool known = owner < SLOTS && m->slots[owner].kind != SLOT_EMPTY;
	/* No stream has to wait for the captured one, or for a default one. */
	if (known && owner > SLOT_PER_THREAD && owner != m->captured &&
	    (b->writer == owner || b->writer == SLOT_NONE) &&
	    (b->readers & ~slot_bit(owner)) == 0) {
		busy(model_stream(m, owner), 1);
		model_write(m, b, owner);
	}
	model_release(m, (size_t)(b - m->blocks));
	if (known)
		model_allocate(m, owner);
}

void
step_capture(struct model *m)
{
	unsigned slot = model_any_slot(m);
	unsigned n = 1 + (unsigned)model_below(m, 6);
	CUgraph graph = NULL;
	size_t largest;

	if (m->armed > 0 || slot <= SLOT_PER_THREAD || m->crew != NULL)
		return;
	/* weir must meet the stream before its capture begins. */
	model_ok(m, weir_largest_free(0, model_stream(m, slot), &largest),
	    "weir_largest_free");
	m->captured = slot;
	model_driver_ok(m,
	    driver_peek()->cuStreamBeginCapture(
		model_stream(m, slot), CU_STREAM_CAPTURE_MODE_RELAXED),
	    "cuStreamBeginCapture");
	for (unsigned i = 0; i < n; i++) {
		if (model_chance(m, 50))
			model_allocate(m, slot);
		else if (model_chance(m, 30))
			model_allocate(m, model_any_slot(m));
		else if (model_chance(m, 50))
			replace_any(m);
		else
			model_release_any(m);
		model_check(m);
	}
	model_driver_ok(m,
	    driver_peek()->cuStreamEndCapture(model_stream(m, slot), &graph),
	    "cuStreamEndCapture");
	model_driver_ok(
	    m, driver_peek()->cuGraphDestroy(graph), "cuGraphDestroy");
	m->captured = SLOT_NONE;
	model_say(m, "stream %u was captured", slot);
}

/* ---- Pages that stay --------------------------------------------------- */

void
model_unpin(struct model *m, unsigned i)
{
	if (m->pinned[i] != NULL)
		model_ok(m, weir_unpin(m->pinned[i]), "weir_unpin");
	m->pinned[i] = NULL;
}

/* weir_check() finds it if a pinned page is unmapped. */
void
step_pin(struct model *m)
{
	unsigned i = (unsigned)model_below(m, MODEL_PINS);
	const struct model_block *b = model_any_block(m);

	if (m->pinned[i] != NULL) {
		model_say(m, "unpin %p", (void *)m->pinned[i]);
		model_unpin(m, i);
	} else if (b != NULL) {
		model_say(m, "pin %p", (void *)b->at);
		if (model_ok(m, weir_pin(b->at), "weir_pin"))
			m->pinned[i] = b->at;
	}
}

static bool
has_pins(const struct model *m)
{
	for (unsigned i = 0; i < MODEL_PINS; i++)
		if (m->pinned[i] != NULL)
			return true;
	return false;
}

/* ---- Giving back ------------------------------------------------------- */

void
step_trim(struct model *m)
{
	struct weir_stats before = { .struct_size = sizeof(before) };
	struct weir_stats after = { .struct_size = sizeof(after) };
	size_t keep = model_chance(m, 50) ? 0 : model_below(m, 1 << 30);
	int device = model_chance(m, 20) ? WEIR_DEVICE_ALL : 0;
	size_t freed = 0;

	model_say(m, "trim to %zu bytes", keep);
	weir_stats(0, &before);
	if (!model_ok(m, weir_trim(device, keep, &freed), "weir_trim") ||
	    !m->alone)
		return;
	weir_stats(0, &after);
	model_expect(m,
	    before.reserved_bytes.all.current - freed ==
		after.reserved_bytes.all.current,
	    "%zu bytes of %llu freed, %llu left", freed,
	    (unsigned long long)before.reserved_bytes.all.current,
	    (unsigned long long)after.reserved_bytes.all.current);
	if (m->armed > 0)
		return;
	model_expect(m, after.pending_bytes == 0,
	    "%llu bytes pending after a trim",
	    (unsigned long long)after.pending_bytes);
	model_expect(m,
	    m->n_blocks > 0 || keep > 0 || has_pins(m) ||
		after.reserved_bytes.all.current == 0,
	    "%llu bytes held with no block live",
	    (unsigned long long)after.reserved_bytes.all.current);
}

void
step_bound(struct model *m)
{
	size_t limit = SIZE_MAX;
	size_t got = 0;

	if (model_chance(m, 80))
		limit = m->mix->limit / 2 + model_below(m, m->mix->limit + 1);
	model_say(m, "limit %zu bytes", limit);
	if (!model_ok(m, weir_limit_set(0, limit), "weir_limit_set"))
		return;
	m->limit = limit;
	if (model_ok(m, weir_limit_get(0, &got), "weir_limit_get"))
		model_expect(m, got == limit, "the limit is %zu", got);
}

void
step_configure(struct model *m)
{
	const char *conf;
	size_t n = 0;

	while (m->mix->confs != NULL && m->mix->confs[n] != NULL)
		n++;
	if (n == 0)
		return;
	conf = m->mix->confs[model_below(m, n)];
	model_say(m, "set %s", conf);
	if (!model_ok(m, weir_options_set(conf), "weir_options_set"))
		return;
	if (strstr(conf, "roundup_power2_divisions") != NULL)
		m->exact_classes =
		    strstr(conf, "roundup_power2_divisions:0") != NULL;
}

void
step_crowd(struct model *m)
{
	size_t room = model_below(m, (size_t)1 << 30);

	if (!m->simulated)
		return;
	if (model_chance(m, 40)) {
		model_say(m, "the device has all its memory");
		sim()->set_memory(0, m->total);
		return;
	}
	model_say(m, "the device has %zu more bytes", room);
	sim()->set_memory(0, sim()->memory_used(0) + room);
}

/* ---- History ----------------------------------------------------------- */

void
step_snapshot(struct model *m)
{
	if (m->crew != NULL || m->armed > 0)
		return;
	model_say(m, "replay the history");
	model_check_replay(m);
}

/* ---- Faults ------------------------------------------------------------ */

static CUresult
any_code(struct model *m)
{
	static const CUresult codes[] = { CUDA_ERROR_OUT_OF_MEMORY,
		CUDA_ERROR_UNKNOWN, CUDA_ERROR_INVALID_VALUE,
		CUDA_ERROR_NOT_SUPPORTED, CUDA_ERROR_INVALID_HANDLE };

	return codes[model_below(m, sizeof(codes) / sizeof(codes[0]))];
}

static void
arm(struct model *m, unsigned driver_calls)
{
	m->faults = driver_calls > 0 ? sim()->faults() + driver_calls : 0;
	m->armed = 2 + (unsigned)model_below(m, 20);
}

void
step_fault(struct model *m)
{
	unsigned n = 1 + (unsigned)model_below(m, 30);
	CUresult code = any_code(m);

	if (m->armed > 0 || !m->simulated)
		return;
	model_say(m, "driver call %u from now fails (%d)", n, (int)code);
	sim()->fail_any(n, code);
	arm(m, 1);
}

/* Entry points that weir expects to be refused again and again, and not those
 * that undo its own steps. */
void
step_refusal(struct model *m)
{
	static const char *const entries[] = { "cuEventRecord",
		"cuCtxRecordEvent", "cuEventCreate", "cuStreamIsCapturing",
		"cuEventQuery", "cuEventSynchronize", "cuStreamQuery",
		"cuStreamWaitEvent", "cuMemCreate", "cuMemMap",
		"cuMemSetAccess", "cuMemAlloc", "cuMemAddressReserve" };
	/* The first four are the ones that a free needs. */
	unsigned of =
	    model_chance(m, 50) ? 4 : sizeof(entries) / sizeof(entries[0]);
	const char *entry = entries[model_below(m, of)];
	unsigned n = 1 + (unsigned)model_below(m, 5);
	unsigned count = 1 + (unsigned)model_below(m, 8);

	if (m->armed > 0 || !m->simulated)
		return;
	model_say(m, "%s fails %u times from call %u on", entry, count, n);
	sim()->fail(entry, n, count, any_code(m));
	arm(m, count);
}

void
step_starve(struct model *m)
{
	unsigned n = 1 + (unsigned)model_below(m, 6);
	unsigned count = 1 + (unsigned)model_below(m, 3);

	if (m->armed > 0)
		return;
	model_say(
	    m, "host allocations %u to %u from now fail", n, n + count - 1);
	meta_fail(n, count);
	arm(m, 0);
}
