/*
 * scripts/deps prints missing packages, and installs them only on request.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/command.h"
#include "tests/support/test.h"

/* A folder with the programs that scripts/deps calls, and with an apt-get that
 * must not be called. */
static char *
empty_path(void)
{
	static const char *const programs[] = { "bash", "cat" };
	static const char trap[] = "#!/bin/bash\necho apt-get called\nexit 9\n";
	char folder[] = "/tmp/weir-deps-XXXXXX";
	char path[128], target[128];

	EXPECT_NOT_NULL(mkdtemp(folder));
	for (int i = 0; i < 2; i++) {
		snprintf(target, sizeof(target), "/bin/%s", programs[i]);
		snprintf(path, sizeof(path), "%s/%s", folder, programs[i]);
		EXPECT_EQ(symlink(target, path), 0);
	}
	snprintf(path, sizeof(path), "%s/apt-get", folder);
	FILE *file = fopen(path, "w");

	EXPECT_NOT_NULL(file);
	EXPECT_EQ(fwrite(trap, 1, sizeof(trap) - 1, file), sizeof(trap) - 1);
	fclose(file);
	EXPECT_EQ(chmod(path, 0755), 0);
	return strdup(folder);
}

static void
remove_path(char *folder)
{
	const char *const argv[] = { "rm", "-r", folder, NULL };
	struct command_result result = command_run(argv);

	command_free(&result);
	free(folder);
}

static struct command_result
deps(const char *folder, const char *how, const char *level)
{
	char script[4096], path[4096];
	const char *const argv[] = { "env", path, script, how, level, NULL };

	snprintf(path, sizeof(path), "PATH=%s", folder);
	snprintf(
	    script, sizeof(script), "%s/../../scripts/deps", test_build_dir());
	return command_run(argv);
}

TEST(missing_packages_are_listed_with_a_remedy)
{
	char *folder = empty_path();
	struct command_result result = deps(folder, "--say", "cover");

	EXPECT_EQ(result.status, 1);
	EXPECT_STR_HAS(result.err, "gcovr");
	EXPECT_STR_HAS(result.err, "make deps LEVELS=\"cover\"");
	EXPECT_NULL(strstr(result.out, "apt-get called"));
	command_free(&result);
	remove_path(folder);
}

TEST(the_list_is_for_programs)
{
	char *folder = empty_path();
	struct command_result result = deps(folder, "--list", "cover");

	EXPECT_EQ(result.status, 1);
	EXPECT_STR_EQ(result.out, "program:gcovr gcovr\n");
	EXPECT_STR_EQ(result.err, "");
	command_free(&result);
	remove_path(folder);
}

/* The commands that make would run for `goal`. */
static struct command_result
would_run(const char *goal)
{
	char top[4096];
	const char *const argv[] = { "make", "-C", top, "-n", "-B", "V=1",
		"LEVELS=cover", goal, NULL };

	snprintf(top, sizeof(top), "%s/../..", test_build_dir());
	unsetenv("DEPS");
	unsetenv("MAKEFLAGS");
	return command_run(argv);
}

TEST(only_some_goals_install)
{
	struct command_result other = would_run("build/deps-cover");
	struct command_result deps_goal = would_run("deps");

	EXPECT_EQ(other.status, 0);
	EXPECT_STR_HAS(other.out, "scripts/deps --say cover\n");
	EXPECT_EQ(deps_goal.status, 0);
	EXPECT_STR_HAS(deps_goal.out, "scripts/deps  cover\n");
	EXPECT_NULL(strstr(deps_goal.out, "--say"));
	command_free(&other);
	command_free(&deps_goal);
}
