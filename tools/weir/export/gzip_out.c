/*
 * A stream that compresses while it is written, so that a large export is never
 * in memory as a whole.
 */
#include "tools/weir/export/gzip_out.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "tools/weir/tuning.h"

enum { GZIP_WINDOW = 15 + 16, DEFAULT_MEMORY = 8 };

struct gzip {
	z_stream deflate;
	FILE *out;
	unsigned char chunk[GZIP_CHUNK];
};

bool
gzip_is_named(const char *path)
{
	size_t length = strlen(path);

	return length > 3 && strcmp(path + length - 3, ".gz") == 0;
}

/* Deflate all of zlib's input. False if the file cannot be written. */
static bool
deflate_input(struct gzip *gzip, int how)
{
	do {
		size_t n;

		gzip->deflate.next_out = gzip->chunk;
		gzip->deflate.avail_out = GZIP_CHUNK;
		deflate(&gzip->deflate, how);
		n = GZIP_CHUNK - gzip->deflate.avail_out;
		if (fwrite(gzip->chunk, 1, n, gzip->out) != n)
			return false;
	} while (gzip->deflate.avail_out == 0);
	return true;
}

static ssize_t
write_gzip(void *cookie, const char *bytes, size_t n)
{
	struct gzip *gzip = cookie;

	gzip->deflate.next_in = (Bytef *)(uintptr_t)bytes;
	gzip->deflate.avail_in = (uInt)n;
	return deflate_input(gzip, Z_NO_FLUSH) ? (ssize_t)n : 0;
}

static int
close_gzip(void *cookie)
{
	struct gzip *gzip = cookie;
	bool good = deflate_input(gzip, Z_FINISH);
	int error = errno;

	deflateEnd(&gzip->deflate);
	free(gzip);
	errno = error;
	return good ? 0 : EOF;
}

FILE *
gzip_out(FILE *out)
{
	const cookie_io_functions_t calls = { .write = write_gzip,
		.close = close_gzip };
	struct gzip *gzip = calloc(1, sizeof(*gzip));
	FILE *file;

	if (gzip == NULL)
		return NULL;
	gzip->out = out;
	if (deflateInit2(&gzip->deflate, Z_DEFAULT_COMPRESSION, Z_DEFLATED,
		GZIP_WINDOW, DEFAULT_MEMORY, Z_DEFAULT_STRATEGY) != Z_OK) {
		free(gzip);
		return NULL;
	}
	file = fopencookie(gzip, "w", calls);
	if (file == NULL) {
		deflateEnd(&gzip->deflate);
		free(gzip);
	}
	return file;
}
