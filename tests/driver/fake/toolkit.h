/*
 * The toolkit's <cuda.h>, compared with driver/abi.h.
 *
 * fake/toolkit.so is compiled from the toolkit's header and abi_test from
 * weir's, both with the lists below: constants by value, types by size, members
 * by offset. The calls are compared in toolkit.c, which sees both: their lists
 * are read with the toolkit's types.
 */
#ifndef WEIR_TESTS_DRIVER_FAKE_TOOLKIT_H
#define WEIR_TESTS_DRIVER_FAKE_TOOLKIT_H

#include <stdbool.h>

/* A constant, or a size or an offset in bytes. */
struct fact {
	const char *name;
	long long value;
};

/* A call; its signature was compared, or the toolkit is too old. */
struct signature {
	const char *name;
	int version;
	bool same;
};

/* The contents of toolkit.so. Without the toolkit the lists are empty. */
struct toolkit {
	int version; /* CUDA_VERSION; 0 without the toolkit */
	const struct fact *facts;
	int n_facts;
	const struct signature *signatures;
	int n_signatures;
};

/* clang-format off */
/* Constants that are in no list of driver/lists.h. */
#define ABI_CONSTANTS(X)                                                       \
	X(CU_JIT_MAX_REGISTERS)                                                \
	X(CU_IPC_HANDLE_SIZE)                                                  \
	X(CU_DEVICE_CPU)                                                       \
	X(CU_DEVICE_INVALID)                                                   \
	X(CU_MEMHOSTALLOC_PORTABLE)                                            \
	X(CU_MEMHOSTALLOC_DEVICEMAP)                                           \
	X(CU_MEMHOSTALLOC_WRITECOMBINED)                                       \
	X(CU_MEMHOSTREGISTER_PORTABLE)                                         \
	X(CU_MEMHOSTREGISTER_DEVICEMAP)                                        \
	X(CU_MEMHOSTREGISTER_IOMEMORY)                                         \
	X(CU_MEMHOSTREGISTER_READ_ONLY)                                        \
	X(CU_CTX_SCHED_AUTO)                                                   \
	X(CU_CTX_SCHED_SPIN)                                                   \
	X(CU_CTX_SCHED_YIELD)                                                  \
	X(CU_CTX_SCHED_BLOCKING_SYNC)                                          \
	X(CU_CTX_SCHED_MASK)                                                   \
	X(CU_CTX_MAP_HOST)                                                     \
	X(CU_CTX_LMEM_RESIZE_TO_MAX)                                           \
	X(CU_CTX_FLAGS_MASK)                                                   \
	X(CU_STREAM_DEFAULT)                                                   \
	X(CU_STREAM_NON_BLOCKING)                                              \
	X(CU_EVENT_DEFAULT)                                                    \
	X(CU_EVENT_BLOCKING_SYNC)                                              \
	X(CU_EVENT_DISABLE_TIMING)                                             \
	X(CU_EVENT_INTERPROCESS)                                               \
	X(CU_EVENT_RECORD_DEFAULT)                                             \
	X(CU_EVENT_RECORD_EXTERNAL)                                            \
	X(CU_EVENT_WAIT_DEFAULT)                                               \
	X(CU_EVENT_WAIT_EXTERNAL)                                              \
	X(CU_STREAM_CAPTURE_STATUS_NONE)                                       \
	X(CU_STREAM_CAPTURE_STATUS_ACTIVE)                                     \
	X(CU_STREAM_CAPTURE_STATUS_INVALIDATED)                                \
	X(CU_STREAM_CAPTURE_MODE_GLOBAL)                                       \
	X(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)                                 \
	X(CU_STREAM_CAPTURE_MODE_RELAXED)                                      \
	X(CU_STREAM_ADD_CAPTURE_DEPENDENCIES)                                  \
	X(CU_STREAM_SET_CAPTURE_DEPENDENCIES)                                  \
	X(CU_STREAM_WAIT_VALUE_GEQ)                                            \
	X(CU_STREAM_WAIT_VALUE_EQ)                                             \
	X(CU_STREAM_WAIT_VALUE_AND)                                            \
	X(CU_STREAM_WAIT_VALUE_NOR)                                            \
	X(CU_STREAM_WAIT_VALUE_FLUSH)                                          \
	X(CU_STREAM_WRITE_VALUE_DEFAULT)                                       \
	X(CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER)                             \
	X(CU_GRAPH_NODE_TYPE_KERNEL)                                           \
	X(CU_GRAPH_NODE_TYPE_MEMCPY)                                           \
	X(CU_GRAPH_NODE_TYPE_MEMSET)                                           \
	X(CU_GRAPH_NODE_TYPE_HOST)                                             \
	X(CU_GRAPH_NODE_TYPE_GRAPH)                                            \
	X(CU_GRAPH_NODE_TYPE_EMPTY)                                            \
	X(CU_GRAPH_NODE_TYPE_WAIT_EVENT)                                       \
	X(CU_GRAPH_NODE_TYPE_EVENT_RECORD)                                     \
	X(CU_GRAPH_NODE_TYPE_MEM_ALLOC)                                        \
	X(CU_GRAPH_NODE_TYPE_MEM_FREE)                                         \
	X(CU_GRAPH_NODE_TYPE_BATCH_MEM_OP)                                     \
	X(CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH)                     \
	X(CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD)                                  \
	X(CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH)                           \
	X(CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY)                       \
	X(CU_GRAPH_EXEC_UPDATE_SUCCESS)                                        \
	X(CU_GRAPH_EXEC_UPDATE_ERROR)                                          \
	X(CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED)                         \
	X(CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED)                        \
	X(CU_GRAPH_EXEC_UPDATE_ERROR_FUNCTION_CHANGED)                         \
	X(CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED)                       \
	X(CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED)                            \
	X(CU_GRAPH_EXEC_UPDATE_ERROR_UNSUPPORTED_FUNCTION_CHANGE)              \
	X(CU_GRAPH_EXEC_UPDATE_ERROR_ATTRIBUTES_CHANGED)                       \
	X(CU_GET_PROC_ADDRESS_DEFAULT)                                         \
	X(CU_GET_PROC_ADDRESS_LEGACY_STREAM)                                   \
	X(CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM)                       \
	X(CU_GET_PROC_ADDRESS_SUCCESS)                                         \
	X(CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND)                                \
	X(CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT)                          \
	X(CU_MEMORYTYPE_HOST)                                                  \
	X(CU_MEMORYTYPE_DEVICE)                                                \
	X(CU_MEMORYTYPE_ARRAY)                                                 \
	X(CU_MEMORYTYPE_UNIFIED)                                               \
	X(CU_MEM_ATTACH_GLOBAL)                                                \
	X(CU_MEM_ATTACH_HOST)                                                  \
	X(CU_MEM_ATTACH_SINGLE)                                                \
	X(CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)                                  \
	X(CU_MEM_ALLOCATION_TYPE_INVALID)                                      \
	X(CU_MEM_ALLOCATION_TYPE_PINNED)                                       \
	X(CU_MEM_ALLOCATION_TYPE_MAX)                                          \
	X(CU_MEM_HANDLE_TYPE_NONE)                                             \
	X(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)                            \
	X(CU_MEM_HANDLE_TYPE_WIN32)                                            \
	X(CU_MEM_HANDLE_TYPE_WIN32_KMT)                                        \
	X(CU_MEM_HANDLE_TYPE_FABRIC)                                           \
	X(CU_MEM_HANDLE_TYPE_MAX)                                              \
	X(CU_MEM_ACCESS_FLAGS_PROT_NONE)                                       \
	X(CU_MEM_ACCESS_FLAGS_PROT_READ)                                       \
	X(CU_MEM_ACCESS_FLAGS_PROT_READWRITE)                                  \
	X(CU_MEM_ACCESS_FLAGS_PROT_MAX)                                        \
	X(CU_MEM_LOCATION_TYPE_INVALID)                                        \
	X(CU_MEM_LOCATION_TYPE_DEVICE)                                         \
	X(CU_MEM_LOCATION_TYPE_HOST)                                           \
	X(CU_MEM_LOCATION_TYPE_HOST_NUMA)                                      \
	X(CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT)                              \
	X(CU_MEM_LOCATION_TYPE_MAX)                                            \
	X(CU_MEM_ALLOC_GRANULARITY_MINIMUM)                                    \
	X(CU_MEM_ALLOC_GRANULARITY_RECOMMENDED)                                \
	X(CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES)                     \
	X(CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC)                           \
	X(CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES)                   \
	X(CU_MEMPOOL_ATTR_RELEASE_THRESHOLD)                                   \
	X(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT)                                \
	X(CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH)                                   \
	X(CU_MEMPOOL_ATTR_USED_MEM_CURRENT)                                    \
	X(CU_MEMPOOL_ATTR_USED_MEM_HIGH)                                       \
	X(CU_POINTER_ATTRIBUTE_CONTEXT)                                        \
	X(CU_POINTER_ATTRIBUTE_MEMORY_TYPE)                                    \
	X(CU_POINTER_ATTRIBUTE_DEVICE_POINTER)                                 \
	X(CU_POINTER_ATTRIBUTE_HOST_POINTER)                                   \
	X(CU_POINTER_ATTRIBUTE_SYNC_MEMOPS)                                    \
	X(CU_POINTER_ATTRIBUTE_BUFFER_ID)                                      \
	X(CU_POINTER_ATTRIBUTE_IS_MANAGED)                                     \
	X(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)                                 \
	X(CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE)                     \
	X(CU_POINTER_ATTRIBUTE_RANGE_START_ADDR)                               \
	X(CU_POINTER_ATTRIBUTE_RANGE_SIZE)                                     \
	X(CU_POINTER_ATTRIBUTE_MAPPED)                                         \
	X(CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES)                           \
	X(CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE)                     \
	X(CU_POINTER_ATTRIBUTE_ACCESS_FLAGS)                                   \
	X(CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE)                                 \
	X(CU_POINTER_ATTRIBUTE_MAPPING_SIZE)                                   \
	X(CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR)                              \
	X(CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID)

