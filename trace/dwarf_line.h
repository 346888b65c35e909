/*
 * Line tables of DWARF, the section .debug_line. libbacktrace divides by two
 * numbers of a table's header and does not look whether they are 0, and it
 * believes a table's length. A corrupt table would end the process.
 */
#ifndef TRACE_DWARF_LINE_H
#define TRACE_DWARF_LINE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * Make a section harmless. The bytes are in the machine's byte order. In each
 * table a divisor of 0 becomes 1. A table that does not end within the section
 * is erased, with all bytes behind it: the reader refuses version 0.
 */
void dwarf_line_repair(unsigned char *section, size_t size);

/*
 * Repair the line tables among `size` bytes of an ELF file, which begin at
 * `offset` in it. A section that is compressed stays as it is.
 */
void dwarf_line_repair_part(
    int fd, off_t offset, unsigned char *bytes, size_t size);

#endif
