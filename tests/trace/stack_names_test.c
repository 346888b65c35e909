/*
 * Names of addresses from files that are hostile to the reader of debug
 * information.
 */
#include <elf.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "tests/support/command.h"
#include "tests/support/test.h"
#include "tests/trace/hostile.h"
#include "trace/stack.h"

/* The number of symbols that name nothing; sorting them by quadratic time
 * takes minutes. */
enum { SYMBOLS = 400000 };

static void
expect_name_with_symbols(ElfW(Sym) * symbols, const char *names, size_t size)
{
	const struct hostile_section sections[] = {
		{ .name = ".symtab",
		    .type = SHT_SYMTAB,
		    .link = 2,
		    .bytes = symbols,
		    .size = SYMBOLS * sizeof(*symbols) },
		{ .name = ".strtab",
		    .type = SHT_STRTAB,
		    .bytes = names,
		    .size = size },
	};
	struct hostile hostile = hostile_load();

	hostile_write_sections(&hostile, sections, 2);
	hostile_finish(&hostile);
	free(symbols);
}

TEST(very_many_symbols_of_one_address_are_harmless)
{
	ElfW(Sym) *symbols = calloc(SYMBOLS, sizeof(*symbols));

	for (int i = 0; i < SYMBOLS; i++) {
		symbols[i].st_info = STT_FUNC;
		symbols[i].st_shndx = 1;
	}
	expect_name_with_symbols(symbols, "", 1);
}

/* The library's names end with the page. */
TEST(names_of_symbols_without_an_end_are_harmless)
{
	enum { PAGE = 4096 };
	static char names[PAGE];
	ElfW(Sym) *symbols = calloc(SYMBOLS, sizeof(*symbols));

	memset(names, 'a', sizeof(names));
	for (int i = 0; i < SYMBOLS; i++) {
		symbols[i].st_info = STT_FUNC;
		symbols[i].st_shndx = 1;
		symbols[i].st_name = PAGE - 1;
		symbols[i].st_value = (ElfW(Addr))i << 40;
	}
	expect_name_with_symbols(symbols, names, sizeof(names));
}

/* Opening it would wait for a writer. */
TEST(a_file_of_debug_information_that_is_a_pipe_is_not_read)
{
	struct hostile hostile = hostile_load();
	char *pipe = test_file("pipe", "", 0);
	char link[] = "pipe\0\0\0\0\1\0\0";
	const struct hostile_section section = {
		.name = ".gnu_debuglink", .bytes = link, .size = sizeof(link)
	};

	EXPECT_EQ(unlink(pipe), 0);
	EXPECT_EQ(mkfifo(pipe, 0600), 0);
	hostile_write_sections(&hostile, &section, 1);
	alarm((unsigned)test_seconds(4));
	hostile_finish(&hostile);
	unlink(pipe);
	free(pipe);
}

/* Each time that it is read it would be opened again. */
TEST(a_file_that_names_itself_as_the_shared_one_is_harmless)
{
	struct hostile hostile = hostile_load();
	const struct hostile_section section = { .name = ".gnu_debugaltlink",
		.bytes = "tool.so",
		.size = sizeof("tool.so") };

	hostile_write_sections(&hostile, &section, 1);
	hostile_finish(&hostile);
}

static ElfW(Ehdr) head_of(int fd)
{
	ElfW(Ehdr) head;

	EXPECT_EQ(pread(fd, &head, sizeof(head), 0), sizeof(head));
	return head;
}

/* Leave the mapped bytes unchanged. */
static void
cut(int fd)
{
	ElfW(Ehdr) head = head_of(fd);
	ElfW(Phdr) part;
	size_t end = 0;

	for (int i = 0; i < head.e_phnum; i++) {
		EXPECT_EQ(pread(fd, &part, sizeof(part),
			      (off_t)(head.e_phoff + sizeof(part) * (size_t)i)),
		    sizeof(part));
		if (part.p_type == PT_LOAD &&
		    part.p_offset + part.p_filesz > end)
			end = part.p_offset + part.p_filesz;
	}
	EXPECT_LT(end, head.e_shoff);
	EXPECT_EQ(ftruncate(fd, (off_t)end), 0);
}

