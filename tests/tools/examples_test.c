/*
 * The programs of examples/linked work as their comments describe.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/start.h"
#include "tests/support/test.h"

/* Run an example with an argument, or NULL. Returns its output. */
static void
expect_output(const char *name, const char *argument, const char *output)
{
	char part[128];
	char *program;
	struct start how = { .argument = argument };
	struct command_result result;

	snprintf(part, sizeof(part), "examples/linked/%s", name);
	program = test_build(part);
	how.program = program;
	result = start(&how);
	EXPECT_STR_EQ(result.err, "");
	EXPECT_STR_EQ(result.out, output);
	EXPECT_EQ(result.status, 0);
	command_free(&result);
	free(program);
}

TEST(the_example_of_streams_is_right)
{
	expect_output("streams", NULL,
	    "its own stream has it again: yes\n"
	    "the reader saw: 2\n"
	    "after the reader it is free again: yes\n");
}

TEST(the_example_of_graphs_is_right)
{
	expect_output("graph_pool", NULL,
	    "the graph keeps its memory: yes\n"
	    "replay 1 gave 1\nreplay 2 gave 2\nreplay 3 gave 3\n"
	    "the pool holds its block: yes\n");
}

TEST(the_example_of_a_pinned_loader_is_right)
{
	expect_output("pinned_loader", NULL,
	    "batches: 64, wrong bytes: 0\n"
	    "a few buffers served them all: yes\n");
}

TEST(the_example_of_an_oom_observer_is_right)
{
	expect_output("oom_observer", NULL,
	    "asked for 40 MiB, limit 64 MiB, in use 48 MiB: "
	    "dropping 12 results\n"
	    "the second try: served\n"
	    "asked for 80 MiB, limit 64 MiB, in use 0 MiB: "
	    "dropping 0 results\n"
	    "asked for 80 MiB, limit 64 MiB, in use 0 MiB: "
	    "dropping 0 results\n"
	    "more than the limit: out of memory\n");
}

TEST(the_example_of_a_snapshot_is_right)
{
	char *path = report_path();
	char output[4096];
	struct command_result top;

	snprintf(
	    output, sizeof(output), "%s has 4 live blocks of 10 MiB\n", path);
	expect_output("snapshot", path, output);
	top = command_weir("top", path, NULL);
	EXPECT_STR_HAS(top.out, "10.00 MiB are in use, in 4 blocks\n");
	EXPECT_STR_HAS(top.out, "load_layer (snapshot.c:");
	EXPECT_EQ(top.status, 0);
	command_free(&top);
	free(path);
}

TEST(the_example_of_control_by_name_is_right)
{
	expect_output("control", NULL,
	    "limit.0 = 67108864 bytes\nlive: 3 MiB\n"
	    "weir_ctl_set: there is no path 'option.decay'; did you mean "
	    "'option.decay_ms'?\n"
	    "weir_ctl_set: limit.0: 'lots' is not a number of bytes, such as "
	    "8G, or unlimited\n");
}

TEST(the_example_in_cpp_is_right)
{
	expect_output("containers", NULL,
	    "the same came back: yes\n"
	    "page-locked: yes\n"
	    "too much: WEIR_ENOMEM\n"
	    "live: 8 MiB\n"
	    "left: 0\n");
}
