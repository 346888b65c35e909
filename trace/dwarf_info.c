/*
 * A walk over all entries in the reader's order, but without recursion for
 * nested entries. Every number here may be wrong, because it comes from a file.
 */
#include "trace/dwarf_info.h"

#include <stdint.h>
#include <string.h>

#include "base/meta.h"

/* The attributes that lead the reader to another entry, as DWARF numbers them.
 */
enum { AT_ABSTRACT_ORIGIN = 0x31, AT_SPECIFICATION = 0x47 };

/* A unit: its entries are the bytes of `info` from `begin` on. */
struct unit {
	size_t start; /* offset of its header in the section */
	size_t begin;
	size_t end;
	struct form_sizes sizes;
	/* The offset in .debug_abbrev of each code's declaration, plus 1; 0:
	 * none. Consecutive units share the array. */
	const uint32_t *codes;
	size_t code_count;
};

/* A table of codes, to be freed at the end. */
struct codes {
	struct codes *next;
	size_t bytes; /* size of this allocation */
	size_t count;
	uint64_t offset; /* of the table in the section */
	uint32_t at[];
};

struct walk {
	struct rest info;
	struct rest abbrevs;
	struct unit *units;
	size_t unit_count;
	size_t unit_room;
	struct codes *codes; /* list, the latest first */
	uint64_t steps;      /* attributes that may still be read */
	/* The codes are not 1 and up, each once, as compilers write them. */
	bool odd;
};

/* ---- Abbreviations --------------------------------------------------------
 */

/* The declaration of all entries with one code. */
struct declaration {
	struct rest attributes;
	bool has_children;
};

static bool
read_attribute(struct rest *rest, uint64_t *name, uint64_t *form)
{
	uint64_t value;

	return rest_uleb(rest, name) && rest_uleb(rest, form) &&
	    (*name == 0 || *form != FORM_IMPLICIT_CONST ||
		rest_uleb(rest, &value));
}

static bool
read_declaration(struct rest *rest, uint64_t *code, struct declaration *out)
{
	uint64_t tag;
	uint64_t children;
	uint64_t name;
	uint64_t form;

	if (!rest_uleb(rest, code) || *code == 0 || !rest_uleb(rest, &tag) ||
	    !rest_number(rest, 1, &children))
		return false;
	out->has_children = children != 0;
	out->attributes = *rest;
	do {
		if (!read_attribute(rest, &name, &form))
			return false;
	} while (name != 0);
	return true;
}

/* The highest code in the readable part of a table. */
static uint64_t
highest_code(struct rest rest)
{
	struct declaration declaration;
	uint64_t highest = 0;
	uint64_t code;

	while (read_declaration(&rest, &code, &declaration))
		if (code > highest)
			highest = code;
	return highest;
}

static void
note_codes(struct walk *walk, struct codes *codes, struct rest rest)
{
	struct declaration declaration;
	uint64_t code;

	for (const unsigned char *at = rest.at;
	     read_declaration(&rest, &code, &declaration); at = rest.at) {
		walk->odd |= codes->at[code] != 0;
		/* The offset plus 1, because 0 means none. */
		codes->at[code] = (uint32_t)(at - walk->abbrevs.at) + 1;
	}
}

/* The table of codes at an offset; NULL without memory, or if its codes are
 * odd. */
static const struct codes *
read_codes(struct walk *walk, uint64_t offset)
{
	struct rest rest = walk->abbrevs;
	struct codes *codes;

	if (walk->codes != NULL && walk->codes->offset == offset)
		return walk->codes;
	if (!rest_skip(&rest, offset))
		rest.left = 0;
	uint64_t highest = highest_code(rest);
	size_t bytes;

	/* Each declaration takes more than one byte. */
	if (highest > rest.left)
		return NULL;
	bytes = sizeof(*codes) + (highest + 1) * sizeof(codes->at[0]);
	codes = meta_zalloc(bytes);
	if (codes == NULL)
		return NULL;
	codes->next = walk->codes;
	codes->bytes = bytes;
	codes->count = highest + 1;
	codes->offset = offset;
	walk->codes = codes;
	note_codes(walk, codes, rest);
	return walk->odd ? NULL : codes;
}

/* Find the declaration of an entry's code. False at the end of a list of
 * entries, and where the reader gives up. */
static bool
find_declaration(const struct walk *walk, const struct unit *unit,
    uint64_t code, struct declaration *out)
{
	struct rest rest = walk->abbrevs;

	return code < unit->code_count && unit->codes[code] != 0 &&
	    rest_skip(&rest, unit->codes[code] - 1) &&
	    read_declaration(&rest, &code, out);
}

