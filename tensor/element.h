/*
 * Elements: a description of each type, and how one is converted to another.
 *
 * One table describes the types. The kernels' PTX text (tensor/ptx.c), the
 * simulated device's kernels (simcuda/kernel_tensor.c) and copies on the
 * host (tensor/plan.c) are made from it and give equal bits, because each of
 * them has a counterpart for every step here.
 *
 * This is only a header, so that simcuda, which is a separate library, can use
 * it.
 */
#ifndef TENSOR_ELEMENT_H
#define TENSOR_ELEMENT_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <weir/tensor.h>

/* How the bits are interpreted. */
enum element_kind {
	ELEMENT_NONE,
	ELEMENT_BOOL,
	ELEMENT_SIGNED,
	ELEMENT_UNSIGNED,
	ELEMENT_SMALL, /* a float of 8 or 16 bits, converted through float32 */
	ELEMENT_BFLOAT,
	ELEMENT_SCALE, /* only an exponent */
	ELEMENT_FLOAT,
	ELEMENT_DOUBLE,
};

/* The special values of a small float. */
enum element_style {
	STYLE_IEEE, /* infinities, and NaNs above them */
	STYLE_FN,   /* one NaN for each sign: all bits set */
	STYLE_UZ,   /* one NaN, in the place of negative zero */
};

struct element_type {
	enum element_kind kind;
	uint8_t bytes; /* bytes of one component */
	bool complex;  /* two components */
	/* For ELEMENT_SMALL only. */
	uint8_t mantissa; /* number of bits */
	uint8_t bias;
	enum element_style style;
};

/* The type with a code, which may be any number. */
static inline struct element_type
element_type(unsigned dtype)
{
	static const struct element_type types[] = {
		[WEIR_BOOL] = { ELEMENT_BOOL, 1, 0, 0, 0, 0 },
		[WEIR_INT8] = { ELEMENT_SIGNED, 1, 0, 0, 0, 0 },
		[WEIR_INT16] = { ELEMENT_SIGNED, 2, 0, 0, 0, 0 },
		[WEIR_INT32] = { ELEMENT_SIGNED, 4, 0, 0, 0, 0 },
		[WEIR_INT64] = { ELEMENT_SIGNED, 8, 0, 0, 0, 0 },
		[WEIR_UINT8] = { ELEMENT_UNSIGNED, 1, 0, 0, 0, 0 },
		[WEIR_UINT16] = { ELEMENT_UNSIGNED, 2, 0, 0, 0, 0 },
		[WEIR_UINT32] = { ELEMENT_UNSIGNED, 4, 0, 0, 0, 0 },
		[WEIR_UINT64] = { ELEMENT_UNSIGNED, 8, 0, 0, 0, 0 },
		[WEIR_FLOAT16] = { ELEMENT_SMALL, 2, 0, 10, 15, STYLE_IEEE },
		[WEIR_BFLOAT16] = { ELEMENT_BFLOAT, 2, 0, 0, 0, 0 },
		[WEIR_FLOAT32] = { ELEMENT_FLOAT, 4, 0, 0, 0, 0 },
		[WEIR_FLOAT64] = { ELEMENT_DOUBLE, 8, 0, 0, 0, 0 },
		[WEIR_COMPLEX64] = { ELEMENT_FLOAT, 4, 1, 0, 0, 0 },
		[WEIR_COMPLEX128] = { ELEMENT_DOUBLE, 8, 1, 0, 0, 0 },
		[WEIR_FLOAT8_E3M4] = { ELEMENT_SMALL, 1, 0, 4, 3, STYLE_IEEE },
		[WEIR_FLOAT8_E4M3] = { ELEMENT_SMALL, 1, 0, 3, 7, STYLE_IEEE },
		[WEIR_FLOAT8_E4M3B11FNUZ] = { ELEMENT_SMALL, 1, 0, 3, 11,
		    STYLE_UZ },
		[WEIR_FLOAT8_E4M3FN] = { ELEMENT_SMALL, 1, 0, 3, 7, STYLE_FN },
		[WEIR_FLOAT8_E4M3FNUZ] = { ELEMENT_SMALL, 1, 0, 3, 8,
		    STYLE_UZ },
		[WEIR_FLOAT8_E5M2] = { ELEMENT_SMALL, 1, 0, 2, 15, STYLE_IEEE },
		[WEIR_FLOAT8_E5M2FNUZ] = { ELEMENT_SMALL, 1, 0, 2, 16,
		    STYLE_UZ },
		[WEIR_FLOAT8_E8M0FNU] = { ELEMENT_SCALE, 1, 0, 0, 0, 0 },
	};

	if (dtype >= sizeof(types) / sizeof(types[0]))
		return types[0];
	return types[dtype];
}

static inline bool
element_is_integer(struct element_type type)
{
	return type.kind == ELEMENT_SIGNED || type.kind == ELEMENT_UNSIGNED ||
	    type.kind == ELEMENT_BOOL;
}

