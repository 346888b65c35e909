/*
 * A file that is written in one go, beside its place, and takes its place when
 * it is complete.
 */
#ifndef TRACE_OUT_H
#define TRACE_OUT_H

#include <stddef.h>

#include <weir/weir.h>

enum { OUT_BUFFER = 256 << 10, OUT_PATH_MAX = 4096 };

struct out {
	int fd;
	int error; /* of errno, of the first write that failed */
	size_t used;
	char path[OUT_PATH_MAX];
	char beside[OUT_PATH_MAX]; /* where it is until it is complete; "": the
				      file is the caller's */
	unsigned char buffer[OUT_BUFFER];
};

/* Begin a file that is to be at `path`, with mode 0600; nobody else has opened
 * it. WEIR_EINVAL, also for a path of a device or pipe; WEIR_EHOSTMEM. */
enum weir_status out_open(const char *path, struct out **out);

/* Write to an open file of the caller's, which stays open and keeps its name
 * whatever comes of it. WEIR_EHOSTMEM. */
enum weir_status out_onto(int fd, struct out **out);

/* Have all of it written, and give it its place. WEIR_EINVAL if that or any
 * write before failed; then there is nothing of it. `out` is gone. */
enum weir_status out_close(struct out *out);

/* Leave nothing of it. */
void out_abandon(struct out *out);

/* Write out the buffer; out_close() reports failures. */
void out_flush(struct out *out);

void out_bytes(struct out *out, const void *bytes, size_t n);

/* Room for n bytes, of at most OUT_BUFFER, to be followed by out_taken(). */
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
