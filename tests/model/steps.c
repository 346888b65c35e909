/*
 * The steps of a random program.
 *
 * Each chooses what it does by model_below(), says it, does it, and brings the
 * model to what the outcome makes of it. The order a caller owes is kept here:
 *
 *	work on a block comes after the work that wrote it, and a write after
 *	the work that read it (model_order())
 *	allocating for a stream counts as work of that stream
 *	a stream that is not the block's own is named by weir_record_stream()
 *	before the free
 *	weir_free_async() comes after all work on the block, weir_free() after
 *	none of it
 */
#include <stdio.h>
#include <string.h>

#include "base/meta.h"
#include "driver/driver.h"
#include "tests/model/model.h"
#include "tests/support/device.h"
#include "tests/support/sim.h"

/* ---- Choosing ---------------------------------------------------------- */

static uint32_t
bit(unsigned slot)
{
	return slot < SLOTS ? (uint32_t)1 << slot : 0;
}

static weir_stream
stream_of(const struct model *m, unsigned slot)
{
	return slot == SLOT_ANY ? WEIR_STREAM_ANY : m->slots[slot].stream;
}

static unsigned
any_slot(struct model *m)
{
	unsigned slot = (unsigned)model_below(m, m->mix->slots);

	return m->slots[slot].kind == SLOT_EMPTY ? SLOT_LEGACY : slot;
}

static struct model_block *
any_block(struct model *m)
{
	if (m->n_blocks == 0)
		return NULL;
	return &m->blocks[model_below(m, m->n_blocks)];
}

/* From 1 byte to 1 MiB, from there to 40, or above: small ones are many. */
static size_t
any_size(struct model *m)
{
	unsigned kind = (unsigned)model_below(m, 100);
	size_t power;

	if (kind < m->mix->large)
		return (size_t)40 * MIB + model_below(m, (size_t)200 * MIB);
	if (kind >= m->mix->large + m->mix->small)
		return MIB + model_below(m, (size_t)39 * MIB) / 512 * 512 +
		    model_below(m, 2);
	power = (size_t)1 << model_below(m, 20);
	return power + model_below(m, power) + model_below(m, 2);
}

/* ---- Blocks of the model ----------------------------------------------- */

static bool
holds(const struct model_block *b, const void *address)
{
	const char *at = address;

	return at >= b->at && at < b->at + b->bytes;
}

static bool
is_live(const struct model *m, const void *address)
{
	for (size_t i = 0; i < m->n_blocks; i++) {
		if (holds(&m->blocks[i], address))
			return true;
	}
	return false;
}

void
model_expect_apart(
    struct model *m, const struct model_block *b, const struct model *other)
{
	for (size_t i = 0; i < other->n_blocks; i++) {
		const struct model_block *o = &other->blocks[i];

		model_expect(m,
		    b->at + b->bytes <= o->at || o->at + o->bytes <= b->at,
		    "%p, %zu bytes, overlaps the live %p, %zu bytes",
		    (void *)b->at, b->bytes, (void *)o->at, o->bytes);
	}
}

/* weir_block_info() says of a block what the model knows. */
static struct weir_block_info
expect_info(struct model *m, const struct model_block *b, const void *address)
{
	struct weir_block_info info = { .struct_size = sizeof(info) };
	weir_stream stream = b->stream == NULL ? WEIR_STREAM_LEGACY : b->stream;
	enum weir_status status = weir_block_info(address, &info);

	model_expect(m, status == WEIR_OK, "weir_block_info(%p): %s", address,
	    weir_last_error());
	model_expect(m, info.address == b->at, "address is %p, not %p",
	    info.address, (void *)b->at);
	model_expect(m, b->bytes == 0 || info.size == b->bytes,
	    "size is %zu, not %zu", info.size, b->bytes);
	model_expect(m, info.requested_bytes == b->size,
	    "requested_bytes is %zu, not %zu", info.requested_bytes, b->size);
	model_expect(m, info.stream == stream, "stream is %p, not %p",
	    (void *)info.stream, (void *)stream);
	model_expect(m, info.device == 0, "device is %d", info.device);
	model_expect(m,
	    (char *)info.segment <= b->at &&
		b->at + info.size <= (char *)info.segment + info.segment_size,
	    "the segment at %p, %zu bytes, does not hold %p, %zu bytes",
	    info.segment, info.segment_size, (void *)b->at, info.size);
	return info;
}

