/*
 * What used a block, and when it may be used again: uses hung on, marked when
 * the block is freed, and met in any order. The blocks are none: only their
 * side of it, `struct pending`, is looked at.
 */
#include "streams/use.h"

#include "base/meta.h"
#include "streams/event.h"
#include "tests/support/device.h"

static struct waiting waiting;
static struct pending pending[4];

static struct stream *
find(weir_stream handle)
{
	struct stream *stream = NULL;

	EXPECT_OK(stream_find(WEIR_DEVICE_CURRENT, handle, &stream));
	stream_put(stream);
	return stream;
}

static void
arrange(void)
{
	waiting_init(&waiting);
	for (int i = 0; i < 4; i++)
		list_init(&pending[i].link);
}

static void
use(int i, weir_stream stream)
{
	EXPECT_OK(use_add(&waiting, &pending[i], find(stream)));
}

/* Poll; which of the four became free, as bits. */
static unsigned
poll(unsigned skips)
{
	struct list done;
	unsigned bits = 0;
	size_t n = 0;

	list_init(&done);
	size_t moved = waiting_poll(&waiting, skips, &done);
	while (!list_empty(&done)) {
		struct pending *p =
		    CONTAINER_OF(done.next, struct pending, link);
		list_remove(&p->link);
		EXPECT_NULL(p->uses);
		EXPECT_EQ(p->unmet, 0);
		bits |= 1u << (p - pending);
		n++;
	}
	EXPECT_EQ(n, moved);
	return bits;
}

/* The queues of streams stay for the next use; these have none. */
static bool
nobody_is_asked(void)
{
	for (struct list *l = waiting.queues.next; l != &waiting.queues;
	     l = l->next)
		if (CONTAINER_OF(l, struct use_queue, link)->refs > 0)
			return false;
	return true;
}

TEST(a_use_is_hung_on_once_for_each_stream)
{
	weir_stream a = new_stream();
	weir_stream b = new_stream();

	arrange();
	use(0, a);
	use(0, a);
	EXPECT_NULL(pending[0].uses->next);
	use(0, b);
	use(0, a);
	EXPECT_NULL(pending[0].uses->next->next);
	use_clear(&waiting, &pending[0]);
	EXPECT_NULL(pending[0].uses);
	EXPECT(nobody_is_asked());
	use_clear(&waiting, &pending[0]);
}

TEST(a_block_is_free_when_the_work_of_its_user_is_done)
{
	weir_stream a = new_stream();

	arrange();
	busy(a, LATE_MS);
	use(0, a);
	EXPECT_EQ(poll(8), 0); /* not freed yet */
	waiting_add(&waiting, &pending[0]);
	EXPECT_EQ(waiting.count, 1);
	EXPECT_EQ(pending[0].unmet, 1);
	EXPECT_EQ(poll(8), 0);
	finish(a);
	EXPECT_EQ(poll(0), 1);
	EXPECT_EQ(waiting.count, 0);
	EXPECT(nobody_is_asked());
	EXPECT_EQ(poll(8), 0);
}

TEST(a_block_is_free_when_the_last_of_several_users_is_done)
{
	weir_stream a = new_stream();
	weir_stream b = new_stream();

	arrange();
	busy(a, 20);
	busy(b, LATE_MS);
	use(0, a);
	use(0, b);
	waiting_add(&waiting, &pending[0]);
	finish(a);
	EXPECT_EQ(poll(8), 0);
	EXPECT_EQ(pending[0].unmet, 1);
	finish(b);
	EXPECT_EQ(poll(8), 1);
}

TEST(a_late_stream_holds_back_only_what_it_used)
{
	weir_stream late = new_stream();
	weir_stream soon = new_stream();

	arrange();
	busy(late, LATE_MS);
	use(0, late);
	use(1, soon);
	use(2, late);
	use(3, soon);
	for (int i = 0; i < 4; i++)
		waiting_add(&waiting, &pending[i]);
	settle();
	EXPECT_EQ(poll(0), 0xa);
	EXPECT_EQ(waiting.count, 2);
	finish(late);
	EXPECT_EQ(poll(0), 0x5);
}

