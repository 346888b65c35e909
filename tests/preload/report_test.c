/*
 * The report of a preloaded program.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/start.h"
#include "tests/support/test.h"

TEST(the_report_counts_requested_and_served_calls)
{
	json_t *report = start_twice("driver_query", NULL);
	const json_t *calls = json_object_get(report, "calls");
	const json_t *alloc = json_object_get(calls, "cuMemAlloc_v2");
	const json_t *made = json_object_get(report, "driver_calls");

	EXPECT_NOT_NULL(alloc);
	/* Two of the exercise's requests are wrong on purpose, and one is
	 * larger than the device. */
	EXPECT_EQ(
	    report_number(alloc, "seen"), report_number(alloc, "served") + 3);
	EXPECT_GT(report_number(made, "cuMemAlloc"), 0);
	EXPECT_LT(report_number(made, "cuMemAlloc"),
	    report_number(alloc, "served") / 10);
	EXPECT_STR_HAS(json_string_value(json_object_get(report, "program")),
	    "driver_query");
	EXPECT_EQ(report_number(report, "ooms"), 1);
	/* The largest live size is 64 MiB. */
	EXPECT_EQ(report_number(report, "peak_live_bytes"), 64 << 20);
	json_decref(report);
}

TEST(a_report_can_go_to_stderr)
{
	struct start how = {
		.program = "driver_dlsym", .preload = true, .report = "-"
	};
	struct command_result result = start(&how);

	EXPECT_EQ(result.status, 0);
	EXPECT_STR_HAS(result.err, "weir: ");
	EXPECT_STR_HAS(
	    result.err, "  peak live               64.00 MiB   the most ");
	EXPECT_STR_HAS(result.err, "  live at exit              0 bytes\n");
	EXPECT_STR_HAS(result.err, "allocations served");
	command_free(&result);
}

/* Join the reports that a program with "%p" in its report's name leaves, with a
 * line "files: N" before them. */
static struct command_result
reports_of(const char *program, const char *argument)
{
	char *path = report_path();
	char *named;
	struct start how = {
		.program = program,
		.argument = argument,
		.preload = true,
	};
	struct command_result result;

	if (asprintf(&named, "%s.%%p", path) < 0)
		FAIL("out of memory");
	how.report = named;
	result = start(&how);
	EXPECT_EQ(result.status, 0);
	EXPECT_STR_EQ(result.err, "");
	command_free(&result);
	result = command_run((const char *const[]){ "sh", "-c",
	    "set -- \"$0\".[0-9]*; echo files: $#; cat \"$@\"", path, NULL });
	free(named);
	free(path);
	return result;
}

/* exec() keeps the process, so the second program's report remains. */
TEST(a_report_can_be_named_after_its_process)
{
	struct command_result result = reports_of("driver_exec", NULL);

	EXPECT_STR_HAS(result.out, "files: 1\n");
	EXPECT_STR_HAS(result.out, "\"allocations_served\": 50,");
	command_free(&result);
}

TEST(a_child_reports_its_own_calls)
{
	struct command_result result = reports_of("driver_fork", NULL);

	/* The parent, and the child that was forked before the first use of the
	 * driver. */
	EXPECT_STR_HAS(result.out, "files: 2\n");
	EXPECT_STR_HAS(result.out, "\"allocations_served\": 50,");
	EXPECT_STR_HAS(result.out, "\"allocations_served\": 101,");
	command_free(&result);
}

TEST(a_child_that_does_nothing_reports_nothing)
{
	struct command_result result = reports_of("driver_query", "fork");

	EXPECT_STR_HAS(result.out, "files: 1\n");
	EXPECT_STR_HAS(result.out, "\"allocations_served\": 624,");
	command_free(&result);
}

TEST(a_failed_write_of_the_report_is_reported)
{
	struct start how = { .program = "driver_dlsym",
		.preload = true,
		.report = "/no/such/folder/report" };
	struct command_result result = start(&how);

	EXPECT_EQ(result.status, 0);
	EXPECT_STR_HAS(result.err, "/no/such/folder/report");
	EXPECT_STR_HAS(result.err, "No such file");
	command_free(&result);
}

static struct command_result
run_reported(const char *path)
{
	return start(&(struct start){
	    .program = "driver_dlsym", .preload = true, .report = path });
}

TEST(a_reports_file_is_its_users_alone)
{
	char *path = report_path();
	struct command_result result;
	struct stat about;

	umask(0);
	result = run_reported(path);
	EXPECT_EQ(result.status, 0);
	EXPECT_EQ(stat(path, &about), 0);
	EXPECT_EQ(about.st_mode & 0777, 0600);
	command_free(&result);
	free(path);
}

