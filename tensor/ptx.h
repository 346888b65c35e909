/*
 * The kernels' text.
 *
 * A kernel is written in PTX when it is first needed, for two types and a
 * number of dimensions, from the table of tensor/element.h; the driver compiles
 * it for the device. All have the same parameters, 28 of 64 bits:
 *
 *	0	the destination; of a tile, whose last dimension is dense
 *	1	the source, or the first 8 bytes of the value of a fill
 *	2	the number of elements
 *	3	what it is, for the simulated device: KERNEL_CODE
 *	4-11	the extents
 *	12-19	the destination's strides, in bytes
 *	20-27	the source's; of a fill, 20 is the value's other 8 bytes
 *
 * A header that simcuda has too: tensor/kernel_abi.h.
 */
#ifndef TENSOR_PTX_H
#define TENSOR_PTX_H

#include <stdbool.h>
#include <stddef.h>

#include <weir/tensor.h>

#include "tensor/kernel_abi.h"

enum ptx_kind {
	PTX_FLAT, /* both sides are dense: two or four elements at a time */
	PTX_DIMS, /* any strides */
	PTX_TILE, /* the source is dense in another dimension than the last */
	PTX_PACK, /* a tile of one or two bytes: both sides use words */
	PTX_FILL,
};

struct ptx_kernel {
	enum ptx_kind kind;
	enum weir_dtype to_dtype, from_dtype; /* used if unit is 0 */
	/* Bytes that are moved without conversion: 1 to 16, or 0. */
	unsigned unit;
	int dims; /* 1 to KERNEL_DIMS; for a tile, at least 2 */
};

enum {
	PTX_THREADS = 256, /* threads of every block */
	PTX_FLAT_UNROLL = 4,
	PTX_DIMS_UNROLL = 4,
	PTX_TEXT_MAX = 1 << 17,
};

/* The number of elements that a thread of PTX_FLAT moves at a time. Its
 * neighbour writes the bytes that follow, at most 16, so that a warp writes
 * whole lines. */
static inline unsigned
ptx_flat_vector(size_t to_bytes)
{
	return to_bytes > 4 ? 2 : 4;
}

/* The side of a tile of elements with this size. */
static inline unsigned
ptx_tile_side(size_t to_bytes)
{
	return to_bytes > 4 ? 32 : 64;
}

/* The number of elements in a word; and the side of a tile that is moved by
 * words, which is that of a warp. */
static inline unsigned
ptx_pack_elements(unsigned unit)
{
	return 4 / unit;
}

static inline unsigned
ptx_pack_side(unsigned unit)
{
	return 32 * ptx_pack_elements(unit);
}

/* Write the text, at most `size` bytes; false if it does not fit. */
bool ptx_write(const struct ptx_kernel *kernel, char *text, size_t size);

#endif
