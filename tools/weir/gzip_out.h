/*
 * A stream that compresses its bytes.
 */
#ifndef TOOLS_WEIR_GZIP_OUT_H
#define TOOLS_WEIR_GZIP_OUT_H

#include <stdbool.h>
#include <stdio.h>

/* Does a name end in ".gz"? */
bool gzip_is_named(const char *path);

/* A stream whose bytes reach `out` as a gzip file. Closing it writes the end,
 * and leaves `out` open. NULL without memory. */
FILE *gzip_out(FILE *out);

#endif