/* The target of another user's link must not be overwritten. */
TEST(a_report_takes_the_place_of_a_link_and_spares_its_target)
{
	char *target = test_file("target", "mine", 4);
	char *path = report_path();
	struct command_result result;
	struct stat about;

	EXPECT_EQ(symlink(target, path), 0);
	result = run_reported(path);
	EXPECT_EQ(result.status, 0);
	EXPECT_EQ(lstat(path, &about), 0);
	EXPECT(S_ISREG(about.st_mode));
	EXPECT_EQ(stat(target, &about), 0);
	EXPECT_EQ(about.st_size, 4);
	json_decref(report_read(path));
	command_free(&result);
	free(path);
	free(target);
}

/* These cannot be replaced by a file. */
TEST(a_report_goes_into_a_pipe_and_a_device)
{
	struct command_result result = run_reported("/dev/stderr");

	EXPECT_EQ(result.status, 0);
	EXPECT_STR_HAS(result.err, "\"allocations_served\"");
	command_free(&result);
	result = run_reported("/dev/null");
	EXPECT_EQ(result.status, 0);
	EXPECT_STR_EQ(result.err, "");
	command_free(&result);
}

/* ---- Numbers that are known beforehand ----------------------------------- */

enum { KIB = 1 << 10, MIB = 1 << 20 };

static json_t *
report_of(const char *program, const char *argument, const char *variable)
{
	return start_twice_as((struct start){
	    .program = program, .argument = argument, .variable = variable });
}

/* The row of the only stream of that name; NULL: of the only stream with a
 * handle. */
static const json_t *
stream_row(const json_t *report, const char *name)
{
	const json_t *found = NULL;
	const json_t *row;
	size_t i;

	json_array_foreach(json_object_get(report, "streams"), i, row)
	{
		const char *its =
		    json_string_value(json_object_get(row, "stream"));

		EXPECT_NOT_NULL(its);
		if (name == NULL ? strncmp(its, "0x", 2) == 0 :
				   strcmp(its, name) == 0) {
			EXPECT_NULL(found);
			found = row;
		}
	}
	EXPECT_NOT_NULL(found);
	return found;
}

/*
 * Three blocks of 1 MiB and four of 100 KiB share pages, at least two of them,
 * and one block of 3 MiB has two pages.
 */
TEST(the_report_has_the_bytes_that_the_driver_alone_would_have_held)
{
	json_t *report = report_of("runtime_report", NULL, NULL);

	EXPECT_EQ(
	    report_number(report, "peak_live_bytes"), 6 * MIB + 4 * 100 * KIB);
	EXPECT_EQ(report_number(report, "peak_without_caching_bytes"), 8 * MIB);
	EXPECT_EQ(report_number(report, "live_blocks_at_exit"), 0);
	json_decref(report);
}

TEST(hits_are_counted_by_stream)
{
	json_t *report = report_of("runtime_report", NULL, NULL);
	const json_t *own = stream_row(report, NULL);
	const json_t *none = stream_row(report, "no stream");

	EXPECT_EQ(report_number(own, "device"), 0);
	EXPECT_EQ(report_number(own, "requests"), 101);
	EXPECT_EQ(report_number(own, "bytes"), 100 * 256 * KIB + 3 * MIB);
	/* All but the first request of the size, and the one that is larger
	 * than all before. */
	EXPECT_EQ(report_number(own, "hits"), 99);
	EXPECT_EQ(report_number(none, "requests"), 7);
	EXPECT_LT(report_number(none, "hits"), 7);
	json_decref(report);
}

TEST(streams_beyond_those_there_is_room_for_are_counted_together)
{
	json_t *report = report_of("runtime_report", "streams", NULL);
	const json_t *rows = json_object_get(report, "streams");
	const json_t *others = json_array_get(rows, 63);

	EXPECT_EQ(json_array_size(rows), 64);
	for (size_t i = 0; i < 63; i++)
		EXPECT_EQ(
		    report_number(json_array_get(rows, i), "requests"), 1);
	EXPECT_STR_EQ(
	    json_string_value(json_object_get(others, "stream")), "others");
	EXPECT_EQ(report_number(others, "device"), -1);
	EXPECT_EQ(report_number(others, "requests"), 37);
	EXPECT_EQ(report_number(others, "bytes"), 37 * 10 * KIB);
	json_decref(report);
}

