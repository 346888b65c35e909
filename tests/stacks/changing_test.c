/*
 * The reader of debug information, while a library's file changes
 * (tests/support/changing.h).
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/stacks/hostile.h"
#include "tests/support/changing.h"
#include "tests/support/command.h"
#include "tests/support/test.h"

static struct hostile library;

/* Each name is found in a process of its own, which has read nothing yet. A
 * changed file may name it anyhow. */
static bool
read_library(const char *path, char *why, size_t size)
{
	EXPECT_STR_EQ(path, library.path);
	snprintf(why, size, "no line");
	return (hostile_name(&library) & HOSTILE_LINE) != 0;
}

/* The loader's file stays as it is; another one of its name changes. */
TEST_TIMEOUT(a_library_may_change_while_it_is_read, 3600)
{
	struct content content;
	char *path;

	library = hostile_load();
	content = content_of(library.path);
	EXPECT_EQ(unlink(library.path), 0);
	path = test_file("tool.so", content.bytes, content.size);
	EXPECT_STR_EQ(path, library.path);
	changing_read(path, &content, read_library);
	hostile_finish(&library);
	free(path);
	free(content.bytes);
}
