/*
 * Views: shapes, strides and offsets, and refused ones.
 */
#include <string.h>

#include "tests/tensor/support.h"

static void
expect_layout(const struct weir_tensor *tensor, int ndim, const int64_t *shape,
    const int64_t *strides, size_t offset)
{
	struct weir_tensor_info info = tensor_info(tensor);

	EXPECT_EQ(info.ndim, ndim);
	for (int i = 0; i < ndim; i++) {
		EXPECT_EQ(info.shape[i], shape[i]);
		EXPECT_EQ(info.strides[i], strides[i]);
	}
	EXPECT_EQ(info.offset_bytes, offset);
}

static struct weir_tensor *
counting(int ndim, const int64_t *shape)
{
	return tensor_on(WEIR_MEMORY_HOST, WEIR_FLOAT32, ndim, shape);
}

TEST(a_tensor_of_host_memory_needs_no_driver)
{
	struct weir_tensor *tensor = counting(SHAPE(2, 3, 4));

	expect_layout(tensor, SHAPE(2, 3, 4), (int64_t[]){ 12, 4, 1 }, 0);
	EXPECT(tensor_info(tensor).contiguous);
	EXPECT_EQ(tensor_info(tensor).elements, 24);
	EXPECT_EQ(tensor_info(tensor).bytes, 96);
	EXPECT_NULL((void *)driver_peek());
	weir_tensor_destroy(tensor);
}

TEST(a_scalar_has_no_dimension_and_one_element)
{
	struct weir_tensor *tensor = counting(0, NULL);

	EXPECT_EQ(tensor_info(tensor).elements, 1);
	EXPECT_EQ(tensor_info(tensor).bytes, 4);
	EXPECT_NOT_NULL(tensor_info(tensor).data);
	weir_tensor_destroy(tensor);
}

TEST(an_empty_tensor_has_no_memory)
{
	struct weir_tensor *tensor = counting(SHAPE(3, 0, INT64_MAX));

	EXPECT_EQ(tensor_info(tensor).elements, 0);
	EXPECT_NULL(tensor_info(tensor).data);
	weir_tensor_destroy(tensor);
}

TEST(impossible_shapes_are_refused_with_their_values)
{
	struct weir_place place = place_of(WEIR_MEMORY_HOST, 0, NULL);
	struct weir_tensor *out = NULL;

	EXPECT_STATUS(weir_tensor_empty(WEIR_FLOAT32,
			  SHAPE(INT64_MAX, INT64_MAX), &place, &out),
	    WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), "9223372036854775807");
	EXPECT_STATUS(
	    weir_tensor_empty(WEIR_FLOAT32, SHAPE(2, -3), &place, &out),
	    WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), "-3");
	EXPECT_STATUS(
	    weir_tensor_empty(WEIR_DTYPE_NONE, SHAPE(2), &place, &out),
	    WEIR_EINVAL);
	EXPECT_STATUS(weir_tensor_empty(WEIR_FLOAT32, 33, NULL, &place, &out),
	    WEIR_EINVAL);
	EXPECT_STATUS(weir_tensor_empty(WEIR_FLOAT32, -1, NULL, &place, &out),
	    WEIR_EINVAL);
	EXPECT_STATUS(
	    weir_tensor_empty((enum weir_dtype)99, SHAPE(2), &place, &out),
	    WEIR_EINVAL);
	EXPECT_NULL(out);
}

