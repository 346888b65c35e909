/*
 * Reading a file, through liblzma or zlib if it is compressed.
 */
#include <errno.h>
#include <lzma.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <zlib.h>

#include "base/meta.h"
#include "tools/weir/progress.h"
#include "tools/weir/reading/file_text.h"
#include "tools/weir/tool.h"

enum {
	CHUNK = 1 << 16,
	GZIP_WINDOW = 15 + 16,
};

/* A text that grows. */
struct buffer {
	char *text;
	size_t length;
	size_t capacity; /* at least length + 1, for the NUL */
};

struct budget
file_text_budget(void)
{
	return (struct budget){ .most = read_memory(), .before = meta_bytes() };
}

uint64_t
read_memory(void)
{
	const char *text = getenv("WEIR_READ_MEMORY");
	uint64_t bytes;

	return text != NULL && bytes_parse(text, &bytes) ? bytes : 0;
}

static uint64_t
lesser_bytes(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* Grow the buffer so that CHUNK more bytes and a NUL fit. `window` is the size
 * of the decoder's window on its output. False, and *why is the reason, if the
 * text may not grow. */
static bool
buffer_reserve(struct buffer *buffer, uint64_t window,
    const struct budget *budget, const char **why)
{
	size_t capacity =
	    buffer->capacity == 0 ? 4 * CHUNK : 2 * buffer->capacity;
	char *text;

	if (buffer->length > FILE_TEXT_MAX) {
		*why = "more than 1 GiB of text";
		return false;
	}
	if (buffer->capacity - buffer->length > CHUNK)
		return true;
	/* The window fills as the text grows. */
	if (budget_check(budget, capacity + lesser_bytes(window, capacity)) !=
	    WEIR_OK) {
		*why = weir_last_error();
		return false;
	}
	text = realloc(buffer->text, capacity);
	if (text == NULL) {
		*why = "out of memory";
		return false;
	}
	buffer->text = text;
	buffer->capacity = capacity;
	return true;
}

/* Read the whole file. On failure *why is the reason. */
static bool
read_file(FILE *file, struct buffer *out, struct budget *budget,
    struct progress *progress, const char **why)
{
	struct stat about;
	size_t got = 1;
	uint64_t all = 0;

	if (fstat(fileno(file), &about) == 0 && S_ISREG(about.st_mode))
		all = (uint64_t)about.st_size;
	while (got > 0) {
		if (!buffer_reserve(out, 0, budget, why))
			return false;
		got = fread(out->text + out->length, 1, CHUNK, file);
		out->length += got;
		budget->stored = out->length;
		budget->decoded = out->length;
		progress_part(progress, "reading", out->length, all);
	}
	if (!ferror(file))
		return true;
	*why = strerror(errno);
	return false;
}

uint64_t
xz_memory(const lzma_stream *decoder)
{
	enum {
		STATE = 64 << 10
	}; /* bytes of a decoder besides its dictionary */

	return lesser_bytes(lzma_memusage(decoder), STATE + decoder->total_out);
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
		return "xz data with a dictionary of 256 MiB or more";
	default:
		return "out of memory";
	}
}

/* Decode the whole text. On failure *why is the reason. */
static bool
decode_xz(const struct buffer *in, struct buffer *out, struct budget *budget,
    struct progress *progress, const char **why)
{
	lzma_stream stream = LZMA_STREAM_INIT;
	bool fits = buffer_reserve(out, 0, budget, why);
	lzma_ret code;

	if (!fits)
		return false;
	code =
	    lzma_stream_decoder(&stream, XZ_DECODER_MEMORY, LZMA_CONCATENATED);
	stream.next_in = (const uint8_t *)in->text;
	stream.avail_in = in->length;
	while (code == LZMA_OK) {
		fits = buffer_reserve(out, lzma_memusage(&stream), budget, why);
		if (!fits)
			break;
		stream.next_out = (uint8_t *)out->text + out->length;
		stream.avail_out = CHUNK;
		code = lzma_code(&stream, LZMA_FINISH);
		out->length += CHUNK - stream.avail_out;
		budget->decoded = out->length;
		progress_part(progress, "decompressing",
		    in->length - stream.avail_in, in->length);
	}
	lzma_end(&stream);
	if (fits)
		*why = xz_failure(code);
	return fits && code == LZMA_STREAM_END;
}

