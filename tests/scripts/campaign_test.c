/*
 * scripts/soak and scripts/fuzz, which run for hours: here for a moment, with
 * scripts in the place of programs.
 */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/command.h"
#include "tests/support/test.h"

/* A program of random steps: seed 7 fails at step 40, unless that step is left
 * out or weir_check() runs after each step. */
static const char model[] =
    "#!/bin/bash\n"
    "echo \"# mix: ${WEIR_TEST_STEPS:-1000} steps, seed $WEIR_TEST_SEED\"\n"
    "if [ $WEIR_TEST_SEED = 7 ] && [ ${WEIR_TEST_STEPS:-99} -ge 40 ] &&\n"
    "  [ $WEIR_TEST_CHECK_EVERY != 1 ] && [ \"$WEIR_TEST_SKIP\" != 40 ]\n"
    "then\n"
    "  echo 'not ok 1 - programs keep promises'\n"
    "  echo '# model.c:1: step 40 (allocate): it is wrong'\n"
    "  exit 1\n"
    "fi\n"
    "echo ok 1\n";

/* Run a script of the tree, $0, with a new folder as $1. */
static struct command_result
script(const char *name, const char *commands)
{
	static char *folder; /* removed with the test */
	char path[4096];

	if (folder == NULL) {
		folder = test_file("folder", "", 0);
		EXPECT_EQ(unlink(folder), 0);
		EXPECT_EQ(mkdir(folder, 0777), 0);
	}
	snprintf(
	    path, sizeof(path), "%s/../../scripts/%s", test_build_dir(), name);
	return command_run((const char *const[]){
	    "bash", "-c", commands, path, folder, model, NULL });
}

TEST(a_soak_keeps_a_ledger_and_reduces_failures)
{
	/* Its end is its target, however fast the machine is. */
	struct command_result result = script("soak",
	    "cd \"$1\" && mkdir -p rel/tests/model rel/lib/sim &&"
	    "for p in model model_threads model_faults model_graphs; do"
	    " printf '%s' \"$2\" >rel/tests/model/${p}_test;"
	    " chmod 755 rel/tests/model/${p}_test; done;"
	    "REDUCE_S=300 SOAK_EVERY=16 SOAK_SEED=5 SOAK_TARGET=9000"
	    " SOAK_JOBS=1 \"$0\" --built \"$1/rel\" 1 \"$1/ledger\";"
	    "echo status $?; cat ledger 7.log");

	EXPECT_STR_HAS(result.out, "status 1\n");
	EXPECT_STR_HAS(result.out, ", 1 failed\n");
	EXPECT_STR_HAS(result.out, " 5 1000 ");
	EXPECT_STR_HAS(result.out, " ok 16\n");
	EXPECT_STR_HAS(result.out, " FAILED 16\n");
	EXPECT_STR_HAS(result.out,
	    "again: WEIR_TEST_SEED=7 WEIR_TEST_STEPS=40 "
	    "WEIR_TEST_CHECK_EVERY=16 WEIR_TEST_SKIP=");
	command_free(&result);
}

TEST(a_soak_that_finds_nothing_succeeds)
{
	struct command_result result = script("soak",
	    "cd \"$1\" && mkdir -p rel/tests/model rel/lib/sim &&"
	    "for p in model model_threads model_faults model_graphs; do"
	    " printf '%s' \"$2\" >rel/tests/model/${p}_test;"
	    " chmod 755 rel/tests/model/${p}_test; done;"
	    "SOAK_EVERY='1 16' SOAK_SEED=100 SOAK_TARGET=20000"
	    " \"$0\" --built \"$1/rel\" 1 \"$1/ledger\" &&"
	    " echo good && \"$0\" --sum \"$1/ledger\"");

	EXPECT_STR_HAS(result.out, ", 0 failed\ngood\n");
	EXPECT_STR_HAS(result.out, "weir_check()");
	command_free(&result);
}

/* SIGINT ends a soak once the runs under way have ended. The next call goes on
 * with other seeds. */
TEST(a_soak_that_is_stopped_goes_on_with_other_seeds)
{
	struct command_result result = script("soak",
	    "cd \"$1\" && mkdir -p rel/tests/model rel/lib/sim &&"
	    "for p in model model_threads model_faults model_graphs; do"
	    " printf '%s' \"$2\" >rel/tests/model/${p}_test;"
	    " chmod 755 rel/tests/model/${p}_test; done;"
	    "export SOAK_EVERY=1; set -m;"
	    "\"$0\" --built \"$1/rel\" 1 \"$1/ledger\" >first &"
	    "until grep -q ok ledger; do sleep 0.1; done;"
	    "kill -INT $!; wait $!; echo status $?; n=$(wc -l <ledger);"
	    "SOAK_TARGET=$((n * 1000 + 3000)) \"$0\" --built \"$1/rel\" 1"
	    " \"$1/ledger\" && [ $(wc -l <ledger) -ge $((n + 3)) ] &&"
	    "cut -d' ' -f5 ledger | sort -n | uniq -d | wc -l");

	EXPECT_STR_HAS(result.out, "status 0\n");
	EXPECT_STR_HAS(result.out, " 0 failed\n0\n");
	command_free(&result);
}

/* Fuzz programs of a build folder rel: each prints that it has tried 7 inputs,
 * and `bad` fails. */
