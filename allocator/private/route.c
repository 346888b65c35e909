/*
 * The routes of all devices: a tree for each kind, by what a route of the kind
 * matches and by when it began. So a request finds the latest route of its
 * capture, its thread and its stream without a look at the others. Only filters
 * are asked one after the other, those that began later than the route that was
 * found. They are functions of the user's, and called without the lock; the
 * request holds a reference to the route that it looks at.
 *
 * Note [Unregistered captures]
 *
 * An unregistered capture is one that the program made by CUDA's own calls
 * alone. weir finds it when a captured stream asks for memory. Memory
 * that the capture gets must not serve other streams while it goes on, so weir
 * gives the capture an arena of its own. A later request that sees that the
 * capture has ended drops the arena. If the program registers its graph before
 * that, the arena belongs to the graph.
 *
 * Note [Requests to the driver]
 *
 * The preload serves what the program asks of the driver, on any thread: the
 * memory of a library's handle too, which is made in the midst of other work.
 * Routes are for requests to weir. Who routes them to a pool knows what lives
 * in it, discards or restores its contents, and frees what a checkpoint does
 * not have. So requests to the driver pass over routes, but for those of pools
 * whose maker wants all. If their stream is captured they do not: what the
 * capture frees must serve no one else as long as the graph lives.
 */
#include "allocator/private/route.h"

#include "allocator/cache/tcache.h"
#include "allocator/memory/keep.h"
#include "allocator/private/arenas.h"
#include "allocator/private/sleeping.h"
#include "base/meta.h"
#include "base/os.h"
#include "base/status.h"
#include "base/tree.h"
#include "streams/capture.h"

struct route {
	/* Constant. */
	uint64_t id;         /* a later route has a larger one */
	struct arena *arena; /* the route is one of its owners */
	struct route_match match;

	/* The number of the capture or thread, or the address of the stream,
	 * that it matches; 0 for a filter. */
	uint64_t key;
	struct tree_node node;    /* in the tree of its kind, until it ends */
	struct stream *capturing; /* a reference, if it is for an unregistered
				     capture; else NULL */
	struct list link;         /* in `captures`, if it is for one */
	unsigned refs; /* its own, and those of requests that look at it */
};

enum { ROUTE_KINDS = ROUTE_FILTER + 1 };

static struct lock lock = LOCK_INITIALIZER(LOCK_RANK_ROUTES);
/* Each is set up by the first route of its kind. */
static struct tree trees[ROUTE_KINDS] GUARDED_BY(lock);
/* Routes for unregistered captures. */
static struct list captures GUARDED_BY(lock) = { &captures, &captures };
static uint64_t last_id GUARDED_BY(lock);
static _Thread_local bool to_driver; /* this thread's request is */
static atomic_uint count;            /* routes; changed under the lock */
static atomic_uint capture_count;    /* those in `captures`; likewise */

static struct route *
route_of(struct tree_node *node)
{
	return CONTAINER_OF(node, struct route, node);
}

static uint64_t
stream_key(const struct stream *stream)
{
	return (uintptr_t)stream;
}

static uint64_t
match_key(const struct route_match *match)
{
	ASSERT(match->kind <= ROUTE_FILTER);
	switch (match->kind) {
	case ROUTE_CAPTURE:
		return match->capture;
	case ROUTE_THREAD:
		return os_thread_id();
	case ROUTE_STREAM:
		return stream_key(match->stream);
	case ROUTE_FILTER:
		break;
	}
	return 0;
}

/* The caller holds the lock. */
static void
insert_route(struct route *route)
{
	struct tree *tree = &trees[route->match.kind];

	ASSERT(route->arena != NULL);
	if (tree->count == 0)
		tree_init(tree, TREE_KEY(struct route, node, key, id));
	tree_insert(tree, &route->node);
}

/* The latest route of a kind that matches a key and began before route `id`,
 * for any device; or NULL. The caller holds the lock. */
static struct route *
latest_before(enum route_kind kind, uint64_t key, uint64_t id)
{
	const struct route wanted = { .key = key, .id = id };
	struct tree *tree = &trees[kind];
	struct tree_node *node;

	ASSERT(kind <= ROUTE_FILTER);
	if (tree->count == 0)
		return NULL;
	node = tree_lower_bound(tree, &wanted.node);
	node = node != NULL ? tree_prev(node) : tree_last(tree);
	return node != NULL && route_of(node)->key == key ? route_of(node) :
							    NULL;
}

/* A request for which a route is looked for. */
struct wanted {
	const struct arena *main;
	const struct stream *stream;
	uint64_t capture; /* 0: the stream is not captured */
	bool to_driver;   /* and not captured */
};