TEST(slices_are_those_of_python)
{
	static const struct {
		int64_t start, stop, step, offset, length;
	} cases[] = {
		{ 0, INT64_MAX, 1, 0, 10 },
		{ 2, 5, 1, 2, 3 },
		{ -3, INT64_MAX, 1, 7, 3 },
		{ 0, -1, 2, 0, 5 },
		{ 1, 100, 3, 1, 3 },
		{ 5, 2, 1, 5, 0 },
		{ -100, 3, 1, 0, 3 },
		{ INT64_MAX, INT64_MIN, -1, 9, 10 },
		{ 8, 2, -2, 8, 3 },
		{ -1, -11, -3, 9, 4 },
		{ 0, INT64_MAX, INT64_MAX, 0, 1 },
		{ INT64_MAX, INT64_MIN, INT64_MIN, 9, 1 },
		{ INT64_MIN, INT64_MAX, 4, 0, 3 },
	};
	struct weir_tensor *tensor = counting(SHAPE(10)), *view;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct weir_slice slice = { cases[i].start, cases[i].stop,
			cases[i].step };

		EXPECT_OK(weir_tensor_slice(tensor, 0, &slice, &view));
		EXPECT_EQ(tensor_info(view).shape[0], cases[i].length);
		if (cases[i].length > 0)
			EXPECT_EQ(tensor_info(view).offset_bytes,
			    (size_t)cases[i].offset * 4);
		if (cases[i].length > 1)
			EXPECT_EQ(tensor_info(view).strides[0], cases[i].step);
		weir_tensor_destroy(view);
	}
	EXPECT_STATUS(weir_tensor_slice(
			  tensor, 0, &(struct weir_slice){ 0, 1, 0 }, &view),
	    WEIR_EINVAL);
	EXPECT_STATUS(weir_tensor_slice(
			  tensor, 1, &(struct weir_slice){ 0, 1, 1 }, &view),
	    WEIR_EINVAL);
	weir_tensor_destroy(tensor);
}

TEST(narrow_and_select_stay_within_their_dimension)
{
	struct weir_tensor *tensor = counting(SHAPE(4, 5)), *view;

	EXPECT_OK(weir_tensor_narrow(tensor, 1, 2, 3, &view));
	expect_layout(view, SHAPE(4, 3), (int64_t[]){ 5, 1 }, 8);
	EXPECT(!tensor_info(view).contiguous);
	weir_tensor_destroy(view);
	EXPECT_STATUS(weir_tensor_narrow(tensor, 1, 3, 3, &view), WEIR_EINVAL);
	EXPECT_STATUS(
	    weir_tensor_narrow(tensor, 1, INT64_MAX, 3, &view), WEIR_EINVAL);
	EXPECT_OK(weir_tensor_select(tensor, 0, -1, &view));
	expect_layout(view, SHAPE(5), (int64_t[]){ 1 }, 60);
	weir_tensor_destroy(view);
	EXPECT_STATUS(weir_tensor_select(tensor, 0, 4, &view), WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), "no index 4");
	EXPECT_STATUS(weir_tensor_select(tensor, 0, -5, &view), WEIR_EINVAL);
	EXPECT_STATUS(weir_tensor_select(tensor, 2, 0, &view), WEIR_EINVAL);
	weir_tensor_destroy(tensor);
}

TEST(dimensions_change_places)
{
	struct weir_tensor *tensor = counting(SHAPE(2, 3, 4)), *view;

	EXPECT_OK(weir_tensor_permute(tensor, (int[]){ 2, 0, -2 }, &view));
	expect_layout(view, SHAPE(4, 2, 3), (int64_t[]){ 1, 12, 4 }, 0);
	weir_tensor_destroy(view);
	EXPECT_STATUS(weir_tensor_permute(tensor, (int[]){ 0, 1, 1 }, &view),
	    WEIR_EINVAL);
	EXPECT_STATUS(weir_tensor_permute(tensor, (int[]){ 0, 1, 3 }, &view),
	    WEIR_EINVAL);
	EXPECT_OK(weir_tensor_transpose(tensor, 0, -1, &view));
	expect_layout(view, SHAPE(4, 3, 2), (int64_t[]){ 1, 4, 12 }, 0);
	weir_tensor_destroy(view);
	weir_tensor_destroy(tensor);
}

