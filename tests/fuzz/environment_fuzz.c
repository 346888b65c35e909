/*
 * Arbitrary text in PyTorch's variable or in WEIR_CONF, which the first call
 * reads.
 */
#include <stdlib.h>
#include <string.h>

#include "allocator/options.h"
#include "tests/fuzz/fuzz.h"

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const names[] = { "PYTORCH_CUDA_ALLOC_CONF",
		"PYTORCH_ALLOC_CONF", "WEIR_CONF" };
	const struct options *options;
	const char *name;
	char *text;

	if (size == 0)
		return 0;
	for (size_t i = 0; i < 3; i++)
		unsetenv(names[i]);
	name = names[data[0] % 3];
	text = fuzz_text(data + 1, size - 1);
	setenv(name, text, 1);
	free(text);
	enum weir_status status = options_get(&options);
	if (status != WEIR_OK)
		fuzz_expect(strstr(weir_last_error(), name) != NULL,
		    "the error does not name the variable");
	options_forget();
	return 0;
}
