/*
 * The whole text of a file, plain or compressed by xz or gzip.
 */
#ifndef TOOLS_WEIR_FILE_TEXT_H
#define TOOLS_WEIR_FILE_TEXT_H

#include <lzma.h>
#include <stdbool.h>
#include <stddef.h>

#include "trace/budget.h"

/* A text longer than this is refused: 1 GiB. */
#define FILE_TEXT_MAX ((size_t)1 << 30)

/* Bytes that decoding xz may use, nearly all of them for its dictionary: its
 * highest preset needs 65 MiB. */
enum { XZ_DECODER_MEMORY = 256 << 20 };

/* Bytes of memory that a decoder of xz has touched. A dictionary is filled by
 * what is decoded, so a small file takes little of a large one. */
uint64_t xz_memory(const lzma_stream *decoder);

/* A code of liblzma in words; NULL for LZMA_STREAM_END. */
const char *xz_failure(lzma_ret code);

/* A code of zlib in words, for a gzip file that cannot be read further. */
const char *gzip_failure(int code);

/* The budget of reading a file, as the user allows it. */
struct budget file_text_budget(void);

/*
 * Read a file, "-" being stdin; xz and gzip are known by their first bytes, and
 * expected where the name ends in ".xz" or ".gz". False, and `why` set to a
 * text without the path, if it cannot be read, is not so though it should be,
 * is damaged, cut off, too long, or needs more memory than its budget is.
 *
 * @param budget  what the text and all that is made of it may take; `stored`
 * and `decoded` are set, the text itself is not counted later on
 * @param text    the text with a NUL after it; the caller frees it
 */
bool file_text_read(const char *path, struct budget *budget, char **text,
    size_t *length, char *why, size_t why_size);

#endif
