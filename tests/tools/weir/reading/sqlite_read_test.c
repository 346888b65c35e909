/*
 * Hostile databases. Each is read from memory of exactly its size, so that a
 * sanitizer finds a read after its end.
 */
#include "tools/weir/reading/sqlite_read.h"

#include <stdlib.h>
#include <string.h>

#include "tests/support/test.h"

enum {
	PAGE = 512,
	PAGES = 6,
	FILE_HEAD = 100,
	LEAF = 0x0d,
	INTERIOR = 0x05,
	TEXT = 13 /* the type of an empty text; each byte of a text adds 2 */
};

/* A database of small pages, which are numbered from 1. Page 1 has the table
 * "t" with the column "a", whose rows begin on page 2. */
struct database {
	unsigned char pages[PAGES][PAGE];
};

static void
put_big(unsigned char *at, uint64_t value, int n)
{
	for (int i = 0; i < n; i++)
		at[i] = (unsigned char)(value >> 8 * (n - 1 - i));
}

/* Make a page of a kind that has these cells, whose first byte is where. */
static void
put_page(unsigned char *page, unsigned kind, const unsigned *cells, unsigned n)
{
	unsigned head = kind == LEAF ? 8 : 12;

	page[0] = (unsigned char)kind;
	put_big(page + 3, n, 2);
	for (unsigned i = 0; i < n; i++)
		put_big(page + head + 2 * i, cells[i], 2);
}

static struct database
make_database(void)
{
	static const unsigned char table[] = { 41, 1, /* payload, rowid */
		6, TEXT + 2 * 5, TEXT + 2, TEXT + 2, 1, TEXT + 2 * 27, 't', 'a',
		'b', 'l', 'e', 't', 't', 2, 'C', 'R', 'E', 'A', 'T', 'E', ' ',
		'T', 'A', 'B', 'L', 'E', ' ', 't', ' ', '(', 'a', ' ', 'I', 'N',
		'T', 'E', 'G', 'E', 'R', ')', ' ', ' ', ' ' };
	static const unsigned char row[] = { 3, 7, 2, 1, 42 };
	static const unsigned table_cell = 400 - FILE_HEAD;
	static const unsigned row_cell = 400;
	struct database db = { .pages = { "SQLite format 3" } };
	unsigned char *first = db.pages[0];

	put_big(first + 16, PAGE, 2);
	put_big(first + 56, 1, 4);
	put_page(first + FILE_HEAD, LEAF, &table_cell, 1);
	put_big(first + FILE_HEAD + 8, 400, 2);
	memcpy(first + 400, table, sizeof(table));
	put_page(db.pages[1], LEAF, &row_cell, 1);
	memcpy(db.pages[1] + 400, row, sizeof(row));
	return db;
}

/* The rows that were read of the table. */
struct result {
	unsigned rows;
	int64_t sum;
	size_t text_bytes;
};

static void
count_row(void *argument, const struct sqlite_value *values)
{
	struct result *result = argument;

	result->rows++;
	result->sum += values[0].integer;
	if (values[0].kind != SQLITE_TEXT)
		return;
	for (size_t i = 0; i < values[0].length; i++)
		result->sum += values[0].text[i];
	result->text_bytes += values[0].length;
}

/* Read the table. Returns NULL, or the fault. */
static const char *
fault_of_bytes(const void *bytes, size_t size, struct result *result)
{
	struct sqlite_query query = { .table = "t",
		.columns = { "a" },
		.row = count_row,
		.argument = result };
	void *copy = malloc(size);
	struct sqlite db;
	bool good;

	EXPECT_NOT_NULL(copy);
	memcpy(copy, bytes, size);
	*result = (struct result){ .rows = 0 };
	good = sqlite_open(&db, copy, size) && sqlite_read(&db, &query);
	free(copy);
	EXPECT_EQ(good, db.why == NULL);
	return db.why;
}

static const char *
fault_of(const struct database *db)
{
	struct result result;

	return fault_of_bytes(db, sizeof(*db), &result);
}

