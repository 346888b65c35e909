/*
 * Snapshots that are compressed, and files that are no snapshots.
 */
#include <lzma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "tests/support/command.h"
#include "tests/support/test.h"
#include "tests/tools/weir/answer.h"

static void
expect_file_refused(const char *bytes, size_t length, const char *why)
{
	const char *path = written("some.file", bytes, length);

	expect_refused("stats", path, why);
}

#define REFUSED(bytes, why) expect_file_refused(bytes, sizeof(bytes) - 1, why)

TEST(the_error_for_another_file_names_its_kind)
{
	REFUSED("", "it is empty");
	REFUSED("PK\3\4\24\0\0\0", "a zip archive, as torch.save() writes");
	REFUSED("\x1f\x8b\x08\0", "cut off: the gzip data has no end");
	REFUSED("\x1f\x8bsomething", "damaged gzip data");
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

TEST(the_error_for_a_trace_in_csv_names_its_reader)
{
	static const char rows[] = "action,addr,size,stream,time_us\n";

	expect_refused("oom", written("trace.csv", rows, sizeof(rows) - 1),
	    "'weir view' and 'weir replay' read traces in CSV");
}

/* torch.cuda.memory_snapshot() of an idle process is an empty list, and a
 * history without events has empty lists. */
TEST(every_command_reads_a_snapshot_of_nothing)
{
	static const char all[] =
	    "{\"segments\": [], \"device_traces\": [[]], "
	    "\"host_segments\": [], \"host_traces\": [], "
	    "\"external_annotations\": [], \"allocator_settings\": {}}";
	static const char *const texts[] = { "[]", "{\"segments\": []}",
		"{\"device_traces\": []}", "{\"device_traces\": [[], []]}",
		all };
	static const char *const commands[] = { "show", "stats", "top", "frag",
		"leaks", "trace", "check", "export" };

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		char *path =
		    test_file("nothing.json", texts[i], strlen(texts[i]));

		for (size_t k = 0; k < sizeof(commands) / sizeof(commands[0]);
		     k++) {
			struct command_result result =
			    command_weir(commands[k], path, NULL);

			if (result.status != 0 || result.err[0] != '\0')
				FAIL("weir %s of %s: %d: %s", commands[k],
				    texts[i], result.status, result.err);
			command_free(&result);
		}
		struct command_result result =
		    command_weir("diff", path, path, NULL);
		EXPECT_EQ(result.status, 0);
		command_free(&result);
		free(path);
	}
}

TEST(a_file_that_is_not_there_is_named)
{
	expect_refused(
	    "show", "/nowhere/snapshot.pickle", "No such file or directory");
	expect_refused("show", "/", "Is a directory");
}

/* Compress a text by xz. The caller frees it. */
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

TEST(files_that_xz_has_compressed_are_read)
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

TEST(damaged_xz_is_reported)
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

/* Without a terminal there is no control sequence and nothing on stderr. */
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

/* ---- Files that ask for much --------------------------------------------- */

/* Write a text by xz, with a header that asks for a dictionary of this many
 * bytes; 0 for the size of the lowest preset. */
static const char *
packed_to(const char *name, const char *text, size_t length, uint32_t dict)
{
	static unsigned char packed[1 << 20];
	lzma_options_lzma options;
	lzma_filter filters[] = { { LZMA_FILTER_LZMA2, &options },
		{ LZMA_VLI_UNKNOWN, NULL } };
	size_t packed_length = 0;

	EXPECT(!lzma_lzma_preset(&options, 0));
	if (dict != 0)
		options.dict_size = dict;
	EXPECT_EQ(lzma_stream_buffer_encode(filters, LZMA_CHECK_CRC32, NULL,
		      (const unsigned char *)text, length, packed,
		      &packed_length, sizeof(packed)),
	    LZMA_OK);
	return written(name, packed, packed_length);
}

/* `head`, then `times` times `unit`, then `tail`. The caller frees the text. */
static char *
repeated(const char *head, const char *unit, size_t times, const char *tail)
{
	char *text =
	    malloc(strlen(head) + times * strlen(unit) + strlen(tail) + 1);
	char *at = text;

	EXPECT_NOT_NULL(text);
	at = stpcpy(at, head);
	for (size_t i = 0; i < times; i++)
		at = stpcpy(at, unit);
	stpcpy(at, tail);
	return text;
}

