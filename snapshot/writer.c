/*
 * The pickle's opcodes have the names that Python's pickletools gives them.
 */
#include "snapshot/writer.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/os.h"
#include "base/utf8.h"
#include "snapshot/tuning.h"

enum { NUMBER_MAX = 32 };

enum code {
	PROTO = 0x80,
	STOP = '.',
	MARK = '(',
	EMPTY_DICT = '}',
	EMPTY_LIST = ']',
	SETITEMS = 'u',
	APPENDS = 'e',
	BININT1 = 'K',
	BININT2 = 'M',
	BININT = 'J',
	LONG1 = 0x8a,
	BINFLOAT = 'G',
	BINUNICODE = 'X',
	SHORT_BINUNICODE = 0x8c,
	NEWTRUE = 0x88,
	NEWFALSE = 0x89,
	TUPLE2 = 0x86,
	BINPUT = 'q',
	LONG_BINPUT = 'r',
	BINGET = 'h',
	LONG_BINGET = 'j',
};

/* ---- Levels ------------------------------------------------------------ */

static struct writer_level *
level(struct writer *w)
{
	return &w->level[w->depth - 1];
}

/* Prepare for the next value of a list. In a dictionary the key has done that.
 */
static void
before_value(struct writer *w)
{
	if (w->depth == 0 || level(w)->dict)
		return;
	struct writer_level *l = level(w);
	if (w->json) {
		if (l->any)
			out_bytes(w->out, ",\n", 2);
	} else if (l->batch == WRITER_BATCH) {
		out_byte(w->out, APPENDS);
		l->batch = 0;
	}
	if (!w->json && l->batch++ == 0)
		out_byte(w->out, MARK);
	l->any = true;
}

static void
open_level(struct writer *w, bool dict)
{
	before_value(w);
	w->level[w->depth++] = (struct writer_level){ .dict = dict };
	if (w->json) {
		out_byte(w->out, dict ? '{' : '[');
		return;
	}
	out_byte(w->out, dict ? EMPTY_DICT : EMPTY_LIST);
	if (dict)
		out_byte(w->out, MARK);
}

void
writer_dict(struct writer *w)
{
	open_level(w, true);
}

void
writer_list(struct writer *w)
{
	open_level(w, false);
}

void
writer_close(struct writer *w)
{
	const struct writer_level *l = level(w);

	if (w->json)
		out_byte(w->out, l->dict ? '}' : ']');
	else if (l->dict)
		out_byte(w->out, SETITEMS);
	else if (l->batch > 0)
		out_byte(w->out, APPENDS);
	w->depth--;
}

void
writer_begin(struct writer *w, struct out *out, bool json)
{
	*w = (struct writer){ .out = out, .json = json };
	if (!json) {
		out_byte(out, PROTO);
		out_byte(out, 4);
	}
}

void
writer_end(struct writer *w)
{
	out_byte(w->out, w->json ? '\n' : STOP);
}

/* ---- Texts ------------------------------------------------------------- */

/* The bytes of the first character of a text that ends with NUL; 0 if they are
 * not UTF-8. */
static size_t
character_bytes(const unsigned char *s)
{
	uint32_t code;

	return utf8_next((const char *)s, strnlen((const char *)s, 4), &code);
}

static const char unknown[] = "\xef\xbf\xbd"; /* U+FFFD */

static void
json_text(struct out *out, const char *text)
{
	out_byte(out, '"');
	while (*text != '\0') {
		char escape[UTF8_ESCAPE];
		uint32_t code;
		size_t n = utf8_next(text, strnlen(text, 4), &code);
		size_t escaped = n == 0 ? 0 : utf8_escape_json(escape, code);

		if (n == 0)
			out_bytes(out, unknown, sizeof(unknown) - 1);
		else if (escaped > 0)
			out_bytes(out, escape, escaped);
		else
			out_bytes(out, text, n);
		text += n > 0 ? n : 1;
	}
	out_byte(out, '"');
}

/* The length of a text after bytes that are not UTF-8 have been replaced;
 * *clean says that none have to be. */
static size_t
clean_length(const char *text, bool *clean)
{
	const unsigned char *s = (const unsigned char *)text;
	size_t length = 0;

	*clean = true;
	while (*s != '\0') {
		size_t n = character_bytes(s);
		*clean = *clean && n > 0;
		length += n > 0 ? n : sizeof(unknown) - 1;
		s += n > 0 ? n : 1;
	}
	return length;
}

static void
put_u32(unsigned char *to, uint32_t value)
{
	for (int i = 0; i < 4; i++)
		to[i] = (unsigned char)(value >> 8 * i);
}

static void
pickle_text(struct out *out, const char *text)
{
	const unsigned char *s = (const unsigned char *)text;
	bool clean;
	size_t length = clean_length(text, &clean);
	unsigned char *head = out_room(out, 5);

	if (length < 256) {
		head[0] = SHORT_BINUNICODE;
		head[1] = (unsigned char)length;
	} else {
		head[0] = BINUNICODE;
		put_u32(head + 1, (uint32_t)length);
	}
	out_taken(out, length < 256 ? 2 : 5);
	if (clean) {
		out_bytes(out, text, length);
		return;
	}
	while (*s != '\0') {
		size_t n = character_bytes(s);
		out_bytes(out, n > 0 ? (const char *)s : unknown,
		    n > 0 ? n : sizeof(unknown) - 1);
		s += n > 0 ? n : 1;
	}
}

static void
put_text(struct writer *w, const char *text)
{
	if (w->json)
		json_text(w->out, text);
	else
		pickle_text(w->out, text);
}

void
writer_text(struct writer *w, const char *text)
{
	before_value(w);
	put_text(w, text);
}

/* ---- Memos ------------------------------------------------------------- */

