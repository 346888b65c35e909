/*
 * The entry points of simcuda. This list declares them (sim.h), numbers them,
 *and is the table for cuGetProcAddress().
 *
 * P(symbol, base, version, flags, parameters)	a plain call
 * S(...)		a call with a stream; symbol_ptsz is for programs whose
 *			stream 0 is the per-thread default stream
 * D(...)		a call on the default stream; symbol_ptds likewise
 *
 * `base` is the name for cuGetProcAddress() and for injecting faults; `version`
 *is the first version with this signature; flags are the ENTRY_* below.
 *
 * Like driver/lists.h, this names types and declares none.
 */
#ifndef SIMCUDA_ENTRIES_H
#define SIMCUDA_ENTRIES_H

/* Flags of an entry, for gate_enter(). */
enum {
	ENTRY_NONE = 0,
	ENTRY_INIT = 1,     /* cuInit() must have been called */
	ENTRY_CONTEXT = 3,  /* also, a context must be current */
	ENTRY_UNSAFE = 4,   /* forbidden while streams capture */
	ENTRY_RESOURCE = 8, /* may fail for lack of a resource */
	ENTRY_INIT_R = ENTRY_INIT | ENTRY_RESOURCE,
	ENTRY_INIT_U = ENTRY_INIT | ENTRY_UNSAFE,
	ENTRY_CONTEXT_R = ENTRY_CONTEXT | ENTRY_RESOURCE,
	ENTRY_CONTEXT_U = ENTRY_CONTEXT | ENTRY_UNSAFE,
	ENTRY_CONTEXT_UR = ENTRY_CONTEXT_R | ENTRY_UNSAFE
};

