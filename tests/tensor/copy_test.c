/*
 * Copies: every pair of types and kinds of memory, strides, streams, and when
 * memory may be used again.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tensor/tensor.h"
#include "tests/tensor/support.h"

enum { LAST_DTYPE = WEIR_FLOAT8_E8M0FNU, MANY = 1021 };

/* Bytes that differ at each place. */
static void
scramble(void *bytes, size_t size, uint32_t seed)
{
	unsigned char *at = bytes;

	for (size_t i = 0; i < size; i++) {
		seed = seed * 1664525u + 1013904223u;
		at[i] = (unsigned char)(seed >> 24);
	}
}

/* Two NaNs need not have the same bits. */
static bool
same_element(enum weir_dtype dtype, const char *a, const char *b)
{
	struct element_type type = element_type(dtype);
	size_t size = element_bytes(dtype);
	int parts = type.complex ? 2 : 1;

	if (memcmp(a, b, size) == 0)
		return true;
	if (element_is_integer(type))
		return false;
	for (int part = 0; part < parts; part++) {
		struct element x, y;
		struct element_type one = type;

		one.complex = false;
		x = element_load(one, a + (size_t)part * type.bytes);
		y = element_load(one, b + (size_t)part * type.bytes);
		if (memcmp(a + (size_t)part * type.bytes,
			b + (size_t)part * type.bytes, type.bytes) != 0 &&
		    !(isnan(element_to_double(&x)) &&
			isnan(element_to_double(&y))))
			return false;
	}
	return true;
}

static void
expect_same(enum weir_dtype to, enum weir_dtype from, const char *got,
    const char *wanted, const char *source)
{
	size_t size = weir_dtype_size(to);

	for (size_t i = 0; i < MANY; i++) {
		if (same_element(to, got + i * size, wanted + i * size))
			continue;
		FAIL("%s to %s: element %zu of %02x%02x%02x%02x is "
		     "%02x%02x and not %02x%02x",
		    weir_dtype_name(from), weir_dtype_name(to), i,
		    source[i * weir_dtype_size(from)] & 0xff,
		    source[i * weir_dtype_size(from) + 1] & 0xff,
		    source[i * weir_dtype_size(from) + 2] & 0xff,
		    source[i * weir_dtype_size(from) + 3] & 0xff,
		    got[i * size] & 0xff, got[i * size + 1] & 0xff,
		    wanted[i * size] & 0xff, wanted[i * size + 1] & 0xff);
	}
}

/* Test numbers of a type: random bits, and float32 numbers around its
 * bounds. */
static void
interesting(enum weir_dtype dtype, char *bytes)
{
	struct element_type type = element_type(dtype);
	size_t size = weir_dtype_size(dtype);

	scramble(bytes, MANY * size, (uint32_t)dtype);
	for (int i = 0; i < MANY / 2; i++) {
		float value = ldexpf(1.0f + (float)(i % 37) / 32, i % 80 - 40);

		if (i % 3 == 0)
			value = (float)(i - 250);
		if (i % 2 == 0)
			value = -value;
		element_convert(type, bytes + (size_t)i * size,
		    element_type(WEIR_FLOAT32), &value);
	}
}

static void
convert_both_ways(enum weir_dtype to, enum weir_dtype from)
{
	static char source[MANY * 16 + 8], wanted[MANY * 16 + 8];
	static char got[MANY * 16 + 8];
	struct weir_tensor *host, *result, *device, *converted;

	interesting(from, source);
	host = tensor_of_bytes(source, from, SHAPE(MANY));
	result = tensor_of_bytes(wanted, to, SHAPE(MANY));
	EXPECT_OK(weir_tensor_copy(result, host, NULL, 0));
	device = tensor_on(WEIR_MEMORY_DEVICE, from, SHAPE(MANY));
	converted = tensor_on(WEIR_MEMORY_DEVICE, to, SHAPE(MANY));
	EXPECT_OK(weir_tensor_copy(device, host, NULL, 0));
	EXPECT_OK(weir_tensor_copy(converted, device, NULL, 0));
	tensor_get(converted, got);
	expect_same(to, from, got, wanted, source);
	weir_tensor_destroy(host);
	weir_tensor_destroy(result);
	weir_tensor_destroy(device);
	weir_tensor_destroy(converted);
}

TEST_TIMEOUT(every_type_is_converted_to_every_other_as_by_the_host, 300)
{
	for (int from = 1; from <= LAST_DTYPE; from++) {
		for (int to = 1; to <= LAST_DTYPE; to++)
			convert_both_ways(
			    (enum weir_dtype)to, (enum weir_dtype)from);
	}
	expect_healthy();
}

