/*
 * Line tables of DWARF, the section .debug_line. libbacktrace divides by two
 * numbers of a table's header without checking for 0. It also trusts a table's
 * length, and the numbers of folders and files in a version 5 table. A corrupt
 * table would end the process.
 */
#ifndef STACKS_DWARF_LINE_H
#define STACKS_DWARF_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Make a section safe to read; true if that changes it. The bytes are in the
 * machine's byte order. In each table a divisor of 0 becomes 1. A table gets
 * version 0, which the reader refuses, if its lists do not fit in the header,
 * its addresses have another size than the machine's, or its program is cut or
 * defines files. A table that does not end within the section is erased, with
 * all bytes after it.
 */
bool dwarf_line_repair(unsigned char *section, size_t size);

#endif
