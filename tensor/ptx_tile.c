/*
 * The kernels that use shared memory.
 */
#include "tensor/ptx_parts.h"

/*
 * A tile is read along b, the source's dense dimension, and written along a,
 * the destination's, through shared memory. Each of its rows there belongs to
 * one index of a; rows are padded by a word or an element, so that the elements
 * of a column are in different banks.
 */
struct tile {
	int side;
	int pitch; /* bytes between rows */
	int bytes; /* of an element */
	struct ptx_form form;
	int a, b;   /* the dimensions' numbers */
	int x, y;   /* %r: the thread's column and row, of 32 and 8 */
	int a0, b0; /* %r: where the tile begins */
	int to, from;
	struct ptx_dims dims;
};

/* index = base + local + add */
static int
tile_index(struct ptx_writer *w, int base, int local, int add)
{
	int out = ptx_fresh(w);

	ptx_put(w, "\tadd.u32 %%r%d, %%r%d, %%r%d;\n", out, base, local);
	ptx_put(w, "\tadd.u32 %%r%d, %%r%d, %d;\n", out, out, add);
	return out;
}

/* Are both indices within their dimensions? */
static int
tile_within(struct ptx_writer *w, const struct tile *t, int a, int b)
{
	int p = ptx_fresh(w);

	ptx_put(w, "\tsetp.lt.u32 %%p%d, %%r%d, %%r%d;\n", p, a,
	    t->dims.extent[t->a]);
	ptx_put(w, "\tsetp.lt.and.u32 %%p%d, %%r%d, %%r%d, %%p%d;\n", p, b,
	    t->dims.extent[t->b], p);
	return p;
}

/* The address in shared memory of row `row` + i and column `column` + j. */
static int
tile_address(struct ptx_writer *w, const struct tile *t, const int at[2],
    const int add[2])
{
	int out = ptx_fresh(w), base = ptx_fresh(w);

	ptx_put(w, "\tmov.u32 %%r%d, tile;\n", base);
	ptx_put(w, "\tmad.lo.u32 %%r%d, %%r%d, %d, %%r%d;\n", out, at[0],
	    t->pitch, base);
	ptx_put(w, "\tmad.lo.u32 %%r%d, %%r%d, %d, %%r%d;\n", out, at[1],
	    t->bytes, out);
	ptx_put(w, "\tadd.u32 %%r%d, %%r%d, %d;\n", out, out,
	    add[0] * t->pitch + add[1] * t->bytes);
	return out;
}

static void
tile_shared(struct ptx_writer *w, const struct tile *t, bool is_load,
    int address, struct ptx_raw raw)
{
	ptx_put(w, "\t%s.shared%s.%s ", is_load ? "ld" : "st",
	    t->form.parts == 2 ? ".v2" : "", t->form.type);
	if (!is_load)
		ptx_put(w, "[%%r%d], ", address);
	if (t->form.parts == 2)
		ptx_put(w, "{%%%c%d, %%%c%d}", t->form.letter, raw.reg[0],
		    t->form.letter, raw.reg[1]);
	else
		ptx_put(w, "%%%c%d", t->form.letter, raw.reg[0]);
	if (is_load)
		ptx_put(w, ", [%%r%d]", address);
	ptx_put(w, ";\n");
}

static void
tile_read(struct ptx_writer *w, const struct ptx_kernel *kernel, struct tile *t)
{
	struct ptx_raw raw[16];
	int n = 0;

	for (int i = 0; i < t->side; i += 8) {
		for (int j = 0; j < t->side; j += 32) {
			int a = tile_index(w, t->a0, t->y, i);
			int b = tile_index(w, t->b0, t->x, j);
			int p = tile_within(w, t, a, b);
			int at = ptx_advance(
			    w, t->from, a, t->dims.from_stride[t->a]);

			at = ptx_advance(w, at, b, t->dims.from_stride[t->b]);
			raw[n++] =
			    ptx_load(w, ptx_form_of(kernel, false), p, at);
		}
	}
	n = 0;
	for (int i = 0; i < t->side; i += 8) {
		for (int j = 0; j < t->side; j += 32)
			tile_shared(w, t, false,
			    tile_address(
				w, t, (int[]){ t->y, t->x }, (int[]){ i, j }),
			    ptx_convert(w, kernel, raw[n++]));
	}
}

