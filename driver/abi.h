/*
 * The part of the CUDA driver's ABI that weir speaks: types, constants and
 * entry points, by NVIDIA's names and with NVIDIA's values, declared here so
 * that no toolkit is needed. Where one is installed, tests/driver/abi_test.c
 * compares all of it with <cuda.h>.
 *
 * DRIVER_ENTRIES lists the entry points the library calls, and is also the
 * loader's table: X(name, version, required, parameters). The name is the one
 * cuGetProcAddress knows, the version the first whose signature is the one
 * given here.
 */
#ifndef DRIVER_ABI_H
#define DRIVER_ABI_H

#include <stddef.h>
#include <stdint.h>

#define CUDAAPI

typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef unsigned long long CUmemGenericAllocationHandle;
typedef unsigned long long cuuint64_t;
typedef unsigned int cuuint32_t;
typedef struct CUctx_st *CUcontext;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphNode_st *CUgraphNode;
typedef struct CUgraphExec_st *CUgraphExec;
typedef struct CUmemPoolHandle_st *CUmemoryPool;

typedef struct CUuuid_st {
	char bytes[16];
} CUuuid;

#define CU_STREAM_LEGACY ((CUstream)0x1)
#define CU_STREAM_PER_THREAD ((CUstream)0x2)

typedef enum cudaError_enum {
	CUDA_SUCCESS = 0,
	CUDA_ERROR_INVALID_VALUE = 1,
	CUDA_ERROR_OUT_OF_MEMORY = 2,
	CUDA_ERROR_NOT_INITIALIZED = 3,
	CUDA_ERROR_DEINITIALIZED = 4,
	CUDA_ERROR_STUB_LIBRARY = 34,
	CUDA_ERROR_DEVICE_UNAVAILABLE = 46,
	CUDA_ERROR_NO_DEVICE = 100,
	CUDA_ERROR_INVALID_DEVICE = 101,
	CUDA_ERROR_INVALID_IMAGE = 200,
	CUDA_ERROR_INVALID_CONTEXT = 201,
	CUDA_ERROR_MAP_FAILED = 205,
	CUDA_ERROR_UNMAP_FAILED = 206,
	CUDA_ERROR_ALREADY_MAPPED = 208,
	CUDA_ERROR_NOT_MAPPED = 211,
	CUDA_ERROR_UNSUPPORTED_LIMIT = 215,
	CUDA_ERROR_PEER_ACCESS_UNSUPPORTED = 217,
	CUDA_ERROR_INVALID_PTX = 218,
	CUDA_ERROR_INVALID_SOURCE = 300,
	CUDA_ERROR_FILE_NOT_FOUND = 301,
	CUDA_ERROR_OPERATING_SYSTEM = 304,
	CUDA_ERROR_INVALID_HANDLE = 400,
	CUDA_ERROR_ILLEGAL_STATE = 401,
	CUDA_ERROR_NOT_FOUND = 500,
	CUDA_ERROR_NOT_READY = 600,
	CUDA_ERROR_ILLEGAL_ADDRESS = 700,
	CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES = 701,
	CUDA_ERROR_LAUNCH_TIMEOUT = 702,
	CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED = 704,
	CUDA_ERROR_PEER_ACCESS_NOT_ENABLED = 705,
	CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE = 708,
	CUDA_ERROR_CONTEXT_IS_DESTROYED = 709,
	CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED = 712,
	CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED = 713,
	CUDA_ERROR_LAUNCH_FAILED = 719,
	CUDA_ERROR_NOT_PERMITTED = 800,
	CUDA_ERROR_NOT_SUPPORTED = 801,
	CUDA_ERROR_SYSTEM_NOT_READY = 802,
	CUDA_ERROR_SYSTEM_DRIVER_MISMATCH = 803,
	CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED = 900,
	CUDA_ERROR_STREAM_CAPTURE_INVALIDATED = 901,
	CUDA_ERROR_STREAM_CAPTURE_MERGE = 902,
	CUDA_ERROR_STREAM_CAPTURE_UNMATCHED = 903,
	CUDA_ERROR_STREAM_CAPTURE_UNJOINED = 904,
	CUDA_ERROR_STREAM_CAPTURE_ISOLATION = 905,
	CUDA_ERROR_STREAM_CAPTURE_IMPLICIT = 906,
	CUDA_ERROR_CAPTURED_EVENT = 907,
	CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD = 908,
	CUDA_ERROR_UNKNOWN = 999,
} CUresult;

