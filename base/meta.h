/*
 * Host memory for weir's own data, from malloc(); or with JEMALLOC_PREFIX from
 * a separate jemalloc arena, so that the program's malloc is neither used nor
 * affected (docs/adr/0015).
 */
#ifndef BASE_META_H
#define BASE_META_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Returns NULL without memory; the caller reports the failure. */
void *meta_alloc(size_t size);
/* meta_alloc(), filled with zeros. */
void *meta_zalloc(size_t size);
/* `size` is the size of the allocation. NULL does nothing. */
void meta_free(void *ptr, size_t size);

/* Bytes in use. */
size_t meta_bytes(void);

/*
 * For a program that reads a file, to limit the memory that the file can make
 * it allocate: an allocation that would raise meta_bytes() above `most` fails.
 * While a limit is set, freed memory is given back to the system before a large
 * allocation, so that the limit applies to the process's memory too. SIZE_MAX
 * removes the limit.
 */
void meta_limit_set(size_t most);

/* Has an allocation failed because of the limit? Reset when a limit is set
 * while none was set. */
bool meta_limit_hit(void);

/*
 * Count memory from another source like that of meta_alloc(). False, and
 * nothing is counted, if that would exceed the limit, or if meta_fail() demands
 * it. meta_discharge() undoes it.
 */
bool meta_charge(size_t size);
void meta_discharge(size_t size);

/*
 * For tests: make `count` allocations fail, beginning with the nth from now on
 * (1 is the next). 0: none fails. Allocations of all threads and calls of
 * meta_charge() are counted together.
 */
void meta_fail(unsigned long nth, unsigned long count);

/* For tests: how many allocations have failed since the last meta_fail(). */
unsigned long meta_faults(void);

/*
 * Map zeroed pages, which are committed when they are first touched; for tables
 * that are indexed by address. NULL on failure; meta_unmap() takes the same
 * size. Counted by meta_fail(), not by meta_bytes().
 */
void *meta_map(size_t size);
void meta_unmap(void *ptr, size_t size);

#endif
