/*
 * Sharing memory with other processes: weir's exports, which are found again
 * when PyTorch frees memory that it has shared.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <weir/ipc.h>

#include "plugins/torch/forks.h"
#include "plugins/torch/table.h"
#include "plugins/torch/weir_torch.h"

int weir_torch_shared;

/* The beginning of a handle that only weir understands: PyTorch's version of
 * handles, and a kind of segment that PyTorch does not have. */
static const unsigned char ours[2] = { 2, 'w' };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct table exports; /* by address; guarded by the lock */

/* Find or make the block's export. The caller holds the lock. */
static enum weir_status
export_of(void *ptr, struct weir_ipc_export **out)
{
	uint64_t address = (uint64_t)(uintptr_t)ptr;

	*out = table_get(&exports, address);
	if (*out != NULL)
		return WEIR_OK;
	enum weir_status status = weir_ipc_export(ptr, WEIR_STREAM_ANY, out);
	if (status != WEIR_OK)
		return status;
	__atomic_fetch_add(&weir_torch_shared, 1, __ATOMIC_RELEASE);
	if (!table_put(&exports, address, *out)) {
		/* The export owns the block now, and this cannot be undone. */
		__atomic_fetch_sub(&weir_torch_shared, 1, __ATOMIC_RELEASE);
		return WEIR_EHOSTMEM;
	}
	return WEIR_OK;
}

/* Write a handle for weir in the other process. */
static enum weir_status
write_ours(struct weir_ipc_export *export, void *bytes, size_t capacity,
    size_t *length, size_t *offset)
{
	struct weir_ipc_handle handle;
	enum weir_status status = weir_ipc_handle_of(export, &handle);

	if (status != WEIR_OK)
		return status;
	if (capacity < sizeof(ours) + sizeof(handle))
		return WEIR_EINVAL;
	memcpy(bytes, ours, sizeof(ours));
	memcpy((char *)bytes + sizeof(ours), &handle, sizeof(handle));
	*length = sizeof(ours) + sizeof(handle);
	*offset = 0;
	return WEIR_OK;
}

enum weir_status
weir_torch_share(
    void *ptr, void *bytes, size_t capacity, size_t *length, size_t *offset)
{
	if (forks_refused())
		return WEIR_EFORK;
	struct weir_ipc_export *export;

	pthread_mutex_lock(&lock);
	enum weir_status status = export_of(ptr, &export);
	if (status == WEIR_OK) {
		status = weir_ipc_torch_handle(
		    export, bytes, capacity, length, offset);
		if (status != WEIR_OK)
			status =
			    write_ours(export, bytes, capacity, length, offset);
	}
	pthread_mutex_unlock(&lock);
	return status;
}

enum weir_status
weir_torch_free_shared(void *ptr)
{
	if (forks_refused())
		return WEIR_OK;
	pthread_mutex_lock(&lock);
	struct weir_ipc_export *export =
	    table_take(&exports, (uint64_t)(uintptr_t)ptr);
	pthread_mutex_unlock(&lock);
	if (export == NULL)
		return weir_free(ptr);
	__atomic_fetch_sub(&weir_torch_shared, 1, __ATOMIC_RELEASE);
	weir_ipc_release(export);
	return WEIR_OK;
}

enum weir_status
weir_torch_open_shared(
    const void *bytes, size_t length, int device, void **ptr, void **link)
{
	struct weir_ipc_info info = { .struct_size = sizeof(info) };
	struct weir_ipc_import *import = NULL;
	struct weir_ipc_handle handle;
	enum weir_status status;

	if (length == sizeof(ours) + sizeof(handle) &&
	    memcmp(bytes, ours, sizeof(ours)) == 0) {
		memcpy(&handle, (const char *)bytes + sizeof(ours),
		    sizeof(handle));
		status =
		    weir_ipc_open(&handle, device, WEIR_STREAM_ANY, &import);
	} else {
		status =
		    weir_ipc_torch_open(bytes, length, 0, 0, device, &import);
	}
	if (status != WEIR_OK)
		return status;
	status = weir_ipc_info(import, &info);
	if (status != WEIR_OK) {
		(void)weir_ipc_close(import, WEIR_STREAM_ANY);
		return status;
	}
	*ptr = info.ptr;
	*link = import;
	return WEIR_OK;
}

enum weir_status
weir_torch_close_shared(void *link)
{
	return weir_ipc_close(link, WEIR_STREAM_ANY);
}
