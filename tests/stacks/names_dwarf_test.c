/*
 * Names of addresses from files whose debug information is hostile to its
 * reader: entries, abbreviations, ranges and line tables.
 */
#include <dlfcn.h>
#include <elf.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/stacks/hostile.h"
#include "tests/support/command.h"
#include "tests/support/test.h"

/* Bytes that are put one after the other. */
struct bytes {
	uint8_t *at;
	size_t size;
};

static void
add(struct bytes *bytes, uint64_t value, size_t size)
{
	enum { ROOM = 32 << 20 };

	if (bytes->at == NULL)
		bytes->at = malloc(ROOM);
	EXPECT_LE(bytes->size + size, ROOM);
	memcpy(bytes->at + bytes->size, &value, size);
	bytes->size += size;
}

static void
add_all(struct bytes *bytes, const void *from, size_t size)
{
	for (size_t i = 0; i < size; i++)
		add(bytes, ((const uint8_t *)from)[i], 1);
}

/* Where the first entry of a unit begins. */
enum { FIRST_ENTRY = 4 + 2 + 4 + 1 + 1 + 8 + 8 + 4 };

/* Begin a unit of version 4 with all addresses, by the abbreviations of
 * UNIT_BEGINS. Returns its start. */
static size_t
begin_unit(struct bytes *info)
{
	size_t begin = info->size;

	add(info, 0, 4);
	add(info, 4, 2);
	add(info, 0, 4);
	add(info, 8, 1);
	add(info, 1, 1);
	add(info, 0, 8);
	add(info, 1 << 30, 8);
	add(info, 0, 4);
	return begin;
}

static void
end_unit(struct bytes *info, size_t begin)
{
	uint32_t length = (uint32_t)(info->size - begin - 4);

	memcpy(info->at + begin, &length, sizeof(length));
}

/* A unit with children: low_pc, high_pc, stmt_list. */
#define UNIT_BEGINS 1, 0x11, 1, 0x11, 0x01, 0x12, 0x07, 0x10, 0x17, 0, 0

/* Name the function of a library with these sections, of which the first two
 * are entries and their abbreviations. */
static void
expect_name_with(const struct bytes *info, const struct bytes *abbrevs,
    const char *other, const struct bytes *bytes)
{
	struct hostile hostile = hostile_load();

	hostile_replace_section(
	    &hostile, ".debug_abbrev", abbrevs->at, abbrevs->size);
	hostile_replace_section(&hostile, ".debug_info", info->at, info->size);
	if (other != NULL)
		hostile_replace_section(
		    &hostile, other, bytes->at, bytes->size);
	hostile_finish(&hostile);
}

static void
expect_name_with_unit(const unsigned char *abbrevs, size_t abbrevs_size,
    const uint8_t *entries, size_t size)
{
	struct bytes codes = { NULL, 0 };
	struct bytes info = { NULL, 0 };
	size_t begin = begin_unit(&info);

	add_all(&codes, abbrevs, abbrevs_size);
	add_all(&info, entries, size);
	end_unit(&info, begin);
	expect_name_with(&info, &codes, NULL, NULL);
	free(info.at);
	free(codes.at);
}

/* ---- Entries ------------------------------------------------------------- */

/* Name the function of a library whose debug information is these entries of
 * one unit, plain and compressed. */
static void
expect_name_with_entries(const uint8_t *entries, size_t size)
{
	static const unsigned char abbrevs[] = { UNIT_BEGINS,
		/* A block with children. */
		2, 0x0b, 1, 0, 0,
		/* A function: specification. */
		3, 0x2e, 0, 0x47, 0x13, 0, 0, 0 };
	struct hostile hostile = hostile_load();
	struct bytes info = { NULL, 0 };
	size_t begin = begin_unit(&info);

	add_all(&info, entries, size);
	end_unit(&info, begin);
	hostile_replace_section(
	    &hostile, ".debug_abbrev", abbrevs, sizeof(abbrevs));
	hostile_replace_section(&hostile, ".debug_info", info.at, info.size);
	EXPECT_NE(hostile_name(&hostile) & HOSTILE_NAMED, 0);
	hostile_compress_section(&hostile, ".debug_info", ELFCOMPRESS_ZLIB, 0);
	hostile_finish(&hostile);
	free(info.at);
}

/* The reader calls itself for each. */
TEST(an_entry_that_takes_its_name_from_itself_is_harmless)
{
	static const uint8_t entries[] = { 3, FIRST_ENTRY, 0, 0, 0, 0 };

	expect_name_with_entries(entries, sizeof(entries));
}

