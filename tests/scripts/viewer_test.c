/*
 * scripts/viewer and scripts/page-c: the page is made by Python alone, and is
 * in the command byte by byte.
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

/* Make the page with a PATH that has nothing but Python, and change a source
 * before, by a line of shell in a copy of tools/viewer. */
static struct command_result
make_page(const char *page, const char *change)
{
	static const char script[] =
	    "cd \"$1\" || exit 9; t=$(mktemp -d) || exit 9\n"
	    "mkdir $t/bin $t/tools $t/scripts || exit 9\n"
	    "cp -r tools/viewer $t/tools && cp scripts/viewer $t/scripts ||"
	    " exit 9\n"
	    "p=$(python3 -c 'import sys; print(sys.executable)') || exit 9\n"
	    "(cd $t/tools/viewer && eval \"$3\") || exit 9\n"
	    "PATH=$t/bin \"$p\" $t/scripts/viewer \"$2\"; status=$?\n"
	    "rm -r $t; exit $status\n";

	return command_run((const char *const[]){
	    "bash", "-c", script, "bash", tree(), page, change, NULL });
}

TEST(the_page_is_made_by_python_alone)
{
	char *page = test_file("page.html", "old", 3);
	struct command_result result = make_page(page, "true");
	char *text;

	EXPECT_STR_EQ(result.err, "");
	EXPECT_EQ(result.status, 0);
	command_free(&result);
	result = command_run((const char *const[]){ "cat", page, NULL });
	text = result.out;
	EXPECT_STR_HAS(text, "<!--weir:data-->");
	EXPECT_STR_HAS(text, "script-src 'sha256-");
	EXPECT_STR_HAS(text, "Permission is hereby granted");
	EXPECT_NULL(strstr(text, "%SCRIPT%"));
	EXPECT_NULL(strstr(text, "\nimport "));
	EXPECT_NULL(strstr(text, "\nexport "));
	command_free(&result);
	free(page);
}

TEST(a_module_that_cannot_be_bundled_is_named)
{
	static const struct {
		const char *change, *said;
	} cases[] = {
		{ "echo 'export default 1;' >>src/dom.js",
		    "cannot bundle 'export default 1;'" },
		{ "sed -i '1i import { count } from \"./model.js\";' "
		  "src/series.js",
		    "imports itself by way of others" },
		{ "sed -i '1i import x from \"lodash\";' src/dom.js",
		    "no library lodash" },
		{ "rm src/theme.js", "theme.js" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		char *page = test_file("page.html", "old", 3);
		struct command_result result = make_page(page, cases[i].change);

		EXPECT_EQ(result.status, 1);
		EXPECT_STR_HAS(result.err, cases[i].said);
		command_free(&result);
		free(page);
	}
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
