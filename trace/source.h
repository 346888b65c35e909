/*
 * Bytes that are read once, forwards, from memory or through a function that
 * gives them in pieces. A reader gets the bytes that it asks for in one piece.
 * A length in the input is not trusted before that many bytes have arrived.
 */
#ifndef TRACE_SOURCE_H
#define TRACE_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/weir.h>

#include "trace/budget.h"

/* Read up to `size` bytes; how many, 0 at the end, or -1, and told by
 * status_set(). */
typedef ptrdiff_t (*source_read)(void *user, void *buffer, size_t size);

struct source {
	const uint8_t *at; /* bytes at hand, from here to `end` */
	const uint8_t *end;
	uint64_t end_offset; /* of `end`, in the input */
	source_read read;    /* NULL if all is at hand */
	void *user;
	uint8_t *buffer;
	size_t room;
	/* The limits on what is made of the input; NULL: none. `decoded` is
	 * counted here, unless it is more already, `stored` by the caller.
	 * source_fill() puts it in force, and snapshot_read(), which also ends
	 * it. */
	struct budget *budget;
};

/* All of the input lies in memory, which stays the caller's. */
void source_of_memory(struct source *source, const void *bytes, size_t size);

/* The input comes from `read`; WEIR_EHOSTMEM. */
enum weir_status source_open(
    struct source *source, source_read read, void *user);

void source_close(struct source *source);

/* Where `at` is in the input. */
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
 * Have at least `size` bytes at hand from `at` on; what is before `at` may be
 * gone then. Fewer are there at the end of the input only.
 *
 * @return WEIR_OK, also at the end; WEIR_EHOSTMEM, also by the budget; or what
 *         `read` told
 */
enum weir_status source_fill(struct source *source, size_t size);

#endif
