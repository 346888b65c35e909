/*
 * Pools that processes share.
 *
 * A pool that was created for sharing is exported as the descriptor of a small
 * file that names it. Another process imports it as a pool from which it cannot
 * allocate. It imports the exporter's blocks one by one, each by 64 bytes that
 * name the memory like a handle of cuIpcGetMemHandle().
 */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "simcuda/ipc.h"
#include "simcuda/pool.h"

enum { FILE_MAGIC = 0x73696d70, POINTER_MAGIC = 0x73696d71 };

/* The content of the file. */
struct pool_file {
	uint32_t magic;
	int32_t pid;
	int32_t device;
	/* Explicit, because padding would be written with undefined bytes. */
	uint32_t unused;
	uint64_t pool;
};

static bool
can_be_shared(const struct pool *pool)
{
	return !pool->imported &&
	    (pool->props.handleTypes &
		CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) != 0;
}

static CUresult
export_pool(const struct pool *pool, int *out)
{
	struct pool_file file = { .magic = FILE_MAGIC,
		.pid = getpid(),
		.device = pool->device->ordinal,
		.pool = pool->handle };
	int fd = memfd_create("simcuda-pool", MFD_CLOEXEC);

	if (fd < 0)
		return CUDA_ERROR_OPERATING_SYSTEM;
	if (write(fd, &file, sizeof(file)) != sizeof(file)) {
		close(fd);
		return CUDA_ERROR_OPERATING_SYSTEM;
	}
	*out = fd;
	return CUDA_SUCCESS;
}

CUresult
cuMemPoolExportToShareableHandle(void *shareable, CUmemoryPool handle,
    CUmemAllocationHandleType type, unsigned long long flags)
{
	CUresult code = gate_enter(E_cuMemPoolExportToShareableHandle);
	struct pool *pool = NULL;

	if (code == CUDA_SUCCESS)
		pool = pool_find(handle, &code);
	if (code == CUDA_SUCCESS &&
	    (shareable == NULL || flags != 0 || !can_be_shared(pool) ||
		type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR))
		code = CUDA_ERROR_INVALID_VALUE;
	if (code == CUDA_SUCCESS)
		code = export_pool(pool, shareable);
	return gate_leave(code);
}

static CUresult
import_pool(int fd, CUmemoryPool *out)
{
	struct pool_file file;
	struct pool *pool;

	if (pread(fd, &file, sizeof(file), 0) != sizeof(file) ||
	    file.magic != FILE_MAGIC)
		return CUDA_ERROR_INVALID_VALUE;
	if (device_find(file.device) == NULL)
		return CUDA_ERROR_INVALID_DEVICE;
	pool = pool_new(device_find(file.device));
	pool->imported = true;
	pool->exporter_pid = file.pid;
	pool->exporter_pool = file.pool;
	*out = handle_pointer(pool->handle);
	return CUDA_SUCCESS;
}

CUresult
cuMemPoolImportFromShareableHandle(CUmemoryPool *pool, void *shareable,
    CUmemAllocationHandleType type, unsigned long long flags)
{
	CUresult code = gate_enter(E_cuMemPoolImportFromShareableHandle);

	if (code == CUDA_SUCCESS &&
	    (pool == NULL || flags != 0 ||
		type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR))
		code = CUDA_ERROR_INVALID_VALUE;
	if (code == CUDA_SUCCESS)
		code = import_pool((int)(intptr_t)shareable, pool);
	return gate_leave(code);
}

CUresult
cuMemPoolExportPointer(CUmemPoolPtrExportData *data, CUdeviceptr address)
{
	CUresult code = gate_enter(E_cuMemPoolExportPointer);
	struct range *range = memory_find(address);
	struct ipc_handle ipc;

	if (code == CUDA_SUCCESS &&
	    (data == NULL || range == NULL || range->released ||
		range->kind != RANGE_POOLED || range->chunk == NULL ||
		!can_be_shared(range->pool)))
		code = CUDA_ERROR_INVALID_VALUE;
	if (code != CUDA_SUCCESS)
		return gate_leave(code);
	ipc = ipc_describe(range, POINTER_MAGIC);
	memset(data, 0, sizeof(*data));
	memcpy(data, &ipc, sizeof(ipc));
	return gate_leave(CUDA_SUCCESS);
}

CUresult
cuMemPoolImportPointer(
    CUdeviceptr *address, CUmemoryPool handle, CUmemPoolPtrExportData *data)
{
	CUresult code = gate_enter(E_cuMemPoolImportPointer);
	struct pool *pool = NULL;
	struct range *range;
	struct ipc_handle ipc = { 0 };

	if (code == CUDA_SUCCESS)
		pool = pool_find(handle, &code);
	if (code == CUDA_SUCCESS && (address == NULL || data == NULL))
		code = CUDA_ERROR_INVALID_VALUE;
	if (code != CUDA_SUCCESS)
		return gate_leave(code);
	memcpy(&ipc, data, sizeof(ipc));
	if (!pool->imported || ipc.magic != POINTER_MAGIC ||
	    ipc.pid != pool->exporter_pid || ipc.pool != pool->exporter_pool)
		return gate_leave(CUDA_ERROR_INVALID_VALUE);
	sim.here = context_current(&code);
	if (code == CUDA_SUCCESS)
		code = ipc_open(&ipc, &range);
	if (code == CUDA_SUCCESS) {
		range->pool = pool;
		*address = range->start;
	}
	return gate_leave(code);
}