const char *
gzip_failure(int code)
{
	switch (code) {
	case Z_DATA_ERROR:
		return "damaged gzip data, or not a gzip file";
	case Z_BUF_ERROR:
		return "cut off: the gzip data has no end";
	default:
		return "out of memory";
	}
}

/* Decode the whole text. A gzip file may consist of several, one after the
 * other. On failure *why is the reason. */
static bool
decode_gzip(const struct buffer *in, struct buffer *out, struct budget *budget,
    struct progress *progress, const char **why)
{
	z_stream stream = { .next_in = (Bytef *)in->text,
		.avail_in = (uInt)in->length };
	bool fits = true;
	int code = inflateInit2(&stream, GZIP_WINDOW);

	if (code != Z_OK) {
		*why = gzip_failure(code);
		return false;
	}
	while (code == Z_OK) {
		fits = buffer_reserve(out, 0, budget, why);
		if (!fits)
			break;
		stream.next_out = (Bytef *)out->text + out->length;
		stream.avail_out = CHUNK;
		code = inflate(&stream, Z_NO_FLUSH);
		out->length += CHUNK - stream.avail_out;
		budget->decoded = out->length;
		progress_part(progress, "decompressing",
		    in->length - stream.avail_in, in->length);
		if (code == Z_STREAM_END && stream.avail_in > 0)
			code = inflateReset(&stream);
	}
	inflateEnd(&stream);
	if (fits && code != Z_STREAM_END)
		*why = gzip_failure(code);
	return fits && code == Z_STREAM_END;
}

static bool
has_suffix(const char *path, const char *end)
{
	size_t length = strlen(path);

	return length >= 3 && strcmp(path + length - 3, end) == 0;
}

static bool
is_gzip(const char *path, const struct buffer *raw)
{
	return has_suffix(path, ".gz") ||
	    (raw->length >= 2 && memcmp(raw->text, "\x1f\x8b", 2) == 0);
}

/* True if the name says xz, or if the text begins with the six bytes of an xz
 * file. */
static bool
is_xz(const char *path, const struct buffer *raw)
{
	static const char magic[6] = { '\xfd', '7', 'z', 'X', 'Z', '\0' };

	if (has_suffix(path, ".xz"))
		return true;
	return raw->length >= sizeof(magic) &&
	    memcmp(raw->text, magic, sizeof(magic)) == 0;
}

bool
file_text_read(const char *path, struct budget *budget, char **text,
    size_t *length, char *why, size_t why_size)
{
	struct buffer raw = { 0 };
	struct buffer decoded = { 0 };
	struct buffer *result = &raw;
	bool is_stdin = strcmp(path, "-") == 0;
	FILE *file = is_stdin ? stdin : fopen(path, "rb");
	struct progress progress;
	const char *failure = NULL;
	bool done;

	if (file == NULL) {
		snprintf(why, why_size, "%s", strerror(errno));
		return false;
	}
	progress_begin(&progress, PROGRESS_AFTER_MS);
	done = read_file(file, &raw, budget, &progress, &failure);
	if (!is_stdin)
		fclose(file);
	if (done && is_xz(path, &raw)) {
		done = decode_xz(&raw, &decoded, budget, &progress, &failure);
		free(raw.text);
		result = &decoded;
	} else if (done && is_gzip(path, &raw)) {
		done = decode_gzip(&raw, &decoded, budget, &progress, &failure);
		free(raw.text);
		result = &decoded;
	}
	progress_end(&progress);
	if (!done) {
		snprintf(why, why_size, "%s", failure);
		free(result->text);
		return false;
	}
	result->text[result->length] = '\0';
	*text = result->text;
	*length = result->length;
	return true;
}
