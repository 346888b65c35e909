/*
 * The output of --json has a version, and docs/json.md has each of its keys.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/test.h"
#include "tests/tools/weir/answer.h"
#include "tests/tools/weir/stepped.h"

/* A file of the source tree, whole. */
static char *
manual(void)
{
	char *data = test_data("..");
	char *path = NULL;
	char *text = calloc(1, 1 << 16);
	FILE *file;

	EXPECT_GT(asprintf(&path, "%s/../docs/json.md", data), 0);
	file = fopen(path, "r");
	if (file == NULL)
		SKIP("the sources are not here");
	free(path);
	free(data);
	EXPECT_GT(fread(text, 1, (1 << 16) - 1, file), 1000);
	fclose(file);
	return text;
}

/* Names that come from files and drivers are no keys of ours. */
static bool
holds_names(const char *key)
{
	return strcmp(key, "events") == 0 || strcmp(key, "settings") == 0 ||
	    strcmp(key, "driver_calls") == 0;
}

static void
expect_keys(const json_t *json, const char *text)
{
	const char *key;
	json_t *value;
	size_t i;
	char quoted[128];

	json_object_foreach((json_t *)json, key, value)
	{
		snprintf(quoted, sizeof(quoted), "`%s`", key);
		if (strstr(text, quoted) == NULL)
			FAIL("docs/json.md lacks %s", quoted);
		if (!holds_names(key))
			expect_keys(value, text);
	}
	json_array_foreach(json, i, value)
	{
		expect_keys(value, text);
	}
}

TEST(every_key_is_in_the_manual_and_objects_have_a_version)
{
	static const struct {
		const char *command;
		int status;
		bool lines; /* one object a line */
	} commands[] = { { "show", 0, false }, { "stats", 0, false },
		{ "top", 0, false }, { "oom", 0, false }, { "leaks", 1, false },
		{ "frag", 0, false }, { "check", 0, false },
		{ "trace", 0, true }, { "replay", 0, true } };
	char *text = manual();

	for (size_t i = 0; i < sizeof(commands) / sizeof(*commands); i++) {
		struct command_result result =
		    command_weir(commands[i].command, "--json", train(), NULL);
		json_t *json;

		EXPECT_EQ(result.status, commands[i].status);
		if (commands[i].lines)
			*strchr(result.out, '\n') = '\0';
		json = json_loads(result.out, 0, NULL);
		EXPECT_NOT_NULL(json);
		if (!commands[i].lines)
			EXPECT_EQ(number_at(json, "format_version"), 1);
		expect_keys(json, text);
		json_decref(json);
		command_free(&result);
	}
	free(text);
}

TEST(what_only_a_flag_prints_is_in_the_manual_too)
{
	char *text = manual();
	struct command_result result =
	    command_weir("replay", "--json", "--explain", train(), NULL);
	json_t *json;

	*strchr(result.out, '\n') = '\0'; /* the first device */
	json = json_loads(result.out, 0, NULL);
	EXPECT_NOT_NULL(json_object_get(json, "served"));
	expect_keys(json, text);
	json_decref(json);
	command_free(&result);
	free(text);
}

TEST(two_snapshots_are_in_the_manual_too)
{
	static const char *const commands[] = { "diff", "merge" };
	char *text = manual();

	for (size_t i = 0; i < 2; i++) {
		struct command_result result = command_weir(commands[i],
		    "--json", snapshot_data("segments.pickle"), train(), NULL);
		json_t *json = json_loads(result.out, 0, NULL);

		EXPECT_NOT_NULL(json);
		EXPECT_EQ(number_at(json, "format_version"), 1);
		expect_keys(json, text);
		json_decref(json);
		command_free(&result);
	}
	free(text);
}

TEST(what_a_running_program_says_is_in_the_manual)
{
	char *text = manual();
	struct command_result result;
	struct program program;
	char pid[32];
	json_t *json;

	runtime_folder();
	program = program_start("--watch");
	program_step(&program, 'a', 0);
	snprintf(pid, sizeof(pid), "%ld", (long)program.pid);
	result = command_weir("watch", "--json", "--once", pid, NULL);
	json = json_loads(result.out, 0, NULL);
	EXPECT_NOT_NULL(json);
	expect_keys(json, text);
	json_decref(json);
	command_free(&result);
	result = command_weir("ctl", "--json", pid, "limit", NULL);
	json = json_loads(result.out, 0, NULL);
	EXPECT_EQ(number_at(json, "format_version"), 1);
	expect_keys(json, text);
	json_decref(json);
	command_free(&result);
	EXPECT_EQ(program_finish(&program), 0);
	free(text);
}
