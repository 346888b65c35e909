/*
 * Tensors to and from both forms of DLPack.
 */
#include <string.h>

#include <weir/exchange.h>
#include <weir/stream.h>

#include "base/meta.h"
#include "base/status.h"
#include "tensor/tensor.h"

_Static_assert(sizeof(struct weir_dl_tensor) == 48, "as DLTensor");
_Static_assert(sizeof(struct weir_dl_managed) == 64, "as DLManagedTensor");
_Static_assert(
    sizeof(struct weir_dl_versioned) == 80, "as DLManagedTensorVersioned");

/* Codes of element types. */
enum {
	CODE_INT = 0,
	CODE_UINT = 1,
	CODE_FLOAT = 2,
	CODE_BFLOAT = 4,
	CODE_COMPLEX = 5,
	CODE_BOOL = 6,
};

static const struct {
	enum weir_dtype dtype;
	uint8_t code;
	uint8_t bits;
} types[] = {
	{ WEIR_BOOL, CODE_BOOL, 8 },
	{ WEIR_INT8, CODE_INT, 8 },
	{ WEIR_INT16, CODE_INT, 16 },
	{ WEIR_INT32, CODE_INT, 32 },
	{ WEIR_INT64, CODE_INT, 64 },
	{ WEIR_UINT8, CODE_UINT, 8 },
	{ WEIR_UINT16, CODE_UINT, 16 },
	{ WEIR_UINT32, CODE_UINT, 32 },
	{ WEIR_UINT64, CODE_UINT, 64 },
	{ WEIR_FLOAT16, CODE_FLOAT, 16 },
	{ WEIR_BFLOAT16, CODE_BFLOAT, 16 },
	{ WEIR_FLOAT32, CODE_FLOAT, 32 },
	{ WEIR_FLOAT64, CODE_FLOAT, 64 },
	{ WEIR_COMPLEX64, CODE_COMPLEX, 64 },
	{ WEIR_COMPLEX128, CODE_COMPLEX, 128 },
	{ WEIR_FLOAT8_E3M4, 7, 8 },
	{ WEIR_FLOAT8_E4M3, 8, 8 },
	{ WEIR_FLOAT8_E4M3B11FNUZ, 9, 8 },
	{ WEIR_FLOAT8_E4M3FN, 10, 8 },
	{ WEIR_FLOAT8_E4M3FNUZ, 11, 8 },
	{ WEIR_FLOAT8_E5M2, 12, 8 },
	{ WEIR_FLOAT8_E5M2FNUZ, 13, 8 },
	{ WEIR_FLOAT8_E8M0FNU, 14, 8 },
};

enum { TYPES = sizeof(types) / sizeof(types[0]) };

static struct weir_dl_dtype
dl_dtype(enum weir_dtype dtype)
{
	for (size_t i = 0; i < TYPES; i++) {
		if (types[i].dtype == dtype)
			return (struct weir_dl_dtype){ types[i].code,
				types[i].bits, 1 };
	}
	return (struct weir_dl_dtype){ 0, 0, 0 };
}

static enum weir_dtype
dtype_of(struct weir_dl_dtype type)
{
	for (size_t i = 0; i < TYPES && type.lanes == 1; i++) {
		if (types[i].code == type.code && types[i].bits == type.bits)
			return types[i].dtype;
	}
	return WEIR_DTYPE_NONE;
}

static int32_t
dl_device_type(enum weir_memory memory)
{
	switch (memory) {
	case WEIR_MEMORY_DEVICE:
		return WEIR_DL_CUDA;
	case WEIR_MEMORY_PINNED:
		return WEIR_DL_CUDA_HOST;
	case WEIR_MEMORY_MANAGED:
		return WEIR_DL_CUDA_MANAGED;
	default:
		return WEIR_DL_CPU;
	}
}

static bool
dl_memory_of(int32_t type, enum weir_memory *out)
{
	switch (type) {
	case WEIR_DL_CPU:
		*out = WEIR_MEMORY_HOST;
		return true;
	case WEIR_DL_CUDA:
		*out = WEIR_MEMORY_DEVICE;
		return true;
	case WEIR_DL_CUDA_HOST:
		*out = WEIR_MEMORY_PINNED;
		return true;
	case WEIR_DL_CUDA_MANAGED:
		*out = WEIR_MEMORY_MANAGED;
		return true;
	default:
		return false;
	}
}

static struct weir_dl_device
dl_device_of(const struct weir_tensor *tensor)
{
	const struct weir_storage *storage = tensor->storage;

	return (struct weir_dl_device){ dl_device_type(storage->memory),
		storage->memory == WEIR_MEMORY_DEVICE ? storage->device : 0 };
}

