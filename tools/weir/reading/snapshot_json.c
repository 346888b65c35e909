/*
 * JSON in pieces. This file reads the outer brackets of a snapshot, down to the
 * segments and the events. The JSON library parses each segment and each event
 * on its own.
 *
 *	{ "segments": [ PIECE, PIECE ], "device_traces": [ [ PIECE ] ],
 *	  "other": PIECE }
 *
 * JSON has no references, so that each event has the full text of its stack,
 * and most of a file repeats stacks. So this file looks up the text of a
 * piece's "frames" among the stacks that it knows, and parses the piece without
 * that text.
 */
#include "tools/weir/reading/snapshot_json.h"

#include <inttypes.h>
#include <jansson.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "base/meta.h"
#include "base/status.h"
#include "snapshot/build.h"
#include "snapshot/intern.h"
#include "tools/weir/tuning.h"

enum {
	/* Depth of the lists that are read here: devices, and their events. */
	OUTER_LISTS = 2,
};

/* A part of a text. */
struct span {
	const char *text;
	size_t length;
};

/* The text of a stack, and the stack. */
struct known {
	char *text;
	size_t length;
	struct value stack;
};

struct reader {
	struct source *source;
	struct builder *builder;
	uint64_t seed;
	struct intern index; /* of `known`, by their texts */
	struct known *known;
	uint32_t known_count;
	uint32_t known_capacity;
	size_t known_bytes;
	char *rest; /* a piece without its frames */
	size_t rest_capacity;
	struct value frames; /* the stack of that piece; VALUE_UNSET if none */
};

static enum weir_status
no_memory(void)
{
	return status_set(
	    WEIR_EHOSTMEM, "no host memory for reading a snapshot");
}

/* ---- The JSON library's memory -------------------------------------- */

/*
 * The library makes many small allocations, for which malloc() is faster than
 * metadata. They are charged as metadata. A header before each has its size,
 * because the library frees memory without naming the size.
 *
 * The library must never see an allocation fail. Its lexer does not check
 * whether the buffer of a token could grow, and then reads and writes beyond
 * the buffer. So an allocation that fails ends the parse by a jump over the
 * library's frames, and all memory of the library is freed.
 */
union header {
	struct {
		struct list link; /* in the list of all allocations */
		size_t bytes;     /* with the header */
	} of;
	max_align_t aligned;
};

static struct {
	struct list all;
	jmp_buf *give_up; /* end of a parse without memory; NULL outside one */
} json_memory;

/* NULL without memory. */
static void *
json_alloc(size_t size)
{
	size_t bytes = sizeof(union header) + size;
	union header *header;

	if (bytes < size || !meta_charge(bytes))
		return NULL;
	header = malloc(bytes);
	if (header == NULL) {
		meta_discharge(bytes);
		return NULL;
	}
	header->of.bytes = bytes;
	list_push_back(&json_memory.all, &header->of.link);
	return header + 1;
}

static void
json_drop(void *ptr)
{
	union header *header = ptr;

	if (ptr == NULL)
		return;
	header--;
	list_remove(&header->of.link);
	meta_discharge(header->of.bytes);
	free(header);
}

/* The library's malloc(). Without memory it does not return inside a parse. */
static void *
json_alloc_or_give_up(size_t size)
{
	void *ptr = json_alloc(size);

	if (ptr == NULL && json_memory.give_up != NULL)
		longjmp(*json_memory.give_up, 1);
	return ptr;
}

static void
json_drop_all(void)
{
	while (!list_empty(&json_memory.all))
		json_drop(
		    CONTAINER_OF(json_memory.all.next, union header, of.link) +
		    1);
}

/* Parse a text. On failure NULL, and *error has a text; the text is empty
 * without memory. The library holds no memory when this is called. */
static json_t *
json_load(const char *text, size_t length, size_t flags, json_error_t *error)
{
	jmp_buf give_up;
	json_t *json;

	if (setjmp(give_up) != 0) {
		json_memory.give_up = NULL;
		json_drop_all();
		error->text[0] = '\0';
		return NULL;
	}
	json_memory.give_up = &give_up;
	json = json_loadb(text, length, flags, error);
	json_memory.give_up = NULL;
	return json;
}

/* ---- Pieces ---------------------------------------------------------- */