/* One float32 as another type's bits. */
static uint32_t
bits_of(enum weir_dtype dtype, float value)
{
	uint32_t bits = 0;

	element_convert(
	    element_type(dtype), &bits, element_type(WEIR_FLOAT32), &value);
	return bits;
}

static float
value_of(enum weir_dtype dtype, uint32_t bits)
{
	float value;

	element_convert(
	    element_type(WEIR_FLOAT32), &value, element_type(dtype), &bits);
	return value;
}

TEST(numbers_are_those_of_the_formats)
{
	EXPECT_EQ(bits_of(WEIR_FLOAT16, 1), 0x3c00);
	EXPECT_EQ(bits_of(WEIR_FLOAT16, 65504), 0x7bff);
	EXPECT_EQ(bits_of(WEIR_FLOAT16, 65520), 0x7c00);
	EXPECT_EQ(bits_of(WEIR_FLOAT16, 65519), 0x7bff);
	EXPECT_EQ(bits_of(WEIR_FLOAT16, 5.9604645e-8f), 0x0001);
	EXPECT_EQ(bits_of(WEIR_FLOAT16, 2.9802322e-8f), 0x0000);
	EXPECT_EQ(bits_of(WEIR_FLOAT16, 2.9802326e-8f), 0x0001);
	EXPECT_EQ(bits_of(WEIR_FLOAT16, -2), 0xc000);
	EXPECT_EQ(bits_of(WEIR_BFLOAT16, 1), 0x3f80);
	EXPECT_EQ(bits_of(WEIR_BFLOAT16, 1.00390625f), 0x3f80);
	EXPECT_EQ(bits_of(WEIR_BFLOAT16, 1.01171875f), 0x3f82);
	EXPECT_EQ(bits_of(WEIR_FLOAT8_E4M3FN, 448), 0x7e);
	EXPECT_EQ(bits_of(WEIR_FLOAT8_E4M3FN, 464), 0x7e);
	EXPECT_EQ(bits_of(WEIR_FLOAT8_E4M3FN, 465), 0x7f);
	EXPECT_EQ(bits_of(WEIR_FLOAT8_E4M3FN, 0.001953125f), 0x01);
	EXPECT_EQ(bits_of(WEIR_FLOAT8_E4M3FN, -1), 0xb8);
	EXPECT_EQ(bits_of(WEIR_FLOAT8_E5M2, 57344), 0x7b);
	EXPECT_EQ(bits_of(WEIR_FLOAT8_E5M2, 61440), 0x7c);
	EXPECT_EQ(bits_of(WEIR_FLOAT8_E4M3FNUZ, 240), 0x7f);
	EXPECT_EQ(bits_of(WEIR_FLOAT8_E4M3FNUZ, 249), 0x80);
	EXPECT_EQ(bits_of(WEIR_FLOAT8_E4M3FNUZ, -0.0f), 0x00);
	EXPECT_EQ(bits_of(WEIR_FLOAT8_E5M2FNUZ, 57344), 0x7f);
	EXPECT_EQ(bits_of(WEIR_FLOAT8_E4M3B11FNUZ, 30), 0x7f);
	EXPECT_EQ(bits_of(WEIR_FLOAT8_E3M4, 15.5f), 0x6f);
	EXPECT_EQ(bits_of(WEIR_FLOAT8_E3M4, 16), 0x70);
	EXPECT_EQ(bits_of(WEIR_FLOAT8_E4M3, 240), 0x77);
	EXPECT_EQ(bits_of(WEIR_FLOAT8_E8M0FNU, 1), 0x7f);
	EXPECT_EQ(bits_of(WEIR_FLOAT8_E8M0FNU, 3), 0x81);
	EXPECT_EQ(bits_of(WEIR_FLOAT8_E8M0FNU, INFINITY), 0xff);
	EXPECT_EQ(value_of(WEIR_FLOAT8_E8M0FNU, 0x00), ldexpf(1, -127));
	EXPECT_EQ(value_of(WEIR_FLOAT8_E5M2, 0x01), ldexpf(1, -16));
	EXPECT_EQ(value_of(WEIR_FLOAT16, 0xfc00), -INFINITY);
	EXPECT(isnan(value_of(WEIR_FLOAT8_E4M3FN, 0xff)));
	EXPECT(isnan(value_of(WEIR_FLOAT8_E5M2FNUZ, 0x80)));
	EXPECT_EQ(bits_of(WEIR_INT8, -129.5f), 0x80);
	EXPECT_EQ(bits_of(WEIR_INT8, 1e9f), 0x7f);
	EXPECT_EQ(bits_of(WEIR_UINT8, -1), 0);
	EXPECT_EQ(bits_of(WEIR_UINT8, 255.9f), 255);
	EXPECT_EQ(bits_of(WEIR_INT32, NAN), 0);
	EXPECT_EQ(bits_of(WEIR_INT16, -3.9f), 0xfffd);
	EXPECT_EQ(bits_of(WEIR_BOOL, 0.1f), 1);
	EXPECT_EQ(bits_of(WEIR_BOOL, -0.0f), 0);
	EXPECT_EQ(bits_of(WEIR_BOOL, NAN), 1);
}

