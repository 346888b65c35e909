/*
 * Complaints, sizes in words, and tables for people.
 */
#include <ctype.h>
#include <errno.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <weir/weir.h>

#include "base/utf8.h"
#include "tools/weir/tool.h"

/* Write a text line by line, with each line cut and made plain. */
static void
put_plain(char *text)
{
	char plain[4096];

	for (char *line = strtok(text, "\n"); line != NULL;
	     line = strtok(NULL, "\n")) {
		utf8_copy_plain(plain, sizeof(plain), line);
		fprintf(stderr, "%s\n", plain);
	}
}

void
complain(const char *format, ...)
{
	va_list args;
	char *text;
	int length;

	fflush(stdout);
	va_start(args, format);
	length = vasprintf(&text, format, args);
	va_end(args);
	fputs("weir: ", stderr);
	if (length < 0) {
		fputs("out of memory\n", stderr);
		return;
	}
	put_plain(text);
	free(text);
}

void
complain_conf(const char *flag, const char *origin)
{
	const char *why = weir_last_error();
	size_t length = strlen(origin);

	if (strncmp(why, origin, length) == 0)
		complain("%s%s", flag, why + length);
	else
		complain("%s", why);
}

/* ---- JSON -------------------------------------------------------------- */

static void
put_utf8_escaped(const char *text, size_t length, bool is_json, FILE *out)
{
	while (length > 0) {
		char escape[UTF8_ESCAPE];
		uint32_t code;
		size_t n = utf8_next(text, length, &code);
		size_t escaped = 0;

		if (n > 0 && !(is_json && code < 0x7f))
			escaped = utf8_escape_json(escape, code);
		if (n == 0)
			fputs("\xef\xbf\xbd", out);
		else
			fwrite(escaped > 0 ? escape : text, 1,
			    escaped > 0 ? escaped : n, out);
		text += n > 0 ? n : 1;
		length -= n > 0 ? n : 1;
	}
}

void
json_escaped(const char *text, size_t length, FILE *out)
{
	put_utf8_escaped(text, length, false, out);
}

json_t *
json_of_text(const char *text)
{
	char *right = NULL;
	size_t length = 0;
	FILE *out = open_memstream(&right, &length);

	if (out == NULL)
		return NULL;
	for (size_t left = strlen(text); left > 0;) {
		uint32_t code;
		size_t n = utf8_next(text, left, &code);

		fwrite(n == 0 ? "\xef\xbf\xbd" : text, 1, n == 0 ? 3 : n, out);
		text += n > 0 ? n : 1;
		left -= n > 0 ? n : 1;
	}
	json_t *json = fclose(out) == 0 ? json_string(right) : NULL;
	free(right);
	return json;
}

/* Write a piece of JSON. The library ends pieces between characters. */
static int
print_piece(const char *text, size_t length, void *out)
{
	put_utf8_escaped(text, length, true, out);
	return ferror((FILE *)out) ? -1 : 0;
}

bool
json_print(const json_t *json, size_t flags, FILE *out)
{
	return json_dump_callback(json, print_piece, out, flags) == 0;
}

/* ---- Sizes ------------------------------------------------------------- */

bool
bytes_parse(const char *text, uint64_t *out)
{
	static const char units[4] = "KMGT";
	uint64_t value = 0;
	unsigned shift = 0;
	const char *unit;

	if (*text < '0' || *text > '9')
		return false;
	for (; *text >= '0' && *text <= '9'; text++)
		if (__builtin_mul_overflow(value, 10, &value) ||
		    __builtin_add_overflow(
			value, (uint64_t)(*text - '0'), &value))
			return false;
	unit = memchr(units, toupper((unsigned char)*text), sizeof(units));
	if (unit != NULL) {
		shift = 10 * (unsigned)(unit - units + 1);
		text++;
		if (*text == 'i')
			text++;
	}
	if (strcmp(text, "B") == 0)
		text++;
	if (*text != '\0' || value > UINT64_MAX >> shift)
		return false;
	*out = value << shift;
	return true;
}

