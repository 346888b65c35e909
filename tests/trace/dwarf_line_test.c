/*
 * Line tables that the reader of debug information would fail on, and those
 * that stay as they are.
 */
#include "trace/dwarf_line.h"

#include <elf.h>
#include <link.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

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

/* Add a table with these divisors. The program behind it is of bytes that are
 * no header. */
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
	put(section, 6, wide ? 8 : 4);
	put(section, 1, 1);
	if (version >= 4)
		put(section, max_ops, 1);
	put(section, 0xfb01, 2);
	put(section, line_range, 1);
	put(section, 1, 1);
	for (int i = 0; i < PROGRAM; i++)
		put(section, 0, 1);
	uint64_t length = section->size - begin;

	memcpy(section->bytes + begin - (wide ? 8 : 4), &length, wide ? 8 : 4);
}

static void
expect_repaired(const struct section *before, const struct section *after)
{
	struct section repaired = *before;

	dwarf_line_repair(repaired.bytes, repaired.size);
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

/* The reader does not divide then, and the bytes may mean anything. */
TEST(a_table_of_an_unknown_version_stays_as_it_is)
{
	static const unsigned versions[] = { 0, 1, 6, 0xffff };

	for (size_t i = 0; i < sizeof(versions) / sizeof(*versions); i++) {
		struct section section = { .size = 0 };

		add_table(&section, versions[i], false, 0, 0);
		expect_repaired(&section, &section);
	}
}

/* By one byte, and by as many as a length can tell. */
TEST(a_table_that_does_not_end_in_its_section_is_erased_with_what_follows)
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

/* Each number of bytes, up to the end of which nothing is touched. */
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

/* A table of each short length, in front of a sound one. */
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

/* ---- The section ------------------------------------------------------- */

enum { NONE, NAMES, LINES, TEXTS, SECTIONS };

/* A file with a line table, a section of another name, and the names. */
struct file {
	ElfW(Ehdr) head;
	ElfW(Shdr) sections[SECTIONS];
	char names[64];
	struct section lines;
	struct section texts;
};

static struct file
file_with_zeros(void)
{
	struct file file = {
		.head = { .e_ident = ELFMAG,
		    .e_shoff = offsetof(struct file, sections),
		    .e_shnum = SECTIONS,
		    .e_shstrndx = NAMES },
		.names = "\0.debug_line\0.debug_line_str",
	};

	add_table(&file.lines, 5, false, 0, 0);
	file.texts = file.lines;
	file.sections[NAMES].sh_offset = offsetof(struct file, names);
	file.sections[NAMES].sh_size = sizeof(file.names);
	file.sections[LINES].sh_name = 1;
	file.sections[LINES].sh_offset = offsetof(struct file, lines.bytes);
	file.sections[LINES].sh_size = file.lines.size;
	file.sections[TEXTS].sh_name = 1 + sizeof(".debug_line");
	file.sections[TEXTS].sh_offset = offsetof(struct file, texts.bytes);
	file.sections[TEXTS].sh_size = file.texts.size;
	return file;
}

/* Repair the bytes of the file from `begin` to `end`; true if that changes the
 * line table, which nothing else may be. */
static bool
is_repaired(const struct file *file, size_t begin, size_t end)
{
	struct file copy = *file;
	struct section ones = { .size = 0 };
	int fd = memfd_create("file", MFD_CLOEXEC);

	add_table(&ones, 5, false, 1, 1);
	EXPECT_EQ(write(fd, file, sizeof(*file)), sizeof(*file));
	dwarf_line_repair_part(
	    fd, (off_t)begin, (unsigned char *)&copy + begin, end - begin);
	close(fd);
	bool repaired =
	    memcmp(copy.lines.bytes, ones.bytes, sizeof(ones.bytes)) == 0;

	if (repaired)
		copy.lines = file->lines;
	EXPECT_EQ(memcmp(&copy, file, sizeof(copy)), 0);
	return repaired;
}

enum {
	LINES_AT = offsetof(struct file, lines.bytes),
	BEHIND = offsetof(struct file, lines.size),
};

TEST(the_line_table_of_a_file_is_found_in_each_part_that_has_it)
{
	struct file file = file_with_zeros();

	EXPECT(is_repaired(&file, 0, sizeof(file)));
	EXPECT(is_repaired(&file, LINES_AT, sizeof(file)));
	EXPECT(is_repaired(&file, LINES_AT, LINES_AT + file.lines.size));
	EXPECT(!is_repaired(&file, 0, LINES_AT));
	EXPECT(!is_repaired(&file, LINES_AT + 1, sizeof(file)));
	EXPECT(!is_repaired(&file, BEHIND, sizeof(file)));
}

TEST(a_section_that_claims_more_bytes_than_there_are_is_repaired)
{
	struct file file = file_with_zeros();

	file.sections[LINES].sh_size = UINT64_MAX - 8;
	EXPECT(is_repaired(&file, LINES_AT, LINES_AT + file.lines.size));
}

TEST(a_file_with_very_many_sections_has_their_number_elsewhere)
{
	struct file file = file_with_zeros();

	file.head.e_shnum = 0;
	file.head.e_shstrndx = SHN_XINDEX;
	file.sections[NONE].sh_size = SECTIONS;
	file.sections[NONE].sh_link = NAMES;
	EXPECT(is_repaired(&file, 0, sizeof(file)));
}

/* They are inflated by the reader. */
TEST(a_compressed_line_table_stays_as_it_is)
{
	struct file file = file_with_zeros();

	file.sections[LINES].sh_flags = SHF_COMPRESSED;
	EXPECT(!is_repaired(&file, 0, sizeof(file)));
}

/* Each field in turn, with numbers that lead to no name and to no table. */
TEST(headers_that_point_anywhere_are_no_harm)
{
	static const uint64_t numbers[] = { 1, sizeof(struct file) - 1,
		INT64_MAX, INT64_MIN, UINT64_MAX };

	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) {
		struct file file = file_with_zeros();

		file.head.e_shoff = numbers[i];
		EXPECT(!is_repaired(&file, 0, sizeof(file)));
		file = file_with_zeros();
		file.head.e_shstrndx = (uint16_t)(numbers[i] | 4);
		EXPECT(!is_repaired(&file, 0, sizeof(file)));
		file = file_with_zeros();
		file.sections[NAMES].sh_offset = numbers[i];
		EXPECT(!is_repaired(&file, 0, sizeof(file)));
		file = file_with_zeros();
		file.sections[LINES].sh_name = (uint32_t)numbers[i] | 64;
		EXPECT(!is_repaired(&file, 0, sizeof(file)));
		file = file_with_zeros();
		file.sections[LINES].sh_offset = numbers[i] + sizeof(file);
		EXPECT(!is_repaired(&file, LINES_AT, sizeof(file)));
	}
	struct file none = file_with_zeros();

	none.head.e_ident[0] = 0;
	EXPECT(!is_repaired(&none, 0, sizeof(none)));
}
