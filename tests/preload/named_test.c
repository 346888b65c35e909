/*
 * Calls that name memory by its address. The driver knows weir's ranges, and
 * under weir a program must learn about its allocations only. Each entry of the
 * driver's calls on memory is decided here, so an entry that is new to the
 * lists of the simulated driver fails the test until somebody decides it.
 */
#include <stdio.h>
#include <string.h>

#include "preload/hooks.h"
#include "simcuda/entries.h"
#include "simcuda/unsimulated.h"
#include "tests/support/start.h"
#include "tests/support/test.h"

/* ---- Each entry --------------------------------------------------------- */

enum decision {
	HOOKED,  /* answered from the program's allocations, or counted */
	WORK,    /* queues work on memory: docs/preload.md, Limits */
	MANAGED, /* the driver refuses all memory that is not managed */
	HANDLE,  /* takes or returns handles or sizes, and no address */
	SHORT,   /* a form with addresses of 32 bits */
	UNDECIDED
};

/* The longest prefix that an entry's name begins with decides. */
static const struct rule {
	const char *prefix;
	enum decision decision;
} rules[] = {
	{ "cuMemAlloc", HOOKED },
	{ "cuMemAllocHost", HOOKED },
	{ "cuMemFree", HOOKED },
	{ "cuMemHost", HOOKED },
	{ "cuMemGetInfo", HOOKED },
	{ "cuMemGetAddressRange", HOOKED },
	{ "cuMemGetHandleForAddressRange", HOOKED },
	{ "cuMemRetainAllocationHandle", HOOKED },
	{ "cuMemMap", HOOKED },
	{ "cuMemMapArrayAsync", HANDLE },
	{ "cuMemUnmap", HOOKED },
	{ "cuMemAddressReserve", HANDLE },
	{ "cuMemAddressFree", HOOKED },
	{ "cuMemSetAccess", HOOKED },
	{ "cuMemGetAccess", HOOKED },
	{ "cuMemCreate", HOOKED },
	{ "cuMemRelease", HOOKED },
	{ "cuMemExportToShareableHandle", HOOKED },
	{ "cuMemImportFromShareableHandle", HOOKED },
	{ "cuMemGetAllocationGranularity", HANDLE },
	{ "cuMemGetAllocationPropertiesFromHandle", HOOKED },
	{ "cuMemPool", HOOKED },
	{ "cuMemPoolGetAccess", HANDLE },
	{ "cuMemPoolExportToShareableHandle", HANDLE },
	{ "cuMemPoolImportFromShareableHandle", HANDLE },
	{ "cuMemPoolImportPointer", HOOKED },
	{ "cuMemGetDefaultMemPool", HANDLE },
	{ "cuMemGetMemPool", HANDLE },
	{ "cuMemSetMemPool", HOOKED },
	{ "cuMemcpy", WORK },
	{ "cuMemset", WORK },
	{ "cuMemBatchDecompressAsync", WORK },
	{ "cuMemAdvise", MANAGED },
	{ "cuMemPrefetch", MANAGED },
	{ "cuMemDiscard", MANAGED },
	{ "cuMemRangeGetAttribute", MANAGED },
	{ "cuPointer", HOOKED },
	{ "cuIpcGetMemHandle", HOOKED },
	{ "cuIpcOpenMemHandle", HOOKED },
	{ "cuIpcCloseMemHandle", HOOKED },
	{ "cuIpcGetEventHandle", HANDLE },
	{ "cuIpcOpenEventHandle", HANDLE },
	{ "cuMulticast", HANDLE },
	{ "cuMulticastBindAddr", HOOKED },
	{ "cuMulticastBindMem", HOOKED },
};

