/*
 * The words for how a request was served.
 */
#include "trace/served.h"

#include <string.h>

#include "tests/support/test.h"

#define MIB UINT64_C(1048576)

static char text[SERVED_TEXT];

TEST(a_way_without_effort_is_its_word)
{
	struct served served = { .by = SERVED_ready };

	EXPECT_STR_EQ(served_text(&served, text), "ready run");
	served.by = SERVED_own;
	EXPECT_STR_EQ(served_text(&served, text), "own");
	/* Another thread's memory may have been served in between. */
	served.by = SERVED_grown;
	EXPECT_STR_EQ(served_text(&served, text), "grown");
}

TEST(effort_of_the_same_way_replaces_its_word)
{
	struct served served = {
		.by = SERVED_wait, .waits = 1, .waited_for = 0x7f10
	};

	EXPECT_STR_EQ(served_text(&served, text), "wait for stream 0x7f10");
	served = (struct served){ .by = SERVED_moved, .moved = 4 };
	EXPECT_STR_EQ(served_text(&served, text), "moved 4 handles");
	served = (struct served){
		.by = SERVED_grown, .moved = 1, .grown_bytes = 64 * MIB
	};
	EXPECT_STR_EQ(
	    served_text(&served, text), "moved 1 handle, grown 64.00 MiB");
}

TEST(effort_follows_the_word_of_another_way)
{
	struct served served = { .by = SERVED_reclaimed,
		.waits = 3,
		.waited_for = 16,
		.host_waits = 2,
		.grown_bytes = 2 * MIB };

	EXPECT_STR_EQ(served_text(&served, text),
	    "given back, 3 waits for stream 0x10, 2 host waits, grown 2.00 "
	    "MiB");
}

TEST(the_known_facts_of_waits_are_printed)
{
	struct served served = { .by = SERVED_wait, .waits = 2 };
	struct served_wait wait = { .stream = "3" };

	EXPECT_STR_EQ(
	    served_phrase(&served, &wait, text), "2 waits for stream 3");
	wait.ns = 120900;
	wait.is_measured = true;
	EXPECT_STR_EQ(
	    served_phrase(&served, &wait, text), "2 waits 120 us for stream 3");
}

TEST(tried_steps_are_in_the_order_of_the_ladder)
{
	struct served served = { .tried = 1u << SERVED_forced |
		    1u << SERVED_ready | 1u << SERVED_grown,
		.waits = 2 };

	/* The stream is not known. */
	EXPECT_STR_EQ(
	    served_tried(&served, text), "ready run, grown, any wait, 2 waits");
}

TEST(the_longest_text_is_cut_at_its_end)
{
	struct served served = { .tried = UINT32_MAX,
		.waits = UINT32_MAX,
		.host_waits = UINT32_MAX,
		.moved = UINT32_MAX,
		.waited_for = UINT64_MAX,
		.grown_bytes = UINT64_MAX };

	served_tried(&served, text);
	EXPECT_EQ(strlen(text), SERVED_TEXT - 1);
}

TEST(the_words_are_one_for_each_way)
{
	for (int i = 0; i < SERVED_WAY_COUNT; i++)
		for (int k = 0; k < i; k++)
			if (strcmp(served_word((enum served_by)i),
				served_word((enum served_by)k)) == 0)
				FAIL("ways %d and %d have one word", i, k);
}

static uint64_t heard_tag;
static uint64_t heard_ns;

static void
hear(uint64_t tag, uint64_t ns)
{
	heard_tag = tag;
	heard_ns += ns;
}

TEST(a_listener_is_called_for_waits_with_a_tag)
{
	served_measured(1, 5);
	served_listen(hear);
	served_measured(0, 5);
	EXPECT_EQ(heard_ns, 0);
	served_measured(7, 5);
	EXPECT_EQ(heard_tag, 7);
	EXPECT_EQ(heard_ns, 5);
	served_listen(NULL);
	served_measured(7, 5);
	EXPECT_EQ(heard_ns, 5);
}
