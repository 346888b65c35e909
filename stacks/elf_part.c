/*
 * Every number here may be wrong, because it comes from a file.
 */
#include "stacks/elf_part.h"

#include <elf.h>
#include <errno.h>
#include <link.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/meta.h"
#include "stacks/budget.h"
#include "stacks/dwarf_info.h"
#include "stacks/dwarf_line.h"
#include "stacks/inflate.h"

static bool
read_at(int fd, void *to, size_t size, uint64_t offset)
{
	char *next = to;

	while (size > 0) {
		ssize_t n = pread(fd, next, size, (off_t)offset);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		next += n;
		offset += (uint64_t)n;
		size -= (size_t)n;
	}
	return true;
}

static bool
lies_in_file(const struct elf_file *file, uint64_t offset, uint64_t size)
{
	return offset <= file->size && size <= file->size - offset;
}

/* ---- Headers of sections ------------------------------------------------- */

/* Longer than all names that the reader looks for. */
enum { NAME_ROOM = 24 };

static size_t
headers_size(const struct elf_file *file)
{
	return file->header_count * sizeof(ElfW(Shdr));
}

/*
 * Copy the section's name as the reader sees it; for that the section of names
 * ends with a zero. The name is cut to NAME_ROOM, and empty if there is none.
 */
static void
copy_name(const struct elf_file *file, const ElfW(Shdr) * section,
    char name[NAME_ROOM])
{
	size_t size = NAME_ROOM - 1;

	memset(name, 0, NAME_ROOM);
	if (section->sh_name >= file->names_size)
		return;
	if (size > file->names_size - section->sh_name)
		size = file->names_size - section->sh_name;
	memcpy(name, file->kept + headers_size(file) + section->sh_name, size);
}

static bool
starts_with(const char *name, const char *start)
{
	return strncmp(name, start, strlen(start)) == 0;
}

static ElfW(Shdr) section_header(const struct elf_file *file, uint64_t index)
{
	ElfW(Shdr) section;

	memcpy(&section, file->kept + index * sizeof(section), sizeof(section));
	return section;
}

/* Read the section headers, of which the first has been read already, and the
 * names of the sections. */
static bool
keep_headers(struct elf_file *file, const ElfW(Shdr) * first)
{
	enum { NAMES_MAX = 4 << 20 };
	size_t size = headers_size(file);
	unsigned char *headers = meta_map(size);
	ElfW(Shdr) names;
	bool good = false;

	if (headers == NULL)
		return false;
	if (!read_at(file->fd, headers, size, file->headers))
		goto unmap;
	memcpy(headers, first, sizeof(*first));
	memcpy(
	    &names, headers + file->names_index * sizeof(names), sizeof(names));
	if (names.sh_size == 0 || names.sh_size > NAMES_MAX ||
	    !lies_in_file(file, names.sh_offset, names.sh_size))
		goto unmap;
	file->names = names.sh_offset;
	file->names_size = names.sh_size;
	file->kept = meta_map(size + names.sh_size);
	if (file->kept == NULL)
		goto unmap;
	memcpy(file->kept, headers, size);
	good = read_at(
	    file->fd, file->kept + size, names.sh_size, names.sh_offset);

unmap:
	meta_unmap(headers, size);
	return good;
}

/*
 * Find the section headers as the reader does, which stores their number in 32
 * bits. The first section header holds the numbers that do not fit in the
 * file's header. False if the reader must not see the headers.
 */
static bool
find_headers(struct elf_file *file, const ElfW(Ehdr) * head)
{
	/* Programs and libraries have some dozens of sections. */
	enum { SECTIONS_MAX = 1 << 16 };
	ElfW(Shdr) first;

	file->headers = head->e_shoff;
	if (!lies_in_file(file, file->headers, sizeof(first)) ||
	    !read_at(file->fd, &first, sizeof(first), file->headers))
		return false;
	file->header_count =
	    head->e_shnum != 0 ? head->e_shnum : (uint32_t)first.sh_size;
	file->names_index =
	    head->e_shstrndx != SHN_XINDEX ? head->e_shstrndx : first.sh_link;
	return file->header_count <= SECTIONS_MAX && file->names_index != 0 &&
	    file->names_index < file->header_count &&
	    lies_in_file(file, file->headers, headers_size(file)) &&
	    keep_headers(file, &first);
}

