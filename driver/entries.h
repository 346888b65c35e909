/*
 * The calls of the driver that weir knows: one list of rows. CONTRIBUTING.md
 * has the recipe for a new one.
 *
 * X(U, kind, symbol, base, version, simulated, hook, called, parameters)
 *
 * U          what the user of the list passes on
 * kind       P: a plain call. S: a call with a stream; symbol_ptsz is for
 *            programs whose stream 0 is the per-thread default stream.
 *            D: a call on the default stream; symbol_ptds likewise
 * symbol     the exported name
 * base       the name for cuGetProcAddress() and for injecting faults
 * version    the lowest with this signature: 1000*major + 10*minor. The forms
 *            for a thread's stream came with 7000
 * simulated  simcuda's flags of the call, ENTRY_* of simcuda/entries.h; or NO
 * hook       the preload replaces it to SERVE it; to WATCH how long the host
 *            waits, for the budget of delay, a report and the history; to CHECK
 *            streams, where lookups return it with --check-streams or
 *            --may-sleep only; to HOLD it while a device sleeps, where lookups
 *            return it with --may-sleep only; or NO
 * called     weir itself calls it: it MUST be there, or weir cannot run; it MAY
 *            be, and the pointer may be NULL; or NO
 *
 * Every call returns CUresult. Where a call is only hooked, handles that
 * driver/abi.h has no type for are void *, and enumerations int; the calling
 * convention is the same. This names types and declares none, so that it can be
 * read with the types of driver/abi.h, and again with those of the toolkit.
 */
#ifndef DRIVER_ENTRIES_H
#define DRIVER_ENTRIES_H

