/*
 * DLPack and the CUDA Array Interface, both ways, and refused tensors.
 */
#include <stdio.h>
#include <string.h>

#include <weir/exchange.h>

#include "tests/tensor/support.h"

static struct weir_tensor *
device_counting(weir_stream stream)
{
	static int32_t numbers[6 * 8];
	struct weir_tensor *tensor =
	    tensor_stream_on(stream, WEIR_INT32, SHAPE(6, 8));

	for (int i = 0; i < 48; i++)
		numbers[i] = i;
	tensor_put(tensor, numbers);
	return tensor;
}

/* ---- DLPack ------------------------------------------------------------- */

TEST(an_exported_tensor_outlives_the_one_it_was_made_of)
{
	struct weir_tensor *tensor = device_counting(NULL), *part, *back;
	struct weir_dl_versioned *dl;
	int32_t got[6 * 3];

	EXPECT_OK(weir_tensor_narrow(tensor, 1, 2, 3, &part));
	EXPECT_OK(weir_tensor_to_dlpack(part, NULL, 0, &dl));
	EXPECT_EQ(dl->version.major, 1);
	EXPECT_EQ(dl->flags, 0);
	EXPECT_EQ(dl->tensor.data, tensor_info(part).data);
	EXPECT_EQ(dl->tensor.byte_offset, 0);
	EXPECT_EQ(dl->tensor.device.type, WEIR_DL_CUDA);
	EXPECT_EQ(dl->tensor.device.id, 0);
	EXPECT_EQ(dl->tensor.dtype.code, 0);
	EXPECT_EQ(dl->tensor.dtype.bits, 32);
	EXPECT_EQ(dl->tensor.dtype.lanes, 1);
	EXPECT_EQ(dl->tensor.ndim, 2);
	EXPECT_EQ(dl->tensor.shape[1], 3);
	EXPECT_EQ(dl->tensor.strides[0], 8);
	weir_tensor_destroy(part);
	weir_tensor_destroy(tensor);
	EXPECT_EQ(stats().allocation.all.current, 1);
	EXPECT_OK(weir_tensor_from_dlpack(dl, NULL, &back));
	tensor_get(back, got);
	for (int i = 0; i < 18; i++)
		EXPECT_EQ(got[i], i / 3 * 8 + i % 3 + 2);
	weir_tensor_destroy(back);
	EXPECT_EQ(stats().allocation.all.current, 0);
	expect_healthy();
}

TEST(every_type_and_kind_of_memory_goes_through_dlpack_and_back)
{
	static const enum weir_memory memories[] = { WEIR_MEMORY_DEVICE,
		WEIR_MEMORY_PINNED, WEIR_MEMORY_HOST };

	for (int dtype = 1; dtype <= WEIR_FLOAT8_E8M0FNU; dtype++) {
		for (int m = 0; m < 3; m++) {
			struct weir_tensor *tensor = tensor_on(
			    memories[m], (enum weir_dtype)dtype, SHAPE(2, 3));
			struct weir_dl_versioned *dl;
			struct weir_dl_managed *old;
			struct weir_tensor *back;

			EXPECT_OK(weir_tensor_to_dlpack(tensor, NULL, 0, &dl));
			EXPECT_OK(weir_tensor_from_dlpack(dl, NULL, &back));
			EXPECT_EQ(tensor_info(back).dtype, dtype);
			EXPECT_EQ(tensor_info(back).memory, memories[m]);
			EXPECT_EQ(
			    tensor_info(back).data, tensor_info(tensor).data);
			weir_tensor_destroy(back);
			EXPECT_OK(weir_tensor_to_dlpack_unversioned(
			    tensor, NULL, &old));
			EXPECT_OK(weir_tensor_from_dlpack_unversioned(
			    old, NULL, &back));
			EXPECT_EQ(tensor_info(back).dtype, dtype);
			weir_tensor_destroy(back);
			weir_tensor_destroy(tensor);
		}
	}
}

