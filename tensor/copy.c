/*
 * Copies and fills: how they are made, on which stream, and who waits.
 *
 * Within a device a plan is one plain copy by the driver, or a kernel. Copies
 * to and from the host that are not plain use contiguous memory on the device,
 * so that the bus carries one dense copy. The kernel itself reads and writes
 * strided page-locked memory. Strided pageable memory is copied through
 * page-locked memory, which the host fills or empties. Temporary memory is
 * freed as soon as the work on it is queued, because the allocator knows the
 * streams.
 */
#include <string.h>

#include <weir/host.h>
#include <weir/stream.h>

#include "base/meta.h"
#include "base/status.h"
#include "tensor/tensor.h"

static const char caller[] = "weir_tensor_copy";

/* One copy that is being made. */
struct copying {
	const struct weir_tensor *to, *from;
	struct view to_view, from_view;
	struct stream *stream;
	bool non_blocking;
};

/* ---- Views -------------------------------------------------------------- */

static void
tensor_view(const struct weir_tensor *tensor, struct view *view)
{
	size_t lengths = (size_t)tensor->ndim * sizeof(int64_t);

	view->dtype = tensor->dtype;
	view->ndim = tensor->ndim;
	view->data = tensor_data(tensor);
	memcpy(view->shape, tensor_shape(tensor), lengths);
	memcpy(view->strides, tensor_strides(tensor), lengths);
}

/* Expand a tensor to the shape of a view. False: the shapes do not fit. */
static bool
view_expanded(
    const struct weir_tensor *tensor, const struct view *to, struct view *view)
{
	view->dtype = tensor->dtype;
	view->ndim = to->ndim;
	view->data = tensor_data(tensor);
	if (tensor->ndim > to->ndim)
		return false;
	for (int i = 0; i < to->ndim; i++) {
		int from = i - (to->ndim - tensor->ndim);
		int64_t length = from < 0 ? 1 : tensor_shape(tensor)[from];

		if (length != to->shape[i] && length != 1)
			return false;
		view->shape[i] = to->shape[i];
		view->strides[i] = from >= 0 && length == to->shape[i] ?
		    tensor_strides(tensor)[from] :
		    0;
	}
	return true;
}

/* A view of the same shape in contiguous memory. */
static struct view
view_dense(const struct view *like, enum weir_dtype dtype, void *data)
{
	struct view view = *like;

	view.dtype = dtype;
	view.data = data;
	shape_strides(view.ndim, view.shape, view.strides);
	return view;
}

static size_t
view_bytes(const struct view *view)
{
	size_t bytes = weir_dtype_size(view->dtype);

	for (int i = 0; i < view->ndim; i++)
		bytes *= (size_t)view->shape[i];
	return bytes;
}

/* Would writing to the view write some element twice? */
static bool
view_repeats(const struct view *view)
{
	for (int i = 0; i < view->ndim; i++) {
		if (view->strides[i] == 0 && view->shape[i] > 1)
			return true;
	}
	return false;
}

/* The addresses that a view touches. */
static void
view_range(const struct view *view, uintptr_t *low, uintptr_t *high)
{
	size_t size = weir_dtype_size(view->dtype);

	*low = (uintptr_t)view->data;
	*high = *low + size;
	for (int i = 0; i < view->ndim; i++) {
		int64_t reach =
		    (view->shape[i] - 1) * view->strides[i] * (int64_t)size;

		if (reach < 0)
			*low += (uintptr_t)reach;
		else
			*high += (uintptr_t)reach;
	}
}

static bool
views_overlap(const struct view *a, const struct view *b)
{
	uintptr_t a_low, a_high, b_low, b_high;

	view_range(a, &a_low, &a_high);
	view_range(b, &b_low, &b_high);
	return a_low < b_high && b_low < a_high;
}

static bool
views_same(const struct view *a, const struct view *b)
{
	size_t lengths = (size_t)a->ndim * sizeof(int64_t);

	return a->data == b->data && a->dtype == b->dtype &&
	    memcmp(a->strides, b->strides, lengths) == 0;
}

/* ---- On a device -------------------------------------------------------- */