typedef enum CUdevice_attribute_enum {
	CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16,
	CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING = 41,
	CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT = 51,
	CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75,
	CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76,
	CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED = 102,
	CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED = 103,
	CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED = 110,
	CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED = 115,
} CUdevice_attribute;

typedef enum CUpointer_attribute_enum {
	CU_POINTER_ATTRIBUTE_CONTEXT = 1,
	CU_POINTER_ATTRIBUTE_MEMORY_TYPE = 2,
	CU_POINTER_ATTRIBUTE_DEVICE_POINTER = 3,
	CU_POINTER_ATTRIBUTE_HOST_POINTER = 4,
	CU_POINTER_ATTRIBUTE_SYNC_MEMOPS = 6,
	CU_POINTER_ATTRIBUTE_BUFFER_ID = 7,
	CU_POINTER_ATTRIBUTE_IS_MANAGED = 8,
	CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL = 9,
	CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE = 10,
	CU_POINTER_ATTRIBUTE_RANGE_START_ADDR = 11,
	CU_POINTER_ATTRIBUTE_RANGE_SIZE = 12,
	CU_POINTER_ATTRIBUTE_MAPPED = 13,
	CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE = 17,
	CU_POINTER_ATTRIBUTE_MAPPING_SIZE = 18,
	CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR = 19,
} CUpointer_attribute;

typedef enum CUmemorytype_enum {
	CU_MEMORYTYPE_HOST = 1,
	CU_MEMORYTYPE_DEVICE = 2,
	CU_MEMORYTYPE_ARRAY = 3,
	CU_MEMORYTYPE_UNIFIED = 4,
} CUmemorytype;

typedef enum CUstream_flags_enum {
	CU_STREAM_DEFAULT = 0,
	CU_STREAM_NON_BLOCKING = 1,
} CUstream_flags;

typedef enum CUevent_flags_enum {
	CU_EVENT_DEFAULT = 0,
	CU_EVENT_BLOCKING_SYNC = 1,
	CU_EVENT_DISABLE_TIMING = 2,
	CU_EVENT_INTERPROCESS = 4,
} CUevent_flags;

typedef enum CUstreamCaptureStatus_enum {
	CU_STREAM_CAPTURE_STATUS_NONE = 0,
	CU_STREAM_CAPTURE_STATUS_ACTIVE = 1,
	CU_STREAM_CAPTURE_STATUS_INVALIDATED = 2,
} CUstreamCaptureStatus;

typedef enum CUstreamCaptureMode_enum {
	CU_STREAM_CAPTURE_MODE_GLOBAL = 0,
	CU_STREAM_CAPTURE_MODE_THREAD_LOCAL = 1,
	CU_STREAM_CAPTURE_MODE_RELAXED = 2,
} CUstreamCaptureMode;

typedef enum CUdriverProcAddress_flags_enum {
	CU_GET_PROC_ADDRESS_DEFAULT = 0,
	CU_GET_PROC_ADDRESS_LEGACY_STREAM = 1,
	CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM = 2,
} CUdriverProcAddress_flags;

typedef enum CUdriverProcAddressQueryResult_enum {
	CU_GET_PROC_ADDRESS_SUCCESS = 0,
	CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND = 1,
	CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT = 2,
} CUdriverProcAddressQueryResult;

enum {
	CU_MEMHOSTALLOC_PORTABLE = 1,
	CU_MEMHOSTALLOC_DEVICEMAP = 2,
	CU_MEMHOSTALLOC_WRITECOMBINED = 4,
	CU_MEMHOSTREGISTER_PORTABLE = 1,
	CU_MEMHOSTREGISTER_DEVICEMAP = 2,
};

