/*
 * The part of the CUDA runtime that ordinary programs use, over the simulated
 * driver.
 *
 * Names, values and layouts are those of CUDA 13, so that a source compiles
 * with this header and with the toolkit's; the declarations are weir's own.
 * Kernels are launched through cudaLaunchKernel(); a program registers them
 * with __cudaRegisterFunction(), which nvcc otherwise does for it. If
 * CUDA_API_PER_THREAD_DEFAULT_STREAM is defined, stream 0 is the default stream
 * of the calling thread.
 */
#ifndef CUDA_RUNTIME_H
#define CUDA_RUNTIME_H

#include <stddef.h>
#include <stdint.h>

#define CUDART_VERSION 13000
#define CUDARTAPI __attribute__((visibility("default")))

/* X(name, value, text) */
#define CUDA_RUNTIME_ERRORS(X)                                                 \
	X(cudaSuccess, 0, "no error")                                          \
	X(cudaErrorInvalidValue, 1, "invalid argument")                        \
	X(cudaErrorMemoryAllocation, 2, "out of memory")                       \
	X(cudaErrorInitializationError, 3, "initialization error")             \
	X(cudaErrorCudartUnloading, 4, "driver shutting down")                 \
	X(cudaErrorInvalidConfiguration, 9, "invalid configuration argument")  \
	X(cudaErrorInvalidPitchValue, 12, "invalid pitch argument")            \
	X(cudaErrorInvalidSymbol, 13, "invalid device symbol")                 \
	X(cudaErrorInvalidMemcpyDirection, 21,                                 \
	    "invalid copy direction for memcpy")                               \
	X(cudaErrorInsufficientDriver, 35,                                     \
	    "CUDA driver version is insufficient for CUDA runtime version")    \
	X(cudaErrorInvalidDeviceFunction, 98, "invalid device function")       \
	X(cudaErrorNoDevice, 100, "no CUDA-capable device is detected")        \
	X(cudaErrorInvalidDevice, 101, "invalid device ordinal")               \
	X(cudaErrorInvalidKernelImage, 200, "device kernel image is invalid")  \
	X(cudaErrorDeviceUninitialized, 201, "invalid device context")         \
	X(cudaErrorMapBufferObjectFailed, 205,                                 \
	    "mapping of buffer object failed")                                 \
	X(cudaErrorUnmapBufferObjectFailed, 206,                               \
	    "unmapping of buffer object failed")                               \
	X(cudaErrorUnsupportedLimit, 215,                                      \
	    "limit is not supported on this architecture")                     \
	X(cudaErrorPeerAccessUnsupported, 217,                                 \
	    "peer access is not supported between these two devices")          \
	X(cudaErrorInvalidPtx, 218, "a PTX JIT compilation failed")            \
	X(cudaErrorOperatingSystem, 304,                                       \
	    "OS call failed or operation not supported on this OS")            \
	X(cudaErrorInvalidResourceHandle, 400, "invalid resource handle")      \
	X(cudaErrorIllegalState, 401,                                          \
	    "the operation cannot be performed in the present state")          \
	X(cudaErrorSymbolNotFound, 500, "named symbol not found")              \
	X(cudaErrorNotReady, 600, "device not ready")                          \
	X(cudaErrorIllegalAddress, 700,                                        \
	    "an illegal memory access was encountered")                        \
	X(cudaErrorLaunchOutOfResources, 701,                                  \
	    "too many resources requested for launch")                         \
	X(cudaErrorLaunchTimeout, 702,                                         \
	    "the launch timed out and was terminated")                         \
	X(cudaErrorPeerAccessAlreadyEnabled, 704,                              \
	    "peer access is already enabled")                                  \
	X(cudaErrorPeerAccessNotEnabled, 705,                                  \
	    "peer access has not been enabled")                                \
	X(cudaErrorContextIsDestroyed, 709, "context is destroyed")            \
	X(cudaErrorHostMemoryAlreadyRegistered, 712,                           \
	    "part or all of the requested memory range is already mapped")     \
	X(cudaErrorHostMemoryNotRegistered, 713,                               \
	    "pointer does not correspond to a registered memory region")       \
	X(cudaErrorLaunchFailure, 719, "unspecified launch failure")           \
	X(cudaErrorNotPermitted, 800, "operation not permitted")               \
	X(cudaErrorNotSupported, 801, "operation not supported")               \
	X(cudaErrorStreamCaptureUnsupported, 900,                              \
	    "operation not permitted when stream is capturing")                \
	X(cudaErrorStreamCaptureInvalidated, 901,                              \
	    "operation failed due to a previous error during capture")         \
	X(cudaErrorStreamCaptureMerge, 902,                                    \
	    "operation would result in a merge of separate capture sequences") \
	X(cudaErrorStreamCaptureUnmatched, 903,                                \
	    "capture was not ended in the same stream as it began")            \
	X(cudaErrorStreamCaptureUnjoined, 904,                                 \
	    "capturing stream has unjoined work")                              \
	X(cudaErrorStreamCaptureIsolation, 905,                                \
	    "dependency created on uncaptured work in another stream")         \
	X(cudaErrorStreamCaptureImplicit, 906,                                 \
	    "operation would make the legacy stream depend on a capturing "    \
	    "blocking stream")                                                 \
	X(cudaErrorCapturedEvent, 907,                                         \
	    "operation not permitted on an event last recorded in a "          \
	    "capturing stream")                                                \
	X(cudaErrorStreamCaptureWrongThread, 908,                              \
	    "attempt to terminate a thread-local capture sequence from "       \
	    "another thread")                                                  \
	X(cudaErrorGraphExecUpdateFailure, 910,                                \
	    "the graph update was not performed because it included "          \
	    "changes which violated constraints specific to "                  \
	    "instantiated graph update")                                       \
	X(cudaErrorUnknown, 999, "unknown error")

