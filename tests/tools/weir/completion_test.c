/*
 * Completion in shells, and a manual that has all words that shells offer.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/command.h"
#include "tests/support/test.h"
#include "tools/weir/replay/workload.h"
#include "tools/weir/tool.h"

static struct command_result
completion(const char *shell)
{
	struct command_result result = command_weir("completion", shell, NULL);

	EXPECT_EQ(result.status, 0);
	EXPECT_STR_EQ(result.err, "");
	return result;
}

TEST(every_command_is_offered_by_every_shell)
{
	static const char *const shells[] = { "bash", "zsh", "fish" };
	size_t count;
	const struct command *commands = commands_table(&count);

	EXPECT_GT(count, 15);
	for (int s = 0; s < 3; s++) {
		struct command_result result = completion(shells[s]);

		for (size_t i = 0; i < count; i++)
			EXPECT_STR_HAS(result.out, commands[i].name);
		EXPECT_STR_HAS(result.out, s == 2 ? "-l frames" : "--frames");
		command_free(&result);
	}
}

/* Ask bash for the words that may follow a line. Returns one word a line. */
static struct command_result
bash_offers(const char *words, const char *last)
{
	struct command_result script = completion("bash");
	char *path =
	    test_file("completion.bash", script.out, strlen(script.out));
	char *line = NULL;
	const char *argv[] = { "bash", "-c", NULL, NULL };
	struct command_result result;

	EXPECT_GT(asprintf(&line,
		      "source '%s'; COMP_WORDS=(%s '%s'); COMP_CWORD=$(("
		      "${#COMP_WORDS[@]} - 1)); _weir; printf '%%s\\n' "
		      "\"${COMPREPLY[@]}\"",
		      path, words, last),
	    0);
	argv[2] = line;
	result = command_run(argv);
	EXPECT_EQ(result.status, 0);
	EXPECT_STR_EQ(result.err, "");
	free(line);
	free(path);
	command_free(&script);
	return result;
}

TEST(bash_completes_commands_flags_and_files)
{
	struct command_result result;

	if (access("/bin/bash", X_OK) != 0)
		SKIP("there is no bash");
	result = bash_offers("weir", "st");
	EXPECT_STR_EQ(result.out, "stats\n");
	command_free(&result);
	result = bash_offers("weir", "ch");
	EXPECT_STR_EQ(result.out, "check\n");
	command_free(&result);
	result = bash_offers("weir top", "--c");
	EXPECT_STR_EQ(result.out, "--count\n");
	command_free(&result);
	result = bash_offers("weir stats", "--");
	EXPECT_STR_HAS(result.out, "--json\n");
	EXPECT_NULL(strstr(result.out, "--count"));
	command_free(&result);
	result = bash_offers("weir stats", "/etc/passw");
	EXPECT_STR_HAS(result.out, "/etc/passwd\n");
	command_free(&result);
}

TEST(a_shell_that_is_not_known_is_refused)
{
	struct command_result result = command_weir("completion", "csh", NULL);

	EXPECT_EQ(result.status, 2);
	EXPECT_STR_HAS(result.err, "SHELL is bash, zsh or fish, not 'csh'");
	command_free(&result);
	result = command_weir("completion", NULL);
	EXPECT_EQ(result.status, 2);
	command_free(&result);
}

/* ---- The manual ------------------------------------------------------ */

static char *
manual(void)
{
	char *data = test_data("..");
	char *path = NULL;
	char *text = calloc(1, 1 << 18);
	FILE *file;
	size_t length;

	EXPECT_GT(asprintf(&path, "%s/../docs/weir.1", data), 0);
	file = fopen(path, "r");
	if (file == NULL)
		SKIP("the sources are not here");
	length = fread(text, 1, (1 << 18) - 1, file);
	EXPECT_GT(length, 1000);
	fclose(file);
	free(path);
	free(data);
	return text;
}