/* clang-format off */
#define DRIVER_CALLS(X, U)                                                     \
	X(U, P, cuInit, cuInit, 2000, NONE, NO, MUST, (unsigned flags))        \
	X(U, P, cuDriverGetVersion, cuDriverGetVersion, 2020, NONE, NO, MUST,  \
	    (int *version))                                                    \
	X(U, P, cuGetErrorName, cuGetErrorName, 6000, NONE, NO, NO,            \
	    (CUresult error, const char **name))                               \
	X(U, P, cuGetErrorString, cuGetErrorString, 6000, NONE, NO, MUST,      \
	    (CUresult error, const char **text))                               \
	X(U, P, cuGetProcAddress, cuGetProcAddress, 11030, NONE, SERVE, NO,    \
	    (const char *symbol, void **function, int version, cuuint64_t      \
	    flags))                                                            \
	X(U, P, cuGetProcAddress_v2, cuGetProcAddress, 12000, NONE, SERVE, NO, \
	    (const char *symbol, void **function, int version, cuuint64_t      \
	    flags, CUdriverProcAddressQueryResult *status))                    \
	X(U, P, cuGetExportTable, cuGetExportTable, 3000, NONE, NO, NO,        \
	    (const void **table, const CUuuid *id))                            \
	X(U, P, cuDeviceGet, cuDeviceGet, 2000, INIT, NO, MUST,                \
	    (CUdevice *device, int ordinal))                                   \
	X(U, P, cuDeviceGetCount, cuDeviceGetCount, 2000, INIT, NO, MUST,      \
	    (int *count))                                                      \
	X(U, P, cuDeviceGetName, cuDeviceGetName, 2000, INIT, NO, MUST,        \
	    (char *name, int size, CUdevice device))                           \
	X(U, P, cuDeviceTotalMem_v2, cuDeviceTotalMem, 3020, INIT, NO, MUST,   \
	    (size_t *bytes, CUdevice device))                                  \
	X(U, P, cuDeviceGetAttribute, cuDeviceGetAttribute, 2000, INIT, NO,    \
	    MUST,                                                              \
	    (int *value, CUdevice_attribute attribute, CUdevice device))       \
	X(U, P, cuDeviceGetUuid, cuDeviceGetUuid, 9020, INIT, NO, NO,          \
	    (CUuuid *uuid, CUdevice device))                                   \
	X(U, P, cuDeviceGetUuid_v2, cuDeviceGetUuid, 11040, INIT, NO, MUST,    \
	    (CUuuid *uuid, CUdevice device))                                   \
	X(U, P, cuDeviceCanAccessPeer, cuDeviceCanAccessPeer, 4000, INIT, NO,  \
	    MUST,                                                              \
	    (int *can_access, CUdevice device, CUdevice peer))                 \
	X(U, P, cuDeviceGetPCIBusId, cuDeviceGetPCIBusId, 4010, INIT, NO,      \
	    MUST,                                                              \
	    (char *bus_id, int size, CUdevice device))                         \
	X(U, P, cuDeviceGetByPCIBusId, cuDeviceGetByPCIBusId, 4010, INIT, NO,  \
	    NO,                                                                \
	    (CUdevice *device, const char *bus_id))                            \
	X(U, P, cuDeviceComputeCapability, cuDeviceComputeCapability, 2000,    \
	    INIT, NO, NO,                                                      \
	    (int *major, int *minor, CUdevice device))                         \
	X(U, P, cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain, 7000,      \
	    INIT_R, SERVE, MUST,                                               \
	    (CUcontext *context, CUdevice device))                             \
	X(U, P, cuDevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease, 7000,    \
	    INIT, SERVE, NO,                                                   \
	    (CUdevice device))                                                 \
	X(U, P, cuDevicePrimaryCtxRelease_v2, cuDevicePrimaryCtxRelease,       \
	    11000, INIT, SERVE, NO,                                            \
	    (CUdevice device))                                                 \
	X(U, P, cuDevicePrimaryCtxGetState, cuDevicePrimaryCtxGetState, 7000,  \
	    INIT, NO, NO,                                                      \
	    (CUdevice device, unsigned *flags, int *active))                   \
	X(U, P, cuDevicePrimaryCtxReset, cuDevicePrimaryCtxReset, 7000, INIT,  \
	    SERVE, NO,                                                         \
	    (CUdevice device))                                                 \
	X(U, P, cuDevicePrimaryCtxReset_v2, cuDevicePrimaryCtxReset, 11000,    \
	    INIT, SERVE, NO,                                                   \
	    (CUdevice device))                                                 \
	X(U, P, cuDevicePrimaryCtxSetFlags, cuDevicePrimaryCtxSetFlags, 7000,  \
	    INIT, NO, NO,                                                      \
	    (CUdevice device, unsigned flags))                                 \
	X(U, P, cuDevicePrimaryCtxSetFlags_v2, cuDevicePrimaryCtxSetFlags,     \
	    11000, INIT, NO, NO,                                               \
	    (CUdevice device, unsigned flags))                                 \
	X(U, P, cuCtxCreate_v2, cuCtxCreate, 3020, INIT_R, NO, NO,             \
	    (CUcontext *context, unsigned flags, CUdevice device))             \
	X(U, P, cuCtxCreate_v4, cuCtxCreate, 12050, INIT_R, NO, NO,            \
	    (CUcontext *context, CUctxCreateParams *params, unsigned flags,    \
	    CUdevice device))                                                  \
	X(U, P, cuCtxDestroy, cuCtxDestroy, 2000, NO, SERVE, NO,               \
	    (CUcontext context))                                               \
	X(U, P, cuCtxDestroy_v2, cuCtxDestroy, 4000, INIT, SERVE, NO,          \
	    (CUcontext context))                                               \
	X(U, P, cuGreenCtxDestroy, cuGreenCtxDestroy, 12040, NO, SERVE, NO,    \
	    (void *context))                                                   \
	X(U, P, cuCtxGetCurrent, cuCtxGetCurrent, 4000, INIT, NO, MUST,        \
	    (CUcontext *context))                                              \
	X(U, P, cuCtxSetCurrent, cuCtxSetCurrent, 4000, INIT, NO, MUST,        \
	    (CUcontext context))                                               \
	X(U, P, cuCtxPushCurrent_v2, cuCtxPushCurrent, 4000, INIT, NO, MUST,   \
	    (CUcontext context))                                               \
	X(U, P, cuCtxPopCurrent_v2, cuCtxPopCurrent, 4000, INIT, NO, MUST,     \
	    (CUcontext *context))                                              \
	X(U, P, cuCtxGetDevice, cuCtxGetDevice, 2000, CONTEXT, NO, MUST,       \
	    (CUdevice *device))                                                \
	X(U, P, cuCtxGetDevice_v2, cuCtxGetDevice, 13000, INIT, NO, NO,        \
	    (CUdevice *device, CUcontext context))                             \
	X(U, P, cuCtxGetFlags, cuCtxGetFlags, 7000, CONTEXT, NO, NO,           \
	    (unsigned *flags))                                                 \
	X(U, P, cuCtxGetLimit, cuCtxGetLimit, 3010, CONTEXT, NO, NO,           \
	    (size_t *value, CUlimit limit))                                    \
	X(U, P, cuCtxSetLimit, cuCtxSetLimit, 3010, CONTEXT, NO, NO,           \
	    (CUlimit limit, size_t value))                                     \
	X(U, P, cuCtxGetApiVersion, cuCtxGetApiVersion, 3020, INIT, NO, NO,    \
	    (CUcontext context, unsigned *version))                            \
	X(U, P, cuCtxGetId, cuCtxGetId, 12000, INIT, NO, MAY,                  \
	    (CUcontext context, unsigned long long *id))                       \
	X(U, P, cuCtxSynchronize, cuCtxSynchronize, 2000, CONTEXT_U, SERVE,    \
	    MUST,                                                              \
	    (void))                                                            \
	X(U, P, cuCtxSynchronize_v2, cuCtxSynchronize, 13000, INIT_U, SERVE,   \
	    NO,                                                                \
	    (CUcontext context))                                               \
	X(U, P, cuCtxGetStreamPriorityRange, cuCtxGetStreamPriorityRange,      \
	    5050, CONTEXT, NO, NO,                                             \
	    (int *least, int *greatest))                                       \
	X(U, P, cuCtxRecordEvent, cuCtxRecordEvent, 12050, INIT_R, NO, MAY,    \
	    (CUcontext context, CUevent event))                                \
	X(U, P, cuCtxEnablePeerAccess, cuCtxEnablePeerAccess, 4000, CONTEXT_R, \
	    SERVE, NO,                                                         \
	    (CUcontext peer, unsigned flags))                                  \
	X(U, P, cuCtxDisablePeerAccess, cuCtxDisablePeerAccess, 4000, CONTEXT, \
	    SERVE, NO,                                                         \
	    (CUcontext peer))                                                  \
	X(U, P, cuStreamCreate, cuStreamCreate, 2000, CONTEXT_R, SERVE, NO,    \
	    (CUstream *stream, unsigned flags))                                \
	X(U, P, cuStreamCreateWithPriority, cuStreamCreateWithPriority, 5050,  \
	    CONTEXT_R, SERVE, MUST,                                            \
	    (CUstream *stream, unsigned flags, int priority))                  \
	X(U, P, cuGreenCtxStreamCreate, cuGreenCtxStreamCreate, 12050, NO,     \
	    SERVE, NO,                                                         \
	    (CUstream *stream, void *context, unsigned flags, int priority))   \
	X(U, P, cuStreamDestroy, cuStreamDestroy, 2000, NO, SERVE, NO,         \
	    (CUstream stream))                                                 \
	X(U, P, cuStreamDestroy_v2, cuStreamDestroy, 4000, INIT, SERVE, MUST,  \
	    (CUstream stream))                                                 \
	X(U, S, cuStreamQuery, cuStreamQuery, 2000, INIT, WATCH, MUST,         \
	    (CUstream stream))                                                 \
	X(U, S, cuStreamSynchronize, cuStreamSynchronize, 2000, INIT, WATCH,   \
	    MUST,                                                              \
	    (CUstream stream))                                                 \
	X(U, S, cuStreamWaitEvent, cuStreamWaitEvent, 3020, INIT_R, SERVE,     \
	    MUST,                                                              \
	    (CUstream stream, CUevent event, unsigned flags))                  \
	X(U, S, cuStreamGetCtx, cuStreamGetCtx, 9020, INIT, NO, MUST,          \
	    (CUstream stream, CUcontext *context))                             \
	X(U, S, cuStreamGetId, cuStreamGetId, 12000, INIT, NO, NO,             \
	    (CUstream stream, unsigned long long *id))                         \
	X(U, S, cuStreamGetPriority, cuStreamGetPriority, 5050, INIT, NO,      \
	    MUST,                                                              \
	    (CUstream stream, int *priority))                                  \
	X(U, S, cuStreamGetFlags, cuStreamGetFlags, 5050, INIT, NO, MUST,      \
	    (CUstream stream, unsigned *flags))                                \
	X(U, S, cuStreamGetDevice, cuStreamGetDevice, 12080, INIT, NO, NO,     \
	    (CUstream stream, CUdevice *device))                               \
	X(U, S, cuStreamAddCallback, cuStreamAddCallback, 5000, INIT_R, WATCH, \
	    NO,                                                                \
	    (CUstream stream, CUstreamCallback callback, void *data, unsigned  \
	    flags))                                                            \
	X(U, S, cuLaunchHostFunc, cuLaunchHostFunc, 10000, INIT_R, WATCH, NO,  \
	    (CUstream stream, CUhostFn function, void *data))                  \
	X(U, S, cuStreamWaitValue32, cuStreamWaitValue32, 8000, INIT_R, HOLD,  \
	    NO,                                                                \
	    (CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned  \
	    flags))                                                            \
	X(U, S, cuStreamWaitValue32_v2, cuStreamWaitValue32, 11070, INIT_R,    \
	    HOLD, NO,                                                          \
	    (CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned  \
	    flags))                                                            \
	X(U, S, cuStreamWriteValue32, cuStreamWriteValue32, 8000, INIT_R,      \
	    HOLD, NO,                                                          \
	    (CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned  \
	    flags))                                                            \
	X(U, S, cuStreamWriteValue32_v2, cuStreamWriteValue32, 11070, INIT_R,  \
	    HOLD, NO,                                                          \
	    (CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned  \
	    flags))                                                            \
	X(U, S, cuStreamWaitValue64_v2, cuStreamWaitValue64, 11070, INIT_R,    \
	    HOLD, NO,                                                          \
	    (CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned  \
	    flags))                                                            \
	X(U, S, cuStreamWriteValue64_v2, cuStreamWriteValue64, 11070, INIT_R,  \
	    HOLD, NO,                                                          \
	    (CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned  \
	    flags))                                                            \
	X(U, S, cuStreamWaitValue64, cuStreamWaitValue64, 9000, NO, HOLD, NO,  \
	    (CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned  \
	    flags))                                                            \
	X(U, S, cuStreamWriteValue64, cuStreamWriteValue64, 9000, NO, HOLD,    \
	    NO,                                                                \
	    (CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned  \
	    flags))                                                            \
	X(U, S, cuStreamBatchMemOp, cuStreamBatchMemOp, 8000, NO, HOLD, NO,    \
	    (CUstream stream, unsigned n, void *operations, unsigned flags))   \
	X(U, S, cuStreamBatchMemOp_v2, cuStreamBatchMemOp, 11070, NO, HOLD,    \
	    NO,                                                                \
	    (CUstream stream, unsigned n, void *operations, unsigned flags))   \
	X(U, S, cuStreamIsCapturing, cuStreamIsCapturing, 10000, INIT, NO,     \
	    MUST,                                                              \
	    (CUstream stream, CUstreamCaptureStatus *status))                  \
	X(U, S, cuStreamGetCaptureInfo, cuStreamGetCaptureInfo, 10010, INIT,   \
	    NO, NO,                                                            \
	    (CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id))  \
	X(U, S, cuStreamGetCaptureInfo_v2, cuStreamGetCaptureInfo, 11030,      \
	    INIT, NO, MUST,                                                    \
	    (CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id,   \
	    CUgraph *graph, const CUgraphNode **dependencies, size_t           \
	    *n_dependencies))                                                  \
	X(U, S, cuStreamGetCaptureInfo_v3, cuStreamGetCaptureInfo, 12030,      \
	    INIT, NO, NO,                                                      \
	    (CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id,   \
	    CUgraph *graph, const CUgraphNode **dependencies, const            \
	    CUgraphEdgeData **edges, size_t *n_dependencies))                  \
	X(U, S, cuStreamUpdateCaptureDependencies,                             \
	    cuStreamUpdateCaptureDependencies, 11030, INIT, NO, NO,            \
	    (CUstream stream, CUgraphNode *dependencies, size_t                \
	    n_dependencies, unsigned flags))                                   \
	X(U, S, cuStreamUpdateCaptureDependencies_v2,                          \
	    cuStreamUpdateCaptureDependencies, 12030, INIT, NO, NO,            \
	    (CUstream stream, CUgraphNode *dependencies, const CUgraphEdgeData \
	    *edges, size_t n_dependencies, unsigned flags))                    \
	X(U, P, cuThreadExchangeStreamCaptureMode,                             \
	    cuThreadExchangeStreamCaptureMode, 10010, INIT, NO, MUST,          \
	    (CUstreamCaptureMode *mode))                                       \
	X(U, S, cuStreamBeginCapture, cuStreamBeginCapture, 10000, NO, SERVE,  \
	    NO,                                                                \
	    (CUstream stream))                                                 \
	X(U, S, cuStreamBeginCapture_v2, cuStreamBeginCapture, 10010, INIT_R,  \
	    SERVE, MUST,                                                       \
	    (CUstream stream, CUstreamCaptureMode mode))                       \
	X(U, S, cuStreamBeginCaptureToGraph, cuStreamBeginCaptureToGraph,      \
	    12030, NO, SERVE, NO,                                              \
	    (CUstream stream, void *graph, const void *dependencies, const     \
	    void *edges, size_t count, int mode))                              \
	X(U, S, cuStreamEndCapture, cuStreamEndCapture, 10000, INIT, SERVE,    \
	    MUST,                                                              \
	    (CUstream stream, CUgraph *graph))                                 \
	X(U, P, cuGraphCreate, cuGraphCreate, 10000, INIT_R, NO, NO,           \
	    (CUgraph *graph, unsigned flags))                                  \
	X(U, P, cuGraphAddEmptyNode, cuGraphAddEmptyNode, 10000, INIT_R, NO,   \
	    NO,                                                                \
	    (CUgraphNode *node, CUgraph graph, const CUgraphNode               \
	    *dependencies, size_t n_dependencies))                             \
	X(U, P, cuGraphAddMemcpyNode, cuGraphAddMemcpyNode, 10000, INIT_R, NO, \
	    NO,                                                                \
	    (CUgraphNode *node, CUgraph graph, const CUgraphNode               \
	    *dependencies, size_t n_dependencies, const CUDA_MEMCPY3D *params, \
	    CUcontext context))                                                \
	X(U, P, cuGraphAddMemsetNode, cuGraphAddMemsetNode, 10000, INIT_R, NO, \
	    NO,                                                                \
	    (CUgraphNode *node, CUgraph graph, const CUgraphNode               \
	    *dependencies, size_t n_dependencies, const                        \
	    CUDA_MEMSET_NODE_PARAMS *params, CUcontext context))               \
	X(U, P, cuGraphAddKernelNode_v2, cuGraphAddKernelNode, 12000, INIT_R,  \
	    NO, NO,                                                            \
	    (CUgraphNode *node, CUgraph graph, const CUgraphNode               \
	    *dependencies, size_t n_dependencies, const                        \
	    CUDA_KERNEL_NODE_PARAMS *params))                                  \
	X(U, P, cuGraphAddHostNode, cuGraphAddHostNode, 10000, INIT_R, NO, NO, \
	    (CUgraphNode *node, CUgraph graph, const CUgraphNode               \
	    *dependencies, size_t n_dependencies, const CUDA_HOST_NODE_PARAMS  \
	    *params))                                                          \
	X(U, P, cuGraphAddMemAllocNode, cuGraphAddMemAllocNode, 11040, NO,     \
	    SERVE, NO,                                                         \
	    (CUgraphNode *node, CUgraph graph, const CUgraphNode               \
	    *dependencies, size_t n_dependencies, void *params))               \
	X(U, P, cuGraphAddNode, cuGraphAddNode, 12020, NO, SERVE, NO,          \
	    (CUgraphNode *node, CUgraph graph, const CUgraphNode               \
	    *dependencies, size_t n_dependencies, void *params))               \
	X(U, P, cuGraphAddNode_v2, cuGraphAddNode, 12030, NO, SERVE, NO,       \
	    (CUgraphNode *node, CUgraph graph, const CUgraphNode               \
	    *dependencies, const void *edges, size_t n_dependencies, void      \
	    *params))                                                          \
	X(U, P, cuDeviceGetGraphMemAttribute, cuDeviceGetGraphMemAttribute,    \
	    11040, INIT, NO, NO,                                               \
	    (CUdevice device, CUgraphMem_attribute attribute, void *value))    \
	X(U, P, cuDeviceGraphMemTrim, cuDeviceGraphMemTrim, 11040, INIT,       \
	    SERVE, NO,                                                         \
	    (CUdevice device))                                                 \
	X(U, P, cuGraphMemcpyNodeGetParams, cuGraphMemcpyNodeGetParams, 10000, \
	    INIT, NO, NO,                                                      \
	    (CUgraphNode node, CUDA_MEMCPY3D *params))                         \
	X(U, P, cuGraphMemcpyNodeSetParams, cuGraphMemcpyNodeSetParams, 10000, \
	    INIT, NO, NO,                                                      \
	    (CUgraphNode node, const CUDA_MEMCPY3D *params))                   \
	X(U, P, cuGraphMemsetNodeGetParams, cuGraphMemsetNodeGetParams, 10000, \
	    INIT, NO, NO,                                                      \
	    (CUgraphNode node, CUDA_MEMSET_NODE_PARAMS *params))               \
	X(U, P, cuGraphMemsetNodeSetParams, cuGraphMemsetNodeSetParams, 10000, \
	    INIT, NO, NO,                                                      \
	    (CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS *params))         \
	X(U, P, cuGraphExecMemcpyNodeSetParams,                                \
	    cuGraphExecMemcpyNodeSetParams, 10020, INIT, NO, NO,               \
	    (CUgraphExec exec, CUgraphNode node, const CUDA_MEMCPY3D *params,  \
	    CUcontext context))                                                \
	X(U, P, cuGraphExecMemsetNodeSetParams,                                \
	    cuGraphExecMemsetNodeSetParams, 10020, INIT, NO, NO,               \
	    (CUgraphExec exec, CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS \
	    *params, CUcontext context))                                       \
	X(U, P, cuGraphExecKernelNodeSetParams_v2,                             \
	    cuGraphExecKernelNodeSetParams, 12000, INIT, NO, NO,               \
	    (CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS \
	    *params))                                                          \
	X(U, P, cuGraphExecHostNodeSetParams, cuGraphExecHostNodeSetParams,    \
	    10020, INIT, NO, NO,                                               \
	    (CUgraphExec exec, CUgraphNode node, const CUDA_HOST_NODE_PARAMS   \
	    *params))                                                          \
	X(U, P, cuGraphExecUpdate_v2, cuGraphExecUpdate, 12000, INIT, NO, NO,  \
	    (CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo      \
	    *info))                                                            \
	X(U, P, cuGraphInstantiate_v2, cuGraphInstantiate, 11000, INIT_R,      \
	    NO, NO,                                                            \
	    (CUgraphExec *exec, CUgraph graph, CUgraphNode *error_node, char   \
	    *log, size_t log_size))                                            \
	X(U, P, cuGraphInstantiateWithFlags, cuGraphInstantiateWithFlags,      \
	    11040, INIT_R, SERVE, MUST,                                        \
	    (CUgraphExec *exec, CUgraph graph, unsigned long long flags))      \
	X(U, S, cuGraphInstantiateWithParams, cuGraphInstantiateWithParams,    \
	    12000, NO, SERVE, NO,                                              \
	    (CUgraphExec *out, CUgraph graph, void *params))                   \
	X(U, S, cuGraphUpload, cuGraphUpload, 11010, INIT_R, SERVE, NO,        \
	    (CUgraphExec exec, CUstream stream))                               \
	X(U, S, cuGraphLaunch, cuGraphLaunch, 10000, INIT_R, SERVE, MUST,      \
	    (CUgraphExec exec, CUstream stream))                               \
	X(U, P, cuGraphDestroy, cuGraphDestroy, 10000, INIT, NO, MUST,         \
	    (CUgraph graph))                                                   \
	X(U, P, cuGraphExecDestroy, cuGraphExecDestroy, 10000, INIT, NO, MUST, \
	    (CUgraphExec exec))                                                \
	X(U, P, cuGraphGetNodes, cuGraphGetNodes, 10000, INIT, NO, MUST,       \
	    (CUgraph graph, CUgraphNode *nodes, size_t *n_nodes))              \
	X(U, P, cuGraphNodeGetType, cuGraphNodeGetType, 10000, INIT, NO, NO,   \
	    (CUgraphNode node, CUgraphNodeType *type))                         \
	X(U, P, cuGraphGetEdges, cuGraphGetEdges, 10000, INIT, NO, NO,         \
	    (CUgraph graph, CUgraphNode *from, CUgraphNode *to, size_t         \
	    *n_edges))                                                         \
	X(U, P, cuGraphGetEdges_v2, cuGraphGetEdges, 12030, INIT, NO, NO,      \
	    (CUgraph graph, CUgraphNode *from, CUgraphNode *to,                \
	    CUgraphEdgeData *edges, size_t *n_edges))                          \
	X(U, P, cuGraphDebugDotPrint, cuGraphDebugDotPrint, 11030, INIT, NO,   \
	    NO,                                                                \
	    (CUgraph graph, const char *path, unsigned flags))                 \
	X(U, P, cuEventCreate, cuEventCreate, 2000, CONTEXT_R, NO, MUST,       \
	    (CUevent *event, unsigned flags))                                  \
	X(U, P, cuEventDestroy, cuEventDestroy, 2000, NO, SERVE, NO,           \
	    (CUevent event))                                                   \
	X(U, P, cuEventDestroy_v2, cuEventDestroy, 4000, INIT, SERVE, MUST,    \
	    (CUevent event))                                                   \
	X(U, S, cuEventRecord, cuEventRecord, 2000, INIT_R, SERVE, MUST,       \
	    (CUevent event, CUstream stream))                                  \
	X(U, S, cuEventRecordWithFlags, cuEventRecordWithFlags, 11010, INIT_R, \
	    SERVE, NO,                                                         \
	    (CUevent event, CUstream stream, unsigned flags))                  \
	X(U, P, cuEventQuery, cuEventQuery, 2000, INIT, WATCH, MUST,           \
	    (CUevent event))                                                   \
	X(U, P, cuEventSynchronize, cuEventSynchronize, 2000, INIT, WATCH,     \
	    MUST,                                                              \
	    (CUevent event))                                                   \
	X(U, P, cuEventElapsedTime, cuEventElapsedTime, 2000, INIT, NO, MUST,  \
	    (float *milliseconds, CUevent start, CUevent end))                 \
	X(U, P, cuEventElapsedTime_v2, cuEventElapsedTime, 12080, INIT, NO,    \
	    NO,                                                                \
	    (float *milliseconds, CUevent start, CUevent end))                 \
	X(U, P, cuMemAlloc_v2, cuMemAlloc, 3020, CONTEXT_UR, SERVE, MUST,      \
	    (CUdeviceptr *address, size_t size))                               \
	X(U, P, cuMemAllocPitch_v2, cuMemAllocPitch, 3020, CONTEXT_UR, SERVE,  \
	    NO,                                                                \
	    (CUdeviceptr *address, size_t *pitch, size_t width, size_t height, \
	    unsigned element))                                                 \
	X(U, P, cuMemAllocManaged, cuMemAllocManaged, 6000, CONTEXT_UR, SERVE, \
	    NO,                                                                \
	    (CUdeviceptr *address, size_t size, unsigned flags))               \
	X(U, P, cuArrayCreate_v2, cuArrayCreate, 3020, CONTEXT_UR, SERVE, NO,  \
	    (CUarray *out, const CUDA_ARRAY_DESCRIPTOR *wanted))               \
	X(U, P, cuArray3DCreate_v2, cuArray3DCreate, 3020, CONTEXT_UR, SERVE,  \
	    NO,                                                                \
	    (CUarray *out, const CUDA_ARRAY3D_DESCRIPTOR *wanted))             \
	X(U, P, cuMipmappedArrayCreate, cuMipmappedArrayCreate, 5000,          \
	    CONTEXT_UR, SERVE, NO,                                             \
	    (CUmipmappedArray *out, const CUDA_ARRAY3D_DESCRIPTOR *wanted,     \
	    unsigned levels))                                                  \
	X(U, P, cuArrayDestroy, cuArrayDestroy, 2000, CONTEXT_U, SERVE, NO,    \
	    (CUarray array))                                                   \
	X(U, P, cuMipmappedArrayDestroy, cuMipmappedArrayDestroy, 5000,        \
	    CONTEXT_U, SERVE, NO,                                              \
	    (CUmipmappedArray array))                                          \
	X(U, P, cuImportExternalMemory, cuImportExternalMemory, 10000,         \
	    CONTEXT_R, SERVE, NO,                                              \
	    (CUexternalMemory *out, const CUDA_EXTERNAL_MEMORY_HANDLE_DESC     \
	    *wanted))                                                          \
	X(U, P, cuDestroyExternalMemory, cuDestroyExternalMemory, 10000,       \
	    CONTEXT, SERVE, NO,                                                \
	    (CUexternalMemory memory))                                         \
	X(U, P, cuModuleLoad, cuModuleLoad, 2000, NO, SERVE, NO,               \
	    (CUmodule *out, const char *file))                                 \
	X(U, S, cuMemPrefetchAsync, cuMemPrefetchAsync, 8000, CONTEXT, HOLD,   \
	    NO,                                                                \
	    (CUdeviceptr address, size_t size, CUdevice device, CUstream       \
	    stream))                                                           \
	X(U, S, cuMemPrefetchAsync_v2, cuMemPrefetchAsync, 12020, CONTEXT,     \
	    HOLD, NO,                                                          \
	    (CUdeviceptr address, size_t size, CUmemLocation location,         \
	    unsigned flags, CUstream stream))                                  \
	X(U, P, cuMemAdvise, cuMemAdvise, 8000, CONTEXT, HOLD, NO,             \
	    (CUdeviceptr address, size_t size, CUmem_advise advice, CUdevice   \
	    device))                                                           \
	X(U, P, cuMemAdvise_v2, cuMemAdvise, 12020, CONTEXT, HOLD, NO,         \
	    (CUdeviceptr address, size_t size, CUmem_advise advice,            \
	    CUmemLocation location))                                           \
	X(U, P, cuMemFree_v2, cuMemFree, 3020, INIT_U, SERVE, MUST,            \
	    (CUdeviceptr address))                                             \
	X(U, P, cuMemGetInfo_v2, cuMemGetInfo, 3020, CONTEXT, SERVE, MUST,     \
	    (size_t *free_bytes, size_t *total_bytes))                         \
	X(U, P, cuMemGetAddressRange_v2, cuMemGetAddressRange, 3020, CONTEXT,  \
	    SERVE, MAY,                                                        \
	    (CUdeviceptr *base, size_t *size, CUdeviceptr address))            \
	X(U, P, cuPointerGetAttribute, cuPointerGetAttribute, 4000, INIT,      \
	    SERVE, MUST,                                                       \
	    (void *data, CUpointer_attribute attribute, CUdeviceptr address))  \
	X(U, P, cuPointerGetAttributes, cuPointerGetAttributes, 7000, INIT,    \
	    SERVE, NO,                                                         \
	    (unsigned n, CUpointer_attribute *attributes, void **data,         \
	    CUdeviceptr address))                                              \
	X(U, P, cuPointerSetAttribute, cuPointerSetAttribute, 6000, CONTEXT,   \
	    SERVE, NO,                                                         \
	    (const void *value, CUpointer_attribute attribute, CUdeviceptr     \
	    address))                                                          \
	X(U, P, cuMemAddressReserve, cuMemAddressReserve, 10020, INIT_R, NO,   \
	    MUST,                                                              \
	    (CUdeviceptr *address, size_t size, size_t alignment, CUdeviceptr  \
	    hint, unsigned long long flags))                                   \
	X(U, P, cuMemAddressFree, cuMemAddressFree, 10020, INIT, SERVE, MUST,  \
	    (CUdeviceptr address, size_t size))                                \
	X(U, P, cuMemCreate, cuMemCreate, 10020, INIT_R, SERVE, MUST,          \
	    (CUmemGenericAllocationHandle *handle, size_t size, const          \
	    CUmemAllocationProp *prop, unsigned long long flags))              \
	X(U, P, cuMemRelease, cuMemRelease, 10020, INIT, SERVE, MUST,          \
	    (CUmemGenericAllocationHandle handle))                             \
	X(U, P, cuMemMap, cuMemMap, 10020, INIT_R, SERVE, MUST,                \
	    (CUdeviceptr address, size_t size, size_t offset,                  \
	    CUmemGenericAllocationHandle handle, unsigned long long flags))    \
	X(U, P, cuMemUnmap, cuMemUnmap, 10020, INIT, SERVE, MUST,              \
	    (CUdeviceptr address, size_t size))                                \
	X(U, P, cuMemSetAccess, cuMemSetAccess, 10020, INIT_R, SERVE, MUST,    \
	    (CUdeviceptr address, size_t size, const CUmemAccessDesc *access,  \
	    size_t n_access))                                                  \
	X(U, P, cuMemGetAccess, cuMemGetAccess, 10020, INIT, SERVE, NO,        \
	    (unsigned long long *flags, const CUmemLocation *location,         \
	    CUdeviceptr address))                                              \
	X(U, P, cuMulticastBindAddr, cuMulticastBindAddr, 12010, NO, SERVE,    \
	    NO,                                                                \
	    (CUmemGenericAllocationHandle group, size_t offset, CUdeviceptr    \
	    ptr, size_t bytes, unsigned long long flags))                      \
	X(U, P, cuMulticastBindMem, cuMulticastBindMem, 12010, NO, SERVE, NO,  \
	    (CUmemGenericAllocationHandle group, size_t offset,                \
	    CUmemGenericAllocationHandle memory, size_t from, size_t bytes,    \
	    unsigned long long flags))                                         \
	X(U, P, cuMemGetAllocationGranularity, cuMemGetAllocationGranularity,  \
	    10020, INIT, NO, MUST,                                             \
	    (size_t *granularity, const CUmemAllocationProp *prop,             \
	    CUmemAllocationGranularity_flags option))                          \
	X(U, P, cuMemExportToShareableHandle, cuMemExportToShareableHandle,    \
	    10020, INIT_R, SERVE, MUST,                                        \
	    (void *shareable, CUmemGenericAllocationHandle handle,             \
	    CUmemAllocationHandleType type, unsigned long long flags))         \
	X(U, P, cuMemImportFromShareableHandle,                                \
	    cuMemImportFromShareableHandle, 10020, INIT_R, SERVE, MUST,        \
	    (CUmemGenericAllocationHandle *handle, void *shareable,            \
	    CUmemAllocationHandleType type))                                   \
	X(U, P, cuMemRetainAllocationHandle, cuMemRetainAllocationHandle,      \
	    11000, INIT, SERVE, MAY,                                           \
	    (CUmemGenericAllocationHandle *handle, void *address))             \
	X(U, P, cuMemGetAllocationPropertiesFromHandle,                        \
	    cuMemGetAllocationPropertiesFromHandle, 10020, INIT, SERVE, NO,    \
	    (CUmemAllocationProp *prop, CUmemGenericAllocationHandle handle))  \
	X(U, S, cuMemAllocAsync, cuMemAllocAsync, 11020, CONTEXT_R, SERVE, NO, \
	    (CUdeviceptr *address, size_t size, CUstream stream))              \
	X(U, S, cuMemAllocFromPoolAsync, cuMemAllocFromPoolAsync, 11020,       \
	    CONTEXT_R, SERVE, NO,                                              \
	    (CUdeviceptr *address, size_t size, CUmemoryPool pool, CUstream    \
	    stream))                                                           \
	X(U, S, cuMemFreeAsync, cuMemFreeAsync, 11020, INIT, SERVE, NO,        \
	    (CUdeviceptr address, CUstream stream))                            \
	X(U, P, cuDeviceGetDefaultMemPool, cuDeviceGetDefaultMemPool, 11020,   \
	    INIT, NO, NO,                                                      \
	    (CUmemoryPool *pool, CUdevice device))                             \
	X(U, P, cuDeviceGetMemPool, cuDeviceGetMemPool, 11020, INIT, NO, NO,   \
	    (CUmemoryPool *pool, CUdevice device))                             \
	X(U, P, cuDeviceSetMemPool, cuDeviceSetMemPool, 11020, INIT, SERVE,    \
	    NO,                                                                \
	    (CUdevice device, CUmemoryPool pool))                              \
	X(U, P, cuMemGetDefaultMemPool, cuMemGetDefaultMemPool, 13000, INIT,   \
	    NO, NO,                                                            \
	    (CUmemoryPool *pool, CUmemLocation *location, CUmemAllocationType  \
	    type))                                                             \
	X(U, P, cuMemGetMemPool, cuMemGetMemPool, 13000, INIT, NO, NO,         \
	    (CUmemoryPool *pool, CUmemLocation *location, CUmemAllocationType  \
	    type))                                                             \
	X(U, P, cuMemSetMemPool, cuMemSetMemPool, 13000, INIT, SERVE, NO,      \
	    (CUmemLocation *location, CUmemAllocationType type, CUmemoryPool   \
	    pool))                                                             \
	X(U, P, cuMemPoolCreate, cuMemPoolCreate, 11020, INIT_R, SERVE, NO,    \
	    (CUmemoryPool *pool, const CUmemPoolProps *props))                 \
	X(U, P, cuMemPoolDestroy, cuMemPoolDestroy, 11020, INIT, SERVE, NO,    \
	    (CUmemoryPool pool))                                               \
	X(U, P, cuMemPoolSetAttribute, cuMemPoolSetAttribute, 11020, INIT,     \
	    SERVE, NO,                                                         \
	    (CUmemoryPool pool, CUmemPool_attribute attribute, void *value))   \
	X(U, P, cuMemPoolGetAttribute, cuMemPoolGetAttribute, 11020, INIT,     \
	    SERVE, NO,                                                         \
	    (CUmemoryPool pool, CUmemPool_attribute attribute, void *value))   \
	X(U, P, cuMemPoolTrimTo, cuMemPoolTrimTo, 11020, INIT, SERVE, NO,      \
	    (CUmemoryPool pool, size_t keep))                                  \
	X(U, P, cuMemPoolSetAccess, cuMemPoolSetAccess, 11020, INIT, SERVE,    \
	    NO,                                                                \
	    (CUmemoryPool pool, const CUmemAccessDesc *access, size_t          \
	    n_access))                                                         \
	X(U, P, cuMemPoolGetAccess, cuMemPoolGetAccess, 11020, INIT, NO, NO,   \
	    (CUmemAccess_flags *flags, CUmemoryPool pool, CUmemLocation        \
	    *location))                                                        \
	X(U, P, cuMemPoolExportToShareableHandle,                              \
	    cuMemPoolExportToShareableHandle, 11020, INIT, NO, NO,             \
	    (void *shareable, CUmemoryPool pool, CUmemAllocationHandleType     \
	    type, unsigned long long flags))                                   \
	X(U, P, cuMemPoolImportFromShareableHandle,                            \
	    cuMemPoolImportFromShareableHandle, 11020, INIT, NO, NO,           \
	    (CUmemoryPool *pool, void *shareable, CUmemAllocationHandleType    \
	    type, unsigned long long flags))                                   \
	X(U, P, cuMemPoolExportPointer, cuMemPoolExportPointer, 11020, INIT,   \
	    SERVE, NO,                                                         \
	    (CUmemPoolPtrExportData *data, CUdeviceptr address))               \
	X(U, P, cuMemPoolImportPointer, cuMemPoolImportPointer, 11020, INIT,   \
	    SERVE, NO,                                                         \
	    (CUdeviceptr *address, CUmemoryPool pool, CUmemPoolPtrExportData   \
	    *data))                                                            \
	X(U, P, cuMemHostAlloc, cuMemHostAlloc, 2020, CONTEXT_UR, SERVE, MUST, \
	    (void **address, size_t size, unsigned flags))                     \
	X(U, P, cuMemAllocHost_v2, cuMemAllocHost, 3020, CONTEXT_UR, SERVE,    \
	    NO,                                                                \
	    (void **address, size_t size))                                     \
	X(U, P, cuMemFreeHost, cuMemFreeHost, 2000, INIT_U, SERVE, MUST,       \
	    (void *address))                                                   \
	X(U, P, cuMemHostRegister, cuMemHostRegister, 4000, NO, SERVE, NO,     \
	    (void *ptr, size_t bytes, unsigned flags))                         \
	X(U, P, cuMemHostRegister_v2, cuMemHostRegister, 6050, CONTEXT_UR,     \
	    SERVE, MUST,                                                       \
	    (void *address, size_t size, unsigned flags))                      \
	X(U, P, cuMemHostUnregister, cuMemHostUnregister, 4000, INIT_U, SERVE, \
	    MUST,                                                              \
	    (void *address))                                                   \
	X(U, P, cuMemGetHandleForAddressRange, cuMemGetHandleForAddressRange,  \
	    11070, NO, SERVE, NO,                                              \
	    (void *handle, CUdeviceptr ptr, size_t bytes, int type, unsigned   \
	    long long flags))                                                  \
	X(U, P, cuMemHostGetDevicePointer_v2, cuMemHostGetDevicePointer, 3020, \
	    INIT, SERVE, NO,                                                   \
	    (CUdeviceptr *pointer, void *address, unsigned flags))             \
	X(U, P, cuMemHostGetFlags, cuMemHostGetFlags, 2030, INIT, SERVE, NO,   \
	    (unsigned *flags, void *address))                                  \
	X(U, D, cuMemcpy, cuMemcpy, 4000, CONTEXT_R, WATCH, NO,                \
	    (CUdeviceptr to, CUdeviceptr from, size_t size))                   \
	X(U, D, cuMemcpyHtoD_v2, cuMemcpyHtoD, 3020, CONTEXT_R, CHECK, NO,     \
	    (CUdeviceptr to, const void *from, size_t size))                   \
	X(U, D, cuMemcpyDtoH_v2, cuMemcpyDtoH, 3020, CONTEXT_R, WATCH, NO,     \
	    (void *to, CUdeviceptr from, size_t size))                         \
	X(U, D, cuMemcpyDtoD_v2, cuMemcpyDtoD, 3020, CONTEXT_R, CHECK, NO,     \
	    (CUdeviceptr to, CUdeviceptr from, size_t size))                   \
	X(U, D, cuMemcpyPeer, cuMemcpyPeer, 4000, CONTEXT_R, HOLD, NO,         \
	    (CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext \
	    from_context, size_t size))                                        \
	X(U, S, cuMemcpyAsync, cuMemcpyAsync, 4000, CONTEXT_R, WATCH, MUST,    \
	    (CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream))  \
	X(U, S, cuMemcpyHtoDAsync_v2, cuMemcpyHtoDAsync, 3020, CONTEXT_R,      \
	    CHECK, MUST,                                                       \
	    (CUdeviceptr to, const void *from, size_t size, CUstream stream))  \
	X(U, S, cuMemcpyDtoHAsync_v2, cuMemcpyDtoHAsync, 3020, CONTEXT_R,      \
	    WATCH, MUST,                                                       \
	    (void *to, CUdeviceptr from, size_t size, CUstream stream))        \
	X(U, S, cuMemcpyDtoDAsync_v2, cuMemcpyDtoDAsync, 3020, CONTEXT_R,      \
	    CHECK, NO,                                                         \
	    (CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream))  \
	X(U, D, cuMemcpy2D_v2, cuMemcpy2D, 3020, CONTEXT_R, WATCH, NO,         \
	    (const CUDA_MEMCPY2D *params))                                     \
	X(U, D, cuMemcpy2DUnaligned_v2, cuMemcpy2DUnaligned, 3020, CONTEXT_R,  \
	    WATCH, NO,                                                         \
	    (const CUDA_MEMCPY2D *params))                                     \
	X(U, D, cuMemcpy3D_v2, cuMemcpy3D, 3020, CONTEXT_R, WATCH, NO,         \
	    (const CUDA_MEMCPY3D *params))                                     \
	X(U, S, cuMemcpy2DAsync_v2, cuMemcpy2DAsync, 3020, CONTEXT_R, HOLD,    \
	    NO,                                                                \
	    (const CUDA_MEMCPY2D *params, CUstream stream))                    \
	X(U, S, cuMemcpy3DAsync_v2, cuMemcpy3DAsync, 3020, CONTEXT_R, HOLD,    \
	    NO,                                                                \
	    (const CUDA_MEMCPY3D *params, CUstream stream))                    \
	X(U, D, cuMemcpy3DPeer, cuMemcpy3DPeer, 4000, CONTEXT_R, HOLD, NO,     \
	    (const CUDA_MEMCPY3D_PEER *params))                                \
	X(U, S, cuMemcpy3DPeerAsync, cuMemcpy3DPeerAsync, 4000, CONTEXT_R,     \
	    HOLD, NO,                                                          \
	    (const CUDA_MEMCPY3D_PEER *params, CUstream stream))               \
	X(U, D, cuMemsetD2D8_v2, cuMemsetD2D8, 3020, CONTEXT_R, HOLD, NO,      \
	    (CUdeviceptr to, size_t pitch, unsigned char value, size_t width,  \
	    size_t height))                                                    \
	X(U, S, cuMemsetD2D8Async, cuMemsetD2D8Async, 3020, CONTEXT_R, HOLD,   \
	    NO,                                                                \
	    (CUdeviceptr to, size_t pitch, unsigned char value, size_t width,  \
	    size_t height, CUstream stream))                                   \
	X(U, D, cuMemsetD2D16_v2, cuMemsetD2D16, 3020, CONTEXT_R, HOLD, NO,    \
	    (CUdeviceptr to, size_t pitch, unsigned short value, size_t width, \
	    size_t height))                                                    \
	X(U, S, cuMemsetD2D16Async, cuMemsetD2D16Async, 3020, CONTEXT_R, HOLD, \
	    NO,                                                                \
	    (CUdeviceptr to, size_t pitch, unsigned short value, size_t width, \
	    size_t height, CUstream stream))                                   \
	X(U, D, cuMemsetD2D32_v2, cuMemsetD2D32, 3020, CONTEXT_R, HOLD, NO,    \
	    (CUdeviceptr to, size_t pitch, unsigned value, size_t width,       \
	    size_t height))                                                    \
	X(U, S, cuMemsetD2D32Async, cuMemsetD2D32Async, 3020, CONTEXT_R, HOLD, \
	    NO,                                                                \
	    (CUdeviceptr to, size_t pitch, unsigned value, size_t width,       \
	    size_t height, CUstream stream))                                   \
	X(U, S, cuMemcpyPeerAsync, cuMemcpyPeerAsync, 4000, CONTEXT_R, HOLD,   \
	    MAY,                                                               \
	    (CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext \
	    from_context, size_t size, CUstream stream))                       \
	X(U, D, cuMemsetD8_v2, cuMemsetD8, 3020, CONTEXT_R, HOLD, NO,          \
	    (CUdeviceptr to, unsigned char value, size_t n))                   \
	X(U, D, cuMemsetD16_v2, cuMemsetD16, 3020, CONTEXT_R, HOLD, NO,        \
	    (CUdeviceptr to, unsigned short value, size_t n))                  \
	X(U, D, cuMemsetD32_v2, cuMemsetD32, 3020, CONTEXT_R, HOLD, NO,        \
	    (CUdeviceptr to, unsigned value, size_t n))                        \
	X(U, S, cuMemsetD8Async, cuMemsetD8Async, 3020, CONTEXT_R, CHECK,      \
	    MUST,                                                              \
	    (CUdeviceptr to, unsigned char value, size_t n, CUstream stream))  \
	X(U, S, cuMemsetD16Async, cuMemsetD16Async, 3020, CONTEXT_R, CHECK,    \
	    NO,                                                                \
	    (CUdeviceptr to, unsigned short value, size_t n, CUstream stream)) \
	X(U, S, cuMemsetD32Async, cuMemsetD32Async, 3020, CONTEXT_R, CHECK,    \
	    MUST,                                                              \
	    (CUdeviceptr to, unsigned value, size_t n, CUstream stream))       \
	X(U, D, cuMemcpyDtoA_v2, cuMemcpyDtoA, 3020, NO, HOLD, NO,             \
	    (void *array, size_t offset, CUdeviceptr from, size_t size))       \
	X(U, D, cuMemcpyAtoD_v2, cuMemcpyAtoD, 3020, NO, HOLD, NO,             \
	    (CUdeviceptr to, void *array, size_t offset, size_t size))         \
	X(U, S, cuMemcpyBatchAsync, cuMemcpyBatchAsync, 12080, NO, HOLD, NO,   \
	    (CUdeviceptr *to, CUdeviceptr *from, size_t *sizes, size_t n,      \
	    void *attributes, size_t *indices, size_t n_attributes, size_t     \
	    *failed, CUstream stream))                                         \
	X(U, S, cuMemcpyBatchAsync_v2, cuMemcpyBatchAsync, 13000, NO, HOLD,    \
	    NO,                                                                \
	    (CUdeviceptr *to, CUdeviceptr *from, size_t *sizes, size_t n,      \
	    void *attributes, size_t *indices, size_t n_attributes, CUstream   \
	    stream))                                                           \
	X(U, S, cuMemcpy3DBatchAsync, cuMemcpy3DBatchAsync, 12080, NO, HOLD,   \
	    NO,                                                                \
	    (size_t n, void *copies, size_t *failed, unsigned long long        \
	    flags, CUstream stream))                                           \
	X(U, S, cuMemcpy3DBatchAsync_v2, cuMemcpy3DBatchAsync, 13000, NO,      \
	    HOLD, NO,                                                          \
	    (size_t n, void *copies, unsigned long long flags, CUstream        \
	    stream))                                                           \
	X(U, S, cuMemBatchDecompressAsync, cuMemBatchDecompressAsync, 12060,   \
	    NO, HOLD, NO,                                                      \
	    (void *params, size_t n, unsigned flags, size_t *failed, CUstream  \
	    stream))                                                           \
	X(U, S, cuMemPrefetchBatchAsync, cuMemPrefetchBatchAsync, 13000, NO,   \
	    HOLD, NO,                                                          \
	    (CUdeviceptr *ranges, size_t *sizes, size_t n, void *locations,    \
	    size_t *indices, size_t n_locations, unsigned long long flags,     \
	    CUstream stream))                                                  \
	X(U, S, cuMemDiscardBatchAsync, cuMemDiscardBatchAsync, 13000, NO,     \
	    HOLD, NO,                                                          \
	    (CUdeviceptr *ranges, size_t *sizes, size_t n, unsigned long long  \
	    flags, CUstream stream))                                           \
	X(U, S, cuMemDiscardAndPrefetchBatchAsync,                             \
	    cuMemDiscardAndPrefetchBatchAsync, 13000, NO, HOLD, NO,            \
	    (CUdeviceptr *ranges, size_t *sizes, size_t n, void *locations,    \
	    size_t *indices, size_t n_locations, unsigned long long flags,     \
	    CUstream stream))                                                  \
	X(U, P, cuModuleLoadData, cuModuleLoadData, 2000, CONTEXT_UR, SERVE,   \
	    MUST,                                                              \
	    (CUmodule *module, const void *image))                             \
	X(U, P, cuModuleLoadDataEx, cuModuleLoadDataEx, 2010, CONTEXT_UR,      \
	    SERVE, NO,                                                         \
	    (CUmodule *module, const void *image, unsigned n_options,          \
	    CUjit_option *options, void **values))                             \
	X(U, P, cuModuleLoadFatBinary, cuModuleLoadFatBinary, 2000, NO, SERVE, \
	    NO,                                                                \
	    (CUmodule *out, const void *image))                                \
	X(U, P, cuModuleGetLoadingMode, cuModuleGetLoadingMode, 11070, INIT,   \
	    NO, NO,                                                            \
	    (CUmoduleLoadingMode *mode))                                       \
	X(U, P, cuModuleUnload, cuModuleUnload, 2000, CONTEXT, NO, MUST,       \
	    (CUmodule module))                                                 \
	X(U, P, cuModuleGetFunction, cuModuleGetFunction, 2000, CONTEXT, NO,   \
	    MUST,                                                              \
	    (CUfunction *function, CUmodule module, const char *name))         \
	X(U, P, cuFuncGetParamInfo, cuFuncGetParamInfo, 12040, INIT, NO, NO,   \
	    (CUfunction function, size_t index, size_t *offset, size_t *size)) \
	X(U, S, cuLaunchKernel, cuLaunchKernel, 4000, CONTEXT_R, CHECK, MUST,  \
	    (CUfunction function, unsigned grid_x, unsigned grid_y, unsigned   \
	    grid_z, unsigned block_x, unsigned block_y, unsigned block_z,      \
	    unsigned shared_bytes, CUstream stream, void **parameters, void    \
	    **extra))                                                          \
	X(U, S, cuLaunchCooperativeKernel, cuLaunchCooperativeKernel, 9000,    \
	    NO, CHECK, NO,                                                     \
	    (CUfunction function, unsigned gx, unsigned gy, unsigned gz,       \
	    unsigned bx, unsigned by, unsigned bz, unsigned shared, CUstream   \
	    stream, void **parameters))                                        \
	X(U, S, cuLaunchKernelEx, cuLaunchKernelEx, 11060, NO, CHECK, NO,      \
	    (const void *config, CUfunction function, void **parameters, void  \
	    **extra))                                                          \
	X(U, P, cuLaunch, cuLaunch, 2000, NO, HOLD, NO,                        \
	    (CUfunction function))                                             \
	X(U, P, cuLaunchGrid, cuLaunchGrid, 2000, NO, HOLD, NO,                \
	    (CUfunction function, int width, int height))                      \
	X(U, P, cuLaunchGridAsync, cuLaunchGridAsync, 2000, NO, HOLD, NO,      \
	    (CUfunction function, int width, int height, CUstream stream))     \
	X(U, P, cuLaunchCooperativeKernelMultiDevice,                          \
	    cuLaunchCooperativeKernelMultiDevice, 9000, NO, HOLD, NO,          \
	    (void *launches, unsigned n, unsigned flags))                      \
	X(U, P, cuIpcGetMemHandle, cuIpcGetMemHandle, 4010, CONTEXT_R, SERVE,  \
	    MAY,                                                               \
	    (CUipcMemHandle *handle, CUdeviceptr address))                     \
	X(U, P, cuIpcOpenMemHandle, cuIpcOpenMemHandle, 4010, CONTEXT_R,       \
	    SERVE, NO,                                                         \
	    (CUdeviceptr *address, CUipcMemHandle handle, unsigned flags))     \
	X(U, P, cuIpcOpenMemHandle_v2, cuIpcOpenMemHandle, 11000, CONTEXT_R,   \
	    SERVE, MAY,                                                        \
	    (CUdeviceptr *address, CUipcMemHandle handle, unsigned flags))     \
	X(U, P, cuIpcCloseMemHandle, cuIpcCloseMemHandle, 4010, INIT, SERVE,   \
	    MAY,                                                               \
	    (CUdeviceptr address))                                             \
	X(U, P, cuIpcGetEventHandle, cuIpcGetEventHandle, 4010, INIT_R, NO,    \
	    MAY,                                                               \
	    (CUipcEventHandle *handle, CUevent event))                         \
	X(U, P, cuIpcOpenEventHandle, cuIpcOpenEventHandle, 4010, CONTEXT_R,   \
	    NO, MAY,                                                           \
	    (CUevent *event, CUipcEventHandle handle))
