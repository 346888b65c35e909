/*
 * Views: other shapes and strides of a storage.
 */
#include <string.h>

#include "base/status.h"
#include "tensor/tensor.h"

/* A layout with its lengths, which can be changed before the view is made. */
struct draft {
	struct weir_layout layout;
	int64_t shape[WEIR_DIMS_MAX + 1];
	int64_t strides[WEIR_DIMS_MAX + 1];
};

static enum weir_status
draft_begin(const char *caller, const struct weir_tensor *tensor,
    struct weir_tensor **out, struct draft *draft)
{
	size_t lengths;

	if (tensor == NULL || out == NULL)
		return status_set(
		    WEIR_EINVAL, "%s: tensor or out is NULL", caller);
	lengths = (size_t)tensor->ndim * sizeof(int64_t);
	draft->layout = tensor_layout(tensor);
	memcpy(draft->shape, tensor_shape(tensor), lengths);
	memcpy(draft->strides, tensor_strides(tensor), lengths);
	draft->layout.shape = draft->shape;
	draft->layout.strides = draft->strides;
	return WEIR_OK;
}

static enum weir_status
draft_end(const char *caller, const struct weir_tensor *tensor,
    const struct draft *draft, struct weir_tensor **out)
{
	return tensor_make(
	    caller, tensor->storage, &draft->layout, tensor->stream, out);
}

/* Move the first element to an index of a dimension with that stride. A tensor
 * without elements is not moved, because its strides may have any value. */
static void
draft_move(struct draft *draft, int64_t index, int64_t stride)
{
	uint64_t size = weir_dtype_size(draft->layout.dtype);

	for (int i = 0; i < draft->layout.ndim; i++) {
		if (draft->shape[i] == 0)
			return;
	}
	draft->layout.offset_bytes +=
	    (size_t)((uint64_t)index * (uint64_t)stride * size);
}

static void
draft_drop_dim(struct draft *draft, int dim)
{
	size_t after = (size_t)(draft->layout.ndim - dim - 1) * sizeof(int64_t);

	memmove(draft->shape + dim, draft->shape + dim + 1, after);
	memmove(draft->strides + dim, draft->strides + dim + 1, after);
	draft->layout.ndim--;
}

enum weir_status
weir_tensor_alias(const struct weir_tensor *tensor, weir_stream stream,
    struct weir_tensor **out)
{
	struct draft draft;
	enum weir_status status =
	    draft_begin("weir_tensor_alias", tensor, out, &draft);

	if (status != WEIR_OK)
		return status;
	return tensor_make(
	    "weir_tensor_alias", tensor->storage, &draft.layout, stream, out);
}

/* ---- Parts -------------------------------------------------------------- */

static int64_t
clamp(int64_t value, int64_t low, int64_t high)
{
	return value < low ? low : value > high ? high : value;
}

/* The first index and the number of indices of a slice of `length`. */
static void
slice_resolve(const struct weir_slice *slice, int64_t length, int64_t *start,
    int64_t *count)
{
	bool down = slice->step < 0;
	int64_t low = down ? -1 : 0, high = down ? length - 1 : length;
	int64_t first = slice->start, stop = slice->stop;
	/* The step without its sign; INT64_MIN has no positive counterpart. */
	uint64_t step =
	    down ? 0 - (uint64_t)slice->step : (uint64_t)slice->step;
	uint64_t span;

	if (first < 0)
		first = clamp(first, INT64_MIN + length, -1) + length;
	if (stop < 0 && !(down && stop == INT64_MIN))
		stop = clamp(stop, INT64_MIN + length, -1) + length;
	first = clamp(first, low, high);
	stop = clamp(stop, low, high);
	span = down ? (uint64_t)(first - stop) : (uint64_t)(stop - first);
	*start = first;
	*count = (down ? first > stop : stop > first) ?
	    (int64_t)((span - 1) / step + 1) :
	    0;
}

