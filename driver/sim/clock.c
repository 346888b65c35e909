/*
 * Happens-before, as vector clocks.
 *
 * Every line of operations (a stream, a branch of a graph) has a slot, and an
 * epoch that rises with each operation that is queued on it and with each join
 * that adds knowledge. For each other slot, a line stores the epoch up to which
 * all operations happen before its own next one. A point (slot, epoch) stands
 * for everything up to it and everything that was known there. So a line that
 * has the epoch of a point has the rest too, and most joins end after one
 * comparison.
 *
 * Knowledge is shared by streams, events and operations, and copied on write.
 * All threads of the host count as one: the order between threads is not
 * visible here. Assuming an order can hide a race but never reports a false
 * one.
 */
#include <stdlib.h>
#include <string.h>

#include "driver/sim/sim.h"

/* The most retired slots that wait for the host to know their lines' ends. The
 * slot of the oldest is then used again: what follows on it counts as ordered
 * after its old line, which bounds the size of all knowledge by the number of
 * lines that exist, in programs whose host never waits. */
enum { RETIRED_MANY = 256 };

static struct slot {
	uint64_t epoch; /* the last epoch when its line ended */
	uint64_t label;
} * slots;
static size_t slots_capacity;
static uint32_t n_slots;

/* Slots whose line has ended, the oldest first. */
static uint32_t *retired;
static size_t retired_capacity, n_retired, first_retired;

static struct known *host;
static uint64_t host_version = 1;

/* ---- knowledge ---------------------------------------------------------- */

static struct known *
known_ref(struct known *known)
{
	if (known != NULL)
		known->refs++;
	return known;
}

static void
known_drop(struct known *known)
{
	if (known != NULL && --known->refs == 0)
		free(known);
}

bool
known_has(const struct known *known, uint32_t slot, uint64_t epoch)
{
	return epoch == 0 ||
	    (known != NULL && slot < known->n && known->epoch[slot] >= epoch);
}

/* Make *known private, with room for `n` slots. */
static struct known *
known_own(struct known **known, uint32_t n)
{
	struct known *old = *known, *own;

	if (old != NULL && old->refs == 1 && old->n >= n)
		return old;
	if (old != NULL && old->n > n)
		n = old->n;
	if (n < n_slots)
		n = n_slots;
	own = sim_alloc(sizeof(*own) + n * sizeof(own->epoch[0]));
	own->refs = 1;
	own->n = n;
	if (old != NULL)
		memcpy(own->epoch, old->epoch, old->n * sizeof(own->epoch[0]));
	known_drop(old);
	*known = own;
	return own;
}

/* Add the knowledge of `other`; true if any of it was new. */
static bool
known_merge(struct known **known, struct known *other)
{
	bool more = false, less = false;
	struct known *own = *known;

	if (other == NULL || other == own)
		return false;
	for (uint32_t i = 0; i < other->n; i++) {
		uint64_t epoch = own != NULL && i < own->n ? own->epoch[i] : 0;

		more |= other->epoch[i] > epoch;
		less |= other->epoch[i] < epoch;
	}
	if (!more)
		return false;
	if (!less && (own == NULL || own->n <= other->n)) {
		*known = known_ref(other);
		known_drop(own);
		return true;
	}
	own = known_own(known, other->n);
	for (uint32_t i = 0; i < other->n; i++) {
		if (own->epoch[i] < other->epoch[i])
			own->epoch[i] = other->epoch[i];
	}
	return true;
}

static void
known_set(struct known **known, uint32_t slot, uint64_t epoch)
{
	known_own(known, slot + 1)->epoch[slot] = epoch;
}

/* ---- points ------------------------------------------------------------- */

struct point
point_copy(const struct point *point)
{
	known_ref(point->known);
	return *point;
}

void
point_drop(struct point *point)
{
	known_drop(point->known);
	*point = (struct point){ 0 };
}

static bool
point_knows(const struct point *point, uint32_t slot, uint64_t epoch)
{
	if (slot == point->slot)
		return epoch <= point->epoch;
	return known_has(point->known, slot, epoch);
}

/* ---- what is learnt too late -------------------------------------------- */

/*
 * A stream that waits for a value in memory is ordered after the operation that
 * writes it. The writer is known only when the value has been written, and by
 * then the stream may have more work. So these edges are stored separately, and
 * read only when a race would be reported.
 */
enum { EDGES_KEPT = 64, EDGES_IN_A_ROW = 3 };

