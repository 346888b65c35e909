/*
 * A walk over all entries in the reader's order, but without recursion for
 * nested entries. Every number here may be wrong, because it comes from a file.
 *
 * The walk does the reader's steps and counts them. So the bound that it checks
 * for the reader also bounds its own time.
 */
#include "stacks/dwarf_info.h"

#include <stdint.h>
#include <string.h>

#include "base/meta.h"
#include "stacks/dwarf_abbrevs.h"

/* Attributes that the reader follows, with DWARF's numbers. */
enum {
	AT_STMT_LIST = 0x10,
	AT_ABSTRACT_ORIGIN = 0x31,
	AT_SPECIFICATION = 0x47,
	AT_RANGES = 0x55,
	AT_STR_OFFSETS_BASE = 0x72,
	AT_ADDR_BASE,
	AT_RNGLISTS_BASE,
};

/* Tags of entries that begin a unit. */
enum {
	TAG_COMPILE_UNIT = 0x11,
	TAG_PARTIAL_UNIT = 0x3c,
	TAG_TYPE_UNIT = 0x41,
	TAG_SKELETON_UNIT = 0x4a,
};

/* A unit: its entries are the bytes of `info` from `begin` on. */
struct unit {
	size_t start; /* offset of its header in the section */
	size_t begin;
	size_t end;
	/* The start that the reader uses for references from other units: it
	 * does not count type units before this one. */
	size_t believed_start;
	uint64_t version;
	struct form_sizes sizes;
	uint64_t rnglists_base;
	const struct abbrev_table *abbrevs;
};

struct walk {
	struct dwarf_sections sections;
	struct unit *units;
	size_t unit_count;
	size_t unit_room;
	struct abbrevs abbrevs;
	/* Offsets of the line tables, in rising order. */
	uint64_t *tables;
	size_t table_count;
	uint64_t steps; /* that may still be made */
};

/* Count some steps; false if fewer are left. */
static bool
walk_on(struct walk *walk, uint64_t steps)
{
	if (steps > walk->steps)
		return false;
	walk->steps -= steps;
	return true;
}

/* ---- Units --------------------------------------------------------------- */

/* Make room for one more element of an array that grows. */
static bool
walk_grow(void *array, size_t count, size_t *room, size_t size)
{
	size_t more = *room == 0 ? 16 : 2 * *room;
	void *old;
	void *grown;

	if (count < *room)
		return true;
	grown = meta_alloc(more * size);
	if (grown == NULL)
		return false;
	memcpy(&old, array, sizeof(old));
	if (count > 0)
		memcpy(grown, old, count * size);
	meta_free(old, *room * size);
	memcpy(array, &grown, sizeof(grown));
	*room = more;
	return true;
}

/* Unit types of version 5 whose headers are longer, and those that the reader
 * skips. */
enum { UNIT_TYPE = 2, UNIT_SKELETON = 4, UNIT_SPLIT = 5, UNIT_SPLIT_TYPE = 6 };

/* Read the rest of a unit's header; *kind is 0 before version 5. */
static bool
read_head(struct rest *rest, bool wide, struct unit *unit, uint64_t *kind,
    uint64_t *abbrevs_at)
{
	size_t offset = wide ? WIDE_LENGTH : LENGTH;
	uint64_t address = 0;
	bool good;

	*kind = 0;
	if (!rest_number(rest, 2, &unit->version) || unit->version < 2 ||
	    unit->version > 5)
		return false;
	if (unit->version == 5)
		good = rest_number(rest, 1, kind) &&
		    rest_number(rest, 1, &address) &&
		    rest_number(rest, offset, abbrevs_at);
	else
		good = rest_number(rest, offset, abbrevs_at) &&
		    rest_number(rest, 1, &address);
	if (good && (*kind == UNIT_SKELETON || *kind == UNIT_SPLIT))
		good = rest_skip(rest, 8);
	unit->sizes = (struct form_sizes){ .offset = offset,
		.address = address,
		.reference = unit->version == 2 ? address : offset };
	return good && address == sizeof(void *);
}

