/*
 * Recalled stacks equal those of unwinding.
 */
#include "stacks/recall.h"

#include <pthread.h>
#include <string.h>

#include "base/meta.h"
#include "stacks/stack.h"
#include "tests/support/test.h"

static _Thread_local void *known[STACK_FRAMES_MAX];
static _Thread_local void *unwound[STACK_FRAMES_MAX];
static _Thread_local size_t n;

/* Record the stack in both ways; they differ in the innermost address only. */
__attribute__((noinline)) static void
take(void)
{
	n = recall_capture(known, STACK_FRAMES_MAX, 0);
	size_t m = stack_capture(unwound, STACK_FRAMES_MAX, 0);

	EXPECT_GT(n, 3);
	EXPECT_EQ(n, m);
	EXPECT_MEM_EQ(known + 1, unwound + 1, (n - 1) * sizeof(*known));
}

/* Call paths of the same depth and size to the same place. */
#define WAY(name)                                                              \
	__attribute__((noinline)) static void name(int depth)                  \
	{                                                                      \
		if (depth > 0)                                                 \
			name(depth - 1);                                       \
		else                                                           \
			take();                                                \
		__asm__ volatile("" ::: "memory");                             \
	}
WAY(left)
WAY(right)

TEST(a_stack_is_the_same_when_it_is_met_again)
{
	void *first[STACK_FRAMES_MAX];

	recall_prepare();
	/* One call, however the compiler changes the loop. */
	for (volatile int i = 0; i < 100; i++) {
		left(3);
		if (i == 0)
			memcpy(first, known, sizeof(first));
		EXPECT_MEM_EQ(first, known, n * sizeof(*known));
	}
}

TEST(call_paths_of_the_same_size_are_distinguished)
{
	recall_prepare();
	for (int i = 0; i < 50; i++) {
		left(2);
		right(2);
		left(i % 5);
		right(i % 7);
	}
}

TEST(without_being_ready_all_are_unwound)
{
	for (int i = 0; i < 3; i++)
		left(2);
}

/* A frame of a different size each time, with older contents in it. */
__attribute__((noinline)) static void
sized(size_t size)
{
	char room[size];

	memset(room, 1, size);
	__asm__ volatile("" ::"r"(room) : "memory");
	if (size % 3 == 0)
		left(1);
	else
		right(1);
	__asm__ volatile("" ::: "memory");
}

TEST(frames_of_changing_size_are_followed)
{
	recall_prepare();
	for (int round = 0; round < 3; round++)
		for (size_t size = 16; size < 4000; size += 8)
			sized(size);
}

TEST(deep_stacks_are_cut_at_their_outer_end)
{
	recall_prepare();
	for (int i = 0; i < 10; i++) {
		left(200);
		EXPECT_EQ(n, STACK_FRAMES_MAX);
		right(100 + i);
	}
}

TEST(frames_are_skipped_and_bounded)
{
	void *few[3];

	recall_prepare();
	for (int i = 0; i < 3; i++) {
		n = recall_capture(known, STACK_FRAMES_MAX, 0);
		EXPECT_EQ(recall_capture(few, 3, 1), 3);
		EXPECT_MEM_EQ(few, known + 1, sizeof(few));
		EXPECT_EQ(recall_capture(few, 3, n), 0);
		EXPECT_EQ(recall_capture(few, 0, 0), 0);
	}
}

static void *
walk_about(void *user)
{
	(void)user;
	for (int i = 0; i < 500; i++) {
		left(i % 40);
		right(i % 30);
	}
	return NULL;
}

TEST(threads_do_not_mistake_each_others_stacks)
{
	recall_prepare();
	for (int round = 0; round < 3; round++) {
		pthread_t threads[4];
		for (int i = 0; i < 4; i++)
			EXPECT_EQ(
			    pthread_create(&threads[i], NULL, walk_about, NULL),
			    0);
		for (int i = 0; i < 4; i++)
			EXPECT_EQ(pthread_join(threads[i], NULL), 0);
	}
}

__attribute__((noinline)) static void
sized_once(size_t size)
{
	char room[size];

	memset(room, 1, size);
	__asm__ volatile("" ::"r"(room) : "memory");
	n = recall_capture(known, STACK_FRAMES_MAX, 0);
	EXPECT_GT(n, 2);
}

/* More than fit: 16 MiB at some 400 bytes each. */
TEST(when_there_is_no_more_room_stacks_are_unwound)
{
	recall_prepare();
	for (size_t i = 2; i < test_effort(60000); i++)
		sized_once(i * 16);
	left(3);
	right(3);
}

TEST(without_memory_stacks_are_unwound)
{
	for (unsigned long nth = 1; nth <= 2; nth++) {
		meta_fail(1, 1);
		recall_prepare();
		meta_fail(0, 0);
		left(2);
		left(2);
	}
	recall_prepare();
	left(2);
	left(2);
}
