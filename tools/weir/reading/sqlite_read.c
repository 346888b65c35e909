/*
 * Reading the tables of an SQLite database.
 *
 * A table is a B-tree of pages, whose leaves have one record for each row. A
 * record has a header with the type of each column, and then the values. A
 * record that does not fit into its page continues in a chain of other pages.
 * Page 1 has the table of tables.
 */
#include "tools/weir/reading/sqlite_read.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const char magic[16] = "SQLite format 3";

enum {
	FILE_HEADER = 100,
	TABLE_LEAF = 0x0d,
	TABLE_INTERIOR = 0x05,
	LEAF_HEADER = 8,
	INTERIOR_HEADER = 12,
	MOST_DEPTH = 24,
	ENCODING_UTF8 = 1,
};

/* Bytes that are read in order. `at` stays at or before `end`. */
struct bytes {
	const unsigned char *at;
	const unsigned char *end;
};

/* The rows of a table and the columns to read. */
struct walk {
	struct sqlite *db;
	const struct sqlite_query *query;
	int place[SQLITE_COLUMNS]; /* of each column in a record, or -1 */
	int rowid_column;          /* column whose value is the rowid, or -1 */
	size_t column_count;       /* of the query */
	size_t cell_bytes;         /* of the rows of this page so far */
};

static bool
damaged(struct sqlite *db, const char *why)
{
	if (db->why == NULL)
		db->why = why;
	return false;
}

static uint32_t
big_endian(const unsigned char *at, int n)
{
	uint32_t value = 0;

	for (int i = 0; i < n; i++)
		value = value << 8 | at[i];
	return value;
}

/* Read a number of one to nine bytes. False if it is cut off. */
static bool
read_varint(struct bytes *bytes, uint64_t *out)
{
	uint64_t value = 0;

	for (int i = 0; i < 9 && bytes->at < bytes->end; i++) {
		unsigned char byte = *bytes->at++;

		if (i == 8) {
			*out = value << 8 | byte;
			return true;
		}
		value = value << 7 | (byte & 0x7f);
		if (byte < 0x80) {
			*out = value;
			return true;
		}
	}
	return false;
}

static const unsigned char *
page_at(const struct sqlite *db, uint32_t number)
{
	if (number == 0 || number > db->pages)
		return NULL;
	return db->bytes + (size_t)(number - 1) * db->page_bytes;
}

/* ---- Records ------------------------------------------------------------- */

/* The number of bytes of a value, by its type in the record's header. */
static uint64_t
value_bytes(uint64_t type)
{
	static const unsigned char bytes[12] = { 0, 1, 2, 3, 4, 6, 8, 8 };

	return type < 12 ? bytes[type] : (type - 12) / 2;
}

static struct sqlite_value
record_value(uint64_t type, const unsigned char *at)
{
	struct sqlite_value value = { .kind = SQLITE_INTEGER };
	size_t n = (size_t)value_bytes(type);
	uint64_t bits = 0;

	if (type >= 12) {
		value.kind = SQLITE_TEXT;
		value.text = (const char *)at;
		value.length = n;
		return value;
	}
	if (type == 0) {
		value.kind = SQLITE_NULL;
		return value;
	}
	/* Integers are in two's complement. */
	if (n > 0 && at[0] >= 0x80 && type != 7)
		bits = UINT64_MAX;
	for (size_t i = 0; i < n; i++)
		bits = bits << 8 | at[i];
	value.integer = type == 9 ? 1 : (int64_t)bits;
	if (type == 7) {
		value.kind = SQLITE_REAL;
		value.integer = 0;
		memcpy(&value.real, &bits, sizeof(bits));
	}
	return value;
}

static bool
read_sqlite_record(struct walk *walk, struct bytes record, int64_t rowid)
{
	struct sqlite_value values[SQLITE_COLUMNS] = { 0 };
	const unsigned char *start = record.at;
	struct bytes header = record;
	const unsigned char *body;
	uint64_t header_bytes;

	if (!read_varint(&header, &header_bytes) ||
	    header_bytes > (uint64_t)(record.end - start))
		return damaged(walk->db, "a row's header is cut off");
	body = start + header_bytes;
	header.end = body;
	for (int column = 0; header.at < header.end; column++) {
		uint64_t type;
		uint64_t n;

		if (!read_varint(&header, &type))
			return damaged(walk->db, "a row's header is cut off");
		n = value_bytes(type);
		if (n > (uint64_t)(record.end - body))
			return damaged(walk->db, "a row is cut off");
		for (size_t i = 0; i < walk->column_count; i++)
			if (walk->place[i] == column)
				values[i] = record_value(type, body);
		body += n;
	}
	for (size_t i = 0; i < walk->column_count; i++)
		if (walk->rowid_column >= 0 &&
		    walk->place[i] == walk->rowid_column &&
		    values[i].kind == SQLITE_NULL)
			values[i] =
			    (struct sqlite_value){ .kind = SQLITE_INTEGER,
				    .integer = rowid };
	walk->query->row(walk->query->argument, values);
	return walk->db->why == NULL;
}

