/*
 * clang finds a call without the lock that the callee needs, in code that
 * `make lint-tidy` would check: each test compiles a small source against the
 * allocator's own headers.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/command.h"
#include "tests/support/test.h"

static char source[] = "/tmp/weir-contract-XXXXXX.c";

static void
remove_source(void)
{
	unlink(source);
}

/* Compile the body of a function of a block, with clang's analysis. */
static struct command_result
analyze(const char *body)
{
	char root[4096];
	char include[4096 + 16];
	const char *const argv[] = { "clang", "-std=c11", "-D_GNU_SOURCE",
		"-fsyntax-only", "-Wthread-safety", "-Werror", "-I", root, "-I",
		include, source, NULL };

	snprintf(root, sizeof(root), "%s/../..", test_build_dir());
	snprintf(include, sizeof(include), "%s/include", root);
	if (access("/usr/bin/clang", X_OK) != 0)
		SKIP("the analysis needs clang");
	char header[4096 + 32];
	snprintf(header, sizeof(header), "%s/allocator/memory/block.h", root);
	if (access(header, R_OK) != 0)
		SKIP("the sources are not here");
	int fd = mkstemps(source, 2);
	EXPECT_GE(fd, 0);
	EXPECT_EQ(atexit(remove_source), 0);
	dprintf(fd,
	    "#include \"allocator/api/find.h\"\n"
	    "#include \"allocator/memory/block.h\"\n"
	    "void planted(struct block *block);\n"
	    "void planted(struct block *block)\n{\n%s}\n",
	    body);
	close(fd);
	return command_run(argv);
}

TEST(a_call_without_the_lock_does_not_pass)
{
	struct command_result result = analyze("\tblock_take(block);\n");

	EXPECT_NE(result.status, 0);
	EXPECT_STR_HAS(
	    result.err, "calling function 'block_take' requires holding mutex");
	command_free(&result);
}

TEST(a_call_with_the_lock_passes)
{
	struct command_result result =
	    analyze("\tlock_enter(&block->arena->lock);\n"
		    "\tblock_take(block);\n"
		    "\tlock_leave(&block->arena->lock);\n");

	EXPECT_STR_EQ(result.err, "");
	EXPECT_EQ(result.status, 0);
	command_free(&result);
}

TEST(a_lock_that_is_not_released_does_not_pass)
{
	struct command_result result =
	    analyze("\tlock_enter(&block->arena->lock);\n"
		    "\tblock_take(block);\n");

	EXPECT_NE(result.status, 0);
	EXPECT_STR_HAS(result.err, "still held at the end of function");
	command_free(&result);
}

TEST(a_found_block_is_not_used_before_its_lock_is_taken_over)
{
	struct command_result result = analyze("\tblock = find_locked(block);\n"
					       "\tif (block != NULL)\n"
					       "\t\tblock_take(block);\n");

	EXPECT_NE(result.status, 0);
	EXPECT_STR_HAS(result.err, "requires holding mutex");
	command_free(&result);
}

TEST(the_lock_of_a_found_block_is_released)
{
	struct command_result result =
	    analyze("\tblock = find_locked(block);\n"
		    "\tif (block == NULL)\n"
		    "\t\treturn;\n"
		    "\tlock_take_over(&block->arena->lock);\n"
		    "\tblock_take(block);\n");

	EXPECT_NE(result.status, 0);
	EXPECT_STR_HAS(result.err, "not held on every path");
	command_free(&result);
}
