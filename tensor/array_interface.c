/*
 * Tensors to and from the struct of the CUDA Array Interface.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weir/exchange.h>

#include "base/status.h"
#include "tensor/tensor.h"

enum { VERSION = 3, STREAM_LEGACY = 1, STREAM_PER_THREAD = 2 };

static const struct {
	enum weir_dtype dtype;
	char kind;
} kinds[] = {
	{ WEIR_BOOL, 'b' },
	{ WEIR_INT8, 'i' },
	{ WEIR_INT16, 'i' },
	{ WEIR_INT32, 'i' },
	{ WEIR_INT64, 'i' },
	{ WEIR_UINT8, 'u' },
	{ WEIR_UINT16, 'u' },
	{ WEIR_UINT32, 'u' },
	{ WEIR_UINT64, 'u' },
	{ WEIR_FLOAT16, 'f' },
	{ WEIR_FLOAT32, 'f' },
	{ WEIR_FLOAT64, 'f' },
	{ WEIR_COMPLEX64, 'c' },
	{ WEIR_COMPLEX128, 'c' },
	{ WEIR_BFLOAT16, 'V' },
};

enum { KINDS = sizeof(kinds) / sizeof(kinds[0]) };

/* ---- Exporting ---------------------------------------------------------- */

static bool
write_typestr(enum weir_dtype dtype, char *text, size_t size)
{
	size_t bytes = weir_dtype_size(dtype);

	for (size_t i = 0; i < KINDS; i++) {
		if (kinds[i].dtype != dtype)
			continue;
		snprintf(text, size, "%c%c%zu", bytes == 1 ? '|' : '<',
		    kinds[i].kind, bytes);
		return true;
	}
	return false;
}

static uint64_t
interface_stream_number(weir_stream stream)
{
	if (stream == NULL || stream == WEIR_STREAM_ANY)
		return STREAM_LEGACY;
	return (uint64_t)(uintptr_t)stream;
}

enum weir_status
weir_tensor_array_interface(
    const struct weir_tensor *tensor, struct weir_array_interface *out)
{
	static const char caller[] = "weir_tensor_array_interface";
	struct weir_array_interface array = { .version = VERSION };
	uint64_t size;
	enum weir_status status;

	if (tensor == NULL || out == NULL || out->struct_size < sizeof(*out))
		return status_set(WEIR_EINVAL,
		    "%s: tensor or out is NULL, or struct_size is not set",
		    caller);
	if (memory_is_host(tensor->storage->memory))
		return status_set(WEIR_ENOTSUP,
		    "%s: the tensor is in %s memory, not a device's", caller,
		    weir_memory_name(tensor->storage->memory));
	if (!write_typestr(tensor->dtype, array.typestr, sizeof(array.typestr)))
		return status_set(WEIR_ENOTSUP,
		    "%s: the interface has no name for %s; DLPack has", caller,
		    weir_dtype_name(tensor->dtype));
	array.struct_size = out->struct_size;
	array.stream = interface_stream_number(tensor->stream);
	status = weir_tensor_join(tensor, (weir_stream)(uintptr_t)array.stream);
	if (status != WEIR_OK)
		return status;
	size = weir_dtype_size(tensor->dtype);
	array.ndim = tensor->ndim;
	array.has_strides = !tensor->contiguous;
	for (int i = 0; i < tensor->ndim; i++) {
		array.shape[i] = tensor_shape(tensor)[i];
		/* If the length is 1, the stride may have any value. */
		array.strides[i] =
		    (int64_t)((uint64_t)tensor_strides(tensor)[i] * size);
	}
	array.data = tensor_data(tensor);
	array.read_only = tensor->storage->read_only;
	array.has_stream = true;
	*out = array;
	return WEIR_OK;
}

/* ---- Importing ---------------------------------------------------------- */

static const char caller_in[] = "weir_tensor_from_array_interface";

static enum weir_status
read_interface_type(const char text[8], enum weir_dtype *out)
{
	char copy[9] = { 0 }, *end;
	unsigned long bytes;

	memcpy(copy, text, 8);
	if (copy[0] == '>')
		return status_set(WEIR_EINVAL,
		    "%s: typestr '%s' has its bytes in the other order",
		    caller_in, copy);
	bytes = copy[0] == '<' || copy[0] == '|' || copy[0] == '=' ?
	    strtoul(copy + (copy[1] == '\0' ? 1 : 2), &end, 10) :
	    0;
	for (size_t i = 0; i < KINDS && bytes > 0; i++) {
		if (kinds[i].kind == copy[1] && *end == '\0' &&
		    weir_dtype_size(kinds[i].dtype) == bytes) {
			*out = kinds[i].dtype;
			return WEIR_OK;
		}
	}
	return status_set(
	    WEIR_EINVAL, "%s: typestr '%s' names no type", caller_in, copy);
}

static enum weir_status
check_array(const struct weir_array_interface *array)
{
	if (array->struct_size < sizeof(*array))
		return status_set(
		    WEIR_EINVAL, "%s: struct_size is not set", caller_in);
	if (array->version < 0 || array->version > VERSION)
		return status_set(WEIR_EINVAL,
		    "%s: version %d is not within 0 and %d", caller_in,
		    array->version, VERSION);
	if (array->has_mask)
		return status_set(
		    WEIR_EINVAL, "%s: a mask is not supported", caller_in);
	if (array->has_stream && array->stream == 0)
		return status_set(WEIR_EINVAL,
		    "%s: stream 0 is ambiguous; 1 is the legacy default "
		    "stream, 2 the per-thread one",
		    caller_in);
	if (array->has_stream && array->stream == (uintptr_t)WEIR_STREAM_ANY)
		return status_set(WEIR_EINVAL,
		    "%s: stream %#llx is no stream; an interface that needs no "
		    "wait has none",
		    caller_in, (unsigned long long)array->stream);
	if (array->ndim < 0 || array->ndim > WEIR_DIMS_MAX)
		return status_set(WEIR_EINVAL,
		    "%s: ndim %d is not within 0 and %d", caller_in,
		    array->ndim, WEIR_DIMS_MAX);
	return WEIR_OK;
}

