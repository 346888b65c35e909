/*
 * While a device sleeps, each call of the driver by which the device would
 * touch memory waits, or fails by the option.
 */
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver/entries.h"
#include "driver/takes.h"
#include "simcuda/entries.h"
#include "simcuda/unsimulated.h"
#include "tests/support/start.h"
#include "tests/support/test.h"

static const struct row {
	const char *symbol;
	const char *asleep;
} rows[] = {
#define ROW(symbol, kind, asleep) { #symbol, #asleep },
	DRIVER_TAKES(ROW)
#undef ROW
};

/* The forms of each row of driver/entries.h for a thread's default stream. */
static const struct entry {
	const char *symbol;
	const char *form;
} entries[] = {
#define FORM_P NULL
#define FORM_S "_ptsz"
#define FORM_D "_ptds"
#define ENTRY(U, kind, symbol, base, version, simulated, hook, called, params) \
	{ #symbol, FORM_##kind },
	DRIVER_CALLS(ENTRY, )
#undef ENTRY
};

enum {
	ROWS = sizeof(rows) / sizeof(rows[0]),
	ENTRIES = sizeof(entries) / sizeof(entries[0])
};

static const struct row *
find_row(const char *symbol)
{
	for (int i = 0; i < ROWS; i++)
		if (strcmp(rows[i].symbol, symbol) == 0)
			return &rows[i];
	return NULL;
}

/* The program under weir with may_sleep, as `weir run --may-sleep` starts it.
 */
static struct command_result
run_held(const char *argument)
{
	return start(&(struct start){ .program = "driver_held",
	    .argument = argument,
	    .preload = true,
	    .variable = "WEIR_MAY_SLEEP=1",
	    .second = "WEIR_CONF=may_sleep:True" });
}

static void
expect_not_ready(const char *out, const char *symbol, const char *form)
{
	char line[160];

	/* CUDA_ERROR_NOT_READY, which no driver returns for these calls. */
	snprintf(line, sizeof(line), "\n%s%s: 600\n", symbol, form);
	if (strstr(out, line) == NULL)
		FAIL("%s%s is not held:\n%s", symbol, form, out);
}

TEST(each_call_that_touches_memory_is_held_while_the_device_sleeps)
{
	struct command_result result = run_held("each");
	unsigned held = 0;
	char *out;

	EXPECT_EQ(result.status, 0);
	EXPECT_STR_EQ(result.err, "");
	EXPECT(asprintf(&out, "\n%s", result.out) > 0);
	for (int i = 0; i < ENTRIES; i++) {
		const struct row *row = find_row(entries[i].symbol);
		char missing[160];

		if (row == NULL)
			FAIL("%s is not decided", entries[i].symbol);
		if (strcmp(row->asleep, "HELD") != 0)
			continue;
		/* Drivers drop old calls. */
		snprintf(missing, sizeof(missing), "\n%s: missing\n",
		    entries[i].symbol);
		if (!start_simulated() && strstr(out, missing) != NULL)
			continue;
		held++;
		expect_not_ready(out, entries[i].symbol, "");
		if (entries[i].form != NULL)
			expect_not_ready(
			    out, entries[i].symbol, entries[i].form);
	}
	EXPECT_GE(held, 60u);
	free(out);
	command_free(&result);
}

TEST(a_fill_of_rows_waits_until_the_device_is_awake)
{
	struct command_result result = run_held("wait");

	EXPECT_STR_EQ(result.out, "asleep: waits\nawake: 7 0\n");
	EXPECT_EQ(result.status, 0);
	command_free(&result);
}

/* ---- Entries that have no row -------------------------------------------- */

/* Calls outside driver/entries.h whose names say that they work on memory, and
 * why they are not held. A name may be a pattern of the shell. */
static const struct {
	const char *name;
	const char *why;
} unlisted[] = {
	{ "cuMemcpyAto[AH]*", "arrays stay on the device" },
	{ "cuMemcpyHtoA*", "arrays stay on the device" },
	{ "cuMemcpyAtoD", "32-bit addresses, from before CUDA 3.2" },
	{ "cuMemcpyDtoA", "32-bit addresses, from before CUDA 3.2" },
	{ "cuMemcpyDto[DH]", "32-bit addresses, from before CUDA 3.2" },
	{ "cuMemcpyDto[DH]Async", "32-bit addresses, from before CUDA 3.2" },
	{ "cuMemcpyHtoD", "32-bit addresses, from before CUDA 3.2" },
	{ "cuMemcpyHtoDAsync", "32-bit addresses, from before CUDA 3.2" },
	{ "cuMemcpy[23]D*", "32-bit addresses, from before CUDA 3.2" },
	{ "cuMemsetD*", "32-bit addresses, from before CUDA 3.2" },
	{ "cuGraph*BatchMemOpNode*", "a node, held when it is launched" },
	{ "cuGraph*MemcpyNode*", "a node, held when it is launched" },
	{ "cuGraph*MemsetNode*", "a node, held when it is launched" },
};

static bool
is_unlisted(const char *name)
{
	for (size_t i = 0; i < sizeof(unlisted) / sizeof(unlisted[0]); i++)
		if (fnmatch(unlisted[i].name, name, 0) == 0)
			return true;
	return false;
}

TEST(each_call_whose_name_tells_of_work_is_decided)
{
	static const char *const names[] = {
#define NAME_OF_UNSIMULATED(symbol, base, version) #symbol,
		SIM_UNSIMULATED(NAME_OF_UNSIMULATED, NAME_OF_UNSIMULATED,
		    NAME_OF_UNSIMULATED)
#undef NAME_OF_UNSIMULATED
	};
	static const char *const words[] = { "Memcpy", "Memset", "cuLaunch",
		"Prefetch", "Discard", "Advise", "Decompress", "MemOp",
		"StreamWrite", "StreamWaitValue", "GraphLaunch" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		bool works = false;

		for (size_t k = 0; k < sizeof(words) / sizeof(words[0]); k++)
			works = works || strstr(names[i], words[k]) != NULL;
		if (works && find_row(names[i]) == NULL &&
		    !is_unlisted(names[i]))
			FAIL("%s is not decided", names[i]);
	}
}
