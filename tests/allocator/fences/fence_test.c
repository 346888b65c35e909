/*
 * Note [Fences]: which streams are fenced and when, which memory a met fence
 * makes usable, and how a stream is ordered after another.
 */
#include "allocator/fences/fence.h"

#include <pthread.h>

#include "allocator/memory/arena.h"
#include "tests/support/device.h"

enum { MS = 1000000 }; /* ns */

/* The heap of a stream on device 0; created if needed, by a small block that
 * stays, so that other blocks are near it and move no memory. */
static struct stream_heap *
heap_of(weir_stream handle)
{
	struct stream *stream;

	EXPECT_OK(stream_find(0, handle, &stream));
	if (stream->heap == NULL)
		take(512, handle);
	struct stream_heap *heap = stream->heap;
	stream_put(stream);
	EXPECT_NOT_NULL(heap);
	return heap;
}

static struct arena *
arena(void)
{
	return arena_peek(0);
}

/* Free this much on a stream, without a thread's cache. */
static void
free_some(weir_stream stream, size_t bytes)
{
	give(take(bytes, stream));
}

/* The poll by which a request of `mine` finds memory of others. */
static void
poll(struct stream_heap *mine)
{
	lock_enter(&arena()->lock);
	fences_poll(mine);
	lock_leave(&arena()->lock);
}

/* The view of a request of `mine`. */
static struct view
view_of(struct stream_heap *mine)
{
	struct view view;

	view_begin(&view, mine);
	view_can_wait(&view);
	fences_see_busy(&view);
	return view;
}

static struct view
view_now(struct stream_heap *mine)
{
	lock_enter(&arena()->lock);
	struct view view = view_of(mine);
	lock_leave(&arena()->lock);
	return view;
}

static bool
follow_next(struct stream_heap *mine, struct stream_heap *other)
{
	uint64_t until = 0;

	lock_enter(&arena()->lock);
	struct view view = view_of(mine);
	bool done = fences_follow_next(&view, other, &until);
	lock_leave(&arena()->lock);
	return done;
}

static bool
follow(struct stream_heap *mine, struct stream_heap *other, uint64_t tick,
    enum waits waits)
{
	lock_enter(&arena()->lock);
	struct view view = view_of(mine);
	bool done = fences_follow(&view, other, tick, waits);
	lock_leave(&arena()->lock);
	return done;
}

/* May `mine` use the memory freed last in `other`, without a wait? */
static bool
usable(struct stream_heap *mine, const struct stream_heap *other)
{
	lock_enter(&arena()->lock);
	struct view view = view_of(mine);
	bool done = other->freed_at <= view_until(&view, other);
	lock_leave(&arena()->lock);
	return done;
}

static uint64_t
gpu_waits(void)
{
	return stats().num_gpu_waits;
}

/* ---- When a stream is fenced ------------------------------------------- */

TEST(a_stream_is_fenced_when_another_looks_at_it)
{
	weir_stream a = new_stream();
	weir_stream b = new_stream();

	conf("tcache:0");
	struct stream_heap *of_a = heap_of(a);
	struct stream_heap *of_b = heap_of(b);
	settle();
	poll(of_b);
	EXPECT_EQ(of_a->fences.count, 0);
	busy(a, LATE_MS);
	free_some(a, 2 * MIB);
	poll(of_b);
	EXPECT_EQ(of_a->fences.count, 1);
	EXPECT_GT(of_a->fences.ring[0].at, of_a->freed_at);
	poll(of_b); /* nothing was freed since */
	EXPECT_EQ(of_a->fences.count, 1);
	free_some(a, 2 * MIB);
	poll(of_b);
	EXPECT_EQ(of_a->fences.count, 2);
	expect_healthy();
}

TEST(a_met_fence_lets_others_use_memory_freed_before_it)
{
	weir_stream a = new_stream();
	weir_stream b = new_stream();

	conf("tcache:0");
	struct stream_heap *of_a = heap_of(a);
	struct stream_heap *of_b = heap_of(b);
	busy(a, LATE_MS);
	free_some(a, 2 * MIB);
	poll(of_b);
	EXPECT(!usable(of_b, of_a));
	finish(a);
	EXPECT(!usable(of_b, of_a)); /* not before a poll */
	poll(of_b);
	EXPECT_EQ(of_a->fences.count, 0);
	EXPECT(usable(of_b, of_a));
	free_some(a, 2 * MIB);
	EXPECT(!usable(of_b, of_a));
	expect_healthy();
}

