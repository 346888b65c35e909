/*
 * Repairs corrupt line tables before libbacktrace reads them. Every number here
 * may be wrong, because it comes from a file.
 */
#include "stacks/dwarf_line.h"

#include <string.h>

#include "stacks/dwarf_bytes.h"

/* ---- Headers ------------------------------------------------------------- */

/* The fields of a table's header that are checked. */
struct header {
	uint64_t version;
	struct form_sizes sizes;
	uint64_t opcode_base;
	const unsigned char *opcode_lengths; /* from the first opcode, 1, on */
};

/* Skip a value of a list. False for a large index of a text, because the reader
 * adds it to an offset without a check; for the form that says that the real
 * form precedes the value, because the reader follows it by recursion; and for
 * a reference, whose size depends on the unit. */
static bool
rest_skip_value(
    struct rest *rest, uint64_t form, const struct form_sizes *sizes)
{
	struct rest at = *rest;
	uint64_t index;

	if (form == FORM_INDIRECT || form == FORM_REF_ADDR ||
	    !rest_skip_form(rest, form, sizes))
		return false;
	return form != FORM_STRX ||
	    (rest_uleb(&at, &index) && index < DWARF_INDEX_MAX);
}

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
			if (!rest_skip_value(rest, forms[i], sizes))
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

/* Skip texts up to an empty one, each followed by `numbers` numbers. */
static bool
rest_skip_names(struct rest *rest, int numbers)
{
	uint64_t number;

	while (rest->left > 0 && rest->at[0] != 0) {
		if (!rest_skip_string(rest))
			return false;
		for (int i = 0; i < numbers; i++)
			if (!rest_uleb(rest, &number))
				return false;
	}
	return rest_skip(rest, 1);
}

/* Check the lengths of opcodes, which are one fewer than opcode_base says, and
 * the lists of folders and files. */
static bool
lists_fit(struct rest *rest, struct header *header)
{
	/* The folder, the time and the length of a file. */
	enum { NUMBERS = 3 };

	if (!rest_number(rest, 1, &header->opcode_base) ||
	    header->opcode_base == 0)
		return false;
	header->opcode_lengths = rest->at;
	if (!rest_skip(rest, header->opcode_base - 1))
		return false;
	if (header->version < 5)
		return rest_skip_names(rest, 0) &&
		    rest_skip_names(rest, NUMBERS);
	if (!rest_skip_entries(rest, &header->sizes)) /* folders */
		return false;
	return rest_skip_entries(rest, &header->sizes); /* files */
}

/* ---- Programs ------------------------------------------------------------ */

static bool
skip_extended(struct rest *rest)
{
	enum { END_SEQUENCE = 1, SET_ADDRESS, DEFINE_FILE, SET_DISCRIMINATOR };
	uint64_t length;
	uint64_t opcode;
	uint64_t number;

	if (!rest_uleb(rest, &length) || length == 0 ||
	    !rest_number(rest, 1, &opcode))
		return false;
	switch (opcode) {
	case END_SEQUENCE:
		return true;
	case SET_ADDRESS:
		return rest_skip(rest, sizeof(void *));
	case DEFINE_FILE:
		/* The reader does not check that the folder exists. */
		return false;
	case SET_DISCRIMINATOR:
		return rest_uleb(rest, &number);
	default:
		return rest_skip(rest, length - 1);
	}
}

static bool
skip_standard(struct rest *rest, const struct header *header, uint64_t opcode)
{
	/* How many numbers follow each opcode that the reader knows. */
	static const unsigned char known[] = { 0, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0,
		1 };
	enum { FIXED_ADVANCE_PC = 9 };
	uint64_t number;
	unsigned numbers = opcode <= sizeof(known) ?
	    known[opcode - 1] :
	    header->opcode_lengths[opcode - 1];

	if (opcode == FIXED_ADVANCE_PC)
		return rest_skip(rest, 2);
	for (; numbers > 0; numbers--)
		if (!rest_uleb(rest, &number))
			return false;
	return true;
}

static bool
program_is_sound(struct rest rest, const struct header *header)
{
	uint64_t opcode;

	while (rest_number(&rest, 1, &opcode))
		if (opcode < header->opcode_base &&
		    !(opcode == 0 ? skip_extended(&rest) :
				    skip_standard(&rest, header, opcode)))
			return false;
	return true;
}

/* ---- Tables -------------------------------------------------------------- */

/* May the reader see a table? `table` begins with the version, and `at` follows
 * line_range. */
static bool
is_sound(const unsigned char *table, size_t size, size_t at, bool wide)
{
	struct header header = { .version = rest_number_at(table, VERSION),
		.sizes = { .offset = wide ? WIDE_LENGTH : LENGTH,
		    .address = sizeof(void *) } };
	/* Version 5 has the sizes of an address and of a selector here. */
	size_t sizes = header.version == 5 ? 2 : 0;
	struct rest rest = { table, size };
	struct rest head;
	uint64_t length;

	if (sizes > 0 && size >= VERSION + sizes &&
	    (table[VERSION] != sizeof(void *) || table[VERSION + 1] != 0))
		return false;
	if (!rest_skip(&rest, VERSION + sizes) ||
	    !rest_number(&rest, header.sizes.offset, &length))
		return false;
	head = (struct rest){ rest.at, (size_t)length };
	if (!rest_skip(&rest, length) ||
	    !rest_skip(&head, at - (size_t)(head.at - table)))
		return false;
	return lists_fit(&head, &header) && program_is_sound(rest, &header);
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
	if (!is_sound(table, size, at + 3, wide)) {
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
