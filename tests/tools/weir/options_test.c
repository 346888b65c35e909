/*
 * weir options: the whole table, as text and as JSON.
 */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include <weir/weir.h>

#include "tests/support/command.h"
#include "tests/support/test.h"

static json_t *
parsed(const char *text)
{
	json_error_t error;
	json_t *json = json_loads(text, 0, &error);

	if (json == NULL)
		FAIL("not JSON: %s\n%s", error.text, text);
	EXPECT_EQ(
	    json_integer_value(json_object_get(json, "format_version")), 1);
	return json;
}

static const char *
text_at(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));

	if (text == NULL)
		FAIL("no text '%s'", key);
	return text;
}

/* The list of options in the JSON of `weir options --json`. */
static json_t *
options_of(const char *text)
{
	json_t *json = parsed(text);
	json_t *all = json_incref(json_object_get(json, "options"));

	EXPECT_NOT_NULL(all);
	json_decref(json);
	return all;
}

static void
plain_environment(void)
{
	unsetenv("WEIR_CONF");
	unsetenv("PYTORCH_CUDA_ALLOC_CONF");
	unsetenv("PYTORCH_ALLOC_CONF");
}

TEST(every_option_of_the_library_is_printed_as_json)
{
	struct weir_option option;
	struct command_result result;
	json_t *all;
	size_t count = 0;

	plain_environment();
	result = command_weir("options", "--json", NULL);
	EXPECT_EQ(result.status, 0);
	EXPECT_STR_EQ(result.err, "");
	all = options_of(result.out);
	for (; weir_option_at(count, &option) == WEIR_OK; count++) {
		json_t *one = json_array_get(all, count);

		EXPECT_STR_EQ(text_at(one, "key"), option.key);
		EXPECT_STR_EQ(text_at(one, "value"), option.value);
		EXPECT_STR_EQ(text_at(one, "type"), option.type);
		EXPECT_STR_EQ(text_at(one, "default"), option.fallback);
		EXPECT_STR_EQ(text_at(one, "range"), option.range);
		EXPECT_STR_EQ(text_at(one, "help"), option.help);
		EXPECT_STR_EQ(text_at(one, "source"), "default");
	}
	EXPECT_GT(count, 0);
	EXPECT_EQ(json_array_size(all), count);
	json_decref(all);
	command_free(&result);
}

TEST(every_option_of_the_library_is_printed_as_text)
{
	struct weir_option option;
	struct command_result result;

	plain_environment();
	result = command_weir("options", NULL);
	EXPECT_EQ(result.status, 0);
	for (size_t i = 0; weir_option_at(i, &option) == WEIR_OK; i++) {
		EXPECT_STR_HAS(result.out, option.key);
		EXPECT_STR_HAS(result.out, option.help);
	}
	/* No escapes if stdout is no terminal. */
	EXPECT_NULL(strchr(result.out, '\033'));
	command_free(&result);
}

TEST(a_value_of_the_environment_names_its_source)
{
	struct command_result result;
	size_t changed = 0;
	json_t *all;
	json_t *one;
	size_t i;

	plain_environment();
	setenv("WEIR_CONF", "expandable_segments:False", 1);
	result = command_weir("options", "--json", NULL);
	EXPECT_EQ(result.status, 0);
	all = options_of(result.out);
	json_array_foreach(all, i, one)
	{
		if (strcmp(text_at(one, "source"), "default") == 0)
			continue;
		changed++;
		EXPECT_STR_EQ(text_at(one, "key"), "expandable_segments");
		EXPECT_STR_EQ(text_at(one, "value"), "False");
		EXPECT_STR_EQ(text_at(one, "default"), "True");
		EXPECT_STR_EQ(text_at(one, "source"), "environment");
	}
	EXPECT_EQ(changed, 1);
	json_decref(all);
	command_free(&result);
}

TEST(a_wrong_environment_is_a_failure_that_names_the_key)
{
	struct command_result result;

	plain_environment();
	setenv("WEIR_CONF", "no_such_option:1", 1);
	result = command_weir("options", NULL);
	EXPECT_EQ(result.status,
	    2); /* the exit status that the manual states for wrong options */
	EXPECT_STR_EQ(result.out, "");
	EXPECT_STR_HAS(result.err, "no_such_option");
	command_free(&result);
}