TEST(every_code_of_eight_bits_comes_back_from_float32)
{
	for (int dtype = WEIR_FLOAT8_E3M4; dtype <= LAST_DTYPE; dtype++) {
		for (uint32_t code = 0; code < 256; code++) {
			float value = value_of((enum weir_dtype)dtype, code);

			if (!isnan(value))
				EXPECT_EQ(
				    bits_of((enum weir_dtype)dtype, value),
				    code);
		}
	}
	for (uint32_t code = 0; code < 65536; code++) {
		float value = value_of(WEIR_FLOAT16, code);

		if (!isnan(value))
			EXPECT_EQ(bits_of(WEIR_FLOAT16, value), code);
	}
}

/* ---- Strides ------------------------------------------------------------ */

static const enum weir_memory memories[] = { WEIR_MEMORY_DEVICE,
	WEIR_MEMORY_PINNED, WEIR_MEMORY_HOST };

/* Element i, j, k of a 5 x 40 x 33 tensor of int32 that counts. */
static int32_t
counted(int64_t i, int64_t j, int64_t k)
{
	return (int32_t)((i * 40 + j) * 33 + k);
}

static struct weir_tensor *
counting_tensor(enum weir_memory memory)
{
	static int32_t numbers[5 * 40 * 33];
	struct weir_tensor *tensor =
	    tensor_on(memory, WEIR_INT32, SHAPE(5, 40, 33));

	for (int i = 0; i < 5 * 40 * 33; i++)
		numbers[i] = i;
	tensor_put(tensor, numbers);
	return tensor;
}

/* The tensor's dimensions in reverse, without the first two of the last and
 * with every second of the middle one, last first. */
static struct weir_tensor *
odd_view(const struct weir_tensor *tensor)
{
	struct weir_tensor *a, *b, *c;

	EXPECT_OK(weir_tensor_narrow(tensor, 2, 2, 31, &a));
	EXPECT_OK(weir_tensor_slice(
	    a, 1, &(struct weir_slice){ INT64_MAX, INT64_MIN, -2 }, &b));
	EXPECT_OK(weir_tensor_permute(b, (int[]){ 2, 1, 0 }, &c));
	weir_tensor_destroy(a);
	weir_tensor_destroy(b);
	return c;
}

TEST(views_with_gaps_are_copied_between_all_kinds_of_memory)
{
	static const enum weir_dtype dtypes[] = { WEIR_INT32, WEIR_FLOAT64,
		WEIR_INT16 };
	static double got[31 * 20 * 5];

	for (int m = 0; m < 9; m++) {
		struct weir_tensor *whole = counting_tensor(memories[m % 3]);
		struct weir_tensor *from = odd_view(whole);

		for (int d = 0; d < 3; d++) {
			struct weir_tensor *to = tensor_on(
			    memories[m / 3], dtypes[d], SHAPE(31, 20, 5));
			struct weir_tensor *wide;

			EXPECT_OK(weir_tensor_copy(to, from, NULL, 0));
			EXPECT_OK(weir_tensor_to(to, WEIR_FLOAT64,
			    &(struct weir_place){ sizeof(struct weir_place),
				WEIR_MEMORY_HOST, 0, NULL },
			    0, &wide));
			tensor_get(wide, got);
			for (int i = 0; i < 31 * 20 * 5; i++)
				EXPECT_EQ(got[i],
				    counted(i % 5, 39 - 2 * (i / 5 % 20),
					i / 100 + 2));
			weir_tensor_destroy(wide);
			weir_tensor_destroy(to);
		}
		weir_tensor_destroy(from);
		weir_tensor_destroy(whole);
	}
	expect_healthy();
}