enum weir_status
weir_tensor_dl_device(
    const struct weir_tensor *tensor, struct weir_dl_device *out)
{
	if (tensor == NULL || out == NULL)
		return status_set(WEIR_EINVAL,
		    "weir_tensor_dl_device: tensor or out is NULL");
	*out = dl_device_of(tensor);
	return WEIR_OK;
}

/* `lengths` has the shape, followed by the strides. */
static struct weir_dl_tensor
dl_view_of(const struct weir_tensor *tensor, int64_t *lengths)
{
	return (struct weir_dl_tensor){ .data = tensor_data(tensor),
		.device = dl_device_of(tensor),
		.ndim = tensor->ndim,
		.dtype = dl_dtype(tensor->dtype),
		.shape = lengths,
		.strides = lengths + tensor->ndim };
}

enum weir_status
weir_tensor_dl_view(
    const struct weir_tensor *tensor, struct weir_dl_tensor *out)
{
	if (tensor == NULL || out == NULL)
		return status_set(WEIR_EINVAL,
		    "weir_tensor_dl_view: %s is NULL",
		    tensor == NULL ? "tensor" : "out");
	/* The standard's struct has no const; consumers only read it. */
	*out = dl_view_of(tensor, (int64_t *)tensor->sizes);
	return WEIR_OK;
}

/* ---- Exporting ---------------------------------------------------------- */

/* The object that a consumer holds: one of the two forms, and the lengths. */
struct exported {
	union {
		struct weir_dl_versioned versioned;
		struct weir_dl_managed managed;
	};
	struct weir_storage *storage; /* a reference */
	size_t bytes;                 /* size of this struct with its lengths */
	int64_t lengths[];            /* shape, then strides */
};

static void
drop_exported(struct exported *exported)
{
	weir_storage_release(exported->storage);
	meta_free(exported, exported->bytes);
}

static void
delete_versioned(struct weir_dl_versioned *self)
{
	drop_exported(self->manager_ctx);
}

static void
delete_managed(struct weir_dl_managed *self)
{
	drop_exported(self->manager_ctx);
}

/* Make the tensor for a consumer that works on `stream`. */
static enum weir_status
make_exported(const struct weir_tensor *tensor, weir_stream stream,
    struct weir_dl_tensor *dl, struct exported **out)
{
	size_t ndim = (size_t)tensor->ndim;
	size_t bytes = sizeof(struct exported) +
	    2 * (ndim > 0 ? ndim : 1) * sizeof(int64_t);
	enum weir_status status = WEIR_OK;
	struct exported *exported;

	if (stream != WEIR_STREAM_ANY &&
	    !memory_is_host(tensor->storage->memory))
		status = weir_tensor_join(tensor, stream);
	if (status != WEIR_OK)
		return status;
	exported = meta_zalloc(bytes);
	if (exported == NULL)
		return status_set(
		    WEIR_EHOSTMEM, "no host memory for a DLPack tensor");
	exported->bytes = bytes;
	exported->storage = weir_storage_acquire(tensor->storage);
	if (ndim > 0)
		memcpy(exported->lengths, tensor->sizes,
		    2 * ndim * sizeof(int64_t));
	*dl = dl_view_of(tensor, exported->lengths);
	*out = exported;
	return WEIR_OK;
}

enum weir_status
weir_tensor_to_dlpack(const struct weir_tensor *tensor, weir_stream stream,
    uint64_t flags, struct weir_dl_versioned **out)
{
	struct exported *exported;
	struct weir_dl_tensor dl;
	enum weir_status status;

	if (tensor == NULL || out == NULL ||
	    (flags & ~(uint64_t)WEIR_DL_IS_COPIED) != 0)
		return status_set(WEIR_EINVAL,
		    "weir_tensor_to_dlpack: tensor or out is NULL, or flags "
		    "%#llx are unknown",
		    (unsigned long long)flags);
	status = make_exported(tensor, stream, &dl, &exported);
	if (status != WEIR_OK)
		return status;
	if (tensor->storage->read_only)
		flags |= WEIR_DL_READ_ONLY;
	exported->versioned = (struct weir_dl_versioned){
		.version = { WEIR_DLPACK_MAJOR, WEIR_DLPACK_MINOR },
		.manager_ctx = exported,
		.deleter = delete_versioned,
		.flags = flags,
		.tensor = dl
	};
	*out = &exported->versioned;
	return WEIR_OK;
}

