/*
 * Reads the header of a safetensors file: one object, whose members are
 * objects with a type, a shape and offsets, except `__metadata__`, whose
 * members are texts. What the format's reference accepts is accepted, but for
 * a name or key that is there twice, which the format forbids.
 */
#include "tensor/header.h"

#include <stdlib.h>
#include <string.h>

#include "base/meta.h"
#include "base/status.h"
#include "base/utf8.h"
#include "tensor/header_text.h"
#include "tensor/tuning.h"

struct parse {
	struct reader text;
	struct header *header;
	char shown[HEADER_SHOWN_NAME]; /* the entry's name, for messages */
};

/* The format's types, with the bits of an element. WEIR_DTYPE_NONE: weir has
 * none for it. */
static const struct format_type {
	const char *name;
	unsigned bits;
	enum weir_dtype dtype;
} types[] = {
	{ "BOOL", 8, WEIR_BOOL },
	{ "F4", 4, WEIR_DTYPE_NONE },
	{ "F6_E2M3", 6, WEIR_DTYPE_NONE },
	{ "F6_E3M2", 6, WEIR_DTYPE_NONE },
	{ "U8", 8, WEIR_UINT8 },
	{ "I8", 8, WEIR_INT8 },
	{ "F8_E5M2", 8, WEIR_FLOAT8_E5M2 },
	{ "F8_E4M3", 8, WEIR_FLOAT8_E4M3FN },
	{ "F8_E8M0", 8, WEIR_FLOAT8_E8M0FNU },
	{ "F8_E4M3FNUZ", 8, WEIR_FLOAT8_E4M3FNUZ },
	{ "F8_E5M2FNUZ", 8, WEIR_FLOAT8_E5M2FNUZ },
	{ "I16", 16, WEIR_INT16 },
	{ "U16", 16, WEIR_UINT16 },
	{ "F16", 16, WEIR_FLOAT16 },
	{ "BF16", 16, WEIR_BFLOAT16 },
	{ "I32", 32, WEIR_INT32 },
	{ "U32", 32, WEIR_UINT32 },
	{ "F32", 32, WEIR_FLOAT32 },
	{ "C64", 64, WEIR_COMPLEX64 },
	{ "F64", 64, WEIR_FLOAT64 },
	{ "I64", 64, WEIR_INT64 },
	{ "U64", 64, WEIR_UINT64 },
};

enum { TYPES = sizeof(types) / sizeof(types[0]) };

const char *
header_dtype_name(enum weir_dtype dtype)
{
	for (size_t i = 0; i < TYPES; i++) {
		if (types[i].dtype == dtype && dtype != WEIR_DTYPE_NONE)
			return types[i].name;
	}
	return NULL;
}

/* ---- Members of an entry ------------------------------------------------ */

/* Make room for one more item of `size` bytes. The array is at most twice as
 * large as its content, which is bounded by the text. */
static void *
grown(struct reader *r, void *array, size_t n, size_t *max, size_t size)
{
	size_t more = *max == 0 ? HEADER_FIRST_ENTRIES : *max * 2;
	void *grown_array;

	if (n < *max)
		return array;
	grown_array = meta_alloc(more * size);
	if (grown_array == NULL) {
		header_no_memory(r);
		return NULL;
	}
	if (n > 0)
		memcpy(grown_array, array, n * size);
	meta_free(array, *max * size);
	*max = more;
	return grown_array;
}

static bool
add_length(struct parse *p, uint64_t length)
{
	struct header *h = p->header;
	uint64_t *all = grown(
	    &p->text, h->lengths, h->n_lengths, &h->max_lengths, sizeof(*all));

	if (all == NULL)
		return false;
	h->lengths = all;
	all[h->n_lengths++] = length;
	return true;
}

/* After '[' or a number: does another number follow? */
static bool
next_number(struct reader *r, bool *first, uint64_t *out)
{
	if (r->status != WEIR_OK)
		return false;
	if (header_peek(r) == ']') {
		r->at++;
		return false;
	}
	if (!*first && !header_expect(r, ','))
		return false;
	*first = false;
	return header_read_number(r, out);
}

static bool
read_shape(struct parse *p, struct header_entry *entry)
{
	bool first = true;
	uint64_t length;

	entry->shape_at = p->header->n_lengths;
	if (!header_expect(&p->text, '['))
		return false;
	while (next_number(&p->text, &first, &length)) {
		if (!add_length(p, length))
			return false;
	}
	entry->ndim = p->header->n_lengths - entry->shape_at;
	return p->text.status == WEIR_OK;
}

static bool
read_dtype(struct parse *p, struct header_entry *entry)
{
	size_t used = p->text.texts_used;
	const char *text = header_read_text(&p->text);
	const struct format_type *type = NULL;
	char shown[HEADER_SHOWN_NAME];

	if (text == NULL)
		return false;
	for (size_t i = 0; i < TYPES && type == NULL; i++) {
		if (strcmp(types[i].name, text) == 0)
			type = &types[i];
	}
	p->text.texts_used = used;
	if (type != NULL) {
		entry->type = type->name;
		entry->bits = type->bits;
		entry->dtype = type->dtype;
		return true;
	}
	utf8_copy_plain(shown, sizeof(shown), text);
	return header_fail(
	    &p->text, "'%s': the format has no dtype '%.40s'", p->shown, shown);
}