TEST(a_view_with_gaps_is_written_and_nothing_beside_it)
{
	static int32_t source[31 * 20 * 5], after[5 * 40 * 33];

	for (int i = 0; i < 31 * 20 * 5; i++)
		source[i] = -i - 1;
	for (int m = 0; m < 9; m++) {
		struct weir_tensor *whole = counting_tensor(memories[m % 3]);
		struct weir_tensor *to = odd_view(whole);
		struct weir_tensor *from =
		    tensor_on(memories[m / 3], WEIR_INT32, SHAPE(31, 20, 5));

		tensor_put(from, source);
		EXPECT_OK(weir_tensor_copy(to, from, NULL, 0));
		tensor_get(whole, after);
		for (int i = 0; i < 5 * 40 * 33; i++) {
			int k = i % 33, j = i / 33 % 40, n = i / 33 / 40;
			int at = ((k - 2) * 20 + (39 - j) / 2) * 5 + n;

			EXPECT_EQ(
			    after[i], k >= 2 && j % 2 == 1 ? source[at] : i);
		}
		weir_tensor_destroy(from);
		weir_tensor_destroy(to);
		weir_tensor_destroy(whole);
	}
	expect_healthy();
}

/* Three matrices, each transposed. */
static void
expect_transposed(enum weir_dtype dtype, size_t rows, size_t columns)
{
	enum { MOST = 3 * 300 * 140 * 16 };
	static char source[MOST], got[MOST];
	size_t size = weir_dtype_size(dtype);
	struct weir_tensor *from = tensor_on(WEIR_MEMORY_DEVICE, dtype,
	    SHAPE(3, (int64_t)rows, (int64_t)columns));
	struct weir_tensor *to = tensor_on(WEIR_MEMORY_DEVICE, dtype,
	    SHAPE(3, (int64_t)columns, (int64_t)rows));
	struct weir_tensor *view;

	EXPECT_LE(3 * rows * columns * size, MOST);
	scramble(source, sizeof(source), 7);
	tensor_put(from, source);
	EXPECT_OK(weir_tensor_transpose(from, 1, 2, &view));
	EXPECT_OK(weir_tensor_copy(to, view, NULL, 0));
	tensor_get(to, got);
	for (size_t i = 0; i < 3 * rows * columns; i++) {
		size_t row = i % rows, column = i / rows % columns;
		size_t n = i / rows / columns;

		EXPECT_MEM_EQ(got + i * size,
		    source + ((n * rows + row) * columns + column) * size,
		    size);
	}
	weir_tensor_destroy(view);
	weir_tensor_destroy(from);
	weir_tensor_destroy(to);
}

TEST(transposes_of_every_size_of_element_are_right)
{
	static const enum weir_dtype dtypes[] = { WEIR_UINT8, WEIR_INT16,
		WEIR_INT32, WEIR_INT64, WEIR_COMPLEX128 };

	for (int d = 0; d < 5; d++)
		expect_transposed(dtypes[d], 150, 83);
	expect_healthy();
}

/* Rows of whole words, of one and of several tiles, and with a rest. */
TEST(transposes_of_elements_of_one_and_two_bytes_go_by_words)
{
	static const size_t sides[][2] = { { 128, 128 }, { 64, 64 }, { 16, 20 },
		{ 300, 140 }, { 32, 132 }, { 130, 130 }, { 130, 132 } };

	for (size_t i = 0; i < sizeof(sides) / sizeof(sides[0]); i++) {
		expect_transposed(WEIR_UINT8, sides[i][0], sides[i][1]);
		expect_transposed(WEIR_FLOAT16, sides[i][0], sides[i][1]);
	}
	expect_healthy();
}

TEST(more_dimensions_than_a_kernel_has_are_copied)
{
	enum { N = 1 << 12 };
	static int32_t source[N], got[N];
	struct weir_tensor *from, *view, *to;
	int64_t shape[12];
	int dims[12];

	for (int i = 0; i < 12; i++) {
		shape[i] = 2;
		dims[i] = i % 2 == 0 ? 11 - i : i - 1;
	}
	/* 11, 0, 9, 2, ... : no two neighbours stay neighbours. */
	for (int i = 0; i < N; i++)
		source[i] = i;
	from = tensor_on(WEIR_MEMORY_DEVICE, WEIR_INT32, 12, shape);
	to = tensor_on(WEIR_MEMORY_DEVICE, WEIR_INT32, 12, shape);
	tensor_put(from, source);
	EXPECT_OK(weir_tensor_permute(from, dims, &view));
	EXPECT_OK(weir_tensor_copy(to, view, NULL, 0));
	tensor_get(to, got);
	for (int i = 0; i < N; i++) {
		int wanted = 0;

		for (int d = 0; d < 12; d++)
			wanted |= (i >> (11 - d) & 1) << (11 - dims[d]);
		EXPECT_EQ(got[i], wanted);
	}
	weir_tensor_destroy(view);
	weir_tensor_destroy(from);
	weir_tensor_destroy(to);
}

