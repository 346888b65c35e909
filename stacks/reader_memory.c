/*
 * Small blocks are cut from chunks, and freed blocks are kept in lists by size
 * class; larger blocks are mapped. A thread that finds another thread here maps
 * its block instead of waiting, so that a fork at any moment does no harm.
 */
#include "stacks/reader_memory.h"

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/meta.h"

enum {
	ALIGNMENT = 16,
	CLASSES = 12, /* 16 bytes to 32 KiB, by powers of two */
	SMALL_MAX = ALIGNMENT << (CLASSES - 1),
	CHUNK = 256 << 10,
	BUDGET_BASE = 64 << 20,
	BUDGET_PER_BYTE = 4,
};

struct free_block {
	struct free_block *next;
};

static atomic_flag busy = ATOMIC_FLAG_INIT;
static struct free_block *free_blocks[CLASSES]; /* guarded by busy */
static char *chunk;                             /* guarded by busy */
static size_t chunk_left;                       /* guarded by busy */
static _Atomic uint64_t bytes_live;
static _Atomic uint64_t bytes_read;

static unsigned
size_class_of(size_t size)
{
	unsigned class = 0;

	while ((size_t)ALIGNMENT << class < size)
		class ++;
	return class;
}

/* The bytes of an allocation that count against the budget. */
static size_t
charge_of(size_t size)
{
	return size <= SMALL_MAX ? (size_t)ALIGNMENT << size_class_of(size) :
				   size;
}

/* Count an allocation; false if it exceeds the budget. */
static bool
charge_budget(size_t charge)
{
	uint64_t limit =
	    BUDGET_BASE + BUDGET_PER_BYTE * atomic_load(&bytes_read);
	uint64_t before = atomic_fetch_add(&bytes_live, charge);

	if (charge <= limit && before <= limit - charge)
		return true;
	atomic_fetch_sub(&bytes_live, charge);
	return false;
}

static void *
cut_small(unsigned class)
{
	size_t size = (size_t)ALIGNMENT << class;
	void *memory = free_blocks[class];

	if (memory != NULL) {
		free_blocks[class] = free_blocks[class]->next;
		return memory;
	}
	if (chunk_left < size) {
		char *fresh = meta_map(CHUNK);

		if (fresh == NULL)
			return NULL;
		chunk = fresh;
		chunk_left = CHUNK;
	}
	memory = chunk;
	chunk += size;
	chunk_left -= size;
	return memory;
}

void *
reader_alloc(size_t size)
{
	size_t charge = charge_of(size);
	void *memory = NULL;

	if (!charge_budget(charge))
		return NULL;
	if (size > SMALL_MAX)
		memory = meta_map(size);
	else if (!atomic_flag_test_and_set(&busy)) {
		memory = cut_small(size_class_of(size));
		atomic_flag_clear(&busy);
	} else
		memory = meta_map(charge);
	if (memory == NULL)
		atomic_fetch_sub(&bytes_live, charge);
	return memory;
}

/* A small block is not freed if another thread is busy here. */
void
reader_free(void *memory, size_t size)
{
	struct free_block *block = memory;
	unsigned class = size_class_of(size <= SMALL_MAX ? size : 0);

	if (memory == NULL)
		return;
	atomic_fetch_sub(&bytes_live, charge_of(size));
	if (size > SMALL_MAX)
		meta_unmap(memory, size);
	else if (!atomic_flag_test_and_set(&busy)) {
		block->next = free_blocks[class];
		free_blocks[class] = block;
		atomic_flag_clear(&busy);
	}
}

void
reader_note_bytes(uint64_t bytes)
{
	atomic_fetch_add(&bytes_read, bytes);
}
