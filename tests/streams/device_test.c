/*
 * Devices: which device a number means, its properties, and its telemetry.
 */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "tests/support/device.h"

TEST(there_is_at_least_one_device)
{
	int count = 0;

	EXPECT_OK(weir_device_count(&count));
	EXPECT_GE(count, 1);
	EXPECT_EQ(count, device_driver()->device_count);
	EXPECT_STATUS(weir_device_count(NULL), WEIR_EINVAL);
}

TEST(the_current_device_is_0_until_it_is_set)
{
	int device = -1;

	EXPECT_OK(weir_get_device(&device));
	EXPECT_EQ(device, 0);
	EXPECT_STATUS(weir_get_device(NULL), WEIR_EINVAL);
	EXPECT_STATUS(weir_set_device(99), WEIR_ENODEVICE);
	EXPECT_STATUS(weir_set_device(-9), WEIR_ENODEVICE);
	EXPECT_OK(weir_set_device(WEIR_DEVICE_CURRENT));
	EXPECT_OK(weir_get_device(&device));
	EXPECT_EQ(device, 0);
}

TEST(setting_a_device_makes_its_primary_context_current)
{
	CUcontext current = NULL;
	CUcontext primary = NULL;

	EXPECT_OK(weir_set_device(0));
	EXPECT_EQ(device_driver()->cuCtxGetCurrent(&current), CUDA_SUCCESS);
	EXPECT_OK(driver_context(0, &primary));
	EXPECT_EQ(current, primary);
}

static void *
get_device(void *out)
{
	EXPECT_OK(weir_get_device(out));
	return NULL;
}

TEST(each_thread_has_a_separate_current_device)
{
	pthread_t thread;
	int device = -1;

	device_need(2);
	EXPECT_OK(weir_set_device(1));
	EXPECT_EQ(pthread_create(&thread, NULL, get_device, &device), 0);
	EXPECT_EQ(pthread_join(thread, NULL), 0);
	EXPECT_EQ(device, 0);
	EXPECT_OK(weir_get_device(&device));
	EXPECT_EQ(device, 1);
}

TEST(without_a_context_the_device_last_set_is_meant)
{
	int device = -1;

	device_need(2);
	EXPECT_OK(weir_set_device(1));
	EXPECT_EQ(device_driver()->cuCtxSetCurrent(NULL), CUDA_SUCCESS);
	EXPECT_OK(weir_get_device(&device));
	EXPECT_EQ(device, 1);
	EXPECT_EQ(info_of(take(512, NULL)).device, 1);
}

TEST(a_device_is_described)
{
	struct weir_device_info info = { .struct_size = sizeof(info) };
	unsigned domain;
	unsigned bus;
	unsigned device;

	EXPECT_OK(weir_device_info(0, &info));
	EXPECT(strlen(info.name) > 0);
	EXPECT_GE(info.capability_major, 5);
	EXPECT_GE(info.capability_minor, 0);
	EXPECT_EQ(info.total_bytes, device_total(0));
	EXPECT_EQ(strncmp(info.uuid, "GPU-", 4), 0);
	EXPECT_EQ(strlen(info.uuid), 40);
	EXPECT_EQ(
	    sscanf(info.pci_bus_id, "%x:%x:%x.0", &domain, &bus, &device), 3);
	EXPECT_GE(info.driver_version, DRIVER_VERSION_MIN);
	EXPECT_EQ(info.simulated, device_is_simulated());
	EXPECT_STATUS(weir_device_info(99, &info), WEIR_ENODEVICE);
	EXPECT_STATUS(weir_device_info(0, NULL), WEIR_EINVAL);
	info.struct_size = 0;
	EXPECT_STATUS(weir_device_info(0, &info), WEIR_EINVAL);
}

TEST(a_failed_query_of_a_device_s_properties_is_reported)
{
	struct weir_device_info info = { .struct_size = sizeof(info) };

	device_need_sim("calls of the driver are made to fail");
	EXPECT_EQ(sim()->fail("cuDeviceGetName", 1, 1, CUDA_ERROR_UNKNOWN), 0);
	EXPECT_STATUS(weir_device_info(0, &info), WEIR_EDRIVER);
	EXPECT_EQ(info.name[0], '\0');
	EXPECT_EQ(
	    sim()->fail("cuDeviceGetPCIBusId", 1, 1, CUDA_ERROR_UNKNOWN), 0);
	EXPECT_STATUS(weir_device_info(0, &info), WEIR_EDRIVER);
	EXPECT_OK(weir_device_info(0, &info));
}

TEST(the_struct_for_telemetry_must_have_its_size)
{
	struct weir_telemetry out = { 0 };

	EXPECT_STATUS(weir_telemetry(0, &out), WEIR_EINVAL);
	EXPECT_STATUS(weir_telemetry(0, NULL), WEIR_EINVAL);
	out.struct_size = sizeof(out);
	EXPECT_STATUS(weir_telemetry(99, &out), WEIR_ENODEVICE);
}
