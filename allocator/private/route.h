/*
 * A route sends requests to another arena than the device's own.
 *
 * If several routes of a device match a request, the latest decides. While a
 * route may match a stream, threads keep no cache for that stream, so that each
 * of its requests takes the slow path, which asks for the route.
 */
#ifndef ALLOCATOR_PRIVATE_ROUTE_H
#define ALLOCATOR_PRIVATE_ROUTE_H

#include "allocator/state.h"

struct route;

/* The requests that a route matches. */
struct route_match {
	enum route_kind {
		ROUTE_CAPTURE, /* streams that are in one capture */
		ROUTE_THREAD,  /* the thread that begins the route */
		ROUTE_STREAM,
		ROUTE_FILTER, /* streams that a function accepts */
	} kind;
	uint64_t capture; /* 0: none yet, see route_set_capture() */
	struct stream *stream;
	bool (*filter)(weir_stream stream, void *closure);
	void *closure;
	bool serves_driver; /* requests to the driver, too */
};

/* Begin a route: requests that match go to `arena`. The route owns the arena,
 * with others, until it ends. The caller holds no lock. WEIR_EHOSTMEM. */
enum weir_status route_begin(
    struct arena *arena, const struct route_match *match, struct route **out);

/* Set the capture of a ROUTE_CAPTURE route, once it has begun. */
void route_set_capture(struct route *route, uint64_t capture);

/* End a route, once. Its arena may still serve a request that has matched
 * already. */
void route_end(struct route *route);

/*
 * Find the arena for a request of this thread. The caller becomes an owner and
 * drops it; NULL: the device's own. An unregistered capture gets a route to an
 * arena of its own: Note [Unregistered captures]. The caller holds no lock;
 * filters are called.
 * WEIR_EHOSTMEM; WEIR_ECONTEXT or WEIR_EDRIVER if the driver does not say
 * whether the stream is captured.
 */
enum weir_status route_find(
    struct arena *main, struct stream *stream, struct arena **out);

/*
 * Begin and end a request of this thread to the driver. No route serves it that
 * does not say so, unless its stream is captured: Note [Requests to the
 * driver].
 */
void route_driver_begin(void);
void route_driver_end(void);

/* Drop the arenas of unregistered captures that have ended; returns the bytes
 * given back. Holds no lock. */
size_t route_tidy(const struct arena *main);

/* Take over the route of an unregistered capture, and its arena with one hold
 * and one keep, or hand them back. False: there is no such capture. */
bool route_claim_unregistered(const struct arena *main, uint64_t capture,
    struct route **route, struct arena **arena);
void route_return_unregistered(struct route *route, struct stream *stream);

/* May a route match this stream, on this thread? Under any arena's lock. */
bool route_may_match(const struct stream *stream);

#endif