/* Each request is either saved, or causes driver calls. */
TEST(saved_calls_are_those_that_do_not_reach_the_driver)
{
	json_t *caching = report_of("runtime_report", NULL, NULL);
	json_t *not_caching =
	    report_of("runtime_report", NULL, "WEIR_CONF=reclaim_always:True");

	EXPECT_EQ(report_number(caching, "allocations_served"), 108);
	EXPECT_EQ(report_number(caching, "frees_served"), 108);
	EXPECT_GE(report_number(caching, "calls_saved"), 2 * 108 - 16);
	EXPECT_LT(report_number(caching, "calls_saved"), 2 * 108);
	/* If all free memory goes back to the driver, each request makes
	 * calls. */
	EXPECT_EQ(report_number(not_caching, "allocations_served"), 108);
	EXPECT_EQ(report_number(stream_row(not_caching, NULL), "hits"), 0);
	EXPECT_GT(report_number(not_caching, "driver_calls_made"),
	    report_number(caching, "driver_calls_made") + 100);
	EXPECT_EQ(report_number(not_caching, "peak_without_caching_bytes"),
	    report_number(caching, "peak_without_caching_bytes"));
	json_decref(caching);
	json_decref(not_caching);
}

static long long
now_ns(void)
{
	struct timespec now;

	EXPECT_EQ(clock_gettime(CLOCK_MONOTONIC, &now), 0);
	return now.tv_sec * 1000000000LL + now.tv_nsec;
}

TEST(the_time_in_driver_calls_is_that_of_all_entries)
{
	long long began_ns = now_ns();
	json_t *report = report_of("runtime_report", NULL, NULL);
	long long took_ns = now_ns() - began_ns;
	const json_t *calls = json_object_get(report, "driver_calls");
	const json_t *ns = json_object_get(report, "driver_calls_ns");
	long long sum_calls = 0;
	long long sum_ns = 0;
	const char *name;
	json_t *value;

	json_object_foreach((json_t *)calls, name, value)
	{
		sum_calls += json_integer_value(value);
		sum_ns += report_number(ns, name);
	}
	EXPECT_EQ(json_object_size(ns), json_object_size(calls));
	EXPECT_EQ(report_number(report, "driver_calls_made"), sum_calls);
	EXPECT_EQ(report_number(report, "driver_ns"), sum_ns);
	/* A call takes some time, and all calls less than the program. */
	EXPECT_GT(report_number(ns, "cuMemCreate"), 100);
	EXPECT_LT(sum_ns, took_ns);
	json_decref(report);
}

/* ---- Leaks and sites ------------------------------------------------------
 */

/* True if a line of the site's stack begins with that function. */
static bool
is_from(const json_t *site, const char *function)
{
	size_t length = strlen(function);
	const json_t *line;
	size_t i;

	json_array_foreach(json_object_get(site, "stack"), i, line)
	{
		const char *text = json_string_value(line);

		if (strncmp(text, function, length) == 0 && text[length] == ' ')
			return true;
	}
	return false;
}

TEST(leaks_are_reported_with_the_functions_that_allocated)
{
	json_t *report =
	    report_of("runtime_report", "leak", "WEIR_REPORT_LEAKS=1");
	const json_t *leaks = json_object_get(report, "leaks");
	const json_t *larger = json_array_get(leaks, 0);
	const json_t *smaller = json_array_get(leaks, 1);

	EXPECT_EQ(report_number(report, "live_bytes_at_exit"), 4 * MIB);
	EXPECT_EQ(report_number(report, "live_blocks_at_exit"), 2);
	EXPECT_EQ(json_array_size(leaks), 2);
	EXPECT_EQ(report_number(larger, "live_bytes"), 3 * MIB);
	EXPECT_EQ(report_number(larger, "live_blocks"), 1);
	EXPECT(is_from(larger, "make_scratch"));
	EXPECT(is_from(larger, "main"));
	EXPECT_EQ(report_number(smaller, "live_bytes"), MIB);
	EXPECT_EQ(report_number(smaller, "live_blocks"), 1);
	EXPECT_EQ(report_number(smaller, "allocations"), 3);
	EXPECT(is_from(smaller, "load_weights"));
	EXPECT(!is_from(smaller, "make_scratch"));
	EXPECT_NULL(json_object_get(report, "sites"));
	json_decref(report);
}

