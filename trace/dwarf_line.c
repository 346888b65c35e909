/*
 * Corrupt line tables, made harmless before libbacktrace reads them. Every
 * number here may be wrong: it comes from a file.
 */
#include "trace/dwarf_line.h"

#include <string.h>

/* ---- The tables -------------------------------------------------------- */

/* Bytes of a length; of the one behind it in a table of 64 bits. */
enum { LENGTH = 4, WIDE_LENGTH = 8 };

/* The number of `size` bytes there, in the machine's order. */
static uint64_t
number_at(const unsigned char *bytes, size_t size)
{
	uint16_t two;
	uint32_t four;
	uint64_t eight;

	switch (size) {
	case sizeof(two):
		memcpy(&two, bytes, sizeof(two));
		return two;
	case sizeof(four):
		memcpy(&four, bytes, sizeof(four));
		return four;
	default:
		memcpy(&eight, bytes, sizeof(eight));
		return eight;
	}
}

/* Bytes of a table that are not read yet. */
struct rest {
	const unsigned char *at;
	size_t left;
};

static bool
rest_skip(struct rest *rest, uint64_t size)
{
	if (size > rest->left)
		return false;
	rest->at += size;
	rest->left -= (size_t)size;
	return true;
}

static bool
rest_number(struct rest *rest, size_t size, uint64_t *out)
{
	const unsigned char *at = rest->at;

	if (!rest_skip(rest, size))
		return false;
	*out = size == 1 ? *at : number_at(at, size);
	return true;
}

/* A number in pieces of seven bits, the lowest first. */
static bool
rest_uleb(struct rest *rest, uint64_t *out)
{
	unsigned shift = 0;
	uint64_t piece;

	*out = 0;
	do {
		if (!rest_number(rest, 1, &piece))
			return false;
		if (shift < 64)
			*out |= (piece & 0x7f) << shift;
		shift += 7;
	} while ((piece & 0x80) != 0);
	return true;
}

/* Forms of what a list of folders or files may hold, as DWARF numbers them. */
enum {
	FORM_BLOCK2 = 0x03,
	FORM_BLOCK4 = 0x04,
	FORM_DATA2 = 0x05,
	FORM_DATA4 = 0x06,
	FORM_DATA8 = 0x07,
	FORM_STRING = 0x08,
	FORM_BLOCK = 0x09,
	FORM_BLOCK1 = 0x0a,
	FORM_DATA1 = 0x0b,
	FORM_STRP = 0x0e,
	FORM_UDATA = 0x0f,
	FORM_STRX = 0x1a,
	FORM_DATA16 = 0x1e,
	FORM_LINE_STRP = 0x1f,
	FORM_STRX1 = 0x25,
	FORM_STRX2 = 0x26,
	FORM_STRX3 = 0x27,
	FORM_STRX4 = 0x28,
};

static bool
rest_skip_block(struct rest *rest, size_t length_size)
{
	uint64_t length;

	return (length_size == 0 ? rest_uleb(rest, &length) :
				   rest_number(rest, length_size, &length)) &&
	    rest_skip(rest, length);
}

static bool
rest_skip_string(struct rest *rest)
{
	const unsigned char *end =
	    rest->left == 0 ? NULL : memchr(rest->at, 0, rest->left);

	return end != NULL && rest_skip(rest, (uint64_t)(end - rest->at) + 1);
}

/* False if it is cut, or of a form that is not known. */
static bool
rest_skip_form(struct rest *rest, uint64_t form, bool wide)
{
	uint64_t number;

	switch (form) {
	case FORM_DATA1:
	case FORM_STRX1:
		return rest_skip(rest, 1);
	case FORM_DATA2:
	case FORM_STRX2:
		return rest_skip(rest, 2);
	case FORM_STRX3:
		return rest_skip(rest, 3);
	case FORM_DATA4:
	case FORM_STRX4:
		return rest_skip(rest, 4);
	case FORM_DATA8:
		return rest_skip(rest, 8);
	case FORM_DATA16:
		return rest_skip(rest, 16);
	case FORM_STRP:
	case FORM_LINE_STRP:
		return rest_skip(rest, wide ? WIDE_LENGTH : LENGTH);
	case FORM_UDATA:
	case FORM_STRX:
		return rest_uleb(rest, &number);
	case FORM_BLOCK:
		return rest_skip_block(rest, 0);
	case FORM_BLOCK1:
		return rest_skip_block(rest, 1);
	case FORM_BLOCK2:
		return rest_skip_block(rest, 2);
	case FORM_BLOCK4:
		return rest_skip_block(rest, 4);
	case FORM_STRING:
		return rest_skip_string(rest);
	default:
		return false;
	}
}

/* Skip one list of version 5: the forms of an entry, the number of entries and
 * the entries, of at least a byte each. False if they are not all there. */
static bool
rest_skip_entries(struct rest *rest, bool wide)
{
	uint64_t forms[UINT8_MAX];
	uint64_t form_count;
	uint64_t entries;
	uint64_t content;

	if (!rest_number(rest, 1, &form_count))
		return false;
	for (uint64_t i = 0; i < form_count; i++)
		if (!rest_uleb(rest, &content) || !rest_uleb(rest, &forms[i]))
			return false;
	if (!rest_uleb(rest, &entries) || entries > rest->left)
		return false;
	for (; entries > 0; entries--)
		for (uint64_t i = 0; i < form_count; i++)
			if (!rest_skip_form(rest, forms[i], wide))
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

/* Bytes of the version in front of a table. */
enum { VERSION = 2 };

/*
 * Check the two lists of a table of version 5, from opcode_base on, which lies
 * at `at`. The lengths of all opcodes but the first stand in front of them.
 */
static bool
lists_fit(const unsigned char *table, size_t size, size_t at, bool wide)
{
	struct rest rest = { table, size };
	uint64_t opcodes;

	return rest_skip(&rest, at) && rest_number(&rest, 1, &opcodes) &&
	    opcodes > 0 && rest_skip(&rest, opcodes - 1) &&
	    rest_skip_entries(&rest, wide) && rest_skip_entries(&rest, wide);
}

/*
 * Repair one table, which begins with its version; true if that changes it.
 * `wide`: its lengths have 64 bits. The reader refuses other versions than 2 to
 * 5, and a header that is cut.
 */
static bool
repair_table(unsigned char *table, size_t size, bool wide)
{
	/* Version 5 has the sizes of an address and of a selector there. */
	enum { SIZES = 2 };
	size_t at = VERSION + (wide ? WIDE_LENGTH : LENGTH);
	bool changed = false;

	if (size < VERSION)
		return false;
	uint64_t version = number_at(table, VERSION);

	if (version < 2 || version > 5)
		return false;
	if (version == 5)
		at += SIZES;
	/* Skip minimum_instruction_length. */
	at += 1;
	/* maximum_operations_per_instruction */
	if (version >= 4)
		changed = make_divisor(table, size, at++);
	/* line_range, behind default_is_stmt and line_base */
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
		uint64_t length = number_at(section, LENGTH);
		bool wide = length == is_wide;
		size_t head = LENGTH + (wide ? WIDE_LENGTH : 0);

		if (size < head)
			break;
		if (wide)
			length = number_at(section + LENGTH, WIDE_LENGTH);
		if (length > size - head)
			break;
		changed |= repair_table(section + head, (size_t)length, wide);
		section += head + length;
		size -= head + (size_t)length;
	}
	memset(section, 0, size);
	return changed || size > 0;
}