TEST(entries_that_are_nested_very_deeply_are_harmless)
{
	enum { DEPTH = 500000 };
	uint8_t *entries = calloc(2, DEPTH);

	memset(entries, 2, DEPTH);
	expect_name_with_entries(entries, 2 * DEPTH);
	free(entries);
}

/* The reader of functions continues where the entries of a unit end. */
TEST(nested_entries_behind_the_end_of_a_unit_are_harmless)
{
	static const unsigned char abbrevs[] = { UNIT_BEGINS, 2, 0x0b, 1, 0, 0,
		0 };
	static uint8_t entries[500000];

	memset(entries + 2, 2, sizeof(entries) - 2);
	expect_name_with_unit(
	    abbrevs, sizeof(abbrevs), entries, sizeof(entries));
}

/* Also by forms whose values the reader takes for offsets: a constant of the
 * abbreviation, and a flag. */
TEST(an_entry_that_names_itself_by_an_odd_form_is_harmless)
{
	static const unsigned char constant[] = { UNIT_BEGINS, 2, 0x2e, 0, 0x47,
		0x21, FIRST_ENTRY, 0, 0, 0 };
	static const unsigned char flag[] = { UNIT_BEGINS, 2, 0x2e, 0, 0x47,
		0x0c, 0, 0, 0 };
	static const uint8_t entries[] = { 2, FIRST_ENTRY, 0 };

	expect_name_with_unit(constant, sizeof(constant), entries, 1);
	expect_name_with_unit(flag, sizeof(flag), entries, sizeof(entries));
}

/* The reader keeps the lower 32 bits of an attribute's number, here of a
 * specification. */
TEST(an_entry_that_names_itself_by_a_large_number_is_harmless)
{
	static const unsigned char abbrevs[] = { UNIT_BEGINS, 2, 0x2e, 0, 0xc7,
		0x80, 0x80, 0x80, 0x10, 0x13, 0, 0, 0 };
	static const uint8_t entries[] = { 2, FIRST_ENTRY, 0, 0, 0 };

	expect_name_with_unit(
	    abbrevs, sizeof(abbrevs), entries, sizeof(entries));
}

/* The attributes of code 2 end with the form of a constant, but without one.
 * Who takes the next byte for the constant finds that code 3 has a number of
 * four bytes, and not a specification. */
TEST(an_end_of_attributes_that_has_a_form_is_harmless)
{
	static const unsigned char abbrevs[] = { UNIT_BEGINS, 2, 0x0b, 0, 0,
		0x21, 3, 3, 0, 0x47, 0x13, 0x06, 0, 0, 0, 0 };
	static const uint8_t entries[] = { 3, FIRST_ENTRY, 0, 0, 0 };

	expect_name_with_unit(
	    abbrevs, sizeof(abbrevs), entries, sizeof(entries));
}

/* The reader compares the names of functions that have the same addresses. */
TEST(names_of_functions_that_are_very_long_are_harmless)
{
	enum { FUNCTIONS = 50000, WORDS = 1 << 18 };
	static const unsigned char abbrevs[] = { UNIT_BEGINS,
		/* A function: name in .debug_line_str, low_pc, high_pc. */
		2, 0x2e, 0, 0x03, 0x1f, 0x11, 0x01, 0x12, 0x0b, 0, 0,
		/* A function: name, low_pc, high_pc. */
		3, 0x2e, 0, 0x03, 0x08, 0x11, 0x01, 0x12, 0x06, 0, 0, 0 };
	static const char name[] = "InitializeInjectionNvtx2";
	struct bytes codes = { NULL, 0 };
	struct bytes info = { NULL, 0 };
	struct bytes text = { NULL, 0 };
	size_t begin = begin_unit(&info);

	add_all(&codes, abbrevs, sizeof(abbrevs));
	for (uint64_t i = 0; i < test_effort(WORDS); i++)
		add(&text, 0x6161616161616161, 8);
	add(&text, 0, 1);
	add(&info, 3, 1);
	add_all(&info, name, sizeof(name));
	add(&info, 0, 8);
	add(&info, 1 << 28, 4);
	for (int i = 0; i < FUNCTIONS; i++) {
		add(&info, 2, 1);
		add(&info, 0, 4);
		add(&info, 1 << 29, 8);
		add(&info, 1, 1);
	}
	end_unit(&info, begin);
	expect_name_with(&info, &codes, ".debug_line_str", &text);
	free(text.at);
	free(info.at);
	free(codes.at);
}

