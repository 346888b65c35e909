/*
 * The memory and events of other processes that this process has opened.
 *
 * The owner is asked for a record and, for mapped memory, for descriptors. An
 * import that fails halfway is undone by the same calls, in the same order, as
 * an import that ends.
 */
#include <string.h>
#include <unistd.h>

#include "allocator/memory/handle.h"
#include "base/lock.h"
#include "base/meta.h"
#include "base/os.h"
#include "base/process.h"
#include "base/status.h"
#include "ipc/ipc.h"
#include "streams/event.h"
#include "streams/stream.h"

/* ---- Devices ----------------------------------------------------------- */

/* The device of this process that is the same as one of another process, or -1.
 */
static int
local_device_of(const CUuuid *uuid)
{
	CUuuid own;

	for (int d = 0; d < driver_peek()->device_count; d++)
		if (driver_peek()->cuDeviceGetUuid(&own, d) == CUDA_SUCCESS &&
		    memcmp(&own, uuid, sizeof(own)) == 0)
			return d;
	return -1;
}

/* Can the device access the memory, and is the stated size possible? */
static enum weir_status
check_home(const struct weir_ipc_import *import, size_t whole)
{
	int reaches = 1;
	size_t total = SIZE_MAX;

	if (import->home < 0)
		return WEIR_OK;
	if (import->home != import->device)
		driver_peek()->cuDeviceCanAccessPeer(
		    &reaches, import->device, import->home);
	if (!reaches)
		return status_set(WEIR_ENOTSUP,
		    "weir_ipc_open: device %d cannot reach memory of device "
		    "%d",
		    import->device, import->home);
	driver_peek()->cuDeviceTotalMem(&total, import->home);
	if (whole > total)
		return status_set(WEIR_EINVAL,
		    "weir_ipc_open: process %d states %zu bytes for a device "
		    "that has %zu",
		    (int)import->owner, whole, total);
	return WEIR_OK;
}

/* ---- Peers ------------------------------------------------------------- */

/*
 * The mapped imports, so that weir_peer_access() can open them as well. An
 * import is opened and listed under one lock: a peer that is added in that time
 * is either included when the import is opened, or finds the import in the
 * list.
 */
static struct lock mapped_lock = LOCK_INITIALIZER(LOCK_RANK_IMPORTS);
static struct list mapped = { &mapped, &mapped };

static enum weir_status
set_imports_peer(int device, int peer, bool allow)
{
	enum weir_status status = WEIR_OK;

	lock_enter(&mapped_lock);
	for (struct list *l = mapped.next;
	     l != &mapped && (status == WEIR_OK || !allow); l = l->next) {
		struct weir_ipc_import *import =
		    CONTAINER_OF(l, struct weir_ipc_import, link_mapped);
		if (import->device == device)
			status = handles_set_peer(import->mapping.addr,
			    import->mapping.whole, peer, allow);
	}
	lock_leave(&mapped_lock);
	return status;
}

enum weir_status
import_open_mapping(struct weir_ipc_import *import)
{
	handles_follow_peers(set_imports_peer);
	lock_enter(&mapped_lock);
	enum weir_status status =
	    mapping_open(&import->mapping, import->device);
	if (status == WEIR_OK)
		list_push_back(&mapped, &import->link_mapped);
	lock_leave(&mapped_lock);
	return status;
}

/* ---- Making and dropping ----------------------------------------------- */

enum weir_status
import_new(int device, struct weir_ipc_import **out)
{
	const struct driver *driver;
	CUcontext context;
	struct weir_ipc_import *import;
	enum weir_status status = os_forked() ? status_forked("weir_ipc_open") :
						device_resolve(device, &device);
	if (status == WEIR_OK)
		status = driver_context(device, &context);
	if (status == WEIR_OK)
		status = driver_get(&driver);
	if (status != WEIR_OK)
		return status;
	if (driver->cuMemGetAddressRange == NULL ||
	    driver->cuIpcOpenMemHandle == NULL ||
	    driver->cuIpcCloseMemHandle == NULL ||
	    driver->cuIpcOpenEventHandle == NULL)
		return status_set(WEIR_ENOTSUP,
		    "weir_ipc_open: this driver does not share memory");
	import = meta_zalloc(sizeof(*import));
	if (import == NULL)
		return status_set(
		    WEIR_EHOSTMEM, "weir_ipc_open: no host memory");
	list_init(&import->link_mapped);
	import->device = device;
	import->context = context;
	import->home = -1;
	import->pidfd = -1;
	*out = import;
	return WEIR_OK;
}

/* Not being able to enter the context is no reason to keep the memory: most
 * drivers unmap in any. */