TEST(expanding_repeats_without_memory)
{
	struct weir_tensor *tensor = counting(SHAPE(3, 1)), *view;

	EXPECT_OK(weir_tensor_expand(tensor, SHAPE(2, -1, 4), &view));
	expect_layout(view, SHAPE(2, 3, 4), (int64_t[]){ 0, 1, 0 }, 0);
	EXPECT_STATUS(weir_tensor_fill(view, WEIR_FLOAT32, &(float){ 1 }, NULL),
	    WEIR_EINVAL);
	weir_tensor_destroy(view);
	EXPECT_STATUS(
	    weir_tensor_expand(tensor, SHAPE(4, 4), &view), WEIR_EINVAL);
	EXPECT_STATUS(weir_tensor_expand(tensor, SHAPE(3), &view), WEIR_EINVAL);
	EXPECT_STATUS(
	    weir_tensor_expand(tensor, SHAPE(-1, 3, 1), &view), WEIR_EINVAL);
	weir_tensor_destroy(tensor);
}

TEST(reshaping_is_a_view_or_an_error)
{
	struct weir_tensor *tensor = counting(SHAPE(4, 6)), *view, *part;

	EXPECT_OK(weir_tensor_reshape(tensor, SHAPE(2, -1, 3), &view));
	expect_layout(view, SHAPE(2, 4, 3), (int64_t[]){ 12, 3, 1 }, 0);
	weir_tensor_destroy(view);
	EXPECT_STATUS(
	    weir_tensor_reshape(tensor, SHAPE(5, -1), &view), WEIR_EINVAL);
	EXPECT_STATUS(
	    weir_tensor_reshape(tensor, SHAPE(-1, -1), &view), WEIR_EINVAL);
	EXPECT_STATUS(
	    weir_tensor_reshape(tensor, SHAPE(4, 5), &view), WEIR_EINVAL);
	EXPECT_OK(weir_tensor_narrow(tensor, 1, 0, 4, &part));
	EXPECT_OK(weir_tensor_reshape(part, SHAPE(2, 2, 2, 2), &view));
	expect_layout(view, SHAPE(2, 2, 2, 2), (int64_t[]){ 12, 6, 2, 1 }, 0);
	weir_tensor_destroy(view);
	EXPECT_STATUS(weir_tensor_reshape(part, SHAPE(16), &view), WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), "contiguous");
	weir_tensor_destroy(part);
	weir_tensor_destroy(tensor);
}

/* Each element of a line is there 2^59 times: strides of an impossible shape
 * would be beyond all numbers. */
TEST(reshaping_a_far_expanded_tensor_is_an_error)
{
	struct weir_tensor *tensor = counting(SHAPE(10)), *view = NULL, *far;
	struct weir_layout layout = { .struct_size = sizeof(layout),
		.dtype = WEIR_INT8,
		.ndim = 2,
		.shape = (int64_t[]){ 1LL << 59, 2 },
		.strides = (int64_t[]){ 0, 8 } };

	EXPECT_OK(weir_tensor_as_strided(tensor, &layout, &far));
	EXPECT_STATUS(
	    weir_tensor_reshape(far, SHAPE(1, 1LL << 60), &view), WEIR_EINVAL);
	EXPECT_NULL(view);
	weir_tensor_destroy(far);
	weir_tensor_destroy(tensor);
}

TEST(no_element_of_a_view_lies_outside_of_its_storage)
{
	struct weir_tensor *tensor = counting(SHAPE(10)), *view = NULL;
	struct weir_layout layout = { .struct_size = sizeof(layout),
		.dtype = WEIR_FLOAT32,
		.ndim = 2,
		.shape = (int64_t[]){ 3, 2 },
		.strides = (int64_t[]){ 4, 1 },
		.offset_bytes = 0 };

	EXPECT_OK(weir_tensor_as_strided(tensor, &layout, &view));
	weir_tensor_destroy(view);
	layout.offset_bytes = 4;
	EXPECT_STATUS(
	    weir_tensor_as_strided(tensor, &layout, &view), WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), "40 bytes");
	layout.offset_bytes = SIZE_MAX - 3;
	EXPECT_STATUS(
	    weir_tensor_as_strided(tensor, &layout, &view), WEIR_EINVAL);
	layout.offset_bytes = 0;
	layout.strides = (int64_t[]){ -4, 1 };
	EXPECT_STATUS(
	    weir_tensor_as_strided(tensor, &layout, &view), WEIR_EINVAL);
	layout.offset_bytes = 32;
	EXPECT_OK(weir_tensor_as_strided(tensor, &layout, &view));
	weir_tensor_destroy(view);
	layout.strides = (int64_t[]){ INT64_MAX, INT64_MAX };
	EXPECT_STATUS(
	    weir_tensor_as_strided(tensor, &layout, &view), WEIR_EINVAL);
	layout.strides = (int64_t[]){ INT64_MIN, 1 };
	EXPECT_STATUS(
	    weir_tensor_as_strided(tensor, &layout, &view), WEIR_EINVAL);
	weir_tensor_destroy(tensor);
}

