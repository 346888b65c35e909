/*
 * The command as a whole: its help, its version, unknown names, and the exit
 * status that all commands share.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/command.h"
#include "tests/support/test.h"
#include "tests/tools/weir/answer.h"
#include "tools/weir/page.h"

#include <weir/weir.h>

/* All commands except help. */
static const char *const names[] = { "run", "watch", "ctl", "group", "sleep",
	"wake", "show", "stats", "top", "oom", "advise", "frag", "leaks",
	"trace", "diff", "merge", "check", "export", "view", "replay", "fit",
	"plan", "generate", "options", "info", "completion", "version" };

enum { NAMES = sizeof(names) / sizeof(names[0]) };

/* A terminal with 80 columns and 24 lines, one of which has the prompt. */
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

/* The help fits in both ways of asking for it. */
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

TEST(a_command_that_nothing_is_near_to_gets_no_guess)
{
	struct command_result result = command_weir("--jsn", NULL);

	EXPECT_EQ(result.status, 2);
	EXPECT_STR_EQ(
	    result.err, "weir: no command '--jsn'; 'weir help' lists them\n");
	command_free(&result);
}

TEST(an_unknown_flag_gets_the_nearest_one)
{
	static const char *const wrong[][3] = {
		{ "top", "--jsno",
		    "top has no flag '--jsno'; did you mean "
		    "'--json'?" },
		{ "generate", "--evnts=3",
		    "generate has no flag '--evnts=3'; did you mean "
		    "'--events'?" },
		{ "info", "--hepl",
		    "info has no flag '--hepl'; did you mean '--help'?" },
		{ "ctl", "--colour",
		    "ctl has no flag '--colour'; --help lists them" },
	};

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		struct command_result result =
		    command_weir(wrong[i][0], wrong[i][1], "x", NULL);

		EXPECT_EQ(result.status, 2);
		EXPECT_STR_EQ(result.out, "");
		EXPECT_STR_HAS(result.err, wrong[i][2]);
		command_free(&result);
	}
}

TEST(a_value_and_a_program_s_arguments_are_no_flags)
{
	struct command_result result =
	    command_weir("run", "-q", "--sim", "echo", "--jsno", NULL);

	/* echo cannot load a sanitized library. */
	EXPECT_NULL(strstr(result.err, "has no flag"));
	command_free(&result);
	result = command_weir("top", "--by", "--jsno", "x", NULL);
	EXPECT_STR_HAS(result.err, "not '--jsno'");
	command_free(&result);
	result = command_weir("top", "-jb", "--jsno", "x", NULL);
	EXPECT_STR_HAS(result.err, "not '--jsno'");
	command_free(&result);
}

TEST(a_wrong_word_of_a_flag_gets_the_nearest_one)
{
	static const char *const wrong[][3] = {
		{ "top", "--by=stak", "not 'stak'; did you mean 'stack'?" },
		{ "export", "--format=crome",
		    "not 'crome'; did you mean 'chrome'?" },
		{ "completion", "bsh", "not 'bsh'; did you mean 'bash'?" },
		{ "run", "--history=sate",
		    "not 'sate'; did you mean 'state'?" },
	};

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		struct command_result result =
		    command_weir(wrong[i][0], wrong[i][1], NULL);

		EXPECT_EQ(result.status, 2);
		EXPECT_STR_HAS(result.err, wrong[i][2]);
		command_free(&result);
	}
}

TEST(a_wrong_conf_is_named_by_its_flag)
{
	struct command_result result =
	    command_weir("run", "--sim", "--conf=prefr:memory", "echo", NULL);

	EXPECT_EQ(result.status, 2);
	EXPECT_STR_HAS(result.err,
	    "weir: --conf: unknown option 'prefr'; did "
	    "you mean 'prefer'?");
	command_free(&result);
	result = command_weir("replay", "--conf=hande_mb:2", "x.csv", NULL);
	EXPECT_EQ(result.status, 2);
	EXPECT_STR_HAS(result.err,
	    "weir: --conf: unknown option 'hande_mb'; "
	    "did you mean 'handle_mb'?");
	command_free(&result);
	result = command_weir("view", "--what-if=hande_mb:2", "-o", "page.html",
	    snapshot_data("train4.pickle"), NULL);
	EXPECT_EQ(result.status, 2);
	EXPECT_STR_HAS(result.err,
	    "weir: --what-if: unknown option 'hande_mb'; "
	    "did you mean 'handle_mb'?");
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
	for (int i = 0; i < NAMES; i++) {
		struct command_result result =
		    command_weir(names[i], "--no-such-flag", NULL);

		EXPECT_EQ(result.status, 2);
		EXPECT_STR_EQ(result.out, "");
		EXPECT_STR_HAS(result.err, "--no-such-flag");
		command_free(&result);
	}
}

/* ---- The exit status --------------------------------------------------- */

