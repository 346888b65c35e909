/*
 * Repairs corrupt line tables before libbacktrace reads them. Every number here
 * may be wrong, because it comes from a file.
 */
#include "trace/dwarf_line.h"

#include <string.h>

#include "trace/dwarf_bytes.h"

/* ---- The tables -------------------------------------------------------- */

/* Skip one list of version 5: the forms of an entry, the number of entries, and
 * the entries, each of at least one byte. False if the list is cut. */
static bool
rest_skip_entries(struct rest *rest, const struct form_sizes *sizes)
{
	/* DWARF 5 has five kinds of content. */
	enum { FORMS_MAX = 16 };
	uint64_t forms[FORMS_MAX];
	uint64_t form_count;
	uint64_t entries;
	uint64_t content;

	if (!rest_number(rest, 1, &form_count) || form_count > FORMS_MAX)
		return false;
	for (uint64_t i = 0; i < form_count; i++)
		if (!rest_uleb(rest, &content) || !rest_uleb(rest, &forms[i]))
			return false;
	if (!rest_uleb(rest, &entries) || entries > rest->left)
		return false;
	for (; entries > 0; entries--)
		for (uint64_t i = 0; i < form_count; i++)
			if (!rest_skip_form(rest, forms[i], sizes))
				return false;
	return true;
}

static bool
make_divisor(unsigned char *table, size_t size, size_t at)
{
	if (at >= size || table[at] != 0)
		return false;
	table[at] = 1;
	return true;
}

/* Bytes of the version at the start of a table. */
enum { VERSION = 2 };

/*
 * Check the two lists of a version 5 table, which begin after the lengths of
 * the opcodes. `at` is the offset of opcode_base; all opcodes but the first
 * have a length.
 */
static bool
lists_fit(const unsigned char *table, size_t size, size_t at, bool wide)
{
	struct form_sizes sizes = { .offset = wide ? WIDE_LENGTH : LENGTH };
	struct rest rest = { table, size };
	uint64_t opcodes;

	if (!rest_skip(&rest, at) || !rest_number(&rest, 1, &opcodes))
		return false;
	/* The size of an address follows the version. */
	sizes.address = table[VERSION];
	return opcodes > 0 && rest_skip(&rest, opcodes - 1) &&
	    rest_skip_entries(&rest, &sizes) &&
	    rest_skip_entries(&rest, &sizes);
}

/*
 * Repair one table, which begins with its version; true if that changes it.
 * `wide`: its lengths have 64 bits. Versions other than 2 to 5 and a header
 * that is cut need no repair, because the reader refuses them.
 */
static bool
repair_table(unsigned char *table, size_t size, bool wide)
{
	/* Version 5 has the sizes of an address and of a selector here. */
	enum { SIZES = 2 };
	size_t at = VERSION + (wide ? WIDE_LENGTH : LENGTH);
	bool changed = false;

	if (size < VERSION)
		return false;
	uint64_t version = rest_number_at(table, VERSION);

	if (version < 2 || version > 5)
		return false;
	if (version == 5)
		at += SIZES;
	/* Skip minimum_instruction_length. */
	at += 1;
	/* maximum_operations_per_instruction */
	if (version >= 4)
		changed = make_divisor(table, size, at++);
	/* line_range, after default_is_stmt and line_base */
	changed |= make_divisor(table, size, at + 2);
	if (version == 5 && !lists_fit(table, size, at + 3, wide)) {
		memset(table, 0, VERSION);
		changed = true;
	}
	return changed;
}

bool
dwarf_line_repair(unsigned char *section, size_t size)
{
	static const uint32_t is_wide = UINT32_MAX;
	bool changed = false;

	while (size >= LENGTH) {
		uint64_t length = rest_number_at(section, LENGTH);
		bool wide = length == is_wide;
		size_t head = LENGTH + (wide ? WIDE_LENGTH : 0);

		if (size < head)
			break;
		if (wide)
			length = rest_number_at(section + LENGTH, WIDE_LENGTH);
		if (length > size - head)
			break;
		changed |= repair_table(section + head, (size_t)length, wide);
		section += head + length;
		size -= head + (size_t)length;
	}
	memset(section, 0, size);
	return changed || size > 0;
}
