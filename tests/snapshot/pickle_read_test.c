/*
 * The pickle machine: the values of each form, and the refused forms.
 * tests/fuzz/pickle_read_fuzz.c tests it with arbitrary bytes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/meta.h"
#include "snapshot/pickle_read.h"
#include "tests/support/command.h"
#include "tests/support/test.h"

#define BYTES(text) (text), sizeof(text) - 1

static char *
file_bytes(const char *name, size_t *length)
{
	char path[64];
	char *full;
	char *bytes;
	FILE *file;

	snprintf(path, sizeof(path), "snapshots/%s", name);
	full = test_data(path);
	file = fopen(full, "rb");
	EXPECT_NOT_NULL(file);
	bytes = malloc(1 << 20);
	EXPECT_NOT_NULL(bytes);
	*length = fread(bytes, 1, 1 << 20, file);
	EXPECT_GT(*length, 0);
	fclose(file);
	free(full);
	return bytes;
}

/* In a buffer of exactly this size, so that a sanitizer finds a read beyond
 * it. */
static enum weir_status
read_bytes(const char *bytes, size_t length, struct snapshot **out)
{
	char *copy = malloc(length > 0 ? length : 1);
	struct source source;
	enum weir_status status;

	EXPECT_NOT_NULL(copy);
	memcpy(copy, bytes, length);
	*out = NULL;
	source_of_memory(&source, copy, length);
	status = pickle_read(&source, out);
	free(copy);
	EXPECT_EQ(status == WEIR_OK, *out != NULL);
	return status;
}

static void
expect_refused(const char *bytes, size_t length, const char *why)
{
	struct snapshot *snapshot;

	EXPECT_EQ(read_bytes(bytes, length, &snapshot), WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), why);
}

static struct snapshot *
taken(const char *bytes, size_t length)
{
	struct snapshot *snapshot;

	if (read_bytes(bytes, length, &snapshot) != WEIR_OK)
		FAIL("refused: %s", weir_last_error());
	return snapshot;
}

/* ---- Forms ----------------------------------------------------------- */

static void
expect_train(const struct snapshot *snapshot)
{
	const struct snapshot_block *block = &snapshot->blocks[0];
	const struct snapshot_frame *frame;
	const struct snapshot_stack *stack = &snapshot->stacks[block->stack];

	EXPECT_EQ(snapshot->segment_count, 7);
	EXPECT_EQ(snapshot->block_count, 22);
	EXPECT_EQ(snapshot->events.count, 118);
	EXPECT_EQ(snapshot->trace_count, 2);
	EXPECT_EQ(snapshot->traces[0].count, 116);
	EXPECT_EQ(snapshot->traces[1].first, 116);
	EXPECT_EQ(snapshot->events.device[115], 0);
	EXPECT_EQ(snapshot->events.device[116], 1);
	EXPECT_EQ(snapshot->events.action[115], SNAPSHOT_OOM);
	EXPECT_EQ(snapshot->events.address[115], 24 << 20);
	EXPECT_EQ(snapshot->annotation_count, 2);
	EXPECT_EQ(snapshot->stack_count, 6);
	EXPECT_EQ(snapshot->frame_count, 8);
	EXPECT_EQ(snapshot->pool_count, 2);
	EXPECT_EQ(block->address, UINT64_C(0x7f0000000000));
	EXPECT_EQ(block->bytes, 6 << 20);
	EXPECT_EQ(block->state, SNAPSHOT_ACTIVE);
	EXPECT_EQ(stack->count, 2);
	frame = &snapshot->frames[snapshot->stack_frames[stack->first]];
	EXPECT_STR_EQ(snapshot_text(snapshot, frame->name), "__init__");
	EXPECT_STR_EQ(
	    snapshot_text(snapshot, frame->file), "/home/user/model.py");
	EXPECT_EQ(frame->line, 8);
	EXPECT_EQ(snapshot->setting_count, 6);
	EXPECT_STR_EQ(snapshot_text(snapshot, snapshot->settings[5].name),
	    "allocator_settings.roundup_power2_divisions.2");
	EXPECT_STR_EQ(
	    snapshot_text(snapshot, snapshot->settings[5].value), "4");
}

TEST(every_protocol_gives_the_same_snapshot)
{
	for (int protocol = 0; protocol <= 5; protocol++) {
		char name[32];
		size_t length;
		char *bytes;
		struct snapshot *snapshot;

		snprintf(name, sizeof(name), "train%d.pickle", protocol);
		bytes = file_bytes(name, &length);
		snapshot = taken(bytes, length);
		expect_train(snapshot);
		snapshot_free(snapshot);
		free(bytes);
	}
}