enum weir_status
weir_tensor_slice(const struct weir_tensor *tensor, int dim,
    const struct weir_slice *slice, struct weir_tensor **out)
{
	static const char caller[] = "weir_tensor_slice";
	struct draft draft;
	int64_t start, count;
	enum weir_status status = draft_begin(caller, tensor, out, &draft);

	if (status == WEIR_OK)
		status = dim_resolve(caller, dim, tensor->ndim, &dim);
	if (status != WEIR_OK)
		return status;
	if (slice == NULL || slice->step == 0)
		return status_set(WEIR_EINVAL, "%s: %s", caller,
		    slice == NULL ? "slice is NULL" : "step is 0");
	slice_resolve(slice, draft.shape[dim], &start, &count);
	draft.shape[dim] = count;
	draft_move(&draft, start, draft.strides[dim]);
	/* The stride cannot overflow if there are elements; otherwise any
	 * stride will do. */
	if (count > 1 &&
	    __builtin_mul_overflow(
		draft.strides[dim], slice->step, &draft.strides[dim]))
		draft.strides[dim] = 1;
	return draft_end(caller, tensor, &draft, out);
}

enum weir_status
weir_tensor_narrow(const struct weir_tensor *tensor, int dim, int64_t start,
    int64_t length, struct weir_tensor **out)
{
	static const char caller[] = "weir_tensor_narrow";
	struct draft draft;
	enum weir_status status = draft_begin(caller, tensor, out, &draft);

	if (status == WEIR_OK)
		status = dim_resolve(caller, dim, tensor->ndim, &dim);
	if (status != WEIR_OK)
		return status;
	if (start < 0 || length < 0 || start > draft.shape[dim] ||
	    length > draft.shape[dim] - start)
		return status_set(WEIR_EINVAL,
		    "%s: start %lld and length %lld do not lie within length "
		    "%lld of dimension %d",
		    caller, (long long)start, (long long)length,
		    (long long)draft.shape[dim], dim);
	draft.shape[dim] = length;
	draft_move(&draft, start, draft.strides[dim]);
	return draft_end(caller, tensor, &draft, out);
}

enum weir_status
weir_tensor_select(const struct weir_tensor *tensor, int dim, int64_t index,
    struct weir_tensor **out)
{
	static const char caller[] = "weir_tensor_select";
	struct draft draft;
	int64_t length;
	enum weir_status status = draft_begin(caller, tensor, out, &draft);

	if (status == WEIR_OK)
		status = dim_resolve(caller, dim, tensor->ndim, &dim);
	if (status != WEIR_OK)
		return status;
	length = draft.shape[dim];
	if (index < -length || index >= length)
		return status_set(WEIR_EINVAL,
		    "%s: there is no index %lld in length %lld of dimension %d",
		    caller, (long long)index, (long long)length, dim);
	if (index < 0)
		index += length;
	draft_move(&draft, index, draft.strides[dim]);
	draft_drop_dim(&draft, dim);
	return draft_end(caller, tensor, &draft, out);
}

/* ---- Orders ------------------------------------------------------------- */

enum weir_status
weir_tensor_permute(
    const struct weir_tensor *tensor, const int *dims, struct weir_tensor **out)
{
	static const char caller[] = "weir_tensor_permute";
	struct draft draft;
	bool seen[WEIR_DIMS_MAX] = { false };
	enum weir_status status = draft_begin(caller, tensor, out, &draft);

	if (status != WEIR_OK)
		return status;
	if (dims == NULL && tensor->ndim > 0)
		return status_set(WEIR_EINVAL, "%s: dims is NULL", caller);
	for (int i = 0; i < tensor->ndim; i++) {
		int dim;

		status = dim_resolve(caller, dims[i], tensor->ndim, &dim);
		if (status != WEIR_OK)
			return status;
		if (seen[dim])
			return status_set(WEIR_EINVAL,
			    "%s: dimension %d is there twice", caller, dim);
		seen[dim] = true;
		draft.shape[i] = tensor_shape(tensor)[dim];
		draft.strides[i] = tensor_strides(tensor)[dim];
	}
	return draft_end(caller, tensor, &draft, out);
}