static enum weir_status
copy_straight(void *to, const void *from, size_t bytes, struct stream *stream)
{
	return driver_status(
	    driver_peek()->cuMemcpyAsync((CUdeviceptr)(uintptr_t)to,
		(CUdeviceptr)(uintptr_t)from, bytes, stream->handle),
	    "cuMemcpyAsync(%p, %p, %zu bytes, stream %p)", to, from, bytes,
	    (void *)stream->handle);
}

/* Copy on a stream whose device can access both views. */
static enum weir_status
copy_on_device(
    const struct view *to, const struct view *from, struct stream *stream)
{
	struct plan plan;
	size_t bytes;

	plan_make(&plan, to, from);
	bytes = plan_straight_bytes(&plan);
	if (bytes > 0)
		return copy_straight(plan.to, plan.from, bytes, stream);
	return plan_launch(&plan, stream);
}

/* Allocate contiguous memory on a device for data in transit. */
static void *
stage_take(size_t bytes, const struct stream *stream)
{
	return weir_malloc_on(stream->device, bytes, stream->handle);
}

static bool
views_straight(const struct view *to, const struct view *from)
{
	struct plan plan;

	plan_make(&plan, to, from);
	return plan_straight_bytes(&plan) > 0;
}

static enum weir_status
copy_overlapping(const struct copying *c)
{
	void *stage = stage_take(view_bytes(&c->from_view), c->stream);
	struct view dense;
	enum weir_status status;

	if (stage == NULL)
		return weir_last_status();
	dense = view_dense(&c->from_view, c->from_view.dtype, stage);
	status = copy_on_device(&dense, &c->from_view, c->stream);
	if (status == WEIR_OK)
		status = copy_on_device(&c->to_view, &dense, c->stream);
	weir_free(stage);
	return status;
}

/* ---- From and to the host ----------------------------------------------- */

static bool
is_in_capture(const struct stream *stream)
{
	CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;

	return driver_peek()->cuStreamIsCapturing(stream->handle, &status) !=
	    CUDA_SUCCESS ||
	    status != CU_STREAM_CAPTURE_STATUS_NONE;
}

/* Allocate page-locked memory that the host fills from a strided view, or from
 * which it fills one. */
static enum weir_status
bounce_take(const struct copying *c, size_t bytes, void **out)
{
	if (is_in_capture(c->stream))
		return status_set(WEIR_ECAPTURE,
		    "%s: pageable memory with gaps cannot be copied while "
		    "stream %p is captured",
		    caller, (void *)c->stream->handle);
	*out = weir_host_malloc_on(c->stream->device, bytes, 0);
	return *out != NULL ? WEIR_OK : weir_last_status();
}

static void
bounce_drop(void *bounce, const struct stream *stream)
{
	weir_host_record(bounce, stream->handle);
	weir_host_free(bounce);
}

/* Copy from strided pageable memory: the host first makes it dense. */
static enum weir_status
from_pageable(struct copying *c)
{
	struct view dense;
	struct plan plan;
	void *bounce;
	enum weir_status status =
	    bounce_take(c, view_bytes(&c->from_view), &bounce);

	if (status != WEIR_OK)
		return status;
	dense = view_dense(&c->from_view, c->from_view.dtype, bounce);
	plan_make(&plan, &dense, &c->from_view);
	plan_run_host(&plan);
	if (views_straight(&c->to_view, &dense)) {
		status = copy_on_device(&c->to_view, &dense, c->stream);
		bounce_drop(bounce, c->stream);
		return status;
	}
	void *stage = stage_take(view_bytes(&dense), c->stream);
	status = stage != NULL ? WEIR_OK : weir_last_status();
	if (status == WEIR_OK)
		status =
		    copy_straight(stage, bounce, view_bytes(&dense), c->stream);
	bounce_drop(bounce, c->stream);
	dense.data = stage;
	if (status == WEIR_OK)
		status = copy_on_device(&c->to_view, &dense, c->stream);
	weir_free(stage);
	return status;
}

/* Copy from dense host memory: over the bus without changes, then by a kernel.
 */
static enum weir_status
from_dense(struct copying *c)
{
	size_t bytes = view_bytes(&c->from_view);
	void *stage = stage_take(bytes, c->stream);
	struct view dense;
	enum weir_status status;

	if (stage == NULL)
		return weir_last_status();
	dense = view_dense(&c->from_view, c->from_view.dtype, stage);
	status = copy_straight(stage, c->from_view.data, bytes, c->stream);
	if (status == WEIR_OK)
		status = copy_on_device(&c->to_view, &dense, c->stream);
	weir_free(stage);
	return status;
}