/* A flag in the form of the manual, in which every '-' is "\-". */
static void
expect_flag(const char *text, const char *command, const char *flag)
{
	char written[64] = "\\-\\-";
	size_t length = strlen(written);

	for (; *flag != '\0'; flag++) {
		if (*flag == '-')
			written[length++] = '\\';
		written[length++] = *flag;
	}
	written[length] = '\0';
	if (strstr(text, written) == NULL)
		FAIL("the manual lacks %s of weir %s", written, command);
}

TEST(the_manual_has_every_command_and_every_flag)
{
	char *text = manual();
	size_t count;
	const struct command *commands = commands_table(&count);

	for (size_t i = 0; i < count; i++) {
		const struct argp *parser = commands[i].parser;
		char section[64];

		snprintf(
		    section, sizeof(section), "\n.SS %s\n", commands[i].name);
		if (strstr(text, section) == NULL &&
		    strcmp(commands[i].name, "version") != 0 &&
		    strcmp(commands[i].name, "help") != 0)
			FAIL(
			    "the manual has no section '%s'", commands[i].name);
		for (const struct argp_option *flag =
			 parser == NULL ? NULL : parser->options;
		     flag != NULL && flag->name != NULL; flag++)
			expect_flag(text, commands[i].name, flag->name);
	}
	free(text);
}

static void
expect_offer(const char *words, const char *last, const char *offer)
{
	struct command_result result = bash_offers(words, last);

	EXPECT_STR_EQ(result.out, offer);
	command_free(&result);
}

TEST(bash_completes_values_of_flags_and_keys_of_options)
{
	if (access("/bin/bash", X_OK) != 0)
		SKIP("there is no bash");
	expect_offer("weir export --format", "c", "chrome\ncsv\n");
	expect_offer("weir export --format =", "f", "folded\n");
	expect_offer("weir top --by", "", "stack\nsize\nlifetime\n");
	expect_offer("weir run --conf", "pref", "prefer:\n");
	expect_offer("weir generate", "pi", "pipeline\n");
	expect_offer("weir generate", "--ev", "--events\n");
	expect_offer("weir ctl 4711", "option.decay", "option.decay_ms\n");
	expect_offer("weir ctl 4711 set", "his", "history.level\n");
}

TEST(every_kind_of_program_is_offered_by_every_shell)
{
	static const char *const shells[] = { "bash", "zsh", "fish" };
	const struct workload_kind *kind;

	for (int s = 0; s < 3; s++) {
		struct command_result result = completion(shells[s]);
		char *words = strstr(result.out, "serve pipeline");

		EXPECT_NOT_NULL(words);
		words[strcspn(words, "\n")] = '\0';
		for (size_t i = 0; (kind = workload_kind_at(i)) != NULL; i++)
			EXPECT_STR_HAS(words, kind->name);
		command_free(&result);
	}
}

TEST(zsh_and_fish_have_the_values_too)
{
	static const char *const shells[] = { "zsh", "fish" };

	for (int s = 0; s < 2; s++) {
		struct command_result result = completion(shells[s]);

		EXPECT_STR_HAS(result.out, "json chrome folded csv");
		EXPECT_STR_HAS(result.out,
		    s == 0 ? "memory_limit_mb\\:" : "memory_limit_mb:");
		EXPECT_STR_HAS(result.out, "serve pipeline prefetch");
		EXPECT_STR_HAS(result.out, "weir watch 2>/dev/null");
		command_free(&result);
	}
}

TEST(the_help_of_every_command_fits_a_screen)
{
	enum { LINES = 36, COLUMNS = 80 };
	size_t count;
	const struct command *commands = commands_table(&count);

	for (size_t i = 0; i < count; i++) {
		struct command_result result =
		    command_weir(commands[i].name, "--help", NULL);
		size_t lines = 0;
		const char *end;

		EXPECT_EQ(result.status, 0);
		for (const char *at = result.out; *at != '\0'; at = end + 1) {
			end = strchr(at, '\n');
			EXPECT_NOT_NULL(end);
			if (end - at > COLUMNS)
				FAIL("weir %s --help has a line of %d columns",
				    commands[i].name, (int)(end - at));
			lines++;
		}
		if (lines > LINES)
			FAIL("weir %s --help has %zu lines", commands[i].name,
			    lines);
		command_free(&result);
	}
}