/* The last entry needs more bytes than there are, and the reader goes on. */
TEST(entries_that_are_cut_are_harmless)
{
	static const unsigned char abbrevs[] = { UNIT_BEGINS,
		/* A block of three bytes. */
		2, 0x0b, 0, 0x03, 0x0a, 0, 0,
		/* A specification. */
		3, 0x2e, 0, 0x47, 0x11, 0, 0,
		/* Eight bytes that are not there, and a specification. */
		4, 0x2e, 0, 0x03, 0x07, 0x47, 0x11, 0, 0, 0 };
	static const uint8_t entries[] = { 2, 3, 3, FIRST_ENTRY + 2, 0, 4,
		FIRST_ENTRY + 2 };

	expect_name_with_unit(
	    abbrevs, sizeof(abbrevs), entries, sizeof(entries));
}

/* The index of an address that is 8 bytes in front of all addresses. */
TEST(an_index_that_wraps_around_is_harmless)
{
	static const unsigned char abbrevs[] = { UNIT_BEGINS, 2, 0x2e, 0, 0x03,
		0x08, 0x11, 0x1b, 0x12, 0x0b, 0, 0, 0 };
	static const uint8_t entries[] = { 2, 'a', 0, 0xff, 0xff, 0xff, 0xff,
		0xff, 0xff, 0xff, 0xff, 0xff, 1, 1 };

	expect_name_with_unit(
	    abbrevs, sizeof(abbrevs), entries, sizeof(entries));
}

/* ---- Abbreviations and ranges -------------------------------------------- */

/* Units that each have the abbreviations of the other before read again. */
TEST(abbreviations_that_are_read_very_often_are_harmless)
{
	enum { UNITS = 20000, CODES = 60000 };
	struct bytes abbrevs = { NULL, 0 };
	struct bytes info = { NULL, 0 };

	for (int table = 0; table < 2; table++) {
		for (uint64_t i = 1; i <= CODES; i++) {
			add(&abbrevs,
			    (i & 0x7f) | 0x80 | (i >> 7 & 0x7f) << 8 | 0x8000 |
				(i >> 14) << 16,
			    3);
			add(&abbrevs, 0x2e, 4);
		}
		add(&abbrevs, 0, 1);
	}
	for (int i = 0; i < UNITS; i++) {
		size_t begin = info.size;

		add(&info, 0, 4);
		add(&info, 4, 2);
		add(&info, i % 2 == 0 ? 0 : abbrevs.size / 2, 4);
		add(&info, 0x0108, 2);
		end_unit(&info, begin);
	}
	expect_name_with(&info, &abbrevs, NULL, NULL);
	free(info.at);
	free(abbrevs.at);
}

/* Each of many entries has the same very many ranges, which the reader joins.
 */
TEST(ranges_that_are_read_very_often_are_harmless)
{
	enum { ENTRIES = 200000, RANGES = 200000 };
	static const unsigned char codes[] = { UNIT_BEGINS, 2, 0x2e, 0, 0x03,
		0x08, 0x55, 0x17, 0, 0, 0 };
	struct bytes abbrevs = { NULL, 0 };
	struct bytes ranges = { NULL, 0 };
	struct bytes info = { NULL, 0 };
	size_t begin = begin_unit(&info);

	add_all(&abbrevs, codes, sizeof(codes));
	for (int i = 0; i < ENTRIES; i++) {
		add(&info, 2 | 'a' << 8, 3);
		add(&info, 0, 4);
	}
	end_unit(&info, begin);
	for (uint64_t i = 1; i <= RANGES; i++) {
		add(&ranges, i, 8);
		add(&ranges, i + 1, 8);
	}
	add(&ranges, 0, 8);
	add(&ranges, 0, 8);
	struct hostile hostile = hostile_load();
	const struct hostile_section sections[] = {
		{ .name = ".debug_info", .bytes = info.at, .size = info.size },
		{ .name = ".debug_abbrev",
		    .bytes = abbrevs.at,
		    .size = abbrevs.size },
		{ .name = ".debug_ranges",
		    .bytes = ranges.at,
		    .size = ranges.size },
		/* A table of one line. */
		{ .name = ".debug_line",
		    .bytes = "\x14\0\0\0\4\0\10\0\0\0\1\1\1\xfb\16\1\0\0"
			     "\4\0\1\1\1\1",
		    .size = 24 },
	};

	hostile_write_sections(&hostile, sections, 4);
	hostile_finish(&hostile);
	free(info.at);
	free(abbrevs.at);
	free(ranges.at);
}

/* ---- Line tables --------------------------------------------------------- */

