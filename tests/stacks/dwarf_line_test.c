/*
 * Line tables that make the reader of debug information fail, and tables that
 * stay unchanged.
 */
#include "stacks/dwarf_line.h"

#include <stdbool.h>
#include <string.h>

#include "tests/support/test.h"

enum { ROOM = 128, PROGRAM = 7 };

/* A section of some tables. */
struct section {
	unsigned char bytes[ROOM];
	size_t size;
};

static void
put(struct section *section, uint64_t value, size_t size)
{
	EXPECT_LE(section->size + size, ROOM);
	/* The machines that weir runs on have the lowest byte first. */
	memcpy(section->bytes + section->size, &value, size);
	section->size += size;
}

/* Add a table with these divisors, empty lists and a program of special
 * opcodes. */
static void
add_table(struct section *section, unsigned version, bool wide,
    unsigned char max_ops, unsigned char line_range)
{
	size_t begin;

	if (wide)
		put(section, UINT32_MAX, 4);
	put(section, 0, wide ? 8 : 4);
	begin = section->size;
	put(section, version, 2);
	if (version == 5)
		put(section, 8, 2);
	/* The header, with two empty lists. */
	put(section, (version >= 4 ? 6 : 5) + (version == 5 ? 4 : 2),
	    wide ? 8 : 4);
	put(section, 1, 1);
	if (version >= 4)
		put(section, max_ops, 1);
	put(section, 0xfb01, 2);
	put(section, line_range, 1);
	put(section, 1, 1);
	size_t begin_of_program = section->size;

	put(section, 0, version == 5 ? 4 : 2);
	while (section->size < begin_of_program + PROGRAM)
		put(section, 2, 1);
	uint64_t length = section->size - begin;

	memcpy(section->bytes + begin - (wide ? 8 : 4), &length, wide ? 8 : 4);
}

static void
expect_repaired(const struct section *before, const struct section *after)
{
	struct section repaired = *before;
	bool changes = memcmp(before->bytes, after->bytes, ROOM) != 0;

	EXPECT_EQ(dwarf_line_repair(repaired.bytes, repaired.size), changes);
	EXPECT_EQ(memcmp(repaired.bytes, after->bytes, ROOM), 0);
}

TEST(a_sound_table_stays_as_it_is)
{
	for (unsigned version = 2; version <= 5; version++) {
		for (int wide = 0; wide < 2; wide++) {
			struct section sound = { .size = 0 };

			add_table(&sound, version, wide, 4, 14);
			add_table(&sound, version, wide, 1, 10);
			expect_repaired(&sound, &sound);
		}
	}
}

TEST(divisors_of_0_become_1_in_each_table)
{
	for (unsigned version = 2; version <= 5; version++) {
		for (int wide = 0; wide < 2; wide++) {
			struct section zeros = { .size = 0 };
			struct section ones = { .size = 0 };

			add_table(&zeros, version, wide, 0, 14);
			add_table(&zeros, version, !wide, 3, 0);
			add_table(&ones, version, wide, 1, 14);
			add_table(&ones, version, !wide, 3, 1);
			expect_repaired(&zeros, &ones);
		}
	}
}

/* The reader does not divide then, and the bytes may have any meaning. */
TEST(a_table_of_an_unknown_version_stays_as_it_is)
{
	static const unsigned versions[] = { 0, 1, 6, 0xffff };

	for (size_t i = 0; i < sizeof(versions) / sizeof(*versions); i++) {
		struct section section = { .size = 0 };

		add_table(&section, versions[i], false, 0, 0);
		expect_repaired(&section, &section);
	}
}

/* Cut by one byte, and by as many as a length can state. */
TEST(a_table_that_does_not_end_in_its_section_is_erased_with_the_rest)
{
	for (int wide = 0; wide < 2; wide++) {
		struct section longer = { .size = 0 };
		struct section erased;

		add_table(&longer, 5, wide, 1, 14);
		size_t second = longer.size + (wide ? 4 : 0);

		erased = longer;
		add_table(&longer, 5, wide, 1, 14);
		erased.size = longer.size;
		longer.bytes[second]++;
		expect_repaired(&longer, &erased);
		memset(longer.bytes + second, 0xff, wide ? 8 : 4);
		longer.bytes[second] = 0xfe;
		expect_repaired(&longer, &erased);
	}
}

/* With each number of bytes; no byte after the end is accessed. */
TEST(a_section_that_is_cut_anywhere_is_repaired_within_its_bytes)
{
	for (unsigned version = 2; version <= 5; version++) {
		for (int wide = 0; wide < 2; wide++) {
			struct section whole = { .size = 0 };

			add_table(&whole, version, wide, 0, 0);
			for (size_t cut = 0; cut < whole.size; cut++) {
				struct section section = whole;
				static const unsigned char none[ROOM];

				dwarf_line_repair(section.bytes, cut);
				EXPECT_EQ(memcmp(section.bytes, none, cut), 0);
				EXPECT_EQ(memcmp(section.bytes + cut,
					      whole.bytes + cut, ROOM - cut),
				    0);
			}
		}
	}
}

