/*
 * Entries of DWARF, the section .debug_info. libbacktrace reads nested entries,
 * and entries that others refer to for their names, by recursion without a
 * bound. Corrupt ones would overflow the stack.
 */
#ifndef TRACE_DWARF_INFO_H
#define TRACE_DWARF_INFO_H

#include "trace/dwarf_bytes.h"

/* The deepest nesting of entries, and the most references that may be followed
 * for one name. Compilers nest some dozens, and make chains of two. */
enum { DWARF_DEPTH_MAX = 256, DWARF_CHAIN_MAX = 16 };

/*
 * Does reading all entries stay within these bounds? False also without memory.
 * Entries that the reader never reaches, because it refuses something before
 * them, do not count.
 *
 * @param abbrevs  the section .debug_abbrev
 */
bool dwarf_info_is_bounded(struct rest info, struct rest abbrevs);

#endif
