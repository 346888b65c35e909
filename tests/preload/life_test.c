/*
 * Life cycles: programs start under many conditions and end in many ways while
 * they are busy, bare and under weir. Their output, and their status or signal,
 * must be the same. `make test-life` starts 10,000 programs; this test starts
 * some of each kind.
 *
 * Under a low limit weir needs more memory than the driver alone, so a program
 * may fail for want of memory: it then prints that and exits with status 3. It
 * must not crash, hang, or get other memory than it requested.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/os.h"
#include "tests/support/start.h"
#include "tests/support/test.h"

enum { STARTS = 63, UNSERVED = 3, STRIDE = 1009, SECONDS = 3600 };

static const char *const ways[] = { "return", "exit", "_exit", "quick_exit",
	"abort", "signal", "kill", "fork", "fork_at_once", "fork_abort",
	"vfork", "spawn", "daemon", "dlclose", "exec", "thread", "handlers",
	"close" };

static const struct {
	const char *name;
	bool scarce;    /* the program may fail for want of memory */
	bool complains; /* weir prints what is missing */
} conditions[] = { { "none", false, false }, { "files", true, true },
	{ "memory", true, true }, { "stack", true, true },
	{ "membarrier", false, false }, { "proc", false, true } };

static const struct {
	const char *variable;
	const char *second;
} settings[] = { { NULL, NULL }, { "WEIR_CONF=watch:True", NULL },
	{ "WEIR_CONF=history:all", NULL },
	{ "WEIR_REPORT_SITES=1", "WEIR_CONF=history:state" },
	{ "WEIR_CONF=tcache:0", "WEIR_REPORT_LEAKS=1" },
	{ "WEIR_CONF=watch:True,history:all", "WEIR_REPORT_SITES=1" },
	{ "WEIR_CONF=prefer:memory,decay_ms:1", NULL } };

enum {
	WAYS = sizeof(ways) / sizeof(ways[0]),
	CONDITIONS = sizeof(conditions) / sizeof(conditions[0]),
	SETTINGS = sizeof(settings) / sizeof(settings[0]),
	CASES = WAYS * CONDITIONS * SETTINGS
};

/* The outcome of each way to end under each condition, without weir. */
static struct command_result bare[WAYS][CONDITIONS];

/* Are all complaints weir's, and about missing resources only? */
static bool
is_only_weir_s(const char *text)
{
	while (*text != '\0') {
		const char *end = strchr(text, '\n');

		if (strncmp(text, "weir: ", 6) != 0 || end == NULL)
			return false;
		text = end + 1;
	}
	return true;
}

static bool
ends_alike(const struct command_result *a, const struct command_result *b)
{
	return a->status == b->status && a->signal == b->signal &&
	    strcmp(a->out, b->out) == 0;
}

static void
start_one(unsigned number)
{
	unsigned way = number % WAYS;
	unsigned condition = number / WAYS % CONDITIONS;
	unsigned setting = number / WAYS / CONDITIONS;
	bool scarce = conditions[condition].scarce;
	char *report = report_path();
	char argument[64];
	struct start how = { .program = "life", .argument = argument };
	struct command_result *expected = &bare[way][condition];
	struct command_result got;

	snprintf(argument, sizeof(argument), "%s/%s", ways[way],
	    conditions[condition].name);
	if (expected->out == NULL)
		*expected = start(&how);
	how.preload = true;
	how.variable = settings[setting].variable;
	how.second = settings[setting].second;
	how.report = report;
	got = start(&how);
	if (!ends_alike(&got, expected) &&
	    !(scarce && got.status == UNSERVED && got.signal == 0))
		FAIL("%s with %s %s: status %d signal %d, bare %d and %d\n%s%s",
		    argument, how.variable == NULL ? "-" : how.variable,
		    how.second == NULL ? "-" : how.second, got.status,
		    got.signal, expected->status, expected->signal, got.out,
		    got.err);
	if (got.err[0] != '\0' &&
	    !(conditions[condition].complains && is_only_weir_s(got.err)))
		FAIL("%s with %s: it complains: %s", argument,
		    how.variable == NULL ? "-" : how.variable, got.err);
	command_free(&got);
	remove(report);
	free(report);
}

TEST_TIMEOUT(programs_start_and_end_under_weir_as_they_do_without_it, SECONDS)
{
	uint64_t n = test_effort(STARTS);

	if (!start_simulated())
		SKIP("each start would initialise the GPU");
	if (test_is_watched())
		SKIP("a sanitizer or valgrind needs more than there is");
	for (uint64_t i = 0; i < n; i++)
		start_one((unsigned)(i * STRIDE % CASES));
	for (int w = 0; w < WAYS; w++)
		for (int c = 0; c < CONDITIONS; c++)
			if (bare[w][c].out != NULL)
				command_free(&bare[w][c]);
}

/* How long the end of a program waits at most for the thread that answers
 * watchers. */
#define WAIT_NS INT64_C(5000000000)

/* Measure a program that ends in this way. */
static int64_t
time_of(const char *way)
{
	struct start how = { .program = "life",
		.argument = way,
		.preload = true,
		.variable = "WEIR_CONF=watch:True" };
	uint64_t before = os_monotonic_ns();
	struct command_result result = start(&how);

	EXPECT_EQ(result.status, 0);
	command_free(&result);
	return (int64_t)(os_monotonic_ns() - before);
}

/* Closing descriptors does not wake the thread that answers watchers, and the
 * end of the program does not wait for that thread. A start may take seconds by
 * itself, so it is compared with another one until the comparison succeeds: a
 * program that waits takes longer each time. */
TEST(a_program_that_closes_all_descriptors_ends_at_once)
{
	if (!start_simulated())
		SKIP("the program is for the simulated device");
	EXPECT_SOON(
	    time_of("close/none") < time_of("return/none") + WAIT_NS / 2);
}
