/*
 * Reading traces: their content, and all kinds of damage.
 */
#include <lzma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/command.h"
#include "tests/support/test.h"
#include "tools/weir/reading/trace_file.h"

#define HEADER "action,addr,size,stream,time_us\n"

/* Read a trace from a text, which must be valid. */
static void
read_good(const char *text, struct trace *out)
{
	struct trace_error error = { "" };
	char *path = test_file("t.csv", text, strlen(text));

	if (!trace_read(path, out, &error))
		FAIL("%s", error.text);
	free(path);
}

/* Read `length` bytes. The error must be the path and `why`. */
static void
read_bad(const char *text, size_t length, const char *why)
{
	struct trace untouched = { .row_count = 77 };
	struct trace_error error = { "" };
	char *path = test_file("bad.csv", text, length);

	EXPECT(!trace_read(path, &untouched, &error));
	EXPECT_EQ(strncmp(error.text, path, strlen(path)), 0);
	EXPECT_STR_EQ(error.text + strlen(path), why);
	EXPECT_EQ(untouched.row_count, 77);
	free(path);
}

static void
expect_bad(const char *text, const char *why)
{
	read_bad(text, strlen(text), why);
}

TEST(rows_are_read_as_they_are_written)
{
	struct trace trace;

	read_good("# {\"name\": \"two\", \"peak_reserved\": 2097152, "
		  "\"allocator\": \"weir\", \"gpu_wait_us\": 55}\n" HEADER
		  "S,7f00,2097152,0,0\n"
		  "a,7f00,512,3,1\n"
		  "f,7f00,512,3,9\n"
		  "c,7f00,512,3,9\n",
	    &trace);
	EXPECT_STR_EQ(trace.name, "two");
	EXPECT_EQ(trace.recorded_held_bytes, 2097152);
	EXPECT_EQ(trace.recorded_of_weir, true);
	EXPECT_EQ(trace.recorded_wait_us, 55);
	EXPECT_EQ(trace.row_count, 4);
	EXPECT_EQ(trace.addrs[1], 0x7f00);
	EXPECT_EQ(trace.block_count, 1);
	EXPECT_EQ(trace.stream_count, 4);
	EXPECT(!trace.has_records);
	EXPECT_EQ(trace.end_us, 9);
	EXPECT_EQ(trace.rows[0].action, 'S');
	EXPECT_EQ(trace.rows[0].block, TRACE_NO_BLOCK);
	EXPECT_EQ(trace.rows[1].action, 'a');
	EXPECT_EQ(trace.rows[1].block, 0);
	EXPECT_EQ(trace.rows[1].size, 512);
	EXPECT_EQ(trace.rows[1].stream, 3);
	EXPECT_EQ(trace.rows[1].time_us, 1);
	EXPECT_EQ(trace.rows[2].block, 0);
	trace_drop(&trace);
}

TEST(the_name_is_that_of_the_file_if_the_file_has_no_other)
{
	struct trace trace;

	read_good(HEADER, &trace);
	EXPECT_STR_EQ(trace.name, "t");
	EXPECT_EQ(trace.row_count, 0);
	trace_drop(&trace);
}

TEST(a_comment_that_is_no_json_is_a_comment)
{
	struct trace trace;

	read_good("# {\"name\": oops\n" HEADER "# more\na,1,2,0,3\n", &trace);
	EXPECT_STR_EQ(trace.name, "t");
	EXPECT_EQ(trace.row_count, 1);
	trace_drop(&trace);
}

TEST(line_ends_of_other_systems_and_a_missing_last_one_are_taken)
{
	struct trace trace;

	read_good("action,addr,size,stream,time_us\r\na,1,2,0,3\r\nf,1,2,0,4",
	    &trace);
	EXPECT_EQ(trace.row_count, 2);
	EXPECT_EQ(trace.rows[1].time_us, 4);
	trace_drop(&trace);
}

