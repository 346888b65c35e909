/*
 * Tensors: shapes, strides, and their storage.
 */
#include "tensor/tensor.h"

#include <stdio.h>
#include <string.h>

#include <weir/stream.h>

#include "base/meta.h"
#include "base/status.h"

/* ---- Shapes ------------------------------------------------------------- */

enum weir_status
dim_resolve(const char *caller, int dim, int ndim, int *out)
{
	int resolved = dim < 0 ? dim + ndim : dim;

	if (resolved < 0 || resolved >= ndim)
		return status_set(WEIR_EINVAL,
		    "%s: there is no dimension %d of %d", caller, dim, ndim);
	*out = resolved;
	return WEIR_OK;
}

bool
shape_elements(int ndim, const int64_t *shape, int64_t *out)
{
	int64_t product = 1;
	bool empty = false;

	for (int i = 0; i < ndim; i++)
		empty = empty || shape[i] == 0;
	for (int i = 0; i < ndim && !empty; i++) {
		if (__builtin_mul_overflow(product, shape[i], &product))
			return false;
	}
	*out = empty ? 0 : product;
	return true;
}

void
shape_strides(int ndim, const int64_t *shape, int64_t *strides)
{
	int64_t stride = 1;

	for (int i = ndim - 1; i >= 0; i--) {
		strides[i] = stride;
		/* If one length is 0, the others may be of any size. */
		if (shape[i] > 1 &&
		    __builtin_mul_overflow(stride, shape[i], &stride))
			stride = 1;
	}
}

bool
shape_contiguous(int ndim, const int64_t *shape, const int64_t *strides)
{
	int64_t stride = 1;

	for (int i = 0; i < ndim; i++) {
		if (shape[i] == 0)
			return true;
	}
	for (int i = ndim - 1; i >= 0; i--) {
		if (shape[i] == 1)
			continue;
		if (strides[i] != stride)
			return false;
		stride *= shape[i];
	}
	return true;
}

const char *
shape_text(int ndim, const int64_t *shape, char *text, size_t size)
{
	size_t at = 0;

	at += (size_t)snprintf(text, size, "[");
	for (int i = 0; i < ndim && at + 1 < size; i++)
		at += (size_t)snprintf(text + at, size - at, "%s%lld",
		    i == 0 ? "" : ", ", (long long)shape[i]);
	if (at + 1 < size)
		snprintf(text + at, size - at, "]");
	return text;
}

/* ---- Layouts ------------------------------------------------------------ */

static enum weir_status
check_shape(const char *caller, const struct weir_layout *layout)
{
	if (layout->ndim < 0 || layout->ndim > WEIR_DIMS_MAX)
		return status_set(WEIR_EINVAL,
		    "%s: ndim %d is not within 0 and %d", caller, layout->ndim,
		    WEIR_DIMS_MAX);
	if (layout->ndim > 0 && layout->shape == NULL)
		return status_set(WEIR_EINVAL, "%s: shape is NULL, and ndim %d",
		    caller, layout->ndim);
	for (int i = 0; i < layout->ndim; i++) {
		if (layout->shape[i] < 0)
			return status_set(WEIR_EINVAL,
			    "%s: length %lld of dimension %d is below 0",
			    caller, (long long)layout->shape[i], i);
	}
	return WEIR_OK;
}

static enum weir_status
check_layout(
    const char *caller, const struct weir_layout *layout, int64_t *elements)
{
	enum weir_status status;

	if (layout->struct_size < sizeof(*layout))
		return status_set(WEIR_EINVAL,
		    "%s: struct_size of the layout is %zu, not %zu", caller,
		    layout->struct_size, sizeof(*layout));
	if (weir_dtype_size(layout->dtype) == 0)
		return status_set(WEIR_EINVAL, "%s: there is no dtype %d",
		    caller, (int)layout->dtype);
	status = check_shape(caller, layout);
	if (status != WEIR_OK)
		return status;
	if (!shape_elements(layout->ndim, layout->shape, elements) ||
	    (uint64_t)*elements >
		WEIR_SIZE_MAX / weir_dtype_size(layout->dtype)) {
		char text[160];

		return status_set(WEIR_EINVAL,
		    "%s: shape %s of %s is more than the largest size, %zu "
		    "bytes",
		    caller,
		    shape_text(layout->ndim, layout->shape, text, sizeof(text)),
		    weir_dtype_name(layout->dtype), WEIR_SIZE_MAX);
	}
	return WEIR_OK;
}