/* Read a record that continues on other pages. Its page has the `local`
 * bytes. */
static bool
read_long_record(
    struct walk *walk, struct bytes local, uint64_t payload, int64_t rowid)
{
	struct sqlite *db = walk->db;
	size_t done = (size_t)(local.end - local.at);
	uint32_t next = big_endian(local.end, 4);
	unsigned char *whole;
	bool good;

	if (payload > db->length - db->gathered)
		return damaged(db, "its long values are more than the file");
	db->gathered += (size_t)payload;
	whole = malloc((size_t)payload);
	if (whole == NULL)
		return damaged(db, "out of memory");
	memcpy(whole, local.at, done);
	while (done < payload) {
		const unsigned char *page = page_at(db, next);
		size_t n = db->usable - 4;

		if (page == NULL) {
			free(whole);
			return damaged(db, "a long value is cut off");
		}
		if (n > payload - done)
			n = (size_t)payload - done;
		memcpy(whole + done, page + 4, n);
		done += n;
		next = big_endian(page, 4);
	}
	good = read_sqlite_record(
	    walk, (struct bytes){ whole, whole + payload }, rowid);
	free(whole);
	return good;
}

/* The number of bytes of a payload that are in the cell itself. */
static size_t
local_bytes(const struct sqlite *db, uint64_t payload)
{
	size_t most = db->usable - 35;
	size_t least = (db->usable - 12) * 32 / 255 - 23;
	size_t rest;

	if (payload <= most)
		return (size_t)payload;
	rest = least + (size_t)((payload - least) % (db->usable - 4));
	return rest <= most ? rest : least;
}

static bool
read_leaf_cell(struct walk *walk, struct bytes cell)
{
	const unsigned char *start = cell.at;
	uint64_t payload;
	uint64_t rowid;
	size_t local;
	size_t here;

	if (!read_varint(&cell, &payload) || !read_varint(&cell, &rowid))
		return damaged(walk->db, "a row is cut off");
	local = local_bytes(walk->db, payload);
	here = (size_t)(cell.end - cell.at);
	if (local > here || (local < payload && local + 4 > here))
		return damaged(walk->db, "a row is cut off");
	cell.end = cell.at + local;
	walk->cell_bytes += (size_t)(cell.end - start);
	if (walk->cell_bytes > walk->db->usable)
		return damaged(walk->db, "a page has rows that overlap");
	if (local < payload)
		return read_long_record(walk, cell, payload, (int64_t)rowid);
	return read_sqlite_record(walk, cell, (int64_t)rowid);
}

/* ---- Pages --------------------------------------------------------------- */

static bool read_page(struct walk *walk, uint32_t number, int depth);

static bool
read_cells(struct walk *walk, const unsigned char *page, size_t at, int depth)
{
	struct sqlite *db = walk->db;
	bool is_leaf = page[at] == TABLE_LEAF;
	size_t count = big_endian(page + at + 3, 2);
	size_t cells = at + (is_leaf ? LEAF_HEADER : INTERIOR_HEADER);

	if (cells + 2 * count > db->usable)
		return damaged(db, "a page has more rows than fit");
	walk->cell_bytes = 0;
	for (size_t i = 0; i < count; i++) {
		size_t cell = big_endian(page + cells + 2 * i, 2);

		if (cell + 4 > db->usable)
			return damaged(db, "a row lies outside of its page");
		if (is_leaf ?
			!read_leaf_cell(walk,
			    (struct bytes){ page + cell, page + db->usable }) :
			!read_page(walk, big_endian(page + cell, 4), depth + 1))
			return false;
	}
	return is_leaf ||
	    read_page(walk, big_endian(page + at + 8, 4), depth + 1);
}

static bool
read_page(struct walk *walk, uint32_t number, int depth)
{
	const unsigned char *page = page_at(walk->db, number);
	size_t at = number == 1 ? FILE_HEADER : 0;

	if (page == NULL)
		return damaged(walk->db, "it is cut off");
	if (++walk->db->visited > walk->db->pages || depth > MOST_DEPTH)
		return damaged(walk->db, "a table has pages twice");
	if (page[at] != TABLE_LEAF && page[at] != TABLE_INTERIOR)
		return damaged(walk->db, "a table has a page of another kind");
	return read_cells(walk, page, at, depth);
}

static bool
walk_from(struct walk *walk, uint32_t root)
{
	walk->db->visited = 0;
	return read_page(walk, root, 0);
}

/* ---- The table of tables ------------------------------------------------- */

/* The columns of one table, from its CREATE TABLE. */
struct definition {
	const struct sqlite_query *query;
	uint32_t root; /* the first page; 0 if the table does not exist */
	int place[SQLITE_COLUMNS];
	int rowid_column;
};

/* Skip a comment, a quoted name or one character. */
static const char *
skip_token(const char *at, const char *end)
{
	char close = *at == '[' ? ']' : *at;

	if (end - at >= 2 && at[0] == '-' && at[1] == '-') {
		while (at < end && *at != '\n')
			at++;
		return at;
	}
	if (strchr("\"'`[", *at) == NULL || *at == '\0')
		return at + 1;
	for (at++; at < end && *at != close; at++)
		;
	return at < end ? at + 1 : end;
}