TEST(scalars_and_empty_tensors_go_through_dlpack)
{
	struct weir_tensor *scalar =
	    tensor_on(WEIR_MEMORY_HOST, WEIR_FLOAT64, 0, NULL);
	struct weir_tensor *empty = tensor_on(
			       WEIR_MEMORY_DEVICE, WEIR_FLOAT64, SHAPE(3, 0)),
			   *back;
	struct weir_dl_versioned *dl;

	EXPECT_OK(weir_tensor_to_dlpack(scalar, NULL, 0, &dl));
	EXPECT_EQ(dl->tensor.ndim, 0);
	EXPECT_OK(weir_tensor_from_dlpack(dl, NULL, &back));
	EXPECT_EQ(tensor_info(back).elements, 1);
	weir_tensor_destroy(back);
	EXPECT_OK(weir_tensor_to_dlpack(empty, NULL, 0, &dl));
	EXPECT_NULL(dl->tensor.data);
	EXPECT_NOT_NULL(dl->tensor.strides);
	EXPECT_OK(weir_tensor_from_dlpack(dl, NULL, &back));
	EXPECT_EQ(tensor_info(back).elements, 0);
	weir_tensor_destroy(back);
	weir_tensor_destroy(scalar);
	weir_tensor_destroy(empty);
}

TEST(the_consumers_stream_comes_after_the_producers)
{
	weir_stream ours = new_stream(), theirs = new_stream();
	struct weir_tensor *tensor =
			       tensor_stream_on(ours, WEIR_INT32, SHAPE(512)),
			   *back;
	struct weir_dl_versioned *dl;
	int32_t got[512];

	busy(ours, LATE_MS);
	EXPECT_OK(weir_tensor_fill(tensor, WEIR_INT32, &(int){ 9 }, ours));
	EXPECT_OK(weir_tensor_to_dlpack(tensor, WEIR_STREAM_ANY, 0, &dl));
	EXPECT(is_done(theirs));
	dl->deleter(dl);
	EXPECT_OK(weir_tensor_to_dlpack(tensor, theirs, 0, &dl));
	EXPECT(!is_done(theirs));
	EXPECT(!is_done(ours));
	EXPECT_OK(weir_tensor_from_dlpack(dl, theirs, &back));
	tensor_get(back, got);
	EXPECT_EQ(got[511], 9);
	weir_tensor_destroy(back);
	weir_tensor_destroy(tensor);
	expect_healthy();
}

static unsigned deleted;

static void
count_deleted(struct weir_dl_versioned *self)
{
	(void)self;
	deleted++;
}

static struct weir_dl_versioned
host_dl(void *data, int64_t *shape)
{
	return (struct weir_dl_versioned){ .version = { 1, 0 },
		.deleter = count_deleted,
		.tensor = { .data = data,
		    .device = { WEIR_DL_CPU, 0 },
		    .ndim = 1,
		    .dtype = { 2, 32, 1 },
		    .shape = shape } };
}

TEST(a_tensor_of_others_is_read_as_its_interface_describes)
{
	float numbers[8] = { 0, 1, 2, 3, 4, 5, 6, 7 };
	int64_t shape[1] = { 3 }, strides[1] = { -2 };
	struct weir_dl_versioned dl = host_dl(numbers, shape);
	struct weir_tensor *tensor;
	float got[3];

	dl.tensor.byte_offset = 24;
	dl.tensor.strides = strides;
	dl.flags = WEIR_DL_READ_ONLY;
	EXPECT_OK(weir_tensor_from_dlpack(&dl, NULL, &tensor));
	tensor_get(tensor, got);
	EXPECT_EQ(got[0], 6);
	EXPECT_EQ(got[1], 4);
	EXPECT_EQ(got[2], 2);
	EXPECT(tensor_info(tensor).read_only);
	EXPECT_EQ(deleted, 0);
	struct weir_dl_managed *old;
	EXPECT_STATUS(weir_tensor_to_dlpack_unversioned(tensor, NULL, &old),
	    WEIR_ENOTSUP);
	weir_tensor_destroy(tensor);
	EXPECT_EQ(deleted, 1);
}

