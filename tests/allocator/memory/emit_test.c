/*
 * Reports of the allocator: callbacks about memory, and the events of the
 * history.
 */
#include "allocator/memory/emit.h"

#include <pthread.h>
#include <string.h>

#include "allocator/account/counters.h"
#include "allocator/allocator.h"
#include "allocator/memory/arena.h"
#include "allocator/memory/lookup.h"
#include "base/lock.h"
#include "tests/support/device.h"

enum { EVENTS = 256 };

static struct trace_event events[EVENTS];
static size_t count;
static uint64_t from; /* events are read from this number on */

static void
start(enum weir_history_level level)
{
	struct weir_history history = { .struct_size = sizeof(history),
		.level = level,
		.max_entries = 1000,
		.clear = true };

	EXPECT_OK(weir_history_start(&history));
	from = 0;
}

/* Read the events of device 0 since the last call. */
static void
read_events(void)
{
	struct arena *arena = arena_peek(0);

	EXPECT_NOT_NULL(arena);
	lock_enter(&arena->lock);
	count = history_copy(&arena->memory.history, &from,
	    arena->memory.history.next, events, EVENTS);
	from += count;
	lock_leave(&arena->lock);
}

/* The next events are these, in words: "alloc free_requested". */
static void
expect_events(const char *text)
{
	char found[2048] = "";

	read_events();
	for (size_t i = 0; i < count; i++) {
		strcat(found, i > 0 ? " " : "");
		strcat(found,
		    trace_action_name((enum trace_action)events[i].action));
	}
	EXPECT_STR_EQ(found, text);
}

static uint64_t
number(const void *ptr)
{
	return (uint64_t)(uintptr_t)ptr;
}

/* ---- Events ------------------------------------------------------------ */

TEST(an_allocation_and_its_free_are_events)
{
	weir_stream stream = new_stream();

	start(WEIR_HISTORY_NONE);
	char *block = take(1000, stream);
	expect_events("segment_map alloc");
	EXPECT_EQ(events[1].addr, number(block));
	EXPECT_EQ(events[1].size, 1000);
	EXPECT_EQ(events[1].granules, 2);
	EXPECT_EQ(events[1].stream, number(stream));
	EXPECT_EQ(events[1].stack, 0);
	EXPECT_EQ(events[0].addr, number(block));
	EXPECT_EQ(events[0].size, 2 * MIB);
	give(block);
	expect_events("free_requested free_completed");
	for (int i = 0; i < 2; i++) {
		EXPECT_EQ(events[i].addr, number(block));
		EXPECT_EQ(events[i].size, 1000);
		EXPECT_EQ(events[i].stream, number(stream));
	}
	expect_healthy();
}

TEST(an_allocation_has_the_step_that_served_it)
{
	weir_stream stream = new_stream();

	conf("tcache:0");
	take(512, new_stream());
	/* The history has no part of a request that was served before it
	 * began. */
	start(WEIR_HISTORY_NONE);
	char *block = take(8 * MIB, stream);
	expect_events("segment_map alloc");
	EXPECT_EQ(events[0].served_by, SERVED_own);
	EXPECT_EQ(events[1].served_by, SERVED_grown);
	EXPECT_EQ(history_served(&events[1]).grown_bytes, 8 * MIB);
	give(block);
	take(8 * MIB, stream);
	expect_events("free_requested free_completed alloc");
	for (int i = 0; i < 3; i++)
		EXPECT_EQ(events[i].served_by, SERVED_own);
}

TEST(the_facts_of_a_skipped_event_are_not_in_the_next)
{
	struct weir_history history = {
		.struct_size = sizeof(history), .skip = "alloc", .clear = true
	};
	weir_stream stream = new_stream();

	conf("tcache:0");
	EXPECT_OK(weir_history_start(&history));
	char *block = take(8 * MIB, stream);
	start(WEIR_HISTORY_NONE);
	give(block);
	take(8 * MIB, stream);
	expect_events("free_requested free_completed alloc");
	EXPECT_EQ(events[2].served_by, SERVED_own);
}

