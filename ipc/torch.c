/*
 * PyTorch's handles of shared memory: the bytes that its processes exchange.
 *
 * A handle begins with the number of the format and a letter. 'c' is memory of
 * the driver; the driver's handle follows. 'e' is mapped memory: the process,
 * the size of each piece and their number follow, then for each piece the
 * number of a descriptor in that process, or a fabric handle. 64 bytes without
 * these first two are a handle of the driver.
 *
 * The reader copies the descriptors from the other process by pidfd_getfd().
 * They must stay open there, so an export keeps them open.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/lock.h"
#include "base/meta.h"
#include "base/os.h"
#include "base/process.h"
#include "base/status.h"
#include "ipc/ipc.h"
#include "ipc/torch.h"
#include "ipc/tuning.h"

enum {
	FORMAT = 2,        /* the format that is written */
	FORMAT_DRIVER = 3, /* the latest format whose 'c' is known */
	FORMAT_MAPPED = 2, /* the latest format whose 'e' is known */
	PIECE_LEAST = 64 << 10,
	FABRIC_BYTES = 64,
};

struct header {
	int32_t pid;
	int32_t padding;
	uint64_t piece; /* bytes */
	uint64_t count;
};

static struct lock lock = LOCK_INITIALIZER(LOCK_RANK_PASSED);

/* ---- Writing ----------------------------------------------------------- */

static bool
pieces_are_alike(const struct weir_ipc_export *export)
{
	const uint64_t *ends = export->pieces;

	for (uint32_t i = 1; i < export->record.pieces; i++)
		if (ends[i + 1] - ends[i] != ends[1])
			return false;
	return export->record.pieces <= TORCH_FDS_MAX;
}

/* Make the descriptors of an export, once. */
static enum weir_status
make_fds(struct weir_ipc_export *export)
{
	uint32_t n = export->record.pieces;
	enum weir_status status = WEIR_OK;
	uint32_t made = 0;
	int *fds;

	if (export->fds != NULL)
		return WEIR_OK;
	fds = meta_zalloc(n * sizeof(*fds));
	if (fds == NULL)
		return status_set(WEIR_EHOSTMEM,
		    "weir_ipc_torch_handle: no host memory for %u "
		    "descriptors",
		    n);
	while (made < n && status == WEIR_OK) {
		status = owner_piece(export, made, &fds[made]);
		made += status == WEIR_OK;
	}
	if (status == WEIR_OK) {
		export->fds = fds;
		return WEIR_OK;
	}
	while (made > 0)
		close(fds[--made]);
	meta_free(fds, n * sizeof(*fds));
	return status;
}

static size_t
length_of(const struct weir_ipc_export *export, bool fabric)
{
	size_t item = fabric ? FABRIC_BYTES : sizeof(int);

	return 2 +
	    (export->record.kind == IPC_DRIVER ?
		    sizeof(CUipcMemHandle) :
		    sizeof(struct header) + export->record.pieces * item);
}

static enum weir_status
write_items(const struct weir_ipc_export *export, bool fabric, char *at)
{
	enum weir_status status = WEIR_OK;

	if (!fabric) {
		memcpy(at, export->fds, export->record.pieces * sizeof(int));
		return WEIR_OK;
	}
	for (uint32_t i = 0; i < export->record.pieces && status == WEIR_OK;
	     i++, at += FABRIC_BYTES)
		status = owner_piece_handle(
		    export, i, CU_MEM_HANDLE_TYPE_FABRIC, at);
	return status;
}

static enum weir_status
write_mapped(struct weir_ipc_export *export, bool fabric, char *at)
{
	struct header header = { .pid = (int32_t)os_process_id(),
		.piece = export->pieces[1],
		.count = export->record.pieces };
	enum weir_status status = WEIR_OK;

	lock_enter(&lock);
	if (!fabric)
		status = make_fds(export);
	lock_leave(&lock);
	if (status == WEIR_OK)
		status = write_items(export, fabric, at + sizeof(header));
	if (status == WEIR_OK)
		memcpy(at, &header, sizeof(header));
	return status;
}

static enum weir_status
check_export(const struct weir_ipc_export *export, const size_t *length,
    const size_t *offset, bool fabric)
{
	if (export == NULL || length == NULL || offset == NULL)
		return status_set(WEIR_EINVAL,
		    "weir_ipc_torch_handle: %s is NULL",
		    export == NULL     ? "shared" :
			length == NULL ? "length" :
					 "offset");
	if (export->ptr == NULL)
		return status_set(WEIR_EINVAL,
		    "weir_ipc_torch_handle: the export is an event");
	if (fabric && export->record.kind == IPC_DRIVER)
		return status_set(WEIR_ENOTSUP,
		    "weir_ipc_torch_fabric_handle: memory of the driver has no "
		    "fabric handles");
	if (export->record.kind == IPC_MAPPED && !pieces_are_alike(export))
		return status_set(WEIR_ENOTSUP,
		    "weir_ipc_torch_handle: the block is made of %u pieces, "
		    "which are more than %d or differ in size; a pool of "
		    "WEIR_POOL_REGISTRABLE has blocks of one",
		    export->record.pieces, TORCH_FDS_MAX);
	return WEIR_OK;
}