/* Likewise, one that may serve the request. */
static struct route *
latest_for(const struct wanted *wanted, enum route_kind kind, uint64_t key,
    uint64_t id)
{
	struct route *route = latest_before(kind, key, id);

	while (route != NULL &&
	    (route->arena->main != wanted->main ||
		(wanted->to_driver && !route->match.serves_driver)))
		route = latest_before(kind, key, route->id);
	return route;
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
	ASSERT(match->kind != ROUTE_STREAM || match->stream != NULL);
	ASSERT(match->kind != ROUTE_FILTER || match->filter != NULL);
	struct route *route = meta_zalloc(sizeof(*route));
	if (route == NULL)
		return status_set(WEIR_EHOSTMEM, "no host memory for a route");
	route->arena = arena;
	route->match = *match;
	route->key = match_key(match);
	route->refs = 1;
	if (match->kind == ROUTE_STREAM)
		stream_ref(match->stream);
	arena_hold(arena);
	tcache_avoid(route_may_match);
	lock_enter(&lock);
	route->id = ++last_id;
	insert_route(route);
	atomic_fetch_add(&count, 1);
	lock_leave(&lock);
	retire_caches(route);
	*out = route;
	return WEIR_OK;
}

void
route_set_capture(struct route *route, uint64_t capture)
{
	ASSERT(route->match.kind == ROUTE_CAPTURE);
	lock_enter(&lock);
	tree_remove(&trees[ROUTE_CAPTURE], &route->node);
	route->key = capture;
	insert_route(route);
	lock_leave(&lock);
}

static void
route_put(struct route *route)
{
	lock_enter(&lock);
	ASSERT(route->refs > 0);
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
	ASSERT(route->refs > 0 && route->capturing == NULL);
	tree_remove(&trees[route->match.kind], &route->node);
	atomic_fetch_sub(&count, 1);
	lock_leave(&lock);
	route_put(route);
}

/* ---- Matching ---------------------------------------------------------- */

static struct route *
later_of(struct route *a, struct route *b)
{
	return a == NULL || (b != NULL && b->id > a->id) ? b : a;
}

/* The latest route that is no filter and serves the request, with a reference;
 * or NULL. */
static struct route *
find_plain_route(const struct wanted *wanted)
{
	struct route *found;

	ASSERT(wanted->main == wanted->main->main);
	lock_enter(&lock);
	found = latest_for(
	    wanted, ROUTE_STREAM, stream_key(wanted->stream), UINT64_MAX);
	found = later_of(found,
	    latest_for(wanted, ROUTE_THREAD, os_thread_id(), UINT64_MAX));
	if (wanted->capture != 0)
		found = later_of(found,
		    latest_for(
			wanted, ROUTE_CAPTURE, wanted->capture, UINT64_MAX));
	if (found != NULL)
		found->refs++;
	lock_leave(&lock);
	return found;
}

/* The latest filter for the request that began before route `id`, with a
 * reference; or NULL. */
static struct route *
filter_before(const struct wanted *wanted, uint64_t id)
{
	struct route *found;

	ASSERT(wanted->main == wanted->main->main);
	lock_enter(&lock);
	found = latest_for(wanted, ROUTE_FILTER, 0, id);
	if (found != NULL)
		found->refs++;
	lock_leave(&lock);
	return found;
}

/* The latest filter after route `since` that accepts the stream, with a
 * reference; or NULL. */
static struct route *
find_filter(const struct wanted *wanted, uint64_t since)
{
	struct route *route = filter_before(wanted, UINT64_MAX);

	while (route != NULL && route->id > since &&
	    !route->match.filter(
		wanted->stream->handle, route->match.closure)) {
		uint64_t id = route->id;

		route_put(route);
		route = filter_before(wanted, id);
	}
	if (route == NULL || route->id > since)
		return route;
	route_put(route);
	return NULL;
}

/* The arena of the route that serves the request, with a hold; or NULL. */
static struct arena *
find_route(const struct wanted *wanted)
{
	struct route *plain = find_plain_route(wanted);
	struct route *filter =
	    find_filter(wanted, plain != NULL ? plain->id : 0);
	struct route *route = filter != NULL ? filter : plain;
	struct arena *arena = NULL;

	if (route != NULL) {
		arena = route->arena;
		arena_hold(arena);
	}
	if (plain != NULL)
		route_put(plain);
	if (filter != NULL)
		route_put(filter);
	return arena;
}

/* ---- Unregistered captures --------------------------------------------- */

void
route_return_unregistered(struct route *route, struct stream *stream)
{
	ASSERT(route->match.kind == ROUTE_CAPTURE);
	ASSERT(route->capturing == NULL && stream != NULL);
	lock_enter(&lock);
	route->capturing = stream_ref(stream);
	list_push_front(&captures, &route->link);
	atomic_fetch_add(&capture_count, 1);
	lock_leave(&lock);
}