TEST(memory_that_an_idle_stream_freed_serves_the_first_request)
{
	weir_stream a = new_stream();
	weir_stream b = new_stream();

	conf("tcache:0");
	struct stream_heap *of_a = heap_of(a);
	struct stream_heap *of_b = heap_of(b);
	char *theirs = take(100 * MIB, a);
	fill(theirs, 100 * MIB, 1, a);
	give(theirs);
	finish(a);
	uint64_t held = stats().reserved_bytes.all.current;
	char *mine = take(100 * MIB, b);
	fill(mine, 100 * MIB, 2, b);
	EXPECT_EQ(stats().reserved_bytes.all.current, held);
	EXPECT_EQ(of_a->fences.count, 0); /* it need not be fenced */
	EXPECT_EQ(gpu_waits(), 0);
	EXPECT(usable(of_b, of_a));
	expect_healthy();
}

/* All memory that the stream has freed is in use on other streams: a stream
 * that waits for these has to come after the first stream as well. */
TEST(a_stream_is_fenced_whose_freed_memory_is_all_pending)
{
	weir_stream a = new_stream();
	weir_stream b = new_stream();

	conf("tcache:0");
	struct stream_heap *of_a = heap_of(a);
	struct stream_heap *of_b = heap_of(b);
	settle();
	poll(of_b);
	void *block = take(2 * MIB, a);
	record(block, b);
	busy(a, LATE_MS);
	busy(b, 2 * LATE_MS);
	give(block);
	while (of_a->pool[POOL_LARGE].free.count > 0)
		take(2 * MIB, a); /* nothing but the block is freed */
	poll(of_b);
	EXPECT_EQ(of_a->fences.count, 1);
	EXPECT_GT(of_a->fences.ring[0].at, of_a->freed_at);
	poll(of_b);
	EXPECT_EQ(of_a->fences.count, 1);
	finish(a);
	poll(of_b); /* b is not done, but a is */
	EXPECT_EQ(of_a->fences.count, 0);
	EXPECT(usable(of_b, of_a));
	expect_healthy();
}

/* Each entry of a context costs driver calls, as each query does. */
TEST(streams_of_one_context_are_asked_with_one_entry_of_it)
{
	enum { STREAMS = 8 };
	struct stream_heap *heap[STREAMS];
	void *block[STREAMS];
	weir_stream mine = new_stream();

	device_need_sim("calls of the driver are counted");
	conf("tcache:0");
	struct stream_heap *of_mine = heap_of(mine);
	for (int i = 0; i < STREAMS; i++) {
		weir_stream stream = new_stream();
		heap[i] = heap_of(stream);
		block[i] = take(2 * MIB, stream);
	}
	for (int i = 0; i < STREAMS; i++)
		give(block[i]);
	uint64_t entries = sim()->calls("cuCtxGetCurrent");
	uint64_t questions = sim()->calls("cuStreamQuery");
	poll(of_mine);
	EXPECT_EQ(sim()->calls("cuStreamQuery"), questions + STREAMS);
	EXPECT_LE(sim()->calls("cuCtxGetCurrent"), entries + 1);
	for (int i = 0; i < STREAMS; i++)
		EXPECT(usable(of_mine, heap[i]));
	expect_healthy();
}

/* A stream that frees all the time has fences of different ages. */
TEST(a_stream_that_allocates_is_fenced_each_time_it_has_freed_some)
{
	weir_stream a = new_stream();

	conf("tcache:0");
	take(512, new_stream());
	struct stream_heap *of_a = heap_of(a);
	busy(a, LATE_MS);
	for (unsigned i = 0; i < FENCES; i++) {
		EXPECT_EQ(of_a->fences.count, i);
		free_some(a, 8 * MIB);
		take(512, a);
	}
	EXPECT_EQ(of_a->fences.count, FENCES);
	free_some(a, 8 * MIB);
	take(512, a);
	EXPECT_EQ(of_a->fences.count, FENCES); /* it is bounded */
	for (unsigned i = 1; i < FENCES; i++)
		EXPECT_GT(of_a->fences.ring[i].at, of_a->fences.ring[i - 1].at);
	/* Otherwise memory freed from now on could not be waited for. */
	EXPECT_GT(of_a->fences.ring[FENCES - 1].at, of_a->freed_at);
	expect_healthy();
}

/* Otherwise none of what it has freed would be known to be complete when
 * another stream needs memory. */
