/*
 * Tensors of other processes: <weir/ipc.h>.
 *
 * The message is a handle of the storage and a description of the elements. The
 * owner's export holds the storage. The opener's storage is foreign memory,
 * which is closed with its last holder. weir_tensor_over() checks the numbers
 * from the other process: the elements must lie within the storage, whose size
 * the driver has confirmed.
 */
#include <string.h>

#include <weir/ipc.h>

#include "base/meta.h"
#include "base/os.h"
#include "base/status.h"
#include "tensor/tensor.h"

/* ---- Sharing ------------------------------------------------------------ */

static void
storage_is_back(void *storage, void *ptr)
{
	(void)ptr;
	weir_storage_release(storage);
}

static enum weir_status
check_shared(const struct weir_storage *storage)
{
	if (storage->memory != WEIR_MEMORY_DEVICE || storage->foreign)
		return status_set(WEIR_ENOTSUP,
		    "weir_ipc_share_tensor: the tensor is in %s memory%s; only "
		    "memory of a device from weir is shared",
		    weir_memory_name(storage->memory),
		    storage->foreign ? " that is foreign" : "");
	return WEIR_OK;
}

static enum weir_status
share_storage(const struct weir_tensor *tensor, weir_stream stream,
    struct weir_ipc_handle *handle, struct weir_ipc_export **out)
{
	struct weir_storage *storage = tensor->storage;
	struct weir_ipc_export *export;
	enum weir_status status = weir_tensor_join(tensor, stream);

	if (status != WEIR_OK)
		return status;
	weir_storage_acquire(storage);
	status = weir_ipc_lend(
	    storage->data, stream, storage_is_back, storage, &export);
	if (status != WEIR_OK) {
		weir_storage_release(storage);
		return status;
	}
	status = weir_ipc_handle_of(export, handle);
	*out = export;
	return status;
}

enum weir_status
weir_ipc_share_tensor(const struct weir_tensor *tensor, weir_stream stream,
    struct weir_ipc_tensor *out, struct weir_ipc_export **shared)
{
	if (os_forked())
		return status_forked("weir_ipc_share_tensor");
	struct weir_ipc_export *export = NULL;
	struct weir_ipc_tensor text = { 0 };
	size_t lengths;
	enum weir_status status;

	if (tensor == NULL || out == NULL || shared == NULL)
		return status_set(WEIR_EINVAL,
		    "weir_ipc_share_tensor: %s is NULL",
		    tensor == NULL  ? "tensor" :
			out == NULL ? "out" :
				      "shared");
	status = check_shared(tensor->storage);
	if (status == WEIR_OK && tensor->storage->bytes > 0)
		status = share_storage(tensor, stream, &text.storage, &export);
	if (status != WEIR_OK)
		return status;
	lengths = (size_t)tensor->ndim * sizeof(int64_t);
	text.dtype = tensor->dtype;
	text.ndim = tensor->ndim;
	text.storage_bytes = tensor->storage->bytes;
	text.offset_bytes = tensor->offset_bytes;
	memcpy(text.shape, tensor_shape(tensor), lengths);
	memcpy(text.strides, tensor_strides(tensor), lengths);
	*out = text;
	*shared = export;
	return WEIR_OK;
}

/* ---- Opening ------------------------------------------------------------ */

/* Data for closing a storage: the import, and the stream of its last use. */
struct opened {
	struct weir_ipc_import *import;
	weir_stream stream;
};

static void
close_storage(void *closure, void *data)
{
	struct opened *opened = closure;

	(void)data;
	/* A destroyed stream cannot be waited for; the device can. */
	if (weir_ipc_close(opened->import, opened->stream) != WEIR_OK)
		(void)weir_ipc_close(opened->import, WEIR_STREAM_ANY);
	meta_free(opened, sizeof(*opened));
}

/* Takes ownership of the import on success. */
static enum weir_status
wrap_import(struct weir_ipc_import *import, const struct weir_ipc_info *info,
    weir_stream stream, struct weir_storage **out)
{
	struct opened *opened = meta_alloc(sizeof(*opened));
	struct weir_foreign foreign = { .struct_size = sizeof(foreign),
		.data = info->ptr,
		.bytes = info->size,
		.memory = WEIR_MEMORY_DEVICE,
		.device = info->device,
		.has_stream = true,
		.stream = stream,
		.give = close_storage,
		.closure = opened };
	enum weir_status status;

	if (opened == NULL)
		return status_set(
		    WEIR_EHOSTMEM, "weir_ipc_open_tensor: no host memory");
	*opened = (struct opened){ import, stream };
	status = weir_storage_wrap(&foreign, out);
	if (status != WEIR_OK)
		meta_free(opened, sizeof(*opened));
	return status;
}

