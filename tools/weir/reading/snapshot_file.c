/*
 * Files that commands read and write.
 */
#include "tools/weir/reading/snapshot_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <zlib.h>

#include "base/meta.h"
#include "base/out.h"
#include "base/status.h"
#include "tools/weir/export/gzip_out.h"
#include "tools/weir/progress.h"
#include "tools/weir/reading/file_text.h"
#include "tools/weir/reading/trace_snapshot.h"
#include "tools/weir/tool.h"

enum {
	CHUNK = 1 << 16,
	READING_AFTER_MS = 200,
	GZIP_WINDOW = 15 + 16,
	SNIFFED = 32, /* bytes by which the kind of a file is recognised */
};

struct input {
	const char *path;
	int fd;
	uint64_t size; /* of the file; 0 if it is unknown */
	uint64_t done; /* bytes that have been read */
	struct progress progress;
	/* Used for compressed files only. */
	lzma_stream decoder;
	uint64_t decoder_bytes; /* counted against the budget */
	z_stream inflater;
	bool ended;
	struct budget budget;
	/* The text of a trace, if the caller takes traces. */
	bool takes_trace;
	char *trace;
	size_t trace_length;
	uint8_t chunk[CHUNK];
};

static void
show_bytes_read(struct input *input)
{
	char text[32];

	if (!progress_due(&input->progress))
		return;
	bytes_format(input->done, text, sizeof(text));
	if (input->size > 0)
		progress_show(&input->progress, "reading %s: %s, %u %%",
		    input->path, text,
		    (unsigned)(100 * (double)input->done /
			(double)input->size));
	else
		progress_show(
		    &input->progress, "reading %s: %s", input->path, text);
}

/* ---- Reading --------------------------------------------------------- */

static ptrdiff_t
read_plain(void *user, void *buffer, size_t size)
{
	struct input *input = user;
	ssize_t got;

	do
		got = read(input->fd, buffer, size);
	while (got < 0 && errno == EINTR);
	if (got < 0) {
		status_set(WEIR_EINVAL, "%s", strerror(errno));
		return -1;
	}
	input->done += (uint64_t)got;
	input->budget.stored = input->done;
	show_bytes_read(input);
	return got;
}

/* Charge the memory that the decoder has touched since the last call. False,
 * with a status, if the budget is spent. */
static bool
count_decoder(struct input *input)
{
	uint64_t bytes = xz_memory(&input->decoder);

	if (bytes <= input->decoder_bytes)
		return true;
	if (!meta_charge(bytes - input->decoder_bytes)) {
		status_set(WEIR_EHOSTMEM, "no host memory for decompressing");
		return false;
	}
	input->decoder_bytes = bytes;
	return true;
}

static ptrdiff_t
read_xz(void *user, void *buffer, size_t size)
{
	struct input *input = user;
	lzma_stream *decoder = &input->decoder;

	decoder->next_out = buffer;
	decoder->avail_out = size;
	while (decoder->avail_out == size && !input->ended) {
		lzma_ret code;

		if (decoder->avail_in == 0) {
			ptrdiff_t got = read_plain(input, input->chunk, CHUNK);

			if (got < 0)
				return -1;
			decoder->next_in = input->chunk;
			decoder->avail_in = (size_t)got;
		}
		code = lzma_code(
		    decoder, decoder->avail_in == 0 ? LZMA_FINISH : LZMA_RUN);
		input->ended = code == LZMA_STREAM_END;
		if (code != LZMA_OK && code != LZMA_STREAM_END) {
			status_set(WEIR_EINVAL, "%s", xz_failure(code));
			return -1;
		}
		if (!count_decoder(input))
			return -1;
	}
	return (ptrdiff_t)(size - decoder->avail_out);
}

/* Read the next bytes for the inflater if it has none. False, with a status, on
 * failure. */
static bool
feed_gzip(struct input *input)
{
	ptrdiff_t got;

	if (input->inflater.avail_in > 0)
		return true;
	got = read_plain(input, input->chunk, CHUNK);
	if (got < 0)
		return false;
	input->inflater.next_in = input->chunk;
	input->inflater.avail_in = (uInt)got;
	return true;
}

/* Inflate the next bytes. A gzip file may consist of several, one after the
 * other. */
static ptrdiff_t
read_gzip(void *user, void *buffer, size_t size)
{
	struct input *input = user;
	z_stream *inflater = &input->inflater;

	inflater->next_out = buffer;
	inflater->avail_out = (uInt)size;
	while (inflater->avail_out == size && !input->ended) {
		int code;

		if (!feed_gzip(input))
			return -1;
		code = inflate(inflater, Z_NO_FLUSH);
		if (code == Z_STREAM_END) {
			if (!feed_gzip(input))
				return -1;
			input->ended = inflater->avail_in == 0;
			inflateReset(inflater);
		} else if (code != Z_OK) {
			status_set(WEIR_EINVAL, "%s", gzip_failure(code));
			return -1;
		}
	}
	return (ptrdiff_t)(size - inflater->avail_out);
}