static enum weir_status
from_host(struct copying *c)
{
	const struct view *v = &c->from_view;

	if (views_straight(&c->to_view, v))
		return copy_on_device(&c->to_view, v, c->stream);
	if (shape_contiguous(v->ndim, v->shape, v->strides))
		return from_dense(c);
	if (c->from->storage->memory == WEIR_MEMORY_PINNED)
		return copy_on_device(&c->to_view, v, c->stream);
	return from_pageable(c);
}

/* Copy to strided pageable memory: the host writes the elements after the dense
 * copy has arrived. */
static enum weir_status
to_pageable(struct copying *c, const struct view *dense)
{
	struct plan plan;
	struct view arrived;
	void *bounce;
	size_t bytes = view_bytes(dense);
	enum weir_status status = bounce_take(c, bytes, &bounce);

	if (status != WEIR_OK)
		return status;
	status = copy_straight(bounce, dense->data, bytes, c->stream);
	if (status == WEIR_OK)
		status = weir_stream_synchronize(c->stream->handle);
	if (status == WEIR_OK) {
		arrived = view_dense(dense, dense->dtype, bounce);
		plan_make(&plan, &c->to_view, &arrived);
		plan_run_host(&plan);
	}
	bounce_drop(bounce, c->stream);
	return status;
}

/* Copy to the host: first make the data dense and convert them on the device.
 */
static enum weir_status
to_host_staged(struct copying *c)
{
	const struct view *v = &c->to_view;
	size_t bytes = view_bytes(v);
	void *stage = stage_take(bytes, c->stream);
	struct view dense;
	enum weir_status status;

	if (stage == NULL)
		return weir_last_status();
	dense = view_dense(v, v->dtype, stage);
	status = copy_on_device(&dense, &c->from_view, c->stream);
	if (status == WEIR_OK) {
		if (shape_contiguous(v->ndim, v->shape, v->strides))
			status =
			    copy_straight(v->data, stage, bytes, c->stream);
		else
			status = to_pageable(c, &dense);
	}
	weir_free(stage);
	return status;
}

static enum weir_status
to_host(struct copying *c)
{
	const struct view *v = &c->to_view;

	if (views_straight(v, &c->from_view) ||
	    (c->to->storage->memory == WEIR_MEMORY_PINNED &&
		!shape_contiguous(v->ndim, v->shape, v->strides)))
		return copy_on_device(v, &c->from_view, c->stream);
	return to_host_staged(c);
}

/* ---- Between devices ---------------------------------------------------- */

static enum weir_status
copy_peer(const struct copying *c, void *to, const void *from, size_t bytes)
{
	CUcontext to_context, from_context;
	enum weir_status status =
	    driver_context(c->to->storage->device, &to_context);

	if (status == WEIR_OK)
		status =
		    driver_context(c->from->storage->device, &from_context);
	if (status != WEIR_OK)
		return status;
	if (driver_peek()->cuMemcpyPeerAsync == NULL)
		return copy_straight(to, from, bytes, c->stream);
	return driver_status(
	    driver_peek()->cuMemcpyPeerAsync((CUdeviceptr)(uintptr_t)to,
		to_context, (CUdeviceptr)(uintptr_t)from, from_context, bytes,
		c->stream->handle),
	    "cuMemcpyPeerAsync(%p, device %d, %p, device %d, %zu bytes)", to,
	    c->to->storage->device, from, c->from->storage->device, bytes);
}

/* Copy between a view on one side and its dense copy in memory of the same
 * device, in the direction that `into` says, on a stream of that device. */
static enum weir_status
copy_aside(
    const struct view *to, const struct view *from, struct stream *stream)
{
	struct driver_guard guard;
	enum weir_status status = driver_enter(stream->context, &guard);

	if (status != WEIR_OK)
		return status;
	status = copy_on_device(to, from, stream);
	driver_leave(&guard);
	return status;
}

/* Memory on one side, dense and of one type: the tensor's own, or temporary
 * memory. */
struct side {
	struct stream *stream; /* of its device; a reference */
	struct view dense;
	void *stage; /* temporary memory; NULL: the tensor's own memory */
};

