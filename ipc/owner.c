/*
 * The memory and events that this process lets others open.
 *
 * An export is in the list as long as the program uses it or a peer holds it.
 * The thread that removes the last use or hold frees it, with no lock held.
 */
#include <string.h>
#include <unistd.h>

#include "allocator/memory/handle.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/meta.h"
#include "base/os.h"
#include "base/status.h"
#include "ipc/ipc.h"
#include "streams/event.h"
#include "streams/stream.h"

static struct lock lock = LOCK_INITIALIZER(LOCK_RANK_EXPORTS);
static struct weir_ipc_export *all; /* guarded by the lock */

/* ---- The end of an export ---------------------------------------------- */

void
owner_free(struct weir_ipc_export *export)
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

/* Release the block, its pin and everything else but what owner_free() frees.
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
	owner_free(export);
}

/* Remove an export from the list if it is not used any more. */
static bool
unlink_unused(struct weir_ipc_export *export) HOLDS(lock)
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

	lock_enter(&lock);
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
	lock_leave(&lock);
	return export;
}

void
owner_drop(struct weir_ipc_export *export, size_t times)
{
	bool last;

	lock_enter(&lock);
	export->peers -= times;
	last = unlink_unused(export);
	lock_leave(&lock);
	if (last)
		export_end(export);
}

/* ---- Made and used by the program -------------------------------------- */

void
owner_register(struct weir_ipc_export *export)
{
	lock_enter(&lock);
	export->next = all;
	all = export;
	lock_leave(&lock);
}

struct weir_ipc_export *
owner_find_used(const void *ptr, const struct weir_event *event)
{
	struct weir_ipc_export *export;

	lock_enter(&lock);
	export = all;
	while (export != NULL &&
	    (export->uses == 0 || export->done != NULL || export->ptr != ptr ||
		(ptr == NULL && export->event != event)))
		export = export->next;
	if (export != NULL && ptr != NULL)
		export->uses++;
	lock_leave(&lock);
	return export;
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
	lock_enter(&lock);
	openings = (struct openings){ shared->peers, shared->opened };
	lock_leave(&lock);
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
	lock_enter(&lock);
	shared->uses--;
	last = unlink_unused(shared);
	lock_leave(&lock);
	if (last)
		export_end(shared);
}

/* ---- Pieces ------------------------------------------------------------ */

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
