/*
 * Limits that cover all memory of the process: every call of the driver that
 * takes device memory is counted, refused beyond the limit, and shown.
 */
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

#include "driver/takes.h"
#include "preload/hooks.h"
#include "simcuda/entries.h"
#include "simcuda/unsimulated.h"
#include "tests/support/start.h"
#include "tests/support/test.h"

/* ---- Each entry ---------------------------------------------------------- */

/* One enumerator a row of driver/takes.h. A row of driver/entries.h without one
 * does not compile below. */
static const char *const kind_of_row[] = {
#define KIND_OF_ROW(symbol, kind, asleep) #kind,
	DRIVER_TAKES(KIND_OF_ROW)
#undef KIND_OF_ROW
};

enum row {
#define ROW_OF_SYMBOL(symbol, kind, asleep) ROW_##symbol,
	DRIVER_TAKES(ROW_OF_SYMBOL)
#undef ROW_OF_SYMBOL
};

static const struct entry {
	const char *symbol;
	enum row row;
	bool hooked;
	bool simulated;
} entries[] = {
#define HOOKED_NO false
#define HOOKED_CHECK false
#define HOOKED_WATCH false
#define HOOKED_HOLD false
#define HOOKED_SERVE true
#define SIMULATED_NO false
#define SIMULATED_NONE true
#define SIMULATED_INIT true
#define SIMULATED_INIT_R true
#define SIMULATED_INIT_U true
#define SIMULATED_CONTEXT true
#define SIMULATED_CONTEXT_R true
#define SIMULATED_CONTEXT_U true
#define SIMULATED_CONTEXT_UR true
#define ENTRY_OF_CALLS(                                                        \
    U, kind, symbol, base, version, simulated, hook, called, params)           \
	{ #symbol, ROW_##symbol, HOOKED_##hook, SIMULATED_##simulated },
	DRIVER_CALLS(ENTRY_OF_CALLS, )
#undef ENTRY_OF_CALLS
};

enum { ENTRIES = sizeof(entries) / sizeof(entries[0]) };

static bool
is_counted_kind(const char *kind)
{
	static const char *const kinds[] = {
#define NAME_OF_KIND(name, label) #name,
		WEIR_OUTSIDE_KINDS(NAME_OF_KIND)
#undef NAME_OF_KIND
	};

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (strcmp(kinds[i], kind) == 0)
			return true;
	return false;
}

static bool
is_reason(const char *kind)
{
	static const char *const reasons[] = { "RELEASE", "HOST", "WORK",
		"NAMES", "ORDER", "ASKS" };

	for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++)
		if (strcmp(reasons[i], kind) == 0)
			return true;
	return false;
}

/* Contexts are measured as a whole, at the calls that have a hook. */
TEST(each_call_that_takes_memory_has_a_hook)
{
	unsigned counted = 0;

	for (int i = 0; i < ENTRIES; i++) {
		const char *kind = kind_of_row[entries[i].row];

		if (is_reason(kind))
			continue;
		if (!is_counted_kind(kind))
			FAIL("%s: %s is no kind", entries[i].symbol, kind);
		counted++;
		if (!entries[i].hooked && strcmp(kind, "contexts") != 0)
			FAIL("%s takes memory and has no hook",
			    entries[i].symbol);
	}
	EXPECT_GE(counted, 25u);
	/* No row is left of an entry that is gone. */
	EXPECT_EQ(sizeof(kind_of_row) / sizeof(kind_of_row[0]), ENTRIES);
}

/* ---- Entries that have no row -------------------------------------------- */

/* Calls of the driver outside driver/entries.h whose names say that they make
 * something, and why that is not device memory of the program to be counted.
 * A name may be a pattern of the shell. */
