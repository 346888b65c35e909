/*
 * The whole text of a file, plain or compressed by xz or gzip.
 */
#ifndef TOOLS_WEIR_READING_FILE_TEXT_H
#define TOOLS_WEIR_READING_FILE_TEXT_H

#include <lzma.h>
#include <stdbool.h>
#include <stddef.h>

#include "snapshot/budget.h"
#include "tools/weir/tuning.h"

/* A text longer than this is refused: 1 GiB. */
#define FILE_TEXT_MAX ((size_t)1 << 30)

/* Bytes of memory that a decoder of xz has touched. Decoded bytes fill the
 * dictionary, so that a small file touches little of a large dictionary. */
uint64_t xz_memory(const lzma_stream *decoder);

/* A code of liblzma in words; NULL for LZMA_STREAM_END. */
const char *xz_failure(lzma_ret code);

/* A code of zlib in words, for a gzip file that cannot be read further. */
const char *gzip_failure(int code);

/* Bytes of memory that --read-memory allows readers; 0 without that flag. */
uint64_t read_memory(void);

/* The memory that the user allows for reading a file. */
struct budget file_text_budget(void);

/*
 * Read a file; "-" is stdin. The first bytes show whether it is compressed by
 * xz or gzip. A name that ends in ".xz" or ".gz" requires that form. False,
 * and `why` set to a text without the path, if the file cannot be read, has
 * not the form that its name requires, is damaged, cut off or too long, or
 * needs more memory than the budget has.
 *
 * @param budget  memory for the text and for all that is made of it; `stored`
 *                and `decoded` are set; the text itself is not counted later
 * @param text    the text with a NUL after it; the caller frees it
 */
bool file_text_read(const char *path, struct budget *budget, char **text,
    size_t *length, char *why, size_t why_size);

#endif
