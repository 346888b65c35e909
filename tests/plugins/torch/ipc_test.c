/*
 * Handles of shared blocks. tests/ipc/torch_test.c tests their use in another
 * process.
 */
#include <string.h>

#include "plugins/torch/weir_torch.h"
#include "tests/support/device.h"

TEST(a_shared_block_is_freed_through_its_export)
{
	unsigned char bytes[256];
	unsigned char again[256];
	size_t length = 0;
	size_t offset = 1;

	device_need_sharing();
	void *block = take(3 * MIB, NULL);
	EXPECT_EQ(weir_torch_shared, 0);
	EXPECT_OK(
	    weir_torch_share(block, bytes, sizeof(bytes), &length, &offset));
	EXPECT_EQ(weir_torch_shared, 1);
	EXPECT_EQ(bytes[0], 2);
	EXPECT(bytes[1] == 'e' || bytes[1] == 'w');
	size_t first = length;
	EXPECT_OK(
	    weir_torch_share(block, again, sizeof(again), &length, &offset));
	EXPECT_EQ(length, first);
	EXPECT_MEM_EQ(bytes, again, length);
	EXPECT_EQ(weir_torch_shared, 1);
	void *other = take(1000, NULL);
	EXPECT_OK(weir_torch_free(other));
	EXPECT_OK(weir_torch_free(block));
	EXPECT_EQ(weir_torch_shared, 0);
	EXPECT_EQ(stats().allocated_bytes.all.current, 0);
	EXPECT_EQ(weir_torch_free(block), WEIR_EINVAL);
	expect_healthy();
}

TEST(memory_of_the_driver_is_shared_by_its_handle)
{
	unsigned char bytes[256];
	size_t length = 0;
	size_t offset = 0;

	device_need_sharing();
	conf("expandable_segments:False");
	char *first = take(1000, NULL);
	char *block = take(1000, NULL);
	EXPECT_OK(
	    weir_torch_share(block, bytes, sizeof(bytes), &length, &offset));
	EXPECT_EQ(length, 66);
	EXPECT_EQ(bytes[1], 'c');
	EXPECT_EQ(offset, (size_t)(block - (char *)info_of(block).segment));
	EXPECT_OK(weir_torch_free(block));
	EXPECT_OK(weir_torch_free(first));
	expect_healthy();
}

TEST(an_invalid_handle_is_refused)
{
	unsigned char bytes[66] = { 2, 'w' };
	unsigned char small[4];
	size_t length = 0;
	size_t offset = 0;
	void *ptr = NULL;
	void *link = NULL;

	device_need_sharing();
	EXPECT_OK(weir_init());
	EXPECT_NE(weir_torch_open_shared(bytes, 66, 0, &ptr, &link), WEIR_OK);
	EXPECT_NE(weir_torch_open_shared(bytes, 5, 0, &ptr, &link), WEIR_OK);
	EXPECT_NE(weir_torch_open_shared("", 0, 0, &ptr, &link), WEIR_OK);
	EXPECT_NULL(ptr);
	EXPECT_STATUS(
	    weir_torch_share(bytes, small, sizeof(small), &length, &offset),
	    WEIR_EINVAL);
	EXPECT_EQ(weir_torch_shared, 0);
	void *block = take(1000, NULL);
	EXPECT_EQ(
	    weir_torch_share(block, small, sizeof(small), &length, &offset),
	    WEIR_EINVAL);
	EXPECT_OK(weir_torch_free(block));
	expect_healthy();
}