enum cudaError {
#define CUDA_RUNTIME_ERROR(name, value, text) name = value,
	CUDA_RUNTIME_ERRORS(CUDA_RUNTIME_ERROR)
#undef CUDA_RUNTIME_ERROR
};
typedef enum cudaError cudaError_t;

typedef struct CUstream_st *cudaStream_t;
typedef struct CUevent_st *cudaEvent_t;
typedef struct CUgraph_st *cudaGraph_t;
typedef struct CUgraphNode_st *cudaGraphNode_t;
typedef struct CUgraphExec_st *cudaGraphExec_t;
typedef struct CUmemPoolHandle_st *cudaMemPool_t;
typedef struct CUkern_st *cudaKernel_t;
typedef void (*cudaHostFn_t)(void *user);
typedef void (*cudaStreamCallback_t)(
    cudaStream_t stream, cudaError_t status, void *user);

#define cudaStreamLegacy ((cudaStream_t)0x1)
#define cudaStreamPerThread ((cudaStream_t)0x2)

enum {
	cudaStreamDefault = 0,
	cudaStreamNonBlocking = 1,
	cudaEventDefault = 0,
	cudaEventBlockingSync = 1,
	cudaEventDisableTiming = 2,
	cudaEventInterprocess = 4,
	cudaHostAllocDefault = 0,
	cudaHostAllocPortable = 1,
	cudaHostAllocMapped = 2,
	cudaHostAllocWriteCombined = 4,
	cudaHostRegisterDefault = 0,
	cudaHostRegisterPortable = 1,
	cudaHostRegisterMapped = 2,
	cudaMemAttachGlobal = 1,
	cudaMemAttachHost = 2,
	cudaDeviceScheduleAuto = 0,
	cudaDeviceMapHost = 8,
};

enum cudaMemcpyKind {
	cudaMemcpyHostToHost = 0,
	cudaMemcpyHostToDevice = 1,
	cudaMemcpyDeviceToHost = 2,
	cudaMemcpyDeviceToDevice = 3,
	cudaMemcpyDefault = 4,
};

enum cudaMemoryAdvise {
	cudaMemAdviseSetReadMostly = 1,
	cudaMemAdviseUnsetReadMostly = 2,
	cudaMemAdviseSetPreferredLocation = 3,
	cudaMemAdviseUnsetPreferredLocation = 4,
	cudaMemAdviseSetAccessedBy = 5,
	cudaMemAdviseUnsetAccessedBy = 6,
};

enum cudaLimit {
	cudaLimitStackSize = 0,
	cudaLimitPrintfFifoSize = 1,
	cudaLimitMallocHeapSize = 2,
	cudaLimitDevRuntimeSyncDepth = 3,
	cudaLimitDevRuntimePendingLaunchCount = 4,
	cudaLimitMaxL2FetchGranularity = 5,
	cudaLimitPersistingL2CacheSize = 6,
};

enum cudaMemoryType {
	cudaMemoryTypeUnregistered = 0,
	cudaMemoryTypeHost = 1,
	cudaMemoryTypeDevice = 2,
	cudaMemoryTypeManaged = 3,
};

enum cudaStreamCaptureStatus {
	cudaStreamCaptureStatusNone = 0,
	cudaStreamCaptureStatusActive = 1,
	cudaStreamCaptureStatusInvalidated = 2,
};

enum cudaStreamCaptureMode {
	cudaStreamCaptureModeGlobal = 0,
	cudaStreamCaptureModeThreadLocal = 1,
	cudaStreamCaptureModeRelaxed = 2,
};

enum cudaDeviceAttr {
	cudaDevAttrWarpSize = 10,
	cudaDevAttrMultiProcessorCount = 16,
	cudaDevAttrUnifiedAddressing = 41,
	cudaDevAttrTexturePitchAlignment = 51,
	cudaDevAttrComputeCapabilityMajor = 75,
	cudaDevAttrComputeCapabilityMinor = 76,
	cudaDevAttrMemoryPoolsSupported = 115,
};

enum cudaDriverEntryPointQueryResult {
	cudaDriverEntryPointSuccess = 0,
	cudaDriverEntryPointSymbolNotFound = 1,
	cudaDriverEntryPointVersionNotSufficent = 2,
};

enum {
	cudaEnableDefault = 0,
	cudaEnableLegacyStream = 1,
	cudaEnablePerThreadDefaultStream = 2,
};

enum cudaMemPoolAttr {
	cudaMemPoolReuseFollowEventDependencies = 1,
	cudaMemPoolReuseAllowOpportunistic = 2,
	cudaMemPoolReuseAllowInternalDependencies = 3,
	cudaMemPoolAttrReleaseThreshold = 4,
	cudaMemPoolAttrReservedMemCurrent = 5,
	cudaMemPoolAttrReservedMemHigh = 6,
	cudaMemPoolAttrUsedMemCurrent = 7,
	cudaMemPoolAttrUsedMemHigh = 8,
};

enum cudaMemAllocationType {
	cudaMemAllocationTypeInvalid = 0,
	cudaMemAllocationTypePinned = 1,
};

