/*
 * Constants, sizes and offsets of the runtime's header, weir's or the
 * toolkit's: a file that includes this list has included one of the two.
 * fake/runtime.c is the toolkit's side.
 */
#ifndef WEIR_TESTS_DRIVER_FAKE_RUNTIME_H
#define WEIR_TESTS_DRIVER_FAKE_RUNTIME_H

#include <stddef.h>

struct runtime_fact {
	const char *name;
	long long value;
};

struct runtime_toolkit {
	int version; /* 0: no toolkit, or one before 13.0 */
	const struct runtime_fact *facts;
	int n_facts;
};

/* clang-format off */
#define RUNTIME_CONSTANTS(X)                                                   \
	X(cudaErrorInvalidSymbol) X(cudaErrorUnsupportedLimit)                 \
	X(cudaErrorNotSupported) X(cudaErrorInvalidDeviceFunction)             \
	X(cudaMemAttachGlobal) X(cudaMemAttachHost) X(cudaDeviceMapHost)       \
	X(cudaMemAdviseSetReadMostly) X(cudaMemAdviseSetPreferredLocation)     \
	X(cudaMemAdviseUnsetAccessedBy) X(cudaLimitStackSize)                  \
	X(cudaLimitMallocHeapSize) X(cudaLimitPersistingL2CacheSize)           \
	X(cudaMemoryTypeManaged) X(cudaMemLocationTypeHost)                    \
	X(cudaMemcpyDefault) X(cudaMemPoolAttrUsedMemHigh)                     \
	X(cudaHostAllocWriteCombined) X(cudaEventInterprocess)                 \
	X(cudaGraphExecUpdateErrorParametersChanged)                           \
	X(cudaErrorGraphExecUpdateFailure)

#define RUNTIME_SIZES(X)                                                       \
	X(struct cudaDeviceProp) X(struct cudaPointerAttributes)               \
	X(struct cudaMemPoolProps) X(struct cudaMemLocation)                   \
	X(struct cudaMemcpy3DParms) X(struct cudaPitchedPtr)                   \
	X(struct cudaMemcpy3DPeerParms) X(struct cudaMemsetParams)             \
	X(cudaGraphExecUpdateResultInfo)                                       \
	X(cudaIpcMemHandle_t) X(cudaIpcEventHandle_t)                          \
	X(struct cudaMemAccessDesc)

#define RUNTIME_PLACES(X)                                                      \
	X(uuid) X(totalGlobalMem) X(sharedMemPerBlock) X(memPitch)             \
	X(totalConstMem) X(major) X(multiProcessorCount) X(canMapHostMemory)   \
	X(surfaceAlignment) X(concurrentKernels) X(pciBusID)                   \
	X(asyncEngineCount) X(unifiedAddressing) X(memoryBusWidth)             \
	X(l2CacheSize) X(maxThreadsPerMultiProcessor)                          \
	X(sharedMemPerMultiprocessor) X(regsPerMultiprocessor)                 \
	X(managedMemory) X(pageableMemoryAccess) X(concurrentManagedAccess)    \
	X(sharedMemPerBlockOptin) X(reservedSharedMemPerBlock)                 \
	X(hostRegisterSupported) X(memoryPoolsSupported)

#define RUNTIME_CONSTANT(name) { #name, (long long)(name) },
#define RUNTIME_SIZE(type) { "sizeof(" #type ")", (long long)sizeof(type) },
#define RUNTIME_PLACE(member)                                                  \
	{ "cudaDeviceProp." #member,                                           \
		(long long)offsetof(struct cudaDeviceProp, member) },
#define RUNTIME_FACTS                                                          \
	RUNTIME_CONSTANTS(RUNTIME_CONSTANT)                                    \
	RUNTIME_SIZES(RUNTIME_SIZE) RUNTIME_PLACES(RUNTIME_PLACE)
/* clang-format on */

#endif