/* Make an arena and a route for an unregistered capture. */
static enum weir_status
adopt_unregistered(struct arena *main, struct stream *stream, uint64_t capture,
    struct arena **out)
{
	ASSERT(main == main->main && capture != 0);
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
	route_return_unregistered(route, stream);
	arena_hold(arena);
	*out = arena;
	return WEIR_OK;
}

/* Has an unregistered capture ended? A per-thread default stream can be asked
 * only on its own thread. */
static bool
has_ended(const struct route *route)
{
	const struct stream *stream = route->capturing;
	uint64_t id;

	ASSERT(route->capturing != NULL);
	if (stream->thread != 0 && stream->thread != os_thread_id())
		return atomic_load(&stream->ended);
	status_mute();
	bool ended = capture_ask(stream, &id) == WEIR_OK && id != route->key;
	status_unmute();
	return ended;
}

/* Make the route of an unregistered capture an ordinary one and return it: the
 * route of this capture or, if `capture` is 0, any whose capture has ended.
 * NULL: there is none. */
static struct route *
claim_unregistered(const struct arena *main, uint64_t capture)
{
	struct stream *stream = NULL;
	struct route *route = NULL;

	ASSERT(main == main->main);
	lock_enter(&lock);
	for (struct list *l = captures.next; l != &captures && route == NULL;
	     l = l->next) {
		struct route *r = CONTAINER_OF(l, struct route, link);
		if (r->arena->main == main &&
		    (capture == 0 ? has_ended(r) : r->key == capture))
			route = r;
	}
	if (route != NULL) {
		stream = route->capturing;
		route->capturing = NULL;
		list_remove(&route->link);
		atomic_fetch_sub(&capture_count, 1);
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

	while (atomic_load_explicit(&capture_count, memory_order_relaxed) > 0 &&
	    (route = claim_unregistered(main, 0)) != NULL) {
		struct arena *arena = route->arena;
		arena_hold(arena);
		route_end(route);
		arena_unkeep(arena);
		bytes += arena_drop(
		    arena); /* this function's hold, then the capture's */
		bytes += arena_drop(arena);
	}
	return bytes;
}

bool
route_claim_unregistered(const struct arena *main, uint64_t capture,
    struct route **route, struct arena **arena)
{
	ASSERT(capture != 0);
	struct route *found = claim_unregistered(main, capture);
	if (found == NULL)
		return false;
	*route = found;
	*arena = found->arena;
	return true;
}

/* ---- For a request ----------------------------------------------------- */

void
route_driver_begin(void)
{
	ASSERT(!to_driver);
	to_driver = true;
}

void
route_driver_end(void)
{
	to_driver = false;
}

enum weir_status
route_find(struct arena *main, struct stream *stream, struct arena **out)
{
	ASSERT(main == main->main);
	*out = NULL;
	if (atomic_load_explicit(&capture_count, memory_order_relaxed) > 0)
		route_tidy(main);
	uint64_t capture;
	enum weir_status status = capture_ask(stream, &capture);
	if (status != WEIR_OK)
		return status;
	if (atomic_load_explicit(&count, memory_order_relaxed) > 0)
		*out = find_route(&(struct wanted){
		    main, stream, capture, to_driver && capture == 0 });
	if (*out == NULL && capture != 0)
		return adopt_unregistered(main, stream, capture, out);
	return WEIR_OK;
}

/* Is there a route of the kind for the device? The caller holds the lock. */
static bool
kind_has_device(enum route_kind kind, int device)
{
	struct tree_node *node = NULL;

	ASSERT(kind <= ROUTE_FILTER);
	if (trees[kind].count > 0)
		node = tree_first(&trees[kind]);
	while (node != NULL && route_of(node)->arena->device != device)
		node = tree_next(node);
	return node != NULL;
}

/* Likewise, a route that matches the key. */
static bool
key_has_device(enum route_kind kind, uint64_t key, int device)
{
	struct route *route = latest_before(kind, key, UINT64_MAX);

	while (route != NULL && route->arena->device != device)
		route = latest_before(kind, key, route->id);
	return route != NULL;
}

bool
route_may_match(const struct stream *stream)
{
	int device = stream->device;
	bool may;

	if (sleeping_is(device)) /* its requests wait, on the slow path */
		return true;
	if (atomic_load_explicit(&count, memory_order_relaxed) == 0)
		return false;
	lock_enter(&lock);
	may = kind_has_device(ROUTE_CAPTURE, device) ||
	    kind_has_device(ROUTE_FILTER, device) ||
	    key_has_device(ROUTE_STREAM, stream_key(stream), device) ||
	    key_has_device(ROUTE_THREAD, os_thread_id(), device);
	lock_leave(&lock);
	return may;
}
