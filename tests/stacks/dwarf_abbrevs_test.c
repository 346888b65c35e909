/*
 * Tables of abbreviations as compilers write them, and tables that are cut,
 * odd, or state absurd numbers.
 */
#include "stacks/dwarf_abbrevs.h"

#include <stdlib.h>
#include <string.h>

#include "base/meta.h"
#include "tests/support/test.h"

enum { UNIT_TAG = 0x11, BASE_TAG = 0x24, FAR_TAG = 0x4081 };
enum { NAME = 0x03, LANGUAGE = 0x13, TEXT = 0x08 };

/* Two tables; the second one begins at SECOND. */
static const unsigned char two_tables[] = {
	/* A unit with children: a name, and a language that the table gives. */
	1, UNIT_TAG, 1, NAME, TEXT, LANGUAGE, FORM_IMPLICIT_CONST, 0x81, 0x01,
	0, 0,
	/* A type without children and attributes. */
	2, BASE_TAG, 0, 0, 0,
	/* The end of the first table. */
	0,
	/* Code 3, which comes first, and has a tag of three bytes. */
	3, 0x81, 0x81, 0x01, 0, 0, 0,
	/* Code 1, and the end. */
	1, BASE_TAG, 1, 0, 0, 0
};

enum { SECOND = 17 };

/* A section in memory of its own, so that sanitizers find reads beyond it. */
struct section {
	unsigned char *bytes;
	struct abbrevs abbrevs;
	bool is_good;
};

static struct section
begin(const void *bytes, size_t size)
{
	struct section section = { .bytes = malloc(size) };

	EXPECT_NOT_NULL(section.bytes);
	memcpy(section.bytes, bytes, size);
	section.is_good = abbrevs_begin(
	    &section.abbrevs, (struct rest){ section.bytes, size });
	return section;
}

static void
end(struct section *section)
{
	abbrevs_end(&section->abbrevs);
	free(section->bytes);
}

/* Is the section good, and does a good table begin there? A table that is
 * refused is refused again. */
static bool
is_table(const void *bytes, size_t size, uint64_t offset)
{
	struct section section = begin(bytes, size);
	bool is =
	    section.is_good && abbrevs_table(&section.abbrevs, offset) != NULL;

	if (section.is_good)
		EXPECT_EQ(abbrevs_table(&section.abbrevs, offset) != NULL, is);
	end(&section);
	return is;
}

static void
expect_attribute(struct abbrev *abbrev, uint64_t name, uint64_t form)
{
	uint64_t got_name;
	uint64_t got_form;

	EXPECT(abbrev_attribute(&abbrev->attributes, &got_name, &got_form));
	EXPECT_EQ(got_name, name);
	EXPECT_EQ(got_form, form);
}

/* ---- Good tables --------------------------------------------------------- */

TEST(a_table_says_what_the_entries_of_a_code_have)
{
	struct section section = begin(two_tables, sizeof(two_tables));
	const struct abbrev_table *table = abbrevs_table(&section.abbrevs, 0);
	struct abbrev abbrev;

	EXPECT_NOT_NULL(table);
	EXPECT_EQ(table->length, SECOND);
	EXPECT(abbrevs_find(&section.abbrevs, table, 1, &abbrev));
	EXPECT_EQ(abbrev.tag, UNIT_TAG);
	EXPECT(abbrev.has_children);
	expect_attribute(&abbrev, NAME, TEXT);
	expect_attribute(&abbrev, LANGUAGE, FORM_IMPLICIT_CONST);
	expect_attribute(&abbrev, 0, 0);
	EXPECT(abbrevs_find(&section.abbrevs, table, 2, &abbrev));
	EXPECT_EQ(abbrev.tag, BASE_TAG);
	EXPECT(!abbrev.has_children);
	expect_attribute(&abbrev, 0, 0);
	end(&section);
}