/* A mark that comes late for another reason than its stream's. */
TEST(a_late_mark_holds_back_those_behind_it_only_if_they_are_not_looked_at)
{
	struct driver_guard guard;
	CUevent event;
	weir_stream a = new_stream();
	struct stream *stream = find(a);

	device_need_sim("an event is held back");
	arrange();
	EXPECT_OK(driver_enter(stream->context, &guard));
	EXPECT_OK(event_take(stream->context, &event));
	event_give(stream->context, event); /* the next one to be taken */
	driver_leave(&guard);
	EXPECT_EQ(sim()->hold_event(event, 1000000000), CUDA_SUCCESS);
	for (int i = 0; i < 3; i++) {
		use(i, a);
		waiting_add(&waiting, &pending[i]);
	}
	settle();
	EXPECT_EQ(poll(0), 0);
	EXPECT_EQ(poll(1), 0x6);
	sim()->advance_ns(1000000000);
	EXPECT_EQ(poll(0), 0x1);
}

TEST(work_queued_after_the_free_does_not_count)
{
	weir_stream a = new_stream();

	arrange();
	use(0, a);
	waiting_add(&waiting, &pending[0]);
	busy(a, LATE_MS);
	settle();
	EXPECT_EQ(poll(0), 1);
	EXPECT(!is_done(a));
}

TEST(a_use_of_no_stream_counts_all_work_of_the_device)
{
	weir_stream a = new_stream();

	arrange();
	busy(a, LATE_MS);
	use(0, WEIR_STREAM_ANY);
	waiting_add(&waiting, &pending[0]);
	settle();
	EXPECT_EQ(poll(0), 0);
	finish(a);
	settle();
	EXPECT_EQ(poll(0), 1);
}

TEST(uses_that_are_taken_off_a_waiting_block_are_waited_for_no_more)
{
	weir_stream a = new_stream();

	arrange();
	busy(a, LATE_MS);
	use(0, a);
	use(1, a);
	waiting_add(&waiting, &pending[0]);
	waiting_add(&waiting, &pending[1]);
	use_clear(&waiting, &pending[0]);
	EXPECT_EQ(waiting.count, 1);
	EXPECT_EQ(pending[0].unmet, 0);
	finish(a);
	EXPECT_EQ(poll(0), 0x2);
	EXPECT(nobody_is_asked());
}

TEST(uses_move_to_a_block_that_has_none)
{
	weir_stream a = new_stream();

	arrange();
	use(0, a);
	use(0, NULL);
	use_move(&pending[0], &pending[1]);
	EXPECT_NULL(pending[0].uses);
	waiting_add(&waiting, &pending[1]);
	EXPECT_EQ(pending[1].unmet, 2);
	settle();
	EXPECT_EQ(poll(0), 0x2);
}

TEST(a_use_needs_host_memory_and_freeing_none)
{
	weir_stream a = new_stream();
	struct stream *stream = find(a);

	arrange();
	for (unsigned long nth = 1; nth <= 2; nth++) {
		meta_fail(nth, 1);
		EXPECT_STATUS(
		    use_add(&waiting, &pending[0], stream), WEIR_EHOSTMEM);
		meta_fail(0, 0);
		EXPECT_NULL(pending[0].uses);
		EXPECT(nobody_is_asked());
	}
	use(0, a);
	meta_fail(1, 1000);
	waiting_add(&waiting, &pending[0]);
	meta_fail(0, 0);
	settle();
	EXPECT_EQ(poll(0), 1);
}

/* ---- Waiting ----------------------------------------------------------- */

TEST(a_use_that_is_held_is_waited_for_and_then_met)
{
	weir_stream a = new_stream();

	arrange();
	busy(a, 20);
	use(0, a);
	waiting_add(&waiting, &pending[0]);
	struct use *held = use_hold(&pending[0]);
	EXPECT_NOT_NULL(held);
	EXPECT_OK(use_wait(held));
	EXPECT(is_done(a));
	/* Whoever waits still looks at it, and keeps nobody from the block. */
	EXPECT_EQ(poll(8), 1);
	EXPECT_NULL(pending[0].uses);
	EXPECT(!list_empty(&waiting.queues));
	use_release(&waiting, held);
}

