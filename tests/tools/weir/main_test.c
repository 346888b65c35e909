/*
 * The command as a whole: its help, its version, and what it makes of a name
 * it does not know.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/support/command.h"
#include "tests/support/test.h"

#include <weir/weir.h>

/* All commands but help itself. */
static const char *const names[] = { "run", "watch", "ctl", "show", "stats",
	"top", "oom", "frag", "leaks", "trace", "diff", "merge", "check",
	"export", "view", "replay", "generate", "options", "info", "completion",
	"version" };

enum { NAMES = sizeof(names) / sizeof(names[0]) };

/* A terminal of 24 lines, one of which is the prompt's, and 80 columns. */
enum { SCREEN_LINES = 23, SCREEN_COLUMNS = 80 };

static void
expect_one_screen(const char *name, const char *text)
{
	int lines = 0;

	while (*text != '\0') {
		size_t columns = strcspn(text, "\n");

		if (columns >= SCREEN_COLUMNS)
			FAIL("help of '%s': a line of %zu columns: %.*s", name,
			    columns, (int)columns, text);
		if (text[columns] == '\0')
			FAIL("help of '%s': its last line has no end", name);
		text += columns + 1;
		lines++;
	}
	if (lines > SCREEN_LINES)
		FAIL("help of '%s': %d lines", name, lines);
}

TEST(without_a_command_the_list_goes_to_stderr)
{
	struct command_result result = command_weir(NULL, NULL);

	EXPECT_EQ(result.status, 2);
	EXPECT_STR_EQ(result.out, "");
	EXPECT_STR_HAS(result.err, "Usage: weir COMMAND");
	command_free(&result);
}

TEST(help_lists_every_command_on_stdout)
{
	static const char *const asked[] = { "help", "--help", "-h" };

	for (int i = 0; i < 3; i++) {
		struct command_result result = command_weir(asked[i], NULL);

		EXPECT_EQ(result.status, 0);
		EXPECT_STR_EQ(result.err, "");
		for (int j = 0; j < NAMES; j++)
			EXPECT_STR_HAS(result.out, names[j]);
		command_free(&result);
	}
}

/* In whatever way it is asked for. */
TEST(each_help_fits_one_screen)
{
	unsetenv("ARGP_HELP_FMT");
	for (int i = 0; i < NAMES; i++) {
		struct command_result a = command_weir("help", names[i], NULL);
		struct command_result b =
		    command_weir(names[i], "--help", NULL);

		EXPECT_EQ(a.status, 0);
		EXPECT_EQ(b.status, 0);
		EXPECT_STR_HAS(a.out, "Usage: weir ");
		EXPECT_STR_HAS(a.out, names[i]);
		EXPECT_STR_EQ(a.out, b.out);
		expect_one_screen(names[i], b.out);
		command_free(&a);
		command_free(&b);
	}
}

TEST(the_list_fits_one_screen)
{
	struct command_result list = command_weir("help", NULL);

	expect_one_screen("weir", list.out);
	command_free(&list);
}

TEST(an_unknown_command_gets_the_nearest_one)
{
	static const char *const pairs[][2] = { { "replya", "'replay'" },
		{ "optoins", "'options'" }, { "inof", "'info'" },
		{ "RUN", "'run'" }, { "versoin", "'version'" } };

	for (int i = 0; i < 5; i++) {
		struct command_result result = command_weir(pairs[i][0], NULL);

		EXPECT_EQ(result.status, 2);
		EXPECT_STR_EQ(result.out, "");
		EXPECT_STR_HAS(result.err, pairs[i][0]);
		EXPECT_STR_HAS(result.err, "did you mean");
		EXPECT_STR_HAS(result.err, pairs[i][1]);
		command_free(&result);
	}
}

TEST(help_of_an_unknown_command_gets_the_nearest_one)
{
	struct command_result result = command_weir("help", "replai", NULL);

	EXPECT_EQ(result.status, 2);
	EXPECT_STR_HAS(result.err, "did you mean 'replay'?");
	command_free(&result);
}

TEST(a_very_long_command_is_just_unknown)
{
	struct command_result result = command_weir(
	    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
	    NULL);

	EXPECT_EQ(result.status, 2);
	EXPECT_STR_HAS(result.err, "no command 'aaaa");
	command_free(&result);
}

TEST(version_is_that_of_the_library)
{
	static const char *const asked[] = { "version", "--version", "-V" };

	for (int i = 0; i < 3; i++) {
		struct command_result result = command_weir(asked[i], NULL);

		EXPECT_EQ(result.status, 0);
		EXPECT_EQ(strncmp(result.out, "weir ", 5), 0);
		EXPECT_STR_HAS(result.out, weir_version());
		command_free(&result);
	}
}

TEST(version_takes_no_argument)
{
	struct command_result result = command_weir("version", "2", NULL);

	EXPECT_EQ(result.status, 2);
	EXPECT_STR_HAS(result.err, "version takes no argument");
	command_free(&result);
}

TEST(an_unknown_flag_is_a_usage_error_of_every_command)
{
	static const char *const names[] = { "run", "replay", "options", "info",
		"version" };

	for (int i = 0; i < 5; i++) {
		struct command_result result =
		    command_weir(names[i], "--no-such-flag", NULL);

		EXPECT_EQ(result.status, 2);
		EXPECT_STR_EQ(result.out, "");
		EXPECT_STR_HAS(result.err, "--no-such-flag");
		command_free(&result);
	}
}

TEST(output_that_cannot_be_written_is_a_failure)
{
	char *weir = test_build("bin/weir");
	const char *const argv[] = { "sh", "-c", "\"$0\" help >/dev/full", weir,
		NULL };
	struct command_result result = command_run(argv);

	EXPECT_EQ(result.status, 1);
	EXPECT_STR_HAS(result.err, "cannot write the output");
	command_free(&result);
	free(weir);
}
