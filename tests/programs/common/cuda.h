/*
 * The driver API as the test programs use it, declared as a program without a
 * toolkit declares it: a table of functions, filled by the lookup that the
 * program tests, and the exercise that uses the table.
 */
#ifndef TESTS_PROGRAMS_CUDA_H
#define TESTS_PROGRAMS_CUDA_H

#include <stddef.h>
#include <stdint.h>

typedef int result;
typedef unsigned long long address;
typedef struct stream_st *stream;
typedef struct context_st *context;

/* X(field, exported name, base name, version, parameters) */
#define CUDA_FUNCTIONS(X)                                                      \
	X(init, cuInit, "cuInit", 2000, (unsigned flags))                      \
	X(device_get, cuDeviceGet, "cuDeviceGet", 2000,                        \
	    (int *device, int ordinal))                                        \
	X(retain, cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", 7000,  \
	    (context * out, int device))                                       \
	X(release, cuDevicePrimaryCtxRelease_v2, "cuDevicePrimaryCtxRelease",  \
	    11000, (int device))                                               \
	X(get_state, cuDevicePrimaryCtxGetState, "cuDevicePrimaryCtxGetState", \
	    7000, (int device, unsigned *flags, int *active))                  \
	X(set_current, cuCtxSetCurrent, "cuCtxSetCurrent", 4000,               \
	    (context current))                                                 \
	X(synchronize, cuCtxSynchronize, "cuCtxSynchronize", 2000, (void))     \
	X(mem_alloc, cuMemAlloc_v2, "cuMemAlloc", 3020,                        \
	    (address * out, size_t bytes))                                     \
	X(mem_free, cuMemFree_v2, "cuMemFree", 3020, (address ptr))            \
	X(mem_alloc_async, cuMemAllocAsync, "cuMemAllocAsync", 11020,          \
	    (address * out, size_t bytes, stream on))                          \
	X(mem_free_async, cuMemFreeAsync, "cuMemFreeAsync", 11020,             \
	    (address ptr, stream on))                                          \
	X(get_info, cuMemGetInfo_v2, "cuMemGetInfo", 3020,                     \
	    (size_t * free_bytes, size_t * total_bytes))                       \
	X(get_range, cuMemGetAddressRange_v2, "cuMemGetAddressRange", 3020,    \
	    (address * base, size_t * size, address ptr))                      \
	X(get_attribute, cuPointerGetAttribute, "cuPointerGetAttribute", 4000, \
	    (void *data, int attribute, address ptr))                          \
	X(get_attributes, cuPointerGetAttributes, "cuPointerGetAttributes",    \
	    7000, (unsigned n, int *which, void **data, address ptr))          \
	X(stream_create, cuStreamCreateWithPriority,                           \
	    "cuStreamCreateWithPriority", 5050,                                \
	    (stream * out, unsigned flags, int priority))                      \
	X(stream_destroy, cuStreamDestroy_v2, "cuStreamDestroy", 4000,         \
	    (stream old))                                                      \
	X(stream_synchronize, cuStreamSynchronize, "cuStreamSynchronize",      \
	    2000, (stream on))                                                 \
	X(fill, cuMemsetD32Async, "cuMemsetD32Async", 3020,                    \
	    (address ptr, unsigned value, size_t n, stream on))                \
	X(host_alloc, cuMemHostAlloc, "cuMemHostAlloc", 2020,                  \
	    (void **out, size_t bytes, unsigned flags))                        \
	X(alloc_host, cuMemAllocHost_v2, "cuMemAllocHost", 3020,               \
	    (void **out, size_t bytes))                                        \
	X(free_host, cuMemFreeHost, "cuMemFreeHost", 2000, (void *ptr))        \
	X(host_flags, cuMemHostGetFlags, "cuMemHostGetFlags", 2030,            \
	    (unsigned *flags, void *ptr))                                      \
	X(host_pointer, cuMemHostGetDevicePointer_v2,                          \
	    "cuMemHostGetDevicePointer", 3020,                                 \
	    (address * out, void *ptr, unsigned flags))                        \
	X(host_register, cuMemHostRegister_v2, "cuMemHostRegister", 6050,      \
	    (void *ptr, size_t bytes, unsigned flags))                         \
	X(host_unregister, cuMemHostUnregister, "cuMemHostUnregister", 4000,   \
	    (void *ptr))                                                       \
	X(copy_in_async, cuMemcpyHtoDAsync_v2, "cuMemcpyHtoDAsync", 3020,      \
	    (address dst, const void *src, size_t bytes, stream on))           \
	X(copy_out, cuMemcpyDtoH_v2, "cuMemcpyDtoH", 3020,                     \
	    (void *dst, address src, size_t bytes))

struct cuda {
#define CUDA_FIELD(field, name, base, version, params) result(*field) params;
	CUDA_FUNCTIONS(CUDA_FIELD)
#undef CUDA_FIELD
};

/* The codes that programs print by name. */
enum { SUCCESS = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, DEINITIALIZED = 4 };

/* End the program with a text unless the call succeeded. */
void must(result code, const char *what);
#define MUST(call) must((call), #call)

/* Fill the table by dlsym() on the driver's library, or end the program. */
void cuda_by_dlsym(struct cuda *cuda);

/* A function of the driver's library by dlsym(), into a pointer to a function,
 * or end the program. */
void cuda_fetch(const char *name, void *place);

/* cuInit and the primary context of device 0, current on this thread. */
context cuda_start(const struct cuda *cuda);

/*
 * Allocate, use, query and free memory in many ways, and print the results: the
 * same lines whoever serves the memory. Returns the exit status of the program:
 * 0 if all contents were right.
 */
int exercise(const struct cuda *cuda);

/* n rounds of allocating, filling, checking and freeing, with several blocks
 * alive at a time. Returns the number of wrong words. */
uint64_t churn(const struct cuda *cuda, unsigned n, uint32_t seed, stream on);

#endif
