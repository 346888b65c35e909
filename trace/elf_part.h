/*
 * ELF files as libbacktrace may see them. It believes what a file says, so that
 * a corrupt one would end the process.
 *
 * A file that was opened here looks longer than it is: sections of debug
 * information lie behind its end, one after the other, inflated and checked.
 * The headers of sections lead there, and have no name for what is not checked.
 */
#ifndef TRACE_ELF_PART_H
#define TRACE_ELF_PART_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The sections that the reader knows. */
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
	uint64_t index;  /* of its header; 0: there is no such section */
	uint64_t offset; /* in the file */
	uint64_t stored; /* bytes there */
	uint64_t place;  /* where it seems to be */
	uint64_t size;   /* bytes that it seems to have */
	bool is_compressed;
};

struct elf_file {
	int fd;
	uint64_t size;    /* bytes in the file */
	uint64_t end;     /* of the file as it seems to be */
	uint64_t headers; /* where they are; 0: none that the reader may have */
	uint64_t header_count;
	uint64_t names_index; /* of the header of the names of sections */
	uint64_t names;       /* where those are */
	uint64_t names_size;
	struct elf_debug_section debug[ELF_DEBUG_COUNT];
};

/* Look at a file. A file that is no ELF file, or a corrupt one, is as it is,
 * but seems to have no sections. */
void elf_file_open(struct elf_file *file, int fd);

/* True if the file seems to have such a part. */
bool elf_part_exists(const struct elf_file *file, uint64_t offset, size_t size);

/* Read a part that exists into bytes that are 0. False without memory, or if
 * the file cannot be read. */
bool elf_part_read(const struct elf_file *file, uint64_t offset,
    unsigned char *bytes, size_t size);

#endif
