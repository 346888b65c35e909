/*
 * Where the command is looked for.
 */
#include "stacks/command.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/command.h"
#include "tests/support/test.h"

TEST(the_environment_names_the_command)
{
	char path[PATH_MAX] = "";

	setenv("WEIR_COMMAND", "/some/where", 1);
	EXPECT(command_find(path));
	EXPECT_STR_EQ(path, "/some/where");
	setenv("WEIR_COMMAND", "", 1);
	EXPECT(!command_find(path));
}

/* A name that is cut would be another file's. */
TEST(a_command_whose_name_is_too_long_is_none)
{
	static char name[PATH_MAX + 1];
	char path[PATH_MAX];

	memset(name, 'x', PATH_MAX);
	setenv("WEIR_COMMAND", name, 1);
	EXPECT(!command_find(path));
}

/* This program contains the library, and lies in tests/stacks/ of a build. */
TEST(a_command_beside_the_library_is_found_but_nobody_else_s)
{
	char *folder = test_build("tests/stacks/bin");
	char *file = test_build("tests/stacks/bin/weir");
	char path[PATH_MAX] = "";

	unsetenv("WEIR_COMMAND");
	mkdir(folder, 0700);
	unlink(file);
	EXPECT_EQ(symlink("/bin/true", file), 0);
	EXPECT(command_find(path));
	EXPECT_STR_HAS(path, "tests/stacks/bin/weir");
	/* A folder of that name is no command. */
	EXPECT_EQ(unlink(file), 0);
	EXPECT_EQ(mkdir(file, 0700), 0);
	EXPECT(!command_find(path) || strstr(path, "stacks/bin") == NULL);
	EXPECT_EQ(rmdir(file), 0);
	EXPECT_EQ(symlink("/bin/true", file), 0);
	if (geteuid() == 0) {
		EXPECT_EQ(unlink(file), 0);
		char *stranger = test_file("stranger", "#!/bin/sh\n", 10);

		EXPECT_EQ(chmod(stranger, 0755), 0);
		EXPECT_EQ(chown(stranger, 12345, 12345), 0);
		EXPECT_EQ(symlink(stranger, file), 0);
		EXPECT(
		    !command_find(path) || strstr(path, "stacks/bin") == NULL);
		free(stranger);
	}
	unlink(file);
	rmdir(folder);
	free(folder);
	free(file);
}