enum weir_status
weir_tensor_transpose(
    const struct weir_tensor *tensor, int a, int b, struct weir_tensor **out)
{
	static const char caller[] = "weir_tensor_transpose";
	struct draft draft;
	enum weir_status status = draft_begin(caller, tensor, out, &draft);

	if (status == WEIR_OK)
		status = dim_resolve(caller, a, tensor->ndim, &a);
	if (status == WEIR_OK)
		status = dim_resolve(caller, b, tensor->ndim, &b);
	if (status != WEIR_OK)
		return status;
	draft.shape[a] = tensor_shape(tensor)[b];
	draft.strides[a] = tensor_strides(tensor)[b];
	draft.shape[b] = tensor_shape(tensor)[a];
	draft.strides[b] = tensor_strides(tensor)[a];
	return draft_end(caller, tensor, &draft, out);
}

/* ---- Other shapes ------------------------------------------------------- */

static enum weir_status
check_ndim(const char *caller, int ndim, const int64_t *shape)
{
	if (ndim < 0 || ndim > WEIR_DIMS_MAX || (ndim > 0 && shape == NULL))
		return status_set(WEIR_EINVAL,
		    "%s: ndim %d is not within 0 and %d, or shape is NULL",
		    caller, ndim, WEIR_DIMS_MAX);
	return WEIR_OK;
}

enum weir_status
weir_tensor_expand(const struct weir_tensor *tensor, int ndim,
    const int64_t *shape, struct weir_tensor **out)
{
	static const char caller[] = "weir_tensor_expand";
	struct draft draft;
	enum weir_status status = draft_begin(caller, tensor, out, &draft);

	if (status == WEIR_OK)
		status = check_ndim(caller, ndim, shape);
	if (status != WEIR_OK)
		return status;
	draft.layout.ndim = ndim;
	for (int i = 0; i < ndim; i++) {
		int from = i - (ndim - tensor->ndim);
		int64_t old = from < 0 ? 1 : tensor_shape(tensor)[from];
		bool kept = shape[i] == old || (shape[i] == -1 && from >= 0);

		if (ndim < tensor->ndim || (!kept && old != 1) || shape[i] < -1)
			return status_set(WEIR_EINVAL,
			    "%s: %d dimensions cannot become %d with length "
			    "%lld in dimension %d, which has length %lld",
			    caller, tensor->ndim, ndim, (long long)shape[i], i,
			    (long long)old);
		if (!kept && shape[i] == -1)
			return status_set(WEIR_EINVAL,
			    "%s: length -1 of dimension %d, which is new",
			    caller, i);
		draft.shape[i] = kept ? old : shape[i];
		draft.strides[i] =
		    kept && from >= 0 ? tensor_strides(tensor)[from] : 0;
	}
	if (ndim < tensor->ndim)
		return status_set(WEIR_EINVAL,
		    "%s: %d dimensions cannot become %d", caller, tensor->ndim,
		    ndim);
	return draft_end(caller, tensor, &draft, out);
}