/* ---- Snapshots and traces -------------------------------------------- */

/* True if an input begins with the heading of a trace in CSV, or with a
 * comment. */
static bool
begins_trace(const struct source *source)
{
	static const char heading[] = "action,";

	return source_left(source) >= sizeof(heading) - 1 &&
	    (*source->at == '#' ||
		memcmp(source->at, heading, sizeof(heading) - 1) == 0);
}

/* Copy the whole text of a trace, with a NUL after it. */
static enum weir_status
copy_trace_text(struct input *input, struct source *source)
{
	size_t wanted = 0;
	enum weir_status status;

	do {
		wanted = source_left(source) + 1;
		if (wanted > FILE_TEXT_MAX)
			return status_set(
			    WEIR_EINVAL, "more than 1 GiB of text");
		status = source_fill(source, wanted);
	} while (status == WEIR_OK && source_left(source) >= wanted);
	if (status != WEIR_OK)
		return status;
	input->trace_length = source_left(source);
	input->trace = malloc(input->trace_length + 1);
	if (input->trace == NULL)
		return status_set(WEIR_EHOSTMEM, "out of memory");
	memcpy(input->trace, source->at, input->trace_length);
	input->trace[input->trace_length] = '\0';
	return WEIR_OK;
}

/* Read a snapshot or a trace from decompressed bytes. */
static enum weir_status
read_content(struct input *input, struct source *source, struct snapshot **out)
{
	enum weir_status status = source_fill(source, SNIFFED);

	if (status != WEIR_OK)
		return status;
	if (input->takes_trace &&
	    (trace_is_named(input->path) || begins_trace(source)))
		return copy_trace_text(input, source);
	return snapshot_read(source, out);
}

static enum weir_status
read_through(struct input *input, source_read read, struct snapshot **out)
{
	struct source source;
	enum weir_status status = source_open(&source, read, input);

	if (status != WEIR_OK)
		return status;
	source.budget = &input->budget;
	status = read_content(input, &source, out);
	source_close(&source);
	return status;
}

static enum weir_status
read_inflated(struct input *input, struct source *packed, struct snapshot **out)
{
	enum weir_status status;

	/* The bytes that were read to recognise gzip come first. */
	input->inflater.next_in = (Bytef *)(uintptr_t)packed->at;
	input->inflater.avail_in = (uInt)source_left(packed);
	if (inflateInit2(&input->inflater, GZIP_WINDOW) != Z_OK)
		return status_set(WEIR_EHOSTMEM, "out of memory");
	status = read_through(input, read_gzip, out);
	inflateEnd(&input->inflater);
	return status;
}

static enum weir_status
read_decoded(struct input *input, struct source *packed, struct snapshot **out)
{
	enum weir_status status;
	lzma_ret code;

	/* The bytes that were read to recognise xz come first. */
	input->decoder.next_in = packed->at;
	input->decoder.avail_in = source_left(packed);
	code = lzma_stream_decoder(
	    &input->decoder, XZ_DECODER_MEMORY, LZMA_CONCATENATED);
	if (code != LZMA_OK)
		return status_set(WEIR_EHOSTMEM, "%s", xz_failure(code));
	status = read_through(input, read_xz, out);
	lzma_end(&input->decoder);
	meta_discharge(input->decoder_bytes);
	return status;
}

static enum weir_status
read_input(struct input *input, struct snapshot **out)
{
	struct source source;
	enum weir_status status = source_open(&source, read_plain, input);

	if (status != WEIR_OK)
		return status;
	source.budget = &input->budget;
	status = source_fill(&source, SNIFFED);
	if (status == WEIR_OK) {
		if (source_left(&source) >= 6 &&
		    memcmp(source.at,
			"\xfd"
			"7zXZ",
			6) == 0)
			status = read_decoded(input, &source, out);
		else if (source_left(&source) >= 2 &&
		    memcmp(source.at, "\x1f\x8b", 2) == 0)
			status = read_inflated(input, &source, out);
		else
			status = read_content(input, &source, out);
	}
	source_close(&source);
	status = budget_explain(&input->budget, status);
	budget_release();
	return status;
}

/* Return the snapshot that was read, or NULL with a complaint. */
static struct snapshot *
snapshot_of_input(
    struct input *input, enum weir_status status, struct snapshot *snapshot)
{
	if (status == WEIR_OK && input->trace != NULL)
		return trace_snapshot_of(input->path, input->trace,
		    input->trace_length, &input->budget);
	if (status == WEIR_OK)
		return snapshot;
	complain("%s: %s", input->path, weir_last_error());
	if (!input->takes_trace && trace_is_named(input->path))
		complain("'weir view' and 'weir replay' read traces in CSV");
	return NULL;
}

