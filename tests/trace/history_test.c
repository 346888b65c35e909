/*
 * The history: settings, rings, facts of threads, and annotations.
 */
#include "trace/history.h"

#include <pthread.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/meta.h"
#include "stacks/text.h"
#include "tests/support/device.h"

static struct history_ring ring;

static struct weir_history
asked(void)
{
	return (
	    struct weir_history){ .struct_size = sizeof(struct weir_history) };
}

/* Keep this many events at a level. */
static void
keep(size_t entries, enum weir_history_level level)
{
	struct history_settings settings = { .level = level,
		.capacity = entries };

	EXPECT_OK(history_set(&settings));
}

static void
emit(uint64_t addr)
{
	struct history_stamp stamp = history_stamp();
	struct trace_event *event = history_add(&ring, TRACE_alloc, &stamp);

	if (event != NULL)
		event->addr = addr;
}

/* The ring has the events with addresses from `first` on, in order. */
static void
expect_events(uint64_t first, size_t n)
{
	struct trace_event events[64];
	uint64_t from = history_oldest(&ring);

	EXPECT_EQ(ring.next - from, n);
	EXPECT_EQ(history_copy(&ring, &from, ring.next, events, 64), n);
	for (size_t i = 0; i < n; i++)
		EXPECT_EQ(events[i].addr, first + i);
}

/* ---- Settings ---------------------------------------------------------- */

TEST(without_a_wish_everything_is_kept)
{
	struct history_settings settings;

	EXPECT_OK(history_read(NULL, &settings));
	EXPECT_EQ(settings.level, WEIR_HISTORY_ALL);
	EXPECT_EQ(settings.stacks, WEIR_STACKS_ALL);
	EXPECT_EQ(settings.capacity, 1000000);
	EXPECT_EQ(settings.skip, 0);
	struct weir_history history = asked();
	EXPECT_OK(history_read(&history, &settings));
	EXPECT_EQ(settings.level, WEIR_HISTORY_NONE);
	EXPECT_EQ(settings.capacity, 1000000);
}

TEST(actions_are_skipped_by_name)
{
	struct history_settings settings;
	struct weir_history history = asked();

	history.skip = "oom,segment_map,free_completed";
	history.max_entries = 5;
	EXPECT_OK(history_read(&history, &settings));
	EXPECT_EQ(settings.skip,
	    1u << TRACE_oom | 1u << TRACE_segment_map |
		1u << TRACE_free_completed);
	EXPECT_EQ(settings.capacity, 5);
	EXPECT_OK(history_set(&settings));
	struct history_stamp stamp = history_stamp();
	for (unsigned action = 0; action < TRACE_ACTION_COUNT; action++)
		history_add(&ring, (enum trace_action)action, &stamp);
	EXPECT_EQ(ring.next, TRACE_ACTION_COUNT - 3);
	EXPECT_EQ(history_settings().skip, settings.skip);
	history_unset();
	EXPECT_EQ(history_settings().skip, 0);
}

TEST(a_wrong_setting_is_refused_by_name)
{
	struct history_settings settings;
	struct weir_history history = asked();

	history.skip = "oom,segment_maps";
	EXPECT_STATUS(history_read(&history, &settings), WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), "unknown action segment_maps");
	history = asked();
	history.level = (enum weir_history_level)4;
	EXPECT_STATUS(history_read(&history, &settings), WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), "unknown level 4");
	history = asked();
	history.stacks = (enum weir_stacks)2;
	EXPECT_STATUS(history_read(&history, &settings), WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), "unknown stacks 2");
	history = asked();
	history.max_entries = SIZE_MAX / 2;
	EXPECT_STATUS(history_read(&history, &settings), WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), "too many");
	history = (struct weir_history){ 0 };
	EXPECT_STATUS(history_read(&history, &settings), WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), "struct_size");
}

/* ---- Rings ------------------------------------------------------------- */

TEST(nothing_is_kept_while_it_is_off)
{
	emit(1);
	EXPECT_EQ(ring.next, 0);
	keep(8, WEIR_HISTORY_NONE);
	emit(2);
	history_unset();
	emit(3);
	expect_events(2, 1);
}