/* clang-format off */
#define SIM_ENTRIES(P, S, D)                                                   \
	P(cuInit, cuInit, 2000, NONE, (unsigned int flags))                    \
	P(cuDriverGetVersion, cuDriverGetVersion, 2020, NONE, (int *version))  \
	P(cuGetErrorName, cuGetErrorName, 6000, NONE,                          \
	    (CUresult error, const char **name))                               \
	P(cuGetErrorString, cuGetErrorString, 6000, NONE,                      \
	    (CUresult error, const char **text))                               \
	P(cuGetProcAddress, cuGetProcAddress, 11030, NONE,                     \
	    (const char *symbol, void **function, int version, cuuint64_t      \
	    flags))                                                            \
	P(cuGetProcAddress_v2, cuGetProcAddress, 12000, NONE,                  \
	    (const char *symbol, void **function, int version, cuuint64_t      \
	    flags, CUdriverProcAddressQueryResult *status))                    \
	P(cuGetExportTable, cuGetExportTable, 3000, NONE,                      \
	    (const void **table, const CUuuid *id))                            \
	P(cuDeviceGet, cuDeviceGet, 2000, INIT,                                \
	    (CUdevice *device, int ordinal))                                   \
	P(cuDeviceGetCount, cuDeviceGetCount, 2000, INIT, (int *count))        \
	P(cuDeviceGetName, cuDeviceGetName, 2000, INIT,                        \
	    (char *name, int size, CUdevice device))                           \
	P(cuDeviceTotalMem_v2, cuDeviceTotalMem, 3020, INIT,                   \
	    (size_t *bytes, CUdevice device))                                  \
	P(cuDeviceGetAttribute, cuDeviceGetAttribute, 2000, INIT,              \
	    (int *value, CUdevice_attribute attribute, CUdevice device))       \
	P(cuDeviceGetUuid, cuDeviceGetUuid, 9020, INIT,                        \
	    (CUuuid *uuid, CUdevice device))                                   \
	P(cuDeviceGetUuid_v2, cuDeviceGetUuid, 11040, INIT,                    \
	    (CUuuid *uuid, CUdevice device))                                   \
	P(cuDeviceCanAccessPeer, cuDeviceCanAccessPeer, 4000, INIT,            \
	    (int *can_access, CUdevice device, CUdevice peer))                 \
	P(cuDeviceGetPCIBusId, cuDeviceGetPCIBusId, 4010, INIT,                \
	    (char *bus_id, int size, CUdevice device))                         \
	P(cuDeviceGetByPCIBusId, cuDeviceGetByPCIBusId, 4010, INIT,            \
	    (CUdevice *device, const char *bus_id))                            \
	P(cuDeviceComputeCapability, cuDeviceComputeCapability, 2000, INIT,    \
	    (int *major, int *minor, CUdevice device))                         \
	P(cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain, 7000, INIT_R,    \
	    (CUcontext *context, CUdevice device))                             \
	P(cuDevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease, 7000, INIT,    \
	    (CUdevice device))                                                 \
	P(cuDevicePrimaryCtxRelease_v2, cuDevicePrimaryCtxRelease,             \
	    11000, INIT,                                                       \
	    (CUdevice device))                                                 \
	P(cuDevicePrimaryCtxGetState, cuDevicePrimaryCtxGetState, 7000, INIT,  \
	    (CUdevice device, unsigned int *flags, int *active))               \
	P(cuDevicePrimaryCtxReset, cuDevicePrimaryCtxReset, 7000, INIT,        \
	    (CUdevice device))                                                 \
	P(cuDevicePrimaryCtxReset_v2, cuDevicePrimaryCtxReset, 11000, INIT,    \
	    (CUdevice device))                                                 \
	P(cuDevicePrimaryCtxSetFlags, cuDevicePrimaryCtxSetFlags, 7000, INIT,  \
	    (CUdevice device, unsigned int flags))                             \
	P(cuDevicePrimaryCtxSetFlags_v2, cuDevicePrimaryCtxSetFlags,           \
	    11000, INIT,                                                       \
	    (CUdevice device, unsigned int flags))                             \
	P(cuCtxCreate_v2, cuCtxCreate, 3020, INIT_R,                           \
	    (CUcontext *context, unsigned int flags, CUdevice device))         \
	P(cuCtxCreate_v4, cuCtxCreate, 12050, INIT_R,                          \
	    (CUcontext *context, CUctxCreateParams *params, unsigned int       \
	    flags, CUdevice device))                                           \
	P(cuCtxDestroy_v2, cuCtxDestroy, 4000, INIT, (CUcontext context))      \
	P(cuCtxGetCurrent, cuCtxGetCurrent, 4000, INIT, (CUcontext *context))  \
	P(cuCtxSetCurrent, cuCtxSetCurrent, 4000, INIT, (CUcontext context))   \
	P(cuCtxPushCurrent_v2, cuCtxPushCurrent, 4000, INIT,                   \
	    (CUcontext context))                                               \
	P(cuCtxPopCurrent_v2, cuCtxPopCurrent, 4000, INIT,                     \
	    (CUcontext *context))                                              \
	P(cuCtxGetDevice, cuCtxGetDevice, 2000, CONTEXT, (CUdevice *device))   \
	P(cuCtxGetFlags, cuCtxGetFlags, 7000, CONTEXT, (unsigned int *flags))  \
	P(cuCtxGetLimit, cuCtxGetLimit, 3010, CONTEXT,                         \
	    (size_t *value, CUlimit limit))                                    \
	P(cuCtxSetLimit, cuCtxSetLimit, 3010, CONTEXT,                         \
	    (CUlimit limit, size_t value))                                     \
	P(cuCtxGetApiVersion, cuCtxGetApiVersion, 3020, INIT,                  \
	    (CUcontext context, unsigned int *version))                        \
	P(cuCtxGetId, cuCtxGetId, 12000, INIT,                                 \
	    (CUcontext context, unsigned long long *id))                       \
	P(cuCtxSynchronize, cuCtxSynchronize, 2000, CONTEXT_U, (void))         \
	P(cuCtxSynchronize_v2, cuCtxSynchronize, 13000, INIT_U,                \
	    (CUcontext context))                                               \
	P(cuCtxGetStreamPriorityRange, cuCtxGetStreamPriorityRange,            \
	    5050, CONTEXT,                                                     \
	    (int *least, int *greatest))                                       \
	P(cuCtxRecordEvent, cuCtxRecordEvent, 12050, INIT_R,                   \
	    (CUcontext context, CUevent event))                                \
	P(cuCtxEnablePeerAccess, cuCtxEnablePeerAccess, 4000, CONTEXT_R,       \
	    (CUcontext peer, unsigned int flags))                              \
	P(cuCtxDisablePeerAccess, cuCtxDisablePeerAccess, 4000, CONTEXT,       \
	    (CUcontext peer))                                                  \
	P(cuStreamCreate, cuStreamCreate, 2000, CONTEXT_R,                     \
	    (CUstream *stream, unsigned int flags))                            \
	P(cuStreamCreateWithPriority, cuStreamCreateWithPriority,              \
	    5050, CONTEXT_R,                                                   \
	    (CUstream *stream, unsigned int flags, int priority))              \
	P(cuStreamDestroy_v2, cuStreamDestroy, 4000, INIT, (CUstream stream))  \
	S(cuStreamQuery, cuStreamQuery, 2000, INIT, (CUstream stream))         \
	S(cuStreamSynchronize, cuStreamSynchronize, 2000, INIT,                \
	    (CUstream stream))                                                 \
	S(cuStreamWaitEvent, cuStreamWaitEvent, 3020, INIT_R,                  \
	    (CUstream stream, CUevent event, unsigned int flags))              \
	S(cuStreamGetCtx, cuStreamGetCtx, 9020, INIT,                          \
	    (CUstream stream, CUcontext *context))                             \
	S(cuStreamGetId, cuStreamGetId, 12000, INIT,                           \
	    (CUstream stream, unsigned long long *id))                         \
	S(cuStreamGetPriority, cuStreamGetPriority, 5050, INIT,                \
	    (CUstream stream, int *priority))                                  \
	S(cuStreamGetFlags, cuStreamGetFlags, 5050, INIT,                      \
	    (CUstream stream, unsigned int *flags))                            \
	S(cuStreamGetDevice, cuStreamGetDevice, 12080, INIT,                   \
	    (CUstream stream, CUdevice *device))                               \
	S(cuStreamAddCallback, cuStreamAddCallback, 5000, INIT_R,              \
	    (CUstream stream, CUstreamCallback callback, void *data, unsigned  \
	    int flags))                                                        \
	S(cuLaunchHostFunc, cuLaunchHostFunc, 10000, INIT_R,                   \
	    (CUstream stream, CUhostFn function, void *data))                  \
	S(cuStreamWaitValue32, cuStreamWaitValue32, 8000, INIT_R,              \
	    (CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned  \
	    int flags))                                                        \
	S(cuStreamWaitValue32_v2, cuStreamWaitValue32, 11070, INIT_R,          \
	    (CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned  \
	    int flags))                                                        \
	S(cuStreamWriteValue32, cuStreamWriteValue32, 8000, INIT_R,            \
	    (CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned  \
	    int flags))                                                        \
	S(cuStreamWriteValue32_v2, cuStreamWriteValue32, 11070, INIT_R,        \
	    (CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned  \
	    int flags))                                                        \
	S(cuStreamWaitValue64_v2, cuStreamWaitValue64, 11070, INIT_R,          \
	    (CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned  \
	    int flags))                                                        \
	S(cuStreamWriteValue64_v2, cuStreamWriteValue64, 11070, INIT_R,        \
	    (CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned  \
	    int flags))                                                        \
	S(cuStreamIsCapturing, cuStreamIsCapturing, 10000, INIT,               \
	    (CUstream stream, CUstreamCaptureStatus *status))                  \
	S(cuStreamGetCaptureInfo, cuStreamGetCaptureInfo, 10010, INIT,         \
	    (CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id))  \
	S(cuStreamGetCaptureInfo_v2, cuStreamGetCaptureInfo, 11030, INIT,      \
	    (CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id,   \
	    CUgraph *graph, const CUgraphNode **dependencies, size_t           \
	    *n_dependencies))                                                  \
	S(cuStreamGetCaptureInfo_v3, cuStreamGetCaptureInfo, 12030, INIT,      \
	    (CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id,   \
	    CUgraph *graph, const CUgraphNode **dependencies, const            \
	    CUgraphEdgeData **edges, size_t *n_dependencies))                  \
	S(cuStreamUpdateCaptureDependencies,                                   \
	    cuStreamUpdateCaptureDependencies,                                 \
	    11030, INIT,                                                       \
	    (CUstream stream, CUgraphNode *dependencies, size_t                \
	    n_dependencies, unsigned int flags))                               \
	S(cuStreamUpdateCaptureDependencies_v2,                                \
	    cuStreamUpdateCaptureDependencies,                                 \
	    12030, INIT,                                                       \
	    (CUstream stream, CUgraphNode *dependencies, const CUgraphEdgeData \
	    *edges, size_t n_dependencies, unsigned int flags))                \
	P(cuThreadExchangeStreamCaptureMode,                                   \
	    cuThreadExchangeStreamCaptureMode,                                 \
	    10010, INIT,                                                       \
	    (CUstreamCaptureMode *mode))                                       \
	S(cuStreamBeginCapture_v2, cuStreamBeginCapture, 10010, INIT_R,        \
	    (CUstream stream, CUstreamCaptureMode mode))                       \
	S(cuStreamEndCapture, cuStreamEndCapture, 10000, INIT,                 \
	    (CUstream stream, CUgraph *graph))                                 \
	P(cuGraphCreate, cuGraphCreate, 10000, INIT_R,                         \
	    (CUgraph *graph, unsigned int flags))                              \
	P(cuGraphAddEmptyNode, cuGraphAddEmptyNode, 10000, INIT_R,             \
	    (CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies,\
	    size_t n_dependencies))                                            \
	P(cuGraphAddMemcpyNode, cuGraphAddMemcpyNode, 10000, INIT_R,           \
	    (CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies,\
	    size_t n_dependencies, const CUDA_MEMCPY3D *params, CUcontext      \
	    context))                                                          \
	P(cuGraphAddMemsetNode, cuGraphAddMemsetNode, 10000, INIT_R,           \
	    (CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies,\
	    size_t n_dependencies, const CUDA_MEMSET_NODE_PARAMS *params,      \
	    CUcontext context))                                                \
	P(cuGraphAddKernelNode_v2, cuGraphAddKernelNode, 12000, INIT_R,        \
	    (CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies,\
	    size_t n_dependencies, const CUDA_KERNEL_NODE_PARAMS *params))     \
	P(cuGraphAddHostNode, cuGraphAddHostNode, 10000, INIT_R,               \
	    (CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies,\
	    size_t n_dependencies, const CUDA_HOST_NODE_PARAMS *params))       \
	P(cuGraphMemcpyNodeGetParams, cuGraphMemcpyNodeGetParams, 10000, INIT, \
	    (CUgraphNode node, CUDA_MEMCPY3D *params))                         \
	P(cuGraphMemcpyNodeSetParams, cuGraphMemcpyNodeSetParams, 10000, INIT, \
	    (CUgraphNode node, const CUDA_MEMCPY3D *params))                   \
	P(cuGraphMemsetNodeGetParams, cuGraphMemsetNodeGetParams, 10000, INIT, \
	    (CUgraphNode node, CUDA_MEMSET_NODE_PARAMS *params))               \
	P(cuGraphMemsetNodeSetParams, cuGraphMemsetNodeSetParams, 10000, INIT, \
	    (CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS *params))         \
	P(cuGraphExecMemcpyNodeSetParams, cuGraphExecMemcpyNodeSetParams,      \
	    10020, INIT,                                                       \
	    (CUgraphExec exec, CUgraphNode node, const CUDA_MEMCPY3D *params,  \
	    CUcontext context))                                                \
	P(cuGraphExecMemsetNodeSetParams, cuGraphExecMemsetNodeSetParams,      \
	    10020, INIT,                                                       \
	    (CUgraphExec exec, CUgraphNode node, const                         \
	    CUDA_MEMSET_NODE_PARAMS *params, CUcontext context))               \
	P(cuGraphExecKernelNodeSetParams_v2, cuGraphExecKernelNodeSetParams,   \
	    12000, INIT,                                                       \
	    (CUgraphExec exec, CUgraphNode node, const                         \
	    CUDA_KERNEL_NODE_PARAMS *params))                                  \
	P(cuGraphExecHostNodeSetParams, cuGraphExecHostNodeSetParams, 10020,   \
	    INIT,                                                              \
	    (CUgraphExec exec, CUgraphNode node, const CUDA_HOST_NODE_PARAMS   \
	    *params))                                                          \
	P(cuGraphExecUpdate_v2, cuGraphExecUpdate, 12000, INIT,                \
	    (CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo      \
	    *info))                                                            \
	P(cuGraphInstantiate_v2, cuGraphInstantiate, 11000, INIT_R,            \
	    (CUgraphExec *exec, CUgraph graph, CUgraphNode *error_node, char   \
	    *log, size_t log_size))                                            \
	P(cuGraphInstantiateWithFlags, cuGraphInstantiateWithFlags,            \
	    11040, INIT_R,                                                     \
	    (CUgraphExec *exec, CUgraph graph, unsigned long long flags))      \
	S(cuGraphUpload, cuGraphUpload, 11010, INIT_R,                         \
	    (CUgraphExec exec, CUstream stream))                               \
	S(cuGraphLaunch, cuGraphLaunch, 10000, INIT_R,                         \
	    (CUgraphExec exec, CUstream stream))                               \
	P(cuGraphDestroy, cuGraphDestroy, 10000, INIT, (CUgraph graph))        \
	P(cuGraphExecDestroy, cuGraphExecDestroy, 10000, INIT,                 \
	    (CUgraphExec exec))                                                \
	P(cuGraphGetNodes, cuGraphGetNodes, 10000, INIT,                       \
	    (CUgraph graph, CUgraphNode *nodes, size_t *n_nodes))              \
	P(cuGraphNodeGetType, cuGraphNodeGetType, 10000, INIT,                 \
	    (CUgraphNode node, CUgraphNodeType *type))                         \
	P(cuGraphGetEdges, cuGraphGetEdges, 10000, INIT,                       \
	    (CUgraph graph, CUgraphNode *from, CUgraphNode *to, size_t         \
	    *n_edges))                                                         \
	P(cuGraphGetEdges_v2, cuGraphGetEdges, 12030, INIT,                    \
	    (CUgraph graph, CUgraphNode *from, CUgraphNode *to,                \
	    CUgraphEdgeData *edges, size_t *n_edges))                          \
	P(cuGraphDebugDotPrint, cuGraphDebugDotPrint, 11030, INIT,             \
	    (CUgraph graph, const char *path, unsigned int flags))             \
	P(cuEventCreate, cuEventCreate, 2000, CONTEXT_R,                       \
	    (CUevent *event, unsigned int flags))                              \
	P(cuEventDestroy_v2, cuEventDestroy, 4000, INIT, (CUevent event))      \
	S(cuEventRecord, cuEventRecord, 2000, INIT_R,                          \
	    (CUevent event, CUstream stream))                                  \
	S(cuEventRecordWithFlags, cuEventRecordWithFlags, 11010, INIT_R,       \
	    (CUevent event, CUstream stream, unsigned int flags))              \
	P(cuEventQuery, cuEventQuery, 2000, INIT, (CUevent event))             \
	P(cuEventSynchronize, cuEventSynchronize, 2000, INIT, (CUevent event)) \
	P(cuEventElapsedTime, cuEventElapsedTime, 2000, INIT,                  \
	    (float *milliseconds, CUevent start, CUevent end))                 \
	P(cuEventElapsedTime_v2, cuEventElapsedTime, 12080, INIT,              \
	    (float *milliseconds, CUevent start, CUevent end))                 \
	P(cuMemAlloc_v2, cuMemAlloc, 3020, CONTEXT_UR,                         \
	    (CUdeviceptr *address, size_t size))                               \
	P(cuMemAllocPitch_v2, cuMemAllocPitch, 3020, CONTEXT_UR,               \
	    (CUdeviceptr *address, size_t *pitch, size_t width, size_t height, \
	    unsigned int element))                                             \
	P(cuMemAllocManaged, cuMemAllocManaged, 6000, CONTEXT_UR,              \
	    (CUdeviceptr *address, size_t size, unsigned int flags))           \
	S(cuMemPrefetchAsync, cuMemPrefetchAsync, 8000, CONTEXT,               \
	    (CUdeviceptr address, size_t size, CUdevice device, CUstream       \
	    stream))                                                           \
	S(cuMemPrefetchAsync_v2, cuMemPrefetchAsync, 12020, CONTEXT,           \
	    (CUdeviceptr address, size_t size, CUmemLocation location,         \
	    unsigned int flags, CUstream stream))                              \
	P(cuMemAdvise, cuMemAdvise, 8000, CONTEXT,                             \
	    (CUdeviceptr address, size_t size, CUmem_advise advice, CUdevice   \
	    device))                                                           \
	P(cuMemAdvise_v2, cuMemAdvise, 12020, CONTEXT,                         \
	    (CUdeviceptr address, size_t size, CUmem_advise advice,            \
	    CUmemLocation location))                                           \
	P(cuMemFree_v2, cuMemFree, 3020, INIT_U, (CUdeviceptr address))        \
	P(cuMemGetInfo_v2, cuMemGetInfo, 3020, CONTEXT,                        \
	    (size_t *free_bytes, size_t *total_bytes))                         \
	P(cuMemGetAddressRange_v2, cuMemGetAddressRange, 3020, CONTEXT,        \
	    (CUdeviceptr *base, size_t *size, CUdeviceptr address))            \
	P(cuPointerGetAttribute, cuPointerGetAttribute, 4000, INIT,            \
	    (void *data, CUpointer_attribute attribute, CUdeviceptr address))  \
	P(cuPointerGetAttributes, cuPointerGetAttributes, 7000, INIT,          \
	    (unsigned int n, CUpointer_attribute *attributes, void **data,     \
	    CUdeviceptr address))                                              \
	P(cuPointerSetAttribute, cuPointerSetAttribute, 6000, CONTEXT,         \
	    (const void *value, CUpointer_attribute attribute, CUdeviceptr     \
	    address))                                                          \
	P(cuMemAddressReserve, cuMemAddressReserve, 10020, INIT_R,             \
	    (CUdeviceptr *address, size_t size, size_t alignment, CUdeviceptr  \
	    hint, unsigned long long flags))                                   \
	P(cuMemAddressFree, cuMemAddressFree, 10020, INIT,                     \
	    (CUdeviceptr address, size_t size))                                \
	P(cuMemCreate, cuMemCreate, 10020, INIT_R,                             \
	    (CUmemGenericAllocationHandle *handle, size_t size, const          \
	    CUmemAllocationProp *prop, unsigned long long flags))              \
	P(cuMemRelease, cuMemRelease, 10020, INIT,                             \
	    (CUmemGenericAllocationHandle handle))                             \
	P(cuMemMap, cuMemMap, 10020, INIT_R,                                   \
	    (CUdeviceptr address, size_t size, size_t offset,                  \
	    CUmemGenericAllocationHandle handle, unsigned long long flags))    \
	P(cuMemUnmap, cuMemUnmap, 10020, INIT,                                 \
	    (CUdeviceptr address, size_t size))                                \
	P(cuMemSetAccess, cuMemSetAccess, 10020, INIT_R,                       \
	    (CUdeviceptr address, size_t size, const CUmemAccessDesc *access,  \
	    size_t n_access))                                                  \
	P(cuMemGetAccess, cuMemGetAccess, 10020, INIT,                         \
	    (unsigned long long *flags, const CUmemLocation *location,         \
	    CUdeviceptr address))                                              \
	P(cuMemGetAllocationGranularity, cuMemGetAllocationGranularity,        \
	    10020, INIT,                                                       \
	    (size_t *granularity, const CUmemAllocationProp *prop,             \
	    CUmemAllocationGranularity_flags option))                          \
	P(cuMemExportToShareableHandle, cuMemExportToShareableHandle,          \
	    10020, INIT_R,                                                     \
	    (void *shareable, CUmemGenericAllocationHandle handle,             \
	    CUmemAllocationHandleType type, unsigned long long flags))         \
	P(cuMemImportFromShareableHandle, cuMemImportFromShareableHandle,      \
	    10020, INIT_R,                                                     \
	    (CUmemGenericAllocationHandle *handle, void *shareable,            \
	    CUmemAllocationHandleType type))                                   \
	P(cuMemRetainAllocationHandle, cuMemRetainAllocationHandle,            \
	    11000, INIT,                                                       \
	    (CUmemGenericAllocationHandle *handle, void *address))             \
	P(cuMemGetAllocationPropertiesFromHandle,                              \
	    cuMemGetAllocationPropertiesFromHandle,                            \
	    10020, INIT,                                                       \
	    (CUmemAllocationProp *prop, CUmemGenericAllocationHandle handle))  \
	S(cuMemAllocAsync, cuMemAllocAsync, 11020, CONTEXT_R,                  \
	    (CUdeviceptr *address, size_t size, CUstream stream))              \
	S(cuMemAllocFromPoolAsync, cuMemAllocFromPoolAsync, 11020, CONTEXT_R,  \
	    (CUdeviceptr *address, size_t size, CUmemoryPool pool, CUstream    \
	    stream))                                                           \
	S(cuMemFreeAsync, cuMemFreeAsync, 11020, INIT,                         \
	    (CUdeviceptr address, CUstream stream))                            \
	P(cuDeviceGetDefaultMemPool, cuDeviceGetDefaultMemPool, 11020, INIT,   \
	    (CUmemoryPool *pool, CUdevice device))                             \
	P(cuDeviceGetMemPool, cuDeviceGetMemPool, 11020, INIT,                 \
	    (CUmemoryPool *pool, CUdevice device))                             \
	P(cuDeviceSetMemPool, cuDeviceSetMemPool, 11020, INIT,                 \
	    (CUdevice device, CUmemoryPool pool))                              \
	P(cuMemGetDefaultMemPool, cuMemGetDefaultMemPool, 13000, INIT,         \
	    (CUmemoryPool *pool, CUmemLocation *location, CUmemAllocationType  \
	    type))                                                             \
	P(cuMemGetMemPool, cuMemGetMemPool, 13000, INIT,                       \
	    (CUmemoryPool *pool, CUmemLocation *location, CUmemAllocationType  \
	    type))                                                             \
	P(cuMemSetMemPool, cuMemSetMemPool, 13000, INIT,                       \
	    (CUmemLocation *location, CUmemAllocationType type, CUmemoryPool   \
	    pool))                                                             \
	P(cuMemPoolCreate, cuMemPoolCreate, 11020, INIT_R,                     \
	    (CUmemoryPool *pool, const CUmemPoolProps *props))                 \
	P(cuMemPoolDestroy, cuMemPoolDestroy, 11020, INIT,                     \
	    (CUmemoryPool pool))                                               \
	P(cuMemPoolSetAttribute, cuMemPoolSetAttribute, 11020, INIT,           \
	    (CUmemoryPool pool, CUmemPool_attribute attribute, void *value))   \
	P(cuMemPoolGetAttribute, cuMemPoolGetAttribute, 11020, INIT,           \
	    (CUmemoryPool pool, CUmemPool_attribute attribute, void *value))   \
	P(cuMemPoolTrimTo, cuMemPoolTrimTo, 11020, INIT,                       \
	    (CUmemoryPool pool, size_t keep))                                  \
	P(cuMemPoolSetAccess, cuMemPoolSetAccess, 11020, INIT,                 \
	    (CUmemoryPool pool, const CUmemAccessDesc *access, size_t          \
	    n_access))                                                         \
	P(cuMemPoolGetAccess, cuMemPoolGetAccess, 11020, INIT,                 \
	    (CUmemAccess_flags *flags, CUmemoryPool pool, CUmemLocation        \
	    *location))                                                        \
	P(cuMemPoolExportToShareableHandle, cuMemPoolExportToShareableHandle,  \
	    11020, INIT,                                                       \
	    (void *shareable, CUmemoryPool pool, CUmemAllocationHandleType     \
	    type, unsigned long long flags))                                   \
	P(cuMemPoolImportFromShareableHandle,                                  \
	    cuMemPoolImportFromShareableHandle,                                \
	    11020, INIT,                                                       \
	    (CUmemoryPool *pool, void *shareable, CUmemAllocationHandleType    \
	    type, unsigned long long flags))                                   \
	P(cuMemPoolExportPointer, cuMemPoolExportPointer, 11020, INIT,         \
	    (CUmemPoolPtrExportData *data, CUdeviceptr address))               \
	P(cuMemPoolImportPointer, cuMemPoolImportPointer, 11020, INIT,         \
	    (CUdeviceptr *address, CUmemoryPool pool, CUmemPoolPtrExportData   \
	    *data))                                                            \
	P(cuMemHostAlloc, cuMemHostAlloc, 2020, CONTEXT_UR,                    \
	    (void **address, size_t size, unsigned int flags))                 \
	P(cuMemAllocHost_v2, cuMemAllocHost, 3020, CONTEXT_UR,                 \
	    (void **address, size_t size))                                     \
	P(cuMemFreeHost, cuMemFreeHost, 2000, INIT_U, (void *address))         \
	P(cuMemHostRegister_v2, cuMemHostRegister, 6050, CONTEXT_UR,           \
	    (void *address, size_t size, unsigned int flags))                  \
	P(cuMemHostUnregister, cuMemHostUnregister, 4000, INIT_U,              \
	    (void *address))                                                   \
	P(cuMemHostGetDevicePointer_v2, cuMemHostGetDevicePointer, 3020, INIT, \
	    (CUdeviceptr *pointer, void *address, unsigned int flags))         \
	P(cuMemHostGetFlags, cuMemHostGetFlags, 2030, INIT,                    \
	    (unsigned int *flags, void *address))                              \
	D(cuMemcpy, cuMemcpy, 4000, CONTEXT_R,                                 \
	    (CUdeviceptr to, CUdeviceptr from, size_t size))                   \
	D(cuMemcpyHtoD_v2, cuMemcpyHtoD, 3020, CONTEXT_R,                      \
	    (CUdeviceptr to, const void *from, size_t size))                   \
	D(cuMemcpyDtoH_v2, cuMemcpyDtoH, 3020, CONTEXT_R,                      \
	    (void *to, CUdeviceptr from, size_t size))                         \
	D(cuMemcpyDtoD_v2, cuMemcpyDtoD, 3020, CONTEXT_R,                      \
	    (CUdeviceptr to, CUdeviceptr from, size_t size))                   \
	D(cuMemcpyPeer, cuMemcpyPeer, 4000, CONTEXT_R,                         \
	    (CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext \
	    from_context, size_t size))                                        \
	S(cuMemcpyAsync, cuMemcpyAsync, 4000, CONTEXT_R,                       \
	    (CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream))  \
	S(cuMemcpyHtoDAsync_v2, cuMemcpyHtoDAsync, 3020, CONTEXT_R,            \
	    (CUdeviceptr to, const void *from, size_t size, CUstream stream))  \
	S(cuMemcpyDtoHAsync_v2, cuMemcpyDtoHAsync, 3020, CONTEXT_R,            \
	    (void *to, CUdeviceptr from, size_t size, CUstream stream))        \
	S(cuMemcpyDtoDAsync_v2, cuMemcpyDtoDAsync, 3020, CONTEXT_R,            \
	    (CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream))  \
	D(cuMemcpy2D_v2, cuMemcpy2D, 3020, CONTEXT_R,                          \
	    (const CUDA_MEMCPY2D *params))                                     \
	D(cuMemcpy2DUnaligned_v2, cuMemcpy2DUnaligned, 3020, CONTEXT_R,        \
	    (const CUDA_MEMCPY2D *params))                                     \
	D(cuMemcpy3D_v2, cuMemcpy3D, 3020, CONTEXT_R,                          \
	    (const CUDA_MEMCPY3D *params))                                     \
	S(cuMemcpy2DAsync_v2, cuMemcpy2DAsync, 3020, CONTEXT_R,                \
	    (const CUDA_MEMCPY2D *params, CUstream stream))                    \
	S(cuMemcpy3DAsync_v2, cuMemcpy3DAsync, 3020, CONTEXT_R,                \
	    (const CUDA_MEMCPY3D *params, CUstream stream))                    \
	D(cuMemcpy3DPeer, cuMemcpy3DPeer, 4000, CONTEXT_R,                     \
	    (const CUDA_MEMCPY3D_PEER *params))                                \
	S(cuMemcpy3DPeerAsync, cuMemcpy3DPeerAsync, 4000, CONTEXT_R,           \
	    (const CUDA_MEMCPY3D_PEER *params, CUstream stream))               \
	D(cuMemsetD2D8_v2, cuMemsetD2D8, 3020, CONTEXT_R,                      \
	    (CUdeviceptr to, size_t pitch, unsigned char value, size_t width,  \
	    size_t height))                                                    \
	S(cuMemsetD2D8Async, cuMemsetD2D8Async, 3020, CONTEXT_R,               \
	    (CUdeviceptr to, size_t pitch, unsigned char value, size_t width,  \
	    size_t height, CUstream stream))                                   \
	D(cuMemsetD2D16_v2, cuMemsetD2D16, 3020, CONTEXT_R,                    \
	    (CUdeviceptr to, size_t pitch, unsigned short value, size_t width, \
	    size_t height))                                                    \
	S(cuMemsetD2D16Async, cuMemsetD2D16Async, 3020, CONTEXT_R,             \
	    (CUdeviceptr to, size_t pitch, unsigned short value, size_t width, \
	    size_t height, CUstream stream))                                   \
	D(cuMemsetD2D32_v2, cuMemsetD2D32, 3020, CONTEXT_R,                    \
	    (CUdeviceptr to, size_t pitch, unsigned int value, size_t width,   \
	    size_t height))                                                    \
	S(cuMemsetD2D32Async, cuMemsetD2D32Async, 3020, CONTEXT_R,             \
	    (CUdeviceptr to, size_t pitch, unsigned int value, size_t width,   \
	    size_t height, CUstream stream))                                   \
	S(cuMemcpyPeerAsync, cuMemcpyPeerAsync, 4000, CONTEXT_R,               \
	    (CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext \
	    from_context, size_t size, CUstream stream))                       \
	D(cuMemsetD8_v2, cuMemsetD8, 3020, CONTEXT_R,                          \
	    (CUdeviceptr to, unsigned char value, size_t n))                   \
	D(cuMemsetD16_v2, cuMemsetD16, 3020, CONTEXT_R,                        \
	    (CUdeviceptr to, unsigned short value, size_t n))                  \
	D(cuMemsetD32_v2, cuMemsetD32, 3020, CONTEXT_R,                        \
	    (CUdeviceptr to, unsigned int value, size_t n))                    \
	S(cuMemsetD8Async, cuMemsetD8Async, 3020, CONTEXT_R,                   \
	    (CUdeviceptr to, unsigned char value, size_t n, CUstream stream))  \
	S(cuMemsetD16Async, cuMemsetD16Async, 3020, CONTEXT_R,                 \
	    (CUdeviceptr to, unsigned short value, size_t n, CUstream stream)) \
	S(cuMemsetD32Async, cuMemsetD32Async, 3020, CONTEXT_R,                 \
	    (CUdeviceptr to, unsigned int value, size_t n, CUstream stream))   \
	P(cuModuleLoadData, cuModuleLoadData, 2000, CONTEXT_UR,                \
	    (CUmodule *module, const void *image))                             \
	P(cuModuleLoadDataEx, cuModuleLoadDataEx, 2010, CONTEXT_UR,            \
	    (CUmodule *module, const void *image, unsigned int n_options,      \
	    CUjit_option *options, void **values))                             \
	P(cuModuleGetLoadingMode, cuModuleGetLoadingMode, 11070, INIT,         \
	    (CUmoduleLoadingMode *mode))                                       \
	P(cuModuleUnload, cuModuleUnload, 2000, CONTEXT, (CUmodule module))    \
	P(cuModuleGetFunction, cuModuleGetFunction, 2000, CONTEXT,             \
	    (CUfunction *function, CUmodule module, const char *name))         \
	P(cuFuncGetParamInfo, cuFuncGetParamInfo, 12040, INIT,                 \
	    (CUfunction function, size_t index, size_t *offset, size_t *size)) \
	S(cuLaunchKernel, cuLaunchKernel, 4000, CONTEXT_R,                     \
	    (CUfunction function, unsigned int grid_x, unsigned int grid_y,    \
	    unsigned int grid_z, unsigned int block_x, unsigned int block_y,   \
	    unsigned int block_z, unsigned int shared_bytes, CUstream stream,  \
	    void **parameters, void **extra))                                  \
	P(cuIpcGetMemHandle, cuIpcGetMemHandle, 4010, CONTEXT_R,               \
	    (CUipcMemHandle *handle, CUdeviceptr address))                     \
	P(cuIpcOpenMemHandle, cuIpcOpenMemHandle, 4010, CONTEXT_R,             \
	    (CUdeviceptr *address, CUipcMemHandle handle, unsigned int flags)) \
	P(cuIpcOpenMemHandle_v2, cuIpcOpenMemHandle, 11000, CONTEXT_R,         \
	    (CUdeviceptr *address, CUipcMemHandle handle, unsigned int flags)) \
	P(cuIpcCloseMemHandle, cuIpcCloseMemHandle, 4010, INIT,                \
	    (CUdeviceptr address))                                             \
	P(cuIpcGetEventHandle, cuIpcGetEventHandle, 4010, INIT_R,              \
	    (CUipcEventHandle *handle, CUevent event))                         \
	P(cuIpcOpenEventHandle, cuIpcOpenEventHandle, 4010, CONTEXT_R,         \
	    (CUevent *event, CUipcEventHandle handle))
/* clang-format on */

/* Numbers of the entries: E_cuMemAlloc_v2. */
enum sim_entry {
#define SIM_NUMBER(symbol, base, version, flags, params) E_##symbol,
	SIM_ENTRIES(SIM_NUMBER, SIM_NUMBER, SIM_NUMBER)
#undef SIM_NUMBER
	    SIM_N_ENTRIES
};

#endif
