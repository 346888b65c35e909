/*
 * NVML, the device's management library, found at run time like the driver.
 * weir never requires it: without NVML, an entry or a measurement, the answer
 * has fewer values. It is loaded at first use, possibly in a process that is
 * short of memory, and stays loaded.
 *
 * The few types and constants below are those of its stable C interface.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/meta.h"
#include "base/status.h"
#include "driver/driver.h"

static const char default_library[] = "libnvidia-ml.so.1";

typedef struct nvml_device *nvml_device;

enum {
	NVML_SUCCESS = 0,
	NVML_INSUFFICIENT_SIZE = 7,
	NVML_SENSOR_CHIP = 0,
	NVML_CLOCK_SM = 1,
	NVML_CLOCK_MEMORY = 2
};

struct utilization {
	unsigned gpu; /* percent of the latest sample period */
	unsigned memory;
};

/* nvmlMemory_v2_t: `used` excludes memory that the driver reserves. */
struct memory {
	unsigned version; /* set by the caller: MEMORY_VERSION */
	unsigned long long total;
	unsigned long long reserved;
	unsigned long long free;
	unsigned long long used;
};

enum { MEMORY_VERSION = sizeof(struct memory) | 2 << 24 };

struct memory_v1 {
	unsigned long long total;
	unsigned long long free;
	unsigned long long used; /* includes memory that the driver reserves */
};

/* An entry of the list of processes, since version 2 of the list. */
struct process {
	unsigned pid;
	unsigned long long used; /* bytes; all ones if unknown */
	unsigned gpu_instance;
	unsigned compute_instance;
};

/*
 * X(name, required, symbol, params). Drivers before 510 have the symbol of
 * `processes_v2`; its structures are the same.
 */
/* clang-format off */
#define NVML_ENTRIES(X)                                                        \
	X(init, true, "nvmlInit_v2", (void))                                   \
	X(find, true, "nvmlDeviceGetHandleByPciBusId_v2",                      \
	    (const char *pci_bus_id, nvml_device *out))                        \
	X(temperature, false, "nvmlDeviceGetTemperature",                      \
	    (nvml_device device, int sensor, unsigned *celsius))               \
	X(power, false, "nvmlDeviceGetPowerUsage",                             \
	    (nvml_device device, unsigned *milliwatts))                        \
	X(clock, false, "nvmlDeviceGetClockInfo",                              \
	    (nvml_device device, int type, unsigned *mhz))                     \
	X(utilization, false, "nvmlDeviceGetUtilizationRates",                 \
	    (nvml_device device, struct utilization *out))                     \
	X(memory, false, "nvmlDeviceGetMemoryInfo_v2",                         \
	    (nvml_device device, struct memory *out))                          \
	X(memory_v1, false, "nvmlDeviceGetMemoryInfo",                         \
	    (nvml_device device, struct memory_v1 *out))                       \
	X(processes, false, "nvmlDeviceGetComputeRunningProcesses_v3",         \
	    (nvml_device device, unsigned *n, struct process *out))            \
	X(processes_v2, false, "nvmlDeviceGetComputeRunningProcesses_v2",      \
	    (nvml_device device, unsigned *n, struct process *out))
/* clang-format on */

static struct {
#define NVML_FIELD(name, required, symbol, params) int(*name) params;
	NVML_ENTRIES(NVML_FIELD)
#undef NVML_FIELD
	const char *(*error_text)(int code);
	/* Why NVML is not available; empty if it is. Constant after
	 * load_nvml(). */
	char missing[256];
} nvml;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static void *(*look_up)(void *library, const char *symbol) = dlsym;

void
nvml_set_lookup(void *(*lookup)(void *library, const char *symbol))
{
	look_up = lookup;
}

static const char *
nvml_text_of(int code)
{
	const char *text =
	    nvml.error_text == NULL ? NULL : nvml.error_text(code);

	return text == NULL ? "NVML error" : text;
}

static void
find_nvml_entries(void *library)
{
	/* clang-format off */
	static const struct {
		void *field;
		bool required;
		const char *symbol;
	} entries[] = {
#define NVML_ENTRY(name, required, symbol, params)                             \
	{ &nvml.name, required, symbol },
		NVML_ENTRIES(NVML_ENTRY)
#undef NVML_ENTRY
		{ &nvml.error_text, false, "nvmlErrorString" },
	};
	/* clang-format on */

	for (size_t i = 0; i < sizeof(entries) / sizeof(entries[0]); i++) {
		void *address = look_up(library, entries[i].symbol);

		if (address == NULL && entries[i].required)
			snprintf(nvml.missing, sizeof(nvml.missing),
			    "NVML has no %s", entries[i].symbol);
		memcpy(entries[i].field, &address, sizeof(address));
	}
}

static void
load_nvml(void)
{
	/* Ignored in setuid programs, because it names code to be run. */
	const char *path = secure_getenv("WEIR_LIBNVML");
	void *library;
	int code;

	if (path == NULL || *path == '\0')
		path = default_library;
	library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (library == NULL) {
		snprintf(nvml.missing, sizeof(nvml.missing), "no NVML: %s",
		    dlerror());
		return;
	}
	find_nvml_entries(library);
	if (nvml.missing[0] != '\0')
		return;
	code = nvml.init();
	if (code != NVML_SUCCESS)
		snprintf(nvml.missing, sizeof(nvml.missing),
		    "nvmlInit_v2(): %s (%d)", nvml_text_of(code), code);
}

