/*
 * The driver's results and device attributes, as lists from which tables are
 * made. A test reads them with driver/abi.h, and again with the toolkit.
 *
 * clang-format off
 */
#ifndef DRIVER_LISTS_H
#define DRIVER_LISTS_H

/*
 * Results: name, value, and the driver's text. The texts are used by the
 * simulated driver, and for messages before a driver is loaded.
 */
#define DRIVER_RESULTS(X)                                                      \
	X(CUDA_SUCCESS, 0, "no error")                                         \
	X(CUDA_ERROR_INVALID_VALUE, 1, "invalid argument")                     \
	X(CUDA_ERROR_OUT_OF_MEMORY, 2, "out of memory")                        \
	X(CUDA_ERROR_NOT_INITIALIZED, 3, "initialization error")               \
	X(CUDA_ERROR_DEINITIALIZED, 4, "driver shutting down")                 \
	X(CUDA_ERROR_STUB_LIBRARY, 34, "CUDA driver is a stub library")        \
	X(CUDA_ERROR_DEVICE_UNAVAILABLE, 46,                                   \
	    "CUDA-capable device(s) is/are busy or unavailable")               \
	X(CUDA_ERROR_NO_DEVICE, 100, "no CUDA-capable device is detected")     \
	X(CUDA_ERROR_INVALID_DEVICE, 101, "invalid device ordinal")            \
	X(CUDA_ERROR_INVALID_IMAGE, 200, "device kernel image is invalid")     \
	X(CUDA_ERROR_INVALID_CONTEXT, 201, "invalid device context")           \
	X(CUDA_ERROR_MAP_FAILED, 205, "mapping of buffer object failed")       \
	X(CUDA_ERROR_UNMAP_FAILED, 206, "unmapping of buffer object failed")   \
	X(CUDA_ERROR_ALREADY_MAPPED, 208, "resource already mapped")           \
	X(CUDA_ERROR_NO_BINARY_FOR_GPU, 209,                                   \
	    "no kernel image is available for execution on the device")        \
	X(CUDA_ERROR_NOT_MAPPED, 211, "resource not mapped")                   \
	X(CUDA_ERROR_ECC_UNCORRECTABLE, 214,                                   \
	    "uncorrectable ECC error encountered")                             \
	X(CUDA_ERROR_UNSUPPORTED_LIMIT, 215,                                   \
	    "limit is not supported on this architecture")                     \
	X(CUDA_ERROR_CONTEXT_ALREADY_IN_USE, 216,                              \
	    "exclusive-thread device already in use by a different thread")    \
	X(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, 217,                             \
	    "peer access is not supported between these two devices")          \
	X(CUDA_ERROR_INVALID_PTX, 218, "a PTX JIT compilation failed")         \
	X(CUDA_ERROR_INVALID_SOURCE, 300, "device kernel image is invalid")    \
	X(CUDA_ERROR_FILE_NOT_FOUND, 301, "file not found")                    \
	X(CUDA_ERROR_OPERATING_SYSTEM, 304,                                    \
	    "OS call failed or operation not supported on this OS")            \
	X(CUDA_ERROR_INVALID_HANDLE, 400, "invalid resource handle")           \
	X(CUDA_ERROR_ILLEGAL_STATE, 401,                                       \
	    "the operation cannot be performed in the present state")          \
	X(CUDA_ERROR_NOT_FOUND, 500, "named symbol not found")                 \
	X(CUDA_ERROR_NOT_READY, 600, "device not ready")                       \
	X(CUDA_ERROR_ILLEGAL_ADDRESS, 700,                                     \
	    "an illegal memory access was encountered")                        \
	X(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, 701,                             \
	    "too many resources requested for launch")                         \
	X(CUDA_ERROR_LAUNCH_TIMEOUT, 702,                                      \
	    "the launch timed out and was terminated")                         \
	X(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, 704,                         \
	    "peer access is already enabled")                                  \
	X(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, 705,                             \
	    "peer access has not been enabled")                                \
	X(CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE, 708,                              \
	    "cannot set while device is active in this process")               \
	X(CUDA_ERROR_CONTEXT_IS_DESTROYED, 709, "context is destroyed")        \
	X(CUDA_ERROR_ASSERT, 710, "device-side assert triggered")              \
	X(CUDA_ERROR_TOO_MANY_PEERS, 711, "peer mapping resources exhausted")  \
	X(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, 712,                      \
	    "part or all of the requested memory range is already mapped")     \
	X(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, 713,                          \
	    "pointer does not correspond to a registered memory region")       \
	X(CUDA_ERROR_ILLEGAL_INSTRUCTION, 715,                                 \
	    "an illegal instruction was encountered")                          \
	X(CUDA_ERROR_MISALIGNED_ADDRESS, 716, "misaligned address")            \
	X(CUDA_ERROR_LAUNCH_FAILED, 719, "unspecified launch failure")         \
	X(CUDA_ERROR_NOT_PERMITTED, 800, "operation not permitted")            \
	X(CUDA_ERROR_NOT_SUPPORTED, 801, "operation not supported")            \
	X(CUDA_ERROR_SYSTEM_NOT_READY, 802, "system not yet initialized")      \
	X(CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, 803,                              \
	    "system has unsupported display driver / cuda driver combination") \
	X(CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE, 804,                      \
	    "forward compatibility was attempted on non supported HW")         \
	X(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, 900,                          \
	    "operation not permitted when stream is capturing")                \
	X(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, 901,                          \
	    "operation failed due to a previous error during capture")         \
	X(CUDA_ERROR_STREAM_CAPTURE_MERGE, 902,                                \
	    "operation would result in a merge of separate capture sequences") \
	X(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, 903,                            \
	    "capture was not ended in the same stream as it began")            \
	X(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, 904,                             \
	    "capturing stream has unjoined work")                              \
	X(CUDA_ERROR_STREAM_CAPTURE_ISOLATION, 905,                            \
	    "dependency created on uncaptured work in another stream")         \
	X(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, 906,                             \
	    "operation would make the legacy stream depend on a capturing "    \
	    "blocking stream")                                                 \
	X(CUDA_ERROR_CAPTURED_EVENT, 907,                                      \
	    "operation not permitted on an event last recorded in a "          \
	    "capturing stream")                                                \
	X(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, 908,                         \
	    "attempt to terminate a thread-local capture sequence from "       \
	    "another thread")                                                  \
	X(CUDA_ERROR_TIMEOUT, 909, "wait operation timed out")                 \
	X(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, 910,                           \
	    "the graph update was not performed because it included "          \
	    "changes which violated constraints specific to "                  \
	    "instantiated graph update")                                       \
	X(CUDA_ERROR_INVALID_RESOURCE_TYPE, 914,                               \
	    "invalid resource type or operation")                              \
	X(CUDA_ERROR_UNKNOWN, 999, "unknown error")

