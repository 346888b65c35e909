/*
 * weir-bench as a command: its arguments, the form of its output, and each
 * benchmark once, as small as possible. No test can say whether figures are
 * right. These tests check that there are as many figures as there should be,
 * and that they are numbers.
 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/command.h"
#include "tests/support/test.h"

enum { ARGUMENTS_MAX = 16 };

/* Run the weir-bench of this build with the arguments. NULL ends them. */
static struct command_result
bench(const char *const arguments[])
{
	const char *argv[ARGUMENTS_MAX + 2];
	char *program = test_build("bin/weir-bench");
	struct command_result result;
	int n = 0;

	argv[n++] = program;
	for (int i = 0; arguments[i] != NULL; i++) {
		EXPECT_LT(i, ARGUMENTS_MAX);
		argv[n++] = arguments[i];
	}
	argv[n] = NULL;
	result = command_run(argv);
	free(program);
	return result;
}

#define BENCH(...) bench((const char *const[]){ __VA_ARGS__, NULL })

static json_t *
parsed(const struct command_result *result)
{
	json_error_t error;
	json_t *json = json_loads(result->out, 0, &error);

	if (json == NULL)
		FAIL("not JSON: %s\n%s\n%s", error.text, result->out,
		    result->err);
	return json;
}

static const char *
text_of(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));

	if (text == NULL)
		FAIL("no text '%s'", key);
	return text;
}

static double
real_of(const json_t *object, const char *key)
{
	const json_t *value = json_object_get(object, key);

	if (!json_is_real(value))
		FAIL("no real number '%s'", key);
	return json_real_value(value);
}

/* A result must have as many samples as were requested, and valid figures. */
static void
expect_sound(const json_t *result, size_t samples)
{
	const json_t *list = json_object_get(result, "samples");
	double median;

	if (json_object_get(result, "error") != NULL)
		FAIL("%s, %s, %s: %s", text_of(result, "bench"),
		    text_of(result, "case"), text_of(result, "peer"),
		    text_of(result, "error"));
	EXPECT_EQ(json_array_size(list), samples);
	EXPECT_GT(json_integer_value(json_object_get(result, "rounds")), 0);
	median = real_of(result, "median");
	EXPECT_GT(median, 0.0);
	EXPECT_LE(real_of(result, "p10"), median);
	EXPECT_GE(real_of(result, "p90"), median);
}

/* Each of the peers, which blanks separate, must have this many results. */
static void
expect_peers(const json_t *results, const char *peers, size_t count)
{
	char *copy = strdup(peers);
	char *rest = NULL;

	EXPECT_NOT_NULL(copy);
	for (char *peer = strtok_r(copy, " ", &rest); peer != NULL;
	     peer = strtok_r(NULL, " ", &rest)) {
		size_t found = 0;
		json_t *one;
		size_t i;

		json_array_foreach(results, i, one)
		{
			if (strcmp(text_of(one, "peer"), peer) == 0)
				found++;
		}
		if (found != count)
			FAIL("%s has %zu results, not %zu", peer, found, count);
	}
	free(copy);
}

/* Run one benchmark quickly. It must have `cases` cases, each with these peers.
 */
static void
smoke(const char *name, const char *const extra[2], size_t cases,
    const char *peers)
{
	struct command_result run =
	    BENCH(name, "--quick", "--json", extra[0], extra[1]);
	json_t *all = parsed(&run);
	json_t *results = json_object_get(all, "results");
	json_t *one;
	size_t i;

	if (run.status != 0)
		FAIL("exit status %d: %s", run.status, run.err);
	json_array_foreach(results, i, one)
	{
		EXPECT_STR_EQ(text_of(one, "bench"), name);
		expect_sound(one, 1);
	}
	expect_peers(results, peers, cases);
	json_decref(all);
	command_free(&run);
}

static const char *const nothing[2];

TEST(pair_runs_with_every_peer)
{
	smoke(
	    "pair", nothing, 8, "weir cudaMallocAsync cudaMalloc malloc none");
}

TEST(batch_runs_with_every_peer)
{
	smoke(
	    "batch", nothing, 4, "weir cudaMallocAsync cudaMalloc malloc none");
}