static struct edge {
	uint32_t slot; /* from this epoch on, the line knows the point */
	uint64_t epoch;
	struct point point;
} edges[EDGES_KEPT];
static size_t n_edges; /* in all; only the latest ones are stored */

void
clock_late_join(uint32_t slot, uint64_t epoch, const struct point *point)
{
	struct edge *edge = &edges[n_edges++ % EDGES_KEPT];

	point_drop(&edge->point);
	*edge = (struct edge){
		.slot = slot, .epoch = epoch, .point = point_copy(point)
	};
}

static bool
edges_know(
    const struct point *point, uint32_t slot, uint64_t epoch, unsigned in_a_row)
{
	size_t n = n_edges < EDGES_KEPT ? n_edges : EDGES_KEPT;

	for (size_t i = 0; i < n; i++) {
		const struct edge *edge = &edges[i];

		if (!point_knows(point, edge->slot, edge->epoch))
			continue;
		if (point_knows(&edge->point, slot, epoch) ||
		    (in_a_row > 1 &&
			edges_know(&edge->point, slot, epoch, in_a_row - 1)))
			return true;
	}
	return false;
}

bool
point_has(const struct point *point, uint32_t slot, uint64_t epoch)
{
	return point_knows(point, slot, epoch) ||
	    edges_know(point, slot, epoch, EDGES_IN_A_ROW);
}

/* ---- the host ----------------------------------------------------------- */

bool
host_has(uint32_t slot, uint64_t epoch)
{
	return known_has(host, slot, epoch);
}

void
host_join(const struct point *point)
{
	if (host_has(point->slot, point->epoch))
		return;
	known_merge(&host, point->known);
	known_set(&host, point->slot, point->epoch);
	host_version++;
}

struct point
host_point(void)
{
	return (struct point){ .known = known_ref(host), .slot = UINT32_MAX };
}

static uint32_t slot_take(void);

struct point
host_step(void)
{
	static bool has_slot;
	static uint32_t slot;
	static uint64_t epoch;

	if (!has_slot) {
		slot = slot_take();
		epoch = slots[slot].epoch;
		has_slot = true;
	}
	known_set(&host, slot, ++epoch);
	host_version++;
	return (struct point){
		.known = known_ref(host), .slot = slot, .epoch = epoch
	};
}

/* ---- lines -------------------------------------------------------------- */

/* Take a slot whose earlier line is completely known to the host, or is long
 * past; or a new one. */
static uint32_t
slot_take(void)
{
	if (first_retired < n_retired) {
		uint32_t slot = retired[first_retired];

		if (host_has(slot, slots[slot].epoch) ||
		    n_retired - first_retired > RETIRED_MANY) {
			first_retired++;
			return slot;
		}
	}
	slots = sim_grow(slots, n_slots, &slots_capacity, sizeof(*slots));
	return n_slots++;
}

void
line_init(struct line *line, uint64_t label)
{
	uint32_t slot = slot_take();

	slots[slot].label = label;
	*line = (struct line){ .known = known_ref(host),
		.slot = slot,
		.epoch = slots[slot].epoch,
		.host_version = host_version };
}

void
line_fini(struct line *line)
{
	slots[line->slot].epoch = line->epoch;
	/* Move the rest to the beginning, seldom enough to cost little. */
	if (first_retired > n_retired / 2) {
		n_retired -= first_retired;
		memmove(retired, retired + first_retired,
		    n_retired * sizeof(*retired));
		first_retired = 0;
	}
	retired =
	    sim_grow(retired, n_retired, &retired_capacity, sizeof(*retired));
	retired[n_retired++] = line->slot;
	known_drop(line->known);
	line->known = NULL;
}

uint64_t
slot_label(uint32_t slot)
{
	return slots[slot].label;
}

void
line_join_host(struct line *line)
{
	if (line->host_version == host_version)
		return;
	line->host_version = host_version;
	if (known_merge(&line->known, host))
		line->epoch++;
}

void
line_step(struct line *line)
{
	line_join_host(line);
	line->epoch++;
}

void
line_join(struct line *line, const struct point *point)
{
	if (point->slot == line->slot ||
	    known_has(line->known, point->slot, point->epoch))
		return;
	known_merge(&line->known, point->known);
	known_set(&line->known, point->slot, point->epoch);
	line->epoch++;
}

struct point
line_point(const struct line *line)
{
	return (struct point){ .known = known_ref(line->known),
		.slot = line->slot,
		.epoch = line->epoch };
}