/* True if `words` is in the text, wherever its lines are broken. */
static bool
has_words(const char *text, const char *words)
{
	const char *at = text;

	for (; *at != '\0'; at++) {
		const char *word = words;
		const char *t = at;

		while (*word != '\0' &&
		    (*t == *word || (*t == '\n' && *word == ' '))) {
			word++;
			t++;
		}
		if (*word == '\0')
			return true;
	}
	return false;
}

TEST(each_help_says_the_exit_statuses)
{
	for (int i = 0; i < NAMES; i++) {
		struct command_result result =
		    command_weir(names[i], "--help", NULL);

		if (!has_words(result.out, "Exit status: ") ||
		    !has_words(result.out, "2 trouble"))
			FAIL("help of '%s': %s", names[i], result.out);
		command_free(&result);
	}
}

/* The commands that read files, with what stands before and after the file. */
static const struct {
	const char *name;
	const char *before;
	const char *after;
} readers[] = {
	{ "show", "--json", NULL },
	{ "stats", "--json", NULL },
	{ "top", "--json", NULL },
	{ "oom", "--json", NULL },
	{ "frag", "--json", NULL },
	{ "leaks", "--json", NULL },
	{ "trace", "--json", NULL },
	{ "check", "--json", NULL },
	{ "merge", "--json", "OTHER" },
	{ "diff", "--json", "OTHER" },
	{ "export", "--format=folded", NULL },
	{ "view", "--output=-", NULL },
	{ "replay", "--sim", NULL },
};

enum { READERS = sizeof(readers) / sizeof(readers[0]) };

/* Each command that reads a file ends with status 2 for this one, and says
 * why. */
static void
expect_trouble(const char *path, const char *why)
{
	for (int i = 0; i < READERS; i++) {
		const char *after = readers[i].after != NULL ? train() : NULL;
		/* Without the page, that is all that `view` says. */
		if (page_bytes == 0 && strcmp(readers[i].name, "view") == 0)
			continue;
		struct command_result result = command_weir(
		    readers[i].name, readers[i].before, path, after, NULL);

		if (result.status != 2 || strstr(result.err, path) == NULL ||
		    strstr(result.err, why) == NULL)
			FAIL("weir %s %s: status %d: %s", readers[i].name, path,
			    result.status, result.err);
		command_free(&result);
	}
}

TEST(a_file_that_is_missing_is_trouble_of_every_command)
{
	expect_trouble("/no/such/file", "No such file or directory");
}

TEST(a_file_that_is_damaged_is_trouble_of_every_command)
{
	static const char cut[] = "\x80\x04}(X\x08\0\0\0segm";

	expect_trouble(written("cut.pickle", cut, sizeof(cut) - 1), ": ");
}

TEST(a_file_that_cannot_be_made_is_trouble)
{
	static const char *const makers[] = { "merge", "export", "view" };

	need_page();
	for (int i = 0; i < 3; i++) {
		struct command_result result =
		    command_weir(makers[i], "--output=/no/such/folder/x",
			train(), i == 0 ? train() : NULL, NULL);

		EXPECT_EQ(result.status, 2);
		EXPECT_STR_HAS(result.err, "/no/such/folder/x");
		command_free(&result);
	}
}

/* A page has all devices: `view` has no such flag, and refuses it. */
TEST(a_device_that_is_missing_is_trouble_of_every_command)
{
	for (int i = 0; i < READERS; i++) {
		const char *other = readers[i].after != NULL ? train() : NULL;
		struct command_result result = command_weir(readers[i].name,
		    readers[i].before, "--device=77", train(), other, NULL);

		EXPECT_EQ(result.status, 2);
		EXPECT_STR_HAS(result.err, "77");
		command_free(&result);
	}
}

TEST(a_process_that_is_missing_is_trouble)
{
	static const char *const askers[] = { "watch", "ctl" };

	for (int i = 0; i < 2; i++) {
		struct command_result result =
		    command_weir(askers[i], "4194304", NULL);

		EXPECT_EQ(result.status, 2);
		EXPECT_STR_HAS(result.err, "4194304");
		command_free(&result);
	}
}

/* An answer that is lost is no answer. */
TEST(a_lost_answer_is_trouble_and_not_found)
{
	static const char *const askers[] = { "leaks", "check" };
	char *weir = test_build("bin/weir");

	for (int i = 0; i < 2; i++) {
		const char *file =
		    snapshot_data(i == 0 ? "train4.pickle" : "broken.pickle");
		const char *const asked[] = { weir, askers[i], file, NULL };
		const char *const lost[] = { "sh", "-c",
			"\"$0\" \"$1\" \"$2\" >/dev/full", weir, askers[i],
			file, NULL };
		struct command_result result = command_run(asked);

		EXPECT_EQ(result.status, 1);
		command_free(&result);
		result = command_run(lost);
		EXPECT_EQ(result.status, 2);
		command_free(&result);
	}
	free(weir);
}

/* ---- The manual -------------------------------------------------------- */

