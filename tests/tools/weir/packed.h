/*
 * Reading the output of tools/weir/export/packer.c, for its tests and those of
 * its callers.
 */
#ifndef TESTS_TOOLS_WEIR_PACKED_H
#define TESTS_TOOLS_WEIR_PACKED_H

#include <stddef.h>

/* The bytes of a packed text. The caller frees them. The test fails if the text
 * is invalid. */
unsigned char *packed_read(const char *text, size_t length, size_t *size);

#endif