TEST(a_stream_that_frees_much_and_asks_for_nothing_is_fenced_by_others)
{
	weir_stream a = new_stream();
	weir_stream b = new_stream();
	void *block[4];

	conf("tcache:0");
	take(512, b);
	for (int i = 0; i < 4; i++)
		block[i] = take(512 * KIB, a);
	struct stream_heap *of_a = heap_of(a);
	busy(a, LATE_MS);
	give(block[0]);
	take(512, b);
	EXPECT_EQ(of_a->fences.count, 0);
	give(block[1]);
	take(512, b);
	EXPECT_EQ(of_a->fences.count, 1);
	EXPECT_GT(of_a->fences.ring[0].at, of_a->freed_at);
	give(block[2]);
	give(block[3]);
	take(512, b);
	EXPECT_EQ(of_a->fences.count, 2);
	expect_healthy();
}

/* A small request takes more complete memory than it needs. The rest serves
 * others still. */
TEST(complete_memory_that_a_small_request_fetches_stays_complete)
{
	weir_stream a = new_stream();
	weir_stream b = new_stream();

	conf("tcache:0");
	take(MIB / 2, a);
	take(MIB / 2, b);
	void *block = take(MIB, b);
	EXPECT_EQ(reserved(), 2 * MIB);
	give(block);
	finish(b);
	poll(heap_of(b));
	busy(a, LATE_MS);
	EXPECT_EQ(take(512, a), block);
	take(512 * KIB, b);
	EXPECT_EQ(reserved(), 2 * MIB);
	EXPECT(!is_done(a));
	expect_healthy();
}

/* PyTorch's cudaMallocAsync backend frees on a separate stream. Without fences
 * the stream would look idle to its own requests. */
TEST(a_stream_whose_blocks_another_stream_frees_is_fenced_as_it_allocates)
{
	weir_stream a = new_stream();
	weir_stream b = new_stream();

	conf("tcache:0");
	heap_of(b);
	struct stream_heap *of_a = heap_of(a);
	busy(a, LATE_MS);
	for (unsigned i = 0; i < 4; i++) {
		EXPECT_EQ(of_a->fences.count, i);
		EXPECT_OK(weir_free_async(take(8 * MIB, a), b));
		take(512, a);
	}
	EXPECT_EQ(view_now(of_a).busy_since, of_a->fences.ring[0].at);
	expect_healthy();
}

TEST(a_stream_is_busy_since_its_oldest_use)
{
	weir_stream a = new_stream();
	weir_stream b = new_stream();

	conf("tcache:0");
	struct stream_heap *of_a = heap_of(a);
	char *used = take(8 * MIB, b);
	busy(a, LATE_MS);
	record(used, a);
	uint64_t before = order_now();
	give(used);
	free_some(a, 64 * MIB); /* records the use */
	uint64_t after = order_now();
	take(512, a);
	EXPECT_EQ(of_a->fences.count, 1);
	struct view view = view_now(of_a);
	EXPECT_GE(view.busy_since, before);
	EXPECT_LE(view.busy_since, after);
	finish(a);
	take(128 * MIB, b); /* sees that the use and the fence are met */
	EXPECT_EQ(view_now(of_a).busy_since, 0);
	expect_healthy();
}

TEST(fences_that_are_too_many_are_thinned_out_evenly)
{
	enum { FREES = 3 * FENCES };
	weir_stream a = new_stream();

	conf("tcache:0");
	take(512, new_stream());
	struct stream_heap *of_a = heap_of(a);
	busy(a, LATE_MS);
	free_some(a, 8 * MIB);
	take(512, a);
	uint64_t first = of_a->fences.ring[0].at;
	for (unsigned i = 1; i < FREES; i++) {
		free_some(a, 8 * MIB);
		take(512, a);
	}
	EXPECT_EQ(of_a->fences.count, FENCES);
	EXPECT_EQ(of_a->fences.ring[0].at, first);
	uint64_t span = of_a->fences.ring[FENCES - 1].at - first;
	for (unsigned i = 1; i < FENCES; i++)
		EXPECT_LE(of_a->fences.ring[i].at - of_a->fences.ring[i - 1].at,
		    span / 3);
	expect_healthy();
}

TEST(one_stream_alone_is_not_fenced)
{
	weir_stream a = new_stream();

	conf("tcache:0");
	struct stream_heap *of_a = heap_of(a);
	for (int i = 0; i < 4; i++) {
		free_some(a, 32 * MIB);
		take(512, a);
	}
	EXPECT_EQ(of_a->fences.count, 0);
}

/* ---- Which streams are not --------------------------------------------- */

static void
expect_unfenced(weir_stream stream)
{
	struct stream_heap *of_b = heap_of(new_stream());
	struct stream_heap *heap = heap_of(stream);

	free_some(stream, 2 * MIB);
	poll(of_b);
	EXPECT_EQ(heap->fences.count, 0);
	EXPECT(!follow_next(of_b, heap));
	EXPECT_EQ(gpu_waits(), 0);
}