static void
unmap(struct weir_ipc_import *import)
{
	struct driver_guard guard;
	bool entered;

	lock_enter(&mapped_lock);
	list_remove(&import->link_mapped);
	lock_leave(&mapped_lock);
	entered = driver_enter(import->context, &guard) == WEIR_OK;
	/* Once more if the driver refuses: nobody would try again. */
	if (import->base != 0 &&
	    driver_peek()->cuIpcCloseMemHandle(import->base) != CUDA_SUCCESS)
		driver_peek()->cuIpcCloseMemHandle(import->base);
	mapping_drop(&import->mapping);
	if (entered)
		driver_leave(&guard);
}

/* If the owner has ended, no message is necessary. */
static void
tell_owner(struct weir_ipc_import *import)
{
	struct ipc_request request =
	    ipc_request_make(IPC_CLOSE, import->number);
	struct ipc_reply reply;
	int fds[IPC_BATCH];

	if (import->number != 0)
		(void)link_ask(import->link, &request, &reply, fds);
	link_put(import->link);
}

void
import_drop(struct weir_ipc_import *import)
{
	status_mute();
	(void)event_end(import->event);
	unmap(import);
	if (import->link != NULL)
		tell_owner(import);
	if (import->pidfd >= 0)
		close(import->pidfd);
	meta_free(import, sizeof(*import));
	status_unmute();
}

/* ---- Opening ----------------------------------------------------------- */

enum weir_status
import_driver(struct weir_ipc_import *import, const CUipcMemHandle *handle,
    size_t least, size_t *whole)
{
	const struct driver *driver = driver_peek();
	CUdeviceptr start;
	CUresult code = driver->cuIpcOpenMemHandle(
	    &import->base, *handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);

	if (code != CUDA_SUCCESS) {
		import->base = 0;
		return ipc_driver_status(code, "cuIpcOpenMemHandle()");
	}
	code = driver->cuMemGetAddressRange(&start, whole, import->base);
	if (code != CUDA_SUCCESS)
		return driver_status(code, "cuMemGetAddressRange(%#llx)",
		    (unsigned long long)import->base);
	if (start == import->base && least <= *whole)
		return WEIR_OK;
	return status_set(WEIR_EINVAL,
	    "weir_ipc_open: there are %zu bytes instead of %zu", *whole, least);
}

static enum weir_status
map_batch(struct weir_ipc_import *import, const struct ipc_reply *reply,
    const int *fds)
{
	enum weir_status status = WEIR_OK;

	for (uint32_t i = 0; i < reply->n; i++) {
		if (status == WEIR_OK && !ipc_fd_may_be_memory(fds[i]))
			status = status_set(WEIR_EINVAL,
			    "weir_ipc_open: process %d sent a descriptor that "
			    "is not memory",
			    (int)import->owner);
		if (status == WEIR_OK)
			status = mapping_add(&import->mapping,
			    (void *)(intptr_t)fds[i],
			    CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
			    reply->sizes[i]);
		close(fds[i]);
	}
	return status;
}

/* The pieces arrive in groups; the owner decides how many at a time. */
static enum weir_status
map_pieces(struct weir_ipc_import *import, const struct ipc_record *record)
{
	uint64_t until = os_monotonic_ns() + IPC_OPEN_MS * UINT64_C(1000000);
	enum weir_status status =
	    mapping_begin(&import->mapping, record->whole);
	uint32_t n = 0;

	while (status == WEIR_OK && n < record->pieces) {
		struct ipc_request request =
		    ipc_request_make(IPC_PIECES, import->number);
		struct ipc_reply reply;
		int fds[IPC_BATCH];

		request.first = n;
		status = link_ask(import->link, &request, &reply, fds);
		if (status != WEIR_OK)
			break;
		n += reply.n;
		status = map_batch(import, &reply, fds);
		if (status == WEIR_OK && n < record->pieces &&
		    os_monotonic_ns() > until)
			status = status_set(WEIR_ENOTREADY,
			    "weir_ipc_open: process %d is too slow",
			    (int)import->owner);
	}
	if (status == WEIR_OK)
		status = import_open_mapping(import);
	return status;
}

static enum weir_status
open_ready_event(struct weir_ipc_import *import, const CUipcEventHandle *handle)
{
	CUevent event;
	CUresult code = driver_peek()->cuIpcOpenEventHandle(&event, *handle);
	enum weir_status status;

	if (code != CUDA_SUCCESS)
		return ipc_driver_status(code, "cuIpcOpenEventHandle()");
	status =
	    event_adopt(import->device, import->context, event, &import->event);
	if (status != WEIR_OK)
		driver_peek()->cuEventDestroy(event);
	return status;
}

/* Order work that is queued on the stream from now on after the owner's work.
 */
static enum weir_status
wait_ready(struct weir_ipc_import *import, const struct ipc_record *record,
    weir_stream stream)
{
	enum weir_status status;

	if (record->has_ready == 0)
		return WEIR_OK;
	status = open_ready_event(import, &record->ready);
	if (status == WEIR_OK)
		status = stream == WEIR_STREAM_ANY ?
		    weir_event_synchronize(import->event) :
		    weir_stream_wait_event(stream, import->event);
	if (status == WEIR_OK) {
		(void)event_end(import->event);
		import->event = NULL;
	}
	return status;
}

