/*
 * Entries of DWARF, the section .debug_info. libbacktrace reads nested entries,
 * and entries that others refer to for their names, by recursion without a
 * bound. It reads the abbreviations of each unit and the ranges of each entry
 * again, and adds indexes and offsets that may wrap around. Corrupt entries
 * could end the process or take hours.
 */
#ifndef STACKS_DWARF_INFO_H
#define STACKS_DWARF_INFO_H

#include "stacks/dwarf_bytes.h"

/* The deepest nesting of entries, and the most references that may be followed
 * for one name. Compilers nest some dozens, and make chains of two. */
enum { DWARF_DEPTH_MAX = 256, DWARF_CHAIN_MAX = 16 };

/* The sections; a missing one has no bytes. */
struct dwarf_sections {
	struct rest info;
	struct rest abbrevs;
	struct rest line; /* after dwarf_line_repair() */
	struct rest ranges;
	struct rest rnglists;
};

/*
 * Are all entries within these bounds and as compilers write them, so that the
 * reader's time is proportional to the sections? False also without memory. The
 * bytes are in the machine's byte order.
 */
bool dwarf_info_is_sound(const struct dwarf_sections *sections);

#endif
