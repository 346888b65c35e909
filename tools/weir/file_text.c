/*
 * Reading a file, through liblzma where it is compressed.
 */
#include <errno.h>
#include <lzma.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/weir/file_text.h"

enum {
	CHUNK = 1 << 16,
};

/* A text that grows. */
struct buffer {
	char *text;
	size_t length;
	size_t room; /* at least length + 1, for the NUL */
};

/* Make room for CHUNK more bytes and a NUL. */
static const char *
buffer_reserve(struct buffer *buffer)
{
	size_t room = buffer->room == 0 ? 4 * CHUNK : 2 * buffer->room;
	char *text;

	if (buffer->length > FILE_TEXT_MAX)
		return "more than 1 GiB of text";
	if (buffer->room - buffer->length > CHUNK)
		return NULL;
	text = realloc(buffer->text, room);
	if (text == NULL)
		return "out of memory";
	buffer->text = text;
	buffer->room = room;
	return NULL;
}

static const char *
read_file(FILE *file, struct buffer *out)
{
	size_t got = 1;

	while (got > 0) {
		const char *why = buffer_reserve(out);

		if (why != NULL)
			return why;
		got = fread(out->text + out->length, 1, CHUNK, file);
		out->length += got;
	}
	return ferror(file) ? strerror(errno) : NULL;
}

const char *
xz_failure(lzma_ret code)
{
	switch (code) {
	case LZMA_STREAM_END:
		return NULL;
	case LZMA_FORMAT_ERROR:
		return "not an xz file";
	case LZMA_DATA_ERROR:
		return "damaged xz data";
	case LZMA_BUF_ERROR:
		return "cut off: the xz data has no end";
	case LZMA_OPTIONS_ERROR:
		return "xz data of an unknown kind";
	case LZMA_MEMLIMIT_ERROR:
		return "xz data that needs too much memory to decode";
	default:
		return "out of memory";
	}
}

static const char *
decode_xz(const struct buffer *in, struct buffer *out)
{
	lzma_stream stream = LZMA_STREAM_INIT;
	const char *why = buffer_reserve(out);
	lzma_ret code;

	if (why != NULL)
		return why;
	code =
	    lzma_stream_decoder(&stream, XZ_DECODER_MEMORY, LZMA_CONCATENATED);
	stream.next_in = (const uint8_t *)in->text;
	stream.avail_in = in->length;
	while (code == LZMA_OK) {
		why = buffer_reserve(out);
		if (why != NULL)
			break;
		stream.next_out = (uint8_t *)out->text + out->length;
		stream.avail_out = CHUNK;
		code = lzma_code(&stream, LZMA_FINISH);
		out->length += CHUNK - stream.avail_out;
	}
	lzma_end(&stream);
	return why != NULL ? why : xz_failure(code);
}

/* By its name, or by the six bytes that open an xz file. */
static bool
is_xz(const char *path, const struct buffer *raw)
{
	static const char magic[6] = { '\xfd', '7', 'z', 'X', 'Z', '\0' };
	size_t length = strlen(path);

	if (length >= 3 && strcmp(path + length - 3, ".xz") == 0)
		return true;
	return raw->length >= sizeof(magic) &&
	    memcmp(raw->text, magic, sizeof(magic)) == 0;
}

bool
file_text_read(
    const char *path, char **text, size_t *length, char *why, size_t why_size)
{
	struct buffer raw = { 0 };
	struct buffer decoded = { 0 };
	struct buffer *result = &raw;
	bool is_stdin = strcmp(path, "-") == 0;
	FILE *file = is_stdin ? stdin : fopen(path, "rb");
	const char *failure;

	if (file == NULL) {
		snprintf(why, why_size, "%s", strerror(errno));
		return false;
	}
	failure = read_file(file, &raw);
	if (!is_stdin)
		fclose(file);
	if (failure == NULL && is_xz(path, &raw)) {
		failure = decode_xz(&raw, &decoded);
		free(raw.text);
		result = &decoded;
	}
	if (failure != NULL) {
		snprintf(why, why_size, "%s", failure);
		free(result->text);
		return false;
	}
	result->text[result->length] = '\0';
	*text = result->text;
	*length = result->length;
	return true;
}