/* Determine a length that is given as -1. */
static enum weir_status
infer_length(
    const char *caller, const struct weir_tensor *tensor, struct draft *draft)
{
	int64_t known = 1, elements;
	int unknown = -1;
	char text[160];

	for (int i = 0; i < draft->layout.ndim; i++) {
		if (draft->shape[i] == -1 && unknown >= 0)
			return status_set(WEIR_EINVAL,
			    "%s: lengths of dimensions %d and %d are both -1",
			    caller, unknown, i);
		if (draft->shape[i] == -1)
			unknown = i;
		else if (draft->shape[i] < 0)
			return status_set(WEIR_EINVAL,
			    "%s: length %lld of dimension %d is below 0",
			    caller, (long long)draft->shape[i], i);
		else if (__builtin_mul_overflow(known, draft->shape[i], &known))
			known = 0;
	}
	if (unknown >= 0 && known > 0 && tensor->elements % known == 0)
		draft->shape[unknown] = tensor->elements / known;
	if (shape_elements(draft->layout.ndim, draft->shape, &elements) &&
	    elements == tensor->elements && (unknown < 0 || known > 0))
		return WEIR_OK;
	return status_set(WEIR_EINVAL,
	    "%s: %lld elements cannot have the shape %s", caller,
	    (long long)tensor->elements,
	    shape_text(draft->layout.ndim, draft->shape, text, sizeof(text)));
}

/*
 * The strides by which a new shape contains the old elements in order. Each run
 * of old dimensions that could be merged is cut into new ones; false if a new
 * dimension would span a gap.
 */
static bool
reshape_strides(const struct weir_tensor *tensor, struct draft *draft)
{
	const int64_t *shape = tensor_shape(tensor);
	const int64_t *strides = tensor_strides(tensor);
	int at = draft->layout.ndim - 1;
	int64_t base = 1, run = 1, cut = 1;

	for (int i = tensor->ndim - 1, top = 1; i >= 0; i--) {
		if (top)
			base = strides[i];
		run *= shape[i];
		top = i == 0 ||
		    (shape[i - 1] != 1 && strides[i - 1] != run * base);
		if (!top)
			continue;
		while (at >= 0 &&
		    (cut < run || (cut == run && draft->shape[at] == 1))) {
			draft->strides[at] = cut * base;
			cut *= draft->shape[at];
			at--;
		}
		if (cut != run)
			return false;
		run = 1;
		cut = 1;
	}
	for (; at >= 0; at--)
		draft->strides[at] = 1;
	return true;
}

enum weir_status
weir_tensor_reshape(const struct weir_tensor *tensor, int ndim,
    const int64_t *shape, struct weir_tensor **out)
{
	static const char caller[] = "weir_tensor_reshape";
	struct draft draft;
	char text[160];
	enum weir_status status = draft_begin(caller, tensor, out, &draft);

	if (status == WEIR_OK)
		status = check_ndim(caller, ndim, shape);
	if (status != WEIR_OK)
		return status;
	draft.layout.ndim = ndim;
	if (ndim > 0)
		memcpy(draft.shape, shape, (size_t)ndim * sizeof(int64_t));
	status = infer_length(caller, tensor, &draft);
	if (status != WEIR_OK)
		return status;
	if (tensor->elements == 0)
		draft.layout.strides = NULL;
	else if (!reshape_strides(tensor, &draft))
		return status_set(WEIR_EINVAL,
		    "%s: no view has the shape %s; make it contiguous first",
		    caller, shape_text(ndim, draft.shape, text, sizeof(text)));
	return draft_end(caller, tensor, &draft, out);
}

enum weir_status
weir_tensor_as_strided(const struct weir_tensor *tensor,
    const struct weir_layout *layout, struct weir_tensor **out)
{
	if (tensor == NULL || layout == NULL || out == NULL)
		return status_set(WEIR_EINVAL,
		    "weir_tensor_as_strided: tensor, layout or out is NULL");
	return tensor_make("weir_tensor_as_strided", tensor->storage, layout,
	    tensor->stream, out);
}

enum weir_status
weir_tensor_squeeze(
    const struct weir_tensor *tensor, int dim, struct weir_tensor **out)
{
	static const char caller[] = "weir_tensor_squeeze";
	struct draft draft;
	enum weir_status status = draft_begin(caller, tensor, out, &draft);

	if (status == WEIR_OK)
		status = dim_resolve(caller, dim, tensor->ndim, &dim);
	if (status != WEIR_OK)
		return status;
	if (draft.shape[dim] != 1)
		return status_set(WEIR_EINVAL,
		    "%s: length of dimension %d is %lld, not 1", caller, dim,
		    (long long)draft.shape[dim]);
	draft_drop_dim(&draft, dim);
	return draft_end(caller, tensor, &draft, out);
}

