/*
 * Parts of ELF files as libbacktrace asks for them. It believes the headers of
 * sections, and inflates compressed sections itself, so that a corrupt file
 * would end the process.
 */
#ifndef TRACE_ELF_PART_H
#define TRACE_ELF_PART_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* The reader's own way to inflate a section of the form .zdebug_line. */
struct elf_inflater {
	/* The inflated bytes, as many as the head of `bytes` says, or NULL. */
	unsigned char *(*inflate)(
	    void *user, const unsigned char *bytes, size_t size);
	void (*drop)(void *user, unsigned char *inflated, size_t size);
	void *user;
};

/*
 * Repair what there is among `size` bytes of an ELF file, which begin at
 * `offset` in it:
 *
 * - Tables of lines (dwarf_line.h).
 * - Headers of sections. A section of debug information that does not lie
 * within the file gets the size 0, for which the reader leaves it out. So does
 * a compressed table of lines that would need a repair when it is inflated.
 *   Without an inflater these stay as they are, and so do those that zlib has
 *   not compressed.
 * - Entries that have no bound (dwarf_info.h) are erased, if they are in the
 * part with their abbreviations, not compressed, and no more than 16 MiB.
 */
void elf_part_repair(int fd, off_t offset, unsigned char *bytes, size_t size,
    const struct elf_inflater *inflater);

#endif
