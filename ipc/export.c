/*
 * Exporting memory and events to other processes.
 */
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "allocator/memory/handle.h"
#include "base/lock.h"
#include "base/meta.h"
#include "base/os.h"
#include "base/status.h"
#include "ipc/ipc.h"
#include "streams/event.h"
#include "streams/stream.h"

/* Only one thread creates an export at a time, because a block has only one. */
static struct lock making = LOCK_INITIALIZER(LOCK_RANK_EXPORT);
static uint64_t made;
static uint64_t nonce; /* of the socket; set before the first export */

/* ---- What a block is made of ------------------------------------------- */

static enum weir_status
driver_can_share(const struct driver *driver)
{
	if (driver->cuMemGetAddressRange == NULL ||
	    driver->cuMemRetainAllocationHandle == NULL ||
	    driver->cuIpcGetMemHandle == NULL ||
	    driver->cuIpcGetEventHandle == NULL)
		return status_set(WEIR_ENOTSUP,
		    "weir_ipc_export: this driver does not share memory");
	return WEIR_OK;
}

static enum weir_status
range_of(CUdeviceptr at, CUdeviceptr *start, size_t *size)
{
	return driver_status(
	    driver_peek()->cuMemGetAddressRange(start, size, at),
	    "cuMemGetAddressRange(%#llx)", (unsigned long long)at);
}

/* Count the pieces under a block. With `ends`, also store where each piece
 * begins and the last one ends, relative to the first. */
static enum weir_status
walk_pieces(CUdeviceptr ptr, struct ipc_record *record, uint64_t *ends)
{
	CUdeviceptr at = ptr;
	CUdeviceptr start;
	size_t size;

	record->pieces = 0;
	record->whole = 0;
	while (at < ptr + record->size) {
		enum weir_status status = range_of(at, &start, &size);
		if (status != WEIR_OK)
			return status;
		if (record->pieces == IPC_PIECES_MAX)
			return status_set(WEIR_ENOTSUP,
			    "weir_ipc_export: the block is made of more than "
			    "%d pieces",
			    IPC_PIECES_MAX);
		if (record->pieces == 0)
			record->offset = ptr - start;
		if (ends != NULL)
			ends[record->pieces] = record->whole;
		record->pieces++;
		record->whole += size;
		at = start + size;
	}
	if (ends != NULL)
		ends[record->pieces] = record->whole;
	return WEIR_OK;
}

static enum weir_status
describe_mapped(struct weir_ipc_export *export)
{
	struct ipc_record *record = &export->record;
	CUdeviceptr ptr = (CUdeviceptr)(uintptr_t) export->ptr;
	int fd;
	enum weir_status status = walk_pieces(ptr, record, NULL);
	if (status != WEIR_OK)
		return status;
	record->kind = IPC_MAPPED;
	export->pieces = meta_zalloc((record->pieces + 1) * sizeof(uint64_t));
	if (export->pieces == NULL)
		return status_set(WEIR_EHOSTMEM,
		    "weir_ipc_export: no host memory for %u pieces",
		    record->pieces);
	status = walk_pieces(ptr, record, export->pieces);
	/* Memory of a pool's own source may not be exportable. */
	if (status == WEIR_OK)
		status = owner_piece(export, 0, &fd);
	if (status == WEIR_OK)
		close(fd);
	return status;
}

static enum weir_status
describe_driver(struct weir_ipc_export *export)
{
	struct ipc_record *record = &export->record;
	CUdeviceptr ptr = (CUdeviceptr)(uintptr_t) export->ptr;
	CUdeviceptr start;
	size_t size;
	enum weir_status status = range_of(ptr, &start, &size);
	if (status != WEIR_OK)
		return status;
	record->kind = IPC_DRIVER;
	record->pieces = 1;
	record->offset = ptr - start;
	record->whole = size;
	return driver_status(
	    driver_peek()->cuIpcGetMemHandle(&record->memory, start),
	    "cuIpcGetMemHandle(%#llx)", (unsigned long long)start);
}

/* Describe the memory, in the context of the device. */
static enum weir_status
describe_memory(struct weir_ipc_export *export)
{
	const struct driver *driver = driver_peek();
	CUmemGenericAllocationHandle id;
	unsigned type = 0;
	enum weir_status status =
	    driver_status(driver->cuPointerGetAttribute(&type,
			      CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
			      (CUdeviceptr)(uintptr_t) export->ptr),
		"cuPointerGetAttribute(%p)", export->ptr);
	if (status == WEIR_OK && type != CU_MEMORYTYPE_DEVICE)
		return status_set(WEIR_ENOTSUP,
		    "weir_ipc_export(%p): host memory is not shared this way",
		    export->ptr);
	if (status == WEIR_OK)
		status =
		    driver_status(driver->cuDeviceGetUuid(
				      &export->record.device, export->device),
			"cuDeviceGetUuid(device %d)", export->device);
	if (status != WEIR_OK)
		return status;
	if (driver->cuMemRetainAllocationHandle(&id, export->ptr) !=
	    CUDA_SUCCESS)
		return describe_driver(export);
	handle_drop_hold(id);
	return describe_mapped(export);
}