enum cudaMemAllocationHandleType {
	cudaMemHandleTypeNone = 0,
	cudaMemHandleTypePosixFileDescriptor = 1,
};

enum cudaMemLocationType {
	cudaMemLocationTypeInvalid = 0,
	cudaMemLocationTypeDevice = 1,
	cudaMemLocationTypeHost = 2,
};

enum cudaMemAccessFlags {
	cudaMemAccessFlagsProtNone = 0,
	cudaMemAccessFlagsProtRead = 1,
	cudaMemAccessFlagsProtReadWrite = 3,
};

enum { cudaIpcMemLazyEnablePeerAccess = 1 };

struct cudaMemLocation {
	enum cudaMemLocationType type;
	int id;
};

struct cudaMemAccessDesc {
	struct cudaMemLocation location;
	enum cudaMemAccessFlags flags;
};

struct cudaMemPoolProps {
	enum cudaMemAllocationType allocType;
	enum cudaMemAllocationHandleType handleTypes;
	struct cudaMemLocation location;
	void *win32SecurityAttributes;
	size_t maxSize;
	unsigned short usage;
	unsigned char reserved[54];
};

typedef struct cudaIpcMemHandle_st {
	char reserved[64];
} cudaIpcMemHandle_t;

typedef struct cudaIpcEventHandle_st {
	char reserved[64];
} cudaIpcEventHandle_t;

struct cudaPitchedPtr {
	void *ptr;
	size_t pitch;
	size_t xsize;
	size_t ysize;
};

struct cudaExtent {
	size_t width;
	size_t height;
	size_t depth;
};

struct cudaPos {
	size_t x;
	size_t y;
	size_t z;
};

typedef struct cudaArray *cudaArray_t;

/* Arrays are not simulated; the pointers are used. */
struct cudaMemcpy3DParms {
	cudaArray_t srcArray;
	struct cudaPos srcPos;
	struct cudaPitchedPtr srcPtr;
	cudaArray_t dstArray;
	struct cudaPos dstPos;
	struct cudaPitchedPtr dstPtr;
	struct cudaExtent extent;
	enum cudaMemcpyKind kind;
};

struct cudaMemcpy3DPeerParms {
	cudaArray_t srcArray;
	struct cudaPos srcPos;
	struct cudaPitchedPtr srcPtr;
	int srcDevice;
	cudaArray_t dstArray;
	struct cudaPos dstPos;
	struct cudaPitchedPtr dstPtr;
	int dstDevice;
	struct cudaExtent extent;
};

/* One row is one-dimensional; the pitch is then not used. */
struct cudaMemsetParams {
	void *dst;
	size_t pitch;
	unsigned int value;
	unsigned int elementSize; /* bytes: 1, 2 or 4 */
	size_t width;             /* in elements */
	size_t height;
};

enum cudaGraphExecUpdateResult {
	cudaGraphExecUpdateSuccess = 0,
	cudaGraphExecUpdateError = 1,
	cudaGraphExecUpdateErrorTopologyChanged = 2,
	cudaGraphExecUpdateErrorNodeTypeChanged = 3,
	cudaGraphExecUpdateErrorFunctionChanged = 4,
	cudaGraphExecUpdateErrorParametersChanged = 5,
	cudaGraphExecUpdateErrorNotSupported = 6,
	cudaGraphExecUpdateErrorUnsupportedFunctionChange = 7,
	cudaGraphExecUpdateErrorAttributesChanged = 8
};

typedef struct {
	enum cudaGraphExecUpdateResult result;
	cudaGraphNode_t errorNode;
	cudaGraphNode_t errorFromNode;
} cudaGraphExecUpdateResultInfo;

static inline struct cudaExtent
make_cudaExtent(size_t width, size_t height, size_t depth)
{
	struct cudaExtent extent = { width, height, depth };

	return extent;
}

static inline struct cudaPitchedPtr
make_cudaPitchedPtr(void *ptr, size_t pitch, size_t xsize, size_t ysize)
{
	struct cudaPitchedPtr pitched = { ptr, pitch, xsize, ysize };

	return pitched;
}

struct cudaPointerAttributes {
	enum cudaMemoryType type;
	int device;
	void *devicePointer;
	void *hostPointer;
	long reserved[8];
};

typedef struct {
	char bytes[16];
} cudaUUID_t;

/* Members have the toolkit's offsets. Members that programs which manage memory
 * do not need are replaced by padding. */
struct cudaDeviceProp {
	char name[256];
	cudaUUID_t uuid;
	char luid[8];
	unsigned luidDeviceNodeMask;
	size_t totalGlobalMem;
	size_t sharedMemPerBlock;
	int regsPerBlock;
	int warpSize;
	size_t memPitch;
	int maxThreadsPerBlock;
	int maxThreadsDim[3];
	int maxGridSize[3];
	size_t totalConstMem;
	int major;
	int minor;
	size_t textureAlignment;
	size_t texturePitchAlignment;
	int multiProcessorCount;
	int integrated;
	int canMapHostMemory;
	int reservedTextures[39];
	size_t surfaceAlignment;
	int concurrentKernels;
	int ECCEnabled;
	int pciBusID;
	int pciDeviceID;
	int pciDomainID;
	int tccDriver;
	int asyncEngineCount;
	int unifiedAddressing;
	int memoryBusWidth;
	int l2CacheSize;
	int persistingL2CacheMaxSize;
	int maxThreadsPerMultiProcessor;
	int streamPrioritiesSupported;
	int globalL1CacheSupported;
	int localL1CacheSupported;
	size_t sharedMemPerMultiprocessor;
	int regsPerMultiprocessor;
	int managedMemory;
	int reservedBoards[3];
	int pageableMemoryAccess;
	int concurrentManagedAccess;
	int reservedLaunches[3];
	size_t sharedMemPerBlockOptin;
	int reservedTables[4];
	size_t reservedSharedMemPerBlock;
	int hostRegisterSupported;
	int reservedArrays[3];
	int memoryPoolsSupported;
	char reserved[1008 - 724];
};