static void
forget_block(struct model *m, size_t i)
{
	m->stale[m->frees % MODEL_STALE] = m->blocks[i].at;
	m->frees++;
	m->blocks[i] = m->blocks[--m->n_blocks];
}

static size_t
index_of(const struct model *m, const struct model_block *b)
{
	return (size_t)(b - m->blocks);
}

/* ---- Allocating -------------------------------------------------------- */

/* What a request needs of the driver at most. */
static size_t
need_of(size_t size, bool expandable)
{
	size_t step = (size_t)2 * MIB;
	size_t need = (size + step - 1) / step * step;

	return expandable || need >= (size_t)20 * MIB ? need : (size_t)20 * MIB;
}

/* A request failed for want of memory: was there really none? */
static void
expect_shortage(struct model *m, size_t size)
{
	struct weir_stats s = { .struct_size = sizeof(s) };
	size_t available = 0;
	size_t total = 0;
	size_t room;
	size_t freed;

	model_ok(m, weir_stats(0, &s), "weir_stats");
	if (size <= m->limit && size <= m->total)
		model_expect(m, s.pending_bytes == 0,
		    "%zu bytes failed with %llu bytes pending", size,
		    (unsigned long long)s.pending_bytes);
	if (!m->exact_classes || !model_chance(m, 20))
		return;
	model_ok(m, weir_trim(0, 0, &freed), "weir_trim");
	model_ok(m, weir_stats(0, &s), "weir_stats");
	room = m->limit > s.reserved_bytes.all.current ?
	    m->limit - s.reserved_bytes.all.current :
	    0;
	model_driver_ok(
	    m, driver_peek()->cuMemGetInfo(&available, &total), "cuMemGetInfo");
	room = available < room ? available : room;
	model_expect(m, room < need_of(size, false),
	    "%zu bytes failed where %zu could be had", size, room);
}

static void
allocate_failed(struct model *m, size_t size)
{
	struct weir_stats s = { .struct_size = sizeof(s) };
	enum weir_status status = weir_last_status();

	model_expect(m, weir_last_error()[0] != '\0', "no text");
	if (m->armed > 0) {
		/* Told by a fault or by the ladder: both may be WEIR_ENOMEM. */
		model_expect(m, weir_stats(0, &s) == WEIR_OK, "weir_stats: %s",
		    weir_last_error());
		model_expect(m, s.num_ooms - m->ooms <= 1, "two failures");
		m->ooms = s.num_ooms;
		return;
	}
	model_expect(m, status == WEIR_ENOMEM, "weir_malloc: %s (%s)",
	    weir_status_name(status), weir_last_error());
	m->ooms++;
	if (m->alone)
		expect_shortage(m, size);
}

static void
allocated(struct model *m, struct model_block *b)
{
	size_t granules = (b->size + WEIR_GRANULE - 1) / WEIR_GRANULE;
	struct weir_block_info info;

	model_expect(m, (uintptr_t)b->at % WEIR_GRANULE == 0,
	    "%p is not aligned", (void *)b->at);
	info = expect_info(m, b, b->at);
	b->bytes = info.size;
	model_expect(m, b->bytes >= b->size && b->bytes % WEIR_GRANULE == 0,
	    "a block of %zu bytes for %zu", b->bytes, b->size);
	model_expect(m,
	    !info.expandable || !m->exact_classes ||
		b->bytes == granules * WEIR_GRANULE,
	    "a block of %zu bytes for %zu", b->bytes, b->size);
	model_expect_apart(m, b, m);
	m->mallocs++;
	m->blocks[m->n_blocks++] = *b;
}

void
step_allocate(struct model *m)
{
	bool any = model_chance(m, m->mix->any);
	unsigned slot = any ? SLOT_ANY : any_slot(m);
	struct model_block b = {
		.size = any_size(m),
		.owner = slot,
		.stream = stream_of(m, slot),
		.writer = any ? SLOT_NONE : slot,
	};

	if (m->n_blocks == MODEL_LIVE_MAX) {
		step_release(m);
		return;
	}
	model_say(m, "allocate %zu bytes for stream %u", b.size, slot);
	b.at = model_chance(m, 50) ? weir_malloc(b.size, b.stream) :
				     weir_malloc_on(0, b.size, b.stream);
	if (b.at == NULL)
		allocate_failed(m, b.size);
	else
		allocated(m, &b);
}