/* ---- Places of debug information ----------------------------------------- */

static const char *const debug_names[ELF_DEBUG_COUNT] = {
	[ELF_DEBUG_INFO] = ".debug_info",
	[ELF_DEBUG_LINE] = ".debug_line",
	[ELF_DEBUG_ABBREV] = ".debug_abbrev",
	[ELF_DEBUG_RANGES] = ".debug_ranges",
	[ELF_DEBUG_ADDR] = ".debug_addr",
	[ELF_DEBUG_STR_OFFSETS] = ".debug_str_offsets",
	[ELF_DEBUG_LINE_STR] = ".debug_line_str",
	[ELF_DEBUG_RNGLISTS] = ".debug_rnglists",
	[ELF_DEBUG_STR] = ".debug_str",
};

/* The section of debug information with that name, or NULL. */
static struct elf_debug_section *
debug_named(struct elf_file *file, const char *name)
{
	for (int i = 0; i < ELF_DEBUG_COUNT; i++)
		if (strcmp(name, debug_names[i]) == 0)
			return &file->debug[i];
	return NULL;
}

/* The inflated size of a compressed section; 0 if it must not be inflated. */
static uint64_t
inflated_size(const struct elf_file *file, const ElfW(Shdr) * section)
{
	struct budget budget = { .stored = section->sh_size };
	ElfW(Chdr) head;

	if (section->sh_size <= sizeof(head) ||
	    !read_at(file->fd, &head, sizeof(head), section->sh_offset) ||
	    head.ch_type != ELFCOMPRESS_ZLIB ||
	    head.ch_size / INFLATE_RATIO_MAX > section->sh_size)
		return 0;
	budget.decoded = head.ch_size;
	return head.ch_size <= budget_limit(&budget) ? head.ch_size : 0;
}

/* Record a section that the reader may see; of two with one name, the first. */
static void
note_debug(struct elf_file *file, struct elf_debug_section *debug,
    uint64_t index, const ElfW(Shdr) * section)
{
	bool is_compressed = (section->sh_flags & SHF_COMPRESSED) != 0;
	uint64_t size = section->sh_size;

	if (debug->index != 0 || index == file->names_index ||
	    section->sh_type == SHT_NOBITS ||
	    !lies_in_file(file, section->sh_offset, section->sh_size))
		return;
	if (is_compressed)
		size = inflated_size(file, section);
	if (size == 0)
		return;
	*debug = (struct elf_debug_section){ .index = index,
		.offset = section->sh_offset,
		.stored = section->sh_size,
		.size = size,
		.is_compressed = is_compressed };
}

static void
find_debug(struct elf_file *file)
{
	struct elf_debug_section *debug;
	char name[NAME_ROOM];

	for (uint64_t i = 1; i < file->header_count; i++) {
		ElfW(Shdr) section = section_header(file, i);

		copy_name(file, &section, name);
		debug = debug_named(file, name);
		if (debug != NULL)
			note_debug(file, debug, i, &section);
	}
}

/* Give each section a place behind the file's end. There is a gap before each,
 * because the reader may read some bytes before a section. */
static void
place_debug(struct elf_file *file)
{
	enum { PAGE = 4096, GAP = 64 };
	uint64_t place = (file->size + 2 * PAGE) & -(uint64_t)PAGE;

	for (int i = 0; i < ELF_DEBUG_COUNT; i++) {
		struct elf_debug_section *debug = &file->debug[i];

		if (debug->index == 0)
			continue;
		debug->place = place;
		place += debug->size + GAP;
		file->end = place - GAP;
	}
}

static bool
is_native(const ElfW(Ehdr) * head)
{
	static const uint16_t one = 1;
	unsigned char order =
	    *(const unsigned char *)&one == 1 ? ELFDATA2LSB : ELFDATA2MSB;

	return memcmp(head->e_ident, ELFMAG, SELFMAG) == 0 &&
	    head->e_ident[EI_CLASS] ==
	    (sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32) &&
	    head->e_ident[EI_DATA] == order;
}

