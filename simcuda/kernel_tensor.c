/*
 * The kernels of tensors' copies and fills in C, element by element. They use
 * the same table from which the PTX text is made.
 */
#include <string.h>

#include "simcuda/sim.h"
#include "tensor/element.h"
#include "tensor/kernel_abi.h"

static unsigned
code_of(const uint64_t *params, int shift)
{
	return (unsigned)(params[KERNEL_CODE] >> shift & 0xff);
}

/* The bytes of an element of either side. */
static size_t
side_bytes(const uint64_t *params, int shift)
{
	unsigned unit = code_of(params, KERNEL_CODE_UNIT);

	return unit > 0 ? unit : element_bytes(code_of(params, shift));
}

/* The access from the lowest byte to the highest. */
static struct access
side_access(const uint64_t *params, uint64_t address, int strides, size_t bytes)
{
	struct access access = {
		.address = address, .size = bytes, .mode = ACCESS_READ
	};

	for (unsigned d = 0; d < code_of(params, KERNEL_CODE_DIMS); d++) {
		int64_t reach = (int64_t)(params[KERNEL_EXTENTS + d] - 1) *
		    (int64_t)params[strides + (int)d];

		if (reach < 0)
			access.address += (uint64_t)reach;
		access.size += (size_t)(reach < 0 ? -reach : reach);
	}
	return access;
}

static size_t
tensor_fill_accesses(const uint64_t *params, struct access *out)
{
	out[0] = side_access(params, params[KERNEL_TO], KERNEL_TO_STRIDES,
	    side_bytes(params, KERNEL_CODE_TO));
	out[0].mode = ACCESS_WRITE;
	return 1;
}

static size_t
tensor_copy_accesses(const uint64_t *params, struct access *out)
{
	out[0] = side_access(params, params[KERNEL_FROM], KERNEL_FROM_STRIDES,
	    side_bytes(params, KERNEL_CODE_FROM));
	return 1 + tensor_fill_accesses(params, out + 1);
}

static void
copy_element(const uint64_t *params, char *to, const char *from)
{
	unsigned unit = code_of(params, KERNEL_CODE_UNIT);

	if (unit > 0)
		memcpy(to, from, unit);
	else
		element_convert(element_type(code_of(params, KERNEL_CODE_TO)),
		    to, element_type(code_of(params, KERNEL_CODE_FROM)), from);
}

/* Process every element of dimension d and the following ones; for a fill,
 * `from` stays at its value. */
static void
tensor_run_dims(
    const uint64_t *params, unsigned d, char *to, const char *from, bool fill)
{
	unsigned dims = code_of(params, KERNEL_CODE_DIMS);

	if (d == dims) {
		copy_element(params, to, from);
		return;
	}
	for (uint64_t i = 0; i < params[KERNEL_EXTENTS + d]; i++) {
		tensor_run_dims(params, d + 1, to, from, fill);
		to += (int64_t)params[KERNEL_TO_STRIDES + d];
		if (!fill)
			from += (int64_t)params[KERNEL_FROM_STRIDES + d];
	}
}

static void
tensor_copy_run(const uint64_t *params)
{
	tensor_run_dims(params, 0, (char *)(uintptr_t)params[KERNEL_TO],
	    (const char *)(uintptr_t)params[KERNEL_FROM], false);
}

static void
tensor_fill_run(const uint64_t *params)
{
	uint64_t value[2] = { params[KERNEL_FROM],
		params[KERNEL_FROM_STRIDES] };

	tensor_run_dims(params, 0, (char *)(uintptr_t)params[KERNEL_TO],
	    (const char *)value, true);
}

#define EIGHTS 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8

const struct kernel tensor_kernels[] = {
	{ KERNEL_COPY_NAME, KERNEL_PARAMS, { EIGHTS, EIGHTS },
	    tensor_copy_accesses, tensor_copy_run, NULL },
	{ KERNEL_FILL_NAME, KERNEL_PARAMS, { EIGHTS, EIGHTS },
	    tensor_fill_accesses, tensor_fill_run, NULL },
};

_Static_assert((int)KERNEL_PARAMS <= (int)SIM_PARAMS, "too many parameters");
