/*
 * Memory that other processes open through a handle of 64 bytes.
 *
 * A driver's handle stands for a whole allocation of the driver, and an
 * allocation of weir is a part of one. For the first part, the driver's handle
 * is right. For any other part weir makes a ticket (ipc/record.h); its record
 * has the driver's handle and the place of the part. A process that also runs
 * under weir reads the record, opens the driver's handle, and gives its program
 * the address of the part. For another process the ticket is an invalid handle.
 */
#include <stdatomic.h>
#include <string.h>

#include "allocator/options.h"
#include "base/log.h"
#include "base/meta.h"
#include "ipc/record.h"
#include "preload/lock.h"
#include "preload/serving/opened.h"
#include "preload/serving/outside.h"

static struct lock lock = LOCK_INITIALIZER(LOCK_RANK_TABLE);

/* ---- Giving ------------------------------------------------------------ */

static struct ipc_file file; /* guarded by the lock */

static bool
write_ticket(const struct ipc_record *part, CUipcMemHandle *out)
{
	struct ipc_ticket ticket;
	bool written;

	preload_lock(&lock);
	written = ipc_file_add(&file, part, &ticket);
	preload_unlock(&lock);
	if (written)
		memcpy(out, &ticket, sizeof(*out));
	return written;
}

static CUresult
refuse_handle(CUdeviceptr ptr, const char *why)
{
	static atomic_bool told;

	if (!atomic_exchange(&told, true))
		log_write(LOG_WARN,
		    "cuIpcGetMemHandle(0x%llx): %s; run the program with "
		    "WEIR_PRELOAD_IPC=1",
		    (unsigned long long)ptr, why);
	return CUDA_ERROR_INVALID_VALUE;
}

/* Plain memory is mapped only because of may_sleep. */
static CUresult
refuse_mapped(CUdeviceptr ptr)
{
	const struct options *options;
	static atomic_bool told;

	if (options_get(&options) == WEIR_OK && options->may_sleep &&
	    !atomic_exchange(&told, true))
		log_write(LOG_WARN,
		    "cuIpcGetMemHandle(0x%llx): memory that may sleep has no "
		    "handle of this kind; run the program without may_sleep",
		    (unsigned long long)ptr);
	return CUDA_ERROR_INVALID_VALUE;
}