#define FUZZERS                                                                \
	"cd \"$1\" && mkdir -p rel/tests/fuzz &&"                              \
	"printf '#!/bin/bash\nsleep 0.1\necho "                                \
	"stat::number_of_executed_units: 7\n'"                                 \
	" >rel/tests/fuzz/good_fuzz && chmod 755 rel/tests/fuzz/good_fuzz &&"  \
	"for p in fine bad; do cp rel/tests/fuzz/{good,${p}}_fuzz; done &&"    \
	"echo exit 77 >>rel/tests/fuzz/bad_fuzz; export FUZZ_FOLDER=$1/kept;"

TEST(fuzzing_runs_each_program_and_keeps_a_ledger)
{
	struct command_result result = script("fuzz",
	    FUZZERS "\"$0\" 5 rel; echo status $?;"
		    "\"$0\" 5 rel good; echo then $?; cat kept/ledger;"
		    "\"$0\" --sum");

	EXPECT_STR_HAS(result.out, "status 1\n");
	EXPECT_STR_HAS(result.out, "then 0\n");
	EXPECT_STR_HAS(result.out, " 7 FAILED\n");
	EXPECT_STR_HAS(result.out, "\ngood                  2 turns ");
	EXPECT_STR_HAS(result.out, " 14 inputs, 0 failed\n");
	EXPECT_STR_HAS(result.out, "\nall 3                 4 turns ");
	EXPECT_STR_HAS(result.out, " 28 inputs, 1 failed\n");
	EXPECT_STR_HAS(
	    result.out, "\n0 of 3 programs have had an hour of a core\n");
	command_free(&result);
}

TEST(cores_fuzz_the_program_with_the_least_time_first)
{
	/* In the ledger, `bad` and `fine` have more time than all turns can
	 * give. */
	struct command_result result = script("fuzz",
	    FUZZERS "mkdir -p kept; for p in bad fine; do"
		    " echo d c $p 999 9 1 ok >>kept/ledger; done;"
		    "\"$0\" --cores 0 3 rel; echo status $?; cat kept/ledger");

	EXPECT_STR_HAS(result.out, "status 0\n");
	EXPECT_STR_HAS(result.out, " good 0");
	EXPECT_STR_HAS(result.out,
	    "bad                   1 turns       999 s         9 core-s");
	EXPECT_STR_HAS(result.out,
	    "\nfine                  1 turns       999 s         9 core-s");
	command_free(&result);
}

TEST(a_program_that_fails_often_gets_no_more_turns)
{
	struct command_result result = script("fuzz",
	    FUZZERS "rm rel/tests/fuzz/{good,fine}_fuzz;"
		    "FUZZ_FAILURES=2 \"$0\" --cores 0 600 rel; echo status $?;"
		    "ls kept/found");

	EXPECT_STR_HAS(result.out, "status 1\n");
	EXPECT_STR_HAS(result.out, "\nbad                   2 turns ");
	EXPECT_STR_HAS(result.out, "\nbad-");
	command_free(&result);
}

TEST(a_turn_of_fuzzing_tries_each_program_and_keeps_no_ledger)
{
	struct command_result result = script("fuzz",
	    FUZZERS "echo 'echo $*' >>rel/tests/fuzz/good_fuzz;"
		    "\"$0\" --turn rel; echo status $?;"
		    "\"$0\" --turn rel good fine; echo then $?;"
		    "cat kept/turn/good.log; ls kept");

	EXPECT_STR_HAS(result.out, "ok: fine, 5000 inputs, ");
	EXPECT_STR_HAS(result.out, "FAILED: bad, see ");
	EXPECT_STR_HAS(result.out, "status 1\n");
	EXPECT_STR_HAS(result.out, "then 0\n");
	EXPECT_STR_HAS(result.out, "-runs=5000 -seed=1 ");
	EXPECT_EQ(strstr(result.out, "ledger"), NULL);
	command_free(&result);
}

TEST(ledgers_of_fuzzing_are_added_up)
{
	struct command_result result = script("fuzz",
	    "cd \"$1\" && echo d c text 3000.5 9 10 ok >one &&"
	    "printf '%s\n' 'd c text 599.5 1 1 ok' 'd c page 3599.9 1 1 ok' "
	    ">two &&"
	    "\"$0\" --sum one two");

	EXPECT_STR_HAS(result.out,
	    "text                  2 turns      3600 s        10 core-s");
	EXPECT_STR_HAS(result.out, " 11 inputs, 0 failed\n");
	EXPECT_STR_HAS(
	    result.out, "\n1 of 2 programs have had an hour of a core\n");
	command_free(&result);
}

TEST(fuzzing_for_no_whole_number_of_seconds_is_refused)
{
	static const char *const wrong[] = { "exec \"$0\"", "exec \"$0\" 5",
		"exec \"$0\" '' \"$1\"", "exec \"$0\" 0.3 \"$1\"",
		"exec \"$0\" 0 \"$1\"", "exec \"$0\" \"$1\" \"$1\"",
		"exec \"$0\" --cores", "exec \"$0\" --cores 1- 5 \"$1\"" };

	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		struct command_result result = script("fuzz", wrong[i]);

		EXPECT_EQ(result.status, 2);
		EXPECT_STR_HAS(result.err, "usage: scripts/fuzz SECONDS DIR");
		command_free(&result);
	}
}
