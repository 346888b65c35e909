/*
 * Line tables of DWARF, the section .debug_line. libbacktrace divides by two
 * numbers of a table's header and does not look whether they are 0, and it
 * believes a table's length and how many folders and files a table of version 5
 * has. A corrupt table would end the process.
 */
#ifndef TRACE_DWARF_LINE_H
#define TRACE_DWARF_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Make a section harmless; true if that changes it. The bytes are in the
 * machine's byte order. In each table a divisor of 0 becomes 1. A table whose
 * header, lists or program are not as compilers make them gets version 0, which
 * the reader refuses: lists that do not fit in the header, addresses of another
 * size than the machine's, a program that is cut or defines files. A table that
 * does not end within the section is erased, with all bytes behind it.
 */
bool dwarf_line_repair(unsigned char *section, size_t size);

#endif