static bool
read_offsets(struct parse *p, struct header_entry *entry)
{
	struct reader *r = &p->text;

	return header_expect(r, '[') && header_read_number(r, &entry->begin) &&
	    header_expect(r, ',') && header_read_number(r, &entry->end) &&
	    header_expect(r, ']');
}

/* Check that the elements have exactly the stated size. Whether a shape is too
 * large depends on the order of its lengths, as in the reference. */
static bool
check_entry_size(struct parse *p, const struct header_entry *entry)
{
	const uint64_t *lengths = header_lengths(p->header, entry);
	uint64_t bits = 1;

	for (size_t i = 0; i < entry->ndim; i++) {
		if (__builtin_mul_overflow(bits, lengths[i], &bits))
			return header_fail(
			    &p->text, "'%s': the shape is too large", p->shown);
	}
	if (__builtin_mul_overflow(bits, entry->bits, &bits))
		return header_fail(
		    &p->text, "'%s': the shape is too large", p->shown);
	if (bits % 8 != 0)
		return header_fail(&p->text,
		    "'%s': its %s elements do not fill whole bytes", p->shown,
		    entry->type);
	if (entry->end < entry->begin || entry->end - entry->begin != bits / 8)
		return header_fail(&p->text,
		    "'%s': data_offsets do not fit dtype and shape", p->shown);
	return true;
}

/* Can a tensor of weir's have this type and shape? */
static bool
entry_is_opaque(const struct header *header, const struct header_entry *entry)
{
	const uint64_t *lengths = header_lengths(header, entry);

	if (entry->dtype == WEIR_DTYPE_NONE || entry->ndim > WEIR_DIMS_MAX)
		return true;
	for (size_t i = 0; i < entry->ndim; i++) {
		if (lengths[i] > INT64_MAX)
			return true;
	}
	return false;
}

enum { SEEN_DTYPE = 1, SEEN_SHAPE = 2, SEEN_OFFSETS = 4, SEEN_ALL = 7 };

/* Which member of an entry this is; 0 for one that the format does not know. */
static unsigned
member_of(const char *key)
{
	return strcmp(key, "dtype") == 0     ? SEEN_DTYPE :
	    strcmp(key, "shape") == 0        ? SEEN_SHAPE :
	    strcmp(key, "data_offsets") == 0 ? SEEN_OFFSETS :
					       0;
}

static bool
read_member(struct parse *p, unsigned member, struct header_entry *entry)
{
	enum { DEPTH = 2 };

	switch (member) {
	case SEEN_DTYPE:
		return read_dtype(p, entry);
	case SEEN_SHAPE:
		return read_shape(p, entry);
	case SEEN_OFFSETS:
		return read_offsets(p, entry);
	default:
		return header_skip_value(&p->text, DEPTH);
	}
}

static bool
read_entry(struct parse *p, struct header_entry *entry)
{
	struct reader *r = &p->text;
	bool first = true;
	unsigned seen = 0;

	if (!header_expect(r, '{'))
		return false;
	while (header_next_member(r, &first)) {
		size_t used = r->texts_used;
		const char *key = header_read_text(r);
		unsigned member;

		if (key == NULL || !header_expect(r, ':'))
			return false;
		member = member_of(key);
		r->texts_used = used;
		if ((seen & member) != 0)
			return header_fail(
			    r, "'%s': a member is there twice", p->shown);
		seen |= member;
		if (!read_member(p, member, entry))
			return false;
	}
	if (r->status != WEIR_OK)
		return false;
	if (seen != SEEN_ALL)
		return header_fail(r,
		    "'%s': dtype, shape or data_offsets are missing", p->shown);
	entry->opaque = entry_is_opaque(p->header, entry);
	return check_entry_size(p, entry);
}

static bool
add_entry_of(struct parse *p, const char *name)
{
	struct header *h = p->header;
	struct header_entry entry = { .name = name }, *entries;

	utf8_copy_plain(p->shown, sizeof(p->shown), name);
	if (!read_entry(p, &entry))
		return false;
	entries = grown(
	    &p->text, h->entries, h->n_entries, &h->max_entries, sizeof(entry));
	if (entries == NULL)
		return false;
	h->entries = entries;
	entries[h->n_entries++] = entry;
	return true;
}

/* ---- Members of the header ---------------------------------------------- */

static bool
add_pair(struct parse *p, const char *key, const char *value)
{
	struct header *h = p->header;
	struct header_pair *pairs = grown(&p->text, h->metadata, h->n_metadata,
	    &h->max_metadata, sizeof(*pairs));

	if (pairs == NULL)
		return false;
	h->metadata = pairs;
	pairs[h->n_metadata++] = (struct header_pair){ key, value };
	return true;
}