/* Read the header of a unit and skip its entries; *is_read is false for a unit
 * that the reader skips, too. */
static bool
read_unit(
    struct walk *walk, struct rest *rest, struct unit *unit, bool *is_read)
{
	const unsigned char *info = walk->sections.info.at;
	struct rest entries;
	uint64_t length = 0;
	uint64_t kind;
	uint64_t abbrevs_at = 0;
	bool wide;

	unit->start = (size_t)(rest->at - info);
	if (!rest_length(rest, &length, &wide))
		return false;
	entries = (struct rest){ rest->at, (size_t)length };
	if (!rest_skip(rest, length) ||
	    !read_head(&entries, wide, unit, &kind, &abbrevs_at))
		return false;
	*is_read = kind != UNIT_TYPE && kind != UNIT_SPLIT_TYPE;
	if (!*is_read)
		return true;
	unit->abbrevs = abbrevs_table(&walk->abbrevs, abbrevs_at);
	unit->begin = (size_t)(entries.at - info);
	unit->end = unit->begin + entries.left;
	/* The reader reads the table again for each unit. */
	return unit->abbrevs != NULL && walk_on(walk, unit->abbrevs->length);
}

static bool
find_units(struct walk *walk)
{
	struct rest rest = walk->sections.info;
	size_t believed = 0;

	while (rest.left > 0) {
		struct unit unit = { .believed_start = believed };
		bool is_read;

		if (!read_unit(walk, &rest, &unit, &is_read))
			return false;
		if (!is_read)
			continue;
		if (!walk_grow(&walk->units, walk->unit_count, &walk->unit_room,
			sizeof(unit)))
			return false;
		walk->units[walk->unit_count++] = unit;
		believed += unit.end - unit.start;
	}
	return true;
}

/* The unit in which the reader looks for an offset. */
static const struct unit *
unit_at(const struct walk *walk, uint64_t offset)
{
	size_t low = 0;
	size_t high = walk->unit_count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		const struct unit *unit = &walk->units[middle];

		if (unit->believed_start + (unit->end - unit->start) <= offset)
			low = middle + 1;
		else
			high = middle;
	}
	return low < walk->unit_count ? &walk->units[low] : NULL;
}

/* ---- References ---------------------------------------------------------- */

/* An entry that another one refers to, as an offset from the start of a unit;
 * none if there is no unit. */
struct target {
	const struct unit *unit;
	uint64_t offset;
};

/* Read the value of an attribute that refers to an entry. False for forms that
 * compilers do not use for this. */
static bool
read_reference(const struct walk *walk, const struct unit *unit, uint64_t form,
    struct rest *rest, struct target *target)
{
	*target = (struct target){ .unit = unit };
	switch (form) {
	case FORM_REF1:
		return rest_number(rest, 1, &target->offset);
	case FORM_REF2:
		return rest_number(rest, 2, &target->offset);
	case FORM_REF4:
		return rest_number(rest, 4, &target->offset);
	case FORM_REF8:
		return rest_number(rest, 8, &target->offset);
	case FORM_REF_UDATA:
		return rest_uleb(rest, &target->offset);
	case FORM_REF_ADDR:
		if (!rest_number(rest, unit->sizes.reference, &target->offset))
			return false;
		target->unit = unit_at(walk, target->offset);
		if (target->unit != NULL)
			target->offset -= target->unit->believed_start;
		return true;
	case FORM_REF_SIG8:
	case FORM_REF_SUP4:
	case FORM_REF_SUP8:
	case FORM_GNU_REF_ALT:
		target->unit = NULL;
		return rest_skip_form(rest, form, &unit->sizes);
	default:
		return false;
	}
}

