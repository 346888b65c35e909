/*
 * The numbers of this folder that were chosen and can be chosen otherwise.
 */
#ifndef TENSOR_TUNING_H
#define TENSOR_TUNING_H

/* Entries that the table of a file's tensors begins with. */
enum { HEADER_FIRST_ENTRIES = 64 };

/* Characters of a tensor's name that an error shows. */
enum { HEADER_SHOWN_NAME = 100 };

/* Bytes of the longest header of a file, as the format has it. */
enum { HEADER_MAX = 100000000 };

/* The deepest nesting of objects and arrays, the header's own included. */
enum { HEADER_DEPTH_MAX = 127 };

/* Buckets of the table of kernels. */
enum { KERNEL_BUCKETS = 64 };

/* Extent of the two dimensions from which a tile pays. */
enum { KERNEL_TILE_LEAST = 16 };

/* Bytes to which host memory of a storage is aligned: a cache line. */
enum { STORAGE_HOST_ALIGNMENT = 64 };

/* A file is moved in chunks of so many bytes, through two buffers for each of
 * the threads. */
enum {
	TRANSFER_CHUNK = 8 << 20,
	TRANSFER_BUFFERS = 2,
	TRANSFER_THREADS = 6,
};

#endif
