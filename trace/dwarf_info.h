/*
 * Entries of DWARF, the section .debug_info. libbacktrace reads nested entries,
 * and the entries that others refer to for their names, by recursion without a
 * bound, so that corrupt ones overflow the stack.
 */
#ifndef TRACE_DWARF_INFO_H
#define TRACE_DWARF_INFO_H

#include "trace/dwarf_bytes.h"

/* How deep entries may be nested, and how many references may be followed for a
 * name. Compilers nest some dozens, and make chains of two. */
enum { DWARF_DEPTH_MAX = 256, DWARF_CHAIN_MAX = 16 };

/*
 * True if reading all entries stays within these bounds; false also without
 * memory. What the reader does not come to, because it refuses something
 * before, does not count.
 *
 * @param abbrevs  the section .debug_abbrev
 */
bool dwarf_info_is_bounded(struct rest info, struct rest abbrevs);

#endif
