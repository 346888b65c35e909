/*
 * Conversions in PTX. An intermediate value belongs to one of six classes. The
 * meaning of a type's bits, and the rounding, follow tensor/element.h step by
 * step.
 */
#include "tensor/element.h"
#include "tensor/ptx_parts.h"

enum class { CLASS_S32, CLASS_U32, CLASS_S64, CLASS_U64, CLASS_F32, CLASS_F64 };

/* A value in registers: %r, %l, %f or %d, depending on the class. */
struct value {
	enum class class;
	int reg;
	int imaginary; /* of the same class; -1: none */
};

/* ---- Decoding ----------------------------------------------------------- */

/* small_decode() */
static int
put_small_decode(struct ptx_writer *w, struct element_type type, int code)
{
	int m = ptx_fresh(w), s = ptx_fresh(w), b = ptx_fresh(w),
	    f = ptx_fresh(w);
	int r = ptx_fresh(w), out = ptx_fresh(w), p = ptx_fresh(w),
	    special = ptx_fresh(w);

	ptx_put(w, "\tand.b32 %%r%d, %%r%d, 127;\n", m, code);
	ptx_put(w, "\txor.b32 %%r%d, %%r%d, %%r%d;\n", s, code, m);
	ptx_put(w, "\tshl.b32 %%r%d, %%r%d, 24;\n", s, s);
	ptx_put(w, "\tshl.b32 %%r%d, %%r%d, %d;\n", b, m, 23 - type.mantissa);
	ptx_put(w, "\tmov.b32 %%f%d, %%r%d;\n", f, b);
	ptx_put(w, "\tmul.rn.f32 %%f%d, %%f%d, 0f%08X;\n", f, f,
	    (unsigned)(254 - type.bias) << 23);
	ptx_put(w, "\tmov.b32 %%r%d, %%f%d;\n", r, f);
	ptx_put(w, "\tor.b32 %%r%d, %%r%d, %%r%d;\n", r, r, s);
	ptx_put(w, "\tmov.u32 %%r%d, 0x7fffffff;\n", special);
	if (type.style == STYLE_UZ) {
		ptx_put(w, "\tsetp.eq.u32 %%p%d, %%r%d, 128;\n", p, code);
	} else {
		ptx_put(w, "\tsetp.ge.u32 %%p%d, %%r%d, %u;\n", p, m,
		    small_above(type));
	}
	if (type.style == STYLE_IEEE) {
		ptx_put(w, "\tor.b32 %%r%d, %%r%d, 0x7f800000;\n", special, b);
		ptx_put(
		    w, "\tor.b32 %%r%d, %%r%d, %%r%d;\n", special, special, s);
	}
	ptx_put(
	    w, "\tselp.b32 %%r%d, %%r%d, %%r%d, %%p%d;\n", r, special, r, p);
	ptx_put(w, "\tmov.b32 %%f%d, %%r%d;\n", out, r);
	return out;
}

/* scale_decode() */
static int
put_scale_decode(struct ptx_writer *w, struct element_type type, int code)
{
	(void)type;
	int r = ptx_fresh(w), p = ptx_fresh(w), out = ptx_fresh(w);

	ptx_put(w, "\tshl.b32 %%r%d, %%r%d, 23;\n", r, code);
	ptx_put(w, "\tsetp.eq.u32 %%p%d, %%r%d, 0;\n", p, code);
	ptx_put(w, "\tselp.b32 %%r%d, 0x400000, %%r%d, %%p%d;\n", r, r, p);
	ptx_put(w, "\tsetp.eq.u32 %%p%d, %%r%d, 255;\n", p, code);
	ptx_put(w, "\tselp.b32 %%r%d, 0x7fffffff, %%r%d, %%p%d;\n", r, r, p);
	ptx_put(w, "\tmov.b32 %%f%d, %%r%d;\n", out, r);
	return out;
}

static int
put_half_decode(struct ptx_writer *w, struct element_type type, int raw)
{
	int out = ptx_fresh(w);

	(void)type;
	ptx_put(w, "\tcvt.f32.f16 %%f%d, %%h%d;\n", out, raw);
	return out;
}

static int
put_bfloat_decode(struct ptx_writer *w, struct element_type type, int raw)
{
	int out = ptx_fresh(w), r = ptx_fresh(w);

	(void)type;
	ptx_put(w, "\tshl.b32 %%r%d, %%r%d, 16;\n", r, raw);
	ptx_put(w, "\tmov.b32 %%f%d, %%r%d;\n", out, r);
	return out;
}

/* ---- Encoding ----------------------------------------------------------- */