TEST(an_allocation_from_a_thread_cache_is_an_event_too)
{
	static const size_t sizes[] = { 100, 4096, 64 * KIB, 65 * KIB,
		900 * KIB, 5 * MIB };

	start(WEIR_HISTORY_NONE);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		weir_stream stream = new_stream();
		void *block = take(sizes[i], stream);
		give(block);
		read_events();
		EXPECT_GE(count, 3);
		for (int k = 0; k < 3; k++) {
			EXPECT_EQ(take(sizes[i] - 3, stream), block);
			expect_events("alloc");
			EXPECT_EQ(events[0].size, sizes[i] - 3);
			give(block);
			expect_events("free_requested free_completed");
			EXPECT_EQ(events[0].size, sizes[i] - 3);
		}
	}
	expect_healthy();
}

TEST(a_free_into_a_cache_is_requested_and_completed_at_one_moment)
{
	weir_stream stream = new_stream();

	start(WEIR_HISTORY_NONE);
	give(take(4096, stream));
	give(take(4096, stream));
	read_events();
	EXPECT_EQ(count, 7);
	const struct trace_event *one = &events[count - 2];
	struct trace_event other = events[count - 1];
	EXPECT_EQ(one->action, TRACE_free_requested);
	EXPECT_EQ(other.action, TRACE_free_completed);
	other.action = one->action;
	EXPECT_EQ(memcmp(one, &other, sizeof(other)), 0);
	for (size_t i = 1; i < count; i++)
		EXPECT_GE(events[i].ticks, events[i - 1].ticks);
	expect_healthy();
}

TEST(either_event_of_a_cached_free_may_be_skipped)
{
	static const char *const skips[] = { "free_requested", "free_completed",
		"free_requested,free_completed", "alloc" };
	static const char *const left[] = { "alloc free_completed",
		"alloc free_requested", "alloc",
		"free_requested free_completed" };
	weir_stream stream = new_stream();

	give(take(4096, stream));
	for (int i = 0; i < 4; i++) {
		struct weir_history history = { .struct_size = sizeof(history),
			.skip = skips[i],
			.clear = true };
		EXPECT_OK(weir_history_start(&history));
		from = 0;
		give(take(4096, stream)); /* the thread gets a new cache */
		read_events();
		give(take(4096, stream));
		expect_events(left[i]);
	}
	expect_healthy();
}

/* Addresses that are far apart are looked up in different tables. */
TEST(blocks_that_lie_far_apart_are_cached_and_recorded)
{
	enum { BLOCKS = 4 };
	weir_stream stream = new_stream();
	void *blocks[BLOCKS];
	void *between[BLOCKS];

	start(WEIR_HISTORY_NONE);
	for (int i = 0; i < BLOCKS; i++) {
		blocks[i] = take(64 * KIB, stream);
		between[i] = take(900 * KIB, stream);
	}
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < BLOCKS; i++)
			give(blocks[i]);
		read_events();
		for (int i = BLOCKS - 1; i >= 0; i--) {
			EXPECT_EQ(take(64 * KIB, stream), blocks[i]);
			expect_events("alloc");
			EXPECT_EQ(events[0].addr, number(blocks[i]));
		}
	}
	for (int i = 0; i < BLOCKS; i++)
		give(between[i]);
	for (int i = 0; i < BLOCKS; i++)
		give(blocks[i]);
	expect_healthy();
}

TEST(caches_keep_their_blocks_when_the_history_is_on)
{
	weir_stream stream = new_stream();
	void *a = take(700, stream);
	void *b = take(700, stream);
	struct weir_block_info info = info_of(b);

	start(WEIR_HISTORY_NONE);
	give(a);
	give(b);
	/* Last in, first out: the pool would give the lowest address. */
	EXPECT_EQ(take(700, stream), b);
	EXPECT_EQ(info.size, 1024);
	EXPECT_EQ(take(700, stream), a);
	expect_healthy();
}

TEST(a_block_used_elsewhere_is_completed_when_that_work_is_done)
{
	weir_stream stream = new_stream();
	weir_stream other = new_stream();

	start(WEIR_HISTORY_NONE);
	void *block = take(2 * MIB, stream);
	busy(other, LATE_MS);
	record(block, other);
	expect_events("segment_map alloc");
	give(block);
	expect_events("free_requested");
	EXPECT_EQ(
	    tally_now(&arena_peek(0)->account.tally, PART_ALL, TALLIED_active),
	    1);
	finish(other);
	give(take(MIB + 1, stream));
	read_events();
	EXPECT_EQ(events[0].action, TRACE_free_completed);
	EXPECT_EQ(events[0].addr, number(block));
	EXPECT_EQ(events[0].size, 2 * MIB);
	expect_healthy();
}