/* Units share tables, and the codes of one table are not those of another. */
TEST(each_offset_has_one_table)
{
	struct section section = begin(two_tables, sizeof(two_tables));
	struct abbrevs *abbrevs = &section.abbrevs;
	const struct abbrev_table *first = abbrevs_table(abbrevs, 0);
	const struct abbrev_table *second = abbrevs_table(abbrevs, SECOND);
	struct abbrev abbrev;

	EXPECT_NOT_NULL(second);
	EXPECT_NE(second, first);
	EXPECT_EQ(second->length, sizeof(two_tables) - SECOND);
	EXPECT_EQ(abbrevs_table(abbrevs, 0), first);
	EXPECT_EQ(abbrevs_table(abbrevs, SECOND), second);
	EXPECT(abbrevs_find(abbrevs, second, 3, &abbrev));
	EXPECT_EQ(abbrev.tag, FAR_TAG);
	EXPECT(abbrevs_find(abbrevs, second, 1, &abbrev));
	EXPECT_EQ(abbrev.tag, BASE_TAG);
	EXPECT(abbrevs_find(abbrevs, first, 1, &abbrev));
	EXPECT_EQ(abbrev.tag, UNIT_TAG);
	end(&section);
}

TEST(a_code_without_a_declaration_is_not_found)
{
	static const uint64_t unknown[] = { 0, 2, 4, 5, UINT32_MAX,
		UINT64_MAX };
	struct section section = begin(two_tables, sizeof(two_tables));
	const struct abbrev_table *table =
	    abbrevs_table(&section.abbrevs, SECOND);
	struct abbrev abbrev;

	EXPECT_NOT_NULL(table);
	for (size_t i = 0; i < sizeof(unknown) / sizeof(*unknown); i++)
		EXPECT(!abbrevs_find(
		    &section.abbrevs, table, unknown[i], &abbrev));
	end(&section);
}

/* ---- Tables that are refused --------------------------------------------- */

TEST(there_is_no_table_beyond_the_section)
{
	static const uint64_t beyond[] = { sizeof(two_tables),
		sizeof(two_tables) + 1, UINT32_MAX, UINT64_MAX };

	for (size_t i = 0; i < sizeof(beyond) / sizeof(*beyond); i++)
		EXPECT(!is_table(two_tables, sizeof(two_tables), beyond[i]));
}

TEST(a_table_that_is_cut_anywhere_is_refused)
{
	for (size_t size = 1; size < SECOND; size++)
		EXPECT(!is_table(two_tables, size, 0));
	EXPECT(is_table(two_tables, SECOND, 0));
	for (size_t size = SECOND + 1; size < sizeof(two_tables); size++) {
		EXPECT(is_table(two_tables, size, 0));
		EXPECT(!is_table(two_tables, size, SECOND));
	}
}

/* A unit may state any offset. */
TEST(a_table_that_begins_anywhere_is_read_within_its_bytes)
{
	for (size_t at = 0; at < sizeof(two_tables); at++)
		is_table(two_tables, sizeof(two_tables), at);
	EXPECT(!is_table(two_tables, sizeof(two_tables), SECOND - 1));
}

TEST(a_code_that_is_declared_twice_is_refused)
{
	static const unsigned char twice[] = { 2, BASE_TAG, 0, 0, 0, 1,
		BASE_TAG, 0, 0, 0, 2, UNIT_TAG, 0, 0, 0, 0 };
	static const unsigned char once[] = { 2, BASE_TAG, 0, 0, 0, 1, BASE_TAG,
		0, 0, 0, 3, UNIT_TAG, 0, 0, 0, 0 };

	EXPECT(!is_table(twice, sizeof(twice), 0));
	EXPECT(is_table(once, sizeof(once), 0));
}

/* The reader keeps 32 bits of a tag, a name and a form, here each in turn. */
TEST(numbers_beyond_32_bits_are_refused)
{
	enum { TAG, ATTRIBUTE, FORM, PLACES };

	for (int place = 0; place < PLACES; place++) {
		for (int bit = 27; bit <= 32; bit++) {
			unsigned char bytes[32] = { 1 };
			size_t size = 1;

			for (int i = 0; i < PLACES; i++) {
				if (i == ATTRIBUTE)
					bytes[size++] = 0; /* children */
				bytes[size++] = 0x93;
				memset(bytes + size, 0x80, 3);
				size += 3;
				bytes[size] = 0;
				if (i == place)
					bytes[size - (bit < 28)] |= 1
					    << (bit < 28 ? bit - 21 : bit - 28);
				size++;
			}
			size += 3;
			EXPECT_EQ(is_table(bytes, size, 0), bit < 32);
		}
	}
}