/* Where a handle is written. */
struct room {
	void *bytes;
	size_t capacity;
};

/* Write a handle with descriptors, or with fabric handles. */
static enum weir_status
write_handle(struct weir_ipc_export *export, bool fabric, const struct room *to,
    size_t *length, size_t *offset)
{
	char *at = to->bytes;
	enum weir_status status = check_export(export, length, offset, fabric);
	if (status != WEIR_OK)
		return status;
	*length = length_of(export, fabric);
	if (at == NULL || to->capacity < *length)
		return status_set(WEIR_EINVAL,
		    "weir_ipc_torch_handle: the handle has %zu bytes, and "
		    "%zu are available",
		    *length, at == NULL ? (size_t)0 : to->capacity);
	if (export->record.kind == IPC_DRIVER)
		memcpy(at + 2, &export->record.memory, sizeof(CUipcMemHandle));
	else
		status = write_mapped(export, fabric, at + 2);
	if (status != WEIR_OK)
		return status;
	at[0] = FORMAT;
	at[1] = export->record.kind == IPC_DRIVER ? 'c' : 'e';
	*offset = export->record.offset;
	return WEIR_OK;
}

enum weir_status
weir_ipc_torch_handle(struct weir_ipc_export *shared, void *bytes,
    size_t capacity, size_t *length, size_t *offset)
{
	if (os_forked())
		return status_forked("weir_ipc_torch_handle");
	const struct room room = { bytes, capacity };

	return write_handle(shared, false, &room, length, offset);
}

enum weir_status
weir_ipc_torch_fabric_handle(struct weir_ipc_export *shared, void *bytes,
    size_t capacity, size_t *length, size_t *offset)
{
	if (os_forked())
		return status_forked("weir_ipc_torch_fabric_handle");
	const struct room room = { bytes, capacity };

	return write_handle(shared, true, &room, length, offset);
}

/* ---- Reading ----------------------------------------------------------- */

static const char *
mapped_fault(
    const unsigned char *bytes, size_t length, struct torch_handle *out)
{
	struct header header;
	size_t rest;

	if (length < sizeof(header))
		return "it is too short";
	memcpy(&header, bytes, sizeof(header));
	rest = length - sizeof(header);
	if (header.pid <= 0)
		return "it names no process";
	if (header.count == 0 || header.count > IPC_PIECES_MAX)
		return "it has no possible number of pieces";
	if (header.piece < PIECE_LEAST || header.piece % PIECE_LEAST != 0 ||
	    header.piece > WEIR_SIZE_MAX / header.count)
		return "its pieces have no possible size";
	if (rest != header.count * sizeof(int) &&
	    rest != header.count * FABRIC_BYTES)
		return "it does not have as many handles as it says";
	*out = (struct torch_handle){ .pid = header.pid,
		.piece = header.piece,
		.count = (uint32_t)header.count,
		.fabric = rest == header.count * FABRIC_BYTES,
		.items = bytes + sizeof(header) };
	for (uint32_t i = 0; !out->fabric && i < out->count; i++) {
		int fd;

		memcpy(&fd, out->items + i * sizeof(fd), sizeof(fd));
		if (fd < 0)
			return "it names an impossible descriptor";
	}
	return NULL;
}

const char *
torch_read(const void *data, size_t length, struct torch_handle *out)
{
	const unsigned char *bytes = data;
	bool driver = length == sizeof(CUipcMemHandle);

	if (!driver && length < 2)
		return "it is too short";
	if (!driver && bytes[1] != 'c' && bytes[1] != 'e')
		return "it has an unknown kind";
	if (!driver &&
	    (bytes[0] == 0 ||
		bytes[0] > (bytes[1] == 'c' ? FORMAT_DRIVER : FORMAT_MAPPED)))
		return "its format is unknown";
	if (!driver && bytes[1] == 'e')
		return mapped_fault(bytes + 2, length - 2, out);
	if (!driver && length != 2 + sizeof(CUipcMemHandle))
		return "its length is not that of a handle of the driver";
	*out = (struct torch_handle){ .items = bytes + (driver ? 0 : 2) };
	return NULL;
}

/* ---- Opening ----------------------------------------------------------- */

static enum weir_status
find_owner(struct weir_ipc_import *import, pid_t pid)
{
	import->owner = pid;
	import->pidfd = process_open(pid);
	if (import->pidfd < 0 && errno == ENOSYS)
		return status_set(WEIR_ENOTSUP,
		    "weir_ipc_torch_open: the system has no descriptors of "
		    "processes (pidfd_open)");
	if (import->pidfd < 0)
		return status_set(WEIR_EINVAL,
		    "weir_ipc_torch_open: there is no process %d", (int)pid);
	if (!ipc_process_is_own(pid) || process_fd_ended(import->pidfd))
		return status_set(WEIR_EINVAL,
		    "weir_ipc_torch_open: process %d is another user's, or has "
		    "ended",
		    (int)pid);
	return WEIR_OK;
}

