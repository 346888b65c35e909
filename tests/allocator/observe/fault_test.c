/*
 * Faults: each is a line, all are counted, and the text is never overrun.
 */
#include "allocator/observe/fault.h"

#include <string.h>

#include "tests/support/test.h"

TEST(each_fault_is_a_line)
{
	char text[64] = "";
	struct check check = { .text = text, .size = sizeof(text) };

	check_fault(&check, "I-%d at %#x", 1, 0x200);
	check_fault(&check, "I-2");
	EXPECT_STR_EQ(text, "I-1 at 0x200\nI-2\n");
	EXPECT_EQ(check.faults, 2);
}

TEST(faults_that_do_not_fit_are_counted)
{
	for (size_t size = 0; size < 20; size++) {
		char text[20];
		struct check check = { .text = text, .size = size };

		memset(text, '#', sizeof(text));
		if (size > 0)
			text[0] = '\0';
		for (int i = 0; i < 5; i++)
			check_fault(&check, "fault %d", i);
		EXPECT_EQ(check.faults, 5);
		for (size_t i = size; i < sizeof(text); i++)
			EXPECT_EQ(text[i], '#');
		if (size > 0)
			EXPECT_LT(strnlen(text, size), size);
	}
}
