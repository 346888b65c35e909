/*
 * The promise of every conversion, for all pairs of types: what a copy writes
 * is compared with numbers that are worked out here, from the definitions of
 * the formats and by search, without tensor/element.h.
 *
 * A long double holds every number of every type exactly.
 */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/tensor/support.h"

enum { LAST_DTYPE = WEIR_FLOAT8_E8M0FNU, MOST = 1 << 17 };

_Static_assert(LDBL_MANT_DIG >= 64, "an int64 has to fit in a long double");

/* ---- The formats -------------------------------------------------------- */

enum form { INTEGER, FLOATING, SCALE };
enum above { INFINITE, ONE_NAN, NAN_AT_ZERO }; /* beyond the finite numbers */

static const struct format {
	enum form form;
	int bits; /* of a component */
	bool is_signed;
	int parts; /* 2: complex */
	int mantissa, bias;
	enum above above;
} formats[] = {
	[WEIR_BOOL] = { INTEGER, 8, false, 1, 0, 0, 0 },
	[WEIR_INT8] = { INTEGER, 8, true, 1, 0, 0, 0 },
	[WEIR_INT16] = { INTEGER, 16, true, 1, 0, 0, 0 },
	[WEIR_INT32] = { INTEGER, 32, true, 1, 0, 0, 0 },
	[WEIR_INT64] = { INTEGER, 64, true, 1, 0, 0, 0 },
	[WEIR_UINT8] = { INTEGER, 8, false, 1, 0, 0, 0 },
	[WEIR_UINT16] = { INTEGER, 16, false, 1, 0, 0, 0 },
	[WEIR_UINT32] = { INTEGER, 32, false, 1, 0, 0, 0 },
	[WEIR_UINT64] = { INTEGER, 64, false, 1, 0, 0, 0 },
	[WEIR_FLOAT16] = { FLOATING, 16, true, 1, 10, 15, INFINITE },
	[WEIR_BFLOAT16] = { FLOATING, 16, true, 1, 7, 127, INFINITE },
	[WEIR_FLOAT32] = { FLOATING, 32, true, 1, 23, 127, INFINITE },
	[WEIR_FLOAT64] = { FLOATING, 64, true, 1, 52, 1023, INFINITE },
	[WEIR_COMPLEX64] = { FLOATING, 32, true, 2, 23, 127, INFINITE },
	[WEIR_COMPLEX128] = { FLOATING, 64, true, 2, 52, 1023, INFINITE },
	[WEIR_FLOAT8_E3M4] = { FLOATING, 8, true, 1, 4, 3, INFINITE },
	[WEIR_FLOAT8_E4M3] = { FLOATING, 8, true, 1, 3, 7, INFINITE },
	[WEIR_FLOAT8_E4M3B11FNUZ] = { FLOATING, 8, true, 1, 3, 11,
	    NAN_AT_ZERO },
	[WEIR_FLOAT8_E4M3FN] = { FLOATING, 8, true, 1, 3, 7, ONE_NAN },
	[WEIR_FLOAT8_E4M3FNUZ] = { FLOATING, 8, true, 1, 3, 8, NAN_AT_ZERO },
	[WEIR_FLOAT8_E5M2] = { FLOATING, 8, true, 1, 2, 15, INFINITE },
	[WEIR_FLOAT8_E5M2FNUZ] = { FLOATING, 8, true, 1, 2, 16, NAN_AT_ZERO },
	[WEIR_FLOAT8_E8M0FNU] = { SCALE, 8, false, 1, 0, 127, ONE_NAN },
};

_Static_assert(sizeof(formats) / sizeof(formats[0]) == LAST_DTYPE + 1,
    "a type has no format here");

static size_t
part_bytes(enum weir_dtype dtype)
{
	return (size_t)formats[dtype].bits / 8;
}

/* The largest code without sign that is a number. */
static uint64_t
last_code(const struct format *f)
{
	uint64_t all = UINT64_MAX >> (64 - f->bits + (f->is_signed ? 1 : 0));

	if (f->above == INFINITE)
		return all - ((uint64_t)1 << f->mantissa);
	return f->above == ONE_NAN ? all - 1 : all;
}