static void
tile_write(
    struct ptx_writer *w, const struct ptx_kernel *kernel, struct tile *t)
{
	for (int i = 0; i < t->side; i += 8) {
		for (int j = 0; j < t->side; j += 32) {
			int b = tile_index(w, t->b0, t->y, i);
			int a = tile_index(w, t->a0, t->x, j);
			int p = tile_within(w, t, a, b);
			int at =
			    ptx_advance(w, t->to, a, t->dims.to_stride[t->a]);
			struct ptx_raw raw = { { ptx_fresh(w), -1 } };

			if (t->form.parts == 2)
				raw.reg[1] = ptx_fresh(w);
			at = ptx_advance(w, at, b, t->dims.to_stride[t->b]);
			tile_shared(w, t, true,
			    tile_address(
				w, t, (int[]){ t->x, t->y }, (int[]){ j, i }),
			    raw);
			ptx_store(w, ptx_form_of(kernel, true), p, at, raw);
		}
	}
}

/* count = (extent + side - 1) / side; *base = side * (rest mod count); then
 * divide rest by count. */
static int
take_tile(
    struct ptx_writer *w, const struct tile *t, int extent, int rest, int *base)
{
	int count = ptx_fresh(w), quotient = ptx_fresh(w),
	    product = ptx_fresh(w);

	*base = ptx_fresh(w);
	ptx_put(w, "\tadd.u32 %%r%d, %%r%d, %d;\n", count, extent, t->side - 1);
	ptx_put(w, "\tdiv.u32 %%r%d, %%r%d, %d;\n", count, count, t->side);
	ptx_put(w, "\tdiv.u32 %%r%d, %%r%d, %%r%d;\n", quotient, rest, count);
	ptx_put(
	    w, "\tmul.lo.u32 %%r%d, %%r%d, %%r%d;\n", product, quotient, count);
	ptx_put(w, "\tsub.u32 %%r%d, %%r%d, %%r%d;\n", *base, rest, product);
	ptx_put(w, "\tmul.lo.u32 %%r%d, %%r%d, %d;\n", *base, *base, t->side);
	return quotient;
}

/* Read the parameters, this thread's place in the block, and the block's tile.
 */
static void
tile_begin(
    struct ptx_writer *w, const struct ptx_kernel *kernel, struct tile *t)
{
	int addresses[2], rest = ptx_fresh(w), thread = ptx_fresh(w);

	t->a = kernel->dims - 1;
	t->b = kernel->dims - 2;
	ptx_put(w, "\t.shared .align 16 .b8 tile[%d];\n", t->side * t->pitch);
	t->to = ptx_address_parameter(w, KERNEL_TO);
	t->from = ptx_address_parameter(w, KERNEL_FROM);
	ptx_read_dims(w, kernel, &t->dims);
	ptx_put(w, "\tmov.u32 %%r%d, %%tid.x;\n", thread);
	t->x = ptx_fresh(w);
	t->y = ptx_fresh(w);
	ptx_put(w, "\tand.b32 %%r%d, %%r%d, 31;\n", t->x, thread);
	ptx_put(w, "\tshr.u32 %%r%d, %%r%d, 5;\n", t->y, thread);
	ptx_put(w, "\tmov.u32 %%r%d, %%ctaid.x;\n", rest);
	rest = take_tile(w, t, t->dims.extent[t->a], rest, &t->a0);
	rest = take_tile(w, t, t->dims.extent[t->b], rest, &t->b0);
	addresses[0] = t->to;
	addresses[1] = t->from;
	ptx_take_dims(w, &t->dims, kernel->dims - 3, rest, addresses);
	t->to = addresses[0];
	t->from = addresses[1];
}

void
ptx_write_tile(struct ptx_writer *w, const struct ptx_kernel *kernel)
{
	size_t bytes =
	    kernel->unit > 0 ? kernel->unit : weir_dtype_size(kernel->to_dtype);
	struct tile t = { .side = (int)ptx_tile_side(bytes),
		.bytes = (int)bytes,
		.form = ptx_form_of(kernel, true) };

	t.pitch = t.side * t.bytes + (t.bytes > 4 ? t.bytes : 4);
	tile_begin(w, kernel, &t);
	tile_read(w, kernel, &t);
	ptx_put(w, "\tbar.sync 0;\n");
	tile_write(w, kernel, &t);
}

/* ---- By words ------------------------------------------------------------ */

