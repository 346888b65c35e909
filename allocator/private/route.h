/*
 * Routes: which arena a request goes to, if not the device's own.
 *
 * If several routes of a device match a request, the one that began last
 * decides. While a route can match a stream, threads keep no cache for that
 * stream, so that every request it may be for takes the slow way and is seen
 * here.
 */
#ifndef ALLOCATOR_PRIVATE_ROUTE_H
#define ALLOCATOR_PRIVATE_ROUTE_H

#include "allocator/memory/types.h"

struct route;

/* The requests that a route matches. */
struct route_match {
	enum route_kind {
		ROUTE_CAPTURE, /* any stream that is in one capture */
		ROUTE_THREAD,  /* the thread that begins the route */
		ROUTE_STREAM,
		ROUTE_FILTER, /* what a function says */
	} kind;
	uint64_t capture; /* 0: none yet, see route_set_capture() */
	struct stream *stream;
	bool (*filter)(weir_stream stream, void *closure);
	void *closure;
};

/* Begin a route: requests that match go to `arena`, which the route holds until
 * it ends. Holds no lock. WEIR_EHOSTMEM. */
enum weir_status route_begin(
    struct arena *arena, const struct route_match *match, struct route **out);

/* The capture of a route has begun. */
void route_set_capture(struct route *route, uint64_t capture);

/* End a route, once. A request that has matched already may still be served by
 * its arena. */
void route_end(struct route *route);

/*
 * The arena for a request of this thread, held for the caller to drop; NULL:
 * the device's own. A capture that no route is for gets one to an arena of its
 * own, until it ends: Note [Strays]. Holds no lock; filters are called.
 * WEIR_EHOSTMEM; WEIR_ECONTEXT, WEIR_EDRIVER if it cannot be told whether the
 * stream is captured.
 */
enum weir_status route_find(
    struct arena *main, struct stream *stream, struct arena **out);

/* Drop the arenas of stray captures that have ended; returns the bytes given
 * back. Holds no lock. */
size_t route_tidy(const struct arena *main);

/* Take over the route and the arena (a hold and a keep) of a stray capture, or
 * give them back; false: there is no such capture. */
bool route_take_stray(const struct arena *main, uint64_t capture,
    struct route **route, struct arena **arena);
void route_give_stray(struct route *route, struct stream *stream);

/* May a route match this stream, on this thread? Under any arena's lock. */
bool route_may_match(const struct stream *stream);

#endif
