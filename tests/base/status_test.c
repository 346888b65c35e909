/* The last failure of a thread, and the names and texts of statuses. */
#include "base/status.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "tests/support/test.h"

/* A text of `n` bytes of `fill`. */
static const char *
long_text(char *text, size_t n, char fill)
{
	memset(text, fill, n);
	text[n] = '\0';
	return text;
}

TEST(every_status_has_its_name_and_its_text)
{
	EXPECT_EQ(WEIR_OK, 0);
	EXPECT_STR_EQ(weir_status_name(WEIR_OK), "WEIR_OK");
	EXPECT_STR_EQ(weir_status_text(WEIR_OK), "success");
	EXPECT_STR_EQ(weir_status_name(WEIR_ENOMEM), "WEIR_ENOMEM");
	EXPECT_STR_EQ(weir_status_text(WEIR_ENOMEM), "out of memory");
	EXPECT_STR_EQ(weir_status_name(WEIR_EEXIT), "WEIR_EEXIT");
	EXPECT_STR_EQ(
	    weir_status_text(WEIR_EEXIT), "the CUDA driver is shutting down");
}

TEST(an_unknown_status_is_named_as_such)
{
	enum weir_status above = (enum weir_status)(WEIR_EFILE + 1);
	enum weir_status below = (enum weir_status) - 1;

	EXPECT_STR_EQ(weir_status_name(above), "WEIR_?");
	EXPECT_STR_EQ(weir_status_name(below), "WEIR_?");
	EXPECT_STR_EQ(weir_status_text(above), "unknown status");
	EXPECT_STR_EQ(weir_status_text(below), "unknown status");
}

TEST(the_version_is_that_of_the_header)
{
	char text[32];

	snprintf(text, sizeof(text), "%d.%d.%d", WEIR_VERSION_MAJOR,
	    WEIR_VERSION_MINOR, WEIR_VERSION_PATCH);
	EXPECT_STR_EQ(weir_version(), text);
}

TEST(nothing_has_failed_at_first)
{
	EXPECT_EQ(weir_last_status(), WEIR_OK);
	EXPECT_STR_EQ(weir_last_error(), "");
}

TEST(a_failure_is_remembered_until_the_next)
{
	EXPECT_EQ(status_set(WEIR_EINVAL, "size is %d", 0), WEIR_EINVAL);
	EXPECT_EQ(weir_last_status(), WEIR_EINVAL);
	EXPECT_STR_EQ(weir_last_error(), "size is 0");

	EXPECT_EQ(status_set(WEIR_ENOMEM, "no"), WEIR_ENOMEM);
	EXPECT_EQ(weir_last_status(), WEIR_ENOMEM);
	EXPECT_STR_EQ(weir_last_error(), "no");
}

TEST(a_text_too_long_is_cut)
{
	char text[STATUS_TEXT_SIZE + 100];

	status_set(
	    WEIR_EINVAL, "%s", long_text(text, STATUS_TEXT_SIZE + 99, 'x'));
	EXPECT_EQ(strlen(weir_last_error()), STATUS_TEXT_SIZE - 1);
	EXPECT_MEM_EQ(weir_last_error(), text, STATUS_TEXT_SIZE - 1);
}

TEST(a_text_may_quote_the_one_it_replaces)
{
	status_set(WEIR_EINVAL, "first");
	status_set(WEIR_ENOMEM, "second, after %s", weir_last_error());
	EXPECT_STR_EQ(weir_last_error(), "second, after first");
	status_prefix("third, after %s", weir_last_error());
	EXPECT_STR_EQ(weir_last_error(),
	    "third, after second, after first: second, after first");
}

TEST(a_prefix_goes_in_front_and_keeps_the_status)
{
	status_set(WEIR_EDRIVER, "cuInit(0): unknown error (999)");
	EXPECT_EQ(status_prefix("weir_malloc(%d)", 8), WEIR_EDRIVER);
	EXPECT_EQ(weir_last_status(), WEIR_EDRIVER);
	EXPECT_STR_EQ(weir_last_error(),
	    "weir_malloc(8): cuInit(0): unknown error (999)");
}

TEST(a_prefix_pushes_the_end_of_the_text_out)
{
	char text[STATUS_TEXT_SIZE];

	status_set(
	    WEIR_EINVAL, "%s", long_text(text, STATUS_TEXT_SIZE - 1, 'x'));
	status_prefix("here");
	EXPECT_EQ(strlen(weir_last_error()), STATUS_TEXT_SIZE - 1);
	EXPECT_MEM_EQ(weir_last_error(), "here: xxx", 9);
	EXPECT_EQ(weir_last_error()[STATUS_TEXT_SIZE - 2], 'x');
}

