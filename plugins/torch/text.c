/*
 * Sizes and shortages in PyTorch's words.
 */
#include <stdio.h>
#include <string.h>

#include "plugins/torch/weir_torch.h"

int
weir_torch_abi(void)
{
	return WEIR_TORCH_ABI;
}

void
weir_torch_size_text(char *text, size_t size, uint64_t bytes)
{
	static const char *const units[] = { "KiB", "MiB", "GiB" };
	double amount = (double)bytes / 1024;
	size_t unit = 0;

	if (bytes <= 1024) {
		snprintf(text, size, "%llu bytes", (unsigned long long)bytes);
		return;
	}
	for (uint64_t most = 1 << 20; unit < 2 && bytes > most; most <<= 10) {
		amount /= 1024;
		unit++;
	}
	snprintf(text, size, "%.2f %s", amount, units[unit]);
}

/* weir's report begins with a sentence like PyTorch's first one. It is left
 * out; the rest is about the device. */
void
weir_torch_oom_text(char *text, size_t size, int device, size_t requested)
{
	char amount[40];
	const char *report = weir_last_error();
	const char *facts = strstr(report, "GPU ");

	if (requested >= WEIR_SIZE_MAX) {
		snprintf(text, size,
		    "CUDA out of memory. Tried to allocate more than 1EB "
		    "memory.");
		return;
	}
	weir_torch_size_text(amount, sizeof(amount), requested);
	if (facts != NULL)
		snprintf(text, size,
		    "CUDA out of memory. Tried to allocate %s. %s", amount,
		    facts);
	else
		snprintf(text, size,
		    "CUDA out of memory. Tried to allocate %s. GPU %d: %s",
		    amount, device, report);
}