/* A table of each short length, before a valid one. */
TEST(a_header_that_is_cut_has_no_divisor_behind_its_end)
{
	for (unsigned version = 2; version <= 5; version++) {
		for (size_t length = 0; length < 16; length++) {
			struct section section = { .size = 0 };
			size_t after;

			put(&section, length, 4);
			if (length >= 2)
				put(&section, version, 2);
			section.size = after = 4 + length;
			add_table(&section, 4, false, 1, 14);
			struct section repaired = section;

			dwarf_line_repair(repaired.bytes, repaired.size);
			EXPECT_EQ(memcmp(repaired.bytes + after,
				      section.bytes + after, ROOM - after),
			    0);
		}
	}
}

/* ---- Lists of version 5 -------------------------------------------------- */

/* Make a table of version 5 that has these bytes from its first list on. */
static struct section
table_with_lists(bool wide, const unsigned char *lists, size_t size)
{
	struct section section = { .size = 0 };

	add_table(&section, 5, wide, 1, 14);
	section.size -= PROGRAM;
	EXPECT_LE(section.size + size, ROOM);
	memcpy(section.bytes + section.size, lists, size);
	section.size += size;
	section.bytes[wide ? 16 : 8] = (unsigned char)(6 + size);
	uint64_t length = section.size - (wide ? 12 : 4);

	memcpy(section.bytes + (wide ? 4 : 0), &length, wide ? 8 : 4);
	return section;
}

static void
expect_lists(bool fit, bool wide, const unsigned char *lists, size_t size)
{
	struct section before = table_with_lists(wide, lists, size);
	struct section after = before;

	if (!fit)
		memset(after.bytes + (wide ? 12 : 4), 0, 2);
	expect_repaired(&before, &after);
}

#define EXPECT_LISTS(fit, wide, ...)                                           \
	do {                                                                   \
		static const unsigned char lists[] = { __VA_ARGS__ };          \
		expect_lists(fit, wide, lists, sizeof(lists));                 \
	} while (0)