static enum weir_status
expected(const struct reader *reader, const char *what)
{
	const struct source *source = reader->source;

	if (source_left(source) == 0)
		return status_set(WEIR_EINVAL,
		    "cut off: the file ends at offset %" PRIu64
		    ", inside the JSON",
		    source_offset(source));
	return status_set(WEIR_EINVAL,
	    "JSON at offset %" PRIu64 ": %s is expected", source_offset(source),
	    what);
}

/* Skip blanks. *next is the byte after them, or 0 at the end of the input. */
static enum weir_status
skip_blanks(struct reader *reader, char *next)
{
	struct source *source = reader->source;

	*next = '\0';
	for (;;) {
		enum weir_status status = source_fill(source, 1);

		if (status != WEIR_OK || source_left(source) == 0)
			return status;
		*next = (char)*source->at;
		if (strchr(" \t\r\n", *next) == NULL || *next == '\0')
			return WEIR_OK;
		source->at++;
	}
}

/* The state of a search for the end of a piece. */
struct extent {
	unsigned open; /* number of open brackets */
	bool quoted;
	bool escaped;
};

/* Add a byte to the search. True if the piece ends before this byte (*before)
 * or with it. */
static bool
ends_piece(struct extent *extent, char c, bool *before)
{
	*before = false;
	if (extent->quoted) {
		if (extent->escaped)
			extent->escaped = false;
		else if (c == '\\')
			extent->escaped = true;
		else if (c == '"')
			extent->quoted = false;
		return !extent->quoted && extent->open == 0;
	}
	if (c == '"')
		extent->quoted = true;
	else if (c == '{' || c == '[')
		extent->open++;
	else if (extent->open > 0 && (c == '}' || c == ']'))
		return --extent->open == 0;
	else if (extent->open == 0 && strchr(",:}] \t\r\n", c) != NULL)
		*before = true;
	return *before;
}

/* Find the length of the value at the source's position, and read all of it
 * into the source's buffer. */
static enum weir_status
find_piece(struct reader *reader, size_t *length)
{
	struct source *source = reader->source;
	struct extent extent = { 0 };

	for (size_t i = 0;; i++) {
		bool before;

		if (i == source_left(source)) {
			enum weir_status status = source_fill(source, i + 1);

			if (status != WEIR_OK)
				return status;
		}
		if (i == source_left(source)) {
			/* A number may end with the file. */
			*length = i;
			if (i > 0 && extent.open == 0 && !extent.quoted)
				return WEIR_OK;
			source->at = source->end;
			return expected(reader, "a value");
		}
		if (ends_piece(&extent, (char)source->at[i], &before)) {
			*length = before ? i : i + 1;
			return WEIR_OK;
		}
	}
}

/* Parse a text that is at `offset` of the input. The caller releases *out. */
static enum weir_status
parse_json(struct span piece, uint64_t offset, json_t **out)
{
	const size_t flags = JSON_DECODE_ANY | JSON_ALLOW_NUL;
	json_error_t error;

	*out = json_load(piece.text, piece.length, flags, &error);
	/* Only doubles hold integers from 2^63 on. */
	if (*out == NULL && error.text[0] != '\0' &&
	    json_error_code(&error) == json_error_numeric_overflow)
		*out = json_load(piece.text, piece.length,
		    flags | JSON_DECODE_INT_AS_REAL, &error);
	if (*out != NULL)
		return WEIR_OK;
	/* Without memory the library sets no code. */
	if (error.text[0] == '\0')
		return no_memory();
	return status_set(WEIR_EINVAL, "JSON at offset %" PRIu64 ": %s",
	    offset + (error.position < 0 ? 0 : (uint64_t)error.position),
	    error.text);
}

/* ---- Values ---------------------------------------------------------- */

static enum weir_status convert_json(struct reader *reader, const json_t *json,
    unsigned depth, struct value *out);

static const char frames_key[] = "\"frames\"";

static enum weir_status
convert_list(struct reader *reader, const json_t *json, unsigned depth,
    struct value *out)
{
	size_t count = json_array_size(json);
	struct value *items = json_alloc(count * sizeof(*items));
	enum weir_status status = builder_list(reader->builder, out);

	if (items == NULL)
		return no_memory();
	for (size_t i = 0; i < count && status == WEIR_OK; i++)
		status = convert_json(
		    reader, json_array_get(json, i), depth + 1, &items[i]);
	if (status == WEIR_OK)
		status = builder_append(reader->builder, *out, items, count);
	json_drop(items);
	return status;
}

