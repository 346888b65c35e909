/*
 * Runs plans on a device: chooses the kernel, and stores the kernels that have
 * been compiled.
 */
#include <string.h>

#include "base/meta.h"
#include "base/status.h"
#include "driver/driver.h"
#include "tensor/ptx.h"
#include "tensor/tensor.h"
#include "tensor/tuning.h"

enum {
	ELEMENTS_MAX = INT32_MAX,
};

/* ---- Compiled kernels --------------------------------------------------- */

/* A kernel in a context. Never freed, because there are some hundred at most.
 */
struct compiled {
	struct compiled *next; /* constant once it is in the table */
	uint64_t key;          /* identifies the kernel */
	uint64_t context_id;
	CUcontext context;
	CUfunction function;
};

static struct compiled *_Atomic table[KERNEL_BUCKETS];

static uint64_t
kernel_key_of(const struct ptx_kernel *kernel)
{
	return (uint64_t)kernel->kind | (uint64_t)kernel->to_dtype << 8 |
	    (uint64_t)kernel->from_dtype << 16 | (uint64_t)kernel->unit << 24 |
	    (uint64_t)kernel->dims << 32;
}

/* Distinguishes a context from an earlier one at its address; 0 if the driver
 * has no such number. */
static uint64_t
context_number(CUcontext context)
{
	unsigned long long id = 0;

	if (driver_peek()->cuCtxGetId == NULL ||
	    driver_peek()->cuCtxGetId(context, &id) != CUDA_SUCCESS)
		return 0;
	return id;
}

static struct compiled *
find_compiled(uint64_t key, CUcontext context, uint64_t context_id)
{
	struct compiled *at = atomic_load_explicit(
	    &table[key * 11 % KERNEL_BUCKETS], memory_order_acquire);

	for (; at != NULL; at = at->next) {
		if (at->key == key && at->context == context &&
		    at->context_id == context_id)
			return at;
	}
	return NULL;
}

static enum weir_status
load_kernel_module(const struct ptx_kernel *kernel, CUfunction *out)
{
	const struct driver *driver = driver_peek();
	char *text = meta_alloc(PTX_TEXT_MAX);
	CUmodule module;
	CUresult code;

	if (text == NULL)
		return status_set(
		    WEIR_EHOSTMEM, "no host memory for a kernel's text");
	if (!ptx_write(kernel, text, PTX_TEXT_MAX)) {
		meta_free(text, PTX_TEXT_MAX);
		return status_set(WEIR_ENOTSUP,
		    "a kernel's text is longer than %d bytes", PTX_TEXT_MAX);
	}
	code = driver->cuModuleLoadData(&module, text);
	meta_free(text, PTX_TEXT_MAX);
	if (code == CUDA_SUCCESS) {
		code = driver->cuModuleGetFunction(out, module,
		    kernel->kind == PTX_FILL ? KERNEL_FILL_NAME :
					       KERNEL_COPY_NAME);
		if (code != CUDA_SUCCESS)
			driver->cuModuleUnload(module);
	}
	return driver_status(code,
	    "cuModuleLoadData(copy of %s to %s, %d dimensions)",
	    weir_dtype_name(kernel->from_dtype),
	    weir_dtype_name(kernel->to_dtype), kernel->dims);
}

/* Two threads may compile a kernel at once; both results are stored. */
static enum weir_status
get_function(
    const struct ptx_kernel *kernel, CUcontext context, CUfunction *out)
{
	uint64_t key = kernel_key_of(kernel), id = context_number(context);
	struct compiled *compiled = find_compiled(key, context, id);
	enum weir_status status;

	if (compiled != NULL) {
		*out = compiled->function;
		return WEIR_OK;
	}
	compiled = meta_alloc(sizeof(*compiled));
	if (compiled == NULL)
		return status_set(WEIR_EHOSTMEM, "no host memory for a kernel");
	*compiled = (struct compiled){
		.key = key, .context_id = id, .context = context
	};
	status = load_kernel_module(kernel, &compiled->function);
	if (status != WEIR_OK) {
		meta_free(compiled, sizeof(*compiled));
		return status;
	}
	*out = compiled->function;
	struct compiled *_Atomic *bucket = &table[key * 11 % KERNEL_BUCKETS];
	struct compiled *first = atomic_load(bucket);
	do {
		compiled->next = first;
	} while (!atomic_compare_exchange_weak(bucket, &first, compiled));
	return WEIR_OK;
}

/* ---- Launching ---------------------------------------------------------- */

