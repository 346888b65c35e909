/*
 * Running the weir command on a snapshot, and reading its answer.
 */
#include "tests/tools/weir/answer.h"

#include <stdlib.h>
#include <string.h>

#include "tests/support/test.h"
#include "tools/weir/page.h"

static char *kept[256];
static size_t kept_count;

static void
free_kept(void)
{
	while (kept_count > 0)
		free(kept[--kept_count]);
}

void
need_page(void)
{
	if (page_bytes == 0)
		SKIP("this build is without the page (VIEWER=0, or no node)");
}

static const char *
keep(char *path)
{
	if (kept_count == 0)
		EXPECT_EQ(atexit(free_kept), 0);
	EXPECT_LT(kept_count, 256);
	kept[kept_count++] = path;
	return path;
}

const char *
snapshot_data(const char *name)
{
	char path[128];

	snprintf(path, sizeof(path), "snapshots/%s", name);
	return keep(test_data(path));
}

const char *
written(const char *name, const void *text, size_t length)
{
	return keep(test_file(name, text, length));
}

const char *
train(void)
{
	return snapshot_data("train4.pickle");
}

struct command_result
ask(int status, const char *command, const char *path, const char *flag,
    const char *value)
{
	struct command_result result =
	    command_weir(command, path, flag, value, NULL);

	if (result.status != status)
		FAIL("weir %s: exit status %d: %s", command, result.status,
		    result.err);
	EXPECT_STR_EQ(result.err, "");
	return result;
}

json_t *
ask_json(int status, const char *command, const char *path, const char *flag,
    const char *value)
{
	struct command_result result =
	    command_weir(command, "--json", path, flag, value, NULL);
	json_error_t error;
	json_t *json;

	if (result.status != status)
		FAIL("weir %s: exit status %d: %s", command, result.status,
		    result.err);
	EXPECT_STR_EQ(result.err, "");
	json = json_loads(result.out, 0, &error);
	if (json == NULL)
		FAIL("not JSON: %s\n%s", error.text, result.out);
	command_free(&result);
	return json;
}

const json_t *
value_at(const json_t *json, const char *path)
{
	char copy[256];
	char *rest;

	snprintf(copy, sizeof(copy), "%s", path);
	for (char *key = strtok_r(copy, ".", &rest); key != NULL;
	     key = strtok_r(NULL, ".", &rest)) {
		json = json_is_array(json) ?
		    json_array_get(json, (size_t)atoi(key)) :
		    json_object_get(json, key);
		if (json == NULL)
			FAIL("there is no '%s' in the answer", path);
	}
	return json;
}

uint64_t
number_at(const json_t *json, const char *path)
{
	const json_t *value = value_at(json, path);

	if (!json_is_integer(value))
		FAIL("'%s' is no integer", path);
	return (uint64_t)json_integer_value(value);
}

const char *
text_at(const json_t *json, const char *path)
{
	const json_t *value = value_at(json, path);

	if (!json_is_string(value))
		FAIL("'%s' is no text", path);
	return json_string_value(value);
}

void
expect_begin(const char *text, const char *begin)
{
	if (strncmp(text, begin, strlen(begin)) != 0)
		FAIL("expected '%s', it is '%.200s'", begin, text);
}

void
expect_refused(const char *command, const char *path, const char *why)
{
	struct command_result result = command_weir(command, path, NULL);

	if (result.status != 2)
		FAIL(
		    "weir %s %s: exit status %d", command, path, result.status);
	EXPECT_STR_EQ(result.out, "");
	EXPECT_STR_HAS(result.err, path);
	EXPECT_STR_HAS(result.err, why);
	command_free(&result);
}