bool
layout_bounds(const struct weir_layout *layout, int64_t *low, int64_t *high)
{
	int64_t size = (int64_t)weir_dtype_size(layout->dtype);
	int64_t reach, elements;

	*low = 0;
	*high = 0;
	if (!shape_elements(layout->ndim, layout->shape, &elements))
		return false;
	if (elements == 0)
		return true;
	if (layout->strides == NULL)
		return !__builtin_mul_overflow(elements, size, high);
	*high = size;
	for (int i = 0; i < layout->ndim; i++) {
		if (__builtin_mul_overflow(
			layout->shape[i] - 1, layout->strides[i], &reach) ||
		    __builtin_mul_overflow(reach, size, &reach) ||
		    __builtin_add_overflow(reach < 0 ? *low : *high, reach,
			reach < 0 ? low : high))
			return false;
	}
	/* So that -low can be represented, too. */
	return *low != INT64_MIN;
}

static enum weir_status
check_within(const char *caller, const struct weir_storage *storage,
    const struct weir_layout *layout)
{
	size_t bytes = storage->bytes;
	size_t offset = layout->offset_bytes;
	char text[160];
	int64_t low, high;
	bool bounded = layout_bounds(layout, &low, &high);

	if (bounded && low == high)
		return WEIR_OK;
	if (bounded && offset <= bytes && (uint64_t)-low <= offset &&
	    (uint64_t)high <= bytes - offset)
		return WEIR_OK;
	return status_set(WEIR_EINVAL,
	    "%s: shape %s of %s at byte %zu reaches from %lld to %lld, and the "
	    "storage has %zu bytes",
	    caller, shape_text(layout->ndim, layout->shape, text, sizeof(text)),
	    weir_dtype_name(layout->dtype), offset,
	    bounded ? (long long)(offset + (uint64_t)low) : 0,
	    bounded ? (long long)(offset + (uint64_t)high) : INT64_MAX, bytes);
}

struct weir_layout
tensor_layout(const struct weir_tensor *tensor)
{
	return (struct weir_layout){ .struct_size = sizeof(struct weir_layout),
		.dtype = tensor->dtype,
		.ndim = tensor->ndim,
		.shape = tensor_shape(tensor),
		.strides = tensor_strides(tensor),
		.offset_bytes = tensor->offset_bytes };
}

/* ---- Making ------------------------------------------------------------- */

static size_t
tensor_bytes(int ndim)
{
	return sizeof(struct weir_tensor) +
	    2 * (size_t)(ndim > 0 ? ndim : 1) * sizeof(int64_t);
}

enum weir_status
tensor_make(const char *caller, struct weir_storage *storage,
    const struct weir_layout *layout, weir_stream stream,
    struct weir_tensor **out)
{
	size_t lengths = (size_t)layout->ndim * sizeof(int64_t);
	int64_t elements;
	enum weir_status status = check_layout(caller, layout, &elements);

	if (status == WEIR_OK)
		status = check_within(caller, storage, layout);
	if (status != WEIR_OK)
		return status;
	struct weir_tensor *tensor = meta_zalloc(tensor_bytes(layout->ndim));
	if (tensor == NULL)
		return status_set(
		    WEIR_EHOSTMEM, "%s: no host memory for a tensor", caller);
	tensor->dtype = layout->dtype;
	tensor->ndim = layout->ndim;
	tensor->offset_bytes = layout->offset_bytes;
	tensor->elements = elements;
	tensor->stream = stream;
	if (lengths > 0)
		memcpy(tensor->sizes, layout->shape, lengths);
	if (lengths > 0 && layout->strides != NULL)
		memcpy(tensor->sizes + layout->ndim, layout->strides, lengths);
	else
		shape_strides(
		    layout->ndim, tensor->sizes, tensor->sizes + layout->ndim);
	tensor->contiguous = shape_contiguous(
	    layout->ndim, tensor_shape(tensor), tensor_strides(tensor));
	tensor->storage = weir_storage_acquire(storage);
	*out = tensor;
	return WEIR_OK;
}

enum weir_status
tensor_new(const char *caller, const struct weir_layout *layout,
    const struct weir_place *place, struct weir_tensor **out)
{
	struct weir_storage *storage;
	int64_t elements;
	enum weir_status status = check_layout(caller, layout, &elements);

	if (status != WEIR_OK)
		return status;
	status = weir_storage_create(
	    place, (size_t)elements * weir_dtype_size(layout->dtype), &storage);
	if (status != WEIR_OK)
		return status;
	status = tensor_make(caller, storage, layout, storage->stream, out);
	weir_storage_release(storage);
	return status;
}

enum weir_status
weir_tensor_empty(enum weir_dtype dtype, int ndim, const int64_t *shape,
    const struct weir_place *place, struct weir_tensor **out)
{
	struct weir_layout layout = { .struct_size = sizeof(layout),
		.dtype = dtype,
		.ndim = ndim,
		.shape = shape };
	struct weir_place resolved;
	enum weir_status status;

	if (out == NULL)
		return status_set(
		    WEIR_EINVAL, "weir_tensor_empty: out is NULL");
	status = place_resolve("weir_tensor_empty", place, &resolved);
	if (status != WEIR_OK)
		return status;
	return tensor_new("weir_tensor_empty", &layout, &resolved, out);
}

