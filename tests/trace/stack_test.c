/*
 * Stacks: taken, kept once under a number, and named.
 */
#include "trace/stack.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "base/meta.h"
#include "tests/support/command.h"
#include "tests/support/device.h"

/* ---- Taking ------------------------------------------------------------ */

static void *frames[STACK_FRAMES_MAX];

/* Not laid into their callers, and not left by a jump. */
__attribute__((noinline)) static size_t
take_in_innermost(size_t n, size_t skip)
{
	size_t found = stack_capture(frames, n, skip);

	__asm__ volatile("" ::: "memory");
	return found;
}

__attribute__((noinline)) static size_t
take_further_out(size_t n, size_t skip, int depth)
{
	size_t found = depth == 0 ? take_in_innermost(n, skip) :
				    take_further_out(n, skip, depth - 1);

	__asm__ volatile("" ::: "memory");
	return found;
}

/* True if a frame is in the function of that name. */
static bool
in_function(const void *frame, const char *name)
{
	struct stack_place places[4];
	size_t n = stack_describe(frame, places, 4);

	for (size_t i = 0; i < n; i++)
		if (strcmp(places[i].function, name) == 0)
			return true;
	return false;
}

TEST(a_stack_begins_with_the_caller_and_goes_outwards)
{
	size_t n = take_further_out(STACK_FRAMES_MAX, 0, 2);

	EXPECT_GT(n, 5);
	EXPECT(in_function(frames[0], "take_in_innermost"));
	for (int i = 1; i <= 3; i++)
		EXPECT(in_function(frames[i], "take_further_out"));
	EXPECT(in_function(frames[4],
	    "a_stack_begins_with_the_caller_and_goes_outwards_body"));
}

TEST(frames_can_be_skipped)
{
	void *all[STACK_FRAMES_MAX];
	size_t n = take_further_out(STACK_FRAMES_MAX, 0, 2);

	memcpy(all, frames, sizeof(all));
	EXPECT_EQ(take_further_out(STACK_FRAMES_MAX, 2, 2), n - 2);
	/* But the one that called, from another place, they are the same. */
	EXPECT_EQ(frames[0], all[2]);
	EXPECT_EQ(frames[1], all[3]);
}

TEST(no_more_frames_are_written_than_there_is_room_for)
{
	memset(frames, 0, sizeof(frames));
	EXPECT_EQ(take_further_out(3, 0, 5), 3);
	EXPECT_NOT_NULL(frames[2]);
	EXPECT_NULL(frames[3]);
	EXPECT_EQ(take_further_out(0, 0, 5), 0);
}

TEST(deep_stacks_are_cut_at_their_outer_end)
{
	EXPECT_EQ(take_further_out(1000, 0, 200), STACK_FRAMES_MAX);
	EXPECT(in_function(frames[0], "take_in_innermost"));
	EXPECT(in_function(frames[STACK_FRAMES_MAX - 1], "take_further_out"));
}

/* ---- The table --------------------------------------------------------- */

static void *
address(uintptr_t number)
{
	return (void *)number;
}

TEST(a_stack_has_one_number_and_another_has_another)
{
	struct stack_table *table = stack_table_create(1 << 20);
	void *one[] = { address(1), address(2), address(3) };
	void *two[] = { address(1), address(2), address(4) };
	void *const *found;

	uint32_t a = stack_table_intern(table, one, 3);
	uint32_t b = stack_table_intern(table, two, 3);
	uint32_t c = stack_table_intern(table, one, 2);

	EXPECT_NE(a, 0);
	EXPECT_NE(b, 0);
	EXPECT_NE(c, 0);
	EXPECT(a != b && b != c && a != c);
	EXPECT_EQ(stack_table_intern(table, one, 3), a);
	EXPECT_EQ(stack_table_intern(table, two, 3), b);
	EXPECT_EQ(stack_table_intern(table, two, 2), c);
	EXPECT_EQ(stack_table_count(table), 3);
	EXPECT_EQ(stack_table_frames(table, b, &found), 3);
	EXPECT_EQ(memcmp(found, two, sizeof(two)), 0);
	EXPECT_EQ(stack_table_frames(table, c, &found), 2);
	EXPECT_EQ(memcmp(found, one, 2 * sizeof(*one)), 0);
	stack_table_destroy(table);
}