TEST(a_prefix_longer_than_the_buffer_is_cut)
{
	char text[STATUS_TEXT_SIZE * 2];

	status_set(WEIR_EINVAL, "old");
	status_prefix("%s", long_text(text, STATUS_TEXT_SIZE * 2 - 1, 'p'));
	EXPECT_LT(strlen(weir_last_error()), STATUS_TEXT_SIZE);
	EXPECT_GT(strlen(weir_last_error()), STATUS_TEXT_SIZE - 8);
	EXPECT_STR_HAS(weir_last_error(), "ppp: ");
}

TEST(a_prefix_to_nothing_changes_nothing)
{
	EXPECT_EQ(status_prefix("here"), WEIR_OK);
	EXPECT_STR_EQ(weir_last_error(), "");
}

TEST(muted_failures_leave_no_trace)
{
	status_set(WEIR_EINVAL, "kept");
	status_mute();
	EXPECT_EQ(status_set(WEIR_ENOMEM, "try"), WEIR_ENOMEM);
	EXPECT_EQ(status_prefix("prefix"), WEIR_ENOMEM);
	status_mute();
	status_unmute();
	status_set(WEIR_EDRIVER, "still muted");
	status_unmute();
	EXPECT_EQ(weir_last_status(), WEIR_EINVAL);
	EXPECT_STR_EQ(weir_last_error(), "kept");

	status_set(WEIR_ENOTSUP, "heard again");
	EXPECT_STR_EQ(weir_last_error(), "heard again");
}

TEST(a_muted_failure_can_be_reported_later)
{
	status_set(WEIR_EINVAL, "old");
	status_mute();
	status_set(WEIR_ENOMEM, "try %d", 1);
	status_prefix("weir_malloc()");
	EXPECT_STR_EQ(status_latest_text(), "weir_malloc(): try 1");
	EXPECT_STR_EQ(weir_last_error(), "old");
	EXPECT_EQ(status_unmute_and_report(), WEIR_ENOMEM);
	EXPECT_EQ(weir_last_status(), WEIR_ENOMEM);
	EXPECT_STR_EQ(weir_last_error(), "weir_malloc(): try 1");
}

TEST(a_failure_of_the_system_has_its_errno_until_the_next)
{
	EXPECT_EQ(weir_last_errno(), 0);
	status_set(WEIR_EFILE, "x: not there");
	EXPECT_EQ(weir_last_errno(), 0);
	EXPECT_EQ(status_errno(WEIR_EFILE, ENOENT), WEIR_EFILE);
	EXPECT_EQ(weir_last_errno(), ENOENT);
	status_mute();
	status_set(WEIR_EFILE, "y: no rights");
	status_errno(WEIR_EFILE, EACCES);
	EXPECT_EQ(weir_last_errno(), ENOENT);
	EXPECT_EQ(status_unmute_and_report(), WEIR_EFILE);
	EXPECT_EQ(weir_last_errno(), EACCES);
	EXPECT_STR_EQ(weir_last_error(), "y: no rights");
	status_set(WEIR_EINVAL, "z");
	EXPECT_EQ(weir_last_errno(), 0);
}

TEST(muting_nests)
{
	status_set(WEIR_EINVAL, "old");
	status_mute();
	status_mute();
	status_set(WEIR_ENOMEM, "inner");
	EXPECT_EQ(status_unmute_and_report(), WEIR_ENOMEM);
	EXPECT_STR_EQ(weir_last_error(), "old");
	EXPECT_EQ(status_unmute_and_report(), WEIR_ENOMEM);
	EXPECT_STR_EQ(weir_last_error(), "inner");
}

static void *
fail_in_thread(void *mark)
{
	EXPECT_EQ(weir_last_status(), WEIR_OK);
	status_set(WEIR_ENOMEM, "in the thread");
	EXPECT_STR_EQ(weir_last_error(), "in the thread");
	return mark;
}

TEST(each_thread_has_a_separate_last_failure)
{
	pthread_t thread;

	status_set(WEIR_EINVAL, "in main");
	pthread_create(&thread, NULL, fail_in_thread, NULL);
	pthread_join(thread, NULL);
	EXPECT_EQ(weir_last_status(), WEIR_EINVAL);
	EXPECT_STR_EQ(weir_last_error(), "in main");
}