/* clang-format on */

/*
 * The calls that simcuda simulates: P, S or D(symbol, base, version, flags,
 * parameters).
 */
#define SIM_ENTRIES(P, S, D) DRIVER_CALLS(SIM_OF_CALL, (P, S, D))
#define SIM_OF_CALL(                                                           \
    U, kind, symbol, base, version, simulated, hook, called, params)           \
	SIM_IF_##simulated(                                                    \
	    SIM_PICK_##kind U, symbol, base, version, simulated, params)
#define SIM_PICK_P(P, S, D) P
#define SIM_PICK_S(P, S, D) S
#define SIM_PICK_D(P, S, D) D
#define SIM_IF_NO(macro, ...)
#define SIM_IF_NONE(macro, ...) macro(__VA_ARGS__)
#define SIM_IF_INIT(macro, ...) macro(__VA_ARGS__)
#define SIM_IF_INIT_R(macro, ...) macro(__VA_ARGS__)
#define SIM_IF_INIT_U(macro, ...) macro(__VA_ARGS__)
#define SIM_IF_CONTEXT(macro, ...) macro(__VA_ARGS__)
#define SIM_IF_CONTEXT_R(macro, ...) macro(__VA_ARGS__)
#define SIM_IF_CONTEXT_U(macro, ...) macro(__VA_ARGS__)
#define SIM_IF_CONTEXT_UR(macro, ...) macro(__VA_ARGS__)

/*
 * The calls that weir makes: X(name, version, required, parameters). The
 * name is that for cuGetProcAddress().
 */
#define DRIVER_ENTRIES(X) DRIVER_CALLS(ENTRY_OF_CALL, X)
#define ENTRY_OF_CALL(                                                         \
    U, kind, symbol, base, version, simulated, hook, called, params)           \
	ENTRY_IF_##called(U, base, version, params)
#define ENTRY_IF_NO(X, base, version, params)
#define ENTRY_IF_MAY(X, base, version, params) X(base, version, 0, params)
#define ENTRY_IF_MUST(X, base, version, params) X(base, version, 1, params)

#endif