/* The reader does not read a constant there. */
TEST(an_end_of_attributes_with_a_form_is_refused)
{
	unsigned char bytes[] = { 1, BASE_TAG, 0, NAME, TEXT, 0, 0, 0, 0, 0 };

	EXPECT(is_table(bytes, sizeof(bytes), 0));
	bytes[6] = TEXT;
	EXPECT(!is_table(bytes, sizeof(bytes), 0));
	bytes[6] = FORM_IMPLICIT_CONST;
	EXPECT(!is_table(bytes, sizeof(bytes), 0));
}

/* A table has memory for the codes up to its highest one. */
TEST(codes_far_above_their_number_are_refused)
{
	enum { HIGHEST = 20 };
	unsigned char one[] = { HIGHEST, BASE_TAG, 0, 0, 0, 0 };
	static const unsigned char absurd[] = { 0xff, 0xff, 0xff, 0xff, 0xff,
		0xff, 0xff, 0xff, 0xff, 0x01, BASE_TAG, 0, 0, 0, 0 };

	EXPECT(is_table(one, sizeof(one), 0));
	one[0] = HIGHEST + 1;
	EXPECT(!is_table(one, sizeof(one), 0));
	/* 2^64 - 1: one more is 0. */
	EXPECT(!is_table(absurd, sizeof(absurd), 0));
}

/* ---- Sections that are refused ------------------------------------------- */

/* A number of 64 bits has at most ten bytes. */
TEST(a_section_with_a_number_of_eleven_bytes_is_refused)
{
	unsigned char bytes[64] = { 1, BASE_TAG, 0, 0, 0, 0 };

	EXPECT(is_table(bytes, sizeof(bytes), 0));
	memset(bytes + 32, 0xff, 9);
	EXPECT(is_table(bytes, sizeof(bytes), 0));
	bytes[32 + 9] = 0x80;
	EXPECT(!is_table(bytes, sizeof(bytes), 0));
}

/* The larger section is refused by its size: it has no bytes to read. */
TEST(an_empty_section_and_one_beyond_32_bits_are_refused)
{
	struct abbrevs abbrevs;

	EXPECT(!abbrevs_begin(&abbrevs, (struct rest){ NULL, 0 }));
	abbrevs_end(&abbrevs);
	EXPECT(!abbrevs_begin(&abbrevs, (struct rest){ NULL, UINT32_MAX }));
	abbrevs_end(&abbrevs);
}

TEST(without_memory_nothing_is_read_and_nothing_is_lost)
{
	size_t before = meta_bytes();
	struct section section;

	meta_fail(1, 1);
	section = begin(two_tables, sizeof(two_tables));
	EXPECT(!section.is_good);
	end(&section);
	section = begin(two_tables, sizeof(two_tables));
	EXPECT(section.is_good);
	meta_fail(1, 1);
	EXPECT_NULL(abbrevs_table(&section.abbrevs, 0));
	EXPECT_EQ(meta_faults(), 1);
	EXPECT_NOT_NULL(abbrevs_table(&section.abbrevs, 0));
	EXPECT_GT(meta_bytes(), before);
	end(&section);
	EXPECT_EQ(meta_bytes(), before);
}

/* The second declaration is found when the table has its memory. */
TEST(a_refused_table_keeps_no_memory)
{
	static const unsigned char twice[] = { 1, BASE_TAG, 0, 0, 0, 1,
		BASE_TAG, 0, 0, 0, 0 };
	size_t before = meta_bytes();
	struct section section = begin(twice, sizeof(twice));

	EXPECT_NULL(abbrevs_table(&section.abbrevs, 0));
	EXPECT_EQ(meta_bytes(), before);
	end(&section);
}