static struct snapshot *
load_snapshot_file(const char *path, bool takes_trace)
{
	struct input input = {
		.path = path,
		.decoder = LZMA_STREAM_INIT,
		.budget = { .most = read_memory(), .before = meta_bytes() },
		.takes_trace = takes_trace,
	};
	struct snapshot *snapshot = NULL;
	struct stat about;
	enum weir_status status;

	progress_begin(&input.progress, READING_AFTER_MS);
	if (strcmp(path, "-") == 0) {
		input.path = "stdin";
		input.fd = STDIN_FILENO;
	} else {
		input.fd = open(path, O_RDONLY | O_CLOEXEC);
	}
	if (input.fd < 0) {
		complain("%s: %s", path, strerror(errno));
		return NULL;
	}
	if (fstat(input.fd, &about) == 0 && S_ISREG(about.st_mode))
		input.size = (uint64_t)about.st_size;
	status = read_input(&input, &snapshot);
	progress_end(&input.progress);
	if (input.fd != STDIN_FILENO)
		close(input.fd);
	snapshot = snapshot_of_input(&input, status, snapshot);
	free(input.trace);
	return snapshot;
}

struct snapshot *
snapshot_load(const char *path)
{
	return load_snapshot_file(path, false);
}

struct snapshot *
snapshot_or_trace_load(const char *path)
{
	return load_snapshot_file(path, true);
}

/* ---- Writing --------------------------------------------------------- */

/* The file that is being written, in the folder of its final name. There is one
 * at a time. */
static struct {
	FILE *file;
	struct out *out;
} pending;

/* Remove the incomplete file when the command ends. */
static void
abandon_pending(void)
{
	if (pending.out != NULL)
		out_abandon(pending.out);
	pending.out = NULL;
}

/* Open a pipe or a device, which no file may replace. */
static FILE *
open_device(const char *path)
{
	int fd = open(path, O_WRONLY | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY);
	FILE *file = fd < 0 ? NULL : fdopen(fd, "w");

	if (file == NULL && fd >= 0)
		close(fd);
	if (file == NULL)
		complain("cannot write %s: %s", path, strerror(errno));
	return file;
}

/* Open a new file, which replaces the one at `path` when it is complete. */
static FILE *
open_regular(const char *path)
{
	static bool registered;
	FILE *file;
	int fd;

	if (!registered)
		registered = atexit(abandon_pending) == 0;
	if (out_open(path, &pending.out) != WEIR_OK) {
		complain("%s", weir_last_error());
		return NULL;
	}
	fd = fcntl(pending.out->fd, F_DUPFD_CLOEXEC, 0);
	file = fd < 0 ? NULL : fdopen(fd, "w");
	if (file == NULL) {
		complain("cannot write %s: %s", path, strerror(errno));
		if (fd >= 0)
			close(fd);
		abandon_pending();
	}
	pending.file = file;
	return file;
}

/* The streams of an output whose name ends in ".gz". There is one at a
 * time. */
static struct {
	FILE *outer;
	FILE *inner;
} gzipped;

static FILE *
open_place(const char *path)
{
	struct stat about;

	if (strcmp(path, "-") == 0)
		return stdout;
	if (lstat(path, &about) != 0)
		return open_regular(path);
	if (S_ISLNK(about.st_mode)) {
		complain("cannot write %s: it is a symbolic link", path);
		return NULL;
	}
	return S_ISREG(about.st_mode) || S_ISDIR(about.st_mode) ?
	    open_regular(path) :
	    open_device(path);
}

FILE *
output_open(const char *path)
{
	FILE *file = open_place(path);

	if (file == NULL || !gzip_is_named(path))
		return file;
	gzipped.inner = file;
	gzipped.outer = gzip_out(file);
	if (gzipped.outer != NULL)
		return gzipped.outer;
	complain("cannot write %s: out of memory", path);
	fclose(file);
	abandon_pending();
	return NULL;
}

/* Write the end of the compressed data. *file becomes the stream of the file
 * itself. */
static bool
end_gzip(FILE **file)
{
	bool good;

	if (*file != gzipped.outer)
		return true;
	good = fflush(*file) == 0 && !ferror(*file);
	good = fclose(*file) == 0 && good;
	*file = gzipped.inner;
	gzipped.outer = NULL;
	return good;
}

bool
output_close(FILE *file, const char *path)
{
	bool good = end_gzip(&file);

	good = fflush(file) == 0 && !ferror(file) && good;
	int error = errno;

	if (file != stdout && fclose(file) != 0 && good) {
		good = false;
		error = errno;
	}
	if (!good)
		complain("cannot write %s: %s", path, strerror(error));
	if (pending.out == NULL || file != pending.file)
		return good;
	if (!good) {
		abandon_pending();
		return false;
	}
	good = out_close(pending.out) == WEIR_OK;
	pending.out = NULL;
	if (!good)
		complain("%s", weir_last_error());
	return good;
}

void
output_abandon(FILE *file)
{
	end_gzip(&file);
	if (file != stdout)
		fclose(file);
	abandon_pending();
}