static enum weir_status
side_begin(const struct copying *c, const struct weir_tensor *tensor,
    const struct view *view, struct side *side)
{
	weir_stream own =
	    tensor->stream == WEIR_STREAM_ANY ? NULL : tensor->stream;
	enum weir_dtype dtype = c->to_view.dtype;
	enum weir_status status;

	side->stage = NULL;
	side->dense = *view;
	if (c->stream->device == tensor->storage->device) {
		side->stream = stream_ref(c->stream);
	} else {
		status =
		    stream_find(tensor->storage->device, own, &side->stream);
		if (status != WEIR_OK)
			return status;
	}
	/* The destination's side receives elements that are converted. */
	if ((tensor == c->to || dtype_moves_bits(dtype, view->dtype)) &&
	    shape_contiguous(view->ndim, view->shape, view->strides))
		return WEIR_OK;
	side->dense = view_dense(view, dtype, NULL);
	side->stage = stage_take(view_bytes(&side->dense), side->stream);
	side->dense.data = side->stage;
	if (side->stage != NULL)
		return WEIR_OK;
	stream_put(side->stream);
	return weir_last_status();
}

/* The temporary memory was used on the copy's stream too. */
static void
side_end(const struct copying *c, struct side *side)
{
	struct driver_guard guard;

	if (side->stage != NULL &&
	    driver_enter(c->stream->context, &guard) == WEIR_OK) {
		weir_record_stream(side->stage, c->stream->handle);
		driver_leave(&guard);
	}
	weir_free(side->stage);
	stream_put(side->stream);
}

/* The source's side makes the data dense, one plain copy transfers them, and
 * the destination's side writes the elements. */
static enum weir_status
copy_between_sides(
    const struct copying *c, const struct side *to, const struct side *from)
{
	enum weir_status status = WEIR_OK;

	if (from->stage != NULL)
		status = copy_aside(&from->dense, &c->from_view, from->stream);
	if (status == WEIR_OK)
		status = stream_put_behind(c->stream, from->stream);
	if (status == WEIR_OK)
		status = stream_put_behind(c->stream, to->stream);
	if (status == WEIR_OK)
		status = copy_peer(c, to->dense.data, from->dense.data,
		    view_bytes(&to->dense));
	if (status == WEIR_OK)
		status = stream_put_behind(from->stream, c->stream);
	if (status == WEIR_OK)
		status = stream_put_behind(to->stream, c->stream);
	if (status == WEIR_OK && to->stage != NULL)
		status = copy_aside(&c->to_view, &to->dense, to->stream);
	return status;
}

static enum weir_status
between_devices(const struct copying *c)
{
	struct side to, from;
	enum weir_status status = side_begin(c, c->from, &c->from_view, &from);

	if (status != WEIR_OK)
		return status;
	status = side_begin(c, c->to, &c->to_view, &to);
	if (status == WEIR_OK) {
		status = copy_between_sides(c, &to, &from);
		if (status == WEIR_OK)
			status = storage_use(c->to->storage, to.stream);
		side_end(c, &to);
	}
	if (status == WEIR_OK)
		status = storage_use(c->from->storage, from.stream);
	side_end(c, &from);
	return status;
}

/* ---- Copying ------------------------------------------------------------ */

static bool
on_host(const struct weir_tensor *tensor)
{
	return memory_is_host(tensor->storage->memory);
}

static bool
crosses_devices(const struct copying *c)
{
	return c->to->storage->memory == WEIR_MEMORY_DEVICE &&
	    c->from->storage->memory == WEIR_MEMORY_DEVICE &&
	    c->to->storage->device != c->from->storage->device;
}

static enum weir_status
check_copy(const struct weir_tensor *to, const struct weir_tensor *from,
    struct copying *c)
{
	char a[160], b[160];

	c->to = to;
	c->from = from;
	tensor_view(to, &c->to_view);
	if (to->storage->read_only)
		return status_set(
		    WEIR_EINVAL, "%s: the destination is read-only", caller);
	if (!view_expanded(from, &c->to_view, &c->from_view))
		return status_set(WEIR_EINVAL,
		    "%s: the source's shape %s cannot become the "
		    "destination's, %s",
		    caller,
		    shape_text(from->ndim, tensor_shape(from), a, sizeof(a)),
		    shape_text(to->ndim, tensor_shape(to), b, sizeof(b)));
	if (to->elements > 0 && view_repeats(&c->to_view))
		return status_set(WEIR_EINVAL,
		    "%s: elements of the destination overlap: a stride is 0",
		    caller);
	return WEIR_OK;
}

