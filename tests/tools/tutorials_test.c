/*
 * The tutorials of docs/tutorials: their programs compile, their commands run,
 * and the commands print the lines of the text. So do the examples of
 * docs/snapshots.md that use a snapshot of tests/data.
 *
 * A block of C or C++ that begins with a comment of one word, the name of a
 * file, is written to that file. An indented line that begins with "$ " is a
 * command, and the lines below it are lines of its output: "..." is any text,
 * at the start or at the end of a line, and any number of blanks matches any
 * other.
 */
#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/command.h"
#include "tests/support/test.h"

enum { COMPILE_SECONDS = 120, LINE_MAX_BYTES = 1024 };

struct tutorial {
	char *folder; /* the folder in which commands run */
	char *text;
	const char *only; /* run commands with this word; NULL: all */
	int commands;     /* the commands that were run */
	struct command_result last;
	bool ran; /* `last` is set */
};

/* Run a line of shell in the folder. In it the sources and the build are where
 * the tutorials expect them. */
static struct command_result
shell(const char *folder, const char *line)
{
	char *text = NULL;
	struct command_result result;

	EXPECT_GT(asprintf(&text,
		      "unset WEIR_CONF WEIR_LIBCUDA; cd '%s' && "
		      "PATH=$PWD/build/release/bin:$PATH; "
		      "SIM=build/release/lib/sim; { %s\n} 2>&1",
		      folder, line),
	    0);
	result = command_run((const char *const[]){ "bash", "-c", text, NULL });
	free(text);
	return result;
}

static void
shell_only(const char *folder, const char *line)
{
	struct command_result result = shell(folder, line);

	if (result.status != 0)
		FAIL("%s: %s", line, result.out);
	command_free(&result);
}

static char *
read_text(const char *path)
{
	char *text = calloc(1, 1 << 16);
	FILE *file = fopen(path, "r");

	if (file == NULL)
		SKIP("the sources are not here");
	EXPECT_GT(fread(text, 1, (1 << 16) - 1, file), 0);
	fclose(file);
	return text;
}

static void
begin(struct tutorial *t, const char *name)
{
	const char *build = test_build_dir();
	char *path = NULL;
	char *line = NULL;

	if (test_is_watched())
		SKIP("a sanitizer or valgrind wants programs of its own");
	*t = (struct tutorial){ .folder = strdup("/tmp/weir-tutorial-XXXXXX") };
	EXPECT_GT(asprintf(&path, "%s/../../docs/%s.md", build, name), 0);
	t->text = read_text(path);
	EXPECT_NOT_NULL(mkdtemp(t->folder));
	EXPECT_GT(asprintf(&line,
		      "TOP='%s'/../.. && ln -s $TOP/driver $TOP/include . && "
		      "mkdir build && ln -s '%s' build/release && "
		      "cp $TOP/tests/data/snapshots/train4.pickle "
		      "$TOP/tests/data/fit/*.xz .",
		      build, build),
	    0);
	shell_only(t->folder, line);
	free(line);
	free(path);
}

static void
end(struct tutorial *t)
{
	if (t->ran)
		command_free(&t->last);
	shell_only(t->folder, "rm -r \"$PWD\"");
	free(t->text);
	free(t->folder);
}

/* ---- Programs ---------------------------------------------------------- */

/* Read the name in a comment that is a whole line; false if there is none. */
static bool
names_file(const char *line, char name[64])
{
	return sscanf(line, "/* %63[a-z.] */", name) == 1 ||
	    sscanf(line, "// %63[a-z.]", name) == 1;
}

/* Write the block to its file, if it has one. Returns the text after the
 * block. */
static const char *
take_block(const struct tutorial *t, const char *block)
{
	const char *first = strchr(block, '\n') + 1;
	const char *last = strstr(first, "\n```");
	char name[64];
	char path[256];
	FILE *file;

	EXPECT_NOT_NULL(last);
	if (!names_file(first, name))
		return last + 4;
	snprintf(path, sizeof(path), "%s/%s", t->folder, name);
	file = fopen(path, "w");
	EXPECT_NOT_NULL(file);
	EXPECT_EQ(fwrite(first, 1, (size_t)(last + 1 - first), file),
	    (size_t)(last + 1 - first));
	EXPECT_EQ(fclose(file), 0);
	return last + 4;
}

/* ---- Commands ---------------------------------------------------------- */

