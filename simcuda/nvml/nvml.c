/*
 * libnvidia-ml.so.1 for simcuda: the few calls of the management library that
 * programs use to describe a device, over the simulated driver in the same
 * folder.
 *
 * Names, numbers and structures are NVML's. Measurements are plausible
 * constants, except memory, which is simcuda's, and the processes: this
 * process, if it uses the device, and as many others as SIMCUDA_CONF says.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "simcuda/nvml/nvml.h"

enum { DEVICES = 16, OTHER_PID = 100001 };

struct nvmlDevice_st {
	int ordinal;
};

static struct nvmlDevice_st devices[DEVICES];
/* Calls of nvmlInit_v2() that were not shut down. */
static unsigned initialized;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* The calls of simcuda that are used; NULL until it is loaded. */
static struct {
	int (*setting)(const char *key, uint64_t *value);
	size_t (*memory_used)(int device);
	size_t (*memory_used_by_all)(int device);
	long (*live)(const char *kind);
} simcuda;

/* ---- simcuda ------------------------------------------------------------ */

static bool
find_in_simcuda(void *library, const char *name, void *out, size_t size)
{
	void *symbol = dlsym(library, name);

	memcpy(out, &symbol, size);
	return symbol != NULL;
}

/* Load the libcuda.so.1 in this library's folder. */
static bool
load_simcuda(void)
{
	static const char driver[] = "libcuda.so.1";
	char path[4096];
	Dl_info info;
	const char *slash;
	void *library;

	if (dladdr(devices, &info) == 0 || info.dli_fname == NULL)
		return false;
	slash = strrchr(info.dli_fname, '/');
	snprintf(path, sizeof(path), "%.*s%s",
	    slash == NULL ? 0 : (int)(slash + 1 - info.dli_fname),
	    info.dli_fname, driver);
	library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	return library != NULL &&
	    find_in_simcuda(library, "simcuda_setting", &simcuda.setting,
		sizeof(simcuda.setting)) &&
	    find_in_simcuda(library, "simcuda_memory_used",
		&simcuda.memory_used, sizeof(simcuda.memory_used)) &&
	    find_in_simcuda(library, "simcuda_memory_used_by_all",
		&simcuda.memory_used_by_all,
		sizeof(simcuda.memory_used_by_all)) &&
	    find_in_simcuda(
		library, "simcuda_live", &simcuda.live, sizeof(simcuda.live));
}

static uint64_t
setting(const char *key)
{
	uint64_t value = 0;

	(void)simcuda.setting(key, &value);
	return value;
}

/* ---- life --------------------------------------------------------------- */

nvmlReturn_t
nvmlInit_v2(void)
{
	nvmlReturn_t result = NVML_SUCCESS;
	uint64_t value;

	pthread_mutex_lock(&lock);
	if (initialized == 0 && !load_simcuda())
		result = NVML_ERROR_DRIVER_NOT_LOADED;
	else if (simcuda.setting("devices", &value) != 0)
		result = NVML_ERROR_UNKNOWN;
	else
		initialized++;
	for (int i = 0; i < DEVICES; i++)
		devices[i].ordinal = i;
	pthread_mutex_unlock(&lock);
	return result;
}

nvmlReturn_t
nvmlShutdown(void)
{
	nvmlReturn_t result = NVML_ERROR_UNINITIALIZED;

	pthread_mutex_lock(&lock);
	if (initialized > 0) {
		initialized--;
		result = NVML_SUCCESS;
	}
	pthread_mutex_unlock(&lock);
	return result;
}

static bool
is_initialized(void)
{
	bool yes;

	pthread_mutex_lock(&lock);
	yes = initialized > 0;
	pthread_mutex_unlock(&lock);
	return yes;
}

/* The checks at the beginning of each call about a device. */
static nvmlReturn_t
check_nvml_device(nvmlDevice_t device, const void *out)
{
	if (!is_initialized())
		return NVML_ERROR_UNINITIALIZED;
	if (out == NULL || device < devices ||
	    device >= devices + setting("devices"))
		return NVML_ERROR_INVALID_ARGUMENT;
	return NVML_SUCCESS;
}

const char *
nvmlErrorString(nvmlReturn_t result)
{
	switch (result) {
	case NVML_SUCCESS:
		return "Success";
	case NVML_ERROR_UNINITIALIZED:
		return "Uninitialized";
	case NVML_ERROR_INVALID_ARGUMENT:
		return "Invalid Argument";
	case NVML_ERROR_NOT_SUPPORTED:
		return "Not Supported";
	case NVML_ERROR_NOT_FOUND:
		return "Not Found";
	case NVML_ERROR_INSUFFICIENT_SIZE:
		return "Insufficient Size";
	case NVML_ERROR_DRIVER_NOT_LOADED:
		return "Driver Not Loaded";
	case NVML_ERROR_ARGUMENT_VERSION_MISMATCH:
		return "Argument Version Mismatch";
	default:
		return "Unknown Error";
	}
}