/* The interface's strides are in bytes, the tensor's in elements. */
static enum weir_status
read_interface_lengths(const struct weir_array_interface *array, int64_t size,
    int64_t strides[WEIR_DIMS_MAX])
{
	for (int i = 0; i < array->ndim; i++) {
		if (array->shape[i] < 0)
			return status_set(WEIR_EINVAL,
			    "%s: length %lld of dimension %d is below 0",
			    caller_in, (long long)array->shape[i], i);
		if (array->has_strides && array->strides[i] % size != 0)
			return status_set(WEIR_EINVAL,
			    "%s: stride %lld of dimension %d is no multiple of "
			    "%lld bytes",
			    caller_in, (long long)array->strides[i], i,
			    (long long)size);
		strides[i] = array->has_strides ? array->strides[i] / size : 0;
	}
	return WEIR_OK;
}

/* Ask the driver for the memory's device. */
static enum weir_status
ask_owner(struct weir_foreign *foreign, CUdeviceptr address)
{
	const struct driver *driver;
	unsigned type = 0, managed = 0;
	int ordinal = -1;
	enum weir_status status = driver_get(&driver);

	if (status != WEIR_OK)
		return status;
	if (driver->cuPointerGetAttribute(&type,
		CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address) != CUDA_SUCCESS ||
	    driver->cuPointerGetAttribute(&ordinal,
		CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address) != CUDA_SUCCESS ||
	    ordinal < 0)
		return status_set(WEIR_EINVAL,
		    "%s: no device has the address %#llx", caller_in, address);
	if (driver->cuPointerGetAttribute(&managed,
		CU_POINTER_ATTRIBUTE_IS_MANAGED, address) != CUDA_SUCCESS)
		managed = 0;
	foreign->device = ordinal;
	if (managed != 0)
		foreign->memory = WEIR_MEMORY_MANAGED;
	else if (type == CU_MEMORYTYPE_HOST)
		foreign->memory = WEIR_MEMORY_PINNED;
	return WEIR_OK;
}

/* Order the tensor's stream after the interface's. */
static enum weir_status
follow_stream(
    const struct weir_array_interface *array, const struct weir_tensor *tensor)
{
	struct stream *stream;
	enum weir_status status;

	if (!array->has_stream || tensor->stream == WEIR_STREAM_ANY)
		return WEIR_OK;
	status = tensor_stream(tensor, tensor->stream, &stream);
	if (status != WEIR_OK)
		return status;
	status = storage_join(tensor->storage, stream);
	stream_put(stream);
	return status;
}

static enum weir_status
place_foreign(const struct weir_array_interface *array, int device,
    struct weir_foreign *foreign, struct weir_layout *layout)
{
	enum weir_status status =
	    foreign_range(caller_in, layout, (uintptr_t)array->data, foreign);

	if (status != WEIR_OK)
		return status;
	foreign->memory = WEIR_MEMORY_DEVICE;
	foreign->device = device;
	foreign->read_only = array->read_only;
	foreign->has_stream = array->has_stream;
	foreign->stream = (weir_stream)(uintptr_t)array->stream;
	if (device == WEIR_DEVICE_CURRENT && foreign->bytes > 0)
		return ask_owner(
		    foreign, (CUdeviceptr)(uintptr_t)foreign->data);
	return WEIR_OK;
}

enum weir_status
weir_tensor_from_array_interface(const struct weir_array_interface *array,
    int device, weir_stream stream, const struct weir_owner *owner,
    struct weir_tensor **out)
{
	struct weir_foreign foreign = { .struct_size = sizeof(foreign) };
	struct weir_layout layout = { .struct_size = sizeof(layout) };
	int64_t strides[WEIR_DIMS_MAX];
	struct weir_tensor *tensor;
	enum weir_status status;

	if (array == NULL || out == NULL ||
	    (owner != NULL && owner->struct_size < sizeof(*owner)))
		return status_set(WEIR_EINVAL,
		    "%s: array or out is NULL, or the owner's struct_size is "
		    "not set",
		    caller_in);
	status = check_array(array);
	if (status == WEIR_OK)
		status = read_interface_type(array->typestr, &layout.dtype);
	if (status == WEIR_OK)
		status = read_interface_lengths(
		    array, (int64_t)weir_dtype_size(layout.dtype), strides);
	if (status != WEIR_OK)
		return status;
	layout.ndim = array->ndim;
	layout.shape = array->shape;
	layout.strides = array->has_strides ? strides : NULL;
	status = place_foreign(array, device, &foreign, &layout);
	if (status == WEIR_OK)
		status = foreign_tensor(&foreign, &layout, stream, &tensor);
	if (status != WEIR_OK)
		return status;
	status = follow_stream(array, tensor);
	if (status != WEIR_OK) {
		weir_tensor_destroy(tensor);
		return status;
	}
	if (owner != NULL) {
		tensor->storage->give = owner->give;
		tensor->storage->closure = owner->closure;
	}
	*out = tensor;
	return WEIR_OK;
}
