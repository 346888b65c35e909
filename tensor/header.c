/*
 * Reads the header of a safetensors file.
 *
 * This parser accepts only the JSON that a header may have: one object, whose
 * members are objects with three members, except `__metadata__`, whose members
 * are texts. There is no recursion, and each byte is read once. All texts are
 * decoded into one buffer of the header's size, because decoding never makes a
 * text longer.
 */
#include "tensor/header.h"

#include <stdlib.h>
#include <string.h>

#include "base/meta.h"
#include "base/status.h"

struct reader {
	const char *text;
	size_t size;
	size_t at;
	const char *wrong; /* description of a failure */
	struct header *header;
};

enum { FIRST_ENTRIES = 64 };

static const struct {
	enum weir_dtype dtype;
	const char *name;
} names[] = {
	{ WEIR_BOOL, "BOOL" },
	{ WEIR_UINT8, "U8" },
	{ WEIR_INT8, "I8" },
	{ WEIR_FLOAT8_E5M2, "F8_E5M2" },
	{ WEIR_FLOAT8_E4M3FN, "F8_E4M3" },
	{ WEIR_FLOAT8_E8M0FNU, "F8_E8M0" },
	{ WEIR_INT16, "I16" },
	{ WEIR_UINT16, "U16" },
	{ WEIR_FLOAT16, "F16" },
	{ WEIR_BFLOAT16, "BF16" },
	{ WEIR_INT32, "I32" },
	{ WEIR_UINT32, "U32" },
	{ WEIR_FLOAT32, "F32" },
	{ WEIR_COMPLEX64, "C64" },
	{ WEIR_FLOAT64, "F64" },
	{ WEIR_INT64, "I64" },
	{ WEIR_UINT64, "U64" },
};

enum { NAMES = sizeof(names) / sizeof(names[0]) };

const char *
header_dtype_name(enum weir_dtype dtype)
{
	for (size_t i = 0; i < NAMES; i++) {
		if (names[i].dtype == dtype)
			return names[i].name;
	}
	return NULL;
}

/* ---- Characters --------------------------------------------------------- */

static bool
header_fail(struct reader *r, const char *wrong)
{
	if (r->wrong == NULL)
		r->wrong = wrong;
	return false;
}

static void
skip_header_space(struct reader *r)
{
	while (r->at < r->size && r->text[r->at] != '\0' &&
	    strchr(" \t\r\n", r->text[r->at]) != NULL)
		r->at++;
}

/* The next character that is not a space; '\0' at the end. */
static char
peek_char(struct reader *r)
{
	skip_header_space(r);
	return r->at < r->size ? r->text[r->at] : '\0';
}

static bool
expect(struct reader *r, char c)
{
	static const struct {
		char c;
		const char *wrong;
	} texts[] = {
		{ '{', "'{' is missing" },
		{ '[', "'[' is missing" },
		{ ']', "']' is missing" },
		{ ':', "':' is missing" },
		{ ',', "',' is missing" },
		{ '"', "a text is missing" },
	};

	if (peek_char(r) == c) {
		r->at++;
		return true;
	}
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		if (texts[i].c == c)
			return header_fail(r, texts[i].wrong);
	}
	return header_fail(r, "something is missing");
}

/* ---- Texts -------------------------------------------------------------- */

static bool
put_byte(struct header *h, unsigned byte)
{
	if (h->texts_used == h->texts_size)
		return false;
	h->texts[h->texts_used++] = (char)byte;
	return true;
}

static bool
put_code(struct header *h, uint32_t code)
{
	if (code < 0x80)
		return put_byte(h, code);
	if (code < 0x800)
		return put_byte(h, 0xc0 | code >> 6) &&
		    put_byte(h, 0x80 | (code & 0x3f));
	if (code < 0x10000)
		return put_byte(h, 0xe0 | code >> 12) &&
		    put_byte(h, 0x80 | (code >> 6 & 0x3f)) &&
		    put_byte(h, 0x80 | (code & 0x3f));
	return put_byte(h, 0xf0 | code >> 18) &&
	    put_byte(h, 0x80 | (code >> 12 & 0x3f)) &&
	    put_byte(h, 0x80 | (code >> 6 & 0x3f)) &&
	    put_byte(h, 0x80 | (code & 0x3f));
}

