/*
 * Routes: which arena a request goes to, by thread, stream, filter and capture;
 * that thread caches do not bypass them; and unregistered
 * captures.
 */
#include "allocator/private/route.h"

#include <pthread.h>

#include "allocator/memory/arena.h"
#include "allocator/memory/lookup.h"
#include "allocator/private/arenas.h"
#include "base/meta.h"
#include "streams/capture.h"
#include "tests/support/arena.h"
#include "tests/support/device.h"

static struct arena *
make(void)
{
	struct arena *arena = NULL;

	EXPECT_OK(arena_make(main_arena(), NULL, 0, &arena));
	return arena;
}

static struct arena *
arena_of(const void *ptr)
{
	return lookup_exact((CUdeviceptr)(uintptr_t)ptr)->arena;
}

/* Return the arena that serves a small request for a stream. */
static struct arena *
goes_to(weir_stream stream)
{
	void *ptr = take(1024, stream);
	struct arena *arena = arena_of(ptr);

	give(ptr);
	return arena;
}

static struct route *
begin(struct arena *arena, struct route_match match)
{
	struct route *route = NULL;

	EXPECT_OK(route_begin(arena, &match, &route));
	return route;
}

static struct route *
begin_stream(struct arena *arena, weir_stream handle)
{
	struct route_match match = { .kind = ROUTE_STREAM };

	EXPECT_OK(stream_find(0, handle, &match.stream));
	struct route *route = begin(arena, match);
	stream_put(match.stream);
	return route;
}

/* ---- What matches ------------------------------------------------------ */

struct other {
	weir_stream stream;
	struct arena *arena;
};

static void *
ask_elsewhere(void *argument)
{
	struct other *other = argument;

	other->arena = goes_to(other->stream);
	return NULL;
}

static struct arena *
other_thread_goes_to(weir_stream stream)
{
	struct other other = { .stream = stream };
	pthread_t thread;

	EXPECT_EQ(pthread_create(&thread, NULL, ask_elsewhere, &other), 0);
	EXPECT_EQ(pthread_join(thread, NULL), 0);
	return other.arena;
}

TEST(a_thread_s_route_is_for_all_its_requests_and_nobody_else_s)
{
	struct arena *arena = make();
	weir_stream stream = new_stream();
	struct arena *main = goes_to(stream);

	EXPECT_EQ(main, arena_peek(0));
	struct route *route =
	    begin(arena, (struct route_match){ .kind = ROUTE_THREAD });
	EXPECT_EQ(goes_to(stream), arena);
	EXPECT_EQ(goes_to(NULL), arena);
	EXPECT_EQ(other_thread_goes_to(stream), main);
	route_end(route);
	EXPECT_EQ(goes_to(stream), main);
	expect_healthy();
}

TEST(a_stream_s_route_is_for_that_stream_on_every_thread)
{
	struct arena *arena = make();
	weir_stream stream = new_stream();
	struct arena *main = goes_to(NULL);
	struct route *route = begin_stream(arena, stream);

	EXPECT_EQ(goes_to(stream), arena);
	EXPECT_EQ(goes_to(NULL), main);
	EXPECT_EQ(other_thread_goes_to(stream), arena);
	route_end(route);
	EXPECT_EQ(goes_to(stream), main);
	expect_healthy();
}

struct chooser {
	weir_stream stream;
	unsigned asked;
};

static bool
choose(weir_stream stream, void *closure)
{
	struct chooser *chooser = closure;

	EXPECT(lock_none_held());
	chooser->asked++;
	return stream == chooser->stream;
}

TEST(a_filter_routes_requests_and_holds_no_lock)
{
	struct arena *arena = make();
	struct chooser chooser = { .stream = new_stream() };
	struct arena *main = goes_to(chooser.stream);
	struct route *route = begin(arena,
	    (struct route_match){
		.kind = ROUTE_FILTER, .filter = choose, .closure = &chooser });

	EXPECT_EQ(goes_to(chooser.stream), arena);
	EXPECT_EQ(goes_to(NULL), main);
	EXPECT_EQ(chooser.asked, 2);
	chooser.stream = WEIR_STREAM_LEGACY;
	EXPECT_EQ(goes_to(NULL), arena);
	route_end(route);
	EXPECT_EQ(goes_to(NULL), main);
	EXPECT_EQ(chooser.asked, 3);
	expect_healthy();
}

