/*
 * Programs that do not know weir run under it while the driver fails: one call,
 * all calls of an entry point from one on, or two distant calls. Each program
 * ends as it would with a driver that fails so: by itself, and with the
 * driver's error or without one. Then weir_check() finds nothing, and no memory
 * is lost.
 *
 * `make test-faults` tries all calls. Otherwise some are tried, and
 * WEIR_TEST_EFFORT makes them more.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver/abi.h"
#include "tests/preload/fake/failing.h"
#include "tests/support/start.h"
#include "tests/support/test.h"

enum {
	SHARE = 10, /* cases of a program in a run that tries some */
	PAIRS = 40,
	FEW = 12,
	EVER = 1000000,
};

/* The outcome of a run with faults. */
struct outcome {
	struct command_result result;
	char *counts; /* written by tests/preload/fake/faults.c */
};

static char *
setting(const char *name, const char *value)
{
	char *text;

	if (asprintf(&text, "%s=%s", name, value) < 0)
		FAIL("out of memory");
	return text;
}

static char *
read_all(const char *path)
{
	FILE *file = fopen(path, "r");
	char *text = calloc(1, 16384);

	EXPECT_NOT_NULL(file);
	EXPECT_NOT_NULL(text);
	EXPECT_LT(fread(text, 1, 16383, file), 16383);
	fclose(file);
	return text;
}

static struct outcome
run_with(const struct start *program, const char *faults)
{
	char *library = test_build("tests/preload/fake/faults.so");
	char *path = test_file("counts", "", 0);
	struct start how = *program;
	char *variable = setting("FAULTS", faults);
	char *second = setting("FAULTS_OUT", path);
	struct outcome outcome;

	how.before = library;
	how.preload = true;
	how.variable = variable;
	how.second = second;
	outcome.result = start(&how);
	outcome.counts = read_all(path);
	free(second);
	free(variable);
	free(path);
	free(library);
	return outcome;
}

static void
drop(struct outcome *outcome)
{
	command_free(&outcome->result);
	free(outcome->counts);
}

/* Read a number that the run has written; 0 if it has not. */
static long
counted(const struct outcome *outcome, const char *name)
{
	char key[80];
	const char *at;

	snprintf(key, sizeof(key), "\n%s ", name);
	at = strstr(outcome->counts, key);
	return at == NULL ? 0 : strtol(at + strlen(key), NULL, 10);
}

static unsigned
occurrences(const char *text, const char *what)
{
	unsigned n = 0;

	for (; (text = strstr(text, what)) != NULL; text += strlen(what))
		n++;
	return n;
}

/* Count the driver's errors in a text, as a number or in words. The runtime
 * does not have a separate name for each error. */
static unsigned
errors(const char *text, CUresult code)
{
	bool memory = code == CUDA_ERROR_OUT_OF_MEMORY;
	char number[16];

	snprintf(number, sizeof(number), " %d", (int)code);
	return occurrences(text, number) +
	    occurrences(text, memory ? "cudaErrorMemoryAlloc" : "cudaErrorU") +
	    occurrences(text, memory ? "out of memory" : "unknown error") +
	    occurrences(text, memory ? "out of memory" : "ECC error") +
	    occurrences(text, "unrecognized error code");
}

/* Did the program report the error? Searches its output from the first line
 * that differs from the output without faults. */
static bool
shows_error(
    const struct outcome *calm, const struct outcome *outcome, CUresult code)
{
	const char *out = outcome->result.out;
	const char *usual = calm->result.out;
	const char *line = out;

	for (; *out != '\0' && *out == *usual; out++, usual++)
		if (*out == '\n')
			line = out;
	return errors(outcome->result.err, code) > 0 || errors(line, code) > 0;
}

/* An error that follows from another one: memory is short, because weir cannot
 * find out when freed memory is complete. */
static bool
follows(const struct outcome *outcome)
{
	return errors(outcome->result.err, CUDA_ERROR_OUT_OF_MEMORY) > 0;
}

/* Does the program end with more driver memory than without faults, although it
 * has freed all that it freed then? */