/* Write a file of `head`, `times` times `unit` and `tail`, by xz. */
static const char *
compressed_to(const char *name, const char *head, const char *unit,
    size_t times, const char *tail)
{
	char *text = repeated(head, unit, times, tail);
	const char *path = packed_to(name, text, strlen(text), 0);

	free(text);
	return path;
}

/* Write a file of `head`, then `times` times `unit`, by xz. */
static const char *
compressed(const char *name, const char *head, const char *unit, size_t times)
{
	return compressed_to(name, head, unit, times, "");
}

/* The command uses 6 MiB besides its data; the heap may keep some more. */
enum { BESIDE_KIB = 16 << 10 };

/* The peak of memory of a child of this process. */
static void
expect_children_below(long limit_kib)
{
	struct rusage used;

	EXPECT_EQ(getrusage(RUSAGE_CHILDREN, &used), 0);
	/* Memory of a checking tool does not count as the reader's. */
	if (!test_is_watched())
		EXPECT_LT(used.ru_maxrss, limit_kib + BESIDE_KIB);
}

/* A small part of the default limit, which small files exceed. Without a limit
 * they would take 90 to 660 MiB; the trace for weir view 16 MiB. */
#define LIMIT "8M"
#define ABOVE_LIMIT "it needs more than 8.00 MiB of memory for the first "
enum { LIMIT_KIB = 8 << 10 };

/* `weir --read-memory=8M COMMAND PATH` must refuse the file because of its
 * memory, and may not take more. */
static void
expect_limit(const char *command, const char *path)
{
	struct command_result result =
	    command_weir("--read-memory=" LIMIT, command, path, NULL);

	EXPECT_EQ(result.status, 2);
	EXPECT_STR_EQ(result.out, "");
	EXPECT_STR_HAS(result.err, path);
	EXPECT_STR_HAS(result.err, ABOVE_LIMIT);
	command_free(&result);
	expect_children_below(LIMIT_KIB);
}

static const char *
trace_of_works(const char *name, size_t rows)
{
	return compressed(
	    name, "action,addr,size,stream,time_us\n", "k,1,1,0,0\n", rows);
}

TEST(a_small_file_may_not_take_gigabytes_to_read)
{
	expect_limit(
	    "stats", compressed("tuples.xz", "\x80\x02)", "\x85", 1000000));
	expect_limit(
	    "stats", compressed("stack.xz", "\x80\x02(", "N", 5000000));
	expect_limit("stats",
	    compressed("j.xz", "{\"segments\":[", "{\"blocks\":[]},", 1000000));
	/* One file has too much text, the other too many rows. */
	expect_limit("replay", trace_of_works("text.csv.xz", 3000000));
	expect_limit("replay", trace_of_works("rows.csv.xz", 700000));
}

/* The JSON library gets a segment as a whole. */
static const char *
segment_in_json(const char *name, size_t blocks)
{
	return compressed_to(name, "{\"segments\":[{\"blocks\":[", "{},",
	    blocks, "{}]}],\"device_traces\":[]}");
}

TEST(a_segment_in_json_has_the_limit_of_the_whole_file)
{
	expect_limit("stats", segment_in_json("piece.xz", 300000));
}

/* The limit is 256 MiB, and 256 bytes for each byte of a file of 2 KB. */
TEST(without_a_users_limit_there_is_the_default_limit)
{
	struct command_result result =
	    command_weir("stats", segment_in_json("default.xz", 1100000), NULL);

	EXPECT_EQ(result.status, 2);
	EXPECT_STR_HAS(result.err, "default.xz: it needs more than 256.");
	EXPECT_STR_HAS(
	    result.err, "'weir --read-memory=SIZE COMMAND' allows more");
	command_free(&result);
	/* The heap keeps some more memory of a million small values. */
	expect_children_below((256 + 24) << 10);
}

TEST(one_long_text_has_the_limit_of_the_whole_file)
{
	/* BINUNICODE and its length: 100,000,000. */
	static const char head[] = "\x80\x02(X\x01\xe1\xf5\x05";

	expect_limit(
	    "stats", compressed("text.xz", head, "aaaaaaaaaaaaaaaa", 6250000));
}