/* Skip a value that the reader does not follow. */
static bool
pass_value(const struct unit *unit, uint64_t form, struct rest *rest)
{
	struct rest at = *rest;
	uint64_t index;

	if (form == FORM_INDIRECT || !rest_skip_form(rest, form, &unit->sizes))
		return false;
	return (form != FORM_STRX && form != FORM_ADDRX) ||
	    (rest_uleb(&at, &index) && index < DWARF_INDEX_MAX);
}

/* Follow a chain of references as the reader does. False if it has more than
 * `left` entries; all branches share this count. */
static bool
chain_ends(struct walk *walk, struct target target, unsigned *left)
{
	const struct unit *unit = target.unit;
	struct abbrev abbrev;
	struct rest rest;
	uint64_t code;
	uint64_t name;
	uint64_t form;

	if (unit == NULL || target.offset >= unit->end - unit->start ||
	    target.offset < unit->begin - unit->start)
		return true;
	if ((*left)-- == 0)
		return false;
	rest =
	    (struct rest){ walk->sections.info.at + unit->start + target.offset,
		    (size_t)(unit->end - unit->start - target.offset) };
	if (!rest_uleb(&rest, &code) ||
	    !abbrevs_find(&walk->abbrevs, unit->abbrevs, code, &abbrev))
		return code == 0;
	while (
	    abbrev_attribute(&abbrev.attributes, &name, &form) && name != 0) {
		size_t before = rest.left;

		if (name == AT_SPECIFICATION) {
			if (!read_reference(walk, unit, form, &rest, &target) ||
			    !chain_ends(walk, target, left))
				return false;
		} else if (!pass_value(unit, form, &rest))
			return false;
		if (!walk_on(walk, 1 + before - rest.left))
			return false;
	}
	return true;
}

/* ---- Ranges -------------------------------------------------------------- */

/* Skip a list of pairs of addresses, up to two zeros or the end. */
static bool
pass_ranges(struct walk *walk, const struct unit *unit, uint64_t offset)
{
	struct rest rest = walk->sections.ranges;
	uint64_t low;
	uint64_t high;

	if (!rest_skip(&rest, offset))
		return true;
	while (rest_number(&rest, unit->sizes.address, &low) &&
	    rest_number(&rest, unit->sizes.address, &high) &&
	    (low != 0 || high != 0))
		if (!walk_on(walk, 1))
			return false;
	return true;
}

/* The operands of each kind of entry in a list of version 5: I is an index of
 * an address, N a number, A an address. */
static const char *const rnglist_entries[] = { "", "I", "II", "IN", "NN", "A",
	"AA", "AN" };

/* Skip the operands of an entry. False if they are cut; *sound becomes false
 * for an index that may wrap around. */
static bool
pass_rnglist_entry(
    const struct unit *unit, const char *entry, struct rest *rest, bool *sound)
{
	uint64_t number = 0;

	for (; *entry != '\0'; entry++) {
		if (*entry == 'A' ? !rest_skip(rest, unit->sizes.address) :
				    !rest_uleb(rest, &number))
			return false;
		if (*entry == 'I')
			*sound = *sound && number < DWARF_INDEX_MAX;
	}
	return true;
}

/* Skip a list of version 5, up to its end or to a kind that the reader does not
 * know. */
static bool
pass_rnglist(struct walk *walk, const struct unit *unit, uint64_t offset)
{
	enum { KINDS = sizeof(rnglist_entries) / sizeof(rnglist_entries[0]) };
	struct rest rest = walk->sections.rnglists;
	bool sound = true;
	uint64_t kind;

	if (!rest_skip(&rest, offset))
		return true;
	while (rest_number(&rest, 1, &kind) && kind != 0 && kind < KINDS) {
		size_t before = rest.left;

		if (!pass_rnglist_entry(
			unit, rnglist_entries[kind], &rest, &sound))
			break;
		if (!sound || !walk_on(walk, 1 + before - rest.left))
			return false;
	}
	return sound;
}