static const char *class_type(enum class class)
{
	static const char *const types[] = { "s32", "u32", "s64", "u64", "f32",
		"f64" };

	return types[class];
}

static char class_letter(enum class class)
{
	static const char letters[] = { 'r', 'r', 'l', 'l', 'f', 'd' };

	return letters[class];
}

/* A component as a float32 or float64. */
static int
to_floating(struct ptx_writer *w, enum class class, int reg, bool wide)
{
	enum class to = wide ? CLASS_F64 : CLASS_F32;
	int out;

	if (class == to)
		return reg;
	out = ptx_fresh(w);
	ptx_put(w, "\tcvt%s.%s.%s %%%c%d, %%%c%d;\n",
	    wide && class == CLASS_F32 ? "" : ".rn", class_type(to),
	    class_type(class), class_letter(to), out, class_letter(class), reg);
	return out;
}

/* small_encode(); `value` is a float32. */
static int
put_small_encode(struct ptx_writer *w, struct element_type type, int value)
{
	unsigned shift = 23u - type.mantissa;
	unsigned least = (unsigned)(128 - type.bias) << 23;
	unsigned magic = (128u - type.bias + shift) << 23;
	int a = ptx_fresh(w), b = ptx_fresh(w), s = ptx_fresh(w),
	    f = ptx_fresh(w);
	int d = ptx_fresh(w), c = ptx_fresh(w), o = ptx_fresh(w),
	    p = ptx_fresh(w);

	ptx_put(w, "\tmov.b32 %%r%d, %%f%d;\n", a, value);
	ptx_put(w, "\tand.b32 %%r%d, %%r%d, 0x7fffffff;\n", b, a);
	ptx_put(w, "\txor.b32 %%r%d, %%r%d, %%r%d;\n", s, a, b);
	ptx_put(w, "\tshr.u32 %%r%d, %%r%d, 24;\n", s, s);
	ptx_put(w, "\tmov.b32 %%f%d, %%r%d;\n", f, b);
	ptx_put(w, "\tadd.rn.f32 %%f%d, %%f%d, 0f%08X;\n", f, f, magic);
	ptx_put(w, "\tmov.b32 %%r%d, %%f%d;\n", d, f);
	ptx_put(w, "\tsub.u32 %%r%d, %%r%d, %u;\n", d, d, magic);
	ptx_put(w, "\tshr.u32 %%r%d, %%r%d, %u;\n", o, b, shift);
	ptx_put(w, "\tand.b32 %%r%d, %%r%d, 1;\n", o, o);
	ptx_put(
	    w, "\tadd.u32 %%r%d, %%r%d, %u;\n", c, b, (1u << (shift - 1)) - 1);
	ptx_put(w, "\tadd.u32 %%r%d, %%r%d, %%r%d;\n", c, c, o);
	ptx_put(w, "\tsub.u32 %%r%d, %%r%d, %u;\n", c, c,
	    (unsigned)(127 - type.bias) << 23);
	ptx_put(w, "\tshr.u32 %%r%d, %%r%d, %u;\n", c, c, shift);
	ptx_put(w, "\tsetp.lt.u32 %%p%d, %%r%d, %u;\n", p, b, least);
	ptx_put(w, "\tselp.u32 %%r%d, %%r%d, %%r%d, %%p%d;\n", c, d, c, p);
	ptx_put(w, "\tmin.u32 %%r%d, %%r%d, %u;\n", c, c, small_above(type));
	ptx_put(w, "\tor.b32 %%r%d, %%r%d, %%r%d;\n", o, c, s);
	if (type.style == STYLE_UZ) {
		ptx_put(w, "\tsetp.eq.u32 %%p%d, %%r%d, 0;\n", p, c);
		ptx_put(w, "\tselp.u32 %%r%d, 0, %%r%d, %%p%d;\n", o, o, p);
	}
	ptx_put(w, "\tsetp.gt.u32 %%p%d, %%r%d, 0x7f800000;\n", p, b);
	ptx_put(w, "\tselp.u32 %%r%d, %u, %%r%d, %%p%d;\n", o, small_nan(type),
	    o, p);
	return o;
}

