/*
 * The adapter to PyTorch, over a double of PyTorch's interface and the
 * simulated device.
 */
#include "tests/plugins/torch/adapter_cases.h"

#include <string.h>

#include "tests/support/device.h"

static void
need_for(const char *sentence)
{
	device_need(2);
	if (strncmp(sentence, "shared_memory_", 14) == 0)
		device_need_sharing();
}

#define ADAPTER_TEST(sentence)                                                 \
	TEST(in_pytorch_##sentence)                                            \
	{                                                                      \
		need_for(#sentence);                                           \
		const char *fault = sentence();                                \
		if (fault != NULL)                                             \
			FAIL("%s", fault);                                     \
		expect_healthy();                                              \
	}
ADAPTER_CASES(ADAPTER_TEST)
