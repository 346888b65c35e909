/*
 * Observers of out-of-memory failures: added, called in order with what they
 * were added with, and removed, by themselves too.
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