/* Skip the ranges of an entry, which are found by an index or an offset. */
static bool
pass_list(
    struct walk *walk, const struct unit *unit, uint64_t form, uint64_t value)
{
	struct rest rest = walk->sections.rnglists;

	if (unit->version < 5)
		return pass_ranges(walk, unit, value);
	if (form == FORM_RNGLISTX) {
		if (value >= DWARF_INDEX_MAX)
			return false;
		if (!rest_skip(&rest,
			unit->rnglists_base + value * unit->sizes.offset) ||
		    !rest_number(&rest, unit->sizes.offset, &value))
			return true;
		value += unit->rnglists_base;
	}
	return pass_rnglist(walk, unit, value);
}

/* ---- Line tables --------------------------------------------------------- */

/* Record where all line tables begin. */
static bool
find_tables(struct walk *walk, size_t *room)
{
	struct rest rest = walk->sections.line;

	while (rest.left > 0) {
		uint64_t at = walk->sections.line.left - rest.left;
		uint64_t length = 0;
		bool wide;

		if (!rest_length(&rest, &length, &wide) ||
		    !rest_skip(&rest, length))
			break;
		/* Erased tables have no bytes. */
		if (length == 0)
			continue;
		if (!walk_grow(
			&walk->tables, walk->table_count, room, sizeof(at)))
			return false;
		walk->tables[walk->table_count++] = at;
	}
	return true;
}

/* Does a table that the reader may see with that unit, or no table at all,
 * begin there? The reader takes the size of the offsets in a table of version 5
 * from the unit. */
static bool
is_table(const struct walk *walk, const struct unit *unit, uint64_t offset)
{
	struct rest rest = walk->sections.line;
	size_t low = 0;
	size_t high = walk->table_count;
	uint64_t length = 0;
	uint64_t version;
	bool wide;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (walk->tables[middle] < offset)
			low = middle + 1;
		else
			high = middle;
	}
	if (!rest_skip(&rest, offset) || !rest_length(&rest, &length, &wide) ||
	    length == 0)
		return true;
	if (low == walk->table_count || walk->tables[low] != offset)
		return false;
	return !rest_number(&rest, 2, &version) || version != 5 ||
	    wide == (unit->sizes.offset == WIDE_LENGTH);
}

/* ---- Entries ------------------------------------------------------------- */

/* An entry that is being read. */
struct entry {
	const struct abbrev *abbrev;
	struct unit *unit;
	uint64_t ranges_form; /* 0: the entry has no ranges */
	uint64_t ranges;
};

/* Read a number in one of the forms that compilers use for offsets. */
static bool
read_offset(
    const struct unit *unit, uint64_t form, struct rest *rest, uint64_t *value)
{
	switch (form) {
	case FORM_SEC_OFFSET:
		return rest_number(rest, unit->sizes.offset, value);
	case FORM_DATA4:
		return rest_number(rest, 4, value);
	case FORM_DATA8:
		return rest_number(rest, 8, value);
	case FORM_RNGLISTX:
		return rest_uleb(rest, value);
	default:
		return false;
	}
}

static bool
pass_base(struct unit *unit, uint64_t name, uint64_t form, struct rest *rest)
{
	uint64_t base;

	if (form != FORM_SEC_OFFSET || !read_offset(unit, form, rest, &base) ||
	    base >= DWARF_INDEX_MAX)
		return false;
	if (name == AT_RNGLISTS_BASE)
		unit->rnglists_base = base;
	return true;
}

