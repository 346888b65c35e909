/*
 * driver/abi.h agrees with the toolkit's <cuda.h>: every constant, size, offset
 * of a member, and signature. Skipped without a toolkit, or with one that lacks
 * some calls.
 */
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "driver/abi.h"
#include "tests/driver/fake/toolkit.h"
#include "tests/support/test.h"

static const struct fact ours[] = { ABI_FACTS };

enum { OURS = sizeof(ours) / sizeof(ours[0]), SYMBOLS_AT_LEAST = 150 };

/* The toolkit's facts; the test is skipped without a toolkit. */
static const struct toolkit *
need_toolkit(void)
{
	char path[4096];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path));
	const struct toolkit *toolkit;
	void *library;
	char *slash;

	EXPECT_GT(n, 0);
	EXPECT_LT(n, sizeof(path));
	path[n] = '\0';
	slash = strrchr(path, '/');
	n = slash + 1 - path;
	snprintf(slash + 1, sizeof(path) - (size_t)n, "fake/toolkit.so");
	library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (library == NULL)
		FAIL("%s", dlerror());
	toolkit = dlsym(library, "toolkit");
	EXPECT_NOT_NULL(toolkit);
	if (toolkit->version == 0)
		SKIP("there is no <cuda.h> to compare with");
	if (toolkit->n_facts == 0)
		SKIP("<cuda.h> is older than 13.0 and lacks some calls");
	return toolkit;
}

TEST(constants_sizes_and_places_are_those_of_the_toolkit)
{
	const struct toolkit *toolkit = need_toolkit();

	EXPECT_EQ(toolkit->n_facts, OURS);
	for (int i = 0; i < OURS; i++) {
		const struct fact *theirs = &toolkit->facts[i];

		EXPECT_STR_EQ(ours[i].name, theirs->name);
		if (ours[i].value != theirs->value)
			FAIL("%s is %lld here and %lld in <cuda.h>",
			    ours[i].name, ours[i].value, theirs->value);
	}
}

TEST(signatures_are_those_of_the_toolkit)
{
	const struct toolkit *toolkit = need_toolkit();

	EXPECT_GT(toolkit->n_signatures, SYMBOLS_AT_LEAST);
	for (int i = 0; i < toolkit->n_signatures; i++) {
		const struct signature *signature = &toolkit->signatures[i];

		if (!signature->same)
			FAIL("%s at %d has another signature in <cuda.h>",
			    signature->name, signature->version);
	}
}

/* Without a toolkit an empty list would not be noticed. */
TEST(our_facts_are_of_all_kinds)
{
	static const char *const samples[] = { "CUDA_ERROR_OUT_OF_MEMORY",
		"CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING",
		"CU_MEM_ACCESS_FLAGS_PROT_READWRITE", "sizeof(CUdeviceptr)",
		"offsetof(CUmemAllocationProp, allocFlags.usage)",
		"CU_STREAM_PER_THREAD" };

	for (size_t i = 0; i < sizeof(samples) / sizeof(samples[0]); i++) {
		int found = 0;

		for (int j = 0; j < OURS; j++)
			found += strcmp(ours[j].name, samples[i]) == 0;
		if (found != 1)
			FAIL("%s is compared %d times", samples[i], found);
	}
}