TEST(a_list_of_segments_alone_is_a_snapshot)
{
	size_t length;
	char *bytes = file_bytes("segments.pickle", &length);
	struct snapshot *snapshot = taken(bytes, length);

	EXPECT_EQ(snapshot->segment_count, 7);
	EXPECT_EQ(snapshot->block_count, 22);
	EXPECT_EQ(snapshot->events.count, 0);
	EXPECT_EQ(snapshot->trace_count, 0);
	snapshot_free(snapshot);
	free(bytes);
}

TEST(an_empty_snapshot_is_one)
{
	struct snapshot *snapshot =
	    taken(BYTES("\x80\x02}(X\x08\0\0\0segments]X\x0d\0\0\0"
			"device_traces]u."));

	EXPECT_EQ(snapshot->segment_count, 0);
	EXPECT_EQ(snapshot->events.count, 0);
	EXPECT_EQ(snapshot_device_count(snapshot), 0);
	snapshot_free(snapshot);
}

/* A snapshot with one setting "a", whose value is pushed by `value`. */
static void
expect_setting(const char *value, size_t length, const char *text)
{
	static const char head[] = "}(\x8c\x08segments]\x8c\x01"
				   "a";
	char bytes[256];
	struct snapshot *snapshot;

	memcpy(bytes, head, sizeof(head) - 1);
	memcpy(bytes + sizeof(head) - 1, value, length);
	bytes[sizeof(head) - 1 + length] = 'u';
	bytes[sizeof(head) + length] = '.';
	snapshot = taken(bytes, sizeof(head) + 1 + length);
	EXPECT_EQ(snapshot->setting_count, 1);
	EXPECT_STR_EQ(snapshot_text(snapshot, snapshot->settings[0].name), "a");
	EXPECT_STR_EQ(
	    snapshot_text(snapshot, snapshot->settings[0].value), text);
	snapshot_free(snapshot);
}

TEST(numbers_of_every_form_are_read)
{
	expect_setting(BYTES("K\xff"), "255");
	expect_setting(BYTES("M\xff\xff"), "65535");
	expect_setting(BYTES("J\xfe\xff\xff\xff"), "-2");
	expect_setting(BYTES("\x8a\x00"), "0");
	expect_setting(BYTES("\x8a\x01\xff"), "-1");
	expect_setting(BYTES("\x8a\x03\x00\x00\x01"), "65536");
	expect_setting(
	    BYTES("\x8a\x08\0\0\0\0\0\0\0\x80"), "-9223372036854775808");
	expect_setting(BYTES("\x8a\x09\xff\xff\xff\xff\xff\xff\xff\xff\0"),
	    "18446744073709551615");
	expect_setting(BYTES("\x8b\x01\0\0\0\x07"), "7");
	expect_setting(BYTES("G\x3f\xe0\0\0\0\0\0\0"), "0.5");
	expect_setting(BYTES("I-17\n"), "-17");
	expect_setting(BYTES("I01\n"), "True");
	expect_setting(BYTES("I00\n"), "False");
	expect_setting(BYTES("L123456789012L\n"), "123456789012");
	expect_setting(
	    BYTES("L18446744073709551615L\n"), "18446744073709551615");
	expect_setting(BYTES("F0.25\n"), "0.25");
	expect_setting(BYTES("N"), "None");
	expect_setting(BYTES("\x88"), "True");
	expect_setting(BYTES("\x89"), "False");
}

TEST(numbers_have_a_point_in_programs_that_write_a_comma)
{
	use_comma();
	expect_setting(BYTES("F0.25\n"), "0.25");
	expect_setting(BYTES("G\x3f\xe0\0\0\0\0\0\0"), "0.5");
}