static bool
contains_word(const char *at, const char *end, const char *word)
{
	size_t n = strlen(word);

	for (; (size_t)(end - at) >= n; at++)
		if (strncasecmp(at, word, n) == 0)
			return true;
	return false;
}

/* Note the place of a column. `at` is at its name. */
static void
define_column(
    struct definition *definition, int column, const char *at, const char *end)
{
	const char *name = at;
	size_t n;

	if (at < end && strchr("\"`[", *at) != NULL) {
		const char *after = skip_token(at, end);

		name++;
		n = (size_t)(after - at) - (after - at > 1 ? 2 : 1);
	} else {
		while (at < end && strchr(" \t\r\n,()", *at) == NULL)
			at++;
		n = (size_t)(at - name);
	}
	for (int i = 0; definition->query->columns[i] != NULL; i++)
		if (strlen(definition->query->columns[i]) == n &&
		    strncasecmp(definition->query->columns[i], name, n) == 0)
			definition->place[i] = column;
	if (contains_word(at, end, "INTEGER") &&
	    contains_word(at, end, "PRIMARY KEY"))
		definition->rowid_column = column;
}

/* Skip spaces and comments. */
static const char *
skip_sql_space(const char *at, const char *end)
{
	while (at < end) {
		if (strchr(" \t\r\n", *at) != NULL && *at != '\0')
			at++;
		else if (end - at >= 2 && at[0] == '-' && at[1] == '-')
			at = skip_token(at, end);
		else
			break;
	}
	return at;
}

static void
define_columns(struct definition *definition, const char *at, const char *end)
{
	int column = 0;

	while (at < end && *at != '(')
		at = skip_token(at, end);
	while (at < end && *at != ')' && column < SQLITE_TABLE_COLUMNS) {
		const char *first = skip_sql_space(at + 1, end);
		int depth = 0;

		for (at = first; at < end; at = skip_token(at, end)) {
			depth += *at == '(';
			if (depth == 0 && (*at == ',' || *at == ')'))
				break;
			depth -= *at == ')';
		}
		define_column(definition, column++, first, at);
	}
}

static bool
text_is(const struct sqlite_value *value, const char *text)
{
	return value->kind == SQLITE_TEXT && value->length == strlen(text) &&
	    memcmp(value->text, text, value->length) == 0;
}

static void
read_definition(void *argument, const struct sqlite_value *values)
{
	struct definition *definition = argument;

	if (!text_is(&values[0], "table") ||
	    !text_is(&values[1], definition->query->table) ||
	    values[2].kind != SQLITE_INTEGER || values[2].integer < 1 ||
	    values[2].integer > UINT32_MAX || values[3].kind != SQLITE_TEXT)
		return;
	definition->root = (uint32_t)values[2].integer;
	define_columns(
	    definition, values[3].text, values[3].text + values[3].length);
}

bool
sqlite_read(struct sqlite *db, const struct sqlite_query *query)
{
	struct definition definition = { .query = query, .rowid_column = -1 };
	const struct sqlite_query tables = { .row = read_definition,
		.argument = &definition };
	struct walk walk = { .db = db,
		.query = &tables,
		.place = { 0, 1, 3, 4 }, /* type, name, rootpage, sql */
		.rowid_column = -1,
		.column_count = 4 };

	for (int i = 0; i < SQLITE_COLUMNS; i++)
		definition.place[i] = -1;
	if (!walk_from(&walk, 1))
		return false;
	if (definition.root == 0)
		return true;
	walk.query = query;
	walk.rowid_column = definition.rowid_column;
	memcpy(walk.place, definition.place, sizeof(walk.place));
	walk.column_count = 0;
	while (walk.column_count < SQLITE_COLUMNS &&
	    query->columns[walk.column_count] != NULL)
		walk.column_count++;
	return walk_from(&walk, definition.root);
}

bool
sqlite_is(const void *bytes, size_t length)
{
	return length >= sizeof(magic) &&
	    memcmp(bytes, magic, sizeof(magic)) == 0;
}

bool
sqlite_open(struct sqlite *db, const void *bytes, size_t length)
{
	*db = (struct sqlite){ .bytes = bytes, .length = length };
	if (length < FILE_HEADER || !sqlite_is(bytes, length))
		return damaged(db, "it is cut off");
	db->page_bytes = big_endian(db->bytes + 16, 2);
	if (db->page_bytes == 1)
		db->page_bytes = 65536;
	if (db->page_bytes < 512 ||
	    (db->page_bytes & (db->page_bytes - 1)) != 0)
		return damaged(db, "its pages have no good size");
	if (db->page_bytes - db->bytes[20] < 480)
		return damaged(db, "its pages are too small");
	db->usable = db->page_bytes - db->bytes[20];
	db->pages = length / db->page_bytes;
	if (db->pages == 0)
		return damaged(db, "it is cut off");
	if (big_endian(db->bytes + 56, 4) != ENCODING_UTF8)
		return damaged(db, "its texts are not in UTF-8");
	return true;
}