enum weir_status
weir_tensor_to_dlpack_unversioned(const struct weir_tensor *tensor,
    weir_stream stream, struct weir_dl_managed **out)
{
	struct exported *exported;
	struct weir_dl_tensor dl;
	enum weir_status status;

	if (tensor == NULL || out == NULL)
		return status_set(WEIR_EINVAL,
		    "weir_tensor_to_dlpack_unversioned: tensor or out is NULL");
	if (tensor->storage->read_only)
		return status_set(WEIR_ENOTSUP,
		    "weir_tensor_to_dlpack_unversioned: the tensor is "
		    "read-only, which this form cannot say");
	status = make_exported(tensor, stream, &dl, &exported);
	if (status != WEIR_OK)
		return status;
	exported->managed = (struct weir_dl_managed){
		.tensor = dl, .manager_ctx = exported, .deleter = delete_managed
	};
	*out = &exported->managed;
	return WEIR_OK;
}

/* ---- Importing ---------------------------------------------------------- */

static void
give_versioned(void *closure, void *data)
{
	struct weir_dl_versioned *managed = closure;

	(void)data;
	if (managed->deleter != NULL)
		managed->deleter(managed);
}

static void
give_managed(void *closure, void *data)
{
	struct weir_dl_managed *managed = closure;

	(void)data;
	if (managed->deleter != NULL)
		managed->deleter(managed);
}

static const char caller[] = "weir_tensor_from_dlpack";

/* Read the layout of a foreign tensor. The lengths are read only from the place
 * that the tensor names. */
static enum weir_status
read_layout(const struct weir_dl_tensor *dl, struct weir_layout *layout)
{
	*layout = (struct weir_layout){ .struct_size = sizeof(*layout),
		.dtype = dtype_of(dl->dtype),
		.ndim = dl->ndim,
		.shape = dl->shape,
		.strides = dl->strides };
	if (layout->dtype == WEIR_DTYPE_NONE)
		return status_set(WEIR_ENOTSUP,
		    "%s: there is no type for code %u, %u bits, %u lanes",
		    caller, dl->dtype.code, dl->dtype.bits, dl->dtype.lanes);
	if (dl->ndim < 0 || dl->ndim > WEIR_DIMS_MAX ||
	    (dl->ndim > 0 && dl->shape == NULL))
		return status_set(WEIR_EINVAL,
		    "%s: ndim %d is not within 0 and %d, or shape is NULL",
		    caller, dl->ndim, WEIR_DIMS_MAX);
	for (int i = 0; i < dl->ndim; i++) {
		if (dl->shape[i] < 0)
			return status_set(WEIR_EINVAL,
			    "%s: length %lld of dimension %d is below 0",
			    caller, (long long)dl->shape[i], i);
	}
	return WEIR_OK;
}

enum weir_status
foreign_range(const char *who, struct weir_layout *layout, uintptr_t first,
    struct weir_foreign *foreign)
{
	int64_t low, high;
	bool bounded = layout_bounds(layout, &low, &high);

	if (bounded && low == high) {
		foreign->data = NULL;
		foreign->bytes = 0;
		return WEIR_OK;
	}
	if (!bounded || first == 0 || (uintptr_t)-low > first ||
	    (uintptr_t)high > UINTPTR_MAX - first ||
	    (uint64_t)high - (uint64_t)low > WEIR_SIZE_MAX)
		return status_set(WEIR_EINVAL,
		    "%s: elements at %#llx reach beyond all addresses", who,
		    (unsigned long long)first);
	foreign->data = (void *)(first + (uintptr_t)low);
	foreign->bytes = (size_t)(high - low);
	layout->offset_bytes = (size_t)-low;
	return WEIR_OK;
}

enum weir_status
foreign_tensor(const struct weir_foreign *foreign,
    const struct weir_layout *layout, weir_stream stream,
    struct weir_tensor **out)
{
	struct weir_foreign unowned = *foreign;
	struct weir_storage *storage;
	struct weir_tensor *tensor;
	enum weir_status status;

	/* Until the tensor exists, the caller keeps the memory if a step fails.
	 */
	unowned.give = NULL;
	status = weir_storage_wrap(&unowned, &storage);
	if (status != WEIR_OK)
		return status;
	status = tensor_make(caller, storage, layout, stream, &tensor);
	if (status == WEIR_OK) {
		storage->give = foreign->give;
		*out = tensor;
	}
	weir_storage_release(storage);
	return status;
}