/* bfloat_encode() */
static int
put_bfloat_encode(struct ptx_writer *w, struct element_type type, int value)
{
	(void)type;
	int a = ptx_fresh(w), b = ptx_fresh(w), o = ptx_fresh(w),
	    p = ptx_fresh(w);

	ptx_put(w, "\tmov.b32 %%r%d, %%f%d;\n", a, value);
	ptx_put(w, "\tand.b32 %%r%d, %%r%d, 0x7fffffff;\n", b, a);
	ptx_put(w, "\tshr.u32 %%r%d, %%r%d, 16;\n", o, a);
	ptx_put(w, "\tand.b32 %%r%d, %%r%d, 1;\n", o, o);
	ptx_put(w, "\tadd.u32 %%r%d, %%r%d, %%r%d;\n", o, o, a);
	ptx_put(w, "\tadd.u32 %%r%d, %%r%d, 0x7fff;\n", o, o);
	ptx_put(w, "\tshr.u32 %%r%d, %%r%d, 16;\n", o, o);
	ptx_put(w, "\tsetp.gt.u32 %%p%d, %%r%d, 0x7f800000;\n", p, b);
	ptx_put(w, "\tselp.u32 %%r%d, 0x7fff, %%r%d, %%p%d;\n", o, o, p);
	return o;
}

/* scale_encode() */
static int
put_scale_encode(struct ptx_writer *w, struct element_type type, int value)
{
	(void)type;
	int a = ptx_fresh(w), p = ptx_fresh(w);

	ptx_put(w, "\tmov.b32 %%r%d, %%f%d;\n", a, value);
	ptx_put(w, "\tand.b32 %%r%d, %%r%d, 0x7fffffff;\n", a, a);
	ptx_put(w, "\tsetp.lt.u32 %%p%d, %%r%d, 0x600000;\n", p, a);
	ptx_put(w, "\tadd.u32 %%r%d, %%r%d, 0x400000;\n", a, a);
	ptx_put(w, "\tshr.u32 %%r%d, %%r%d, 23;\n", a, a);
	ptx_put(w, "\tmin.u32 %%r%d, %%r%d, 255;\n", a, a);
	ptx_put(w, "\tselp.u32 %%r%d, 0, %%r%d, %%p%d;\n", a, a, p);
	return a;
}

static int
put_half_encode(struct ptx_writer *w, struct element_type type, int value)
{
	int out = ptx_fresh(w);

	(void)type;
	ptx_put(w, "\tcvt.rn.f16.f32 %%h%d, %%f%d;\n", out, value);
	return out;
}

/* Conversions of a narrower float to and from float32, by the kind of element.
 */
static const struct {
	int (*decode)(struct ptx_writer *w, struct element_type type, int code);
	int (*encode)(
	    struct ptx_writer *w, struct element_type type, int value);
} forms[] = {
	[ELEMENT_NONE] = { put_half_decode, put_half_encode },
	[ELEMENT_SMALL] = { put_small_decode, put_small_encode },
	[ELEMENT_BFLOAT] = { put_bfloat_decode, put_bfloat_encode },
	[ELEMENT_SCALE] = { put_scale_decode, put_scale_encode },
};

/* The row of forms[]. float16, which the device converts itself, uses the row
 * of no kind. */
static enum element_kind
form_of(enum weir_dtype dtype)
{
	return dtype == WEIR_FLOAT16 ? ELEMENT_NONE : element_type(dtype).kind;
}

static struct value
decode(struct ptx_writer *w, enum weir_dtype dtype, struct ptx_raw raw)
{
	struct element_type type = element_type(dtype);
	struct value value = { CLASS_F32, raw.reg[0], -1 };
	int p;

	switch (type.kind) {
	case ELEMENT_BOOL:
		value.class = CLASS_U32;
		value.reg = ptx_fresh(w);
		p = ptx_fresh(w);
		ptx_put(w, "\tsetp.ne.u32 %%p%d, %%r%d, 0;\n", p, raw.reg[0]);
		ptx_put(w, "\tselp.u32 %%r%d, 1, 0, %%p%d;\n", value.reg, p);
		break;
	case ELEMENT_SIGNED:
		value.class = type.bytes == 8 ? CLASS_S64 : CLASS_S32;
		break;
	case ELEMENT_UNSIGNED:
		value.class = type.bytes == 8 ? CLASS_U64 : CLASS_U32;
		break;
	case ELEMENT_DOUBLE:
		value.class = CLASS_F64;
		break;
	case ELEMENT_FLOAT:
		break;
	default:
		value.reg = forms[form_of(dtype)].decode(w, type, raw.reg[0]);
	}
	if (type.complex)
		value.imaginary = raw.reg[1];
	return value;
}

/* element_to_integer() for a float: the conversion clamps to 32 or 64 bits, and
 * narrower types are clamped to their own range. */
static int
float_to_integer(
    struct ptx_writer *w, struct element_type type, struct value value)
{
	bool wide = type.bytes == 8, is_signed = type.kind == ELEMENT_SIGNED;
	char letter = wide ? 'l' : 'r';
	int out = ptx_fresh(w), p = ptx_fresh(w);

