/*
 * Reading what tools/weir/packer.c wrote, for tests of it and of what it
 * packs.
 */
#ifndef TESTS_TOOLS_WEIR_PACKED_H
#define TESTS_TOOLS_WEIR_PACKED_H

#include <stddef.h>

/* The bytes that were packed into a text of base64; the caller frees them. The
 * test fails if it is anything else. */
unsigned char *packed_read(const char *text, size_t length, size_t *size);

#endif
