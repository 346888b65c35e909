/*
 * Memory for the reader of debug information, within a budget. A small file may
 * make the reader request very much memory; the reader gives up if an
 * allocation fails.
 *
 * All functions are thread-safe.
 */
#ifndef STACKS_READER_MEMORY_H
#define STACKS_READER_MEMORY_H

#include <stddef.h>
#include <stdint.h>

/*
 * Allocate `size` bytes, aligned to 16; not NULL if size is 0. NULL without
 * memory, or if the budget is exceeded: all live allocations together may take
 * 64 MiB plus four bytes for each byte that was read.
 */
void *reader_alloc(size_t size);

/* Free memory of reader_alloc(), given its size. NULL does nothing. */
void reader_free(void *memory, size_t size);

/* Add the number of file bytes that were read to the budget. */
void reader_note_bytes(uint64_t bytes);

#endif
