/*
 * Sharing memory with other processes.
 *
 * The device's memory is a file, so another process can map the same bytes. An
 * exported descriptor is a new opening of that file. Its position names the
 * extent: the offset, a multiple of 2 MiB, plus the number of 2 MiB pages. The
 * position is kept when the descriptor is sent over a socket. A handle of 64
 * bytes names process, descriptor and extent. It is opened through /proc, which
 * requires only that both processes belong to the same user.
 *
 * Freed memory that was shared is not punched out of the file, because other
 * processes may still map it.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "simcuda/ipc.h"

enum { IPC_MAGIC = 0x73696d63, FABRIC_MAGIC = 0x73696d66, FABRIC_BYTES = 64 };

static uint64_t foreign_bytes; /* for race.c: bytes of imported memory */

/* Open the file of a descriptor again, so that the copy has its own position.
 */
static int
reopen(int pid, int fd)
{
	char path[64];

	if (pid == 0)
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	else
		snprintf(path, sizeof(path), "/proc/%d/fd/%d", pid, fd);
	return open(path, O_RDWR | O_CLOEXEC);
}

/* ---- handles of cuMemCreate() ------------------------------------------- */

static CUresult
export_fd(const struct phys *phys, int *out)
{
	int fd = reopen(0, phys->fd);

	if (fd < 0)
		return CUDA_ERROR_OPERATING_SYSTEM;
	if (lseek(fd, (off_t)(phys->offset + phys->size / SIM_GRANULE),
		SEEK_SET) < 0) {
		close(fd);
		return CUDA_ERROR_OPERATING_SYSTEM;
	}
	*out = fd;
	return CUDA_SUCCESS;
}

/* The contents of a fabric handle, which names a descriptor. Real fabric
 * handles work between machines, these only between processes. */
struct fabric_handle {
	uint32_t magic;
	int32_t pid;
	int32_t fd;
	uint32_t unused;
	uint64_t position;
};

static void
export_fabric(const struct phys *phys, void *out)
{
	struct fabric_handle handle = { .magic = FABRIC_MAGIC,
		.pid = getpid(),
		.fd = phys->fd,
		.position = phys->offset + phys->size / SIM_GRANULE };

	memset(out, 0, FABRIC_BYTES);
	memcpy(out, &handle, sizeof(handle));
}

CUresult
cuMemExportToShareableHandle(void *shareable,
    CUmemGenericAllocationHandle handle, CUmemAllocationHandleType type,
    unsigned long long flags)
{
	CUresult code = gate_enter(E_cuMemExportToShareableHandle);
	struct phys *phys = handle_find(HANDLE_PHYS, handle);

	if (code != CUDA_SUCCESS)
		return gate_leave(code);
	if (shareable == NULL || phys == NULL || flags != 0 ||
	    (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR &&
		type != CU_MEM_HANDLE_TYPE_FABRIC) ||
	    (phys->prop.requestedHandleTypes & type) == 0)
		return gate_leave(CUDA_ERROR_INVALID_VALUE);
	if (type == CU_MEM_HANDLE_TYPE_FABRIC)
		export_fabric(phys, shareable);
	else
		code = export_fd(phys, shareable);
	if (code == CUDA_SUCCESS)
		phys->exported = true;
	return gate_leave(code);
}

/* The device whose memory the descriptor stands for; -1 if there is none. */
static int
descriptor_device(int fd)
{
	char link[64], name[128];
	ssize_t n;
	int device;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, name, sizeof(name) - 1);
	if (n < 0)
		return -1;
	name[n] = '\0';
	if (sscanf(name, "/memfd:simcuda-device-%d", &device) != 1)
		return -1;
	return device;
}

static bool
same_file(int a, int b)
{
	struct stat first, second;

	return fstat(a, &first) == 0 && fstat(b, &second) == 0 &&
	    first.st_ino == second.st_ino && first.st_dev == second.st_dev;
}

