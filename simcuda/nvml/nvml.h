/*
 * The part of NVML's binary interface that the simulated library has. The names
 * are NVML's, the declarations weir's own.
 */
#ifndef SIMCUDA_NVML_NVML_H
#define SIMCUDA_NVML_NVML_H

typedef enum {
	NVML_SUCCESS = 0,
	NVML_ERROR_UNINITIALIZED = 1,
	NVML_ERROR_INVALID_ARGUMENT = 2,
	NVML_ERROR_NOT_SUPPORTED = 3,
	NVML_ERROR_NOT_FOUND = 6,
	NVML_ERROR_INSUFFICIENT_SIZE = 7,
	NVML_ERROR_DRIVER_NOT_LOADED = 9,
	NVML_ERROR_ARGUMENT_VERSION_MISMATCH = 25,
	NVML_ERROR_UNKNOWN = 999
} nvmlReturn_t;

typedef enum { NVML_TEMPERATURE_GPU = 0 } nvmlTemperatureSensors_t;

typedef enum {
	NVML_CLOCK_GRAPHICS = 0,
	NVML_CLOCK_SM = 1,
	NVML_CLOCK_MEM = 2,
	NVML_CLOCK_VIDEO = 3
} nvmlClockType_t;

typedef struct nvmlDevice_st *nvmlDevice_t;

typedef struct {
	unsigned int gpu;    /* percent */
	unsigned int memory; /* percent */
} nvmlUtilization_t;

typedef struct {
	unsigned long long total; /* bytes */
	unsigned long long free;
	unsigned long long used;
} nvmlMemory_t;

typedef struct {
	unsigned int version; /* the structure's size | 2 << 24 */
	unsigned long long total;
	unsigned long long reserved;
	unsigned long long free;
	unsigned long long used;
} nvmlMemory_v2_t;

typedef struct {
	unsigned int pid;
	unsigned long long usedGpuMemory;
	unsigned int gpuInstanceId;
	unsigned int computeInstanceId;
} nvmlProcessInfo_t;

typedef struct {
	unsigned int pid;
	unsigned long long usedGpuMemory;
} nvmlProcessInfo_v1_t;

typedef struct {
	unsigned int pid;
	unsigned long long usedGpuMemory;
	unsigned int gpuInstanceId;
	unsigned int computeInstanceId;
	unsigned long long usedGpuCcProtectedMemory;
} nvmlProcessDetail_v1_t;

typedef struct {
	unsigned int version; /* the structure's size | 1 << 24 */
	unsigned int mode;    /* 0: compute, 1: graphics, 2: MPS */
	unsigned int numProcArrayEntries;
	nvmlProcessDetail_v1_t *procArray;
} nvmlProcessDetailList_v1_t;

#define NVML_CALL(name, params)                                                \
	__attribute__((visibility("default"))) nvmlReturn_t name params;

NVML_CALL(nvmlInit_v2, (void))
NVML_CALL(nvmlShutdown, (void))
NVML_CALL(nvmlSystemGetDriverVersion, (char *version, unsigned int size))
NVML_CALL(nvmlDeviceGetCount_v2, (unsigned int *count))
NVML_CALL(
    nvmlDeviceGetHandleByIndex_v2, (unsigned int index, nvmlDevice_t *device))
NVML_CALL(nvmlDeviceGetHandleByUUID, (const char *uuid, nvmlDevice_t *device))
NVML_CALL(nvmlDeviceGetHandleByPciBusId_v2,
    (const char *bus_id, nvmlDevice_t *device))
NVML_CALL(
    nvmlDeviceGetName, (nvmlDevice_t device, char *name, unsigned int size))
NVML_CALL(
    nvmlDeviceGetUUID, (nvmlDevice_t device, char *uuid, unsigned int size))
NVML_CALL(nvmlDeviceGetTemperature,
    (nvmlDevice_t device, nvmlTemperatureSensors_t sensor,
	unsigned int *celsius))
NVML_CALL(
    nvmlDeviceGetPowerUsage, (nvmlDevice_t device, unsigned int *milliwatts))
NVML_CALL(nvmlDeviceGetClockInfo,
    (nvmlDevice_t device, nvmlClockType_t type, unsigned int *megahertz))
NVML_CALL(nvmlDeviceGetUtilizationRates,
    (nvmlDevice_t device, nvmlUtilization_t *utilization))
NVML_CALL(nvmlDeviceGetMemoryInfo, (nvmlDevice_t device, nvmlMemory_t *memory))
NVML_CALL(
    nvmlDeviceGetMemoryInfo_v2, (nvmlDevice_t device, nvmlMemory_v2_t *memory))
NVML_CALL(nvmlDeviceGetComputeRunningProcesses_v3,
    (nvmlDevice_t device, unsigned int *count, nvmlProcessInfo_t *infos))
NVML_CALL(nvmlDeviceGetComputeRunningProcesses,
    (nvmlDevice_t device, unsigned int *count, nvmlProcessInfo_v1_t *infos))
NVML_CALL(nvmlDeviceGetComputeRunningProcesses_v2,
    (nvmlDevice_t device, unsigned int *count, nvmlProcessInfo_t *infos))
NVML_CALL(nvmlDeviceGetGraphicsRunningProcesses_v3,
    (nvmlDevice_t device, unsigned int *count, nvmlProcessInfo_t *infos))
NVML_CALL(nvmlDeviceGetRunningProcessDetailList,
    (nvmlDevice_t device, nvmlProcessDetailList_v1_t *list))
#undef NVML_CALL

__attribute__((visibility("default"))) const char *nvmlErrorString(
    nvmlReturn_t result);

#endif
