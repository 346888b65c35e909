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
 * Knowledge is shared by streams, events and operations, and copied on write,
 * in parts.
 * All threads of the host count as one: the order between threads is not
 * visible here. Assuming an order can hide a race but never reports a false
 * one.
 */
#include <stdlib.h>
#include <string.h>

#include "simcuda/sim.h"
#include "simcuda/tuning.h"

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

/*
 * A persistent radix tree over slots: a change copies the path to one leaf, and
 * two versions share all other parts. So an operation's knowledge costs little
 * memory beyond that of the operation before, however many slots there are, and
 * a comparison descends only where two versions differ.
 */

struct known {
	unsigned refs;
	unsigned height; /* 0: a leaf, which has epochs */
	union {
		uint64_t epoch[FAN];
		struct known *part[FAN]; /* references, or NULL */
	};
};

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
	if (known == NULL || --known->refs > 0)
		return;
	for (unsigned i = 0; known->height > 0 && i < FAN; i++)
		known_drop(known->part[i]);
	free(known);
}

/* The place of a slot in a node of that height. */
static unsigned
place_of(uint32_t slot, unsigned height)
{
	return slot >> (height * FAN_BITS) & (FAN - 1);
}

/* Is the slot beyond all places of a tree of that height? */
static bool
is_beyond(uint32_t slot, unsigned height)
{
	return (uint64_t)slot >> ((height + 1) * FAN_BITS) != 0;
}

static bool
known_has(const struct known *known, uint32_t slot, uint64_t epoch)
{
	if (epoch == 0)
		return true;
	if (known == NULL || is_beyond(slot, known->height))
		return false;
	while (known != NULL && known->height > 0)
		known = known->part[place_of(slot, known->height)];
	return known != NULL && known->epoch[place_of(slot, 0)] >= epoch;
}

static struct known *
known_new(unsigned height)
{
	struct known *known = sim_alloc(sizeof(*known));

	known->refs = 1;
	known->height = height;
	return known;
}

/* Turn a reference into the only one. */
static struct known *
known_own(struct known *old)
{
	struct known *own;

	if (old->refs == 1)
		return old;
	own = sim_alloc(sizeof(*own));
	*own = *old;
	own->refs = 1;
	for (unsigned i = 0; own->height > 0 && i < FAN; i++)
		known_ref(own->part[i]);
	old->refs--;
	return own;
}

/* Make a tree as high as that; it knows nothing more. */
static struct known *
known_raise(struct known *known, unsigned height)
{
	while (known->height < height) {
		struct known *root = known_new(known->height + 1);

		root->part[0] = known;
		known = root;
	}
	return known;
}

static void
known_set(struct known **known, uint32_t slot, uint64_t epoch)
{
	unsigned height = 0;

	while (is_beyond(slot, height))
		height++;
	if (*known == NULL)
		*known = known_new(height);
	*known = known_raise(*known, height);
	for (;;) {
		struct known *own = *known = known_own(*known);

		if (own->height == 0) {
			own->epoch[place_of(slot, 0)] = epoch;
			return;
		}
		known = &own->part[place_of(slot, own->height)];
		if (*known == NULL)
			*known = known_new(own->height - 1);
	}
}

/* Does `all` know whatever `some` knows? A tree that exists knows something. */
static bool
known_covers(const struct known *all, const struct known *some)
{
	while (all != NULL && some != NULL && all->height > some->height)
		all = all->part[0];
	if (all == some || some == NULL)
		return true;
	if (all == NULL)
		return false;
	for (; all->height < some->height; some = some->part[0]) {
		for (unsigned i = 1; i < FAN; i++) {
			if (some->part[i] != NULL)
				return false;
		}
		if (some->part[0] == NULL)
			return true;
	}
	for (unsigned i = 0; i < FAN; i++) {
		if (some->height > 0 ?
			!known_covers(all->part[i], some->part[i]) :
			some->epoch[i] > all->epoch[i])
			return false;
	}
	return true;
}

/* Both together; takes over the reference to `own`. */
static struct known *
known_union(struct known *own, struct known *other)
{
	if (known_covers(own, other))
		return own;
	if (known_covers(other, own) &&
	    (own == NULL || other->height >= own->height)) {
		known_drop(own);
		return known_ref(other);
	}
	own = known_own(known_raise(own, other->height));
	if (own->height > other->height) {
		own->part[0] = known_union(own->part[0], other);
		return own;
	}
	for (unsigned i = 0; i < FAN; i++) {
		if (own->height > 0)
			own->part[i] =
			    known_union(own->part[i], other->part[i]);
		else if (own->epoch[i] < other->epoch[i])
			own->epoch[i] = other->epoch[i];
	}
	return own;
}

/* Add the knowledge of `other`; true if any of it was new. */
static bool
known_merge(struct known **known, struct known *other)
{
	if (known_covers(*known, other))
		return false;
	*known = known_union(*known, other);
	return true;
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

static struct edge {
	uint32_t slot; /* from this epoch on, the line knows the point */
	uint64_t epoch;
	struct point point;
} edges[CLOCK_EDGES];
static size_t n_edges; /* in all; only the latest ones are stored */

void
clock_late_join(uint32_t slot, uint64_t epoch, const struct point *point)
{
	struct edge *edge = &edges[n_edges++ % CLOCK_EDGES];

	point_drop(&edge->point);
	*edge = (struct edge){
		.slot = slot, .epoch = epoch, .point = point_copy(point)
	};
}

static bool
edges_know(
    const struct point *point, uint32_t slot, uint64_t epoch, unsigned in_a_row)
{
	size_t n = n_edges < CLOCK_EDGES ? n_edges : CLOCK_EDGES;

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
	    edges_know(point, slot, epoch, CLOCK_EDGES_IN_A_ROW);
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
		    n_retired - first_retired > CLOCK_RETIRED) {
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
