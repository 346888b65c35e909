/*
 * Serves a request from free memory, without a wait, a move or new memory.
 */
#ifndef ALLOCATOR_REQUEST_SEARCH_H
#define ALLOCATOR_REQUEST_SEARCH_H

#include "allocator/memory/arena.h"
#include "allocator/memory/pool.h"
#include "allocator/request/request.h"
#include "trace/served.h"

/* Begin to search more than the request's own pool. */
void search_begin(struct request *r) HOLDS(r->heap->arena->lock);

/* Count a request that was not served by its own pool alone. */
void search_count_served(const struct request *r, enum served_by by)
    HOLDS(r->heap->arena->lock);

/* Find the best row of neighbouring good blocks, of any pools, that is large
 * enough; among equal ones, the row that needs the fewest waits. False if there
 * is none. */
bool search_find_span(struct request *r,
    bool (*is_good)(void *r, const struct block *), struct span *span);

/* The last block of a span that the request needs. */
struct block *search_last_needed(
    const struct request *r, const struct span *span);

/* Serve the request from a span of FREE neighbours of any pools. */
enum weir_status search_hand_span(struct request *r, struct span span)
    HOLDS(r->heap->arena->lock);

/* Find a row of good blocks with the place that the request had the round
 * before: places.h, Note [The same place again]. Its first block may begin
 * before the place. False if there is none. */
bool search_find_place(struct request *r,
    bool (*is_good)(void *r, const struct block *), struct span *span);

/* Serve the request there, from a span of FREE neighbours. */
enum weir_status search_hand_place(struct request *r, struct span span)
    HOLDS(r->heap->arena->lock);

/* Has all of the request's place memory, in whatever state? */
bool search_place_is_mapped(const struct request *r)
    HOLDS(r->heap->arena->lock);

/* Serve the request there, if it may use the memory without a wait. Sets
 * `got_own`. */
enum weir_status search_place(struct request *r) HOLDS(r->heap->arena->lock);

/* Serve the request from the best run of its own pool. Device-scope requests
 * use driver segments only. */
static inline enum weir_status
search_own(struct request *r)
{
	struct stream_heap *mine = r->heap;

	lock_assert_held(&mine->pool[r->kind].owner->arena->lock);
	return pool_take(&mine->pool[r->kind], r->options, r->rounded,
	    heap_is_device_scope(mine), &r->got);
}

/* Serve a request of a stream from the best run of complete memory. */
enum weir_status search_any(struct request *r);

/* Try search_own(), then search_any(). */
enum weir_status search_free(struct request *r);

/* Serve the request from the best row of neighbours, of any pools, that it may
 * use without a wait. Sets `got_own`. */
enum weir_status search_ready(struct request *r) HOLDS(r->heap->arena->lock);

/* Likewise, from memory in no range of places. */
enum weir_status search_elsewhere(struct request *r)
    HOLDS(r->heap->arena->lock);

/* Try search_free(), then search_ready(). */
enum weir_status search_all(struct request *r) HOLDS(r->heap->arena->lock);

#endif