TEST(a_small_database_is_read)
{
	struct database db = make_database();
	struct result result;

	EXPECT_NULL(fault_of_bytes(&db, sizeof(db), &result));
	EXPECT_EQ(result.rows, 1);
	EXPECT_EQ(result.sum, 42);
}

/* ---- Pages --------------------------------------------------------------- */

/* Make page 2 and others interior pages, each with the child of its number. */
static void
put_children(struct database *db, const unsigned *children, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		put_page(db->pages[i + 1], INTERIOR, NULL, 0);
		put_big(db->pages[i + 1] + 8, children[i], 4);
	}
}

TEST(pages_in_a_ring_are_refused)
{
	static const unsigned self[] = { 2 };
	static const unsigned ring[] = { 3, 4, 2 };
	static const unsigned first[] = { 3, 1 };
	struct database db = make_database();

	put_children(&db, self, 1);
	EXPECT_STR_EQ(fault_of(&db), "a table has pages twice");
	put_children(&db, ring, 3);
	EXPECT_STR_EQ(fault_of(&db), "a table has pages twice");
	/* The table of tables is damaged in the same way. */
	put_children(&db, first, 2);
	EXPECT_NULL(fault_of(&db));
}

/* Each page has the next one twice: 2^n visits without a bound. */
TEST(pages_that_are_shared_are_refused)
{
	static const unsigned cells[] = { 100, 100, 100 };
	struct database db = make_database();

	for (unsigned i = 1; i < PAGES - 1; i++) {
		put_page(db.pages[i], INTERIOR, cells, 3);
		put_big(db.pages[i] + 100, i + 2, 4);
		put_big(db.pages[i] + 8, i + 2, 4);
	}
	put_page(db.pages[PAGES - 1], LEAF, NULL, 0);
	EXPECT_STR_EQ(fault_of(&db), "a table has pages twice");
}

TEST(pages_that_are_not_there_are_refused)
{
	static const unsigned children[] = { 0, PAGES + 1, UINT32_MAX };

	for (int i = 0; i < 3; i++) {
		struct database db = make_database();

		put_children(&db, &children[i], 1);
		EXPECT_STR_EQ(fault_of(&db), "it is cut off");
	}
}

TEST(a_page_of_another_kind_is_refused)
{
	static const unsigned char kinds[] = { 0, 2, 10, 255 };

	for (int i = 0; i < 4; i++) {
		struct database db = make_database();

		db.pages[1][0] = kinds[i];
		EXPECT_STR_EQ(
		    fault_of(&db), "a table has a page of another kind");
	}
}

TEST(more_rows_than_fit_into_a_page_are_refused)
{
	struct database db = make_database();

	put_big(db.pages[1] + 3, (PAGE - 8) / 2 + 1, 2);
	EXPECT_STR_EQ(fault_of(&db), "a page has more rows than fit");
	put_big(db.pages[1] + 3, UINT16_MAX, 2);
	EXPECT_STR_EQ(fault_of(&db), "a page has more rows than fit");
}

TEST(a_row_outside_of_its_page_is_refused)
{
	static const unsigned places[] = { PAGE - 3, PAGE, UINT16_MAX };

	for (int i = 0; i < 3; i++) {
		struct database db = make_database();

		put_big(db.pages[1] + 8, places[i], 2);
		EXPECT_STR_EQ(fault_of(&db), "a row lies outside of its page");
	}
}

/* A large page with very many rows, all of which are the same bytes of the
 * page. */