TEST(a_program_that_frees_all_has_no_leaks)
{
	json_t *report =
	    report_of("runtime_report", NULL, "WEIR_REPORT_LEAKS=1");

	EXPECT(json_is_array(json_object_get(report, "leaks")));
	EXPECT_EQ(json_array_size(json_object_get(report, "leaks")), 0);
	json_decref(report);
}

TEST(a_wrong_number_of_sites_is_named_once)
{
	static const char *const wrong[] = { "x", "-1", "3x", " 3" };
	char variable[64];
	struct start how = { .program = "runtime_report",
		.preload = true,
		.report = "-",
		.variable = variable };

	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		struct command_result result;
		char complaint[64];
		const char *found;

		snprintf(variable, sizeof(variable), "WEIR_REPORT_SITES=%s",
		    wrong[i]);
		snprintf(complaint, sizeof(complaint),
		    "WEIR_REPORT_SITES: \"%s\"", wrong[i]);
		result = start(&how);
		EXPECT_EQ(result.status, 0);
		EXPECT_STR_HAS(result.err, complaint);
		found = strstr(result.err, complaint);
		EXPECT_NULL(strstr(found + 1, complaint));
		EXPECT_STR_HAS(result.err, "peak live");
		EXPECT_NULL(strstr(result.err, "allocated at the peak"));
		command_free(&result);
	}
}

TEST(sites_are_not_reported_unless_requested)
{
	json_t *report = report_of("runtime_report", "leak", NULL);

	EXPECT_NULL(json_object_get(report, "leaks"));
	EXPECT_NULL(json_object_get(report, "sites"));
	json_decref(report);
}

/* At the peak load_weights() and make_scratch() held most, and the same. */
TEST(sites_are_reported_by_their_bytes_at_the_peak)
{
	json_t *report =
	    report_of("runtime_report", NULL, "WEIR_REPORT_SITES=3");
	const json_t *sites = json_object_get(report, "sites");
	const json_t *third = json_array_get(sites, 2);

	EXPECT_EQ(json_array_size(sites), 3);
	for (size_t i = 0; i < 2; i++) {
		const json_t *site = json_array_get(sites, i);

		EXPECT_EQ(report_number(site, "bytes_at_peak"), 3 * MIB);
		EXPECT_EQ(report_number(site, "blocks_at_peak"),
		    is_from(site, "load_weights") ? 3 : 1);
		EXPECT_EQ(report_number(site, "live_blocks"), 0);
		EXPECT(is_from(site, "load_weights") ||
		    is_from(site, "make_scratch"));
	}
	EXPECT(is_from(third, "make_small"));
	EXPECT_EQ(report_number(third, "bytes_at_peak"), 4 * 100 * KIB);
	EXPECT_EQ(report_number(third, "allocations"), 4);
	EXPECT_NULL(json_object_get(report, "leaks"));
	json_decref(report);
}

TEST(more_sites_are_reported_if_more_are_requested)
{
	json_t *report =
	    report_of("runtime_report", NULL, "WEIR_REPORT_SITES=100");
	const json_t *sites = json_object_get(report, "sites");
	const json_t *last = json_array_get(sites, json_array_size(sites) - 1);

	EXPECT_EQ(json_array_size(sites), 4);
	EXPECT(is_from(last, "work_in_rounds"));
	EXPECT_EQ(report_number(last, "bytes_at_peak"), 0);
	EXPECT_EQ(report_number(last, "allocations"), 100);
	json_decref(report);
}

/* A reset frees the memory; the program does not hold it any more. */
TEST(memory_that_a_reset_has_taken_is_no_leak)
{
	json_t *report =
	    report_of("runtime_reset", NULL, "WEIR_REPORT_LEAKS=1");

	EXPECT_EQ(json_array_size(json_object_get(report, "leaks")), 0);
	json_decref(report);
}

/* Eight threads record stacks at once. */
TEST(threads_are_reported_by_where_they_allocate)
{
	json_t *report =
	    start_twice_as((struct start){ .program = "driver_threads",
		.variable = "WEIR_REPORT_LEAKS=1",
		.second = "WEIR_REPORT_SITES=20" });
	const json_t *sites = json_object_get(report, "sites");
	long long allocations = 0;
	const json_t *site;
	size_t i;

	json_array_foreach(sites, i, site)
	{
		EXPECT(is_from(site, "churn"));
		allocations += report_number(site, "allocations");
	}
	EXPECT_EQ(allocations, 8 * 2 * 200);
	EXPECT_EQ(json_array_size(json_object_get(report, "leaks")), 0);
	json_decref(report);
}

/* ---- Threads ------------------------------------------------------------
 */