TEST(the_newest_route_that_matches_decides)
{
	struct arena *first = make();
	struct arena *second = make();
	struct arena *third = make();
	weir_stream stream = new_stream();
	struct arena *main = goes_to(stream);
	struct route *a =
	    begin(first, (struct route_match){ .kind = ROUTE_THREAD });
	struct route *b = begin_stream(second, stream);
	struct route *c = begin_stream(third, stream);

	EXPECT_EQ(goes_to(stream), third);
	EXPECT_EQ(goes_to(NULL), first);
	route_end(b);
	EXPECT_EQ(goes_to(stream), third);
	route_end(c);
	EXPECT_EQ(goes_to(stream), first);
	/* The device's own arena can be the end of a route, too. */
	struct route *home = begin_stream(main, stream);
	EXPECT_EQ(goes_to(stream), main);
	route_end(home);
	route_end(a);
	EXPECT_EQ(goes_to(stream), main);
	expect_healthy();
}

/* Routes of each kind, each newer than the one before, and ended in another
 * order. Only filters that are newer than the best other route are asked. */
TEST(the_newest_of_routes_of_all_kinds_decides)
{
	enum { ROUTES = 12 };
	struct arena *arenas[ROUTES];
	struct route *routes[ROUTES];
	struct chooser chooser = { .stream = new_stream() };
	struct arena *main = goes_to(chooser.stream);
	bool ended[ROUTES] = { false };

	for (int i = 0; i < ROUTES; i++) {
		arenas[i] = make();
		routes[i] = i % 3 == 1 ?
		    begin_stream(arenas[i], chooser.stream) :
		    begin(arenas[i],
			(struct route_match){
			    .kind = i % 3 == 0 ? ROUTE_THREAD : ROUTE_FILTER,
			    .filter = choose,
			    .closure = &chooser });
		EXPECT_EQ(goes_to(chooser.stream), arenas[i]);
	}
	chooser.asked = 0;
	EXPECT_EQ(goes_to(new_stream()), arenas[ROUTES - 3]);
	EXPECT_EQ(chooser.asked, 1);
	for (int i = 0; i < ROUTES; i++) {
		int newest = ROUTES - 1;

		ended[i * 5 % ROUTES] = true;
		route_end(routes[i * 5 % ROUTES]);
		while (newest >= 0 && ended[newest])
			newest--;
		EXPECT_EQ(goes_to(chooser.stream),
		    newest >= 0 ? arenas[newest] : main);
	}
	expect_healthy();
}

TEST(a_route_of_one_device_is_not_for_another)
{
	device_need(2);
	struct arena *arena = make();
	struct route *route =
	    begin(arena, (struct route_match){ .kind = ROUTE_THREAD });
	void *ptr = weir_malloc_on(1, 512, NULL);

	EXPECT_EQ(arena_of(ptr), arena_peek(1));
	give(ptr);
	route_end(route);
	expect_healthy();
}

TEST(a_route_holds_its_arena)
{
	struct arena *arena = make();
	struct route *route =
	    begin(arena, (struct route_match){ .kind = ROUTE_THREAD });

	arena_drop(arena);
	EXPECT_EQ(goes_to(NULL), arena);
	EXPECT_EQ(goes_to(NULL), arena);
	finish(NULL);
	route_end(route);
	EXPECT(!arena->private.in_use);
	expect_healthy();
}

/* ---- Thread caches ----------------------------------------------------- */

