/*
 * Bytes that zlib has compressed.
 */
#ifndef TRACE_INFLATE_H
#define TRACE_INFLATE_H

#include <stdbool.h>
#include <stddef.h>

/* zlib makes at most so many bytes of one. */
enum { INFLATE_RATIO_MAX = 1032 };

/*
 * Inflate `packed_size` bytes into `size` bytes. False if they are not what
 * zlib makes of that many bytes, or without memory; the content of `bytes` is
 * undefined then.
 */
bool inflate_exactly(const unsigned char *packed, size_t packed_size,
    unsigned char *bytes, size_t size);

#endif