TEST(a_block_freed_on_another_stream_is_recorded_as_that_streams)
{
	weir_stream stream = new_stream();
	weir_stream other = new_stream();

	start(WEIR_HISTORY_NONE);
	void *block = take(2 * MIB, stream);
	expect_events("segment_map alloc");
	EXPECT_OK(weir_free_async(block, other));
	expect_events("free_requested free_completed");
	EXPECT_EQ(events[0].stream, number(other));
	EXPECT_EQ(events[1].stream, number(other));
}

TEST(a_free_of_a_block_whose_work_is_done_is_an_event)
{
	start(WEIR_HISTORY_NONE);
	void *block = take(2 * MIB, WEIR_STREAM_ANY);
	expect_events("segment_alloc alloc");
	EXPECT_EQ(events[0].size, 20 * MIB);
	EXPECT_EQ(events[1].stream, number(WEIR_STREAM_ANY));
	EXPECT_OK(allocator_free_done(block));
	expect_events("free_requested free_completed");
}

TEST(memory_that_comes_and_goes_is_an_event)
{
	weir_stream stream = new_stream();

	start(WEIR_HISTORY_NONE);
	give(take(4 * MIB, stream));
	finish(stream);
	trim(0);
	expect_events("segment_map alloc free_requested free_completed "
		      "segment_unmap");
	EXPECT_EQ(events[0].size, 4 * MIB);
	EXPECT_EQ(events[4].size, 4 * MIB);
	EXPECT_EQ(events[4].addr, events[0].addr);
	conf("expandable_segments:False");
	give(take(4 * MIB, stream));
	finish(stream);
	trim(0);
	expect_events("segment_alloc alloc free_requested free_completed "
		      "segment_free");
	EXPECT_EQ(events[0].size, 20 * MIB);
	EXPECT_EQ(events[4].size, 20 * MIB);
	expect_healthy();
}

TEST(a_segment_that_the_driver_keeps_is_recorded_as_allocated_again)
{
	device_need_sim("a GPU's calls cannot be made to fail");
	conf("expandable_segments:False");
	start(WEIR_HISTORY_NONE);
	give(take(4 * MIB, NULL));
	expect_events("segment_alloc alloc free_requested free_completed");
	sim()->fail("cuMemFree", 1, 1, CUDA_ERROR_UNKNOWN);
	trim(0);
	expect_events("segment_free segment_alloc");
	EXPECT_EQ(events[0].addr, events[1].addr);
	expect_healthy();
}

TEST(a_request_that_fails_is_an_event)
{
	start(WEIR_HISTORY_NONE);
	give(take(1, NULL));
	read_events();
	EXPECT_NO_MEMORY(weir_malloc((size_t)1 << 45, NULL), WEIR_ENOMEM);
	expect_events("oom");
	EXPECT_EQ(events[0].size, (size_t)1 << 45);
	EXPECT_EQ(events[0].addr, device_free_bytes(0));
}

TEST(the_stack_of_a_free_is_its_allocations_below_level_all)
{
	static const enum weir_history_level levels[] = { WEIR_HISTORY_STATE,
		WEIR_HISTORY_ALLOC, WEIR_HISTORY_ALL };
	weir_stream stream = new_stream();

	for (int i = 0; i < 3; i++) {
		start(levels[i]);
		give(take(1000, stream));
		read_events();
		const struct trace_event *last = &events[count - 3];
		EXPECT_EQ(last[0].action, TRACE_alloc);
		EXPECT_EQ(last[0].stack > 0, i > 0);
		EXPECT_EQ(last[1].stack == last[0].stack, i < 2);
		EXPECT_EQ(last[2].stack, last[1].stack);
	}
}

TEST(blocks_remember_the_stack_from_level_state_on_until_it_is_off)
{
	start(WEIR_HISTORY_STATE);
	void *block = take(3 * MIB, NULL);
	struct block *found = lookup_exact((CUdeviceptr)(uintptr_t)block);

	EXPECT_GT(found->stack, 0);
	EXPECT_GT(found->segment->stack, 0);
	EXPECT_OK(weir_history_stop());
	EXPECT_EQ(found->stack, 0);
	EXPECT_EQ(found->segment->stack, 0);
	give(block);
}