TEST(an_impossible_tensor_stays_the_callers)
{
	static float numbers[8];
	int64_t shape[2] = { 3, INT64_MAX }, strides[2] = { 1, 1 };
	struct weir_tensor *tensor = NULL;
	struct weir_dl_versioned good = host_dl(numbers, shape), dl;

#define REFUSED(change, status)                                                \
	do {                                                                   \
		dl = good;                                                     \
		change;                                                        \
		EXPECT_STATUS(                                                 \
		    weir_tensor_from_dlpack(&dl, NULL, &tensor), status);      \
	} while (0)
	REFUSED(dl.version.major = 2, WEIR_ENOTSUP);
	REFUSED(dl.version.major = 0, WEIR_ENOTSUP);
	REFUSED(dl.tensor.dtype.lanes = 4, WEIR_ENOTSUP);
	REFUSED(dl.tensor.dtype.bits = 31, WEIR_ENOTSUP);
	REFUSED(dl.tensor.dtype.code = 17, WEIR_ENOTSUP);
	REFUSED(dl.tensor.device.type = 7, WEIR_ENOTSUP);
	REFUSED(dl.tensor.ndim = -1, WEIR_EINVAL);
	REFUSED(dl.tensor.ndim = 33, WEIR_EINVAL);
	REFUSED(dl.tensor.shape = NULL, WEIR_EINVAL);
	REFUSED(dl.tensor.data = NULL, WEIR_EINVAL);
	REFUSED(dl.tensor.byte_offset = UINT64_MAX, WEIR_EINVAL);
	REFUSED(dl.tensor.ndim = 2, WEIR_EINVAL);
	REFUSED((dl.tensor.ndim = 2, dl.tensor.strides = strides), WEIR_EINVAL);
	shape[0] = -1;
	REFUSED(dl = good, WEIR_EINVAL);
	shape[0] = 3;
	strides[0] = INT64_MIN;
	REFUSED(dl.tensor.strides = strides, WEIR_EINVAL);
	/* Two steps of four bytes each: to INT64_MIN, which has no negation. */
	strides[0] = INT64_MIN / 8;
	REFUSED(dl.tensor.strides = strides, WEIR_EINVAL);
	REFUSED(
	    (dl.tensor.device.type = WEIR_DL_CUDA, dl.tensor.device.id = 1000),
	    WEIR_ENODEVICE);
#undef REFUSED
	EXPECT_EQ(deleted, 0);
	EXPECT_NULL(tensor);
}

TEST(a_tensor_is_described_and_not_held)
{
	struct weir_tensor_info info = { .struct_size = sizeof(info) };
	struct weir_tensor *tensor = device_counting(new_stream()), *part;
	struct weir_dl_tensor dl;

	EXPECT_OK(weir_tensor_select(tensor, 0, 1, &part));
	EXPECT_OK(weir_tensor_info(part, &info));
	EXPECT_OK(weir_tensor_dl_view(part, &dl));
	EXPECT_EQ(dl.data, info.data);
	EXPECT_EQ(dl.device.type, WEIR_DL_CUDA);
	EXPECT_EQ(dl.ndim, info.ndim);
	EXPECT_EQ(dl.dtype.bits, 8 * weir_dtype_size(info.dtype));
	EXPECT_EQ((const void *)dl.shape, (const void *)info.shape);
	EXPECT_EQ((const void *)dl.strides, (const void *)info.strides);
	weir_tensor_destroy(part);
	weir_tensor_destroy(tensor);
	EXPECT_EQ(stats().allocation.all.current, 0);
	EXPECT_STATUS(weir_tensor_dl_view(NULL, &dl), WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), "tensor is NULL");
}

