/*
 * The steps of a random program.
 *
 * Each step chooses an operation by model_below(), describes it, runs it, and
 * updates the model by the outcome. The steps keep the order that a caller has
 * to keep:
 *
 *	work on a block comes after the work that wrote it, and a write after
 *	the work that read it (model_order())
 *	allocating for a stream counts as work of that stream
 *	a stream that is not the block's own is named by weir_record_stream()
 *	before the free, or by weir_record_use() after the work
 *	weir_free_async() comes after all work on the block, weir_free() after
 *	none of it
 */
#include <stdlib.h>

#include "allocator/memory/arena.h"
#include "driver/driver.h"
#include "tests/model/model.h"
#include "tests/support/device.h"

/* A piece of physical memory, for mixes with the smallest pieces. */
static const size_t PIECE = (size_t)2 * MIB;

/* ---- Choosing ---------------------------------------------------------- */

weir_stream
model_stream(const struct model *m, unsigned slot)
{
	return slot == SLOT_ANY ? WEIR_STREAM_ANY : m->slots[slot].stream;
}

unsigned
model_any_slot(struct model *m)
{
	unsigned slot = (unsigned)model_below(m, m->mix->slots);

	return m->slots[slot].kind == SLOT_EMPTY ? SLOT_LEGACY : slot;
}

struct model_block *
model_any_block(struct model *m)
{
	if (m->n_blocks == 0)
		return NULL;
	return &m->blocks[model_below(m, m->n_blocks)];
}

/* ---- Blocks of the model ----------------------------------------------- */

static bool
holds(const struct model_block *b, const void *address)
{
	const char *at = address;

	return at >= b->at && at < b->at + b->bytes;
}

bool
model_is_live(const struct model *m, const void *address)
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

