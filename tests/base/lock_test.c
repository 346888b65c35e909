/*
 * Locks exclude, and debug builds trap on a falling rank. The wrong calls run
 * in a child process: a debug build must die by a signal and print both ranks,
 * a release build must end normally.
 */
#include "base/lock.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/os.h"
#include "tests/support/breach.h"
#include "tests/support/test.h"

static struct lock low = LOCK_INITIALIZER(LOCK_RANK_ARENAS);
static struct lock high = LOCK_INITIALIZER(LOCK_RANK_EVENTS);
static struct lock also_high = LOCK_INITIALIZER(LOCK_RANK_EVENTS);

enum { THREADS = 4, ROUNDS = 20000 };

static struct lock counter_lock;
static unsigned long counter;

static void *
count_up(void *unused)
{
	for (int i = 0; i < ROUNDS; i++) {
		lock_enter(&counter_lock);
		counter++;
		lock_leave(&counter_lock);
	}
	return unused;
}

TEST(one_thread_at_a_time_is_inside)
{
	pthread_t threads[THREADS];

	lock_init(&counter_lock, LOCK_RANK_META);
	for (int i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, count_up, NULL);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	EXPECT_EQ(counter, THREADS * ROUNDS);
	lock_destroy(&counter_lock);
}

TEST(rising_ranks_are_fine_and_may_be_left_in_any_order)
{
	for (int i = 0; i < 3; i++) {
		EXPECT(lock_none_held());
		lock_enter(&low);
		lock_enter(&high);
		EXPECT_EQ(lock_none_held(), !LOCK_CHECKED);
		lock_leave(&low);
		EXPECT_EQ(lock_none_held(), !LOCK_CHECKED);
		lock_leave(&high);
		EXPECT(lock_none_held());
	}
	/* Leaving out of order does not confuse the list of held locks. */
	lock_enter(&low);
	lock_enter(&high);
	lock_leave(&low);
	lock_leave(&high);
	lock_enter(&low);
	lock_leave(&low);
}

static void *
none_held_here(void *none)
{
	*(bool *)none = lock_none_held();
	return NULL;
}

TEST(held_locks_are_those_of_the_own_thread)
{
	pthread_t thread;
	bool none = false;

	lock_enter(&low);
	pthread_create(&thread, NULL, none_held_here, &none);
	pthread_join(thread, NULL);
	lock_leave(&low);
	EXPECT(none);
}

static void
expect_trap(int status, const char *text, const char *told)
{
	if (!LOCK_CHECKED) {
		EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
		EXPECT_STR_EQ(text, "");
		return;
	}
	EXPECT(WIFSIGNALED(status) || WEXITSTATUS(status) != 0);
	EXPECT_STR_HAS(text, told);
}

static void
enter_falling(void)
{
	lock_enter(&high);
	lock_enter(&low);
	lock_hand_over(&low);
	lock_hand_over(&high);
}

TEST(a_falling_rank_traps_in_debug_builds)
{
	char text[512];
	int status = breach_run(enter_falling, text, sizeof(text));

	expect_trap(status, text, "LOCK_RANK_ARENAS");
	expect_trap(status, text, "LOCK_RANK_EVENTS");
}

static void
enter_equal(void)
{
	lock_enter(&high);
	lock_enter(&also_high);
	lock_hand_over(&also_high);
	lock_hand_over(&high);
}

TEST(an_equal_rank_traps_in_debug_builds)
{
	char text[512];
	int status = breach_run(enter_equal, text, sizeof(text));

	expect_trap(status, text, "LOCK_RANK_EVENTS");
}

static void
enter_falling_after_disorder(void)
{
	lock_enter(&low);
	lock_enter(&high);
	lock_leave(&low);
	lock_enter(&low);
	lock_hand_over(&low);
	lock_hand_over(&high);
}

TEST(a_lock_left_out_of_order_still_bounds_the_next)
{
	char text[512];
	int status =
	    breach_run(enter_falling_after_disorder, text, sizeof(text));

	expect_trap(status, text, "LOCK_RANK_EVENTS");
}

static void
enter_hook_under_table(void)
{
	static struct lock table = LOCK_INITIALIZER(LOCK_RANK_TABLE);
	static struct lock hook = LOCK_INITIALIZER(LOCK_RANK_HOOK);

	lock_enter(&table);
	lock_enter(&hook);
	lock_hand_over(&hook);
	lock_hand_over(&table);
}

TEST(the_preload_calls_the_driver_with_none_of_its_tables_locked)
{
	char text[512];
	int status = breach_run(enter_hook_under_table, text, sizeof(text));

	expect_trap(status, text, "LOCK_RANK_TABLE");
	expect_trap(status, text, "LOCK_RANK_HOOK");
}

static void
enter_in_a_child(void)
{
	lock_enter(&low);
	lock_leave(&low);
}

static void
enter_report_in_a_child(void)
{
	static struct lock report = LOCK_INITIALIZER(LOCK_RANK_REPORT);

	lock_enter(&report);
	lock_leave(&report);
}

TEST(a_child_enters_the_locks_only_that_are_made_anew_there)
{
	char text[512];
	int status;

	os_watch_fork();
	status = breach_run(enter_in_a_child, text, sizeof(text));
	expect_trap(status, text, "in a forked child");
	status = breach_run(enter_report_in_a_child, text, sizeof(text));
	EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	EXPECT_STR_EQ(text, "");
}

static void
assert_other(void)
{
	lock_enter(&high);
	lock_assert_held(&low);
	lock_leave(&high);
}

TEST(a_lock_that_is_not_held_traps_where_it_is_needed)
{
	char text[512];
	int status = breach_run(assert_other, text, sizeof(text));

	expect_trap(status, text, "LOCK_RANK_ARENAS");
	expect_trap(status, text, "not held");
}

TEST(a_lock_that_is_held_is_passed_on_with_its_success)
{
	lock_enter(&low);
	lock_assert_held(&low);
	lock_hand_over(&low);
	lock_take_over(&low);
	lock_leave(&low);
	lock_enter(&low); /* nothing has taken it */
	lock_leave(&low);
}
