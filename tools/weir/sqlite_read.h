/*
 * Reading the tables of an SQLite database that is in memory.
 *
 * It reads what the file format's description says of rowid tables in UTF-8:
 * no indexes, views or journals. Nothing in the database is trusted or run:
 * each page of a table is visited at most once, and long values take no more
 * memory than the file has bytes.
 */
#ifndef TOOLS_WEIR_SQLITE_READ_H
#define TOOLS_WEIR_SQLITE_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum sqlite_kind { SQLITE_NULL, SQLITE_INTEGER, SQLITE_REAL, SQLITE_TEXT };

/* A text has `length` bytes and no NUL behind it; a blob is a text too. */
struct sqlite_value {
	enum sqlite_kind kind;
	int64_t integer;
	double real;
	const char *text;
	size_t length;
};

struct sqlite {
	const unsigned char *bytes;
	size_t length;
	size_t page_bytes;
	size_t usable; /* bytes of a page that are not reserved */
	size_t pages;
	size_t visited;  /* pages of the table being read */
	size_t gathered; /* bytes of long values so far, at most `length` */
	const char *why; /* what is wrong; NULL: nothing so far */
};

/* The most columns that a query names, and that a table may have. */
enum { SQLITE_COLUMNS = 16, SQLITE_TABLE_COLUMNS = 128 };

/* The columns to read of a table, and what to do with each row. */
struct sqlite_query {
	const char *table;
	const char *columns[SQLITE_COLUMNS]; /* up to a NULL */
	/* `values` has one for each column, NULL where the table lacks it; it
	 * and its texts are valid during the call only. */
	void (*row)(void *argument, const struct sqlite_value *values);
	void *argument;
};

/* Do the first bytes say that this is a database? */
bool sqlite_is(const void *bytes, size_t length);

/* Begin to read. False, and `why` set, if it is damaged or of another form. */
bool sqlite_open(struct sqlite *db, const void *bytes, size_t length);

/* Read all rows of a table in the order of their rowid. A table that is not
 * there has none. False, and `why` set, if something is damaged. */
bool sqlite_read(struct sqlite *db, const struct sqlite_query *query);

#endif