/* Find the device, or return NULL and set a failure that says what was missing.
 */
static nvml_device
find_nvml_device(const char *pci_bus_id)
{
	nvml_device device = NULL;
	int code;

	pthread_once(&once, load_nvml);
	if (nvml.missing[0] != '\0') {
		status_set(WEIR_ENOTSUP, "%s", nvml.missing);
		return NULL;
	}
	code = nvml.find(pci_bus_id, &device);
	if (code == NVML_SUCCESS && device != NULL)
		return device;
	status_set(WEIR_ENOTSUP,
	    "nvmlDeviceGetHandleByPciBusId_v2(%s): %s (%d)", pci_bus_id,
	    nvml_text_of(code), code);
	return NULL;
}

static unsigned
read_clock(nvml_device device, int type)
{
	unsigned mhz = 0;

	if (nvml.clock == NULL ||
	    nvml.clock(device, type, &mhz) != NVML_SUCCESS)
		return 0;
	return mhz;
}

static int
read_temperature(nvml_device device)
{
	unsigned celsius = 0;

	if (nvml.temperature == NULL ||
	    nvml.temperature(device, NVML_SENSOR_CHIP, &celsius) !=
		NVML_SUCCESS)
		return 0;
	return (int)celsius;
}

static unsigned
read_power(nvml_device device)
{
	unsigned milliwatts = 0;

	if (nvml.power == NULL ||
	    nvml.power(device, &milliwatts) != NVML_SUCCESS)
		return 0;
	return milliwatts;
}

static unsigned
read_utilization(nvml_device device)
{
	struct utilization utilization = { 0 };

	if (nvml.utilization == NULL ||
	    nvml.utilization(device, &utilization) != NVML_SUCCESS)
		return 0;
	return utilization.gpu;
}

static size_t
read_memory_used(nvml_device device)
{
	struct memory memory = { .version = MEMORY_VERSION };
	struct memory_v1 memory_v1 = { 0 };

	if (nvml.memory != NULL && nvml.memory(device, &memory) == NVML_SUCCESS)
		return (size_t)memory.used;
	if (nvml.memory_v1 != NULL &&
	    nvml.memory_v1(device, &memory_v1) == NVML_SUCCESS)
		return (size_t)memory_v1.used;
	return 0;
}

/* Fill `list` with up to *n processes. If there is no room for all, *n becomes
 * their number and the code is NVML_INSUFFICIENT_SIZE. */
static int
read_processes(nvml_device device, unsigned *n, struct process *list)
{
	if (nvml.processes != NULL)
		return nvml.processes(device, n, list);
	if (nvml.processes_v2 != NULL)
		return nvml.processes_v2(device, n, list);
	*n = 0;
	return NVML_SUCCESS;
}

static size_t
count_processes(nvml_device device)
{
	unsigned n = 0;
	int code = read_processes(device, &n, NULL);

	return code == NVML_SUCCESS || code == NVML_INSUFFICIENT_SIZE ? n : 0;
}

enum weir_status
nvml_telemetry(const char *pci_bus_id, struct weir_telemetry *out)
{
	nvml_device device = find_nvml_device(pci_bus_id);

	if (device == NULL)
		return WEIR_ENOTSUP;
	*out = (struct weir_telemetry){
		.struct_size = out->struct_size,
		.temperature_celsius = read_temperature(device),
		.power_milliwatts = read_power(device),
		.sm_clock_mhz = read_clock(device, NVML_CLOCK_SM),
		.memory_clock_mhz = read_clock(device, NVML_CLOCK_MEMORY),
		.utilization_percent = read_utilization(device),
		.memory_used_bytes = read_memory_used(device),
		.processes = count_processes(device),
	};
	return WEIR_OK;
}

static size_t
copy_processes(const struct process *list, unsigned n, struct nvml_process *out,
    size_t max)
{
	size_t i;

	for (i = 0; i < n && i < max; i++) {
		out[i].pid = list[i].pid;
		out[i].used_bytes =
		    list[i].used == UINT64_MAX ? 0 : list[i].used;
	}
	return i;
}

/* List more processes than fit on the stack, with room for `room` and a few
 * more. */
static size_t
many_processes(
    nvml_device device, unsigned room, struct nvml_process *out, size_t max)
{
	/* Some processes may start between the two calls. */
	unsigned n = room + 16;
	size_t size = sizeof(struct process) * n;
	struct process *list = meta_alloc(size);
	size_t written = 0;

	if (list == NULL)
		return 0;
	if (read_processes(device, &n, list) == NVML_SUCCESS)
		written = copy_processes(list, n, out, max);
	meta_free(list, size);
	return written;
}

size_t
nvml_processes(const char *pci_bus_id, struct nvml_process *out, size_t max)
{
	struct process list[64];
	unsigned n = sizeof(list) / sizeof(list[0]);
	nvml_device device;
	int code;

	status_mute();
	device = find_nvml_device(pci_bus_id);
	status_unmute();
	if (device == NULL)
		return 0;
	code = read_processes(device, &n, list);
	if (code == NVML_SUCCESS)
		return copy_processes(list, n, out, max);
	if (code == NVML_INSUFFICIENT_SIZE)
		return many_processes(device, n, out, max);
	return 0;
}