/* The number of a code without sign; that of a code beyond the last is the
 * number that the format would have if it went on. */
static long double
magnitude(const struct format *f, uint64_t code)
{
	uint64_t fraction = code & (((uint64_t)1 << f->mantissa) - 1);
	int exponent = (int)(code >> f->mantissa);

	if (f->form == SCALE)
		return ldexpl(1, (int)code - f->bias);
	if (exponent == 0)
		return ldexpl((long double)fraction, 1 - f->bias - f->mantissa);
	return ldexpl((long double)(fraction + ((uint64_t)1 << f->mantissa)),
	    exponent - f->bias - f->mantissa);
}

/* One component as a number, or NaN. */
static long double
number_of(enum weir_dtype dtype, const char *from)
{
	const struct format *f = &formats[dtype];
	uint64_t code = 0, sign = (uint64_t)1 << (f->bits - 1), plain;
	long double value;

	memcpy(&code, from, part_bytes(dtype));
	if (dtype == WEIR_BOOL)
		return code != 0;
	if (f->form == INTEGER) {
		if (!f->is_signed || (code & sign) == 0)
			return (long double)code;
		return (long double)code - 2 * (long double)sign;
	}
	plain = f->is_signed ? code & ~sign : code;
	if (f->above == NAN_AT_ZERO && code == sign)
		return NAN;
	if (plain > last_code(f))
		return f->above == INFINITE && plain == last_code(f) + 1 ?
		    ((code & sign) != 0 ? -INFINITY : INFINITY) :
		    (long double)NAN;
	value = magnitude(f, plain);
	return f->is_signed && (code & sign) != 0 ? -value : value;
}

/* The code, from 0 to one beyond the last, that is nearest to a number >= 0.
 */
static uint64_t
nearest_code(const struct format *f, long double value)
{
	uint64_t low = 0, high = last_code(f) + 1;
	long double twice, sum;

	if (value >= magnitude(f, high))
		return high;
	if (value <= magnitude(f, 0))
		return 0;
	while (high - low > 1) {
		uint64_t middle = low + (high - low) / 2;

		if (magnitude(f, middle) <= value)
			low = middle;
		else
			high = middle;
	}
	twice = 2 * value;
	sum = magnitude(f, low) + magnitude(f, high);
	if (twice == sum)
		return f->form == SCALE || low % 2 == 1 ? high : low;
	return twice > sum ? high : low;
}

static uint64_t
floating_code(enum weir_dtype dtype, long double value)
{
	const struct format *f = &formats[dtype];
	uint64_t sign = (uint64_t)1 << (f->bits - 1), code;
	bool minus = f->is_signed && signbit(value);

	/* Narrow types are rounded from float32. */
	if (f->bits < 32)
		value = (float)value;
	if (isnan(value))
		return f->above == NAN_AT_ZERO ? sign :
		    f->above == INFINITE       ? last_code(f) + 2 :
						 last_code(f) + 1;
	code = nearest_code(f, fabsl(value));
	if (code > last_code(f) && f->above == NAN_AT_ZERO)
		return sign;
	if (code == 0 && f->above == NAN_AT_ZERO)
		return 0;
	return minus ? code | sign : code;
}

static uint64_t
integer_code(enum weir_dtype dtype, long double value)
{
	const struct format *f = &formats[dtype];
	int bits = f->is_signed ? f->bits - 1 : f->bits;
	long double above = ldexpl(1, bits);
	long double below = f->is_signed ? -above : 0;

	if (isnan(value))
		return 0;
	if (value >= above)
		return UINT64_MAX >> (64 - bits);
	value = value <= below ? below : truncl(value);
	return value < 0 ? (uint64_t)(int64_t)value : (uint64_t)value;
}

/* Write what a copy of the element is to write. */
static void
convert_by_definition(
    enum weir_dtype to, char *out, enum weir_dtype from, const char *in)
{
	const struct format *f = &formats[to];
	size_t size = part_bytes(to);
	long double parts[2] = { number_of(from, in), 0 };
	uint64_t code = 0;

