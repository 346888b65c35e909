/*
 * The simulated libcudart.so.13 inside.
 *
 * A thin layer: each call makes sure that this thread has a context, calls the
 * driver, and stores the error. It finds the driver as the real runtime does:
 * by dlopen("libcuda.so.1"), one dlsym("cuGetProcAddress_v2"), and that
 * function for all other entries. So a library that intercepts a real runtime's
 * calls intercepts these as well.
 */
#ifndef SIMCUDA_CUDART_CUDART_H
#define SIMCUDA_CUDART_CUDART_H

#include <stdbool.h>

#include "driver/abi.h"
#include "simcuda/cudart/include/cuda_runtime.h"

/* Entries beyond those of DRIVER_ENTRIES: X(name, base, version, flags,
 * parameters). A driver may lack those of CUDA 12 and newer; they are then
 * NULL.
 */
/* clang-format off */
#define RUNTIME_ENTRIES(X)                                                     \
	X(cuDevicePrimaryCtxGetState, "cuDevicePrimaryCtxGetState", 7000, 0,   \
	  (CUdevice device, unsigned *flags, int *active))                     \
	X(cuDevicePrimaryCtxRelease, "cuDevicePrimaryCtxRelease", 11000, 0,    \
	  (CUdevice device))                                                   \
	X(cuDevicePrimaryCtxReset, "cuDevicePrimaryCtxReset", 11000, 0,        \
	  (CUdevice device))                                                   \
	X(cuCtxGetStreamPriorityRange, "cuCtxGetStreamPriorityRange", 5050, 0, \
	  (int *least, int *greatest))                                         \
	X(cuCtxEnablePeerAccess, "cuCtxEnablePeerAccess", 4000, 0,             \
	  (CUcontext peer, unsigned flags))                                    \
	X(cuCtxDisablePeerAccess, "cuCtxDisablePeerAccess", 4000, 0,           \
	  (CUcontext peer))                                                    \
	X(cuDevicePrimaryCtxSetFlags, "cuDevicePrimaryCtxSetFlags", 11000, 0,  \
	  (CUdevice device, unsigned flags))                                   \
	X(cuDeviceGetByPCIBusId, "cuDeviceGetByPCIBusId", 4010, 0,             \
	  (CUdevice *device, const char *bus_id))                              \
	X(cuCtxGetLimit, "cuCtxGetLimit", 3010, 0,                             \
	  (size_t *value, CUlimit limit))                                      \
	X(cuCtxSetLimit, "cuCtxSetLimit", 3010, 0,                             \
	  (CUlimit limit, size_t value))                                       \
	X(cuMemAllocManaged, "cuMemAllocManaged", 6000, 0,                     \
	  (CUdeviceptr *ptr, size_t size, unsigned flags))                     \
	X(cuMemPrefetchAsync, "cuMemPrefetchAsync", 8000, 0,                   \
	  (CUdeviceptr ptr, size_t size, CUdevice device, CUstream stream))    \
	X(cuMemAdvise, "cuMemAdvise", 8000, 0,                                 \
	  (CUdeviceptr ptr, size_t size, CUmem_advise advice, CUdevice         \
	   device))                                                            \
	X(cuMemHostGetFlags, "cuMemHostGetFlags", 2030, 0,                     \
	  (unsigned *flags, void *ptr))                                        \
	X(cuMemcpyPeer, "cuMemcpyPeer", 4000, 0,                               \
	  (CUdeviceptr to, CUcontext to_context, CUdeviceptr from,             \
	   CUcontext from_context, size_t size))                               \
	X(cuEventRecordWithFlags, "cuEventRecordWithFlags", 11010, 0,          \
	  (CUevent event, CUstream stream, unsigned flags))                    \
	X(cuStreamGetId, "cuStreamGetId", 12000, 0,                            \
	  (CUstream stream, unsigned long long *id))                           \
	X(cuMemcpyDtoDAsync, "cuMemcpyDtoDAsync", 3020, 0,                     \
	  (CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream))    \
	X(cuMemcpy2DAsync, "cuMemcpy2DAsync", 3020, 0,                         \
	  (const CUDA_MEMCPY2D *params, CUstream stream))                      \
	X(cuMemcpy3DAsync, "cuMemcpy3DAsync", 3020, 0,                         \
	  (const CUDA_MEMCPY3D *params, CUstream stream))                      \
	X(cuMemcpy3DPeerAsync, "cuMemcpy3DPeerAsync", 4000, 0,                 \
	  (const CUDA_MEMCPY3D_PEER *params, CUstream stream))                 \
	X(cuMemsetD2D8Async, "cuMemsetD2D8Async", 3020, 0,                     \
	  (CUdeviceptr ptr, size_t pitch, unsigned char value, size_t width,   \
	   size_t height, CUstream stream))                                    \
	X(cuLaunchHostFunc, "cuLaunchHostFunc", 10000, 0,                      \
	  (CUstream stream, CUhostFn function, void *user))                    \
	X(cuStreamAddCallback, "cuStreamAddCallback", 5000, 0,                 \
	  (CUstream stream, CUstreamCallback callback, void *user,             \
	   unsigned flags))                                                    \
	X(cuGraphCreate, "cuGraphCreate", 10000, 0,                            \
	  (CUgraph *graph, unsigned flags))                                    \
	X(cuGraphAddEmptyNode, "cuGraphAddEmptyNode", 10000, 0,                \
	  (CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies,  \
	   size_t count))                                                      \
	X(cuGraphAddMemcpyNode, "cuGraphAddMemcpyNode", 10000, 0,              \
	  (CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies,  \
	   size_t count, const CUDA_MEMCPY3D *params, CUcontext context))      \
	X(cuGraphAddMemsetNode, "cuGraphAddMemsetNode", 10000, 0,              \
	  (CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies,  \
	   size_t count, const CUDA_MEMSET_NODE_PARAMS *params,                \
	   CUcontext context))                                                 \
	X(cuGraphExecMemcpyNodeSetParams, "cuGraphExecMemcpyNodeSetParams",    \
	  10020, 0,                                                            \
	  (CUgraphExec exec, CUgraphNode node, const CUDA_MEMCPY3D *params,    \
	   CUcontext context))                                                 \
	X(cuGraphExecMemsetNodeSetParams, "cuGraphExecMemsetNodeSetParams",    \
	  10020, 0,                                                            \
	  (CUgraphExec exec, CUgraphNode node,                                 \
	   const CUDA_MEMSET_NODE_PARAMS *params, CUcontext context))          \
	X(cuGraphExecUpdate, "cuGraphExecUpdate", 12000, 0,                    \
	  (CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo *info))\
	X(cuGraphUpload, "cuGraphUpload", 11010, 0,                            \
	  (CUgraphExec exec, CUstream stream))                                 \
	X(cuMemAllocPitch, "cuMemAllocPitch", 3020, 0,                         \
	  (CUdeviceptr *ptr, size_t *pitch, size_t width, size_t height,       \
	   unsigned element))                                                  \
	X(cuMemAllocAsync, "cuMemAllocAsync", 11020, 0,                        \
	  (CUdeviceptr *ptr, size_t size, CUstream stream))                    \
	X(cuMemAllocAsync_ptsz, "cuMemAllocAsync", 11020,                      \
	  CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM,                       \
	  (CUdeviceptr *ptr, size_t size, CUstream stream))                    \
	X(cuMemFreeAsync, "cuMemFreeAsync", 11020, 0,                          \
	  (CUdeviceptr ptr, CUstream stream))                                  \
	X(cuMemFreeAsync_ptsz, "cuMemFreeAsync", 11020,                        \
	  CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM,                       \
	  (CUdeviceptr ptr, CUstream stream))                                  \
	X(cuMemAllocFromPoolAsync, "cuMemAllocFromPoolAsync", 11020, 0,        \
	  (CUdeviceptr *ptr, size_t size, CUmemoryPool pool, CUstream stream)) \
	X(cuMemAllocFromPoolAsync_ptsz, "cuMemAllocFromPoolAsync", 11020,      \
	  CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM,                       \
	  (CUdeviceptr *ptr, size_t size, CUmemoryPool pool, CUstream stream)) \
	X(cuMemPoolCreate, "cuMemPoolCreate", 11020, 0,                        \
	  (CUmemoryPool *pool, const CUmemPoolProps *props))                   \
	X(cuMemPoolDestroy, "cuMemPoolDestroy", 11020, 0, (CUmemoryPool pool)) \
	X(cuMemPoolTrimTo, "cuMemPoolTrimTo", 11020, 0,                        \
	  (CUmemoryPool pool, size_t keep))                                    \
	X(cuMemPoolSetAttribute, "cuMemPoolSetAttribute", 11020, 0,            \
	  (CUmemoryPool pool, CUmemPool_attribute attribute, void *value))     \
	X(cuMemPoolGetAttribute, "cuMemPoolGetAttribute", 11020, 0,            \
	  (CUmemoryPool pool, CUmemPool_attribute attribute, void *value))     \
	X(cuMemPoolSetAccess, "cuMemPoolSetAccess", 11020, 0,                  \
	  (CUmemoryPool pool, const CUmemAccessDesc *access, size_t count))    \
	X(cuMemPoolGetAccess, "cuMemPoolGetAccess", 11020, 0,                  \
	  (CUmemAccess_flags *flags, CUmemoryPool pool,                        \
	   CUmemLocation *location))                                           \
	X(cuDeviceGetDefaultMemPool, "cuDeviceGetDefaultMemPool", 11020, 0,    \
	  (CUmemoryPool *pool, CUdevice device))                               \
	X(cuDeviceGetMemPool, "cuDeviceGetMemPool", 11020, 0,                  \
	  (CUmemoryPool *pool, CUdevice device))                               \
	X(cuDeviceSetMemPool, "cuDeviceSetMemPool", 11020, 0,                  \
	  (CUdevice device, CUmemoryPool pool))                                \
	X(cuMemHostGetDevicePointer, "cuMemHostGetDevicePointer", 3020, 0,     \
	  (CUdeviceptr *device_ptr, void *ptr, unsigned flags))                \
	X(cuPointerGetAttributes, "cuPointerGetAttributes", 7000, 0,           \
	  (unsigned count, CUpointer_attribute *attributes, void **data,       \
	   CUdeviceptr ptr))