static nvmlReturn_t
copy_nvml_text(char *out, unsigned size, const char *text)
{
	if (out == NULL)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (size <= strlen(text))
		return NVML_ERROR_INSUFFICIENT_SIZE;
	memcpy(out, text, strlen(text) + 1);
	return NVML_SUCCESS;
}

nvmlReturn_t
nvmlSystemGetDriverVersion(char *version, unsigned int size)
{
	if (!is_initialized())
		return NVML_ERROR_UNINITIALIZED;
	return copy_nvml_text(version, size, "580.00.00");
}

/* ---- finding ------------------------------------------------------------ */

static void
make_uuid(int ordinal, char *out, size_t size)
{
	/* The bytes that simcuda's cuDeviceGetUuid() returns. */
	snprintf(out, size, "GPU-73696d63-7564-6100-0000-0000000000%02x",
	    (unsigned)ordinal);
}

nvmlReturn_t
nvmlDeviceGetCount_v2(unsigned int *count)
{
	if (!is_initialized())
		return NVML_ERROR_UNINITIALIZED;
	if (count == NULL)
		return NVML_ERROR_INVALID_ARGUMENT;
	*count = (unsigned)setting("devices");
	return NVML_SUCCESS;
}

nvmlReturn_t
nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device)
{
	if (!is_initialized())
		return NVML_ERROR_UNINITIALIZED;
	if (device == NULL || index >= setting("devices"))
		return NVML_ERROR_INVALID_ARGUMENT;
	*device = &devices[index];
	return NVML_SUCCESS;
}

nvmlReturn_t
nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device)
{
	char own[64];

	if (!is_initialized())
		return NVML_ERROR_UNINITIALIZED;
	if (uuid == NULL || device == NULL)
		return NVML_ERROR_INVALID_ARGUMENT;
	for (int i = 0; i < (int)setting("devices"); i++) {
		make_uuid(i, own, sizeof(own));
		if (strcmp(own, uuid) == 0) {
			*device = &devices[i];
			return NVML_SUCCESS;
		}
	}
	return NVML_ERROR_NOT_FOUND;
}

/* domain:bus:device.function, as returned by cuDeviceGetPCIBusId(); the domain
 * may also have eight digits. */
nvmlReturn_t
nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, nvmlDevice_t *device)
{
	unsigned domain, bus, slot;

	if (!is_initialized())
		return NVML_ERROR_UNINITIALIZED;
	if (bus_id == NULL || device == NULL ||
	    sscanf(bus_id, "%x:%x:%x", &domain, &bus, &slot) != 3)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (domain != 0 || slot != 0 || bus == 0 || bus > setting("devices"))
		return NVML_ERROR_NOT_FOUND;
	*device = &devices[bus - 1];
	return NVML_SUCCESS;
}

/* ---- describing --------------------------------------------------------- */

nvmlReturn_t
nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned int size)
{
	nvmlReturn_t result = check_nvml_device(device, name);

	return result != NVML_SUCCESS ? result :
					copy_nvml_text(name, size, "simcuda");
}

nvmlReturn_t
nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned int size)
{
	nvmlReturn_t result = check_nvml_device(device, uuid);
	char own[64];

	if (result != NVML_SUCCESS)
		return result;
	make_uuid(device->ordinal, own, sizeof(own));
	return copy_nvml_text(uuid, size, own);
}

nvmlReturn_t
nvmlDeviceGetTemperature(
    nvmlDevice_t device, nvmlTemperatureSensors_t sensor, unsigned int *celsius)
{
	nvmlReturn_t result = check_nvml_device(device, celsius);

	if (result != NVML_SUCCESS)
		return result;
	if (sensor != NVML_TEMPERATURE_GPU)
		return NVML_ERROR_INVALID_ARGUMENT;
	*celsius = 35;
	return NVML_SUCCESS;
}

nvmlReturn_t
nvmlDeviceGetPowerUsage(nvmlDevice_t device, unsigned int *milliwatts)
{
	nvmlReturn_t result = check_nvml_device(device, milliwatts);

	if (result == NVML_SUCCESS)
		*milliwatts = 75000;
	return result;
}

nvmlReturn_t
nvmlDeviceGetClockInfo(
    nvmlDevice_t device, nvmlClockType_t type, unsigned int *megahertz)
{
	static const unsigned clocks[] = { 1980, 1980, 3201, 1980 };
	nvmlReturn_t result = check_nvml_device(device, megahertz);

	if (result != NVML_SUCCESS)
		return result;
	if ((unsigned)type >= sizeof(clocks) / sizeof(clocks[0]))
		return NVML_ERROR_INVALID_ARGUMENT;
	*megahertz = clocks[type];
	return NVML_SUCCESS;
}

nvmlReturn_t
nvmlDeviceGetUtilizationRates(
    nvmlDevice_t device, nvmlUtilization_t *utilization)
{
	nvmlReturn_t result = check_nvml_device(device, utilization);

	if (result == NVML_SUCCESS)
		*utilization = (nvmlUtilization_t){ .gpu = 0, .memory = 0 };
	return result;
}

/* ---- memory and processes ----------------------------------------------- */

static uint64_t
memory_total(void)
{
	return setting("memory_mb") << 20;
}