TEST(no_stack_is_number_0)
{
	struct stack_table *table = stack_table_create(1 << 20);
	void *const *found;

	EXPECT_EQ(stack_table_intern(table, frames, 0), 0);
	EXPECT_EQ(stack_table_lost(table), 0);
	EXPECT_EQ(stack_table_frames(table, 0, &found), 0);
	stack_table_destroy(table);
}

TEST(frames_beyond_the_most_do_not_count)
{
	struct stack_table *table = stack_table_create(1 << 20);
	void *many[STACK_FRAMES_MAX + 1];
	void *const *found;

	for (uintptr_t i = 0; i <= STACK_FRAMES_MAX; i++)
		many[i] = address(i + 1);
	uint32_t id = stack_table_intern(table, many, STACK_FRAMES_MAX + 1);

	EXPECT_EQ(stack_table_frames(table, id, &found), STACK_FRAMES_MAX);
	EXPECT_EQ(stack_table_intern(table, many, STACK_FRAMES_MAX), id);
	stack_table_destroy(table);
}

/* As many as there is room for, and those stay. */
TEST(a_full_table_keeps_what_it_has_and_counts_the_rest)
{
	struct stack_table *table = stack_table_create(64 << 10);
	enum { TRIES = 10000 };
	static uint32_t ids[TRIES];
	uint64_t lost = 0;

	for (uintptr_t i = 0; i < TRIES; i++) {
		void *stack[] = { address(i), address(i * i + 1) };

		ids[i] = stack_table_intern(table, stack, 2);
		lost += ids[i] == 0;
	}
	EXPECT_EQ(stack_table_count(table), TRIES - lost);
	EXPECT_EQ(stack_table_lost(table), lost);
	/* 32 bytes each, of 64 KiB less the slots. */
	EXPECT_GT(TRIES - lost, (64 << 10) * 3 / 4 / 32);
	EXPECT_LT(TRIES - lost, (64 << 10) / 32);
	for (uintptr_t i = 0; i < TRIES; i++) {
		void *stack[] = { address(i), address(i * i + 1) };
		void *const *found;

		EXPECT_EQ(stack_table_intern(table, stack, 2), ids[i]);
		if (stack_table_frames(table, ids[i], &found) != 0)
			EXPECT_EQ(memcmp(found, stack, sizeof(stack)), 0);
	}
	stack_table_destroy(table);
}

TEST(a_table_without_memory_is_none)
{
	meta_fail(1, 1);
	EXPECT_NULL(stack_table_create(1 << 20));
	meta_fail(0, 0);
	stack_table_destroy(NULL);
}

enum { THREADS = 4, STACKS = 5000 };
static struct stack_table *shared;
static uint32_t met[THREADS][STACKS];

static void *
intern_all(void *user)
{
	uint32_t *ids = user;

	for (uintptr_t i = 0; i < STACKS; i++) {
		void *stack[] = { address(i + 1), address(7), address(i * 3) };

		ids[i] = stack_table_intern(shared, stack, 3);
	}
	return NULL;
}