/* ---- Units ------------------------------------------------------------------
 */

static bool
add_unit(struct walk *walk, const struct unit *unit)
{
	if (walk->unit_count == walk->unit_room) {
		size_t room = walk->unit_room == 0 ? 16 : 2 * walk->unit_room;
		struct unit *units = meta_alloc(room * sizeof(*units));

		if (units == NULL)
			return false;
		if (walk->unit_count > 0)
			memcpy(units, walk->units,
			    walk->unit_count * sizeof(*units));
		meta_free(walk->units, walk->unit_room * sizeof(*units));
		walk->units = units;
		walk->unit_room = room;
	}
	walk->units[walk->unit_count++] = *unit;
	return true;
}

/* Unit types of version 5 whose headers are longer, and those that the reader
 * skips. */
enum { UNIT_TYPE = 2, UNIT_SKELETON = 4, UNIT_SPLIT = 5, UNIT_SPLIT_TYPE = 6 };

/* Read the rest of a unit's header; *kind is 0 before version 5. */
static bool
read_unit_head(struct rest *rest, bool wide, struct unit *unit, uint64_t *kind,
    uint64_t *abbrevs)
{
	size_t offset = wide ? WIDE_LENGTH : LENGTH;
	uint64_t version;
	uint64_t address = 0;
	bool good;

	*kind = 0;
	if (!rest_number(rest, 2, &version) || version < 2 || version > 5)
		return false;
	if (version == 5)
		good = rest_number(rest, 1, kind) &&
		    rest_number(rest, 1, &address) &&
		    rest_number(rest, offset, abbrevs);
	else
		good = rest_number(rest, offset, abbrevs) &&
		    rest_number(rest, 1, &address);
	if (good && (*kind == UNIT_SKELETON || *kind == UNIT_SPLIT))
		good = rest_skip(rest, 8);
	unit->sizes = (struct form_sizes){ .offset = offset,
		.address = address,
		.reference = version == 2 ? address : offset };
	return good;
}

/* Collect all units that the reader reads; false without memory, or if codes
 * are odd. */
static bool
find_units(struct walk *walk)
{
	struct rest rest = walk->info;

	while (rest.left > 0) {
		struct unit unit = { .start =
					 (size_t)(rest.at - walk->info.at) };
		const struct codes *codes;
		struct rest entries;
		uint64_t length;
		uint64_t kind;
		uint64_t abbrevs;
		bool wide;

		if (!rest_length(&rest, &length, &wide))
			break;
		entries = (struct rest){ rest.at, (size_t)length };
		if (!rest_skip(&rest, length) ||
		    !read_unit_head(&entries, wide, &unit, &kind, &abbrevs))
			break;
		if (kind == UNIT_TYPE || kind == UNIT_SPLIT_TYPE)
			continue;
		codes = read_codes(walk, abbrevs);
		if (codes == NULL)
			return false;
		unit.codes = codes->at;
		unit.code_count = codes->count;
		unit.begin = (size_t)(entries.at - walk->info.at);
		unit.end = unit.begin + entries.left;
		if (!add_unit(walk, &unit))
			return false;
	}
	return true;
}

static const struct unit *
unit_at(const struct walk *walk, uint64_t offset)
{
	size_t low = 0;
	size_t high = walk->unit_count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (walk->units[middle].end <= offset)
			low = middle + 1;
		else
			high = middle;
	}
	return low < walk->unit_count && offset >= walk->units[low].start ?
	    &walk->units[low] :
	    NULL;
}

/* ---- References -------------------------------------------------------- */

/* The size of a number that refers to an entry; 0: LEB128; SIZE_MAX for other
 * forms. */
static size_t
reference_size(const struct unit *unit, uint64_t form)
{
	switch (form) {
	case FORM_REF_UDATA:
	case FORM_UDATA:
		return 0;
	case FORM_REF1:
	case FORM_DATA1:
		return 1;
	case FORM_REF2:
	case FORM_DATA2:
		return 2;
	case FORM_REF4:
	case FORM_DATA4:
		return 4;
	case FORM_REF8:
	case FORM_DATA8:
		return 8;
	case FORM_REF_ADDR:
		return unit->sizes.reference;
	default:
		return SIZE_MAX;
	}
}

/* Read the value of an attribute. *target becomes the offset of the entry that
 * it refers to, or UINT64_MAX if it refers to none. */