typedef enum CUmemAllocationType_enum {
	CU_MEM_ALLOCATION_TYPE_INVALID = 0,
	CU_MEM_ALLOCATION_TYPE_PINNED = 1,
	CU_MEM_ALLOCATION_TYPE_MAX = 0x7fffffff,
} CUmemAllocationType;

typedef enum CUmemAllocationHandleType_enum {
	CU_MEM_HANDLE_TYPE_NONE = 0,
	CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR = 1,
	CU_MEM_HANDLE_TYPE_FABRIC = 8,
	CU_MEM_HANDLE_TYPE_MAX = 0x7fffffff,
} CUmemAllocationHandleType;

typedef enum CUmemLocationType_enum {
	CU_MEM_LOCATION_TYPE_INVALID = 0,
	CU_MEM_LOCATION_TYPE_DEVICE = 1,
	CU_MEM_LOCATION_TYPE_HOST = 2,
	CU_MEM_LOCATION_TYPE_HOST_NUMA = 3,
	CU_MEM_LOCATION_TYPE_MAX = 0x7fffffff,
} CUmemLocationType;

typedef enum CUmemAccess_flags_enum {
	CU_MEM_ACCESS_FLAGS_PROT_NONE = 0,
	CU_MEM_ACCESS_FLAGS_PROT_READ = 1,
	CU_MEM_ACCESS_FLAGS_PROT_READWRITE = 3,
	CU_MEM_ACCESS_FLAGS_PROT_MAX = 0x7fffffff,
} CUmemAccess_flags;

typedef enum CUmemAllocationGranularity_flags_enum {
	CU_MEM_ALLOC_GRANULARITY_MINIMUM = 0,
	CU_MEM_ALLOC_GRANULARITY_RECOMMENDED = 1,
} CUmemAllocationGranularity_flags;

typedef struct CUmemLocation_st {
	CUmemLocationType type;
	int id;
} CUmemLocation;

typedef struct CUmemAllocationProp_st {
	CUmemAllocationType type;
	CUmemAllocationHandleType requestedHandleTypes;
	CUmemLocation location;
	void *win32HandleMetaData;
	struct {
		unsigned char compressionType;
		unsigned char gpuDirectRDMACapable;
		unsigned short usage;
		unsigned char reserved[4];
	} allocFlags;
} CUmemAllocationProp;

typedef struct CUmemAccessDesc_st {
	CUmemLocation location;
	CUmemAccess_flags flags;
} CUmemAccessDesc;

typedef void(CUDAAPI *CUhostFn)(void *userData);