	if (formats[from].parts == 2)
		parts[1] = number_of(from, in + part_bytes(from));
	if (to == WEIR_BOOL) {
		*out = parts[0] != 0 || parts[1] != 0;
		return;
	}
	if (f->form == INTEGER) {
		/* Between integers the low bits are kept. */
		if (formats[from].form == INTEGER)
			code = parts[0] < 0 ? (uint64_t)(int64_t)parts[0] :
					      (uint64_t)parts[0];
		else
			code = integer_code(to, parts[0]);
		memcpy(out, &code, size);
		return;
	}
	for (int i = 0; i < f->parts && i < 2; i++) {
		code = floating_code(to, parts[i]);
		memcpy(out + (size_t)i * size, &code, size);
	}
}

/* Equal bits, or two NaNs in the same component. */
static bool
is_as_wanted(enum weir_dtype dtype, const char *got, const char *wanted)
{
	size_t size = part_bytes(dtype);

	for (int i = 0; i < formats[dtype].parts; i++) {
		const char *a = got + (size_t)i * size;
		const char *b = wanted + (size_t)i * size;

		if (memcmp(a, b, size) != 0 &&
		    !(isnan(number_of(dtype, a)) && isnan(number_of(dtype, b))))
			return false;
	}
	return true;
}

/* ---- The elements that are tried ---------------------------------------- */

struct tried {
	enum weir_dtype dtype;
	char *bytes;
	size_t n; /* at most MOST */
};

static void
try_element(struct tried *t, const void *element)
{
	size_t size = weir_dtype_size(t->dtype);

	if (t->n == MOST)
		FAIL("more than %d elements", MOST);
	memcpy(t->bytes + t->n++ * size, element, size);
}

static void
try_code(struct tried *t, uint64_t code)
{
	char element[16] = { 0 };
	uint64_t other = ~code;

	memcpy(element, &code, sizeof(code));
	if (formats[t->dtype].parts == 2)
		memcpy(element + part_bytes(t->dtype), &other,
		    part_bytes(t->dtype));
	try_element(t, element);
}

/* A number and both neighbours, of either sign; for complex numbers as each of
 * the components. */
static void
try_number(struct tried *t, long double value)
{
	const struct format *f = &formats[t->dtype];
	uint64_t code = 0;

	for (int minus = 0; minus < 2; minus++) {
		for (int step = -1; step <= 1; step++) {
			double wide = (double)value;
			float narrow = (float)value;

			if (step != 0) {
				wide = nextafter(wide, step * INFINITY);
				narrow =
				    nextafterf(narrow, (float)step * INFINITY);
			}
			wide = minus ? -wide : wide;
			narrow = minus ? -narrow : narrow;
			if (f->bits == 32)
				memcpy(&code, &narrow, sizeof(narrow));
			else
				memcpy(&code, &wide, sizeof(wide));
			try_code(t, code);
		}
	}
}

/* Halfway points of a floating type, where rounding turns. */
static void
try_halves(struct tried *t, enum weir_dtype to)
{
	const struct format *f = &formats[to];
	uint64_t codes = last_code(f) + 1;
	uint64_t step = codes > 4096 ? codes / 4096 : 1;

	for (uint64_t code = 0; code < codes; code += step)
		try_number(
		    t, (magnitude(f, code) + magnitude(f, code + 1)) / 2);
	try_number(t, (magnitude(f, codes - 1) + magnitude(f, codes)) / 2);
}

static uint64_t
next_random(uint64_t *state)
{
	*state = *state * 6364136223846793005u + 1442695040888963407u;
	return *state ^ *state >> 33;
}

/* All codes of types of up to 16 bits; for others all powers of two and their
 * neighbours, special numbers, halfway points and random bits. */