static bool
read_reference(
    const struct unit *unit, uint64_t form, struct rest *rest, uint64_t *target)
{
	uint64_t number = UINT64_MAX;
	struct rest at;
	size_t size;

	*target = UINT64_MAX;
	while (form == FORM_INDIRECT)
		if (!rest_uleb(rest, &form))
			return false;
	at = *rest;
	if (!rest_skip_form(rest, form, &unit->sizes))
		return false;
	size = reference_size(unit, form);
	if (size == 0)
		rest_uleb(&at, &number);
	else if (size == 1 || size == 2 || size == 4 || size == 8)
		rest_number(&at, size, &number);
	if (form == FORM_REF_ADDR)
		*target = number;
	else if (number < unit->end - unit->start)
		*target = unit->start + number;
	return true;
}

/* Follow a chain of references as the reader does. False if it has more than
 * `left` entries; all branches share this count. */
static bool
chain_ends(struct walk *walk, uint64_t target, unsigned *left)
{
	const struct unit *unit = unit_at(walk, target);
	struct declaration declaration;
	struct rest rest;
	uint64_t code;
	uint64_t name;
	uint64_t form;

	if (unit == NULL || target < unit->begin)
		return true;
	if ((*left)-- == 0)
		return false;
	rest = (struct rest){ walk->info.at + target,
		(size_t)(unit->end - target) };
	if (!rest_uleb(&rest, &code) ||
	    !find_declaration(walk, unit, code, &declaration))
		return true;
	while (read_attribute(&declaration.attributes, &name, &form) &&
	    name != 0) {
		if (walk->steps-- == 0)
			return false;
		if (!read_reference(unit, form, &rest, &target))
			return true;
		if (name == AT_SPECIFICATION && !chain_ends(walk, target, left))
			return false;
	}
	return true;
}

/* ---- Entries ----------------------------------------------------------- */

/* Skip the attributes of an entry. False where the reader gives up, or if the
 * attributes exceed a bound; then *bounded is false. */
static bool
pass_attributes(struct walk *walk, const struct unit *unit,
    struct rest attributes, struct rest *rest, bool *bounded)
{
	uint64_t target;
	uint64_t name;
	uint64_t form;

	while (read_attribute(&attributes, &name, &form) && name != 0) {
		unsigned left = DWARF_CHAIN_MAX;
		bool follows =
		    name == AT_ABSTRACT_ORIGIN || name == AT_SPECIFICATION;

		*bounded = walk->steps-- > 0;
		if (!*bounded)
			return false;
		if (!follows) {
			if (!rest_skip_form(rest, form, &unit->sizes))
				return false;
			continue;
		}
		if (!read_reference(unit, form, rest, &target))
			return false;
		*bounded = chain_ends(walk, target, &left);
		if (!*bounded)
			return false;
	}
	return true;
}

static bool
unit_is_bounded(struct walk *walk, const struct unit *unit)
{
	struct rest rest = { walk->info.at + unit->begin,
		unit->end - unit->begin };
	struct declaration declaration;
	unsigned depth = 0;
	bool bounded = true;
	uint64_t code;

	while (rest_uleb(&rest, &code)) {
		if (code == 0) {
			if (depth-- == 0)
				break;
			continue;
		}
		if (!find_declaration(walk, unit, code, &declaration) ||
		    !pass_attributes(
			walk, unit, declaration.attributes, &rest, &bounded))
			break;
		if (declaration.has_children && ++depth > DWARF_DEPTH_MAX)
			return false;
	}
	return bounded;
}

bool
dwarf_info_is_bounded(struct rest info, struct rest abbrevs)
{
	/* Attributes such as flags take no bytes, so there may be more
	 * attributes than bytes. In compilers' output one attribute in three is
	 * like that. */
	enum { STEPS_A_BYTE = 16, STEPS_BASE = 1 << 16 };
	struct walk walk = { .info = info,
		.abbrevs = abbrevs,
		.steps = STEPS_BASE + STEPS_A_BYTE * (uint64_t)info.left };
	bool bounded = abbrevs.left < UINT32_MAX && find_units(&walk);

	for (size_t i = 0; bounded && i < walk.unit_count; i++)
		bounded = unit_is_bounded(&walk, &walk.units[i]);
	meta_free(walk.units, walk.unit_room * sizeof(*walk.units));
	while (walk.codes != NULL) {
		struct codes *codes = walk.codes;

		walk.codes = codes->next;
		meta_free(codes, codes->bytes);
	}
	return bounded;
}