bool
number_parse(const char *text, double least, double most, double *out)
{
	char *end;
	double value = strtod(text, &end);

	if (end == text || *end != '\0' || !(value >= least && value <= most))
		return false;
	*out = value;
	return true;
}

bool
count_parse(const char *text, uint64_t most, uint64_t *out)
{
	char *end;

	errno = 0;
	unsigned long long value = strtoull(text, &end, 10);
	if (*text < '0' || *text > '9' || *end != '\0' || errno != 0 ||
	    value > most)
		return false;
	*out = value;
	return true;
}

const char *
bytes_format(uint64_t bytes, char *text, size_t size)
{
	static const char *const units[] = { "KiB", "MiB", "GiB", "TiB", "PiB",
		"EiB" };
	double value = (double)bytes / 1024;
	size_t unit = 0;

	if (bytes < 1024) {
		snprintf(text, size, "%u bytes", (unsigned)bytes);
		return text;
	}
	while (value >= 1024 && unit + 1 < sizeof(units) / sizeof(units[0])) {
		value /= 1024;
		unit++;
	}
	snprintf(text, size, "%.2f %s", value, units[unit]);
	return text;
}

struct table {
	const char *align;
	size_t columns;
	char **cells;
	size_t count;
	size_t capacity;
	bool incomplete; /* memory was lacking for a cell */
};

struct table *
table_new(const char *align)
{
	struct table *table = calloc(1, sizeof(*table));

	if (table == NULL)
		return NULL;
	table->align = align;
	table->columns = strlen(align);
	return table;
}

void
table_add(struct table *table, const char *format, ...)
{
	char *cell;
	va_list args;
	int length;

	if (table == NULL)
		return;
	if (table->count == table->capacity) {
		size_t capacity =
		    table->capacity == 0 ? 64 : 2 * table->capacity;
		char **cells = realloc(table->cells, capacity * sizeof(*cells));

		if (cells == NULL) {
			table->incomplete = true;
			return;
		}
		table->cells = cells;
		table->capacity = capacity;
	}
	va_start(args, format);
	length = vasprintf(&cell, format, args);
	va_end(args);
	if (length < 0) {
		table->incomplete = true;
		return;
	}
	table->cells[table->count++] = cell;
}

static void
print_cells(const struct table *table, size_t first, const int *widths)
{
	for (size_t c = 0; c < table->columns; c++) {
		const char *cell = table->cells[first + c];
		bool last = c + 1 == table->columns;

		if (table->align[c] == 'r')
			printf("%*s", widths[c], cell);
		else
			printf("%-*s", last ? 0 : widths[c], cell);
		fputs(last ? "\n" : "  ", stdout);
	}
}

/* True if stdout is a terminal, and NO_COLOR is not set. */
static bool
stdout_is_coloured(void)
{
	const char *plain = getenv("NO_COLOR");

	return isatty(STDOUT_FILENO) && (plain == NULL || *plain == '\0');
}

bool
table_print(const struct table *table, bool heading)
{
	int *widths;

	if (table == NULL || table->incomplete)
		return false;
	widths = calloc(table->columns, sizeof(*widths));
	if (widths == NULL)
		return false;
	for (size_t i = 0; i < table->count; i++) {
		int width = (int)strlen(table->cells[i]);

		if (width > widths[i % table->columns])
			widths[i % table->columns] = width;
	}
	for (size_t i = 0; i + table->columns <= table->count;
	     i += table->columns) {
		bool bold = heading && i == 0 && stdout_is_coloured();

		if (bold)
			fputs("\033[1m", stdout);
		print_cells(table, i, widths);
		if (bold)
			fputs("\033[0m", stdout);
	}
	free(widths);
	return true;
}

void
table_free(struct table *table)
{
	if (table == NULL)
		return;
	for (size_t i = 0; i < table->count; i++)
		free(table->cells[i]);
	free(table->cells);
	free(table);
}