/* Without a check, the JSON library would go on with the part of the text that
 * it has, and write after its end. With these limits its buffer for the text
 * cannot grow. */
TEST(a_text_in_json_that_is_larger_than_the_limit_is_refused)
{
	static const char *const limits[] = { "--read-memory=300K",
		"--read-memory=400K" };
	const char *path = compressed_to(
	    "text.xz", "{\"segments\":[],\"t\":\"", "a", 100000, "\"}");

	for (int i = 0; i < 2; i++) {
		struct command_result result =
		    command_weir(limits[i], "stats", path, NULL);

		EXPECT_EQ(result.status, 2);
		EXPECT_STR_HAS(result.err, "text.xz: it needs more than ");
		command_free(&result);
	}
}

/* Its events are made from its rows, and take many times their memory. */
TEST(a_trace_that_is_viewed_has_the_limit_of_the_whole_file)
{
	need_page();
	const char *path =
	    compressed("view.csv.xz", "action,addr,size,stream,time_us\n",
		"a,1,1,0,0\nf,1,1,0,0\n", 32500);
	struct command_result result = command_weir("--read-memory=" LIMIT,
	    "view", "-o", written("page.html", "", 0), path, NULL);

	EXPECT_EQ(result.status, 2);
	EXPECT_STR_HAS(result.err, "view.csv.xz: " ABOVE_LIMIT);
	command_free(&result);
	expect_children_below(LIMIT_KIB);
}

/* The first comment of a trace is JSON. A comment that is longer than any of
 * weir's is ignored. */
TEST(the_comment_of_a_trace_may_not_take_gigabytes)
{
	const char *path =
	    compressed_to("comment.csv.xz", "#{\"name\":[", "[],", 1000000,
		"0]}\naction,addr,size,stream,time_us\nk,1,1,0,0\n");
	struct command_result result =
	    command_weir("--read-memory=" LIMIT, "replay", "--sim", path, NULL);

	EXPECT_EQ(result.status, 0);
	command_free(&result);
	expect_children_below(LIMIT_KIB);
}

/* A kilobyte that announces a million entries. */
TEST(files_that_gzip_has_compressed_have_the_same_budget)
{
	const char *path = written("zeros.gz", "", 0);
	gzFile file = gzopen(path, "wb");
	char *zeros = calloc(1, 1 << 20);
	struct command_result result;

	EXPECT_GT(gzwrite(file, "\x80\x02(", 3), 0);
	memset(zeros, 'N', 1 << 20);
	EXPECT_EQ(gzwrite(file, zeros, 1 << 20), 1 << 20);
	EXPECT_EQ(gzclose(file), Z_OK);
	free(zeros);
	result = command_weir("--read-memory=1M", "stats", path, NULL);
	EXPECT_EQ(result.status, 2);
	EXPECT_STR_HAS(result.err, "zeros.gz: it needs more than");
	command_free(&result);
}

enum { DICTIONARY = 16 << 20 };

/* Write a text of this many blanks, with a dictionary that holds all of them.
 */
static const char *
blanks_in_dictionary(const char *name, const char *head, const char *blank,
    size_t times, const char *tail)
{
	char *text = repeated(head, blank, times, tail);
	const char *path = packed_to(name, text, strlen(text), DICTIONARY);

	free(text);
	return path;
}

/* The reader keeps none of the blanks, but the decoder does. */
TEST(the_dictionary_of_xz_has_the_limit_of_the_whole_file)
{
	expect_limit("stats",
	    blanks_in_dictionary("blank.xz", "{\"segments\":[", "        ",
		2000000, "],\"device_traces\":[]}"));
}

/* The text takes 4 MiB, and fills as much of the dictionary. */
TEST(the_dictionary_counts_beside_the_text_of_a_trace)
{
	const char *path = blanks_in_dictionary("blank.csv.xz",
	    "action,addr,size,stream,time_us\n", "\n\n\n\n\n\n\n\n", 520000,
	    "");

	expect_limit("replay", path);
	struct command_result result =
	    command_weir("--read-memory=17M", "replay", "--sim", path, NULL);

	EXPECT_EQ(result.status, 0);
	command_free(&result);
}

