/*
 * Every allocation of the command passes the functions below. Those of the C
 * library and of libraries that are loaded later pass them too, because the
 * dynamic linker finds the program's functions first.
 *
 * Note [Short of host memory]
 *
 * Without host memory the command ends at once with a complaint and status 2.
 * No caller has to handle a NULL: a library that loses a row, a stream that
 * loses a line, or a table that loses a cell would end in an incomplete output
 * with a status that says otherwise. So the rule is one place, and it holds for
 * code that this tree does not contain.
 *
 * The end must not allocate, and it may come while the C library holds a lock.
 * So nothing is flushed and no exit handler runs. Files that are being written
 * are removed under their temporary names. A child that plays a trace for the
 * command (replay/trial.c) ends with a status of its own, by which the command
 * knows to end too.
 *
 * The functions pass on to the next library that has them, which may be another
 * allocator that the user preloads. Only the command has this file: programs
 * that `weir run` starts, and the tests of the command's parts, do not.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/out.h"
#include "tools/weir/tool.h"

#define SHOWN __attribute__((visibility("default")))

/* The C library declares them too, without this attribute. */
/* NOLINTBEGIN(readability-*) */
SHOWN void *malloc(size_t size);
SHOWN void *calloc(size_t nmemb, size_t size);
SHOWN void *realloc(void *ptr, size_t size);
SHOWN void *reallocarray(void *ptr, size_t nmemb, size_t size);
SHOWN void *memalign(size_t alignment, size_t size);
SHOWN void *aligned_alloc(size_t alignment, size_t size);
SHOWN int posix_memalign(void **memptr, size_t alignment, size_t size);
/* NOLINTEND(readability-*) */

/* The C library's own functions, where it has them: dlsym() of glibc before
 * 2.34 allocates, while the next function is not known yet. */
extern void *__libc_malloc(size_t size) __attribute__((weak));
extern void *__libc_calloc(size_t count, size_t size) __attribute__((weak));
extern void *__libc_realloc(void *old, size_t size) __attribute__((weak));

static _Atomic(uintptr_t) next_malloc;
static _Atomic(uintptr_t) next_calloc;
static _Atomic(uintptr_t) next_realloc;
static _Atomic(uintptr_t) next_memalign;
static _Atomic(uintptr_t) next_aligned_alloc;
static _Atomic(uintptr_t) next_posix_memalign;

/* Volatile, because the C library declares that dlsym() does not call back into
 * this file, so that the compiler would drop the first of two stores. */
static _Thread_local volatile bool searching;

static _Noreturn void
end_short_of_memory(size_t size)
{
	char text[128];
	int n = snprintf(text, sizeof(text),
	    "weir: out of memory: there are no %zu bytes of host memory\n",
	    size);

	out_unlink_open();
	/* Nobody can be told that stderr cannot be written. */
	if (write(STDERR_FILENO, text, (size_t)n) < 0)
		_exit(tool_short_status);
	_exit(tool_short_status);
}

static uintptr_t
find_next(_Atomic(uintptr_t) *kept, const char *name)
{
	uintptr_t found = atomic_load_explicit(kept, memory_order_relaxed);

	if (found != 0 || searching)
		return found;
	searching = true;
	found = (uintptr_t)dlsym(RTLD_NEXT, name);
	searching = false;
	atomic_store_explicit(kept, found, memory_order_relaxed);
	return found;
}

/* Early, because dlerror() of glibc before 2.34 allocates, and a search for the
 * next function within it would free the text that it is about to give. */
__attribute__((constructor)) static void
find_all_next(void)
{
	find_next(&next_malloc, "malloc");
	find_next(&next_calloc, "calloc");
	find_next(&next_realloc, "realloc");
	find_next(&next_memalign, "memalign");
	find_next(&next_aligned_alloc, "aligned_alloc");
	find_next(&next_posix_memalign, "posix_memalign");
}

static void *
checked(void *block, size_t size)
{
	if (block == NULL)
		end_short_of_memory(size);
	return block;
}

/* An allocator may answer a request for 0 bytes with NULL; the functions below
 * ask for 1 instead, so that NULL means one thing. */
static size_t
at_least_one(size_t size)
{
	return size > 0 ? size : 1;
}

static size_t
product(size_t count, size_t size)
{
	size_t bytes;

	return __builtin_mul_overflow(count, size, &bytes) ? SIZE_MAX : bytes;
}

void *
malloc(size_t size)
{
	uintptr_t next = find_next(&next_malloc, "malloc");
	size_t bytes = at_least_one(size);

	if (next == 0)
		next = (uintptr_t)__libc_malloc;
	return checked(
	    next != 0 ? ((void *(*)(size_t))next)(bytes) : NULL, size);
}

void *
calloc(size_t nmemb, size_t size)
{
	uintptr_t next = find_next(&next_calloc, "calloc");
	size_t bytes = at_least_one(product(nmemb, size));

	if (next == 0)
		next = (uintptr_t)__libc_calloc;
	return checked(
	    next != 0 ? ((void *(*)(size_t, size_t))next)(1, bytes) : NULL,
	    bytes);
}

/* With 0 bytes the block is freed, and NULL is the answer. */
void *
realloc(void *ptr, size_t size)
{
	uintptr_t next = find_next(&next_realloc, "realloc");
	void *block;

	if (next == 0)
		next = (uintptr_t)__libc_realloc;
	block = next != 0 ? ((void *(*)(void *, size_t))next)(ptr, size) : NULL;
	return ptr != NULL && size == 0 ? block : checked(block, size);
}

void *
reallocarray(void *ptr, size_t nmemb, size_t size)
{
	return realloc(ptr, product(nmemb, size));
}

/* Fails also if the alignment is none. */
static void *
aligned(uintptr_t next, size_t alignment, size_t size)
{
	void *block;

	errno = ENOMEM;
	block = next != 0 ?
	    ((void *(*)(size_t, size_t))next)(alignment, at_least_one(size)) :
	    NULL;
	return block == NULL && errno == EINVAL ? NULL : checked(block, size);
}

void *
memalign(size_t alignment, size_t size)
{
	return aligned(find_next(&next_memalign, "memalign"), alignment, size);
}

void *
aligned_alloc(size_t alignment, size_t size)
{
	return aligned(
	    find_next(&next_aligned_alloc, "aligned_alloc"), alignment, size);
}

int
posix_memalign(void **memptr, size_t alignment, size_t size)
{
	uintptr_t next = find_next(&next_posix_memalign, "posix_memalign");
	int error = next != 0 ? ((int (*)(void **, size_t, size_t))next)(
				    memptr, alignment, at_least_one(size)) :
				ENOMEM;

	if (error == ENOMEM)
		end_short_of_memory(size);
	return error;
}
