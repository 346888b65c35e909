/*
 * Programs may expect the same of the driver under weir as of the driver alone.
 * The contract tests of the driver run under the preload with the same results,
 * except for the tests that are named here.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/start.h"
#include "tests/support/test.h"

/* Return the names of the failed tests, one a line. The caller frees them. */
static char *
failures(const char *tap)
{
	char *text = NULL;
	size_t size = 0;
	FILE *file = open_memstream(&text, &size);

	EXPECT_NOT_NULL(file);
	for (const char *line = tap; *line != '\0';) {
		size_t length = strcspn(line, "\n");
		const char *name = strstr(line, " - ");

		if (strncmp(line, "not ok ", 7) == 0 && name != NULL &&
		    name < line + length)
			fprintf(file, "%.*s\n", (int)(line + length - name - 3),
			    name + 3);
		line += length + (line[length] == '\n');
	}
	fclose(file);
	return text;
}

/* Run one of the driver's test programs, in which only the named tests fail. */
static void
holds_but_for(const char *program, const char *variable, const char *names)
{
	char *path = test_build("tests/driver");
	char *whole;
	char *failed;

	if (!start_simulated())
		SKIP("the driver's own tests on a GPU are run without weir");
	if (asprintf(&whole, "%s/%s", path, program) < 0)
		FAIL("out of memory");
	struct start how = { .program = whole,
		.preload = true,
		.variable = variable,
		.second = "SIMCUDA_CONF=" };
	struct command_result result = start(&how);

	EXPECT_STR_HAS(result.out, "1..");
	failed = failures(result.out);
	EXPECT_STR_EQ(failed, names);
	command_free(&result);
	free(failed);
	free(whole);
	free(path);
}

TEST(contexts_streams_and_events_are_the_drivers)
{
	holds_but_for("contract_test", NULL, "");
}

TEST(virtual_memory_is_the_drivers)
{
	holds_but_for("contract_vmm_test", NULL, "");
}

TEST(other_processes_see_the_same_as_without_weir)
{
	holds_but_for("contract_process_test", NULL, "");
}

TEST(copies_between_memory_of_all_kinds_are_the_drivers)
{
	holds_but_for("contract_copy_test", NULL, "");
}

TEST(nodes_of_graphs_are_changed_as_without_weir)
{
	holds_but_for("contract_graph_test", NULL, "");
}

TEST(work_and_memory_outlive_the_same_things_as_without_weir)
{
	holds_but_for("contract_life_test", NULL, "");
}

/* Unused memory is kept until the program sets a threshold. */
TEST(memory_pools_are_as_the_drivers_but_keep_unused_memory)
{
	holds_but_for("contract_pool_test", NULL,
	    "idle memory is given back when the host waits\n");
}

/* Freed memory stays mapped, so an access to it is not noticed. */
TEST(plain_memory_is_as_the_drivers_with_strict_frees)
{
	holds_but_for("contract_memory_test", "WEIR_PRELOAD_FREE=strict",
	    "copies of unknown device memory are refused\n");
}

/* Without strict frees, a free does not wait either. */
TEST(plain_memory_is_as_the_drivers)
{
	holds_but_for("contract_memory_test", NULL,
	    "freeing waits for the context\n"
	    "copies of unknown device memory are refused\n");
}

/* Plain memory can be allocated and freed while streams are captured, where the
 * driver would break the capture. */
TEST(captures_are_the_drivers_except_for_calls_that_would_break_them)
{
	holds_but_for("contract_capture_test", NULL,
	    "unsafe calls fail and break a global capture\n"
	    "a broken capture takes nothing more\n"
	    "other threads are bound by global captures only\n");
}