static void
choose(struct tried *t, enum weir_dtype to)
{
	const struct format *f = &formats[t->dtype];
	uint64_t state = t->dtype;

	t->n = 0;
	if (f->bits <= 16) {
		for (uint64_t code = 0; code < (uint64_t)1 << f->bits; code++)
			try_code(t, code);
		return;
	}
	for (int i = 0; i < 2000; i++)
		try_code(t, next_random(&state));
	for (int i = 0; i < f->bits; i++) {
		for (uint64_t step = 0; step < 3; step++) {
			try_code(t, ((uint64_t)1 << i) + step - 1);
			try_code(t, 1 - ((uint64_t)1 << i) - step);
			/* Halfway for float32 and float64. */
			try_code(t, (((uint64_t)1 << i) | 1) << 24 | step);
			try_code(t, (((uint64_t)1 << i) | 1) << 8 | step);
		}
	}
	if (f->form == INTEGER)
		return;
	try_number(t, 0);
	try_number(t, INFINITY);
	try_number(t, NAN);
	try_number(t, FLT_MIN);
	try_number(t, FLT_MAX);
	try_number(t, DBL_MIN);
	try_number(t, (long double)FLT_MAX + ldexpl(1, 103));
	for (int i = -160; i < 140; i++)
		try_number(t, ldexpl(1, i));
	for (int i = -300; i < 300; i++)
		try_number(t, i / 2.0L);
	if (formats[to].form != INTEGER)
		try_halves(t, to);
}

/* ---- Comparing ---------------------------------------------------------- */

static struct weir_tensor *
tensor_with(enum weir_memory memory, const struct tried *t)
{
	struct weir_tensor *tensor =
	    tensor_on(memory, t->dtype, SHAPE((int64_t)t->n));

	tensor_put(tensor, t->bytes);
	return tensor;
}

static const char *
hex(const char *bytes, size_t n, char *text)
{
	for (size_t i = 0; i < n; i++)
		snprintf(text + 2 * i, 3, "%02x", bytes[n - 1 - i] & 0xff);
	return text;
}

static void
expect_converted(enum weir_dtype to, const struct tried *t, const char *got)
{
	size_t size = weir_dtype_size(to), from_size;
	char wanted[16] = { 0 }, a[40], b[40], c[40];

	from_size = weir_dtype_size(t->dtype);
	for (size_t i = 0; i < t->n; i++) {
		const char *in = t->bytes + i * from_size;

		convert_by_definition(to, wanted, t->dtype, in);
		if (!is_as_wanted(to, got + i * size, wanted))
			FAIL("%s 0x%s to %s is 0x%s and not 0x%s",
			    weir_dtype_name(t->dtype), hex(in, from_size, a),
			    weir_dtype_name(to), hex(got + i * size, size, b),
			    hex(wanted, size, c));
	}
}

static void
convert_all(enum weir_memory memory, enum weir_dtype to, struct tried *t)
{
	static char got[(size_t)MOST * 16];
	struct weir_tensor *from, *result;

	choose(t, to);
	from = tensor_with(memory, t);
	result = tensor_on(memory, to, SHAPE((int64_t)t->n));
	EXPECT_OK(weir_tensor_copy(result, from, NULL, 0));
	tensor_get(result, got);
	expect_converted(to, t, got);
	weir_tensor_destroy(from);
	weir_tensor_destroy(result);
}

static void
convert_all_pairs(enum weir_memory memory)
{
	static char bytes[(size_t)MOST * 16];
	struct tried t = { .bytes = bytes };

	for (int from = 1; from <= LAST_DTYPE; from++) {
		for (int to = 1; to <= LAST_DTYPE; to++) {
			t.dtype = (enum weir_dtype)from;
			/* The bits of one type are moved as they are. */
			if (from != to || to == WEIR_BOOL)
				convert_all(memory, (enum weir_dtype)to, &t);
		}
	}
}

TEST_TIMEOUT(the_host_converts_as_the_formats_define, 300)
{
	convert_all_pairs(WEIR_MEMORY_HOST);
	expect_healthy();
}

TEST_TIMEOUT(a_device_converts_as_the_formats_define, 300)
{
	convert_all_pairs(WEIR_MEMORY_DEVICE);
	expect_healthy();
}