TEST(the_legacy_stream_is_fenced_if_no_blocking_stream_is_there)
{
	conf("tcache:0");
	struct stream_heap *of_b = heap_of(new_stream());
	struct stream_heap *heap = heap_of(NULL);

	busy(NULL, LATE_MS);
	free_some(NULL, 2 * MIB);
	poll(of_b);
	EXPECT_EQ(heap->fences.count, 1);
}

/* A record there would put all of those streams in order. */
TEST(the_legacy_stream_is_not_fenced_beside_blocking_streams)
{
	weir_stream blocking = foreign_stream(CU_STREAM_DEFAULT);

	conf("tcache:0");
	give(take(512, blocking)); /* now the order is known */
	expect_unfenced(NULL);
	EXPECT_OK(weir_stream_retire(blocking));
	foreign_destroy(blocking);
	free_some(NULL, 2 * MIB);
	struct stream_heap *of_b = heap_of(new_stream());
	settle();
	poll(of_b);
	EXPECT(usable(of_b, heap_of(NULL)));
}

static void *
use_per_thread(void *arg)
{
	pthread_barrier_t *barrier = arg;

	EXPECT_OK(weir_set_device(0));
	free_some(WEIR_STREAM_PER_THREAD, 4 * MIB);
	pthread_barrier_wait(barrier);
	pthread_barrier_wait(barrier);
	return NULL;
}

/* In another context its handle would name another stream. */
TEST(the_default_stream_of_another_thread_is_not_fenced)
{
	weir_stream a = new_stream();
	pthread_barrier_t barrier;
	pthread_t thread;

	conf("tcache:0,prefer:memory");
	struct stream_heap *of_a = heap_of(a);
	pthread_barrier_init(&barrier, NULL, 2);
	EXPECT_EQ(pthread_create(&thread, NULL, use_per_thread, &barrier), 0);
	pthread_barrier_wait(&barrier);
	poll(of_a);
	char *got = take(4 * MIB, a);
	EXPECT_EQ(gpu_waits(), 0);
	EXPECT_EQ(stats().reserved_bytes.large_pool.current, 8 * MIB);
	/* At the limit the host waits for it, because there is no other
	 * memory. */
	EXPECT_OK(weir_limit_set(0, 10 * MIB));
	take(4 * MIB, a);
	EXPECT_EQ(stats().num_host_waits, 1);
	EXPECT_EQ(gpu_waits(), 0);
	fill(got, 4 * MIB, 1, a);
	pthread_barrier_wait(&barrier);
	EXPECT_EQ(pthread_join(thread, NULL), 0);
	expect_healthy();
}

TEST(a_stream_that_is_captured_is_fenced_after_it)
{
	weir_stream a = new_stream();

	conf("tcache:0");
	struct stream_heap *of_a = heap_of(a);
	capture_begin(a);
	expect_unfenced(a);
	capture_end(a);
	busy(a, LATE_MS);
	free_some(a, 2 * MIB);
	struct stream_heap *of_b = heap_of(new_stream());
	poll(of_b);
	EXPECT_EQ(of_a->fences.count, 1);
	EXPECT(!usable(of_b, of_a));
	finish(a);
	poll(of_b);
	EXPECT(usable(of_b, of_a));
	expect_healthy();
}

TEST(a_stream_that_has_ended_is_not_fenced_and_its_fences_go)
{
	weir_stream a = new_stream();
	struct stream_heap *of_b;

	conf("tcache:0");
	struct stream_heap *of_a = heap_of(a);
	of_b = heap_of(new_stream());
	take(512, a); /* keeps the heap */
	busy(a, LATE_MS);
	free_some(a, 512 * KIB);
	poll(of_b);
	EXPECT_EQ(of_a->fences.count, 1);
	EXPECT_OK(weir_stream_destroy(a));
	poll(of_b);
	EXPECT_EQ(of_a->fences.count, 1);
	EXPECT_OK(weir_device_synchronize(0));
	take(512, NULL);
	EXPECT(of_a->completed);
	EXPECT_EQ(of_a->fences.count, 0);
	expect_healthy();
}

/* ---- Waits ------------------------------------------------------------- */

/* Make a stream busy for some time, with `n` fences, each after 8 MiB that were
 * freed. `other` is the heap of an idle stream, which polls it. */
static void
keep_fenced(struct stream_heap *heap, unsigned n, unsigned milliseconds,
    struct stream_heap *other)
{
	weir_stream stream = heap->stream->handle;