TEST(a_ring_keeps_the_latest_and_counts_all)
{
	keep(8, WEIR_HISTORY_NONE);
	for (uint64_t i = 0; i < 8; i++)
		emit(i);
	expect_events(0, 8);
	emit(8);
	expect_events(1, 8);
	for (uint64_t i = 9; i < 5000; i++) {
		emit(i);
		if (i % 97 == 0)
			expect_events(i - 7, 8);
	}
	EXPECT_EQ(ring.next - ring.first, 5000);
}

TEST(a_ring_of_one_keeps_the_last)
{
	keep(1, WEIR_HISTORY_NONE);
	for (uint64_t i = 0; i < 3000; i++) {
		emit(i);
		if (i % 100 == 0)
			expect_events(i, 1);
	}
}

TEST(a_copy_goes_on_where_it_was_although_more_has_come)
{
	struct trace_event events[4];
	uint64_t from;
	uint64_t end;

	keep(8, WEIR_HISTORY_NONE);
	for (uint64_t i = 0; i < 20; i++)
		emit(i);
	from = history_oldest(&ring);
	end = ring.next;
	EXPECT_EQ(history_copy(&ring, &from, end, events, 4), 4);
	EXPECT_EQ(events[0].addr, 12);
	from += 4;
	for (uint64_t i = 20; i < 40; i++)
		emit(i);
	EXPECT_EQ(history_copy(&ring, &from, end, events, 4), 4);
	EXPECT_EQ(events[3].addr, 19);
	from += 4;
	EXPECT_EQ(history_copy(&ring, &from, end, events, 4), 0);

	/* Many more events; the overwritten ones are left out. */
	from = end;
	for (uint64_t i = 40; i < 3000; i++)
		emit(i);
	end = from + 20;
	EXPECT_EQ(history_copy(&ring, &from, ring.next, events, 4), 4);
	EXPECT_EQ(events[0].addr, from);
	EXPECT_GT(from, end);
}

TEST(a_ring_that_changes_its_size_keeps_the_events_that_fit)
{
	keep(8, WEIR_HISTORY_NONE);
	for (uint64_t i = 0; i < 20; i++)
		emit(i);
	keep(4, WEIR_HISTORY_NONE);
	history_resize(&ring, false);
	expect_events(16, 4);
	emit(20);
	expect_events(17, 4);
	keep(16, WEIR_HISTORY_NONE);
	history_resize(&ring, false);
	expect_events(17, 4);
	for (uint64_t i = 21; i < 40; i++)
		emit(i);
	expect_events(24, 16);
	EXPECT_EQ(ring.next - ring.first, 40);
	history_resize(&ring, true);
	EXPECT_EQ(ring.next, 0);
	emit(7);
	expect_events(7, 1);
}

TEST(a_ring_without_memory_counts_dropped_events)
{
	keep(8, WEIR_HISTORY_NONE);
	meta_fail(1, 1);
	emit(1);
	emit(2);
	meta_fail(0, 0);
	EXPECT_EQ(ring.next, 2);
	EXPECT_EQ(history_oldest(&ring), 2);
	/* It is not retried at each event, but when the history is started
	 * again. */
	emit(3);
	EXPECT_NULL(ring.events);
	history_resize(&ring, false);
	emit(4);
	expect_events(4, 1);
}

TEST(a_ring_that_cannot_grow_stays_as_it_is)
{
	keep(8, WEIR_HISTORY_NONE);
	for (uint64_t i = 0; i < 10; i++)
		emit(i);
	keep(16, WEIR_HISTORY_NONE);
	meta_fail(1, 1);
	history_resize(&ring, false);
	meta_fail(0, 0);
	expect_events(2, 8);
	emit(10);
	expect_events(3, 8);
}

TEST(ten_million_events_take_no_more_room_than_the_ring)
{
	uint64_t n = test_effort(10000000);

	keep(100000, WEIR_HISTORY_NONE);
	for (uint64_t i = 0; i < n; i++)
		emit(i);
	EXPECT_EQ(ring.next, n);
	EXPECT_EQ(ring.bound, 100000);
	EXPECT_LE(ring.capacity, 100000 + 2000);
	EXPECT_EQ(ring.next - history_oldest(&ring), n < 100000 ? n : 100000);
}

