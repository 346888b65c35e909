#include "plugins/torch/names.h"

#include "tests/support/device.h"

TEST(pools_have_pytorchs_names_while_they_are_there)
{
	for (uint64_t i = 1; i <= 100; i++) {
		uint64_t segment[2] = { 0, i };
		EXPECT_OK(names_add(
		    (int)(i % 2), segment, (struct weir_torch_id){ i, 0 }));
	}
	for (uint64_t i = 1; i <= 100; i++) {
		uint64_t segment[2] = { 0, i };
		struct weir_torch_id id =
		    weir_torch_pool_name((int)(i % 2), segment);
		EXPECT_EQ(id.graph, i);
		EXPECT_EQ(id.user, 0);
		names_remove((int)(i % 2), segment);
		id = weir_torch_pool_name((int)(i % 2), segment);
		EXPECT_EQ(id.graph, 0);
		EXPECT_EQ(id.user, i);
	}
	uint64_t all[2] = { 0, 0 };
	EXPECT_EQ(weir_torch_pool_name(0, all).user, 0);
}
