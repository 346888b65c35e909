/*
 * What log_write() puts on stderr. A level is read once a process, so each
 * test sets its own before the first message.
 */
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/test.h"

enum { TEXT_SIZE = 8192 };

static char text[TEXT_SIZE];
static int kept_stderr;
static int read_end;

static void
catch_stderr(void)
{
	int ends[2];

	EXPECT_EQ(pipe(ends), 0);
	kept_stderr = dup(STDERR_FILENO);
	dup2(ends[1], STDERR_FILENO);
	close(ends[1]);
	read_end = ends[0];
	fcntl(read_end, F_SETFL, O_NONBLOCK);
}

/* What was written to stderr since catch_stderr(). */
static const char *
caught(void)
{
	ssize_t n = read(read_end, text, sizeof(text) - 1);

	text[n > 0 ? n : 0] = '\0';
	dup2(kept_stderr, STDERR_FILENO);
	return text;
}

static const char *
all_levels_at(const char *level)
{
	if (level == NULL)
		unsetenv("WEIR_LOG");
	else
		setenv("WEIR_LOG", level, 1);
	catch_stderr();
	log_write(LOG_ERROR, "e%d", 1);
	log_write(LOG_WARN, "w%d", 2);
	log_write(LOG_INFO, "i%d", 3);
	log_write(LOG_DEBUG, "d%d", 4);
	return caught();
}

TEST(warnings_and_errors_are_shown_by_default)
{
	EXPECT_STR_EQ(all_levels_at(NULL), "weir: e1\nweir: w2\n");
}

TEST(an_empty_level_is_the_default)
{
	EXPECT_STR_EQ(all_levels_at(""), "weir: e1\nweir: w2\n");
}

TEST(the_level_can_be_error)
{
	EXPECT_STR_EQ(all_levels_at("error"), "weir: e1\n");
}

TEST(the_level_can_be_info)
{
	EXPECT_STR_EQ(all_levels_at("info"), "weir: e1\nweir: w2\nweir: i3\n");
}

TEST(the_level_can_be_debug)
{
	EXPECT_STR_EQ(
	    all_levels_at("debug"), "weir: e1\nweir: w2\nweir: i3\nweir: d4\n");
}

TEST(a_wrong_level_is_named_once_and_warn_is_taken)
{
	EXPECT_STR_EQ(all_levels_at("loud"),
	    "weir: WEIR_LOG=loud: not error, warn, info or debug; warn it is\n"
	    "weir: e1\nweir: w2\n");
}

TEST(a_level_changed_later_has_no_effect)
{
	all_levels_at("error");
	EXPECT_STR_EQ(all_levels_at("debug"), "weir: e1\n");
}

TEST(errno_is_kept_even_if_the_write_fails)
{
	int kept = dup(STDERR_FILENO);

	close(STDERR_FILENO);
	errno = 77;
	log_write(LOG_ERROR, "nobody reads this");
	EXPECT_EQ(errno, 77);
	dup2(kept, STDERR_FILENO);
}

TEST(a_message_too_long_is_cut_and_ends_its_line)
{
	static char message[6000];

	memset(message, 'm', sizeof(message) - 1);
	catch_stderr();
	log_write(LOG_ERROR, "%s", message);
	caught();
	EXPECT_EQ(strlen(text), 4096 - 1);
	EXPECT_MEM_EQ(text, "weir: mmm", 9);
	EXPECT_MEM_EQ(text + 4096 - 3, "m\n", 2);
}