TEST(dimensions_of_one_come_and_go)
{
	struct weir_tensor *tensor = counting(SHAPE(1, 3, 1)), *view, *back;

	EXPECT_OK(weir_tensor_squeeze(tensor, -1, &view));
	expect_layout(view, SHAPE(1, 3), (int64_t[]){ 3, 1 }, 0);
	EXPECT_STATUS(weir_tensor_squeeze(view, 1, &back), WEIR_EINVAL);
	weir_tensor_destroy(view);
	EXPECT_OK(weir_tensor_squeeze_all(tensor, &view));
	expect_layout(view, SHAPE(3), (int64_t[]){ 1 }, 0);
	EXPECT_OK(weir_tensor_unsqueeze(view, -1, &back));
	expect_layout(back, SHAPE(3, 1), (int64_t[]){ 1, 1 }, 0);
	weir_tensor_destroy(back);
	EXPECT_OK(weir_tensor_unsqueeze(view, 0, &back));
	expect_layout(back, SHAPE(1, 3), (int64_t[]){ 3, 1 }, 0);
	weir_tensor_destroy(back);
	weir_tensor_destroy(view);
	weir_tensor_destroy(tensor);
}

TEST(bytes_can_be_seen_as_another_type)
{
	struct weir_tensor *tensor = counting(SHAPE(2, 6)), *view, *part;

	EXPECT_OK(weir_tensor_view_dtype(tensor, WEIR_FLOAT16, &view));
	expect_layout(view, SHAPE(2, 12), (int64_t[]){ 12, 1 }, 0);
	weir_tensor_destroy(view);
	EXPECT_OK(weir_tensor_view_dtype(tensor, WEIR_COMPLEX64, &view));
	expect_layout(view, SHAPE(2, 3), (int64_t[]){ 3, 1 }, 0);
	weir_tensor_destroy(view);
	EXPECT_STATUS(weir_tensor_view_dtype(tensor, WEIR_COMPLEX128, &view),
	    WEIR_EINVAL);
	EXPECT_OK(weir_tensor_narrow(tensor, 1, 0, 5, &part));
	EXPECT_STATUS(
	    weir_tensor_view_dtype(part, WEIR_FLOAT64, &view), WEIR_EINVAL);
	EXPECT_OK(weir_tensor_view_dtype(part, WEIR_INT32, &view));
	weir_tensor_destroy(view);
	weir_tensor_destroy(part);
	weir_tensor_destroy(tensor);
}

TEST(a_storage_lives_as_long_as_its_last_view)
{
	struct weir_tensor *tensor = counting(SHAPE(4)), *view;
	struct weir_storage_info info = { .struct_size = sizeof(info) };
	struct weir_storage *storage = tensor_info(tensor).storage;

	EXPECT_OK(weir_tensor_alias(tensor, NULL, &view));
	weir_tensor_destroy(tensor);
	EXPECT_OK(weir_storage_info(storage, &info));
	EXPECT_EQ(info.use_count, 1);
	EXPECT_EQ(info.bytes, 16);
	EXPECT_EQ(tensor_info(view).data, info.data);
	weir_tensor_destroy(view);
	weir_tensor_destroy(NULL);
}

static int given;

static void
count_given(void *closure, void *data)
{
	EXPECT_EQ(*(void **)closure, data);
	given++;
}