TEST(threads_that_meet_the_same_stacks_agree_on_their_numbers)
{
	pthread_t threads[THREADS];

	shared = stack_table_create(4 << 20);
	for (int i = 0; i < THREADS; i++)
		EXPECT_EQ(
		    pthread_create(&threads[i], NULL, intern_all, met[i]), 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	for (int i = 1; i < THREADS; i++)
		EXPECT_EQ(memcmp(met[i], met[0], sizeof(met[0])), 0);
	EXPECT_EQ(stack_table_count(shared), STACKS);
	EXPECT_EQ(stack_table_lost(shared), 0);
	stack_table_destroy(shared);
}

/* ---- Naming ------------------------------------------------------------ */

TEST(an_address_has_its_function_file_and_line)
{
	struct stack_place place;
	char text[128];
	char expected[128];

	EXPECT_GT(take_in_innermost(1, 0), 0);
	EXPECT_EQ(stack_describe(frames[0], &place, 1), 1);
	EXPECT_STR_EQ(place.function, "take_in_innermost");
	EXPECT_STR_HAS(place.file, "stack_test.c");
	EXPECT_GT(place.line, 10);
	EXPECT_LT(place.line, 50);
	EXPECT_STR_HAS(place.object, "stack_test");
	snprintf(expected, sizeof(expected),
	    "take_in_innermost (stack_test.c:%u)", place.line);
	EXPECT_STR_EQ(stack_place_text(&place, text, sizeof(text)), expected);
}

__attribute__((always_inline)) static inline size_t
take_in_line(void)
{
	size_t found = stack_capture(frames, STACK_FRAMES_MAX, 0);

	__asm__ volatile("" ::: "memory");
	return found;
}

__attribute__((noinline)) static size_t
take_around_it(void)
{
	return take_in_line();
}

TEST(calls_that_were_put_in_line_are_places_of_their_own)
{
	struct stack_place places[3];

	EXPECT_GT(take_around_it(), 0);
	EXPECT_EQ(stack_describe(frames[0], places, 3), 2);
	EXPECT_STR_EQ(places[0].function, "take_in_line");
	EXPECT_STR_EQ(places[1].function, "take_around_it");
	EXPECT_EQ(stack_describe(frames[0], places, 1), 1);
	EXPECT_STR_EQ(places[0].function, "take_in_line");
	EXPECT_EQ(stack_describe(frames[0], places, 0), 0);
}

/* Libraries that are loaded after the first question are found too. */
TEST(a_function_of_a_library_loaded_later_has_its_name)
{
	char *path = test_build("lib/sim/libcuda.so.1");
	struct stack_place place;
	char text[128];
	char *symbol;

	EXPECT_GT(take_in_innermost(1, 0), 0);
	EXPECT_EQ(stack_describe(frames[0], &place, 1), 1);
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	EXPECT_NOT_NULL(library);
	symbol = dlsym(library, "cuMemAlloc_v2");
	EXPECT_NOT_NULL(symbol);
	EXPECT_EQ(stack_describe(symbol + 2, &place, 1), 1);
	EXPECT_STR_EQ(place.function, "cuMemAlloc_v2");
	EXPECT_STR_HAS(place.object, "libcuda.so.1");
	EXPECT_STR_HAS(
	    stack_place_text(&place, text, sizeof(text)), "cuMemAlloc_v2 (");
	dlclose(library);
	free(path);
}

/* A library of the test's own that is loaded, and its file. */
struct loaded {
	char *path;
	int fd;
	void *library;
	char *symbol;
};

static struct loaded
load_copy(void)
{
	char *path = test_build("tests/trace/fake/nvtx_tool.so");
	FILE *file = fopen(path, "rb");
	static char bytes[4 << 20];
	struct loaded copy;

	EXPECT_NOT_NULL(file);
	size_t size = fread(bytes, 1, sizeof(bytes), file);
	EXPECT_LT(size, sizeof(bytes));
	fclose(file);
	copy.path = test_file("tool.so", bytes, size);
	copy.fd = open(copy.path, O_RDWR | O_CLOEXEC);
	EXPECT_GE(copy.fd, 0);
	copy.library = dlopen(copy.path, RTLD_NOW | RTLD_LOCAL);
	EXPECT_NOT_NULL(copy.library);
	copy.symbol = dlsym(copy.library, "InitializeInjectionNvtx2");
	EXPECT_NOT_NULL(copy.symbol);
	free(path);
	return copy;
}

static void
expect_name_and_unload(struct loaded *copy)
{
	struct stack_place place;

	EXPECT_EQ(stack_describe(copy->symbol + 2, &place, 1), 1);
	EXPECT_STR_EQ(place.function, "InitializeInjectionNvtx2");
	EXPECT_STR_HAS(place.object, "tool.so");
	dlclose(copy->library);
	close(copy->fd);
	free(copy->path);
}

static ElfW(Ehdr) head_of(int fd)
{
	ElfW(Ehdr) head;

	EXPECT_EQ(pread(fd, &head, sizeof(head), 0), sizeof(head));
	return head;
}

/* Leave what the loader has mapped. */
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

/* Where it would be read, there is nothing to read. */
TEST(a_section_beyond_the_end_of_its_file_is_not_read)
{
	struct loaded copy = load_copy();
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
	expect_name_and_unload(&copy);
}

TEST(a_file_that_was_cut_since_it_was_loaded_is_not_read)
{
	struct loaded copy = load_copy();

	cut(copy.fd);
	expect_name_and_unload(&copy);
}

/* The bytes that were read of a file stay as they were. */
TEST(a_file_that_is_cut_after_it_was_read_is_no_harm)
{
	struct loaded copy = load_copy();
	struct stack_place place;

	EXPECT_EQ(stack_describe(copy.symbol + 1, &place, 1), 1);
	cut(copy.fd);
	expect_name_and_unload(&copy);
}

/* Where the header of the section with a name lies, and what it is. */
static off_t
find_section(int fd, const char *name, ElfW(Shdr) * section)
{
	ElfW(Ehdr) head = head_of(fd);
	size_t each = sizeof(*section);
	ElfW(Shdr) names;
	char found[16] = "";

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

static struct loaded corrupt;

enum { NAMED = 1, WITH_LINE = 2 };

static int
name_in_corrupt(void)
{
	struct stack_place place;

	if (stack_describe(corrupt.symbol + 2, &place, 1) != 1 ||
	    strcmp(place.function, "InitializeInjectionNvtx2") != 0)
		return 0;
	return place.line > 0 ? NAMED | WITH_LINE : NAMED;
}

/* Name a stack of a library in whose line table a field is 0. */
static void
expect_name_with_a_zero(size_t distance)
{
	static const char zero;

	corrupt = load_copy();
	write_at(corrupt.fd, &zero, 1, line_field(corrupt.fd, distance));
	EXPECT_NE(test_child_status(name_in_corrupt) & NAMED, 0);
	expect_name_and_unload(&corrupt);
}

/* The reader divides by these. */
TEST(a_line_table_whose_range_of_lines_is_0_is_no_harm)
{
	enum { LINE_RANGE = 2 };

	expect_name_with_a_zero(LINE_RANGE);
}

TEST(a_line_table_whose_instructions_have_0_operations_is_no_harm)
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

	corrupt = load_copy();
	at = find_section(corrupt.fd, ".debug_info", &section);
	/* The first unit reaches as far as the section says, too. */
	write_at(corrupt.fd, &far, sizeof(far), (off_t)section.sh_offset);
	section.sh_size = -section.sh_offset;
	write_at(corrupt.fd, &section, sizeof(section), at);
	EXPECT_EQ(test_child_status(name_in_corrupt), NAMED);
	expect_name_and_unload(&corrupt);
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
	corrupt = load_copy();
	replace_section(
	    corrupt.fd, ".debug_abbrev", unit_abbrevs, sizeof(unit_abbrevs));
	replace_section(corrupt.fd, ".debug_info", &unit,
	    offsetof(struct unit, entries) + size);
	EXPECT_NE(test_child_status(name_in_corrupt) & NAMED, 0);
	expect_name_and_unload(&corrupt);
}

/* The reader calls itself for each. */
TEST(an_entry_that_takes_its_name_from_itself_is_no_harm)
{
	const uint8_t self = offsetof(struct unit, entries);
	const uint8_t entries[] = { 3, self, 0, 0, 0, 0 };

	expect_name_with_entries(entries, sizeof(entries));
}

TEST(entries_that_are_nested_very_deeply_are_no_harm)
{
	enum { DEPTH = 500000 };
	uint8_t *entries = calloc(2, DEPTH);

	memset(entries, 2, DEPTH);
	expect_name_with_entries(entries, 2 * DEPTH);
	free(entries);
}

/* Compress the line table of a file, as 'gcc -gz' does. */
static void
compress_lines(int fd, ElfW(Word) type)
{
	static unsigned char lines[1 << 16];
	static unsigned char packed[sizeof(lines)];
	ElfW(Chdr) head = { .ch_type = type, .ch_addralign = 1 };
	unsigned long length = sizeof(packed) - sizeof(head);
	ElfW(Shdr) section;
	off_t at = find_section(fd, ".debug_line", &section);

	EXPECT_LT(section.sh_size, sizeof(lines));
	EXPECT_EQ(pread(fd, lines, section.sh_size, (off_t)section.sh_offset),
	    section.sh_size);
	head.ch_size = section.sh_size;
	memcpy(packed, &head, sizeof(head));
	EXPECT_EQ(
	    compress(packed + sizeof(head), &length, lines, section.sh_size),
	    Z_OK);
	section.sh_offset = (ElfW(Off))lseek(fd, 0, SEEK_END);
	section.sh_size = sizeof(head) + length;
	section.sh_flags |= SHF_COMPRESSED;
	write_at(fd, packed, section.sh_size, (off_t)section.sh_offset);
	write_at(fd, &section, sizeof(section), at);
}

TEST(a_line_table_that_is_compressed_by_zlib_is_read)
{
	corrupt = load_copy();
	compress_lines(corrupt.fd, ELFCOMPRESS_ZLIB);
	EXPECT_EQ(test_child_status(name_in_corrupt), NAMED | WITH_LINE);
	expect_name_and_unload(&corrupt);
}

/* By an algorithm that nobody knows. */
TEST(a_line_table_that_is_compressed_otherwise_is_not_read)
{
	corrupt = load_copy();
	compress_lines(corrupt.fd, 17);
	EXPECT_NE(test_child_status(name_in_corrupt) & NAMED, 0);
	expect_name_and_unload(&corrupt);
}

/* It is inflated by the reader itself. */
TEST(a_compressed_line_table_with_a_zero_is_no_harm)
{
	static const size_t fields[] = { 2, 5 };
	static const char zero;

	for (int i = 0; i < 2; i++) {
		corrupt = load_copy();
		write_at(
		    corrupt.fd, &zero, 1, line_field(corrupt.fd, fields[i]));
		compress_lines(corrupt.fd, ELFCOMPRESS_ZLIB);
		EXPECT_EQ(test_child_status(name_in_corrupt), NAMED);
		expect_name_and_unload(&corrupt);
	}
}

TEST(an_address_of_nothing_has_no_name)
{
	struct stack_place place;
	char text[16];
	char local[4] = "";

	EXPECT_EQ(stack_describe(local + 1, &place, 1), 1);
	EXPECT_STR_EQ(place.function, "");
	EXPECT_STR_EQ(place.file, "");
	EXPECT_EQ(place.line, 0);
	EXPECT_STR_EQ(stack_place_text(&place, text, sizeof(text)), "?");
}

TEST(texts_of_places_are_as_much_as_is_known)
{
	struct stack_place place = { .function = "f",
		.file = "/a/b.c",
		.line = 12,
		.object = "/lib/libx.so",
		.offset = 0x120 };
	char text[32];

	EXPECT_STR_EQ(
	    stack_place_text(&place, text, sizeof(text)), "f (b.c:12)");
	EXPECT_STR_EQ(stack_place_text(&place, text, 5), "f (b");
	place.line = 0;
	EXPECT_STR_EQ(
	    stack_place_text(&place, text, sizeof(text)), "f (libx.so)");
	place.function[0] = '\0';
	EXPECT_STR_EQ(
	    stack_place_text(&place, text, sizeof(text)), "libx.so+0x120");
}
