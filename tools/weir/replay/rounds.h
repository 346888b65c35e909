/*
 * Rounds of programs that repeat themselves: the number of requests that get
 * another address than in the round before.
 *
 * A row `n` of a trace begins a round of a stream. The stream's requests from
 * there on repeat those of the round before, in their order. A request is
 * compared with the request at its place in the round before if both have the
 * same size.
 */
#ifndef TOOLS_WEIR_REPLAY_ROUNDS_H
#define TOOLS_WEIR_REPLAY_ROUNDS_H

#include <stdbool.h>
#include <stdint.h>

/* Bytes above which a request is large: weir keeps those in other segments, and
 * plans have places for them only. */
enum { ROUNDS_LARGE_ABOVE = 1 << 20 };

struct rounds;

/* Make a record of `streams` streams. NULL without memory. */
struct rounds *rounds_new(unsigned streams);
void rounds_free(struct rounds *rounds);

/* Begin a round of a stream. */
void rounds_begin(struct rounds *rounds, unsigned stream);

/* Add the stream's next request, which was served. False without memory. */
bool rounds_add(
    struct rounds *rounds, unsigned stream, uint64_t size, const void *address);

/* Set the counts to 0. Programs change addresses more often at first. */
void rounds_reset(struct rounds *rounds);

struct rounds_count {
	bool any;          /* a round has ever begun */
	uint64_t compared; /* requests that the round before had too */
	uint64_t changed;  /* of these, those at another address */
	/* Likewise, of large requests. */
	uint64_t large_compared;
	uint64_t large_changed;
};
struct rounds_count rounds_count(const struct rounds *rounds);

#endif
