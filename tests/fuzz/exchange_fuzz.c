/*
 * DLPack tensors and array interfaces of other libraries. With any contents
 * they are refused, or every element lies in the range that weir takes for
 * theirs, also in views of them. The memory itself is not accessed.
 */
#include <stdlib.h>
#include <string.h>

#include <weir/exchange.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

/* Take bytes of the input in turn; zeros after its end. */
struct input {
	const uint8_t *bytes;
	size_t size;
};

static void
draw(struct input *in, void *to, size_t size)
{
	size_t n = size < in->size ? size : in->size;

	memset(to, 0, size);
	memcpy(to, in->bytes, n);
	in->bytes += n;
	in->size -= n;
}

static unsigned deleted;

static void
count_deleted(struct weir_dl_versioned *self)
{
	(void)self;
	deleted++;
}

/* Every corner of the index space is in the storage. */
static void
check_tensor(const struct weir_tensor *tensor)
{
	struct weir_tensor_info info = { .struct_size = sizeof(info) };
	struct weir_storage_info about = { .struct_size = sizeof(about) };
	__int128 low = 0, high;
	char text[64];

	if (weir_tensor_info(tensor, &info) != WEIR_OK ||
	    weir_storage_info(info.storage, &about) != WEIR_OK)
		abort();
	weir_tensor_format(tensor, text, sizeof(text));
	if (info.elements == 0)
		return;
	high = (__int128)weir_dtype_size(info.dtype);
	for (int i = 0; i < info.ndim; i++) {
		__int128 reach = (__int128)(info.shape[i] - 1) *
		    info.strides[i] * (__int128)weir_dtype_size(info.dtype);

		if (reach < 0)
			low += reach;
		else
			high += reach;
	}
	if ((__int128)info.offset_bytes + low < 0 ||
	    (__int128)info.offset_bytes + high > (__int128)about.bytes)
		abort();
}

static void
keep(enum weir_status status, struct weir_tensor *view)
{
	if (status != WEIR_OK)
		return;
	check_tensor(view);
	weir_tensor_destroy(view);
}

static void
check_views(const struct weir_tensor *tensor, struct input *in)
{
	struct weir_tensor *view = NULL;
	struct weir_slice slice;
	int64_t shape[4];
	int8_t numbers[4];

	draw(in, &slice, sizeof(slice));
	draw(in, shape, sizeof(shape));
	draw(in, numbers, sizeof(numbers));
	keep(weir_tensor_slice(tensor, numbers[0], &slice, &view), view);
	keep(weir_tensor_narrow(tensor, numbers[0], shape[0], shape[1], &view),
	    view);
	keep(weir_tensor_select(tensor, numbers[0], shape[0], &view), view);
	keep(
	    weir_tensor_transpose(tensor, numbers[0], numbers[1], &view), view);
	keep(weir_tensor_expand(tensor, numbers[2] & 3, shape, &view), view);
	keep(weir_tensor_reshape(tensor, numbers[2] & 3, shape, &view), view);
	keep(weir_tensor_view_dtype(
		 tensor, (enum weir_dtype)(numbers[3] & 31), &view),
	    view);
	keep(weir_tensor_unsqueeze(tensor, numbers[1], &view), view);
	keep(weir_tensor_squeeze_all(tensor, &view), view);
}

static void
try_dlpack(struct input in)
{
	int64_t shape[WEIR_DIMS_MAX + 2], strides[WEIR_DIMS_MAX + 2];
	struct weir_dl_versioned managed;
	struct weir_tensor *tensor;
	uint8_t lengths;

	draw(&in, &managed, sizeof(managed));
	draw(&in, &lengths, 1);
	managed.deleter = count_deleted;
	managed.tensor.shape = (lengths & 0x80) != 0 ? NULL : shape;
	managed.tensor.strides = (lengths & 0x40) != 0 ? NULL : strides;
	memset(shape, 0, sizeof(shape));
	memset(strides, 0, sizeof(strides));
	lengths = (uint8_t)((lengths & 0x3f) % (WEIR_DIMS_MAX + 2));
	draw(&in, shape, lengths * sizeof(int64_t));
	draw(&in, strides, lengths * sizeof(int64_t));
	deleted = 0;
	if (weir_tensor_from_dlpack(&managed, NULL, &tensor) != WEIR_OK) {
		if (deleted != 0)
			abort();
		return;
	}
	check_tensor(tensor);
	check_views(tensor, &in);
	weir_tensor_destroy(tensor);
	if (deleted != 1)
		abort();
}

static void
try_array(struct input in)
{
	struct weir_array_interface array;
	struct weir_tensor *tensor;
	uint8_t flags;

	/* A bool may hold no invalid value. */
	draw(&in, &flags, 1);
	draw(&in, &array, sizeof(array));
	memset(&array.has_strides, (flags & 1) != 0, 1);
	memset(&array.read_only, (flags & 2) != 0, 1);
	memset(&array.has_mask, (flags & 4) != 0, 1);
	memset(&array.has_stream, (flags & 8) != 0, 1);
	array.struct_size = sizeof(array);
	array.stream &= 3;
	if (weir_tensor_from_array_interface(&array, 0, NULL, NULL, &tensor) !=
	    WEIR_OK)
		return;
	check_tensor(tensor);
	check_views(tensor, &in);
	weir_tensor_destroy(tensor);
}

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	struct input in = { bytes, size };
	uint8_t which;

	draw(&in, &which, 1);
	if ((which & 1) != 0)
		try_array(in);
	else
		try_dlpack(in);
	return 0;
}
