/*
 * Support for tests of tensors: make, fill and compare tensors in one line.
 */
#ifndef TESTS_TENSOR_SUPPORT_H
#define TESTS_TENSOR_SUPPORT_H

#include <weir/host.h>
#include <weir/stream.h>
#include <weir/tensor.h>

#include "tests/support/device.h"
#include "tests/support/test.h"

/* An array of lengths and its number, as two arguments. */
#define SHAPE(...)                                                             \
	(int)(sizeof((int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t)),           \
	    (const int64_t[])                                                  \
	{                                                                      \
		__VA_ARGS__                                                    \
	}

static inline struct weir_place
place_of(enum weir_memory memory, int device, weir_stream stream)
{
	return (struct weir_place){ .struct_size = sizeof(struct weir_place),
		.memory = memory,
		.device = device,
		.stream = stream };
}

struct weir_tensor *tensor_on(enum weir_memory memory, enum weir_dtype dtype,
    int ndim, const int64_t *shape);
struct weir_tensor *tensor_stream_on(
    weir_stream stream, enum weir_dtype dtype, int ndim, const int64_t *shape);

struct weir_tensor_info tensor_info(const struct weir_tensor *tensor);

/* Set or read the bytes of a contiguous tensor, also those of a bool that are
 * neither 0 nor 1; waits. */
void tensor_put(const struct weir_tensor *tensor, const void *bytes);
void tensor_get(const struct weir_tensor *tensor, void *bytes);

/* Host memory without an owner. */
struct weir_tensor *tensor_of_bytes(
    void *bytes, enum weir_dtype dtype, int ndim, const int64_t *shape);

#endif
