/*
 * The calls of NVML that the preload stands in for: those that say how much
 * memory a device has and this process uses. NVML is a library of its own
 * (libnvidia-ml.so.1), which the program links or loads.
 *
 * The types are those of its stable C interface.
 */
#ifndef PRELOAD_NVML_HOOKS_H
#define PRELOAD_NVML_HOOKS_H

#include <weir/weir.h>

typedef struct nvml_handle *nvml_handle;

/* nvmlMemory_t and nvmlMemory_v2_t. */
struct nvml_memory {
	unsigned long long total;
	unsigned long long free;
	unsigned long long used;
};

struct nvml_memory_v2 {
	unsigned version;
	unsigned long long total;
	unsigned long long reserved;
	unsigned long long free;
	unsigned long long used;
};

/* nvmlProcessDetailList_v1_t; its rows begin as those of the other lists. */
struct nvml_details {
	unsigned version;
	unsigned mode;
	unsigned count;
	void *rows;
};

#define NVML_LIST_PARAMS (nvml_handle device, unsigned *count, void *rows)

/* X(symbol, parameters) */
/* clang-format off */
#define NVML_HOOKS(X)                                                          \
	X(nvmlDeviceGetMemoryInfo,                                             \
	    (nvml_handle device, struct nvml_memory *memory))                  \
	X(nvmlDeviceGetMemoryInfo_v2,                                          \
	    (nvml_handle device, struct nvml_memory_v2 *memory))               \
	X(nvmlDeviceGetComputeRunningProcesses, NVML_LIST_PARAMS)              \
	X(nvmlDeviceGetComputeRunningProcesses_v2, NVML_LIST_PARAMS)           \
	X(nvmlDeviceGetComputeRunningProcesses_v3, NVML_LIST_PARAMS)           \
	X(nvmlDeviceGetGraphicsRunningProcesses, NVML_LIST_PARAMS)             \
	X(nvmlDeviceGetGraphicsRunningProcesses_v2, NVML_LIST_PARAMS)          \
	X(nvmlDeviceGetGraphicsRunningProcesses_v3, NVML_LIST_PARAMS)          \
	X(nvmlDeviceGetMPSComputeRunningProcesses, NVML_LIST_PARAMS)           \
	X(nvmlDeviceGetMPSComputeRunningProcesses_v2, NVML_LIST_PARAMS)        \
	X(nvmlDeviceGetMPSComputeRunningProcesses_v3, NVML_LIST_PARAMS)        \
	X(nvmlDeviceGetRunningProcessDetailList,                               \
	    (nvml_handle device, struct nvml_details *details))
/* clang-format on */

#define NVML_HOOK_DECLARE(name, params) WEIR_API int name params;
NVML_HOOKS(NVML_HOOK_DECLARE)
#undef NVML_HOOK_DECLARE

/* NVML's own function; NULL if the program has not loaded NVML, or this one
 * lacks the call. */
void *nvml_real(const char *symbol);

/* The hook of a call, or NULL. */
void *nvml_hook(const char *symbol);

#endif