TEST(a_dictionary_counts_as_far_as_it_is_filled)
{
	const char *path = blanks_in_dictionary(
	    "few.xz", "{\"segments\":[", " ", 1000, "],\"device_traces\":[]}");
	struct command_result result =
	    command_weir("--read-memory=" LIMIT, "stats", path, NULL);

	EXPECT_EQ(result.status, 0);
	command_free(&result);
}

/* The header of the block has the dictionary's size, as 2 or 3 times a power of
 * two, and a check sum of its own. */
TEST(a_dictionary_that_is_too_large_is_named)
{
	enum { BLOCK = 12, SIZE_384_MIB = 33 };
	static const unsigned char lzma2[] = { 0x21, 1 };
	size_t length;
	unsigned char *bytes = packed(train(), &length);
	size_t end = BLOCK + 4u * bytes[BLOCK];
	unsigned char *at =
	    memmem(bytes + BLOCK, end - BLOCK, lzma2, sizeof(lzma2));
	uint32_t check;

	EXPECT_NOT_NULL(at);
	at[2] = SIZE_384_MIB;
	check = lzma_crc32(bytes + BLOCK, end - BLOCK, 0);
	/* The lowest byte comes first, as on the machines that weir runs on. */
	memcpy(bytes + end, &check, sizeof(check));
	expect_file_refused((char *)bytes, length,
	    "xz data with a dictionary of 256 MiB or more");
	free(bytes);
}

/* A million values of a pickle take more than 8 MiB. */
TEST(the_user_may_allow_more_memory_for_reading)
{
	const char *path = compressed("stack.xz", "\x80\x02(", "N", 1500000);
	struct command_result result;

	expect_limit("stats", path);
	result = command_weir("--read-memory=128M", "stats", path, NULL);
	EXPECT_EQ(result.status, 2);
	EXPECT_STR_HAS(result.err, "cut off");
	command_free(&result);
	result = command_weir("--read-memory=much", "stats", path, NULL);
	EXPECT_EQ(result.status, 2);
	EXPECT_STR_HAS(result.err, "--read-memory=much");
	command_free(&result);
}

static double
time_of_children(void)
{
	struct rusage used;

	EXPECT_EQ(getrusage(RUSAGE_CHILDREN, &used), 0);
	return (double)used.ru_utime.tv_sec +
	    (double)used.ru_utime.tv_usec * 1e-6;
}

/* The seconds to read a trace with this many addresses, which are multiples of
 * one number. */
static double
time_to_read(const char *name, uint64_t factor)
{
	enum { ROWS = 1 << 16 };
	char *text = malloc(64 + ROWS * 32);
	char *at = text;
	double before = time_of_children();
	struct command_result result;

	EXPECT_NOT_NULL(text);
	at += sprintf(at, "action,addr,size,stream,time_us\n");
	for (uint64_t i = 0; i < ROWS; i++)
		at += sprintf(at, "a,%llx,512,0,0\n",
		    (unsigned long long)i * factor << 9);
	/* The last row is wrong, so that the replay ends before it plays
	 * anything. */
	at = stpcpy(at, "f,1,512,0,0\n");
	result = command_weir(
	    "replay", "--sim", written(name, text, (size_t)(at - text)), NULL);
	EXPECT_EQ(result.status, 2);
	EXPECT_STR_HAS(result.err, "address 1, which is not allocated");
	command_free(&result);
	free(text);
	return time_of_children() - before;
}

/* In a table with a known hash these addresses would collide, and each search
 * would compare all of them. */
TEST(addresses_of_a_trace_cannot_be_chosen_to_collide)
{
	const uint64_t k = UINT64_C(0x9e3779b97f4a7c15);
	uint64_t inverse = k;

	/* Newton's method for the inverse of an odd number modulo 2^64. */
	for (int i = 0; i < 6; i++)
		inverse *= 2 - k * inverse;
	double easy = time_to_read("easy.csv", 1);
	double hard = time_to_read("hard.csv", inverse << 39);

	EXPECT(hard < 0.3 + 8 * easy);
}
