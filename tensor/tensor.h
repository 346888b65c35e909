/*
 * The internal interface of storages and tensors.
 */
#ifndef TENSOR_TENSOR_H
#define TENSOR_TENSOR_H

#include <stdatomic.h>

#include <weir/tensor.h>

#include "base/lock.h"
#include "streams/stream.h"
#include "tensor/element.h"

struct weir_storage {
	/* Constant. */
	void *data;
	size_t bytes;
	enum weir_memory memory;
	int device;
	weir_stream stream;
	bool foreign;
	bool read_only;
	bool has_stream; /* of a foreign storage */
	void (*give)(void *closure, void *data);
	void *closure;
	/* The stream that orders the memory's use from the start, which is one
	 * of those in `used`; NULL: there is none. */
	struct stream *own;

	_Atomic(size_t) refs;

	struct lock lock; /* LOCK_RANK_STORAGE */
	/* The streams with work on the memory, each once, with a reference, in
	 * the order of their addresses. */
	struct stream **used GUARDED_BY(lock);
	size_t n_used GUARDED_BY(lock);
	size_t max_used GUARDED_BY(lock);
};

struct weir_tensor {
	struct weir_storage *storage; /* a reference */
	enum weir_dtype dtype;
	int ndim;
	size_t offset_bytes;
	int64_t elements;
	weir_stream stream;
	bool contiguous;
	int64_t sizes[]; /* shape, then strides in elements */
};

static inline const int64_t *
tensor_shape(const struct weir_tensor *tensor)
{
	return tensor->sizes;
}

static inline const int64_t *
tensor_strides(const struct weir_tensor *tensor)
{
	return tensor->sizes + tensor->ndim;
}

/* The element at index 0, 0, ...; NULL if there is none. */
static inline char *
tensor_data(const struct weir_tensor *tensor)
{
	if (tensor->elements == 0)
		return NULL;
	return (char *)tensor->storage->data + tensor->offset_bytes;
}

/* Can the host read and write such memory? */
static inline bool
memory_is_host(enum weir_memory memory)
{
	return memory == WEIR_MEMORY_HOST || memory == WEIR_MEMORY_PINNED;
}

/* ---- storage.c ---------------------------------------------------------- */

/* Resolve a place: NULL and WEIR_DEVICE_CURRENT. `caller` begins messages. */
enum weir_status place_resolve(
    const char *caller, const struct weir_place *place, struct weir_place *out);

/* Record that work on the stream uses the memory. */
enum weir_status storage_use(
    struct weir_storage *storage, struct stream *stream);

/* Order `stream` after all uses of the storage. */
enum weir_status storage_join(
    struct weir_storage *storage, struct stream *stream);

/* Order work that is queued on `later` from now on after all work that is
 * queued on `earlier`. The host does not wait. */
enum weir_status stream_put_behind(
    struct stream *later, struct stream *earlier);

/* Wait for all uses. */
enum weir_status storage_wait(struct weir_storage *storage);

/* ---- tensor.c ----------------------------------------------------------- */

/* The dimension with a number, which may be negative, of ndim dimensions. */
enum weir_status dim_resolve(const char *caller, int dim, int ndim, int *out);

/* The product of the lengths; false if it does not fit in int64_t. */
bool shape_elements(int ndim, const int64_t *shape, int64_t *out);

/* Row-major strides without gaps. */
void shape_strides(int ndim, const int64_t *shape, int64_t *strides);

bool shape_contiguous(int ndim, const int64_t *shape, const int64_t *strides);

/* The bytes that a layout touches around the element at index 0, 0, ...: from
 * `low` (<= 0) up to, but not including, `high`. False: they overflow. */
bool layout_bounds(
    const struct weir_layout *layout, int64_t *low, int64_t *high);

/* Check a layout against a storage, and make the tensor. */
enum weir_status tensor_make(const char *caller, struct weir_storage *storage,
    const struct weir_layout *layout, weir_stream stream,
    struct weir_tensor **out);

/* weir_tensor_empty(), with the caller's name and a resolved place. */
enum weir_status tensor_new(const char *caller,
    const struct weir_layout *layout, const struct weir_place *place,
    struct weir_tensor **out);

/* The stream with a handle, as a reference; a default stream is that of the
 * tensor's device. */
enum weir_status tensor_stream(
    const struct weir_tensor *tensor, weir_stream handle, struct stream **out);

/* Write "[2, 3]" into `text`; returns `text`. */
const char *shape_text(int ndim, const int64_t *shape, char *text, size_t size);

/* The layout of a tensor. */
struct weir_layout tensor_layout(const struct weir_tensor *tensor);

/* ---- dlpack.c ----------------------------------------------------------- */

/* The range of addresses that a layout touches whose first element is at
 * `first`: sets data and bytes, and the layout's offset. WEIR_EINVAL if there
 * is none. */
enum weir_status foreign_range(const char *who, struct weir_layout *layout,
    uintptr_t first, struct weir_foreign *foreign);

/* Make a tensor over foreign memory; its owner is not notified if that fails.
 */
enum weir_status foreign_tensor(const struct weir_foreign *foreign,
    const struct weir_layout *layout, weir_stream stream,
    struct weir_tensor **out);

/* ---- plan.c, kernel.c ----------------------------------------------- */

enum { PLAN_DIMS = WEIR_DIMS_MAX };

/*
 * A copy in as few dimensions as possible: for each index, to[sum(index *
 * to_strides)] = from[sum(index * from_strides)], in bytes. Dimension n - 1 has
 * the smallest strides in the destination.
 */
struct plan {
	enum weir_dtype to_dtype, from_dtype;
	/* Size of an element if no conversion is made, else 0. */
	unsigned unit;
	char *to;
	const char *from;
	int n; /* 0 for one element */
	int64_t extents[PLAN_DIMS];
	int64_t to_strides[PLAN_DIMS];
	int64_t from_strides[PLAN_DIMS];
};

/* The elements of a tensor, as a copy needs them. */
struct view {
	enum weir_dtype dtype;
	int ndim;
	char *data;
	int64_t shape[PLAN_DIMS];
	int64_t strides[PLAN_DIMS]; /* in elements */
};

/* Does a copy move the bits as they are? A bool's are not: any byte but 0 is
 * read as true, and 1 is written. */
static inline bool
dtype_moves_bits(enum weir_dtype to, enum weir_dtype from)
{
	return to == from && to != WEIR_BOOL;
}

void plan_make(
    struct plan *plan, const struct view *to, const struct view *from);

/* The size of a plan that is one plain copy; 0 if it is not. */
size_t plan_straight_bytes(const struct plan *plan);

/* The number of elements of a plan. */
int64_t plan_elements(const struct plan *plan);

/* Run a plan on the host. */
void plan_run_host(const struct plan *plan);

/* Run a plan by a kernel on a stream; the stream's context must be current. */
enum weir_status plan_launch(const struct plan *plan, struct stream *stream);

/* Set each element of `plan->to` to *value, of type to_dtype. The plan is that
 * of a copy whose source has strides of 0. */
enum weir_status plan_launch_fill(
    const struct plan *plan, const void *value, struct stream *stream);

#endif