static const struct {
	const char *name;
	const char *why;
} unlisted[] = {
	{ "cuMemAlloc", "32-bit sizes, from before CUDA 3.2" },
	{ "cuMemAllocPitch", "32-bit sizes, from before CUDA 3.2" },
	{ "cuArrayCreate", "32-bit sizes, from before CUDA 3.2" },
	{ "cuArray3DCreate", "32-bit sizes, from before CUDA 3.2" },
	{ "cuMemAllocHost", "memory of the host" },
	{ "cuCtxCreate*", "contexts are measured as a whole" },
	{ "cuGreenCtxCreate", "contexts are measured as a whole" },
	{ "cuLibraryLoad*", "contexts are measured as a whole" },
	{ "cuFuncLoad", "contexts are measured as a whole" },
	{ "cuLinkCreate*", "memory of the host" },
	{ "cuGLCtxCreate*", "contexts are measured as a whole" },
	{ "cuVDPAUCtxCreate*", "contexts are measured as a whole" },
	{ "cuGL*Register*", "memory of another interface, not of CUDA" },
	{ "cuGraphicsEGLRegisterImage", "memory of another interface" },
	{ "cuGraphicsGLRegister*", "memory of another interface" },
	{ "cuGraphicsVDPAURegister*", "memory of another interface" },
	{ "cuEventCreateFromEGLSync", "an event" },
	{ "cuGraphConditionalHandleCreate", "a part of a graph" },
	{ "cuGraphMemAllocNodeGetParams", "asks" },
	{ "cuFuncIsLoaded", "asks" },
	{ "cuImportExternalSemaphore", "a semaphore" },
	{ "cuMulticastCreate", "an object that memory is bound to" },
	{ "cuSurfObjectCreate", "a view of memory" },
	{ "cuTexObjectCreate", "a view of memory" },
	{ "cuTexRefCreate", "a view of memory" },
	{ "cuUserObjectCreate", "an object of the host" },
	{ "cuDeviceRegisterAsyncNotification", "a callback" },
	{ "cuLogsRegisterCallback", "a callback" },
};

static bool
is_unlisted(const char *name)
{
	for (size_t i = 0; i < sizeof(unlisted) / sizeof(unlisted[0]); i++) {
		if (fnmatch(unlisted[i].name, name, 0) == 0)
			return true;
	}
	return false;
}

static bool
has_row(const char *name)
{
	for (int i = 0; i < ENTRIES; i++)
		if (strcmp(entries[i].symbol, name) == 0)
			return true;
	return false;
}

TEST(each_call_that_makes_something_is_decided)
{
	static const char *const names[] = {
#define NAME_OF_UNSIMULATED(symbol, base, version) #symbol,
		SIM_UNSIMULATED(NAME_OF_UNSIMULATED, NAME_OF_UNSIMULATED,
		    NAME_OF_UNSIMULATED)
#undef NAME_OF_UNSIMULATED
	};
	static const char *const words[] = { "Create", "Alloc", "Import",
		"Load", "Open", "Register", "Reserve", "AddNode" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		bool makes = false;

		for (size_t k = 0; k < sizeof(words) / sizeof(words[0]); k++)
			makes = makes || strstr(names[i], words[k]) != NULL;
		if (makes && !has_row(names[i]) && !is_unlisted(names[i]))
			FAIL("%s is not decided", names[i]);
	}
}

/* ---- What is counted ----------------------------------------------------- */

/* Entries that driver_outside does not call, and what else tests them. */
static bool
is_counted_elsewhere(const struct entry *entry, const char *kind)
{
	static const char *const others[] = {
		/* They need another process: driver_ipc. */
		"cuIpcOpenMemHandle", "cuIpcOpenMemHandle_v2",
		"cuMemPoolImportPointer",
		/* The driver's sum is read again after them. */
		"cuGraphInstantiateWithFlags", "cuGraphInstantiateWithParams",
		"cuGraphUpload", "cuGraphLaunch"
	};

	if (strcmp(kind, "contexts") == 0 || !entry->simulated)
		return true;
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		if (strcmp(others[i], entry->symbol) == 0)
			return true;
	return false;
}

static struct command_result
run_program(const char *program, const char *argument, const char *conf)
{
	struct start how = { .program = program,
		.argument = argument,
		.preload = true,
		.variable = conf };

	return start(&how);
}

