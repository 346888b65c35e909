/*
 * Host memory for weir's own data: a jemalloc arena of its own, so that the
 * program's malloc is neither used nor disturbed. Builds for sanitizers and
 * valgrind (WEIR_NO_JEMALLOC) use malloc so that every byte is seen.
 */
#ifndef BASE_META_H
#define BASE_META_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* NULL when there is no memory; the caller reports its own failure. */
void *meta_alloc(size_t size);
/* meta_alloc(), filled with zeros. */
void *meta_zalloc(size_t size);
/* `size` is the size of the allocation. NULL does nothing. */
void meta_free(void *ptr, size_t size);

/* Bytes in use. */
size_t meta_bytes(void);

/*
 * For a program that reads a file and must not take more than the file may ask
 * for: an allocation that would bring meta_bytes() above `most` fails. Freed
 * memory goes back to the system before a large allocation then, so that the
 * process's memory has the same bound. SIZE_MAX ends it.
 */
void meta_limit_set(size_t most);

/* True if an allocation has failed by the limit since one was last set where
 * there was none. */
bool meta_limit_hit(void);

/*
 * Count memory that comes from elsewhere as if it were meta_alloc()'s; false,
 * and nothing counted, if that would pass the limit, or if meta_fail() says so.
 * meta_discharge() undoes it.
 */
bool meta_charge(size_t size);
void meta_discharge(size_t size);

/*
 * For tests: let the nth allocation from now fail (1 is the next), and
 * `count` of them from there. 0 lets none fail. Allocations of all threads
 * and calls of meta_charge() are counted together.
 */
void meta_fail(unsigned long nth, unsigned long count);

/* For tests: how many allocations have failed since the last meta_fail(). */
unsigned long meta_faults(void);

/*
 * Pages from the system, zeroed, committed as they are touched. For tables
 * that are indexed by address. NULL on failure; meta_unmap() takes the same
 * size. Counted by meta_fail(), not by meta_bytes().
 */
void *meta_map(size_t size);
void meta_unmap(void *ptr, size_t size);

#endif
