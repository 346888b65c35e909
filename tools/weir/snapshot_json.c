/*
 * JSON by pieces: the outer brackets of a snapshot, down to the segments and
 * the events, are read here; each of those alone is given to the JSON library.
 *
 *	{ "segments": [ PIECE, PIECE ], "device_traces": [ [ PIECE ] ],
 *	  "other": PIECE }
 */
#include "tools/weir/snapshot_json.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "trace/snapshot_build.h"

enum {
	/* Lists that are taken apart here: of devices, of their events. */
	OUTER_LISTS = 2,
	DEPTH_MAX = 64,
};

struct reader {
	struct source *source;
	struct builder *builder;
};

static enum weir_status
no_memory(void)
{
	return status_set(
	    WEIR_EHOSTMEM, "no host memory for reading a snapshot");
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

/* Pass over blanks; *next is the byte behind them, 0 at the end. */
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

/* Where a piece ends, byte by byte. */
struct extent {
	unsigned open; /* brackets */
	bool quoted;
	bool escaped;
};

/* True if the piece ends before this byte (*before) or with it. */
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

/* The length of the value at hand; all of it is there. */
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

/* Parse the value at hand. The caller drops it. */
static enum weir_status
take_piece(struct reader *reader, json_t **out)
{
	struct source *source = reader->source;
	const size_t flags = JSON_DECODE_ANY | JSON_ALLOW_NUL;
	json_error_t error;
	size_t length;
	enum weir_status status = find_piece(reader, &length);

	if (status != WEIR_OK)
		return status;
	*out = json_loadb((const char *)source->at, length, flags, &error);
	/* Integers from 2^63 on fit doubles only. */
	if (*out == NULL &&
	    json_error_code(&error) == json_error_numeric_overflow)
		*out = json_loadb((const char *)source->at, length,
		    flags | JSON_DECODE_INT_AS_REAL, &error);
	if (*out == NULL)
		return status_set(WEIR_EINVAL, "JSON at offset %" PRIu64 ": %s",
		    source_offset(source) +
			(error.position < 0 ? 0 : (uint64_t)error.position),
		    error.text);
	source->at += length;
	return WEIR_OK;
}

/* ---- Values ---------------------------------------------------------- */

static enum weir_status convert(struct builder *builder, const json_t *json,
    unsigned depth, struct value *out);

static enum weir_status
convert_list(struct builder *builder, const json_t *json, unsigned depth,
    struct value *out)
{
	size_t count = json_array_size(json);
	struct value *items = calloc(count + 1, sizeof(*items));
	enum weir_status status = builder_list(builder, out);

	if (items == NULL)
		return no_memory();
	for (size_t i = 0; i < count && status == WEIR_OK; i++)
		status = convert(
		    builder, json_array_get(json, i), depth + 1, &items[i]);
	if (status == WEIR_OK)
		status = builder_append(builder, *out, items, count);
	free(items);
	return status;
}

static enum weir_status
convert_dict(struct builder *builder, const json_t *json, unsigned depth,
    struct value *out)
{
	size_t count = 2 * json_object_size(json);
	struct value *pairs = calloc(count + 1, sizeof(*pairs));
	enum weir_status status = builder_dict(builder, out);
	size_t i = 0;
	json_t *object = (json_t *)json;

	if (pairs == NULL)
		return no_memory();
	for (void *at = json_object_iter(object);
	     at != NULL && status == WEIR_OK;
	     at = json_object_iter_next(object, at)) {
		const char *key = json_object_iter_key(at);

		status = builder_string(builder, key, strlen(key), &pairs[i++]);
		if (status == WEIR_OK)
			status = convert(builder, json_object_iter_value(at),
			    depth + 1, &pairs[i++]);
	}
	if (status == WEIR_OK)
		status = builder_set(builder, *out, pairs, count);
	free(pairs);
	return status;
}

static enum weir_status
convert(struct builder *builder, const json_t *json, unsigned depth,
    struct value *out)
{
	*out = (struct value){ .kind = VALUE_NONE };
	if (depth > DEPTH_MAX)
		return status_set(
		    WEIR_EINVAL, "nested more than %d deep", DEPTH_MAX);
	switch (json_typeof(json)) {
	case JSON_OBJECT:
		return convert_dict(builder, json, depth, out);
	case JSON_ARRAY:
		return convert_list(builder, json, depth, out);
	case JSON_STRING:
		return builder_string(builder, json_string_value(json),
		    json_string_length(json), out);
	case JSON_INTEGER:
		out->kind = VALUE_INTEGER;
		out->integer = json_integer_value(json);
		return WEIR_OK;
	case JSON_REAL:
		out->kind = VALUE_REAL;
		out->real = json_real_value(json);
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

static enum weir_status
read_piece(struct reader *reader, struct value *out)
{
	uint64_t start = source_offset(reader->source);
	json_t *json;
	enum weir_status status = take_piece(reader, &json);

	if (status != WEIR_OK)
		return status;
	status = convert(reader->builder, json, 0, out);
	json_decref(json);
	if (status == WEIR_EINVAL)
		status_prefix("JSON at offset %" PRIu64, start);
	return status;
}

/* ---- The outer brackets ---------------------------------------------- */

static enum weir_status read_value(
    struct reader *reader, unsigned lists, struct value *out);

/* After an item: a comma, and *more, or the closing bracket. */
static enum weir_status
next_item(struct reader *reader, char close, bool *more)
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

/* After the opening bracket: false, and passed over, if it closes at once. */
static enum weir_status
first_item(struct reader *reader, char close, bool *more)
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
read_list(struct reader *reader, unsigned lists, struct value *out)
{
	enum weir_status status = builder_list(reader->builder, out);
	bool more = false;

	if (status == WEIR_OK)
		status = first_item(reader, ']', &more);
	while (status == WEIR_OK && more) {
		struct value item;

		status = read_value(reader, lists - 1, &item);
		if (status == WEIR_OK)
			status =
			    builder_append(reader->builder, *out, &item, 1);
		if (status == WEIR_OK)
			status = next_item(reader, ']', &more);
	}
	return status;
}

/* A list is taken apart if it may hold what there are many of. */
static enum weir_status
read_value(struct reader *reader, unsigned lists, struct value *out)
{
	char next;
	enum weir_status status = skip_blanks(reader, &next);

	if (status != WEIR_OK)
		return status;
	if (next == '[' && lists > 0)
		return read_list(reader, lists, out);
	return read_piece(reader, out);
}

static enum weir_status
read_pair(struct reader *reader, struct value dict)
{
	struct value pair[2];
	char next;
	enum weir_status status = skip_blanks(reader, &next);

	if (status == WEIR_OK && next != '"')
		status = expected(reader, "a key");
	if (status == WEIR_OK)
		status = read_piece(reader, &pair[0]);
	if (status == WEIR_OK)
		status = skip_blanks(reader, &next);
	if (status == WEIR_OK && next != ':')
		status = expected(reader, "':'");
	if (status != WEIR_OK)
		return status;
	reader->source->at++;
	status = read_value(reader, OUTER_LISTS, &pair[1]);
	if (status != WEIR_OK)
		return status;
	return builder_set(reader->builder, dict, pair, 2);
}

static enum weir_status
read_dict(struct reader *reader, struct value *out)
{
	enum weir_status status = builder_dict(reader->builder, out);
	bool more = false;

	if (status == WEIR_OK)
		status = first_item(reader, '}', &more);
	while (status == WEIR_OK && more) {
		status = read_pair(reader, *out);
		if (status == WEIR_OK)
			status = next_item(reader, '}', &more);
	}
	return status;
}

static enum weir_status
read_top(struct reader *reader, struct value *top)
{
	char next;
	enum weir_status status = skip_blanks(reader, &next);

	if (status != WEIR_OK)
		return status;
	status =
	    next == '{' ? read_dict(reader, top) : read_value(reader, 1, top);
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
	struct value top;
	enum weir_status status;

	reader.builder = builder_new(false);
	if (reader.builder == NULL)
		return WEIR_EHOSTMEM;
	status = read_top(&reader, &top);
	if (status == WEIR_OK)
		status = builder_finish(reader.builder, top, out);
	builder_free(reader.builder);
	return status;
}