/* Copy a line with single blanks, and without blanks at the ends. */
static void
squeeze(const char *from, size_t length, char to[LINE_MAX_BYTES])
{
	size_t n = 0;

	for (size_t i = 0; i < length && n + 1 < LINE_MAX_BYTES; i++)
		if (!isspace((unsigned char)from[i]))
			to[n++] = from[i];
		else if (n > 0 && to[n - 1] != ' ')
			to[n++] = ' ';
	while (n > 0 && to[n - 1] == ' ')
		n--;
	to[n] = '\0';
}

/* Does the line match the tutorial's? */
static bool
is_line(const char *line, const char *wanted)
{
	size_t length = strlen(line);
	size_t n = strlen(wanted);

	if (strncmp(wanted, "...", 3) == 0)
		return length >= n - 3 &&
		    strcmp(line + length - (n - 3), wanted + 3) == 0;
	if (n >= 3 && strcmp(wanted + n - 3, "...") == 0)
		return strncmp(line, wanted, n - 3) == 0;
	return strcmp(line, wanted) == 0;
}

static void
expect_line(const struct tutorial *t, const char *wanted)
{
	char line[LINE_MAX_BYTES];
	const char *at = t->last.out;

	while (*at != '\0') {
		size_t length = strcspn(at, "\n");

		squeeze(at, length, line);
		if (is_line(line, wanted))
			return;
		at += length + (at[length] == '\n');
	}
	FAIL("there is no line '%s' in\n%s", wanted, t->last.out);
}

/* Programs of the tutorials fail on purpose, and weir leaks finds a leak. Only
 * a command that cannot be run, or that the shell or weir does not understand,
 * is a fault by itself. */
static void
run_command(struct tutorial *t, const char *command)
{
	if (t->ran)
		command_free(&t->last);
	t->ran = false;
	/* A test opens no browser. */
	if (strstr(command, "--open") != NULL ||
	    (t->only != NULL && strstr(command, t->only) == NULL))
		return;
	t->last = shell(t->folder, command);
	t->ran = true;
	if (t->last.status != 0 && t->last.status != 1)
		FAIL("%s: exit status %d: %s", command, t->last.status,
		    t->last.out);
	t->commands++;
}

/* Handle a line of an indented block. `command` has the start of a command that
 * continues in the next line, or "". */
static void
take_line(struct tutorial *t, const char *line, size_t length,
    char command[LINE_MAX_BYTES])
{
	char text[LINE_MAX_BYTES];
	bool goes_on = length > 0 && line[length - 1] == '\\';
	bool begun = *command != '\0';

	squeeze(line, length - goes_on, text);
	if (begun || strncmp(text, "$ ", 2) == 0) {
		size_t n = strlen(command);

		EXPECT_LT(n + strlen(text) + 1, LINE_MAX_BYTES);
		if (begun)
			command[n++] = ' ';
		strcpy(command + n, begun ? text : text + 2);
		if (goes_on)
			return;
		run_command(t, command);
		*command = '\0';
	} else if (t->ran && *text != '\0') {
		expect_line(t, text);
	}
}

static void
follow(struct tutorial *t)
{
	char command[LINE_MAX_BYTES] = "";
	const char *at = t->text;

	while (*at != '\0') {
		size_t length = strcspn(at, "\n");

		if (strncmp(at, "```", 3) == 0) {
			at = take_block(t, at);
			continue;
		}
		if (strncmp(at, "    ", 4) == 0) {
			take_line(t, at + 4, length - 4, command);
		} else if (length > 0 && t->ran) {
			/* The output ends with the block. */
			command_free(&t->last);
			t->ran = false;
		}
		at += length + (at[length] == '\n');
	}
	EXPECT_STR_EQ(command, "");
}

static void
expect_commands(const char *name, const char *only, int commands)
{
	struct tutorial t;

	begin(&t, name);
	t.only = only;
	follow(&t);
	EXPECT_EQ(t.commands, commands);
	end(&t);
}

TEST_TIMEOUT(the_tutorial_on_running_out_of_memory_is_right, COMPILE_SECONDS)
{
	expect_commands("tutorials/oom", NULL, 5);
}

TEST_TIMEOUT(the_tutorial_on_cplusplus_is_right, COMPILE_SECONDS)
{
	expect_commands("tutorials/cpp", NULL, 4);
}

TEST_TIMEOUT(the_tutorial_on_holding_twice_is_right, COMPILE_SECONDS)
{
	expect_commands("tutorials/twice", NULL, 5);
}

TEST(the_tutorial_on_what_fits_is_right)
{
	expect_commands("tutorials/fit", NULL, 4);
}

TEST(the_examples_of_snapshots_are_right)
{
	expect_commands("snapshots", "train4.pickle", 7);
}
