/*
 * Handles: numbers that look like pointers and are never dereferenced, so that
 * a stale or invented handle is recognised.
 *
 *	0x4000_0000_0000 | kind << 42 | generation << 24 | index << 4
 *
 * An index is used again with the next generation, the oldest one first. With
 * the setting `reuse` a handle of memory has the number of the latest that is
 * gone.
 */
#include <stdlib.h>

#include "simcuda/sim.h"

enum {
	INDEX_SHIFT = 4,
	GENERATION_SHIFT = 24,
	KIND_SHIFT = 42,
	INDEX_MASK = (1 << (GENERATION_SHIFT - INDEX_SHIFT)) - 1,
	GENERATION_MASK = (1 << (KIND_SHIFT - GENERATION_SHIFT)) - 1
};

static const uint64_t base = 1ull << 46;

struct cell {
	void *object;
	uint32_t generation;
	uint32_t next_free;
};

static struct table {
	struct cell *cells;
	size_t n, capacity;
	uint32_t free_first, free_last; /* index + 1; 0: none */
	size_t n_free;
	long live;
} tables[HANDLE_KINDS];

/* Are numbers of this kind used again at once? */
static bool
is_reused(const struct table *table)
{
	return conf.reuse != 0 && table == &tables[HANDLE_PHYS];
}

static uint32_t
take_index(struct table *table)
{
	uint32_t index;

	/* Some indices are held back, so that a stale handle stays stale for a
	 * long time. */
	if (table->n_free > 1024 || table->n > INDEX_MASK ||
	    (table->n_free > 0 && is_reused(table))) {
		index = table->free_first - 1;
		table->free_first = table->cells[index].next_free;
		table->n_free--;
		return index;
	}
	table->cells = sim_grow(
	    table->cells, table->n, &table->capacity, sizeof(*table->cells));
	return (uint32_t)table->n++;
}

uint64_t
handle_new(enum handle_kind kind, void *object)
{
	struct table *table = &tables[kind];
	uint32_t index = take_index(table);
	struct cell *cell = &table->cells[index];

	cell->object = object;
	table->live++;
	return base | (uint64_t)kind << KIND_SHIFT |
	    (uint64_t)cell->generation << GENERATION_SHIFT |
	    (uint64_t)index << INDEX_SHIFT;
}

/* The cell that the handle names, whatever it holds now; or NULL. */
static struct cell *
find_cell(enum handle_kind kind, uint64_t handle)
{
	uint64_t index = handle >> INDEX_SHIFT & INDEX_MASK;

	if (handle % (1 << INDEX_SHIFT) != 0 ||
	    handle >> KIND_SHIFT != (base >> KIND_SHIFT | kind) ||
	    index >= tables[kind].n)
		return NULL;
	return &tables[kind].cells[index];
}

static uint32_t
generation_of(uint64_t handle)
{
	return handle >> GENERATION_SHIFT & GENERATION_MASK;
}

void *
handle_find(enum handle_kind kind, uint64_t handle)
{
	struct cell *cell = find_cell(kind, handle);

	if (cell == NULL || cell->generation != generation_of(handle))
		return NULL;
	return cell->object;
}

bool
handle_known(enum handle_kind kind, uint64_t handle)
{
	struct cell *cell = find_cell(kind, handle);

	return cell != NULL && generation_of(handle) <= cell->generation;
}

void
handle_drop(enum handle_kind kind, uint64_t handle)
{
	struct table *table = &tables[kind];
	struct cell *cell = find_cell(kind, handle);
	uint32_t index = (uint32_t)(cell - table->cells);

	cell->object = NULL;
	table->live--;
	if (is_reused(table)) {
		cell->next_free = table->n_free++ > 0 ? table->free_first : 0;
		table->free_first = index + 1;
		return;
	}
	cell->generation = (cell->generation + 1) & GENERATION_MASK;
	cell->next_free = 0;
	if (table->n_free++ == 0)
		table->free_first = index + 1;
	else
		table->cells[table->free_last - 1].next_free = index + 1;
	table->free_last = index + 1;
}

size_t
handle_indices(enum handle_kind kind)
{
	return tables[kind].n;
}

void *
handle_nth(enum handle_kind kind, size_t i)
{
	return tables[kind].cells[i].object;
}

long
handle_count(enum handle_kind kind)
{
	return tables[kind].live;
}
