/*
 * Kernels in PTX; tensor/ptx.h describes their parameters.
 */
#include "tensor/ptx_parts.h"

/* ---- All kernels -------------------------------------------------------- */

static void
begin_kernel(struct ptx_writer *w, const char *name)
{
	ptx_put(w, ".version 6.3\n.target sm_75\n.address_size 64\n");
	ptx_put(w, ".visible .entry %s(", name);
	for (int i = 0; i < KERNEL_PARAMS; i++)
		ptx_put(w, "%s.param .u64 p%d", i == 0 ? "" : ", ", i);
	ptx_put(w, ")\n.maxntid %d, 1, 1\n{\n", PTX_THREADS);
	ptx_put(w, "\t.reg .pred %%p<%d>;\n\t.reg .b16 %%h<%d>;\n",
	    PTX_REGISTERS, PTX_REGISTERS);
	ptx_put(w, "\t.reg .b32 %%r<%d>;\n\t.reg .b64 %%l<%d>;\n",
	    PTX_REGISTERS, PTX_REGISTERS);
	ptx_put(w, "\t.reg .f32 %%f<%d>;\n\t.reg .f64 %%d<%d>;\n",
	    PTX_REGISTERS, PTX_REGISTERS);
}

static void
end_kernel(struct ptx_writer *w)
{
	ptx_put(w, "\tret;\n}\n");
}

/* ---- Dense, some elements at a time ------------------------------------- */

/* Copy the elements that do not fill a group, one for each thread, after all
 * others. */
static void
write_tail(struct ptx_writer *w, const struct ptx_kernel *kernel, int n, int to,
    int from)
{
	unsigned to_bytes = (unsigned)weir_dtype_size(kernel->to_dtype);
	unsigned from_bytes = (unsigned)weir_dtype_size(kernel->from_dtype);
	int groups = ptx_fresh(w), i = ptx_fresh(w), index = ptx_fresh(w),
	    p = ptx_fresh(w);
	int to_at = ptx_fresh(w), from_at = ptx_fresh(w);
	struct ptx_raw raw;

	ptx_put(w, "\tand.b64 %%l%d, %%l%d, -%u;\n", groups, n,
	    ptx_flat_vector(to_bytes));
	ptx_put(w, "\tmov.u32 %%r%d, %%tid.x;\n", i);
	ptx_put(w, "\tcvt.u64.u32 %%l%d, %%r%d;\n", index, i);
	ptx_put(w, "\tadd.u64 %%l%d, %%l%d, %%l%d;\n", index, index, groups);
	ptx_put(w, "\tmov.u32 %%r%d, %%ctaid.x;\n", i);
	ptx_put(w, "\tsetp.eq.u32 %%p%d, %%r%d, 0;\n", p, i);
	ptx_put(w, "\tsetp.lt.and.u64 %%p%d, %%l%d, %%l%d, %%p%d;\n", p, index,
	    n, p);
	ptx_put(w, "\tmad.lo.u64 %%l%d, %%l%d, %u, %%l%d;\n", to_at, index,
	    to_bytes, to);
	ptx_put(w, "\tmad.lo.u64 %%l%d, %%l%d, %u, %%l%d;\n", from_at, index,
	    from_bytes, from);
	raw = ptx_load(w, ptx_form_of(kernel, false), p, from_at);
	ptx_store(w, ptx_form_of(kernel, true), p, to_at,
	    ptx_convert(w, kernel, raw));
}

/* This thread's first group, as an %l register. */
static int
first_group(struct ptx_writer *w)
{
	int block = ptx_fresh(w), thread = ptx_fresh(w), wide = ptx_fresh(w);
	int out = ptx_fresh(w);

	ptx_put(w, "\tmov.u32 %%r%d, %%ctaid.x;\n", block);
	ptx_put(w, "\tmov.u32 %%r%d, %%tid.x;\n", thread);
	ptx_put(w, "\tmul.wide.u32 %%l%d, %%r%d, %d;\n", out, block,
	    PTX_THREADS * PTX_FLAT_UNROLL);
	ptx_put(w, "\tcvt.u64.u32 %%l%d, %%r%d;\n", wide, thread);
	ptx_put(w, "\tadd.u64 %%l%d, %%l%d, %%l%d;\n", out, out, wide);
	return out;
}

/* The groups of elements of a thread, and their addresses. */
struct flat {
	unsigned vector;
	int first, groups; /* %l registers */
	struct ptx_group group[PTX_FLAT_UNROLL];
	int to_at[PTX_FLAT_UNROLL], p[PTX_FLAT_UNROLL];
};

static void
flat_read(struct ptx_writer *w, const struct ptx_kernel *kernel, int u, int to,
    int from, struct flat *flat)
{
	unsigned to_bytes = (unsigned)weir_dtype_size(kernel->to_dtype);
	unsigned from_bytes = (unsigned)weir_dtype_size(kernel->from_dtype);
	int at = ptx_fresh(w), from_at = ptx_fresh(w);

	flat->p[u] = ptx_fresh(w);
	flat->to_at[u] = ptx_fresh(w);
	ptx_put(w, "\tadd.u64 %%l%d, %%l%d, %d;\n", at, flat->first,
	    u * PTX_THREADS);
	ptx_put(w, "\tmad.lo.u64 %%l%d, %%l%d, %u, %%l%d;\n", flat->to_at[u],
	    at, to_bytes * flat->vector, to);
	ptx_put(w, "\tmad.lo.u64 %%l%d, %%l%d, %u, %%l%d;\n", from_at, at,
	    from_bytes * flat->vector, from);
	ptx_put(w, "\tsetp.lt.u64 %%p%d, %%l%d, %%l%d;\n", flat->p[u], at,
	    flat->groups);
	flat->group[u].n = (int)flat->vector;
	for (unsigned i = 0; i < flat->vector; i++)
		flat->group[u].raw[i] =
		    (struct ptx_raw){ { ptx_fresh(w), -1 } };
	ptx_access_group(w, ptx_form_of(kernel, false), true, flat->p[u],
	    from_at, &flat->group[u]);
}

