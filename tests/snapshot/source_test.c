/*
 * Bytes that come in pieces are returned contiguously.
 */
#include <string.h>

#include "base/meta.h"
#include "base/status.h"
#include "snapshot/source.h"
#include "tests/support/test.h"

/* An input of `left` bytes, each its own number, in pieces of `step`. */
struct input {
	size_t left;
	size_t step;
	size_t done;
	bool fails; /* at its end */
};

static ptrdiff_t
read_input(void *user, void *buffer, size_t size)
{
	struct input *input = user;
	size_t n = input->step < input->left ? input->step : input->left;

	if (n > size)
		n = size;
	if (n == 0 && input->fails) {
		status_set(WEIR_EINVAL, "the disk is on fire");
		return -1;
	}
	for (size_t i = 0; i < n; i++)
		((unsigned char *)buffer)[i] = (unsigned char)(input->done + i);
	input->done += n;
	input->left -= n;
	return (ptrdiff_t)n;
}

TEST(requested_bytes_are_contiguous)
{
	struct input input = { .left = 3 << 20, .step = 1000 };
	struct source source;
	uint64_t at = 0;

	EXPECT_EQ(source_open(&source, read_input, &input), WEIR_OK);
	for (size_t n = 1; n < 3000; n++) {
		EXPECT_EQ(source_fill(&source, n), WEIR_OK);
		if (source_left(&source) < n)
			break;
		EXPECT_EQ(source_offset(&source), at);
		for (size_t i = 0; i < n; i++)
			EXPECT_EQ(source.at[i], (unsigned char)(at + i));
		source.at += n;
		at += n;
	}
	EXPECT_EQ(input.left, 0);
	source_close(&source);
}

TEST(a_piece_longer_than_the_buffer_is_had)
{
	struct input input = { .left = 5 << 20, .step = 1 << 20 };
	struct source source;

	EXPECT_EQ(source_open(&source, read_input, &input), WEIR_OK);
	EXPECT_EQ(source_fill(&source, 4 << 20), WEIR_OK);
	EXPECT_GE(source_left(&source), 4 << 20);
	EXPECT_EQ(source.at[(4 << 20) - 1], 0xff);
	source_close(&source);
}

TEST(at_the_end_there_is_less)
{
	struct input input = { .left = 10, .step = 3 };
	struct source source;

	EXPECT_EQ(source_open(&source, read_input, &input), WEIR_OK);
	EXPECT_EQ(source_fill(&source, SIZE_MAX), WEIR_OK);
	EXPECT_EQ(source_left(&source), 10);
	source.at += 10;
	EXPECT_EQ(source_fill(&source, 1), WEIR_OK);
	EXPECT_EQ(source_left(&source), 0);
	EXPECT_EQ(source_offset(&source), 10);
	source_close(&source);
}

TEST(a_failure_to_read_is_passed_on)
{
	struct input input = { .left = 10, .step = 3, .fails = true };
	struct source source;

	EXPECT_EQ(source_open(&source, read_input, &input), WEIR_OK);
	EXPECT_EQ(source_fill(&source, 10), WEIR_OK);
	EXPECT_EQ(source_fill(&source, 11), WEIR_EINVAL);
	EXPECT_STR_EQ(weir_last_error(), "the disk is on fire");
	source_close(&source);
}

TEST(without_host_memory_nothing_is_lost)
{
	struct input input = { .left = 1 << 20, .step = 1 << 20 };
	struct source source;
	size_t before = meta_bytes();

	meta_fail(1, 1);
	EXPECT_EQ(source_open(&source, read_input, &input), WEIR_EHOSTMEM);
	meta_fail(2, 1);
	EXPECT_EQ(source_open(&source, read_input, &input), WEIR_OK);
	EXPECT_EQ(source_fill(&source, 1 << 20), WEIR_EHOSTMEM);
	EXPECT_EQ(source_offset(&source), 0);
	meta_fail(0, 0);
	EXPECT_EQ(source_fill(&source, 1 << 20), WEIR_OK);
	EXPECT_EQ(source_left(&source), 1 << 20);
	source_close(&source);
	EXPECT_EQ(meta_bytes(), before);
}

/* The buffer would grow to twice the budget before the check. */
TEST(the_buffer_does_not_grow_above_the_budget)
{
	enum { ALLOWED = 700 << 10 };
	struct input input = { .left = 1 << 20, .step = 1 << 20 };
	struct budget budget = { .most = ALLOWED, .before = meta_bytes() };
	struct source source;
	enum weir_status status;

	EXPECT_EQ(source_open(&source, read_input, &input), WEIR_OK);
	source.budget = &budget;
	status = source_fill(&source, 1 << 20);
	EXPECT_EQ(budget_explain(&budget, status), WEIR_EINVAL);
	EXPECT_LE(source.room, (size_t)ALLOWED);
	source_close(&source);
	budget_release();
}

TEST(memory_is_read_where_it_is)
{
	static const char bytes[] = "hello";
	struct source source;

	source_of_memory(&source, bytes, 5);
	EXPECT_EQ(source_fill(&source, 6), WEIR_OK);
	EXPECT_EQ(source_left(&source), 5);
	EXPECT_EQ((const char *)source.at, bytes);
	source.at += 2;
	EXPECT_EQ(source_offset(&source), 2);
}
