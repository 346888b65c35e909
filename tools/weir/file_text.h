/*
 * The whole text of a file, plain or xz-compressed.
 */
#ifndef TOOLS_WEIR_FILE_TEXT_H
#define TOOLS_WEIR_FILE_TEXT_H

#include <lzma.h>
#include <stdbool.h>
#include <stddef.h>

/* A text longer than this is refused: 1 GiB. */
#define FILE_TEXT_MAX ((size_t)1 << 30)

/* Bytes that decoding xz may use: its highest preset needs 65 MiB. */
enum { XZ_DECODER_MEMORY = 256 << 20 };

/* What a code of liblzma says of a file; NULL for LZMA_STREAM_END. */
const char *xz_failure(lzma_ret code);

/*
 * Read a file, "-" being stdin; xz is known by its first bytes, and expected
 * where the name ends in ".xz". False, and `why` set to a text without the
 * path, if it cannot be read, is not xz though it should be, is damaged, cut
 * off, or too long.
 *
 * @param text  the text with a NUL after it; the caller frees it
 */
bool file_text_read(
    const char *path, char **text, size_t *length, char *why, size_t why_size);

#endif
