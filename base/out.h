/*
 * A file that is written under a temporary name beside its place and renamed
 * when it is complete.
 */
#ifndef BASE_OUT_H
#define BASE_OUT_H

#include <stdbool.h>
#include <stddef.h>

#include <weir/weir.h>

#include "base/tuning.h"

enum { OUT_PATH_MAX = 4096 };

struct out {
	int fd;
	int error; /* errno of the first write that failed */
	size_t used;
	char path[OUT_PATH_MAX];
	/* The temporary name; "": the file is the caller's. */
	char beside[OUT_PATH_MAX];
	unsigned char buffer[OUT_BUFFER];
};

/* Is there a device, pipe or socket, or a link into /proc as /dev/stdout is?
 * Renaming a file over it would remove it for every process. */
bool out_is_special(const char *path);

/* Begin a file that is to be at `path`, with mode 0600 and opened by nobody
 * else. WEIR_EINVAL, also if the path is a device or pipe; WEIR_EHOSTMEM. */
enum weir_status out_open(const char *path, struct out **out);

/* Write to a file that the caller has opened. It stays open and keeps its name,
 * whether or not writing succeeds. WEIR_EHOSTMEM. */
enum weir_status out_onto(int fd, struct out **out);

/* Write out the rest, rename the file to its place and free `out`. If this or
 * an earlier write failed, the file is removed and the status is WEIR_EINVAL.
 */
enum weir_status out_close(struct out *out);

/* Remove the file and free `out`. */
void out_abandon(struct out *out);

/* Remove all files that are not complete, for a process that ends at once. This
 * neither allocates nor takes a lock. */
void out_unlink_open(void);

/* Write out the buffer; out_close() reports failures. */
void out_flush(struct out *out);

void out_bytes(struct out *out, const void *bytes, size_t n);

/* Reserve n bytes of the buffer, at most OUT_BUFFER. The caller fills them and
 * calls out_taken(). */
static inline unsigned char *
out_room(struct out *out, size_t n)
{
	if (OUT_BUFFER - out->used < n)
		out_flush(out);
	return out->buffer + out->used;
}

static inline void
out_taken(struct out *out, size_t n)
{
	out->used += n;
}

static inline void
out_byte(struct out *out, unsigned char byte)
{
	*out_room(out, 1) = byte;
	out_taken(out, 1);
}

#endif
