/*
 * The helper that names frames, as a program.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "stacks/modules.h"
#include "tests/support/command.h"
#include "tests/support/test.h"

/* The helper's answers to this text. */
static struct command_result
ask(const char *text)
{
	char *weir = test_build("bin/weir");
	char *file = test_file("questions", text, strlen(text));
	char *line;

	EXPECT_GT(asprintf(&line, "'%s' name-frames <'%s'", weir, file), 0);
	struct command_result result =
	    command_run((const char *const[]){ "bash", "-c", line, NULL });
	free(line);
	free(weir);
	free(file);
	EXPECT_EQ(result.status, 0);
	EXPECT_STR_EQ(result.err, "");
	return result;
}

static void
expect_answer(const char *question, const char *answer)
{
	struct command_result result = ask(question);

	EXPECT_STR_EQ(result.out, answer);
	command_free(&result);
}

TEST(each_question_has_an_answer_and_other_text_ends_the_helper)
{
	char *pipe = test_file("pipe", "", 0);
	char *text;

	expect_answer("", "");
	expect_answer("\t\t0\n\t\t0\n", "\n\n");
	expect_answer("/nowhere\tab\t10\n/\tab\t10\n", "\n\n");
	expect_answer("/dev/zero\tab\t10\n/etc/passwd\t\t10\n", "\n\n");
	expect_answer("\t\t0\nnonsense\n\t\t0\n", "\n");
	expect_answer("\t\t0\n\t\t", "\n");
	EXPECT_EQ(unlink(pipe), 0);
	EXPECT_EQ(mkfifo(pipe, 0600), 0);
	EXPECT_GT(asprintf(&text, "%s\t\t10\n", pipe), 0);
	expect_answer(text, "\n");
	free(text);
	unlink(pipe);
	free(pipe);
}

TEST(a_function_has_its_name_if_the_build_id_is_right)
{
	struct modules modules;
	char *text;

	modules_read(&modules);
	const struct module *own =
	    modules_find(&modules, (uintptr_t)modules_read);
	uintptr_t offset = (uintptr_t)modules_read - own->base;

	EXPECT_GT(
	    asprintf(&text, "%s\t%s\t%zx\n%s\tff\t%zx\n%s\t\t%zx\n", own->path,
		own->build_id, offset, own->path, offset, own->path, offset),
	    0);
	struct command_result result = ask(text);
	EXPECT_EQ(
	    strncmp(result.out, "modules_read\tstacks/modules.c\t", 30), 0);
	EXPECT_STR_HAS(result.out, "\n\n\n\n");
	command_free(&result);
	modules_free(&modules);
	free(text);
}

TEST(the_helper_is_no_subcommand)
{
	struct command_result result = command_weir("help", NULL);

	EXPECT_NULL(strstr(result.out, "name-frames"));
	command_free(&result);
	result = command_weir("help", "name-frames", NULL);
	EXPECT_EQ(result.status, 2);
	command_free(&result);
}

/* Whoever reads a pipe of the program waits for nobody else's end of it. */
TEST(the_programs_files_are_closed_in_the_helper)
{
	char *weir = test_build("bin/weir");
	char byte;
	int ask[2];
	int other[2];

	EXPECT_EQ(pipe2(ask, O_CLOEXEC), 0);
	EXPECT_EQ(pipe(other), 0);
	pid_t child = fork();
	if (child == 0) {
		dup2(ask[0], STDIN_FILENO);
		execl(weir, "weir", "name-frames", (char *)NULL);
		_exit(127);
	}
	EXPECT_GT(child, 0);
	close(other[1]);
	EXPECT_EQ(read(other[0], &byte, 1), 0);
	EXPECT_EQ(waitpid(child, NULL, WNOHANG), 0);
	close(ask[1]);
	EXPECT_EQ(waitpid(child, NULL, 0), child);
	close(ask[0]);
	close(other[0]);
	free(weir);
}
