/*
 * The output of --json has a version, and docs/json.md has each of its keys.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/test.h"
#include "tests/tools/weir/answer.h"
#include "tests/tools/weir/stepped.h"

/* The whole text of a page of docs/. */
static char *
manual(const char *page)
{
	char *data = test_data("..");
	char *path = NULL;
	char *text = calloc(1, 1 << 16);
	FILE *file;

	EXPECT_GT(asprintf(&path, "%s/../docs/%s.md", data, page), 0);
	file = fopen(path, "r");
	if (file == NULL)
		SKIP("the sources are not here");
	free(path);
	free(data);
	EXPECT_GT(fread(text, 1, (1 << 16) - 1, file), 1000);
	fclose(file);
	return text;
}

/* The part of docs/json.md on a command: the text for all commands, and the row
 * of the command. The caller frees it. */
static char *
manual_of(const char *command)
{
	char *text = manual("json");
	char *table = strstr(text, "\n| command |");
	char *both = NULL;
	char head[32];
	char *row;

	EXPECT_NOT_NULL(table);
	snprintf(head, sizeof(head), "\n| `%s` |", command);
	EXPECT_STR_HAS(table, head);
	row = strstr(table, head);
	EXPECT_NOT_NULL(row);
	/* A row may refer to the list of statistics. */
	char *end = strchr(row + 1, '\n');
	EXPECT_NOT_NULL(end);
	*end = '\0';
	char *counters = strstr(row + 1, "(counters.md)") != NULL ?
	    manual("counters") :
	    calloc(1, 1);
	EXPECT_GT(asprintf(&both, "%.*s%s%s", (int)(table - text), text,
		      row + 1, counters),
	    0);
	free(counters);
	free(text);
	return both;
}

/* True for objects whose keys are names from files and drivers. */
static bool
holds_names(const char *key)
{
	return strcmp(key, "events") == 0 || strcmp(key, "settings") == 0 ||
	    strcmp(key, "driver_calls") == 0;
}

static void
expect_keys(const char *command, const json_t *json, const char *text)
{
	const char *key;
	json_t *value;
	size_t i;
	char quoted[128];

	json_object_foreach((json_t *)json, key, value)
	{
		snprintf(quoted, sizeof(quoted), "`%s`", key);
		if (strstr(text, quoted) == NULL)
			FAIL("docs/json.md lacks %s of %s", quoted, command);
		if (!holds_names(key))
			expect_keys(command, value, text);
	}
	json_array_foreach(json, i, value)
	{
		expect_keys(command, value, text);
	}
}

/* ---- The schema ---------------------------------------------------------- */

static const char *
type_name(const json_t *value)
{
	static const char *const names[] = {
		[JSON_OBJECT] = "object",
		[JSON_ARRAY] = "array",
		[JSON_STRING] = "string",
		[JSON_INTEGER] = "integer",
		[JSON_REAL] = "number",
		[JSON_TRUE] = "boolean",
		[JSON_FALSE] = "boolean",
		[JSON_NULL] = "null",
	};

	return names[json_typeof(value)];
}

/* True if a type of the schema, a name or a list of names, has the value's. A
 * whole number is a number, too. */
static bool
allows_type(const json_t *type, const json_t *value)
{
	const char *name = type_name(value);
	const json_t *one;
	size_t i;

	if (json_is_string(type))
		return strcmp(json_string_value(type), name) == 0 ||
		    (strcmp(json_string_value(type), "number") == 0 &&
			json_is_number(value));
	json_array_foreach(type, i, one)
	{
		if (allows_type(one, value))
			return true;
	}
	return type == NULL;
}

static void expect_schema(const json_t *defs, const json_t *schema,
    const json_t *value, const char *where);

/* Check the keys of an object: none is missing, and each is known. */
static void
expect_properties(const json_t *defs, const json_t *schema, const json_t *value,
    const char *where)
{
	const json_t *properties = json_object_get(schema, "properties");
	const json_t *others = json_object_get(schema, "additionalProperties");
	const json_t *required;
	const char *key;
	json_t *one;
	size_t i;

	json_array_foreach(json_object_get(schema, "required"), i, required)
	{
		if (json_object_get(value, json_string_value(required)) == NULL)
			FAIL("%s lacks %s", where, json_string_value(required));
	}
	/* An object without properties, such as host, is not described. */
	if (properties == NULL && others == NULL)
		return;
	json_object_foreach((json_t *)value, key, one)
	{
		const json_t *of = json_object_get(properties, key);
		char path[256];

		snprintf(path, sizeof(path), "%s.%s", where, key);
		if (of == NULL && others == NULL)
			FAIL("docs/json.schema.json lacks %s", path);
		expect_schema(defs, of != NULL ? of : others, one, path);
	}
}