/* ---- Freeing ----------------------------------------------------------- */

void
model_release(struct model *m, size_t i)
{
	enum weir_status status = weir_free(m->blocks[i].at);

	/* Whatever is short or broken, memory can be freed. */
	model_expect(m, status == WEIR_OK, "weir_free(%p): %s",
	    (void *)m->blocks[i].at, weir_last_error());
	forget_block(m, i);
}

void
step_release(struct model *m)
{
	struct model_block *b = any_block(m);

	if (b == NULL)
		return;
	model_say(m, "free %p, %zu bytes of stream %u, used on %#x",
	    (void *)b->at, b->size, b->owner, b->uses);
	model_release(m, index_of(m, b));
}

void
step_hand_over(struct model *m)
{
	struct model_block *b = any_block(m);
	bool any = model_chance(m, m->mix->any);
	unsigned slot = any ? SLOT_ANY : any_slot(m);

	if (b == NULL)
		return;
	model_say(m, "free %p, %zu bytes of stream %u, on stream %u",
	    (void *)b->at, b->size, b->owner, slot);
	/* No stream has an order of its own; weir waits for all of them. */
	if (!any && !model_order(m, b, slot, true))
		return;
	if (model_ok(m, weir_free_async(b->at, stream_of(m, slot)),
		"weir_free_async"))
		forget_block(m, index_of(m, b));
}

void
step_drain(struct model *m)
{
	size_t keep = model_below(m, m->mix->live / 4 + 1);

	model_say(m, "free all but %zu of %zu blocks", keep, m->n_blocks);
	while (m->n_blocks > keep)
		model_release(m, model_below(m, m->n_blocks));
}

/* ---- Work on blocks ---------------------------------------------------- */

static bool
wait_for(struct model *m, unsigned slot, unsigned other)
{
	if (other >= SLOTS || other == slot)
		return true;
	return model_ok(m,
	    weir_stream_wait_stream(stream_of(m, slot), stream_of(m, other)),
	    "weir_stream_wait_stream");
}

bool
model_order(
    struct model *m, const struct model_block *b, unsigned slot, bool write)
{
	if (!wait_for(m, slot, b->writer))
		return false;
	for (unsigned i = 0; write && i < SLOTS; i++) {
		if ((b->readers & bit(i)) != 0 && !wait_for(m, slot, i))
			return false;
	}
	return true;
}

static bool
must_be_named(const struct model_block *b, unsigned slot)
{
	return b->owner != slot && b->owner != SLOT_ANY &&
	    (b->uses & bit(slot)) == 0;
}

/* Any address within a block names it. */
static bool
name_use(struct model *m, struct model_block *b, unsigned slot)
{
	const char *address = b->at + model_below(m, b->size);

	if (!model_ok(m, weir_record_stream(address, stream_of(m, slot)),
		"weir_record_stream"))
		return false;
	b->uses |= bit(slot);
	return true;
}

/* The use is named before the work or after it, but in any case: what failed
 * for a fault is done again without it. */
static bool
name_before(struct model *m, struct model_block *b, unsigned slot, bool *later)
{
	*later = must_be_named(b, slot) && model_chance(m, 30);
	if (*later || !must_be_named(b, slot))
		return true;
	return name_use(m, b, slot);
}

static void
name_after(struct model *m, struct model_block *b, unsigned slot)
{
	if (name_use(m, b, slot))
		return;
	model_calm(m);
	name_use(m, b, slot);
}

/*
 * Blocks are filled in part when they are large: the first and the last bytes,
 * and some in between that depend on what they are filled with.
 */
enum { PIECES = 3, PIECE_BYTES = 16 << 10 };

struct piece {
	size_t at;
	size_t words;
};

static struct piece
piece_of(const struct model_block *b, uint32_t tag, unsigned i)
{
	size_t whole = b->size / 4;
	size_t words = PIECE_BYTES / 4;

	if (whole <= PIECES * words)
		return (struct piece){ 0, i == 0 ? whole : 0 };
	if (i == 0)
		return (struct piece){ 0, words };
	if (i == 1)
		return (struct piece){ (whole - words) * 4, words };
	return (struct piece){ tag % (whole - words) * 4, words };
}

