/*
 * The part of a file that the reader of debug information sees, and the headers
 * of sections that are changed for it.
 */
#include "stacks/elf_part.h"

#include <elf.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>

#include "tests/support/test.h"

enum { NONE, NAMES, TEXTS, OTHER, SECTIONS };

#define TEXT "some text that is debug information, information, information"

/* A file with a section of debug information and one of another name. */
struct file {
	ElfW(Ehdr) head;
	ElfW(Shdr) sections[SECTIONS];
	char names[64];
	char text[128];
};

static struct file
file_with_text(const char *name)
{
	struct file file = {
		.head = { .e_ident = ELFMAG,
		    .e_shoff = offsetof(struct file, sections),
		    .e_shnum = SECTIONS,
		    .e_shstrndx = NAMES },
		.names = "\0.other",
		.text = TEXT,
	};

	file.head.e_ident[EI_CLASS] = ELFCLASS64;
	file.head.e_ident[EI_DATA] = ELFDATA2LSB;
	strcpy(file.names + 8, name);
	file.sections[NAMES].sh_offset = offsetof(struct file, names);
	file.sections[NAMES].sh_size = sizeof(file.names);
	file.sections[TEXTS].sh_name = 8;
	file.sections[TEXTS].sh_offset = offsetof(struct file, text);
	file.sections[TEXTS].sh_size = sizeof(TEXT);
	file.sections[OTHER] = file.sections[TEXTS];
	file.sections[OTHER].sh_name = 1;
	return file;
}

/* Compress the text, and state this size. */
static void
compress_text(struct file *file, ElfW(Word) type, uint64_t claimed)
{
	ElfW(Chdr) head = { .ch_type = type, .ch_size = claimed };
	unsigned long size = sizeof(file->text) - sizeof(head);

	EXPECT_EQ(compress((unsigned char *)file->text + sizeof(head), &size,
		      (const unsigned char *)TEXT, sizeof(TEXT)),
	    Z_OK);
	memcpy(file->text, &head, sizeof(head));
	file->sections[TEXTS].sh_size = sizeof(head) + size;
	file->sections[TEXTS].sh_flags = SHF_COMPRESSED;
}

/* The bytes of a part, to be freed; NULL if there is none. */
static unsigned char *
read_part(const struct file *file, uint64_t offset, size_t size)
{
	int fd = memfd_create("file", MFD_CLOEXEC);
	unsigned char *bytes = NULL;
	struct elf_file opened;

	EXPECT_EQ(write(fd, file, sizeof(*file)), sizeof(*file));
	elf_file_open(&opened, fd);
	if (elf_part_exists(&opened, offset, size)) {
		bytes = calloc(1, size + 1);
		EXPECT_NOT_NULL(bytes);
		if (!elf_part_read(&opened, offset, bytes, size)) {
			free(bytes);
			bytes = NULL;
		}
	}
	elf_file_close(&opened);
	close(fd);
	return bytes;
}

/* The header of a section as the reader sees it. */
static ElfW(Shdr) header_read(const struct file *file, int section)
{
	ElfW(Shdr) headers[SECTIONS - 1];
	unsigned char *bytes = read_part(
	    file, offsetof(struct file, sections[1]), sizeof(headers));

	EXPECT_NOT_NULL(bytes);
	memcpy(headers, bytes, sizeof(headers));
	free(bytes);
	return headers[section - 1];
}

static void
expect_text(const struct file *file)
{
	ElfW(Shdr) header = header_read(file, TEXTS);
	unsigned char *bytes;

	EXPECT_EQ(header.sh_name, file->sections[TEXTS].sh_name);
	EXPECT_EQ(header.sh_size, sizeof(TEXT));
	EXPECT_EQ(header.sh_flags, 0);
	EXPECT_GT(header.sh_offset, sizeof(*file));
	bytes = read_part(file, header.sh_offset, header.sh_size);
	EXPECT_NOT_NULL(bytes);
	EXPECT_STR_EQ((const char *)bytes, TEXT);
	free(bytes);
	header = header_read(file, OTHER);
	EXPECT_EQ(memcmp(&header, &file->sections[OTHER], sizeof(header)), 0);
}