static uint64_t
memory_used(nvmlDevice_t device)
{
	uint64_t used = simcuda.memory_used_by_all(device->ordinal) +
	    setting("processes") * (setting("process_mb") << 20);

	return used < memory_total() ? used : memory_total();
}

nvmlReturn_t
nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory)
{
	nvmlReturn_t result = check_nvml_device(device, memory);

	if (result != NVML_SUCCESS)
		return result;
	memory->total = memory_total();
	memory->used = memory_used(device);
	memory->free = memory->total - memory->used;
	return NVML_SUCCESS;
}

nvmlReturn_t
nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory)
{
	nvmlReturn_t result = check_nvml_device(device, memory);

	if (result != NVML_SUCCESS)
		return result;
	if (memory->version != (sizeof(*memory) | 2u << 24))
		return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
	memory->total = memory_total();
	memory->reserved = 0;
	memory->used = memory_used(device);
	memory->free = memory->total - memory->used;
	return NVML_SUCCESS;
}

nvmlReturn_t
nvmlDeviceGetComputeRunningProcesses_v3(
    nvmlDevice_t device, unsigned int *count, nvmlProcessInfo_t *infos)
{
	nvmlReturn_t result = check_nvml_device(device, count);
	unsigned room, n, own;

	if (result != NVML_SUCCESS)
		return result;
	room = *count;
	own = simcuda.live("context") > 0;
	n = own + (unsigned)setting("processes");
	*count = n;
	if (n > room || (n > 0 && infos == NULL))
		return NVML_ERROR_INSUFFICIENT_SIZE;
	for (unsigned i = 0; i < n; i++)
		infos[i] = (nvmlProcessInfo_t){
			.pid = OTHER_PID + i,
			.usedGpuMemory = setting("process_mb") << 20,
			.gpuInstanceId = UINT32_MAX,
			.computeInstanceId = UINT32_MAX,
		};
	if (own) {
		infos[0].pid = (unsigned)getpid();
		infos[0].usedGpuMemory = simcuda.memory_used(device->ordinal);
	}
	return NVML_SUCCESS;
}

nvmlReturn_t
nvmlDeviceGetComputeRunningProcesses_v2(
    nvmlDevice_t device, unsigned int *count, nvmlProcessInfo_t *infos)
{
	return nvmlDeviceGetComputeRunningProcesses_v3(device, count, infos);
}

/* Room for this process and all others of SIMCUDA_CONF. */
enum { PROCESSES = 1 + 64 };

nvmlReturn_t
nvmlDeviceGetComputeRunningProcesses(
    nvmlDevice_t device, unsigned int *count, nvmlProcessInfo_v1_t *infos)
{
	nvmlProcessInfo_t all[PROCESSES];
	unsigned n = PROCESSES;
	nvmlReturn_t result = check_nvml_device(device, count);

	if (result == NVML_SUCCESS)
		result =
		    nvmlDeviceGetComputeRunningProcesses_v3(device, &n, all);
	if (result != NVML_SUCCESS)
		return result;
	bool fits = n <= *count && (n == 0 || infos != NULL);

	*count = n;
	for (unsigned i = 0; i < n && fits; i++)
		infos[i] = (nvmlProcessInfo_v1_t){ .pid = all[i].pid,
			.usedGpuMemory = all[i].usedGpuMemory };
	return fits ? NVML_SUCCESS : NVML_ERROR_INSUFFICIENT_SIZE;
}

/* No process draws. */
nvmlReturn_t
nvmlDeviceGetGraphicsRunningProcesses_v3(
    nvmlDevice_t device, unsigned int *count, nvmlProcessInfo_t *infos)
{
	nvmlReturn_t result = check_nvml_device(device, count);

	(void)infos;
	if (result == NVML_SUCCESS)
		*count = 0;
	return result;
}

nvmlReturn_t
nvmlDeviceGetRunningProcessDetailList(
    nvmlDevice_t device, nvmlProcessDetailList_v1_t *list)
{
	nvmlProcessInfo_t all[PROCESSES];
	unsigned n = PROCESSES;
	nvmlReturn_t result = check_nvml_device(device, list);

	if (result != NVML_SUCCESS)
		return result;
	if (list->version != (sizeof(*list) | 1u << 24))
		return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
	if (list->mode > 2)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (list->mode != 0)
		n = 0;
	else
		result =
		    nvmlDeviceGetComputeRunningProcesses_v3(device, &n, all);
	if (result != NVML_SUCCESS)
		return result;
	bool fits = n <= list->numProcArrayEntries &&
	    (n == 0 || list->procArray != NULL);

	list->numProcArrayEntries = n;
	for (unsigned i = 0; i < n && fits; i++)
		list->procArray[i] = (nvmlProcessDetail_v1_t){
			.pid = all[i].pid,
			.usedGpuMemory = all[i].usedGpuMemory,
			.gpuInstanceId = UINT32_MAX,
			.computeInstanceId = UINT32_MAX,
		};
	return fits ? NVML_SUCCESS : NVML_ERROR_INSUFFICIENT_SIZE;
}