/* Find the stream that was named, on the device of either tensor. */
static enum weir_status
find_copy_stream(struct copying *c, weir_stream handle)
{
	const struct weir_tensor *first = on_host(c->from) ? c->to : c->from;
	enum weir_status status;

	if (handle == WEIR_STREAM_ANY)
		return status_set(WEIR_EINVAL,
		    "%s: WEIR_STREAM_ANY is no stream to copy on", caller);
	status = tensor_stream(first, handle, &c->stream);
	if (status != WEIR_OK)
		return status;
	if (c->stream->device == first->storage->device ||
	    (!on_host(c->to) && c->stream->device == c->to->storage->device))
		return WEIR_OK;
	status = status_set(WEIR_EINVAL,
	    "%s: stream %p belongs to device %d, and the tensors to device %d "
	    "and %d",
	    caller, (void *)handle, c->stream->device, c->from->storage->device,
	    c->to->storage->device);
	stream_put(c->stream);
	return status;
}

static enum weir_status
run_copy(struct copying *c)
{
	if (crosses_devices(c))
		return between_devices(c);
	if (on_host(c->from))
		return from_host(c);
	if (on_host(c->to))
		return to_host(c);
	if (views_overlap(&c->to_view, &c->from_view))
		return copy_overlapping(c);
	return copy_on_device(&c->to_view, &c->from_view, c->stream);
}

/* Queue the copy, record the uses, and wait if that is wanted. */
static enum weir_status
copy_on_stream(struct copying *c)
{
	bool waits = (on_host(c->to) || on_host(c->from)) && !c->non_blocking;
	struct driver_guard guard;
	enum weir_status status = driver_enter(c->stream->context, &guard);

	if (status != WEIR_OK)
		return status;
	if (waits && is_in_capture(c->stream))
		status = status_set(WEIR_ECAPTURE,
		    "%s: the copy would wait, and stream %p is captured; "
		    "WEIR_COPY_NON_BLOCKING does not",
		    caller, (void *)c->stream->handle);
	if (status == WEIR_OK)
		status = storage_use(c->to->storage, c->stream);
	if (status == WEIR_OK)
		status = storage_use(c->from->storage, c->stream);
	if (status == WEIR_OK)
		status = run_copy(c);
	if (status == WEIR_OK && waits)
		status = weir_stream_synchronize(c->stream->handle);
	driver_leave(&guard);
	return status;
}

static enum weir_status
copy_on_host(const struct copying *c)
{
	struct plan plan;
	struct view dense = c->from_view;
	void *stage = NULL;

	if (views_overlap(&c->to_view, &c->from_view)) {
		size_t bytes = view_bytes(&c->from_view);

		stage = meta_alloc(bytes);
		if (stage == NULL)
			return status_set(WEIR_EHOSTMEM,
			    "%s: no host memory for %zu bytes", caller, bytes);
		dense = view_dense(&c->from_view, c->from_view.dtype, stage);
		plan_make(&plan, &dense, &c->from_view);
		plan_run_host(&plan);
	}
	plan_make(&plan, &c->to_view, &dense);
	plan_run_host(&plan);
	if (stage != NULL)
		meta_free(stage, view_bytes(&c->from_view));
	return WEIR_OK;
}

enum weir_status
weir_tensor_copy(const struct weir_tensor *to, const struct weir_tensor *from,
    weir_stream stream, unsigned flags)
{
	struct copying c = { .non_blocking =
				 (flags & WEIR_COPY_NON_BLOCKING) != 0 };
	enum weir_status status;

	if (to == NULL || from == NULL)
		return status_set(WEIR_EINVAL, "%s: %s is NULL", caller,
		    to == NULL ? "to" : "from");
	if ((flags & ~(unsigned)WEIR_COPY_NON_BLOCKING) != 0)
		return status_set(
		    WEIR_EINVAL, "%s: unknown flags %#x", caller, flags);
	status = check_copy(to, from, &c);
	if (status != WEIR_OK || to->elements == 0 ||
	    (views_same(&c.to_view, &c.from_view) &&
		dtype_moves_bits(to->dtype, from->dtype)))
		return status;
	if (on_host(to) && on_host(from))
		return copy_on_host(&c);
	status = find_copy_stream(&c, stream);
	if (status != WEIR_OK)
		return status;
	status = copy_on_stream(&c);
	stream_put(c.stream);
	return status;
}