static enum weir_status
convert_dict(struct reader *reader, const json_t *json, unsigned depth,
    struct value *out)
{
	size_t count = 2 * json_object_size(json);
	struct value *pairs = json_alloc(count * sizeof(*pairs));
	enum weir_status status = builder_dict(reader->builder, out);
	size_t i = 0;
	json_t *object = (json_t *)json;

	if (pairs == NULL)
		return no_memory();
	for (void *at = json_object_iter(object);
	     at != NULL && status == WEIR_OK;
	     at = json_object_iter_next(object, at)) {
		const char *key = json_object_iter_key(at);

		status = builder_string(
		    reader->builder, key, strlen(key), &pairs[i++]);
		if (depth == 0 && reader->frames.kind == VALUE_STACK &&
		    strcmp(key, "frames") == 0)
			pairs[i++] = reader->frames;
		else if (status == WEIR_OK)
			status = convert_json(reader,
			    json_object_iter_value(at), depth + 1, &pairs[i++]);
	}
	if (status == WEIR_OK)
		status = builder_set(reader->builder, *out, pairs, count);
	json_drop(pairs);
	return status;
}

static enum weir_status
convert_json(struct reader *reader, const json_t *json, unsigned depth,
    struct value *out)
{
	*out = (struct value){ .kind = VALUE_NONE };
	if (depth > JSON_DEPTH)
		return status_set(
		    WEIR_EINVAL, "nested more than %d deep", JSON_DEPTH);
	switch (json_typeof(json)) {
	case JSON_OBJECT:
		return convert_dict(reader, json, depth, out);
	case JSON_ARRAY:
		return convert_list(reader, json, depth, out);
	case JSON_STRING:
		return builder_string(reader->builder, json_string_value(json),
		    json_string_length(json), out);
	case JSON_INTEGER:
		out->kind = VALUE_INTEGER;
		out->integer = json_integer_value(json);
		return WEIR_OK;
	case JSON_REAL:
		out->kind = VALUE_REAL;
		out->real = json_real_value(json);
		/* A frame without a line has the line 2^64-1. */
		if (out->real == 0x1p64) {
			out->kind = VALUE_NATURAL;
			out->natural = UINT64_MAX;
		}
		return WEIR_OK;
	case JSON_TRUE:
	case JSON_FALSE:
		out->kind = VALUE_BOOL;
		out->natural = json_is_true(json);
		return WEIR_OK;
	default:
		return WEIR_OK;
	}
}

/* Parse a text and make a value of it. */
static enum weir_status
convert_text(struct reader *reader, struct span piece, uint64_t offset,
    struct value *out)
{
	json_t *json;
	enum weir_status status = parse_json(piece, offset, &json);

	if (status != WEIR_OK)
		return status;
	status = convert_json(reader, json, 0, out);
	json_decref(json);
	if (status == WEIR_EINVAL)
		status_prefix("JSON at offset %" PRIu64, offset);
	return status;
}

/* ---- Known stacks ---------------------------------------------------- */

static size_t
skip_space_in(struct span piece, size_t i)
{
	while (i < piece.length && strchr(" \t\r\n", piece.text[i]) != NULL &&
	    piece.text[i] != '\0')
		i++;
	return i;
}

/* The end of the list that begins at `i`; 0 if it has no end. */
static size_t
list_end(struct span piece, size_t i)
{
	struct extent extent = { 0 };
	bool before;

	for (; i < piece.length; i++)
		if (ends_piece(&extent, piece.text[i], &before))
			return i + 1;
	return 0;
}

/* Find the list "frames" of an object. Such lists of inner objects do not
 * count. */
static bool
find_frames(struct span piece, struct span *out)
{
	const size_t key = sizeof(frames_key) - 1;
	struct extent extent = { 0 };
	bool before;

	for (size_t i = 0; i + key < piece.length; i++) {
		if (extent.open == 1 && !extent.quoted &&
		    memcmp(piece.text + i, frames_key, key) == 0) {
			size_t at = skip_space_in(piece, i + key);
			size_t end;

			if (at == piece.length || piece.text[at] != ':')
				return false;
			at = skip_space_in(piece, at + 1);
			if (at == piece.length || piece.text[at] != '[')
				return false;
			end = list_end(piece, at);
			*out = (struct span){ piece.text + at, end - at };
			return end > 0;
		}
		ends_piece(&extent, piece.text[i], &before);
	}
	return false;
}

struct known_key {
	const struct known *known;
	struct span text;
};