TEST(replace_runs_with_every_peer)
{
	smoke("replace", nothing, 2,
	    "weir cudaMallocAsync cudaMalloc malloc none");
}

TEST(threads_runs_with_every_peer)
{
	smoke("threads", nothing, 4,
	    "weir cudaMallocAsync cudaMalloc malloc none");
}

TEST(handover_runs_with_every_peer)
{
	smoke("handover", nothing, 1,
	    "weir cudaMallocAsync cudaMalloc malloc none");
}

TEST(record_runs_with_the_peers_that_can)
{
	smoke("record", nothing, 1, "weir cudaMallocAsync");
}

TEST(pending_runs)
{
	smoke("pending", nothing, 2, "weir");
}

TEST(miss_runs_with_every_device_peer)
{
	smoke("miss", nothing, 10, "weir cudaMallocAsync");
}

TEST(random_runs_with_every_peer)
{
	smoke("random", nothing, 2,
	    "weir cudaMallocAsync cudaMalloc malloc none");
}

TEST(pinned_runs_with_every_peer_of_pinned_memory)
{
	smoke(
	    "pinned", nothing, 10, "weir-pinned weir-registered cudaHostAlloc");
}

TEST(graphs_runs_with_pools_of_graphs)
{
	smoke("graphs", nothing, 8, "weir-pools");
}

TEST(history_runs_with_stacks_and_without)
{
	smoke("history", nothing, 3, "weir-history weir-stacks");
}

TEST(kernels_runs_with_the_run_without_allocation)
{
	smoke("kernels", nothing, 2, "weir cudaMallocAsync cudaMalloc none");
}

TEST(busy_runs_with_every_preference)
{
	smoke("busy", nothing, 2,
	    "weir weir-speed weir-memory weir-nocache cudaMallocAsync");
}

TEST(replay_runs_a_trace)
{
	static const char rows[] = "action,addr,size,stream,time_us\n"
				   "a,1000,512,0,0\n"
				   "a,2000,4096,1,10\n"
				   "f,1000,512,0,20\n"
				   "f,2000,4096,1,30\n";
	char *path = test_file("rows.csv", rows, sizeof(rows) - 1);
	const char *const trace[2] = { "--trace", path };

	smoke("replay", trace, 1, "weir");
	free(path);
}

TEST(replay_of_a_trace_that_cannot_be_read_is_a_failure)
{
	struct command_result run =
	    BENCH("replay", "--quick", "--json", "--trace", "/nonexistent.csv");
	json_t *all = parsed(&run);

	EXPECT_EQ(run.status, 1);
	EXPECT_STR_HAS(run.err, "/nonexistent.csv");
	EXPECT_EQ(json_array_size(json_object_get(all, "results")), 0);
	json_decref(all);
	command_free(&run);
}

TEST(the_object_describes_the_run)
{
	struct command_result run = BENCH(
	    "record", "--peer", "weir", "--ms", "1", "--repeat", "3", "--json");
	json_t *all = parsed(&run);
	json_t *results = json_object_get(all, "results");

	EXPECT_EQ(run.status, 0);
	text_of(all, "weir");
	text_of(all, "device");
	text_of(all, "processor");
	EXPECT(json_is_boolean(json_object_get(all, "simulated")));
	EXPECT(json_is_integer(json_object_get(all, "driver_version")));
	EXPECT_GT(json_integer_value(json_object_get(all, "processors")), 0);
	EXPECT_EQ(json_integer_value(json_object_get(all, "repeat")), 3);
	EXPECT(json_is_array(json_object_get(all, "left_out")));
	EXPECT_EQ(json_array_size(results), 1);
	expect_sound(json_array_get(results, 0), 3);
	EXPECT_STR_EQ(text_of(json_array_get(results, 0), "base"), "weir");
	EXPECT_EQ(real_of(json_array_get(results, 0), "ratio"), 1.0);
	json_decref(all);
	command_free(&run);
}

TEST(without_its_base_a_result_has_no_ratio)
{
	struct command_result run =
	    BENCH("pair", "--peer", "malloc", "--quick", "--json");
	json_t *all = parsed(&run);
	json_t *one = json_array_get(json_object_get(all, "results"), 0);

	EXPECT_EQ(run.status, 0);
	EXPECT(json_is_null(json_object_get(one, "ratio")));
	json_decref(all);
	command_free(&run);
}

