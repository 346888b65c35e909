/*
 * Memory for the reader of debug information, within a budget. A small file may
 * ask the reader for very much, and the reader gives up where an allocation
 * fails.
 *
 * All functions are thread-safe.
 */
#ifndef TRACE_READER_MEMORY_H
#define TRACE_READER_MEMORY_H

#include <stddef.h>
#include <stdint.h>

/*
 * Allocate `size` bytes, aligned to 16; not NULL if size is 0. NULL without
 * memory, or if the budget does not allow it: all allocations that are not
 * freed may take 64 MiB and four bytes for each byte that was read.
 */
void *reader_alloc(size_t size);

/* Free memory of reader_alloc() by its size. NULL does nothing. */
void reader_free(void *memory, size_t size);

/* Note that so many bytes of files were read. */
void reader_note_bytes(uint64_t bytes);

#endif
