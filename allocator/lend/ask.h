/*
 * Help for a request that finds no memory: that of other members of the group.
 */
#ifndef ALLOCATOR_LEND_ASK_H
#define ALLOCATOR_LEND_ASK_H

#include "allocator/state.h"

/* The help for one request. All fields start as zero. */
struct help {
	bool begun;
	bool queued; /* this request has the member's place in the queue */
	bool asked_sleepers;
	uint64_t asks_until_ns; /* before it stands in the queue */
	uint64_t ends_ns;       /* when it gives up */
};

/*
 * Ask other members of the device's group for their unused memory, those of the
 * lowest priority first, for at most `lend_ms`. If there is none, ask those
 * that are idle and may sleep to do so. If none does, wait in the queue until
 * some memory is given back, for at most `wait_ms` in all.
 *
 * Holds no lock.
 *
 * @param want  bytes that the request needs
 * @return true if the request may be tried again; false: there is no help
 */
bool help_request(struct help *help, struct arena *arena, size_t want);

/* The request was served, or has failed. */
void help_end(struct help *help, const struct arena *arena);

#endif
