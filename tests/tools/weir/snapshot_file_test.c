/*
 * Files that are snapshots in some wrapping, and files that are none.
 */
#include <lzma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/test.h"
#include "tests/tools/weir/answer.h"

static void
expect_file_refused(const char *bytes, size_t length, const char *why)
{
	const char *path = written("some.file", bytes, length);

	expect_refused("stats", path, why);
}

#define REFUSED(bytes, why) expect_file_refused(bytes, sizeof(bytes) - 1, why)

TEST(files_that_are_no_snapshot_are_told_what_they_are)
{
	REFUSED("", "it is empty");
	REFUSED("PK\3\4\24\0\0\0", "a zip archive, as torch.save() writes");
	REFUSED("\x1f\x8b\x08\0", "compressed by gzip");
	REFUSED("\x28\xb5\x2f\xfd....", "compressed by zstd");
	REFUSED("BZh91AY", "compressed by bzip2");
	REFUSED("\x7f"
		"ELF\2\1\1",
	    "a program");
	REFUSED("<!DOCTYPE html>", "an HTML or XML page");
	REFUSED("version https://git-lfs.github.com/spec/v1\n",
	    "a pointer of git-lfs");
	REFUSED("hello", "neither a pickle nor JSON");
	REFUSED("\0\0\0\0\0\0\0\0", "neither a pickle nor JSON");
	REFUSED("   ", "cut off");
	REFUSED("\x80", "cut off");
	REFUSED("\x80\x02}", "cut off");
	REFUSED("\x80\x02\x8a\nl\xfc\x9c\x46\xf9\x20\x6a\xa8P\x19.",
	    "as old files of torch.save() begin");
	REFUSED("\x80\x02"
		"ccollections\nOrderedDict\nq\0)Rq\1.",
	    "opcode GLOBAL at offset 2 would import an object");
}

TEST(a_file_that_is_not_there_is_named)
{
	expect_refused(
	    "show", "/nowhere/snapshot.pickle", "No such file or directory");
	expect_refused("show", "/", "Is a directory");
}

/* Compressed by xz; the caller frees it. */
static unsigned char *
packed(const char *path, size_t *length)
{
	static unsigned char bytes[1 << 20];
	unsigned char *out = malloc(1 << 20);
	FILE *file = fopen(path, "rb");
	size_t size;

	EXPECT_NOT_NULL(file);
	EXPECT_NOT_NULL(out);
	size = fread(bytes, 1, sizeof(bytes), file);
	fclose(file);
	*length = 0;
	EXPECT_EQ(lzma_easy_buffer_encode(6, LZMA_CHECK_CRC32, NULL, bytes,
		      size, out, length, 1 << 20),
	    LZMA_OK);
	return out;
}

TEST(what_xz_has_compressed_is_read)
{
	static const char *const names[] = { "train4.pickle", "train.json" };

	for (int i = 0; i < 2; i++) {
		size_t length;
		unsigned char *bytes = packed(snapshot_data(names[i]), &length);
		const char *path = written("packed", bytes, length);
		json_t *json = ask_json(0, "stats", path, NULL, NULL);

		EXPECT_EQ(
		    number_at(json, "devices.0.allocated_bytes"), 68684800);
		json_decref(json);
		free(bytes);
	}
}

TEST(damaged_xz_is_told)
{
	size_t length;
	unsigned char *bytes = packed(train(), &length);

	expect_file_refused((char *)bytes, length / 2, "cut off");
	bytes[length / 2] ^= 0x55;
	expect_file_refused((char *)bytes, length, "damaged xz data");
	free(bytes);
}

TEST(a_snapshot_may_come_through_a_pipe)
{
	char *weir = test_build("bin/weir");
	char *line = NULL;
	const char *argv[] = { "sh", "-c", NULL, NULL };
	struct command_result result;

	EXPECT_GT(asprintf(&line, "cat '%s' | '%s' stats -", train(), weir), 0);
	argv[2] = line;
	result = command_run(argv);
	EXPECT_EQ(result.status, 0);
	EXPECT_STR_HAS(result.out, "device 0 holds 104.00 MiB");
	command_free(&result);
	free(line);
	free(weir);
}

/* No control sequence, and nothing on stderr, where there is no terminal. */
TEST(nothing_but_the_answer_is_printed_to_a_pipe)
{
	static const char *const commands[] = { "show", "stats", "top", "oom",
		"frag", "trace" };

	for (int i = 0; i < 6; i++) {
		struct command_result result =
		    ask(0, commands[i], train(), NULL, NULL);

		EXPECT_NULL(strchr(result.out, '\033'));
		command_free(&result);
	}
}
