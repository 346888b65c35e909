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

#include "tests/support/command.h"
#include "tests/support/test.h"
#include "tests/trace/hostile.h"

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

TEST(very_many_symbols_of_one_address_are_no_harm)
{
	ElfW(Sym) *symbols = calloc(SYMBOLS, sizeof(*symbols));

	for (int i = 0; i < SYMBOLS; i++) {
		symbols[i].st_info = STT_FUNC;
		symbols[i].st_shndx = 1;
	}
	expect_name_with_symbols(symbols, "", 1);
}

/* The library's names end with the page. */
TEST(names_of_symbols_without_an_end_are_no_harm)
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
	alarm(20);
	hostile_finish(&hostile);
	unlink(pipe);
	free(pipe);
}

/* Each time that it is read it would be opened again. */
TEST(a_file_that_names_itself_as_the_shared_one_is_no_harm)
{
	struct hostile hostile = hostile_load();
	const struct hostile_section section = { .name = ".gnu_debugaltlink",
		.bytes = "tool.so",
		.size = sizeof("tool.so") };

	hostile_write_sections(&hostile, &section, 1);
	hostile_finish(&hostile);
}