/* An extent of another process's device; takes ownership of `fd`. */
static struct phys *
phys_foreign(int fd, struct device *device, uint64_t offset, size_t size)
{
	struct phys *phys = sim_alloc(sizeof(*phys));

	phys->refs = 1;
	phys->device = device;
	phys->fd = fd;
	phys->foreign = true;
	phys->exported = true;
	phys->offset = offset;
	phys->size = size;
	phys->space = SPACE_FOREIGN;
	phys->race_offset = foreign_bytes;
	foreign_bytes += size;
	phys->prop = (CUmemAllocationProp){
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.requestedHandleTypes =
		    CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
		.location = { CU_MEM_LOCATION_TYPE_DEVICE, device->ordinal },
	};
	return phys;
}

/* The memory of this process at the offset, if the process has exported it
 * itself; or NULL. */
static struct phys *
find_own(const struct device *device, uint64_t offset)
{
	for (size_t i = 0; i < handle_indices(HANDLE_PHYS); i++) {
		struct phys *phys = handle_nth(HANDLE_PHYS, i);

		if (phys != NULL && phys->device == device && !phys->foreign &&
		    phys->offset == offset)
			return phys;
	}
	return NULL;
}

static CUresult
import_fd(int fd, CUmemGenericAllocationHandle *out)
{
	int ordinal = descriptor_device(fd), own;
	off_t position = lseek(fd, 0, SEEK_CUR);
	struct device *device;
	struct phys *phys;
	uint64_t offset, pages;

	if (ordinal < 0 || position < 0)
		return CUDA_ERROR_INVALID_VALUE;
	device = device_find(ordinal);
	if (device == NULL)
		return CUDA_ERROR_INVALID_DEVICE;
	pages = (uint64_t)position % SIM_GRANULE;
	offset = (uint64_t)position - pages;
	if (pages == 0)
		return CUDA_ERROR_INVALID_VALUE;
	phys = same_file(fd, device->fd) ? find_own(device, offset) : NULL;
	if (phys != NULL) {
		*out = phys_handle(phys);
		return CUDA_SUCCESS;
	}
	own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (own < 0)
		return CUDA_ERROR_OPERATING_SYSTEM;
	phys = phys_foreign(own, device, offset, pages * SIM_GRANULE);
	*out = phys_handle(phys);
	phys_drop(phys);
	return CUDA_SUCCESS;
}

static CUresult
import_fabric(const void *shareable, CUmemGenericAllocationHandle *out)
{
	struct fabric_handle handle;
	CUresult code;
	int fd;

	if (conf.fabric != 1)
		return CUDA_ERROR_NOT_PERMITTED;
	memcpy(&handle, shareable, sizeof(handle));
	if (handle.magic != FABRIC_MAGIC)
		return CUDA_ERROR_INVALID_VALUE;
	fd = reopen(handle.pid, handle.fd);
	if (fd < 0)
		return CUDA_ERROR_INVALID_VALUE;
	code = lseek(fd, (off_t)handle.position, SEEK_SET) < 0 ?
	    CUDA_ERROR_INVALID_VALUE :
	    import_fd(fd, out);
	close(fd);
	return code;
}

CUresult
cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle,
    void *shareable, CUmemAllocationHandleType type)
{
	CUresult code = gate_enter(E_cuMemImportFromShareableHandle);

	if (code == CUDA_SUCCESS &&
	    (handle == NULL ||
		(type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR &&
		    (type != CU_MEM_HANDLE_TYPE_FABRIC || shareable == NULL))))
		code = CUDA_ERROR_INVALID_VALUE;
	if (code == CUDA_SUCCESS)
		code = type == CU_MEM_HANDLE_TYPE_FABRIC ?
		    import_fabric(shareable, handle) :
		    import_fd((int)(intptr_t)shareable, handle);
	return gate_leave(code);
}

/* ---- handles of cuMemAlloc() -------------------------------------------- */

struct ipc_handle
ipc_describe(struct range *range, uint32_t magic)
{
	range->phys->exported = true;
	return (struct ipc_handle){
		.magic = magic,
		.pid = getpid(),
		.fd = range->phys->fd,
		.device = range->phys->device->ordinal,
		.offset = range->phys->offset,
		.pages_size = range->phys->size,
		.into = range->phys_offset,
		.size = range->size,
		.id = range->id,
		.pool = pool_handle(range->pool),
	};
}