TEST(starting_again_changes_the_settings_and_keeps_the_events)
{
	struct weir_history_info info = { .struct_size = sizeof(info) };
	struct weir_history history = { .struct_size = sizeof(history),
		.max_entries = 4 };

	start(WEIR_HISTORY_NONE);
	void *block = take(1000, NULL);
	for (int i = 0; i < 5; i++)
		give(take(2000, NULL));
	EXPECT_OK(weir_history_info(0, &info));
	EXPECT(info.on);
	EXPECT_EQ(info.recorded, 17);
	EXPECT_EQ(info.kept, 17);
	history.level = WEIR_HISTORY_ALLOC;
	EXPECT_OK(weir_history_start(&history));
	EXPECT_OK(weir_history_info(0, &info));
	EXPECT_EQ(info.level, WEIR_HISTORY_ALLOC);
	EXPECT_EQ(info.recorded, 17);
	EXPECT_EQ(info.kept, 4);
	EXPECT_EQ(info.dropped, 13);
	give(block);
	EXPECT_OK(weir_history_stop());
	EXPECT_OK(weir_history_info(0, &info));
	EXPECT(!info.on);
	EXPECT_EQ(info.recorded, 0);
	EXPECT_STATUS(weir_history_info(0, NULL), WEIR_EINVAL);
	EXPECT_STATUS(weir_history_info(99, &info), WEIR_ENODEVICE);
	history.skip = "alocc";
	EXPECT_STATUS(weir_history_start(&history), WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), "alocc");
}

TEST(the_history_of_a_device_that_is_reset_begins_anew)
{
	start(WEIR_HISTORY_NONE);
	void *block = take(1000, NULL);
	struct weir_history_info info = { .struct_size = sizeof(info) };

	EXPECT_NOT_NULL(block);
	allocator_forget_device(0);
	from = 0;
	EXPECT_OK(weir_history_info(0, &info));
	EXPECT_EQ(info.recorded, 0);
	give(take(1000, NULL));
	expect_events("segment_map alloc free_requested free_completed");
}

TEST(starting_a_history_leaves_the_driver_alone)
{
	EXPECT_OK(weir_history_start(NULL));
	EXPECT_OK(weir_annotate("x", WEIR_STAGE_START, 0));
	EXPECT_OK(weir_history_stop());
	EXPECT_NULL(driver_peek());
}

/* ---- Callbacks --------------------------------------------------------- */

static struct weir_trace seen[8];
static size_t seen_count;

static void
note(const struct weir_trace *trace, void *user)
{
	(void)user;
	EXPECT(lock_none_held());
	EXPECT_LT(seen_count, 8);
	seen[seen_count++] = *trace;
}

static void
listen(void)
{
	EXPECT_OK(
	    weir_trace_callback_add(WEIR_TRACE_MEMORY_ALLOCATION, note, NULL));
	EXPECT_OK(weir_trace_callback_add(
	    WEIR_TRACE_MEMORY_DEALLOCATION, note, NULL));
}

/* One call, of this kind, about this block. */
static void
expect_call(enum weir_trace_kind kind, const void *block, size_t size,
    weir_stream stream)
{
	EXPECT_EQ(seen_count, 1);
	EXPECT_EQ(seen[0].kind, kind);
	EXPECT_EQ(seen[0].device, 0);
	EXPECT_EQ(seen[0].address, block);
	EXPECT_EQ(seen[0].size, size);
	EXPECT_EQ(seen[0].stream, stream);
	seen_count = 0;
}