static bool
same_known(const void *user, uint32_t entry)
{
	const struct known_key *key = user;
	const struct known *known = &key->known[entry];

	return known->length == key->text.length &&
	    memcmp(known->text, key->text.text, known->length) == 0;
}

static bool
widen_known(struct reader *reader)
{
	uint32_t capacity = reader->known_capacity * 3 / 2 + 64;
	struct known *known = meta_alloc(capacity * sizeof(*known));

	if (known == NULL)
		return false;
	if (reader->known_count > 0)
		memcpy(
		    known, reader->known, reader->known_count * sizeof(*known));
	meta_free(reader->known, reader->known_capacity * sizeof(*known));
	reader->known = known;
	reader->known_capacity = capacity;
	return true;
}

/* Append a copy of a text to `known`. */
static enum weir_status
keep_stack_text(struct reader *reader, struct span text, struct value stack)
{
	struct known *known;
	char *copy;

	if (reader->known_count == reader->known_capacity &&
	    !widen_known(reader))
		return no_memory();
	copy = meta_alloc(text.length);
	if (copy == NULL)
		return no_memory();
	memcpy(copy, text.text, text.length);
	known = &reader->known[reader->known_count];
	*known = (struct known){ copy, text.length, stack };
	reader->known_count++;
	reader->known_bytes += text.length;
	return WEIR_OK;
}

/* Find the stack of a text. If it is not known, parse the text and add it. */
static enum weir_status
find_known_stack(
    struct reader *reader, struct span text, uint64_t offset, struct value *out)
{
	struct known_key key = { reader->known, text };
	uint32_t entry = reader->known_count;
	struct value list;
	enum weir_status status;

	status = intern_find(&reader->index,
	    intern_hash(reader->seed, text.text, text.length), same_known, &key,
	    &entry);
	if (status == WEIR_OK && entry < reader->known_count) {
		*out = reader->known[entry].stack;
		return WEIR_OK;
	}
	if (status == WEIR_OK)
		status = convert_text(reader, text, offset, &list);
	if (status == WEIR_OK)
		status = builder_stack(reader->builder, list, out);
	if (status == WEIR_OK)
		status = keep_stack_text(reader, text, *out);
	return status;
}

/* Read a piece with frames. The frames are looked up; the JSON library parses
 * the piece with 0 in their place. */
static enum weir_status
read_known(struct reader *reader, struct span piece, struct span frames,
    struct value *out)
{
	uint64_t start = source_offset(reader->source);
	size_t head = (size_t)(frames.text - piece.text);
	size_t tail = piece.length - head - frames.length;
	struct value stack;
	enum weir_status status =
	    find_known_stack(reader, frames, start + head, &stack);

	if (status != WEIR_OK)
		return status;
	if (reader->rest_capacity < head + 1 + tail) {
		size_t capacity = 2 * (head + 1 + tail);
		char *rest = meta_alloc(capacity);

		if (rest == NULL)
			return no_memory();
		meta_free(reader->rest, reader->rest_capacity);
		reader->rest = rest;
		reader->rest_capacity = capacity;
	}
	memcpy(reader->rest, piece.text, head);
	reader->rest[head] = '0';
	memcpy(reader->rest + head + 1, frames.text + frames.length, tail);
	reader->frames = stack;
	status = convert_text(
	    reader, (struct span){ reader->rest, head + 1 + tail }, start, out);
	reader->frames = (struct value){ .kind = VALUE_UNSET };
	return status;
}

static enum weir_status
read_json_piece(struct reader *reader, struct value *out)
{
	struct source *source = reader->source;
	struct span piece;
	struct span frames;
	enum weir_status status = find_piece(reader, &piece.length);

	if (status != WEIR_OK)
		return status;
	piece.text = (const char *)source->at;
	if (reader->known_bytes < JSON_KNOWN_BYTES &&
	    find_frames(piece, &frames))
		status = read_known(reader, piece, frames, out);
	else
		status =
		    convert_text(reader, piece, source_offset(source), out);
	source->at += piece.length;
	return status;
}

/* ---- The outer brackets ---------------------------------------------- */

static enum weir_status read_json_value(
    struct reader *reader, unsigned lists, struct value *out);

/* Read the byte after an item: a comma (*more is true) or the closing
 * bracket. */
static enum weir_status
next_json_item(struct reader *reader, char close, bool *more)
{
	char next;
	enum weir_status status = skip_blanks(reader, &next);

	if (status != WEIR_OK)
		return status;
	if (next != ',' && next != close)
		return expected(
		    reader, close == ']' ? "',' or ']'" : "',' or '}'");
	reader->source->at++;
	*more = next == ',';
	return WEIR_OK;
}