static bool
pass_attribute(struct walk *walk, struct entry *entry, uint64_t name,
    uint64_t form, struct rest *rest)
{
	unsigned left = DWARF_CHAIN_MAX;
	struct unit *unit = entry->unit;
	struct target target;
	uint64_t offset;

	switch (name) {
	case AT_ABSTRACT_ORIGIN:
	case AT_SPECIFICATION:
		return read_reference(walk, unit, form, rest, &target) &&
		    chain_ends(walk, target, &left);
	case AT_RANGES:
		entry->ranges_form = form;
		return read_offset(unit, form, rest, &entry->ranges);
	case AT_STMT_LIST:
		return form != FORM_RNGLISTX &&
		    read_offset(unit, form, rest, &offset) &&
		    is_table(walk, unit, offset);
	case AT_STR_OFFSETS_BASE:
	case AT_ADDR_BASE:
	case AT_RNGLISTS_BASE:
		return pass_base(unit, name, form, rest);
	default:
		return pass_value(unit, form, rest);
	}
}

static bool
pass_entry(struct walk *walk, struct entry *entry, struct rest *rest)
{
	struct rest attributes = entry->abbrev->attributes;
	uint64_t name;
	uint64_t form;

	while (abbrev_attribute(&attributes, &name, &form) && name != 0)
		if (!walk_on(walk, 1) ||
		    !pass_attribute(walk, entry, name, form, rest))
			return false;
	return entry->ranges_form == 0 ||
	    pass_list(walk, entry->unit, entry->ranges_form, entry->ranges);
}

static bool
begins_unit(uint64_t tag)
{
	return tag == TAG_COMPILE_UNIT || tag == TAG_PARTIAL_UNIT ||
	    tag == TAG_TYPE_UNIT || tag == TAG_SKELETON_UNIT;
}

/* Walk over the entries of a unit, whose line table is the first one if it
 * names none. In some cases the reader continues after the end of the first
 * entry's children. */
static bool
unit_is_sound(struct walk *walk, struct unit *unit)
{
	struct rest rest = { walk->sections.info.at + unit->begin,
		unit->end - unit->begin };
	struct abbrev abbrev;
	unsigned depth = 0;
	bool is_first = true;
	uint64_t code;

	if (!is_table(walk, unit, 0))
		return false;
	while (rest.left > 0) {
		struct entry entry = { .abbrev = &abbrev, .unit = unit };

		if (!rest_uleb(&rest, &code))
			return false;
		if (code == 0) {
			if (depth > 0)
				depth--;
			continue;
		}
		if (!abbrevs_find(
			&walk->abbrevs, unit->abbrevs, code, &abbrev) ||
		    (begins_unit(abbrev.tag) && !is_first) ||
		    !pass_entry(walk, &entry, &rest))
			return false;
		if (abbrev.has_children && ++depth > DWARF_DEPTH_MAX)
			return false;
		is_first = false;
	}
	return true;
}

/* Prepare the walk; *room is the capacity of the tables. */
static bool
begin_walk(struct walk *walk, size_t *room)
{
	return abbrevs_begin(&walk->abbrevs, walk->sections.abbrevs) &&
	    find_tables(walk, room) && find_units(walk);
}

static void
end_walk(struct walk *walk, size_t room)
{
	meta_free(walk->units, walk->unit_room * sizeof(*walk->units));
	meta_free(walk->tables, room * sizeof(*walk->tables));
	abbrevs_end(&walk->abbrevs);
}

bool
dwarf_info_is_sound(const struct dwarf_sections *sections)
{
	/* Attributes such as flags take no bytes, so there may be more
	 * attributes than bytes. In compilers' output one attribute in three is
	 * like that. */
	enum { STEPS_A_BYTE = 16, STEPS_BASE = 1 << 16 };
	uint64_t bytes = sections->info.left + sections->abbrevs.left +
	    sections->ranges.left + sections->rnglists.left;
	struct walk walk = { .sections = *sections,
		.steps = STEPS_BASE + STEPS_A_BYTE * bytes };
	size_t room = 0;
	bool sound = begin_walk(&walk, &room);

	for (size_t i = 0; sound && i < walk.unit_count; i++)
		sound = unit_is_sound(&walk, &walk.units[i]);
	end_walk(&walk, room);
	return sound;
}
