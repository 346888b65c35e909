/*
 * Entries that the reader of debug information would follow without an end, and
 * entries as compilers write them.
 */
#include "stacks/dwarf_info.h"

#include <stdlib.h>
#include <string.h>

#include "tests/support/test.h"

/* A section of units. */
struct text {
	unsigned char bytes[4096];
	size_t size;
};

static void
put(struct text *text, uint64_t value, size_t size)
{
	EXPECT_LE(text->size + size, sizeof(text->bytes));
	/* The machines that weir runs on have the lowest byte first. */
	memcpy(text->bytes + text->size, &value, size);
	text->size += size;
}

enum { ORIGIN = 0x31, SPECIFICATION = 0x47, NAME = 0x03 };

/* Codes of the abbreviations below. */
enum { UNIT = 1, BASE, BLOCK, FROM_ORIGIN, FROM_SPECIFICATION, FAR, TWO, ODD };

static const unsigned char abbrevs[] = {
	UNIT,
	0x11,
	1,
	0,
	0, /* a unit with children */
	BASE,
	0x24,
	0,
	NAME,
	0x08,
	0,
	0,
	BLOCK,
	0x0b,
	1,
	0,
	0, /* with children */
	FROM_ORIGIN,
	0x2e,
	0,
	ORIGIN,
	0x13,
	0,
	0,
	FROM_SPECIFICATION,
	0x2e,
	0,
	NAME,
	0x08,
	SPECIFICATION,
	0x13,
	0,
	0,
	FAR,
	0x2e,
	0,
	SPECIFICATION,
	0x10,
	0,
	0,
	TWO,
	0x2e,
	0,
	SPECIFICATION,
	0x13,
	SPECIFICATION,
	0x13,
	0,
	0,
	ODD,
	0x2e,
	0,
	0x55,
	0x55,
	SPECIFICATION,
	0x13,
	0,
	0,
	0,
};

/* Begin a unit of version 4. Returns its start. */
static size_t
begin_unit(struct text *info)
{
	size_t start = info->size;

	put(info, 0, 4);
	put(info, 4, 2);
	put(info, 0, 4);
	put(info, 8, 1);
	put(info, UNIT, 1);
	return start;
}

static void
end_unit(struct text *info, size_t start)
{
	uint32_t length;

	put(info, 0, 1);
	length = (uint32_t)(info->size - start - 4);
	memcpy(info->bytes + start, &length, sizeof(length));
}

static bool
sound_by(const unsigned char *info, size_t size, const unsigned char *codes,
    size_t codes_size)
{
	struct dwarf_sections sections = { .info = { info, size },
		.abbrevs = { codes, codes_size } };

	return dwarf_info_is_sound(&sections);
}

/* In separate memory, so that sanitizers find reads beyond it. */
static bool
bounded(const unsigned char *info, size_t size)
{
	unsigned char *copy = malloc(size + 1);
	unsigned char *codes = malloc(sizeof(abbrevs));

	EXPECT_NOT_NULL(copy);
	EXPECT_NOT_NULL(codes);
	memcpy(copy, info, size);
	memcpy(codes, abbrevs, sizeof(abbrevs));
	bool is = sound_by(copy, size, codes, sizeof(abbrevs));

	free(copy);
	free(codes);
	return is;
}

static bool
is_bounded(const struct text *info)
{
	return bounded(info->bytes, info->size);
}

/* An entry that refers to the one at an offset in its unit. */
static void
put_specification(struct text *info, uint32_t target)
{
	put(info, FROM_SPECIFICATION, 1);
	put(info, 0, 1); /* its name */
	put(info, target, 4);
}

TEST(entries_that_take_their_names_from_others_are_bounded)
{
	struct text info = { .size = 0 };
	size_t unit = begin_unit(&info);
	uint32_t base = (uint32_t)info.size;

	put(&info, BASE, 1);
	put(&info, 'a', 2);
	uint32_t declared = (uint32_t)info.size;
	put_specification(&info, base);
	put(&info, FROM_ORIGIN, 1);
	put(&info, declared, 4);
	end_unit(&info, unit);
	EXPECT(is_bounded(&info));
}

TEST(an_entry_that_refers_to_itself_is_not_bounded)
{
	struct text info = { .size = 0 };
	size_t unit = begin_unit(&info);

	put_specification(&info, (uint32_t)info.size);
	end_unit(&info, unit);
	EXPECT(!is_bounded(&info));
}