/* ---- When it is ready -------------------------------------------------- */

static enum weir_status
check_capture(int device, weir_stream handle)
{
	struct stream *stream;
	enum weir_status status = stream_find(device, handle, &stream);
	if (status != WEIR_OK)
		return status;
	if (stream_capturing(stream))
		status = status_set(WEIR_ECAPTURE,
		    "weir_ipc_export: stream %p is being captured",
		    (void *)handle);
	stream_put(stream);
	return status;
}

static enum weir_status
export_ready_event(struct weir_event *event, CUipcEventHandle *out)
{
	struct driver_guard guard;
	CUresult code;
	enum weir_status status = driver_enter(event_context(event), &guard);
	if (status != WEIR_OK)
		return status;
	code =
	    driver_peek()->cuIpcGetEventHandle(out, weir_event_handle(event));
	driver_leave(&guard);
	return driver_status(code, "cuIpcGetEventHandle()");
}

/* Without interprocess events, wait for the stream. */
static enum weir_status
make_ready(struct weir_ipc_export *export, weir_stream stream)
{
	struct weir_event *event;
	enum weir_status status;

	if (stream == WEIR_STREAM_ANY)
		return WEIR_OK;
	status = check_capture(export->device, stream);
	if (status == WEIR_OK)
		status = weir_event_create(WEIR_EVENT_INTERPROCESS, &event);
	if (status != WEIR_OK)
		return status;
	status_mute();
	status = weir_event_record(event, stream);
	if (status == WEIR_OK)
		status = export_ready_event(event, &export->record.ready);
	status_unmute();
	if (status != WEIR_OK) {
		weir_event_destroy(event);
		return weir_stream_synchronize(stream);
	}
	export->record.has_ready = 1;
	export->event = event;
	return WEIR_OK;
}

/* ---- Making ------------------------------------------------------------ */

static enum weir_status
export_new(struct weir_ipc_export **out)
{
	struct weir_ipc_export *export = meta_zalloc(sizeof(*export));
	const struct driver *driver;

	if (export == NULL)
		return status_set(
		    WEIR_EHOSTMEM, "weir_ipc_export: no host memory");
	enum weir_status status = driver_get(&driver);
	if (status == WEIR_OK)
		status = driver_can_share(driver);
	if (status == WEIR_OK)
		status = answer_start(&nonce);
	if (status == WEIR_OK &&
	    getrandom(export->secret, IPC_SECRET_BYTES, 0) != IPC_SECRET_BYTES)
		status = status_set(WEIR_ENOTSUP,
		    "weir_ipc_export: the system has no random numbers");
	if (status != WEIR_OK) {
		meta_free(export, sizeof(*export));
		return status;
	}
	export->number = ++made;
	export->uses = 1;
	*out = export;
	return WEIR_OK;
}

/* Describe a block, which is pinned for the export. */
static enum weir_status
describe_export(struct weir_ipc_export *export, weir_stream stream)
{
	struct driver_guard guard;
	CUcontext context;
	enum weir_status status = driver_context(export->device, &context);

	if (status == WEIR_OK)
		status = driver_enter(context, &guard);
	if (status != WEIR_OK)
		return status;
	status = describe_memory(export);
	if (status == WEIR_OK)
		status = make_ready(export, stream);
	driver_leave(&guard);
	return status;
}

/* The function that is called at the end; NULL: the block is freed. */
struct borrowed {
	void (*done)(void *closure, void *ptr);
	void *closure;
};

static enum weir_status
export_block(void *ptr, weir_stream stream, const struct borrowed *borrowed,
    struct weir_ipc_export **out) HOLDS(making)
{
	struct weir_block_info info = { .struct_size = sizeof(info) };
	struct weir_ipc_export *export = NULL;
	enum weir_status status = weir_block_info(ptr, &info);