/* The reader may find no known name. */
static void
expect_no_name(const struct file *file)
{
	ElfW(Shdr) header = header_read(file, TEXTS);

	EXPECT_LT(header.sh_name, sizeof(file->names));
	EXPECT_LE(strlen(file->names + header.sh_name), 1);
}

TEST(debug_information_is_read_behind_the_end_of_the_file)
{
	struct file file = file_with_text(".debug_str");

	expect_text(&file);
	compress_text(&file, ELFCOMPRESS_ZLIB, sizeof(TEXT));
	expect_text(&file);
}

TEST(other_parts_are_unchanged)
{
	struct file file = file_with_text(".debug_str");
	unsigned char *whole = read_part(&file, 0, sizeof(file));

	EXPECT_EQ(memcmp(whole, &file, sizeof(file)), 0);
	free(whole);
	EXPECT_NULL(read_part(&file, 0, sizeof(file) + 1));
	EXPECT_NULL(read_part(&file, sizeof(file) - 1, 2));
	EXPECT_NULL(read_part(&file, sizeof(file), 1));
	EXPECT_NULL(read_part(&file, UINT64_MAX, 1));
	EXPECT_NULL(read_part(&file, 0, 0));
}

TEST(sections_that_are_not_checked_have_no_name)
{
	static const char *const names[] = { ".zdebug_info", ".gnu_debugdata",
		".gnu_debugaltlink", ".debug_types", ".debug_", ".opd" };

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		struct file file = file_with_text(names[i]);

		expect_no_name(&file);
	}
}

/* The end of the last one wraps around. */
TEST(debug_information_that_does_not_lie_in_its_file_has_no_name)
{
	static const struct {
		uint64_t offset;
		uint64_t size;
	} wrong[] = {
		{ sizeof(struct file), 1 },
		{ sizeof(struct file) + 1, 1 },
		{ 64, sizeof(struct file) - 64 + 1 },
		{ UINT64_MAX, 1 },
		{ 64, UINT64_MAX - 64 + 2 },
		{ 64, 0 },
	};

	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		struct file file = file_with_text(".debug_str");

		file.sections[TEXTS].sh_offset = wrong[i].offset;
		file.sections[TEXTS].sh_size = wrong[i].size;
		expect_no_name(&file);
	}
}

TEST(debug_information_is_inflated_within_bounds)
{
	static const uint64_t claims[] = { 0, 1 << 20, 1ull << 40, UINT64_MAX };
	struct file file = file_with_text(".debug_str");

	compress_text(&file, 2, sizeof(TEXT));
	expect_no_name(&file);
	for (size_t i = 0; i < sizeof(claims) / sizeof(*claims); i++) {
		file = file_with_text(".debug_str");
		compress_text(&file, ELFCOMPRESS_ZLIB, claims[i]);
		expect_no_name(&file);
	}
}

/* One more or less than the real size, and bytes that are no zlib data. */
TEST(debug_information_that_does_not_inflate_is_not_there)
{
	for (int more = -1; more <= 1; more++) {
		struct file file = file_with_text(".debug_str");
		ElfW(Shdr) header;

		compress_text(&file, ELFCOMPRESS_ZLIB,
		    sizeof(TEXT) + (uint64_t)(int64_t)more);
		if (more == 0)
			file.text[sizeof(ElfW(Chdr)) + 5] ^= 1;
		header = header_read(&file, TEXTS);
		EXPECT_NULL(read_part(&file, header.sh_offset, header.sh_size));
	}
}

/* The reader would use the last one, which was not checked. */
TEST(the_second_of_two_sections_with_a_name_has_none)
{
	struct file file = file_with_text(".debug_str");

	file.sections[OTHER].sh_name = file.sections[TEXTS].sh_name;
	EXPECT_EQ(header_read(&file, TEXTS).sh_name, 8);
	EXPECT_EQ(header_read(&file, OTHER).sh_name, sizeof(file.names) - 1);
}