TEST(callbacks_are_called_once_for_each_allocation_and_free)
{
	weir_stream streams[] = { NULL, new_stream(), WEIR_STREAM_ANY };

	listen();
	for (int i = 0; i < 3; i++) {
		/* From the pool, then from the cache. */
		for (int k = 0; k < 3; k++) {
			void *block = take(1000, streams[i]);
			expect_call(WEIR_TRACE_MEMORY_ALLOCATION, block, 1000,
			    streams[i]);
			give(block);
			expect_call(WEIR_TRACE_MEMORY_DEALLOCATION, block, 1000,
			    streams[i]);
		}
	}
	void *block = take(3 * MIB, streams[1]);
	seen_count = 0;
	EXPECT_OK(weir_free_async(block, streams[1]));
	expect_call(WEIR_TRACE_MEMORY_DEALLOCATION, block, 3 * MIB, streams[1]);
	EXPECT_STATUS(weir_free(block), WEIR_EINVAL);
	EXPECT_NO_MEMORY(weir_malloc(0, NULL), WEIR_EINVAL);
	EXPECT_OK(weir_free(NULL));
	EXPECT_EQ(seen_count, 0);
	expect_healthy();
}

TEST(callbacks_that_are_removed_are_not_called)
{
	weir_stream stream = new_stream();

	listen();
	give(take(1000, stream));
	EXPECT_EQ(seen_count, 2);
	EXPECT_OK(weir_trace_callback_remove(
	    WEIR_TRACE_MEMORY_ALLOCATION, note, NULL));
	give(take(1000, stream));
	EXPECT_EQ(seen_count, 3);
	EXPECT_OK(weir_trace_callback_remove(
	    WEIR_TRACE_MEMORY_DEALLOCATION, note, NULL));
	give(take(1000, stream));
	give(take(1000, stream));
	EXPECT_EQ(seen_count, 3);
	EXPECT(!emit_is_wanted());
}

/* A callback that allocates and frees, and would be called for that too. */
static void
allocate(const struct weir_trace *trace, void *user)
{
	int *depth = user;

	EXPECT(lock_none_held());
	if (*depth > 0)
		return;
	++*depth;
	give(take(trace->size + 512, trace->stream));
	--*depth;
}

TEST(a_callback_may_allocate_and_free)
{
	weir_stream stream = new_stream();
	int depth = 0;

	EXPECT_OK(weir_trace_callback_add(
	    WEIR_TRACE_MEMORY_ALLOCATION, allocate, &depth));
	EXPECT_OK(weir_trace_callback_add(
	    WEIR_TRACE_MEMORY_DEALLOCATION, allocate, &depth));
	for (int i = 0; i < 5; i++)
		give(take(1000, stream));
	EXPECT_EQ(stats().allocation.all.current, 0);
	EXPECT_EQ(stats().allocation.all.allocated, 15);
	expect_healthy();
}

TEST(a_callback_that_calls_weir_leaves_the_free_its_stack)
{
	weir_stream stream = new_stream();
	int depth = 0;

	start(WEIR_HISTORY_ALL);
	void *block = take(1000, stream);
	EXPECT_OK(weir_trace_callback_add(
	    WEIR_TRACE_MEMORY_DEALLOCATION, allocate, &depth));
	read_events();
	uint32_t stack = events[count - 1].stack;
	give(block);
	read_events();
	const struct trace_event *last = &events[count - 1];
	EXPECT_EQ(last->addr, number(block));
	EXPECT_EQ(last->action, TRACE_free_completed);
	EXPECT_GT(last->stack, 0);
	EXPECT_NE(last->stack, stack);
}

/* A callback that frees the block itself: the free that it was called for is
 * the second one. */
static void
free_it(const struct weir_trace *trace, void *user)
{
	bool *done = user;

	if (!*done) {
		*done = true;
		EXPECT_OK(weir_free(trace->address));
	}
}

TEST(a_callback_that_frees_the_block_is_first)
{
	bool done = false;

	EXPECT_OK(weir_trace_callback_add(
	    WEIR_TRACE_MEMORY_DEALLOCATION, free_it, &done));
	void *block = take(1000, NULL);
	EXPECT_STATUS(weir_free(block), WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), "freed before");
	EXPECT_EQ(stats().allocation.all.current, 0);
	expect_healthy();
}

static void
count_one(const struct weir_trace *trace, void *user)
{
	(void)trace;
	atomic_fetch_add((atomic_uint *)user, 1);
}

static void *
pairs(void *user)
{
	weir_stream stream = new_stream();

	for (uint64_t i = test_effort(2000); i > 0; i--)
		give(take(1000 + i % 5000, stream));
	return user;
}