TEST(a_smaller_source_is_repeated)
{
	float row[4] = { 1, 2, 3, 4 }, got[12];
	struct weir_tensor *from =
	    tensor_on(WEIR_MEMORY_DEVICE, WEIR_FLOAT32, SHAPE(4));
	struct weir_tensor *to =
	    tensor_on(WEIR_MEMORY_DEVICE, WEIR_FLOAT32, SHAPE(3, 4));

	tensor_put(from, row);
	EXPECT_OK(weir_tensor_copy(to, from, NULL, 0));
	tensor_get(to, got);
	for (int i = 0; i < 12; i++)
		EXPECT_EQ(got[i], row[i % 4]);
	EXPECT_STATUS(weir_tensor_copy(from, to, NULL, 0), WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), "[3, 4]");
	weir_tensor_destroy(from);
	weir_tensor_destroy(to);
}

TEST(tensors_that_overlap_are_copied_as_if_read_first)
{
	for (int m = 0; m < 3; m++) {
		int32_t numbers[100], got[100];
		struct weir_tensor *whole =
		    tensor_on(memories[m], WEIR_INT32, SHAPE(100));
		struct weir_tensor *from, *to;

		for (int i = 0; i < 100; i++)
			numbers[i] = i;
		tensor_put(whole, numbers);
		EXPECT_OK(weir_tensor_narrow(whole, 0, 0, 90, &from));
		EXPECT_OK(weir_tensor_narrow(whole, 0, 10, 90, &to));
		EXPECT_OK(weir_tensor_copy(to, from, NULL, 0));
		tensor_get(whole, got);
		for (int i = 0; i < 100; i++)
			EXPECT_EQ(got[i], i < 10 ? i : i - 10);
		weir_tensor_destroy(from);
		weir_tensor_destroy(to);
		weir_tensor_destroy(whole);
	}
	expect_healthy();
}

TEST(fills_are_converted_and_fit_every_stride)
{
	static int16_t got[40 * 33];

	for (int m = 0; m < 3; m++) {
		struct weir_tensor *whole =
		    tensor_on(memories[m], WEIR_INT16, SHAPE(40, 33));
		struct weir_tensor *part;
		double value = -7.9;

		EXPECT_OK(
		    weir_tensor_fill(whole, WEIR_INT32, &(int){ 300 }, NULL));
		EXPECT_OK(weir_tensor_narrow(whole, 1, 1, 30, &part));
		EXPECT_OK(weir_tensor_fill(part, WEIR_FLOAT64, &value, NULL));
		tensor_get(whole, got);
		for (int i = 0; i < 40 * 33; i++)
			EXPECT_EQ(
			    got[i], i % 33 >= 1 && i % 33 <= 30 ? -7 : 300);
		weir_tensor_destroy(part);
		weir_tensor_destroy(whole);
	}
	expect_healthy();
}

TEST(fills_of_every_size_of_element_are_right)
{
	static char got[1000 * 16];

	for (int dtype = 1; dtype <= LAST_DTYPE; dtype++) {
		size_t size = weir_dtype_size((enum weir_dtype)dtype);
		struct weir_tensor *tensor = tensor_on(
		    WEIR_MEMORY_DEVICE, (enum weir_dtype)dtype, SHAPE(999));
		double value[2] = { 1.5, -2 };
		char wanted[16];

		EXPECT_OK(
		    weir_tensor_fill(tensor, WEIR_COMPLEX128, value, NULL));
		tensor_get(tensor, got);
		element_convert(element_type((unsigned)dtype), wanted,
		    element_type(WEIR_COMPLEX128), value);
		for (int i = 0; i < 999; i++)
			EXPECT_MEM_EQ(got + (size_t)i * size, wanted, size);
		weir_tensor_destroy(tensor);
	}
	expect_healthy();
}

/* ---- Streams ------------------------------------------------------------ */