TEST(a_recorded_block_is_used_until_its_completion)
{
	struct trace trace;

	read_good(HEADER "a,200,512,1,0\n"
			 "r,200,512,0,5\n"
			 "f,200,512,1,5\n"
			 "c,200,512,1,40\n",
	    &trace);
	EXPECT(trace.has_records);
	EXPECT(trace.blocks[0].recorded);
	EXPECT(!trace.blocks[0].unnamed_use);
	EXPECT_EQ(trace.blocks[0].used_until_us, 40);
	trace_drop(&trace);
}

TEST(a_recorded_block_that_is_never_completed_is_used_to_the_end)
{
	struct trace trace;

	read_good(HEADER "a,200,512,1,0\n"
			 "r,200,512,0,5\n"
			 "f,200,512,1,5\n"
			 "a,400,512,1,90\n"
			 "r,400,512,0,95\n",
	    &trace);
	EXPECT_EQ(trace.blocks[0].used_until_us, 95);
	EXPECT_EQ(trace.blocks[1].used_until_us, 95);
	trace_drop(&trace);
}

TEST(a_late_completion_without_records_is_an_unnamed_use)
{
	struct trace trace;

	read_good(HEADER "a,200,512,0,0\n"
			 "f,200,512,0,5\n"
			 "a,400,512,0,6\n"
			 "c,200,512,0,40\n"
			 "f,400,512,0,50\n"
			 "c,400,512,0,51\n",
	    &trace);
	EXPECT(trace.blocks[0].unnamed_use);
	EXPECT_EQ(trace.blocks[0].used_until_us, 40);
	/* One call wrote this completion and its free. */
	EXPECT(!trace.blocks[1].unnamed_use);
	EXPECT_EQ(trace.blocks[1].used_until_us, 0);
	trace_drop(&trace);
}

TEST(where_records_are_written_a_late_completion_is_no_use)
{
	struct trace trace;

	read_good(HEADER "a,200,512,0,0\n"
			 "f,200,512,0,5\n"
			 "a,400,512,0,6\n"
			 "c,200,512,0,40\n"
			 "r,400,512,1,41\n"
			 "f,400,512,0,50\n",
	    &trace);
	EXPECT(!trace.blocks[0].unnamed_use);
	EXPECT_EQ(trace.blocks[0].used_until_us, 0);
	trace_drop(&trace);
}

TEST(each_life_of_an_address_is_a_separate_block)
{
	struct trace trace;

	read_good(HEADER "a,200,512,1,0\n"
			 "r,200,512,0,1\n"
			 "f,200,512,1,1\n"
			 "c,200,512,1,7\n"
			 "a,200,1024,2,8\n"
			 "f,200,1024,2,9\n",
	    &trace);
	EXPECT_EQ(trace.block_count, 2);
	EXPECT_EQ(trace.rows[3].block, 0);
	EXPECT_EQ(trace.rows[4].block, 1);
	EXPECT_EQ(trace.rows[5].block, 1);
	EXPECT_EQ(trace.blocks[0].used_until_us, 7);
	EXPECT(!trace.blocks[1].recorded);
	trace_drop(&trace);
}

TEST(an_address_that_is_handed_out_again_has_been_completed)
{
	struct trace trace;

	read_good(HEADER "a,200,512,1,0\n"
			 "r,200,512,0,1\n"
			 "f,200,512,1,1\n"
			 "a,200,512,1,8\n"
			 "f,200,512,1,30\n",
	    &trace);
	EXPECT_EQ(trace.blocks[0].used_until_us, 8);
	trace_drop(&trace);
}

TEST(times_out_of_order_are_taken_as_those_before)
{
	struct trace trace;

	read_good(HEADER "a,200,512,0,9\na,400,512,0,3\n", &trace);
	EXPECT_EQ(trace.rows[1].time_us, 9);
	EXPECT_EQ(trace.end_us, 9);
	trace_drop(&trace);
}

