/*
 * Hooks around a sleep, with doubles of ncclCommSuspend() and ncclCommResume().
 */
#include <stdio.h>
#include <string.h>

#include <weir/sleep.h>

#include "tests/support/device.h"

/* The calls of the hooks so far, a letter each. */
static char calls[64];
static enum weir_status answer;

/* NCCL's functions, as a library has them. */
static int
suspend_comm(const char *comm, int flags)
{
	EXPECT_EQ(flags, 1);
	EXPECT(!weir_is_asleep(WEIR_DEVICE_ALL));
	strcat(calls, comm);
	return 0;
}

static int
resume_comm(const char *comm)
{
	EXPECT(!weir_is_asleep(WEIR_DEVICE_ALL));
	strcat(calls, comm);
	return 0;
}

static enum weir_status
before_sleep(void *user)
{
	EXPECT_EQ(suspend_comm(user, 1), 0);
	return *(const char *)user == 'b' ? answer : WEIR_OK;
}

static void
after_wake(void *user)
{
	char upper[2] = { (char)(*(const char *)user - 'a' + 'A'), '\0' };

	EXPECT_EQ(resume_comm(upper), 0);
}

static struct weir_sleep_hook
add_hook(char *name)
{
	struct weir_sleep_hook hook = { sizeof(hook), before_sleep, after_wake,
		name };

	EXPECT_OK(weir_sleep_hook_add(&hook));
	return hook;
}

TEST(hooks_are_called_before_a_sleep_and_after_the_wake)
{
	struct weir_sleep_hook a = add_hook((char[]){ "a" });
	struct weir_sleep_hook b = add_hook((char[]){ "b" });

	give(take(4 * MIB, new_stream()));
	EXPECT_OK(weir_sleep(0, NULL, NULL));
	EXPECT_STR_EQ(calls, "ab");
	EXPECT_OK(weir_sleep(0, NULL, NULL));
	EXPECT_STR_EQ(calls, "ab");
	EXPECT_OK(weir_wake(0, 0, NULL));
	EXPECT_STR_EQ(calls, "abBA");
	EXPECT_OK(weir_wake(0, 0, NULL));
	EXPECT_STR_EQ(calls, "abBA");
	EXPECT_OK(weir_sleep_hook_remove(&a));
	EXPECT_STATUS(weir_sleep_hook_remove(&a), WEIR_EINVAL);
	EXPECT_OK(weir_sleep(0, NULL, NULL));
	EXPECT_OK(weir_wake(0, 0, NULL));
	EXPECT_STR_EQ(calls, "abBAbB");
	EXPECT_OK(weir_sleep_hook_remove(&b));
	EXPECT_OK(weir_sleep(0, NULL, NULL));
	EXPECT_OK(weir_wake(0, 0, NULL));
	EXPECT_STR_EQ(calls, "abBAbB");
	expect_healthy();
}

TEST(a_hook_refuses_a_sleep_and_a_failed_one_ends_the_hooks)
{
	weir_stream stream = new_stream();

	add_hook((char[]){ "a" });
	add_hook((char[]){ "b" });
	void *block = take(40 * MIB, stream);
	answer = WEIR_ENOTSUP;
	EXPECT_STATUS(weir_sleep(0, NULL, NULL), WEIR_ENOTSUP);
	EXPECT_STR_EQ(calls, "abA");
	EXPECT(!weir_is_asleep(0));
	answer = WEIR_OK;
	calls[0] = '\0';
	conf("pinned_limit_mb:1");
	EXPECT_STATUS(weir_sleep(0, NULL, NULL), WEIR_EHOSTMEM);
	EXPECT_STR_EQ(calls, "abBA");
	give(block);
	expect_healthy();
}

TEST(hooks_are_checked_and_few)
{
	struct weir_sleep_hook hook = { 0 };

	EXPECT_STATUS(weir_sleep_hook_add(NULL), WEIR_EINVAL);
	EXPECT_STATUS(weir_sleep_hook_add(&hook), WEIR_EINVAL);
	EXPECT_STATUS(weir_sleep_hook_remove(NULL), WEIR_EINVAL);
	for (int i = 0; i < 16; i++)
		add_hook((char[]){ "a" });
	hook.struct_size = sizeof(hook);
	EXPECT_STATUS(weir_sleep_hook_add(&hook), WEIR_EHOSTMEM);
}