TEST(a_copy_that_does_not_block_leaves_the_stream_busy)
{
	weir_stream stream = new_stream();
	struct weir_tensor *device =
	    tensor_stream_on(stream, WEIR_FLOAT32, SHAPE(1024));
	struct weir_tensor *pinned =
	    tensor_on(WEIR_MEMORY_PINNED, WEIR_FLOAT32, SHAPE(1024));

	EXPECT_OK(
	    weir_tensor_fill(device, WEIR_FLOAT32, &(float){ 1 }, stream));
	finish(stream);
	busy(stream, LATE_MS);
	EXPECT_OK(
	    weir_tensor_copy(device, pinned, stream, WEIR_COPY_NON_BLOCKING));
	EXPECT(!is_done(stream));
	EXPECT_OK(
	    weir_tensor_copy(pinned, device, stream, WEIR_COPY_NON_BLOCKING));
	EXPECT(!is_done(stream));
	EXPECT_OK(weir_tensor_copy(pinned, device, stream, 0));
	EXPECT(is_done(stream));
	weir_tensor_destroy(device);
	weir_tensor_destroy(pinned);
	expect_healthy();
}

TEST(the_host_side_is_pinned_only_if_the_copy_does_not_block)
{
	struct weir_tensor *device = tensor_on(
			       WEIR_MEMORY_DEVICE, WEIR_FLOAT32, SHAPE(16)),
			   *host;
	struct weir_place place = place_of(WEIR_MEMORY_HOST, 0, NULL);

	EXPECT_OK(
	    weir_tensor_fill(device, WEIR_FLOAT32, &(float){ 1.5f }, NULL));
	EXPECT_OK(weir_tensor_to(device, WEIR_FLOAT16, &place, 0, &host));
	EXPECT_EQ(tensor_info(host).memory, WEIR_MEMORY_HOST);
	EXPECT(!weir_host_is_pinned(tensor_info(host).data));
	EXPECT_EQ(*(uint16_t *)tensor_info(host).data, 0x3e00);
	weir_tensor_destroy(host);
	EXPECT_OK(weir_tensor_to(
	    device, WEIR_FLOAT16, &place, WEIR_COPY_NON_BLOCKING, &host));
	EXPECT_EQ(tensor_info(host).memory, WEIR_MEMORY_PINNED);
	EXPECT(weir_host_is_pinned(tensor_info(host).data));
	EXPECT_OK(weir_tensor_synchronize(host));
	EXPECT_EQ(*(uint16_t *)tensor_info(host).data, 0x3e00);
	weir_tensor_destroy(host);
	weir_tensor_destroy(device);
}

TEST(memory_of_a_copy_in_flight_is_not_used_again)
{
	weir_stream stream = new_stream();
	struct weir_tensor *pinned =
	    tensor_on(WEIR_MEMORY_PINNED, WEIR_UINT8, SHAPE(MIB));
	struct weir_tensor *device = tensor_on(
			       WEIR_MEMORY_DEVICE, WEIR_UINT8, SHAPE(MIB)),
			   *again;
	void *pinned_at = tensor_info(pinned).data;
	void *device_at = tensor_info(device).data;

	EXPECT_OK(weir_stream_synchronize(NULL));
	memset(pinned_at, 7, MIB);
	busy(stream, LATE_MS);
	EXPECT_OK(
	    weir_tensor_copy(device, pinned, stream, WEIR_COPY_NON_BLOCKING));
	weir_tensor_destroy(pinned);
	weir_tensor_destroy(device);
	pinned = tensor_on(WEIR_MEMORY_PINNED, WEIR_UINT8, SHAPE(MIB));
	again = tensor_on(WEIR_MEMORY_DEVICE, WEIR_UINT8, SHAPE(MIB));
	EXPECT(!is_done(stream));
	EXPECT_NE(tensor_info(pinned).data, pinned_at);
	EXPECT_NE(tensor_info(again).data, device_at);
	weir_tensor_destroy(pinned);
	weir_tensor_destroy(again);
	finish(stream);
	expect_healthy();
}

TEST(joining_a_stream_puts_it_behind_all_uses)
{
	weir_stream writer = new_stream(), reader = new_stream();
	struct weir_tensor *device =
	    tensor_stream_on(reader, WEIR_INT32, SHAPE(256));
	int32_t got[256];

	EXPECT_OK(weir_tensor_join(device, writer));
	busy(writer, LATE_MS);
	EXPECT_OK(weir_tensor_fill(device, WEIR_INT32, &(int){ 42 }, writer));
	EXPECT_OK(weir_tensor_join(device, reader));
	tensor_get(device, got);
	EXPECT_EQ(got[0], 42);
	EXPECT_EQ(got[255], 42);
	EXPECT_OK(weir_stream_destroy(writer));
	EXPECT_OK(weir_tensor_join(device, reader));
	EXPECT_OK(weir_tensor_synchronize(device));
	weir_tensor_destroy(device);
	expect_healthy();
}