TEST(many_addresses_are_distinguished)
{
	enum { COUNT = 20000 };
	struct trace trace;
	char *text = malloc(2 * COUNT * 40 + 100);
	size_t length = (size_t)sprintf(text, HEADER);

	for (unsigned i = 0; i < COUNT; i++)
		length += (size_t)sprintf(text + length, "a,%x,512,0,%u\n",
		    0x7f000000u + i * 512u, i);
	for (unsigned i = 0; i < COUNT; i++)
		length += (size_t)sprintf(text + length, "f,%x,512,0,%u\n",
		    0x7f000000u + i * 512u, COUNT + i);
	read_good(text, &trace);
	free(text);
	EXPECT_EQ(trace.block_count, COUNT);
	for (unsigned i = 0; i < COUNT; i++) {
		EXPECT_EQ(trace.rows[i].block, i);
		EXPECT_EQ(trace.rows[COUNT + i].block, i);
	}
	trace_drop(&trace);
}

TEST(a_recorded_trace_is_read_through_xz)
{
	struct trace_error error = { "" };
	struct trace trace;
	char *path = test_data("fsdp_prefetch.csv.xz");
	size_t actions[128] = { 0 };

	if (!trace_read(path, &trace, &error))
		FAIL("%s", error.text);
	free(path);
	for (size_t i = 0; i < trace.row_count; i++)
		actions[(unsigned char)trace.rows[i].action]++;
	EXPECT_STR_EQ(trace.name, "fsdp_prefetch");
	EXPECT_EQ(trace.row_count, 11607);
	EXPECT_EQ(actions['a'], 3553);
	EXPECT_EQ(actions['f'], 3552);
	EXPECT_EQ(actions['r'], 849);
	EXPECT_EQ(trace.block_count, 3553);
	EXPECT_EQ(trace.stream_count, 3);
	EXPECT_EQ(trace.end_us, 365950);
	EXPECT_EQ(trace.recorded_held_bytes, 10533994496u);
	trace_drop(&trace);
}

/* ---- Damage ---------------------------------------------------------- */

TEST(a_file_of_another_kind_is_named)
{
	expect_bad("\x7f"
		   "ELF\2\1\1",
	    ": neither a trace nor a memory snapshot: a program");
	expect_bad("BZh9",
	    ": neither a trace nor a memory snapshot: compressed by bzip2; "
	    "bunzip2 it first");
}

TEST(each_damaged_row_is_named_by_its_line)
{
	expect_bad("", ": neither a trace nor a memory snapshot: it is empty");
	expect_bad("# {}\n",
	    ":1: not a trace: no line "
	    "'action,addr,size,stream,time_us'");
	expect_bad("hello\n",
	    ":1: not a trace: the line "
	    "'action,addr,size,stream,time_us' is expected");
	expect_bad(HEADER "x,1,2,0,3\n", ":2: unknown action 'x'");
	expect_bad(HEADER "alloc\n",
	    ":2: not a row of action,addr,size,stream,time_us");
	expect_bad(
	    HEADER "a\n", ":2: not a row of action,addr,size,stream,time_us");
	expect_bad(HEADER "a,\n", ":2: bad address");
	expect_bad(HEADER "a,xyz,2,0,3\n", ":2: bad address");
	expect_bad(HEADER "a,7F00,2,0,3\n", ":2: bad address");
	expect_bad(HEADER "a,10000000000000000,2,0,3\n", ":2: bad address");
	expect_bad(HEADER "a,1\n", ":2: bad size");
	expect_bad(HEADER "a,1,-2,0,3\n", ":2: bad size");
	expect_bad(HEADER "a,1,2.5,0,3\n", ":2: bad size");
	expect_bad(HEADER "a,1,18446744073709551616,0,3\n", ":2: bad size");
	expect_bad(HEADER "a,1,2,,3\n", ":2: bad stream");
	expect_bad(HEADER "a,1,2,zero,3\n", ":2: bad stream");
	expect_bad(HEADER "a,1,2,0\n", ":2: bad time");
	expect_bad(HEADER "a,1,2,0,\n", ":2: bad time");
	expect_bad(HEADER "a,1,2,0,3,\n", ":2: bad time");
	expect_bad(HEADER "a,1,2,0,3,4\n", ":2: bad time");
	expect_bad(HEADER "a,1,2,0,18446744073709551615\n", ":2: bad time");
	expect_bad(HEADER "a,1,2,0,3\n\nb,1,2,0,3\n", ":4: unknown action 'b'");
}

