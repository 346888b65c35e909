/*
 * Views: how far a request may use the free memory of each stream.
 */
#include "allocator/memory/view.h"

#include "allocator/memory/arena.h"
#include "tests/support/device.h"

static struct arena *
arena(void)
{
	return arena_peek(0);
}

/* The heap of a new stream, made by a small block that stays. */
static struct stream_heap *
heap_of(weir_stream handle)
{
	struct stream *stream;

	take(512, handle);
	EXPECT_OK(stream_find(0, handle, &stream));
	struct stream_heap *heap = stream->heap;
	stream_put(stream);
	EXPECT_NOT_NULL(heap);
	return heap;
}

TEST(a_stream_may_use_memory_that_it_freed_and_memory_of_no_stream)
{
	struct view view;
	weir_stream a = new_stream();

	conf("tcache:0");
	struct stream_heap *mine = heap_of(a);
	busy(a, LATE_MS);
	give(take(2 * MIB, a));
	lock_enter(&arena()->lock);
	view_begin(&view, mine);
	EXPECT_EQ(view_until(&view, mine), UINT64_MAX);
	EXPECT_EQ(view_until(&view, arena()->memory.any_heap), UINT64_MAX);
	lock_leave(&arena()->lock);
}

TEST(no_order_is_relied_on_before_it_was_asked_whether_it_may_be)
{
	struct view view;
	weir_stream a = new_stream();
	weir_stream b = new_stream();

	conf("tcache:0");
	struct stream_heap *of_a = heap_of(a);
	struct stream_heap *of_b = heap_of(b);
	busy(a, LATE_MS);
	give(take(2 * MIB, a));
	EXPECT_OK(weir_stream_wait_stream(b, a));
	lock_enter(&arena()->lock);
	view_begin(&view, of_b);
	EXPECT_LT(view_until(&view, of_a), of_a->freed_at);
	EXPECT(view_can_wait(&view));
	EXPECT_LT(view_until(&view, of_a), of_a->freed_at); /* it was queried */
	view_renew(&view);
	EXPECT_GE(view_until(&view, of_a), of_a->freed_at);
	lock_leave(&arena()->lock);
}

/* Another request's view of the same streams is its own. */
TEST(memory_that_one_request_may_use_another_may_not)
{
	struct view view_b, view_c;
	weir_stream a = new_stream();
	weir_stream b = new_stream();
	weir_stream c = new_stream();

	conf("tcache:0");
	struct stream_heap *of_a = heap_of(a);
	struct stream_heap *of_b = heap_of(b);
	struct stream_heap *of_c = heap_of(c);
	busy(a, LATE_MS);
	char *block = take(2 * MIB, a);
	give(block);
	EXPECT_OK(weir_stream_wait_stream(b, a));
	lock_enter(&arena()->lock);
	view_begin(&view_b, of_b);
	view_begin(&view_c, of_c);
	view_can_wait(&view_b);
	view_can_wait(&view_c);
	for (int i = 0; i < 2; i++) {
		EXPECT_GE(view_until(&view_b, of_a), of_a->freed_at);
		EXPECT_LT(view_until(&view_c, of_a), of_a->freed_at);
	}
	lock_leave(&arena()->lock);
}

TEST(more_streams_than_a_view_keeps_are_asked_again)
{
	/* The first must still be busy when the last has been prepared. */
	enum { STREAMS = VIEW_KEPT + 3, MANY_LATE_MS = 1000 };
	struct view view;
	struct stream_heap *of[STREAMS];
	weir_stream mine = new_stream();

	conf("tcache:0,prefer:speed"); /* no request waits */
	struct stream_heap *of_mine = heap_of(mine);
	/* A GPU needs long to make a stream while others are busy. */
	for (int i = 0; i < STREAMS; i++)
		of[i] = heap_of(new_stream());
	for (int i = 0; i < STREAMS; i++) {
		weir_stream stream = of[i]->stream->handle;
		busy(stream, MANY_LATE_MS);
		give(take(2 * MIB, stream));
		if (i % 2 == 0)
			EXPECT_OK(weir_stream_wait_stream(mine, stream));
	}
	lock_enter(&arena()->lock);
	view_begin(&view, of_mine);
	view_can_wait(&view);
	for (int i = 0; i < 2 * STREAMS; i++) {
		struct stream_heap *heap = of[i % STREAMS];
		EXPECT_EQ(view_until(&view, heap) >= heap->freed_at,
		    i % STREAMS % 2 == 0);
	}
	lock_leave(&arena()->lock);
}

TEST(memory_behind_a_new_wait_may_be_used)
{
	struct view view;
	weir_stream a = new_stream();

	conf("tcache:0");
	struct stream_heap *of_a = heap_of(a);
	struct stream_heap *mine = heap_of(new_stream());
	busy(a, LATE_MS);
	give(take(2 * MIB, a));
	lock_enter(&arena()->lock);
	view_begin(&view, mine);
	EXPECT_LT(view_until(&view, of_a), of_a->freed_at);
	view_put_behind(&view, of_a, of_a->freed_at);
	EXPECT_EQ(view_until(&view, of_a), of_a->freed_at);
	lock_leave(&arena()->lock);
}

TEST(a_view_of_no_stream_cannot_wait)
{
	struct view view;

	conf("tcache:0");
	heap_of(new_stream());
	lock_enter(&arena()->lock);
	view_begin(&view, arena()->memory.any_heap);
	EXPECT(!view_can_wait(&view));
	EXPECT(!view.ordered);
	lock_leave(&arena()->lock);
}