CUresult
cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr address)
{
	CUresult code = gate_enter(E_cuIpcGetMemHandle);
	struct range *range = memory_find(address);
	struct ipc_handle ipc;

	if (code != CUDA_SUCCESS)
		return gate_leave(code);
	if (handle == NULL || range == NULL || range->kind != RANGE_ALLOC ||
	    range->graph_memory)
		return gate_leave(CUDA_ERROR_INVALID_VALUE);
	ipc = ipc_describe(range, IPC_MAGIC);
	memset(handle, 0, sizeof(*handle));
	memcpy(handle, &ipc, sizeof(ipc));
	return gate_leave(CUDA_SUCCESS);
}

/* An existing opening of the same allocation, or NULL. */
static struct range *
find_opened(const struct ipc_handle *ipc)
{
	for (struct range *range = sim.here->ranges; range != NULL;
	     range = range->next_in_context) {
		if (range->kind == RANGE_IPC && range->ipc_pid == ipc->pid &&
		    range->ipc_id == ipc->id)
			return range;
	}
	return NULL;
}

CUresult
ipc_open(const struct ipc_handle *ipc, struct range **out)
{
	struct device *device = device_find(ipc->device);
	struct phys *phys;
	uint64_t address;
	int fd;

	if (device == NULL)
		return CUDA_ERROR_INVALID_DEVICE;
	fd = reopen(ipc->pid, ipc->fd);
	if (fd < 0)
		return CUDA_ERROR_MAP_FAILED;
	if (descriptor_device(fd) != ipc->device) {
		close(fd);
		return CUDA_ERROR_INVALID_VALUE;
	}
	phys = phys_foreign(fd, device, ipc->offset, ipc->pages_size);
	address = address_reserve(phys->size, SIM_GRANULE, 0);
	if (address == 0)
		goto drop_memory;
	if (!phys_map(phys, phys->size, address, PROT_READ | PROT_WRITE))
		goto drop_address;
	*out = range_new(RANGE_IPC, address + ipc->into, ipc->size);
	(*out)->phys = phys;
	(*out)->phys_offset = ipc->into;
	(*out)->ipc_pid = ipc->pid;
	(*out)->ipc_id = ipc->id;
	range_own(*out, sim.here);
	return CUDA_SUCCESS;

drop_address:
	address_release(address, phys->size);
drop_memory:
	phys_drop(phys);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult
cuIpcOpenMemHandle_v2(
    CUdeviceptr *address, CUipcMemHandle handle, unsigned int flags)
{
	CUresult code = gate_enter(E_cuIpcOpenMemHandle_v2);
	struct ipc_handle ipc;
	struct range *range;

	memcpy(&ipc, &handle, sizeof(ipc));
	if (code != CUDA_SUCCESS)
		return gate_leave(code);
	if (address == NULL || flags > CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS ||
	    ipc.magic != IPC_MAGIC)
		return gate_leave(CUDA_ERROR_INVALID_VALUE);
	/* The exporter itself has the memory already. */
	if (ipc.pid == getpid())
		return gate_leave(CUDA_ERROR_INVALID_CONTEXT);
	range = find_opened(&ipc);
	if (range == NULL)
		code = ipc_open(&ipc, &range);
	if (code == CUDA_SUCCESS) {
		range->opened++;
		*address = range->start;
	}
	return gate_leave(code);
}

CUresult
cuIpcOpenMemHandle(
    CUdeviceptr *address, CUipcMemHandle handle, unsigned int flags)
{
	return cuIpcOpenMemHandle_v2(address, handle, flags);
}

CUresult
cuIpcCloseMemHandle(CUdeviceptr address)
{
	CUresult code = gate_enter(E_cuIpcCloseMemHandle);
	struct range *range = memory_find(address);

	if (code == CUDA_SUCCESS &&
	    (range == NULL || range->kind != RANGE_IPC ||
		range->start != address))
		code = CUDA_ERROR_INVALID_VALUE;
	if (code == CUDA_SUCCESS && --range->opened == 0) {
		context_wait(range->context);
		ipc_close(range);
	}
	return gate_leave(code);
}