/* All loads come before all stores, so that many loads overlap. */
static void
write_flat(struct ptx_writer *w, const struct ptx_kernel *kernel)
{
	unsigned to_bytes = (unsigned)weir_dtype_size(kernel->to_dtype);
	int to = ptx_address_parameter(w, KERNEL_TO);
	int from = ptx_address_parameter(w, KERNEL_FROM);
	int n = ptx_parameter(w, KERNEL_ELEMENTS);
	struct flat flat = { .vector = ptx_flat_vector(to_bytes),
		.groups = ptx_fresh(w),
		.first = first_group(w) };

	ptx_put(w, "\tshr.u64 %%l%d, %%l%d, %d;\n", flat.groups, n,
	    flat.vector == 4 ? 2 : 1);
	for (int u = 0; u < PTX_FLAT_UNROLL; u++)
		flat_read(w, kernel, u, to, from, &flat);
	for (int u = 0; u < PTX_FLAT_UNROLL; u++) {
		for (unsigned i = 0; i < flat.vector; i++)
			flat.group[u].raw[i] =
			    ptx_convert(w, kernel, flat.group[u].raw[i]);
		ptx_access_group(w, ptx_form_of(kernel, true), false, flat.p[u],
		    flat.to_at[u], &flat.group[u]);
	}
	write_tail(w, kernel, n, to, from);
}

/* ---- Any strides -------------------------------------------------------- */

/* This thread's u-th element, and whether there is one. */
static int
element_index(struct ptx_writer *w, int u, int n, int p)
{
	int block = ptx_fresh(w), thread = ptx_fresh(w), out = ptx_fresh(w);

	ptx_put(w, "\tmov.u32 %%r%d, %%ctaid.x;\n", block);
	ptx_put(w, "\tmov.u32 %%r%d, %%tid.x;\n", thread);
	ptx_put(w, "\tmad.lo.u32 %%r%d, %%r%d, %d, %%r%d;\n", out, block,
	    PTX_THREADS * PTX_DIMS_UNROLL, thread);
	ptx_put(w, "\tadd.u32 %%r%d, %%r%d, %d;\n", out, out, u * PTX_THREADS);
	ptx_put(w, "\tsetp.lt.u32 %%p%d, %%r%d, %%r%d;\n", p, out, n);
	return out;
}

/* The value of a fill, read from the parameters. */
static struct ptx_raw
fill_value(struct ptx_writer *w, const struct ptx_kernel *kernel)
{
	struct ptx_raw raw = { { ptx_parameter(w, KERNEL_FROM), -1 } };
	int narrow;

	if (kernel->unit == 16)
		raw.reg[1] = ptx_parameter(w, KERNEL_FROM_STRIDES);
	if (kernel->unit >= 8)
		return raw;
	narrow = ptx_fresh(w);
	ptx_put(w, "\tcvt.u32.u64 %%r%d, %%l%d;\n", narrow, raw.reg[0]);
	raw.reg[0] = narrow;
	return raw;
}

static void
write_dims(struct ptx_writer *w, const struct ptx_kernel *kernel)
{
	bool fill = kernel->kind == PTX_FILL;
	struct ptx_raw raw[PTX_DIMS_UNROLL];
	int to_at[PTX_DIMS_UNROLL], p[PTX_DIMS_UNROLL];
	int to = ptx_address_parameter(w, KERNEL_TO);
	int from = fill ? -1 : ptx_address_parameter(w, KERNEL_FROM);
	int n = ptx_short_parameter(w, KERNEL_ELEMENTS);
	struct ptx_raw value = { { -1, -1 } };
	struct ptx_dims dims = { 0 };

	if (fill)
		value = fill_value(w, kernel);
	ptx_read_dims(w, kernel, &dims);
	for (int u = 0; u < PTX_DIMS_UNROLL; u++) {
		int addresses[2] = { to, from };
		int index;

		p[u] = ptx_fresh(w);
		index = element_index(w, u, n, p[u]);
		ptx_take_dims(w, &dims, kernel->dims - 1, index, addresses);
		to_at[u] = addresses[0];
		raw[u] = value;
		if (!fill)
			raw[u] = ptx_load(
			    w, ptx_form_of(kernel, false), p[u], addresses[1]);
	}
	for (int u = 0; u < PTX_DIMS_UNROLL; u++) {
		if (!fill)
			raw[u] = ptx_convert(w, kernel, raw[u]);
		ptx_store(w, ptx_form_of(kernel, true), p[u], to_at[u], raw[u]);
	}
}

bool
ptx_write(const struct ptx_kernel *kernel, char *text, size_t size)
{
	struct ptx_writer w = { .text = text, .size = size };

	begin_kernel(
	    &w, kernel->kind == PTX_FILL ? KERNEL_FILL_NAME : KERNEL_COPY_NAME);
	switch (kernel->kind) {
	case PTX_FLAT:
		write_flat(&w, kernel);
		break;
	case PTX_TILE:
		ptx_write_tile(&w, kernel);
		break;
	case PTX_PACK:
		ptx_write_pack(&w, kernel);
		break;
	default:
		write_dims(&w, kernel);
	}
	end_kernel(&w);
	return !w.full;
}