void
elf_file_open(struct elf_file *file, int fd)
{
	struct stat status;
	ElfW(Ehdr) *head = &file->head;

	*file = (struct elf_file){ .fd = fd };
	if (fstat(fd, &status) != 0 || status.st_size < 0)
		return;
	file->size = file->end = (uint64_t)status.st_size;
	if (!read_at(fd, head, sizeof(*head), 0)) {
		memset(head, 0, sizeof(*head));
		return;
	}
	if (!is_native(head) || !find_headers(file, head)) {
		elf_file_close(file);
		file->headers = 0;
		head->e_shoff = 0;
		head->e_shnum = 0;
		head->e_shstrndx = 0;
		return;
	}
	find_debug(file);
	place_debug(file);
}

void
elf_file_close(struct elf_file *file)
{
	if (file->kept != NULL)
		meta_unmap(file->kept, headers_size(file) + file->names_size);
	file->kept = NULL;
}

/* ---- The headers as the reader sees them ----------------------------------
 */

/* The name of a build ID's section. */
static const char build_id_name[] = ".note.gnu.build-id";

/* The reader trusts the length of a build ID. */
static bool
build_id_is_sound(const unsigned char *bytes, uint64_t size)
{
	enum { NAME_SIZE = 4 }; /* of "GNU" */
	ElfW(Nhdr) note;

	if (size < sizeof(note) + NAME_SIZE)
		return false;
	memcpy(&note, bytes, sizeof(note));
	return note.n_descsz <= size - sizeof(note) - NAME_SIZE;
}

static bool
build_id_fits(const struct elf_file *file, const ElfW(Shdr) * section)
{
	unsigned char bytes[sizeof(ElfW(Nhdr))];

	return section->sh_size >= sizeof(bytes) &&
	    lies_in_file(file, section->sh_offset, section->sh_size) &&
	    read_at(file->fd, bytes, sizeof(bytes), section->sh_offset) &&
	    build_id_is_sound(bytes, section->sh_size);
}

/* Check a part that is a build ID in the bytes that the reader gets. */
static bool
is_sound_part(const struct elf_file *file, uint64_t offset,
    const unsigned char *bytes, size_t size)
{
	char name[NAME_ROOM];

	for (uint64_t i = 1; i < file->header_count; i++) {
		ElfW(Shdr) section = section_header(file, i);

		if (section.sh_offset != offset || section.sh_size != size)
			continue;
		copy_name(file, &section, name);
		if (strcmp(name, build_id_name) == 0 &&
		    !build_id_is_sound(bytes, size))
			return false;
	}
	return true;
}

/* May the reader see a section that has no debug information? */
static bool
may_be_seen(
    const struct elf_file *file, const ElfW(Shdr) * section, const char *name)
{
	if (strcmp(name, build_id_name) == 0)
		return build_id_fits(file, section);
	return !starts_with(name, ".debug_") &&
	    !starts_with(name, ".zdebug_") &&
	    strcmp(name, ".gnu_debugdata") != 0 &&
	    strcmp(name, ".gnu_debugaltlink") != 0 && strcmp(name, ".opd") != 0;
}

/* Is it a table of symbols whose names are no section? The reader looks in
 * front of the headers for section 0. */
static bool
lacks_names(const struct elf_file *file, const ElfW(Shdr) * section)
{
	return (section->sh_type == SHT_SYMTAB ||
		   section->sh_type == SHT_DYNSYM) &&
	    (section->sh_link == 0 || section->sh_link >= file->header_count);
}

static void
repair_header(const struct elf_file *file, uint64_t index, ElfW(Shdr) * section)
{
	char name[NAME_ROOM];

	if (lacks_names(file, section))
		section->sh_type = SHT_NULL;
	for (int i = 0; i < ELF_DEBUG_COUNT; i++) {
		const struct elf_debug_section *debug = &file->debug[i];

		if (debug->index != index)
			continue;
		section->sh_offset = debug->place;
		section->sh_size = debug->size;
		section->sh_flags &= ~(ElfW(Xword))SHF_COMPRESSED;
		return;
	}
	copy_name(file, section, name);
	/* The reader looks for no name of one character. */
	if (!may_be_seen(file, section, name))
		section->sh_name = (ElfW(Word))(file->names_size - 1);
}

/* Copy the section headers, except the first, as the reader sees them. */
static void
copy_headers(const struct elf_file *file, unsigned char *bytes)
{
	for (uint64_t i = 1; i < file->header_count; i++) {
		ElfW(Shdr) section = section_header(file, i);

		repair_header(file, i, &section);
		memcpy(bytes + (i - 1) * sizeof(section), &section,
		    sizeof(section));
	}
}