TEST(cached_blocks_of_a_thread_do_not_bypass_a_route)
{
	struct arena *arena = make();
	weir_stream stream = new_stream();
	void *block[8];

	for (int i = 0; i < 8; i++)
		block[i] = take(1024, stream);
	for (int i = 0; i < 8; i++)
		give(block[i]); /* into the cache */
	struct route *route = begin_stream(arena, stream);
	for (int i = 0; i < 8; i++)
		EXPECT_EQ(arena_of(take(1024, stream)), arena);
	route_end(route);
	EXPECT_EQ(arena_of(take(1024, stream)), arena_peek(0));
	expect_healthy();
}

TEST(a_route_without_memory_for_it_changes_nothing)
{
	struct arena *arena = make();
	struct route_match match = { .kind = ROUTE_THREAD };
	struct route *route = NULL;

	meta_fail(1, 1);
	enum weir_status status = route_begin(arena, &match, &route);
	meta_fail(0, 0);
	EXPECT_EQ(status, WEIR_EHOSTMEM);
	EXPECT_NULL(route);
	EXPECT_EQ(goes_to(NULL), arena_peek(0));
	EXPECT_EQ(arena->private.owners, 1);
	expect_healthy();
}

/* ---- Captures ---------------------------------------------------------- */

TEST(a_capture_s_route_is_for_all_streams_that_are_in_it)
{
	struct arena *arena = make();
	weir_stream stream = new_stream();
	weir_stream forked = new_stream();
	weir_stream apart = new_stream();
	struct stream *known;

	struct route *route =
	    begin(arena, (struct route_match){ .kind = ROUTE_CAPTURE });
	struct arena *main = goes_to(stream);
	EXPECT_EQ(main, arena_peek(0));
	capture_begin(stream);
	EXPECT_OK(stream_find(0, stream, &known));
	route_set_capture(route, capture_of(known));
	stream_put(known);
	EXPECT_OK(weir_stream_wait_stream(forked, stream));
	EXPECT_EQ(goes_to(stream), arena);
	EXPECT_EQ(goes_to(forked), arena);
	EXPECT_EQ(goes_to(apart), main);
	EXPECT_EQ(goes_to(NULL), main);
	EXPECT_OK(weir_stream_wait_stream(stream, forked));
	capture_end(stream);
	EXPECT_EQ(goes_to(stream), main);
	route_end(route);
	expect_healthy();
}

TEST(an_unregistered_capture_gets_an_arena_until_it_ends)
{
	weir_stream stream = new_stream();

	/* Without a cache, which would serve the request:
	 * weir_graph_register(). */
	conf("tcache:0");
	struct arena *main = goes_to(stream);
	give(take(4 * MIB, stream));
	capture_begin(stream);
	void *in = take(4 * MIB, stream);
	struct arena *arena = arena_of(in);
	EXPECT_NE(arena, main);
	EXPECT_EQ(goes_to(stream), arena);
	EXPECT_EQ(goes_to(NULL), main);
	void *freed = take(4 * MIB, stream);
	give(freed);
	EXPECT_EQ(
	    arena->account.stats.reserved_bytes.all.current, 8 * MIB + 2 * MIB);
	capture_end(stream);
	finish(stream);
	/* The next request finds it. */
	EXPECT_EQ(goes_to(stream), main);
	EXPECT_EQ(arena->account.stats.reserved_bytes.all.current, 4 * MIB);
	fill(in, 4 * MIB, 1, stream);
	expect_filled(in, 4 * MIB, 1, stream);
	give(in);
	EXPECT(!arena->private.in_use);
	expect_healthy();
}

TEST(an_unregistered_capture_without_host_memory_for_it_is_refused)
{
	weir_stream stream = new_stream();
	bool failed = false;

	conf("tcache:0");
	give(take(512, stream));
	capture_begin(stream);
	for (unsigned long nth = 1; nth < 30; nth++) {
		meta_fail(nth, 1);
		void *ptr = weir_malloc(512, stream);
		meta_fail(0, 0);
		expect_healthy();
		if (ptr != NULL) {
			EXPECT_NE(arena_of(ptr), arena_peek(0));
			break;
		}
		failed = true;
		EXPECT_EQ(weir_last_status(), WEIR_EHOSTMEM);
	}
	EXPECT(failed);
	capture_end(stream);
	expect_healthy();
}
