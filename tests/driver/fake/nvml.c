/*
 * The fake of fake/nvml.h. Its values are numbers that a test recognises. It
 * has no nvmlDeviceGetComputeRunningProcesses_v3, as old drivers do.
 */
#include "tests/driver/fake/nvml.h"

#include <stddef.h>
#include <string.h>

#define VISIBLE __attribute__((visibility("default")))

struct memory {
	unsigned version;
	unsigned long long total, reserved, free, used;
};

struct memory_v1 {
	unsigned long long total, free, used;
};

struct process {
	unsigned pid;
	unsigned long long used;
	unsigned gpu_instance, compute_instance;
};

VISIBLE extern struct fake_nvml fake_nvml;
VISIBLE int nvmlInit_v2(void);
VISIBLE const char *nvmlErrorString(int code);
VISIBLE int nvmlDeviceGetHandleByPciBusId_v2(const char *id, void **out);
VISIBLE int nvmlDeviceGetTemperature(void *device, int sensor, unsigned *out);
VISIBLE int nvmlDeviceGetPowerUsage(void *device, unsigned *out);
VISIBLE int nvmlDeviceGetClockInfo(void *device, int type, unsigned *out);
VISIBLE int nvmlDeviceGetUtilizationRates(void *device, unsigned out[2]);
VISIBLE int nvmlDeviceGetMemoryInfo(void *device, struct memory_v1 *out);
VISIBLE int nvmlDeviceGetMemoryInfo_v2(void *device, struct memory *out);
VISIBLE int nvmlDeviceGetComputeRunningProcesses_v2(
    void *device, unsigned *count, struct process *out);

struct fake_nvml fake_nvml = {
	.pci_bus_id = "0000:3B:00.0",
	.code = 999,
	.processes = 3,
};

static int
result(const char *name)
{
	if (fake_nvml.failing != NULL && strcmp(fake_nvml.failing, name) == 0)
		return fake_nvml.code;
	return 0;
}

int
nvmlInit_v2(void)
{
	fake_nvml.inits++;
	return result("nvmlInit_v2");
}

const char *
nvmlErrorString(int code)
{
	return code == 6 ? "Not Found" : code == 999 ? "Unknown Error" : NULL;
}

int
nvmlDeviceGetHandleByPciBusId_v2(const char *id, void **out)
{
	if (strcmp(id, fake_nvml.pci_bus_id) != 0)
		return 6;
	*out = &fake_nvml;
	return result("nvmlDeviceGetHandleByPciBusId_v2");
}

int
nvmlDeviceGetTemperature(void *device, int sensor, unsigned *out)
{
	*out = device == &fake_nvml && sensor == 0 ? 41 : 1;
	return result("nvmlDeviceGetTemperature");
}

int
nvmlDeviceGetPowerUsage(void *device, unsigned *out)
{
	*out = device == &fake_nvml ? 70123 : 1;
	return result("nvmlDeviceGetPowerUsage");
}

int
nvmlDeviceGetClockInfo(void *device, int type, unsigned *out)
{
	static const unsigned mhz[4] = { 1000, 1980, 2619, 1500 };

	(void)device;
	*out = mhz[type];
	return result("nvmlDeviceGetClockInfo");
}

int
nvmlDeviceGetUtilizationRates(void *device, unsigned out[2])
{
	(void)device;
	out[0] = 87;
	out[1] = 12;
	return result("nvmlDeviceGetUtilizationRates");
}

int
nvmlDeviceGetMemoryInfo(void *device, struct memory_v1 *out)
{
	(void)device;
	*out = (struct memory_v1){ 1000000, 400000, 600000 };
	return result("nvmlDeviceGetMemoryInfo");
}

int
nvmlDeviceGetMemoryInfo_v2(void *device, struct memory *out)
{
	(void)device;
	if (out->version != (sizeof(*out) | 2u << 24))
		return 25; /* wrong version of a structure */
	*out = (struct memory){ out->version, 1000000, 50000, 400000, 550000 };
	return result("nvmlDeviceGetMemoryInfo_v2");
}

int
nvmlDeviceGetComputeRunningProcesses_v2(
    void *device, unsigned *count, struct process *out)
{
	unsigned room = *count;
	int code = result("nvmlDeviceGetComputeRunningProcesses_v2");

	(void)device;
	*count = fake_nvml.processes;
	if (fake_nvml.joining > 0)
		fake_nvml.processes += fake_nvml.joining;
	if (code != 0)
		return code;
	if (room < *count)
		return 7;
	for (unsigned i = 0; i < *count; i++)
		out[i] = (struct process){ 100 + i, i * 4096ull, ~0u, ~0u };
	if (*count > 0)
		out[0].used = ~0ull;
	return 0;
}