/* A name that another entry takes from a ring, which itself comes later. */
TEST(a_ring_of_references_is_not_bounded)
{
	struct text info = { .size = 0 };
	size_t unit = begin_unit(&info);

	put(&info, FROM_ORIGIN, 1);
	put(&info, info.size + 4, 4);
	put_specification(&info, (uint32_t)info.size + 6);
	put_specification(&info, (uint32_t)info.size - 6);
	end_unit(&info, unit);
	EXPECT(!is_bounded(&info));
}

TEST(a_ring_through_two_units_is_not_bounded)
{
	struct text info = { .size = 0 };
	size_t unit = begin_unit(&info);
	size_t first = info.size;

	put(&info, FAR, 1);
	put(&info, 0, 4);
	end_unit(&info, unit);
	unit = begin_unit(&info);
	uint32_t second = (uint32_t)info.size;
	put(&info, FAR, 1);
	put(&info, first, 4);
	end_unit(&info, unit);
	EXPECT(is_bounded(&info)); /* the first refers to a unit's header */
	memcpy(info.bytes + first + 1, &second, sizeof(second));
	EXPECT(!is_bounded(&info));
}

/* An entry with a name, and a chain of this many entries that refer to it.
 * Returns the place of the last one. */
static uint32_t
put_chain(struct text *info, unsigned links)
{
	uint32_t before = (uint32_t)info->size;

	put(info, BASE, 1);
	put(info, 'a', 2);
	for (unsigned i = 0; i < links; i++) {
		uint32_t here = (uint32_t)info->size;

		put_specification(info, before);
		before = here;
	}
	return before;
}

TEST(a_chain_has_a_bound)
{
	for (unsigned links = 1; links < 2 * DWARF_CHAIN_MAX; links++) {
		struct text info = { .size = 0 };
		size_t unit = begin_unit(&info);

		put_chain(&info, links);
		end_unit(&info, unit);
		EXPECT_EQ(is_bounded(&info), links <= DWARF_CHAIN_MAX);
	}
}

/* The last link is of the other kind, which the reader follows only at
 * first. */
TEST(an_origin_is_a_link_too)
{
	struct text info = { .size = 0 };
	size_t unit = begin_unit(&info);
	uint32_t last = put_chain(&info, DWARF_CHAIN_MAX);
	size_t end = info.size;

	end_unit(&info, unit);
	EXPECT(is_bounded(&info));
	info.size = end;
	put(&info, FROM_ORIGIN, 1);
	put(&info, last, 4);
	end_unit(&info, unit);
	EXPECT(!is_bounded(&info));
}

/* Each entry follows both: that is 2^n for a chain of n. */
TEST(branches_of_a_chain_share_its_bound)
{
	struct text info = { .size = 0 };
	size_t unit = begin_unit(&info);
	uint32_t before = (uint32_t)info.size;

	put(&info, BASE, 1);
	put(&info, 'a', 2);
	for (unsigned i = 0; i < 5; i++) {
		uint32_t here = (uint32_t)info.size;

		put(&info, TWO, 1);
		put(&info, before, 4);
		put(&info, before, 4);
		before = here;
	}
	end_unit(&info, unit);
	EXPECT(!is_bounded(&info));
}

TEST(entries_are_nested_to_a_bound)
{
	for (unsigned depth = DWARF_DEPTH_MAX - 3; depth < DWARF_DEPTH_MAX + 3;
	     depth++) {
		struct text info = { .size = 0 };
		size_t unit = begin_unit(&info);

		/* The unit itself is the first. */
		for (unsigned i = 1; i < depth; i++)
			put(&info, BLOCK, 1);
		for (unsigned i = 0; i < depth; i++)
			put(&info, 0, 1);
		end_unit(&info, unit);
		EXPECT_EQ(is_bounded(&info), depth <= DWARF_DEPTH_MAX);
	}
}

TEST(entries_that_the_reader_refuses_are_not_sound)
{
	struct text info = { .size = 0 };
	size_t unit = begin_unit(&info);
	size_t at = info.size;

	put(&info, ODD, 1); /* of an unknown form */
	end_unit(&info, unit);
	EXPECT(!is_bounded(&info));
	info.bytes[at] = 99; /* of no abbreviation */
	EXPECT(!is_bounded(&info));
	info.bytes[at] = 0;
	EXPECT(is_bounded(&info));
	info.bytes[unit + 4] = 6; /* of an unknown version */
	EXPECT(!is_bounded(&info));
}

