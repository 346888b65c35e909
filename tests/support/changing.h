/*
 * Files that another process rewrites, cuts off and extends while they are
 * read. Each read succeeds, or fails with a text, within a limit of time and
 * memory. WEIR_TEST_EFFORT multiplies the number of reads.
 */
#ifndef TESTS_SUPPORT_CHANGING_H
#define TESTS_SUPPORT_CHANGING_H

#include <stdbool.h>
#include <stddef.h>

/* No content is longer. */
enum { CONTENT_MAX = 4 << 20 };

struct content {
	unsigned char *bytes; /* of malloc() */
	size_t size;
};

/* Reads a file. If that fails, writes the reason to `why`. */
typedef bool changing_reader(const char *path, char *why, size_t size);

/* The content of a file. */
struct content content_of(const char *path);

/* Read a file some hundred times while it changes, and at last with this
 * content, which must succeed. */
void changing_read(
    const char *path, const struct content *content, changing_reader *read);

#endif
