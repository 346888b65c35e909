#include <string.h>

#include "plugins/torch/weir_torch.h"
#include "tests/support/device.h"

TEST(sizes_are_in_pytorchs_words)
{
	static const struct {
		uint64_t bytes;
		const char *text;
	} all[] = { { 0, "0 bytes" }, { 1024, "1024 bytes" },
		{ 1025, "1.00 KiB" }, { 1 << 20, "1024.00 KiB" },
		{ (1 << 20) + 1, "1.00 MiB" }, { 20 << 20, "20.00 MiB" },
		{ (uint64_t)1 << 30, "1024.00 MiB" },
		{ (uint64_t)3 << 29, "1.50 GiB" },
		{ (uint64_t)1 << 50, "1048576.00 GiB" } };
	char text[40];

	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
		weir_torch_size_text(text, sizeof(text), all[i].bytes);
		EXPECT_STR_EQ(text, all[i].text);
	}
}

TEST(the_text_of_a_shortage_begins_as_pytorch_s)
{
	char text[4096];
	char cut[20];

	EXPECT_NO_MEMORY(weir_malloc((size_t)1 << 45, NULL), WEIR_ENOMEM);
	weir_torch_oom_text(text, sizeof(text), 0, (size_t)1 << 45);
	EXPECT_EQ(strncmp(text,
		      "CUDA out of memory. Tried to allocate 32768.00 GiB. GPU "
		      "0 has a total capacity of ",
		      80),
	    0);
	EXPECT_STR_HAS(text, "held by weir");
	weir_torch_oom_text(cut, sizeof(cut), 0, (size_t)1 << 45);
	EXPECT_STR_EQ(cut, "CUDA out of memory.");
	weir_torch_oom_text(text, sizeof(text), 0, (size_t)1 << 60);
	EXPECT_STR_HAS(text, "more than 1EB memory");
	EXPECT_EQ(weir_torch_abi(), WEIR_TORCH_ABI);
}
