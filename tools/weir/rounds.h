/*
 * Programs that repeat themselves: how many of their requests get another
 * address than in the round before.
 *
 * A row `n` of a trace begins a round of a stream: what the stream allocates
 * from there on it has allocated in the round before too, in this order.
 * Requests that have another size at their place are not compared.
 */
#ifndef TOOLS_WEIR_ROUNDS_H
#define TOOLS_WEIR_ROUNDS_H

#include <stdbool.h>
#include <stdint.h>

struct rounds;

/* For streams by their number. NULL without memory. */
struct rounds *rounds_new(unsigned streams);
void rounds_free(struct rounds *rounds);

/* A round of a stream begins. */
void rounds_begin(struct rounds *rounds, unsigned stream);

/* The stream's next request was served. False without memory. */
bool rounds_add(
    struct rounds *rounds, unsigned stream, uint64_t size, const void *address);

/* Count from now on: programs settle first. */
void rounds_reset(struct rounds *rounds);

struct rounds_count {
	bool any;          /* a round has ever begun */
	uint64_t compared; /* requests that the round before had too */
	uint64_t changed;  /* of these, those at another address */
};
struct rounds_count rounds_count(const struct rounds *rounds);

#endif