TEST(complete_lists_stay_unchanged)
{
	EXPECT_LISTS(true, false, 0, 0, 0, 0);
	/* A folder by its name; a file by its name, folder and checksum. */
	EXPECT_LISTS(true, false, 1, 1, 0x08, 1, '/', 0, 3, 1, 0x08, 2, 0x0b, 5,
	    0x1e, 1, 'a', 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14,
	    15, 16);
	/* Names in another section, as compilers write them. */
	EXPECT_LISTS(true, false, 1, 1, 0x1f, 2, 0, 0, 0, 0, 1, 0, 0, 0, 2, 1,
	    0x1f, 2, 0x0f, 1, 0, 0, 0, 0, 0x80, 1);
	EXPECT_LISTS(true, true, 1, 1, 0x1f, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
	/* Each of the other forms. */
	EXPECT_LISTS(true, false, 12, 1, 0x03, 1, 0x04, 1, 0x05, 1, 0x06, 1,
	    0x07, 1, 0x09, 1, 0x0a, 1, 0x1a, 1, 0x25, 1, 0x26, 1, 0x27, 1, 0x28,
	    1, 1, 0, 7, 1, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
	    1, 7, 1, 7, 0x80, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
}

TEST(more_entries_than_there_are_bytes_are_refused)
{
	EXPECT_LISTS(false, false, 1, 1, 0x08, 6, 0, 0, 0, 0);
	EXPECT_LISTS(false, false, 0, 9, 0, 0);
	/* 2^61, times the 8 bytes of a pointer, is 0. */
	EXPECT_LISTS(false, false, 1, 1, 0x08, 0x80, 0x80, 0x80, 0x80, 0x80,
	    0x80, 0x80, 0x80, 0x20, 0, 0, 0, 0);
	/* In the second list. */
	EXPECT_LISTS(false, false, 1, 1, 0x08, 1, '/', 0, 1, 1, 0x08, 0x80,
	    0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x20, 0, 0, 0, 0);
}

/* The end of a list is unknown if its form is one that the reader may
 * understand differently. */
TEST(lists_of_an_unknown_form_are_refused)
{
	EXPECT_LISTS(false, false, 1, 1, 0x02, 1, 0, 0, 0, 0, 0);
	EXPECT_LISTS(false, false, 1, 1, 0x55, 1, 0, 0, 0, 0, 0);
	/* A reference, whose size the unit says. */
	EXPECT_LISTS(false, false, 1, 1, 0x10, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
}

TEST(lists_that_are_cut_anywhere_are_refused)
{
	static const unsigned char lists[] = { 1, 1, 0x08, 1, '/', 0, 2, 1,
		0x1f, 2, 0x0b, 1, 1, 1, 1, 1, 0 };

	for (int wide = 0; wide < 2; wide++)
		for (size_t n = 0; n < sizeof(lists) - (wide ? 0 : 4); n++)
			expect_lists(false, wide, lists, n);
}

/* Opcode_base states more lengths of opcodes than there are, or states none. */
TEST(lengths_of_opcodes_that_are_cut_are_refused)
{
	static const unsigned char bases[] = { 0, 30, 255 };

	for (size_t i = 0; i < sizeof(bases); i++) {
		static const unsigned char none[8];
		struct section before =
		    table_with_lists(false, none, sizeof(none));
		struct section after;

		before.bytes[before.size - sizeof(none) - 1] = bases[i];
		after = before;
		memset(after.bytes + 4, 0, 2);
		expect_repaired(&before, &after);
	}
}

/* ---- Lists of other versions, and programs ------------------------------- */

/* Repair a table of version 4 with these bytes from the list of folders on. The
 * first `header` bytes are of the header. True if the table stays as it is. */
static bool
stays(size_t header, const unsigned char *bytes, size_t size)
{
	/* The operand counts of opcodes 1 to 3; opcode_base is 4. */
	static const unsigned char lengths[] = { 0, 1, 1 };
	struct section section = { .size = 0 };
	struct section repaired;

	add_table(&section, 4, false, 1, 14);
	section.size -= PROGRAM;
	section.bytes[section.size - 1] = 1 + sizeof(lengths);
	memcpy(section.bytes + section.size, lengths, sizeof(lengths));
	section.size += sizeof(lengths);
	EXPECT_LE(section.size + size, ROOM);
	memcpy(section.bytes + section.size, bytes, size);
	section.size += size;
	section.bytes[0] = (unsigned char)(section.size - 4);
	section.bytes[6] = (unsigned char)(6 + sizeof(lengths) + header);
	repaired = section;
	dwarf_line_repair(repaired.bytes, repaired.size);
	if (memcmp(repaired.bytes, section.bytes, ROOM) == 0)
		return true;
	EXPECT_EQ(repaired.bytes[4], 0);
	return false;
}

#define EXPECT_STAYS(does, header, ...)                                        \
	do {                                                                   \
		static const unsigned char bytes[] = { __VA_ARGS__ };          \
		EXPECT_EQ(stays(header, bytes, sizeof(bytes)), does);          \
	} while (0)

/* The reader counts names beyond the header, and writes beyond its array. */
TEST(lists_of_names_end_in_the_header)
{
	EXPECT_STAYS(true, 2, 0, 0, 1);
	EXPECT_STAYS(true, 9, '/', 0, 0, 'a', 0, 1, 2, 3, 0, 1);
	EXPECT_STAYS(false, 8, '/', 0, 0, 'a', 0, 1, 2, 3, 0, 1);
	EXPECT_STAYS(false, 1, 0, 0, 1);
	EXPECT_STAYS(false, 0, 0, 0, 1);
	EXPECT_STAYS(false, 2, '/', '/', 0, 0, 0);
	EXPECT_STAYS(false, 3, 0, 'a', 0, 0x80, 0x80, 0x80);
	EXPECT_STAYS(false, 100, 0, 0, 1);
}

/* The reader assumes that there is a folder. */
TEST(a_program_that_defines_a_file_is_refused)
{
	EXPECT_STAYS(false, 2, 0, 0, 0, 6, 3, 'a', 0, 0, 0, 0);
	/* After every instruction that may come before. */
	EXPECT_STAYS(true, 2, 0, 0, 4, 200, 1, 2, 0x80, 1, 3, 5, 0, 9, 2, 0, 0,
	    0, 0, 0, 0, 0, 0, 0, 2, 4, 7, 0, 3, 0x80, 1, 2, 0, 1, 1);
	EXPECT_STAYS(false, 2, 0, 0, 4, 200, 1, 2, 0x80, 1, 3, 5, 0, 9, 2, 0, 0,
	    0, 0, 0, 0, 0, 0, 0, 2, 4, 7, 0, 3, 0x80, 1, 2, 0, 1, 1, 0, 6, 3,
	    'a', 0, 0, 0, 0);
}

TEST(a_program_that_is_cut_is_refused)
{
	EXPECT_STAYS(true, 2, 0, 0);
	EXPECT_STAYS(false, 2, 0, 0, 2);
	EXPECT_STAYS(false, 2, 0, 0, 2, 0x80);
	EXPECT_STAYS(false, 2, 0, 0, 0);
	EXPECT_STAYS(false, 2, 0, 0, 0, 0);
	EXPECT_STAYS(false, 2, 0, 0, 0, 9, 2, 1, 2, 3, 4, 5, 6, 7);
	EXPECT_STAYS(false, 2, 0, 0, 0, 9, 0x80, 1);
}