/* clang-format on */

struct runtime_driver {
#define RUNTIME_FIELD(name, version, required, params) CUresult(*name) params;
	DRIVER_ENTRIES(RUNTIME_FIELD)
#undef RUNTIME_FIELD
#define RUNTIME_FIELD(name, base, version, flags, params)                      \
	CUresult(*name) params;
	RUNTIME_ENTRIES(RUNTIME_FIELD)
#undef RUNTIME_FIELD
};

/* The number of devices that the runtime supports. */
enum { RUNTIME_DEVICES = 64 };

/* The driver, complete after runtime_load() or runtime_enter() has succeeded.
 */
extern struct runtime_driver driver;

/* ---- context.c --------------------------------------------------------- */

/* Find the driver and initialise it, once. A failure is stored. */
cudaError_t runtime_load(void);

/* Call runtime_load(), then make sure that this thread has a current context:
 * its own, or the primary context of its chosen device. */
cudaError_t runtime_enter(void);

/* The primary context of a device, kept from the first call on. */
cudaError_t runtime_context(int device, CUcontext *out);

/* How often the device has been reset; a reset destroys everything on it. */
unsigned runtime_resets(int device);

/* The device of the current context, or the chosen one. Call runtime_load()
 * first. */
cudaError_t runtime_device(int *device);