static enum weir_status
fetch_descriptor(const struct weir_ipc_import *import, int theirs, int *out)
{
	int fd = process_fetch(import->pidfd, theirs);

	if (fd < 0 && (errno == EPERM || errno == ENOSYS || errno == EACCES))
		return status_set(WEIR_ENOTSUP,
		    "weir_ipc_torch_open: the system does not let this process "
		    "have descriptors of process %d (pidfd_getfd; see "
		    "/proc/sys/kernel/yama/ptrace_scope)",
		    (int)import->owner);
	if (fd < 0)
		return status_set(WEIR_EINVAL,
		    "weir_ipc_torch_open: process %d has no descriptor %d",
		    (int)import->owner, theirs);
	if (!ipc_fd_may_be_memory(fd)) {
		close(fd);
		return status_set(WEIR_EINVAL,
		    "weir_ipc_torch_open: descriptor %d of process %d is no "
		    "memory",
		    theirs, (int)import->owner);
	}
	*out = fd;
	return WEIR_OK;
}

static enum weir_status
map_piece(struct weir_ipc_import *import, const struct torch_handle *handle,
    uint32_t i)
{
	enum weir_status status;
	int fd;

	if (handle->fabric)
		return mapping_add(&import->mapping,
		    handle->items + (size_t)i * FABRIC_BYTES,
		    CU_MEM_HANDLE_TYPE_FABRIC, handle->piece);
	memcpy(&fd, handle->items + i * sizeof(fd), sizeof(fd));
	status = fetch_descriptor(import, fd, &fd);
	if (status != WEIR_OK)
		return status;
	status = mapping_add(&import->mapping, (void *)(intptr_t)fd,
	    CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, handle->piece);
	close(fd);
	return status;
}

static enum weir_status
open_mapped(struct weir_ipc_import *import, const struct torch_handle *handle)
{
	enum weir_status status = WEIR_OK;

	if (!handle->fabric)
		status = find_owner(import, (pid_t)handle->pid);
	if (status == WEIR_OK)
		status = mapping_begin(
		    &import->mapping, handle->piece * handle->count);
	for (uint32_t i = 0; status == WEIR_OK && i < handle->count; i++)
		status = map_piece(import, handle, i);
	if (status == WEIR_OK)
		status = import_open_mapping(import);
	return status;
}

/* Open the pieces, in the context of the device. */
static enum weir_status
open_pieces(struct weir_ipc_import *import, const struct torch_handle *handle,
    size_t offset, size_t size)
{
	size_t whole = handle->piece * handle->count;
	CUipcMemHandle memory;
	enum weir_status status;

	if (handle->count > 0) {
		status = open_mapped(import, handle);
		import->ptr = (char *)(uintptr_t)import->mapping.addr + offset;
	} else {
		memcpy(&memory, handle->items, sizeof(memory));
		status = import_driver(
		    import, &memory, offset + (size > 0 ? size : 1), &whole);
		import->ptr = (char *)(uintptr_t)import->base + offset;
	}
	import->size = size > 0 || status != WEIR_OK ? size : whole - offset;
	return status;
}

static enum weir_status
check_part(const struct torch_handle *handle, size_t offset, size_t size)
{
	size_t whole =
	    handle->count > 0 ? handle->piece * handle->count : WEIR_SIZE_MAX;

	if (offset >= whole || size > whole - offset)
		return status_set(WEIR_EINVAL,
		    "weir_ipc_torch_open: %zu bytes at offset %zu are not in "
		    "the memory of the handle",
		    size, offset);
	return WEIR_OK;
}

enum weir_status
weir_ipc_torch_open(const void *bytes, size_t length, size_t offset,
    size_t size, int device, struct weir_ipc_import **out)
{
	if (os_forked())
		return status_forked("weir_ipc_torch_open");
	struct torch_handle handle;
	struct weir_ipc_import *import;
	struct driver_guard guard;
	const char *fault = bytes == NULL ? "it is NULL" :
	    out == NULL                   ? "out is NULL" :
					    torch_read(bytes, length, &handle);
	if (fault != NULL)
		return status_set(WEIR_EINVAL,
		    "weir_ipc_torch_open: the handle of %zu bytes: %s", length,
		    fault);
	enum weir_status status = check_part(&handle, offset, size);
	if (status == WEIR_OK)
		status = import_new(device, &import);
	if (status != WEIR_OK)
		return status;
	status = driver_enter(import->context, &guard);
	if (status == WEIR_OK) {
		status = open_pieces(import, &handle, offset, size);
		driver_leave(&guard);
	}
	if (status != WEIR_OK) {
		import_drop(import);
		return status;
	}
	*out = import;
	return WEIR_OK;
}