typedef struct dim3 {
	unsigned x, y, z;
#ifdef __cplusplus
	dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1)
	    : x(x_), y(y_), z(z_)
	{
	}
#endif
} dim3;

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Errors ------------------------------------------------------------ */

CUDARTAPI cudaError_t cudaGetLastError(void);
CUDARTAPI cudaError_t cudaPeekAtLastError(void);
CUDARTAPI const char *cudaGetErrorName(cudaError_t error);
CUDARTAPI const char *cudaGetErrorString(cudaError_t error);

/* ---- Devices ----------------------------------------------------------- */

CUDARTAPI cudaError_t cudaDriverGetVersion(int *version);
CUDARTAPI cudaError_t cudaRuntimeGetVersion(int *version);
CUDARTAPI cudaError_t cudaGetDriverEntryPointByVersion(const char *symbol,
    void **function, unsigned version, unsigned long long flags,
    enum cudaDriverEntryPointQueryResult *status);
CUDARTAPI cudaError_t cudaGetDeviceCount(int *count);
CUDARTAPI cudaError_t cudaGetDevice(int *device);
CUDARTAPI cudaError_t cudaSetDevice(int device);
CUDARTAPI cudaError_t cudaInitDevice(
    int device, unsigned device_flags, unsigned flags);
CUDARTAPI cudaError_t cudaGetDeviceProperties(
    struct cudaDeviceProp *prop, int device);
CUDARTAPI cudaError_t cudaDeviceGetAttribute(
    int *value, enum cudaDeviceAttr attribute, int device);
CUDARTAPI cudaError_t cudaDeviceGetPCIBusId(char *id, int size, int device);
CUDARTAPI cudaError_t cudaDeviceGetStreamPriorityRange(
    int *least, int *greatest);
CUDARTAPI cudaError_t cudaDeviceSynchronize(void);
CUDARTAPI cudaError_t cudaDeviceReset(void);
CUDARTAPI cudaError_t cudaDeviceGetByPCIBusId(int *device, const char *id);
CUDARTAPI cudaError_t cudaDeviceGetLimit(size_t *value, enum cudaLimit limit);
CUDARTAPI cudaError_t cudaDeviceSetLimit(enum cudaLimit limit, size_t value);
CUDARTAPI cudaError_t cudaGetDeviceFlags(unsigned *flags);
CUDARTAPI cudaError_t cudaSetDeviceFlags(unsigned flags);
CUDARTAPI cudaError_t cudaGetDriverEntryPoint(const char *symbol,
    void **function, unsigned long long flags,
    enum cudaDriverEntryPointQueryResult *status);
/* These calls do nothing, because there is no profiler. */
CUDARTAPI cudaError_t cudaProfilerStart(void);
CUDARTAPI cudaError_t cudaProfilerStop(void);
CUDARTAPI cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer);
CUDARTAPI cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags);
CUDARTAPI cudaError_t cudaDeviceDisablePeerAccess(int peer);

/* ---- Memory ------------------------------------------------------------ */

CUDARTAPI cudaError_t cudaMalloc(void **ptr, size_t size);
CUDARTAPI cudaError_t cudaFree(void *ptr);
CUDARTAPI cudaError_t cudaMallocPitch(
    void **ptr, size_t *pitch, size_t width, size_t height);
CUDARTAPI cudaError_t cudaMalloc3D(
    struct cudaPitchedPtr *pitched, struct cudaExtent extent);
CUDARTAPI cudaError_t cudaMallocAsync(
    void **ptr, size_t size, cudaStream_t stream);
CUDARTAPI cudaError_t cudaFreeAsync(void *ptr, cudaStream_t stream);
CUDARTAPI cudaError_t cudaMallocHost(void **ptr, size_t size);
CUDARTAPI cudaError_t cudaHostAlloc(void **ptr, size_t size, unsigned flags);
CUDARTAPI cudaError_t cudaFreeHost(void *ptr);
CUDARTAPI cudaError_t cudaHostRegister(void *ptr, size_t size, unsigned flags);
CUDARTAPI cudaError_t cudaHostUnregister(void *ptr);
CUDARTAPI cudaError_t cudaHostGetDevicePointer(
    void **device_ptr, void *ptr, unsigned flags);
CUDARTAPI cudaError_t cudaHostGetFlags(unsigned *flags, void *ptr);
#ifdef __cplusplus
CUDARTAPI cudaError_t cudaMallocManaged(
    void **ptr, size_t size, unsigned flags = cudaMemAttachGlobal);
#else
CUDARTAPI cudaError_t cudaMallocManaged(
    void **ptr, size_t size, unsigned flags);
#endif
CUDARTAPI cudaError_t cudaMemPrefetchAsync(const void *ptr, size_t size,
    struct cudaMemLocation location, unsigned flags, cudaStream_t stream);
