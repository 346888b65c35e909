/*
 * Which devices may use mapped memory: the device itself, and its peers.
 */
#include "allocator/memory/handle.h"

#include "tests/support/cuda.h"
#include "tests/support/device.h"

/* May a device use the memory at an address? */
static bool
reaches(int device, const void *ptr)
{
	CUmemLocation location = { .type = CU_MEM_LOCATION_TYPE_DEVICE,
		.id = device };
	unsigned long long flags = 0;

	CU(cu.cuMemGetAccess(&flags, &location, (CUdeviceptr)(uintptr_t)ptr));
	return flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
}

TEST(a_peer_reaches_mapped_memory_and_later_mappings)
{
	device_need(2);
	cuda_load();
	char *before = take(3 * MIB, NULL);
	EXPECT(reaches(0, before));
	EXPECT(!reaches(1, before));
	EXPECT_OK(weir_peer_access(0, 1));
	EXPECT(reaches(0, before));
	EXPECT(reaches(1, before));
	char *after = take(300 * MIB, NULL);
	EXPECT(reaches(1, after));
	EXPECT(reaches(0, after));
	char *other = weir_malloc_on(1, 3 * MIB, NULL);
	EXPECT(!reaches(0, other));
	EXPECT_OK(weir_peer_access(0, 1));
	expect_healthy();
}

TEST(an_invalid_peer_is_refused)
{
	device_need(2);
	EXPECT_OK(weir_peer_access(0, 0));
	EXPECT_STATUS(weir_peer_access(0, 99), WEIR_ENODEVICE);
	EXPECT_STATUS(weir_peer_access(-1, 0), WEIR_ENODEVICE);
	expect_healthy();
}

TEST(a_peer_that_cannot_be_opened_changes_nothing)
{
	device_need(2);
	device_need_sim("only the simulated driver can be made to fail");
	cuda_load();
	char *block = take(3 * MIB, NULL);
	sim()->fail("cuMemSetAccess", 1, 1, CUDA_ERROR_NOT_SUPPORTED);
	EXPECT_EQ(weir_peer_access(0, 1), WEIR_ENOTSUP);
	EXPECT(!reaches(1, block));
	take(300 * MIB, NULL);
	EXPECT(!reaches(1, take(300 * MIB, NULL)));
	expect_healthy();
}