static enum weir_status
import(const struct weir_dl_tensor *dl, struct weir_foreign *foreign,
    weir_stream stream, struct weir_tensor **out)
{
	struct weir_layout layout;
	uintptr_t first = (uintptr_t)dl->data;
	enum weir_status status;

	if (!dl_memory_of(dl->device.type, &foreign->memory))
		return status_set(WEIR_ENOTSUP,
		    "%s: memory of device type %d is not CUDA's or the host's",
		    caller, dl->device.type);
	status = read_layout(dl, &layout);
	if (status != WEIR_OK)
		return status;
	if (dl->byte_offset > UINTPTR_MAX - first)
		return status_set(WEIR_EINVAL,
		    "%s: byte_offset %llu leads beyond all addresses", caller,
		    (unsigned long long)dl->byte_offset);
	if (first != 0)
		first += dl->byte_offset;
	status = foreign_range(caller, &layout, first, foreign);
	if (status != WEIR_OK)
		return status;
	foreign->struct_size = sizeof(*foreign);
	foreign->device =
	    foreign->memory == WEIR_MEMORY_DEVICE ? dl->device.id : 0;
	return foreign_tensor(foreign, &layout, stream, out);
}

enum weir_status
weir_tensor_from_dlpack(struct weir_dl_versioned *managed, weir_stream stream,
    struct weir_tensor **out)
{
	struct weir_foreign foreign = { .give = give_versioned,
		.closure = managed };

	if (managed == NULL || out == NULL)
		return status_set(
		    WEIR_EINVAL, "%s: managed or out is NULL", caller);
	/* In another major version, the fields after the flags are unknown. */
	if (managed->version.major != WEIR_DLPACK_MAJOR)
		return status_set(WEIR_ENOTSUP,
		    "%s: major version %u is not %d", caller,
		    managed->version.major, WEIR_DLPACK_MAJOR);
	foreign.read_only = (managed->flags & WEIR_DL_READ_ONLY) != 0;
	return import(&managed->tensor, &foreign, stream, out);
}

enum weir_status
weir_tensor_from_dlpack_unversioned(struct weir_dl_managed *managed,
    weir_stream stream, struct weir_tensor **out)
{
	struct weir_foreign foreign = { .give = give_managed,
		.closure = managed };

	if (managed == NULL || out == NULL)
		return status_set(
		    WEIR_EINVAL, "%s: managed or out is NULL", caller);
	return import(&managed->tensor, &foreign, stream, out);
}

/* ---- The exchange table ------------------------------------------------- */

static enum weir_status
allocate_like(
    const struct weir_dl_tensor *prototype, struct weir_dl_versioned **out)
{
	struct weir_place place = { .struct_size = sizeof(place) };
	struct weir_layout layout;
	struct weir_tensor *tensor;
	enum weir_status status = read_layout(prototype, &layout);

	if (status != WEIR_OK)
		return status;
	if (!dl_memory_of(prototype->device.type, &place.memory))
		return status_set(WEIR_ENOTSUP,
		    "there is no memory of device type %d",
		    prototype->device.type);
	place.device = prototype->device.id;
	if (place.memory == WEIR_MEMORY_DEVICE)
		status = weir_stream_current(place.device, &place.stream);
	if (status == WEIR_OK)
		status = weir_tensor_empty(
		    layout.dtype, layout.ndim, layout.shape, &place, &tensor);
	if (status != WEIR_OK)
		return status;
	status = weir_tensor_to_dlpack(tensor, WEIR_STREAM_ANY, 0, out);
	weir_tensor_destroy(tensor);
	return status;
}

static int
exchange_allocate(struct weir_dl_tensor *prototype,
    struct weir_dl_versioned **out, void *error_ctx,
    void (*set_error)(void *error_ctx, const char *kind, const char *message))
{
	enum weir_status status = allocate_like(prototype, out);

	if (status == WEIR_OK)
		return 0;
	if (set_error != NULL)
		set_error(error_ctx,
		    status == WEIR_ENOMEM || status == WEIR_EHOSTMEM ?
			"MemoryError" :
			"RuntimeError",
		    weir_last_error());
	return -1;
}

static int
exchange_stream(int32_t device_type, int32_t device_id, void **out)
{
	weir_stream stream;

	*out = NULL;
	if (device_type != WEIR_DL_CUDA && device_type != WEIR_DL_CUDA_MANAGED)
		return 0;
	if (weir_stream_current(device_id, &stream) != WEIR_OK)
		return -1;
	*out = stream;
	return 0;
}

void
weir_dl_exchange_init(struct weir_dl_exchange *table)
{
	if (table == NULL)
		return;
	*table = (struct weir_dl_exchange){
		.header.version = { WEIR_DLPACK_MAJOR, WEIR_DLPACK_MINOR },
		.managed_tensor_allocator = exchange_allocate,
		.current_work_stream = exchange_stream
	};
}