static unsigned gives;

static void
count_give(void *closure, void *data)
{
	EXPECT(is_done(*(weir_stream *)closure));
	(void)data;
	gives++;
}

TEST(foreign_memory_is_given_back_after_the_work_on_it)
{
	weir_stream stream = new_stream();
	void *memory = take(MIB, NULL);
	struct weir_foreign foreign = { .struct_size = sizeof(foreign),
		.data = memory,
		.bytes = MIB,
		.memory = WEIR_MEMORY_DEVICE,
		.give = count_give,
		.closure = &stream };
	struct weir_layout layout = { .struct_size = sizeof(layout),
		.dtype = WEIR_UINT8,
		.ndim = 1,
		.shape = (int64_t[]){ MIB } };
	struct weir_storage *storage;
	struct weir_tensor *tensor;

	EXPECT_OK(weir_storage_wrap(&foreign, &storage));
	EXPECT_OK(weir_tensor_over(storage, &layout, stream, &tensor));
	weir_storage_release(storage);
	EXPECT_OK(weir_stream_wait_stream(stream, NULL));
	busy(stream, LATE_MS);
	EXPECT_OK(weir_tensor_fill(tensor, WEIR_UINT8, "x", stream));
	weir_tensor_destroy(tensor);
	EXPECT_EQ(gives, 1);
	give(memory);
}

TEST(the_owner_s_stream_of_foreign_memory_comes_after_the_work_on_it)
{
	weir_stream stream = new_stream(), owner = new_stream();
	void *memory = take(MIB, owner);
	struct weir_foreign foreign = { .struct_size = sizeof(foreign),
		.data = memory,
		.bytes = MIB,
		.memory = WEIR_MEMORY_DEVICE,
		.has_stream = true,
		.stream = owner };
	struct weir_layout layout = { .struct_size = sizeof(layout),
		.dtype = WEIR_UINT8,
		.ndim = 1,
		.shape = (int64_t[]){ MIB } };
	struct weir_storage *storage;
	struct weir_tensor *tensor;

	EXPECT_OK(weir_storage_wrap(&foreign, &storage));
	EXPECT_OK(weir_tensor_over(storage, &layout, stream, &tensor));
	weir_storage_release(storage);
	EXPECT_OK(weir_tensor_join(tensor, stream));
	busy(stream, LATE_MS);
	EXPECT_OK(weir_tensor_fill(tensor, WEIR_UINT8, "x", stream));
	weir_tensor_destroy(tensor);
	EXPECT(!is_done(stream));
	fill(memory, MIB, 'y', owner);
	expect_filled(memory, MIB, 'y', owner);
	EXPECT(is_done(stream));
	give(memory);
	expect_healthy();
}

/* The owner's stream is among many, wherever their addresses lie. */
TEST(the_owner_s_stream_is_put_behind_all_others_of_many)
{
	enum { MANY = 20 };
	weir_stream streams[MANY], owner;
	void *memory;

	for (int i = 0; i < MANY; i++)
		streams[i] = new_stream();
	owner = new_stream();
	memory = take(MIB, owner);
	struct weir_foreign foreign = { .struct_size = sizeof(foreign),
		.data = memory,
		.bytes = MIB,
		.memory = WEIR_MEMORY_DEVICE,
		.has_stream = true,
		.stream = owner };
	struct weir_layout layout = { .struct_size = sizeof(layout),
		.dtype = WEIR_UINT8,
		.ndim = 1,
		.shape = (int64_t[]){ MIB } };
	struct weir_storage *storage;
	struct weir_tensor *tensor;

	EXPECT_OK(weir_storage_wrap(&foreign, &storage));
	EXPECT_OK(weir_tensor_over(storage, &layout, owner, &tensor));
	weir_storage_release(storage);
	for (int i = 0; i < 2 * MANY; i++)
		EXPECT_OK(weir_tensor_record(tensor, streams[i * 7 % MANY]));
	busy(streams[3], LATE_MS);
	weir_tensor_destroy(tensor);
	EXPECT(!is_done(owner));
	finish(owner);
	EXPECT(is_done(streams[3]));
	give(memory);
	expect_healthy();
}