TEST(a_size_no_device_has_is_damage)
{
	expect_bad(HEADER "a,1,1152921504606846977,0,3\n",
	    ":2: a size of 1152921504606846977 bytes; more than 1 EiB");
	expect_bad(HEADER "a,1,0,0,3\n", ":2: an allocation of 0 bytes");
}

TEST(a_stream_number_no_program_has_is_damage)
{
	expect_bad(HEADER "a,1,2,1024,3\n",
	    ":2: stream 1024; at most 1023 are expected");
	expect_bad(HEADER "a,1,2,18446744073709551615,3\n",
	    ":2: stream 18446744073709551615; at most 1023 are expected");
}

TEST(rows_that_contradict_each_other_are_damage)
{
	expect_bad(HEADER "f,1f,2,0,3\n",
	    ":2: 'f' of address 1f, which is not allocated");
	expect_bad(HEADER "r,1f,2,0,3\n",
	    ":2: 'r' of address 1f, which is not allocated");
	expect_bad(HEADER "c,1f,2,0,3\n",
	    ":2: 'c' of address 1f, which was not freed");
	expect_bad(HEADER "a,1f,2,0,3\na,1f,2,0,4\n",
	    ":3: address 1f is in use since line 2");
	expect_bad(HEADER "a,1f,2,0,3\nf,1f,2,0,4\nf,1f,2,0,5\n",
	    ":4: 'f' of address 1f, which is not allocated");
	expect_bad(HEADER "a,1f,2,0,3\nc,1f,2,0,4\n",
	    ":3: 'c' of address 1f, which was not freed");
	expect_bad(HEADER "a,1f,2,0,3\nf,1f,2,0,4\nc,1f,2,0,4\nc,1f,2,0,4\n",
	    ":5: 'c' of address 1f, which was not freed");
}

TEST(rows_of_page_locked_memory_are_read)
{
	struct trace trace;

	read_good(HEADER "A,1f,4096,0,1\n"
			 "a,2f,512,0,2\n"
			 "R,1f,4096,3,5\n"
			 "F,1f,4096,2,6\n"
			 "C,1f,4096,0,9\n"
			 "A,1f,64,0,10\n",
	    &trace);
	EXPECT(trace.has_pinned);
	EXPECT(trace.has_records);
	EXPECT_EQ(trace.block_count, 3);
	EXPECT(trace.blocks[0].pinned);
	EXPECT(trace.blocks[0].recorded);
	EXPECT_EQ(trace.blocks[0].used_until_us, 9);
	/* The host frees it, on no stream. */
	EXPECT(!trace.blocks[0].freed_elsewhere);
	EXPECT(!trace.blocks[1].pinned);
	EXPECT(trace.blocks[2].pinned);
	EXPECT_EQ(trace.rows[3].block, 0);
	EXPECT_EQ(trace.rows[5].block, 2);
	EXPECT_EQ(trace.stream_count, 4);
	trace_drop(&trace);
}

