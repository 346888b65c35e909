/*
 * The routes of all devices, the latest first. A request walks them without
 * keeping the lock, because filters are functions of the user's. It holds a
 * reference to the route that it looks at, and goes on to the latest route that
 * began before it.
 *
 * Note [Strays]
 *
 * A stray is a capture that the program made by CUDA's own calls without
 * registering it. weir finds it when a captured stream asks for memory. Memory
 * that the capture gets must not serve other streams while it goes on, so weir
 * gives the capture an arena of its own. A later request that sees that the
 * capture has ended drops the arena. If the program registers its graph before
 * that, the arena belongs to the graph.
 */
#include "allocator/private/route.h"

#include "allocator/cache/tcache.h"
#include "allocator/memory/keep.h"
#include "allocator/private/arenas.h"
#include "base/meta.h"
#include "base/os.h"
#include "base/status.h"
#include "streams/capture.h"

struct route {
	/* Constant. */
	uint64_t id;         /* a later route has a larger one */
	struct arena *arena; /* the route is one of its owners */
	struct route_match match;
	uint32_t thread;

	_Atomic(uint64_t) capture;
	struct list link;     /* in `routes`, until it ends */
	struct stream *stray; /* a reference; NULL: it is not for a stray */
	unsigned refs; /* its own, and those of requests that look at it */
};

static struct lock lock = LOCK_INITIALIZER(LOCK_RANK_ROUTES);
static struct list routes GUARDED_BY(lock) = { &routes, &routes };
static uint64_t last_id GUARDED_BY(lock);
static atomic_uint count;  /* routes; changed under the lock */
static atomic_uint strays; /* those for strays; changed under the lock */

static struct route *
route_of(struct list *link)
{
	return CONTAINER_OF(link, struct route, link);
}

/* ---- Beginning and ending ---------------------------------------------- */

/* Retire the caches of streams that the route may match. */
static void
retire_caches(const struct route *route)
{
	struct arena *main = route->arena->main;
	const struct stream *stream =
	    route->match.kind == ROUTE_STREAM ? route->match.stream : NULL;

	lock_enter(&main->lock);
	tcache_retire(main, stream, route->match.kind == ROUTE_THREAD);
	lock_leave(&main->lock);
}

enum weir_status
route_begin(
    struct arena *arena, const struct route_match *match, struct route **out)
{
	struct route *route = meta_zalloc(sizeof(*route));
	if (route == NULL)
		return status_set(WEIR_EHOSTMEM, "no host memory for a route");
	route->arena = arena;
	route->match = *match;
	route->thread = os_thread_id();
	route->refs = 1;
	atomic_init(&route->capture, match->capture);
	if (match->kind == ROUTE_STREAM)
		stream_ref(match->stream);
	arena_hold(arena);
	tcache_avoid(route_may_match);
	lock_enter(&lock);
	route->id = ++last_id;
	list_push_front(&routes, &route->link);
	atomic_fetch_add(&count, 1);
	lock_leave(&lock);
	retire_caches(route);
	*out = route;
	return WEIR_OK;
}

void
route_set_capture(struct route *route, uint64_t capture)
{
	atomic_store(&route->capture, capture);
}

static void
route_put(struct route *route)
{
	lock_enter(&lock);
	bool last = --route->refs == 0;
	lock_leave(&lock);
	if (!last)
		return;
	if (route->match.kind == ROUTE_STREAM)
		stream_put(route->match.stream);
	arena_drop(route->arena);
	meta_free(route, sizeof(*route));
}

void
route_end(struct route *route)
{
	lock_enter(&lock);
	list_remove(&route->link);
	atomic_fetch_sub(&count, 1);
	lock_leave(&lock);
	route_put(route);
}

/* ---- Matching ---------------------------------------------------------- */

/* The latest route of a device that began before route `id`, with a reference;
 * or NULL. */
static struct route *
route_before(const struct arena *main, uint64_t id)
{
	struct route *found = NULL;

	lock_enter(&lock);
	for (struct list *l = routes.next; l != &routes && found == NULL;
	     l = l->next)
		if (route_of(l)->id < id && route_of(l)->arena->main == main)
			found = route_of(l);
	if (found != NULL)
		found->refs++;
	lock_leave(&lock);
	return found;
}

static bool
route_matches(
    const struct route *route, struct stream *stream, uint64_t capture)
{
	switch (route->match.kind) {
	case ROUTE_CAPTURE:
		return capture != 0 && atomic_load(&route->capture) == capture;
	case ROUTE_THREAD:
		return route->thread == os_thread_id();
	case ROUTE_STREAM:
		return route->match.stream == stream;
	case ROUTE_FILTER:
		return route->match.filter(
		    stream->handle, route->match.closure);
	}
	return false;
}

