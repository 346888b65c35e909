/*
 * Plans describe a copy in as few dimensions as possible; and copies made by
 * the host.
 */
#include <stdlib.h>
#include <string.h>

#include "tensor/tensor.h"

enum { UNIT_MAX = 16 };

/* ---- Making ------------------------------------------------------------- */

static int64_t
distance(int64_t stride)
{
	return stride < 0 ? -stride : stride;
}

/* Is dimension a outside of b, that is, has it larger strides in the
 * destination? */
static bool
dim_is_outside(const struct plan *plan, int a, int b)
{
	int64_t to =
	    distance(plan->to_strides[a]) - distance(plan->to_strides[b]);

	if (to != 0)
		return to > 0;
	return distance(plan->from_strides[a]) >
	    distance(plan->from_strides[b]);
}

static void
swap_dims(struct plan *plan, int a, int b)
{
	int64_t extent = plan->extents[a];
	int64_t to = plan->to_strides[a], from = plan->from_strides[a];

	plan->extents[a] = plan->extents[b];
	plan->to_strides[a] = plan->to_strides[b];
	plan->from_strides[a] = plan->from_strides[b];
	plan->extents[b] = extent;
	plan->to_strides[b] = to;
	plan->from_strides[b] = from;
}

static void
sort_dims(struct plan *plan)
{
	for (int i = 1; i < plan->n; i++) {
		for (int j = i; j > 0 && !dim_is_outside(plan, j - 1, j) &&
		     dim_is_outside(plan, j, j - 1);
		     j--)
			swap_dims(plan, j - 1, j);
	}
}

/* Merge two dimensions if a step in the outer one equals the whole inner one.
 */
static void
merge_dims(struct plan *plan)
{
	int kept = 0;

	for (int i = 1; i < plan->n; i++) {
		int64_t extent = plan->extents[i];

		if (plan->to_strides[kept] == plan->to_strides[i] * extent &&
		    plan->from_strides[kept] ==
			plan->from_strides[i] * extent) {
			plan->extents[kept] *= extent;
		} else {
			kept++;
			plan->extents[kept] = extent;
		}
		plan->to_strides[kept] = plan->to_strides[i];
		plan->from_strides[kept] = plan->from_strides[i];
	}
	if (plan->n > 0)
		plan->n = kept + 1;
}

/* Reverse the dimensions in which the destination's stride is negative. */
static void
turn_dims(struct plan *plan)
{
	for (int i = 0; i < plan->n; i++) {
		int64_t last = plan->extents[i] - 1;

		if (plan->to_strides[i] >= 0)
			continue;
		plan->to += last * plan->to_strides[i];
		plan->from += last * plan->from_strides[i];
		plan->to_strides[i] = -plan->to_strides[i];
		plan->from_strides[i] = -plan->from_strides[i];
	}
}

static bool
can_widen(const struct plan *plan, unsigned unit)
{
	int last = plan->n - 1;
	int64_t bits = (int64_t)(uintptr_t)plan->to |
	    (int64_t)(uintptr_t)plan->from |
	    (plan->extents[last] * (int64_t)plan->unit);

	for (int i = 0; i < last; i++)
		bits |= plan->to_strides[i] | plan->from_strides[i];
	return bits % unit == 0;
}

/* Bits that are moved without conversion are moved in the largest units that
 * fit. */
static void
widen_unit(struct plan *plan)
{
	int last = plan->n - 1;
	unsigned unit = UNIT_MAX;

	if (plan->n == 0 || plan->to_strides[last] != (int64_t)plan->unit ||
	    plan->from_strides[last] != (int64_t)plan->unit)
		return;
	while (unit > plan->unit && !can_widen(plan, unit))
		unit /= 2;
	if (unit <= plan->unit)
		return;
	plan->extents[last] = plan->extents[last] * (int64_t)plan->unit / unit;
	plan->to_strides[last] = unit;
	plan->from_strides[last] = unit;
	plan->unit = unit;
}

void
plan_make(struct plan *plan, const struct view *to, const struct view *from)
{
	int64_t to_size = (int64_t)weir_dtype_size(to->dtype);
	int64_t from_size = (int64_t)weir_dtype_size(from->dtype);

	plan->to_dtype = to->dtype;
	plan->from_dtype = from->dtype;
	plan->unit =
	    dtype_moves_bits(to->dtype, from->dtype) ? (unsigned)to_size : 0;
	plan->to = to->data;
	plan->from = from->data;
	plan->n = 0;
	for (int i = 0; i < to->ndim; i++) {
		if (to->shape[i] == 1)
			continue;
		plan->extents[plan->n] = to->shape[i];
		plan->to_strides[plan->n] = to->strides[i] * to_size;
		plan->from_strides[plan->n] = from->strides[i] * from_size;
		plan->n++;
	}
	turn_dims(plan);
	sort_dims(plan);
	merge_dims(plan);
	if (plan->unit > 0)
		widen_unit(plan);
}

int64_t
plan_elements(const struct plan *plan)
{
	int64_t elements = 1;

	for (int i = 0; i < plan->n; i++)
		elements *= plan->extents[i];
	return elements;
}

size_t
plan_straight_bytes(const struct plan *plan)
{
	if (plan->unit == 0 || plan->n > 1)
		return 0;
	if (plan->n == 0)
		return plan->unit;
	if (plan->to_strides[0] != (int64_t)plan->unit ||
	    plan->from_strides[0] != (int64_t)plan->unit)
		return 0;
	return (size_t)plan->extents[0] * plan->unit;
}

/* ---- By the host -------------------------------------------------------- */

/* Without gaps, so that the compiler makes it a loop over vectors. */
static void
run_bools(char *to, const char *from, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		to[i] = from[i] != 0;
}

/* Copy along the innermost dimension. */
static void
run_row(const struct plan *plan, char *to, const char *from)
{
	struct element_type to_type = element_type(plan->to_dtype);
	struct element_type from_type = element_type(plan->from_dtype);
	int last = plan->n - 1;
	int64_t extent = plan->n == 0 ? 1 : plan->extents[last];
	int64_t to_stride = plan->n == 0 ? 0 : plan->to_strides[last];
	int64_t from_stride = plan->n == 0 ? 0 : plan->from_strides[last];

	if (plan->unit > 0 && to_stride == (int64_t)plan->unit &&
	    from_stride == (int64_t)plan->unit) {
		memcpy(to, from, (size_t)extent * plan->unit);
		return;
	}
	if (plan->to_dtype == WEIR_BOOL && plan->from_dtype == WEIR_BOOL &&
	    to_stride == 1 && from_stride == 1) {
		run_bools(to, from, extent);
		return;
	}
	for (int64_t i = 0; i < extent; i++) {
		if (plan->unit > 0)
			memcpy(to, from, plan->unit);
		else
			element_convert(to_type, to, from_type, from);
		to += to_stride;
		from += from_stride;
	}
}

static void
plan_run_dims(const struct plan *plan, int dim, char *to, const char *from)
{
	if (dim >= plan->n - 1) {
		run_row(plan, to, from);
		return;
	}
	for (int64_t i = 0; i < plan->extents[dim]; i++) {
		plan_run_dims(plan, dim + 1, to + i * plan->to_strides[dim],
		    from + i * plan->from_strides[dim]);
	}
}

void
plan_run_host(const struct plan *plan)
{
	plan_run_dims(plan, 0, plan->to, plan->from);
}
