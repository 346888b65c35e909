/*
 * scripts/viewer and scripts/page-c: without node everything else is built, and
 * the built page is in the command byte by byte.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tests/support/command.h"
#include "tests/support/test.h"

/* The source tree of this build. */
static const char *
tree(void)
{
	static char path[4096];

	snprintf(path, sizeof(path), "%s/../..", test_build_dir());
	return path;
}

TEST(without_node_the_page_is_empty)
{
	/* A PATH with the programs that the script needs, but without node. */
	static const char script[] =
	    "cd \"$1\" || exit 9; bin=$(mktemp -d) || exit 9\n"
	    "for p in dirname mkdir touch; do\n"
	    "  ln -s \"$(command -v $p)\" \"$bin/$p\" || exit 9\n"
	    "done\n"
	    "PATH=$bin DEPS=0 \"$BASH\" scripts/viewer \"$2\"; status=$?\n"
	    "rm -r \"$bin\"; exit $status\n";
	char *page = test_file("page.html", "old", 3);
	const char *const argv[] = { "bash", "-c", script, "bash", tree(), page,
		NULL };
	struct command_result result = command_run(argv);
	struct stat info;

	EXPECT_EQ(result.status, 0);
	EXPECT_STR_HAS(result.err, "built without its page");
	EXPECT_STR_HAS(result.err, "there is no node");
	EXPECT_STR_HAS(result.err, "make VIEWER=0");
	EXPECT_EQ(stat(page, &info), 0);
	EXPECT_EQ(info.st_size, 0);
	/* A build that may install tries again, because the page is older than
	 * its sources. */
	EXPECT_LE(info.st_mtime, 24 * 3600);
	command_free(&result);
	free(page);
}

TEST(every_byte_of_a_page_is_in_its_c_file)
{
	char bytes[256 * 3];
	char script[8192];
	char *input;
	char *output = test_file("page.c", "", 0);
	struct command_result result;
	const char *at;

	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (char)(i * 7);
	input = test_file("page.html", bytes, sizeof(bytes));
	snprintf(script, sizeof(script), "%s/scripts/page-c", tree());
	result =
	    command_run((const char *const[]){ script, input, output, NULL });
	EXPECT_STR_EQ(result.err, "");
	EXPECT_EQ(result.status, 0);
	command_free(&result);
	result = command_run((const char *const[]){ "cat", output, NULL });
	at = strstr(result.out, "page_html[] = {");
	EXPECT_NOT_NULL(at);
	at += strlen("page_html[] = {");
	for (size_t i = 0; i < sizeof(bytes); i++) {
		char *end;

		EXPECT_EQ(strtol(at, &end, 10), (unsigned char)bytes[i]);
		EXPECT_EQ(*end, ',');
		at = end + 1;
	}
	EXPECT_STR_HAS(at, "0 };");
	command_free(&result);
	free(input);
	free(output);
}