/* Types. */
#define ABI_TYPES(X)                                                           \
	X(CUdevice)                                                            \
	X(CUdeviceptr)                                                         \
	X(CUmemGenericAllocationHandle)                                        \
	X(cuuint32_t)                                                          \
	X(cuuint64_t)                                                          \
	X(CUresult)                                                            \
	X(CUjit_option)                                                        \
	X(CUctx_flags)                                                         \
	X(CUstream_flags)                                                      \
	X(CUevent_flags)                                                       \
	X(CUevent_record_flags)                                                \
	X(CUevent_wait_flags)                                                  \
	X(CUstreamCaptureStatus)                                               \
	X(CUstreamCaptureMode)                                                 \
	X(CUstreamUpdateCaptureDependencies_flags)                             \
	X(CUstreamWaitValue_flags)                                             \
	X(CUstreamWriteValue_flags)                                            \
	X(CUgraphNodeType)                                                     \
	X(CUgraphInstantiate_flags)                                            \
	X(CUdriverProcAddress_flags)                                           \
	X(CUdriverProcAddressQueryResult)                                      \
	X(CUmemorytype)                                                        \
	X(CUmemAttach_flags)                                                   \
	X(CUipcMem_flags)                                                      \
	X(CUmemAllocationType)                                                 \
	X(CUmemAllocationHandleType)                                           \
	X(CUmemAccess_flags)                                                   \
	X(CUmemLocationType)                                                   \
	X(CUmemAllocationGranularity_flags)                                    \
	X(CUmemPool_attribute)                                                 \
	X(CUpointer_attribute)                                                 \
	X(CUdevice_attribute)                                                  \
	X(CUuuid)                                                              \
	X(CUipcMemHandle)                                                      \
	X(CUipcEventHandle)                                                    \
	X(CUmemLocation)                                                       \
	X(CUmemAllocationProp)                                                 \
	X(CUmemAccessDesc)                                                     \
	X(CUmemPoolProps)                                                      \
	X(CUmemPoolPtrExportData)                                              \
	X(CUgraphEdgeData)                                                     \
	X(CUgraphExecUpdateResult)                                             \
	X(CUgraphExecUpdateResultInfo)                                         \
	X(CUDA_MEMCPY2D)                                                       \
	X(CUDA_MEMCPY3D)                                                       \
	X(CUDA_MEMCPY3D_PEER)                                                  \
	X(CUDA_MEMSET_NODE_PARAMS)                                             \
	X(CUDA_KERNEL_NODE_PARAMS)                                             \
	X(CUDA_HOST_NODE_PARAMS)                                               \
	X(CUcontext)                                                           \
	X(CUmodule)                                                            \
	X(CUfunction)                                                          \
	X(CUstream)                                                            \
	X(CUevent)                                                             \
	X(CUgraph)                                                             \
	X(CUgraphNode)                                                         \
	X(CUgraphExec)                                                         \
	X(CUmemoryPool)                                                        \
	X(CUarray)                                                             \
	X(CUkernel)