/* Also NaNs with a payload and signalling ones. */
TEST(a_copy_of_one_type_keeps_every_bit_but_a_bool_s)
{
	static char bytes[(size_t)MOST * 16], got[(size_t)MOST * 16];
	static const enum weir_memory memories[] = { WEIR_MEMORY_DEVICE,
		WEIR_MEMORY_HOST };
	struct tried t = { .bytes = bytes };

	for (int dtype = WEIR_BOOL + 1; dtype <= LAST_DTYPE; dtype++) {
		for (int m = 0; m < 2; m++) {
			struct weir_tensor *from, *to, *from_part, *to_part;

			t.dtype = (enum weir_dtype)dtype;
			choose(&t, t.dtype);
			from = tensor_with(memories[m], &t);
			to = tensor_with(memories[m], &t);
			EXPECT_OK(weir_tensor_fill(
			    to, WEIR_INT32, &(int){ 0 }, NULL));
			/* With gaps, so that it is no copy by the driver. */
			for (int first = 0; first < 2; first++) {
				struct weir_slice slice = { first, INT64_MAX,
					2 };

				EXPECT_OK(weir_tensor_slice(
				    from, 0, &slice, &from_part));
				EXPECT_OK(
				    weir_tensor_slice(to, 0, &slice, &to_part));
				EXPECT_OK(weir_tensor_copy(
				    to_part, from_part, NULL, 0));
				weir_tensor_destroy(from_part);
				weir_tensor_destroy(to_part);
			}
			tensor_get(to, got);
			EXPECT_MEM_EQ(
			    got, bytes, t.n * weir_dtype_size(t.dtype));
			weir_tensor_destroy(from);
			weir_tensor_destroy(to);
		}
	}
	expect_healthy();
}

/* ---- Bools -------------------------------------------------------------- */

enum { ROWS = 40, COLUMNS = 36, BOOLS = ROWS * COLUMNS };

/* How the source and the destination lie in their memory. */
enum lie { DENSE, SECOND, TURNED, REVERSED, ODD, LIES };

static struct weir_tensor *
lying(const struct weir_tensor *whole, enum lie lie)
{
	static const int64_t strides[LIES][2] = { { COLUMNS, 1 },
		{ 2 * COLUMNS, 2 }, { 1, ROWS }, { COLUMNS, -1 },
		{ COLUMNS, 1 } };
	int64_t shape[] = { ROWS, COLUMNS };
	struct weir_layout layout = { .struct_size = sizeof(layout),
		.dtype = WEIR_BOOL,
		.ndim = 2,
		.shape = shape,
		.strides = strides[lie],
		.offset_bytes = lie == REVERSED ? COLUMNS - 1 :
		    lie == ODD                  ? 1 :
						  0 };
	struct weir_tensor *view;

	EXPECT_OK(weir_tensor_as_strided(whole, &layout, &view));
	return view;
}

static struct weir_tensor *
bools_on(enum weir_memory memory, int device, char byte)
{
	struct weir_place place = place_of(memory, device, NULL);
	struct weir_tensor *whole;

	EXPECT_OK(weir_tensor_empty(
	    WEIR_UINT8, SHAPE(2 * BOOLS + 2), &place, &whole));
	EXPECT_OK(weir_tensor_fill(whole, WEIR_UINT8, &byte, NULL));
	return whole;
}

static void
copy_bools(const struct weir_tensor *to_whole, enum lie to_lie,
    const struct weir_tensor *from_whole, enum lie from_lie)
{
	static char bytes[2 * BOOLS + 2], got[2 * BOOLS + 2];
	struct weir_tensor *from = lying(from_whole, from_lie);
	struct weir_tensor *to = lying(to_whole, to_lie);
	int64_t from_at = (int64_t)tensor_info(from).offset_bytes;
	int64_t to_at = (int64_t)tensor_info(to).offset_bytes;
	const int64_t *f = tensor_info(from).strides;
	const int64_t *t = tensor_info(to).strides;

	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (char)(i % 3 == 0 ? 0 : i * 37);
	tensor_put(from_whole, bytes);
	EXPECT_OK(weir_tensor_copy(to, from, NULL, 0));
	tensor_get(to_whole, got);
	for (int64_t i = 0; i < ROWS; i++) {
		for (int64_t j = 0; j < COLUMNS; j++) {
			int64_t in = from_at + i * f[0] + j * f[1];

			EXPECT_EQ(
			    got[to_at + i * t[0] + j * t[1]], bytes[in] != 0);
		}
	}
	weir_tensor_destroy(from);
	weir_tensor_destroy(to);
}

