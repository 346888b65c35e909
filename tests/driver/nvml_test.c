/*
 * NVML: its measurements are passed on, and a fact that it lacks only makes the
 * answer smaller. The tests use fake/nvml.so; the last tests use that of the
 * run, which may be the simulated one, a real one or none.
 */
#include <pthread.h>

#include "base/meta.h"
#include "base/status.h"
#include "driver/driver.h"
#include "tests/driver/fake/cuda.h"
#include "tests/driver/fake/nvml.h"
#include "tests/support/test.h"

static const char id[] = "0000:3B:00.0";

static struct fake_nvml *
use_fake(void)
{
	char path[4096];
	void *library;
	struct fake_nvml *fake;

	setenv(
	    "WEIR_LIBNVML", fake_path("fake/nvml.so", path, sizeof(path)), 1);
	library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (library == NULL)
		FAIL("%s", dlerror());
	fake = dlsym(library, "fake_nvml");
	EXPECT_NOT_NULL(fake);
	return fake;
}

static struct weir_telemetry
measure(void)
{
	struct weir_telemetry out = { .struct_size = sizeof(out) };

	EXPECT_EQ(nvml_telemetry(id, &out), WEIR_OK);
	EXPECT_EQ(out.struct_size, sizeof(out));
	return out;
}

TEST(telemetry_has_the_values_of_nvml)
{
	struct fake_nvml *fake = use_fake();
	struct weir_telemetry out = measure();

	EXPECT_EQ(out.temperature_celsius, 41);
	EXPECT_EQ(out.power_milliwatts, 70123);
	EXPECT_EQ(out.sm_clock_mhz, 1980);
	EXPECT_EQ(out.memory_clock_mhz, 2619);
	EXPECT_EQ(out.utilization_percent, 87);
	EXPECT_EQ(out.memory_used_bytes, 550000);
	EXPECT_EQ(out.processes, 3);
	measure();
	EXPECT_EQ(fake->inits, 1);
}

TEST(a_value_that_cannot_be_measured_is_zero_and_the_others_are_not)
{
	static const char *const functions[] = { "nvmlDeviceGetTemperature",
		"nvmlDeviceGetPowerUsage", "nvmlDeviceGetClockInfo",
		"nvmlDeviceGetUtilizationRates",
		"nvmlDeviceGetComputeRunningProcesses_v2" };
	struct fake_nvml *fake = use_fake();

	for (int i = 0; i < 5; i++) {
		struct weir_telemetry out;

		fake->failing = functions[i];
		out = measure();
		EXPECT_EQ(out.temperature_celsius, i == 0 ? 0 : 41);
		EXPECT_EQ(out.power_milliwatts, i == 1 ? 0 : 70123);
		EXPECT_EQ(out.sm_clock_mhz, i == 2 ? 0 : 1980);
		EXPECT_EQ(out.memory_clock_mhz, i == 2 ? 0 : 2619);
		EXPECT_EQ(out.utilization_percent, i == 3 ? 0 : 87);
		EXPECT_EQ(out.processes, i == 4 ? 0 : 3);
	}
	EXPECT_EQ(weir_last_status(), WEIR_OK);
}

TEST(memory_is_queried_by_the_older_call_if_the_newer_fails)
{
	struct fake_nvml *fake = use_fake();

	fake->failing = "nvmlDeviceGetMemoryInfo_v2";
	EXPECT_EQ(measure().memory_used_bytes, 600000);
}

/* Telemetry fails with this error and changes nothing, and there are no
 * processes. */
static void
expect_none(const char *pci_bus_id, const char *text)
{
	struct weir_telemetry out;
	struct weir_telemetry before;
	struct nvml_process process;

	memset(&out, 0x55, sizeof(out));
	before = out;
	for (int i = 0; i < 2; i++) {
		EXPECT_EQ(nvml_telemetry(pci_bus_id, &out), WEIR_ENOTSUP);
		EXPECT_STR_HAS(weir_last_error(), text);
		EXPECT_MEM_EQ(&out, &before, sizeof(out));
	}
	status_set(WEIR_EINVAL, "before");
	EXPECT_EQ(nvml_processes(pci_bus_id, &process, 1), 0);
	EXPECT_STR_EQ(weir_last_error(), "before");
}

TEST(a_device_that_nvml_does_not_know_is_reported)
{
	use_fake();
	expect_none("0000:00:00.0",
	    "nvmlDeviceGetHandleByPciBusId_v2(0000:00:00.0): Not Found (6)");
}

