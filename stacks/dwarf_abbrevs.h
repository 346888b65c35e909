/*
 * Abbreviations of DWARF, the section .debug_abbrev: tables in which units
 * declare, by a code, which attributes their entries have. libbacktrace reads
 * the table of a unit again for each unit; weir reads each table once and keeps
 * it, because many units may share one. Every number may be wrong.
 */
#ifndef STACKS_DWARF_ABBREVS_H
#define STACKS_DWARF_ABBREVS_H

#include "stacks/dwarf_bytes.h"

/* The declaration of all entries with one code. */
struct abbrev {
	struct rest attributes; /* for abbrev_attribute() */
	uint64_t tag;
	bool has_children;
};

/* A table of abbreviations. Callers read its length only. */
struct abbrev_table {
	struct abbrev_table *next;
	size_t bytes;    /* size of this allocation */
	uint64_t length; /* length of the table in the section */
	size_t count;
	/* The offset in the section of each code's declaration, plus 1; 0:
	 * none. */
	uint32_t at[];
};

/* A section and the tables that were read. */
struct abbrevs {
	struct rest section;
	struct abbrev_table *tables; /* list, the latest first */
	struct abbrev_table **by_offset;
};

/*
 * Prepare for reading tables of a section, whose bytes must outlast this.
 * False without memory, or if the section is empty, is too large for 32 bits,
 * or has a number with more bytes than any valid number. abbrevs_end() is
 * needed in any case.
 */
bool abbrevs_begin(struct abbrevs *abbrevs, struct rest section);
void abbrevs_end(struct abbrevs *abbrevs);

/*
 * The table at an offset, which lasts until abbrevs_end(). NULL without memory,
 * or if the table does not end, has no code, declares one twice, has attributes
 * that are refused, or does not number codes consecutively as compilers do.
 *
 * The first call for an offset reads the table, which takes time proportional
 * to its length. Later calls find it.
 */
const struct abbrev_table *abbrevs_table(
    struct abbrevs *abbrevs, uint64_t offset);

/* Find the declaration of a code; false if there is none. */
bool abbrevs_find(const struct abbrevs *abbrevs,
    const struct abbrev_table *table, uint64_t code, struct abbrev *out);

/* Read the name and the form of the next attribute. Both are 0 at the end.
 * False if the bytes end, if a number needs more than 32 bits, or if only the
 * name is 0. The table of abbrevs_table() has no such attributes. */
bool abbrev_attribute(struct rest *attributes, uint64_t *name, uint64_t *form);

#endif