static void
keep_error(void *context, const char *kind, const char *message)
{
	char *text = context;

	snprintf(text, 200, "%s: %s", kind, message);
}

TEST(the_exchange_table_allocates_for_others)
{
	struct weir_dl_exchange table;
	int64_t shape[2] = { 4, 5 };
	struct weir_dl_tensor prototype = { .device = { WEIR_DL_CUDA, 0 },
		.ndim = 2,
		.dtype = { 4, 16, 1 },
		.shape = shape };
	struct weir_dl_versioned *made;
	weir_stream stream = new_stream();
	char text[256] = "";
	void *work;

	weir_dl_exchange_init(&table);
	EXPECT_EQ(table.header.version.major, 1);
	EXPECT_NULL(table.header.prev_api);
	EXPECT_EQ(
	    table.managed_tensor_allocator(&prototype, &made, text, keep_error),
	    0);
	EXPECT_EQ(made->tensor.dtype.code, 4);
	EXPECT_EQ(made->tensor.shape[1], 5);
	EXPECT_NE(made->tensor.shape, shape);
	EXPECT_EQ(stats().allocation.all.current, 1);
	made->deleter(made);
	EXPECT_EQ(stats().allocation.all.current, 0);
	prototype.dtype.lanes = 2;
	EXPECT_EQ(
	    table.managed_tensor_allocator(&prototype, &made, text, keep_error),
	    -1);
	EXPECT_STR_HAS(text, "RuntimeError: ");
	EXPECT_STR_HAS(text, "2 lanes");
	EXPECT_OK(weir_stream_set_current(stream));
	EXPECT_EQ(table.current_work_stream(WEIR_DL_CUDA, 0, &work), 0);
	EXPECT_EQ(work, (void *)stream);
	EXPECT_EQ(table.current_work_stream(WEIR_DL_CPU, 0, &work), 0);
	EXPECT_NULL(work);
}

/* ---- The CUDA Array Interface ------------------------------------------- */

TEST(the_interface_describes_a_tensor)
{
	weir_stream stream = new_stream();
	struct weir_tensor *tensor = device_counting(stream), *part;
	struct weir_array_interface array = { .struct_size = sizeof(array) };

	EXPECT_OK(weir_tensor_array_interface(tensor, &array));
	EXPECT_EQ(array.version, 3);
	EXPECT_STR_EQ(array.typestr, "<i4");
	EXPECT_EQ(array.ndim, 2);
	EXPECT_EQ(array.shape[0], 6);
	EXPECT(!array.has_strides);
	EXPECT(!array.read_only);
	EXPECT(!array.has_mask);
	EXPECT(array.has_stream);
	EXPECT_EQ(array.stream, (uint64_t)(uintptr_t)stream);
	EXPECT_EQ(array.data, tensor_info(tensor).data);
	EXPECT_OK(weir_tensor_slice(
	    tensor, 1, &(struct weir_slice){ 1, INT64_MAX, 2 }, &part));
	EXPECT_OK(weir_tensor_array_interface(part, &array));
	EXPECT(array.has_strides);
	EXPECT_EQ(array.strides[0], 32);
	EXPECT_EQ(array.strides[1], 8);
	EXPECT_EQ(array.data, (char *)tensor_info(tensor).data + 4);
	weir_tensor_destroy(part);
	EXPECT_OK(weir_tensor_alias(tensor, NULL, &part));
	EXPECT_OK(weir_tensor_array_interface(part, &array));
	EXPECT_EQ(array.stream, 1);
	weir_tensor_destroy(part);
	weir_tensor_destroy(tensor);
}