/* Read the opening bracket. *more is false if the closing bracket follows; that
 * is read too. */
static enum weir_status
first_json_item(struct reader *reader, char close, bool *more)
{
	char next;
	enum weir_status status;

	reader->source->at++;
	status = skip_blanks(reader, &next);
	*more = next != close;
	if (status == WEIR_OK && next == close)
		reader->source->at++;
	return status;
}

static enum weir_status
read_json_list(struct reader *reader, unsigned lists, struct value *out)
{
	enum weir_status status = builder_list(reader->builder, out);
	bool more = false;

	if (status == WEIR_OK)
		status = first_json_item(reader, ']', &more);
	while (status == WEIR_OK && more) {
		struct value item;

		status = read_json_value(reader, lists - 1, &item);
		if (status == WEIR_OK)
			status =
			    builder_append(reader->builder, *out, &item, 1);
		if (status == WEIR_OK)
			status = next_json_item(reader, ']', &more);
	}
	return status;
}

/* Read a value. A list of the outer `lists` levels is read item by item, since
 * it may have very many items. */
static enum weir_status
read_json_value(struct reader *reader, unsigned lists, struct value *out)
{
	char next;
	enum weir_status status = skip_blanks(reader, &next);

	if (status != WEIR_OK)
		return status;
	if (next == '[' && lists > 0)
		return read_json_list(reader, lists, out);
	return read_json_piece(reader, out);
}

static enum weir_status
read_json_pair(struct reader *reader, struct value dict)
{
	struct value pair[2];
	char next;
	enum weir_status status = skip_blanks(reader, &next);

	if (status == WEIR_OK && next != '"')
		status = expected(reader, "a key");
	if (status == WEIR_OK)
		status = read_json_piece(reader, &pair[0]);
	if (status == WEIR_OK)
		status = skip_blanks(reader, &next);
	if (status == WEIR_OK && next != ':')
		status = expected(reader, "':'");
	if (status != WEIR_OK)
		return status;
	reader->source->at++;
	status = read_json_value(reader, OUTER_LISTS, &pair[1]);
	if (status != WEIR_OK)
		return status;
	return builder_set(reader->builder, dict, pair, 2);
}

static enum weir_status
read_json_dict(struct reader *reader, struct value *out)
{
	enum weir_status status = builder_dict(reader->builder, out);
	bool more = false;

	if (status == WEIR_OK)
		status = first_json_item(reader, '}', &more);
	while (status == WEIR_OK && more) {
		status = read_json_pair(reader, *out);
		if (status == WEIR_OK)
			status = next_json_item(reader, '}', &more);
	}
	return status;
}

static enum weir_status
read_json_top(struct reader *reader, struct value *top)
{
	char next;
	enum weir_status status = skip_blanks(reader, &next);

	if (status != WEIR_OK)
		return status;
	status = next == '{' ? read_json_dict(reader, top) :
			       read_json_value(reader, 1, top);
	if (status == WEIR_OK)
		status = skip_blanks(reader, &next);
	if (status == WEIR_OK && source_left(reader->source) > 0)
		status = expected(reader, "the end");
	return status;
}

enum weir_status
snapshot_json_read(struct source *source, struct snapshot **out)
{
	struct reader reader = { .source = source };
	json_malloc_t alloc_before;
	json_free_t free_before;
	struct value top;
	enum weir_status status;

	reader.seed = intern_seed();
	reader.builder = builder_new(false);
	if (reader.builder == NULL)
		return WEIR_EHOSTMEM;
	/* Each piece is released before the next one is read, so that no memory
	 * of the library outlives this function. */
	json_get_alloc_funcs(&alloc_before, &free_before);
	list_init(&json_memory.all);
	json_set_alloc_funcs(json_alloc_or_give_up, json_drop);
	status = read_json_top(&reader, &top);
	json_set_alloc_funcs(alloc_before, free_before);
	if (status == WEIR_OK)
		status = builder_finish(reader.builder, top, out);
	builder_free(reader.builder);
	intern_drop(&reader.index);
	for (uint32_t i = 0; i < reader.known_count; i++)
		meta_free(reader.known[i].text, reader.known[i].length);
	meta_free(reader.known, reader.known_capacity * sizeof(*reader.known));
	meta_free(reader.rest, reader.rest_capacity);
	return status;
}