static uint64_t
blocks_of(
    const struct ptx_kernel *kernel, const struct plan *plan, uint64_t elements)
{
	uint64_t of_block = (uint64_t)PTX_THREADS * PTX_DIMS_UNROLL;
	uint64_t side, blocks;

	if (kernel->kind == PTX_FLAT)
		of_block = (uint64_t)PTX_THREADS * PTX_FLAT_UNROLL *
		    ptx_flat_vector(weir_dtype_size(kernel->to_dtype));
	if (kernel->kind != PTX_TILE && kernel->kind != PTX_PACK)
		return (elements + of_block - 1) / of_block;
	side = kernel->kind == PTX_PACK ?
	    ptx_pack_side(kernel->unit) :
	    ptx_tile_side(kernel->unit > 0 ? kernel->unit :
					     weir_dtype_size(kernel->to_dtype));
	blocks = 1;
	for (int d = 0; d < plan->n - 2; d++)
		blocks *= (uint64_t)plan->extents[d];
	for (int d = plan->n - 2; d < plan->n; d++)
		blocks *= ((uint64_t)plan->extents[d] + side - 1) / side;
	return blocks;
}

/* Fill in the parameters of tensor/kernel_abi.h. */
static void
set_params(const struct ptx_kernel *kernel, const struct plan *plan,
    const void *value, uint64_t params[KERNEL_PARAMS])
{
	memset(params, 0, KERNEL_PARAMS * sizeof(uint64_t));
	params[KERNEL_TO] = (uintptr_t)plan->to;
	params[KERNEL_FROM] = (uintptr_t)plan->from;
	params[KERNEL_ELEMENTS] = (uint64_t)plan_elements(plan);
	params[KERNEL_CODE] = (uint64_t)plan->to_dtype << KERNEL_CODE_TO |
	    (uint64_t)plan->from_dtype << KERNEL_CODE_FROM |
	    (uint64_t)kernel->dims << KERNEL_CODE_DIMS |
	    (uint64_t)kernel->unit << KERNEL_CODE_UNIT;
	for (int d = 0; d < KERNEL_DIMS; d++) {
		bool there = d < plan->n;

		params[KERNEL_EXTENTS + d] =
		    there ? (uint64_t)plan->extents[d] : 1;
		params[KERNEL_TO_STRIDES + d] =
		    there ? (uint64_t)plan->to_strides[d] : 0;
		params[KERNEL_FROM_STRIDES + d] =
		    there ? (uint64_t)plan->from_strides[d] : 0;
	}
	if (kernel->kind != PTX_FILL)
		return;
	memcpy(
	    &params[KERNEL_FROM], value, kernel->unit > 8 ? 8 : kernel->unit);
	if (kernel->unit == 16)
		memcpy(
		    &params[KERNEL_FROM_STRIDES], (const char *)value + 8, 8);
}

static enum weir_status
launch_function(const struct ptx_kernel *kernel, const struct plan *plan,
    const void *value, struct stream *stream)
{
	uint64_t params[KERNEL_PARAMS];
	void *pointers[KERNEL_PARAMS];
	CUfunction function = NULL;
	uint64_t blocks;
	enum weir_status status =
	    get_function(kernel, stream->context, &function);

	if (status != WEIR_OK)
		return status;
	set_params(kernel, plan, value, params);
	for (int i = 0; i < KERNEL_PARAMS; i++)
		pointers[i] = &params[i];
	blocks = blocks_of(kernel, plan, params[KERNEL_ELEMENTS]);
	if (blocks > INT32_MAX)
		return status_set(WEIR_ENOTSUP,
		    "a kernel of %llu blocks is too large",
		    (unsigned long long)blocks);
	return driver_status(
	    driver_peek()->cuLaunchKernel(function, (unsigned)blocks, 1, 1,
		PTX_THREADS, 1, 1, 0, stream->handle, pointers, NULL),
	    "cuLaunchKernel(%s, %llu elements, stream %p)",
	    kernel->kind == PTX_FILL ? KERNEL_FILL_NAME : KERNEL_COPY_NAME,
	    (unsigned long long)params[KERNEL_ELEMENTS],
	    (void *)stream->handle);
}

/* ---- Which kernel ------------------------------------------------------- */

static bool
is_flat(const struct plan *plan)
{
	int64_t to = (int64_t)weir_dtype_size(plan->to_dtype);
	int64_t from = (int64_t)weir_dtype_size(plan->from_dtype);
	size_t vector = ptx_flat_vector((size_t)to);

	if (to == 0 || from == 0)
		return false;
	return plan->n == 1 && plan->unit == 0 && plan->to_strides[0] == to &&
	    plan->from_strides[0] == from &&
	    (uintptr_t)plan->to % ((size_t)to * vector) == 0 &&
	    (uintptr_t)plan->from % ((size_t)from * vector) == 0 &&
	    !element_type(plan->to_dtype).complex &&
	    !element_type(plan->from_dtype).complex;
}