	ptx_put(w, "\tcvt.rzi.%c%d.%s %%%c%d, %%%c%d;\n", is_signed ? 's' : 'u',
	    wide ? 64 : 32, class_type(value.class), letter, out,
	    class_letter(value.class), value.reg);
	ptx_put(w, "\tsetp.nan.%s %%p%d, %%%c%d, %%%c%d;\n",
	    class_type(value.class), p, class_letter(value.class), value.reg,
	    class_letter(value.class), value.reg);
	ptx_put(w, "\tselp.b%d %%%c%d, 0, %%%c%d, %%p%d;\n", wide ? 64 : 32,
	    letter, out, letter, out, p);
	if (type.bytes >= 4)
		return out;
	if (!is_signed) {
		ptx_put(w, "\tmin.u32 %%r%d, %%r%d, %u;\n", out, out,
		    (1u << (8 * type.bytes)) - 1);
		return out;
	}
	ptx_put(w, "\tmin.s32 %%r%d, %%r%d, %d;\n", out, out,
	    (1 << (8 * type.bytes - 1)) - 1);
	ptx_put(w, "\tmax.s32 %%r%d, %%r%d, %d;\n", out, out,
	    -(1 << (8 * type.bytes - 1)));
	return out;
}

static int
to_integer(struct ptx_writer *w, struct element_type type, struct value value)
{
	bool from_wide = value.class == CLASS_S64 || value.class == CLASS_U64;
	bool wide = type.bytes == 8;
	int out;

	if (value.class == CLASS_F32 || value.class == CLASS_F64)
		return float_to_integer(w, type, value);
	if (from_wide == wide)
		return value.reg;
	out = ptx_fresh(w);
	if (wide)
		ptx_put(w, "\tcvt.%c64.%s %%l%d, %%r%d;\n",
		    value.class == CLASS_S32 ? 's' : 'u',
		    class_type(value.class), out, value.reg);
	else
		ptx_put(w, "\tcvt.u32.u64 %%r%d, %%l%d;\n", out, value.reg);
	return out;
}

/* element_is_true() */
static int
to_bool(struct ptx_writer *w, struct value value)
{
	bool floating = value.class == CLASS_F32 || value.class == CLASS_F64;
	const char *zero = value.class == CLASS_F32 ? "0f00000000" :
	    value.class == CLASS_F64                ? "0d0000000000000000" :
						      "0";
	int out = ptx_fresh(w), p = ptx_fresh(w), q = ptx_fresh(w);

	ptx_put(w, "\tsetp.%s.%s %%p%d, %%%c%d, %s;\n", floating ? "neu" : "ne",
	    class_type(value.class), p, class_letter(value.class), value.reg,
	    zero);
	if (value.imaginary >= 0) {
		ptx_put(w, "\tsetp.neu.%s %%p%d, %%%c%d, %s;\n",
		    class_type(value.class), q, class_letter(value.class),
		    value.imaginary, zero);
		ptx_put(w, "\tor.pred %%p%d, %%p%d, %%p%d;\n", p, p, q);
	}
	ptx_put(w, "\tselp.u32 %%r%d, 1, 0, %%p%d;\n", out, p);
	return out;
}

static struct ptx_raw
encode(struct ptx_writer *w, enum weir_dtype dtype, struct value value)
{
	struct element_type type = element_type(dtype);
	bool wide = type.kind == ELEMENT_DOUBLE;
	struct ptx_raw raw = { { 0, -1 } };

	if (type.kind == ELEMENT_BOOL) {
		raw.reg[0] = to_bool(w, value);
		return raw;
	}
	if (element_is_integer(type)) {
		raw.reg[0] = to_integer(w, type, value);
		return raw;
	}
	raw.reg[0] = to_floating(w, value.class, value.reg, wide);
	if (type.kind != ELEMENT_FLOAT && !wide)
		raw.reg[0] = forms[form_of(dtype)].encode(w, type, raw.reg[0]);
	if (!type.complex)
		return raw;
	if (value.imaginary >= 0) {
		raw.reg[1] = to_floating(w, value.class, value.imaginary, wide);
		return raw;
	}
	raw.reg[1] = ptx_fresh(w);
	ptx_put(w, "\tmov.%s %%%c%d, %s;\n", wide ? "f64" : "f32",
	    wide ? 'd' : 'f', raw.reg[1],
	    wide ? "0d0000000000000000" : "0f00000000");
	return raw;
}

/* Convert the loaded value to the destination's type. */
struct ptx_raw
ptx_convert(
    struct ptx_writer *w, const struct ptx_kernel *kernel, struct ptx_raw raw)
{
	if (kernel->unit > 0)
		return raw;
	return encode(w, kernel->to_dtype, decode(w, kernel->from_dtype, raw));
}