/* Read the four digits after \u. */
static bool
read_hex(struct reader *r, uint32_t *out)
{
	uint32_t code = 0;

	for (int i = 0; i < 4; i++) {
		char c = r->at < r->size ? r->text[r->at] : '\0';

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
		if (r->size - r->at < 6 || r->text[r->at] != '\\' ||
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
	if (code == 0)
		return header_fail(r, "a text holds a zero byte");
	return put_code(r->header, code) ||
	    header_fail(r, "a text is too long");
}

static bool
read_text_escape(struct reader *r)
{
	static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
	char c = r->at < r->size ? r->text[r->at] : '\0';
	const char *at = c != '\0' ? strchr(from, c) : NULL;

	r->at++;
	if (c == 'u')
		return read_unicode(r);
	if (at == NULL)
		return header_fail(r, "an unknown escape");
	return put_byte(r->header, (unsigned char)to[at - from]) ||
	    header_fail(r, "a text is too long");
}

static const char *
fail_text(struct reader *r, const char *wrong)
{
	header_fail(r, wrong);
	return NULL;
}

/* Read a text, which the header owns; NULL if it is malformed. */
static const char *
read_header_text(struct reader *r)
{
	struct header *h = r->header;
	size_t start = h->texts_used;

	if (!expect(r, '"'))
		return NULL;
	for (;;) {
		unsigned char c;

		if (r->at >= r->size)
			return fail_text(r, "a text has no end");
		c = (unsigned char)r->text[r->at++];
		if (c == '"')
			break;
		if (c < 0x20)
			return fail_text(r, "a text holds a control character");
		if (c == '\\') {
			if (!read_text_escape(r))
				return NULL;
		} else if (!put_byte(h, c)) {
			return fail_text(r, "a text is too long");
		}
	}
	if (!put_byte(h, 0))
		return fail_text(r, "a text is too long");
	return h->texts + start;
}

/* ---- Numbers ------------------------------------------------------------ */

static bool
read_header_number(struct reader *r, uint64_t *out)
{
	uint64_t value = 0;
	size_t start;

	peek_char(r);
	start = r->at;
	while (
	    r->at < r->size && r->text[r->at] >= '0' && r->text[r->at] <= '9') {
		if (__builtin_mul_overflow(value, 10, &value) ||
		    __builtin_add_overflow(
			value, (uint64_t)(r->text[r->at] - '0'), &value))
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

/* Read up to `max` numbers in brackets. */
static bool
read_numbers(struct reader *r, uint64_t *out, size_t max, size_t *n)
{
	*n = 0;
	if (!expect(r, '['))
		return false;
	if (peek_char(r) == ']') {
		r->at++;
		return true;
	}
	for (;;) {
		if (*n == max)
			return header_fail(r, "there are too many numbers");
		if (!read_header_number(r, &out[(*n)++]))
			return false;
		if (peek_char(r) == ']') {
			r->at++;
			return true;
		}
		if (!expect(r, ','))
			return false;
	}
}

/* ---- Members ------------------------------------------------------------ */

/* After '{' or a member: does another member follow? */
static bool
next_member(struct reader *r, bool *first)
{
	char c = peek_char(r);

	if (c == '}') {
		r->at++;
		return false;
	}
	if (!*first && !expect(r, ','))
		return false;
	*first = false;
	return true;
}

/* Make room for one more item of `size` bytes. The array is at most twice as
 * large as its content, which is bounded by the text. */
static void *
grown(void *array, size_t n, size_t *max, size_t size)
{
	size_t more = *max == 0 ? FIRST_ENTRIES : *max * 2;
	void *grown_array;

	if (n < *max)
		return array;
	grown_array = meta_alloc(more * size);
	if (grown_array == NULL)
		return NULL;
	if (n > 0)
		memcpy(grown_array, array, n * size);
	meta_free(array, *max * size);
	*max = more;
	return grown_array;
}

static bool
read_shape(struct reader *r, struct header_entry *entry)
{
	struct header *h = r->header;
	uint64_t lengths[WEIR_DIMS_MAX];
	size_t n;

	if (!read_numbers(r, lengths, WEIR_DIMS_MAX, &n))
		return false;
	entry->ndim = (int)n;
	entry->shape_at = h->n_lengths;
	for (size_t i = 0; i < n; i++) {
		int64_t *all = grown(
		    h->lengths, h->n_lengths, &h->max_lengths, sizeof(int64_t));

		if (all == NULL)
			return header_fail(r, "no host memory");
		h->lengths = all;
		if (lengths[i] > INT64_MAX)
			return header_fail(r, "a length is too large");
		all[h->n_lengths++] = (int64_t)lengths[i];
	}
	return true;
}

static bool
read_dtype(struct reader *r, struct header_entry *entry)
{
	size_t used = r->header->texts_used;
	const char *text = read_header_text(r);

	if (text == NULL)
		return false;
	for (size_t i = 0; i < NAMES; i++) {
		if (strcmp(names[i].name, text) == 0)
			entry->dtype = names[i].dtype;
	}
	r->header->texts_used = used;
	return entry->dtype != WEIR_DTYPE_NONE ||
	    header_fail(r, "the dtype is unknown");
}

static bool
read_offsets(struct reader *r, struct header_entry *entry)
{
	uint64_t offsets[2];
	size_t n;

	if (!read_numbers(r, offsets, 2, &n))
		return false;
	if (n != 2)
		return header_fail(r, "data_offsets are not two numbers");
	entry->begin = offsets[0];
	entry->end = offsets[1];
	return true;
}

/* Check that the elements have exactly the stated size. */
static bool
check_entry_size(struct reader *r, const struct header_entry *entry)
{
	const int64_t *shape = header_shape(r->header, entry);
	uint64_t bytes = weir_dtype_size(entry->dtype);
	bool empty = false;

	for (int i = 0; i < entry->ndim; i++)
		empty = empty || shape[i] == 0;
	for (int i = 0; i < entry->ndim && !empty; i++) {
		if (__builtin_mul_overflow(bytes, (uint64_t)shape[i], &bytes))
			return header_fail(r, "the shape is too large");
	}
	if (entry->end < entry->begin ||
	    entry->end - entry->begin != (empty ? 0 : bytes))
		return header_fail(
		    r, "data_offsets do not fit dtype and shape");
	return true;
}

enum { SEEN_DTYPE = 1, SEEN_SHAPE = 2, SEEN_OFFSETS = 4, SEEN_ALL = 7 };

static bool
read_entry(struct reader *r, struct header_entry *entry)
{
	bool first = true, good = true;
	unsigned seen = 0;

	if (!expect(r, '{'))
		return false;
	while (good && next_member(r, &first)) {
		size_t used = r->header->texts_used;
		unsigned what = 0;
		const char *key = read_header_text(r);

		if (key == NULL || !expect(r, ':'))
			return false;
		if (strcmp(key, "dtype") == 0)
			what = SEEN_DTYPE;
		else if (strcmp(key, "shape") == 0)
			what = SEEN_SHAPE;
		else if (strcmp(key, "data_offsets") == 0)
			what = SEEN_OFFSETS;
		r->header->texts_used = used;
		if (what == 0 || (seen & what) != 0)
			return header_fail(
			    r, "a member is unknown or there twice");
		seen |= what;
		good = what == SEEN_DTYPE ? read_dtype(r, entry) :
		    what == SEEN_SHAPE    ? read_shape(r, entry) :
					    read_offsets(r, entry);
	}
	if (!good || r->wrong != NULL)
		return false;
	if (seen != SEEN_ALL)
		return header_fail(
		    r, "dtype, shape or data_offsets are missing");
	return check_entry_size(r, entry);
}

static bool
add_pair(struct reader *r, const char *key, const char *value)
{
	struct header *h = r->header;
	struct header_pair *pairs =
	    grown(h->metadata, h->n_metadata, &h->max_metadata, sizeof(*pairs));

	if (pairs == NULL)
		return header_fail(r, "no host memory");
	h->metadata = pairs;
	pairs[h->n_metadata++] = (struct header_pair){ key, value };
	return true;
}

static bool
read_metadata(struct reader *r)
{
	bool first = true;

	if (r->header->n_metadata > 0)
		return header_fail(r, "__metadata__ is there twice");
	if (!expect(r, '{'))
		return false;
	while (next_member(r, &first)) {
		const char *key = read_header_text(r), *value;

		if (key == NULL || !expect(r, ':'))
			return false;
		value = read_header_text(r);
		if (value == NULL || !add_pair(r, key, value))
			return false;
	}
	return r->wrong == NULL;
}

static bool
read_all(struct reader *r)
{
	struct header *h = r->header;
	bool first = true;

	if (!expect(r, '{'))
		return false;
	while (next_member(r, &first)) {
		struct header_entry entry = { .dtype = WEIR_DTYPE_NONE };

		entry.name = read_header_text(r);
		if (entry.name == NULL || !expect(r, ':'))
			return false;
		if (strcmp(entry.name, "__metadata__") == 0) {
			if (!read_metadata(r))
				return false;
			continue;
		}
		if (!read_entry(r, &entry))
			return false;
		struct header_entry *entries = grown(
		    h->entries, h->n_entries, &h->max_entries, sizeof(entry));
		if (entries == NULL)
			return header_fail(r, "no host memory");
		h->entries = entries;
		entries[h->n_entries++] = entry;
	}
	if (r->wrong == NULL && peek_char(r) != '\0')
		return header_fail(r, "something follows the header's object");
	return r->wrong == NULL;
}

/* ---- All of it ---------------------------------------------------------- */

static int
compare_begin(const void *a, const void *b)
{
	const struct header_entry *x = a, *y = b;

	if (x->begin != y->begin)
		return x->begin < y->begin ? -1 : 1;
	return x->end < y->end ? -1 : x->end > y->end;
}

static int
compare_name(const void *a, const void *b)
{
	const struct header_entry *x = a, *y = b;

	return strcmp(x->name, y->name);
}

static int
compare_key(const void *a, const void *b)
{
	const struct header_pair *x = a, *y = b;

	return strcmp(x->key, y->key);
}

/* Entries follow each other without gaps or overlaps up to the end of the file,
 * and all names differ. */
static const char *
check_entries(struct header *h, uint64_t data_bytes)
{
	uint64_t at = 0;

	if (h->n_entries > 0)
		qsort(h->entries, h->n_entries, sizeof(*h->entries),
		    compare_begin);
	for (size_t i = 0; i < h->n_entries; i++) {
		if (h->entries[i].begin != at)
			return "entries overlap or leave a gap";
		at = h->entries[i].end;
	}
	if (at > data_bytes)
		return "the file ends before its last entry: it was cut short";
	if (at < data_bytes)
		return "there are bytes after the last entry";
	if (h->n_entries > 0)
		qsort(h->entries, h->n_entries, sizeof(*h->entries),
		    compare_name);
	for (size_t i = 1; i < h->n_entries; i++) {
		if (compare_name(&h->entries[i - 1], &h->entries[i]) == 0)
			return "a name is there twice";
	}
	if (h->n_metadata > 0)
		qsort(h->metadata, h->n_metadata, sizeof(*h->metadata),
		    compare_key);
	for (size_t i = 1; i < h->n_metadata; i++) {
		if (compare_key(&h->metadata[i - 1], &h->metadata[i]) == 0)
			return "a key of the metadata is there twice";
	}
	return NULL;
}

enum weir_status
header_read(
    const char *text, size_t size, uint64_t data_bytes, struct header *out)
{
	struct header header = { .texts_size = size };
	struct reader r = { .text = text, .size = size, .header = &header };

	if (size > HEADER_MAX)
		return status_set(WEIR_EFILE,
		    "a safetensors header of %zu bytes is longer than %d", size,
		    HEADER_MAX);
	header.texts = meta_alloc(size > 0 ? size : 1);
	if (header.texts == NULL)
		return status_set(WEIR_EHOSTMEM,
		    "no host memory for a header of %zu bytes", size);
	if (read_all(&r))
		r.wrong = check_entries(&header, data_bytes);
	if (r.wrong != NULL) {
		header_drop(&header);
		return status_set(strcmp(r.wrong, "no host memory") == 0 ?
			WEIR_EHOSTMEM :
			WEIR_EFILE,
		    "safetensors header, byte %zu: %s", r.at, r.wrong);
	}
	*out = header;
	return WEIR_OK;
}

void
header_drop(struct header *h)
{
	meta_free(h->entries, h->max_entries * sizeof(*h->entries));
	meta_free(h->metadata, h->max_metadata * sizeof(*h->metadata));
	meta_free(h->lengths, h->max_lengths * sizeof(*h->lengths));
	meta_free(h->texts, h->texts_size > 0 ? h->texts_size : 1);
	*h = (struct header){ 0 };
}

const char *
header_metadata(const struct header *h, const char *key)
{
	struct header_pair wanted = { key, NULL }, *found;

	if (h->n_metadata == 0)
		return NULL;
	found = bsearch(&wanted, h->metadata, h->n_metadata,
	    sizeof(*h->metadata), compare_key);
	return found != NULL ? found->value : NULL;
}

const struct header_entry *
header_find(const struct header *h, const char *name)
{
	struct header_entry wanted = { .name = name };

	if (h->n_entries == 0)
		return NULL;
	return bsearch(&wanted, h->entries, h->n_entries, sizeof(*h->entries),
	    compare_name);
}
