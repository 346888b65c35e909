/*
 * An allocator that fails one allocation of the weir command, or all from one
 * on. SHORT_MALLOC names a file with a `struct short_malloc`, which the test
 * and all processes of the command share.
 */
#include "tests/tools/fake/short_malloc.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define SHOWN __attribute__((visibility("default")))

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *old, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);

/* The C library declares them too, without this attribute. */
/* NOLINTBEGIN(readability-*) */
SHOWN void *malloc(size_t size);
SHOWN void *calloc(size_t nmemb, size_t size);
SHOWN void *realloc(void *ptr, size_t size);
SHOWN void *memalign(size_t alignment, size_t size);
SHOWN void *aligned_alloc(size_t alignment, size_t size);
SHOWN int posix_memalign(void **memptr, size_t alignment, size_t size);
/* NOLINTEND(readability-*) */

static struct short_malloc *shared;

/* Programs that the command starts have all their memory. */
__attribute__((constructor)) static void
join_test(void)
{
	const char *path = getenv("SHORT_MALLOC");
	int fd;
	void *map;

	if (path == NULL || strcmp(program_invocation_short_name, "weir") != 0)
		return;
	fd = open(path, O_RDWR | O_CLOEXEC);
	map = mmap(
	    NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (fd < 0 || map == MAP_FAILED)
		_exit(125);
	close(fd);
	shared = map;
}

static int
fails(void)
{
	unsigned n;

	if (shared == NULL)
		return 0;
	n = 1 + __atomic_fetch_add(&shared->count, 1, __ATOMIC_RELAXED);
	if (shared->at == 0 || n < shared->at ||
	    (n > shared->at && !shared->lasts))
		return 0;
	errno = ENOMEM;
	return 1;
}

void *
malloc(size_t size)
{
	return fails() ? NULL : __libc_malloc(size);
}

void *
calloc(size_t nmemb, size_t size)
{
	return fails() ? NULL : __libc_calloc(nmemb, size);
}

void *
realloc(void *ptr, size_t size)
{
	return fails() ? NULL : __libc_realloc(ptr, size);
}

void *
memalign(size_t alignment, size_t size)
{
	return fails() ? NULL : __libc_memalign(alignment, size);
}

void *
aligned_alloc(size_t alignment, size_t size)
{
	return memalign(alignment, size);
}

int
posix_memalign(void **memptr, size_t alignment, size_t size)
{
	void *block = memalign(alignment, size);

	if (block == NULL)
		return ENOMEM;
	*memptr = block;
	return 0;
}