static void
expect_schema(const json_t *defs, const json_t *schema, const json_t *value,
    const char *where)
{
	const char *ref = json_string_value(json_object_get(schema, "$ref"));
	const json_t *constant = json_object_get(schema, "const");
	json_t *one;
	size_t i;

	if (ref != NULL)
		schema = json_object_get(defs, ref + strlen("#/$defs/"));
	EXPECT_NOT_NULL(schema);
	if (constant != NULL && !json_equal(constant, value))
		FAIL("%s is not the constant of the schema", where);
	if (!allows_type(json_object_get(schema, "type"), value))
		FAIL("%s is of type %s", where, type_name(value));
	if (json_is_object(value))
		expect_properties(defs, schema, value, where);
	json_array_foreach(value, i, one)
	{
		const json_t *items = json_object_get(schema, "items");

		if (items == NULL)
			FAIL("docs/json.schema.json lacks the items of %s",
			    where);
		expect_schema(defs, items, one, where);
	}
}

/* The definitions of docs/json.schema.json. The caller releases them. */
static json_t *
schema_definitions(void)
{
	char *path = test_data("../../docs/json.schema.json");
	json_t *schema = json_load_file(path, 0, NULL);
	json_t *defs = json_incref(json_object_get(schema, "$defs"));

	if (schema == NULL)
		SKIP("the sources are not here");
	EXPECT_NOT_NULL(defs);
	json_decref(schema);
	free(path);
	return defs;
}

/* Check the objects of `out`, one after the other. */
static void
expect_described(const char *definition, const char *out)
{
	json_t *defs = schema_definitions();
	json_error_t error;
	json_t *json;

	while (*out != '\0') {
		json = json_loads(out, JSON_DISABLE_EOF_CHECK, &error);
		EXPECT_NOT_NULL(json);
		expect_schema(
		    defs, json_object_get(defs, definition), json, definition);
		json_decref(json);
		out += error.position;
		out += strspn(out, "\n");
	}
	json_decref(defs);
}

TEST(the_model_of_pytorch_is_in_the_schema)
{
	struct command_result result = command_weir(
	    "replay", "--json", "--as=torch", "--limit=80M", train(), NULL);

	EXPECT_EQ(result.status, 0);
	expect_described("replay_as", result.out);
	command_free(&result);
}

TEST(the_schema_refuses_what_is_not_described)
{
	json_t *defs = schema_definitions();
	const json_t *type = json_object_get(
	    json_object_get(
		json_object_get(json_object_get(defs, "leaks"), "properties"),
		"traced_allocs"),
	    "type");
	json_t *number = json_integer(1);
	json_t *text = json_string("1");

	EXPECT(allows_type(type, number));
	EXPECT(!allows_type(type, text));
	json_decref(number);
	json_decref(text);
	json_decref(defs);
}

/* Read the objects that a command printed one after the other. `definition` is
 * the command's in the schema. */
static void
expect_output_as(const char *command, const char *definition, const char *out)
{
	char *text = manual_of(command);
	const char *all = out;
	size_t count = 0;
	json_error_t error;
	json_t *json;

	while (*out != '\0') {
		json = json_loads(out, JSON_DISABLE_EOF_CHECK, &error);
		if (json == NULL)
			FAIL("%s: %s", command, error.text);
		EXPECT_EQ(number_at(json, "format_version"), 1);
		expect_keys(command, json, text);
		json_decref(json);
		out += error.position;
		out += strspn(out, "\n");
		count++;
	}
	EXPECT_GT(count, 0);
	free(text);
	expect_described(definition, all);
}

static void
expect_output(const char *command, const char *out)
{
	expect_output_as(command, command, out);
}

TEST(every_key_is_in_the_manual_and_objects_have_a_version)
{
	static const struct {
		const char *command;
		int status;
	} commands[] = { { "show", 0 }, { "stats", 0 }, { "top", 0 },
		{ "oom", 0 }, { "leaks", 1 }, { "frag", 0 }, { "check", 0 },
		{ "trace", 0 }, { "replay", 0 } };

	for (size_t i = 0; i < sizeof(commands) / sizeof(*commands); i++) {
		struct command_result result =
		    command_weir(commands[i].command, "--json", train(), NULL);

		EXPECT_EQ(result.status, commands[i].status);
		expect_output(commands[i].command, result.out);
		command_free(&result);
	}
}