CUDARTAPI cudaError_t cudaMemAdvise(const void *ptr, size_t size,
    enum cudaMemoryAdvise advice, struct cudaMemLocation location);
CUDARTAPI cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total_bytes);
CUDARTAPI cudaError_t cudaPointerGetAttributes(
    struct cudaPointerAttributes *attributes, const void *ptr);

CUDARTAPI cudaError_t cudaMemcpy(
    void *dst, const void *src, size_t size, enum cudaMemcpyKind kind);
CUDARTAPI cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t size,
    enum cudaMemcpyKind kind, cudaStream_t stream);
CUDARTAPI cudaError_t cudaMemcpy2D(void *dst, size_t dst_pitch, const void *src,
    size_t src_pitch, size_t width, size_t height, enum cudaMemcpyKind kind);
CUDARTAPI cudaError_t cudaMemcpy2DAsync(void *dst, size_t dst_pitch,
    const void *src, size_t src_pitch, size_t width, size_t height,
    enum cudaMemcpyKind kind, cudaStream_t stream);
CUDARTAPI cudaError_t cudaMemcpy3D(const struct cudaMemcpy3DParms *what);
CUDARTAPI cudaError_t cudaMemcpy3DAsync(
    const struct cudaMemcpy3DParms *what, cudaStream_t stream);
CUDARTAPI cudaError_t cudaMemcpy3DPeer(
    const struct cudaMemcpy3DPeerParms *what);
CUDARTAPI cudaError_t cudaMemcpy3DPeerAsync(
    const struct cudaMemcpy3DPeerParms *what, cudaStream_t stream);
CUDARTAPI cudaError_t cudaMemcpyPeer(
    void *dst, int dst_device, const void *src, int src_device, size_t size);
CUDARTAPI cudaError_t cudaMemcpyPeerAsync(void *dst, int dst_device,
    const void *src, int src_device, size_t size, cudaStream_t stream);
CUDARTAPI cudaError_t cudaMemset(void *ptr, int value, size_t size);
CUDARTAPI cudaError_t cudaMemsetAsync(
    void *ptr, int value, size_t size, cudaStream_t stream);
CUDARTAPI cudaError_t cudaMemset2D(
    void *ptr, size_t pitch, int value, size_t width, size_t height);
CUDARTAPI cudaError_t cudaMemset2DAsync(void *ptr, size_t pitch, int value,
    size_t width, size_t height, cudaStream_t stream);

CUDARTAPI cudaError_t cudaMemset3D(
    struct cudaPitchedPtr pitched, int value, struct cudaExtent extent);
CUDARTAPI cudaError_t cudaMemset3DAsync(struct cudaPitchedPtr pitched,
    int value, struct cudaExtent extent, cudaStream_t stream);

CUDARTAPI cudaError_t cudaIpcGetMemHandle(
    cudaIpcMemHandle_t *handle, void *ptr);
CUDARTAPI cudaError_t cudaIpcOpenMemHandle(
    void **ptr, cudaIpcMemHandle_t handle, unsigned flags);
CUDARTAPI cudaError_t cudaIpcCloseMemHandle(void *ptr);

CUDARTAPI cudaError_t cudaIpcGetEventHandle(
    cudaIpcEventHandle_t *handle, cudaEvent_t event);
CUDARTAPI cudaError_t cudaIpcOpenEventHandle(
    cudaEvent_t *event, cudaIpcEventHandle_t handle);

/* ---- Memory pools ------------------------------------------------------ */

CUDARTAPI cudaError_t cudaMallocFromPoolAsync(
    void **ptr, size_t size, cudaMemPool_t pool, cudaStream_t stream);
CUDARTAPI cudaError_t cudaMemPoolCreate(
    cudaMemPool_t *pool, const struct cudaMemPoolProps *props);
CUDARTAPI cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool);
CUDARTAPI cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, size_t keep);
CUDARTAPI cudaError_t cudaMemPoolSetAttribute(
    cudaMemPool_t pool, enum cudaMemPoolAttr attribute, void *value);
CUDARTAPI cudaError_t cudaMemPoolGetAttribute(
    cudaMemPool_t pool, enum cudaMemPoolAttr attribute, void *value);
CUDARTAPI cudaError_t cudaMemPoolSetAccess(
    cudaMemPool_t pool, const struct cudaMemAccessDesc *access, size_t count);
CUDARTAPI cudaError_t cudaMemPoolGetAccess(enum cudaMemAccessFlags *flags,
    cudaMemPool_t pool, struct cudaMemLocation *location);
CUDARTAPI cudaError_t cudaDeviceGetDefaultMemPool(
    cudaMemPool_t *pool, int device);
CUDARTAPI cudaError_t cudaDeviceGetMemPool(cudaMemPool_t *pool, int device);
CUDARTAPI cudaError_t cudaDeviceSetMemPool(int device, cudaMemPool_t pool);

/* ---- Streams and events ------------------------------------------------ */

CUDARTAPI cudaError_t cudaStreamCreate(cudaStream_t *stream);
CUDARTAPI cudaError_t cudaStreamCreateWithFlags(
    cudaStream_t *stream, unsigned flags);
CUDARTAPI cudaError_t cudaStreamCreateWithPriority(
    cudaStream_t *stream, unsigned flags, int priority);