static bool
fill_pieces(struct model *m, const struct model_block *b, uint32_t tag,
    weir_stream stream)
{
	for (unsigned i = 0; i < PIECES; i++) {
		struct piece piece = piece_of(b, tag, i);
		CUdeviceptr at = (CUdeviceptr)(uintptr_t)b->at + piece.at;

		if (piece.words > 0 &&
		    !model_driver_ok(m,
			driver_peek()->cuMemsetD32Async(
			    at, tag, piece.words, stream),
			"cuMemsetD32Async"))
			return false;
	}
	return true;
}

void
step_write(struct model *m)
{
	struct model_block *b = any_block(m);
	unsigned slot = any_slot(m);
	uint32_t tag = (uint32_t)model_below(m, UINT32_MAX) + 1;
	bool later;

	if (b == NULL || b->size < 4)
		return;
	if (b->owner < SLOTS && model_chance(m, 40))
		slot = b->owner;
	model_say(m, "write %p, %zu bytes of stream %u, on stream %u",
	    (void *)b->at, b->size, b->owner, slot);
	if (!model_order(m, b, slot, true) || !name_before(m, b, slot, &later))
		return;
	b->writer = slot;
	b->readers = 0;
	b->tag = 0;
	if (fill_pieces(m, b, tag, stream_of(m, slot)))
		b->tag = tag;
	if (later)
		name_after(m, b, slot);
}

void
step_read(struct model *m)
{
	struct model_block *b = any_block(m);
	unsigned slot = any_slot(m);
	struct piece piece;
	uint32_t *to;
	CUdeviceptr from;
	bool later;

	if (b == NULL || b->tag == 0)
		return;
	model_say(m, "read %p, %zu bytes of stream %u, on stream %u",
	    (void *)b->at, b->size, b->owner, slot);
	if (m->n_probes == MODEL_PROBES)
		model_verify(m);
	if (!model_order(m, b, slot, false) || !name_before(m, b, slot, &later))
		return;
	piece = piece_of(b, b->tag, (unsigned)model_below(m, PIECES));
	if (piece.words == 0)
		piece = piece_of(b, b->tag, 0);
	from = (CUdeviceptr)(uintptr_t)b->at + piece.at +
	    model_below(m, piece.words) * 4;
	to = &m->read[m->n_probes];
	*to = ~b->tag;
	m->expected[m->n_probes] = b->tag;
	if (model_driver_ok(m,
		driver_peek()->cuMemcpyDtoHAsync(
		    to, from, 4, stream_of(m, slot)),
		"cuMemcpyDtoHAsync"))
		m->n_probes++;
	b->readers |= bit(slot);
	if (later)
		name_after(m, b, slot);
}

void
step_name_use(struct model *m)
{
	struct model_block *b = any_block(m);
	unsigned slot = any_slot(m);

	if (b == NULL)
		return;
	model_say(m, "record %p, %zu bytes of stream %u, on stream %u",
	    (void *)b->at, b->size, b->owner, slot);
	name_use(m, b, slot);
}

/* ---- Time -------------------------------------------------------------- */

void
step_wait(struct model *m)
{
	unsigned slot = any_slot(m);
	unsigned other = any_slot(m);

	model_say(m, "stream %u waits for stream %u", slot, other);
	wait_for(m, slot, other);
}

void
step_busy(struct model *m)
{
	unsigned slot = any_slot(m);
	unsigned milliseconds = 1;

	/* The device's own kernel is no place for a fault of ours. */
	if (m->armed > 0)
		return;
	if (m->simulated)
		milliseconds += (unsigned)model_below(m, 20);
	model_say(m, "stream %u is busy for %u ms", slot, milliseconds);
	busy(stream_of(m, slot), milliseconds);
}

/* All work is done: nothing is left that other work must come after. */
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
	unsigned slot = any_slot(m);
	enum weir_status status;

	if (model_chance(m, 20)) {
		model_say(m, "wait for the device");
		model_verify(m);
		forget_order(m);
		return;
	}
	if (model_chance(m, 50)) {
		model_say(m, "wait for stream %u", slot);
		model_ok(m, weir_stream_synchronize(stream_of(m, slot)),
		    "weir_stream_synchronize");
		return;
	}
	model_say(m, "is stream %u done?", slot);
	status = weir_stream_query(stream_of(m, slot));
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

