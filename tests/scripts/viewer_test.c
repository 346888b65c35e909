/*
 * scripts/viewer and scripts/page-c: where the page comes from without node,
 * and that it is in the command byte by byte.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* Make the page without node, in a copy of the sources that a line of shell
 * changes before. */
static struct command_result
make_page(const char *change)
{
	static const char script[] =
	    "cd \"$1\" || exit 9; t=$(mktemp -d) || exit 9\n"
	    "mkdir -p $t/bin $t/tools $t/scripts || exit 9\n"
	    "cp -r tools/viewer $t/tools && cp scripts/viewer $t/scripts ||"
	    " exit 9\n"
	    "for p in bash env mkdir dirname cp touch; do\n"
	    "\tln -s \"$(command -v $p)\" $t/bin || exit 9\ndone\n"
	    "cd $t && eval \"$2\" || exit 9\n"
	    "PATH=$t/bin DEPS=0 scripts/viewer page.html; status=$?\n"
	    "cat page.html; rm -r $t; exit $status\n";

	return command_run((const char *const[]){
	    "bash", "-c", script, "bash", tree(), change, NULL });
}

TEST(without_node_the_page_of_a_distribution_is_taken)
{
	struct command_result result =
	    make_page("echo the page >tools/viewer/page.html");

	EXPECT_EQ(result.status, 0);
	EXPECT_STR_EQ(result.err, "");
	EXPECT_STR_EQ(result.out, "the page\n");
	command_free(&result);
}

TEST(without_node_and_a_page_the_build_goes_on_and_says_so)
{
	struct command_result result =
	    make_page("rm -f tools/viewer/page.html");

	EXPECT_EQ(result.status, 0);
	EXPECT_STR_HAS(result.err, "built without its page: there is no node");
	EXPECT_STR_EQ(result.out, "");
	command_free(&result);
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
