/*
 * Tables are found by their offset: an array with a place for each byte of the
 * section, of which the system provides only the pages that are used.
 */
#include "stacks/dwarf_abbrevs.h"

#include "base/meta.h"

/* Read a number, of which the reader keeps 32 bits. */
static bool
read_short(struct rest *rest, uint64_t *out)
{
	return rest_uleb(rest, out) && *out <= UINT32_MAX;
}

bool
abbrev_attribute(struct rest *attributes, uint64_t *name, uint64_t *form)
{
	uint64_t value;

	if (!read_short(attributes, name) || !read_short(attributes, form))
		return false;
	if (*name == 0)
		return *form == 0;
	return *form != FORM_IMPLICIT_CONST || rest_uleb(attributes, &value);
}

/* Read a declaration; *code is 0 at the end of a table. */
static bool
read_abbrev(struct rest *rest, uint64_t *code, struct abbrev *out)
{
	uint64_t children;
	uint64_t name;
	uint64_t form;

	if (!rest_uleb(rest, code))
		return false;
	if (*code == 0)
		return true;
	if (!read_short(rest, &out->tag) || !rest_number(rest, 1, &children))
		return false;
	out->has_children = children != 0;
	out->attributes = *rest;
	do {
		if (!abbrev_attribute(rest, &name, &form))
			return false;
	} while (name != 0);
	return true;
}

/* False if a number has more bytes than any valid number. */
static bool
numbers_are_short(struct rest rest)
{
	enum { PIECES_MAX = 10 };
	unsigned pieces = 0;

	for (; rest.left > 0; rest.at++, rest.left--) {
		pieces = (*rest.at & 0x80) != 0 ? pieces + 1 : 0;
		if (pieces >= PIECES_MAX)
			return false;
	}
	return true;
}

/* The highest code of a table, whose length is set, too. 0 if the table has no
 * code, does not end, or does not number codes consecutively as compilers do.
 */
static uint64_t
highest_code(struct rest rest, uint64_t *length)
{
	enum { GAP = 16 };
	const unsigned char *begin = rest.at;
	struct abbrev abbrev;
	uint64_t highest = 0;
	uint64_t declared = 0;
	uint64_t code;

	do {
		if (!read_abbrev(&rest, &code, &abbrev))
			return 0;
		declared++;
		if (code > highest)
			highest = code;
	} while (code != 0);
	*length = (uint64_t)(rest.at - begin);
	return highest <= 2 * declared + GAP ? highest : 0;
}

/* Record where the declarations are; false if a code is declared twice. */
static bool
note_codes(
    const struct abbrevs *abbrevs, struct abbrev_table *table, struct rest rest)
{
	struct abbrev abbrev;
	uint64_t code;

	for (const unsigned char *at = rest.at;
	     read_abbrev(&rest, &code, &abbrev) && code != 0; at = rest.at) {
		if (table->at[code] != 0)
			return false;
		table->at[code] = (uint32_t)(at - abbrevs->section.at) + 1;
	}
	return true;
}

/* Read the table that begins with `rest`; NULL as abbrevs_table(). */
static struct abbrev_table *
read_abbrev_table(const struct abbrevs *abbrevs, struct rest rest)
{
	struct abbrev_table *table;
	uint64_t length = 0;
	uint64_t highest = highest_code(rest, &length);
	size_t bytes;

	if (highest == 0)
		return NULL;
	bytes = sizeof(*table) + (highest + 1) * sizeof(table->at[0]);
	table = meta_zalloc(bytes);
	if (table == NULL)
		return NULL;
	table->bytes = bytes;
	table->length = length;
	table->count = highest + 1;
	if (note_codes(abbrevs, table, rest))
		return table;
	meta_free(table, bytes);
	return NULL;
}

const struct abbrev_table *
abbrevs_table(struct abbrevs *abbrevs, uint64_t offset)
{
	struct rest rest = abbrevs->section;
	struct abbrev_table *table;

	if (offset >= rest.left)
		return NULL;
	if (abbrevs->by_offset[offset] != NULL)
		return abbrevs->by_offset[offset];
	rest_skip(&rest, offset);
	table = read_abbrev_table(abbrevs, rest);
	if (table == NULL)
		return NULL;
	table->next = abbrevs->tables;
	abbrevs->tables = table;
	abbrevs->by_offset[offset] = table;
	return table;
}

bool
abbrevs_find(const struct abbrevs *abbrevs, const struct abbrev_table *table,
    uint64_t code, struct abbrev *out)
{
	struct rest rest = abbrevs->section;

	return code < table->count && table->at[code] != 0 &&
	    rest_skip(&rest, table->at[code] - 1) &&
	    read_abbrev(&rest, &code, out) && code != 0;
}

bool
abbrevs_begin(struct abbrevs *abbrevs, struct rest section)
{
	*abbrevs = (struct abbrevs){ .section = section };
	if (section.left == 0 || section.left >= UINT32_MAX ||
	    !numbers_are_short(section))
		return false;
	abbrevs->by_offset =
	    meta_map(section.left * sizeof(*abbrevs->by_offset));
	return abbrevs->by_offset != NULL;
}

void
abbrevs_end(struct abbrevs *abbrevs)
{
	if (abbrevs->by_offset != NULL)
		meta_unmap(abbrevs->by_offset,
		    abbrevs->section.left * sizeof(*abbrevs->by_offset));
	while (abbrevs->tables != NULL) {
		struct abbrev_table *table = abbrevs->tables;

		abbrevs->tables = table->next;
		meta_free(table, table->bytes);
	}
}
