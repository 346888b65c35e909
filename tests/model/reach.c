/*
 * Checks that the fault sweep makes each driver entry fail, or that there is a
 * reason why not.
 *
 * Each entry belongs to one program, whose scenarios have to reach it: to
 * fault_test if they do there, else to the program in the table. If no program
 * reaches it, the table has the reason. Each program checks its own part, so
 * that the three together check all entries:
 *
 *	it reaches each entry that belongs to it
 *	it reaches no entry for which there is a reason
 *	fault_test reaches no entry of the table
 */
#include <stdio.h>
#include <string.h>

#include "tests/model/sweep.h"
#include "tests/support/test.h"

static const char first[] = "fault_test";

static const struct {
	const char *entry;
	const char *program; /* NULL: none */
	const char *reason;  /* why no scenario reaches it */
} others[] = {
	{ "cuStreamBeginCapture", "graph_fault_test", NULL },
	{ "cuStreamEndCapture", "graph_fault_test", NULL },
	{ "cuGraphInstantiateWithFlags", "graph_fault_test", NULL },
	{ "cuGraphLaunch", "graph_fault_test", NULL },
	{ "cuGraphDestroy", "graph_fault_test", NULL },
	{ "cuGraphExecDestroy", "graph_fault_test", NULL },
	{ "cuGraphGetNodes", "graph_fault_test", NULL },
	{ "cuMemcpyHtoDAsync", "graph_fault_test", NULL },
	{ "cuCtxGetId", "tensor_fault_test", NULL },
	{ "cuPointerGetAttribute", "tensor_fault_test", NULL },
	{ "cuMemGetAddressRange", "tensor_fault_test", NULL },
	{ "cuIpcGetMemHandle", "tensor_fault_test", NULL },
	{ "cuIpcOpenMemHandle", "tensor_fault_test", NULL },
	{ "cuIpcCloseMemHandle", "tensor_fault_test", NULL },
	{ "cuIpcGetEventHandle", "tensor_fault_test", NULL },
	{ "cuIpcOpenEventHandle", "tensor_fault_test", NULL },
	{ "cuMemExportToShareableHandle", "tensor_fault_test", NULL },
	{ "cuMemImportFromShareableHandle", "tensor_fault_test", NULL },
	{ "cuMemRetainAllocationHandle", "tensor_fault_test", NULL },
	{ "cuMemcpyPeerAsync", "tensor_fault_test", NULL },
	{ "cuMemsetD32Async", "tensor_fault_test", NULL },
	{ "cuModuleLoadData", "tensor_fault_test", NULL },
	{ "cuModuleGetFunction", "tensor_fault_test", NULL },
	{ "cuLaunchKernel", "tensor_fault_test", NULL },
	{ "cuModuleUnload", NULL,
	    "only after cuModuleGetFunction has failed: tensor_fault_test "
	    "makes both fail" },
};

enum { OTHERS = sizeof(others) / sizeof(others[0]) };

static struct scenario *scenarios;

void
sweep_register(struct scenario *scenario)
{
	scenario->next = scenarios;
	scenarios = scenario;
}

/* The place of an entry in the table; OTHERS: it is not there. */
static int
place_in_others(const char *entry)
{
	int i = 0;

	while (i < OTHERS && strcmp(others[i].entry, entry) != 0)
		i++;
	return i;
}

/* Is an entry called as the table says? */
static bool
is_as_expected(const char *program, const char *entry, bool is_reached)
{
	int i = place_in_others(entry);
	const char *owner = i == OTHERS ? first : others[i].program;
	bool is_first = strcmp(program, first) == 0;

	if (owner == NULL && is_reached)
		fprintf(stderr,
		    "# %s is reached, but reach.c has a reason: %s\n", entry,
		    others[i].reason);
	else if (owner != NULL && strcmp(program, owner) == 0 && !is_reached)
		fprintf(
		    stderr, "# no scenario of %s reaches %s\n", program, entry);
	else if (is_first && owner != first && is_reached)
		fprintf(stderr, "# %s reaches %s, which reach.c gives to %s\n",
		    program, entry, owner);
	else
		return true;
	return false;
}

static bool
is_entry(const char *name)
{
	int i = 0;

	while (i < SWEEP_ENTRIES && strcmp(sweep_entries[i], name) != 0)
		i++;
	return i < SWEEP_ENTRIES;
}

void
sweep_reach(const char *program)
{
	unsigned wrong = 0;

	for (const struct scenario *s = scenarios; s != NULL; s = s->next)
		sweep_scenario(s, sweep_count);
	for (int i = 0; i < SWEEP_ENTRIES; i++)
		wrong += !is_as_expected(
		    program, sweep_entries[i], sweep_calls[i] > 0);
	for (int i = 0; i < OTHERS; i++)
		if (!is_entry(others[i].entry))
			FAIL("reach.c has %s, which is no entry",
			    others[i].entry);
	EXPECT_EQ(wrong, 0);
}