/* The numbers that a program prints about itself. */
struct printed {
	unsigned long long allocations;
	unsigned long long live_bytes;
	unsigned long long live_blocks;
	unsigned long long peak_bytes;
};

/* The report of driver_tally, and the numbers that the program prints. */
static json_t *
tally_of(const char *argument, struct printed *printed)
{
	char *path = report_path();
	struct start how = { .program = "driver_tally",
		.argument = argument,
		.preload = true,
		.report = path };
	struct command_result result = start(&how);
	json_t *report;

	EXPECT_EQ(result.status, 0);
	EXPECT_STR_EQ(result.err, "");
	if (printed != NULL)
		EXPECT_EQ(sscanf(result.out,
			      "allocations: %llu, live: %llu bytes in %llu "
			      "blocks, peak: %llu bytes",
			      &printed->allocations, &printed->live_bytes,
			      &printed->live_blocks, &printed->peak_bytes),
		    4);
	command_free(&result);
	report = report_read(path);
	unlink(path);
	free(path);
	return report;
}

static void
expect_counted(const json_t *report, const struct printed *printed)
{
	const json_t *calls = json_object_get(report, "calls");
	const json_t *streams = json_object_get(report, "streams");
	long long allocations = (long long)printed->allocations;
	long long requests = 0;
	const json_t *stream;
	size_t i;

	json_array_foreach(streams, i, stream) requests +=
	    report_number(stream, "requests");
	EXPECT_EQ(requests, allocations);
	EXPECT_EQ(report_number(report, "allocations_served"), allocations);
	EXPECT_EQ(
	    report_number(json_object_get(calls, "cuMemAllocAsync"), "seen"),
	    allocations);
	EXPECT_EQ(report_number(report, "frees_served"),
	    allocations - (long long)printed->live_blocks);
	EXPECT_EQ(report_number(report, "live_bytes_at_exit"),
	    (long long)printed->live_bytes);
	EXPECT_EQ(report_number(report, "live_blocks_at_exit"),
	    (long long)printed->live_blocks);
}

TEST(bytes_that_one_thread_holds_are_exact)
{
	struct printed printed;
	json_t *report = tally_of("one", &printed);

	expect_counted(report, &printed);
	EXPECT_EQ(report_number(report, "peak_live_bytes"),
	    (long long)printed.peak_bytes);
	EXPECT_GE(report_number(report, "peak_without_caching_bytes"),
	    (long long)printed.peak_bytes);
	json_decref(report);
}

/* The peak of several threads may be too low by a MiB for each. */
TEST(counts_of_threads_that_have_ended_are_not_lost)
{
	enum { THREADS = 4 };
	struct printed printed;
	json_t *report = tally_of("many", &printed);
	long long peak = report_number(report, "peak_live_bytes");

	expect_counted(report, &printed);
	EXPECT_LE(peak, (long long)printed.peak_bytes);
	EXPECT_GE(peak, (long long)printed.peak_bytes - (THREADS << 20));
	json_decref(report);
}

TEST(threads_that_do_not_end_are_in_the_report)
{
	json_t *report = tally_of("endless", NULL);

	EXPECT_GE(report_number(report, "allocations_served"), 4 * 500);
	EXPECT_GE(report_number(report, "peak_live_bytes"), 64 << 10);
	json_decref(report);
}

/* ---- Frees as barriers ----------------------------------------------------
 */

/* Count the reports that the program relied on a free. */
static long long
barriers_of(const char *kind, const char *variable)
{
	json_t *report = report_of("runtime_barrier", kind, variable);
	const json_t *warnings = json_object_get(report, "warnings");
	const json_t *warning = json_array_get(warnings, 0);
	long long times = 0;

	EXPECT(json_is_array(warnings));
	if (warning != NULL) {
		EXPECT_EQ(json_array_size(warnings), 1);
		EXPECT_STR_EQ(
		    json_string_value(json_object_get(warning, "warning")),
		    "free_as_barrier");
		times = report_number(warning, "times");
	}
	json_decref(report);
	return times;
}

TEST(copies_that_only_a_free_waits_for_are_warned_of)
{
	EXPECT_EQ(barriers_of("free", NULL), 10);
	EXPECT_EQ(barriers_of("free", "WEIR_PRELOAD_FREE=deferred"), 10);
}

TEST(a_free_that_waits_is_no_reason_to_warn)
{
	EXPECT_EQ(barriers_of("free", "WEIR_PRELOAD_FREE=strict"), 0);
}