/* The attributes that weir reads or the simulated driver returns; NVIDIA has
 * more. */
#define DRIVER_DEVICE_ATTRIBUTES(X)                                            \
	X(MAX_THREADS_PER_BLOCK, 1)                                            \
	X(MAX_BLOCK_DIM_X, 2)                                                  \
	X(MAX_BLOCK_DIM_Y, 3)                                                  \
	X(MAX_BLOCK_DIM_Z, 4)                                                  \
	X(MAX_GRID_DIM_X, 5)                                                   \
	X(MAX_GRID_DIM_Y, 6)                                                   \
	X(MAX_GRID_DIM_Z, 7)                                                   \
	X(MAX_SHARED_MEMORY_PER_BLOCK, 8)                                      \
	X(TOTAL_CONSTANT_MEMORY, 9)                                            \
	X(WARP_SIZE, 10)                                                       \
	X(MAX_PITCH, 11)                                                       \
	X(MAX_REGISTERS_PER_BLOCK, 12)                                         \
	X(CLOCK_RATE, 13)                                                      \
	X(TEXTURE_ALIGNMENT, 14)                                               \
	X(GPU_OVERLAP, 15)                                                     \
	X(MULTIPROCESSOR_COUNT, 16)                                            \
	X(KERNEL_EXEC_TIMEOUT, 17)                                             \
	X(INTEGRATED, 18)                                                      \
	X(CAN_MAP_HOST_MEMORY, 19)                                             \
	X(COMPUTE_MODE, 20)                                                    \
	X(SURFACE_ALIGNMENT, 30)                                               \
	X(CONCURRENT_KERNELS, 31)                                              \
	X(ECC_ENABLED, 32)                                                     \
	X(PCI_BUS_ID, 33)                                                      \
	X(PCI_DEVICE_ID, 34)                                                   \
	X(TCC_DRIVER, 35)                                                      \
	X(MEMORY_CLOCK_RATE, 36)                                               \
	X(GLOBAL_MEMORY_BUS_WIDTH, 37)                                         \
	X(L2_CACHE_SIZE, 38)                                                   \
	X(MAX_THREADS_PER_MULTIPROCESSOR, 39)                                  \
	X(ASYNC_ENGINE_COUNT, 40)                                              \
	X(UNIFIED_ADDRESSING, 41)                                              \
	X(PCI_DOMAIN_ID, 50)                                                   \
	X(TEXTURE_PITCH_ALIGNMENT, 51)                                         \
	X(COMPUTE_CAPABILITY_MAJOR, 75)                                        \
	X(COMPUTE_CAPABILITY_MINOR, 76)                                        \
	X(STREAM_PRIORITIES_SUPPORTED, 78)                                     \
	X(MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, 81)                            \
	X(MAX_REGISTERS_PER_MULTIPROCESSOR, 82)                                \
	X(MANAGED_MEMORY, 83)                                                  \
	X(MULTI_GPU_BOARD, 84)                                                 \
	X(HOST_NATIVE_ATOMIC_SUPPORTED, 86)                                    \
	X(PAGEABLE_MEMORY_ACCESS, 88)                                          \
	X(CONCURRENT_MANAGED_ACCESS, 89)                                       \
	X(COMPUTE_PREEMPTION_SUPPORTED, 90)                                    \
	X(CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, 91)                         \
	X(COOPERATIVE_LAUNCH, 95)                                              \
	X(MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 97)                               \
	X(CAN_FLUSH_REMOTE_WRITES, 98)                                         \
	X(HOST_REGISTER_SUPPORTED, 99)                                         \
	X(VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 102)                            \
	X(HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, 103)                    \
	X(HANDLE_TYPE_WIN32_HANDLE_SUPPORTED, 104)                             \
	X(HANDLE_TYPE_WIN32_KMT_HANDLE_SUPPORTED, 105)                         \
	X(MAX_BLOCKS_PER_MULTIPROCESSOR, 106)                                  \
	X(GENERIC_COMPRESSION_SUPPORTED, 107)                                  \
	X(GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED, 110)                        \
	X(RESERVED_SHARED_MEMORY_PER_BLOCK, 111)                               \
	X(READ_ONLY_HOST_REGISTER_SUPPORTED, 113)                              \
	X(MEMORY_POOLS_SUPPORTED, 115)                                         \
	X(GPU_DIRECT_RDMA_SUPPORTED, 116)                                      \
	X(MEMPOOL_SUPPORTED_HANDLE_TYPES, 119)                                 \
	X(CAN_USE_64_BIT_STREAM_MEM_OPS, 122)                                  \
	X(CAN_USE_STREAM_WAIT_VALUE_NOR, 123)                                  \
	X(DMA_BUF_SUPPORTED, 124)                                              \
	X(IPC_EVENT_SUPPORTED, 125)                                            \
	X(UNIFIED_FUNCTION_POINTERS, 129)                                      \
	X(HANDLE_TYPE_FABRIC_SUPPORTED, 128)                                   \
	X(HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 141)                  \
	X(HOST_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 145)                       \
	X(MULTICAST_SUPPORTED, 132)                                            \
	X(HOST_NUMA_ID, 134)

#endif