/* The dimension in which the source is dense, if a tile of it with the last
 * dimension is useful; else -1. */
static int
tile_dim(const struct plan *plan)
{
	int last = plan->n - 1;
	int64_t to = plan->unit > 0 ? plan->unit :
				      (int64_t)weir_dtype_size(plan->to_dtype);
	int64_t from = plan->unit > 0 ?
	    plan->unit :
	    (int64_t)weir_dtype_size(plan->from_dtype);

	if (plan->n < 2 || plan->to_strides[last] != to ||
	    plan->from_strides[last] == from ||
	    plan->extents[last] < KERNEL_TILE_LEAST)
		return -1;
	for (int d = last - 1; d >= 0; d--) {
		if (plan->from_strides[d] == from &&
		    plan->extents[d] >= KERNEL_TILE_LEAST)
			return d;
	}
	return -1;
}

/* Make dimension d the last but one; the others keep their order. */
static void
move_dim(struct plan *plan, int d)
{
	int64_t extent = plan->extents[d];
	int64_t to = plan->to_strides[d], from = plan->from_strides[d];

	for (; d < plan->n - 2; d++) {
		plan->extents[d] = plan->extents[d + 1];
		plan->to_strides[d] = plan->to_strides[d + 1];
		plan->from_strides[d] = plan->from_strides[d + 1];
	}
	plan->extents[d] = extent;
	plan->to_strides[d] = to;
	plan->from_strides[d] = from;
}

/* Does a tile of elements of one or two bytes consist of whole words, in both
 * directions? */
static bool
is_packed(const struct plan *plan)
{
	int a = plan->n - 1, b = plan->n - 2;
	int64_t bits =
	    (int64_t)(uintptr_t)plan->to | (int64_t)(uintptr_t)plan->from;

	if (plan->unit != 1 && plan->unit != 2)
		return false;
	bits |= plan->extents[a] * (int64_t)plan->unit |
	    plan->extents[b] * (int64_t)plan->unit;
	for (int d = 0; d < plan->n; d++)
		bits |= (d == a ? 0 : plan->to_strides[d]) |
		    (d == b ? 0 : plan->from_strides[d]);
	return bits % 4 == 0;
}

/* Elements that are not aligned to their size are copied by bytes. */
static void
narrow_unaligned(struct plan *plan)
{
	unsigned unit = plan->unit;
	int64_t bits =
	    (int64_t)(uintptr_t)plan->to | (int64_t)(uintptr_t)plan->from;

	for (int d = 0; d < plan->n; d++)
		bits |= plan->to_strides[d] | plan->from_strides[d];
	while (unit > 1 && bits % unit != 0)
		unit /= 2;
	if (unit == plan->unit)
		return;
	/* Add a dimension for the parts of an element. */
	plan->extents[plan->n] = plan->unit / unit;
	plan->to_strides[plan->n] = unit;
	plan->from_strides[plan->n] = unit;
	plan->n++;
	plan->unit = unit;
}

static bool
is_aligned(const char *data, const int64_t *strides, int n, size_t size)
{
	int64_t bits = (int64_t)(uintptr_t)data;

	for (int d = 0; d < n; d++)
		bits |= strides[d];
	return bits % (int64_t)size == 0;
}

/* Launch a plan with at most KERNEL_DIMS dimensions and ELEMENTS_MAX elements.
 */
static enum weir_status
launch_copy(const struct plan *whole, struct stream *stream)
{
	struct plan plan = *whole;
	struct ptx_kernel kernel = { .kind = PTX_DIMS, .unit = plan.unit };
	int dim;

	if (plan.unit == 0) {
		kernel.to_dtype = plan.to_dtype;
		kernel.from_dtype = plan.from_dtype;
	}
	if (plan.n == 0) {
		plan.n = 1;
		plan.extents[0] = 1;
		plan.to_strides[0] = 0;
		plan.from_strides[0] = 0;
	}
	dim = tile_dim(&plan);
	if (is_flat(&plan)) {
		kernel.kind = PTX_FLAT;
	} else if (dim >= 0) {
		move_dim(&plan, dim);
		kernel.kind = is_packed(&plan) ? PTX_PACK : PTX_TILE;
	}
	kernel.dims = plan.n;
	return launch_function(&kernel, &plan, NULL, stream);
}

/* ---- Plans -------------------------------------------------------------- */