/* Check that weir_block_info() agrees with the model. */
struct weir_block_info
model_expect_info(
    struct model *m, const struct model_block *b, const void *address)
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
forget_block(struct model *m, size_t i, bool any)
{
	const struct model_block *b = &m->blocks[i];

	for (unsigned slot = 0; slot < SLOTS; slot++)
		if (((b->uses | b->past) & slot_bit(slot)) != 0)
			m->held_back[slot] += b->bytes;
	if (any || b->used_by_gone)
		m->held_back[SLOT_GONE] += b->bytes;
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

/* From 1 byte to 1 MiB, from there to 40 MiB, or above; small sizes are
 * frequent. */
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

/* The most bytes that a request needs from the driver. */
static size_t
need_of(size_t size, bool expandable)
{
	size_t step = (size_t)2 * MIB;
	size_t need = (size + step - 1) / step * step;

	return expandable || need >= (size_t)20 * MIB ? need : (size_t)20 * MIB;
}

size_t
model_zone(void)
{
	return guard_zone;
}

static int
compare_blocks(const void *a, const void *b)
{
	const struct model_block *const *x = a;
	const struct model_block *const *y = b;

	return ((*x)->at > (*y)->at) - ((*x)->at < (*y)->at);
}

/* The physical pieces that live blocks, and their zones under `guard`, lie on.
 * They cannot be moved. */
static size_t
pieces_in_use(const struct model *m)
{
	const struct model_block *sorted[MODEL_LIVE_MAX] = { NULL };
	uintptr_t end = 0; /* the end of the counted pieces */
	size_t n = 0;

	for (size_t i = 0; i < m->n_blocks; i++)
		sorted[i] = &m->blocks[i];
	qsort(sorted, m->n_blocks, sizeof(sorted[0]), compare_blocks);
	for (size_t i = 0; i < m->n_blocks; i++) {
		uintptr_t at = (uintptr_t)sorted[i]->at;
		uintptr_t first = (at - guard_zone) / PIECE;
		uintptr_t last =
		    (at + sorted[i]->bytes + guard_zone - 1) / PIECE;

		if (first < end)
			first = end;
		if (last + 1 > first) {
			n += last + 1 - first;
			end = last + 1;
		}
	}
	return n;
}

/* Could the request be met by moving memory? */
static void
expect_no_pieces(struct model *m, size_t size)
{
	size_t classes = (size + WEIR_GRANULE - 1) / WEIR_GRANULE;
	size_t need = classes * WEIR_GRANULE + 2 * guard_zone;
	size_t pieces = (need + PIECE - 1) / PIECE;
	size_t used = pieces_in_use(m);

	model_expect(m, (used + pieces) * PIECE > m->limit,
	    "%zu bytes failed with %zu pieces of %zu in use", size, used,
	    m->limit / PIECE);
}

/* The host waits for all work that it can wait for. No event can be recorded on
 * a stream that is captured, nor on the legacy stream and the whole context,
 * which would be ordered after it. */
static void
expect_all_waited_for(struct model *m, size_t size, size_t pending)
{
	size_t held_back = 0;

	if (m->captured != SLOT_NONE)
		held_back = m->held_back[m->captured] +
		    m->held_back[SLOT_LEGACY] + m->held_back[SLOT_GONE];
	model_expect(m, pending <= held_back,
	    "%zu bytes failed with %zu bytes pending, %zu of them behind a "
	    "stream that is captured",
	    size, pending, held_back);
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

	if (m->mix->pieces && m->captured == SLOT_NONE)
		expect_no_pieces(m, size);
	model_ok(m, weir_stats(0, &s), "weir_stats");
	if (size <= m->limit && size <= m->total)
		expect_all_waited_for(m, size, s.pending_bytes);
	if (m->captured != SLOT_NONE || !model_chance(m, 20))
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
		/* A fault or the ladder reported it: both may be
		 * WEIR_ENOMEM. */
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
	info = model_expect_info(m, b, b->at);
	b->bytes = info.size;
	model_expect(m, b->bytes >= b->size && b->bytes % WEIR_GRANULE == 0,
	    "a block of %zu bytes for %zu", b->bytes, b->size);
	model_expect(m,
	    !info.expandable || !m->exact_classes ||
		b->bytes == granules * WEIR_GRANULE,
	    "a block of %zu bytes for %zu", b->bytes, b->size);
	model_expect_apart(m, b, m);
	model_expect_no_graph(m, b);
	m->mallocs++;
	m->blocks[m->n_blocks++] = *b;
}

void
model_allocate(struct model *m, unsigned slot)
{
	struct model_block b = {
		.size = any_size(m),
		.owner = slot,
		.stream = model_stream(m, slot),
		.writer = slot == SLOT_ANY ? SLOT_NONE : slot,
	};

	if (m->n_blocks == MODEL_LIVE_MAX) {
		model_release_any(m);
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

void
step_allocate(struct model *m)
{
	bool any = model_chance(m, m->mix->any);

	model_allocate(m, any ? SLOT_ANY : model_any_slot(m));
}

/* ---- Freeing ----------------------------------------------------------- */

void
model_release(struct model *m, size_t i)
{
	enum weir_status status = weir_free(m->blocks[i].at);

	/* Whatever is short or broken, memory can be freed. */
	model_expect(m, status == WEIR_OK, "weir_free(%p): %s",
	    (void *)m->blocks[i].at, weir_last_error());
	forget_block(m, i, m->blocks[i].owner == SLOT_ANY);
}

void
model_release_any(struct model *m)
{
	struct model_block *b = model_any_block(m);

	if (b == NULL)
		return;
	model_say(m, "free %p, %zu bytes of stream %u, used on %#x",
	    (void *)b->at, b->size, b->owner, b->uses);
	model_release(m, index_of(m, b));
}

void
step_release(struct model *m)
{
	model_release_any(m);
}

void
step_hand_over(struct model *m)
{
	struct model_block *b = model_any_block(m);
	bool any = model_chance(m, m->mix->any);
	unsigned slot = any ? SLOT_ANY : model_any_slot(m);

	if (b == NULL)
		return;
	model_say(m, "free %p, %zu bytes of stream %u, on stream %u",
	    (void *)b->at, b->size, b->owner, slot);
	/* Memory of no stream has no order; weir waits for all streams. */
	if (!any && !model_order(m, b, slot, true))
		return;
	if (model_ok(m, weir_free_async(b->at, model_stream(m, slot)),
		"weir_free_async"))
		forget_block(m, index_of(m, b), any);
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

bool
model_wait(struct model *m, unsigned slot, unsigned other)
{
	if (other >= SLOTS || other == slot)
		return true;
	return model_ok(m,
	    weir_stream_wait_stream(
		model_stream(m, slot), model_stream(m, other)),
	    "weir_stream_wait_stream");
}

bool
model_order(
    struct model *m, const struct model_block *b, unsigned slot, bool write)
{
	if (!model_wait(m, slot, b->writer))
		return false;
	for (unsigned i = 0; write && i < SLOTS; i++) {
		if ((b->readers & slot_bit(i)) != 0 && !model_wait(m, slot, i))
			return false;
	}
	return true;
}

static bool
must_be_named(const struct model_block *b, unsigned slot)
{
	return b->owner != slot && b->owner != SLOT_ANY &&
	    (b->uses & slot_bit(slot)) == 0;
}

/* Any address within a block names it. */
static bool
name_use(struct model *m, struct model_block *b, unsigned slot)
{
	const char *address = b->at + model_below(m, b->size);

	if (!model_ok(m, weir_record_stream(address, model_stream(m, slot)),
		"weir_record_stream"))
		return false;
	b->uses |= slot_bit(slot);
	return true;
}

/* The use is recorded before the work or after it, but in any case: a call that
 * failed for a fault is repeated without the fault. */
static bool
name_before(struct model *m, struct model_block *b, unsigned slot, bool *later)
{
	*later = must_be_named(b, slot) && model_chance(m, 30);
	if (*later || !must_be_named(b, slot))
		return true;
	return name_use(m, b, slot);
}

static bool
name_past_use(struct model *m, struct model_block *b, unsigned slot)
{
	const char *address = b->at + model_below(m, b->size);

	if (!model_ok(m, weir_record_use(address, model_stream(m, slot)),
		"weir_record_use"))
		return false;
	b->past |= slot_bit(slot);
	return true;
}

static void
name_after(struct model *m, struct model_block *b, unsigned slot)
{
	bool (*name)(struct model *, struct model_block *, unsigned) =
	    model_chance(m, 50) ? name_past_use : name_use;

	if (name(m, b, slot))
		return;
	model_calm(m);
	name(m, b, slot);
}

/*
 * Large blocks are filled in part: the first and the last bytes, and some
 * between them that depend on the fill value.
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

/* The streams of some slots report their work, as weir_stream_report_work()
 * requires. */
static void
report_work(struct model *m, unsigned slot)
{
	if (slot >= SLOT_POOL && slot % 2 == 0 &&
	    m->mix->weight[STEP_graph] == 0)
		model_ok(m, weir_stream_report_work(model_stream(m, slot)),
		    "weir_stream_report_work");
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
model_write(struct model *m, struct model_block *b, unsigned slot)
{
	uint32_t tag = (uint32_t)model_below(m, UINT32_MAX) + 1;
	bool later;

	if (b->size < 4)
		return;
	model_say(m, "write %p, %zu bytes of stream %u, on stream %u",
	    (void *)b->at, b->size, b->owner, slot);
	if (!model_order(m, b, slot, true) || !name_before(m, b, slot, &later))
		return;
	b->writer = slot;
	b->readers = 0;
	b->tag = 0;
	if (fill_pieces(m, b, tag, model_stream(m, slot)))
		b->tag = tag;
	report_work(m, slot);
	if (later)
		name_after(m, b, slot);
}

void
step_write(struct model *m)
{
	struct model_block *b = model_any_block(m);
	unsigned slot = model_any_slot(m);

	if (b == NULL)
		return;
	if (b->owner < SLOTS && model_chance(m, 40))
		slot = b->owner;
	model_write(m, b, slot);
}

void
step_read(struct model *m)
{
	struct model_block *b = model_any_block(m);
	unsigned slot = model_any_slot(m);
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
		    to, from, 4, model_stream(m, slot)),
		"cuMemcpyDtoHAsync"))
		m->n_probes++;
	report_work(m, slot);
	b->readers |= slot_bit(slot);
	if (later)
		name_after(m, b, slot);
}

void
step_name_use(struct model *m)
{
	struct model_block *b = model_any_block(m);
	unsigned slot = model_any_slot(m);

	if (b == NULL)
		return;
	model_say(m, "record %p, %zu bytes of stream %u, on stream %u",
	    (void *)b->at, b->size, b->owner, slot);
	name_use(m, b, slot);
}