static bool
lost(const struct outcome *calm, const struct outcome *outcome)
{
	static const char *const kinds[] = { "left:handle", "left:mapping",
		"left:allocation", "left:host" };

	if (counted(outcome, "live") > counted(calm, "live"))
		return false;
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (counted(outcome, kinds[i]) > counted(calm, kinds[i]))
			return true;
	return false;
}

/* Is one of the faults of this entry point? `entry` ends with a colon. */
static bool
has_fault_of(const char *faults, const char *entry)
{
	const char *at = strstr(faults, entry);

	while (at != NULL && at != faults && at[-1] != ' ')
		at = strstr(at + 1, entry);
	return at != NULL;
}

/* May the faults change a result without an error? If weir cannot get the facts
 * that it needs, it passes the call to the driver, which does not count weir's
 * unused memory as free, or the memory waits longer. A program may also choose
 * a context without a check of the result. */
static bool
may_be_silent(const char *faults)
{
	static const char *const asks[] = { "cuCtxGetCurrent:",
		"cuCtxGetDevice:", "cuCtxSetCurrent:",
		"cuDevicePrimaryCtxRetain:", "cuDevicePrimaryCtxRelease:",
		"cuDevicePrimaryCtxGetState:", "cuStreamGetCtx:",
		"cuStreamIsCapturing:", "cuDeviceGetCount:",
		"cuThreadExchangeStreamCaptureMode:", "cuMemGetInfo:" };

	for (size_t i = 0; i < sizeof(asks) / sizeof(asks[0]); i++)
		if (has_fault_of(faults, asks[i]))
			return true;
	return false;
}

/* Memory that the driver refuses to take back while a context ends is the
 * driver's. So is the row from which weir finds its pitch, if the driver never
 * takes it back. */
static bool
may_refuse(const struct start *program, const char *faults)
{
	return (strcmp(program->program, "runtime_reset") == 0 &&
		   (strstr(faults, "cuMemUnmap:") != NULL ||
		       strstr(faults, "cuMemRelease:") != NULL)) ||
	    ((strcmp(program->program, "runtime_api") == 0 ||
		 strcmp(program->program, "runtime_pitched") == 0) &&
		strstr(faults, "cuMemFree:1:1000000:") != NULL);
}

/* The reason why the run is wrong, or NULL. */
static const char *
judge(const struct start *program, const struct outcome *calm,
    const struct outcome *outcome, const char *faults, CUresult code)
{
	const struct command_result *result = &outcome->result;
	bool same =
	    result->status == 0 && strcmp(result->out, calm->result.out) == 0;

	if (result->signal != 0)
		return "a signal ended it";
	/* Threads may call exit() at the same time. */
	if (outcome->counts[0] == '\0')
		return result->status != 0 && shows_error(calm, outcome, code) ?
		    NULL :
		    "it did not come to its end";
	if (counted(outcome, "faults") != 0)
		return "weir_check() finds faults";
	if (counted(outcome, "violations") != 0)
		return "the device was misused";
	if (!same && !shows_error(calm, outcome, code) && !follows(outcome) &&
	    (result->status != 0 || !may_be_silent(faults)))
		return "it failed without the driver's error";
	if (same && counted(outcome, "live") != counted(calm, "live"))
		return "other blocks are live than without faults";
	if (result->status == 0 && lost(calm, outcome) &&
	    !may_refuse(program, faults))
		return "memory is lost";
	return NULL;
}

/* Is the run right? */
static bool
is_well(const struct start *program, const struct outcome *calm,
    const struct outcome *outcome, const char *faults, CUresult code)
{
	const char *wrong = judge(program, calm, outcome, faults, code);
	const struct command_result *result = &outcome->result;

	if (wrong != NULL)
		fprintf(stderr,
		    "# %s %s, FAULTS=\"%s\": %s; status %d, signal %d\n"
		    "%s%s%s",
		    program->program,
		    program->argument != NULL ? program->argument : "", faults,
		    wrong, result->status, result->signal, outcome->counts,
		    result->err, result->out);
	return wrong == NULL;
}

