/*
 * Files whose tables of lines and whose headers of sections the reader of debug
 * information would fail on.
 */
#include "trace/elf_part.h"

#include <elf.h>
#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/support/test.h"

/* A table of lines of version 4, with its two divisors. */
struct table {
	unsigned char bytes[32];
	size_t size;
};

static struct table
table_with(unsigned char divisor)
{
	struct table table = { .bytes = { 28, 0, 0, 0, 4, 0, 6, 0, 0, 0, 1,
				   divisor, 1, 0xfb, divisor, 1 },
		.size = sizeof(table.bytes) };

	return table;
}

enum { NONE, NAMES, LINES, TEXTS, SECTIONS };

/* A file with a line table, a section of another name, and the names. */
struct file {
	ElfW(Ehdr) head;
	ElfW(Shdr) sections[SECTIONS];
	char names[64];
	struct table lines;
	struct table texts;
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

	file.lines = table_with(0);
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
	struct table ones = table_with(1);
	int fd = memfd_create("file", MFD_CLOEXEC);

	EXPECT_EQ(write(fd, file, sizeof(*file)), sizeof(*file));
	elf_part_repair(fd, (off_t)begin, (unsigned char *)&copy + begin,
	    end - begin, NULL);
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

/* Without an inflater nobody knows its content. */
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

/* The size that the reader is given for a section of a file. */
static uint64_t
size_read(const struct file *file, int section)
{
	struct file copy = *file;
	int fd = memfd_create("file", MFD_CLOEXEC);

	EXPECT_EQ(write(fd, file, sizeof(*file)), sizeof(*file));
	elf_part_repair(fd, offsetof(struct file, sections),
	    (unsigned char *)copy.sections, sizeof(copy.sections), NULL);
	close(fd);
	return copy.sections[section].sh_size;
}

/* The end of the last one wraps around. */
TEST(debug_information_that_does_not_lie_in_its_file_has_no_bytes)
{
	static const struct {
		uint64_t offset;
		uint64_t size;
	} wrong[] = {
		{ sizeof(struct file), 1 },
		{ sizeof(struct file) + 1, 1 },
		{ LINES_AT, sizeof(struct file) - LINES_AT + 1 },
		{ UINT64_MAX, 1 },
		{ LINES_AT, UINT64_MAX - LINES_AT + 2 },
	};
	struct file file = file_with_zeros();

	EXPECT_EQ(size_read(&file, LINES), file.lines.size);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		file.sections[LINES].sh_offset = wrong[i].offset;
		file.sections[LINES].sh_size = wrong[i].size;
		EXPECT_EQ(size_read(&file, LINES), 0);
	}
	/* The reader asks for each of the other sections by itself. */
	file.sections[NAMES].sh_size = UINT64_MAX;
	EXPECT_EQ(size_read(&file, NAMES), UINT64_MAX);
}