static void
copy_bools_of_all_lies(
    const struct weir_tensor *to, const struct weir_tensor *from)
{
	for (int t = 0; t < LIES; t++) {
		for (int f = 0; f < LIES; f++)
			copy_bools(to, (enum lie)t, from, (enum lie)f);
	}
}

TEST(a_copied_bool_is_0_or_1_in_every_kind_of_memory)
{
	static const enum weir_memory memories[] = { WEIR_MEMORY_DEVICE,
		WEIR_MEMORY_PINNED, WEIR_MEMORY_HOST };

	for (int m = 0; m < 9; m++) {
		struct weir_tensor *from = bools_on(memories[m % 3], 0, 7);
		struct weir_tensor *to = bools_on(memories[m / 3], 0, 7);

		copy_bools_of_all_lies(to, from);
		weir_tensor_destroy(from);
		weir_tensor_destroy(to);
	}
	expect_healthy();
}

TEST(a_bool_that_is_copied_to_another_device_is_0_or_1)
{
	struct weir_tensor *from, *to;

	device_need(2);
	from = bools_on(WEIR_MEMORY_DEVICE, 0, 7);
	to = bools_on(WEIR_MEMORY_DEVICE, 1, 7);
	copy_bools_of_all_lies(to, from);
	weir_tensor_destroy(from);
	weir_tensor_destroy(to);
	expect_healthy();
}

/* A tensor over itself, and over a neighbour. */
TEST(bools_that_overlap_are_copied_as_if_read_first_and_are_0_or_1)
{
	static const enum weir_memory memories[] = { WEIR_MEMORY_DEVICE,
		WEIR_MEMORY_PINNED, WEIR_MEMORY_HOST };

	for (int m = 0; m < 3; m++) {
		for (int64_t shift = 0; shift < 3; shift++) {
			char bytes[100], got[100];
			struct weir_tensor *whole = tensor_on(memories[m],
					       WEIR_UINT8, SHAPE(100)),
					   *bools, *from, *to;

			for (int i = 0; i < 100; i++)
				bytes[i] = (char)(i % 5);
			tensor_put(whole, bytes);
			EXPECT_OK(
			    weir_tensor_view_dtype(whole, WEIR_BOOL, &bools));
			EXPECT_OK(weir_tensor_narrow(bools, 0, 0, 90, &from));
			EXPECT_OK(weir_tensor_narrow(bools, 0, shift, 90, &to));
			EXPECT_OK(weir_tensor_copy(to, from, NULL, 0));
			tensor_get(whole, got);
			for (int i = 0; i < 90; i++)
				EXPECT_EQ(got[i + shift], bytes[i] != 0);
			EXPECT_EQ(got[99], bytes[99]);
			weir_tensor_destroy(bools);
			weir_tensor_destroy(from);
			weir_tensor_destroy(to);
			weir_tensor_destroy(whole);
		}
	}
	expect_healthy();
}

TEST(a_bool_that_is_repeated_or_filled_is_0_or_1)
{
	static const enum weir_memory memories[] = { WEIR_MEMORY_DEVICE,
		WEIR_MEMORY_HOST };

	for (int m = 0; m < 2; m++) {
		char odd[3] = { 2, 0, (char)0x80 }, got[3 * 50];
		struct weir_tensor *to =
		    tensor_on(memories[m], WEIR_BOOL, SHAPE(50, 3));
		struct tried t = { WEIR_BOOL, odd, 3 };
		struct weir_tensor *row = tensor_with(memories[m], &t);

		EXPECT_OK(weir_tensor_copy(to, row, NULL, 0));
		tensor_get(to, got);
		for (int i = 0; i < 3 * 50; i++)
			EXPECT_EQ(got[i], odd[i % 3] != 0);
		for (int i = 0; i < 3; i++) {
			EXPECT_OK(
			    weir_tensor_fill(to, WEIR_BOOL, &odd[i], NULL));
			tensor_get(to, got);
			EXPECT_EQ(got[0], odd[i] != 0);
			EXPECT_EQ(got[149], odd[i] != 0);
		}
		weir_tensor_destroy(row);
		weir_tensor_destroy(to);
	}
	expect_healthy();
}