TEST(histories_and_callbacks_come_and_go_while_threads_allocate)
{
	static atomic_uint calls;
	pthread_t threads[3];

	for (int i = 0; i < 3; i++)
		EXPECT_EQ(pthread_create(&threads[i], NULL, pairs, NULL), 0);
	for (uint64_t i = test_effort(100); i > 0; i--) {
		start((enum weir_history_level)(i % 4));
		EXPECT_OK(weir_trace_callback_add(
		    WEIR_TRACE_MEMORY_ALLOCATION, count_one, &calls));
		EXPECT_EQ(weir_check(NULL, 0), 0);
		EXPECT_OK(weir_history_stop());
		EXPECT_OK(weir_trace_callback_remove(
		    WEIR_TRACE_MEMORY_ALLOCATION, count_one, &calls));
	}
	for (int i = 0; i < 3; i++)
		EXPECT_EQ(pthread_join(threads[i], NULL), 0);
	expect_healthy();
}

/* ---- Observers --------------------------------------------------------- */

static char observed_text[2048];
static struct weir_memory_event last_event;

static void
note_event(const struct weir_memory_event *event, void *user)
{
	EXPECT_EQ(event->struct_size, sizeof(*event));
	EXPECT_EQ(user, observed_text);
	strcat(observed_text, observed_text[0] != '\0' ? " " : "");
	strcat(
	    observed_text, trace_action_name((enum trace_action)event->action));
	last_event = *event;
}

TEST(an_observer_sees_each_event_without_a_history)
{
	weir_stream stream = new_stream();

	EXPECT_OK(weir_memory_observer_add(note_event, observed_text));
	EXPECT_STATUS(
	    weir_memory_observer_add(note_event, observed_text), WEIR_EINVAL);
	char *block = take(1000, stream);
	EXPECT_STR_EQ(observed_text, "segment_map alloc");
	EXPECT_EQ(last_event.address, block);
	EXPECT_EQ(last_event.size, 1000);
	EXPECT_EQ(last_event.block_size, 1024);
	EXPECT_EQ(last_event.stream, stream);
	EXPECT_EQ(last_event.device, 0);
	observed_text[0] = '\0';
	give(block);
	EXPECT_EQ(take(1000, stream), block); /* of the thread's cache */
	EXPECT_STR_EQ(observed_text, "free_requested free_completed alloc");
	struct weir_history_info info = { .struct_size = sizeof(info) };
	EXPECT_OK(weir_history_info(0, &info));
	EXPECT(!info.on);
	EXPECT_EQ(info.recorded, 0);
	EXPECT_OK(weir_annotate("nothing", WEIR_STAGE_START, 0));
	EXPECT_OK(weir_memory_observer_remove(note_event, observed_text));
	observed_text[0] = '\0';
	give(block);
	EXPECT_STR_EQ(observed_text, "");
	EXPECT_STATUS(weir_memory_observer_remove(note_event, observed_text),
	    WEIR_EINVAL);
	EXPECT_STATUS(weir_memory_observer_add(NULL, NULL), WEIR_EINVAL);
	expect_healthy();
}

TEST(an_observer_and_the_history_come_and_go_alone)
{
	EXPECT_OK(weir_memory_observer_add(note_event, observed_text));
	start(WEIR_HISTORY_NONE);
	give(take(1000, NULL));
	read_events();
	EXPECT_EQ(count, 4);
	EXPECT_STR_EQ(
	    observed_text, "segment_map alloc free_requested free_completed");
	EXPECT_OK(weir_history_stop());
	observed_text[0] = '\0';
	give(take(1000, NULL));
	EXPECT_STR_EQ(observed_text, "alloc free_requested free_completed");
	start(WEIR_HISTORY_NONE);
	EXPECT_OK(weir_memory_observer_remove(note_event, observed_text));
	give(take(1000, NULL));
	read_events();
	EXPECT_EQ(count, 3);
	expect_healthy();
}

TEST(an_observer_is_called_for_a_failure)
{
	EXPECT_OK(weir_memory_observer_add(note_event, observed_text));
	EXPECT_NO_MEMORY(weir_malloc((size_t)1 << 45, NULL), WEIR_ENOMEM);
	EXPECT_EQ(last_event.action, WEIR_ACTION_OOM);
	EXPECT_NULL(last_event.address);
	EXPECT_EQ(last_event.size, (size_t)1 << 45);
	EXPECT_GT(last_event.device_free_bytes, 0);
	expect_healthy();
}