	if (status == WEIR_OK && info.address != ptr)
		return status_set(WEIR_EINVAL,
		    "weir_ipc_export(%p): it lies within the block at %p; "
		    "export that",
		    ptr, info.address);
	if (status == WEIR_OK)
		status = export_new(&export);
	if (status != WEIR_OK)
		return status;
	status = weir_pin(ptr);
	if (status != WEIR_OK)
		goto drop_export;
	export->ptr = ptr;
	export->done = borrowed->done;
	export->closure = borrowed->closure;
	export->device = info.device;
	export->record.size = info.requested_bytes;
	status = describe_export(export, stream);
	if (status != WEIR_OK)
		goto unpin;
	owner_register(export);
	*out = export;
	return WEIR_OK;

unpin:
	weir_unpin(ptr);
drop_export:
	owner_free(export);
	return status;
}

static enum weir_status
check_exportable(const void *ptr, struct weir_ipc_export **out)
{
	if (out == NULL || ptr == NULL)
		return status_set(WEIR_EINVAL, "weir_ipc_export: %s is NULL",
		    out == NULL ? "out" : "ptr");
	return WEIR_OK;
}

enum weir_status
weir_ipc_export(void *ptr, weir_stream stream, struct weir_ipc_export **out)
{
	if (os_forked())
		return status_forked("weir_ipc_export");
	const struct borrowed owned = { NULL, NULL };
	enum weir_status status = check_exportable(ptr, out);

	if (status != WEIR_OK)
		return status;
	lock_enter(&making);
	struct weir_ipc_export *known = owner_find_used(ptr, NULL);
	if (known != NULL)
		*out = known;
	else
		status = export_block(ptr, stream, &owned, out);
	lock_leave(&making);
	return status;
}

enum weir_status
weir_ipc_lend(void *ptr, weir_stream stream,
    void (*done)(void *closure, void *ptr), void *closure,
    struct weir_ipc_export **out)
{
	if (os_forked())
		return status_forked("weir_ipc_lend");
	const struct borrowed borrowed = { done, closure };
	enum weir_status status = check_exportable(ptr, out);

	if (status == WEIR_OK && done == NULL)
		status = status_set(WEIR_EINVAL, "weir_ipc_lend: done is NULL");
	if (status != WEIR_OK)
		return status;
	lock_enter(&making);
	status = export_block(ptr, stream, &borrowed, out);
	lock_leave(&making);
	return status;
}

static enum weir_status
export_event(struct weir_event *event, struct weir_ipc_export **out)
{
	struct weir_ipc_export *export;
	enum weir_status status;

	if (owner_find_used(NULL, event) != NULL)
		return status_set(WEIR_EINVAL,
		    "weir_ipc_export_event: the event is exported already");
	status = export_new(&export);
	if (status != WEIR_OK)
		return status;
	export->record.kind = IPC_EVENT;
	export->record.has_ready = 1;
	export->device = event_device(event);
	status = export_ready_event(event, &export->record.ready);
	if (status == WEIR_OK)
		status =
		    driver_status(driver_peek()->cuDeviceGetUuid(
				      &export->record.device, export->device),
			"cuDeviceGetUuid(device %d)", export->device);
	if (status != WEIR_OK) {
		owner_free(export);
		return status;
	}
	export->event = event;
	event_own(event);
	owner_register(export);
	*out = export;
	return WEIR_OK;
}

enum weir_status
weir_ipc_export_event(struct weir_event *event, struct weir_ipc_export **out)
{
	if (out == NULL || event == NULL)
		return status_set(WEIR_EINVAL,
		    "weir_ipc_export_event: %s is NULL",
		    out == NULL ? "out" : "event");
	if (os_forked())
		return status_forked("weir_ipc_export_event");
	if ((event_flags(event) & WEIR_EVENT_INTERPROCESS) == 0 ||
	    weir_event_handle(event) == NULL)
		return status_set(WEIR_EINVAL,
		    "weir_ipc_export_event: the event is not made with "
		    "WEIR_EVENT_INTERPROCESS, or was never recorded");
	lock_enter(&making);
	enum weir_status status = export_event(event, out);
	lock_leave(&making);
	return status;
}

/* ---- Using ------------------------------------------------------------- */

enum weir_status
weir_ipc_handle_of(
    const struct weir_ipc_export *shared, struct weir_ipc_handle *out)
{
	if (os_forked())
		return status_forked("weir_ipc_handle_of");
	struct ipc_name name = { 0 };

	if (shared == NULL || out == NULL)
		return status_set(WEIR_EINVAL, "weir_ipc_handle_of: %s is NULL",
		    shared == NULL ? "shared" : "out");
	name.nonce = nonce;
	name.number = shared->number;
	ipc_name_make(&name, shared->secret);
	memcpy(out->bytes, &name, sizeof(name));
	return WEIR_OK;
}
