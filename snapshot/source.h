/*
 * Bytes that are read once, forwards, from memory or through a function that
 * delivers them in pieces. The reader gets the bytes that it asks for in one
 * piece. A length in the input is not trusted before that many bytes have
 * arrived.
 */
#ifndef SNAPSHOT_SOURCE_H
#define SNAPSHOT_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/weir.h>

#include "snapshot/budget.h"

/* Read up to `size` bytes. Returns how many; 0 at the end; or -1 with a message
 * set by status_set(). */
typedef ptrdiff_t (*source_read)(void *user, void *buffer, size_t size);

struct source {
	const uint8_t *at; /* the bytes in the buffer, up to `end` */
	const uint8_t *end;
	uint64_t end_offset; /* offset of `end` in the input */
	source_read read;    /* NULL: the whole input is in the buffer */
	void *user;
	uint8_t *buffer;
	size_t room;
	/* The limits for reading this input; NULL: none. source_fill() counts
	 * `decoded`, unless it is larger already; the caller counts `stored`.
	 * source_fill() and snapshot_read() put the limits in force, and
	 * snapshot_read() also ends them. */
	struct budget *budget;
};

/* Read an input that lies in memory, which stays the caller's. */
void source_of_memory(struct source *source, const void *bytes, size_t size);

/* Read an input through `read`. WEIR_EHOSTMEM. */
enum weir_status source_open(
    struct source *source, source_read read, void *user);

void source_close(struct source *source);

/* The offset of `at` in the input. */
static inline uint64_t
source_offset(const struct source *source)
{
	return source->end_offset - (uint64_t)(source->end - source->at);
}

static inline size_t
source_left(const struct source *source)
{
	return (size_t)(source->end - source->at);
}

/*
 * Buffer at least `size` bytes from `at` on, or all there are before the end of
 * the input. Bytes before `at` may be dropped.
 *
 * @return WEIR_OK, also at the end; WEIR_EHOSTMEM, also because of the budget;
 *         or the status that `read` has set
 */
enum weir_status source_fill(struct source *source, size_t size);

#endif