/* ---- Copies elsewhere --------------------------------------------------- */

/* The place of the result of weir_tensor_to(), and whether the tensor is there
 * already. */
static enum weir_status
resolve_target(const struct weir_tensor *tensor, const struct weir_place *place,
    unsigned flags, struct weir_place *out)
{
	const struct weir_storage *storage = tensor->storage;
	enum weir_status status;

	if (place == NULL) {
		*out = (struct weir_place){ .struct_size = sizeof(*out),
			.memory = storage->memory == WEIR_MEMORY_MANAGED ?
			    WEIR_MEMORY_DEVICE :
			    storage->memory,
			.device = storage->device,
			.stream = tensor->stream };
		return WEIR_OK;
	}
	status = place_resolve("weir_tensor_to", place, out);
	if (status != WEIR_OK)
		return status;
	if (memory_is_host(out->memory) && out->stream == NULL)
		out->stream = tensor->stream;
	if (out->memory != WEIR_MEMORY_HOST || memory_is_host(storage->memory))
		return WEIR_OK;
	out->device = storage->device;
	if ((flags & WEIR_COPY_NON_BLOCKING) != 0)
		out->memory = WEIR_MEMORY_PINNED;
	return WEIR_OK;
}

static bool
is_at_place(const struct weir_tensor *tensor, const struct weir_place *place)
{
	const struct weir_storage *storage = tensor->storage;

	if (place->memory == WEIR_MEMORY_HOST)
		return memory_is_host(storage->memory);
	if (place->memory == WEIR_MEMORY_PINNED)
		return storage->memory == WEIR_MEMORY_PINNED;
	return !memory_is_host(storage->memory) &&
	    storage->device == place->device;
}

static enum weir_status
copy_to_new(const struct weir_tensor *tensor, enum weir_dtype dtype,
    const struct weir_place *place, unsigned flags, struct weir_tensor **out)
{
	struct weir_layout layout = { .struct_size = sizeof(layout),
		.dtype = dtype,
		.ndim = tensor->ndim,
		.shape = tensor_shape(tensor) };
	weir_stream stream =
	    place->stream == WEIR_STREAM_ANY ? NULL : place->stream;
	struct weir_tensor *made;
	enum weir_status status =
	    tensor_new("weir_tensor_to", &layout, place, &made);

	if (status != WEIR_OK)
		return status;
	status = weir_tensor_copy(
	    made, tensor, stream, flags & (unsigned)WEIR_COPY_NON_BLOCKING);
	if (status != WEIR_OK) {
		weir_tensor_destroy(made);
		return status;
	}
	*out = made;
	return WEIR_OK;
}

enum weir_status
weir_tensor_to(const struct weir_tensor *tensor, enum weir_dtype dtype,
    const struct weir_place *place, unsigned flags, struct weir_tensor **out)
{
	struct weir_place target;
	enum weir_status status;

	if (tensor == NULL || out == NULL)
		return status_set(
		    WEIR_EINVAL, "weir_tensor_to: tensor or out is NULL");
	if ((flags & ~(unsigned)(WEIR_COPY_NON_BLOCKING | WEIR_COPY_ALWAYS)) !=
	    0)
		return status_set(
		    WEIR_EINVAL, "weir_tensor_to: unknown flags %#x", flags);
	if (dtype == WEIR_DTYPE_NONE)
		dtype = tensor->dtype;
	status = resolve_target(tensor, place, flags, &target);
	if (status != WEIR_OK)
		return status;
	if (dtype == tensor->dtype && (flags & WEIR_COPY_ALWAYS) == 0 &&
	    is_at_place(tensor, &target))
		return weir_tensor_alias(tensor, target.stream, out);
	return copy_to_new(tensor, dtype, &target, flags, out);
}

enum weir_status
weir_tensor_contiguous(const struct weir_tensor *tensor, weir_stream stream,
    struct weir_tensor **out)
{
	struct weir_place place;
	enum weir_status status;