/* ---- Calls ------------------------------------------------------------- */

/* The latest event. */
static struct trace_event
latest(void)
{
	struct trace_event event;
	uint64_t from = ring.next - 1;

	EXPECT_EQ(history_copy(&ring, &from, ring.next, &event, 1), 1);
	return event;
}

/* The stack of a call that records one from a level on. */
static uint32_t
stack_of_call(enum weir_history_level from)
{
	history_enter(from);
	uint32_t stack = history_stack();
	history_leave();
	EXPECT_EQ(history_stack(), 0);
	return stack;
}

TEST(stacks_are_taken_from_their_level_on)
{
	EXPECT_EQ(stack_of_call(WEIR_HISTORY_STATE), 0);
	keep(8, WEIR_HISTORY_NONE);
	EXPECT_EQ(stack_of_call(WEIR_HISTORY_STATE), 0);
	keep(8, WEIR_HISTORY_STATE);
	EXPECT_GT(stack_of_call(WEIR_HISTORY_STATE), 0);
	EXPECT_EQ(stack_of_call(WEIR_HISTORY_ALL), 0);
	keep(8, WEIR_HISTORY_ALL);
	EXPECT_GT(stack_of_call(WEIR_HISTORY_ALL), 0);
}

TEST(events_have_their_stack_from_alloc_on)
{
	static const enum weir_history_level levels[] = { WEIR_HISTORY_NONE,
		WEIR_HISTORY_STATE, WEIR_HISTORY_ALLOC, WEIR_HISTORY_ALL };

	for (int i = 0; i < 4; i++) {
		keep(8, levels[i]);
		struct history_stamp stamp = history_stamp();
		EXPECT_EQ(history_told(&stamp, 5), i < 2 ? 0 : 5);
	}
}

TEST(events_have_the_thread_its_metadata_and_the_compile_context)
{
	keep(8, WEIR_HISTORY_NONE);
	emit(1);
	EXPECT_EQ(latest().thread, syscall(SYS_gettid));
	EXPECT_EQ(latest().metadata, TEXT_NONE);
	EXPECT_EQ(latest().compile, TEXT_NONE);
	EXPECT_STR_EQ(weir_metadata_get(), "");
	EXPECT_OK(weir_metadata_set("step 1"));
	EXPECT_OK(weir_compile_context_push("outer"));
	EXPECT_OK(weir_compile_context_push("inner"));
	emit(2);
	EXPECT_STR_EQ(weir_metadata_get(), "step 1");
	EXPECT_STR_EQ(text_get(latest().metadata), "step 1");
	EXPECT_STR_EQ(text_get(latest().compile), "inner");
	EXPECT_OK(weir_compile_context_pop());
	EXPECT_OK(weir_metadata_set(NULL));
	emit(3);
	EXPECT_EQ(latest().metadata, TEXT_NONE);
	EXPECT_STR_EQ(text_get(latest().compile), "outer");
	EXPECT_OK(weir_compile_context_pop());
	emit(4);
	EXPECT_EQ(latest().compile, TEXT_NONE);
}

TEST(contexts_that_do_not_pair_are_refused)
{
	EXPECT_STATUS(weir_compile_context_pop(), WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), "there is none");
	EXPECT_STATUS(weir_compile_context_push(NULL), WEIR_EINVAL);
}

TEST(very_many_contexts_come_back_in_order)
{
	keep(8, WEIR_HISTORY_NONE);
	EXPECT_OK(weir_compile_context_push("first"));
	for (int i = 0; i < 200; i++)
		EXPECT_OK(weir_compile_context_push("deep"));
	for (int i = 0; i < 200; i++)
		EXPECT_OK(weir_compile_context_pop());
	emit(1);
	EXPECT_STR_EQ(text_get(latest().compile), "first");
	EXPECT_OK(weir_compile_context_pop());
	EXPECT_STATUS(weir_compile_context_pop(), WEIR_EINVAL);
}

static void *
look_at_own(void *user)
{
	(void)user;
	EXPECT_STR_EQ(weir_metadata_get(), "");
	EXPECT_OK(weir_metadata_set("of another"));
	return NULL;
}