enum weir_status
weir_tensor_over(struct weir_storage *storage, const struct weir_layout *layout,
    weir_stream stream, struct weir_tensor **out)
{
	if (storage == NULL || layout == NULL || out == NULL)
		return status_set(WEIR_EINVAL,
		    "weir_tensor_over: storage, layout or out is NULL");
	return tensor_make("weir_tensor_over", storage, layout, stream, out);
}

void
weir_tensor_destroy(struct weir_tensor *tensor)
{
	struct weir_storage *storage;

	if (tensor == NULL)
		return;
	storage = tensor->storage;
	meta_free(tensor, tensor_bytes(tensor->ndim));
	weir_storage_release(storage);
}

/* ---- Asking ------------------------------------------------------------- */

enum weir_status
weir_tensor_info(const struct weir_tensor *tensor, struct weir_tensor_info *out)
{
	const struct weir_storage *storage;

	if (tensor == NULL || out == NULL || out->struct_size < sizeof(*out))
		return status_set(WEIR_EINVAL,
		    "weir_tensor_info: tensor or out is NULL, or struct_size "
		    "is not set");
	storage = tensor->storage;
	*out = (struct weir_tensor_info){ .struct_size = out->struct_size,
		.dtype = tensor->dtype,
		.ndim = tensor->ndim,
		.shape = tensor_shape(tensor),
		.strides = tensor_strides(tensor),
		.offset_bytes = tensor->offset_bytes,
		.data = tensor_data(tensor),
		.elements = tensor->elements,
		.bytes =
		    (size_t)tensor->elements * weir_dtype_size(tensor->dtype),
		.contiguous = tensor->contiguous,
		.read_only = storage->read_only,
		.memory = storage->memory,
		.device = storage->device,
		.stream = tensor->stream,
		.storage = tensor->storage };
	return WEIR_OK;
}

int
weir_tensor_format(const struct weir_tensor *tensor, char *text, size_t size)
{
	char shape[700], strides[720] = "", place[32];

	if (tensor == NULL)
		return snprintf(text, size, "<weir.tensor NULL>");
	if (tensor->storage->memory == WEIR_MEMORY_DEVICE)
		snprintf(
		    place, sizeof(place), "cuda:%d", tensor->storage->device);
	else
		snprintf(place, sizeof(place), "%s",
		    weir_memory_name(tensor->storage->memory));
	if (!tensor->contiguous) {
		int n = snprintf(strides, sizeof(strides), " strides ");

		shape_text(tensor->ndim, tensor_strides(tensor), strides + n,
		    sizeof(strides) - (size_t)n);
	}
	return snprintf(text, size, "<weir.tensor %s%s%s %s>",
	    weir_dtype_name(tensor->dtype),
	    shape_text(
		tensor->ndim, tensor_shape(tensor), shape, sizeof(shape)),
	    strides, place);
}

/* ---- Streams ------------------------------------------------------------ */

enum weir_status
tensor_stream(
    const struct weir_tensor *tensor, weir_stream handle, struct stream **out)
{
	/* A default stream is that of the tensor's device. */
	bool own = handle == NULL || stream_is_default(handle);

	return stream_find(
	    own ? tensor->storage->device : WEIR_DEVICE_CURRENT, handle, out);
}

enum weir_status
weir_tensor_record(const struct weir_tensor *tensor, weir_stream handle)
{
	struct stream *stream;
	enum weir_status status;

	if (tensor == NULL || handle == WEIR_STREAM_ANY)
		return status_set(WEIR_EINVAL, "weir_tensor_record: %s",
		    tensor == NULL ? "tensor is NULL" :
				     "WEIR_STREAM_ANY is no stream");
	status = tensor_stream(tensor, handle, &stream);
	if (status != WEIR_OK)
		return status;
	status = storage_use(tensor->storage, stream);
	stream_put(stream);
	return status;
}

enum weir_status
weir_tensor_join(const struct weir_tensor *tensor, weir_stream handle)
{
	struct stream *stream;
	enum weir_status status;

	if (tensor == NULL || handle == WEIR_STREAM_ANY)
		return status_set(WEIR_EINVAL, "weir_tensor_join: %s",
		    tensor == NULL ? "tensor is NULL" :
				     "WEIR_STREAM_ANY is no stream");
	status = tensor_stream(tensor, handle, &stream);
	if (status != WEIR_OK)
		return status;
	status = storage_join(tensor->storage, stream);
	stream_put(stream);
	return status;
}

enum weir_status
weir_tensor_synchronize(const struct weir_tensor *tensor)
{
	if (tensor == NULL)
		return status_set(
		    WEIR_EINVAL, "weir_tensor_synchronize: tensor is NULL");
	return storage_wait(tensor->storage);
}