/* The reader of functions continues there. */
TEST(entries_behind_the_end_of_a_unit_count)
{
	struct text info = { .size = 0 };
	size_t unit = begin_unit(&info);

	put(&info, 0, 2);
	put_specification(&info, (uint32_t)info.size);
	end_unit(&info, unit);
	EXPECT(!is_bounded(&info));
}

TEST(references_to_nothing_are_bounded)
{
	static const uint32_t targets[] = { 0, 10, 1000, UINT32_MAX };

	for (size_t i = 0; i < sizeof(targets) / sizeof(*targets); i++) {
		struct text info = { .size = 0 };
		size_t unit = begin_unit(&info);

		put_specification(&info, targets[i]);
		put(&info, FAR, 1);
		put(&info, targets[i], 4);
		end_unit(&info, unit);
		EXPECT(is_bounded(&info));
	}
}

/* Codes with other numbers could be understood in two ways. */
TEST(odd_codes_are_not_bounded)
{
	static const unsigned char twice[] = { 1, 0x11, 0, 0, 0, 1, 0x11, 1, 0,
		0, 0 };
	static const unsigned char high[] = { 1, 0x11, 0, 0, 0, 0x7f, 0x11, 1,
		0, 0, 0 };
	struct text info = { .size = 0 };

	end_unit(&info, begin_unit(&info));
	EXPECT(is_bounded(&info));
	EXPECT(!sound_by(info.bytes, info.size, twice, sizeof(twice)));
	EXPECT(!sound_by(info.bytes, info.size, high, sizeof(high)));
}

/* A section that the file lacks has no address; UBSan sees if one is computed.
 */
TEST(the_begin_of_a_missing_section_is_no_fault)
{
	enum { LINE_TABLE = 0x10, RANGES = 0x55, FORM_OFFSET = 0x17 };
	static const unsigned char codes[] = { UNIT, 0x11, 0, LINE_TABLE,
		FORM_OFFSET, RANGES, FORM_OFFSET, 0, 0, 0 };
	struct text info = { .size = 0 };
	size_t unit = begin_unit(&info);

	put(&info, 0, 4); /* the line table */
	put(&info, 0, 4); /* the ranges */
	end_unit(&info, unit);
	EXPECT(sound_by(info.bytes, info.size, codes, sizeof(codes)));
}

TEST(sections_that_are_cut_anywhere_are_read_within_their_bytes)
{
	struct text info = { .size = 0 };
	size_t unit = begin_unit(&info);

	put(&info, BLOCK, 1);
	put(&info, BASE, 1);
	put(&info, 'a', 2);
	put(&info, FROM_ORIGIN, 1);
	put(&info, 13, 4);
	put(&info, 0, 1);
	end_unit(&info, unit);
	for (size_t size = 0; size <= info.size; size++) {
		uint32_t length = (uint32_t)size - 4;

		EXPECT_EQ(
		    bounded(info.bytes, size), size == 0 || size == info.size);
		if (size < 5)
			continue;
		/* The unit is cut, too. */
		struct text cut = info;

		memcpy(cut.bytes, &length, sizeof(length));
		bounded(cut.bytes, size);
	}
	for (size_t size = 0; size < sizeof(abbrevs); size++) {
		unsigned char *codes = malloc(size + 1);

		EXPECT_NOT_NULL(codes);
		memcpy(codes, abbrevs, size);
		EXPECT(!sound_by(info.bytes, info.size, codes, size));
		free(codes);
	}
}

/* Flags take no byte in an entry, so a few bytes can have very many. */
TEST(attributes_that_take_no_bytes_have_a_bound)
{
	enum { FLAGS = 1500, ENTRIES = 4000, FLAG = 0x3f, PRESENT = 0x19 };
	struct text codes = { .size = 0 };
	struct text info = { .size = 0 };
	size_t unit = begin_unit(&info);

	put(&codes, UNIT, 1);
	put(&codes, 0x11, 4); /* with no children, and no attributes */
	put(&codes, BASE, 1);
	put(&codes, 0x24, 2);
	for (int i = 0; i < FLAGS; i++)
		put(&codes, PRESENT << 8 | FLAG, 2);
	put(&codes, 0, 3);
	for (int i = 0; i < ENTRIES; i++)
		put(&info, BASE, 1);
	end_unit(&info, unit);
	EXPECT(!sound_by(info.bytes, info.size, codes.bytes, codes.size));
	/* One of them is accepted. */
	info.size = unit;
	unit = begin_unit(&info);
	put(&info, BASE, 1);
	end_unit(&info, unit);
	EXPECT(sound_by(info.bytes, info.size, codes.bytes, codes.size));
}