TEST(the_names_of_sections_are_no_debug_information)
{
	struct file file = file_with_text(".debug_str");

	file.sections[NAMES].sh_name = file.sections[TEXTS].sh_name;
	EXPECT_EQ(header_read(&file, NAMES).sh_name, sizeof(file.names) - 1);
	EXPECT_EQ(
	    header_read(&file, NAMES).sh_offset, offsetof(struct file, names));
}

/* The section of names ends in the middle of the name. */
TEST(a_name_ends_with_the_names)
{
	struct file file = file_with_text(".gnu_debugdataX");

	EXPECT_EQ(header_read(&file, TEXTS).sh_name, 8);
	file.sections[NAMES].sh_size = 8 + strlen(".gnu_debugdata");
	EXPECT_EQ(header_read(&file, TEXTS).sh_name,
	    file.sections[NAMES].sh_size - 1);
}

TEST(a_file_with_very_many_sections_has_their_number_elsewhere)
{
	struct file file = file_with_text(".debug_str");

	file.head.e_shnum = 0;
	file.head.e_shstrndx = SHN_XINDEX;
	file.sections[NONE].sh_size = SECTIONS;
	file.sections[NONE].sh_link = NAMES;
	expect_text(&file);
}

/* The reader would look for the names of symbols in front of the headers. */
TEST(a_table_of_symbols_without_names_is_no_table_of_symbols)
{
	static const ElfW(Word) types[] = { SHT_SYMTAB, SHT_DYNSYM };
	static const ElfW(Word) links[] = { 0, SECTIONS, UINT32_MAX };
	struct file file = file_with_text(".symtab");

	for (size_t i = 0; i < 2; i++) {
		file.sections[TEXTS].sh_type = types[i];
		for (size_t k = 0; k < 3; k++) {
			file.sections[TEXTS].sh_link = links[k];
			EXPECT_EQ(header_read(&file, TEXTS).sh_type, SHT_NULL);
		}
		file.sections[TEXTS].sh_link = NAMES;
		EXPECT_EQ(header_read(&file, TEXTS).sh_type, types[i]);
	}
}

static bool
has_headers(const struct file *file)
{
	ElfW(Ehdr) head;
	unsigned char *bytes = read_part(file, 0, sizeof(head));

	EXPECT_NOT_NULL(bytes);
	memcpy(&head, bytes, sizeof(head));
	free(bytes);
	if (head.e_shoff == 0)
		EXPECT(head.e_shnum == 0 && head.e_shstrndx == 0);
	return head.e_shoff != 0;
}

/* Each field in turn, with invalid numbers. */
TEST(headers_that_point_anywhere_are_not_there)
{
	static const uint64_t numbers[] = { sizeof(struct file) - 1, INT64_MAX,
		(uint64_t)INT64_MIN, UINT64_MAX, UINT64_MAX - 63 };
	struct file file = file_with_text(".debug_str");

	EXPECT(has_headers(&file));
	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) {
		file = file_with_text(".debug_str");
		file.head.e_shoff = numbers[i];
		EXPECT(!has_headers(&file));
		file = file_with_text(".debug_str");
		file.head.e_shstrndx = (uint16_t)(numbers[i] | SECTIONS);
		EXPECT(!has_headers(&file));
		file = file_with_text(".debug_str");
		file.head.e_shnum = (uint16_t)(numbers[i] | 1024);
		EXPECT(!has_headers(&file));
		file = file_with_text(".debug_str");
		file.sections[NAMES].sh_offset = numbers[i];
		EXPECT(!has_headers(&file));
	}
	file = file_with_text(".debug_str");
	file.head.e_ident[EI_DATA] = ELFDATA2MSB;
	EXPECT(!has_headers(&file));
}

/* ---- Files that change ----------------------------------------------------
 */