/* Members, as X(type, member). */
#define ABI_MEMBERS(X)                                                         \
	X(CUuuid, bytes)                                                       \
	X(CUipcMemHandle, reserved)                                            \
	X(CUipcEventHandle, reserved)                                          \
	X(CUmemLocation, type)                                                 \
	X(CUmemLocation, id)                                                   \
	X(CUmemAllocationProp, allocFlags.compressionType)                     \
	X(CUmemAllocationProp, allocFlags.gpuDirectRDMACapable)                \
	X(CUmemAllocationProp, allocFlags.usage)                               \
	X(CUmemAllocationProp, allocFlags.reserved)                            \
	X(CUmemAllocationProp, type)                                           \
	X(CUmemAllocationProp, requestedHandleTypes)                           \
	X(CUmemAllocationProp, location)                                       \
	X(CUmemAllocationProp, win32HandleMetaData)                            \
	X(CUmemAccessDesc, location)                                           \
	X(CUmemAccessDesc, flags)                                              \
	X(CUmemPoolProps, allocType)                                           \
	X(CUmemPoolProps, handleTypes)                                         \
	X(CUmemPoolProps, location)                                            \
	X(CUmemPoolProps, win32SecurityAttributes)                             \
	X(CUmemPoolProps, maxSize)                                             \
	X(CUmemPoolProps, usage)                                               \
	X(CUmemPoolProps, reserved)                                            \
	X(CUmemPoolPtrExportData, reserved)                                    \
	X(CUgraphEdgeData, from_port)                                          \
	X(CUgraphEdgeData, to_port)                                            \
	X(CUgraphEdgeData, type)                                               \
	X(CUgraphEdgeData, reserved)                                           \
	X(CUgraphExecUpdateResultInfo, result)                                 \
	X(CUgraphExecUpdateResultInfo, errorNode)                              \
	X(CUgraphExecUpdateResultInfo, errorFromNode)                          \
	X(CUDA_MEMCPY2D, srcXInBytes)                                          \
	X(CUDA_MEMCPY2D, srcY)                                                 \
	X(CUDA_MEMCPY2D, srcMemoryType)                                        \
	X(CUDA_MEMCPY2D, srcHost)                                              \
	X(CUDA_MEMCPY2D, srcDevice)                                            \
	X(CUDA_MEMCPY2D, srcArray)                                             \
	X(CUDA_MEMCPY2D, srcPitch)                                             \
	X(CUDA_MEMCPY2D, dstXInBytes)                                          \
	X(CUDA_MEMCPY2D, dstY)                                                 \
	X(CUDA_MEMCPY2D, dstMemoryType)                                        \
	X(CUDA_MEMCPY2D, dstHost)                                              \
	X(CUDA_MEMCPY2D, dstDevice)                                            \
	X(CUDA_MEMCPY2D, dstArray)                                             \
	X(CUDA_MEMCPY2D, dstPitch)                                             \
	X(CUDA_MEMCPY2D, WidthInBytes)                                         \
	X(CUDA_MEMCPY2D, Height)                                               \
	X(CUDA_MEMCPY3D, srcXInBytes)                                          \
	X(CUDA_MEMCPY3D, srcY)                                                 \
	X(CUDA_MEMCPY3D, srcZ)                                                 \
	X(CUDA_MEMCPY3D, srcLOD)                                               \
	X(CUDA_MEMCPY3D, srcMemoryType)                                        \
	X(CUDA_MEMCPY3D, srcHost)                                              \
	X(CUDA_MEMCPY3D, srcDevice)                                            \
	X(CUDA_MEMCPY3D, srcArray)                                             \
	X(CUDA_MEMCPY3D, reserved0)                                            \
	X(CUDA_MEMCPY3D, srcPitch)                                             \
	X(CUDA_MEMCPY3D, srcHeight)                                            \
	X(CUDA_MEMCPY3D, dstXInBytes)                                          \
	X(CUDA_MEMCPY3D, dstY)                                                 \
	X(CUDA_MEMCPY3D, dstZ)                                                 \
	X(CUDA_MEMCPY3D, dstLOD)                                               \
	X(CUDA_MEMCPY3D, dstMemoryType)                                        \
	X(CUDA_MEMCPY3D, dstHost)                                              \
	X(CUDA_MEMCPY3D, dstDevice)                                            \
	X(CUDA_MEMCPY3D, dstArray)                                             \
	X(CUDA_MEMCPY3D, reserved1)                                            \
	X(CUDA_MEMCPY3D, dstPitch)                                             \
	X(CUDA_MEMCPY3D, dstHeight)                                            \
	X(CUDA_MEMCPY3D, WidthInBytes)                                         \
	X(CUDA_MEMCPY3D, Height)                                               \
	X(CUDA_MEMCPY3D, Depth)                                                \
	X(CUDA_MEMCPY3D_PEER, srcXInBytes)                                     \
	X(CUDA_MEMCPY3D_PEER, srcY)                                            \
	X(CUDA_MEMCPY3D_PEER, srcZ)                                            \
	X(CUDA_MEMCPY3D_PEER, srcLOD)                                          \
	X(CUDA_MEMCPY3D_PEER, srcMemoryType)                                   \
	X(CUDA_MEMCPY3D_PEER, srcHost)                                         \
	X(CUDA_MEMCPY3D_PEER, srcDevice)                                       \
	X(CUDA_MEMCPY3D_PEER, srcArray)                                        \
	X(CUDA_MEMCPY3D_PEER, srcContext)                                      \
	X(CUDA_MEMCPY3D_PEER, srcPitch)                                        \
	X(CUDA_MEMCPY3D_PEER, srcHeight)                                       \
	X(CUDA_MEMCPY3D_PEER, dstXInBytes)                                     \
	X(CUDA_MEMCPY3D_PEER, dstY)                                            \
	X(CUDA_MEMCPY3D_PEER, dstZ)                                            \
	X(CUDA_MEMCPY3D_PEER, dstLOD)                                          \
	X(CUDA_MEMCPY3D_PEER, dstMemoryType)                                   \
	X(CUDA_MEMCPY3D_PEER, dstHost)                                         \
	X(CUDA_MEMCPY3D_PEER, dstDevice)                                       \
	X(CUDA_MEMCPY3D_PEER, dstArray)                                        \
	X(CUDA_MEMCPY3D_PEER, dstContext)                                      \
	X(CUDA_MEMCPY3D_PEER, dstPitch)                                        \
	X(CUDA_MEMCPY3D_PEER, dstHeight)                                       \
	X(CUDA_MEMCPY3D_PEER, WidthInBytes)                                    \
	X(CUDA_MEMCPY3D_PEER, Height)                                          \
	X(CUDA_MEMCPY3D_PEER, Depth)                                           \
	X(CUDA_MEMSET_NODE_PARAMS, dst)                                        \
	X(CUDA_MEMSET_NODE_PARAMS, pitch)                                      \
	X(CUDA_MEMSET_NODE_PARAMS, value)                                      \
	X(CUDA_MEMSET_NODE_PARAMS, elementSize)                                \
	X(CUDA_MEMSET_NODE_PARAMS, width)                                      \
	X(CUDA_MEMSET_NODE_PARAMS, height)                                     \
	X(CUDA_KERNEL_NODE_PARAMS, func)                                       \
	X(CUDA_KERNEL_NODE_PARAMS, gridDimX)                                   \
	X(CUDA_KERNEL_NODE_PARAMS, gridDimY)                                   \
	X(CUDA_KERNEL_NODE_PARAMS, gridDimZ)                                   \
	X(CUDA_KERNEL_NODE_PARAMS, blockDimX)                                  \
	X(CUDA_KERNEL_NODE_PARAMS, blockDimY)                                  \
	X(CUDA_KERNEL_NODE_PARAMS, blockDimZ)                                  \
	X(CUDA_KERNEL_NODE_PARAMS, sharedMemBytes)                             \
	X(CUDA_KERNEL_NODE_PARAMS, kernelParams)                               \
	X(CUDA_KERNEL_NODE_PARAMS, extra)                                      \
	X(CUDA_KERNEL_NODE_PARAMS, kern)                                       \
	X(CUDA_KERNEL_NODE_PARAMS, ctx)                                        \
	X(CUDA_HOST_NODE_PARAMS, fn)                                           \
	X(CUDA_HOST_NODE_PARAMS, userData)
