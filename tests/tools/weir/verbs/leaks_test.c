/*
 * weir leaks suspects stacks whose blocks pile up, and no stack whose blocks
 * are freed, or are kept once.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/test.h"
#include "tests/tools/weir/answer.h"

TEST(a_cache_that_grows_each_step_is_suspected)
{
	json_t *json = ask_json(1, "leaks", train(), NULL, NULL);

	EXPECT_EQ(number_at(json, "traced_allocs"), 47);
	EXPECT_EQ(json_array_size(value_at(json, "suspects")), 1);
	EXPECT_STR_EQ(
	    text_at(json, "suspects.0.site"), "remember (cache.py:7)");
	EXPECT_EQ(number_at(json, "suspects.0.live_blocks"), 8);
	EXPECT_EQ(number_at(json, "suspects.0.live_bytes"), 13107200);
	EXPECT_EQ(number_at(json, "suspects.0.allocs"), 8);
	EXPECT_EQ(number_at(json, "suspects.0.frees"), 0);
	EXPECT_STR_HAS(text_at(json, "suspects.0.for.0"), "of 8 parts");
	EXPECT_STR_EQ(text_at(json, "suspects.0.for.1"), "0 of 8 were freed");
	EXPECT_EQ(json_array_size(value_at(json, "suspects.0.against")), 0);
	json_decref(json);
	struct command_result result = ask(1, "leaks", train(), NULL, NULL);

	EXPECT_STR_HAS(result.out, "1 stack may leak: 12.50 MiB\n");
	EXPECT_STR_HAS(result.out, "    for: 0 of 8 were freed\n");
	command_free(&result);
}

/* Six allocations with one stack, then others. `name` and `file` are those of a
 * frame of the six. */
static json_t *
built_up_once(const char *name, const char *file)
{
	char *text = NULL;
	size_t length = 0;
	FILE *out = open_memstream(&text, &length);
	const char *path;

	fputs("{\"segments\":[{\"address\":0,\"total_size\":6144,"
	      "\"blocks\":[",
	    out);
	for (int i = 0; i < 12; i++)
		fprintf(out,
		    "%s{\"size\":512,\"requested_size\":512,\"state\":"
		    "\"active_allocated\"}",
		    i == 0 ? "" : ",");
	fputs("]}],\"device_traces\":[[", out);
	for (int i = 0; i < 12; i++)
		fprintf(out,
		    "%s{\"action\":\"alloc\",\"addr\":%d,\"size\":512,"
		    "\"frames\":[{\"name\":\"%s\",\"filename\":\"%s\","
		    "\"line\":%d}]}",
		    i == 0 ? "" : ",", 512 * i, i < 6 ? name : "other",
		    i < 6 ? file : "f.py", i < 6 ? 1 : i);
	fputs("]]}", out);
	fclose(out);
	path = written("once.json", text, length);
	free(text);
	return ask_json(1, "leaks", path, NULL, NULL);
}

TEST(facts_against_a_leak_are_printed)
{
	json_t *json = built_up_once("step", "/v/torch/optim/adam.py");

	EXPECT_EQ(json_array_size(value_at(json, "suspects")), 1);
	EXPECT_STR_HAS(
	    text_at(json, "suspects.0.against.0"), "an optimiser made them");
	EXPECT_STR_HAS(text_at(json, "suspects.0.against.1"),
	    "none was added after 41 % of the trace");
	json_decref(json);
	json = built_up_once("torch::autograd::AccumulateGrad::apply", "??");
	EXPECT_STR_HAS(
	    text_at(json, "suspects.0.against.0"), "they are gradients");
	json_decref(json);
}

TEST(activations_at_the_peak_speak_against_a_leak)
{
	json_t *json = built_up_once("_call_impl", "module.py");

	EXPECT_STR_HAS(text_at(json, "suspects.0.against.0"),
	    "activations look like this until their backward pass");
	json_decref(json);
}

TEST(a_threshold_above_it_lets_it_pass)
{
	struct command_result result = ask(0, "leaks", train(), "--least", "9");

	EXPECT_STR_EQ(result.out, "no stack may leak\n");
	command_free(&result);
}

TEST(without_stacks_no_leak_can_be_named)
{
	struct command_result result =
	    ask(0, "leaks", snapshot_data("segments.pickle"), NULL, NULL);

	EXPECT_STR_HAS(result.out, "no allocation with a stack");
	command_free(&result);
}

/* Make `rounds` allocations of one stack. A letter for each selects whether it
 * is freed. */
static const char *
rounds(const char *letters)
{
	char *text = NULL;
	size_t length = 0;
	FILE *out = open_memstream(&text, &length);
	size_t n = strlen(letters);
	static const char frames[] =
	    "\"frames\":[{\"name\":\"f\",\"filename\":\"f.py\",\"line\":1}]";
	const char *path;

	fprintf(out,
	    "{\"segments\":[{\"address\":0,\"total_size\":%zu,"
	    "\"blocks\":[",
	    512 * n);
	for (size_t i = 0; i < n; i++)
		fprintf(out,
		    "%s{\"size\":512,\"requested_size\":512,\"state\":\"%s\","
		    "%s}",
		    i == 0 ? "" : ",",
		    letters[i] == 'f' ? "inactive" : "active_allocated",
		    frames);
	fputs("]}],\"device_traces\":[[", out);
	for (size_t i = 0; i < n; i++) {
		fprintf(out,
		    "%s{\"action\":\"alloc\",\"addr\":%zu,\"size\":512,%s}",
		    i == 0 ? "" : ",", 512 * i, frames);
		if (letters[i] == 'f')
			fprintf(out,
			    ",{\"action\":\"free_requested\",\"addr\":%zu,"
			    "\"size\":512},{\"action\":\"free_completed\","
			    "\"addr\":%zu,\"size\":512}",
			    512 * i, 512 * i);
	}
	fputs("]]}", out);
	fclose(out);
	path = written("rounds.json", text, length);
	free(text);
	return path;
}

static size_t
suspects(const char *letters)
{
	struct command_result result =
	    command_weir("leaks", "--json", rounds(letters), NULL);
	json_t *json = json_loads(result.out, 0, NULL);
	size_t count = json_array_size(value_at(json, "suspects"));

	EXPECT_EQ(result.status, count > 0 ? 1 : 0);
	json_decref(json);
	command_free(&result);
	return count;
}

TEST(blocks_that_are_mostly_freed_are_no_leak)
{
	EXPECT_EQ(suspects("kkkkkkkk"), 1);
	EXPECT_EQ(suspects("kfkfkfkf"), 0);
	EXPECT_EQ(suspects("kkfkkfkk"), 1);
	EXPECT_EQ(suspects("ffffffff"), 0);
	/* All allocations are together, and none follows. */
	EXPECT_EQ(suspects("kkkkffffffffffffffffffff"), 0);
	EXPECT_EQ(suspects("kk"), 0);
}
