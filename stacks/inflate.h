/*
 * Bytes that zlib has compressed.
 */
#ifndef STACKS_INFLATE_H
#define STACKS_INFLATE_H

#include <stdbool.h>
#include <stddef.h>

/* The most bytes that zlib packs into one. */
enum { INFLATE_RATIO_MAX = 1032 };

/*
 * Inflate `packed_size` bytes into `size` bytes. False if they are not the
 * result of compressing exactly that many bytes, or without memory; then the
 * content of `bytes` is undefined.
 */
bool inflate_exactly(const unsigned char *packed, size_t packed_size,
    unsigned char *bytes, size_t size);

#endif
