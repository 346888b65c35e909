/*
 * Memory of another process: the contents of a handle, and opening it.
 */
#ifndef SIMCUDA_IPC_H
#define SIMCUDA_IPC_H

#include "simcuda/sim.h"

/* The content of a CUipcMemHandle, and of a CUmemPoolPtrExportData. */
struct ipc_handle {
	uint32_t magic;
	int32_t pid;
	int32_t fd;
	int32_t device;
	uint64_t offset; /* offset of the pages in the file */
	uint64_t pages_size;
	uint64_t into; /* offset of the allocation in the pages */
	uint64_t size;
	uint64_t id;   /* number of the allocation in its process */
	uint64_t pool; /* number of its pool; 0: none */
};

_Static_assert(sizeof(struct ipc_handle) <= CU_IPC_HANDLE_SIZE,
    "an IPC handle has 64 bytes");

/* Describe device memory of this process; from now on others may open it. */
struct ipc_handle ipc_describe(struct range *range, uint32_t magic);

/* Map memory that another process has described, as a range of this context. */
CUresult ipc_open(const struct ipc_handle *ipc, struct range **out);

#endif
