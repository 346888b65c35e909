/*
 * Uses of blocks by other streams: added, covered by an event when the block is
 * freed, and met in any order. There are no real blocks, only `struct pending`,
 * the part of a block that holds its uses.
 */
#include "streams/use.h"

#include "base/meta.h"
#include "streams/event.h"
#include "tests/support/device.h"

static struct waiting waiting;
enum { BLOCKS = 32 };

static struct pending pending[BLOCKS];

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
	for (int i = 0; i < BLOCKS; i++) {
		list_init(&pending[i].link);
		pending[i].bytes = 2 * MIB; /* for a separate event */
	}
}

static void
use(int i, weir_stream stream)
{
	EXPECT_OK(use_add(&waiting, &pending[i], find(stream)));
}

/* All work of the stream on the block is queued. */
static void
use_past(int i, weir_stream stream)
{
	EXPECT_OK(use_add_past(
	    &waiting, &pending[i], pending[i].bytes, find(stream)));
}

/* Poll. Returns the blocks that became free, as bits. */
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

/* The queues of streams stay for the next use; these are empty. */
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

TEST(a_stream_is_known_by_its_handle_while_it_lives)
{
	weir_stream a = new_stream();

	arrange();
	EXPECT_NULL(use_known(&waiting, a));
	use(0, a);
	use(0, NULL);
	use(0, WEIR_STREAM_ANY);
	EXPECT_EQ(use_known(&waiting, a), find(a));
	/* These are streams of other contexts. */
	EXPECT_NULL(use_known(&waiting, NULL));
	EXPECT_NULL(use_known(&waiting, find(NULL)->handle));
	EXPECT_NULL(use_known(&waiting, WEIR_STREAM_ANY));
	EXPECT_OK(weir_stream_destroy(a));
	EXPECT_NULL(use_known(&waiting, a));
	use_clear(&waiting, &pending[0]);
}

static size_t
uses_of(int i)
{
	size_t n = 0;

	for (struct use *u = pending[i].uses; u != NULL; u = u->next)
		n++;
	return n;
}

