/*
 * Reading the tables of an SQLite database that is in memory.
 *
 * The reader knows rowid tables in UTF-8, and no indexes, views or journals. It
 * trusts nothing in the database and runs nothing: it visits each page of a
 * table at most once, the rows of a page take no more bytes than the page has,
 * and long values take no more memory than the file has bytes.
 */
#ifndef TOOLS_WEIR_READING_SQLITE_READ_H
#define TOOLS_WEIR_READING_SQLITE_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/weir/tuning.h"

enum sqlite_kind { SQLITE_NULL, SQLITE_INTEGER, SQLITE_REAL, SQLITE_TEXT };

/* A text has `length` bytes and no NUL after it. A blob is a text too. */
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
	size_t visited;  /* pages of the current table that were read */
	size_t gathered; /* bytes of long values so far, at most `length` */
	const char *why; /* the first fault, or NULL */
};

/* The columns to read of a table, and the function that gets each row. */
struct sqlite_query {
	const char *table;
	const char *columns[SQLITE_COLUMNS]; /* NULL ends the list */
	/* `values` has one value for each column: SQLITE_NULL if the table
	 * lacks the column. The values and their texts are valid during the
	 * call only. */
	void (*row)(void *argument, const struct sqlite_value *values);
	void *argument;
};

/* True if the first bytes are those of a database. */
bool sqlite_is(const void *bytes, size_t length);

/* Begin to read a database. False, and `why` set, if it is damaged or of
 * another form. */
bool sqlite_open(struct sqlite *db, const void *bytes, size_t length);

/* Read all rows of a table in the order of their rowids. A table that does not
 * exist has no rows. False, and `why` set, if the database is damaged. */
bool sqlite_read(struct sqlite *db, const struct sqlite_query *query);

#endif
