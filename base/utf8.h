/*
 * Texts of others, made harmless for who reads them: UTF-8 with nothing that a
 * terminal obeys or that reorders a line.
 *
 * A control is a character of C0 or C1 and U+007F, which terminals take for
 * commands; one that orders text from right to left or ends that (U+061C,
 * U+200E, U+200F, U+202A to U+202E, U+2066 to U+2069), which makes a line look
 * like another; one that ends a line (U+2028, U+2029); or one of annotations
 * and tags, which are not seen (U+FFF9 to U+FFFB, U+E0000 to U+E007F).
 */
#ifndef BASE_UTF8_H
#define BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes of the character at the begin of `n` bytes of text, and its code. 0 if
 * they are not UTF-8 or there are none. */
size_t utf8_next(const char *text, size_t n, uint32_t *code);

/* True for a control, as above. */
bool utf8_is_control(uint32_t code);

/*
 * Copy a text with "?" for each control, newlines too, and for each byte that
 * is not UTF-8. What does not fit is left out; no character is cut, also where
 * the text itself ends within one.
 *
 * @param size  of `to`, with the NUL that ends it; at least 1
 * @return bytes written, without the NUL
 */
size_t utf8_copy_plain(char *to, size_t size, const char *text);

/*
 * The escapes of JSON for a character that has to be escaped: quotes,
 * backslashes and controls. 0 for any other.
 *
 * @param to  room for UTF8_ESCAPE bytes; not ended by NUL
 * @return bytes written
 */
enum { UTF8_ESCAPE = 12 };
size_t utf8_escape_json(char *to, uint32_t code);

#endif
