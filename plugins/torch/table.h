/*
 * A hash table from addresses to pointers, with open addressing. Not
 * thread-safe.
 */
#ifndef PLUGINS_TORCH_TABLE_H
#define PLUGINS_TORCH_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct table_slot;

/* An empty table is all zeros. */
struct table {
	struct table_slot *slots;
	size_t room; /* 0, or a power of two */
	size_t count;
};

/* The pointer of an address; NULL if there is none. */
void *table_get(const struct table *table, uint64_t address);

/* Insert a pointer (not NULL) for an address (not 0) that has none. False
 * without memory. */
bool table_put(struct table *table, uint64_t address, void *pointer);

/* Remove and return the pointer of an address; NULL if there was none. */
void *table_take(struct table *table, uint64_t address);

/* Call `drop` for each pointer, and empty the table. */
void table_clear(struct table *table, void (*drop)(void *pointer));

#endif
