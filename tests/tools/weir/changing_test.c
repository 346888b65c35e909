/*
 * The readers of snapshots, traces, databases and tensors, while their files
 * change (tests/support/changing.h).
 */
#include <lzma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>

#include <weir/save.h>

#include "tests/support/changing.h"
#include "tests/support/command.h"
#include "tests/support/test.h"
#include "tools/weir/export/nsys.h"
#include "tools/weir/reading/file_text.h"
#include "tools/weir/reading/snapshot_file.h"
#include "tools/weir/reading/trace_file.h"

static struct content
new_content(void)
{
	struct content content = { .bytes = malloc(CONTENT_MAX) };

	EXPECT_NOT_NULL(content.bytes);
	return content;
}

static struct content
data_content(const char *name)
{
	char *path = test_data(name);
	struct content content = content_of(path);

	free(path);
	return content;
}

static void
read_changing_content(
    const char *name, struct content content, changing_reader *read)
{
	char *path = test_file(name, content.bytes, content.size);

	changing_read(path, &content, read);
	free(path);
	free(content.bytes);
}

/* ---- Snapshots --------------------------------------------------------------
 */

/* Its complaints are on stderr. */
static bool
read_snapshot(const char *path, char *why, size_t size)
{
	int complaints = memfd_create("complaints", MFD_CLOEXEC);
	int before = dup(STDERR_FILENO);
	struct snapshot *snapshot;
	ssize_t n;

	fflush(stderr);
	EXPECT_GE(dup2(complaints, STDERR_FILENO), 0);
	snapshot = snapshot_load(path);
	fflush(stderr);
	EXPECT_GE(dup2(before, STDERR_FILENO), 0);
	close(before);
	n = pread(complaints, why, size - 1, 0);
	close(complaints);
	why[n > 0 ? n : 0] = '\0';
	if (snapshot == NULL) {
		EXPECT_STR_HAS(why, path);
		return false;
	}
	EXPECT_STR_EQ(why, "");
	snapshot_free(snapshot);
	return true;
}

TEST_TIMEOUT(a_pickle_may_change_while_it_is_read, 3600)
{
	read_changing_content("snapshot.pickle",
	    data_content("snapshots/train0.pickle"), read_snapshot);
}

TEST_TIMEOUT(json_may_change_while_it_is_read, 3600)
{
	read_changing_content("snapshot.json",
	    data_content("snapshots/train.json"), read_snapshot);
}

TEST_TIMEOUT(an_xz_file_may_change_while_it_is_read, 3600)
{
	struct content plain = data_content("snapshots/train.json");
	struct content packed = new_content();

	EXPECT_EQ(
	    lzma_easy_buffer_encode(6, LZMA_CHECK_CRC32, NULL, plain.bytes,
		plain.size, packed.bytes, &packed.size, CONTENT_MAX),
	    LZMA_OK);
	free(plain.bytes);
	read_changing_content("snapshot.json.xz", packed, read_snapshot);
}

TEST_TIMEOUT(a_gzip_file_may_change_while_it_is_read, 3600)
{
	enum { GZIP_WINDOW = 15 + 16, MEMORY_LEVEL = 8 };
	struct content plain = data_content("snapshots/train.json");
	struct content packed = new_content();
	z_stream stream = { .next_in = plain.bytes,
		.avail_in = (uInt)plain.size,
		.next_out = packed.bytes,
		.avail_out = CONTENT_MAX };

	EXPECT_EQ(deflateInit2(&stream, 6, Z_DEFLATED, GZIP_WINDOW,
		      MEMORY_LEVEL, Z_DEFAULT_STRATEGY),
	    Z_OK);
	EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
	packed.size = CONTENT_MAX - stream.avail_out;
	deflateEnd(&stream);
	free(plain.bytes);
	read_changing_content("snapshot.json.gz", packed, read_snapshot);
}

/* ---- Traces -----------------------------------------------------------------
 */

static bool
read_trace(const char *path, char *why, size_t size)
{
	struct trace_error error = { "" };
	struct trace trace;

	if (!trace_read(path, &trace, &error)) {
		EXPECT_STR_HAS(error.text, path);
		snprintf(why, size, "%s", error.text);
		return false;
	}
	trace_drop(&trace);
	return true;
}

TEST_TIMEOUT(a_trace_may_change_while_it_is_read, 3600)
{
	read_changing_content(
	    "trace.csv", data_content("moe_start.csv"), read_trace);
}

TEST_TIMEOUT(a_packed_trace_may_change_while_it_is_read, 3600)
{
	read_changing_content(
	    "trace.csv.xz", data_content("fsdp_prefetch.csv.xz"), read_trace);
}

static bool
read_database(const char *path, char *why, size_t size)
{
	struct budget budget = file_text_budget();
	const char *fault;
	char *text = NULL;
	char *chrome = NULL;
	size_t length = 0;

	if (!file_text_read(path, &budget, &text, &length, why, size))
		return false;
	fault = nsys_to_chrome(text, length, &chrome, &length);
	snprintf(why, size, "%s", fault == NULL ? "" : fault);
	if (fault == NULL)
		free(chrome);
	free(text);
	return fault == NULL;
}

TEST_TIMEOUT(a_database_may_change_while_it_is_read, 3600)
{
	read_changing_content("profile.sqlite",
	    data_content("nsys/made_up.sqlite"), read_database);
}

/* ---- Tensors ----------------------------------------------------------------
 */

static bool
read_tensors(const char *path, char *why, size_t size)
{
	struct weir_load_options options = { .struct_size = sizeof(options) };
	struct weir_loaded *loaded;

	if (weir_load(path, &options, &loaded) != WEIR_OK) {
		EXPECT_EQ(weir_last_status(), WEIR_EFILE);
		snprintf(why, size, "%s", weir_last_error());
		return false;
	}
	weir_loaded_drop(loaded);
	return true;
}

TEST_TIMEOUT(tensors_may_change_while_they_are_read, 3600)
{
	static const char header[] = "{\"a\":{\"dtype\":\"F32\",\"shape\":[64,"
				     "1024],\"data_offsets\":[0,262144]},"
				     "\"b\":{\"dtype\":\"U8\",\"shape\":[3],"
				     "\"data_offsets\":[262144,262147]}}";
	struct content content = { .bytes = calloc(1, CONTENT_MAX),
		.size = 8 + sizeof(header) - 1 + 262147 };

	EXPECT_NOT_NULL(content.bytes);
	content.bytes[0] = sizeof(header) - 1;
	memcpy(content.bytes + 8, header, sizeof(header) - 1);
	read_changing_content("a.safetensors", content, read_tensors);
}