TEST(copies_that_are_waited_for_are_no_reason_to_warn)
{
	static const char *const kinds[] = { "stream", "device", "event",
		"query", "callback", "after", "pageable", "thread" };

	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
		if (barriers_of(kinds[i], NULL) != 0)
			FAIL("%s", kinds[i]);
}

/* ---- Text -----------------------------------------------------------------
 */

/* Check that the lines of a text have no blank at their end and are not longer
 * than a terminal is wide; lines of stacks may be longer. */
static void
expect_tidy(const char *text)
{
	while (*text != '\0') {
		size_t length = strcspn(text, "\n");

		if (length > 0 && text[length - 1] == ' ')
			FAIL("blank at the end of \"%.*s\"", (int)length, text);
		if (length > 80 && strncmp(text, "weir: ", 6) != 0)
			FAIL("too long: \"%.*s\"", (int)length, text);
		text += length + (text[length] == '\n');
	}
}

TEST(the_text_has_the_same_facts_as_the_json)
{
	struct start how = { .program = "runtime_report",
		.argument = "leak",
		.preload = true,
		.report = "-",
		.variable = "WEIR_REPORT_LEAKS=1",
		.second = "WEIR_REPORT_SITES=2" };
	struct command_result result = start(&how);
	static const char *const lines[] = {
		"memory\n",
		"  peak live                6.39 MiB   the most the ",
		"  without caching          8.00 MiB   the least the driver ",
		"  live at exit             4.00 MiB   in 2 blocks\n",
		"  allocations served            108\n",
		"  frees served                  106\n",
		"  out of memory                   0\n",
		"streams                    requests         hits      ",
		"  no stream                       7 ",
		"                101           99   98.0 %    28.00 MiB\n",
		"allocated at the peak, 2 of 4 sites\n",
		"  3 blocks, 3.00 MiB; in all 3 blocks, 3.00 MiB, by\n",
		"not freed: 2 blocks, 4.00 MiB\n",
		"  1 block, 3.00 MiB allocated by\n",
		"      make_scratch (runtime_report.c:",
		"  1 block, 1.00 MiB allocated by\n",
		"      load_weights (runtime_report.c:",
		"      main (runtime_report.c:",
	};

	EXPECT_EQ(result.status, 0);
	for (size_t i = 0; i < sizeof(lines) / sizeof(*lines); i++)
		EXPECT_STR_HAS(result.err, lines[i]);
	/* stderr is not a terminal. */
	EXPECT_NULL(strchr(result.err, '\033'));
	EXPECT_NULL(strstr(result.err, "warning"));
	EXPECT_NULL(strstr(result.err, "libweir_preload"));
	expect_tidy(result.err);
	command_free(&result);
}

TEST(the_text_names_further_flags_and_warns)
{
	struct start how = { .program = "runtime_report",
		.argument = "leak",
		.preload = true,
		.report = "-" };
	struct command_result result = start(&how);

	EXPECT_STR_HAS(
	    result.err, "4.00 MiB   in 2 blocks; --leaks shows the stacks\n");
	command_free(&result);
	how.program = "runtime_barrier";
	how.argument = "free";
	result = start(&how);
	EXPECT_STR_HAS(result.err, "warning: 10 times");
	EXPECT_STR_HAS(result.err, "WEIR_PRELOAD_FREE=strict");
	expect_tidy(result.err);
	command_free(&result);
}

/* The report of a program whose stderr is a terminal. The caller frees it. */
static char *
text_on_terminal(bool plain)
{
	char *program = test_build("tests/programs/driver_dlsym");
	char *library = test_build("lib/libweir_preload.so");
	char preload[4096];
	char *text;

	setenv("ASAN_OPTIONS", "verify_asan_link_order=0", 1);
	snprintf(preload, sizeof(preload), "LD_PRELOAD=%s", library);
	text = command_on_terminal(
	    (const char *const[]){ "env", preload, "WEIR_REPORT=-",
		plain ? "NO_COLOR=1" : "NO_COLOR=", program, NULL });
	free(program);
	free(library);
	return text;
}

TEST(a_terminal_is_shown_colours)
{
	char *text = text_on_terminal(false);

	EXPECT_STR_HAS(text, "\033[1mmemory\033[0m");
	EXPECT_STR_HAS(text, "  peak live ");
	free(text);
}

TEST(colours_can_be_turned_off_on_a_terminal)
{
	char *text = text_on_terminal(true);

	EXPECT_STR_HAS(text, "memory\r\n");
	EXPECT_NULL(strchr(text, '\033'));
	free(text);
}
