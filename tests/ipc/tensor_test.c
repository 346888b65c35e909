/*
 * Tensors of another process, and blocks that are lent.
 */
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include <weir/ipc.h>

#include "tests/ipc/other.h"
#include "tests/support/device.h"

enum { ROWS = 6, COLUMNS = 5 };

static struct weir_tensor *
make(weir_stream stream, int64_t rows)
{
	struct weir_place place = { .struct_size = sizeof(place),
		.stream = stream };
	struct weir_tensor *tensor = NULL;
	int64_t shape[2] = { rows, COLUMNS };

	EXPECT_OK(weir_tensor_empty(WEIR_INT32, 2, shape, &place, &tensor));
	return tensor;
}

static struct weir_tensor_info
about(const struct weir_tensor *tensor)
{
	struct weir_tensor_info info = { .struct_size = sizeof(info) };

	EXPECT_OK(weir_tensor_info(tensor, &info));
	return info;
}

static void
set(const struct weir_tensor *tensor, int32_t value, weir_stream stream)
{
	EXPECT_OK(weir_tensor_fill(tensor, WEIR_INT32, &value, stream));
}

static int32_t
element(const struct weir_tensor *tensor, int64_t row, int64_t column,
    weir_stream stream)
{
	struct weir_tensor_info info = about(tensor);
	const int32_t *at = info.data;
	int32_t value;

	at += row * info.strides[0] + column * info.strides[1];
	EXPECT_OK(weir_copy(&value, at, sizeof(value), stream));
	return value;
}

/* ---- Sharing ------------------------------------------------------------ */

static void
view_and_fill(int fd)
{
	struct weir_ipc_tensor text;
	struct weir_tensor *view = NULL;
	struct weir_tensor *column = NULL;
	weir_stream stream;

	hear(fd, &text, sizeof(text));
	stream = new_stream();
	EXPECT_OK(weir_ipc_open_tensor(&text, 0, stream, &view));
	struct weir_tensor_info info = about(view);
	EXPECT_EQ(info.dtype, WEIR_INT32);
	EXPECT_EQ(info.ndim, 2);
	EXPECT_EQ(info.shape[0], COLUMNS);
	EXPECT_EQ(info.shape[1], ROWS);
	EXPECT_EQ(info.strides[0], 1);
	EXPECT_EQ(info.strides[1], COLUMNS);
	EXPECT_EQ(info.device, 0);
	EXPECT_EQ(element(view, 2, 3, stream), 41);
	EXPECT_OK(weir_tensor_select(view, 0, 2, &column));
	set(column, 42, stream);
	weir_tensor_destroy(view);
	meet(fd);
	/* The view of a view still holds the storage. */
	meet(fd);
	weir_tensor_destroy(column);
	meet(fd);
	expect_healthy();
}

TEST(a_view_of_a_tensor_is_shared_with_its_strides)
{
	struct other other = other_start(view_and_fill);
	struct weir_ipc_export *export = NULL;
	struct weir_tensor *turned = NULL;
	struct weir_ipc_tensor text;
	weir_stream stream = new_stream();
	struct weir_tensor *tensor = make(stream, ROWS);

	busy(stream, LATE_MS);
	set(tensor, 41, stream);
	EXPECT_OK(weir_tensor_transpose(tensor, 0, 1, &turned));
	weir_stream side = new_stream();
	EXPECT_OK(weir_ipc_share_tensor(turned, side, &text, &export));
	EXPECT_EQ(weir_ipc_opened(export), 0);
	tell(other.fd, &text, sizeof(text));
	meet(other.fd);
	EXPECT_EQ(weir_ipc_peers(export), 1);
	meet(other.fd);
	meet(other.fd);
	other_end(&other);
	EXPECT_EQ(weir_ipc_peers(export), 0);
	EXPECT_EQ(weir_ipc_opened(export), 1);
	EXPECT_EQ(element(tensor, 0, 2, stream), 42);
	EXPECT_EQ(element(tensor, ROWS - 1, 2, stream), 42);
	EXPECT_EQ(element(tensor, 0, 1, stream), 41);
	/* The export holds the storage, whoever drops the tensors. */
	weir_tensor_destroy(tensor);
	weir_tensor_destroy(turned);
	EXPECT_GT(stats().allocated_bytes.all.current, 0);
	weir_ipc_release(export);
	EXPECT_EQ(stats().allocated_bytes.all.current, 0);
	expect_healthy();
}

