/*
 * The device memory that each call of the driver takes: every row of
 * DRIVER_CALLS has one here, so that no new call takes memory unseen by a
 * limit. tests/preload/limits_test.c walks both lists.
 *
 * X(symbol, kind)
 *
 * kind  the kind of WEIR_OUTSIDE_KINDS as which the preload counts it; or why
 *       there is nothing to count:
 *
 *       RELEASE  the call gives memory back
 *       HOST     its memory is the host's: pinned_limit_mb
 *       WORK     it queues work on memory that is there. Managed memory is
 *                counted where it was allocated, wherever its pages move
 *       NAMES    it names, maps or opens memory that is counted when it is
 *                made. A pool is empty until it is allocated from
 *       ORDER    streams, events, captures, nodes, settings: what the driver
 *                holds for them is a part of its contexts. The memory of a
 *                graph is measured when it is launched, too
 *       ASKS     it only asks
 */
#ifndef DRIVER_TAKES_H
#define DRIVER_TAKES_H

/* clang-format off */
#define DRIVER_TAKES(X)                                                        \
	X(cuMemAlloc_v2, plain)                                                \
	X(cuMemAllocPitch_v2, plain)                                           \
	X(cuMemAllocAsync, pooled)                                             \
	X(cuMemAllocFromPoolAsync, pooled)                                     \
	X(cuMemCreate, handles)                                                \
	X(cuMemAllocManaged, managed)                                          \
	X(cuArrayCreate_v2, arrays)                                            \
	X(cuArray3DCreate_v2, arrays)                                          \
	X(cuMipmappedArrayCreate, arrays)                                      \
	X(cuGraphAddMemAllocNode, graphs)                                      \
	X(cuGraphAddNode, graphs)                                              \
	X(cuGraphAddNode_v2, graphs)                                           \
	X(cuGraphInstantiateWithFlags, graphs)                                 \
	X(cuGraphInstantiateWithParams, graphs)                                \
	X(cuGraphUpload, graphs)                                               \
	X(cuGraphLaunch, graphs)                                               \
	X(cuImportExternalMemory, external)                                    \
	X(cuMemPoolImportPointer, imported)                                    \
	X(cuIpcOpenMemHandle, imported)                                        \
	X(cuIpcOpenMemHandle_v2, imported)                                     \
	X(cuMemImportFromShareableHandle, imported)                            \
	X(cuDevicePrimaryCtxRetain, contexts)                                  \
	X(cuCtxCreate_v2, contexts)                                            \
	X(cuCtxCreate_v4, contexts)                                            \
	X(cuCtxSetLimit, contexts)                                             \
	X(cuModuleLoad, contexts)                                              \
	X(cuModuleLoadData, contexts)                                          \
	X(cuModuleLoadDataEx, contexts)                                        \
	X(cuModuleLoadFatBinary, contexts)                                     \
	X(cuDevicePrimaryCtxRelease, RELEASE)                                  \
	X(cuDevicePrimaryCtxRelease_v2, RELEASE)                               \
	X(cuDevicePrimaryCtxReset, RELEASE)                                    \
	X(cuDevicePrimaryCtxReset_v2, RELEASE)                                 \
	X(cuCtxDestroy, RELEASE)                                               \
	X(cuCtxDestroy_v2, RELEASE)                                            \
	X(cuGreenCtxDestroy, RELEASE)                                          \
	X(cuStreamDestroy, RELEASE)                                            \
	X(cuStreamDestroy_v2, RELEASE)                                         \
	X(cuDeviceGraphMemTrim, RELEASE)                                       \
	X(cuGraphDestroy, RELEASE)                                             \
	X(cuGraphExecDestroy, RELEASE)                                         \
	X(cuEventDestroy, RELEASE)                                             \
	X(cuEventDestroy_v2, RELEASE)                                          \
	X(cuArrayDestroy, RELEASE)                                             \
	X(cuMipmappedArrayDestroy, RELEASE)                                    \
	X(cuDestroyExternalMemory, RELEASE)                                    \
	X(cuMemFree_v2, RELEASE)                                               \
	X(cuMemRelease, RELEASE)                                               \
	X(cuMemUnmap, RELEASE)                                                 \
	X(cuMemFreeAsync, RELEASE)                                             \
	X(cuMemPoolDestroy, RELEASE)                                           \
	X(cuMemPoolTrimTo, RELEASE)                                            \
	X(cuMemFreeHost, RELEASE)                                              \
	X(cuModuleUnload, RELEASE)                                             \
	X(cuIpcCloseMemHandle, RELEASE)                                        \
	X(cuMemHostAlloc, HOST)                                                \
	X(cuMemAllocHost_v2, HOST)                                             \
	X(cuMemHostRegister, HOST)                                             \
	X(cuMemHostRegister_v2, HOST)                                          \
	X(cuMemHostUnregister, HOST)                                           \
	X(cuStreamAddCallback, WORK)                                           \
	X(cuLaunchHostFunc, WORK)                                              \
	X(cuStreamWaitValue32, WORK)                                           \
	X(cuStreamWaitValue32_v2, WORK)                                        \
	X(cuStreamWriteValue32, WORK)                                          \
	X(cuStreamWriteValue32_v2, WORK)                                       \
	X(cuStreamWaitValue64_v2, WORK)                                        \
	X(cuStreamWriteValue64_v2, WORK)                                       \
	X(cuMemPrefetchAsync, WORK)                                            \
	X(cuMemPrefetchAsync_v2, WORK)                                         \
	X(cuMemAdvise, WORK)                                                   \
	X(cuMemAdvise_v2, WORK)                                                \
	X(cuMemcpy, WORK)                                                      \
	X(cuMemcpyHtoD_v2, WORK)                                               \
	X(cuMemcpyDtoH_v2, WORK)                                               \
	X(cuMemcpyDtoD_v2, WORK)                                               \
	X(cuMemcpyPeer, WORK)                                                  \
	X(cuMemcpyAsync, WORK)                                                 \
	X(cuMemcpyHtoDAsync_v2, WORK)                                          \
	X(cuMemcpyDtoHAsync_v2, WORK)                                          \
	X(cuMemcpyDtoDAsync_v2, WORK)                                          \
	X(cuMemcpy2D_v2, WORK)                                                 \
	X(cuMemcpy2DUnaligned_v2, WORK)                                        \
	X(cuMemcpy3D_v2, WORK)                                                 \
	X(cuMemcpy2DAsync_v2, WORK)                                            \
	X(cuMemcpy3DAsync_v2, WORK)                                            \
	X(cuMemcpy3DPeer, WORK)                                                \
	X(cuMemcpy3DPeerAsync, WORK)                                           \
	X(cuMemsetD2D8_v2, WORK)                                               \
	X(cuMemsetD2D8Async, WORK)                                             \
	X(cuMemsetD2D16_v2, WORK)                                              \
	X(cuMemsetD2D16Async, WORK)                                            \
	X(cuMemsetD2D32_v2, WORK)                                              \
	X(cuMemsetD2D32Async, WORK)                                            \
	X(cuMemcpyPeerAsync, WORK)                                             \
	X(cuMemsetD8_v2, WORK)                                                 \
	X(cuMemsetD16_v2, WORK)                                                \
	X(cuMemsetD32_v2, WORK)                                                \
	X(cuMemsetD8Async, WORK)                                               \
	X(cuMemsetD16Async, WORK)                                              \
	X(cuMemsetD32Async, WORK)                                              \
	X(cuLaunchKernel, WORK)                                                \
	X(cuLaunchCooperativeKernel, WORK)                                     \
	X(cuLaunchKernelEx, WORK)                                              \
	X(cuPointerSetAttribute, NAMES)                                        \
	X(cuMemAddressReserve, NAMES)                                          \
	X(cuMemAddressFree, NAMES)                                             \
	X(cuMemMap, NAMES)                                                     \
	X(cuMemSetAccess, NAMES)                                               \
	X(cuMulticastBindAddr, NAMES)                                          \
	X(cuMemExportToShareableHandle, NAMES)                                 \
	X(cuMemRetainAllocationHandle, NAMES)                                  \
	X(cuDeviceSetMemPool, NAMES)                                           \
	X(cuMemSetMemPool, NAMES)                                              \
	X(cuMemPoolCreate, NAMES)                                              \
	X(cuMemPoolSetAttribute, NAMES)                                        \
	X(cuMemPoolSetAccess, NAMES)                                           \
	X(cuMemPoolExportPointer, NAMES)                                       \
	X(cuMemGetHandleForAddressRange, NAMES)                                \
	X(cuIpcGetMemHandle, NAMES)                                            \
	X(cuIpcGetEventHandle, NAMES)                                          \
	X(cuIpcOpenEventHandle, NAMES)                                         \
	X(cuMemPoolExportToShareableHandle, NAMES)                             \
	X(cuMemPoolImportFromShareableHandle, NAMES)                           \
	X(cuInit, ORDER)                                                       \
	X(cuDevicePrimaryCtxSetFlags, ORDER)                                   \
	X(cuDevicePrimaryCtxSetFlags_v2, ORDER)                                \
	X(cuCtxSetCurrent, ORDER)                                              \
	X(cuCtxPushCurrent_v2, ORDER)                                          \
	X(cuCtxPopCurrent_v2, ORDER)                                           \
	X(cuCtxSynchronize, ORDER)                                             \
	X(cuCtxSynchronize_v2, ORDER)                                          \
	X(cuCtxRecordEvent, ORDER)                                             \
	X(cuCtxEnablePeerAccess, ORDER)                                        \
	X(cuCtxDisablePeerAccess, ORDER)                                       \
	X(cuStreamCreate, ORDER)                                               \
	X(cuStreamCreateWithPriority, ORDER)                                   \
	X(cuGreenCtxStreamCreate, ORDER)                                       \
	X(cuStreamSynchronize, ORDER)                                          \
	X(cuStreamWaitEvent, ORDER)                                            \
	X(cuStreamBeginCapture, ORDER)                                         \
	X(cuStreamBeginCapture_v2, ORDER)                                      \
	X(cuStreamBeginCaptureToGraph, ORDER)                                  \
	X(cuStreamEndCapture, ORDER)                                           \
	X(cuGraphCreate, ORDER)                                                \
	X(cuGraphInstantiate_v2, ORDER)                                        \
	X(cuGraphAddEmptyNode, ORDER)                                          \
	X(cuGraphAddMemcpyNode, ORDER)                                         \
	X(cuGraphAddMemsetNode, ORDER)                                         \
	X(cuGraphAddKernelNode_v2, ORDER)                                      \
	X(cuGraphAddHostNode, ORDER)                                           \
	X(cuGraphMemcpyNodeSetParams, ORDER)                                   \
	X(cuGraphMemsetNodeSetParams, ORDER)                                   \
	X(cuGraphExecHostNodeSetParams, ORDER)                                 \
	X(cuGraphExecUpdate_v2, ORDER)                                         \
	X(cuEventCreate, ORDER)                                                \
	X(cuEventRecord, ORDER)                                                \
	X(cuEventRecordWithFlags, ORDER)                                       \
	X(cuEventSynchronize, ORDER)                                           \
	X(cuStreamUpdateCaptureDependencies, ORDER)                            \
	X(cuStreamUpdateCaptureDependencies_v2, ORDER)                         \
	X(cuThreadExchangeStreamCaptureMode, ORDER)                            \
	X(cuGraphExecMemcpyNodeSetParams, ORDER)                               \
	X(cuGraphExecMemsetNodeSetParams, ORDER)                               \
	X(cuGraphExecKernelNodeSetParams_v2, ORDER)                            \
	X(cuDeviceTotalMem_v2, ASKS)                                           \
	X(cuDriverGetVersion, ASKS)                                            \
	X(cuGetErrorName, ASKS)                                                \
	X(cuGetErrorString, ASKS)                                              \
	X(cuGetProcAddress, ASKS)                                              \
	X(cuGetProcAddress_v2, ASKS)                                           \
	X(cuGetExportTable, ASKS)                                              \
	X(cuDeviceGet, ASKS)                                                   \
	X(cuDeviceGetCount, ASKS)                                              \
	X(cuDeviceGetName, ASKS)                                               \
	X(cuDeviceGetAttribute, ASKS)                                          \
	X(cuDeviceGetUuid, ASKS)                                               \
	X(cuDeviceGetUuid_v2, ASKS)                                            \
	X(cuDeviceCanAccessPeer, ASKS)                                         \
	X(cuDeviceGetPCIBusId, ASKS)                                           \
	X(cuDeviceGetByPCIBusId, ASKS)                                         \
	X(cuDeviceComputeCapability, ASKS)                                     \
	X(cuDevicePrimaryCtxGetState, ASKS)                                    \
	X(cuCtxGetCurrent, ASKS)                                               \
	X(cuCtxGetDevice, ASKS)                                                \
	X(cuCtxGetDevice_v2, ASKS)                                             \
	X(cuCtxGetFlags, ASKS)                                                 \
	X(cuCtxGetLimit, ASKS)                                                 \
	X(cuCtxGetApiVersion, ASKS)                                            \
	X(cuCtxGetId, ASKS)                                                    \
	X(cuCtxGetStreamPriorityRange, ASKS)                                   \
	X(cuStreamQuery, ASKS)                                                 \
	X(cuStreamGetCtx, ASKS)                                                \
	X(cuStreamGetId, ASKS)                                                 \
	X(cuStreamGetPriority, ASKS)                                           \
	X(cuStreamGetFlags, ASKS)                                              \
	X(cuStreamGetDevice, ASKS)                                             \
	X(cuStreamIsCapturing, ASKS)                                           \
	X(cuStreamGetCaptureInfo, ASKS)                                        \
	X(cuStreamGetCaptureInfo_v2, ASKS)                                     \
	X(cuStreamGetCaptureInfo_v3, ASKS)                                     \
	X(cuDeviceGetGraphMemAttribute, ASKS)                                  \
	X(cuGraphMemcpyNodeGetParams, ASKS)                                    \
	X(cuGraphMemsetNodeGetParams, ASKS)                                    \
	X(cuGraphGetNodes, ASKS)                                               \
	X(cuGraphNodeGetType, ASKS)                                            \
	X(cuGraphGetEdges, ASKS)                                               \
	X(cuGraphGetEdges_v2, ASKS)                                            \
	X(cuGraphDebugDotPrint, ASKS)                                          \
	X(cuEventQuery, ASKS)                                                  \
	X(cuEventElapsedTime, ASKS)                                            \
	X(cuEventElapsedTime_v2, ASKS)                                         \
	X(cuMemGetInfo_v2, ASKS)                                               \
	X(cuMemGetAddressRange_v2, ASKS)                                       \
	X(cuPointerGetAttribute, ASKS)                                         \
	X(cuPointerGetAttributes, ASKS)                                        \
	X(cuMemGetAccess, ASKS)                                                \
	X(cuMemGetAllocationGranularity, ASKS)                                 \
	X(cuDeviceGetDefaultMemPool, ASKS)                                     \
	X(cuDeviceGetMemPool, ASKS)                                            \
	X(cuMemGetDefaultMemPool, ASKS)                                        \
	X(cuMemGetMemPool, ASKS)                                               \
	X(cuMemPoolGetAttribute, ASKS)                                         \
	X(cuMemPoolGetAccess, ASKS)                                            \
	X(cuMemHostGetDevicePointer_v2, ASKS)                                  \
	X(cuMemHostGetFlags, ASKS)                                             \
	X(cuModuleGetLoadingMode, ASKS)                                        \
	X(cuModuleGetFunction, ASKS)                                           \
	X(cuFuncGetParamInfo, ASKS)                                            \
	X(cuMemGetAllocationPropertiesFromHandle, ASKS)
/* clang-format on */

#endif
