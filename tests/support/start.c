/*
 * Starting the programs of tests/programs.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/start.h"
#include "tests/support/test.h"

enum { ARGUMENTS_MAX = 12 };

/* Returns "NAME=value" on the heap. */
static char *
setting(const char *name, const char *value)
{
	char *text;

	if (asprintf(&text, "%s=%s", name, value) < 0)
		FAIL("out of memory");
	return text;
}

/* Returns a sanitizer's options: those of the test and one more. */
static char *
options(const char *name, const char *more)
{
	const char *old = getenv(name);
	char *text;

	if (asprintf(&text, "%s=%s:%s", name, old == NULL ? "" : old, more) < 0)
		FAIL("out of memory");
	return text;
}

/* Returns "LD_PRELOAD=" and the libraries that are not NULL. */
static char *
preload_of(const struct start *how)
{
	char *weir = how->preload ? test_build("lib/libweir_preload.so") : NULL;
	const char *libraries[] = { how->before, weir, how->after };
	char list[4096] = "";

	for (int i = 0; i < 3; i++) {
		if (libraries[i] == NULL)
			continue;
		EXPECT_LT(
		    strlen(list) + strlen(libraries[i]) + 2, sizeof(list));
		if (list[0] != '\0')
			strcat(list, ":");
		strcat(list, libraries[i]);
	}
	free(weir);
	return setting("LD_PRELOAD", list);
}

/* A test run selects the driver by this variable. */
bool
start_simulated(void)
{
	return getenv("WEIR_LIBCUDA") != NULL;
}

/* A GPU machine may lack the runtime as a shared library. */
static void
skip_without_libraries(const struct command_result *result)
{
	if (!start_simulated() && result->status == 127 &&
	    strstr(result->err, "error while loading shared libraries") != NULL)
		SKIP("this machine lacks a library of the program");
}

/*
 * The program treats reports of the simulated device as failures. ASan insists
 * on being loaded before all preloaded libraries, which is not possible here,
 * and TSan sleeps for a second at the end of each program.
 */
struct command_result
start(const struct start *how)
{
	const char *argv[ARGUMENTS_MAX];
	char *path;
	char *folder = test_build("tests/programs");
	char *preload = preload_of(how);
	char *report =
	    setting("WEIR_REPORT", how->report == NULL ? "" : how->report);
	char *machine;
	char *asan = options("ASAN_OPTIONS", "verify_asan_link_order=0");
	char *tsan = options("TSAN_OPTIONS", "atexit_sleep_ms=0");
	size_t n = 0;
	struct command_result result;

	if (asprintf(&machine, "SIMCUDA_CONF=abort:1,verbose:1%s%s",
		how->machine == NULL ? "" : ",",
		how->machine == NULL ? "" : how->machine) < 0)
		FAIL("out of memory");
	if (how->program[0] == '/')
		path = strdup(how->program);
	else if (asprintf(&path, "%s/%s", folder, how->program) < 0)
		path = NULL;
	EXPECT_NOT_NULL(path);
	argv[n++] = "env";
	argv[n++] = machine;
	argv[n++] = asan;
	argv[n++] = tsan;
	argv[n++] = preload;
	argv[n++] = report;
	if (how->variable != NULL)
		argv[n++] = how->variable;
	if (how->second != NULL)
		argv[n++] = how->second;
	argv[n++] = path;
	argv[n++] = how->argument;
	argv[n] = NULL;
	result = command_run(argv);
	free(machine);
	free(tsan);
	free(asan);
	free(report);
	free(preload);
	free(folder);
	free(path);
	skip_without_libraries(&result);
	return result;
}

char *
report_path(void)
{
	char *path = test_file("report.json", "", 0);

	EXPECT_EQ(remove(path), 0);
	return path;
}

json_t *
report_read(const char *path)
{
	json_error_t error;
	json_t *report = json_load_file(path, JSON_REJECT_DUPLICATES, &error);

	if (report == NULL)
		FAIL("%s:%d: %s", path, error.line, error.text);
	return report;
}

long long
report_number(const json_t *report, const char *key)
{
	const json_t *value = json_object_get(report, key);

	if (!json_is_integer(value))
		FAIL("the report has no number %s", key);
	return json_integer_value(value);
}

json_t *
start_twice_as(struct start how)
{
	char *path = report_path();
	struct start plain = how;
	struct command_result bare;
	struct command_result loaded;
	json_t *report;

	plain.variable = NULL;
	plain.second = NULL;
	bare = start(&plain);
	how.preload = true;
	how.report = path;
	loaded = start(&how);
	EXPECT_STR_EQ(bare.err, "");
	EXPECT_EQ(bare.status, 0);
	EXPECT_STR_EQ(loaded.err, "");
	EXPECT_EQ(loaded.status, 0);
	EXPECT_STR_EQ(loaded.out, bare.out);
	report = report_read(path);
	EXPECT(json_is_true(json_object_get(report, "serving")));
	command_free(&bare);
	command_free(&loaded);
	free(path);
	return report;
}

json_t *
start_twice(const char *program, const char *argument)
{
	return start_twice_as(
	    (struct start){ .program = program, .argument = argument });
}

void
serves_as(struct start how)
{
	json_t *report = start_twice_as(how);

	EXPECT_GT(report_number(report, "allocations_served"), 0);
	EXPECT_GT(report_number(report, "peak_live_bytes"), 0);
	EXPECT_GE(report_number(report, "peak_held_bytes"),
	    report_number(report, "peak_live_bytes"));
	EXPECT_EQ(report_number(report, "allocations_served"),
	    report_number(report, "frees_served"));
	EXPECT_EQ(report_number(report, "live_bytes_at_exit"), 0);
	json_decref(report);
}

void
serves(const char *program, const char *argument)
{
	serves_as((struct start){ .program = program, .argument = argument });
}