TEST(rows_that_share_their_bytes_are_refused)
{
	enum { LARGE = 65536, ROWS = 15000, AT = 31000, LENGTH = 34000 };
	static unsigned char file[3 * LARGE];
	struct database db = make_database();
	/* A text of LENGTH bytes: its payload, rowid, head and type. */
	unsigned char row[] = { 0x80, 0, 0, 1, 4, 0x80, 0, 0 };
	unsigned char *page = file + LARGE;
	struct result result;
	unsigned type = TEXT + 2 * LENGTH;

	row[0] = 0x80 | (LENGTH + 4) >> 14;
	row[1] = 0x80 | ((LENGTH + 4) >> 7 & 0x7f);
	row[2] = (LENGTH + 4) & 0x7f;
	row[5] = (unsigned char)(0x80 | type >> 14);
	row[6] = (unsigned char)(0x80 | (type >> 7 & 0x7f));
	row[7] = type & 0x7f;
	memcpy(file, db.pages[0], PAGE);
	put_big(file + 16, 1, 2);
	page[0] = LEAF;
	memset(page + AT, 'a', LARGE - AT);
	memcpy(page + AT, row, sizeof(row));
	put_big(page + 3, 1, 2);
	for (int i = 0; i < ROWS; i++)
		put_big(page + 8 + 2 * i, AT, 2);
	EXPECT_NULL(fault_of_bytes(file, sizeof(file), &result));
	EXPECT_EQ(result.text_bytes, LENGTH);
	put_big(page + 3, ROWS, 2);
	EXPECT_STR_EQ(fault_of_bytes(file, sizeof(file), &result),
	    "a page has rows that overlap");
	EXPECT_LE(result.rows, 2);
}

/* ---- Records ------------------------------------------------------------- */

/* Put a row at the end of page 2, of which so many bytes are there. */
static const char *
fault_of_row(const unsigned char *row, size_t size)
{
	unsigned cell = PAGE - (unsigned)size;
	struct database db = make_database();

	put_page(db.pages[1], LEAF, &cell, 1);
	memcpy(db.pages[1] + cell, row, size);
	/* The next bytes would continue a number that is cut off. */
	memset(db.pages[2], 0x81, PAGE);
	return fault_of(&db);
}

#define EXPECT_ROW(fault, ...)                                                 \
	do {                                                                   \
		static const unsigned char row[] = { __VA_ARGS__ };            \
		EXPECT_STR_EQ(fault_of_row(row, sizeof(row)), fault);          \
	} while (0)

TEST(numbers_that_the_page_ends_in_are_refused)
{
	EXPECT_ROW("a row is cut off", 0x81, 0x81, 0x81, 0x81);
	EXPECT_ROW("a row is cut off", 3, 0x81, 0x81, 0x81);
	EXPECT_ROW(
	    "a row is cut off", 0x81, 0x81, 0x81, 0x81, 0x81, 0x81, 0x81, 0x81);
	EXPECT_ROW("a row is cut off", 5, 1, 2, 1);
	EXPECT_ROW("a row's header is cut off", 2, 1, 0x81, 0x81);
	EXPECT_ROW("a row's header is cut off", 2, 1, 2, 0x81);
	EXPECT_ROW("a row's header is cut off", 0, 1, 0x81, 0x81);
}

/* The sizes of headers, values and rows have their largest values. */
TEST(sizes_beyond_a_row_are_refused)
{
	EXPECT_ROW("a row's header is cut off", 2, 1, 3, 1);
	EXPECT_ROW("a row is cut off", 2, 1, 2, 1);
	EXPECT_ROW("a row is cut off", 3, 1, 2, 6, 0);
	EXPECT_ROW("a row is cut off", 11, 1, 10, 0xff, 0xff, 0xff, 0xff, 0xff,
	    0xff, 0xff, 0xff, 0xff, 0);
	EXPECT_ROW("a row's header is cut off", 11, 1, 0xff, 0xff, 0xff, 0xff,
	    0xff, 0xff, 0xff, 0xff, 0xff, 0, 0);
	EXPECT_ROW("a row is cut off", 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
	    0xff, 0xff, 1);
}

/* ---- Long values --------------------------------------------------------- */

enum { LONG = 2000, LOCAL = 476 };

/* Make one row whose payload of so many bytes continues on a page; its local
 * bytes are all of page 2 but the heads. */