CUDARTAPI cudaError_t cudaStreamDestroy(cudaStream_t stream);
CUDARTAPI cudaError_t cudaStreamQuery(cudaStream_t stream);
CUDARTAPI cudaError_t cudaStreamSynchronize(cudaStream_t stream);
CUDARTAPI cudaError_t cudaStreamWaitEvent(
    cudaStream_t stream, cudaEvent_t event, unsigned flags);
CUDARTAPI cudaError_t cudaStreamGetFlags(cudaStream_t stream, unsigned *flags);
CUDARTAPI cudaError_t cudaStreamGetPriority(cudaStream_t stream, int *priority);
CUDARTAPI cudaError_t cudaLaunchHostFunc(
    cudaStream_t stream, cudaHostFn_t function, void *user);

CUDARTAPI cudaError_t cudaStreamGetId(
    cudaStream_t stream, unsigned long long *id);
CUDARTAPI cudaError_t cudaStreamAddCallback(cudaStream_t stream,
    cudaStreamCallback_t callback, void *user, unsigned flags);

CUDARTAPI cudaError_t cudaEventCreate(cudaEvent_t *event);
CUDARTAPI cudaError_t cudaEventCreateWithFlags(
    cudaEvent_t *event, unsigned flags);
CUDARTAPI cudaError_t cudaEventDestroy(cudaEvent_t event);
CUDARTAPI cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
CUDARTAPI cudaError_t cudaEventRecordWithFlags(
    cudaEvent_t event, cudaStream_t stream, unsigned flags);
CUDARTAPI cudaError_t cudaEventQuery(cudaEvent_t event);
CUDARTAPI cudaError_t cudaEventSynchronize(cudaEvent_t event);
CUDARTAPI cudaError_t cudaEventElapsedTime(
    float *milliseconds, cudaEvent_t start, cudaEvent_t end);

/* ---- Captures and graphs ----------------------------------------------- */

CUDARTAPI cudaError_t cudaThreadExchangeStreamCaptureMode(
    enum cudaStreamCaptureMode *mode);
CUDARTAPI cudaError_t cudaStreamBeginCapture(
    cudaStream_t stream, enum cudaStreamCaptureMode mode);
CUDARTAPI cudaError_t cudaStreamEndCapture(
    cudaStream_t stream, cudaGraph_t *graph);
CUDARTAPI cudaError_t cudaStreamIsCapturing(
    cudaStream_t stream, enum cudaStreamCaptureStatus *status);
CUDARTAPI cudaError_t cudaGraphCreate(cudaGraph_t *graph, unsigned flags);
CUDARTAPI cudaError_t cudaGraphAddEmptyNode(cudaGraphNode_t *node,
    cudaGraph_t graph, const cudaGraphNode_t *dependencies, size_t count);
CUDARTAPI cudaError_t cudaGraphAddMemcpyNode(cudaGraphNode_t *node,
    cudaGraph_t graph, const cudaGraphNode_t *dependencies, size_t count,
    const struct cudaMemcpy3DParms *what);
CUDARTAPI cudaError_t cudaGraphAddMemcpyNode1D(cudaGraphNode_t *node,
    cudaGraph_t graph, const cudaGraphNode_t *dependencies, size_t count,
    void *dst, const void *src, size_t size, enum cudaMemcpyKind kind);
CUDARTAPI cudaError_t cudaGraphAddMemsetNode(cudaGraphNode_t *node,
    cudaGraph_t graph, const cudaGraphNode_t *dependencies, size_t count,
    const struct cudaMemsetParams *what);
CUDARTAPI cudaError_t cudaGraphExecMemcpyNodeSetParams(cudaGraphExec_t exec,
    cudaGraphNode_t node, const struct cudaMemcpy3DParms *what);
CUDARTAPI cudaError_t cudaGraphExecMemcpyNodeSetParams1D(cudaGraphExec_t exec,
    cudaGraphNode_t node, void *dst, const void *src, size_t size,
    enum cudaMemcpyKind kind);
CUDARTAPI cudaError_t cudaGraphExecMemsetNodeSetParams(cudaGraphExec_t exec,
    cudaGraphNode_t node, const struct cudaMemsetParams *what);
CUDARTAPI cudaError_t cudaGraphExecUpdate(cudaGraphExec_t exec,
    cudaGraph_t graph, cudaGraphExecUpdateResultInfo *info);
CUDARTAPI cudaError_t cudaGraphInstantiate(
    cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long flags);
CUDARTAPI cudaError_t cudaGraphInstantiateWithFlags(
    cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long flags);
CUDARTAPI cudaError_t cudaGraphUpload(
    cudaGraphExec_t exec, cudaStream_t stream);
CUDARTAPI cudaError_t cudaGraphGetNodes(
    cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *count);
CUDARTAPI cudaError_t cudaGraphLaunch(
    cudaGraphExec_t exec, cudaStream_t stream);
CUDARTAPI cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec);
CUDARTAPI cudaError_t cudaGraphDestroy(cudaGraph_t graph);

/* ---- Kernels ----------------------------------------------------------- */

/*
 * The simulated device has its own kernels (simcuda/kernel.c) and cannot run
 * kernels that nvcc has compiled: their launch returns cudaErrorNotSupported
 * and prints the kernel's name on stderr, once for each.
 */
CUDARTAPI cudaError_t cudaLaunchKernel(const void *function, dim3 grid,
    dim3 block, void **args, size_t shared_bytes, cudaStream_t stream);
CUDARTAPI cudaError_t cudaLaunchCooperativeKernel(const void *function,
    dim3 grid, dim3 block, void **args, size_t shared_bytes,
    cudaStream_t stream);