TEST(typestrings_are_those_of_the_interface)
{
	static const struct {
		enum weir_dtype dtype;
		const char *text;
	} cases[] = {
		{ WEIR_BOOL, "|b1" },
		{ WEIR_INT8, "|i1" },
		{ WEIR_UINT8, "|u1" },
		{ WEIR_INT16, "<i2" },
		{ WEIR_UINT64, "<u8" },
		{ WEIR_FLOAT16, "<f2" },
		{ WEIR_BFLOAT16, "<V2" },
		{ WEIR_FLOAT32, "<f4" },
		{ WEIR_FLOAT64, "<f8" },
		{ WEIR_COMPLEX64, "<c8" },
		{ WEIR_COMPLEX128, "<c16" },
	};
	struct weir_array_interface array = { .struct_size = sizeof(array) };
	struct weir_tensor *tensor, *back;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		tensor =
		    tensor_on(WEIR_MEMORY_DEVICE, cases[i].dtype, SHAPE(3));
		EXPECT_OK(weir_tensor_array_interface(tensor, &array));
		EXPECT_STR_EQ(array.typestr, cases[i].text);
		EXPECT_OK(weir_tensor_from_array_interface(
		    &array, WEIR_DEVICE_CURRENT, NULL, NULL, &back));
		EXPECT_EQ(tensor_info(back).dtype, cases[i].dtype);
		EXPECT_EQ(tensor_info(back).device, 0);
		EXPECT_EQ(tensor_info(back).memory, WEIR_MEMORY_DEVICE);
		weir_tensor_destroy(back);
		weir_tensor_destroy(tensor);
	}
	tensor = tensor_on(WEIR_MEMORY_DEVICE, WEIR_FLOAT8_E4M3FN, SHAPE(3));
	EXPECT_STATUS(
	    weir_tensor_array_interface(tensor, &array), WEIR_ENOTSUP);
	EXPECT_STR_HAS(weir_last_error(), "DLPack");
	weir_tensor_destroy(tensor);
	tensor = tensor_on(WEIR_MEMORY_PINNED, WEIR_FLOAT32, SHAPE(3));
	EXPECT_STATUS(
	    weir_tensor_array_interface(tensor, &array), WEIR_ENOTSUP);
	weir_tensor_destroy(tensor);
}

TEST(an_exporter_s_other_streams_are_joined)
{
	weir_stream own = new_stream(), other = new_stream();
	struct weir_tensor *tensor =
	    tensor_stream_on(own, WEIR_INT32, SHAPE(512));
	struct weir_array_interface array = { .struct_size = sizeof(array) };

	busy(other, LATE_MS);
	EXPECT_OK(weir_tensor_fill(tensor, WEIR_INT32, &(int){ 3 }, other));
	EXPECT(is_done(own));
	EXPECT_OK(weir_tensor_array_interface(tensor, &array));
	EXPECT(!is_done(own));
	weir_tensor_destroy(tensor);
}

static unsigned gives;

static void
count_give(void *closure, void *data)
{
	EXPECT_EQ(data, *(void **)closure);
	gives++;
}

TEST(an_imported_array_is_ordered_both_ways)
{
	weir_stream theirs = foreign_stream(CU_STREAM_NON_BLOCKING);
	weir_stream ours = new_stream();
	void *memory = take(4096, NULL);
	struct weir_owner owner = { .struct_size = sizeof(owner),
		.give = count_give,
		.closure = &memory };
	struct weir_array_interface array = { .struct_size = sizeof(array),
		.version = 3,
		.typestr = "|u1",
		.ndim = 1,
		.shape = { 4096 },
		.data = memory,
		.has_stream = true,
		.stream = (uint64_t)(uintptr_t)theirs };
	struct weir_tensor *tensor;
	unsigned char got[4096];

	record(memory, theirs);
	busy(theirs, LATE_MS);
	fill(memory, 4096, 5, theirs);
	EXPECT_OK(
	    weir_tensor_from_array_interface(&array, 0, ours, &owner, &tensor));
	EXPECT(!is_done(ours));
	tensor_get(tensor, got);
	EXPECT_EQ(got[4095], 5);
	busy(ours, LATE_MS);
	EXPECT_OK(weir_tensor_fill(tensor, WEIR_UINT8, "\6", ours));
	weir_tensor_destroy(tensor);
	EXPECT_EQ(gives, 1);
	EXPECT(!is_done(ours));
	EXPECT(!is_done(theirs));
	expect_filled(memory, 4096, 6, theirs);
	give(memory);
	foreign_destroy(theirs);
	expect_healthy();
}