TEST(a_missing_library_is_reported)
{
	setenv("WEIR_LIBNVML", "/nowhere/libnvidia-ml.so.1", 1);
	expect_none(id, "no NVML: /nowhere/libnvidia-ml.so.1: ");
}

TEST(a_library_that_is_not_nvml_is_reported)
{
	setenv("WEIR_LIBNVML", "libm.so.6", 1);
	expect_none(id, "NVML has no nvml");
}

TEST(a_failed_initialisation_is_reported)
{
	struct fake_nvml *fake = use_fake();

	fake->failing = "nvmlInit_v2";
	expect_none(id, "nvmlInit_v2(): Unknown Error (999)");
	EXPECT_EQ(fake->inits, 1);
}

TEST(a_code_without_a_text_is_reported_by_its_number)
{
	struct fake_nvml *fake = use_fake();

	fake->failing = "nvmlInit_v2";
	fake->code = 12;
	expect_none(id, "(12)");
}

TEST(processes_are_listed_with_their_memory)
{
	struct nvml_process list[8];

	use_fake();
	EXPECT_EQ(nvml_processes(id, list, 8), 3);
	EXPECT_EQ(list[0].pid, 100);
	EXPECT_EQ(list[0].used_bytes, 0);
	EXPECT_EQ(list[2].pid, 102);
	EXPECT_EQ(list[2].used_bytes, 8192);
}

TEST(processes_are_cut_to_the_room_there_is)
{
	struct nvml_process list[2] = { { 7, 7 }, { 7, 7 } };

	use_fake();
	EXPECT_EQ(nvml_processes(id, list, 1), 1);
	EXPECT_EQ(list[0].pid, 100);
	EXPECT_EQ(list[1].pid, 7);
	EXPECT_EQ(nvml_processes(id, list, 0), 0);
}

TEST(many_processes_are_listed_though_some_join_meanwhile)
{
	static struct nvml_process list[FAKE_PROCESSES + 16];
	struct fake_nvml *fake = use_fake();
	size_t before = meta_bytes();

	fake->processes = FAKE_PROCESSES;
	fake->joining = 5;
	EXPECT_EQ(
	    nvml_processes(id, list, FAKE_PROCESSES + 16), FAKE_PROCESSES + 5);
	EXPECT_EQ(list[FAKE_PROCESSES].pid, 100 + FAKE_PROCESSES);
	EXPECT_EQ(meta_bytes(), before);
}

TEST(many_processes_without_host_memory_are_none)
{
	struct nvml_process list[8];
	struct fake_nvml *fake = use_fake();

	fake->processes = FAKE_PROCESSES;
	meta_fail(1, 1);
	EXPECT_EQ(nvml_processes(id, list, 8), 0);
	EXPECT_EQ(weir_last_status(), WEIR_OK);
	EXPECT_EQ(nvml_processes(id, list, 8), 8);
}

TEST(processes_that_cannot_be_listed_are_none)
{
	struct nvml_process list[8];
	struct fake_nvml *fake = use_fake();

	fake->failing = "nvmlDeviceGetComputeRunningProcesses_v2";
	EXPECT_EQ(nvml_processes(id, list, 8), 0);
}

static void *
measure_in_thread(void *unused)
{
	EXPECT_EQ(measure().temperature_celsius, 41);
	return unused;
}

TEST(threads_that_come_together_load_it_once)
{
	enum { THREADS = 8 };
	struct fake_nvml *fake = use_fake();
	pthread_t threads[THREADS];

	for (int i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, measure_in_thread, NULL);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	EXPECT_EQ(fake->inits, 1);
}

/* The NVML of this run, and the first device of its driver. */
TEST(the_nvml_of_this_run_measures_its_device_or_reports_a_reason)
{
	const struct driver *driver;
	struct weir_telemetry out = { .struct_size = sizeof(out) };
	struct nvml_process list[64];
	char bus_id[32];

	EXPECT_EQ(driver_get(&driver), WEIR_OK);
	EXPECT_EQ(driver->cuDeviceGetPCIBusId(bus_id, sizeof(bus_id), 0),
	    CUDA_SUCCESS);
	if (nvml_telemetry(bus_id, &out) != WEIR_OK) {
		EXPECT_EQ(weir_last_status(), WEIR_ENOTSUP);
		SKIP(weir_last_error());
	}
	EXPECT_GE(out.temperature_celsius, 0);
	EXPECT_LE(out.temperature_celsius, 150);
	EXPECT_LE(out.utilization_percent, 100);
	EXPECT_LE(nvml_processes(bus_id, list, 64), 64);
}
