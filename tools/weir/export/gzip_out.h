/*
 * A stream that compresses its bytes.
 */
#ifndef TOOLS_WEIR_EXPORT_GZIP_OUT_H
#define TOOLS_WEIR_EXPORT_GZIP_OUT_H

#include <stdbool.h>
#include <stdio.h>

/* True if a name ends in ".gz". */
bool gzip_is_named(const char *path);

/* A stream that writes its bytes to `out` as a gzip file. fclose() writes the
 * end of the gzip file and leaves `out` open. NULL without memory. */
FILE *gzip_out(FILE *out);

#endif