static const struct entry {
	const char *symbol;
	const char *base;
	int version;
} entries[] = {
#define ROW_OF_UNSIMULATED(symbol, base, version) { #symbol, #base, version },
#define ROW_OF_ENTRY(symbol, base, version, flags, params)                     \
	{ #symbol, #base, version },
	SIM_ENTRIES(ROW_OF_ENTRY, ROW_OF_ENTRY, ROW_OF_ENTRY) SIM_UNSIMULATED(
	    ROW_OF_UNSIMULATED, ROW_OF_UNSIMULATED, ROW_OF_UNSIMULATED)
#undef ROW_OF_ENTRY
#undef ROW_OF_UNSIMULATED
};

static bool
begins(const char *name, const char *prefix)
{
	return strncmp(name, prefix, strlen(prefix)) == 0;
}

/* Is it a call on memory? All other calls take no address, or queue work. */
static bool
is_on_memory(const char *symbol)
{
	return begins(symbol, "cuMem") || begins(symbol, "cuPointer") ||
	    begins(symbol, "cuIpc") || begins(symbol, "cuMulticast");
}

/* The first form of a call had addresses of 32 bits where the second was
 * brought by CUDA 3.2. */
static bool
is_short(const struct entry *entry)
{
	if (entry->version >= 3020)
		return false;
	for (size_t i = 0; i < sizeof(entries) / sizeof(entries[0]); i++)
		if (entries[i].version == 3020 &&
		    strcmp(entries[i].base, entry->base) == 0)
			return true;
	return false;
}

static enum decision
decide(const struct entry *entry)
{
	const struct rule *best = NULL;

	if (is_short(entry))
		return SHORT;
	for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++)
		if (begins(entry->symbol, rules[i].prefix) &&
		    (best == NULL ||
			strlen(rules[i].prefix) > strlen(best->prefix)))
			best = &rules[i];
	return best != NULL ? best->decision : UNDECIDED;
}

static bool
is_hooked(const char *symbol)
{
	static const struct {
		const char *name;
		enum hook_use use;
	} hooked[] = {
#define HOOK_NAME(name, base, version, streams, use, params) { #name, use },
		HOOKS(HOOK_NAME)
#undef HOOK_NAME
	};

	for (size_t i = 0; i < sizeof(hooked) / sizeof(hooked[0]); i++)
		if (strcmp(hooked[i].name, symbol) == 0)
			return hooked[i].use == HOOK_SERVE;
	return false;
}

TEST(each_call_of_the_driver_on_memory_is_decided)
{
	unsigned seen = 0;

	for (size_t i = 0; i < sizeof(entries) / sizeof(entries[0]); i++) {
		const struct entry *entry = &entries[i];

		if (!is_on_memory(entry->symbol))
			continue;
		enum decision decision = decide(entry);

		seen++;
		if (decision == UNDECIDED)
			FAIL("%s is not decided", entry->symbol);
		if (is_hooked(entry->symbol) != (decision == HOOKED))
			FAIL("%s: decision %d, hooked %d", entry->symbol,
			    (int)decision, is_hooked(entry->symbol));
	}
	EXPECT_GE(seen, 120u);
}

/* ---- What a program learns ---------------------------------------------- */

TEST(a_program_learns_by_address_what_it_learns_without_weir)
{
	struct start how = { .program = "driver_named" };
	struct command_result bare = start(&how);

	how.preload = true;
	struct command_result under = start(&how);

	EXPECT_EQ(bare.status, 0);
	EXPECT_STR_HAS(bare.out, "all freed");
	EXPECT_STR_EQ(under.out, bare.out);
	EXPECT_EQ(under.status, 0);
	command_free(&bare);
	command_free(&under);
}

/* The lines of an output that say so of something. */
static unsigned
count_lines(const char *text, const char *words)
{
	unsigned n = 0;

	while ((text = strstr(text, words)) != NULL) {
		n++;
		text += strlen(words);
	}
	return n;
}

TEST(a_program_cannot_change_the_mapping_of_weirs_memory)
{
	struct start how = {
		.program = "driver_named", .argument = "change", .preload = true
	};
	struct command_result result = start(&how);

	EXPECT_EQ(result.status, 0);
	EXPECT_EQ(count_lines(
		      result.out, "access 1 unmap 1 map 1 address 1 bind 1\n"),
	    8);
	EXPECT_EQ(count_lines(result.out, "dma-buf 1 beyond 1"), 3);
	EXPECT_EQ(count_lines(result.out, "beyond 1\n"), 6);
	EXPECT_STR_HAS(result.out, "live: register 1 unregister 1\n");
	EXPECT_STR_HAS(result.out, "freed: register 1 unregister 713\n");
	EXPECT_STR_HAS(result.out, "wrong words: 0\n");
	command_free(&result);
}
