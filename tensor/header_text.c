/*
 * Reads the JSON of a safetensors header (tensor/header_text.h). There is no
 * recursion, and each byte is read once.
 */
#include "tensor/header_text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- Characters --------------------------------------------------------- */

bool
header_fail(struct reader *r, const char *format, ...)
{
	va_list args;

	if (r->status != WEIR_OK)
		return false;
	r->status = WEIR_EFILE;
	va_start(args, format);
	vsnprintf(r->wrong, sizeof(r->wrong), format, args);
	va_end(args);
	return false;
}

bool
header_no_memory(struct reader *r)
{
	header_fail(r, "no host memory");
	r->status = WEIR_EHOSTMEM;
	return false;
}

/* The next character, also a blank; -1 at the end. */
static int
next_byte(const struct reader *r)
{
	return r->at < r->size ? (unsigned char)r->text[r->at] : -1;
}

int
header_peek(struct reader *r)
{
	int c = next_byte(r);

	while (c == ' ' || c == '\t' || c == '\r' || c == '\n') {
		r->at++;
		c = next_byte(r);
	}
	return c;
}

bool
header_expect(struct reader *r, char c)
{
	if (r->status != WEIR_OK)
		return false;
	if (header_peek(r) == (unsigned char)c) {
		r->at++;
		return true;
	}
	if (c == '"')
		return header_fail(r, "a text is missing");
	return header_fail(r, "'%c' is missing", c);
}

bool
header_next_member(struct reader *r, bool *first)
{
	if (r->status != WEIR_OK)
		return false;
	if (header_peek(r) == '}') {
		r->at++;
		return false;
	}
	if (!*first && !header_expect(r, ','))
		return false;
	*first = false;
	return true;
}

/* ---- Texts -------------------------------------------------------------- */

static void
put_byte(struct reader *r, unsigned byte)
{
	r->texts[r->texts_used++] = (char)byte;
}

static void
put_code(struct reader *r, uint32_t code)
{
	if (code < 0x80 && code != 0) {
		put_byte(r, code);
		return;
	}
	if (code < 0x800) {
		put_byte(r, 0xc0 | code >> 6);
	} else if (code < 0x10000) {
		put_byte(r, 0xe0 | code >> 12);
		put_byte(r, 0x80 | (code >> 6 & 0x3f));
	} else {
		put_byte(r, 0xf0 | code >> 18);
		put_byte(r, 0x80 | (code >> 12 & 0x3f));
		put_byte(r, 0x80 | (code >> 6 & 0x3f));
	}
	put_byte(r, 0x80 | (code & 0x3f));
}

/* Read the four digits after \u. */
static bool
read_hex(struct reader *r, uint32_t *out)
{
	uint32_t code = 0;

	for (int i = 0; i < 4; i++) {
		int c = next_byte(r);

		if (c >= '0' && c <= '9')
			code = code << 4 | (uint32_t)(c - '0');
		else if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f')
			code = code << 4 | (uint32_t)((c | 0x20) - 'a' + 10);
		else
			return header_fail(
			    r, "\\u needs four hexadecimal digits");
		r->at++;
	}
	*out = code;
	return true;
}

static bool
read_unicode(struct reader *r)
{
	uint32_t code, low;

	if (!read_hex(r, &code))
		return false;
	if (code >= 0xd800 && code < 0xdc00) {
		if (r->size - r->at < 2 || r->text[r->at] != '\\' ||
		    r->text[r->at + 1] != 'u')
			return header_fail(r, "half of a surrogate pair");
		r->at += 2;
		if (!read_hex(r, &low))
			return false;
		if (low < 0xdc00 || low > 0xdfff)
			return header_fail(r, "half of a surrogate pair");
		code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
	} else if (code >= 0xdc00 && code < 0xe000) {
		return header_fail(r, "half of a surrogate pair");
	}
	put_code(r, code);
	return true;
}

static bool
read_text_escape(struct reader *r)
{
	static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
	int c = next_byte(r);
	const char *at = c > 0 ? strchr(from, c) : NULL;

	r->at++;
	if (c == 'u')
		return read_unicode(r);
	if (at == NULL)
		return header_fail(r, "an unknown escape");
	put_byte(r, (unsigned char)to[at - from]);
	return true;
}

const char *
header_read_text(struct reader *r)
{
	size_t start = r->texts_used;

	if (!header_expect(r, '"'))
		return NULL;
	for (;;) {
		int c = next_byte(r);

		if (c < 0) {
			header_fail(r, "a text has no end");
			return NULL;
		}
		if (c < 0x20) {
			header_fail(r, "a text holds a control character");
			return NULL;
		}
		r->at++;
		if (c == '"')
			break;
		if (c != '\\')
			put_byte(r, (unsigned)c);
		else if (!read_text_escape(r))
			return NULL;
	}
	put_byte(r, 0);
	return r->texts + start;
}

/* ---- Numbers ------------------------------------------------------------ */

