/*
 * Corrupt line tables, made harmless before libbacktrace reads them. Every
 * number here may be wrong: it comes from a file.
 */
#include "trace/dwarf_line.h"

#include <elf.h>
#include <link.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

/* ---- The tables -------------------------------------------------------- */

/* Bytes of a length; of the one behind it in a table of 64 bits. */
enum { LENGTH = 4, WIDE_LENGTH = 8 };

/* The number of `size` bytes there, in the machine's order. */
static uint64_t
number_at(const unsigned char *bytes, size_t size)
{
	uint16_t two;
	uint32_t four;
	uint64_t eight;

	switch (size) {
	case sizeof(two):
		memcpy(&two, bytes, sizeof(two));
		return two;
	case sizeof(four):
		memcpy(&four, bytes, sizeof(four));
		return four;
	default:
		memcpy(&eight, bytes, sizeof(eight));
		return eight;
	}
}

static void
make_divisor(unsigned char *table, size_t size, size_t at)
{
	if (at < size && table[at] == 0)
		table[at] = 1;
}

/*
 * Repair one table, which begins with its version. `wide`: its lengths have 64
 * bits. The reader refuses other versions than 2 to 5, and a header that is
 * cut.
 */
static void
repair_table(unsigned char *table, size_t size, bool wide)
{
	enum { VERSION = 2 };
	/* Version 5 has the sizes of an address and of a selector there. */
	enum { SIZES = 2 };
	size_t at = VERSION + (wide ? WIDE_LENGTH : LENGTH);

	if (size < VERSION)
		return;
	uint64_t version = number_at(table, VERSION);

	if (version < 2 || version > 5)
		return;
	if (version == 5)
		at += SIZES;
	/* Skip minimum_instruction_length. */
	at += 1;
	/* maximum_operations_per_instruction */
	if (version >= 4)
		make_divisor(table, size, at++);
	/* line_range, behind default_is_stmt and line_base */
	make_divisor(table, size, at + 2);
}

void
dwarf_line_repair(unsigned char *section, size_t size)
{
	static const uint32_t is_wide = UINT32_MAX;

	while (size >= LENGTH) {
		uint64_t length = number_at(section, LENGTH);
		bool wide = length == is_wide;
		size_t head = LENGTH + (wide ? WIDE_LENGTH : 0);

		if (size < head)
			break;
		if (wide)
			length = number_at(section + LENGTH, WIDE_LENGTH);
		if (length > size - head)
			break;
		repair_table(section + head, (size_t)length, wide);
		section += head + length;
		size -= head + (size_t)length;
	}
	memset(section, 0, size);
}

/* ---- The section ------------------------------------------------------- */

static bool
read_at(int fd, void *to, size_t size, uint64_t offset)
{
	return pread(fd, to, size, (off_t)offset) == (ssize_t)size;
}

/* The section headers of a file, and where the names of sections are. */
struct sections {
	uint64_t offset;
	uint64_t n;
	uint64_t names;
};

/* A number that does not fit in the head of the file is in the first section's
 * header. */
static bool
find_sections(int fd, struct sections *sections)
{
	ElfW(Ehdr) head;
	ElfW(Shdr) first;
	ElfW(Shdr) names;

	if (!read_at(fd, &head, sizeof(head), 0) ||
	    memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 ||
	    !read_at(fd, &first, sizeof(first), head.e_shoff))
		return false;
	uint64_t index = head.e_shstrndx;

	if (index == SHN_XINDEX)
		index = first.sh_link;
	if (!read_at(fd, &names, sizeof(names),
		head.e_shoff + index * sizeof(names)))
		return false;
	sections->offset = head.e_shoff;
	sections->n = head.e_shnum != 0 ? head.e_shnum : first.sh_size;
	sections->names = names.sh_offset;
	return true;
}

/* True if it is a table of lines that the reader takes as it is in the file. */
static bool
is_line_section(
    int fd, const struct sections *sections, const ElfW(Shdr) * section)
{
	static const char wanted[] = ".debug_line";
	char name[sizeof(wanted)];

	return (section->sh_flags & SHF_COMPRESSED) == 0 &&
	    read_at(
		fd, name, sizeof(name), sections->names + section->sh_name) &&
	    memcmp(name, wanted, sizeof(name)) == 0;
}

/* A section of which the file says that it ends behind the part ends with the
 * part. */
void
dwarf_line_repair_part(int fd, off_t offset, unsigned char *bytes, size_t size)
{
	struct sections sections;
	ElfW(Shdr) section;

	if (!find_sections(fd, &sections))
		return;
	for (uint64_t i = 0; i < sections.n; i++) {
		if (!read_at(fd, &section, sizeof(section),
			sections.offset + i * sizeof(section)))
			return;
		uint64_t at = section.sh_offset - (uint64_t)offset;

		if (at >= size || !is_line_section(fd, &sections, &section))
			continue;
		dwarf_line_repair(bytes + at,
		    section.sh_size < size - at ? section.sh_size : size - at);
	}
}