static void
open_an_empty_one(int fd)
{
	struct weir_ipc_tensor text;
	struct weir_tensor *tensor = NULL;

	hear(fd, &text, sizeof(text));
	device_driver();
	EXPECT_OK(weir_ipc_open_tensor(&text, 0, NULL, &tensor));
	EXPECT_EQ(about(tensor).elements, 0);
	EXPECT_EQ(about(tensor).shape[1], COLUMNS);
	weir_tensor_destroy(tensor);
	meet(fd);
}

TEST(a_tensor_without_elements_is_shared_without_memory)
{
	struct other other = other_start(open_an_empty_one);
	struct weir_ipc_export *export = (struct weir_ipc_export *)1;
	struct weir_ipc_tensor text;
	struct weir_tensor *tensor = make(NULL, 0);

	EXPECT_OK(weir_ipc_share_tensor(tensor, NULL, &text, &export));
	EXPECT_NULL(export);
	tell(other.fd, &text, sizeof(text));
	meet(other.fd);
	other_end(&other);
	weir_tensor_destroy(tensor);
}

static void
view_bytes(int fd)
{
	struct weir_ipc_handle handle;
	struct weir_tensor *bytes = NULL;
	struct weir_event *event = NULL;
	struct weir_ipc_export *own = NULL;
	struct weir_ipc_info info = { .struct_size = sizeof(info) };

	hear(fd, &handle, sizeof(handle));
	weir_stream stream = new_stream();
	struct weir_ipc_import *import = open_shared(&handle, stream, &info);
	EXPECT_STATUS(
	    weir_ipc_view(import, WEIR_STREAM_ANY, &bytes), WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), "needs a stream");
	EXPECT_STATUS(weir_ipc_view(import, stream, NULL), WEIR_EINVAL);
	EXPECT_STATUS(weir_ipc_view(NULL, stream, &bytes), WEIR_EINVAL);
	EXPECT_STR_EQ(weir_last_error(), "weir_ipc_view: import is NULL");
	EXPECT_OK(weir_ipc_view(import, stream, &bytes));
	EXPECT_EQ(about(bytes).dtype, WEIR_UINT8);
	EXPECT_EQ(about(bytes).elements, 5000);
	EXPECT_EQ(about(bytes).data, info.ptr);
	expect_filled(about(bytes).data, 5000, 31, stream);
	fill(about(bytes).data, 5000, 32, stream);
	meet(fd);
	/* The owner has counted this process. */
	meet(fd);
	/* The tensor has the import, which is closed with it. */
	weir_tensor_destroy(bytes);
	meet(fd);
	EXPECT_OK(weir_event_create(WEIR_EVENT_INTERPROCESS, &event));
	EXPECT_OK(weir_event_record(event, stream));
	EXPECT_OK(weir_ipc_export_event(event, &own));
	EXPECT_OK(weir_ipc_handle_of(own, &handle));
	tell(fd, &handle, sizeof(handle));
	meet(fd);
	weir_ipc_release(own);
	expect_healthy();
}

TEST(the_bytes_of_a_block_are_viewed_as_a_tensor)
{
	struct other other = other_start(view_bytes);
	struct weir_ipc_handle handle;
	struct weir_ipc_info info = { .struct_size = sizeof(info) };
	struct weir_tensor *none = NULL;
	void *ptr = take(5000, NULL);

	fill(ptr, 5000, 31, NULL);
	struct weir_ipc_export *export = share(ptr, NULL, &handle);
	tell(other.fd, &handle, sizeof(handle));
	meet(other.fd);
	EXPECT_EQ(weir_ipc_peers(export), 1);
	meet(other.fd);
	meet(other.fd);
	wait_for_peers(export, 0);
	expect_filled(ptr, 5000, 32, NULL);
	weir_ipc_release(export);
	hear(other.fd, &handle, sizeof(handle));
	struct weir_ipc_import *event = open_shared(&handle, NULL, &info);
	EXPECT_STATUS(weir_ipc_view(event, NULL, &none), WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), "is an event");
	EXPECT_OK(weir_ipc_close(event, NULL));
	meet(other.fd);
	other_end(&other);
	expect_healthy();
}