TEST(tables_go_to_stdout_and_the_object_to_a_file)
{
	char *path = test_file("out.json", "", 0);
	struct command_result run =
	    BENCH("record", "--quick", "--output", path);
	json_t *all = json_load_file(path, 0, NULL);

	EXPECT_EQ(run.status, 0);
	EXPECT_STR_HAS(run.out, "== record: ");
	EXPECT_STR_HAS(run.out, "to weir");
	EXPECT_STR_HAS(run.out, "1.00x");
	EXPECT_NOT_NULL(all);
	EXPECT_GT(json_array_size(json_object_get(all, "results")), 0);
	json_decref(all);
	command_free(&run);
	free(path);
}

TEST(a_file_that_cannot_be_written_is_a_failure)
{
	struct command_result run =
	    BENCH("record", "--quick", "--output", "/nonexistent/out.json");

	EXPECT_EQ(run.status, 2);
	EXPECT_STR_HAS(run.err, "cannot write the results");
	command_free(&run);
}

TEST(the_head_says_that_the_device_is_simulated)
{
	struct command_result run =
	    BENCH("record", "--quick", "--sim", "--peer", "weir");

	EXPECT_EQ(run.status, 0);
	EXPECT_STR_HAS(run.out, "on simcuda");
	EXPECT_STR_HAS(run.out, "not of a GPU");
	command_free(&run);
}

TEST(a_peer_that_is_refused_is_left_out_and_the_object_notes_that)
{
	struct command_result run = BENCH("record", "--quick", "--json",
	    "--peer", "weir-nocache", "--peer", "weir");
	json_t *all = parsed(&run);
	json_t *left = json_array_get(json_object_get(all, "left_out"), 0);
	size_t results = json_array_size(json_object_get(all, "results"));

	EXPECT_EQ(run.status, 0);
	if (left == NULL) {
		EXPECT_EQ(results, 2);
	} else {
		EXPECT_EQ(results, 1);
		EXPECT_STR_EQ(text_of(left, "peer"), "weir-nocache");
		EXPECT_STR_HAS(text_of(left, "why"), "tcache");
		EXPECT_STR_HAS(run.err, "weir-nocache is left out");
	}
	json_decref(all);
	command_free(&run);
}

/* ---- Peers from outside -------------------------------------------------- */

/* The child reports a microsecond per pair. */
static const char child[] = "other=echo ready; while read size n; do "
			    "awk \"BEGIN { print $n / 1e6 }\"; done";

TEST(a_child_counts_pairs_by_itself)
{
	struct command_result run = BENCH(
	    "pair", "--quick", "--json", "--child", child, "--peer", "other");
	json_t *all = parsed(&run);
	json_t *results = json_object_get(all, "results");
	json_t *one;
	size_t i;

	EXPECT_EQ(run.status, 0);
	EXPECT_EQ(json_array_size(results), 8);
	json_array_foreach(results, i, one)
	{
		expect_sound(one, 1);
		EXPECT_GT(real_of(one, "median"), 999.0);
		EXPECT_LT(real_of(one, "median"), 1001.0);
	}
	json_decref(all);
	command_free(&run);
}

TEST(a_child_that_is_not_ready_is_left_out_with_its_reason)
{
	struct command_result run = BENCH("record", "--quick", "--json",
	    "--child", "other=echo there is no GPU");

	EXPECT_EQ(run.status, 1);
	EXPECT_STR_HAS(run.err, "other is left out: there is no GPU");
	json_decref(parsed(&run));
	command_free(&run);
}

TEST(a_child_that_ends_early_fails_and_leaves_the_others_alone)
{
	struct command_result run = BENCH("pair", "--quick", "--json",
	    "--child", "other=echo ready", "--peer", "other", "--peer", "weir");
	json_t *all = parsed(&run);
	size_t failed = 0;
	json_t *one;
	size_t i;

	EXPECT_EQ(run.status, 1);
	json_array_foreach(json_object_get(all, "results"), i, one)
	{
		if (strcmp(text_of(one, "peer"), "weir") == 0) {
			expect_sound(one, 1);
			continue;
		}
		EXPECT_STR_HAS(text_of(one, "error"), "did not answer");
		failed++;
	}
	EXPECT_EQ(failed, 8);
	json_decref(all);
	command_free(&run);
}

