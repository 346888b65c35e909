#include "tests/tensor/support.h"

struct weir_tensor *
tensor_on(enum weir_memory memory, enum weir_dtype dtype, int ndim,
    const int64_t *shape)
{
	struct weir_place place = place_of(memory, 0, NULL);
	struct weir_tensor *tensor = NULL;

	EXPECT_OK(weir_tensor_empty(dtype, ndim, shape, &place, &tensor));
	return tensor;
}

struct weir_tensor *
tensor_stream_on(
    weir_stream stream, enum weir_dtype dtype, int ndim, const int64_t *shape)
{
	struct weir_place place = place_of(WEIR_MEMORY_DEVICE, 0, stream);
	struct weir_tensor *tensor = NULL;

	EXPECT_OK(weir_tensor_empty(dtype, ndim, shape, &place, &tensor));
	return tensor;
}

struct weir_tensor_info
tensor_info(const struct weir_tensor *tensor)
{
	struct weir_tensor_info info = { .struct_size = sizeof(info) };

	EXPECT_OK(weir_tensor_info(tensor, &info));
	return info;
}

struct weir_tensor *
tensor_of_bytes(
    void *bytes, enum weir_dtype dtype, int ndim, const int64_t *shape)
{
	struct weir_foreign foreign = { .struct_size = sizeof(foreign),
		.data = bytes,
		.bytes = weir_dtype_size(dtype),
		.memory = WEIR_MEMORY_HOST };
	struct weir_layout layout = { .struct_size = sizeof(layout),
		.dtype = dtype,
		.ndim = ndim,
		.shape = shape };
	struct weir_storage *storage = NULL;
	struct weir_tensor *tensor = NULL;

	for (int i = 0; i < ndim; i++)
		foreign.bytes *= (size_t)shape[i];
	EXPECT_OK(weir_storage_wrap(&foreign, &storage));
	EXPECT_OK(weir_tensor_over(storage, &layout, NULL, &tensor));
	weir_storage_release(storage);
	return tensor;
}

/* The tensor as a type whose copies keep every bit: a bool's do not. */
static struct weir_tensor *
as_bits(const struct weir_tensor *tensor)
{
	enum weir_dtype dtype = tensor_info(tensor).dtype;
	struct weir_tensor *bits;

	EXPECT_OK(weir_tensor_view_dtype(
	    tensor, dtype == WEIR_BOOL ? WEIR_UINT8 : dtype, &bits));
	return bits;
}

void
tensor_put(const struct weir_tensor *tensor, const void *bytes)
{
	struct weir_tensor *bits = as_bits(tensor);
	struct weir_tensor_info info = tensor_info(bits);
	struct weir_tensor *host = tensor_of_bytes(
	    (void *)(uintptr_t)bytes, info.dtype, info.ndim, info.shape);

	EXPECT_OK(weir_tensor_copy(bits, host, info.stream, 0));
	weir_tensor_destroy(host);
	weir_tensor_destroy(bits);
}

void
tensor_get(const struct weir_tensor *tensor, void *bytes)
{
	struct weir_tensor *bits = as_bits(tensor);
	struct weir_tensor_info info = tensor_info(bits);
	struct weir_tensor *host =
	    tensor_of_bytes(bytes, info.dtype, info.ndim, info.shape);

	EXPECT_OK(weir_tensor_copy(host, bits, info.stream, 0));
	weir_tensor_destroy(host);
	weir_tensor_destroy(bits);
}