TEST(each_call_that_takes_memory_is_counted_until_it_is_given_back)
{
	if (!start_simulated())
		SKIP("the sizes are those of the simulated device");
	struct command_result result =
	    run_program("driver_outside", NULL, NULL);

	EXPECT_EQ(result.status, 0);
	EXPECT_STR_EQ(result.err, "");
	for (int i = 0; i < ENTRIES; i++) {
		const char *kind = kind_of_row[entries[i].row];
		char line[128];

		if (!is_counted_kind(kind) ||
		    is_counted_elsewhere(&entries[i], kind))
			continue;
		snprintf(line, sizeof(line), "%s %s: right\n",
		    entries[i].symbol, kind);
		EXPECT_STR_HAS(result.out, line);
	}
	EXPECT_STR_HAS(result.out, "cuCtxDestroy_v2 plain: right\n");
	EXPECT_STR_HAS(result.out, "cuMemAllocAsync graphs: right\n");
	EXPECT_STR_HAS(result.out, "refused handles: right\n");
	EXPECT_NULL(strstr(result.out, "bytes in place of"));
	EXPECT_NULL(strstr(result.out, "freed twice"));
	command_free(&result);
}

TEST(a_report_has_the_kinds_at_their_peaks)
{
	if (!start_simulated())
		SKIP("the sizes are those of the simulated device");
	char *path = report_path();
	struct command_result result = start(&(struct start){
	    .program = "driver_outside", .preload = true, .report = path });
	json_t *report = report_read(path);

	EXPECT_EQ(result.status, 0);
	EXPECT_EQ(report_number(report, "outside_handles_peak_bytes"), 4 << 20);
	EXPECT_EQ(report_number(report, "outside_managed_peak_bytes"), 4 << 20);
	EXPECT_EQ(report_number(report, "outside_graphs_peak_bytes"), 4 << 20);
	EXPECT_EQ(
	    report_number(report, "outside_external_peak_bytes"), 4 << 20);
	json_decref(report);
	command_free(&result);
	free(path);
}

/* ---- The limit ----------------------------------------------------------- */

enum { PROGRAM_LIMIT_MIB = 256 };

/* A limit on all memory that leaves the program 256 MiB. The context of a real
 * device is under the limit, too, and has more than that. */
static const char *
limit_on_all(void)
{
	static char variable[80];
	char *path = report_path();
	struct command_result result =
	    start(&(struct start){ .program = "driver_refused",
		.argument = "one",
		.preload = true,
		.report = path,
		.variable = "WEIR_CONF=limit_counts:all" });
	json_t *report = report_read(path);
	long long contexts =
	    report_number(report, "outside_contexts_peak_bytes");

	EXPECT_EQ(result.status, 0);
	EXPECT_GE(contexts, 0);
	snprintf(variable, sizeof(variable),
	    "WEIR_CONF=memory_limit_mb:%lld,limit_counts:all",
	    PROGRAM_LIMIT_MIB + ((contexts + (1 << 20) - 1) >> 20));
	json_decref(report);
	command_free(&result);
	free(path);
	return variable;
}

TEST(a_limit_on_all_memory_refuses_either_side)
{
	struct command_result result =
	    run_program("driver_refused", "one", limit_on_all());

	EXPECT_EQ(result.status, 0);
	EXPECT_STR_EQ(result.out,
	    "cuMemCreate beside it: 0\n"
	    "cuMemCreate beyond it: 2\n"
	    "cuMemAllocManaged beyond it: 2\n"
	    "cuMemAlloc beyond it: 2\n"
	    "cuMemAlloc within it: 0\n"
	    "cuMemCreate after a free: 0\n"
	    "cuMemCreate after a release: 0\n");
	/* The message names the call, the limit and the kinds. */
	EXPECT_STR_HAS(result.err, "cuMemCreate refused: ");
	EXPECT_STR_HAS(result.err, "limit_counts:all");
	EXPECT_STR_HAS(result.err, " of cuMemCreate");
	command_free(&result);
}

TEST(a_limit_on_weir_alone_refuses_nothing_of_the_driver)
{
	struct command_result result = run_program(
	    "driver_refused", "one", "WEIR_CONF=memory_limit_mb:256");

	EXPECT_EQ(result.status, 0);
	EXPECT_STR_HAS(result.out, "cuMemCreate beyond it: 0\n");
	EXPECT_STR_HAS(result.out, "cuMemAllocManaged beyond it: 0\n");
	EXPECT_STR_HAS(result.out, "cuMemAlloc beyond it: 0\n");
	EXPECT_STR_EQ(result.err, "");
	command_free(&result);
}