static inline size_t
element_bytes(unsigned dtype)
{
	struct element_type type = element_type(dtype);

	return (size_t)type.bytes << type.complex;
}

/* ---- Small floats ------------------------------------------------------- */

static inline uint32_t
float_bits(float value)
{
	uint32_t bits;

	memcpy(&bits, &value, sizeof(bits));
	return bits;
}

static inline float
bits_float(uint32_t bits)
{
	float value;

	memcpy(&value, &bits, sizeof(value));
	return value;
}

/* The bits of a small float without its sign. */
static inline uint32_t
small_magnitude(struct element_type type)
{
	return type.bytes == 1 ? 0x7f : 0x7fff;
}

/* The first code above the finite ones: infinity, or NaN. If NaN is in the
 * place of negative zero, one more than all codes. */
static inline uint32_t
small_above(struct element_type type)
{
	uint32_t magnitude = small_magnitude(type);

	if (type.style == STYLE_IEEE)
		return magnitude & ~((1u << type.mantissa) - 1);
	return type.style == STYLE_FN ? magnitude : magnitude + 1;
}

/* The code of NaN, without the sign. */
static inline uint32_t
small_nan(struct element_type type)
{
	return type.style == STYLE_UZ ? small_magnitude(type) + 1 :
					small_magnitude(type);
}

/* A multiplication corrects the exponent, also for subnormal numbers; it is
 * exact. */
static inline float
small_decode(struct element_type type, uint32_t code)
{
	uint32_t magnitude = code & small_magnitude(type);
	uint32_t sign = (code ^ magnitude) << (type.bytes == 1 ? 24 : 16);
	uint32_t bits = magnitude << (23 - type.mantissa);

	if (type.style == STYLE_UZ && magnitude == 0 && sign != 0)
		return bits_float(0x7fffffff);
	if (type.style == STYLE_FN && magnitude >= small_above(type))
		return bits_float(0x7fffffff);
	if (type.style == STYLE_IEEE && magnitude >= small_above(type))
		return bits_float(bits | 0x7f800000 | sign);
	bits = float_bits(
	    bits_float(bits) * bits_float((uint32_t)(254 - type.bias) << 23));
	return bits_float(bits | sign);
}

/* Subnormal results are rounded by an addition. For all others the exponent is
 * corrected and half of the last bit is added. */
static inline uint32_t
small_encode(struct element_type type, float value)
{
	uint32_t all = float_bits(value);
	uint32_t bits = all & 0x7fffffff;
	uint32_t sign = (all ^ bits) >> (type.bytes == 1 ? 24 : 16);
	unsigned shift = 23u - type.mantissa;
	uint32_t above = small_above(type);
	uint32_t code;

	if (bits > 0x7f800000)
		return small_nan(type);
	if (bits < (uint32_t)(128 - type.bias) << 23) {
		uint32_t magic = (uint32_t)(128 - type.bias + (int)shift) << 23;

		code = float_bits(bits_float(bits) + bits_float(magic)) - magic;
	} else {
		code = bits + (1u << (shift - 1)) - 1 + (bits >> shift & 1);
		code = (code - ((uint32_t)(127 - type.bias) << 23)) >> shift;
	}
	if (code >= above)
		return type.style == STYLE_UZ ? above : above | sign;
	if (type.style == STYLE_UZ && code == 0)
		return 0;
	return code | sign;
}

static inline uint32_t
bfloat_encode(float value)
{
	uint32_t bits = float_bits(value);

	if ((bits & 0x7fffffff) > 0x7f800000)
		return 0x7fff;
	return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}

/* The nearest power of two, rounded up from halfway; the sign is ignored. */
static inline uint32_t
scale_encode(float value)
{
	uint32_t bits = float_bits(value) & 0x7fffffff;
	uint32_t code = (bits + 0x400000) >> 23;

	/* Between 2^-127, which is subnormal, and 2^-126. */
	if (bits < 0x600000)
		return 0;
	return code > 0xff ? 0xff : code;
}

static inline float
scale_decode(uint32_t code)
{
	if (code == 0xff)
		return bits_float(0x7fffffff);
	return bits_float(code == 0 ? 0x400000 : code << 23);
}

/* ---- Values ------------------------------------------------------------- */

/* The value between two types: of one of the first three kinds. */
struct element {
	enum element_kind kind; /* SIGNED, UNSIGNED, FLOAT or DOUBLE */
	uint64_t integer;       /* with its sign extended */
	float real, imaginary;
	double real_double, imaginary_double;
};

static inline uint64_t
element_load_integer(struct element_type type, const void *from)
{
	uint64_t bits = 0;
	unsigned unused = 64 - 8u * type.bytes;

	memcpy(&bits, from, type.bytes);
	if (type.kind == ELEMENT_BOOL)
		return bits != 0;
	if (type.kind == ELEMENT_SIGNED)
		return (uint64_t)((int64_t)(bits << unused) >> unused);
	return bits;
}

