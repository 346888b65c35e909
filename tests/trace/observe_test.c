/*
 * Observers of out-of-memory failures: added, called in order with their
 * argument, and removed, also by themselves.
 */
#include "trace/observe.h"

#include <pthread.h>
#include <string.h>

#include "base/lock.h"
#include "tests/support/device.h"

static const struct weir_oom oom = { .struct_size = sizeof(oom),
	.device = 3,
	.requested_bytes = 77,
	.report = "it is full" };

static char calls[16];

/* Append the letter it was added with. */
static void
note(const struct weir_oom *seen, void *user)
{
	EXPECT_EQ(seen, &oom);
	EXPECT(lock_none_held());
	calls[strlen(calls)] = *(const char *)user;
}

static char a[] = "a";
static char b[] = "b";
static char c[] = "c";

TEST(nobody_is_called_when_nobody_was_added)
{
	observe_oom(&oom);
	EXPECT_STR_EQ(calls, "");
}

TEST(every_observer_is_called_in_the_order_they_were_added)
{
	EXPECT_OK(weir_oom_observer_add(note, a));
	EXPECT_OK(weir_oom_observer_add(note, b));
	EXPECT_OK(weir_oom_observer_add(note, c));
	observe_oom(&oom);
	EXPECT_STR_EQ(calls, "abc");
	EXPECT_OK(weir_oom_observer_remove(note, b));
	observe_oom(&oom);
	EXPECT_STR_EQ(calls, "abcac");
}

TEST(adding_observers_leaves_the_driver_alone)
{
	EXPECT_OK(weir_oom_observer_add(note, a));
	EXPECT_OK(weir_oom_observer_remove(note, a));
	EXPECT_NULL(driver_peek());
}

TEST(a_pair_is_added_once_and_removed_once)
{
	EXPECT_OK(weir_oom_observer_add(note, a));
	EXPECT_STATUS(weir_oom_observer_add(note, a), WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), "there already");
	EXPECT_STATUS(weir_oom_observer_remove(note, b), WEIR_EINVAL);
	EXPECT_OK(weir_oom_observer_remove(note, a));
	EXPECT_STATUS(weir_oom_observer_remove(note, a), WEIR_EINVAL);
	EXPECT_STATUS(weir_oom_observer_add(NULL, a), WEIR_EINVAL);
	EXPECT_STATUS(weir_oom_observer_remove(NULL, a), WEIR_EINVAL);
	observe_oom(&oom);
	EXPECT_STR_EQ(calls, "");
}

TEST(there_is_room_for_64)
{
	static char users[65];

	for (int i = 0; i < 64; i++)
		EXPECT_OK(weir_oom_observer_add(note, &users[i]));
	EXPECT_STATUS(weir_oom_observer_add(note, &users[64]), WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), "64");
	EXPECT_OK(weir_oom_observer_remove(note, &users[10]));
	EXPECT_OK(weir_oom_observer_add(note, &users[64]));
	observe_oom(&oom);
}

static void
remove_self(const struct weir_oom *seen, void *user)
{
	note(seen, user);
	EXPECT_OK(weir_oom_observer_remove(remove_self, user));
}

static void
add_another(const struct weir_oom *seen, void *user)
{
	note(seen, user);
	EXPECT_OK(weir_oom_observer_add(note, c));
}

TEST(an_observer_may_add_and_remove_while_it_is_called)
{
	EXPECT_OK(weir_oom_observer_add(remove_self, a));
	EXPECT_OK(weir_oom_observer_add(add_another, b));
	observe_oom(&oom);
	EXPECT_STR_EQ(calls, "ab");
	EXPECT_OK(weir_oom_observer_remove(add_another, b));
	observe_oom(&oom);
	EXPECT_STR_EQ(calls, "abc");
}

/* ---- Other kinds ------------------------------------------------------- */

