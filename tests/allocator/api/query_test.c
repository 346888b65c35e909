/*
 * Queries of blocks: by any address within, and by the start.
 */
#include <string.h>

#include "allocator/allocator.h"
#include "tests/support/device.h"

/* ---- Asking ------------------------------------------------------------ */

TEST(a_block_is_found_by_any_address_within_it)
{
	weir_stream stream = new_stream();
	char *ptr = take(3 * MIB + 5, stream);
	size_t size = 3 * MIB + 512;
	struct weir_block_info info = { .struct_size = sizeof(info) };

	for (size_t at = 0; at < size; at += 511) {
		EXPECT_OK(weir_block_info(ptr + at, &info));
		EXPECT_EQ(info.address, ptr);
	}
	EXPECT_OK(weir_block_info(ptr + size - 1, &info));
	EXPECT_EQ(info.size, size);
	EXPECT_EQ(info.requested_bytes, 3 * MIB + 5);
	EXPECT_EQ(info.stream, stream);
	EXPECT_STATUS(weir_block_info(ptr + size, &info), WEIR_EINVAL);
	EXPECT_STATUS(weir_block_info(ptr - 1, &info), WEIR_EINVAL);
	give(ptr);
	EXPECT_STATUS(weir_block_info(ptr, &info), WEIR_EINVAL);
	EXPECT_STATUS(weir_block_info(NULL, &info), WEIR_EINVAL);
	EXPECT_STATUS(weir_block_info(&info, &info), WEIR_EINVAL);
}

TEST(the_struct_for_a_block_s_facts_must_have_its_size)
{
	struct weir_block_info info = { 0 };
	void *ptr = take(512, NULL);

	EXPECT_STATUS(weir_block_info(ptr, &info), WEIR_EINVAL);
	EXPECT_STATUS(weir_block_info(ptr, NULL), WEIR_EINVAL);
	EXPECT_NULL(info.address);
}

TEST(weir_owns_its_memory_from_the_driver_in_use_or_not)
{
	char *ptr = take(64 * MIB, NULL);
	CUdeviceptr addr = (CUdeviceptr)(uintptr_t)ptr;

	EXPECT(allocator_owns(addr));
	EXPECT(allocator_owns(addr + 64 * MIB - 1));
	give(ptr);
	EXPECT(allocator_owns(addr + 100));
	trim(0);
	EXPECT(!allocator_owns(addr));
	EXPECT(!allocator_owns(0));
	EXPECT(!allocator_owns((CUdeviceptr)(uintptr_t)&addr));
}

TEST(a_block_is_found_at_its_start_while_it_is_live)
{
	weir_stream a = new_stream();
	char *ordered = take(1000, a);
	char *plain = take(3 * MIB, WEIR_STREAM_ANY);
	struct allocator_block block;
	int local;

	EXPECT(allocator_find(ordered, &block));
	EXPECT_EQ(block.device, 0);
	EXPECT_EQ(block.requested_bytes, 1000);
	EXPECT(!block.of_no_stream);
	EXPECT(allocator_find(plain, &block));
	EXPECT_EQ(block.requested_bytes, 3 * MIB);
	EXPECT(block.of_no_stream);
	EXPECT(!allocator_find(ordered + 512, &block));
	EXPECT(!allocator_find(plain + 1, &block));
	EXPECT(!allocator_find(&local, &block));
	EXPECT(!allocator_find(NULL, &block));
	give(ordered);
	give(plain);
	EXPECT(!allocator_find(ordered, &block));
	EXPECT(!allocator_find(plain, &block));
}
