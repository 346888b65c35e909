/*
 * Makes texts from other sources harmless: UTF-8 without characters that
 * control a terminal or reorder a line.
 *
 * A control is one of these characters: C0, C1 and U+007F, which terminals take
 * for commands; those that order text from right to left or end that (U+061C,
 * U+200E, U+200F, U+202A to U+202E, U+2066 to U+2069), which make a line look
 * like another; those that end a line (U+2028, U+2029); and invisible ones for
 * annotations and tags (U+FFF9 to U+FFFB, U+E0000 to U+E007F).
 */
#ifndef BASE_UTF8_H
#define BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The length of the character at the start of `n` bytes of text, and its code.
 * 0 if the bytes are not UTF-8 or there are none. */
size_t utf8_next(const char *text, size_t n, uint32_t *code);

/* Is the character a control, as defined above? */
bool utf8_is_control(uint32_t code);

/*
 * Copy a text, with "?" for each control, including newlines, and for each byte
 * that is not UTF-8. The copy is cut to `size`; no character is cut, even if
 * the text itself ends within one.
 *
 * @param size  of `to`, including the NUL that ends it; at least 1
 * @return bytes written, without the NUL
 */
size_t utf8_copy_plain(char *to, size_t size, const char *text);

/*
 * Write the JSON escape of a character that must be escaped: a quote, a
 * backslash or a control. 0 for any other character.
 *
 * @param to  UTF8_ESCAPE bytes; not ended by NUL
 * @return bytes written
 */
enum { UTF8_ESCAPE = 12 };
size_t utf8_escape_json(char *to, uint32_t code);

#endif