CUDARTAPI cudaError_t cudaGetKernel(cudaKernel_t *kernel, const void *function);

/*
 * Device variables, identified by the address of the host variable that stands
 * for them. Each has separate memory on each device, from its first use there.
 * It begins as zeroes: initial values are in the image of device code, which is
 * not read.
 */
CUDARTAPI cudaError_t cudaGetSymbolAddress(void **ptr, const void *symbol);
CUDARTAPI cudaError_t cudaGetSymbolSize(size_t *size, const void *symbol);
CUDARTAPI cudaError_t cudaMemcpyToSymbol(const void *symbol, const void *src,
    size_t size, size_t offset, enum cudaMemcpyKind kind);
CUDARTAPI cudaError_t cudaMemcpyFromSymbol(void *dst, const void *symbol,
    size_t size, size_t offset, enum cudaMemcpyKind kind);
CUDARTAPI cudaError_t cudaMemcpyToSymbolAsync(const void *symbol,
    const void *src, size_t size, size_t offset, enum cudaMemcpyKind kind,
    cudaStream_t stream);
CUDARTAPI cudaError_t cudaMemcpyFromSymbolAsync(void *dst, const void *symbol,
    size_t size, size_t offset, enum cudaMemcpyKind kind, cudaStream_t stream);

/*
 * Registration of device code when a program starts: one call for each image
 * and one for each of its kernels. An image is the `data` of this structure.
 * The simulated device expects PTX text, and identifies kernels by name.
 */
struct cudaFatBinary {
	int magic;
	int version;
	const void *data;
	void *file;
};
#define CUDA_FAT_BINARY_MAGIC 0x466243b1

CUDARTAPI void **__cudaRegisterFatBinary(void *binary);
CUDARTAPI void __cudaRegisterFatBinaryEnd(void **handle);
CUDARTAPI void __cudaUnregisterFatBinary(void **handle);
CUDARTAPI void __cudaRegisterFunction(void **handle, const char *host_function,
    char *device_function, const char *device_name, int thread_limit, void *tid,
    void *bid, void *block, void *grid, int *warp_size);

CUDARTAPI void __cudaRegisterVar(void **handle, char *host_variable,
    char *device_variable, const char *device_name, int external, size_t size,
    int constant, int global);
CUDARTAPI void __cudaRegisterManagedVar(void **handle, void **host_pointer,
    char *device_variable, const char *device_name, int external, size_t size,
    int constant, int global);
CUDARTAPI char __cudaInitModule(void **handle);

/*
 * A launch as compiled by nvcc: the arguments in <<< and >>> are pushed, and
 * the function that stands for the kernel pops them and launches.
 */
CUDARTAPI unsigned __cudaPushCallConfiguration(
    dim3 grid, dim3 block, size_t shared_bytes, struct CUstream_st *stream);
CUDARTAPI cudaError_t __cudaPopCallConfiguration(
    dim3 *grid, dim3 *block, size_t *shared_bytes, void *stream);
CUDARTAPI cudaError_t __cudaGetKernel(
    cudaKernel_t *kernel, const void *function);
CUDARTAPI cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid,
    dim3 block, void **args, size_t shared_bytes, cudaStream_t stream);
CUDARTAPI cudaError_t __cudaLaunchKernel_ptsz(cudaKernel_t kernel, dim3 grid,
    dim3 block, void **args, size_t shared_bytes, cudaStream_t stream);

/* ---- The per-thread default stream ------------------------------------- */

#ifdef CUDA_API_PER_THREAD_DEFAULT_STREAM
#define cudaEventRecord cudaEventRecord_ptsz
#define cudaFreeAsync cudaFreeAsync_ptsz
#define cudaGraphLaunch cudaGraphLaunch_ptsz
#define cudaLaunchHostFunc cudaLaunchHostFunc_ptsz
#define cudaLaunchKernel cudaLaunchKernel_ptsz
#define cudaMallocAsync cudaMallocAsync_ptsz
#define cudaMallocFromPoolAsync cudaMallocFromPoolAsync_ptsz
#define cudaMemcpy cudaMemcpy_ptds
#define cudaMemcpyAsync cudaMemcpyAsync_ptsz
#define cudaMemcpy2D cudaMemcpy2D_ptds
#define cudaMemcpy2DAsync cudaMemcpy2DAsync_ptsz
#define cudaMemcpy3D cudaMemcpy3D_ptds
#define cudaMemcpy3DAsync cudaMemcpy3DAsync_ptsz
#define cudaMemcpy3DPeer cudaMemcpy3DPeer_ptds
#define cudaMemcpy3DPeerAsync cudaMemcpy3DPeerAsync_ptsz
#define cudaMemcpyFromSymbol cudaMemcpyFromSymbol_ptds
#define cudaMemcpyFromSymbolAsync cudaMemcpyFromSymbolAsync_ptsz
#define cudaMemcpyToSymbol cudaMemcpyToSymbol_ptds
#define cudaMemcpyToSymbolAsync cudaMemcpyToSymbolAsync_ptsz
#define cudaMemset cudaMemset_ptds
#define cudaMemset2D cudaMemset2D_ptds
#define cudaMemset2DAsync cudaMemset2DAsync_ptsz
#define cudaMemset3D cudaMemset3D_ptds
#define cudaMemset3DAsync cudaMemset3DAsync_ptsz
#define cudaMemsetAsync cudaMemsetAsync_ptsz
#define cudaStreamBeginCapture cudaStreamBeginCapture_ptsz
#define cudaStreamEndCapture cudaStreamEndCapture_ptsz
#define cudaStreamIsCapturing cudaStreamIsCapturing_ptsz
#define cudaStreamQuery cudaStreamQuery_ptsz
#define cudaStreamSynchronize cudaStreamSynchronize_ptsz
#define cudaStreamWaitEvent cudaStreamWaitEvent_ptsz
#endif

