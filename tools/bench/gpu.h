/*
 * Direct calls of the driver: for peers that consist of driver calls, and for
 * work that keeps streams busy.
 */
#ifndef TOOLS_BENCH_GPU_H
#define TOOLS_BENCH_GPU_H

#include <stdbool.h>

#include <weir/weir.h>

#include "simcuda/simcuda.h"

enum { GPU_STREAMS = 33 };

/* X(name, symbol, parameters) */
#define GPU_ENTRIES(X)                                                         \
	X(cuMemAlloc, "cuMemAlloc_v2", (CUdeviceptr *, size_t))                \
	X(cuMemFree, "cuMemFree_v2", (CUdeviceptr))                            \
	X(cuMemAllocAsync, "cuMemAllocAsync",                                  \
	    (CUdeviceptr *, size_t, CUstream))                                 \
	X(cuMemFreeAsync, "cuMemFreeAsync", (CUdeviceptr, CUstream))           \
	X(cuDeviceGetDefaultMemPool, "cuDeviceGetDefaultMemPool",              \
	    (CUmemoryPool *, CUdevice))                                        \
	X(cuMemPoolSetAttribute, "cuMemPoolSetAttribute",                      \
	    (CUmemoryPool, CUmemPool_attribute, void *))                       \
	X(cuMemPoolGetAttribute, "cuMemPoolGetAttribute",                      \
	    (CUmemoryPool, CUmemPool_attribute, void *))                       \
	X(cuMemPoolTrimTo, "cuMemPoolTrimTo", (CUmemoryPool, size_t))          \
	X(cuMemHostAlloc, "cuMemHostAlloc", (void **, size_t, unsigned))       \
	X(cuMemFreeHost, "cuMemFreeHost", (void *))                            \
	X(cuEventCreate, "cuEventCreate", (CUevent *, unsigned))               \
	X(cuEventRecord, "cuEventRecord", (CUevent, CUstream))                 \
	X(cuStreamWaitEvent, "cuStreamWaitEvent",                              \
	    (CUstream, CUevent, unsigned))                                     \
	X(cuStreamQuery, "cuStreamQuery", (CUstream))                          \
	X(cuCtxSynchronize, "cuCtxSynchronize", (void))                        \
	X(cuMemsetD32Async, "cuMemsetD32Async",                                \
	    (CUdeviceptr, unsigned, size_t, CUstream))                         \
	X(cuMemcpyDtoH, "cuMemcpyDtoH_v2", (void *, CUdeviceptr, size_t))      \
	X(cuMemcpyDtoDAsync, "cuMemcpyDtoDAsync_v2",                           \
	    (CUdeviceptr, CUdeviceptr, size_t, CUstream))                      \
	X(cuModuleLoadData, "cuModuleLoadData", (CUmodule *, const void *))    \
	X(cuModuleGetFunction, "cuModuleGetFunction",                          \
	    (CUfunction *, CUmodule, const char *))                            \
	X(cuLaunchKernel, "cuLaunchKernel",                                    \
	    (CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned,     \
		unsigned, unsigned, CUstream, void **, void **))

/* The driver of the process. gpu_open() sets it; it is constant afterwards. */
struct gpu {
#define GPU_FIELD(name, symbol, params) CUresult(*name) params;
	GPU_ENTRIES(GPU_FIELD)
#undef GPU_FIELD
	struct simcuda_api sim; /* all NULL on a GPU */
	CUfunction sleep;       /* parameter: nanoseconds */
	CUfunction spin;        /* parameter: clocks; NULL if simulated */
	weir_stream streams[GPU_STREAMS];
};
extern struct gpu gpu;

/* Open device 0 and make the streams. False, and a complaint, on failure. */
bool gpu_open(void);
bool gpu_simulated(void);

/* True for CUDA_SUCCESS; otherwise weir_last_error() describes the failure. */
bool gpu_ok(CUresult code);

/* Queue work that keeps a stream busy. */
bool gpu_sleep(weir_stream stream, uint64_t ns);
bool gpu_spin(weir_stream stream, uint64_t clocks);
bool gpu_is_busy(weir_stream stream);

/* Wait for all work. */
bool gpu_wait(void);

/* The time by the clock of work on the device: the host's clock, or virtual
 * time on the simulated device. */
uint64_t gpu_now_ns(void);

#endif
