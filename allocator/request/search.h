/*
 * Serving a request from free memory, with no wait, no mapping and nothing new.
 */
#ifndef ALLOCATOR_REQUEST_SEARCH_H
#define ALLOCATOR_REQUEST_SEARCH_H

#include "allocator/memory/arena.h"
#include "allocator/memory/pool.h"
#include "allocator/request/request.h"
#include "trace/served.h"

/* More than the pool itself is looked at. */
void search_begin(struct request *r);

/* Count a request that more than its own pool has served. */
void search_count_served(const struct request *r, enum served_by by);

/* Find the best row of neighbouring blocks that are good, of any pools, and
 * long enough: of equals the one that takes fewest waits. False if there is
 * none. */
bool search_find_span(struct request *r,
    bool (*is_good)(void *r, const struct block *), struct span *span);

/* The last block of a span that the request needs. */
struct block *search_last_needed(
    const struct request *r, const struct span *span);

/* Serve the request from a span: neighbours of any pools. */
enum weir_status search_hand_span(struct request *r, struct span span);

/* The best block of the pool itself. Requests of no stream are served from
 * segments of the driver only. */
static inline enum weir_status
search_own(struct request *r)
{
	struct stream_heap *mine = r->heap;

	return pool_take(&mine->pool[r->kind], r->options, r->rounded,
	    mine == mine->arena->any_heap, &r->got);
}

/* The best block of those of no stream, for others. */
enum weir_status search_any(struct request *r);

/* The pool's own, then those of no stream. */
enum weir_status search_free(struct request *r);

/* The best row of neighbours, of any pools, that is ready for the stream. Sets
 * `got_own`. */
enum weir_status search_ready(struct request *r);

/* Everything that takes no wait, no mapping and nothing new. */
enum weir_status search_all(struct request *r);

#endif