TEST(each_thread_has_its_own_metadata)
{
	pthread_t thread;

	EXPECT_OK(weir_metadata_set("mine"));
	EXPECT_EQ(pthread_create(&thread, NULL, look_at_own, NULL), 0);
	EXPECT_EQ(pthread_join(thread, NULL), 0);
	EXPECT_STR_EQ(weir_metadata_get(), "mine");
}

/* ---- Annotations ------------------------------------------------------- */

TEST(annotations_are_kept_in_order_and_bounded)
{
	struct trace_annotation notes[16];
	uint64_t from = 0;

	EXPECT_OK(weir_annotate("before", WEIR_STAGE_START, 0));
	EXPECT_EQ(history_annotations(&from, notes, 16), 0);
	keep(4, WEIR_HISTORY_NONE);
	EXPECT_OK(weir_annotate("step", WEIR_STAGE_START, 1));
	EXPECT_OK(weir_annotate("step", WEIR_STAGE_END, WEIR_DEVICE_CURRENT));
	EXPECT_EQ(history_annotations(&from, notes, 16), 2);
	EXPECT_STR_EQ(text_get(notes[0].name), "step");
	EXPECT_EQ(notes[0].device, 1);
	EXPECT(!notes[0].end);
	EXPECT_EQ(notes[1].device, 0);
	EXPECT(notes[1].end);
	EXPECT_LE(notes[0].ticks, notes[1].ticks);
	for (int i = 0; i < 10; i++)
		EXPECT_OK(weir_annotate("more", WEIR_STAGE_START, i));
	from = 0;
	EXPECT_EQ(history_annotations(&from, notes, 16), 4);
	EXPECT_EQ(notes[0].device, 6);
	EXPECT_EQ(notes[3].device, 9);
	history_unset();
	from = 0;
	EXPECT_EQ(history_annotations(&from, notes, 16), 0);
}

TEST(invalid_annotations_are_refused)
{
	keep(4, WEIR_HISTORY_NONE);
	EXPECT_STATUS(weir_annotate(NULL, WEIR_STAGE_START, 0), WEIR_EINVAL);
	EXPECT_STATUS(weir_annotate("x", (enum weir_stage)2, 0), WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), "unknown stage 2");
	meta_fail(1, 100);
	EXPECT_STATUS(weir_annotate("x", WEIR_STAGE_START, 0), WEIR_EHOSTMEM);
	meta_fail(0, 0);
}

/* ---- How allocations were served --------------------------------------- */

TEST(an_event_has_the_step_that_served_its_allocation)
{
	struct trace_event event = { 0 };

	served_here.served = (struct served){ .by = SERVED_grown,
		.waits = 2,
		.waited_for = 0x7f10,
		.moved = 3,
		.grown_bytes = (2 << 20) + 1 };
	history_add_served(&event);
	struct served served = history_served(&event);
	EXPECT_EQ(served.by, SERVED_grown);
	EXPECT_EQ(served.waits, 2);
	EXPECT_EQ(served.waited_for, 0x7f10);
	EXPECT_EQ(served.moved, 3);
	EXPECT_EQ(served.grown_bytes, 4 << 20);
}

TEST(numbers_too_large_for_an_event_are_capped)
{
	struct trace_event event = { 0 };

	served_here.served = (struct served){ .by = SERVED_wait,
		.waits = 1000,
		.moved = 100000,
		.grown_bytes = UINT64_C(1) << 50 };
	history_add_served(&event);
	struct served served = history_served(&event);
	EXPECT_EQ(served.by, SERVED_wait);
	EXPECT_EQ(served.waits, UINT8_MAX);
	EXPECT_EQ(served.moved, UINT16_MAX);
	EXPECT_EQ(served.grown_bytes, UINT16_MAX * (uint64_t)HISTORY_GROWN);
}

TEST(streams_that_were_waited_for_are_numbered_until_there_are_too_many)
{
	EXPECT_EQ(history_number_stream(0), 0);
	for (unsigned i = 1; i <= HISTORY_WAITED; i++)
		EXPECT_EQ(history_number_stream(1000 + i), i);
	EXPECT_EQ(history_number_stream(5), 0);
	EXPECT_EQ(history_number_stream(1001), 1);
}