TEST(memory_that_is_not_weir_s_is_not_shared_as_a_tensor)
{
	char bytes[64] = { 0 };
	struct weir_foreign foreign = { .struct_size = sizeof(foreign),
		.data = bytes,
		.bytes = sizeof(bytes),
		.memory = WEIR_MEMORY_HOST };
	int64_t shape[1] = { 16 };
	struct weir_layout layout = { .struct_size = sizeof(layout),
		.dtype = WEIR_INT32,
		.ndim = 1,
		.shape = shape };
	struct weir_ipc_export *export = NULL;
	struct weir_storage *storage = NULL;
	struct weir_tensor *tensor = NULL;
	struct weir_ipc_tensor text;

	EXPECT_OK(weir_storage_wrap(&foreign, &storage));
	EXPECT_OK(weir_tensor_over(storage, &layout, NULL, &tensor));
	EXPECT_STATUS(
	    weir_ipc_share_tensor(tensor, NULL, &text, &export), WEIR_ENOTSUP);
	EXPECT_STR_HAS(weir_last_error(), "host memory that is foreign");
	EXPECT_STATUS(
	    weir_ipc_share_tensor(NULL, NULL, &text, &export), WEIR_EINVAL);
	EXPECT_NULL(export);
	weir_tensor_destroy(tensor);
	weir_storage_release(storage);
}

/* ---- Lies --------------------------------------------------------------- */

static void
open_lies(int fd)
{
	struct weir_ipc_tensor good;
	struct weir_tensor *tensor = NULL;

	hear(fd, &good, sizeof(good));
	device_driver();
	for (int kind = 0; kind < 10; kind++) {
		struct weir_ipc_tensor bad = good;

		if (kind == 0)
			bad.shape[0]++;
		if (kind == 1)
			bad.offset_bytes = UINT64_MAX;
		if (kind == 2)
			bad.strides[0] = INT64_MAX;
		if (kind == 3)
			bad.strides[0] = -bad.strides[0];
		if (kind == 4)
			bad.ndim = 33;
		if (kind == 5)
			bad.ndim = -1;
		if (kind == 6)
			bad.dtype = 4711;
		if (kind == 7)
			bad.dtype = WEIR_DTYPE_NONE;
		if (kind == 8)
			bad.storage_bytes += 512;
		if (kind == 9)
			bad.shape[1] = -1;
		EXPECT_STATUS(
		    weir_ipc_open_tensor(&bad, 0, NULL, &tensor), WEIR_EINVAL);
		EXPECT_NULL(tensor);
	}
	EXPECT_STATUS(weir_ipc_open_tensor(&good, 0, WEIR_STREAM_ANY, &tensor),
	    WEIR_EINVAL);
	EXPECT_STATUS(
	    weir_ipc_open_tensor(NULL, 0, NULL, &tensor), WEIR_EINVAL);
	meet(fd);
	expect_healthy();
}

TEST(elements_outside_of_the_shared_storage_are_refused)
{
	struct other other = other_start(open_lies);
	struct weir_ipc_export *export = NULL;
	struct weir_ipc_tensor text;
	struct weir_tensor *tensor = make(NULL, ROWS);

	EXPECT_OK(weir_ipc_share_tensor(tensor, NULL, &text, &export));
	tell(other.fd, &text, sizeof(text));
	meet(other.fd);
	EXPECT_EQ(weir_ipc_peers(export), 0);
	other_end(&other);
	weir_tensor_destroy(tensor);
	weir_ipc_release(export);
}

/* ---- Lending ------------------------------------------------------------ */

static atomic_int returned;

static void
count_returned(void *closure, void *ptr)
{
	EXPECT_EQ(closure, ptr);
	atomic_fetch_add(&returned, 1);
}

static void
open_and_die(int fd)
{
	struct weir_ipc_handle handle;
	struct weir_ipc_info info;

	hear(fd, &handle, sizeof(handle));
	device_driver();
	open_shared(&handle, WEIR_STREAM_ANY, &info);
	meet(fd);
	pause();
}

TEST(lent_memory_comes_back_once_and_stays_the_lender_s)
{
	struct other other = other_start(open_and_die);
	struct weir_ipc_export *one = NULL;
	struct weir_ipc_export *two = NULL;
	struct weir_ipc_handle handle;
	void *ptr = take(1 * MIB, NULL);

	EXPECT_STATUS(weir_ipc_lend(ptr, NULL, NULL, ptr, &one), WEIR_EINVAL);
	EXPECT_OK(weir_ipc_lend(ptr, NULL, count_returned, ptr, &one));
	EXPECT_OK(weir_ipc_lend(ptr, NULL, count_returned, ptr, &two));
	EXPECT_NE(one, two);
	weir_ipc_release(one);
	EXPECT_EQ(returned, 1);
	EXPECT_OK(weir_ipc_handle_of(two, &handle));
	tell(other.fd, &handle, sizeof(handle));
	meet(other.fd);
	weir_ipc_release(two);
	EXPECT_EQ(returned, 1);
	other_kill(&other);
	EXPECT_SOON(returned >= 2);
	EXPECT_EQ(returned, 2);
	EXPECT_STATUS(weir_unpin(ptr), WEIR_EINVAL);
	give(ptr);
	expect_healthy();
}