/*
 * A thread reads a word of as many rows as a word has elements, and transposes
 * that square in its registers, so that each word that it stores in shared
 * memory lies along a. Of a tile's 32 squares along b, word j of square x is in
 * row 32 j + x, with a pitch of 33 words, so that neither access uses a bank
 * twice.
 */
enum { PACK_MAX = 4, PACK_PITCH = 33 * 4 };

static const struct ptx_form word_form = { "b32", 'r', 1 };

static int
scale(struct ptx_writer *w, int index, int factor)
{
	int out = ptx_fresh(w);

	ptx_put(w, "\tmul.lo.u32 %%r%d, %%r%d, %d;\n", out, index, factor);
	return out;
}

/* Select four bytes of two words: 0 to 3 are those of the first, 4 to 7 those
 * of the second; the lowest digit selects the lowest byte. */
static int
pick(struct ptx_writer *w, int first, int second, unsigned selector)
{
	int out = ptx_fresh(w);

	ptx_put(w, "\tprmt.b32 %%r%d, %%r%d, %%r%d, 0x%x;\n", out, first,
	    second, selector);
	return out;
}

/* Transpose: out[j] consists of element j of each word. */
static void
turn(struct ptx_writer *w, int k, const int in[PACK_MAX], int out[PACK_MAX])
{
	int low[2], high[2];

	if (k == 2) {
		out[0] = pick(w, in[0], in[1], 0x5410);
		out[1] = pick(w, in[0], in[1], 0x7632);
		return;
	}
	for (int i = 0; i < 2; i++) {
		low[i] = pick(w, in[2 * i], in[2 * i + 1], 0x5140);
		high[i] = pick(w, in[2 * i], in[2 * i + 1], 0x7362);
	}
	out[0] = pick(w, low[0], low[1], 0x5410);
	out[1] = pick(w, low[0], low[1], 0x7632);
	out[2] = pick(w, high[0], high[1], 0x5410);
	out[3] = pick(w, high[0], high[1], 0x7632);
}

static void
pack_read(struct ptx_writer *w, const struct tile *t, int k)
{
	int word[4][PACK_MAX], turned[PACK_MAX];
	int row = scale(w, t->y, k), column = scale(w, t->x, k);

	for (int i = 0; i < 4; i++) {
		for (int j = 0; j < k; j++) {
			int a = tile_index(w, t->a0, row, 8 * i * k + j);
			int b = tile_index(w, t->b0, column, 0);
			int p = tile_within(w, t, a, b);
			int at = ptx_advance(
			    w, t->from, a, t->dims.from_stride[t->a]);

			at = ptx_advance(w, at, b, t->dims.from_stride[t->b]);
			word[i][j] = ptx_load(w, word_form, p, at).reg[0];
		}
	}
	for (int i = 0; i < 4; i++) {
		turn(w, k, word[i], turned);
		for (int j = 0; j < k; j++)
			tile_shared(w, t, false,
			    tile_address(w, t, (int[]){ t->x, t->y },
				(int[]){ 32 * j, 8 * i }),
			    (struct ptx_raw){ { turned[j], -1 } });
	}
}

static void
pack_write(struct ptx_writer *w, const struct tile *t, int k)
{
	int row = scale(w, t->y, k), column = scale(w, t->x, k);

	for (int i = 0; i < t->side / 8; i++) {
		int b = tile_index(w, t->b0, row, i % 4 * 8 * k + i / 4);
		int a = tile_index(w, t->a0, column, 0);
		int p = tile_within(w, t, a, b);
		int at = ptx_advance(w, t->to, a, t->dims.to_stride[t->a]);
		struct ptx_raw raw = { { ptx_fresh(w), -1 } };

		at = ptx_advance(w, at, b, t->dims.to_stride[t->b]);
		tile_shared(w, t, true,
		    tile_address(
			w, t, (int[]){ t->y, t->x }, (int[]){ 8 * i, 0 }),
		    raw);
		ptx_store(w, word_form, p, at, raw);
	}
}

void
ptx_write_pack(struct ptx_writer *w, const struct ptx_kernel *kernel)
{
	int k = (int)ptx_pack_elements(kernel->unit);
	struct tile t = { .side = (int)ptx_pack_side(kernel->unit),
		.pitch = PACK_PITCH,
		.bytes = 4,
		.form = word_form };

	tile_begin(w, kernel, &t);
	pack_read(w, &t, k);
	ptx_put(w, "\tbar.sync 0;\n");
	pack_write(w, &t, k);
}