/* Read a part of an open file. */
static bool
read_open(
    const struct elf_file *opened, uint64_t offset, void *bytes, size_t size)
{
	return elf_part_exists(opened, offset, size) &&
	    elf_part_read(opened, offset, bytes, size);
}

/* Otherwise a section that was not checked could get a name that matters. */
TEST(headers_and_names_are_those_of_the_file_as_it_was_opened)
{
	const struct file before = file_with_text(".debug_str");
	struct file after = before;
	ElfW(Ehdr) head;
	ElfW(Shdr) first;
	ElfW(Shdr) headers[2][SECTIONS - 1];
	char names[sizeof(before.names)];
	int fd = memfd_create("file", MFD_CLOEXEC);
	struct elf_file opened;

	EXPECT_EQ(pwrite(fd, &before, sizeof(before), 0), sizeof(before));
	elf_file_open(&opened, fd);
	EXPECT(read_open(&opened, offsetof(struct file, sections[1]),
	    headers[0], sizeof(headers[0])));
	memset(&after.head, 1, sizeof(after.head));
	memset(after.sections, 2, sizeof(after.sections));
	memcpy(after.names, "\0.opd\0.debug_info", 18);
	EXPECT_EQ(pwrite(fd, &after, sizeof(after), 0), sizeof(after));
	EXPECT(read_open(&opened, 0, &head, sizeof(head)));
	EXPECT_EQ(memcmp(&head, &before.head, sizeof(head)), 0);
	EXPECT(read_open(
	    &opened, offsetof(struct file, sections), &first, sizeof(first)));
	EXPECT_EQ(memcmp(&first, &before.sections[0], sizeof(first)), 0);
	EXPECT(read_open(&opened, offsetof(struct file, sections[1]),
	    headers[1], sizeof(headers[1])));
	EXPECT_EQ(memcmp(headers[1], headers[0], sizeof(headers[0])), 0);
	EXPECT(read_open(
	    &opened, offsetof(struct file, names), names, sizeof(names)));
	EXPECT_EQ(memcmp(names, before.names, sizeof(names)), 0);
	elf_file_close(&opened);
	close(fd);
}

TEST(a_file_that_was_cut_off_cannot_be_read)
{
	const struct file file = file_with_text(".debug_str");
	char text[sizeof(TEXT)];
	int fd = memfd_create("file", MFD_CLOEXEC);
	struct elf_file opened;

	EXPECT_EQ(pwrite(fd, &file, sizeof(file), 0), sizeof(file));
	elf_file_open(&opened, fd);
	EXPECT_EQ(ftruncate(fd, offsetof(struct file, text) + 4), 0);
	EXPECT(!read_open(
	    &opened, offsetof(struct file, text), text, sizeof(text)));
	EXPECT(!read_open(
	    &opened, opened.debug[ELF_DEBUG_STR].place, text, sizeof(text)));
	elf_file_close(&opened);
	close(fd);
}

TEST(a_build_id_that_grows_is_not_read)
{
	struct file file = file_with_text(".note.gnu.build-id");
	ElfW(Nhdr) note = { .n_namesz = 4, .n_descsz = 8, .n_type = 3 };
	char bytes[24];
	int fd = memfd_create("file", MFD_CLOEXEC);
	struct elf_file opened;

	memcpy(file.text, &note, sizeof(note));
	file.sections[TEXTS].sh_size = sizeof(bytes);
	EXPECT_EQ(pwrite(fd, &file, sizeof(file), 0), sizeof(file));
	elf_file_open(&opened, fd);
	EXPECT(read_open(
	    &opened, offsetof(struct file, text), bytes, sizeof(bytes)));
	note.n_descsz = 1 << 20;
	memcpy(file.text, &note, sizeof(note));
	EXPECT_EQ(pwrite(fd, &file, sizeof(file), 0), sizeof(file));
	EXPECT(!read_open(
	    &opened, offsetof(struct file, text), bytes, sizeof(bytes)));
	elf_file_close(&opened);
	close(fd);
}