/* The reader finds no file there. */
TEST(a_section_beyond_the_end_of_its_file_is_not_read)
{
	struct hostile copy = hostile_load();
	ElfW(Ehdr) head = head_of(copy.fd);
	ElfW(Shdr) section;

	for (int i = 1; i < head.e_shnum; i++) {
		off_t at = (off_t)(head.e_shoff + sizeof(section) * (size_t)i);

		EXPECT_EQ(pread(copy.fd, &section, sizeof(section), at),
		    sizeof(section));
		if (i != head.e_shstrndx)
			section.sh_offset += 1 << 30;
		EXPECT_EQ(pwrite(copy.fd, &section, sizeof(section), at),
		    sizeof(section));
	}
	hostile_finish(&copy);
}

TEST(a_file_that_was_cut_since_it_was_loaded_is_not_read)
{
	struct hostile copy = hostile_load();

	cut(copy.fd);
	hostile_finish(&copy);
}

/* The bytes that were read of a file do not change. */
TEST(a_file_that_is_cut_after_it_was_read_is_harmless)
{
	struct hostile copy = hostile_load();
	struct stack_place place;

	EXPECT_EQ(stack_describe(copy.symbol + 1, &place, 1), 1);
	cut(copy.fd);
	hostile_finish(&copy);
}

/* The place of the header of the section with a name, and the header. */
static off_t
find_section(int fd, const char *name, ElfW(Shdr) * section)
{
	ElfW(Ehdr) head = head_of(fd);
	size_t each = sizeof(*section);
	ElfW(Shdr) names;
	char found[20] = "";

	EXPECT_EQ(pread(fd, &names, each,
		      (off_t)(head.e_shoff + each * head.e_shstrndx)),
	    each);
	for (int i = 1; i < head.e_shnum; i++) {
		off_t at = (off_t)(head.e_shoff + each * (size_t)i);

		EXPECT_EQ(pread(fd, section, each, at), each);
		EXPECT_GT(pread(fd, found, sizeof(found) - 1,
			      (off_t)(names.sh_offset + section->sh_name)),
		    strlen(name));
		if (strcmp(found, name) == 0)
			return at;
	}
	FAIL("no section %s", name);
	return 0;
}

static void
write_at(int fd, const void *bytes, size_t size, off_t at)
{
	EXPECT_EQ(pwrite(fd, bytes, size, at), size);
}

/* Where `field` of the first unit of .debug_line lies, which is `distance`
 * bytes in front of the lengths of opcodes, 0, 1, 1, 1, 1, 0 in all units that
 * compilers make. */
