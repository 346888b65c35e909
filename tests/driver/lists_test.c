/*
 * docs/simcuda.md lists which programs of tests/driver and tests/simcuda run on
 * simcuda and on a GPU, and which are for the simulator only. The lists are
 * complete, and the programs are as the lists say.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/test.h"

enum { TEXT_MAX = 1 << 20, PROGRAMS_AT_LEAST = 20 };

/* A file of the tree, or the test is skipped if the sources are not here. The
 * caller frees it. */
static char *
source_of(const char *path)
{
	char whole[4096];
	char *text = calloc(1, TEXT_MAX);
	FILE *file;
	size_t n;

	EXPECT_NOT_NULL(text);
	snprintf(whole, sizeof(whole), "%s/../../%s", test_build_dir(), path);
	file = fopen(whole, "r");
	if (file == NULL)
		SKIP("the sources are not beside the build");
	n = fread(text, 1, TEXT_MAX - 1, file);
	fclose(file);
	EXPECT_GT(n, 0);
	EXPECT_LT(n, TEXT_MAX - 1);
	return text;
}

/* Is the program named in a row of the text's part up to `end`? */
static bool
has_row(const char *start, const char *end, const char *program)
{
	size_t length = strlen(program);

	for (const char *at = strstr(start, program); at != NULL && at < end;
	     at = strstr(at + 1, program)) {
		if ((at[-1] == ' ') && (at[length] == ' ' || at[length] == ','))
			return true;
	}
	return false;
}

struct lists {
	char *text;
	const char *both, *only, *end;
};

static struct lists
lists_read(void)
{
	struct lists lists = { .text = source_of("docs/simcuda.md") };

	lists.both = strstr(lists.text, "These run on simcuda and on a GPU");
	EXPECT_NOT_NULL(lists.both);
	lists.only = strstr(lists.both, "These are for the simulator only");
	EXPECT_NOT_NULL(lists.only);
	lists.end = strstr(lists.only, "\n## ");
	EXPECT_NOT_NULL(lists.end);
	return lists;
}

/* A test of the simulator only uses its controls, and skips itself where there
 * are none; another does not use them. */
static void
check_program(const struct lists *lists, const char *program)
{
	bool both = has_row(lists->both, lists->only, program);
	bool only = has_row(lists->only, lists->end, program);
	char path[1024];
	char *text;

	if (both == only)
		FAIL("%s is in %s list", program, both ? "each" : "no");
	snprintf(path, sizeof(path), "tests/%s%s.c",
	    strchr(program, '/') != NULL ? "" : "driver/", program);
	text = source_of(path);
	if (only && strstr(text, "if (sim() == NULL)\n\t\tSKIP(\"") == NULL)
		FAIL("%s does not skip itself on a GPU", program);
	if (both && strcmp(program, "lists_test") != 0 &&
	    strstr(text, "sim()") != NULL)
		FAIL("%s uses controls that a GPU does not have", program);
	free(text);
}

/* Check the programs of a folder, whose rows begin with `prefix`, and count
 * them. */
static int
check_folder(const struct lists *lists, const char *name, const char *prefix)
{
	char path[4096];
	char program[512];
	struct dirent *entry;
	int n = 0;
	DIR *folder;

	snprintf(
	    path, sizeof(path), "%s/../../tests/%s", test_build_dir(), name);
	folder = opendir(path);
	EXPECT_NOT_NULL(folder);
	while ((entry = readdir(folder)) != NULL) {
		char *end = strstr(entry->d_name, "_test.c");

		if (end == NULL || strcmp(end, "_test.c") != 0)
			continue;
		end[strlen("_test")] = '\0';
		snprintf(
		    program, sizeof(program), "%s%s", prefix, entry->d_name);
		check_program(lists, program);
		n++;
	}
	closedir(folder);
	return n;
}

TEST(each_program_is_in_the_list_that_is_true_of_it)
{
	struct lists lists = lists_read();
	int n = check_folder(&lists, "driver", "") +
	    check_folder(&lists, "simcuda", "simcuda/");

	EXPECT_GE(n, PROGRAMS_AT_LEAST);
	free(lists.text);
}