static bool
read_metadata(struct parse *p)
{
	struct reader *r = &p->text;
	bool first = true;

	if (header_skip_null(r))
		return true;
	if (!header_expect(r, '{'))
		return false;
	while (header_next_member(r, &first)) {
		const char *key = header_read_text(r), *value;

		if (key == NULL || !header_expect(r, ':'))
			return false;
		value = header_read_text(r);
		if (value == NULL || !add_pair(p, key, value))
			return false;
	}
	return r->status == WEIR_OK;
}

static bool
read_header(struct parse *p)
{
	struct reader *r = &p->text;
	bool first = true, has_metadata = false;

	if (!header_expect(r, '{'))
		return false;
	while (header_next_member(r, &first)) {
		const char *name = header_read_text(r);

		if (name == NULL || !header_expect(r, ':'))
			return false;
		if (strcmp(name, "__metadata__") != 0) {
			if (!add_entry_of(p, name))
				return false;
			continue;
		}
		if (has_metadata)
			return header_fail(r, "__metadata__ is there twice");
		has_metadata = true;
		if (!read_metadata(p))
			return false;
	}
	if (r->status == WEIR_OK && header_peek(r) >= 0)
		return header_fail(r, "something follows the header's object");
	return r->status == WEIR_OK;
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

/* Entries follow each other without gaps or overlaps up to the end of the file.
 */
static bool
check_offsets(struct parse *p, uint64_t data_bytes)
{
	struct header *h = p->header;
	uint64_t at = 0;

	if (h->n_entries > 0)
		qsort(h->entries, h->n_entries, sizeof(*h->entries),
		    compare_begin);
	for (size_t i = 0; i < h->n_entries; i++) {
		const struct header_entry *entry = &h->entries[i];

		if (entry->begin != at) {
			utf8_copy_plain(
			    p->shown, sizeof(p->shown), entry->name);
			return header_fail(&p->text,
			    "'%s': entries overlap or leave a gap", p->shown);
		}
		at = entry->end;
	}
	if (at > data_bytes)
		return header_fail(&p->text,
		    "the file ends before its last entry: it was cut short");
	return at == data_bytes ||
	    header_fail(&p->text, "there are bytes after the last entry");
}

/* All names and all keys differ. */
static bool
check_names(struct parse *p)
{
	struct header *h = p->header;

	if (h->n_entries > 0)
		qsort(h->entries, h->n_entries, sizeof(*h->entries),
		    compare_name);
	for (size_t i = 1; i < h->n_entries; i++) {
		if (compare_name(&h->entries[i - 1], &h->entries[i]) != 0)
			continue;
		utf8_copy_plain(p->shown, sizeof(p->shown), h->entries[i].name);
		return header_fail(
		    &p->text, "the name '%s' is there twice", p->shown);
	}
	if (h->n_metadata > 0)
		qsort(h->metadata, h->n_metadata, sizeof(*h->metadata),
		    compare_key);
	for (size_t i = 1; i < h->n_metadata; i++) {
		if (compare_key(&h->metadata[i - 1], &h->metadata[i]) != 0)
			continue;
		utf8_copy_plain(p->shown, sizeof(p->shown), h->metadata[i].key);
		return header_fail(&p->text,
		    "the key '%s' of the metadata is there twice", p->shown);
	}
	return true;
}

static bool
check_entries(struct parse *p, uint64_t data_bytes)
{
	return check_offsets(p, data_bytes) && check_names(p);
}

/* Go to the first byte that is not UTF-8, which the whole header is. */
static bool
check_utf8(struct reader *r)
{
	uint32_t code;

	while (r->at < r->size) {
		size_t n = utf8_next(r->text + r->at, r->size - r->at, &code);

		if (n == 0)
			return header_fail(r, "it is not UTF-8");
		r->at += n;
	}
	r->at = 0;
	return true;
}

enum weir_status
header_read(
    const char *text, size_t size, uint64_t data_bytes, struct header *out)
{
	struct header header = { .texts_size = size };
	struct parse p = { .text = { .text = text, .size = size },
		.header = &header };

	if (size > HEADER_MAX)
		return status_set(WEIR_EFILE,
		    "a safetensors header of %zu bytes is longer than %d", size,
		    HEADER_MAX);
	header.texts = meta_alloc(size > 0 ? size : 1);
	if (header.texts == NULL)
		return status_set(WEIR_EHOSTMEM,
		    "no host memory for a header of %zu bytes", size);
	p.text.texts = header.texts;
	if (check_utf8(&p.text) && read_header(&p))
		check_entries(&p, data_bytes);
	header.texts_used = p.text.texts_used;
	if (p.text.status != WEIR_OK) {
		header_drop(&header);
		return status_set(p.text.status,
		    "safetensors header, byte %zu: %s", p.text.at,
		    p.text.wrong);
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