bool
header_read_number(struct reader *r, uint64_t *out)
{
	uint64_t value = 0;
	size_t start;
	int c = header_peek(r);

	start = r->at;
	for (; c >= '0' && c <= '9'; c = next_byte(r)) {
		if (__builtin_mul_overflow(value, 10, &value) ||
		    __builtin_add_overflow(value, (uint64_t)(c - '0'), &value))
			return header_fail(r, "a number is too large");
		r->at++;
	}
	if (r->at == start)
		return header_fail(r, "a whole number from 0 is missing");
	if (r->text[start] == '0' && r->at > start + 1)
		return header_fail(r, "a number begins with 0");
	*out = value;
	return true;
}

/* Go past digits; false if there are none. `leading` counts the zeros before
 * the first other digit, if `found` says that none came before. */
static bool
skip_digits(struct reader *r, size_t *n, size_t *leading, bool *found)
{
	size_t start = r->at;

	*leading = 0;
	for (int c = next_byte(r); c >= '0' && c <= '9'; c = next_byte(r)) {
		*found = *found || c != '0';
		*leading += !*found;
		r->at++;
	}
	*n = r->at - start;
	return *n > 0 || header_fail(r, "a digit is missing");
}

/* Go past an exponent, of which 100,000 is enough. */
static bool
skip_exponent(struct reader *r, long *out)
{
	bool minus = next_byte(r) == '-';
	long value = 0;
	size_t start;

	if (minus || next_byte(r) == '+')
		r->at++;
	start = r->at;
	for (int c = next_byte(r); c >= '0' && c <= '9'; c = next_byte(r)) {
		if (value < 100000)
			value = value * 10 + (c - '0');
		r->at++;
	}
	*out = minus ? -value : value;
	return r->at > start || header_fail(r, "a digit is missing");
}

/* Go past any number that a double can hold. */
static bool
skip_number(struct reader *r)
{
	enum { EXPONENT_MAX = 308 };
	size_t whole, part = 0, leading, zeros = 0, start;
	bool found = false, is_whole;
	long exponent = 0;

	if (next_byte(r) == '-')
		r->at++;
	start = r->at;
	if (!skip_digits(r, &whole, &leading, &found))
		return false;
	if (r->text[start] == '0' && whole > 1)
		return header_fail(r, "a number begins with 0");
	is_whole = found;
	if (next_byte(r) == '.') {
		r->at++;
		if (!skip_digits(r, &part, &zeros, &found))
			return false;
	}
	if (next_byte(r) == 'e' || next_byte(r) == 'E') {
		r->at++;
		if (!skip_exponent(r, &exponent))
			return false;
	}
	exponent += is_whole ? (long)whole - 1 : -(long)zeros - 1;
	return !found || exponent <= EXPONENT_MAX ||
	    header_fail(r, "a number is too large");
}

/* ---- Any value ---------------------------------------------------------- */

static bool
skip_word(struct reader *r, const char *word)
{
	size_t length = strlen(word);

	if (r->size - r->at < length ||
	    memcmp(r->text + r->at, word, length) != 0)
		return false;
	r->at += length;
	return true;
}

bool
header_skip_null(struct reader *r)
{
	return header_peek(r) == 'n' && skip_word(r, "null");
}

static bool
skip_text(struct reader *r)
{
	size_t used = r->texts_used;
	const char *text = header_read_text(r);

	r->texts_used = used;
	return text != NULL;
}

static bool
skip_plain(struct reader *r)
{
	int c = header_peek(r);

	if (c == '"')
		return skip_text(r);
	if (c == '-' || (c >= '0' && c <= '9'))
		return skip_number(r);
	return skip_word(r, "null") || skip_word(r, "true") ||
	    skip_word(r, "false") || header_fail(r, "a value is missing");
}

/* The objects and arrays that are open, as the characters that close them. */
struct open {
	char closing[HEADER_DEPTH_MAX];
	int n, max;
};

/* At the place of a value or an end: go into objects and arrays up to the first
 * plain value or end. True: a plain value comes. */
static bool
enter_containers(struct reader *r, struct open *open)
{
	for (;;) {
		int c = header_peek(r);

		if (c != '{' && c != '[')
			return true;
		if (open->n == open->max)
			return header_fail(
			    r, "it is nested deeper than %d", HEADER_DEPTH_MAX);
		r->at++;
		open->closing[open->n++] = c == '{' ? '}' : ']';
		if (header_peek(r) == open->closing[open->n - 1])
			return false;
		if (c == '{' && (!skip_text(r) || !header_expect(r, ':')))
			return false;
	}
}

/* After a value: go past ends. True: another value follows. */
static bool
leave_containers(struct reader *r, struct open *open)
{
	while (open->n > 0) {
		char closing = open->closing[open->n - 1];

		if (header_peek(r) == closing) {
			r->at++;
			open->n--;
			continue;
		}
		return header_expect(r, ',') &&
		    (closing == ']' || (skip_text(r) && header_expect(r, ':')));
	}
	return false;
}

bool
header_skip_value(struct reader *r, int depth)
{
	struct open open = { .max = HEADER_DEPTH_MAX - depth };

	do {
		if (enter_containers(r, &open) && !skip_plain(r))
			return false;
	} while (r->status == WEIR_OK && leave_containers(r, &open));
	return r->status == WEIR_OK;
}