	if (tensor == NULL || out == NULL)
		return status_set(WEIR_EINVAL,
		    "weir_tensor_contiguous: tensor or out is NULL");
	if (tensor->contiguous)
		return weir_tensor_alias(tensor, stream, out);
	status = resolve_target(tensor, NULL, 0, &place);
	if (status != WEIR_OK)
		return status;
	place.stream = stream;
	return copy_to_new(tensor, tensor->dtype, &place, 0, out);
}

/* ---- Filling ------------------------------------------------------------ */

/* Fill by the driver, if one to four bytes are repeated without gaps. */
static bool
fill_straight(const struct plan *plan, const void *value, struct stream *stream,
    enum weir_status *status)
{
	CUdeviceptr to = (CUdeviceptr)(uintptr_t)plan->to;
	size_t unit = plan->unit, bytes = (size_t)plan_elements(plan) * unit;
	unsigned char wide[16];
	uint32_t word;
	CUresult code;
	bool same = true, words = true;

	if (plan->n > 1 ||
	    (plan->n == 1 && plan->to_strides[0] != (int64_t)unit))
		return false;
	for (size_t i = 0; i < sizeof(wide); i += unit)
		memcpy(wide + i, value, unit);
	for (size_t i = 0; i < sizeof(wide); i++) {
		same = same && wide[i] == wide[0];
		words = words && wide[i] == wide[i % 4];
	}
	memcpy(&word, wide, sizeof(word));
	if (same)
		code = driver_peek()->cuMemsetD8Async(
		    to, wide[0], bytes, stream->handle);
	else if (words && to % 4 == 0 && bytes % 4 == 0)
		code = driver_peek()->cuMemsetD32Async(
		    to, word, bytes / 4, stream->handle);
	else
		return false;
	*status = driver_status(code, "cuMemsetAsync(%p, %zu bytes, stream %p)",
	    (void *)plan->to, bytes, (void *)stream->handle);
	return true;
}

static enum weir_status
fill_on_stream(const struct weir_tensor *tensor, const struct plan *plan,
    const void *value, weir_stream handle)
{
	struct driver_guard guard;
	struct stream *stream;
	enum weir_status status;

	if (handle == WEIR_STREAM_ANY)
		return status_set(WEIR_EINVAL,
		    "weir_tensor_fill: WEIR_STREAM_ANY is no stream");
	status = stream_find(tensor->storage->device, handle, &stream);
	if (status != WEIR_OK)
		return status;
	status = driver_enter(stream->context, &guard);
	if (status == WEIR_OK) {
		status = storage_use(tensor->storage, stream);
		if (status == WEIR_OK &&
		    !fill_straight(plan, value, stream, &status))
			status = plan_launch_fill(plan, value, stream);
		driver_leave(&guard);
	}
	stream_put(stream);
	return status;
}

enum weir_status
weir_tensor_fill(const struct weir_tensor *tensor, enum weir_dtype dtype,
    const void *value, weir_stream stream)
{
	struct view to, once;
	struct plan plan;
	char element[16];

	if (tensor == NULL || value == NULL || weir_dtype_size(dtype) == 0)
		return status_set(WEIR_EINVAL,
		    "weir_tensor_fill: tensor or value is NULL, or there is no "
		    "dtype %d",
		    (int)dtype);
	tensor_view(tensor, &to);
	if (tensor->storage->read_only)
		return status_set(
		    WEIR_EINVAL, "weir_tensor_fill: the tensor is read-only");
	if (tensor->elements > 0 && view_repeats(&to))
		return status_set(WEIR_EINVAL,
		    "weir_tensor_fill: elements of the tensor overlap: a "
		    "stride is 0");
	if (tensor->elements == 0)
		return WEIR_OK;
	element_convert(
	    element_type(tensor->dtype), element, element_type(dtype), value);
	/* The element is converted; from here on its bits are moved. */
	if (to.dtype == WEIR_BOOL)
		to.dtype = WEIR_UINT8;
	once = to;
	once.data = element;
	memset(once.strides, 0, sizeof(once.strides));
	plan_make(&plan, &to, &once);
	if (on_host(tensor)) {
		plan_run_host(&plan);
		return WEIR_OK;
	}
	return fill_on_stream(tensor, &plan, element, stream);
}