/* Fields of a line table that the reader divides by: their distances to the
 * lengths of opcodes. */
enum { LINE_RANGE = 2, MAX_OPS = 5 };

/* The offset in the file of the field in the first line table that is so many
 * bytes in front of the lengths of opcodes. In all tables that compilers make
 * these begin with 0, 1, 1, 1, 1, 0. */
static off_t
line_field(const struct hostile *hostile, size_t distance)
{
	static const char lengths[] = { 0, 1, 1, 1, 1, 0 };
	ElfW(Shdr) section;
	char unit[64];

	hostile_find_section(hostile, ".debug_line", &section);
	EXPECT_EQ(
	    pread(hostile->fd, unit, sizeof(unit), (off_t)section.sh_offset),
	    sizeof(unit));
	const char *found =
	    memmem(unit, sizeof(unit), lengths, sizeof(lengths));

	EXPECT_NOT_NULL(found);
	return (off_t)section.sh_offset + (found - unit) - (off_t)distance;
}

/* Name a stack of a library in whose line table a field is 0. */
static void
expect_name_with_a_zero(size_t distance)
{
	static const char zero;

	struct hostile corrupt = hostile_load();
	hostile_write(&corrupt, &zero, 1, line_field(&corrupt, distance));
	EXPECT_NE(hostile_name(&corrupt) & HOSTILE_NAMED, 0);
	hostile_finish(&corrupt);
}

TEST(a_line_table_whose_range_of_lines_is_0_is_harmless)
{
	expect_name_with_a_zero(LINE_RANGE);
}

TEST(a_line_table_whose_instructions_have_0_operations_is_harmless)
{
	expect_name_with_a_zero(MAX_OPS);
}

TEST(a_compressed_line_table_with_a_zero_is_harmless)
{
	static const size_t fields[] = { LINE_RANGE, MAX_OPS };
	static const char zero;

	for (int i = 0; i < 2; i++) {
		struct hostile hostile = hostile_load();

		hostile_write(
		    &hostile, &zero, 1, line_field(&hostile, fields[i]));
		hostile_compress_section(
		    &hostile, ".debug_line", ELFCOMPRESS_ZLIB, 0);
		hostile_finish(&hostile);
	}
}

/* A unit whose entries have no folder, with this line table. */
static void
expect_name_with_line_table(const uint8_t *table, size_t size, uint32_t at)
{
	static const unsigned char abbrevs[] = { UNIT_BEGINS, 0 };
	struct bytes codes = { NULL, 0 };
	struct bytes lines = { NULL, 0 };
	struct bytes info = { NULL, 0 };
	size_t begin = begin_unit(&info);

	memcpy(info.at + info.size - 4, &at, sizeof(at));
	end_unit(&info, begin);
	add_all(&codes, abbrevs, sizeof(abbrevs));
	add_all(&lines, table, size);
	expect_name_with(&info, &codes, ".debug_line", &lines);
	free(info.at);
	free(codes.at);
	free(lines.at);
}

/* The file has no folder, because no unit names one. */
TEST(a_line_table_that_defines_a_file_is_harmless)
{
	static const uint8_t table[] = { 28, 0, 0, 0, 4, 0, 8, 0, 0, 0, 1, 1, 1,
		0xfb, 14, 1, 0, 0, 0, 6, 3, 'a', 0, 0, 0, 0, 2, 0, 1, 1, 1, 1 };

	expect_name_with_line_table(table, sizeof(table), 0);
}

/* A unit whose table begins in the program of another table, where the bytes
 * give a length of 1 GiB. */
TEST(a_line_table_in_the_middle_of_another_is_harmless)
{
	uint8_t table[64] = { 60, 0, 0, 0, 4, 0, 8, 0, 0, 0, 1, 1, 1, 0xfb, 14,
		1, 0, 0, 0, 0, 0, 0x40, 4, 0, 0xf0, 0xff, 0xff, 0x3f, 1, 1, 1,
		0xfb, 14, 1 };

	memset(table + 34, 'a', sizeof(table) - 34);
	expect_name_with_line_table(table, sizeof(table), 18);
}

/* A table of 64-bit DWARF in a unit of 32-bit DWARF. The reader takes the size
 * of offsets from the unit, and so finds the number of files in the offsets of
 * folders. Times the size of a pointer that number is 8; there are more. */