TEST(texts_of_every_form_are_read)
{
	expect_setting(BYTES("X\x02\0\0\0hi"), "hi");
	expect_setting(BYTES("\x8c\x02hi"), "hi");
	expect_setting(BYTES("\x8d\x02\0\0\0\0\0\0\0hi"), "hi");
	expect_setting(BYTES("U\x02hi"), "hi");
	expect_setting(BYTES("T\x02\0\0\0hi"), "hi");
	expect_setting(BYTES("Vhi\n"), "hi");
	/* Latin-1, and escapes of four and of eight digits. */
	expect_setting(BYTES("V\xe9\\u20ac\\U0001f600\\x\n"),
	    "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\\x");
	/* The memo, by every form of its opcodes. */
	expect_setting(BYTES("\x8c\x02hiq\x05"
			     "0h\x05"),
	    "hi");
	expect_setting(BYTES("\x8c\x02hir\x05\0\0\0"
			     "0j\x05\0\0\0"),
	    "hi");
	expect_setting(BYTES("Vhi\np3\n0g3\n"), "hi");
	expect_setting(BYTES("\x8c\x02hi\x94"
			     "0h\x00"),
	    "hi");
	expect_setting(BYTES("\x8c\x02hi2\x30"), "hi");
	expect_setting(BYTES("\x8c\x02hi(NN1"), "hi");
}

TEST(invalid_utf8_becomes_a_replacement)
{
	expect_setting(BYTES("\x8c\x03"
			     "a\xff"
			     "b"),
	    "a\xef\xbf\xbd"
	    "b");
	expect_setting(BYTES("\x8c\x03"
			     "a\0b"),
	    "a\xef\xbf\xbd"
	    "b");
	expect_setting(BYTES("\x8c\x02\xc0\x80"), "\xef\xbf\xbd\xef\xbf\xbd");
	expect_setting(BYTES("\x8c\x03\xed\xa0\x80"),
	    "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
	expect_setting(BYTES("\x8c\x09"
			     "12345678\xe2"),
	    "12345678\xef\xbf\xbd");
}

TEST(a_list_of_frames_may_come_in_several_parts)
{
	static const char bytes[] = "(\x8c\x08segments]\x8c\x0d"
				    "device_traces"
				    "](](}(\x8c\x06"
				    "action\x8c\x05"
				    "alloc\x8c\x04sizeK\x01\x8c\x06"
				    "frames]("
				    "}(\x8c\x04name\x8c\x01"
				    "a\x8c\x08"
				    "filename\x8c\x01xu"
				    "}(\x8c\x04name\x8c\x01"
				    "b\x8c\x08"
				    "filename\x8c\x01xue"
				    "}(\x8c\x04name\x8c\x01"
				    "c\x8c\x08"
				    "filename\x8c\x01xua"
				    "(}(\x8c\x04name\x8c\x01"
				    "d\x8c\x08"
				    "filename\x8c\x01xue"
				    "ueed.";
	struct snapshot *snapshot = taken(BYTES(bytes));
	const struct snapshot_stack *stack;

	EXPECT_EQ(snapshot->events.count, 1);
	stack = &snapshot->stacks[snapshot->events.stack[0]];
	EXPECT_EQ(stack->count, 4);
	for (uint32_t i = 0; i < 4; i++) {
		uint32_t frame = snapshot->stack_frames[stack->first + i];
		const char name[2] = { (char)('a' + i), '\0' };

		EXPECT_STR_EQ(
		    snapshot_text(snapshot, snapshot->frames[frame].name),
		    name);
	}
	snapshot_free(snapshot);
}

/* ---- Refusals -------------------------------------------------------- */

TEST(whatever_imports_or_calls_is_refused_by_name_and_place)
{
	static const struct {
		unsigned char code;
		const char *name;
	} all[] = { { 'c', "GLOBAL" }, { 0x93, "STACK_GLOBAL" },
		{ 'R', "REDUCE" }, { 'b', "BUILD" }, { 'i', "INST" },
		{ 'o', "OBJ" }, { 0x81, "NEWOBJ" }, { 0x92, "NEWOBJ_EX" },
		{ 'P', "PERSID" }, { 'Q', "BINPERSID" }, { 0x82, "EXT1" },
		{ 0x83, "EXT2" }, { 0x84, "EXT4" }, { 0x97, "NEXT_BUFFER" },
		{ 0x98, "READONLY_BUFFER" }, { 0x96, "BYTEARRAY8" },
		{ 0x8f, "EMPTY_SET" }, { 0x90, "ADDITEMS" },
		{ 0x91, "FROZENSET" }, { 'S', "STRING" } };

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		char bytes[] = "\x80\x04NNN?os\nsystem\n.";
		char why[64];

		bytes[5] = (char)all[i].code;
		snprintf(
		    why, sizeof(why), "opcode %s at offset 5 ", all[i].name);
		expect_refused(bytes, sizeof(bytes) - 1, why);
		EXPECT_STR_HAS(weir_last_error(), "refused");
	}
}

