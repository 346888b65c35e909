/*
 * The sizes of PyTorch's own allocator, in bytes, as of PyTorch 2.11:
 * recordings show them, remedies name them, and the model of that allocator
 * keeps to them.
 */
#ifndef WEIR_READING_TORCH_SIZES_H
#define WEIR_READING_TORCH_SIZES_H

enum {
	TORCH_GRANULE = 512,            /* blocks are multiples of it */
	TORCH_SMALL_MAX = 1 << 20,      /* a larger request is a large one */
	TORCH_SMALL_SEGMENT = 2 << 20,  /* for small requests */
	TORCH_LARGE_SEGMENT = 20 << 20, /* for requests below TORCH_OWN_LEAST */
	TORCH_OWN_LEAST = 10 << 20, /* from here on a segment fits a request */
	TORCH_SEGMENT_STEP = 2 << 20, /* that segment is a multiple of it */
};

#endif