TEST(copies_within_a_device_can_be_captured)
{
	weir_stream stream = new_stream();
	struct weir_tensor *from =
	    tensor_stream_on(stream, WEIR_INT32, SHAPE(64, 64));
	struct weir_tensor *to =
	    tensor_stream_on(stream, WEIR_FLOAT32, SHAPE(64, 64));
	struct weir_tensor *host =
	    tensor_on(WEIR_MEMORY_PINNED, WEIR_FLOAT32, SHAPE(64, 64));

	finish(stream);
	capture_begin(stream);
	EXPECT_OK(weir_tensor_copy(to, from, stream, 0));
	EXPECT_STATUS(weir_tensor_copy(host, to, stream, 0), WEIR_ECAPTURE);
	EXPECT_OK(weir_tensor_copy(host, to, stream, WEIR_COPY_NON_BLOCKING));
	capture_end(stream);
	weir_tensor_destroy(from);
	weir_tensor_destroy(to);
	weir_tensor_destroy(host);
}

TEST(copies_between_devices_convert_and_reorder)
{
	struct weir_place other;
	struct weir_tensor *from, *view, *to;
	static int32_t numbers[30 * 50];
	static double got[30 * 50];

	device_need(2);
	other = place_of(WEIR_MEMORY_DEVICE, 1, NULL);
	for (int i = 0; i < 30 * 50; i++)
		numbers[i] = i;
	from = tensor_on(WEIR_MEMORY_DEVICE, WEIR_INT32, SHAPE(30, 50));
	tensor_put(from, numbers);
	EXPECT_OK(weir_tensor_transpose(from, 0, 1, &view));
	EXPECT_OK(weir_tensor_to(view, WEIR_FLOAT64, &other, 0, &to));
	EXPECT_EQ(tensor_info(to).device, 1);
	tensor_get(to, got);
	for (int i = 0; i < 30 * 50; i++)
		EXPECT_EQ(got[i], i % 30 * 50 + i / 30);
	weir_tensor_destroy(to);
	weir_tensor_destroy(view);
	weir_tensor_destroy(from);
	expect_healthy();
}

TEST(a_stream_of_another_device_is_refused)
{
	struct weir_tensor *a, *b;
	weir_stream stream;

	device_need(2);
	EXPECT_OK(weir_stream_create(1, 0, &stream));
	a = tensor_on(WEIR_MEMORY_DEVICE, WEIR_INT32, SHAPE(4));
	b = tensor_on(WEIR_MEMORY_DEVICE, WEIR_INT32, SHAPE(4));
	EXPECT_STATUS(weir_tensor_copy(a, b, stream, 0), WEIR_EINVAL);
	EXPECT_STATUS(
	    weir_tensor_fill(a, WEIR_INT32, &(int){ 1 }, stream), WEIR_EINVAL);
	EXPECT_STATUS(weir_tensor_copy(a, b, WEIR_STREAM_ANY, 0), WEIR_EINVAL);
	EXPECT_STATUS(weir_tensor_copy(a, b, NULL, 0x40), WEIR_EINVAL);
	weir_tensor_destroy(a);
	weir_tensor_destroy(b);
}

TEST(a_tensor_that_is_there_already_is_not_copied)
{
	struct weir_tensor *tensor =
	    tensor_on(WEIR_MEMORY_DEVICE, WEIR_INT32, SHAPE(4, 4));
	struct weir_tensor *same, *view;

	EXPECT_OK(weir_tensor_to(tensor, WEIR_DTYPE_NONE, NULL, 0, &same));
	EXPECT_EQ(tensor_info(same).data, tensor_info(tensor).data);
	weir_tensor_destroy(same);
	EXPECT_OK(weir_tensor_to(
	    tensor, WEIR_DTYPE_NONE, NULL, WEIR_COPY_ALWAYS, &same));
	EXPECT_NE(tensor_info(same).data, tensor_info(tensor).data);
	weir_tensor_destroy(same);
	EXPECT_OK(weir_tensor_transpose(tensor, 0, 1, &view));
	EXPECT_OK(weir_tensor_contiguous(view, NULL, &same));
	EXPECT_NE(tensor_info(same).data, tensor_info(tensor).data);
	EXPECT(tensor_info(same).contiguous);
	weir_tensor_destroy(same);
	weir_tensor_destroy(view);
	weir_tensor_destroy(tensor);
}
