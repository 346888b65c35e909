/*
 * The adapter to PyTorch, over a double of PyTorch's interface and the
 * simulated device.
 */
#include "tests/plugins/torch/adapter_cases.h"

#include "tests/support/device.h"

#define ADAPTER_TEST(sentence)                                                 \
	TEST(in_pytorch_##sentence)                                            \
	{                                                                      \
		device_need(2);                                                \
		const char *fault = sentence();                                \
		if (fault != NULL)                                             \
			FAIL("%s", fault);                                     \
		expect_healthy();                                              \
	}
ADAPTER_CASES(ADAPTER_TEST)
