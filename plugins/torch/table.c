#include "plugins/torch/table.h"

#include <stdlib.h>

struct table_slot {
	uint64_t address; /* 0: the slot is free */
	void *pointer;
};

static size_t
home_of(const struct table *table, uint64_t address)
{
	return (size_t)((address >> 9) * 0x9e3779b97f4a7c15u >> 20) &
	    (table->room - 1);
}

/* The slot of an address, or the free slot where it belongs. */
static struct table_slot *
slot_find(const struct table *table, uint64_t address)
{
	size_t i = home_of(table, address);

	while (
	    table->slots[i].address != 0 && table->slots[i].address != address)
		i = (i + 1) & (table->room - 1);
	return &table->slots[i];
}

void *
table_get(const struct table *table, uint64_t address)
{
	return table->room > 0 ? slot_find(table, address)->pointer : NULL;
}

static bool
table_grow(struct table *table)
{
	struct table old = *table;
	size_t room = old.room == 0 ? 256 : 2 * old.room;
	struct table_slot *slots = calloc(room, sizeof(*slots));

	if (slots == NULL)
		return false;
	table->slots = slots;
	table->room = room;
	for (size_t i = 0; i < old.room; i++)
		if (old.slots[i].address != 0)
			*slot_find(table, old.slots[i].address) = old.slots[i];
	free(old.slots);
	return true;
}

bool
table_put(struct table *table, uint64_t address, void *pointer)
{
	if (2 * table->count >= table->room && !table_grow(table))
		return false;
	*slot_find(table, address) = (struct table_slot){ address, pointer };
	table->count++;
	return true;
}

/* Move the entries after a freed slot up as far as possible. */
static void
close_gap(struct table *table, size_t gap)
{
	size_t mask = table->room - 1;

	for (size_t i = (gap + 1) & mask; table->slots[i].address != 0;
	     i = (i + 1) & mask) {
		size_t home = home_of(table, table->slots[i].address);
		if (((i - home) & mask) < ((i - gap) & mask))
			continue;
		table->slots[gap] = table->slots[i];
		table->slots[i] = (struct table_slot){ 0, NULL };
		gap = i;
	}
}

void *
table_take(struct table *table, uint64_t address)
{
	if (table->room == 0)
		return NULL;
	struct table_slot *slot = slot_find(table, address);
	void *pointer = slot->pointer;
	if (slot->address == 0)
		return NULL;
	*slot = (struct table_slot){ 0, NULL };
	table->count--;
	close_gap(table, (size_t)(slot - table->slots));
	return pointer;
}

void
table_clear(struct table *table, void (*drop)(void *pointer))
{
	for (size_t i = 0; i < table->room; i++)
		if (table->slots[i].address != 0)
			drop(table->slots[i].pointer);
	free(table->slots);
	*table = (struct table){ 0 };
}