enum weir_status
weir_tensor_squeeze_all(
    const struct weir_tensor *tensor, struct weir_tensor **out)
{
	static const char caller[] = "weir_tensor_squeeze_all";
	struct draft draft;
	enum weir_status status = draft_begin(caller, tensor, out, &draft);

	if (status != WEIR_OK)
		return status;
	for (int i = tensor->ndim - 1; i >= 0; i--) {
		if (draft.shape[i] == 1)
			draft_drop_dim(&draft, i);
	}
	return draft_end(caller, tensor, &draft, out);
}

enum weir_status
weir_tensor_unsqueeze(
    const struct weir_tensor *tensor, int dim, struct weir_tensor **out)
{
	static const char caller[] = "weir_tensor_unsqueeze";
	struct draft draft;
	size_t after;
	enum weir_status status = draft_begin(caller, tensor, out, &draft);

	if (status == WEIR_OK)
		status = dim_resolve(caller, dim, tensor->ndim + 1, &dim);
	if (status != WEIR_OK)
		return status;
	if (tensor->ndim == WEIR_DIMS_MAX)
		return status_set(WEIR_EINVAL,
		    "%s: there are %d dimensions already", caller,
		    tensor->ndim);
	after = (size_t)(tensor->ndim - dim) * sizeof(int64_t);
	memmove(draft.shape + dim + 1, draft.shape + dim, after);
	memmove(draft.strides + dim + 1, draft.strides + dim, after);
	/* A dimension with one index may have any stride. */
	if (dim == tensor->ndim ||
	    __builtin_mul_overflow(draft.strides[dim + 1], draft.shape[dim + 1],
		&draft.strides[dim]))
		draft.strides[dim] = 1;
	draft.shape[dim] = 1;
	draft.layout.ndim++;
	return draft_end(caller, tensor, &draft, out);
}

/* ---- Another type ------------------------------------------------------- */

/* Convert from elements of `old` bytes to elements of `new` bytes, where one is
 * a multiple of the other: all strides but the last, in new elements, and the
 * last length. */
static bool
rescale(struct draft *draft, int64_t old, int64_t new)
{
	int last = draft->layout.ndim - 1;

	if (last < 0 || (draft->shape[last] > 1 && draft->strides[last] != 1))
		return false;
	for (int i = 0; i <= last; i++) {
		int64_t *at =
		    i < last ? &draft->strides[i] : &draft->shape[last];

		if (__builtin_mul_overflow(*at, old, at) || *at % new != 0)
			return false;
		*at /= new;
	}
	draft->strides[last] = 1;
	return true;
}

enum weir_status
weir_tensor_view_dtype(const struct weir_tensor *tensor, enum weir_dtype dtype,
    struct weir_tensor **out)
{
	static const char caller[] = "weir_tensor_view_dtype";
	struct draft draft;
	size_t old, new = weir_dtype_size(dtype);
	enum weir_status status = draft_begin(caller, tensor, out, &draft);

	if (status != WEIR_OK)
		return status;
	old = weir_dtype_size(tensor->dtype);
	if (new == 0)
		return status_set(WEIR_EINVAL, "%s: there is no dtype %d",
		    caller, (int)dtype);
	if (new != old && !rescale(&draft, (int64_t)old, (int64_t) new))
		return status_set(WEIR_EINVAL,
		    "%s: elements of %s cannot be seen as %s here: the last "
		    "dimension has gaps or its bytes do not fit",
		    caller, weir_dtype_name(tensor->dtype),
		    weir_dtype_name(dtype));
	draft.layout.dtype = dtype;
	return draft_end(caller, tensor, &draft, out);
}