TEST(a_child_without_a_command_is_refused)
{
	struct command_result run = BENCH("record", "--quick", "--child", "x");

	EXPECT_EQ(run.status, 1);
	EXPECT_STR_HAS(run.err, "NAME=COMMAND, not 'x'");
	command_free(&run);
}

TEST(a_library_is_a_peer_like_any_other)
{
	char *fake = test_build("tests/tools/fake/bench_peer.so");
	struct command_result run = BENCH("pair", "--quick", "--json",
	    "--plugin", fake, "--peer", "fake", "--peer", "weir");
	json_t *all = parsed(&run);
	size_t failed = 0;
	json_t *one;
	size_t i;

	/* The peer fails for sizes above a MiB; all other cases are measured.
	 */
	EXPECT_EQ(run.status, 1);
	json_array_foreach(json_object_get(all, "results"), i, one)
	{
		if (json_object_get(one, "error") == NULL) {
			expect_sound(one, 1);
			continue;
		}
		EXPECT_STR_EQ(text_of(one, "peer"), "fake");
		EXPECT_STR_EQ(
		    text_of(one, "error"), "a fake has no more than a MiB");
		failed++;
	}
	EXPECT_EQ(i, 16);
	EXPECT_EQ(failed, 4);
	EXPECT_STR_HAS(run.err, "1 GiB: fake: a fake has no more than a MiB");
	json_decref(all);
	command_free(&run);
	free(fake);
}

/* On a GPU with every framework there are more peers than the built-in ones. */
TEST(several_libraries_join_the_peers_that_are_built_in)
{
	char *fake = test_build("tests/tools/fake/bench_peer.so");
	struct command_result run = BENCH("record", "--quick", "--plugin", fake,
	    "--plugin", fake, "--plugin", fake, "--plugin", fake);

	EXPECT_EQ(run.status, 0);
	EXPECT_STR_EQ(run.err, "");
	command_free(&run);
	free(fake);
}

TEST(a_plugin_that_is_no_peer_is_refused)
{
	char *weir = test_build("lib/libweir.so");
	struct command_result run =
	    BENCH("record", "--quick", "--plugin", weir);

	EXPECT_EQ(run.status, 1);
	EXPECT_STR_HAS(run.err, "defines no weir_bench_peer");
	command_free(&run);
	free(weir);
}

/* ---- The command line ---------------------------------------------------- */

TEST(a_wrong_command_line_is_refused_with_the_wrong_word)
{
	static const char *const wrong[][3] = {
		{ "nonesuch", NULL, "no benchmark 'nonesuch'" },
		{ "--peer", "nonesuch", "no peer 'nonesuch'" },
		{ "--repeat", "0", "--repeat is a number from 1 to 1000" },
		{ "--repeat", "1001", "not '1001'" },
		{ "--repeat", "-1", "not '-1'" },
		{ "--ms", "fast", "not 'fast'" },
		{ "--no-such-flag", NULL, "--no-such-flag" },
	};

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		struct command_result run = BENCH(wrong[i][0], wrong[i][1]);

		EXPECT_EQ(run.status, 2);
		EXPECT_STR_EQ(run.out, "");
		EXPECT_STR_HAS(run.err, wrong[i][2]);
		command_free(&run);
	}
}

TEST(the_list_names_benchmarks_and_peers)
{
	static const char *const names[] = { "pair", "batch", "replace",
		"threads", "handover", "record", "pending", "miss", "random",
		"pinned", "graphs", "kernels", "busy", "replay", "weir-speed",
		"weir-memory", "weir-nocache", "cudaMallocAsync", "cudaMalloc",
		"weir-pinned", "cudaHostAlloc", "malloc", "none" };
	struct command_result run = BENCH("--list");

	EXPECT_EQ(run.status, 0);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		EXPECT_STR_HAS(run.out, names[i]);
	command_free(&run);
}