/* Copy a part that is kept; false if the part is none of those. */
static bool
copy_kept(const struct elf_file *file, uint64_t offset, unsigned char *bytes,
    size_t size)
{
	const size_t header = sizeof(ElfW(Shdr));

	if (offset == 0 && size == sizeof(file->head)) {
		memcpy(bytes, &file->head, size);
		return true;
	}
	if (file->kept == NULL)
		return false;
	if (offset == file->headers && size == header)
		memcpy(bytes, file->kept, size);
	else if (offset == file->headers + header &&
	    size == headers_size(file) - header)
		copy_headers(file, bytes);
	else if (offset == file->names && size == file->names_size)
		memcpy(bytes, file->kept + headers_size(file), size);
	else
		return false;
	return true;
}

/* ---- Debug information --------------------------------------------------- */

static bool
read_debug(const struct elf_file *file, const struct elf_debug_section *debug,
    unsigned char *bytes)
{
	unsigned char *packed;
	bool good;

	if (!debug->is_compressed)
		return read_at(file->fd, bytes, debug->size, debug->offset);
	packed = meta_map(debug->stored);
	if (packed == NULL)
		return false;
	good = read_at(file->fd, packed, debug->stored, debug->offset) &&
	    inflate_exactly(packed + sizeof(ElfW(Chdr)),
		debug->stored - sizeof(ElfW(Chdr)), bytes, debug->size);
	meta_unmap(packed, debug->stored);
	return good;
}

/* Let no text of a section, which lies in the part, be so long that comparing
 * very many takes minutes. */
static void
cut_texts(unsigned char *part, const struct rest *section)
{
	enum { TEXT_MAX = 64 << 10 };
	size_t size = section->left;
	unsigned char *bytes = size == 0 ? NULL : part + (section->at - part);

	while (size > TEXT_MAX) {
		unsigned char *end = memrchr(bytes, 0, TEXT_MAX);

		if (end == NULL) {
			end = bytes + TEXT_MAX - 1;
			*end = 0;
		}
		size -= (size_t)(end + 1 - bytes);
		bytes = end + 1;
	}
}

/* Read all sections of debug information that lie in the part. */
static bool
read_all_debug(const struct elf_file *file, uint64_t offset,
    unsigned char *bytes, size_t size)
{
	struct rest found[ELF_DEBUG_COUNT] = { { 0 } };

	for (int i = 0; i < ELF_DEBUG_COUNT; i++) {
		const struct elf_debug_section *debug = &file->debug[i];
		uint64_t at = debug->place - offset;

		if (debug->index == 0 || debug->place < offset || at > size ||
		    debug->size > size - at)
			continue;
		if (!read_debug(file, debug, bytes + at))
			return false;
		found[i] = (struct rest){ bytes + at, debug->size };
	}
	if (found[ELF_DEBUG_LINE].left > 0)
		dwarf_line_repair(bytes + (found[ELF_DEBUG_LINE].at - bytes),
		    found[ELF_DEBUG_LINE].left);
	cut_texts(bytes, &found[ELF_DEBUG_STR]);
	cut_texts(bytes, &found[ELF_DEBUG_LINE_STR]);
	struct dwarf_sections sections = { .info = found[ELF_DEBUG_INFO],
		.abbrevs = found[ELF_DEBUG_ABBREV],
		.line = found[ELF_DEBUG_LINE],
		.ranges = found[ELF_DEBUG_RANGES],
		.rnglists = found[ELF_DEBUG_RNGLISTS] };

	return sections.info.left == 0 || dwarf_info_is_sound(&sections);
}

/* ---- Parts --------------------------------------------------------------- */

bool
elf_part_exists(const struct elf_file *file, uint64_t offset, size_t size)
{
	return size > 0 &&
	    (lies_in_file(file, offset, size) ||
		(offset > file->size && offset <= file->end &&
		    size <= file->end - offset));
}

bool
elf_part_read(const struct elf_file *file, uint64_t offset,
    unsigned char *bytes, size_t size)
{
	if (offset > file->size)
		return read_all_debug(file, offset, bytes, size);
	if (copy_kept(file, offset, bytes, size))
		return true;
	return read_at(file->fd, bytes, size, offset) &&
	    (file->kept == NULL || is_sound_part(file, offset, bytes, size));
}