	settle();
	poll(other);       /* the work before its earlier fence is done */
	take(512, stream); /* and complete small memory is its own again */
	busy(stream, milliseconds);
	for (unsigned i = 0; i < n; i++) {
		free_some(stream, 8 * MIB);
		take(512, stream);
	}
	EXPECT_EQ(heap->fences.count, n);
}

static struct stream_heap *
fenced(weir_stream stream, unsigned n)
{
	struct stream_heap *heap = heap_of(stream);

	keep_fenced(heap, n, LATE_MS, heap_of(new_stream()));
	return heap;
}

TEST(streams_are_followed_from_fence_to_fence)
{
	weir_stream a = new_stream();
	weir_stream b = new_stream();

	conf("tcache:0");
	struct stream_heap *of_b = heap_of(b);
	struct stream_heap *of_a = fenced(a, 3);
	for (unsigned i = 0; i < 3; i++) {
		EXPECT(!usable(of_b, of_a));
		EXPECT(follow_next(of_b, of_a));
		EXPECT_EQ(gpu_waits(), i + 1);
	}
	EXPECT(usable(of_b, of_a));
	EXPECT(!follow_next(of_b, of_a)); /* no work is left to wait for */
	EXPECT_EQ(gpu_waits(), 3);
	EXPECT(!is_done(a));
	finish(b);
	EXPECT(is_done(a));
	expect_healthy();
}

enum { STREAMS = ORDER_KNOWN + 8 };

static void
follow_each(struct stream_heap *mine, struct stream_heap **others,
    uint64_t *until, bool *done)
{
	lock_enter(&arena()->lock);
	struct view view = view_of(mine);
	for (unsigned i = 0; i < STREAMS; i++)
		done[i] = fences_follow_next(&view, others[i], &until[i]);
	lock_leave(&arena()->lock);
}

/* The first of many streams must still be busy when the last one has its fence.
 * Each takes 2 ms, so LATE_MS is too short for all. A GPU needs longer to make
 * a stream while others are busy, so all are made before. */
enum { MANY_LATE_MS = 1000 };

/* A stream keeps the order after ORDER_KNOWN others. A loop of waits for more
 * streams than that ends by the tick of the last fence that it followed. */
TEST(no_fence_is_followed_twice_though_the_order_is_forgotten)
{
	struct stream_heap *others[STREAMS];
	uint64_t until[STREAMS] = { 0 };
	bool again[STREAMS];
	weir_stream b = new_stream();
	weir_stream first = new_stream();

	conf("tcache:0,prefer:speed"); /* no request waits */
	struct stream_heap *of_b = heap_of(b);
	struct stream_heap *idle = heap_of(new_stream());
	for (unsigned i = 0; i < STREAMS; i++)
		others[i] = heap_of(i == 0 ? first : new_stream());
	for (unsigned i = 0; i < STREAMS; i++)
		keep_fenced(others[i], 1, MANY_LATE_MS, idle);
	EXPECT(!is_done(first)); /* otherwise the machine was too slow */
	follow_each(of_b, others, until, again);
	for (unsigned i = 0; i < STREAMS; i++)
		EXPECT(again[i]);
	EXPECT(!usable(of_b, others[0])); /* forgotten */
	follow_each(of_b, others, until, again);
	for (unsigned i = 0; i < STREAMS; i++)
		EXPECT(!again[i]);
	EXPECT_EQ(gpu_waits(), STREAMS);
	expect_healthy();
}

/* The stream is assumed to go on as it did since its completed tick. */
TEST(fences_that_a_stream_has_come_half_the_way_to_are_followed)
{
	weir_stream a = new_stream();
	weir_stream b = new_stream();

	conf("tcache:0");
	struct stream_heap *of_b = heap_of(b);
	struct stream_heap *of_a = fenced(a, 6);
	uint64_t now = order_now();
	unsigned old = 0;
	for (unsigned i = 0; i < 5; i++)
		old += of_a->fences.ring[i].at - of_a->completed_at <=
		    now - of_a->fences.ring[i].at;
	EXPECT_GT(old, 0);
	EXPECT_LE(old, 4);
	EXPECT(follow(of_b, of_a, of_a->fences.ring[old - 1].at, WAITS_CHEAP));
	EXPECT(!follow(of_b, of_a, of_a->fences.ring[4].at, WAITS_CHEAP));
	EXPECT_EQ(gpu_waits(), 1);
}

static enum wait_cost
cost(struct stream_heap *mine, const struct stream_heap *other, unsigned fence)
{
	struct view view = view_now(mine);

	return fences_cost(
	    &view, other->stream, other->fences.ring[fence].at, false);
}