static off_t
line_field(int fd, size_t distance)
{
	static const char lengths[] = { 0, 1, 1, 1, 1, 0 };
	ElfW(Shdr) section;
	char unit[64];

	find_section(fd, ".debug_line", &section);
	EXPECT_EQ(pread(fd, unit, sizeof(unit), (off_t)section.sh_offset),
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
	write_at(corrupt.fd, &zero, 1, line_field(corrupt.fd, distance));
	EXPECT_NE(hostile_name(&corrupt) & HOSTILE_NAMED, 0);
	hostile_finish(&corrupt);
}

/* The reader divides by these. */
TEST(a_line_table_whose_range_of_lines_is_0_is_harmless)
{
	enum { LINE_RANGE = 2 };

	expect_name_with_a_zero(LINE_RANGE);
}

TEST(a_line_table_whose_instructions_have_0_operations_is_harmless)
{
	enum { MAX_OPS = 5 };

	expect_name_with_a_zero(MAX_OPS);
}

/* The end of such a section is in front of the file. */
TEST(a_section_whose_end_wraps_around_is_not_read)
{
	static const uint32_t far = 1 << 30;
	ElfW(Shdr) section;
	off_t at;

	struct hostile corrupt = hostile_load();
	at = find_section(corrupt.fd, ".debug_info", &section);
	/* The first unit reaches to the end that the section states, too. */
	write_at(corrupt.fd, &far, sizeof(far), (off_t)section.sh_offset);
	section.sh_size = -section.sh_offset;
	write_at(corrupt.fd, &section, sizeof(section), at);
	EXPECT_EQ(hostile_name(&corrupt), HOSTILE_NAMED);
	hostile_finish(&corrupt);
}

/* Put a section of a file behind its end. */
static void
replace_section(int fd, const char *name, const void *bytes, size_t size)
{
	ElfW(Shdr) section;
	off_t at = find_section(fd, name, &section);

	section.sh_offset = (ElfW(Off))lseek(fd, 0, SEEK_END);
	section.sh_size = size;
	write_at(fd, bytes, size, (off_t)section.sh_offset);
	write_at(fd, &section, sizeof(section), at);
}

/* Compress a section of a file, as 'gcc -gz' does, and claim that it has so
 * many bytes more. */
static void
compress_section(int fd, const char *name, ElfW(Word) type, uint64_t more)
{
	static unsigned char packed[4 << 20];
	ElfW(Chdr) head = { .ch_type = type, .ch_addralign = 1 };
	unsigned long length = sizeof(packed) - sizeof(head);
	ElfW(Shdr) section;
	off_t at = find_section(fd, name, &section);
	unsigned char *bytes = malloc(section.sh_size);

	EXPECT_EQ(pread(fd, bytes, section.sh_size, (off_t)section.sh_offset),
	    section.sh_size);
	head.ch_size = section.sh_size + more;
	memcpy(packed, &head, sizeof(head));
	EXPECT_EQ(
	    compress(packed + sizeof(head), &length, bytes, section.sh_size),
	    Z_OK);
	section.sh_offset = (ElfW(Off))lseek(fd, 0, SEEK_END);
	section.sh_size = sizeof(head) + length;
	section.sh_flags |= SHF_COMPRESSED;
	write_at(fd, packed, section.sh_size, (off_t)section.sh_offset);
	write_at(fd, &section, sizeof(section), at);
	free(bytes);
}

/* A unit that has all addresses. */
struct unit {
	uint32_t length;
	uint16_t version;
	uint32_t abbrevs;
	uint8_t address_size;
	uint8_t code;
	uint64_t low;
	uint64_t high;
	uint32_t lines;
	uint8_t entries[1 << 20];
} __attribute__((packed));

/* Name a stack of a library whose debug information is these entries of one
 * unit, by the codes of unit_abbrevs. */
static void
expect_name_with_entries(const uint8_t *entries, size_t size)
{
	static const unsigned char unit_abbrevs[] = {
		/* A unit: low_pc, high_pc, stmt_list. */
		1, 0x11, 1, 0x11, 0x01, 0x12, 0x07, 0x10, 0x17, 0, 0,
		/* A block with children. */
		2, 0x0b, 1, 0, 0,
		/* A function: specification. */
		3, 0x2e, 0, 0x47, 0x13, 0, 0, 0
	};
	static struct unit unit = {
		.version = 4, .address_size = 8, .code = 1
	};

	unit.length = (uint32_t)(offsetof(struct unit, entries) + size -
	    sizeof(unit.length));
	unit.high = 1 << 30;
	memcpy(unit.entries, entries, size);
	struct hostile corrupt = hostile_load();
	replace_section(
	    corrupt.fd, ".debug_abbrev", unit_abbrevs, sizeof(unit_abbrevs));
	replace_section(corrupt.fd, ".debug_info", &unit,
	    offsetof(struct unit, entries) + size);
	EXPECT_NE(hostile_name(&corrupt) & HOSTILE_NAMED, 0);
	compress_section(corrupt.fd, ".debug_info", ELFCOMPRESS_ZLIB, 0);
	hostile_finish(&corrupt);
}

/* The reader calls itself for each. */
TEST(an_entry_that_takes_its_name_from_itself_is_harmless)
{
	const uint8_t self = offsetof(struct unit, entries);
	const uint8_t entries[] = { 3, self, 0, 0, 0, 0 };

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

static const char *const debug_sections[] = { ".debug_info", ".debug_abbrev",
	".debug_line", ".debug_str", ".debug_line_str" };

TEST(debug_information_that_is_compressed_by_zlib_is_read)
{
	struct hostile hostile = hostile_load();

	for (size_t i = 0; i < 5; i++) {
		compress_section(
		    hostile.fd, debug_sections[i], ELFCOMPRESS_ZLIB, 0);
		EXPECT_EQ(hostile_name(&hostile), HOSTILE_NAMED | HOSTILE_LINE);
	}
	hostile_finish(&hostile);
}

/* zstd, and an unknown algorithm. */
TEST(debug_information_that_is_compressed_otherwise_is_not_read)
{
	static const ElfW(Word) types[] = { 2, 17 };

	for (size_t i = 0; i < 10; i++) {
		struct hostile hostile = hostile_load();

		compress_section(
		    hostile.fd, debug_sections[i / 2], types[i % 2], 0);
		hostile_finish(&hostile);
	}
}

/* By one byte, by a size that needs an allocation without a bound, and by as
 * much as makes the size small. */
TEST(a_wrong_size_of_compressed_debug_information_is_harmless)
{
	static const uint64_t more[] = { 1, (uint64_t)-1, 1 << 20, 1ull << 40,
		(uint64_t)-100 };

	for (size_t i = 0; i < 5; i++) {
		struct hostile hostile = hostile_load();

		for (size_t k = 0; k < 5; k++)
			compress_section(hostile.fd, debug_sections[k],
			    ELFCOMPRESS_ZLIB, more[i]);
		hostile_finish(&hostile);
	}
}

TEST(a_compressed_line_table_with_a_zero_is_harmless)
{
	static const size_t fields[] = { 2, 5 };
	static const char zero;

	for (int i = 0; i < 2; i++) {
		struct hostile hostile = hostile_load();

		write_at(
		    hostile.fd, &zero, 1, line_field(hostile.fd, fields[i]));
		compress_section(
		    hostile.fd, ".debug_line", ELFCOMPRESS_ZLIB, 0);
		hostile_finish(&hostile);
	}
}

/* The old form: a magic word, the size, and zlib data. */
TEST(compressed_debug_information_of_the_old_form_is_not_read)
{
	static unsigned char packed[1 << 16] = "ZLIB\0\0\0\0\0";
	unsigned long length = sizeof(packed) - 12;
	static unsigned char entries[1 << 20];

	memset(entries, 2, sizeof(entries));
	packed[9] = sizeof(entries) >> 16;
	EXPECT_EQ(
	    compress(packed + 12, &length, entries, sizeof(entries)), Z_OK);
	struct hostile hostile = hostile_load();
	const struct hostile_section sections[] = {
		{ .name = ".zdebug_info",
		    .bytes = packed,
		    .size = length + 12 },
		{ .name = ".zdebug_abbrev", .bytes = packed, .size = length },
	};

	hostile_write_sections(&hostile, sections, 2);
	hostile_finish(&hostile);
}

/* ---- Headers ------------------------------------------------------------- */

/* The reader copies as many bytes as the note states. */
TEST(a_build_id_that_is_longer_than_its_section_is_harmless)
{
	struct {
		uint32_t name_size;
		uint32_t size;
		uint32_t type;
		char name[4];
		char id[20];
	} note = { 4, UINT32_MAX - 64, 3, "GNU", "" };
	const struct hostile_section section = { .name = ".note.gnu.build-id",
		.type = SHT_NOTE,
		.bytes = &note,
		.size = sizeof(note) };
	struct hostile hostile = hostile_load();

	hostile_write_sections(&hostile, &section, 1);
	hostile_finish(&hostile);
}

TEST(names_of_sections_that_no_header_has_are_harmless)
{
	static const ElfW(Half) indexes[] = { 40000, SHN_XINDEX };
	ElfW(Shdr) first = { .sh_link = 0xfffffff };
	struct hostile hostile = hostile_load();

	for (int i = 0; i < 2; i++) {
		ElfW(Ehdr) head = head_of(hostile.fd);

		head.e_shstrndx = indexes[i];
		write_at(hostile.fd, &head, sizeof(head), 0);
		write_at(
		    hostile.fd, &first, sizeof(first), (off_t)head.e_shoff);
		EXPECT_NE(hostile_name(&hostile) & HOSTILE_NAMED, 0);
	}
	hostile_finish(&hostile);
}

/* The reader takes the lowest offset except 0 for the start of all. */
TEST(debug_information_at_the_beginning_of_its_file_is_harmless)
{
	struct hostile hostile = hostile_load();
	ElfW(Shdr) section;
	off_t at = find_section(hostile.fd, ".debug_info", &section);

	section.sh_offset = 0;
	section.sh_size = 64;
	write_at(hostile.fd, &section, sizeof(section), at);
	hostile_finish(&hostile);
}

/* Numbers of another machine are not read. */
TEST(a_file_of_the_other_byte_order_is_not_read)
{
	struct hostile hostile = hostile_load();
	ElfW(Ehdr) head = head_of(hostile.fd);

	head.e_ident[EI_DATA] ^= ELFDATA2LSB ^ ELFDATA2MSB;
	write_at(hostile.fd, &head, sizeof(head), 0);
	EXPECT_EQ(hostile_name(&hostile), HOSTILE_NAMED);
	hostile_finish(&hostile);
}

/* ---- Entries and line tables --------------------------------------------- */

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

/* Begin a unit of version 4 or 5 with all addresses, by the abbreviations of
 * unit_begins. Returns its start. */
static size_t
begin_unit(struct bytes *info, unsigned version)
{
	size_t begin = info->size;

	add(info, 0, 4);
	add(info, version, 2);
	if (version == 5)
		add(info, 0x0801, 2);
	add(info, 0, 4);
	if (version == 4)
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

	replace_section(
	    hostile.fd, ".debug_abbrev", abbrevs->at, abbrevs->size);
	replace_section(hostile.fd, ".debug_info", info->at, info->size);
	if (other != NULL)
		replace_section(hostile.fd, other, bytes->at, bytes->size);
	hostile_finish(&hostile);
}

static void
expect_name_with_unit(const unsigned char *abbrevs, size_t abbrevs_size,
    const uint8_t *entries, size_t size)
{
	struct bytes codes = { NULL, 0 };
	struct bytes info = { NULL, 0 };
	size_t begin = begin_unit(&info, 4);

	add_all(&codes, abbrevs, abbrevs_size);
	add_all(&info, entries, size);
	end_unit(&info, begin);
	expect_name_with(&info, &codes, NULL, NULL);
	free(info.at);
	free(codes.at);
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
	enum { AT = 4 + 2 + 4 + 1 + 1 + 8 + 8 + 4 };
	static const unsigned char constant[] = { UNIT_BEGINS, 2, 0x2e, 0, 0x47,
		0x21, AT, 0, 0, 0 };
	static const unsigned char flag[] = { UNIT_BEGINS, 2, 0x2e, 0, 0x47,
		0x0c, 0, 0, 0 };
	static const uint8_t entries[] = { 2, AT, 0 };

	expect_name_with_unit(constant, sizeof(constant), entries, 1);
	expect_name_with_unit(flag, sizeof(flag), entries, sizeof(entries));
}

/* The last entry needs more bytes than there are, and the reader goes on. */
TEST(entries_that_are_cut_are_harmless)
{
	enum { AT = 4 + 2 + 4 + 1 + 1 + 8 + 8 + 4 };
	static const unsigned char abbrevs[] = { UNIT_BEGINS,
		/* A block of three bytes. */
		2, 0x0b, 0, 0x03, 0x0a, 0, 0,
		/* A specification. */
		3, 0x2e, 0, 0x47, 0x11, 0, 0,
		/* Eight bytes that are not there, and a specification. */
		4, 0x2e, 0, 0x03, 0x07, 0x47, 0x11, 0, 0, 0 };
	static const uint8_t entries[] = { 2, 3, 3, AT + 2, 0, 4, AT + 2 };

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
	size_t begin = begin_unit(&info, 4);

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

/* A unit whose entries have no folder, with this line table. */
static void
expect_name_with_line_table(const uint8_t *table, size_t size, uint32_t at)
{
	static const unsigned char abbrevs[] = { UNIT_BEGINS, 0 };
	struct bytes codes = { NULL, 0 };
	struct bytes lines = { NULL, 0 };
	struct bytes info = { NULL, 0 };
	size_t begin = begin_unit(&info, 4);

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

/* ---- A file that changes while it is read ---------------------------------
 */

/* libbacktrace declares these in a header that is not installed. */
struct backtrace_view {
	const void *data;
	void *base;
	size_t size;
};
typedef void complain(void *user, const char *text, int number);
int backtrace_open(
    const char *path, complain *complain, void *user, int *does_not_exist);
int backtrace_close(int fd, complain *complain, void *user);
int backtrace_get_view(void *state, int fd, off_t offset, uint64_t size,
    complain *complain, void *user, struct backtrace_view *view);
void backtrace_release_view(
    void *state, struct backtrace_view *view, complain *complain, void *user);

static void
ignore_complaint(void *user, const char *text, int number)
{
	(void)user;
	(void)text;
	(void)number;
}

/* The reader takes the names from another view than the headers. */
TEST(what_is_read_of_a_file_later_fits_what_was_read_first)
{
	struct hostile_section section = {
		.name = ".other", .bytes = "text", .size = 5
	};
	struct hostile hostile = hostile_load();
	struct backtrace_view view;
	ElfW(Ehdr) head[2];
	int fd;

	hostile_write_sections(&hostile, &section, 1);
	fd = backtrace_open(hostile.path, ignore_complaint, NULL, NULL);
	EXPECT_GE(fd, 0);
	for (int i = 0; i < 2; i++) {
		EXPECT_EQ(backtrace_get_view(NULL, fd, 0, sizeof(head[0]),
			      ignore_complaint, NULL, &view),
		    1);
		memcpy(&head[i], view.data, sizeof(head[i]));
		backtrace_release_view(NULL, &view, ignore_complaint, NULL);
		section.name = ".debug_info";
		hostile_write_sections(&hostile, &section, 1);
	}
	EXPECT_EQ(memcmp(&head[1], &head[0], sizeof(head[0])), 0);
	EXPECT_EQ(backtrace_close(fd, ignore_complaint, NULL), 1);
	hostile_finish(&hostile);
}
