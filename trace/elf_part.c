/*
 * Parts of ELF files, made harmless before libbacktrace reads them. Every
 * number here may be wrong: it comes from a file.
 */
#include "trace/elf_part.h"

#include <elf.h>
#include <link.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/meta.h"
#include "trace/dwarf_info.h"
#include "trace/dwarf_line.h"

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

enum { NAME_ROOM = 16 }; /* longer than any name that is looked for */

static bool
section_is_named(const char *name, const char *wanted)
{
	return strncmp(name, wanted, NAME_ROOM) == 0;
}

/* The section's name, cut to its room; empty if there is none. */
static void
section_read_name(int fd, const struct sections *sections,
    const ElfW(Shdr) * section, char name[NAME_ROOM])
{
	ssize_t n = pread(fd, name, NAME_ROOM - 1,
	    (off_t)(sections->names + section->sh_name));

	name[n > 0 ? n : 0] = '\0';
}

static bool
section_is_compressed(const ElfW(Shdr) * section)
{
	return (section->sh_flags & SHF_COMPRESSED) != 0;
}

/* ---- Compressed tables of lines ------------------------------------------ */

/* The form that the reader's own function takes: these bytes, the inflated
 * size in eight bytes with the highest first, and what zlib wrote. */
static const char old_magic[] = { 'Z', 'L', 'I', 'B' };
enum {
	OLD_HEAD = sizeof(old_magic) + sizeof(uint64_t),
	ZLIB_RATIO = 1032, /* zlib makes no byte of more */
};

static void
write_old_head(unsigned char *head, uint64_t size)
{
	memcpy(head, old_magic, sizeof(old_magic));
	for (int i = 0; i < 8; i++)
		head[sizeof(old_magic) + i] =
		    (unsigned char)(size >> (56 - 8 * i));
}

static uint64_t
old_size(const unsigned char *head)
{
	uint64_t size = 0;

	for (int i = 0; i < 8; i++)
		size = size << 8 | head[sizeof(old_magic) + i];
	return size;
}

/*
 * Read a section compressed by zlib into `bytes`, of the section's size, in the
 * old form; *size is its size there. False if it is of another kind.
 */
static bool
read_compressed(
    int fd, const ElfW(Shdr) * section, unsigned char *bytes, size_t *size)
{
	ElfW(Chdr) head;

	*size = section->sh_size;
	if (*size < sizeof(head) ||
	    !read_at(fd, bytes, *size, section->sh_offset))
		return false;
	if (!section_is_compressed(section))
		return memcmp(bytes, old_magic, sizeof(old_magic)) == 0;
	memcpy(&head, bytes, sizeof(head));
	if (head.ch_type != ELFCOMPRESS_ZLIB)
		return false;
	/* The new head is as long as the old one, or longer. */
	*size -= sizeof(head) - OLD_HEAD;
	memmove(bytes + OLD_HEAD, bytes + sizeof(head), *size - OLD_HEAD);
	write_old_head(bytes, head.ch_size);
	return true;
}

/* True if the tables of a compressed section need no repair, or if the reader
 * does not know how to inflate them. */
static bool
inflates_to_sound_tables(
    int fd, const ElfW(Shdr) * section, const struct elf_inflater *inflater)
{
	unsigned char *bytes = meta_map(section->sh_size);
	unsigned char *inflated;
	bool sound = true;
	size_t size;

	if (bytes == NULL)
		return false;
	if (read_compressed(fd, section, bytes, &size)) {
		uint64_t length = old_size(bytes);

		inflated = length / ZLIB_RATIO > size ?
		    NULL :
		    inflater->inflate(inflater->user, bytes, size);
		sound = inflated != NULL &&
		    !dwarf_line_repair(inflated, (size_t)length);
		if (inflated != NULL)
			inflater->drop(
			    inflater->user, inflated, (size_t)length);
	}
	meta_unmap(bytes, section->sh_size);
	return sound;
}

/* ---- Headers of sections ------------------------------------------------- */

static bool
section_lies_in_file(const struct stat *file, const ElfW(Shdr) * section)
{
	uint64_t size = (uint64_t)file->st_size;

	return section->sh_offset <= size &&
	    section->sh_size <= size - section->sh_offset;
}

/* True if the reader may have this section: it need not exist. */
static bool
section_is_harmless(int fd, const struct sections *sections,
    const ElfW(Shdr) * section, const struct elf_inflater *inflater)
{
	struct stat file;
	char name[NAME_ROOM];

	section_read_name(fd, sections, section, name);
	if (strncmp(name, ".debug_", 7) != 0 &&
	    strncmp(name, ".zdebug_", 8) != 0)
		return true;
	if (fstat(fd, &file) != 0 || !section_lies_in_file(&file, section))
		return false;
	return section->sh_size == 0 || inflater == NULL ||
	    !(section_is_named(name, ".zdebug_line") ||
		(section_is_named(name, ".debug_line") &&
		    section_is_compressed(section))) ||
	    inflates_to_sound_tables(fd, section, inflater);
}

/* ---- Parts ----------------------------------------------------------------
 */

/* The sections of a part that are looked at together. */
struct found {
	struct rest info;
	struct rest abbrevs;
};

/* Repair a section that begins in the part, `size` bytes before its end, or
 * note it. */
static void
repair_section(const char *name, const ElfW(Shdr) * section,
    unsigned char *bytes, size_t size, struct found *found)
{
	struct rest all = { bytes, section->sh_size };

	if (section_is_compressed(section))
		return;
	/* One that ends behind the part ends with the part. */
	if (section_is_named(name, ".debug_line"))
		dwarf_line_repair(
		    bytes, section->sh_size < size ? section->sh_size : size);
	if (section->sh_size > size)
		return;
	if (section_is_named(name, ".debug_info"))
		found->info = all;
	else if (section_is_named(name, ".debug_abbrev"))
		found->abbrevs = all;
}

void
elf_part_repair(int fd, off_t offset, unsigned char *bytes, size_t size,
    const struct elf_inflater *inflater)
{
	/* Bytes of entries that are read before the reader does; it takes 0.15
	 * s. */
	enum { CHECKED_MAX = 16 << 20 };
	struct found found = { .info = { 0 } };
	struct sections sections;
	ElfW(Shdr) section;
	char name[NAME_ROOM];

	if (!find_sections(fd, &sections))
		return;
	for (uint64_t i = 0; i < sections.n; i++) {
		uint64_t header = sections.offset + i * sizeof(section);

		if (!read_at(fd, &section, sizeof(section), header))
			break;
		header -= (uint64_t)offset;
		if (header < size && size - header >= sizeof(section) &&
		    !section_is_harmless(fd, &sections, &section, inflater)) {
			section.sh_size = 0;
			memcpy(bytes + header, &section, sizeof(section));
		}
		uint64_t at = section.sh_offset - (uint64_t)offset;

		section_read_name(fd, &sections, &section, name);
		if (at < size)
			repair_section(
			    name, &section, bytes + at, size - at, &found);
	}
	if (found.info.left > 0 && found.info.left <= CHECKED_MAX &&
	    found.abbrevs.left > 0 &&
	    !dwarf_info_is_bounded(found.info, found.abbrevs))
		memset(bytes + (found.info.at - bytes), 0, found.info.left);
}