/* Each thread takes and gives back what it can get, by both ways; the program
 * adds up what all have at a time. */
TEST(threads_never_pass_the_limit_together)
{
	struct command_result result =
	    run_program("driver_refused", "threads", limit_on_all());

	EXPECT_EQ(result.status, 0);
	EXPECT_STR_HAS(result.out, "within the limit\n");
	EXPECT_STR_HAS(result.out, "nothing left\n");
	command_free(&result);
}

/* NVML's figure has the context, which nothing else counts. */
TEST(a_limit_on_all_memory_covers_contexts)
{
	if (!start_simulated())
		SKIP("the context of a real device is larger than the limit");
	struct command_result result =
	    start(&(struct start){ .program = "driver_refused",
		.argument = "one",
		.preload = true,
		.machine = "context_mb:4",
		.variable = "WEIR_CONF=memory_limit_mb:256,limit_counts:all" });

	EXPECT_EQ(result.status, 0);
	EXPECT_STR_HAS(result.out, "cuMemCreate after a free: 0\n");
	EXPECT_STR_HAS(result.out, "cuMemCreate after a release: 2\n");
	EXPECT_STR_HAS(
	    result.err, "4.00 MiB of contexts and modules from the driver");
	command_free(&result);
}

/* ---- What the program sees ------------------------------------------------
 */

static void
sees(const char *conf, const char *memory, const char *used)
{
	struct command_result result =
	    start(&(struct start){ .program = "driver_nvml",
		.argument = "64",
		.preload = true,
		.variable = conf });
	char first[96];
	char line[96];

	if (result.status == 77)
		SKIP("no NVML");
	EXPECT_EQ(result.status, 0);
	/* Before the driver is initialised. */
	snprintf(first, sizeof(first), "memory: %s, 0 used\nversion 2: %s, ",
	    memory, memory);
	EXPECT_EQ(strncmp(result.out, first, strlen(first)), 0);
	for (int i = 1; i <= 3; i++) {
		snprintf(line, sizeof(line), "processes %d: %s MiB\n", i, used);
		EXPECT_STR_HAS(result.out, line);
	}
	snprintf(line, sizeof(line), "details: %s MiB\n", used);
	EXPECT_STR_HAS(result.out, line);
	command_free(&result);
}

TEST(nvml_shows_the_limit_and_what_counts_in_it)
{
	if (!start_simulated())
		SKIP("the device's other users are not known");
	sees("WEIR_CONF=memory_limit_mb:2048", "2048 of 2048 MiB free", "64");
	sees("WEIR_CONF=memory_limit_mb:2048,limit_counts:all",
	    "2048 of 2048 MiB free", "128");
	sees("WEIR_CONF=memory_limit_mb:2048,show_device:real",
	    "16384 of 16384 MiB free", "64");
	sees("WEIR_CONF=per_process_memory_fraction:0.25",
	    "4096 of 4096 MiB free", "64");
	sees("WEIR_CONF=tcache:1", "16384 of 16384 MiB free", "64");
}

TEST(the_driver_and_nvml_show_the_same)
{
	if (!start_simulated())
		SKIP("the device's other users are not known");
	struct command_result result = run_program("driver_nvml", "64",
	    "WEIR_CONF=memory_limit_mb:2048,limit_counts:all");

	EXPECT_STR_HAS(result.out,
	    "memory: 1920 of 2048 MiB free, 128 used\n"
	    "version 2: 1920 of 2048 MiB free, 128 used\n");
	EXPECT_STR_HAS(result.out, "driver: 1920 of 2048 MiB free\n");
	command_free(&result);
	result = run_program("driver_nvml", "64",
	    "WEIR_CONF=memory_limit_mb:2048,show_device:real");
	EXPECT_STR_HAS(result.out, "driver: 16320 of 16384 MiB free\n");
	command_free(&result);
}