/* The part of a plan with indices from `start` on in dimension d. */
static struct plan
plan_part(const struct plan *plan, int d, int64_t start, int64_t length)
{
	struct plan part = *plan;

	part.to += start * plan->to_strides[d];
	part.from += start * plan->from_strides[d];
	part.extents[d] = length;
	return part;
}

/* Remove the first dimension, whose extent is 1. */
static void
drop_first(struct plan *plan)
{
	for (int d = 1; d < plan->n; d++) {
		plan->extents[d - 1] = plan->extents[d];
		plan->to_strides[d - 1] = plan->to_strides[d];
		plan->from_strides[d - 1] = plan->from_strides[d];
	}
	plan->n--;
}

typedef enum weir_status (*launcher)(
    const struct plan *plan, const void *value, struct stream *stream);

/* Split a plan into parts that a kernel can do. */
static enum weir_status
in_parts(const struct plan *plan, const void *value, launcher one,
    struct stream *stream)
{
	enum weir_status status = WEIR_OK;
	struct plan part;
	int64_t half;

	if (plan->n > KERNEL_DIMS) {
		for (int64_t i = 0; i < plan->extents[0] && status == WEIR_OK;
		     i++) {
			part = plan_part(plan, 0, i, 1);
			drop_first(&part);
			status = in_parts(&part, value, one, stream);
		}
		return status;
	}
	if (plan_elements(plan) <= ELEMENTS_MAX || is_flat(plan))
		return one(plan, value, stream);
	if (plan->extents[0] == 1) {
		part = *plan;
		drop_first(&part);
		return in_parts(&part, value, one, stream);
	}
	half = plan->extents[0] / 2;
	part = plan_part(plan, 0, 0, half);
	status = in_parts(&part, value, one, stream);
	if (status != WEIR_OK)
		return status;
	part = plan_part(plan, 0, half, plan->extents[0] - half);
	return in_parts(&part, value, one, stream);
}

static enum weir_status
one_copy(const struct plan *plan, const void *value, struct stream *stream)
{
	(void)value;
	return launch_copy(plan, stream);
}

static enum weir_status
one_fill(const struct plan *plan, const void *value, struct stream *stream)
{
	struct plan whole = *plan;
	struct ptx_kernel kernel = { .kind = PTX_FILL, .unit = plan->unit };

	if (whole.n == 0) {
		whole.n = 1;
		whole.extents[0] = 1;
		whole.to_strides[0] = 0;
	}
	kernel.dims = whole.n;
	return launch_function(&kernel, &whole, value, stream);
}

enum weir_status
plan_launch(const struct plan *plan, struct stream *stream)
{
	struct plan whole = *plan;

	if (whole.unit > 0) {
		narrow_unaligned(&whole);
	} else if (!is_aligned(whole.to, whole.to_strides, whole.n,
		       element_type(whole.to_dtype).bytes *
			   (element_type(whole.to_dtype).complex ? 2u : 1u)) ||
	    !is_aligned(whole.from, whole.from_strides, whole.n,
		element_bytes(whole.from_dtype))) {
		return status_set(WEIR_ENOTSUP,
		    "elements of %s at %p or of %s at %p are not at a multiple "
		    "of their size; a device converts only those that are",
		    weir_dtype_name(whole.to_dtype), (void *)whole.to,
		    weir_dtype_name(whole.from_dtype),
		    (const void *)whole.from);
	}
	return in_parts(&whole, NULL, one_copy, stream);
}

enum weir_status
plan_launch_fill(
    const struct plan *plan, const void *value, struct stream *stream)
{
	struct plan whole = *plan;
	char wide[16];
	unsigned unit = whole.unit;
	int last = whole.n - 1;

	if (!is_aligned(whole.to, whole.to_strides, whole.n, unit))
		return status_set(WEIR_ENOTSUP,
		    "elements of %s at %p are not at a multiple of their size",
		    weir_dtype_name(whole.to_dtype), (void *)whole.to);
	for (unsigned i = 0; i < sizeof(wide); i += unit)
		memcpy(wide + i, value, unit);
	/* If rows are dense, use units as wide as the rows allow. */
	while (last >= 0 && whole.to_strides[last] == (int64_t)unit &&
	    unit < sizeof(wide) && whole.extents[last] % 2 == 0 &&
	    is_aligned(whole.to, whole.to_strides, last, 2 * (size_t)unit)) {
		unit *= 2;
		whole.extents[last] /= 2;
		whole.to_strides[last] = unit;
	}
	whole.unit = unit;
	return in_parts(&whole, wide, one_fill, stream);
}