static void
note_trace(const struct weir_trace *trace, void *user)
{
	EXPECT(lock_none_held());
	EXPECT_EQ(trace->struct_size, sizeof(*trace));
	EXPECT_EQ(trace->kind, WEIR_TRACE_EVENT_RECORD);
	EXPECT_EQ(trace->device, 2);
	EXPECT_EQ(trace->event, &oom);
	EXPECT_EQ(trace->stream, WEIR_STREAM_PER_THREAD);
	calls[strlen(calls)] = *(const char *)user;
}

static void
record_one(void)
{
	observe_event(
	    WEIR_TRACE_EVENT_RECORD, 2, (void *)&oom, WEIR_STREAM_PER_THREAD);
}

TEST(callbacks_of_a_kind_are_called_for_that_kind_only)
{
	EXPECT(!observed(WEIR_TRACE_EVENT_RECORD));
	record_one();
	EXPECT_OK(observe_add(WEIR_TRACE_EVENT_RECORD, note_trace, a));
	EXPECT_OK(observe_add(WEIR_TRACE_EVENT_RECORD, note_trace, b));
	EXPECT_OK(weir_oom_observer_add(note, c));
	EXPECT(observed(WEIR_TRACE_EVENT_RECORD));
	EXPECT(!observed(WEIR_TRACE_EVENT_WAIT));
	record_one();
	observe_event(WEIR_TRACE_EVENT_WAIT, 0, NULL, NULL);
	EXPECT_STR_EQ(calls, "ab");
	EXPECT_OK(observe_remove(WEIR_TRACE_EVENT_RECORD, note_trace, a));
	record_one();
	EXPECT_STR_EQ(calls, "abb");
	EXPECT_OK(observe_remove(WEIR_TRACE_EVENT_RECORD, note_trace, b));
	EXPECT(!observed(WEIR_TRACE_EVENT_RECORD));
	observe_oom(&oom);
	EXPECT_STR_EQ(calls, "abbc");
}

TEST(callbacks_are_refused_with_a_reason)
{
	EXPECT_STATUS(
	    observe_add(WEIR_TRACE_KINDS, note_trace, a), WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), "unknown kind 10");
	EXPECT_STATUS(observe_remove((enum weir_trace_kind) - 1, note_trace, a),
	    WEIR_EINVAL);
	EXPECT_STATUS(observe_add(WEIR_TRACE_EVENT_WAIT, NULL, a), WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), "callback is NULL");
	EXPECT_OK(observe_add(WEIR_TRACE_EVENT_WAIT, note_trace, a));
	EXPECT_STATUS(
	    observe_add(WEIR_TRACE_EVENT_WAIT, note_trace, a), WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), "there already");
	EXPECT_OK(observe_add(WEIR_TRACE_EVENT_RECORD, note_trace, a));
	EXPECT_STATUS(
	    observe_remove(WEIR_TRACE_EVENT_WAIT, note_trace, b), WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), "it was not added");
}

/* ---- Threads ----------------------------------------------------------- */

static void
ignore(const struct weir_oom *seen, void *user)
{
	(void)seen;
	(void)user;
}

static void *
come_and_go(void *user)
{
	for (uint64_t i = test_effort(2000); i > 0; i--) {
		EXPECT_OK(weir_oom_observer_add(ignore, user));
		observe_oom(&oom);
		EXPECT_OK(weir_oom_observer_remove(ignore, user));
	}
	return NULL;
}

TEST(observers_come_and_go_on_many_threads)
{
	static char users[8];
	pthread_t thread[8];

	EXPECT_OK(weir_oom_observer_add(ignore, a));
	for (int i = 0; i < 8; i++)
		EXPECT_EQ(
		    pthread_create(&thread[i], NULL, come_and_go, &users[i]),
		    0);
	for (int i = 0; i < 8; i++)
		EXPECT_EQ(pthread_join(thread[i], NULL), 0);
	EXPECT_OK(weir_oom_observer_remove(ignore, a));
}
