/*
 * Names of addresses from files whose symbols, sections or headers are hostile
 * to the reader of debug information. stack_names_dwarf_test.c has the contents
 * of debug information.
 */
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "stacks/stack.h"
#include "tests/stacks/hostile.h"
#include "tests/support/command.h"
#include "tests/support/test.h"

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

/* Their section is number 0, which the reader takes for a number that wraps
 * around. */
TEST(symbols_whose_names_are_in_no_section_are_harmless)
{
	static const ElfW(Sym) symbol = { .st_info = STT_FUNC, .st_shndx = 1 };
	const struct hostile_section section = { .name = ".symtab",
		.type = SHT_SYMTAB,
		.bytes = &symbol,
		.size = sizeof(symbol) };
	struct hostile hostile = hostile_load();

	hostile_write_sections(&hostile, &section, 1);
	hostile_finish(&hostile);
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

/* Leave the mapped bytes unchanged. */
static void
cut(const struct hostile *hostile)
{
	ElfW(Ehdr) head = hostile_head(hostile);
	ElfW(Phdr) part;
	size_t end = 0;

	for (int i = 0; i < head.e_phnum; i++) {
		EXPECT_EQ(pread(hostile->fd, &part, sizeof(part),
			      (off_t)(head.e_phoff + sizeof(part) * (size_t)i)),
		    sizeof(part));
		if (part.p_type == PT_LOAD &&
		    part.p_offset + part.p_filesz > end)
			end = part.p_offset + part.p_filesz;
	}
	EXPECT_LT(end, head.e_shoff);
	EXPECT_EQ(ftruncate(hostile->fd, (off_t)end), 0);
}

/* The reader finds no file there. */
TEST(a_section_beyond_the_end_of_its_file_is_not_read)
{
	struct hostile copy = hostile_load();
	ElfW(Ehdr) head = hostile_head(&copy);
	ElfW(Shdr) section;

	for (int i = 1; i < head.e_shnum; i++) {
		off_t at = (off_t)(head.e_shoff + sizeof(section) * (size_t)i);

		EXPECT_EQ(pread(copy.fd, &section, sizeof(section), at),
		    sizeof(section));
		if (i != head.e_shstrndx)
			section.sh_offset += 1 << 30;
		hostile_write(&copy, &section, sizeof(section), at);
	}
	hostile_finish(&copy);
}

TEST(a_file_that_was_cut_since_it_was_loaded_is_not_read)
{
	struct hostile copy = hostile_load();

	cut(&copy);
	hostile_finish(&copy);
}

/* The bytes that were read of a file do not change. */
TEST(a_file_that_is_cut_after_it_was_read_is_harmless)
{
	struct hostile copy = hostile_load();
	struct stack_place place;

	EXPECT_EQ(stack_describe(copy.symbol + 1, &place, 1), 1);
	cut(&copy);
	hostile_finish(&copy);
}

/* The end of such a section is in front of the file. */
TEST(a_section_whose_end_wraps_around_is_not_read)
{
	static const uint32_t far = 1 << 30;
	ElfW(Shdr) section;
	off_t at;

	struct hostile corrupt = hostile_load();
	at = hostile_find_section(&corrupt, ".debug_info", &section);
	/* The first unit reaches to the end that the section states, too. */
	hostile_write(&corrupt, &far, sizeof(far), (off_t)section.sh_offset);
	section.sh_size = -section.sh_offset;
	hostile_write(&corrupt, &section, sizeof(section), at);
	EXPECT_EQ(hostile_name(&corrupt), HOSTILE_NAMED);
	hostile_finish(&corrupt);
}

static const char *const debug_sections[] = { ".debug_info", ".debug_abbrev",
	".debug_line", ".debug_str", ".debug_line_str" };

TEST(debug_information_that_is_compressed_by_zlib_is_read)
{
	struct hostile hostile = hostile_load();

	for (size_t i = 0; i < 5; i++) {
		hostile_compress_section(
		    &hostile, debug_sections[i], ELFCOMPRESS_ZLIB, 0);
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

		hostile_compress_section(
		    &hostile, debug_sections[i / 2], types[i % 2], 0);
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
			hostile_compress_section(&hostile, debug_sections[k],
			    ELFCOMPRESS_ZLIB, more[i]);
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
		ElfW(Ehdr) head = hostile_head(&hostile);

		head.e_shstrndx = indexes[i];
		hostile_write(&hostile, &head, sizeof(head), 0);
		hostile_write(
		    &hostile, &first, sizeof(first), (off_t)head.e_shoff);
		EXPECT_NE(hostile_name(&hostile) & HOSTILE_NAMED, 0);
	}
	hostile_finish(&hostile);
}

/* The reader takes the lowest offset except 0 for the start of all. */
TEST(debug_information_at_the_beginning_of_its_file_is_harmless)
{
	struct hostile hostile = hostile_load();
	ElfW(Shdr) section;
	off_t at = hostile_find_section(&hostile, ".debug_info", &section);

	section.sh_offset = 0;
	section.sh_size = 64;
	hostile_write(&hostile, &section, sizeof(section), at);
	hostile_finish(&hostile);
}

/* Numbers of another machine are not read. */
TEST(a_file_of_the_other_byte_order_is_not_read)
{
	struct hostile hostile = hostile_load();
	ElfW(Ehdr) head = hostile_head(&hostile);

	head.e_ident[EI_DATA] ^= ELFDATA2LSB ^ ELFDATA2MSB;
	hostile_write(&hostile, &head, sizeof(head), 0);
	EXPECT_EQ(hostile_name(&hostile), HOSTILE_NAMED);
	hostile_finish(&hostile);
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

/* ---- Names of C++ -------------------------------------------------------- */

/* clang-format off */
#define PARTS(a, b, c, d) \
	"S1_IS" a "_S" a "_ES1_IS" b "_S" b "_ES1_IS" c "_S" c "_ES1_IS" d "_S" d "_E"
/* clang-format on */

/* Each of the last 32 arguments is twice as long as the one before: gigabytes.
 */
#define DOUBLING                                                               \
	"_Z1f1BIiE1AIS0_S0_E" PARTS("2", "3", "4", "5")                        \
	    PARTS("6", "7", "8", "9") PARTS("A", "B", "C", "D")                \
		PARTS("E", "F", "G", "H") PARTS("I", "J", "K", "L")            \
		    PARTS("M", "N", "O", "P") PARTS("Q", "R", "S", "T")        \
			PARTS("U", "V", "W", "X")

int doubling(void) __asm__(DOUBLING);
int two_ints(void) __asm__("_Z8two_intsii");

int
doubling(void)
{
	return 1;
}

int
two_ints(void)
{
	return 2;
}

TEST(a_name_that_expands_to_gigabytes_is_shown_as_it_is)
{
	struct stack_place place;

	if (dlopen("libstdc++.so.6", RTLD_LAZY) == NULL)
		SKIP("there is no C++ library to demangle names");
	EXPECT_EQ(stack_describe((const char *)two_ints + 1, &place, 1), 1);
	EXPECT_STR_EQ(place.function, "two_ints(int, int)");
	EXPECT_EQ(stack_describe((const char *)doubling + 1, &place, 1), 1);
	EXPECT_EQ(
	    strncmp(place.function, DOUBLING, sizeof(place.function) - 1), 0);
}