TEST(a_line_table_with_offsets_of_another_size_is_harmless)
{
	enum { FILES = 1 << 20, HEAD = 24 };
	static const unsigned char abbrevs[] = { UNIT_BEGINS, 0 };
	static const uint8_t lists[] = { 1, 1, 0x0e, 4,
		/* Four offsets of four bytes. */
		0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
		/* 2^61 + 1 files by their names. */
		1, 1, 0x08, 0x81, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80,
		0x20, 0, 0, 0, 0,
		/* FILES files by their names. */
		1, 1, 0x08, 0x80, 0x80, 0x40 };
	struct bytes codes = { NULL, 0 };
	struct bytes info = { NULL, 0 };
	struct bytes table = { NULL, 0 };
	size_t begin = begin_unit(&info);

	end_unit(&info, begin);
	add_all(&codes, abbrevs, sizeof(abbrevs));
	add(&table, UINT32_MAX, 4);
	add(&table, 2 + 2 + 8 + 6 + sizeof(lists) + FILES, 8);
	add(&table, 5, 2);
	add(&table, 8, 2);
	add(&table, 6 + sizeof(lists) + FILES, 8);
	/* Instructions of one byte and one operation, one opcode. */
	add(&table, 0x0efb010101, 5);
	add(&table, 1, 1);
	EXPECT_EQ(table.size, HEAD + 6);
	add_all(&table, lists, sizeof(lists));
	for (int i = 0; i < FILES; i++)
		add(&table, 0, 1);
	expect_name_with(&info, &codes, ".debug_line", &table);
	free(table.at);
	free(info.at);
	free(codes.at);
}

/* ---- A file that several share ------------------------------------------- */

/* Let a file have these sections and a line table of one line, and refer to a
 * shared file. */
static void
write_sharing(const struct hostile *hostile, const struct bytes *info,
    const unsigned char *abbrevs, size_t size)
{
	static const uint8_t line[] = { 45, 0, 0, 0, 4, 0, 22, 0, 0, 0, 1, 1, 1,
		0xfb, 14, 10, 0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 'a', 0, 0, 0, 0, 0,
		/* Line 1 has address 0 and all after it. */
		0, 9, 2, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1, 1, 1, 1 };
	const struct hostile_section sections[] = {
		{ .name = ".debug_info",
		    .bytes = info->at,
		    .size = info->size },
		{ .name = ".debug_abbrev", .bytes = abbrevs, .size = size },
		{ .name = ".debug_line", .bytes = line, .size = sizeof(line) },
		{ .name = ".gnu_debugaltlink",
		    .bytes = "shared.so",
		    .size = sizeof("shared.so") },
	};

	hostile_write_sections(hostile, sections, 4);
}

/* A function takes its name from the middle of an entry of the shared file.
 * Those bytes are an entry that takes its name from itself. */
TEST(a_name_from_the_middle_of_an_entry_of_a_shared_file_is_harmless)
{
	enum { ROOM = 4 << 20, MIDDLE = FIRST_ENTRY + 2 };
	static const unsigned char shared_abbrevs[] = { UNIT_BEGINS,
		/* A variable: location, a block. */
		2, 0x34, 0, 0x02, 0x0a, 0, 0,
		/* A function: specification. */
		3, 0x2e, 0, 0x47, 0x13, 0, 0, 0 };
	static const uint8_t shared[] = { 2, 5, 3, MIDDLE, 0, 0, 0 };
	static const unsigned char abbrevs[] = { UNIT_BEGINS,
		/* A function: specification in the shared file. */
		2, 0x2e, 0, 0x47, 0xa0, 0x3e, 0, 0, 0 };
	static const uint8_t entries[] = { 2, MIDDLE, 0, 0, 0 };
	static char copy[ROOM];
	struct hostile hostile = hostile_load();
	struct bytes info = { NULL, 0 };
	size_t begin = begin_unit(&info);

	add_all(&info, shared, sizeof(shared));
	end_unit(&info, begin);
	/* The unit has no addresses. */
	memset(info.at + FIRST_ENTRY - 4 - 8, 0, 8);
	write_sharing(&hostile, &info, shared_abbrevs, sizeof(shared_abbrevs));
	ssize_t size = pread(hostile.fd, copy, ROOM, 0);

	EXPECT(size > 0 && size < ROOM);
	dlclose(hostile.library);
	free(test_file("shared.so", copy, (size_t)size));
	close(hostile.fd);
	free(hostile.path);
	hostile = hostile_load();
	info.size = 0;
	begin = begin_unit(&info);
	add_all(&info, entries, sizeof(entries));
	end_unit(&info, begin);
	write_sharing(&hostile, &info, abbrevs, sizeof(abbrevs));
	hostile_finish(&hostile);
	free(info.at);
}
