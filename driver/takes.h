/*
 * The device memory that each call of the driver takes, and whether it may run
 * while a device sleeps: every row of DRIVER_CALLS has one here, so that no new
 * call takes memory unseen by a limit, or touches memory that has left.
 * tests/preload/limits_test.c and held_test.c walk both lists.
 *
 * X(symbol, kind, asleep)
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
 *
 * asleep  while a device sleeps under --may-sleep:
 *
 *       HELD     the device may read or write memory that weir serves, or moves
 *                pages of managed memory to the device: the preload's hook
 *                waits, or fails (preload/watching/held.c)
 *       WAITS    a request for memory that weir serves, which waits in the
 *                library, or fails
 *       RUNS     it has nothing to do with such memory but its address. What
 *                the driver serves, arrays and host memory stay where they are
 */
#ifndef DRIVER_TAKES_H
#define DRIVER_TAKES_H

/* clang-format off */
#define DRIVER_TAKES(X)                                                        \
	X(cuMemAlloc_v2, plain, WAITS)                                         \
	X(cuMemAllocPitch_v2, plain, WAITS)                                    \
	X(cuMemAllocAsync, pooled, WAITS)                                      \
	X(cuMemAllocFromPoolAsync, pooled, WAITS)                              \
	X(cuMemCreate, handles, RUNS)                                          \
	X(cuMemAllocManaged, managed, RUNS)                                    \
	X(cuArrayCreate_v2, arrays, RUNS)                                      \
	X(cuArray3DCreate_v2, arrays, RUNS)                                    \
	X(cuMipmappedArrayCreate, arrays, RUNS)                                \
	X(cuGraphAddMemAllocNode, graphs, RUNS)                                \
	X(cuGraphAddNode, graphs, RUNS)                                        \
	X(cuGraphAddNode_v2, graphs, RUNS)                                     \
	X(cuGraphInstantiateWithFlags, graphs, RUNS)                           \
	X(cuGraphInstantiateWithParams, graphs, RUNS)                          \
	X(cuGraphUpload, graphs, HELD)                                         \
	X(cuGraphLaunch, graphs, HELD)                                         \
	X(cuImportExternalMemory, external, RUNS)                              \
	X(cuMemPoolImportPointer, imported, RUNS)                              \
	X(cuIpcOpenMemHandle, imported, RUNS)                                  \
	X(cuIpcOpenMemHandle_v2, imported, RUNS)                               \
	X(cuMemImportFromShareableHandle, imported, RUNS)                      \
	X(cuDevicePrimaryCtxRetain, contexts, RUNS)                            \
	X(cuCtxCreate_v2, contexts, RUNS)                                      \
	X(cuCtxCreate_v4, contexts, RUNS)                                      \
	X(cuCtxSetLimit, contexts, RUNS)                                       \
	X(cuModuleLoad, contexts, RUNS)                                        \
	X(cuModuleLoadData, contexts, RUNS)                                    \
	X(cuModuleLoadDataEx, contexts, RUNS)                                  \
	X(cuModuleLoadFatBinary, contexts, RUNS)                               \
	X(cuDevicePrimaryCtxRelease, RELEASE, RUNS)                            \
	X(cuDevicePrimaryCtxRelease_v2, RELEASE, RUNS)                         \
	X(cuDevicePrimaryCtxReset, RELEASE, RUNS)                              \
	X(cuDevicePrimaryCtxReset_v2, RELEASE, RUNS)                           \
	X(cuCtxDestroy, RELEASE, RUNS)                                         \
	X(cuCtxDestroy_v2, RELEASE, RUNS)                                      \
	X(cuGreenCtxDestroy, RELEASE, RUNS)                                    \
	X(cuStreamDestroy, RELEASE, RUNS)                                      \
	X(cuStreamDestroy_v2, RELEASE, RUNS)                                   \
	X(cuDeviceGraphMemTrim, RELEASE, RUNS)                                 \
	X(cuGraphDestroy, RELEASE, RUNS)                                       \
	X(cuGraphExecDestroy, RELEASE, RUNS)                                   \
	X(cuEventDestroy, RELEASE, RUNS)                                       \
	X(cuEventDestroy_v2, RELEASE, RUNS)                                    \
	X(cuArrayDestroy, RELEASE, RUNS)                                       \
	X(cuMipmappedArrayDestroy, RELEASE, RUNS)                              \
	X(cuDestroyExternalMemory, RELEASE, RUNS)                              \
	X(cuMemFree_v2, RELEASE, RUNS)                                         \
	X(cuMemRelease, RELEASE, RUNS)                                         \
	X(cuMemUnmap, RELEASE, RUNS)                                           \
	X(cuMemFreeAsync, RELEASE, RUNS)                                       \
	X(cuMemPoolDestroy, RELEASE, RUNS)                                     \
	X(cuMemPoolTrimTo, RELEASE, RUNS)                                      \
	X(cuMemFreeHost, RELEASE, RUNS)                                        \
	X(cuModuleUnload, RELEASE, RUNS)                                       \
	X(cuIpcCloseMemHandle, RELEASE, RUNS)                                  \
	X(cuMemHostAlloc, HOST, RUNS)                                          \
	X(cuMemAllocHost_v2, HOST, RUNS)                                       \
	X(cuMemHostRegister, HOST, RUNS)                                       \
	X(cuMemHostRegister_v2, HOST, RUNS)                                    \
	X(cuMemHostUnregister, HOST, RUNS)                                     \
	X(cuStreamAddCallback, WORK, RUNS)                                     \
	X(cuLaunchHostFunc, WORK, RUNS)                                        \
	X(cuStreamWaitValue32, WORK, HELD)                                     \
	X(cuStreamWaitValue32_v2, WORK, HELD)                                  \
	X(cuStreamWriteValue32, WORK, HELD)                                    \
	X(cuStreamWriteValue32_v2, WORK, HELD)                                 \
	X(cuStreamWaitValue64_v2, WORK, HELD)                                  \
	X(cuStreamWriteValue64_v2, WORK, HELD)                                 \
	X(cuMemPrefetchAsync, WORK, HELD)                                      \
	X(cuMemPrefetchAsync_v2, WORK, HELD)                                   \
	X(cuMemAdvise, WORK, HELD)                                             \
	X(cuMemAdvise_v2, WORK, HELD)                                          \
	X(cuMemcpy, WORK, HELD)                                                \
	X(cuMemcpyHtoD_v2, WORK, HELD)                                         \
	X(cuMemcpyDtoH_v2, WORK, HELD)                                         \
	X(cuMemcpyDtoD_v2, WORK, HELD)                                         \
	X(cuMemcpyPeer, WORK, HELD)                                            \
	X(cuMemcpyAsync, WORK, HELD)                                           \
	X(cuMemcpyHtoDAsync_v2, WORK, HELD)                                    \
	X(cuMemcpyDtoHAsync_v2, WORK, HELD)                                    \
	X(cuMemcpyDtoDAsync_v2, WORK, HELD)                                    \
	X(cuMemcpy2D_v2, WORK, HELD)                                           \
	X(cuMemcpy2DUnaligned_v2, WORK, HELD)                                  \
	X(cuMemcpy3D_v2, WORK, HELD)                                           \
	X(cuMemcpy2DAsync_v2, WORK, HELD)                                      \
	X(cuMemcpy3DAsync_v2, WORK, HELD)                                      \
	X(cuMemcpy3DPeer, WORK, HELD)                                          \
	X(cuMemcpy3DPeerAsync, WORK, HELD)                                     \
	X(cuMemsetD2D8_v2, WORK, HELD)                                         \
	X(cuMemsetD2D8Async, WORK, HELD)                                       \
	X(cuMemsetD2D16_v2, WORK, HELD)                                        \
	X(cuMemsetD2D16Async, WORK, HELD)                                      \
	X(cuMemsetD2D32_v2, WORK, HELD)                                        \
	X(cuMemsetD2D32Async, WORK, HELD)                                      \
	X(cuMemcpyPeerAsync, WORK, HELD)                                       \
	X(cuMemsetD8_v2, WORK, HELD)                                           \
	X(cuMemsetD16_v2, WORK, HELD)                                          \
	X(cuMemsetD32_v2, WORK, HELD)                                          \
	X(cuMemsetD8Async, WORK, HELD)                                         \
	X(cuMemsetD16Async, WORK, HELD)                                        \
	X(cuMemsetD32Async, WORK, HELD)                                        \
	X(cuLaunchKernel, WORK, HELD)                                          \
	X(cuLaunchCooperativeKernel, WORK, HELD)                               \
	X(cuLaunchKernelEx, WORK, HELD)                                        \
	X(cuStreamWaitValue64, WORK, HELD)                                     \
	X(cuStreamWriteValue64, WORK, HELD)                                    \
	X(cuStreamBatchMemOp, WORK, HELD)                                      \
	X(cuStreamBatchMemOp_v2, WORK, HELD)                                   \
	X(cuMemcpyDtoA_v2, WORK, HELD)                                         \
	X(cuMemcpyAtoD_v2, WORK, HELD)                                         \
	X(cuMemcpyBatchAsync, WORK, HELD)                                      \
	X(cuMemcpyBatchAsync_v2, WORK, HELD)                                   \
	X(cuMemcpy3DBatchAsync, WORK, HELD)                                    \
	X(cuMemcpy3DBatchAsync_v2, WORK, HELD)                                 \
	X(cuMemBatchDecompressAsync, WORK, HELD)                               \
	X(cuMemPrefetchBatchAsync, WORK, HELD)                                 \
	X(cuMemDiscardBatchAsync, WORK, HELD)                                  \
	X(cuMemDiscardAndPrefetchBatchAsync, WORK, HELD)                       \
	X(cuLaunch, WORK, HELD)                                                \
	X(cuLaunchGrid, WORK, HELD)                                            \
	X(cuLaunchGridAsync, WORK, HELD)                                       \
	X(cuLaunchCooperativeKernelMultiDevice, WORK, HELD)                    \
	X(cuPointerSetAttribute, NAMES, RUNS)                                  \
	X(cuMemAddressReserve, NAMES, RUNS)                                    \
	X(cuMemAddressFree, NAMES, RUNS)                                       \
	X(cuMemMap, NAMES, RUNS)                                               \
	X(cuMemSetAccess, NAMES, RUNS)                                         \
	X(cuMulticastBindAddr, NAMES, RUNS)                                    \
	X(cuMulticastBindMem, NAMES, RUNS)                                     \
	X(cuMemExportToShareableHandle, NAMES, RUNS)                           \
	X(cuMemRetainAllocationHandle, NAMES, RUNS)                            \
	X(cuDeviceSetMemPool, NAMES, RUNS)                                     \
	X(cuMemSetMemPool, NAMES, RUNS)                                        \
	X(cuMemPoolCreate, NAMES, RUNS)                                        \
	X(cuMemPoolSetAttribute, NAMES, RUNS)                                  \
	X(cuMemPoolSetAccess, NAMES, RUNS)                                     \
	X(cuMemPoolExportPointer, NAMES, RUNS)                                 \
	X(cuMemGetHandleForAddressRange, NAMES, RUNS)                          \
	X(cuIpcGetMemHandle, NAMES, RUNS)                                      \
	X(cuIpcGetEventHandle, NAMES, RUNS)                                    \
	X(cuIpcOpenEventHandle, NAMES, RUNS)                                   \
	X(cuMemPoolExportToShareableHandle, NAMES, RUNS)                       \
	X(cuMemPoolImportFromShareableHandle, NAMES, RUNS)                     \
	X(cuInit, ORDER, RUNS)                                                 \
	X(cuDevicePrimaryCtxSetFlags, ORDER, RUNS)                             \
	X(cuDevicePrimaryCtxSetFlags_v2, ORDER, RUNS)                          \
	X(cuCtxSetCurrent, ORDER, RUNS)                                        \
	X(cuCtxPushCurrent_v2, ORDER, RUNS)                                    \
	X(cuCtxPopCurrent_v2, ORDER, RUNS)                                     \
	X(cuCtxSynchronize, ORDER, RUNS)                                       \
	X(cuCtxSynchronize_v2, ORDER, RUNS)                                    \
	X(cuCtxRecordEvent, ORDER, RUNS)                                       \
	X(cuCtxEnablePeerAccess, ORDER, RUNS)                                  \
	X(cuCtxDisablePeerAccess, ORDER, RUNS)                                 \
	X(cuStreamCreate, ORDER, RUNS)                                         \
	X(cuStreamCreateWithPriority, ORDER, RUNS)                             \
	X(cuGreenCtxStreamCreate, ORDER, RUNS)                                 \
	X(cuStreamSynchronize, ORDER, RUNS)                                    \
	X(cuStreamWaitEvent, ORDER, RUNS)                                      \
	X(cuStreamBeginCapture, ORDER, RUNS)                                   \
	X(cuStreamBeginCapture_v2, ORDER, RUNS)                                \
	X(cuStreamBeginCaptureToGraph, ORDER, RUNS)                            \
	X(cuStreamEndCapture, ORDER, RUNS)                                     \
	X(cuGraphCreate, ORDER, RUNS)                                          \
	X(cuGraphInstantiate_v2, ORDER, RUNS)                                  \
	X(cuGraphAddEmptyNode, ORDER, RUNS)                                    \
	X(cuGraphAddMemcpyNode, ORDER, RUNS)                                   \
	X(cuGraphAddMemsetNode, ORDER, RUNS)                                   \
	X(cuGraphAddKernelNode_v2, ORDER, RUNS)                                \
	X(cuGraphAddHostNode, ORDER, RUNS)                                     \
	X(cuGraphMemcpyNodeSetParams, ORDER, RUNS)                             \
	X(cuGraphMemsetNodeSetParams, ORDER, RUNS)                             \
	X(cuGraphExecHostNodeSetParams, ORDER, RUNS)                           \
	X(cuGraphExecUpdate_v2, ORDER, RUNS)                                   \
	X(cuEventCreate, ORDER, RUNS)                                          \
	X(cuEventRecord, ORDER, RUNS)                                          \
	X(cuEventRecordWithFlags, ORDER, RUNS)                                 \
	X(cuEventSynchronize, ORDER, RUNS)                                     \
	X(cuStreamUpdateCaptureDependencies, ORDER, RUNS)                      \
	X(cuStreamUpdateCaptureDependencies_v2, ORDER, RUNS)                   \
	X(cuThreadExchangeStreamCaptureMode, ORDER, RUNS)                      \
	X(cuGraphExecMemcpyNodeSetParams, ORDER, RUNS)                         \
	X(cuGraphExecMemsetNodeSetParams, ORDER, RUNS)                         \
	X(cuGraphExecKernelNodeSetParams_v2, ORDER, RUNS)                      \
	X(cuDeviceTotalMem_v2, ASKS, RUNS)                                     \
	X(cuDriverGetVersion, ASKS, RUNS)                                      \
	X(cuGetErrorName, ASKS, RUNS)                                          \
	X(cuGetErrorString, ASKS, RUNS)                                        \
	X(cuGetProcAddress, ASKS, RUNS)                                        \
	X(cuGetProcAddress_v2, ASKS, RUNS)                                     \
	X(cuGetExportTable, ASKS, RUNS)                                        \
	X(cuDeviceGet, ASKS, RUNS)                                             \
	X(cuDeviceGetCount, ASKS, RUNS)                                        \
	X(cuDeviceGetName, ASKS, RUNS)                                         \
	X(cuDeviceGetAttribute, ASKS, RUNS)                                    \
	X(cuDeviceGetUuid, ASKS, RUNS)                                         \
	X(cuDeviceGetUuid_v2, ASKS, RUNS)                                      \
	X(cuDeviceCanAccessPeer, ASKS, RUNS)                                   \
	X(cuDeviceGetPCIBusId, ASKS, RUNS)                                     \
	X(cuDeviceGetByPCIBusId, ASKS, RUNS)                                   \
	X(cuDeviceComputeCapability, ASKS, RUNS)                               \
	X(cuDevicePrimaryCtxGetState, ASKS, RUNS)                              \
	X(cuCtxGetCurrent, ASKS, RUNS)                                         \
	X(cuCtxGetDevice, ASKS, RUNS)                                          \
	X(cuCtxGetDevice_v2, ASKS, RUNS)                                       \
	X(cuCtxGetFlags, ASKS, RUNS)                                           \
	X(cuCtxGetLimit, ASKS, RUNS)                                           \
	X(cuCtxGetApiVersion, ASKS, RUNS)                                      \
	X(cuCtxGetId, ASKS, RUNS)                                              \
	X(cuCtxGetStreamPriorityRange, ASKS, RUNS)                             \
	X(cuStreamQuery, ASKS, RUNS)                                           \
	X(cuStreamGetCtx, ASKS, RUNS)                                          \
	X(cuStreamGetId, ASKS, RUNS)                                           \
	X(cuStreamGetPriority, ASKS, RUNS)                                     \
	X(cuStreamGetFlags, ASKS, RUNS)                                        \
	X(cuStreamGetDevice, ASKS, RUNS)                                       \
	X(cuStreamIsCapturing, ASKS, RUNS)                                     \
	X(cuStreamGetCaptureInfo, ASKS, RUNS)                                  \
	X(cuStreamGetCaptureInfo_v2, ASKS, RUNS)                               \
	X(cuStreamGetCaptureInfo_v3, ASKS, RUNS)                               \
	X(cuDeviceGetGraphMemAttribute, ASKS, RUNS)                            \
	X(cuGraphMemcpyNodeGetParams, ASKS, RUNS)                              \
	X(cuGraphMemsetNodeGetParams, ASKS, RUNS)                              \
	X(cuGraphGetNodes, ASKS, RUNS)                                         \
	X(cuGraphNodeGetType, ASKS, RUNS)                                      \
	X(cuGraphGetEdges, ASKS, RUNS)                                         \
	X(cuGraphGetEdges_v2, ASKS, RUNS)                                      \
	X(cuGraphDebugDotPrint, ASKS, RUNS)                                    \
	X(cuEventQuery, ASKS, RUNS)                                            \
	X(cuEventElapsedTime, ASKS, RUNS)                                      \
	X(cuEventElapsedTime_v2, ASKS, RUNS)                                   \
	X(cuMemGetInfo_v2, ASKS, RUNS)                                         \
	X(cuMemGetAddressRange_v2, ASKS, RUNS)                                 \
	X(cuPointerGetAttribute, ASKS, RUNS)                                   \
	X(cuPointerGetAttributes, ASKS, RUNS)                                  \
	X(cuMemGetAccess, ASKS, RUNS)                                          \
	X(cuMemGetAllocationGranularity, ASKS, RUNS)                           \
	X(cuDeviceGetDefaultMemPool, ASKS, RUNS)                               \
	X(cuDeviceGetMemPool, ASKS, RUNS)                                      \
	X(cuMemGetDefaultMemPool, ASKS, RUNS)                                  \
	X(cuMemGetMemPool, ASKS, RUNS)                                         \
	X(cuMemPoolGetAttribute, ASKS, RUNS)                                   \
	X(cuMemPoolGetAccess, ASKS, RUNS)                                      \
	X(cuMemHostGetDevicePointer_v2, ASKS, RUNS)                            \
	X(cuMemHostGetFlags, ASKS, RUNS)                                       \
	X(cuModuleGetLoadingMode, ASKS, RUNS)                                  \
	X(cuModuleGetFunction, ASKS, RUNS)                                     \
	X(cuFuncGetParamInfo, ASKS, RUNS)                                      \
	X(cuMemGetAllocationPropertiesFromHandle, ASKS, RUNS)
/* clang-format on */

#endif