TEST(foreign_memory_is_given_back_once)
{
	static char bytes[16];
	void *expected = bytes;
	struct weir_foreign foreign = { .struct_size = sizeof(foreign),
		.data = bytes,
		.bytes = sizeof(bytes),
		.memory = WEIR_MEMORY_HOST,
		.read_only = true,
		.give = count_given,
		.closure = &expected };
	struct weir_layout layout = { .struct_size = sizeof(layout),
		.dtype = WEIR_UINT8,
		.ndim = 1,
		.shape = (int64_t[]){ 16 } };
	struct weir_storage *storage;
	struct weir_tensor *tensor;

	EXPECT_OK(weir_storage_wrap(&foreign, &storage));
	EXPECT_OK(weir_tensor_over(storage, &layout, NULL, &tensor));
	weir_storage_release(storage);
	EXPECT_EQ(given, 0);
	EXPECT(tensor_info(tensor).read_only);
	EXPECT_STATUS(
	    weir_tensor_fill(tensor, WEIR_UINT8, "x", NULL), WEIR_EINVAL);
	weir_tensor_destroy(tensor);
	EXPECT_EQ(given, 1);
	foreign.data = NULL;
	EXPECT_STATUS(weir_storage_wrap(&foreign, &storage), WEIR_EINVAL);
	EXPECT_EQ(given, 1);
}

TEST(a_tensor_has_a_description)
{
	struct weir_tensor *tensor = counting(SHAPE(2, 3)), *view;
	char text[128];

	weir_tensor_format(tensor, text, sizeof(text));
	EXPECT_STR_EQ(text, "<weir.tensor float32[2, 3] host>");
	EXPECT_OK(weir_tensor_transpose(tensor, 0, 1, &view));
	weir_tensor_format(view, text, sizeof(text));
	EXPECT_STR_EQ(text, "<weir.tensor float32[3, 2] strides [1, 3] host>");
	weir_tensor_destroy(view);
	weir_tensor_destroy(tensor);
}

TEST(types_have_names_and_sizes)
{
	enum weir_dtype dtype;

	EXPECT_EQ(weir_dtype_size(WEIR_COMPLEX128), 16);
	EXPECT_EQ(weir_dtype_size(WEIR_FLOAT8_E8M0FNU), 1);
	EXPECT_EQ(weir_dtype_size((enum weir_dtype)77), 0);
	EXPECT_STR_EQ(weir_dtype_name(WEIR_BFLOAT16), "bfloat16");
	EXPECT_OK(weir_dtype_find("float8_e4m3fn", &dtype));
	EXPECT_EQ(dtype, WEIR_FLOAT8_E4M3FN);
	EXPECT_STATUS(weir_dtype_find("none", &dtype), WEIR_EINVAL);
	EXPECT_STATUS(weir_dtype_find("float128", &dtype), WEIR_EINVAL);
}

TEST(places_are_read_from_text)
{
	struct weir_place place = { .struct_size = sizeof(place) };

	EXPECT_OK(weir_place_parse("cpu", &place));
	EXPECT_EQ(place.memory, WEIR_MEMORY_HOST);
	EXPECT_NULL((void *)driver_peek());
	EXPECT_OK(weir_place_parse("cuda:0", &place));
	EXPECT_EQ(place.memory, WEIR_MEMORY_DEVICE);
	EXPECT_EQ(place.device, 0);
	EXPECT_OK(weir_place_parse("pinned", &place));
	EXPECT_EQ(place.memory, WEIR_MEMORY_PINNED);
	static const char *const wrong[] = { "cuda:", "cuda:-1", "cuda:0x",
		"cuda:1e9999999", "gpu", "cpu:0", "",
		"cuda:99999999999999999" };
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		EXPECT_STATUS(weir_place_parse(wrong[i], &place), WEIR_EINVAL);
		EXPECT_STR_HAS(weir_last_error(), "invalid device string");
		EXPECT_STR_HAS(weir_last_error(), wrong[i]);
	}
	EXPECT_STATUS(weir_place_parse("cuda:1000", &place), WEIR_ENODEVICE);
}