/* One stream that cannot be waited for is no reason not to wait for another. */
TEST(foreign_memory_goes_back_after_all_work_that_can_be_waited_for)
{
	weir_stream captured = new_stream(), late = new_stream();
	void *memory = take(4096, NULL);
	struct weir_foreign foreign = { .struct_size = sizeof(foreign),
		.data = memory,
		.bytes = 4096,
		.give = count_give,
		.closure = &memory };
	int64_t length = 4096;
	struct weir_layout layout = { .struct_size = sizeof(layout),
		.dtype = WEIR_UINT8,
		.ndim = 1,
		.shape = &length };
	struct weir_storage *storage;
	struct weir_tensor *tensor;

	finish(NULL);
	EXPECT_OK(weir_storage_wrap(&foreign, &storage));
	EXPECT_OK(weir_tensor_over(storage, &layout, late, &tensor));
	weir_storage_release(storage);
	EXPECT_OK(weir_tensor_record(tensor, captured));
	busy(late, LATE_MS);
	EXPECT_OK(weir_tensor_fill(tensor, WEIR_UINT8, "\6", late));
	capture_begin(captured);
	weir_tensor_destroy(tensor);
	EXPECT_EQ(gives, 1);
	EXPECT(is_done(late));
	capture_end(captured);
	give(memory);
	expect_healthy();
}

TEST(impossible_arrays_are_refused_without_a_call_of_their_owner)
{
	void *memory = take(4096, NULL);
	struct weir_owner owner = { .struct_size = sizeof(owner),
		.give = count_give,
		.closure = &memory };
	struct weir_array_interface good = { .struct_size = sizeof(good),
		.version = 3,
		.typestr = "<f4",
		.ndim = 1,
		.shape = { 16 },
		.data = memory };
	struct weir_array_interface array;
	struct weir_tensor *tensor = NULL;

#define REFUSED(change, word)                                                  \
	do {                                                                   \
		array = good;                                                  \
		change;                                                        \
		EXPECT_STATUS(weir_tensor_from_array_interface(                \
				  &array, -1, NULL, &owner, &tensor),          \
		    WEIR_EINVAL);                                              \
		EXPECT_STR_HAS(weir_last_error(), word);                       \
	} while (0)
	REFUSED(array.has_mask = true, "mask");
	REFUSED(array.has_stream = true, "stream 0");
	REFUSED((array.has_stream = true, array.stream = UINT64_MAX),
	    "stream 0xffffffffffffffff");
	REFUSED((array.has_stream = true, array.stream = UINT64_MAX - 2),
	    "stream 0xfffffffffffffffd");
	REFUSED(array.version = 4, "version 4");
	REFUSED(array.typestr[0] = '>', ">f4");
	REFUSED(memcpy(array.typestr, "<f3", 4), "<f3");
	REFUSED(memcpy(array.typestr, "<O8", 4), "<O8");
	REFUSED(memcpy(array.typestr, "<f4xxxxx", 8), "<f4xxxxx");
	REFUSED(memcpy(array.typestr, "", 1), "typestr");
	REFUSED(memcpy(array.typestr, "<", 2), "typestr");
	REFUSED(array.ndim = 33, "33");
	REFUSED(array.shape[0] = -4, "-4");
	REFUSED((array.has_strides = true, array.strides[0] = 6), "6");
	REFUSED(array.data = &good, "no device has");
	REFUSED(array.data = NULL, "addresses");
	REFUSED(array.shape[0] = INT64_MAX, "addresses");
#undef REFUSED
	EXPECT_EQ(gives, 0);
	EXPECT_NULL(tensor);
	give(memory);
}