/* ---- The cases of a program ---------------------------------------------- */

/* All cases of a program, of which some are tried. */
struct sweep {
	const struct start *program;
	struct outcome calm;
	uint64_t n;     /* cases so far */
	uint64_t every; /* one of this many is tried */
	uint64_t tried;
	uint64_t met;
	uint64_t wrong;
};

static uint64_t
mix(uint64_t x)
{
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

/* Try a case if it is selected. */
static void
try_case(struct sweep *sweep, const char *faults, CUresult code)
{
	struct outcome outcome;

	sweep->n++;
	if (sweep->every == 0 || mix(sweep->n) % sweep->every != 0)
		return;
	outcome = run_with(sweep->program, faults);
	sweep->wrong +=
	    !is_well(sweep->program, &sweep->calm, &outcome, faults, code);
	sweep->tried++;
	sweep->met += strncmp(outcome.counts, "met 0\n", 6) != 0;
	drop(&outcome);
}

static void
try_entry(struct sweep *sweep, const char *entry, unsigned calls, CUresult code)
{
	const unsigned from[] = { 1, (calls + 1) / 2, calls };
	char faults[128];

	if (calls == 0)
		return;
	for (unsigned n = 1; n <= calls; n += 1 + n / FEW) {
		snprintf(
		    faults, sizeof(faults), "%s:%u:1:%d", entry, n, (int)code);
		try_case(sweep, faults, code);
	}
	for (int i = 0; i < 3; i++) {
		snprintf(faults, sizeof(faults), "%s:%u:%u:%d", entry, from[i],
		    (unsigned)EVER, (int)code);
		try_case(sweep, faults, code);
	}
}

/* Two driver calls of the program, chosen at random. */
static void
try_pair(struct sweep *sweep, uint64_t seed, CUresult code)
{
	char faults[192];
	size_t used = 0;

	for (int i = 0; i < 2; i++) {
		unsigned calls = 0;
		size_t e = 0;

		for (; calls == 0; seed = mix(seed + 1)) {
			e = seed % FAILING;
			calls = (unsigned)counted(&sweep->calm, failing[e]);
		}
		used += (size_t)snprintf(faults + used, sizeof(faults) - used,
		    "%s:%u:1:%d ", failing[e],
		    1 + (unsigned)(seed >> 20) % calls, (int)code);
	}
	try_case(sweep, faults, code);
}

static void
try_all(struct sweep *sweep)
{
	static const CUresult codes[] = { CUDA_ERROR_OUT_OF_MEMORY,
		CUDA_ERROR_ECC_UNCORRECTABLE };

	sweep->n = 0;
	for (int i = 0; i < 2; i++) {
		for (size_t e = 0; e < FAILING; e++)
			if (!failing_skips(e))
				try_entry(sweep, failing[e],
				    (unsigned)counted(&sweep->calm, failing[e]),
				    codes[i]);
		for (uint64_t pair = 0; pair < PAIRS; pair++)
			try_pair(sweep, 1000 * pair, codes[i]);
	}
}

static void
sweep_begin(struct sweep *sweep)
{
	if (!start_simulated())
		SKIP("the driver fails as it likes");
	if (test_is_watched())
		SKIP("the library that makes faults stands in for exit()");
	sweep->calm = run_with(sweep->program, "");
	EXPECT_EQ(sweep->calm.result.status, 0);
}

static void
sweep_end(struct sweep *sweep)
{
	fprintf(stderr, "# %s: %llu of %llu cases, the fault was met in %llu\n",
	    sweep->program->program, (unsigned long long)sweep->tried,
	    (unsigned long long)sweep->n, (unsigned long long)sweep->met);
	EXPECT_EQ(sweep->wrong, 0);
	/* A part of the cases may meet none. */
	EXPECT(sweep->met > 0 || test_effort(100) < 100);
	drop(&sweep->calm);
}

static void
sweep(const char *program, const char *argument, const char *machine)
{
	struct start how = {
		.program = program, .argument = argument, .machine = machine
	};
	struct sweep sweep = { .program = &how };

	sweep_begin(&sweep);
	try_all(&sweep);
	sweep.every = sweep.n / (test_effort(SHARE) + 1) + 1;
	try_all(&sweep);
	sweep_end(&sweep);
}

/* Each call of one entry point fails alone, and with all later ones. */
static void
sweep_entry(const char *program, const char *entry)
{
	struct start how = { .program = program };
	struct sweep sweep = { .program = &how, .every = 1 };
	const CUresult code = CUDA_ERROR_ECC_UNCORRECTABLE;
	char faults[128];

	sweep_begin(&sweep);
	for (long n = 1; n <= counted(&sweep.calm, entry); n++) {
		snprintf(faults, sizeof(faults), "%s:%ld:1:%d", entry, n, code);
		try_case(&sweep, faults, code);
		snprintf(faults, sizeof(faults), "%s:%ld:%d:%d", entry, n, EVER,
		    code);
		try_case(&sweep, faults, code);
	}
	sweep_end(&sweep);
}

TEST_TIMEOUT(a_program_that_calls_the_driver_meets_faults, 600)
{
	sweep("driver_dlsym", NULL, NULL);
}

TEST_TIMEOUT(a_program_that_asks_for_all_it_can_meets_faults, 600)
{
	sweep("driver_known", NULL, NULL);
}

TEST_TIMEOUT(a_program_with_host_memory_meets_faults, 600)
{
	sweep("driver_host", NULL, NULL);
}

TEST_TIMEOUT(a_program_that_orders_its_streams_meets_faults, 600)
{
	sweep("driver_order", "100000 turns", NULL);
}

TEST_TIMEOUT(a_program_with_other_contexts_meets_faults, 600)
{
	sweep("driver_contexts", NULL, NULL);
}

TEST_TIMEOUT(a_random_program_meets_faults, 600)
{
	sweep("driver_random", "1007", "hold_ns:100000");
}

TEST_TIMEOUT(a_program_with_threads_meets_faults, 600)
{
	sweep("driver_threads", NULL, NULL);
}

TEST_TIMEOUT(a_program_on_the_runtime_meets_faults, 600)
{
	sweep("runtime_api", NULL, NULL);
}

TEST_TIMEOUT(a_program_with_memory_pools_meets_faults, 600)
{
	sweep("runtime_pools", NULL, NULL);
}

TEST_TIMEOUT(a_program_that_captures_graphs_meets_faults, 600)
{
	sweep("runtime_capture", NULL, NULL);
}

TEST_TIMEOUT(a_program_with_rows_meets_faults, 600)
{
	sweep("runtime_pitched", NULL, NULL);
}

TEST_TIMEOUT(a_program_that_resets_its_device_meets_faults, 600)
{
	sweep("runtime_reset", NULL, NULL);
}

TEST_TIMEOUT(a_program_of_two_devices_meets_faults, 600)
{
	sweep("runtime_managed", NULL, "devices:2");
}

TEST_TIMEOUT(the_example_meets_faults, 600)
{
	char *pipeline = test_build("examples/pipeline");

	sweep(pipeline, "20", NULL);
	free(pipeline);
}

/* ---- Entries whose failure needs a way of its own ------------------------ */

TEST_TIMEOUT(a_free_returns_the_error_of_a_driver_that_returns_no_context, 600)
{
	sweep_entry("driver_known", "cuStreamGetCtx");
	sweep_entry("driver_dlsym", "cuStreamGetCtx");
}

TEST_TIMEOUT(a_free_gives_the_error_that_stopped_weir, 600)
{
	sweep_entry("driver_known", "cuCtxGetDevice");
}

TEST_TIMEOUT(the_row_that_shows_the_drivers_pitch_is_freed_later, 600)
{
	sweep_entry("runtime_api", "cuMemFree");
	sweep_entry("runtime_pitched", "cuMemFree");
}

TEST_TIMEOUT(a_context_whose_end_was_not_reported_is_queried_again, 600)
{
	sweep_entry("driver_contexts", "cuDevicePrimaryCtxGetState");
}
