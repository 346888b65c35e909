/*
 * A hash table from addresses to pointers, by open addressing. Not
 * thread-safe.
 */
#ifndef PLUGINS_TORCH_TABLE_H
#define PLUGINS_TORCH_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct table_slot;

/* All zero is an empty table. */
struct table {
	struct table_slot *slots;
	size_t room; /* 0, or a power of two */
	size_t count;
};

/* The pointer of an address; NULL: there is none. */
void *table_get(const struct table *table, uint64_t address);

/* Put a pointer, not NULL, for an address, not 0, that has none. False: there
 * is no memory. */
bool table_put(struct table *table, uint64_t address, void *pointer);

/* Take the pointer of an address out; NULL: there was none. */
void *table_take(struct table *table, uint64_t address);

/* Call `drop` with each pointer, and forget all. */
void table_clear(struct table *table, void (*drop)(void *pointer));

#endif