static struct database
make_long(unsigned payload, unsigned next)
{
	struct database db = make_database();
	unsigned char *page = db.pages[1];
	unsigned least = (PAGE - 12) * 32 / 255 - 23;
	unsigned local = least + (payload - least) % (PAGE - 4);
	unsigned cell = 20;
	unsigned type = TEXT + 2 * (payload - 3);

	if (local > PAGE - 35)
		local = least;
	put_page(page, LEAF, &cell, 1);
	page[20] = (unsigned char)(0x80 | payload >> 7);
	page[21] = payload & 0x7f;
	page[22] = 1;
	page[23] = 3;
	page[24] = (unsigned char)(0x80 | type >> 7);
	page[25] = type & 0x7f;
	put_big(page + 23 + local, next, 4);
	return db;
}

TEST(a_long_value_is_read_from_its_pages)
{
	struct database db = make_long(LONG, 3);
	struct result result;

	for (unsigned i = 2; i < PAGES; i++) {
		memset(db.pages[i], 1, PAGE);
		put_big(db.pages[i], i + 2, 4);
	}
	EXPECT_NULL(fault_of_bytes(&db, sizeof(db), &result));
	EXPECT_EQ(result.text_bytes, LONG - 3);
}

/* The chain ends when the value has all its bytes. */
TEST(pages_of_a_long_value_in_a_ring_are_harmless)
{
	struct database db = make_long(LONG, 3);
	struct result result;

	put_big(db.pages[2], 3, 4);
	EXPECT_NULL(fault_of_bytes(&db, sizeof(db), &result));
	EXPECT_EQ(result.text_bytes, LONG - 3);
}

TEST(pages_of_a_long_value_that_are_not_there_are_refused)
{
	static const unsigned pages[] = { 0, PAGES + 1, UINT32_MAX };

	for (int i = 0; i < 3; i++) {
		struct database db = make_long(LONG, pages[i]);

		EXPECT_STR_EQ(fault_of(&db), "a long value is cut off");
		db = make_long(LONG, 3);
		put_big(db.pages[2], pages[i], 4);
		EXPECT_STR_EQ(fault_of(&db), "a long value is cut off");
	}
}

TEST(long_values_of_more_bytes_than_the_file_are_refused)
{
	static const unsigned cells[] = { 20, 20 };
	struct database db = make_long(PAGES * PAGE + 1, 3);

	EXPECT_STR_EQ(fault_of(&db), "its long values are more than the file");
	/* Twice the same. */
	db = make_long(LONG, 3);
	put_big(db.pages[2], 3, 4);
	put_page(db.pages[1], LEAF, cells, 2);
	EXPECT_NOT_NULL(fault_of(&db));
}

/* ---- The file and its tables --------------------------------------------- */

TEST(files_that_are_cut_anywhere_are_refused)
{
	struct database db = make_database();
	struct result result;

	for (size_t size = 1; size < 2 * PAGE; size++)
		EXPECT_NOT_NULL(fault_of_bytes(&db, size, &result));
}

TEST(impossible_sizes_of_pages_are_refused)
{
	static const unsigned sizes[] = { 0, 2, 256, 511, 513, 65535 };

	for (int i = 0; i < 6; i++) {
		struct database db = make_database();

		put_big(db.pages[0] + 16, sizes[i], 2);
		EXPECT_STR_EQ(fault_of(&db), "its pages have no good size");
	}
	struct database db = make_database();

	db.pages[0][20] = PAGE - 479;
	EXPECT_STR_EQ(fault_of(&db), "its pages are too small");
}

/* The definition ends at any place, also within quotes and comments. */
TEST(definitions_that_are_cut_are_harmless)
{
	static const char starts[] = "\"'`[(-, \0";

	for (size_t i = 0; i < sizeof(starts); i++)
		for (size_t k = 0; k < 27; k++) {
			struct database db = make_database();

			memset(db.pages[0] + 400 + 16 + k, starts[i], 27 - k);
			fault_of(&db);
		}
}