/* clang-format on */

/* The facts, as given by the types that are declared at the place of use. */
#define ABI_FACT(name) { #name, (long long)(name) },
#define ABI_RESULT_FACT(name, value, text) { #name, (long long)(name) },
#define ABI_ATTRIBUTE_FACT(name, value)                                        \
	{ "CU_DEVICE_ATTRIBUTE_" #name,                                        \
		(long long)(CU_DEVICE_ATTRIBUTE_##name) },
#define ABI_SIZE_FACT(type) { "sizeof(" #type ")", (long long)sizeof(type) },
#define ABI_MEMBER_FACT(type, member)                                          \
	{ "offsetof(" #type ", " #member ")",                                  \
		(long long)offsetof(type, member) },                           \
	    { "sizeof(" #type "." #member ")",                                 \
		    (long long)sizeof(((type *)0)->member) },
#define ABI_FACTS                                                              \
	DRIVER_RESULTS(ABI_RESULT_FACT)                                        \
	DRIVER_DEVICE_ATTRIBUTES(ABI_ATTRIBUTE_FACT)                           \
	ABI_CONSTANTS(ABI_FACT)                                                \
	ABI_TYPES(ABI_SIZE_FACT)                                               \
	ABI_MEMBERS(ABI_MEMBER_FACT){ "CU_STREAM_LEGACY",                      \
		(long long)(uintptr_t)CU_STREAM_LEGACY },                      \
	    { "CU_STREAM_PER_THREAD",                                          \
		    (long long)(uintptr_t)CU_STREAM_PER_THREAD },              \
	    { "CUdeviceptr is unsigned", (CUdeviceptr)-1 > 0 },                \
	    { "CUmemGenericAllocationHandle is unsigned",                      \
		    (CUmemGenericAllocationHandle)-1 > 0 },                    \
	{                                                                      \
		"CUdevice is signed", (CUdevice)-1 < 0                         \
	}

#endif