static enum weir_status
open_driver_memory(
    struct weir_ipc_import *import, const struct ipc_record *record)
{
	enum weir_status status = check_home(import, record->whole);
	size_t whole;

	if (status != WEIR_OK)
		return status;
	if (record->kind == IPC_DRIVER) {
		status = import_driver(
		    import, &record->memory, record->whole, &whole);
		import->ptr = (char *)(uintptr_t)import->base + record->offset;
	} else {
		status = map_pieces(import, record);
		import->ptr =
		    (char *)(uintptr_t)import->mapping.addr + record->offset;
	}
	import->size = record->size;
	return status;
}

/* Map the record's memory, in the context of the device. */
static enum weir_status
open_record(struct weir_ipc_import *import, const struct ipc_record *record,
    weir_stream stream)
{
	struct driver_guard guard;
	enum weir_status status = driver_enter(import->context, &guard);

	if (status != WEIR_OK)
		return status;
	import->home = local_device_of(&record->device);
	if (record->kind == IPC_EVENT) {
		status = open_ready_event(import, &record->ready);
	} else {
		status = open_driver_memory(import, record);
		if (status == WEIR_OK)
			status = wait_ready(import, record, stream);
	}
	driver_leave(&guard);
	return status;
}

/* Request the record from the owner, which counts this process from then on. */
static enum weir_status
ask_record(struct weir_ipc_import *import, const struct ipc_name *name,
    struct ipc_reply *reply)
{
	struct ipc_request request = ipc_request_make(IPC_OPEN, name->number);
	int fds[IPC_BATCH];
	enum weir_status status = link_get(name, &import->link);

	if (status != WEIR_OK)
		return status;
	memcpy(request.secret, name->secret, IPC_SECRET_BYTES);
	status = link_ask(import->link, &request, reply, fds);
	if (status == WEIR_OK)
		import->number = name->number;
	return status;
}

static enum weir_status
check_handle(const struct weir_ipc_handle *handle, struct ipc_name *name,
    struct weir_ipc_import **out)
{
	const char *fault;

	if (handle == NULL || out == NULL)
		return status_set(WEIR_EINVAL, "weir_ipc_open: %s is NULL",
		    handle == NULL ? "handle" : "out");
	memcpy(name, handle->bytes, sizeof(*name));
	fault = ipc_name_fault(name);
	if (fault == NULL && name->pid == (int32_t)os_process_id())
		fault = "this process is the owner: it has the address";
	return fault == NULL ?
	    WEIR_OK :
	    status_set(WEIR_EINVAL, "weir_ipc_open: %s", fault);
}

enum weir_status
weir_ipc_open(const struct weir_ipc_handle *handle, int device,
    weir_stream stream, struct weir_ipc_import **out)
{
	if (os_forked())
		return status_forked("weir_ipc_open");
	struct weir_ipc_import *import;
	struct ipc_name name;
	struct ipc_reply reply;
	enum weir_status status = check_handle(handle, &name, out);
	if (status == WEIR_OK)
		status = import_new(device, &import);
	if (status != WEIR_OK)
		return status;
	import->owner = name.pid;
	status = ask_record(import, &name, &reply);
	if (status == WEIR_OK)
		status = open_record(import, &reply.record, stream);
	if (status != WEIR_OK) {
		import_drop(import);
		return status;
	}
	*out = import;
	return WEIR_OK;
}

/* ---- Using and closing ------------------------------------------------- */

enum weir_status
weir_ipc_info(const struct weir_ipc_import *import, struct weir_ipc_info *out)
{
	if (os_forked())
		return status_forked("weir_ipc_info");
	if (import == NULL || out == NULL || out->struct_size < sizeof(*out))
		return status_set(WEIR_EINVAL,
		    "weir_ipc_info: import or out is NULL, or struct_size is "
		    "not set");
	*out = (struct weir_ipc_info){
		.struct_size = out->struct_size,
		.ptr = import->ptr,
		.size = import->size,
		.device = import->device,
		.home = import->home,
		.owner = (int)import->owner,
		.owner_alive = import->link != NULL ?
		    link_alive(import->link) :
		    !process_fd_ended(import->pidfd),
		.event = import->event,
	};
	return WEIR_OK;
}

enum weir_status
weir_ipc_close(struct weir_ipc_import *import, weir_stream stream)
{
	enum weir_status status;

	if (import == NULL)
		return WEIR_OK;
	if (os_forked())
		return status_forked("weir_ipc_close");
	status = import->ptr == NULL ? WEIR_OK :
	    stream == WEIR_STREAM_ANY ?
				       weir_device_synchronize(import->device) :
				       weir_stream_synchronize(stream);
	if (status != WEIR_OK)
		return status_prefix("weir_ipc_close");
	import_drop(import);
	return WEIR_OK;
}
