/*
 * ELF files as libbacktrace may see them. libbacktrace trusts the contents of a
 * file, so a corrupt file would end the process.
 *
 * A file that was opened here seems longer than it is: sections of debug
 * information follow its end, one after the other, inflated and checked. The
 * section headers point to them there, and sections that are not checked have
 * no name.
 *
 * The file may change while it is open. Everything that decides which sections
 * the reader sees, and where, is read once and kept: the file's header, the
 * section headers and their names. What the reader trusts in other parts is
 * checked in the bytes that it gets.
 */
#ifndef STACKS_ELF_PART_H
#define STACKS_ELF_PART_H

#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The sections that the reader uses. */
enum elf_debug {
	ELF_DEBUG_INFO,
	ELF_DEBUG_LINE,
	ELF_DEBUG_ABBREV,
	ELF_DEBUG_RANGES,
	ELF_DEBUG_ADDR,
	ELF_DEBUG_STR_OFFSETS,
	ELF_DEBUG_LINE_STR,
	ELF_DEBUG_RNGLISTS,
	ELF_DEBUG_STR,
	ELF_DEBUG_COUNT,
};

struct elf_debug_section {
	uint64_t index;  /* index of its header; 0: there is no such section */
	uint64_t offset; /* offset in the file */
	uint64_t stored; /* bytes in the file */
	uint64_t place;  /* offset that the reader sees */
	uint64_t size;   /* bytes that the reader sees */
	bool is_compressed;
};

struct elf_file {
	int fd;
	uint64_t size;    /* real size of the file */
	uint64_t end;     /* end of the file that the reader sees */
	uint64_t headers; /* offset of the section headers; 0: hidden */
	uint64_t header_count;
	uint64_t names_index; /* index of the header of the section of names */
	uint64_t names;       /* offset of that section */
	uint64_t names_size;
	ElfW(Ehdr) head;     /* as the reader sees it; of zeros: unread */
	unsigned char *kept; /* the section headers, then the names; or NULL */
	struct elf_debug_section debug[ELF_DEBUG_COUNT];
};

/* Examine a file. A file that is not an ELF file, or is corrupt, is not
 * changed, but seems to have no sections; so does any file without memory for
 * its headers. */
void elf_file_open(struct elf_file *file, int fd);

/* Free what is kept. The descriptor stays open. */
void elf_file_close(struct elf_file *file);

/* Does the file that the reader sees have such a part? */
bool elf_part_exists(const struct elf_file *file, uint64_t offset, size_t size);

/* Read an existing part into a buffer of zeros. False without memory, or if the
 * file cannot be read. */
bool elf_part_read(const struct elf_file *file, uint64_t offset,
    unsigned char *bytes, size_t size);

#endif
