/*
 * Makes texts from other sources harmless (utf8.h).
 */
#include "base/utf8.h"

#include <stdio.h>
#include <string.h>

size_t
utf8_next(const char *text, size_t n, uint32_t *code)
{
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	const unsigned char *s = (const unsigned char *)text;
	size_t length;

	if (n == 0)
		return 0;
	length = *s < 0x80  ? 1 :
	    *s >> 5 == 6    ? 2 :
	    *s >> 4 == 0xe  ? 3 :
	    *s >> 3 == 0x1e ? 4 :
			      0;
	if (length == 0 || length > n)
		return 0;
	*code = length == 1 ? *s : *s & (0x7fu >> length);
	for (size_t i = 1; i < length; i++) {
		if (s[i] >> 6 != 2)
			return 0;
		*code = *code << 6 | (s[i] & 0x3f);
	}
	if (*code < least[length] || *code > 0x10ffff ||
	    *code >> 11 == 0xd800 >> 11)
		return 0;
	return length;
}

bool
utf8_is_control(uint32_t code)
{
	static const struct {
		uint32_t first;
		uint32_t last;
	} ranges[] = { { 0, 0x1f }, { 0x7f, 0x9f }, { 0x61c, 0x61c },
		{ 0x200e, 0x200f }, { 0x2028, 0x202e }, { 0x2066, 0x2069 },
		{ 0xfff9, 0xfffb }, { 0xe0000, 0xe007f } };

	for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++)
		if (code >= ranges[i].first && code <= ranges[i].last)
			return true;
	return false;
}

/* Does a text end within its last character? */
static bool
is_cut(const char *text, size_t n)
{
	unsigned char first = (unsigned char)text[0];
	size_t length = first >> 5 == 6 ? 2 :
	    first >> 4 == 0xe           ? 3 :
	    first >> 3 == 0x1e          ? 4 :
					  0;

	if (length <= n)
		return false;
	for (size_t i = 1; i < n; i++)
		if ((unsigned char)text[i] >> 6 != 2)
			return false;
	return true;
}

size_t
utf8_copy_plain(char *to, size_t size, const char *text)
{
	size_t left = strlen(text);
	size_t written = 0;

	while (left > 0) {
		uint32_t code;
		size_t n = utf8_next(text, left, &code);
		bool plain = n > 0 && !utf8_is_control(code);
		size_t bytes = plain ? n : 1;

		if (written + bytes >= size || (n == 0 && is_cut(text, left)))
			break;
		if (plain)
			memcpy(to + written, text, n);
		else
			to[written] = '?';
		written += bytes;
		text += n > 0 ? n : 1;
		left -= n > 0 ? n : 1;
	}
	to[written] = '\0';
	return written;
}

/* Escape one unit of UTF-16. */
static size_t
escape_unit(char *to, uint32_t unit)
{
	static const char digits[] = "0123456789abcdef";

	to[0] = '\\';
	to[1] = 'u';
	for (int i = 0; i < 4; i++)
		to[2 + i] = digits[unit >> (12 - 4 * i) & 0xf];
	return 6;
}

size_t
utf8_escape_json(char *to, uint32_t code)
{
	if (code == '"' || code == '\\') {
		to[0] = '\\';
		to[1] = (char)code;
		return 2;
	}
	if (!utf8_is_control(code))
		return 0;
	if (code < 0x10000)
		return escape_unit(to, code);
	code -= 0x10000;
	escape_unit(to, 0xd800 | code >> 10);
	return 6 + escape_unit(to + 6, 0xdc00 | (code & 0x3ff));
}