TEST(a_wait_is_free_for_a_stream_that_has_more_to_do_itself)
{
	weir_stream a = new_stream();
	weir_stream b = new_stream();

	conf("tcache:0");
	struct stream_heap *of_a = fenced(a, 4);
	struct stream_heap *of_b = heap_of(b);
	busy(b, LATE_MS);
	free_some(b, 8 * MIB);
	take(512, b);
	EXPECT_EQ(of_b->fences.count, 1);
	EXPECT_EQ(cost(of_b, of_a, 3), WAIT_DEAR);
	for (int i = 0; i < 40; i++)
		free_some(b, 2 * MIB);
	EXPECT_EQ(cost(of_b, of_a, 3), WAIT_FREE);
	EXPECT(follow(of_b, of_a, of_a->fences.ring[3].at, WAITS_FREE));
	EXPECT_EQ(gpu_waits(), 1);
	expect_healthy();
}

/* It may wait for near memory, at a price, if it has to. */
TEST(an_idle_stream_does_not_wait_for_distant_work)
{
	weir_stream a = new_stream();
	weir_stream b = new_stream();

	conf("tcache:0");
	struct stream_heap *of_b = heap_of(b);
	struct stream_heap *of_a = fenced(a, 2);
	EXPECT_EQ(cost(of_b, of_a, 0), WAIT_DEAR);
	EXPECT(follow_next(of_b, of_a));
	for (int i = 0; i < 100; i++)
		free_some(a, 8 * MIB);
	take(512, a);
	unsigned last = of_a->fences.count - 1;
	EXPECT_EQ(cost(of_b, of_a, last), WAIT_DEAR);
	free_some(a, 8 * MIB);
	take(512, a);
	EXPECT(!follow(of_b, of_a, of_a->fences.ring[last].at, WAITS_CHEAP));
	finish(a);
	poll(of_b);
	struct view view = view_now(of_b);
	EXPECT_EQ(fences_cost(&view, of_a->stream, of_a->completed_at, false),
	    WAIT_FREE);
	expect_healthy();
}

/* Memory of ended streams stays usable while their work goes on. */
TEST(the_end_of_a_stream_is_followed_and_its_memory_is_taken_over)
{
	weir_stream a = new_stream();
	weir_stream b = new_stream();
	char *block;

	conf("tcache:0");
	struct stream_heap *of_a = heap_of(a);
	struct stream_heap *of_b = heap_of(b);
	take(512, a); /* keeps the heap */
	block = take(8 * MIB, a);
	busy(a, LATE_MS);
	fill(block, 8 * MIB, 1, a);
	give(block);
	EXPECT_OK(weir_stream_destroy(a));
	EXPECT(!follow(of_b, of_a, of_a->freed_at, WAITS_CHEAP));
	EXPECT(follow(of_b, of_a, of_a->freed_at, WAITS_ANY));
	EXPECT_EQ(gpu_waits(), 1);
	EXPECT_EQ(of_a->pool[POOL_LARGE].free.count, 0);
	EXPECT(take(8 * MIB, b) == block);
	fill(block, 8 * MIB, 2, b);
	expect_filled(block, 8 * MIB, 2, b);
	expect_healthy();
}

TEST(a_new_fence_is_made_to_be_followed_if_it_must_be)
{
	weir_stream a = new_stream();
	weir_stream b = new_stream();

	conf("tcache:0");
	struct stream_heap *of_b = heap_of(b);
	struct stream_heap *of_a = fenced(a, 1);
	free_some(a, 2 * MIB);
	EXPECT(!follow(of_b, of_a, of_a->freed_at, WAITS_CHEAP));
	EXPECT_EQ(of_a->fences.count, 1);
	EXPECT(follow(of_b, of_a, of_a->freed_at, WAITS_ANY));
	EXPECT_EQ(of_a->fences.count, 2);
	EXPECT(usable(of_b, of_a));
	EXPECT_EQ(gpu_waits(), 1);
	/* Also if there is no place for another fence. */
	struct stream_heap *full = fenced(new_stream(), FENCES);
	free_some(full->stream->handle, 2 * MIB);
	EXPECT(follow(of_b, full, full->freed_at, WAITS_ANY));
	EXPECT_EQ(full->fences.count, FENCES);
	EXPECT(usable(of_b, full));
	expect_healthy();
}