TEST(rows_of_page_locked_memory_are_checked_as_those_of_the_device)
{
	expect_bad(HEADER "A,1f,0,0,3\n", ":2: an allocation of 0 bytes");
	expect_bad(HEADER "A,1f,8,1024,3\n",
	    ":2: stream 1024; at most 1023 are expected");
	expect_bad(HEADER "F,1f,8,0,3\n",
	    ":2: 'F' of address 1f, which is not allocated");
	expect_bad(HEADER "R,1f,8,0,3\n",
	    ":2: 'R' of address 1f, which is not allocated");
	expect_bad(HEADER "A,1f,8,0,3\nC,1f,8,0,3\n",
	    ":3: 'C' of address 1f, which was not freed");
	expect_bad(HEADER "A,1f,8,0,3\nA,1f,8,0,3\n",
	    ":3: address 1f is in use since line 2");
}

TEST(memory_is_of_the_device_or_page_locked_from_its_first_row_to_its_last)
{
	expect_bad(HEADER "A,1f,8,0,3\nf,1f,8,0,3\n",
	    ":3: 'f' of address 1f, which is page-locked host memory");
	expect_bad(HEADER "A,1f,8,0,3\nr,1f,8,0,3\n",
	    ":3: 'r' of address 1f, which is page-locked host memory");
	expect_bad(HEADER "A,1f,8,0,3\na,1f,8,0,3\n",
	    ":3: address 1f is in use since line 2");
	expect_bad(HEADER "a,1f,8,0,3\nF,1f,8,0,3\n",
	    ":3: 'F' of address 1f, which is memory of the device");
	expect_bad(HEADER "a,1f,8,0,3\nR,1f,8,0,3\n",
	    ":3: 'R' of address 1f, which is memory of the device");
	expect_bad(HEADER "a,1f,8,0,3\nf,1f,8,0,3\nC,1f,8,0,3\n",
	    ":4: 'C' of address 1f, which is memory of the device");
	expect_bad(HEADER "A,1f,8,0,3\nF,1f,8,0,3\nc,1f,8,0,3\n",
	    ":4: 'c' of address 1f, which is page-locked host memory");
}

TEST(zero_bytes_in_a_row_are_damage)
{
	static const char text[] = HEADER "a,1,2\0,0,3\n";
	static const char action[] = HEADER "\0,1,2,0,3\n";

	read_bad(text, sizeof(text) - 1, ":2: bad size");
	read_bad(action, sizeof(action) - 1, ":2: unknown action '?'");
}

TEST(a_file_that_is_not_there_is_named)
{
	struct trace_error error;
	struct trace trace;

	EXPECT(!trace_read("/nonexistent/x.csv", &trace, &error));
	EXPECT_STR_EQ(
	    error.text, "/nonexistent/x.csv: No such file or directory");
	EXPECT(!trace_read("/", &trace, &error));
	EXPECT_STR_EQ(error.text, "/: Is a directory");
}

/* ---- xz -------------------------------------------------------------- */

/* Compress a text. The caller frees the result. */
static uint8_t *
compressed(const char *text, size_t *length)
{
	size_t room = lzma_stream_buffer_bound(strlen(text));
	uint8_t *out = malloc(room);

	*length = 0;
	EXPECT_EQ(lzma_easy_buffer_encode(6, LZMA_CHECK_CRC64, NULL,
		      (const uint8_t *)text, strlen(text), out, length, room),
	    LZMA_OK);
	return out;
}

static void
expect_bad_xz(const uint8_t *bytes, size_t length, const char *why)
{
	struct trace_error error = { "" };
	struct trace trace;
	char *path = test_file("bad.csv.xz", bytes, length);

	EXPECT(!trace_read(path, &trace, &error));
	EXPECT_EQ(strncmp(error.text, path, strlen(path)), 0);
	EXPECT_STR_EQ(error.text + strlen(path), why);
	free(path);
}

TEST(xz_is_known_by_its_first_bytes_whatever_the_name)
{
	struct trace_error error = { "" };
	struct trace trace;
	size_t length;
	uint8_t *bytes = compressed(HEADER "a,1,2,0,3\n", &length);
	char *path = test_file("plain.csv", bytes, length);

	if (!trace_read(path, &trace, &error))
		FAIL("%s", error.text);
	EXPECT_EQ(trace.row_count, 1);
	trace_drop(&trace);
	free(bytes);
	free(path);
}