TEST(keys_that_only_a_flag_prints_are_in_the_manual_too)
{
	static const char *const flags[][2] = { { "replay", "--explain" },
		{ "replay", "--fit" }, { "replay", "--touch" },
		{ "replay", "--limit=80M" }, { "replay", "--conf=tcache:0" },
		{ "show", "--blocks" }, { "top", "--by=size" },
		{ "top", "--by=lifetime" }, { "oom", "--size=1G" } };

	for (size_t i = 0; i < sizeof(flags) / sizeof(*flags); i++) {
		struct command_result result = command_weir(
		    flags[i][0], "--json", flags[i][1], train(), NULL);

		EXPECT_EQ(result.status, 0);
		expect_output(flags[i][0], result.out);
		command_free(&result);
	}
}

static char *
generated_trace(const char *kind)
{
	struct command_result made = command_weir(
	    "generate", kind, "--repeat", "2", "--events", "6000", NULL);
	char *path = test_file("program.csv", made.out, strlen(made.out));

	EXPECT_EQ(made.status, 0);
	command_free(&made);
	return path;
}

/* A program with a plan, one whose plan is not written, and one without. */
TEST(output_about_a_plan_is_in_the_manual_too)
{
	static const struct {
		const char *kind;
		int status;
		bool plan;
	} kinds[] = { { "train", 0, true }, { "pipeline", 1, true },
		{ "vectors", 1, false } };

	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
		char *trace = generated_trace(kinds[i].kind);
		char *plan = test_file("run.plan", "", 0);
		struct command_result result =
		    command_weir("plan", "--json", trace, "-o", plan, NULL);
		json_t *json = json_loads(result.out, 0, NULL);

		EXPECT_EQ(result.status, kinds[i].status);
		EXPECT_EQ(json_is_string(json_object_get(json, "written")),
		    kinds[i].status == 0);
		EXPECT_EQ(json_is_object(json_object_get(json, "plan")),
		    kinds[i].plan);
		EXPECT_EQ(json_is_string(json_object_get(json, "reason")),
		    !kinds[i].plan);
		expect_output("plan", result.out);
		json_decref(json);
		command_free(&result);
		free(plan);
		free(trace);
	}
}

TEST(output_about_a_plan_and_a_newer_recording_is_in_the_manual_too)
{
	char *plan = test_file("run.plan", "", 0);
	char *trace = generated_trace("train");
	struct command_result result =
	    command_weir("plan", trace, "-o", plan, NULL);

	EXPECT_EQ(result.status, 0);
	command_free(&result);
	for (int fits = 1; fits >= 0; fits--) {
		result = command_weir(
		    "plan", "--json", "--check", plan, trace, NULL);
		json_t *json = json_loads(result.out, 0, NULL);
		EXPECT_EQ(result.status, !fits);
		EXPECT_EQ(json_is_true(json_object_get(json, "fits")), fits);
		expect_output_as("plan --check", "plan_check", result.out);
		json_decref(json);
		command_free(&result);
		free(trace);
		trace = generated_trace("vectors");
	}
	free(trace);
	free(plan);
}

TEST(two_snapshots_are_in_the_manual_too)
{
	static const char *const commands[] = { "diff", "merge" };

	for (size_t i = 0; i < 2; i++) {
		struct command_result result = command_weir(commands[i],
		    "--json", snapshot_data("segments.pickle"), train(), NULL);

		expect_output(commands[i], result.out);
		command_free(&result);
	}
}

TEST(output_that_needs_no_snapshot_is_in_the_manual_too)
{
	static const char *const commands[] = { "options", "info" };

	for (size_t i = 0; i < 2; i++) {
		struct command_result result =
		    command_weir(commands[i], "--json", NULL);

		EXPECT_EQ(result.status, 0);
		expect_output(commands[i], result.out);
		command_free(&result);
	}
}

TEST(output_of_a_running_program_is_in_the_manual)
{
	struct command_result result;
	struct program program;
	char pid[32];

	runtime_folder();
	program = program_start("--watch");
	program_step(&program, 'a', 0);
	snprintf(pid, sizeof(pid), "%ld", (long)program.pid);
	result = command_weir("watch", "--json", "--once", pid, NULL);
	expect_output("watch", result.out);
	command_free(&result);
	result = command_weir("watch", "--json", NULL);
	expect_output("watch", result.out);
	command_free(&result);
	result = command_weir("ctl", "--json", pid, "limit", NULL);
	expect_output("ctl", result.out);
	command_free(&result);
	EXPECT_EQ(program_finish(&program), 0);
}
