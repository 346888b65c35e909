/*
 * The output of log_write() on stderr. A level is read once a process, so each
 * test sets its own before the first message.
 */
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <weir/weir.h>

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

/* The text written to stderr since catch_stderr(). */
static const char *
caught(void)
{
	ssize_t n = read(read_end, text, sizeof(text) - 1);

	text[n > 0 ? n : 0] = '\0';
	dup2(kept_stderr, STDERR_FILENO);
	return text;
}

/* A message of each level. */
static void
all_levels(void)
{
	log_write(LOG_ERROR, "e%d", 1);
	log_write(LOG_WARN, "w%d", 2);
	log_write(LOG_INFO, "i%d", 3);
	log_write(LOG_DEBUG, "d%d", 4);
}

static const char *
all_levels_at(const char *level)
{
	if (level == NULL)
		unsetenv("WEIR_LOG");
	else
		setenv("WEIR_LOG", level, 1);
	catch_stderr();
	all_levels();
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
	    "weir: WEIR_LOG=loud: not error, warn, info or debug; warn is "
	    "used\n"
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

/* ---- The program's own function -------------------------------------- */

static char told[TEXT_SIZE];

static void
tell(enum weir_log_level level, const char *message, void *user)
{
	snprintf(told + strlen(told), sizeof(told) - strlen(told), "%s%d:%s|",
	    (const char *)user, (int)level, message);
}

/* Messages go to tell() from a level on; stderr has errors only. */
static void
tell_from(enum weir_log_level level, char *user)
{
	setenv("WEIR_LOG", "error", 1);
	catch_stderr();
	EXPECT_EQ(weir_log_set(level, tell, user), WEIR_OK);
}

TEST(messages_go_to_the_programs_function_at_its_level)
{
	char mine[] = "mine";

	tell_from(WEIR_LOG_INFO, mine);
	all_levels();
	EXPECT_STR_EQ(caught(), "");
	EXPECT_STR_EQ(told, "mine0:e1|mine1:w2|mine2:i3|");
}

TEST(a_message_for_the_program_has_no_controls)
{
	char mine[] = "";

	tell_from(WEIR_LOG_INFO, mine);
	log_write(LOG_INFO, "i\033%d", 3);
	EXPECT_STR_EQ(caught(), "");
	EXPECT_STR_EQ(told, "2:i?3|");
}

TEST(without_a_function_messages_go_to_stderr_again)
{
	char mine[] = "";

	tell_from(WEIR_LOG_DEBUG, mine);
	EXPECT_EQ(weir_log_set(WEIR_LOG_DEBUG, NULL, NULL), WEIR_OK);
	all_levels();
	EXPECT_STR_EQ(caught(), "weir: e1\n");
	EXPECT_STR_EQ(told, "");
}

TEST(an_invalid_level_is_refused_and_changes_nothing)
{
	char mine[] = "";

	EXPECT_EQ(weir_log_set(WEIR_LOG_ERROR, tell, mine), WEIR_OK);
	EXPECT_EQ(
	    weir_log_set((enum weir_log_level)4, NULL, NULL), WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), "level 4 is not");
	EXPECT_EQ(
	    weir_log_set((enum weir_log_level) - 1, NULL, NULL), WEIR_EINVAL);
	all_levels();
	EXPECT_STR_EQ(told, "0:e1|");
}

/* Function and argument are changed together: a reader never sees one of each.
 */
static void
tell_pair(enum weir_log_level level, const char *message, void *user)
{
	(void)level;
	(void)message;
	if (strcmp(user, "one") != 0)
		FAIL("the argument of the other function");
}

static void
tell_other(enum weir_log_level level, const char *message, void *user)
{
	(void)level;
	(void)message;
	if (strcmp(user, "two") != 0)
		FAIL("the argument of the other function");
}

static void *
write_many(void *unused)
{
	(void)unused;
	for (int i = 0; i < 2000; i++)
		log_write(LOG_ERROR, "%d", i);
	return NULL;
}

TEST(a_function_gets_its_own_argument_while_it_is_changed)
{
	char one[] = "one";
	char two[] = "two";
	pthread_t thread;

	weir_log_set(WEIR_LOG_ERROR, tell_pair, one);
	EXPECT_EQ(pthread_create(&thread, NULL, write_many, NULL), 0);
	for (int i = 0; i < 2000; i++) {
		weir_log_set(WEIR_LOG_ERROR, tell_other, two);
		weir_log_set(WEIR_LOG_ERROR, tell_pair, one);
	}
	EXPECT_EQ(pthread_join(thread, NULL), 0);
}
