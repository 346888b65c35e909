/*
 * The header of the simulated runtime agrees with the toolkit's. Skipped
 * without a toolkit.
 */
#include <dlfcn.h>
#include <stdlib.h>

#include "simcuda/cudart/include/cuda_runtime.h"
#include "tests/driver/fake/runtime.h"
#include "tests/support/command.h"
#include "tests/support/test.h"

static const struct runtime_fact ours[] = { RUNTIME_FACTS };

enum { OURS = sizeof(ours) / sizeof(ours[0]), OURS_AT_LEAST = 50 };

TEST(the_runtime_s_header_agrees_with_the_toolkit_s)
{
	char *path = test_build("tests/driver/fake/runtime.so");
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	const struct runtime_toolkit *toolkit;

	if (library == NULL)
		FAIL("%s", dlerror());
	toolkit = dlsym(library, "runtime_toolkit");
	EXPECT_NOT_NULL(toolkit);
	if (toolkit->version == 0)
		SKIP("there is no <cuda_runtime_api.h> of CUDA 13");
	EXPECT_GT(OURS, OURS_AT_LEAST);
	EXPECT_EQ(toolkit->n_facts, OURS);
	for (int i = 0; i < OURS; i++) {
		const struct runtime_fact *theirs = &toolkit->facts[i];

		EXPECT_STR_EQ(ours[i].name, theirs->name);
		if (ours[i].value != theirs->value)
			FAIL("%s is %lld here and %lld in the toolkit",
			    ours[i].name, ours[i].value, theirs->value);
	}
	free(path);
}