static enum weir_status
open_storage(const struct weir_ipc_tensor *in, int device, weir_stream stream,
    struct weir_storage **out)
{
	struct weir_ipc_info info = { .struct_size = sizeof(info) };
	struct weir_place place = {
		.struct_size = sizeof(place), .device = device, .stream = stream
	};
	struct weir_ipc_import *import;
	enum weir_status status;

	if (in->storage_bytes == 0)
		return weir_storage_create(&place, 0, out);
	status = weir_ipc_open(&in->storage, device, stream, &import);
	if (status != WEIR_OK)
		return status;
	status = weir_ipc_info(import, &info);
	if (status == WEIR_OK &&
	    (info.ptr == NULL || info.size != in->storage_bytes))
		status = status_set(WEIR_EINVAL,
		    "weir_ipc_open_tensor: the storage has %zu bytes, not %llu",
		    info.size, (unsigned long long)in->storage_bytes);
	if (status == WEIR_OK)
		status = wrap_import(import, &info, stream, out);
	if (status != WEIR_OK)
		(void)weir_ipc_close(import, stream);
	return status;
}

static enum weir_status
check_text(const struct weir_ipc_tensor *in, weir_stream stream,
    struct weir_tensor **out)
{
	if (in == NULL || out == NULL)
		return status_set(WEIR_EINVAL,
		    "weir_ipc_open_tensor: %s is NULL",
		    in == NULL ? "in" : "out");
	if (stream == WEIR_STREAM_ANY)
		return status_set(WEIR_EINVAL,
		    "weir_ipc_open_tensor: the tensor needs a stream");
	if (in->ndim < 0 || in->ndim > WEIR_DIMS_MAX ||
	    in->dtype > WEIR_FLOAT8_E8M0FNU)
		return status_set(WEIR_EINVAL,
		    "weir_ipc_open_tensor: ndim %d or dtype %u cannot be",
		    (int)in->ndim, (unsigned)in->dtype);
	return WEIR_OK;
}

enum weir_status
weir_ipc_open_tensor(const struct weir_ipc_tensor *in, int device,
    weir_stream stream, struct weir_tensor **out)
{
	if (os_forked())
		return status_forked("weir_ipc_open_tensor");
	struct weir_storage *storage;
	enum weir_status status = check_text(in, stream, out);

	if (status != WEIR_OK)
		return status;
	status = open_storage(in, device, stream, &storage);
	if (status != WEIR_OK)
		return status;
	struct weir_layout layout = { .struct_size = sizeof(layout),
		.dtype = (enum weir_dtype)in->dtype,
		.ndim = in->ndim,
		.shape = in->shape,
		.strides = in->strides,
		.offset_bytes = in->offset_bytes };
	status = weir_tensor_over(storage, &layout, stream, out);
	/* Only the tensor holds it; after a failure it is freed. */
	weir_storage_release(storage);
	return status;
}

enum weir_status
weir_ipc_view(struct weir_ipc_import *import, weir_stream stream,
    struct weir_tensor **out)
{
	if (os_forked())
		return status_forked("weir_ipc_view");
	struct weir_ipc_info info = { .struct_size = sizeof(info) };
	struct weir_layout layout = {
		.struct_size = sizeof(layout), .dtype = WEIR_UINT8, .ndim = 1
	};
	struct weir_storage *storage;
	int64_t length;
	enum weir_status status;

	if (import == NULL)
		return status_set(WEIR_EINVAL, "weir_ipc_view: import is NULL");
	status = weir_ipc_info(import, &info);
	if (status != WEIR_OK)
		return status;
	if (out == NULL || info.ptr == NULL || stream == WEIR_STREAM_ANY)
		return status_set(WEIR_EINVAL, "weir_ipc_view: %s",
		    out == NULL          ? "out is NULL" :
			info.ptr == NULL ? "the import is an event" :
					   "the tensor needs a stream");
	length = (int64_t)info.size;
	layout.shape = &length;
	status = wrap_import(import, &info, stream, &storage);
	if (status != WEIR_OK) {
		(void)weir_ipc_close(import, stream);
		return status;
	}
	status = weir_tensor_over(storage, &layout, stream, out);
	/* Only the tensor holds it; after a failure it is freed. */
	weir_storage_release(storage);
	return status;
}
