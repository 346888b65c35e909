/*
 * The memory and events that this process lets others open.
 *
 * An export is in the list as long as the program uses it or a peer holds it.
 * The thread that removes the last use or hold frees it, with no lock held.
 */
#include <pthread.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "allocator/memory/handle.h"
#include "base/log.h"
#include "base/meta.h"
#include "base/os.h"
#include "base/status.h"
#include "ipc/ipc.h"
#include "streams/event.h"
#include "streams/stream.h"

/* Only one thread creates an export at a time, because a block has only one. */
static pthread_mutex_t making = PTHREAD_MUTEX_INITIALIZER;
static uint64_t made;
static uint64_t nonce; /* of the socket; set before the first export */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct weir_ipc_export *all; /* guarded by the lock */

/* ---- The end of an export ---------------------------------------------- */

static void
export_free(struct weir_ipc_export *export)
{
	for (uint32_t i = 0; export->fds != NULL && i < export->record.pieces;
	     i++)
		close(export->fds[i]);
	meta_free(export->fds, export->record.pieces * sizeof(int));
	meta_free(
	    export->pieces, (export->record.pieces + 1) * sizeof(uint64_t));
	(void)event_end(export->event);
	meta_free(export, sizeof(*export));
}

/* Release the block, its pin and everything else but what export_free() frees.
 */
static void
export_end(struct weir_ipc_export *export)
{
	enum weir_status status = WEIR_OK;

	if (export->ptr != NULL)
		status = weir_unpin(export->ptr);
	if (export->done != NULL)
		export->done(export->closure, export->ptr);
	else if (export->ptr != NULL && status == WEIR_OK)
		status = weir_free(export->ptr);
	if (status != WEIR_OK)
		log_write(LOG_ERROR,
		    "weir_ipc_release: the block at %p was freed by another "
		    "call: %s",
		    export->ptr, weir_last_error());
	export_free(export);
}

/* Remove an export from the list if it is not used any more. The caller holds
 * the lock. */
static bool
unlink_unused(struct weir_ipc_export *export)
{
	struct weir_ipc_export **at = &all;

	if (export->uses > 0 || export->peers > 0)
		return false;
	while (*at != export)
		at = &(*at)->next;
	*at = export->next;
	return true;
}

/* ---- Held by peers ----------------------------------------------------- */

struct weir_ipc_export *
owner_hold(uint64_t number, const unsigned char *secret)
{
	struct weir_ipc_export *export;

	pthread_mutex_lock(&lock);
	export = all;
	while (export != NULL && export->number != number)
		export = export->next;
	if (export != NULL &&
	    (export->uses == 0 ||
		memcmp(export->secret, secret, IPC_SECRET_BYTES) != 0))
		export = NULL;
	if (export != NULL) {
		export->peers++;
		export->opened++;
	}
	pthread_mutex_unlock(&lock);
	return export;
}

void
owner_drop(struct weir_ipc_export *export, size_t times)
{
	bool last;

	pthread_mutex_lock(&lock);
	export->peers -= times;
	last = unlink_unused(export);
	pthread_mutex_unlock(&lock);
	if (last)
		export_end(export);
}

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

enum weir_status
owner_piece(const struct weir_ipc_export *export, uint64_t at, int *fd)
{
	return owner_piece_handle(
	    export, at, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, fd);
}

enum weir_status
owner_piece_handle(const struct weir_ipc_export *export, uint64_t at,
    CUmemAllocationHandleType type, void *out)
{
	const struct driver *driver = driver_peek();
	char *ptr =
	    (char *)export->ptr - export->record.offset + export->pieces[at];
	CUmemGenericAllocationHandle id;
	struct driver_guard guard;
	CUresult code;
	enum weir_status status =
	    driver_enter(driver_context_peek(export->device), &guard);
	if (status != WEIR_OK)
		return status;
	code = driver->cuMemRetainAllocationHandle(&id, ptr);
	if (code == CUDA_SUCCESS) {
		code = driver->cuMemExportToShareableHandle(out, id, type, 0);
		handle_drop_hold(id);
	}
	driver_leave(&guard);
	if (code == CUDA_ERROR_INVALID_VALUE ||
	    code == CUDA_ERROR_NOT_SUPPORTED ||
	    code == CUDA_ERROR_NOT_PERMITTED)
		return status_set(WEIR_ENOTSUP,
		    "cuMemExportToShareableHandle(%p): %s: the memory was not "
		    "made to be shared%s",
		    (void *)ptr, driver_text(code),
		    type == CU_MEM_HANDLE_TYPE_FABRIC ? " by a fabric" : "");
	return driver_status(
	    code, "cuMemExportToShareableHandle(%p)", (void *)ptr);
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

static void
register_export(struct weir_ipc_export *export)
{
	pthread_mutex_lock(&lock);
	export->next = all;
	all = export;
	pthread_mutex_unlock(&lock);
}

/* Find the export of a block or event that is exported already, and count one
 * more use. */
static struct weir_ipc_export *
find_used(const void *ptr, const struct weir_event *event)
{
	struct weir_ipc_export *export;

	pthread_mutex_lock(&lock);
	export = all;
	while (export != NULL &&
	    (export->uses == 0 || export->done != NULL || export->ptr != ptr ||
		(ptr == NULL && export->event != event)))
		export = export->next;
	if (export != NULL && ptr != NULL)
		export->uses++;
	pthread_mutex_unlock(&lock);
	return export;
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

/* The caller holds `making`. */
static enum weir_status
export_block(void *ptr, weir_stream stream, const struct borrowed *borrowed,
    struct weir_ipc_export **out)
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
	register_export(export);
	*out = export;
	return WEIR_OK;

unpin:
	weir_unpin(ptr);
drop_export:
	export_free(export);
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
	pthread_mutex_lock(&making);
	struct weir_ipc_export *known = find_used(ptr, NULL);
	if (known != NULL)
		*out = known;
	else
		status = export_block(ptr, stream, &owned, out);
	pthread_mutex_unlock(&making);
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
	pthread_mutex_lock(&making);
	status = export_block(ptr, stream, &borrowed, out);
	pthread_mutex_unlock(&making);
	return status;
}

static enum weir_status
export_event(struct weir_event *event, struct weir_ipc_export **out)
{
	struct weir_ipc_export *export;
	enum weir_status status;

	if (find_used(NULL, event) != NULL)
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
		export_free(export);
		return status;
	}
	export->event = event;
	event_own(event);
	register_export(export);
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
	pthread_mutex_lock(&making);
	enum weir_status status = export_event(event, out);
	pthread_mutex_unlock(&making);
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

/* How often an export is open now, and how often it was opened in all; 0 in a
 * forked child. */
struct openings {
	size_t now;
	uint64_t ever;
};

static struct openings
openings_of(const struct weir_ipc_export *shared)
{
	struct openings openings = { 0 };

	if (shared == NULL || os_forked())
		return openings;
	pthread_mutex_lock(&lock);
	openings = (struct openings){ shared->peers, shared->opened };
	pthread_mutex_unlock(&lock);
	return openings;
}

size_t
weir_ipc_peers(const struct weir_ipc_export *shared)
{
	return openings_of(shared).now;
}

uint64_t
weir_ipc_opened(const struct weir_ipc_export *shared)
{
	return openings_of(shared).ever;
}

void
weir_ipc_release(struct weir_ipc_export *shared)
{
	bool last;

	if (shared == NULL || os_forked())
		return;
	pthread_mutex_lock(&lock);
	shared->uses--;
	last = unlink_unused(shared);
	pthread_mutex_unlock(&lock);
	if (last)
		export_end(shared);
}