TEST(how_long_waits_took_is_counted_when_a_request_looks)
{
	device_need_sim("its clock stands still while nobody lets time pass");
	weir_stream a = new_stream();
	weir_stream b = new_stream();

	conf("tcache:0");
	struct stream_heap *of_a = heap_of(a);
	struct stream_heap *of_b = heap_of(b);
	busy(a, 10);
	free_some(a, 2 * MIB);
	EXPECT(follow(of_b, of_a, of_a->freed_at, WAITS_ANY));
	busy(b, 50);
	EXPECT_EQ(gpu_waits(), 1);
	poll(of_b);
	EXPECT_EQ(stats().gpu_wait_ns, 0); /* it is not over */
	sim()->advance_ns(12 * MS);
	poll(of_b);
	EXPECT_EQ((stats().gpu_wait_ns + MS / 2) / MS, 10);
	EXPECT_EQ(stats_of_stream(b).gpu_wait_ns, stats().gpu_wait_ns);
	EXPECT_EQ(stats().gpu_delay_ns, stats().gpu_wait_ns);
	/* Later waits add to the lateness of the latest stream. */
	finish(b);
	poll(of_b);
	busy(a, 4);
	free_some(a, 2 * MIB);
	EXPECT(follow(of_b, of_a, of_a->freed_at, WAITS_ANY));
	busy(b, 50);
	sim()->advance_ns(12 * MS);
	poll(of_b);
	EXPECT_EQ((stats().gpu_wait_ns + MS / 2) / MS, 14);
	EXPECT_EQ((stats().gpu_delay_ns + MS / 2) / MS, 10);
	expect_healthy();
}

TEST(a_known_order_costs_no_wait)
{
	weir_stream a = new_stream();
	weir_stream b = new_stream();
	weir_stream c = new_stream();

	conf("tcache:0");
	struct stream_heap *of_b = heap_of(b);
	struct stream_heap *of_c = heap_of(c);
	struct stream_heap *of_a = fenced(a, 2);
	EXPECT_OK(weir_stream_wait_stream(b, a));
	EXPECT(usable(of_b, of_a));
	EXPECT(follow(of_b, of_a, of_a->freed_at, WAITS_ANY));
	EXPECT(!follow_next(of_b, of_a));
	/* It passes on. */
	EXPECT_OK(weir_stream_wait_stream(c, b));
	EXPECT(usable(of_c, of_a));
	EXPECT_EQ(gpu_waits(), 0);
	free_some(a, 2 * MIB);
	EXPECT(!usable(of_b, of_a));
	EXPECT(!usable(of_c, of_a));
	expect_healthy();
}

/* A wait in a capture is part of the graph. It does not order the stream's work
 * outside of it. */
TEST(a_capture_relies_on_complete_work_only)
{
	weir_stream a = new_stream();
	weir_stream b = new_stream();

	conf("tcache:0");
	struct stream_heap *of_b = heap_of(b);
	struct stream_heap *of_a = fenced(a, 1);
	EXPECT_OK(weir_stream_wait_stream(b, a));
	EXPECT(usable(of_b, of_a));
	capture_begin(b);
	EXPECT(!usable(of_b, of_a));
	capture_end(b);
	EXPECT(usable(of_b, of_a));
	finish(a);
	poll(of_b);
	capture_begin(b);
	EXPECT(usable(of_b, of_a));
	capture_end(b);
	expect_healthy();
}

/* ---- Failures ---------------------------------------------------------- */

TEST(a_fence_that_cannot_be_made_is_made_the_next_time)
{
	/* (A query first shows whether it is idle.) */
	static const char *const entries[] = { "cuEventRecord",
		"cuStreamIsCapturing" };
	static const unsigned faults[] = { 1, 2 };
	unsigned all = 0;
	weir_stream a = new_stream();

	device_need_sim("calls of the driver are made to fail");
	conf("tcache:0");
	struct stream_heap *of_b = heap_of(new_stream());
	struct stream_heap *of_a = heap_of(a);
	busy(a, LATE_MS);
	free_some(a, 2 * MIB);
	for (unsigned i = 0; i < 2; i++) {
		EXPECT_EQ(
		    sim()->fail(entries[i], 1, faults[i], CUDA_ERROR_UNKNOWN),
		    0);
		poll(of_b);
		all += faults[i];
		EXPECT_EQ(sim()->faults(), all);
		EXPECT_EQ(of_a->fences.count, 0);
		EXPECT_STATUS(weir_last_status(), WEIR_OK);
	}
	poll(of_b);
	EXPECT_EQ(of_a->fences.count, 1);
	expect_healthy();
}

TEST(a_wait_that_the_driver_refuses_does_not_count)
{
	weir_stream a = new_stream();
	weir_stream b = new_stream();

	device_need_sim("calls of the driver are made to fail");
	conf("tcache:0");
	struct stream_heap *of_b = heap_of(b);
	struct stream_heap *of_a = fenced(a, 1);
	EXPECT_EQ(
	    sim()->fail("cuStreamWaitEvent", 1, 1, CUDA_ERROR_UNKNOWN), 0);
	EXPECT(!follow_next(of_b, of_a));
	EXPECT(!usable(of_b, of_a));
	EXPECT_EQ(gpu_waits(), 0);
	EXPECT(follow_next(of_b, of_a));
	EXPECT(usable(of_b, of_a));
	expect_healthy();
}