/* clang-format off */
#define DRIVER_ENTRIES(X)                                                      \
	X(cuInit, 2000, 1, (unsigned flags))                                   \
	X(cuDriverGetVersion, 2020, 1, (int *version))                         \
	X(cuGetErrorName, 6000, 1, (CUresult error, const char **text))        \
	X(cuGetErrorString, 6000, 1, (CUresult error, const char **text))      \
	X(cuDeviceGet, 2000, 1, (CUdevice *device, int ordinal))               \
	X(cuDeviceGetCount, 2000, 1, (int *count))                             \
	X(cuDeviceGetName, 2000, 1, (char *name, int size, CUdevice device))   \
	X(cuDeviceTotalMem, 3020, 1, (size_t *bytes, CUdevice device))         \
	X(cuDeviceGetAttribute, 2000, 1,                                       \
	  (int *value, CUdevice_attribute attribute, CUdevice device))         \
	X(cuDeviceGetUuid, 11040, 1, (CUuuid *uuid, CUdevice device))          \
	X(cuDeviceGetPCIBusId, 4010, 1, (char *id, int size, CUdevice device)) \
	X(cuDeviceCanAccessPeer, 4000, 1,                                      \
	  (int *can, CUdevice device, CUdevice peer))                          \
	X(cuDevicePrimaryCtxRetain, 7000, 1,                                   \
	  (CUcontext *context, CUdevice device))                               \
	X(cuDevicePrimaryCtxRelease, 11000, 1, (CUdevice device))              \
	X(cuDevicePrimaryCtxGetState, 7000, 1,                                 \
	  (CUdevice device, unsigned *flags, int *active))                     \
	X(cuCtxGetCurrent, 4000, 1, (CUcontext *context))                      \
	X(cuCtxSetCurrent, 4000, 1, (CUcontext context))                       \
	X(cuCtxPushCurrent, 4000, 1, (CUcontext context))                      \
	X(cuCtxPopCurrent, 4000, 1, (CUcontext *context))                      \
	X(cuCtxGetDevice, 2000, 1, (CUdevice *device))                         \
	X(cuCtxSynchronize, 2000, 1, (void))                                   \
	X(cuCtxGetStreamPriorityRange, 5050, 1, (int *least, int *greatest))   \
	X(cuCtxRecordEvent, 12050, 0, (CUcontext context, CUevent event))      \
	X(cuStreamCreateWithPriority, 5050, 1,                                 \
	  (CUstream *stream, unsigned flags, int priority))                    \
	X(cuStreamDestroy, 4000, 1, (CUstream stream))                         \
	X(cuStreamQuery, 2000, 1, (CUstream stream))                           \
	X(cuStreamSynchronize, 2000, 1, (CUstream stream))                     \
	X(cuStreamWaitEvent, 3020, 1,                                          \
	  (CUstream stream, CUevent event, unsigned flags))                    \
	X(cuStreamGetCtx, 9020, 1, (CUstream stream, CUcontext *context))      \
	X(cuStreamGetId, 12000, 0,                                             \
	  (CUstream stream, unsigned long long *id))                           \
	X(cuStreamGetPriority, 5050, 1, (CUstream stream, int *priority))      \
	X(cuStreamGetFlags, 5050, 1, (CUstream stream, unsigned *flags))       \
	X(cuStreamIsCapturing, 10000, 1,                                       \
	  (CUstream stream, CUstreamCaptureStatus *status))                    \
	X(cuThreadExchangeStreamCaptureMode, 10010, 1,                         \
	  (CUstreamCaptureMode *mode))                                         \
	X(cuStreamBeginCapture, 10010, 1,                                      \
	  (CUstream stream, CUstreamCaptureMode mode))                         \
	X(cuStreamEndCapture, 10000, 1, (CUstream stream, CUgraph *graph))     \
	X(cuGraphInstantiateWithFlags, 11040, 1,                               \
	  (CUgraphExec *exec, CUgraph graph, unsigned long long flags))        \
	X(cuGraphLaunch, 10000, 1, (CUgraphExec exec, CUstream stream))        \
	X(cuGraphDestroy, 10000, 1, (CUgraph graph))                           \
	X(cuGraphExecDestroy, 10000, 1, (CUgraphExec exec))                    \
	X(cuGraphGetNodes, 10000, 1,                                           \
	  (CUgraph graph, CUgraphNode *nodes, size_t *count))                  \
	X(cuEventCreate, 2000, 1, (CUevent *event, unsigned flags))            \
	X(cuEventDestroy, 4000, 1, (CUevent event))                            \
	X(cuEventRecord, 2000, 1, (CUevent event, CUstream stream))            \
	X(cuEventQuery, 2000, 1, (CUevent event))                              \
	X(cuEventSynchronize, 2000, 1, (CUevent event))                        \
	X(cuEventElapsedTime, 2000, 1,                                         \
	  (float *milliseconds, CUevent start, CUevent end))                   \
	X(cuMemAlloc, 3020, 1, (CUdeviceptr *ptr, size_t size))                \
	X(cuMemFree, 3020, 1, (CUdeviceptr ptr))                               \
	X(cuMemGetInfo, 3020, 1, (size_t *free_bytes, size_t *total_bytes))    \
	X(cuMemAddressReserve, 10020, 1,                                       \
	  (CUdeviceptr *ptr, size_t size, size_t alignment, CUdeviceptr addr,  \
	   unsigned long long flags))                                          \
	X(cuMemAddressFree, 10020, 1, (CUdeviceptr ptr, size_t size))          \
	X(cuMemCreate, 10020, 1,                                               \
	  (CUmemGenericAllocationHandle *handle, size_t size,                  \
	   const CUmemAllocationProp *prop, unsigned long long flags))         \
	X(cuMemRelease, 10020, 1, (CUmemGenericAllocationHandle handle))       \
	X(cuMemMap, 10020, 1,                                                  \
	  (CUdeviceptr ptr, size_t size, size_t offset,                        \
	   CUmemGenericAllocationHandle handle, unsigned long long flags))     \
	X(cuMemUnmap, 10020, 1, (CUdeviceptr ptr, size_t size))                \
	X(cuMemSetAccess, 10020, 1,                                            \
	  (CUdeviceptr ptr, size_t size, const CUmemAccessDesc *desc,          \
	   size_t count))                                                      \
	X(cuMemGetAccess, 10020, 1,                                            \
	  (unsigned long long *flags, const CUmemLocation *location,           \
	   CUdeviceptr ptr))                                                   \
	X(cuMemGetAllocationGranularity, 10020, 1,                             \
	  (size_t *granularity, const CUmemAllocationProp *prop,               \
	   CUmemAllocationGranularity_flags option))                           \
	X(cuMemExportToShareableHandle, 10020, 1,                              \
	  (void *out, CUmemGenericAllocationHandle handle,                     \
	   CUmemAllocationHandleType type, unsigned long long flags))          \
	X(cuMemImportFromShareableHandle, 10020, 1,                            \
	  (CUmemGenericAllocationHandle *handle, void *in,                     \
	   CUmemAllocationHandleType type))                                    \
	X(cuMemHostAlloc, 2020, 1, (void **ptr, size_t size, unsigned flags))  \
	X(cuMemFreeHost, 2000, 1, (void *ptr))                                 \
	X(cuMemHostRegister, 6050, 1, (void *ptr, size_t size, unsigned flags))\
	X(cuMemHostUnregister, 4000, 1, (void *ptr))                           \
	X(cuPointerGetAttribute, 4000, 1,                                      \
	  (void *data, CUpointer_attribute attribute, CUdeviceptr ptr))        \
	X(cuMemcpyAsync, 4000, 1,                                              \
	  (CUdeviceptr dst, CUdeviceptr src, size_t size, CUstream stream))    \
	X(cuMemcpyHtoD, 3020, 1,                                               \
	  (CUdeviceptr dst, const void *src, size_t size))                     \
	X(cuMemcpyDtoH, 3020, 1, (void *dst, CUdeviceptr src, size_t size))    \
	X(cuMemcpyHtoDAsync, 3020, 1,                                          \
	  (CUdeviceptr dst, const void *src, size_t size, CUstream stream))    \
	X(cuMemcpyDtoHAsync, 3020, 1,                                          \
	  (void *dst, CUdeviceptr src, size_t size, CUstream stream))          \
	X(cuMemcpyDtoDAsync, 3020, 1,                                          \
	  (CUdeviceptr dst, CUdeviceptr src, size_t size, CUstream stream))    \
	X(cuMemsetD8Async, 3020, 1,                                            \
	  (CUdeviceptr dst, unsigned char value, size_t n, CUstream stream))   \
	X(cuMemsetD32Async, 3020, 1,                                           \
	  (CUdeviceptr dst, unsigned value, size_t n, CUstream stream))        \
	X(cuModuleLoadData, 2000, 1, (CUmodule *module, const void *image))    \
	X(cuModuleUnload, 2000, 1, (CUmodule module))                          \
	X(cuModuleGetFunction, 2000, 1,                                        \
	  (CUfunction *function, CUmodule module, const char *name))           \
	X(cuLaunchKernel, 4000, 1,                                             \
	  (CUfunction function, unsigned grid_x, unsigned grid_y,              \
	   unsigned grid_z, unsigned block_x, unsigned block_y,                \
	   unsigned block_z, unsigned shared_bytes, CUstream stream,           \
	   void **params, void **extra))                                       \
	X(cuLaunchHostFunc, 10000, 1,                                          \
	  (CUstream stream, CUhostFn fn, void *user_data))
/* clang-format on */

#endif