static struct arena *
find_route(struct arena *main, struct stream *stream, uint64_t capture)
{
	struct arena *arena = NULL;
	struct route *route;

	for (uint64_t id = UINT64_MAX;
	     arena == NULL && (route = route_before(main, id)) != NULL;
	     route_put(route)) {
		id = route->id;
		if (route_matches(route, stream, capture))
			arena = route->arena;
		if (arena != NULL)
			arena_hold(arena);
	}
	return arena;
}

/* ---- Strays ------------------------------------------------------------ */

void
route_return_stray(struct route *route, struct stream *stream)
{
	lock_enter(&lock);
	route->stray = stream_ref(stream);
	atomic_fetch_add(&strays, 1);
	lock_leave(&lock);
}

/* Make an arena and a route for a stray capture. */
static enum weir_status
adopt_stray(struct arena *main, struct stream *stream, uint64_t capture,
    struct arena **out)
{
	struct route_match match = { .kind = ROUTE_CAPTURE,
		.capture = capture };
	struct route *route;
	struct arena *arena;
	enum weir_status status = arena_make(main, NULL, 0, &arena);
	if (status != WEIR_OK)
		return status;
	arena_keep(arena);
	status = route_begin(arena, &match, &route);
	if (status != WEIR_OK) {
		arena_unkeep(arena);
		arena_drop(arena);
		return status;
	}
	route_return_stray(route, stream);
	arena_hold(arena);
	*out = arena;
	return WEIR_OK;
}

/* Has the capture of a stray ended? A per-thread default stream can be asked
 * only on its own thread. */
static bool
has_ended(const struct route *route)
{
	const struct stream *stream = route->stray;
	uint64_t id;

	if (stream->thread != 0 && stream->thread != os_thread_id())
		return atomic_load(&stream->ended);
	status_mute();
	bool ended = capture_ask(stream, &id) == WEIR_OK &&
	    id != atomic_load(&route->capture);
	status_unmute();
	return ended;
}

/* Make a stray's route an ordinary one and return it: the route of this capture
 * or, if `capture` is 0, any whose capture has ended. NULL: there is none. */
static struct route *
claim_stray(const struct arena *main, uint64_t capture)
{
	struct stream *stream = NULL;
	struct route *route = NULL;

	lock_enter(&lock);
	for (struct list *l = routes.next; l != &routes && route == NULL;
	     l = l->next) {
		struct route *r = route_of(l);
		if (r->stray != NULL && r->arena->main == main &&
		    (capture == 0 ? has_ended(r) :
				    atomic_load(&r->capture) == capture))
			route = r;
	}
	if (route != NULL) {
		stream = route->stray;
		route->stray = NULL;
		atomic_fetch_sub(&strays, 1);
	}
	lock_leave(&lock);
	if (stream != NULL)
		stream_put(stream);
	return route;
}

size_t
route_tidy(const struct arena *main)
{
	struct route *route;
	size_t bytes = 0;

	while (atomic_load_explicit(&strays, memory_order_relaxed) > 0 &&
	    (route = claim_stray(main, 0)) != NULL) {
		struct arena *arena = route->arena;
		arena_hold(arena);
		route_end(route);
		arena_unkeep(arena);
		bytes += arena_drop(
		    arena); /* this function's hold, then the stray's */
		bytes += arena_drop(arena);
	}
	return bytes;
}

bool
route_claim_stray(const struct arena *main, uint64_t capture,
    struct route **route, struct arena **arena)
{
	struct route *found = claim_stray(main, capture);
	if (found == NULL)
		return false;
	*route = found;
	*arena = found->arena;
	return true;
}

/* ---- For a request ----------------------------------------------------- */

enum weir_status
route_find(struct arena *main, struct stream *stream, struct arena **out)
{
	*out = NULL;
	if (atomic_load_explicit(&strays, memory_order_relaxed) > 0)
		route_tidy(main);
	uint64_t capture;
	enum weir_status status = capture_ask(stream, &capture);
	if (status != WEIR_OK)
		return status;
	if (atomic_load_explicit(&count, memory_order_relaxed) > 0)
		*out = find_route(main, stream, capture);
	if (*out == NULL && capture != 0)
		return adopt_stray(main, stream, capture, out);
	return WEIR_OK;
}

bool
route_may_match(const struct stream *stream)
{
	bool may = false;

	if (atomic_load_explicit(&count, memory_order_relaxed) == 0)
		return false;
	lock_enter(&lock);
	for (struct list *l = routes.next; l != &routes && !may; l = l->next) {
		const struct route *route = route_of(l);
		if (route->arena->device != stream->device)
			continue;
		may = route->match.kind == ROUTE_THREAD ?
		    route->thread == os_thread_id() :
		    route->match.kind != ROUTE_STREAM ||
			route->match.stream == stream;
	}
	lock_leave(&lock);
	return may;
}