CUresult
cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr ptr)
{
	struct ipc_record part = { .kind = IPC_DRIVER, .pieces = 1 };
	struct place place;
	size_t whole;
	CUresult code;

	report_call(HOOK_cuIpcGetMemHandle);
	switch (address_find(ptr, &place)) {
	case LIVE:
		break;
	case UNUSED:
		return CUDA_ERROR_INVALID_VALUE;
	default:
		return REAL(cuIpcGetMemHandle)(handle, ptr);
	}
	if (handle == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	/* Mapped memory has no handle of this kind, and neither has memory of
	 * pools. */
	if (place.mapped && gate_free_mode() == FREE_FAST)
		return refuse_handle(ptr, "not with WEIR_PRELOAD_FREE=fast");
	if (place.mapped && !place.ordered)
		return refuse_mapped(ptr);
	if (place.mapped || place.ordered)
		return CUDA_ERROR_INVALID_VALUE;
	code = REAL(cuIpcGetMemHandle)(&part.memory, place.segment);
	if (code == CUDA_SUCCESS)
		code =
		    REAL(cuMemGetAddressRange_v2)(NULL, &whole, place.segment);
	if (code != CUDA_SUCCESS)
		return code;
	part.offset = place.base - place.segment;
	part.size = place.size;
	part.whole = whole;
	if (part.offset == 0)
		*handle = part.memory;
	else if (!write_ticket(&part, handle))
		return refuse_handle(ptr, "there is no room to describe it");
	report_served(HOOK_cuIpcGetMemHandle, code);
	return code;
}

/* ---- Opening ----------------------------------------------------------- */

static bool
read_record(const struct ipc_ticket *ticket, struct ipc_record *out)
{
	const char *fault = ipc_ticket_read(ticket, out);

	if (fault == NULL && out->kind != IPC_DRIVER)
		fault = "its memory is not the driver's";
	if (fault != NULL)
		log_write(LOG_WARN,
		    "cuIpcOpenMemHandle: memory of process %d: %s",
		    (int)ticket->pid, fault);
	return fault == NULL;
}

/* Does the part lie within the allocation that the driver has opened? */
static bool
part_is_there(CUdeviceptr base, const struct ipc_record *part)
{
	CUdeviceptr start;
	size_t size;

	if (REAL(cuMemGetAddressRange_v2)(&start, &size, base) ==
		CUDA_SUCCESS &&
	    start == base && part->offset <= size &&
	    part->size <= size - part->offset)
		return true;
	log_write(LOG_WARN,
	    "cuIpcOpenMemHandle: another process shares less memory than %llu "
	    "bytes at offset %llu",
	    (unsigned long long)part->size, (unsigned long long)part->offset);
	return false;
}

typedef CUresult opener(CUdeviceptr *, CUipcMemHandle, unsigned);

static CUresult
open_block_part(opener *open, const struct ipc_ticket *ticket, unsigned flags,
    CUdeviceptr *out)
{
	struct opened *opened;
	struct ipc_record part;
	CUresult code;

	if (out == NULL || !read_record(ticket, &part))
		return CUDA_ERROR_INVALID_VALUE;
	opened = meta_zalloc(sizeof(*opened));
	if (opened == NULL)
		return CUDA_ERROR_OUT_OF_MEMORY;
	code = open(&opened->base, part.memory, flags);
	if (code != CUDA_SUCCESS)
		goto drop_opened;
	if (!part_is_there(opened->base, &part)) {
		code = CUDA_ERROR_INVALID_VALUE;
		REAL(cuIpcCloseMemHandle)(opened->base);
		goto drop_opened;
	}
	opened->ptr = opened->base + part.offset;
	opened->size = part.size;
	*out = opened->ptr;
	opened_remember(opened);
	return CUDA_SUCCESS;

drop_opened:
	meta_free(opened, sizeof(*opened));
	return code;
}

static CUresult
open_driver_handle(opener *open, CUdeviceptr *out, const CUipcMemHandle *handle,
    unsigned flags)
{
	struct ipc_ticket ticket;

	memcpy(&ticket, handle, sizeof(ticket));
	if (gate_admits() && ipc_is_ticket(&ticket))
		return open_block_part(open, &ticket, flags, out);
	return open(out, *handle, flags);
}

/* Opened memory counts as imported, by the address that closes it. */
static CUresult
count_opened(const CUdeviceptr *out, CUresult code)
{
	if (code == CUDA_SUCCESS)
		outside_opened(opened_base(*out), "cuIpcOpenMemHandle");
	return code;
}

CUresult
cuIpcOpenMemHandle(CUdeviceptr *out, CUipcMemHandle handle, unsigned flags)
{
	report_call(HOOK_cuIpcOpenMemHandle);
	return count_opened(out,
	    open_driver_handle(REAL(cuIpcOpenMemHandle), out, &handle, flags));
}

CUresult
cuIpcOpenMemHandle_v2(CUdeviceptr *out, CUipcMemHandle handle, unsigned flags)
{
	report_call(HOOK_cuIpcOpenMemHandle_v2);
	return count_opened(out,
	    open_driver_handle(
		REAL(cuIpcOpenMemHandle_v2), out, &handle, flags));
}

CUresult
cuIpcCloseMemHandle(CUdeviceptr ptr)
{
	report_call(HOOK_cuIpcCloseMemHandle);
	if (opened_any())
		ptr = opened_forget(ptr);
	struct outside_record *record = outside_take(OUTSIDE_ADDRESS, ptr);
	CUresult code = REAL(cuIpcCloseMemHandle)(ptr);

	outside_taken(record, code);
	return code;
}

/* The memory belongs to a pool of another process. */
CUresult
cuMemPoolImportPointer(
    CUdeviceptr *out, CUmemoryPool pool, CUmemPoolPtrExportData *data)
{
	CUresult code;

	report_call(HOOK_cuMemPoolImportPointer);
	code = REAL(cuMemPoolImportPointer)(out, pool, data);
	if (code == CUDA_SUCCESS)
		outside_opened(*out, "cuMemPoolImportPointer");
	return code;
}
