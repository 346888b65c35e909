/*
 * How kernels are called: the interface between the library and the simulated
 * device.
 */
#ifndef TENSOR_KERNEL_ABI_H
#define TENSOR_KERNEL_ABI_H

#define KERNEL_COPY_NAME "weir_tensor_copy"
#define KERNEL_FILL_NAME "weir_tensor_fill"

enum {
	KERNEL_DIMS = 8,
	KERNEL_TO = 0,
	KERNEL_FROM = 1,
	KERNEL_ELEMENTS = 2,
	KERNEL_CODE = 3,
	KERNEL_EXTENTS = 4,
	KERNEL_TO_STRIDES = KERNEL_EXTENTS + KERNEL_DIMS,
	KERNEL_FROM_STRIDES = KERNEL_TO_STRIDES + KERNEL_DIMS,
	KERNEL_PARAMS = KERNEL_FROM_STRIDES + KERNEL_DIMS,
};

/* The bytes of parameter KERNEL_CODE. */
enum {
	KERNEL_CODE_TO = 0,    /* the destination's type */
	KERNEL_CODE_FROM = 8,  /* the source's type */
	KERNEL_CODE_DIMS = 16, /* number of dimensions */
	/* Bytes that are moved without conversion; 0: converted. */
	KERNEL_CODE_UNIT = 24,
};

#endif
