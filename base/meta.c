/*
 * weir's own host memory. With jemalloc (JEMALLOC_PREFIX) all of it is in one
 * arena that has no other user. Thread caches are off: code that needs many
 * small pieces allocates them in slabs. Without caches, the end of a thread, a
 * fork and unloading the library leave no memory behind.
 */
#include "base/meta.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/mman.h>

#include "base/lock.h"
#include "base/tuning.h"

#if !defined(WEIR_NO_JEMALLOC)
/* Keeps the names je_..., whatever prefix jemalloc was built with. */
#define JEMALLOC_NO_DEMANGLE
#include <jemalloc/jemalloc.h>
#else
#include <stdlib.h>
#endif

static atomic_size_t used_bytes;

/* No allocation may raise used_bytes above `most`. */
static struct {
	atomic_size_t most;
	atomic_bool hit;
} limit = { .most = SIZE_MAX };

/* Failures for tests: `count` of the allocations since meta_fail() fail,
 * beginning with number `first`. first == 0: none fails. */
static struct {
	atomic_ulong first;
	atomic_ulong count;
	atomic_ulong seen;
} fail;

static bool
must_fail(void)
{
	unsigned long first =
	    atomic_load_explicit(&fail.first, memory_order_relaxed);
	unsigned long n;

	if (first == 0)
		return false;
	n = atomic_fetch_add(&fail.seen, 1) + 1;
	return n >= first && n - first < atomic_load(&fail.count);
}

void
meta_fail(unsigned long nth, unsigned long count)
{
	atomic_store(&fail.first, 0);
	atomic_store(&fail.seen, 0);
	atomic_store(&fail.count, count);
	atomic_store(&fail.first, nth);
}

unsigned long
meta_faults(void)
{
	unsigned long first = atomic_load(&fail.first);
	unsigned long count = atomic_load(&fail.count);
	unsigned long seen = atomic_load(&fail.seen);

	if (first == 0 || seen < first)
		return 0;
	return seen - first < count ? seen - first + 1 : count;
}

#if !defined(WEIR_NO_JEMALLOC)

/*
 * jemalloc reads this when it starts. Every call here names its arena and uses
 * no cache, so one automatic arena and no thread cache are enough.
 */
const char *je_malloc_conf = "narenas:1,tcache:false";

static struct lock arena_lock = LOCK_INITIALIZER(LOCK_RANK_META);
/* The flags of every call; 0 before the arena exists. */
static atomic_int arena_flags;

static int
make_arena(void)
{
	unsigned arena;
	size_t size = sizeof(arena);
	int flags;

	lock_enter(&arena_lock);
	flags = atomic_load(&arena_flags);
	if (flags == 0 &&
	    je_mallctl("arenas.create", &arena, &size, NULL, 0) == 0) {
		flags = MALLOCX_ARENA(arena) | MALLOCX_TCACHE_NONE;
		atomic_store_explicit(
		    &arena_flags, flags, memory_order_release);
	}
	lock_leave(&arena_lock);
	return flags;
}

static void *
alloc_bytes(size_t size, bool zero)
{
	int flags = atomic_load_explicit(&arena_flags, memory_order_acquire);

	if (flags == 0)
		flags = make_arena();
	if (flags == 0)
		return NULL;
	return je_mallocx(size, zero ? flags | MALLOCX_ZERO : flags);
}

static void
free_bytes(void *ptr, size_t size)
{
	je_sdallocx(ptr, size,
	    atomic_load_explicit(&arena_flags, memory_order_relaxed));
}

/* Give the pages of freed memory back to the system. */
static void
purge(void)
{
	char name[64];

	/* MALLCTL_ARENAS_ALL: this jemalloc has no other arena in use. */
	snprintf(name, sizeof(name), "arena.%u.purge", MALLCTL_ARENAS_ALL);
	je_mallctl(name, NULL, NULL, NULL, 0);
}

#else

static void *
alloc_bytes(size_t size, bool zero)
{
	return zero ? calloc(1, size) : malloc(size);
}

static void
free_bytes(void *ptr, size_t size)
{
	(void)size;
	free(ptr);
}

/* malloc() gives large blocks back when they are freed. */
static void
purge(void)
{
}

#endif

void
meta_limit_set(size_t most)
{
	if (atomic_load(&limit.most) == SIZE_MAX)
		atomic_store(&limit.hit, false);
	atomic_store(&limit.most, most);
}

bool
meta_limit_hit(void)
{
	return atomic_load(&limit.hit);
}

bool
meta_charge(size_t size)
{
	size_t most;

	if (must_fail())
		return false;
	most = atomic_load_explicit(&limit.most, memory_order_relaxed);
	if (most != SIZE_MAX) {
		if (size > most || meta_bytes() > most - size) {
			atomic_store(&limit.hit, true);
			return false;
		}
		if (size >= META_LARGE)
			purge();
	}
	atomic_fetch_add_explicit(&used_bytes, size, memory_order_relaxed);
	return true;
}

void
meta_discharge(size_t size)
{
	atomic_fetch_sub_explicit(&used_bytes, size, memory_order_relaxed);
}

static void *
alloc(size_t size, bool zero)
{
	void *ptr;

	if (!meta_charge(size))
		return NULL;
	ptr = alloc_bytes(size == 0 ? 1 : size, zero);
	if (ptr == NULL)
		meta_discharge(size);
	return ptr;
}

void *
meta_alloc(size_t size)
{
	return alloc(size, false);
}

void *
meta_zalloc(size_t size)
{
	return alloc(size, true);
}

void
meta_free(void *ptr, size_t size)
{
	if (ptr == NULL)
		return;
	free_bytes(ptr, size == 0 ? 1 : size);
	meta_discharge(size);
}

size_t
meta_bytes(void)
{
	return atomic_load_explicit(&used_bytes, memory_order_relaxed);
}

void *
meta_map(size_t size)
{
	void *ptr;

	if (must_fail())
		return NULL;
	ptr = mmap(NULL, size, PROT_READ | PROT_WRITE,
	    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	return ptr == MAP_FAILED ? NULL : ptr;
}

void
meta_unmap(void *ptr, size_t size)
{
	if (ptr != NULL)
		munmap(ptr, size);
}
