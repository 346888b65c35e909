/*
 * The driver entries that the preload replaces: one table.
 *
 * A hook has the exported name of its entry, so the linker, dlsym() and
 * cuGetProcAddress() all return the same function. cuGetProcAddress() is called
 * with the base name and a version, and returns the newest form that is not
 * above this version. An entry stands for all versions from its own up to the
 * next entry with the same base name, as far as the forms are known
 * (HOOK_KNOWN_VERSION).
 */
#ifndef PRELOAD_HOOKS_H
#define PRELOAD_HOOKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/weir.h>

#include "driver/abi.h"

/* The CUDA version that this table was made from. For later versions, a form is
 * taken to be unchanged only if the driver gives the same address for both. */
enum { HOOK_KNOWN_VERSION = 13000 };

/* The meaning of stream 0, for an entry that has two forms. */
enum hook_streams { HOOK_BOTH, HOOK_LEGACY, HOOK_PER_THREAD };

/*
 * X(exported name, base name, version, streams, parameters). Handles that weir
 * has no type for are void *, and enumerations are int; the calling convention
 * is the same.
 */
#define HOOKS(X)                                                               \
	HOOKS_SERVE(X)                                                         \
	HOOKS_WATCH(X)                                                         \
	HOOKS_CHECK(X)

#define HOOKS_SERVE(X)                                                         \
	X(cuGetProcAddress, "cuGetProcAddress", 11030, HOOK_BOTH,              \
	    (const char *symbol, void **function, int version,                 \
		uint64_t flags))                                               \
	X(cuGetProcAddress_v2, "cuGetProcAddress", 12000, HOOK_BOTH,           \
	    (const char *symbol, void **function, int version, uint64_t flags, \
		int *status))                                                  \
	X(cuMemAlloc_v2, "cuMemAlloc", 3020, HOOK_BOTH,                        \
	    (CUdeviceptr * out, size_t bytes))                                 \
	X(cuMemAllocPitch_v2, "cuMemAllocPitch", 3020, HOOK_BOTH,              \
	    (CUdeviceptr * out, size_t * pitch, size_t width, size_t height,   \
		unsigned element))                                             \
	X(cuMemFree_v2, "cuMemFree", 3020, HOOK_BOTH, (CUdeviceptr ptr))       \
	X(cuMemHostAlloc, "cuMemHostAlloc", 2020, HOOK_BOTH,                   \
	    (void **out, size_t bytes, unsigned flags))                        \
	X(cuMemAllocHost_v2, "cuMemAllocHost", 3020, HOOK_BOTH,                \
	    (void **out, size_t bytes))                                        \
	X(cuMemFreeHost, "cuMemFreeHost", 2000, HOOK_BOTH, (void *ptr))        \
	X(cuMemAllocAsync, "cuMemAllocAsync", 11020, HOOK_LEGACY,              \
	    (CUdeviceptr * out, size_t bytes, CUstream stream))                \
	X(cuMemAllocAsync_ptsz, "cuMemAllocAsync", 11020, HOOK_PER_THREAD,     \
	    (CUdeviceptr * out, size_t bytes, CUstream stream))                \
	X(cuMemAllocFromPoolAsync, "cuMemAllocFromPoolAsync", 11020,           \
	    HOOK_LEGACY,                                                       \
	    (CUdeviceptr * out, size_t bytes, CUmemoryPool pool,               \
		CUstream stream))                                              \
	X(cuMemAllocFromPoolAsync_ptsz, "cuMemAllocFromPoolAsync", 11020,      \
	    HOOK_PER_THREAD,                                                   \
	    (CUdeviceptr * out, size_t bytes, CUmemoryPool pool,               \
		CUstream stream))                                              \
	X(cuMemFreeAsync, "cuMemFreeAsync", 11020, HOOK_LEGACY,                \
	    (CUdeviceptr ptr, CUstream stream))                                \
	X(cuMemFreeAsync_ptsz, "cuMemFreeAsync", 11020, HOOK_PER_THREAD,       \
	    (CUdeviceptr ptr, CUstream stream))                                \
	X(cuMemPoolCreate, "cuMemPoolCreate", 11020, HOOK_BOTH,                \
	    (CUmemoryPool * out, const CUmemPoolProps *props))                 \
	X(cuMemPoolDestroy, "cuMemPoolDestroy", 11020, HOOK_BOTH,              \
	    (CUmemoryPool pool))                                               \
	X(cuMemPoolTrimTo, "cuMemPoolTrimTo", 11020, HOOK_BOTH,                \
	    (CUmemoryPool pool, size_t keep_bytes))                            \
	X(cuMemPoolSetAttribute, "cuMemPoolSetAttribute", 11020, HOOK_BOTH,    \
	    (CUmemoryPool pool, int attribute, void *value))                   \
	X(cuMemPoolGetAttribute, "cuMemPoolGetAttribute", 11020, HOOK_BOTH,    \
	    (CUmemoryPool pool, int attribute, void *value))                   \
	X(cuMemPoolSetAccess, "cuMemPoolSetAccess", 11020, HOOK_BOTH,          \
	    (CUmemoryPool pool, const CUmemAccessDesc *access, size_t count))  \
	X(cuDeviceSetMemPool, "cuDeviceSetMemPool", 11020, HOOK_BOTH,          \
	    (CUdevice device, CUmemoryPool pool))                              \
	X(cuMemSetMemPool, "cuMemSetMemPool", 13000, HOOK_BOTH,                \
	    (CUmemLocation * location, int type, CUmemoryPool pool))           \
	X(cuMemCreate, "cuMemCreate", 10020, HOOK_BOTH,                        \
	    (CUmemGenericAllocationHandle * handle, size_t bytes,              \
		const CUmemAllocationProp *wanted, unsigned long long flags))  \
	X(cuMemAllocManaged, "cuMemAllocManaged", 6000, HOOK_BOTH,             \
	    (CUdeviceptr * out, size_t bytes, unsigned flags))                 \
	X(cuArrayCreate_v2, "cuArrayCreate", 3020, HOOK_BOTH,                  \
	    (void **out, const void *wanted))                                  \
	X(cuArray3DCreate_v2, "cuArray3DCreate", 3020, HOOK_BOTH,              \
	    (void **out, const void *wanted))                                  \
	X(cuMipmappedArrayCreate, "cuMipmappedArrayCreate", 5000, HOOK_BOTH,   \
	    (void **out, const void *wanted, unsigned levels))                 \
	X(cuModuleLoad, "cuModuleLoad", 2000, HOOK_BOTH,                       \
	    (CUmodule * out, const char *file))                                \
	X(cuModuleLoadData, "cuModuleLoadData", 2000, HOOK_BOTH,               \
	    (CUmodule * out, const void *image))                               \
	X(cuModuleLoadDataEx, "cuModuleLoadDataEx", 2010, HOOK_BOTH,           \
	    (CUmodule * out, const void *image, unsigned count, void *options, \
		void **values))                                                \
	X(cuModuleLoadFatBinary, "cuModuleLoadFatBinary", 2000, HOOK_BOTH,     \
	    (CUmodule * out, const void *image))                               \
	X(cuGraphInstantiateWithFlags, "cuGraphInstantiateWithFlags", 11040,   \
	    HOOK_BOTH,                                                         \
	    (CUgraphExec * out, CUgraph graph, unsigned long long flags))      \
	X(cuGraphInstantiateWithParams, "cuGraphInstantiateWithParams", 12000, \
	    HOOK_LEGACY, (CUgraphExec * out, CUgraph graph, void *params))     \
	X(cuGraphInstantiateWithParams_ptsz, "cuGraphInstantiateWithParams",   \
	    12000, HOOK_PER_THREAD,                                            \
	    (CUgraphExec * out, CUgraph graph, void *params))                  \
	X(cuGraphUpload, "cuGraphUpload", 11010, HOOK_LEGACY,                  \
	    (CUgraphExec graph, CUstream stream))                              \
	X(cuGraphUpload_ptsz, "cuGraphUpload", 11010, HOOK_PER_THREAD,         \
	    (CUgraphExec graph, CUstream stream))                              \
	X(cuGraphLaunch, "cuGraphLaunch", 10000, HOOK_LEGACY,                  \
	    (CUgraphExec graph, CUstream stream))                              \
	X(cuGraphLaunch_ptsz, "cuGraphLaunch", 10000, HOOK_PER_THREAD,         \
	    (CUgraphExec graph, CUstream stream))                              \
	X(cuMemGetInfo_v2, "cuMemGetInfo", 3020, HOOK_BOTH,                    \
	    (size_t * free_bytes, size_t * total_bytes))                       \
	X(cuMemGetAddressRange_v2, "cuMemGetAddressRange", 3020, HOOK_BOTH,    \
	    (CUdeviceptr * base, size_t * size, CUdeviceptr ptr))              \
	X(cuPointerGetAttribute, "cuPointerGetAttribute", 4000, HOOK_BOTH,     \
	    (void *data, int attribute, CUdeviceptr ptr))                      \
	X(cuPointerGetAttributes, "cuPointerGetAttributes", 7000, HOOK_BOTH,   \
	    (unsigned count, int *attributes, void **data, CUdeviceptr ptr))   \
	X(cuPointerSetAttribute, "cuPointerSetAttribute", 6000, HOOK_BOTH,     \
	    (const void *value, int attribute, CUdeviceptr ptr))               \
	X(cuMemHostGetFlags, "cuMemHostGetFlags", 2030, HOOK_BOTH,             \
	    (unsigned *flags, void *ptr))                                      \
	X(cuMemHostGetDevicePointer_v2, "cuMemHostGetDevicePointer", 3020,     \
	    HOOK_BOTH, (CUdeviceptr * out, void *ptr, unsigned flags))         \
	X(cuMemHostRegister, "cuMemHostRegister", 4000, HOOK_BOTH,             \
	    (void *ptr, size_t bytes, unsigned flags))                         \
	X(cuMemHostRegister_v2, "cuMemHostRegister", 6050, HOOK_BOTH,          \
	    (void *ptr, size_t bytes, unsigned flags))                         \
	X(cuMemHostUnregister, "cuMemHostUnregister", 4000, HOOK_BOTH,         \
	    (void *ptr))                                                       \
	X(cuMemGetHandleForAddressRange, "cuMemGetHandleForAddressRange",      \
	    11070, HOOK_BOTH,                                                  \
	    (void *handle, CUdeviceptr ptr, size_t bytes, int type,            \
		unsigned long long flags))                                     \
	X(cuMemRetainAllocationHandle, "cuMemRetainAllocationHandle", 11000,   \
	    HOOK_BOTH, (CUmemGenericAllocationHandle * handle, void *ptr))     \
	X(cuMemMap, "cuMemMap", 10020, HOOK_BOTH,                              \
	    (CUdeviceptr ptr, size_t bytes, size_t offset,                     \
		CUmemGenericAllocationHandle handle,                           \
		unsigned long long flags))                                     \
	X(cuMemUnmap, "cuMemUnmap", 10020, HOOK_BOTH,                          \
	    (CUdeviceptr ptr, size_t bytes))                                   \
	X(cuMemAddressFree, "cuMemAddressFree", 10020, HOOK_BOTH,              \
	    (CUdeviceptr ptr, size_t bytes))                                   \
	X(cuMemSetAccess, "cuMemSetAccess", 10020, HOOK_BOTH,                  \
	    (CUdeviceptr ptr, size_t bytes, const CUmemAccessDesc *access,     \
		size_t count))                                                 \
	X(cuMemGetAccess, "cuMemGetAccess", 10020, HOOK_BOTH,                  \
	    (unsigned long long *flags, const CUmemLocation *location,         \
		CUdeviceptr ptr))                                              \
	X(cuMulticastBindAddr, "cuMulticastBindAddr", 12010, HOOK_BOTH,        \
	    (CUmemGenericAllocationHandle group, size_t offset,                \
		CUdeviceptr ptr, size_t bytes, unsigned long long flags))      \
	X(cuMemPoolExportPointer, "cuMemPoolExportPointer", 11020, HOOK_BOTH,  \
	    (void *data, CUdeviceptr ptr))                                     \
	X(cuIpcGetMemHandle, "cuIpcGetMemHandle", 4010, HOOK_BOTH,             \
	    (CUipcMemHandle * handle, CUdeviceptr ptr))                        \
	X(cuIpcOpenMemHandle, "cuIpcOpenMemHandle", 4010, HOOK_BOTH,           \
	    (CUdeviceptr * ptr, CUipcMemHandle handle, unsigned flags))        \
	X(cuIpcOpenMemHandle_v2, "cuIpcOpenMemHandle", 11000, HOOK_BOTH,       \
	    (CUdeviceptr * ptr, CUipcMemHandle handle, unsigned flags))        \
	X(cuIpcCloseMemHandle, "cuIpcCloseMemHandle", 4010, HOOK_BOTH,         \
	    (CUdeviceptr ptr))                                                 \
	X(cuEventRecord, "cuEventRecord", 2000, HOOK_LEGACY,                   \
	    (CUevent event, CUstream stream))                                  \
	X(cuEventRecord_ptsz, "cuEventRecord", 7000, HOOK_PER_THREAD,          \
	    (CUevent event, CUstream stream))                                  \
	X(cuEventRecordWithFlags, "cuEventRecordWithFlags", 11010,             \
	    HOOK_LEGACY, (CUevent event, CUstream stream, unsigned flags))     \
	X(cuEventRecordWithFlags_ptsz, "cuEventRecordWithFlags", 11010,        \
	    HOOK_PER_THREAD, (CUevent event, CUstream stream, unsigned flags)) \
	X(cuStreamWaitEvent, "cuStreamWaitEvent", 3020, HOOK_LEGACY,           \
	    (CUstream stream, CUevent event, unsigned flags))                  \
	X(cuStreamWaitEvent_ptsz, "cuStreamWaitEvent", 7000, HOOK_PER_THREAD,  \
	    (CUstream stream, CUevent event, unsigned flags))                  \
	X(cuEventDestroy, "cuEventDestroy", 2000, HOOK_BOTH, (CUevent event))  \
	X(cuEventDestroy_v2, "cuEventDestroy", 4000, HOOK_BOTH,                \
	    (CUevent event))                                                   \
	X(cuStreamCreate, "cuStreamCreate", 2000, HOOK_BOTH,                   \
	    (CUstream * stream, unsigned flags))                               \
	X(cuStreamCreateWithPriority, "cuStreamCreateWithPriority", 5050,      \
	    HOOK_BOTH, (CUstream * stream, unsigned flags, int priority))      \
	X(cuGreenCtxStreamCreate, "cuGreenCtxStreamCreate", 12050, HOOK_BOTH,  \
	    (CUstream * stream, void *context, unsigned flags, int priority))  \
	X(cuStreamDestroy, "cuStreamDestroy", 2000, HOOK_BOTH,                 \
	    (CUstream stream))                                                 \
	X(cuStreamDestroy_v2, "cuStreamDestroy", 4000, HOOK_BOTH,              \
	    (CUstream stream))                                                 \
	X(cuStreamBeginCapture, "cuStreamBeginCapture", 10000, HOOK_LEGACY,    \
	    (CUstream stream))                                                 \
	X(cuStreamBeginCapture_ptsz, "cuStreamBeginCapture", 10000,            \
	    HOOK_PER_THREAD, (CUstream stream))                                \
	X(cuStreamBeginCapture_v2, "cuStreamBeginCapture", 10010, HOOK_LEGACY, \
	    (CUstream stream, int mode))                                       \
	X(cuStreamBeginCapture_v2_ptsz, "cuStreamBeginCapture", 10010,         \
	    HOOK_PER_THREAD, (CUstream stream, int mode))                      \
	X(cuStreamBeginCaptureToGraph, "cuStreamBeginCaptureToGraph", 12030,   \
	    HOOK_LEGACY,                                                       \
	    (CUstream stream, void *graph, const void *dependencies,           \
		const void *edges, size_t count, int mode))                    \
	X(cuStreamBeginCaptureToGraph_ptsz, "cuStreamBeginCaptureToGraph",     \
	    12030, HOOK_PER_THREAD,                                            \
	    (CUstream stream, void *graph, const void *dependencies,           \
		const void *edges, size_t count, int mode))                    \
	X(cuStreamEndCapture, "cuStreamEndCapture", 10000, HOOK_LEGACY,        \
	    (CUstream stream, void **graph))                                   \
	X(cuStreamEndCapture_ptsz, "cuStreamEndCapture", 10000,                \
	    HOOK_PER_THREAD, (CUstream stream, void **graph))                  \
	X(cuCtxSynchronize, "cuCtxSynchronize", 2000, HOOK_BOTH, (void))       \
	X(cuCtxSynchronize_v2, "cuCtxSynchronize", 13000, HOOK_BOTH,           \
	    (CUcontext context))                                               \
	X(cuCtxEnablePeerAccess, "cuCtxEnablePeerAccess", 4000, HOOK_BOTH,     \
	    (CUcontext peer, unsigned flags))                                  \
	X(cuCtxDisablePeerAccess, "cuCtxDisablePeerAccess", 4000, HOOK_BOTH,   \
	    (CUcontext peer))                                                  \
	X(cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", 7000,          \
	    HOOK_BOTH, (CUcontext * context, CUdevice device))                 \
	X(cuCtxDestroy, "cuCtxDestroy", 2000, HOOK_BOTH, (CUcontext context))  \
	X(cuCtxDestroy_v2, "cuCtxDestroy", 4000, HOOK_BOTH,                    \
	    (CUcontext context))                                               \
	X(cuGreenCtxDestroy, "cuGreenCtxDestroy", 12040, HOOK_BOTH,            \
	    (void *context))                                                   \
	X(cuDevicePrimaryCtxReset, "cuDevicePrimaryCtxReset", 7000, HOOK_BOTH, \
	    (CUdevice device))                                                 \
	X(cuDevicePrimaryCtxReset_v2, "cuDevicePrimaryCtxReset", 11000,        \
	    HOOK_BOTH, (CUdevice device))                                      \
	X(cuDevicePrimaryCtxRelease, "cuDevicePrimaryCtxRelease", 7000,        \
	    HOOK_BOTH, (CUdevice device))                                      \
	X(cuDevicePrimaryCtxRelease_v2, "cuDevicePrimaryCtxRelease", 11000,    \
	    HOOK_BOTH, (CUdevice device))

/* Hooks that only observe: how long the host waits, for the budget of delay, a
 * report and the history. */
#define HOOKS_WATCH(X)                                                         \
	X(cuMemcpyDtoHAsync_v2, "cuMemcpyDtoHAsync", 3020, HOOK_LEGACY,        \
	    (void *to, CUdeviceptr from, size_t bytes, CUstream stream))       \
	X(cuMemcpyDtoHAsync_v2_ptsz, "cuMemcpyDtoHAsync", 7000,                \
	    HOOK_PER_THREAD,                                                   \
	    (void *to, CUdeviceptr from, size_t bytes, CUstream stream))       \
	X(cuMemcpyAsync, "cuMemcpyAsync", 4000, HOOK_LEGACY,                   \
	    (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)) \
	X(cuMemcpyAsync_ptsz, "cuMemcpyAsync", 7000, HOOK_PER_THREAD,          \
	    (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)) \
	X(cuMemcpyDtoH_v2, "cuMemcpyDtoH", 3020, HOOK_LEGACY,                  \
	    (void *to, CUdeviceptr from, size_t bytes))                        \
	X(cuMemcpyDtoH_v2_ptds, "cuMemcpyDtoH", 7000, HOOK_PER_THREAD,         \
	    (void *to, CUdeviceptr from, size_t bytes))                        \
	X(cuMemcpy, "cuMemcpy", 4000, HOOK_LEGACY,                             \
	    (CUdeviceptr to, CUdeviceptr from, size_t bytes))                  \
	X(cuMemcpy_ptds, "cuMemcpy", 7000, HOOK_PER_THREAD,                    \
	    (CUdeviceptr to, CUdeviceptr from, size_t bytes))                  \
	X(cuMemcpy2D_v2, "cuMemcpy2D", 3020, HOOK_LEGACY, (const void *copy))  \
	X(cuMemcpy2D_v2_ptds, "cuMemcpy2D", 7000, HOOK_PER_THREAD,             \
	    (const void *copy))                                                \
	X(cuMemcpy2DUnaligned_v2, "cuMemcpy2DUnaligned", 3020, HOOK_LEGACY,    \
	    (const void *copy))                                                \
	X(cuMemcpy2DUnaligned_v2_ptds, "cuMemcpy2DUnaligned", 7000,            \
	    HOOK_PER_THREAD, (const void *copy))                               \
	X(cuMemcpy3D_v2, "cuMemcpy3D", 3020, HOOK_LEGACY, (const void *copy))  \
	X(cuMemcpy3D_v2_ptds, "cuMemcpy3D", 7000, HOOK_PER_THREAD,             \
	    (const void *copy))                                                \
	X(cuStreamSynchronize, "cuStreamSynchronize", 2000, HOOK_LEGACY,       \
	    (CUstream stream))                                                 \
	X(cuStreamSynchronize_ptsz, "cuStreamSynchronize", 7000,               \
	    HOOK_PER_THREAD, (CUstream stream))                                \
	X(cuStreamQuery, "cuStreamQuery", 2000, HOOK_LEGACY,                   \
	    (CUstream stream))                                                 \
	X(cuStreamQuery_ptsz, "cuStreamQuery", 7000, HOOK_PER_THREAD,          \
	    (CUstream stream))                                                 \
	X(cuStreamAddCallback, "cuStreamAddCallback", 5000, HOOK_LEGACY,       \
	    (CUstream stream, void *callback, void *data, unsigned flags))     \
	X(cuStreamAddCallback_ptsz, "cuStreamAddCallback", 7000,               \
	    HOOK_PER_THREAD,                                                   \
	    (CUstream stream, void *callback, void *data, unsigned flags))     \
	X(cuLaunchHostFunc, "cuLaunchHostFunc", 10000, HOOK_LEGACY,            \
	    (CUstream stream, void *function, void *data))                     \
	X(cuLaunchHostFunc_ptsz, "cuLaunchHostFunc", 10000, HOOK_PER_THREAD,   \
	    (CUstream stream, void *function, void *data))                     \
	X(cuEventSynchronize, "cuEventSynchronize", 2000, HOOK_BOTH,           \
	    (CUevent event))                                                   \
	X(cuEventQuery, "cuEventQuery", 2000, HOOK_BOTH, (CUevent event))

/* More hooks for --check-streams. Lookups return them only with that option. */
#define HOOKS_CHECK(X)                                                         \
	X(cuLaunchKernel, "cuLaunchKernel", 4000, HOOK_LEGACY,                 \
	    (CUfunction function, unsigned gx, unsigned gy, unsigned gz,       \
		unsigned bx, unsigned by, unsigned bz, unsigned shared,        \
		CUstream stream, void **parameters, void **extra))             \
	X(cuLaunchKernel_ptsz, "cuLaunchKernel", 7000, HOOK_PER_THREAD,        \
	    (CUfunction function, unsigned gx, unsigned gy, unsigned gz,       \
		unsigned bx, unsigned by, unsigned bz, unsigned shared,        \
		CUstream stream, void **parameters, void **extra))             \
	X(cuLaunchCooperativeKernel, "cuLaunchCooperativeKernel", 9000,        \
	    HOOK_LEGACY,                                                       \
	    (CUfunction function, unsigned gx, unsigned gy, unsigned gz,       \
		unsigned bx, unsigned by, unsigned bz, unsigned shared,        \
		CUstream stream, void **parameters))                           \
	X(cuLaunchCooperativeKernel_ptsz, "cuLaunchCooperativeKernel", 9000,   \
	    HOOK_PER_THREAD,                                                   \
	    (CUfunction function, unsigned gx, unsigned gy, unsigned gz,       \
		unsigned bx, unsigned by, unsigned bz, unsigned shared,        \
		CUstream stream, void **parameters))                           \
	X(cuLaunchKernelEx, "cuLaunchKernelEx", 11060, HOOK_LEGACY,            \
	    (const void *config, CUfunction function, void **parameters,       \
		void **extra))                                                 \
	X(cuLaunchKernelEx_ptsz, "cuLaunchKernelEx", 11060, HOOK_PER_THREAD,   \
	    (const void *config, CUfunction function, void **parameters,       \
		void **extra))                                                 \
	X(cuMemcpyHtoDAsync_v2, "cuMemcpyHtoDAsync", 3020, HOOK_LEGACY,        \
	    (CUdeviceptr to, const void *from, size_t bytes, CUstream stream)) \
	X(cuMemcpyHtoDAsync_v2_ptsz, "cuMemcpyHtoDAsync", 7000,                \
	    HOOK_PER_THREAD,                                                   \
	    (CUdeviceptr to, const void *from, size_t bytes, CUstream stream)) \
	X(cuMemcpyDtoDAsync_v2, "cuMemcpyDtoDAsync", 3020, HOOK_LEGACY,        \
	    (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)) \
	X(cuMemcpyDtoDAsync_v2_ptsz, "cuMemcpyDtoDAsync", 7000,                \
	    HOOK_PER_THREAD,                                                   \
	    (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)) \
	X(cuMemcpyHtoD_v2, "cuMemcpyHtoD", 3020, HOOK_LEGACY,                  \
	    (CUdeviceptr to, const void *from, size_t bytes))                  \
	X(cuMemcpyHtoD_v2_ptds, "cuMemcpyHtoD", 7000, HOOK_PER_THREAD,         \
	    (CUdeviceptr to, const void *from, size_t bytes))                  \
	X(cuMemcpyDtoD_v2, "cuMemcpyDtoD", 3020, HOOK_LEGACY,                  \
	    (CUdeviceptr to, CUdeviceptr from, size_t bytes))                  \
	X(cuMemcpyDtoD_v2_ptds, "cuMemcpyDtoD", 7000, HOOK_PER_THREAD,         \
	    (CUdeviceptr to, CUdeviceptr from, size_t bytes))                  \
	X(cuMemsetD8Async, "cuMemsetD8Async", 3020, HOOK_LEGACY,               \
	    (CUdeviceptr to, unsigned char value, size_t n, CUstream stream))  \
	X(cuMemsetD8Async_ptsz, "cuMemsetD8Async", 7000, HOOK_PER_THREAD,      \
	    (CUdeviceptr to, unsigned char value, size_t n, CUstream stream))  \
	X(cuMemsetD16Async, "cuMemsetD16Async", 3020, HOOK_LEGACY,             \
	    (CUdeviceptr to, unsigned short value, size_t n, CUstream stream)) \
	X(cuMemsetD16Async_ptsz, "cuMemsetD16Async", 7000, HOOK_PER_THREAD,    \
	    (CUdeviceptr to, unsigned short value, size_t n, CUstream stream)) \
	X(cuMemsetD32Async, "cuMemsetD32Async", 3020, HOOK_LEGACY,             \
	    (CUdeviceptr to, unsigned value, size_t n, CUstream stream))       \
	X(cuMemsetD32Async_ptsz, "cuMemsetD32Async", 7000, HOOK_PER_THREAD,    \
	    (CUdeviceptr to, unsigned value, size_t n, CUstream stream))

enum hook_id {
#define HOOK_ID(name, base, version, streams, params) HOOK_##name,
	HOOKS(HOOK_ID)
#undef HOOK_ID
	    HOOK_COUNT,
	HOOK_CHECK_FIRST = HOOK_cuLaunchKernel
};

/* The hooks, and the function types of the entries they replace. */
#define HOOK_DECLARE(name, base, version, streams, params)                     \
	typedef CUresult name##_function params;                               \
	WEIR_API CUresult name params;
HOOKS(HOOK_DECLARE)
#undef HOOK_DECLARE

/* One entry of the table. */
struct hook {
	const char *name; /* name that the driver exports */
	const char *base; /* name that cuGetProcAddress() knows */
	int version;
	enum hook_streams streams;
};

/* Indexed by enum hook_id, as the hooks' addresses in lookups.c are. */
extern const struct hook hooks[HOOK_COUNT];

/* The hook with an exported name; NULL if there is none. */
const struct hook *hook_exported(const char *name);

/* The hook of the entry that cuGetProcAddress() returns for a base name and a
 * version; NULL if there is none. */
const struct hook *hook_queried(const char *base, int version, bool per_thread);

#endif