static inline float
element_load_float(struct element_type type, const void *from)
{
	uint32_t code = 0;

	memcpy(&code, from, type.bytes);
	switch (type.kind) {
	case ELEMENT_SMALL:
		return small_decode(type, code);
	case ELEMENT_BFLOAT:
		return bits_float(code << 16);
	case ELEMENT_SCALE:
		return scale_decode(code);
	default:
		return bits_float(code);
	}
}

static inline struct element
element_load(struct element_type type, const void *from)
{
	struct element out = { .kind = ELEMENT_FLOAT };

	if (element_is_integer(type)) {
		out.kind = type.kind == ELEMENT_SIGNED ? ELEMENT_SIGNED :
							 ELEMENT_UNSIGNED;
		out.integer = element_load_integer(type, from);
		return out;
	}
	if (type.kind == ELEMENT_DOUBLE) {
		out.kind = ELEMENT_DOUBLE;
		memcpy(&out.real_double, from, 8);
		if (type.complex)
			memcpy(
			    &out.imaginary_double, (const char *)from + 8, 8);
		return out;
	}
	out.real = element_load_float(type, from);
	if (type.complex)
		memcpy(&out.imaginary, (const char *)from + 4, 4);
	return out;
}

static inline float
element_to_float(const struct element *element)
{
	switch (element->kind) {
	case ELEMENT_SIGNED:
		return (float)(int64_t)element->integer;
	case ELEMENT_UNSIGNED:
		return (float)element->integer;
	case ELEMENT_DOUBLE:
		return (float)element->real_double;
	default:
		return element->real;
	}
}

static inline double
element_to_double(const struct element *element)
{
	switch (element->kind) {
	case ELEMENT_SIGNED:
		return (double)(int64_t)element->integer;
	case ELEMENT_UNSIGNED:
		return (double)element->integer;
	case ELEMENT_DOUBLE:
		return element->real_double;
	default:
		return (double)element->real;
	}
}

/* Round towards zero and clamp to the range; NaN becomes 0. */
static inline uint64_t
element_to_integer(struct element_type type, const struct element *element)
{
	unsigned bits = 8u * type.bytes;
	double value;

	if (element->kind == ELEMENT_SIGNED ||
	    element->kind == ELEMENT_UNSIGNED)
		return element->integer;
	value = element->kind == ELEMENT_DOUBLE ? element->real_double :
						  (double)element->real;
	if (isnan(value))
		return 0;
	if (type.kind == ELEMENT_SIGNED) {
		double above = (double)((uint64_t)1 << (bits - 1));

		if (value >= above)
			return ((uint64_t)1 << (bits - 1)) - 1;
		if (value <= -above)
			return (uint64_t)-1 << (bits - 1);
		return (uint64_t)(int64_t)value;
	}
	if (value >= 2 * (double)((uint64_t)1 << (bits - 1)))
		return UINT64_MAX >> (64 - bits);
	return value <= 0 ? 0 : (uint64_t)value;
}

static inline bool
element_is_true(const struct element *element)
{
	switch (element->kind) {
	case ELEMENT_SIGNED:
	case ELEMENT_UNSIGNED:
		return element->integer != 0;
	case ELEMENT_DOUBLE:
		return element->real_double != 0 ||
		    element->imaginary_double != 0;
	default:
		return element->real != 0 || element->imaginary != 0;
	}
}

static inline uint32_t
element_encode(struct element_type type, float value)
{
	switch (type.kind) {
	case ELEMENT_SMALL:
		return small_encode(type, value);
	case ELEMENT_BFLOAT:
		return bfloat_encode(value);
	case ELEMENT_SCALE:
		return scale_encode(value);
	default:
		return float_bits(value);
	}
}

static inline void
element_store(struct element_type type, void *to, const struct element *element)
{
	double parts[2] = { 0, 0 };
	uint64_t bits;
	uint32_t code;
	float part;

	if (type.kind == ELEMENT_DOUBLE) {
		parts[0] = element_to_double(element);
		parts[1] = element->kind == ELEMENT_DOUBLE ?
		    element->imaginary_double :
		    (double)element->imaginary;
		memcpy(to, parts, (size_t)8 << type.complex);
		return;
	}
	if (element_is_integer(type)) {
		bits = type.kind == ELEMENT_BOOL ?
		    element_is_true(element) :
		    element_to_integer(type, element);
		memcpy(to, &bits, type.bytes);
		return;
	}
	code = element_encode(type, element_to_float(element));
	memcpy(to, &code, type.bytes);
	if (!type.complex)
		return;
	part = element->kind == ELEMENT_DOUBLE ?
	    (float)element->imaginary_double :
	    element->imaginary;
	memcpy((char *)to + 4, &part, 4);
}

static inline void
element_convert(struct element_type to_type, void *to,
    struct element_type from_type, const void *from)
{
	struct element element = element_load(from_type, from);

	element_store(to_type, to, &element);
}

#endif
