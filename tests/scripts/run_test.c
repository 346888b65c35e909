/*
 * scripts/test-run: the environment of a test does not depend on the shell that
 * started it, and a failed test is a failure of the run.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/command.h"
#include "tests/support/test.h"

/* Run the tests of a build that has one program, which is this script, from a
 * folder without sources. */
static struct command_result
run(const char *script)
{
	static const char make[] =
	    "cd \"$1\" && mkdir -p build/tests build/lib/sim &&"
	    " : >build/lib/sim/libcuda.so.1 &&"
	    " printf '%s\\n' '#!/bin/bash' \"$2\" >build/tests/one_test &&"
	    " chmod 755 build/tests/one_test && exec \"$0\" --sim build";
	static char *folder; /* removed with the test */
	char path[4096];

	if (folder == NULL) {
		folder = test_file("folder", "", 0);
		EXPECT_EQ(unlink(folder), 0);
		EXPECT_EQ(mkdir(folder, 0777), 0);
	}
	snprintf(
	    path, sizeof(path), "%s/../../scripts/test-run", test_build_dir());
	return command_run((const char *const[]){
	    "bash", "-c", make, path, folder, script, NULL });
}

TEST(a_program_that_passes_passes)
{
	struct command_result result = run("echo 1..1; echo ok 1 - it passes");

	if (result.status != 0)
		FAIL("%s%s", result.out, result.err);
	command_free(&result);
}

TEST(a_program_that_fails_or_ends_early_is_a_failure)
{
	static const char *const scripts[] = {
		"echo 1..1; echo not ok 1 - it fails; exit 1",
		"echo 1..2; echo ok 1 - it ends early",
		"echo 1..1; echo ok 1 - it has a bad end; exit 3",
	};

	for (size_t i = 0; i < sizeof(scripts) / sizeof(*scripts); i++) {
		struct command_result result = run(scripts[i]);

		EXPECT_NE(result.status, 0);
		command_free(&result);
	}
}

/* Each of these variables has changed the result of a test. */
TEST(variables_of_the_shell_do_not_reach_the_tests)
{
	static const char *const names[] = { "WEIR_CONF",
		"PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF", "WEIR_DISABLE",
		"WEIR_LIBNVML", "WEIR_LOG", "WEIR_PRELOAD_FREE",
		"WEIR_PRELOAD_IPC", "WEIR_REPORT", "WEIR_REPORT_LEAKS",
		"WEIR_REPORT_SITES", "WEIR_TEST_HOSTILE", "WEIR_TEST_VICTIMS",
		"SIMCUDA_CONF", "NO_COLOR", "XDG_RUNTIME_DIR",
		"CUDA_VISIBLE_DEVICES" };
	char script[2048] = "bad=0; echo 1..1; for name in";
	struct command_result result;

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		EXPECT_EQ(setenv(names[i], "1", 1), 0);
		strcat(strcat(script, " "), names[i]);
	}
	EXPECT_EQ(setenv("LC_ALL", "de_DE.UTF-8", 1), 0);
	strcat(script,
	    "; do [ -z \"${!name+set}\" ] || bad=\"$bad $name\"; done;"
	    " [ \"$LC_ALL\" = C ] || bad=\"$bad LC_ALL\";"
	    " [ \"$bad\" = 0 ] || printf 'not ';"
	    " echo \"ok 1 - $bad\"; [ \"$bad\" = 0 ]");
	result = run(script);
	if (result.status != 0)
		FAIL("%s%s", result.out, result.err);
	command_free(&result);
}