/* What comes after work of this stream comes after the legacy one instead. */
static bool
pass_order_on(struct model *m, unsigned slot)
{
	bool needed = false;

	for (size_t i = 0; i < m->n_blocks; i++) {
		const struct model_block *b = &m->blocks[i];

		if (b->writer == slot || (b->readers & bit(slot)) != 0)
			needed = true;
	}
	return !needed || wait_for(m, SLOT_LEGACY, slot);
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
		if ((b->readers & bit(slot)) != 0)
			b->readers |= bit(SLOT_LEGACY);
		b->readers &= ~bit(slot);
		b->uses &= ~bit(slot);
	}
	m->slots[slot].kind = SLOT_EMPTY;
}

bool
model_end_stream(struct model *m, unsigned slot)
{
	weir_stream stream = stream_of(m, slot);
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
	    m->n_blocks > 0 || keep > 0 ||
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

/* ---- Misuse and questions ---------------------------------------------- */

/* What must be refused, and how. WEIR_OK: there is nothing to try now. */
struct refusal {
	const char *what;
	enum weir_status got;
	enum weir_status should;
};

static struct refusal
misuse_block(struct model *m)
{
	struct model_block *b = any_block(m);
	char *inside;

	if (b == NULL || b->bytes <= WEIR_GRANULE)
		return (struct refusal){ "no block", WEIR_OK, WEIR_OK };
	inside = b->at + 1 + model_below(m, b->bytes - 1);
	if (model_chance(m, 50))
		return (struct refusal){ "free inside a block",
			weir_free(inside), WEIR_EINVAL };
	return (struct refusal){ "free inside a block on a stream",
		weir_free_async(inside, stream_of(m, any_slot(m))),
		WEIR_EINVAL };
}

/* Of addresses that were freed before and are not live again. */
static struct refusal
misuse_stale(struct model *m)
{
	struct weir_block_info info = { .struct_size = sizeof(info) };
	weir_stream stream = stream_of(m, any_slot(m));
	void *stale = m->stale[model_below(m, MODEL_STALE)];

	if (stale == NULL || is_live(m, stale) || !m->alone)
		return (struct refusal){ "no address", WEIR_OK, WEIR_OK };
	switch (model_below(m, 4)) {
	case 0:
		return (struct refusal){ "free twice", weir_free(stale),
			WEIR_EINVAL };
	case 1:
		return (struct refusal){ "free twice on a stream",
			weir_free_async(stale, stream), WEIR_EINVAL };
	case 2:
		return (struct refusal){ "record what is free",
			weir_record_stream(stale, stream), WEIR_EINVAL };
	default:
		return (struct refusal){ "ask about what is free",
			weir_block_info(stale, &info), WEIR_EINVAL };
	}
}

static enum weir_status
malloc_status(int device, size_t size, weir_stream stream)
{
	return weir_malloc_on(device, size, stream) == NULL ?
	    weir_last_status() :
	    WEIR_OK;
}

static struct refusal
misuse_arguments(struct model *m)
{
	weir_stream stream = stream_of(m, any_slot(m));
	char foreign;

	switch (model_below(m, 8)) {
	case 0:
		return (struct refusal){ "0 bytes", malloc_status(0, 0, stream),
			WEIR_EINVAL };
	case 1:
		return (struct refusal){ "too many bytes",
			malloc_status(0, WEIR_SIZE_MAX + 1, stream),
			WEIR_EINVAL };
	case 2:
		return (struct refusal){ "no such device",
			malloc_status(99, 512, NULL), WEIR_ENODEVICE };
	case 3:
		return (struct refusal){ "free of another's memory",
			weir_free(&foreign), WEIR_EINVAL };
	case 4:
		return (struct refusal){ "an unknown option",
			weir_options_set("growth_mb:1,no_such_option:1"),
			WEIR_EINVAL };
	case 5:
		return (struct refusal){ "an option's bad value",
			weir_options_set("growth_mb:1,max_split_size_mb:1"),
			WEIR_EINVAL };
	case 6:
		return (struct refusal){ "destroy a pool stream",
			weir_stream_destroy(stream_of(m, SLOT_POOL)),
			WEIR_EINVAL };
	default:
		return (struct refusal){ "destroy a default stream",
			weir_stream_destroy(NULL), WEIR_EINVAL };
	}
}

void
step_misuse(struct model *m)
{
	struct weir_stats before = { .struct_size = sizeof(before) };
	struct weir_stats after = { .struct_size = sizeof(after) };
	struct refusal refusal;

	weir_stats(0, &before);
	switch (model_below(m, 3)) {
	case 0:
		refusal = misuse_block(m);
		break;
	case 1:
		refusal = misuse_stale(m);
		break;
	default:
		refusal = misuse_arguments(m);
		break;
	}
	model_say(m, "misuse: %s", refusal.what);
	model_expect(m,
	    refusal.got == refusal.should ||
		(m->armed > 0 && refusal.got != WEIR_OK),
	    "gave %s (%s)", weir_status_name(refusal.got), weir_last_error());
	if (!m->alone)
		return;
	weir_stats(0, &after);
	after.metadata_bytes = before.metadata_bytes;
	model_expect(m, memcmp(&before, &after, sizeof(before)) == 0,
	    "it changed the statistics");
}

/* The part of one stream: what the model has of it. */
static void
ask_stream(struct model *m, unsigned slot)
{
	struct weir_stats s = { .struct_size = sizeof(s) };
	uint64_t blocks = 0;
	uint64_t bytes = 0;

	for (size_t i = 0; i < m->n_blocks; i++) {
		if (m->blocks[i].owner == slot) {
			blocks++;
			bytes += m->blocks[i].bytes;
		}
	}
	if (!model_ok(m, weir_stats_stream(0, stream_of(m, slot), &s),
		"weir_stats_stream") ||
	    !m->alone)
		return;
	model_expect(m,
	    s.allocation.all.current == blocks &&
		s.allocated_bytes.all.current == bytes,
	    "stream %u has %llu blocks, %llu bytes; should be %llu, %llu", slot,
	    (unsigned long long)s.allocation.all.current,
	    (unsigned long long)s.allocated_bytes.all.current,
	    (unsigned long long)blocks, (unsigned long long)bytes);
	model_expect(m,
	    s.reserved_bytes.all.current >= s.active_bytes.all.current,
	    "stream %u has %llu bytes active of %llu", slot,
	    (unsigned long long)s.active_bytes.all.current,
	    (unsigned long long)s.reserved_bytes.all.current);
	model_expect(m, s.segment.all.current <= 100000,
	    "stream %u has %llu segments", slot,
	    (unsigned long long)s.segment.all.current);
}

static void
ask_memory(struct model *m, unsigned slot)
{
	struct weir_stats s = { .struct_size = sizeof(s) };
	size_t available = 0;
	size_t total = 0;
	size_t largest = 0;

	if (model_ok(
		m, weir_memory_info(0, &available, &total), "weir_memory_info"))
		model_expect(m,
		    available <= total && total <= m->total &&
			total <= m->limit,
		    "%zu bytes free of %zu", available, total);
	weir_stats(0, &s);
	if (model_ok(m, weir_largest_free(0, stream_of(m, slot), &largest),
		"weir_largest_free") &&
	    m->alone)
		model_expect(m,
		    largest <= s.reserved_bytes.all.current -
			    s.active_bytes.all.current,
		    "the largest free block has %zu bytes", largest);
}

void
step_ask(struct model *m)
{
	struct model_block *b = any_block(m);
	unsigned slot = any_slot(m);

	model_say(m, "ask about stream %u", slot);
	if (b != NULL)
		expect_info(m, b, b->at + model_below(m, b->bytes));
	if (model_chance(m, 50))
		ask_stream(m, slot);
	else
		ask_memory(m, slot);
}

/* ---- Faults ------------------------------------------------------------ */

void
step_fault(struct model *m)
{
	static const CUresult codes[] = { CUDA_ERROR_OUT_OF_MEMORY,
		CUDA_ERROR_UNKNOWN, CUDA_ERROR_INVALID_VALUE,
		CUDA_ERROR_NOT_SUPPORTED, CUDA_ERROR_INVALID_HANDLE };
	unsigned n = 1 + (unsigned)model_below(m, 30);
	CUresult code = codes[model_below(m, sizeof(codes) / sizeof(codes[0]))];

	if (m->armed > 0 || !m->simulated)
		return;
	model_say(m, "driver call %u from now fails (%d)", n, (int)code);
	m->faults = sim()->faults();
	sim()->fail_any(n, code);
	m->armed = 2 + (unsigned)model_below(m, 20);
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
	m->faults = sim() != NULL ? sim()->faults() : 0;
	meta_fail(n, count);
	m->armed = 2 + (unsigned)model_below(m, 20);
}