/* Write a memo's number, which is one less, with the shorter opcode that holds
 * it. */
static void
put_memo(struct writer *w, enum code brief, enum code ample, uint32_t number)
{
	unsigned char *to = out_room(w->out, 5);

	to[0] = (unsigned char)(number < 256 ? brief : ample);
	if (number < 256)
		to[1] = (unsigned char)number;
	else
		put_u32(to + 1, number);
	out_taken(w->out, number < 256 ? 2 : 5);
}

void
writer_keep(struct writer *w, memo *m)
{
	if (w->json)
		return;
	*m = ++w->memos;
	put_memo(w, BINPUT, LONG_BINPUT, *m - 1);
}

static bool
put_again(struct writer *w, memo m)
{
	if (w->json || m == 0)
		return false;
	put_memo(w, BINGET, LONG_BINGET, m - 1);
	return true;
}

bool
writer_again(struct writer *w, memo m)
{
	if (w->json || m == 0)
		return false;
	before_value(w);
	return put_again(w, m);
}

void
writer_word(struct writer *w, const char *text, memo *m)
{
	before_value(w);
	if (put_again(w, *m))
		return;
	put_text(w, text);
	writer_keep(w, m);
}

void
writer_key(struct writer *w, const char *key, memo *m)
{
	struct writer_level *l = level(w);

	if (w->json && l->any)
		out_bytes(w->out, ",", 1);
	l->any = true;
	if (!put_again(w, *m)) {
		put_text(w, key);
		writer_keep(w, m);
	}
	if (w->json)
		out_byte(w->out, ':');
}

void
writer_name(struct writer *w, const char *key)
{
	struct writer_level *l = level(w);

	if (w->json && l->any)
		out_bytes(w->out, ",\n", 2);
	l->any = true;
	put_text(w, key);
	if (w->json)
		out_byte(w->out, ':');
}

/* ---- Numbers ----------------------------------------------------------- */

static void
json_uint(struct out *out, uint64_t value)
{
	unsigned char digits[NUMBER_MAX];
	size_t n = 0;

	do {
		digits[NUMBER_MAX - ++n] = (unsigned char)('0' + value % 10);
		value /= 10;
	} while (value > 0);
	out_bytes(out, digits + NUMBER_MAX - n, n);
}

/* The fewest bytes that hold the number and its sign. */
static void
pickle_long(struct out *out, uint64_t value, bool negative)
{
	uint64_t bits = negative ? ~value : value;
	size_t n = bits == 0 ? 1 : (71 - (size_t)__builtin_clzll(bits)) / 8;
	unsigned char *to = out_room(out, 2 + 9);

	/* The sign needs a bit of its own. */
	if (n < 9 && bits >> (8 * n - 1) != 0)
		n++;
	to[0] = LONG1;
	to[1] = (unsigned char)n;
	for (size_t i = 0; i < n; i++)
		to[2 + i] = (unsigned char)(i < 8 ? value >> 8 * i :
			negative                  ? 0xff :
						    0);
	out_taken(out, 2 + n);
}

static void
put_uint(struct writer *w, uint64_t value)
{
	if (w->json) {
		json_uint(w->out, value);
		return;
	}
	unsigned char *to = out_room(w->out, 5);
	if (value < 256) {
		to[0] = BININT1;
		to[1] = (unsigned char)value;
		out_taken(w->out, 2);
	} else if (value < 65536) {
		to[0] = BININT2;
		to[1] = (unsigned char)value;
		to[2] = (unsigned char)(value >> 8);
		out_taken(w->out, 3);
	} else if (value <= INT32_MAX) {
		to[0] = BININT;
		put_u32(to + 1, (uint32_t)value);
		out_taken(w->out, 5);
	} else {
		pickle_long(w->out, value, false);
	}
}

void
writer_uint(struct writer *w, uint64_t value)
{
	before_value(w);
	put_uint(w, value);
}

void
writer_int(struct writer *w, int64_t value)
{
	before_value(w);
	if (value >= 0) {
		put_uint(w, (uint64_t)value);
	} else if (w->json) {
		out_byte(w->out, '-');
		json_uint(w->out, -(uint64_t)value);
	} else if (value >= INT32_MIN) {
		unsigned char *to = out_room(w->out, 5);
		to[0] = BININT;
		put_u32(to + 1, (uint32_t)value);
		out_taken(w->out, 5);
	} else {
		pickle_long(w->out, (uint64_t)value, true);
	}
}

void
writer_real(struct writer *w, double value)
{
	char text[NUMBER_MAX];
	uint64_t bits;

	before_value(w);
	if (w->json) {
		os_format_real(value, 17, text, sizeof(text));
		out_bytes(w->out, text, strlen(text));
		if (strpbrk(text, ".e") == NULL)
			out_bytes(w->out, ".0", 2);
		return;
	}
	memcpy(&bits, &value, sizeof(bits));
	unsigned char *to = out_room(w->out, 9);
	to[0] = BINFLOAT;
	for (int i = 0; i < 8; i++)
		to[1 + i] = (unsigned char)(bits >> (56 - 8 * i));
	out_taken(w->out, 9);
}

void
writer_bool(struct writer *w, bool value)
{
	before_value(w);
	if (!w->json)
		out_byte(w->out, value ? NEWTRUE : NEWFALSE);
	else if (value)
		out_bytes(w->out, "true", 4);
	else
		out_bytes(w->out, "false", 5);
}

void
writer_pair(struct writer *w, uint64_t a, uint64_t b)
{
	before_value(w);
	if (w->json)
		out_byte(w->out, '[');
	put_uint(w, a);
	if (w->json)
		out_byte(w->out, ',');
	put_uint(w, b);
	out_byte(w->out, w->json ? ']' : TUPLE2);
}