CUDARTAPI cudaError_t cudaEventRecord_ptsz(
    cudaEvent_t event, cudaStream_t stream);
CUDARTAPI cudaError_t cudaFreeAsync_ptsz(void *ptr, cudaStream_t stream);
CUDARTAPI cudaError_t cudaGraphLaunch_ptsz(
    cudaGraphExec_t exec, cudaStream_t stream);
CUDARTAPI cudaError_t cudaLaunchHostFunc_ptsz(
    cudaStream_t stream, cudaHostFn_t function, void *user);
CUDARTAPI cudaError_t cudaLaunchKernel_ptsz(const void *function, dim3 grid,
    dim3 block, void **args, size_t shared_bytes, cudaStream_t stream);
CUDARTAPI cudaError_t cudaMallocAsync_ptsz(
    void **ptr, size_t size, cudaStream_t stream);
CUDARTAPI cudaError_t cudaMallocFromPoolAsync_ptsz(
    void **ptr, size_t size, cudaMemPool_t pool, cudaStream_t stream);
CUDARTAPI cudaError_t cudaMemcpy_ptds(
    void *dst, const void *src, size_t size, enum cudaMemcpyKind kind);
CUDARTAPI cudaError_t cudaMemcpyAsync_ptsz(void *dst, const void *src,
    size_t size, enum cudaMemcpyKind kind, cudaStream_t stream);
CUDARTAPI cudaError_t cudaMemcpy2D_ptds(void *dst, size_t dst_pitch,
    const void *src, size_t src_pitch, size_t width, size_t height,
    enum cudaMemcpyKind kind);
CUDARTAPI cudaError_t cudaMemcpy2DAsync_ptsz(void *dst, size_t dst_pitch,
    const void *src, size_t src_pitch, size_t width, size_t height,
    enum cudaMemcpyKind kind, cudaStream_t stream);
CUDARTAPI cudaError_t cudaMemcpy3D_ptds(const struct cudaMemcpy3DParms *what);
CUDARTAPI cudaError_t cudaMemcpy3DAsync_ptsz(
    const struct cudaMemcpy3DParms *what, cudaStream_t stream);
CUDARTAPI cudaError_t cudaMemcpy3DPeer_ptds(
    const struct cudaMemcpy3DPeerParms *what);
CUDARTAPI cudaError_t cudaMemcpy3DPeerAsync_ptsz(
    const struct cudaMemcpy3DPeerParms *what, cudaStream_t stream);
CUDARTAPI cudaError_t cudaMemcpyToSymbol_ptds(const void *symbol,
    const void *src, size_t size, size_t offset, enum cudaMemcpyKind kind);
CUDARTAPI cudaError_t cudaMemcpyFromSymbol_ptds(void *dst, const void *symbol,
    size_t size, size_t offset, enum cudaMemcpyKind kind);
CUDARTAPI cudaError_t cudaMemcpyToSymbolAsync_ptsz(const void *symbol,
    const void *src, size_t size, size_t offset, enum cudaMemcpyKind kind,
    cudaStream_t stream);
CUDARTAPI cudaError_t cudaMemcpyFromSymbolAsync_ptsz(void *dst,
    const void *symbol, size_t size, size_t offset, enum cudaMemcpyKind kind,
    cudaStream_t stream);
CUDARTAPI cudaError_t cudaMemset_ptds(void *ptr, int value, size_t size);
CUDARTAPI cudaError_t cudaMemset2D_ptds(
    void *ptr, size_t pitch, int value, size_t width, size_t height);
CUDARTAPI cudaError_t cudaMemset2DAsync_ptsz(void *ptr, size_t pitch, int value,
    size_t width, size_t height, cudaStream_t stream);
CUDARTAPI cudaError_t cudaMemset3D_ptds(
    struct cudaPitchedPtr pitched, int value, struct cudaExtent extent);
CUDARTAPI cudaError_t cudaMemset3DAsync_ptsz(struct cudaPitchedPtr pitched,
    int value, struct cudaExtent extent, cudaStream_t stream);
CUDARTAPI cudaError_t cudaMemsetAsync_ptsz(
    void *ptr, int value, size_t size, cudaStream_t stream);
CUDARTAPI cudaError_t cudaStreamBeginCapture_ptsz(
    cudaStream_t stream, enum cudaStreamCaptureMode mode);
CUDARTAPI cudaError_t cudaStreamEndCapture_ptsz(
    cudaStream_t stream, cudaGraph_t *graph);
CUDARTAPI cudaError_t cudaStreamIsCapturing_ptsz(
    cudaStream_t stream, enum cudaStreamCaptureStatus *status);
CUDARTAPI cudaError_t cudaStreamQuery_ptsz(cudaStream_t stream);
CUDARTAPI cudaError_t cudaStreamSynchronize_ptsz(cudaStream_t stream);
CUDARTAPI cudaError_t cudaStreamWaitEvent_ptsz(
    cudaStream_t stream, cudaEvent_t event, unsigned flags);

#ifdef __cplusplus
}
#endif

#endif