TEST(the_pickle_of_a_call_of_the_system_runs_nothing)
{
	expect_refused(BYTES("cos\nsystem\n(S'touch /tmp/weir-was-here'\ntR."),
	    "opcode GLOBAL at offset 0 would import an object");
	expect_refused(BYTES("\x80\x04\x8c\x05posix\x8c\x06system\x93."),
	    "opcode STACK_GLOBAL at offset 17 would import an object");
}

TEST(bytes_that_are_no_opcode_are_named)
{
	expect_refused(BYTES("\x80\x02}\x07."), "byte 0x07 at offset 3");
	expect_refused(BYTES("\x80\x09}."), "protocol 9");
}

TEST(opcodes_need_their_values_on_the_stack)
{
	expect_refused(BYTES("."), "opcode STOP at offset 0: 0 values");
	expect_refused(BYTES("NN."), "2 values are left");
	expect_refused(BYTES("0."), "opcode POP at offset 0: the stack has");
	expect_refused(BYTES("2."), "opcode DUP at offset 0");
	expect_refused(BYTES("Na."), "opcode APPEND at offset 1");
	expect_refused(BYTES("]Ns."), "opcode SETITEM at offset 2");
	expect_refused(BYTES("e."), "there is no mark");
	expect_refused(BYTES("t."), "there is no mark");
	expect_refused(
	    BYTES("](a."), "opcode APPEND at offset 2: the stack has");
	expect_refused(BYTES("N\x86."), "opcode TUPLE2 at offset 1");
	expect_refused(BYTES("\x94."), "opcode MEMOIZE at offset 0");
	expect_refused(BYTES("(1."), "0 values are left");
}

TEST(values_are_added_to_containers_only)
{
	expect_refused(BYTES("NNa."), "no list");
	expect_refused(BYTES("}Na."), "no list");
	expect_refused(BYTES("](NNu."), "no dict");
	expect_refused(BYTES("N(NNu."), "no dict");
	expect_refused(BYTES("}(Nu."), "no dict");
}

TEST(a_container_in_itself_is_refused)
{
	expect_refused(BYTES("]q\0h\0a."), "changes after it was complete");
	expect_refused(BYTES("}q\0Nh\0s."), "changes after it was complete");
	expect_refused(BYTES("]q\0(h\0h\0e."), "changes");
	/* And a container that changes after it was put into another. */
	expect_refused(BYTES("]](]q\0eh\0Na."), "changes");
}

TEST(the_memo_is_bounded_by_the_file)
{
	expect_refused(BYTES("Nr\xff\xff\xff\xff."), "memo 4294967295");
	expect_refused(BYTES("Np99999999999999999999\n."), "memo ");
	expect_refused(BYTES("h\x00."), "memo 0 was never set");
	expect_refused(BYTES("Nq\x01h\x00."), "memo 0 was never set");
	expect_refused(BYTES("Np-1\n."), "'-1' is not a number");
	expect_refused(BYTES("g\n."), "'' is not a number");
}

TEST(lengths_are_not_trusted)
{
	expect_refused(BYTES("X\xff\xff\xff\x7f"
			     "abc"),
	    "cut off");
	expect_refused(BYTES("\x8d\xff\xff\xff\xff\xff\xff\xff\xff"
			     "abc"),
	    "cut off");
	expect_refused(BYTES("\x8e\xff\xff\xff\xff\xff\xff\xff\x7f"
			     "abc"),
	    "cut off");
	expect_refused(BYTES("\x8b\xff\xff\xff\xff"
			     "abc"),
	    "cut off");
	expect_refused(BYTES("\x8a\x05"
			     "abc"),
	    "cut off");
	expect_refused(BYTES("I123"), "cut off");
	expect_refused(BYTES("J\x01\x02"), "cut off");
}

TEST(numbers_in_lines_are_looked_at)
{
	expect_refused(BYTES("Ix\n."), "'x' is not a number");
	expect_refused(BYTES("I12x\n."), "'12x' is not a number");
	expect_refused(BYTES("F\n."), "'' is not a number");
	expect_refused(
	    BYTES("I00000000000000000000000000000000000000000000000000000000"
		  "00000000000000000\n."),
	    "a number of 73 characters");
}

TEST(marks_nest_to_a_bound)
{
	char bytes[1000];

	memset(bytes, '(', sizeof(bytes));
	expect_refused(bytes, sizeof(bytes), "nested more than 256 deep");
	EXPECT_STR_HAS(weir_last_error(), "opcode MARK at offset 256");
}