/* The whole text of docs/weir.1. */
static char *
manual_page(void)
{
	char *data = test_data("..");
	char *path = NULL;
	char *text = calloc(1, 1 << 17);
	FILE *file;

	EXPECT_GT(asprintf(&path, "%s/../docs/weir.1", data), 0);
	file = fopen(path, "r");
	if (file == NULL)
		SKIP("the sources are not here");
	EXPECT_GT(fread(text, 1, (1 << 17) - 1, file), 1000);
	fclose(file);
	free(path);
	free(data);
	return text;
}

/* The section of the manual about a command. The caller frees it. */
static char *
section_of(const char *page, const char *command)
{
	char head[40];
	const char *from;
	const char *end;

	snprintf(head, sizeof(head), "\n.SS %s\n", command);
	from = strstr(page, head);
	if (from == NULL)
		FAIL("the manual lacks '%s'", command);
	end = strstr(from + 1, "\n.S");
	EXPECT_NOT_NULL(end);
	return strndup(from, (size_t)(end - from) + 1);
}

/* The manual describes these flags once for all commands. */
static bool
is_common(const char *flag, size_t length)
{
	static const char *const common[] = { "json", "device", "frames" };

	for (int i = 0; i < 3; i++)
		if (strlen(common[i]) == length &&
		    strncmp(flag, common[i], length) == 0)
			return true;
	return false;
}

/* True if the text has a flag, whose hyphens it escapes. */
static bool
has_flag(const char *section, const char *flag, size_t length)
{
	char wanted[80] = "\\-\\-";
	size_t n = 4;
	const char *at;

	for (size_t i = 0; i < length; i++) {
		if (flag[i] == '-')
			wanted[n++] = '\\';
		wanted[n++] = flag[i];
	}
	wanted[n] = '\0';
	for (at = strstr(section, wanted); at != NULL;
	     at = strstr(at + 1, wanted))
		if (strchr(" \n\\=,.", at[n]) != NULL)
			return true;
	return false;
}

TEST(the_manual_describes_every_flag)
{
	char *page = manual_page();

	for (int i = 0; i < NAMES; i++) {
		struct command_result help;
		char *section;

		if (strcmp(names[i], "completion") == 0 ||
		    strcmp(names[i], "version") == 0)
			continue;
		help = command_weir(names[i], "--help", NULL);
		section = section_of(page, names[i]);
		for (const char *at = strstr(help.out, "  -"); at != NULL;
		     at = strstr(at + 1, "  -")) {
			const char *flag = strstr(at, "--");
			size_t length;

			/* "  -j, --json" or "      --usage" */
			if (flag == NULL || flag - at > 6)
				continue;
			flag += 2;
			length = strcspn(flag, "=[ \n");
			if (strncmp(flag, "help", length) == 0 ||
			    strncmp(flag, "usage", length) == 0 ||
			    is_common(flag, length) ||
			    has_flag(section, flag, length))
				continue;
			FAIL("the manual of '%s' lacks --%.*s", names[i],
			    (int)length, flag);
		}
		free(section);
		command_free(&help);
	}
	free(page);
}

/* ---- Output that cannot be written ------------------------------------- */

/* The command fails if the shell redirects its output like this. */
static void
expect_no_output(const char *redirected, const char *command)
{
	char *weir = test_build("bin/weir");
	const char *const argv[] = { "sh", "-c", redirected, weir, command,
		"--help", NULL };
	struct command_result result = command_run(argv);

	EXPECT_EQ(result.status, 2);
	EXPECT_STR_HAS(result.err, "cannot write the output");
	command_free(&result);
	free(weir);
}

TEST(output_that_cannot_be_written_is_a_failure)
{
	expect_no_output("\"$0\" \"$1\" >/dev/full", "help");
}

TEST(a_help_that_cannot_be_written_is_a_failure)
{
	static const char *const commands[] = { "run", "watch", "ctl", "show",
		"stats", "top", "oom", "frag", "leaks", "trace", "diff",
		"merge", "check", "export", "view", "replay", "generate",
		"options", "info", "completion", "version", "help" };

	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
		expect_no_output(
		    "\"$0\" \"$1\" \"$2\" >/dev/full", commands[i]);
		expect_no_output("\"$0\" help \"$1\" >/dev/full", commands[i]);
		expect_no_output("\"$0\" \"$1\" \"$2\" >&-", commands[i]);
	}
}

TEST(a_closed_output_is_a_failure)
{
	static const char *const commands[] = { "help", "info", "options" };

	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
		expect_no_output("\"$0\" \"$1\" >&-", commands[i]);
}

TEST(a_program_finds_its_closed_streams_closed)
{
	if (test_is_watched())
		SKIP("a sanitized library needs sanitized programs");
	char *weir = test_build("bin/weir");
	const char *const argv[] = { "sh", "-c",
		"\"$0\" run -q sh -c 'echo x; echo $? >&2' >&-", weir, NULL };
	struct command_result result = command_run(argv);

	EXPECT_EQ(result.status, 0);
	EXPECT_STR_HAS(result.err, "1\n");
	command_free(&result);
	free(weir);
}