/* ---- Captures and failures --------------------------------------------- */

TEST(a_mark_that_a_capture_forbids_is_made_at_a_later_poll)
{
	const struct driver *driver = device_driver();
	weir_stream a = new_stream();
	CUgraph graph = NULL;

	arrange();
	use(0, a);
	EXPECT_OK(weir_set_device(0));
	EXPECT_EQ(
	    driver->cuStreamBeginCapture(a, CU_STREAM_CAPTURE_MODE_GLOBAL),
	    CUDA_SUCCESS);
	waiting_add(&waiting, &pending[0]);
	EXPECT_EQ(pending[0].unmet, 1);
	EXPECT_NULL(use_hold(&pending[0]));
	EXPECT_EQ(poll(8), 0);
	EXPECT_EQ(driver->cuStreamEndCapture(a, &graph), CUDA_SUCCESS);
	driver->cuGraphDestroy(graph);
	busy(a, LATE_MS);
	EXPECT_EQ(poll(8), 0); /* marked now, behind the work */
	EXPECT_EQ(poll(8), 0);
	finish(a);
	EXPECT_EQ(poll(8), 1);
}

TEST(a_block_used_in_a_capture_is_not_reused_before_the_capture_is_over)
{
	const struct driver *driver = device_driver();
	weir_stream a = new_stream();
	CUgraph graph = NULL;
	void *ptr = take(4 * MIB, NULL);

	take(512, NULL); /* small blocks need no more memory later */
	EXPECT_OK(weir_set_device(0));
	EXPECT_EQ(
	    driver->cuStreamBeginCapture(a, CU_STREAM_CAPTURE_MODE_GLOBAL),
	    CUDA_SUCCESS);
	fill(ptr, 4 * MIB, 1, a);
	record(ptr, a);
	give(ptr);
	EXPECT_EQ(stats().pending_bytes, 4 * MIB);
	EXPECT_NE(take(4 * MIB, NULL), ptr);
	EXPECT_NE(take(4 * MIB, new_stream()), ptr);
	EXPECT_EQ(driver->cuStreamEndCapture(a, &graph), CUDA_SUCCESS);
	EXPECT_EQ(driver->cuGraphDestroy(graph), CUDA_SUCCESS);
	give(take(1024, NULL)); /* marked now */
	settle();
	EXPECT_EQ(take(4 * MIB, NULL), ptr);
	expect_healthy();
}

TEST(a_mark_that_the_driver_refuses_is_made_at_a_later_poll)
{
	weir_stream a = new_stream();

	device_need_sim("calls of the driver are made to fail");
	arrange();
	use(0, a);
	EXPECT_EQ(
	    sim()->fail("cuEventRecord", 1, 2, CUDA_ERROR_LAUNCH_FAILED), 0);
	waiting_add(&waiting, &pending[0]);
	EXPECT_EQ(poll(8), 0);
	unsigned freed = poll(8);
	settle();
	freed |= poll(8);
	EXPECT_EQ(freed, 1);
}

TEST(an_event_that_cannot_be_asked_is_not_met)
{
	weir_stream a = new_stream();

	device_need_sim("calls of the driver are made to fail");
	arrange();
	use(0, a);
	waiting_add(&waiting, &pending[0]);
	settle();
	EXPECT_EQ(
	    sim()->fail("cuEventQuery", 1, 1, CUDA_ERROR_LAUNCH_FAILED), 0);
	EXPECT_EQ(poll(8), 0);
	EXPECT_EQ(poll(8), 1);
	EXPECT_EQ(weir_last_status(), WEIR_OK);
}

TEST(what_is_forgotten_asks_nothing_of_the_driver)
{
	weir_stream a = new_stream();

	arrange();
	use(0, a);
	use(1, a);
	waiting_add(&waiting, &pending[0]);
	waiting_forget(&waiting);
	device_need_sim("counts the driver's calls");
	sim()->reset();
	use_clear(&waiting, &pending[0]);
	use_clear(&waiting, &pending[1]);
	EXPECT_EQ(sim()->calls(NULL), 0);
	EXPECT_EQ(waiting.count, 0);
}