/* Choose a device of the thread, which exists, and make its context current. */
cudaError_t runtime_choose(int device);

/* ---- copy.c ------------------------------------------------------------ */

/* The driver's parameters of a copy without arrays. */
CUDA_MEMCPY3D box_params(const struct cudaMemcpy3DParms *what);

/* ---- variable.c -------------------------------------------------------- */

/* The image with that handle is unregistered, and its variables with it. */
void variables_forget(void **handle);

/* ---- error.c ----------------------------------------------------------- */

/* Store an error and return it. Success is not stored. */
cudaError_t runtime_error(cudaError_t error);

/* Store and return the runtime's error for the driver's code. */
cudaError_t runtime_check(CUresult code);

/* ---- Addresses --------------------------------------------------------- */

static inline CUdeviceptr
address(const void *ptr)
{
	return (CUdeviceptr)(uintptr_t)ptr;
}

/* Turn the driver's result of an allocation into the runtime's. */
static inline cudaError_t
give(CUresult code, const CUdeviceptr *found, void **out)
{
	if (code == CUDA_SUCCESS)
		*out = (void *)(uintptr_t)*found;
	return runtime_check(code);
}

/* ---- Streams ----------------------------------------------------------- */

/* The stream that 0 means in a _ptsz call. */
static inline cudaStream_t
per_thread(cudaStream_t stream)
{
	return stream == NULL ? cudaStreamPerThread : stream;
}

#endif