/* A fence that cannot be queried is not met. */
TEST(a_fence_that_cannot_be_asked_about_stays)
{
	weir_stream a = new_stream();

	device_need_sim("calls of the driver are made to fail");
	conf("tcache:0");
	struct stream_heap *of_b = heap_of(new_stream());
	struct stream_heap *of_a = fenced(a, 1);
	finish(a);
	EXPECT_EQ(sim()->fail("cuEventQuery", 1, 1, CUDA_ERROR_UNKNOWN), 0);
	poll(of_b);
	EXPECT_EQ(of_a->fences.count, 1);
	EXPECT(!usable(of_b, of_a));
	poll(of_b);
	EXPECT_EQ(of_a->fences.count, 0);
	EXPECT(usable(of_b, of_a));
}

/* ---- Reported work: streams/stream.h, Note [Reported work] -------------- */

enum { REPORTED = 30 << 20 }; /* bytes */

/* A block of `owner`, which has work and reports it, freed after `later` was
 * ordered after that work. */
static void *
freed_behind(weir_stream owner, weir_stream later)
{
	conf("tcache:0");
	void *block = take(REPORTED, owner);

	busy(owner, LATE_MS);
	EXPECT_OK(weir_stream_report_work(owner));
	EXPECT_OK(weir_stream_wait_stream(later, owner));
	return block;
}

TEST(memory_freed_with_no_work_since_is_used_behind_that_work)
{
	weir_stream owner = new_stream();
	weir_stream later = new_stream();
	void *block = freed_behind(owner, later);

	give(block);
	EXPECT_EQ(take(REPORTED, later), block);
	EXPECT_EQ(stats().num_gpu_waits, 0);
	expect_healthy();
}

TEST(memory_freed_after_more_work_is_not_used_behind_the_work_before)
{
	weir_stream owner = new_stream();
	weir_stream later = new_stream();
	void *block = freed_behind(owner, later);

	busy(owner, LATE_MS);
	EXPECT_OK(weir_stream_report_work(owner));
	give(block);
	EXPECT_NE(take(REPORTED, later), block);
	expect_healthy();
}

TEST(memory_of_a_stream_that_reports_nothing_is_used_until_its_free)
{
	weir_stream owner = new_stream();
	weir_stream later = new_stream();
	void *block = take(REPORTED, owner);

	busy(owner, LATE_MS);
	EXPECT_OK(weir_stream_wait_stream(later, owner));
	give(block);
	EXPECT_NE(take(REPORTED, later), block);
	expect_healthy();
}

TEST(a_wait_counts_as_work_that_was_reported)
{
	weir_stream user = new_stream();
	weir_stream owner = new_stream();
	weir_stream later = new_stream();
	void *block = freed_behind(owner, later);

	/* The user's work on the block is over when the owner frees it. */
	busy(user, 2 * LATE_MS);
	EXPECT_OK(weir_stream_wait_stream(owner, user));
	give(block);
	EXPECT_NE(take(REPORTED, later), block);
	expect_healthy();
}

TEST(the_stream_that_used_a_block_gets_it_behind_its_own_work)
{
	weir_stream owner = new_stream();
	weir_stream user = new_stream();
	void *block = freed_behind(owner, user);

	record(block, user);
	busy(user, LATE_MS);
	EXPECT_OK(weir_stream_report_work(user));
	give(block);
	EXPECT_EQ(take(REPORTED, user), block);
	EXPECT_EQ(stats().num_gpu_waits, 0);
	expect_healthy();
}

TEST(work_is_reported_for_created_streams_only)
{
	EXPECT_STATUS(weir_stream_report_work(WEIR_STREAM_LEGACY), WEIR_EINVAL);
	EXPECT_STATUS(weir_stream_report_work(NULL), WEIR_EINVAL);
	EXPECT_STATUS(
	    weir_stream_report_work(WEIR_STREAM_PER_THREAD), WEIR_EINVAL);
	EXPECT_STATUS(weir_stream_report_work(WEIR_STREAM_ANY), WEIR_EINVAL);
	weir_stream gone = new_stream();
	EXPECT_OK(weir_stream_destroy(gone));
	EXPECT_STATUS(weir_stream_report_work(gone), WEIR_EINVAL);
}