TEST(many_streams_use_a_block_once_each_and_are_all_known)
{
	enum { MANY = 60 };
	weir_stream streams[MANY];

	arrange();
	for (int i = 0; i < MANY; i++)
		streams[i] = new_stream();
	/* Some use another block before, so that they are in a queue. */
	for (int i = 0; i < MANY; i += 3)
		use(1, streams[i]);
	for (int i = 0; i < 2 * MANY; i++)
		use(0, streams[i % MANY]);
	EXPECT_EQ(uses_of(0), MANY);
	EXPECT_EQ(uses_of(1), MANY / 3);
	for (int i = 0; i < MANY; i++)
		EXPECT_EQ(use_known(&waiting, streams[i]), find(streams[i]));
	EXPECT(tree_consistent(&waiting.by_stream));
	EXPECT_EQ(waiting.by_stream.count, waiting.queue_count);
	use_clear(&waiting, &pending[0]);
	use_clear(&waiting, &pending[1]);
	EXPECT(nobody_is_asked());
	EXPECT(tree_consistent(&waiting.by_stream));
	EXPECT_EQ(waiting.by_stream.count, waiting.queue_count);
	/* A queue that was dropped comes again. */
	for (int i = 0; i < MANY; i++)
		use(0, streams[i]);
	EXPECT_EQ(uses_of(0), MANY);
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

TEST(a_late_stream_holds_back_only_blocks_that_it_used)
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

/* An event that is late for another reason than its stream's work. */
TEST(an_event_that_is_met_covers_all_before_it)
{
	struct driver_guard guard;
	CUevent event;
	weir_stream a = new_stream();
	struct stream *stream = find(a);

	device_need_sim("an event is held back");
	arrange();
	EXPECT_OK(driver_enter(stream->context, &guard));
	EXPECT_OK(event_acquire(stream->context, &event));
	event_release(stream->context, event); /* the next one to be used */
	driver_leave(&guard);
	EXPECT_EQ(sim()->hold_event(event, 1000000000), CUDA_SUCCESS);
	for (int i = 0; i < 3; i++) {
		use(i, a);
		waiting_add(&waiting, &pending[i]);
	}
	settle();
	EXPECT_EQ(poll(0), 0);
	EXPECT_EQ(poll(1), 0x7);
	EXPECT(nobody_is_asked());
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

/* ---- Uses that are past ------------------------------------------------ */

TEST(work_queued_after_a_past_use_does_not_count)
{
	weir_stream a = new_stream();

	arrange();
	use_past(0, a);
	settle();
	busy(a, LATE_MS);
	waiting_add(&waiting, &pending[0]);
	EXPECT_EQ(poll(0), 1);
	EXPECT(!is_done(a));
	EXPECT(nobody_is_asked());
}

TEST(a_past_use_is_waited_for)
{
	weir_stream a = new_stream();

	arrange();
	busy(a, LATE_MS);
	use_past(0, a);
	waiting_add(&waiting, &pending[0]);
	EXPECT_EQ(poll(8), 0);
	finish(a);
	EXPECT_EQ(poll(0), 1);
	EXPECT(nobody_is_asked());
}

TEST(a_past_use_that_is_met_before_the_free_stays_until_the_free_drops_it)
{
	weir_stream a = new_stream();

	arrange();
	use_past(0, a);
	use(1, a);
	waiting_add(&waiting, &pending[1]); /* so that an event is queried */
	settle();
	EXPECT_EQ(poll(0), 2);
	EXPECT_NOT_NULL(pending[0].uses);
	EXPECT_EQ(pending[0].unmet, 0);
	use_drop_met(&waiting, &pending[0]);
	EXPECT_NULL(pending[0].uses);
	EXPECT(nobody_is_asked());
}

TEST(the_latest_past_use_of_a_stream_counts)
{
	weir_stream a = new_stream();

	arrange();
	use_past(0, a);
	settle();
	busy(a, LATE_MS);
	use_past(0, a);
	EXPECT_NULL(pending[0].uses->next);
	use_drop_met(&waiting, &pending[0]);
	waiting_add(&waiting, &pending[0]);
	EXPECT_EQ(poll(8), 0);
	finish(a);
	EXPECT_EQ(poll(0), 1);
}

TEST(a_use_until_the_free_covers_past_ones_of_its_stream_before_and_after)
{
	weir_stream a = new_stream();

	arrange();
	use_past(0, a);
	use(0, a);
	use(1, a);
	use_past(1, a);
	busy(a, LATE_MS);
	for (int i = 0; i < 2; i++) {
		EXPECT_NULL(pending[i].uses->next);
		EXPECT(!pending[i].uses->past);
		waiting_add(&waiting, &pending[i]);
	}
	settle();
	EXPECT_EQ(poll(8), 0);
	finish(a);
	EXPECT_EQ(poll(0), 3);
}

TEST(past_uses_and_others_of_several_streams_are_all_waited_for)
{
	weir_stream late = new_stream();
	weir_stream soon = new_stream();

	arrange();
	busy(late, LATE_MS);
	use_past(0, late);
	use(0, soon);
	use(1, late);
	use_past(1, soon);
	settle();
	for (int i = 0; i < 2; i++) {
		use_drop_met(&waiting, &pending[i]);
		waiting_add(&waiting, &pending[i]);
	}
	EXPECT_EQ(poll(8), 0);
	finish(late);
	EXPECT_EQ(poll(8), 3);
	EXPECT(nobody_is_asked());
}

TEST(a_past_use_that_cannot_be_recorded_changes_nothing)
{
	weir_stream a = new_stream();
	weir_stream b = new_stream();

	arrange();
	use_past(0, a);
	const struct use *before = pending[0].uses;
	struct stream *other = find(b);
	meta_fail(1, 1);
	EXPECT_STATUS(
	    use_add_past(&waiting, &pending[0], MIB, other), WEIR_EHOSTMEM);
	meta_fail(0, 0);
	EXPECT_EQ(pending[0].uses, before);
	EXPECT_NULL(before->next);
	use_clear(&waiting, &pending[0]);
	EXPECT(nobody_is_asked());
}

/* A host that waits for its event keeps it, and the block may be used again. */
TEST(a_past_use_that_a_host_waits_for_may_be_taken_off)
{
	weir_stream a = new_stream();

	arrange();
	use_past(0, a);
	use(1, a);
	waiting_add(&waiting, &pending[1]);
	struct use *held = use_hold(&pending[1]);
	EXPECT_NOT_NULL(held);
	use_past(0, a);
	EXPECT_OK(use_wait(held));
	use_release(&waiting, held);
	settle();
	EXPECT_EQ(poll(8), 2);
	use_drop_met(&waiting, &pending[0]);
	EXPECT_NULL(pending[0].uses);
	EXPECT(nobody_is_asked());
}

/* The only queue. */
static struct use_queue *
only_queue(void)
{
	return CONTAINER_OF(waiting.queues.next, struct use_queue, link);
}

static size_t
count_events(void)
{
	size_t n = 0;

	if (list_empty(&waiting.queues))
		return 0;
	struct list *uses = &only_queue()->uses;
	for (struct list *l = uses->next; l != uses; l = l->next)
		n += CONTAINER_OF(l, struct use, link)->event != NULL;
	return n;
}

TEST(uses_of_little_memory_share_an_event)
{
	enum { BATCH = 16 };
	struct pending little[2 * BATCH] = { 0 };
	struct list done;
	weir_stream a = new_stream();

	arrange();
	list_init(&done);
	for (int i = 0; i < 2 * BATCH; i++) {
		EXPECT_EQ(count_events(), i / BATCH);
		little[i].bytes = 512;
		list_init(&little[i].link);
		EXPECT_OK(use_add(&waiting, &little[i], find(a)));
		waiting_add(&waiting, &little[i]);
	}
	EXPECT_EQ(count_events(), 2);
	EXPECT_EQ(waiting.bytes, 2 * BATCH * 512);
	settle();
	EXPECT_EQ(waiting_glance(&waiting, &done), 2 * BATCH);
	EXPECT_EQ(waiting.bytes, 0);
	EXPECT(nobody_is_asked());
}

TEST(little_memory_is_asked_about_when_memory_is_missed_and_not_before)
{
	weir_stream a = new_stream();

	arrange();
	pending[0].bytes = 512;
	use(0, a);
	waiting_add(&waiting, &pending[0]);
	EXPECT(!waiting_is_due(&waiting));
	EXPECT_EQ(count_events(), 0);
	settle();
	EXPECT_EQ(poll(0), 1);
	use(1, a);
	waiting_add(&waiting, &pending[1]);
	EXPECT(waiting_is_due(&waiting));
	EXPECT_EQ(count_events(), 1);
	settle();
	EXPECT_EQ(poll(0), 2);
	EXPECT(!waiting_is_due(&waiting));
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

/* ---- Events that are shared -------------------------------------------- */

static uint64_t
records(void)
{
	return sim()->calls("cuCtxRecordEvent");
}

/* Free device-scope blocks of `bytes` each. */
static void
free_any(int from, int to, size_t bytes)
{
	for (int i = from; i < to; i++) {
		use(i, WEIR_STREAM_ANY);
		pending[i].bytes = bytes;
		waiting_add(&waiting, &pending[i]);
	}
}

/* Glance. Returns the number of blocks that became free. */
static size_t
glance(void)
{
	struct list done;

	list_init(&done);
	return waiting_glance(&waiting, &done);
}

static void
arrange_any(void)
{
	device_need_sim("counts the driver's calls");
	arrange();
	find(WEIR_STREAM_ANY);
	sim()->reset();
}

TEST(many_frees_of_no_stream_share_one_event)
{
	arrange_any();
	free_any(0, 15, 512);
	EXPECT_EQ(records(), 0);
	free_any(15, 16, 512);
	EXPECT_EQ(records(), 1);
	free_any(16, 31, 512);
	EXPECT_EQ(records(), 1);
	settle();
	/* One event, queried once, for sixteen blocks. */
	uint64_t asked = sim()->calls("cuEventQuery");
	EXPECT_EQ(glance(), 16);
	EXPECT_EQ(sim()->calls("cuEventQuery"), asked + 1);
	EXPECT_EQ(waiting.count, 15);
}

TEST(much_memory_of_no_stream_is_not_left_unmarked)
{
	arrange_any();
	free_any(0, 1, 63 * MIB);
	EXPECT_EQ(records(), 0);
	free_any(1, 2, MIB);
	EXPECT_EQ(records(), 1);
	free_any(2, 3, 64 * MIB);
	EXPECT_EQ(records(), 2);
	settle();
	EXPECT_EQ(poll(0), 0x7);
}

TEST(a_request_that_finds_nothing_fences_unfenced_streams)
{
	arrange_any();
	free_any(0, 3, 512);
	settle();
	EXPECT_EQ(glance(), 0);
	EXPECT_EQ(records(), 0);
	EXPECT_EQ(sim()->calls("cuEventQuery"), 0);
	unsigned freed = poll(0);
	EXPECT_EQ(records(), 1);
	settle();
	freed |= poll(0);
	EXPECT_EQ(freed, 0x7);
	EXPECT_EQ(records(), 1);
	EXPECT(waiting.count == 0);
}

static uint64_t
asked(void)
{
	return sim()->calls("cuEventQuery");
}

TEST(a_glance_at_memory_of_no_stream_settles_one_event)
{
	arrange_any();
	free_any(0, 1, 64 * MIB);
	free_any(1, 2, 64 * MIB);
	settle();
	EXPECT_EQ(glance(), 1);
	EXPECT_EQ(asked(), 1);
	EXPECT_EQ(glance(), 1);
	EXPECT_EQ(asked(), 2);
	EXPECT_EQ(waiting.count, 0);
}

/* The 1st, 3rd, 6th, 11th, 20th, 29th glance and so on query; a poll queries at
 * once. */
TEST(glances_that_find_no_memory_of_no_stream_become_rarer)
{
	weir_stream a = new_stream();

	arrange_any();
	busy(a, LATE_MS);
	free_any(0, 16, 512);
	for (int i = 0; i < 11; i++)
		EXPECT_EQ(glance(), 0);
	EXPECT_EQ(asked(), 4);
	for (int i = 0; i < 18; i++)
		EXPECT_EQ(glance(), 0);
	EXPECT_EQ(asked(), 6);
	EXPECT_EQ(poll(0), 0);
	EXPECT_EQ(asked(), 7);
	finish(a);
	EXPECT_EQ(poll(0), 0xffff);
}

TEST(much_memory_of_no_stream_is_asked_about_each_time)
{
	weir_stream a = new_stream();

	arrange_any();
	busy(a, LATE_MS);
	free_any(0, 1, 64 * MIB);
	for (int i = 0; i < 11; i++)
		EXPECT_EQ(glance(), 0);
	EXPECT_EQ(asked(), 11);
	finish(a);
	EXPECT_EQ(glance(), 1);
}

/* After a glance that found memory, the next one queries at once. */
TEST(glances_that_find_something_go_on)
{
	weir_stream a = new_stream();

	arrange_any();
	busy(a, LATE_MS);
	free_any(0, 16, 512);
	free_any(16, 32, 512);
	EXPECT_EQ(glance(), 0);
	finish(a);
	EXPECT_EQ(glance(), 0);
	EXPECT_EQ(asked(), 1);
	for (int i = 0; i < 2; i++)
		EXPECT_EQ(glance(), 16);
	EXPECT_EQ(asked(), 3);
}

/* A poll records events for uses that have none, even after events that are not
 * met. */
TEST(events_are_in_the_order_of_the_frees)
{
	weir_stream a = new_stream();

	arrange_any();
	busy(a, LATE_MS);
	free_any(0, 16, 512);
	finish(a);
	busy(a, LATE_MS);
	free_any(16, 20, 512);
	EXPECT_EQ(poll(0), 0xffff);
	EXPECT_EQ(records(), 2);
	EXPECT_EQ(poll(8), 0);
	finish(a);
	EXPECT_EQ(poll(0), 0xf0000);
	EXPECT_EQ(records(), 2);
}

TEST(an_event_stays_with_those_before_when_its_block_is_taken)
{
	weir_stream a = new_stream();

	arrange_any();
	busy(a, LATE_MS);
	free_any(0, 16, 512);
	/* The last block, which carries the event, and one in the middle. */
	use_clear(&waiting, &pending[15]);
	use_clear(&waiting, &pending[7]);
	EXPECT_EQ(records(), 1);
	finish(a);
	busy(a, LATE_MS);
	EXPECT_EQ(poll(0), 0x7f7f);
	EXPECT_EQ(records(), 1);
	EXPECT(!is_done(a));
	EXPECT_EQ(waiting.count, 0);
}

TEST(an_event_goes_no_further_than_to_the_event_before)
{
	weir_stream a = new_stream();

	arrange_any();
	free_any(0, 1, 64 * MIB);
	settle();
	busy(a, LATE_MS);
	free_any(1, 2, 64 * MIB);
	free_any(2, 3, 64 * MIB);
	use_clear(&waiting, &pending[2]);
	use_clear(&waiting, &pending[1]);
	EXPECT_EQ(records(), 3);
	EXPECT_EQ(poll(0), 0x1);
	free_any(3, 4, 64 * MIB);
	EXPECT_EQ(poll(0), 0);
	finish(a);
	EXPECT_EQ(poll(0), 0x8);
	EXPECT_EQ(records(), 4);
}

TEST(the_first_event_of_a_queue_may_go)
{
	weir_stream a = new_stream();

	arrange_any();
	busy(a, LATE_MS);
	free_any(0, 1, 64 * MIB);
	free_any(1, 17, 512);
	use_clear(&waiting, &pending[0]);
	EXPECT_EQ(poll(0), 0);
	finish(a);
	EXPECT_EQ(poll(0), 0x1fffe);
	EXPECT_EQ(records(), 2);
}

TEST(a_stream_follows_a_shared_event)
{
	weir_stream a = new_stream();
	weir_stream b = new_stream();
	struct stream *later = find(b);
	struct driver_guard guard;
	uint64_t waits = 0;

	arrange_any();
	busy(a, LATE_MS);
	free_any(0, 4, 512);
	EXPECT_OK(driver_enter(later->context, &guard));
	for (int i = 0; i < 4; i++)
		EXPECT(use_follow(&pending[i], later, 0, &waits));
	driver_leave(&guard);
	EXPECT_EQ(waits, 1); /* its order after the others is known */
	EXPECT_EQ(records(), 1);
	EXPECT(!is_done(b));
	finish(a);
	EXPECT(is_done(b));
	EXPECT_EQ(poll(0), 0xf);
}

TEST(an_event_that_a_host_waits_for_is_not_passed_on)
{
	weir_stream a = new_stream();

	arrange_any();
	busy(a, 20);
	free_any(0, 2, 512);
	struct use *held = use_hold(&pending[0]);
	EXPECT(held == pending[1].uses); /* the last block carries it */
	EXPECT_EQ(records(), 1);
	use_clear(&waiting, &pending[1]);
	EXPECT_NULL(held->owner);
	EXPECT_OK(use_wait(held));
	EXPECT(is_done(a));
	/* The block before gets an event again. */
	busy(a, LATE_MS);
	EXPECT_EQ(poll(8), 0);
	EXPECT_EQ(records(), 2);
	use_release(&waiting, held);
	EXPECT_EQ(poll(8), 0);
	finish(a);
	EXPECT_EQ(poll(8), 0x1);
	EXPECT(nobody_is_asked());
}

TEST(hosts_that_wait_for_one_event_end_in_any_order)
{
	arrange_any();
	free_any(0, 3, 512);
	struct use *first = use_hold(&pending[0]);
	struct use *second = use_hold(&pending[1]);
	EXPECT(first == second);
	EXPECT_OK(use_wait(first));
	EXPECT_EQ(poll(0), 0x7);
	use_release(&waiting, second);
	EXPECT(!nobody_is_asked());
	use_release(&waiting, first);
	EXPECT(nobody_is_asked());
	EXPECT_EQ(records(), 1);
}

TEST(frees_in_a_capture_are_fenced_together_when_it_is_over)
{
	weir_stream a = new_stream();
	weir_stream b = new_stream();

	arrange_any();
	find(a); /* an unknown event is not queried */
	capture_begin(a);
	free_any(0, 20, 512);
	EXPECT_EQ(poll(8), 0);
	EXPECT_NULL(use_hold(&pending[3]));
	EXPECT_EQ(records(), 0);
	capture_end(a);
	busy(b, LATE_MS);
	EXPECT_EQ(glance(), 0);
	EXPECT_EQ(records(), 0);
	EXPECT_EQ(poll(8), 0);
	EXPECT_EQ(records(), 1);
	finish(b);
	EXPECT_EQ(poll(0), 0xfffff);
}

/* The waiting blocks, as bits. */
static unsigned
waiting_blocks(void)
{
	unsigned bits = 0;

	for (int i = 0; i < BLOCKS; i++)
		if (pending[i].unmet > 0)
			bits |= 1u << i;
	EXPECT_EQ(waiting.count, __builtin_popcount(bits));
	return bits;
}

/* Wait for one block while the block with its event is removed. */
static void
wait_and_take(int i)
{
	struct use *held = use_hold(&pending[i]);

	EXPECT_NOT_NULL(held);
	EXPECT_OK(use_wait(held));
	use_clear(&waiting, held->owner);
	use_release(&waiting, held);
}

static void
free_one(int i, unsigned random, weir_stream a)
{
	use(i, random & 1 ? WEIR_STREAM_ANY : a);
	if (random & 2)
		use(i, random & 1 ? a : WEIR_STREAM_ANY);
	pending[i].bytes = (size_t)(random >> 2 & 15) * MIB;
	waiting_add(&waiting, &pending[i]);
}

/* Blocks are freed, removed, waited for and queried in random order: all
 * waiting ones are found in the end. */
TEST(no_block_is_left_behind)
{
	weir_stream a = new_stream();
	unsigned state = 12345;

	arrange();
	for (int step = 0; step < 20000; step++) {
		state = state * 1664525 + 1013904223;
		int i = (int)(state >> 16) % BLOCKS;
		bool waits = waiting_blocks() >> i & 1;
		unsigned action = state >> 28;
		if (action == 0)
			poll(state >> 27 & 1);
		else if (action == 1)
			settle();
		else if (action == 2 && waits)
			use_clear(&waiting, &pending[i]);
		else if (action == 3 && waits)
			wait_and_take(i);
		else if (action > 3 && !waits)
			free_one(i, state >> 20, a);
	}
	unsigned left = waiting_blocks();
	unsigned freed = poll(0);
	settle();
	freed |= poll(0);
	EXPECT_EQ(freed, left);
	EXPECT(nobody_is_asked());
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
	/* A waiting host still has the event, which does not hold the block
	 * back. */
	EXPECT_EQ(poll(8), 1);
	EXPECT_NULL(pending[0].uses);
	EXPECT(!list_empty(&waiting.queues));
	use_release(&waiting, held);
}

/* ---- Captures and failures --------------------------------------------- */

TEST(a_fence_that_a_capture_forbids_is_made_at_a_later_poll)
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
	EXPECT_EQ(poll(8), 0); /* fenced now, after the work */
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
	give(take(1024, NULL)); /* fenced now */
	settle();
	EXPECT_EQ(take(4 * MIB, NULL), ptr);
	expect_healthy();
}

TEST(a_fence_that_the_driver_refuses_is_made_at_a_later_poll)
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

TEST(forgotten_uses_make_no_driver_call)
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
