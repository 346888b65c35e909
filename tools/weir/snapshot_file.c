/*
 * Files in and out.
 */
#include "tools/weir/snapshot_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/status.h"
#include "tools/weir/file_text.h"
#include "tools/weir/snapshot_json.h"
#include "tools/weir/tool.h"
#include "trace/pickle_read.h"

enum {
	CHUNK = 1 << 16,
	PROGRESS_EVERY_MS = 200,
	SNIFFED = 32, /* bytes that say what a file is */
};

struct input {
	const char *path;
	int fd;
	uint64_t size; /* of the file; 0 where that is not known */
	uint64_t done; /* bytes read of it */
	bool shows;    /* progress, on a terminal */
	bool shown;
	int64_t show_at_ms;
	/* Of a compressed file. */
	lzma_stream decoder;
	bool ended;
	uint8_t chunk[CHUNK];
};

/* ---- Progress -------------------------------------------------------- */

static int64_t
now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void
show_progress(struct input *input)
{
	char text[32];
	int64_t now;

	if (!input->shows)
		return;
	now = now_ms();
	if (now < input->show_at_ms)
		return;
	input->show_at_ms = now + PROGRESS_EVERY_MS;
	input->shown = true;
	bytes_format(input->done, text, sizeof(text));
	if (input->size > 0)
		fprintf(stderr, "\r\033[Kreading %s: %s, %u %%", input->path,
		    text,
		    (unsigned)(100 * (double)input->done /
			(double)input->size));
	else
		fprintf(stderr, "\r\033[Kreading %s: %s", input->path, text);
	fflush(stderr);
}

static void
clear_progress(struct input *input)
{
	if (input->shown)
		fputs("\r\033[K", stderr);
	input->shows = false;
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
	show_progress(input);
	return got;
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
	}
	return (ptrdiff_t)(size - decoder->avail_out);
}

/* ---- What a file is -------------------------------------------------- */

/* Files that people have beside their snapshots, by how they begin. */
static const struct {
	const char *begins;
	size_t length;
	const char *is;
} others[] = {
	{ "PK\3\4", 4, "a zip archive, as torch.save() writes checkpoints" },
	{ "\x1f\x8b", 2, "compressed by gzip; gunzip it first" },
	{ "\x28\xb5\x2f\xfd", 4, "compressed by zstd; decompress it first" },
	{ "BZh", 3, "compressed by bzip2; bunzip2 it first" },
	{ "\x7f"
	  "ELF",
	    4, "a program" },
	{ "\x89HDF", 4, "an HDF5 file" },
	{ "\x89PNG", 4, "a picture" },
	{ "%PDF", 4, "a PDF file" },
	{ "<", 1, "an HTML or XML page" },
	{ "version https://git-lfs", 23,
	    "a pointer of git-lfs; 'git lfs pull' fetches the file" },
};

/* What a file is that begins like none of ours; NULL if that is not known. */
static const char *
other_kind(const struct source *source)
{
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		if (source_left(source) >= others[i].length &&
		    memcmp(source->at, others[i].begins, others[i].length) == 0)
			return others[i].is;
	return NULL;
}

static bool
begins_json(unsigned char byte)
{
	return byte != '\0' && strchr("{[ \t\r\n", byte) != NULL;
}

bool
snapshot_begins(unsigned char byte)
{
	return byte == 0x80 || (byte != '\0' && strchr("(])}{[", byte) != NULL);
}

enum weir_status
snapshot_read(struct source *source, struct snapshot **out)
{
	enum weir_status status = source_fill(source, SNIFFED);
	const char *other;

	if (status != WEIR_OK)
		return status;
	other = other_kind(source);
	if (other != NULL)
		return status_set(
		    WEIR_EINVAL, "not a memory snapshot: %s", other);
	if (source_left(source) == 0)
		return status_set(
		    WEIR_EINVAL, "not a memory snapshot: it is empty");
	if (begins_json(*source->at))
		return snapshot_json_read(source, out);
	if (snapshot_begins(*source->at))
		return pickle_read(source, out);
	return status_set(
	    WEIR_EINVAL, "not a memory snapshot: neither a pickle nor JSON");
}

/* The same, of what is compressed. */
static enum weir_status
read_decoded(struct input *input, struct source *packed, struct snapshot **out)
{
	struct source source;
	enum weir_status status;
	lzma_ret code;

	/* What was read to see that it is xz comes first. */
	input->decoder.next_in = packed->at;
	input->decoder.avail_in = source_left(packed);
	code = lzma_stream_decoder(
	    &input->decoder, XZ_DECODER_MEMORY, LZMA_CONCATENATED);
	if (code != LZMA_OK)
		return status_set(WEIR_EHOSTMEM, "%s", xz_failure(code));
	status = source_open(&source, read_xz, input);
	if (status == WEIR_OK) {
		status = snapshot_read(&source, out);
		source_close(&source);
	}
	lzma_end(&input->decoder);
	return status;
}

static enum weir_status
read_input(struct input *input, struct snapshot **out)
{
	struct source source;
	enum weir_status status = source_open(&source, read_plain, input);

	if (status != WEIR_OK)
		return status;
	status = source_fill(&source, SNIFFED);
	if (status == WEIR_OK) {
		if (source_left(&source) >= 6 &&
		    memcmp(source.at,
			"\xfd"
			"7zXZ",
			6) == 0)
			status = read_decoded(input, &source, out);
		else
			status = snapshot_read(&source, out);
	}
	source_close(&source);
	return status;
}

struct snapshot *
snapshot_load(const char *path)
{
	struct input input = {
		.path = path,
		.decoder = LZMA_STREAM_INIT,
		.shows = isatty(STDERR_FILENO) != 0,
		.show_at_ms = now_ms() + PROGRESS_EVERY_MS,
	};
	struct snapshot *snapshot = NULL;
	struct stat about;
	enum weir_status status;

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
	clear_progress(&input);
	if (input.fd != STDIN_FILENO)
		close(input.fd);
	if (status == WEIR_OK)
		return snapshot;
	complain("%s: %s", input.path, weir_last_error());
	return NULL;
}

/* ---- Writing --------------------------------------------------------- */

/* What `path` names, for writing: a file of the owner's alone, or a pipe or
 * device that is there. -1 and errno. */
static int
open_private(const char *path)
{
	struct stat about;
	int fd = open(path, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);

	if (fd < 0 || fstat(fd, &about) != 0 || !S_ISREG(about.st_mode))
		return fd;
	/* A file that was there may have been open to others. */
	if (fchmod(fd, 0600) == 0 && ftruncate(fd, 0) == 0)
		return fd;
	close(fd);
	return -1;
}

FILE *
output_open(const char *path)
{
	FILE *file = NULL;
	int fd;

	if (strcmp(path, "-") == 0)
		return stdout;
	fd = open_private(path);
	if (fd >= 0) {
		file = fdopen(fd, "w");
		if (file == NULL)
			close(fd);
	}
	if (file == NULL)
		complain("cannot write %s: %s", path,
		    errno == ELOOP ? "it is a symbolic link" : strerror(errno));
	return file;
}

bool
output_close(FILE *file, const char *path)
{
	bool good = fflush(file) == 0 && !ferror(file);

	if (file != stdout && fclose(file) != 0)
		good = false;
	if (!good)
		complain("cannot write %s: %s", path, strerror(errno));
	return good;
}