TEST(lists_nest_as_deep_as_a_file_is_long)
{
	size_t depth = 200000;
	char *bytes = malloc(2 * depth + 1);

	EXPECT_NOT_NULL(bytes);
	memset(bytes, ']', depth);
	memset(bytes + depth, 'a', depth - 1);
	bytes[2 * depth - 1] = '.';
	expect_refused(bytes, 2 * depth, "not a memory snapshot");
	free(bytes);
}

TEST(the_error_of_another_pickle_names_its_kind)
{
	expect_refused(BYTES("K\x01."), "a number, as old files of torch.save");
	expect_refused(
	    BYTES("\x80\x02\x8a\nl\xfc\x9c\x46\xf9\x20\x6a\xa8P\x19."),
	    "a number, as old files of torch.save");
	expect_refused(BYTES("Vhi\n."), "a text");
	expect_refused(BYTES("N."), "a single value");
	expect_refused(BYTES("}."), "a dict without 'segments'");
	expect_refused(BYTES("](NNe."), "a list, and not one of segments");
	expect_refused(BYTES("](]]e."), "a list, and not one of segments");
	expect_refused(BYTES("}(\x8c\x04name\x8c\x01"
			     "a\x8c\x08"
			     "filename\x8c\x01xu."),
	    "a part of one");
	expect_refused(BYTES("}\x8c\x08segmentsK\x01s."),
	    "'segments' is not a list of segments");
	expect_refused(BYTES("}\x8c\x0d"
			     "device_tracesNs."),
	    "'device_traces' is not a list");
	expect_refused(BYTES("}\x8c\x0d"
			     "device_traces](NNes."),
	    "a list in 'device_traces' is not one of events");
}

TEST_TIMEOUT(a_snapshot_cut_off_anywhere_is_refused, 300)
{
	for (int protocol = 0; protocol <= 5; protocol += 2) {
		char name[32];
		size_t length;
		char *bytes;

		snprintf(name, sizeof(name), "train%d.pickle", protocol);
		bytes = file_bytes(name, &length);
		for (size_t i = test_offset(); i < length; i += test_stride()) {
			struct snapshot *snapshot;

			EXPECT_EQ(read_bytes(bytes, i, &snapshot), WEIR_EINVAL);
			EXPECT_STR_HAS(weir_last_error(), "cut off");
		}
		free(bytes);
	}
}

TEST_TIMEOUT(a_snapshot_with_any_byte_changed_is_read_or_refused, 300)
{
	size_t length;
	char *bytes = file_bytes("train2.pickle", &length);

	for (size_t i = test_offset(); i < length; i += test_stride()) {
		char was = bytes[i];

		for (int bit = 0; bit < 8; bit += 3) {
			struct snapshot *snapshot;

			bytes[i] = (char)(was ^ 1 << bit);
			if (read_bytes(bytes, length, &snapshot) == WEIR_OK)
				snapshot_free(snapshot);
			else
				EXPECT_NE(weir_last_error()[0], '\0');
		}
		bytes[i] = was;
	}
	free(bytes);
}

TEST_TIMEOUT(without_host_memory_reading_fails_and_keeps_nothing, 300)
{
	size_t length;
	char *bytes = file_bytes("train0.pickle", &length);
	size_t before = meta_bytes();
	unsigned long nth = 1;

	for (;; nth++) {
		struct snapshot *snapshot;
		enum weir_status status;

		meta_fail(nth, 1);
		status = read_bytes(bytes, length, &snapshot);
		if (meta_faults() == 0) {
			snapshot_free(snapshot);
			break;
		}
		EXPECT_EQ(status, WEIR_EHOSTMEM);
		EXPECT_STR_HAS(weir_last_error(), "no host memory");
		EXPECT_EQ(meta_bytes(), before);
	}
	meta_fail(0, 0);
	EXPECT_GT(nth, 20);
	free(bytes);
}

TEST(a_read_snapshot_gives_all_its_memory_back)
{
	size_t length;
	char *bytes = file_bytes("train4.pickle", &length);
	size_t before = meta_bytes();
	struct snapshot *snapshot = taken(bytes, length);

	EXPECT_GT(meta_bytes(), before);
	snapshot_free(snapshot);
	EXPECT_EQ(meta_bytes(), before);
	free(bytes);
}
