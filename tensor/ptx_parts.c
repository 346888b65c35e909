/*
 * Parameters, indices and dimensions, which all kinds of kernels read alike.
 */
#include "tensor/ptx_parts.h"

int
ptx_parameter(struct ptx_writer *w, int i)
{
	int l = ptx_fresh(w);

	ptx_put(w, "\tld.param.u64 %%l%d, [p%d];\n", l, i);
	return l;
}

int
ptx_address_parameter(struct ptx_writer *w, int i)
{
	int l = ptx_parameter(w, i);

	ptx_put(w, "\tcvta.to.global.u64 %%l%d, %%l%d;\n", l, l);
	return l;
}

/* For parameters below 2^32. */
int
ptx_short_parameter(struct ptx_writer *w, int i)
{
	int l = ptx_parameter(w, i), r = ptx_fresh(w);

	ptx_put(w, "\tcvt.u32.u64 %%r%d, %%l%d;\n", r, l);
	return r;
}

/* Add index * stride to an address; the index is a %r register. */
int
ptx_advance(struct ptx_writer *w, int address, int index, int stride)
{
	int wide = ptx_fresh(w), out = ptx_fresh(w);

	ptx_put(w, "\tcvt.u64.u32 %%l%d, %%r%d;\n", wide, index);
	ptx_put(w, "\tmad.lo.s64 %%l%d, %%l%d, %%l%d, %%l%d;\n", out, wide,
	    stride, address);
	return out;
}

void
ptx_read_dims(struct ptx_writer *w, const struct ptx_kernel *kernel,
    struct ptx_dims *dims)
{
	for (int d = 0; d < kernel->dims; d++) {
		dims->extent[d] = ptx_short_parameter(w, KERNEL_EXTENTS + d);
		dims->to_stride[d] = ptx_parameter(w, KERNEL_TO_STRIDES + d);
		if (kernel->kind != PTX_FILL)
			dims->from_stride[d] =
			    ptx_parameter(w, KERNEL_FROM_STRIDES + d);
	}
}

/* Take dimensions first to last, the last one first, out of `rest`, and move
 * both addresses by them. The remainder is the index in the dimension before.
 */
int
ptx_take_dims(struct ptx_writer *w, const struct ptx_dims *dims, int last,
    int rest, int addresses[2])
{
	for (int d = last; d >= 0; d--) {
		int quotient = ptx_fresh(w), index = ptx_fresh(w),
		    product = ptx_fresh(w);

		if (d == 0) {
			index = rest;
		} else {
			ptx_put(w, "\tdiv.u32 %%r%d, %%r%d, %%r%d;\n", quotient,
			    rest, dims->extent[d]);
			ptx_put(w, "\tmul.lo.u32 %%r%d, %%r%d, %%r%d;\n",
			    product, quotient, dims->extent[d]);
			ptx_put(w, "\tsub.u32 %%r%d, %%r%d, %%r%d;\n", index,
			    rest, product);
			rest = quotient;
		}
		addresses[0] =
		    ptx_advance(w, addresses[0], index, dims->to_stride[d]);
		if (addresses[1] >= 0)
			addresses[1] = ptx_advance(
			    w, addresses[1], index, dims->from_stride[d]);
	}
	return rest;
}