TEST(a_dash_is_stdin)
{
	static const char text[] = HEADER "a,200,512,0,1\nf,200,512,0,2\n";
	char *path = test_file("t.csv", text, strlen(text));
	struct trace_error error = { "" };
	struct trace trace;

	EXPECT_NOT_NULL(freopen(path, "rb", stdin));
	EXPECT(trace_read("-", &trace, &error));
	EXPECT_STR_EQ(trace.name, "stdin");
	EXPECT_EQ(trace.row_count, 2);
	trace_drop(&trace);
	EXPECT(!trace_read("-", &trace, &error));
	EXPECT_STR_HAS(error.text, "stdin:");
	free(path);
}

TEST(xz_data_cut_off_anywhere_is_an_error)
{
	size_t length;
	uint8_t *bytes = compressed(HEADER "a,1,2,0,3\nf,1,2,0,4\n", &length);

	for (size_t cut = 0; cut < length; cut++)
		expect_bad_xz(bytes, cut, ": cut off: the xz data has no end");
	free(bytes);
}

TEST(xz_data_with_any_byte_changed_is_an_error)
{
	size_t length;
	uint8_t *bytes = compressed(HEADER "a,1,2,0,3\nf,1,2,0,4\n", &length);

	for (size_t i = 0; i < length; i++) {
		struct trace_error error = { "" };
		struct trace trace;
		char *path;

		bytes[i] ^= 0x10;
		path = test_file("bad.csv.xz", bytes, length);
		EXPECT(!trace_read(path, &trace, &error));
		EXPECT_STR_HAS(error.text, path);
		bytes[i] ^= 0x10;
		free(path);
	}
	free(bytes);
}

TEST(plain_text_named_xz_is_an_error)
{
	expect_bad_xz(
	    (const uint8_t *)HEADER, strlen(HEADER), ": not an xz file");
}

/* ---- Streams and their work ------------------------------------------ */

TEST(waits_work_and_ends_of_streams_are_read)
{
	struct trace trace;

	read_good(HEADER "k,0,250,1,0\n"
			 "w,0,6,2,1\n"
			 "e,0,0,2,5\n"
			 "a,200,512,2,6\n",
	    &trace);
	EXPECT(trace.has_work);
	EXPECT(!trace.has_records);
	EXPECT_EQ(trace.row_count, 4);
	EXPECT_EQ(trace.rows[0].action, 'k');
	EXPECT_EQ(trace.rows[0].size, 250);
	EXPECT_EQ(trace.rows[0].block, TRACE_NO_BLOCK);
	EXPECT_EQ(trace.rows[1].action, 'w');
	EXPECT_EQ(trace.rows[1].size, 6);
	EXPECT_EQ(trace.rows[1].stream, 2);
	EXPECT_EQ(trace.rows[2].action, 'e');
	EXPECT_EQ(trace.rows[2].stream, 2);
	/* The stream that is waited for counts as a stream too. */
	EXPECT_EQ(trace.stream_count, 7);
	trace_drop(&trace);
}

TEST(a_trace_without_work_is_reported_as_such)
{
	struct trace trace;

	read_good(HEADER "w,0,0,1,1\ne,0,0,3,5\n", &trace);
	EXPECT(!trace.has_work);
	EXPECT_EQ(trace.stream_count, 4);
	trace_drop(&trace);
}

TEST(a_wait_for_a_stream_out_of_bounds_is_reported)
{
	expect_bad(HEADER "w,0,1024,0,0\n",
	    ":2: stream 1024; at most 1023 are expected");
	expect_bad(HEADER "w,0,0,1024,0\n",
	    ":2: stream 1024; at most 1023 are expected");
}

TEST(work_that_takes_too_long_to_count_is_reported)
{
	expect_bad(HEADER "k,0,18446744073709552,0,0\n", ":2: bad size");
}
