/*
 * Reading a trace, in two passes over the rows.
 *
 * The first pass turns lines into rows. The second pass (link_rows) gives each
 * row its block, through a hash table by address, and finds the end of each
 * block's use. An address has at most one live block, and at most one freed
 * block whose `c` is still to come. An address that is allocated again has
 * completed its earlier free.
 */
#include <ctype.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weir/weir.h>

#include "base/utf8.h"
#include "snapshot/intern.h"
#include "tools/weir/progress.h"
#include "tools/weir/reading/file_text.h"
#include "tools/weir/reading/snapshot_form.h"
#include "tools/weir/reading/snapshot_out.h"
#include "tools/weir/reading/trace_file.h"
#include "tools/weir/tool.h"
#include "tools/weir/tuning.h"

#define HEADER "action,addr,size,stream,time_us"

/* The state of one address in the second pass. */
struct place {
	uint64_t addr;
	uint32_t live;      /* block, or TRACE_NO_BLOCK */
	uint32_t completes; /* freed block without its `c`, or TRACE_NO_BLOCK */
	uint32_t free_row;  /* row of its `f` */
	uint32_t line;      /* of the latest `a`; 0: the entry is unused */
};

struct reader {
	const char *path;
	const char *text; /* the part that is not read yet */
	const char *end;
	size_t line; /* number of the latest line, from 1 */
	struct trace *trace;
	size_t row_capacity;
	uint32_t *lines; /* by row */
	size_t block_capacity;
	struct place *places; /* open addressing; a power of two */
	size_t place_count;
	uint64_t
	    secret; /* seed of the hash, so that no file can cause collisions */
	struct budget budget;
	uint64_t text_bytes;
	struct progress progress;
	struct trace_error *error;
};

static bool fail_at(struct reader *reader, size_t line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static bool
fail_at(struct reader *reader, size_t line, const char *format, ...)
{
	char *text = reader->error->text;
	size_t size = sizeof(reader->error->text);
	va_list args;
	int used;

	/* A long path is cut, so that the fault fits. */
	used = snprintf(text, size, "%.300s:%zu: ", reader->path, line);
	va_start(args, format);
	vsnprintf(text + used, size - (size_t)used, format, args);
	va_end(args);
	return false;
}

/* ---- Lines ----------------------------------------------------------- */

/* Read the next line, without its end. False after the last line. */
static bool
next_text_line(struct reader *reader, const char **line, size_t *length)
{
	size_t left = (size_t)(reader->end - reader->text);
	const char *newline;

	if (left == 0)
		return false;
	newline = memchr(reader->text, '\n', left);
	*line = reader->text;
	*length = newline == NULL ? left : (size_t)(newline - reader->text);
	reader->text += newline == NULL ? left : *length + 1;
	if (*length > 0 && (*line)[*length - 1] == '\r')
		--*length;
	reader->line++;
	return true;
}

/* Read a number, and the comma or the end of the line after it. */
static bool
read_field(const char **at, const char *end, unsigned base, uint64_t *out)
{
	const char *start = *at;
	uint64_t value = 0;

	for (; *at < end && **at != ','; ++*at) {
		unsigned digit;
		char c = **at;

		if (c >= '0' && c <= '9')
			digit = (unsigned)(c - '0');
		else if (c >= 'a' && c <= 'f')
			digit = (unsigned)(c - 'a') + 10;
		else
			return false;
		if (digit >= base ||
		    __builtin_mul_overflow(value, base, &value) ||
		    __builtin_add_overflow(value, digit, &value))
			return false;
	}
	if (*at == start)
		return false;
	if (*at < end)
		++*at;
	*out = value;
	return true;
}

/* The name of a trace without control characters. NULL without memory. */
static char *
plain_name(const char *text)
{
	char plain[TRACE_NAME_BYTES];

	utf8_copy_plain(plain, sizeof(plain), text);
	return strdup(plain);
}

/* Read the comment of the first line, which is JSON about the recording. Other
 * comments are ignored, and so is one that is far longer than those of weir:
 * JSON takes fifty times its length of memory. */
static bool
read_comment(struct reader *reader, const char *text, size_t length)
{
	if (length > TRACE_COMMENT_MAX)
		return true;

	json_t *about = json_loadb(text, length, 0, NULL);
	const char *name = json_string_value(json_object_get(about, "name"));
	const char *allocator =
	    json_string_value(json_object_get(about, "allocator"));
	json_int_t held =
	    json_integer_value(json_object_get(about, "peak_reserved"));
	json_int_t waited =
	    json_integer_value(json_object_get(about, "gpu_wait_us"));

	if (name != NULL && *name != '\0') {
		free(reader->trace->name);
		reader->trace->name = plain_name(name);
	}
	if (held > 0)
		reader->trace->recorded_held_bytes = (uint64_t)held;
	if (waited > 0)
		reader->trace->recorded_wait_us = (uint64_t)waited;
	reader->trace->recorded_of_weir =
	    allocator != NULL && strcmp(allocator, "weir") == 0;
	json_decref(about);
	if (reader->trace->name == NULL)
		return fail_at(reader, reader->line, "out of memory");
	return true;
}

/* ---- First pass: rows ------------------------------------------------ */

enum {
	ROW_BYTES =
	    sizeof(struct trace_row) + sizeof(uint64_t) + sizeof(uint32_t)
};

/* True if the budget allows `bytes` besides the text; otherwise an error. */
static bool
within_budget(struct reader *reader, uint64_t bytes)
{
	if (budget_check(&reader->budget, reader->text_bytes + bytes) ==
	    WEIR_OK)
		return true;
	return fail_at(reader, reader->line, "%s", weir_last_error());
}

static bool
out_of_memory(struct reader *reader)
{
	return fail_at(reader, reader->line, "out of memory");
}

static bool
grow_rows(struct reader *reader)
{
	struct trace *trace = reader->trace;
	size_t capacity =
	    reader->row_capacity == 0 ? 4096 : 2 * reader->row_capacity;
	void *moved;

	if (trace->row_count < reader->row_capacity)
		return true;
	if (!within_budget(reader, capacity * ROW_BYTES))
		return false;
	moved = realloc(trace->rows, capacity * sizeof(*trace->rows));
	if (moved == NULL)
		return out_of_memory(reader);
	trace->rows = moved;
	moved = realloc(trace->addrs, capacity * sizeof(*trace->addrs));
	if (moved == NULL)
		return out_of_memory(reader);
	trace->addrs = moved;
	moved = realloc(reader->lines, capacity * sizeof(*reader->lines));
	if (moved == NULL)
		return out_of_memory(reader);
	reader->lines = moved;
	reader->row_capacity = capacity;
	return true;
}

/* Read a row, such as "a,7fde8e800000,12582912,0,2". */
static bool
read_row(struct reader *reader, const char *line, size_t length)
{
	struct trace *trace = reader->trace;
	static const char actions[18] = "arfcARFCwkhenpSsmu";
	const char *end = line + length;
	const char *at = line + 2;
	struct trace_row row = { .block = TRACE_NO_BLOCK };
	uint64_t addr;
	uint64_t stream;
	uint64_t highest;

	if (length < 2 || line[1] != ',')
		return fail_at(reader, reader->line, "not a row of " HEADER);
	if (memchr(actions, line[0], sizeof(actions)) == NULL)
		return fail_at(reader, reader->line, "unknown action '%c'",
		    isgraph((unsigned char)line[0]) ? line[0] : '?');
	row.action = line[0];
	if (!read_field(&at, end, 16, &addr))
		return fail_at(reader, reader->line, "bad address");
	if (!read_field(&at, end, 10, &row.size))
		return fail_at(reader, reader->line, "bad size");
	if (!read_field(&at, end, 10, &stream))
		return fail_at(reader, reader->line, "bad stream");
	highest = stream;
	if (!read_field(&at, end, 10, &row.time_us) || at != end ||
	    end[-1] == ',')
		return fail_at(reader, reader->line, "bad time");
	if (row.size > WEIR_SIZE_MAX)
		return fail_at(reader, reader->line,
		    "a size of %" PRIu64 " bytes; more than 1 EiB", row.size);
	if (row.action == 'k' && row.size > UINT64_MAX / 1000)
		return fail_at(reader, reader->line, "bad size");
	if (toupper(row.action) == 'A' && row.size == 0)
		return fail_at(
		    reader, reader->line, "an allocation of 0 bytes");
	if (row.action == 'w' && row.size > stream)
		highest = row.size;
	if (highest >= TRACE_STREAMS_MAX)
		return fail_at(reader, reader->line,
		    "stream %" PRIu64 "; at most %d are expected", highest,
		    TRACE_STREAMS_MAX - 1);
	if (row.action == 'p' && row.size >= TRACE_POOLS_MAX)
		return fail_at(reader, reader->line,
		    "pool %" PRIu64 "; at most %d are expected", row.size,
		    TRACE_POOLS_MAX - 1);
	if (row.time_us > UINT64_MAX / 1000)
		return fail_at(reader, reader->line, "bad time");
	if (!grow_rows(reader))
		return false;
	row.stream = (uint16_t)stream;
	/* Rows of threads that recorded at once may be out of order. */
	if (row.time_us < trace->end_us)
		row.time_us = trace->end_us;
	trace->end_us = row.time_us;
	trace->addrs[trace->row_count] = addr;
	reader->lines[trace->row_count] = (uint32_t)reader->line;
	trace->rows[trace->row_count++] = row;
	return true;
}

static void
show_rows_read(struct reader *reader)
{
	uint64_t left = (uint64_t)(reader->end - reader->text);

	progress_part(&reader->progress, "reading rows",
	    reader->text_bytes - left, reader->text_bytes);
}

static bool
read_rows(struct reader *reader)
{
	bool header = false;
	const char *line;
	size_t length;

	while (next_text_line(reader, &line, &length)) {
		bool good = true;

		if (reader->line % PROGRESS_STEPS == 0)
			show_rows_read(reader);
		if (length == 0)
			continue;
		if (line[0] == '#') {
			if (reader->line == 1)
				good =
				    read_comment(reader, line + 1, length - 1);
		} else if (header) {
			good = read_row(reader, line, length);
		} else if (length == strlen(HEADER) &&
		    memcmp(line, HEADER, length) == 0) {
			header = true;
		} else {
			good = fail_at(reader, reader->line,
			    "not a trace: the line '" HEADER "' is expected");
		}
		if (!good)
			return false;
	}
	if (!header)
		return fail_at(
		    reader, reader->line, "not a trace: no line '" HEADER "'");
	return true;
}

/* ---- Second pass: blocks --------------------------------------------- */

static struct place *
address_place(struct reader *reader, uint64_t addr)
{
	size_t mask = reader->place_count - 1;
	uint64_t mixed = addr ^ reader->secret;
	size_t i = (size_t)(random_next(&mixed) >> 20);

	for (;; i++) {
		struct place *place = &reader->places[i & mask];

		if (place->line == 0 || place->addr == addr)
			return place;
	}
}

static bool
make_tables(struct reader *reader)
{
	struct trace *trace = reader->trace;
	size_t blocks = 0;

	for (size_t i = 0; i < trace->row_count; i++) {
		const struct trace_row *row = &trace->rows[i];

		blocks += row->action == 'a' || row->action == 'A';
		trace->has_pinned |= row->action == 'A';
		trace->has_records |= row->action == 'r' || row->action == 'R';
		trace->has_work |= row->action == 'k';
		if (strchr("arfARFwkhenp", row->action) != NULL &&
		    row->stream >= trace->stream_count)
			trace->stream_count = row->stream + 1u;
		if (row->action == 'w' && row->size >= trace->stream_count)
			trace->stream_count = (unsigned)row->size + 1;
		if (row->action == 'p' && row->size >= trace->pool_count)
			trace->pool_count = (unsigned)row->size + 1;
	}
	reader->place_count = 64;
	while (reader->place_count < 2 * blocks)
		reader->place_count *= 2;
	if (!within_budget(reader,
		trace->row_count * ROW_BYTES +
		    reader->place_count * sizeof(struct place) +
		    blocks * sizeof(struct trace_block)))
		return false;
	reader->places = calloc(reader->place_count, sizeof(struct place));
	trace->blocks = calloc(blocks + 1, sizeof(struct trace_block));
	return (reader->places != NULL && trace->blocks != NULL &&
		   trace->row_count < UINT32_MAX) ||
	    out_of_memory(reader);
}

static bool
start_block(struct reader *reader, size_t i, struct place *place)
{
	struct trace *trace = reader->trace;
	struct trace_row *row = &trace->rows[i];

	if (place->line != 0 && place->live != TRACE_NO_BLOCK)
		return fail_at(reader, reader->lines[i],
		    "address %" PRIx64 " is in use since line %" PRIu32,
		    reader->trace->addrs[i], place->line);
	if (place->line != 0 && place->completes != TRACE_NO_BLOCK &&
	    trace->blocks[place->completes].recorded)
		trace->blocks[place->completes].used_until_us = row->time_us;
	row->block = (uint32_t)trace->block_count++;
	trace->blocks[row->block].stream = row->stream;
	trace->blocks[row->block].pinned = row->action == 'A';
	*place = (struct place){
		.addr = reader->trace->addrs[i],
		.live = row->block,
		.completes = TRACE_NO_BLOCK,
		.line = reader->lines[i],
	};
	return true;
}

static bool
link_free_row(struct reader *reader, size_t i, struct place *place)
{
	struct trace *trace = reader->trace;
	struct trace_row *row = &trace->rows[i];

	row->block = place->live;
	trace->blocks[row->block].freed_elsewhere = row->action == 'f' &&
	    row->stream != trace->blocks[row->block].stream;
	place->completes = place->live;
	place->free_row = (uint32_t)i;
	place->live = TRACE_NO_BLOCK;
	/* The block's `c`, if it has one, sets the exact time. */
	if (trace->blocks[row->block].recorded)
		trace->blocks[row->block].used_until_us = trace->end_us;
	return true;
}

static bool
link_completion(struct reader *reader, size_t i, struct place *place)
{
	struct trace *trace = reader->trace;
	struct trace_row *row = &trace->rows[i];
	struct trace_block *block = &trace->blocks[place->completes];
	const struct trace_row *freed = &trace->rows[place->free_row];

	row->block = place->completes;
	place->completes = TRACE_NO_BLOCK;
	if (block->recorded) {
		block->used_until_us = row->time_us;
	} else if (!trace->has_records && i > place->free_row + 1 &&
	    row->time_us > freed->time_us) {
		block->used_until_us = row->time_us;
		block->unnamed_use = true;
	}
	return true;
}

/* True if a row and its block are both of the device or both page-locked;
 * otherwise an error. */
static bool
same_memory(struct reader *reader, size_t i, uint32_t block)
{
	const struct trace *trace = reader->trace;
	char action = trace->rows[i].action;
	bool pinned = trace->blocks[block].pinned;

	if (pinned == (isupper((unsigned char)action) != 0))
		return true;
	return fail_at(reader, reader->lines[i],
	    "'%c' of address %" PRIx64 ", which is %s", action,
	    reader->trace->addrs[i],
	    pinned ? "page-locked host memory" : "memory of the device");
}

static bool
link_row(struct reader *reader, size_t i)
{
	struct trace *trace = reader->trace;
	struct trace_row *row = &trace->rows[i];
	struct place *place;
	uint32_t block;

	if (strchr("arfcARFC", row->action) == NULL)
		return true;
	place = address_place(reader, reader->trace->addrs[i]);
	if (toupper(row->action) == 'A')
		return start_block(reader, i, place);
	block = toupper(row->action) == 'C' ? place->completes : place->live;
	if (place->line == 0 || block == TRACE_NO_BLOCK)
		return fail_at(reader, reader->lines[i],
		    "'%c' of address %" PRIx64 ", which %s", row->action,
		    reader->trace->addrs[i],
		    toupper(row->action) == 'C' ? "was not freed" :
						  "is not allocated");
	if (!same_memory(reader, i, block))
		return false;
	if (toupper(row->action) == 'C')
		return link_completion(reader, i, place);
	if (toupper(row->action) == 'F')
		return link_free_row(reader, i, place);
	row->block = block;
	trace->blocks[block].recorded = true;
	/* A block that is never freed is used until the end. */
	trace->blocks[block].used_until_us = trace->end_us;
	return true;
}

static bool
link_rows(struct reader *reader)
{
	if (!make_tables(reader))
		return false;
	for (size_t i = 0; i < reader->trace->row_count; i++)
		if (!link_row(reader, i))
			return false;
	return true;
}

/* The name of a trace from its path: "moe" for "dir/moe.csv.xz". The file may
 * have another name. */
static char *
name_of_path(const char *path)
{
	const char *slash = strrchr(path, '/');
	const char *base = slash == NULL ? path : slash + 1;
	const char *dot = strstr(base, ".csv");
	char *name = dot == NULL || dot == base ?
	    strdup(base) :
	    strndup(base, (size_t)(dot - base));
	char *plain = name == NULL ? NULL : plain_name(name);

	free(name);
	return plain;
}

/* Say why a text that is no snapshot has no rows. False: it may have some. */
static bool
refuse_rows(const struct trace *trace, const char *text, size_t length,
    char why[SNAPSHOT_WHY])
{
	const char *kind = length == 0 ?
	    "it is empty" :
	    file_kind((const unsigned char *)text, length);

	if (kind != NULL)
		snprintf(why, SNAPSHOT_WHY,
		    "neither a trace nor a memory snapshot: %s", kind);
	else if (trace->device >= 0)
		snprintf(why, SNAPSHOT_WHY,
		    "--device goes with a snapshot; a CSV trace has one "
		    "device");
	else
		return false;
	return true;
}

/* Read a file's rows as text. The trace of a snapshot is converted to CSV. */
static bool
read_rows_text(const char *path, struct trace *trace, struct budget *budget,
    char **text, size_t *length, char why[SNAPSHOT_WHY])
{
	struct csv_request request = { .device = trace->device, .next = -1 };
	struct source source;
	const char *slash = strrchr(path, '/');
	char *bytes;
	size_t size;
	bool good;

	if (!file_text_read(path, budget, text, length, why, SNAPSHOT_WHY))
		return false;
	if (*length == 0 || !snapshot_begins((unsigned char)**text)) {
		if (!refuse_rows(trace, *text, *length, why))
			return true;
		free(*text);
		*text = NULL;
		return false;
	}
	bytes = *text;
	size = *length;
	*text = NULL;
	source_of_memory(&source, bytes, size);
	source.budget = budget;
	request.name = slash == NULL ? path : slash + 1;
	good = snapshot_csv_of(&request, &source, text, length);
	snprintf(why, SNAPSHOT_WHY, "%s", request.why);
	trace->device = request.device;
	trace->next_device = request.next;
	trace->lacks_requests = request.lacks_requests;
	free(bytes);
	return good;
}

bool
trace_read(const char *path, struct trace *out, struct trace_error *error)
{
	return trace_read_device(path, -1, out, error);
}

/* Read rows into a trace that has its name and device. */
static bool
read_trace(struct reader *reader, const char *text, size_t length)
{
	bool good;

	reader->secret = intern_seed();
	reader->text = text;
	reader->end = text + length;
	reader->text_bytes = length;
	progress_begin(&reader->progress, PROGRESS_AFTER_MS);
	good = reader->trace->name != NULL && read_rows(reader) &&
	    link_rows(reader);
	progress_end(&reader->progress);
	if (reader->trace->name == NULL)
		fail_at(reader, 1, "out of memory");
	free(reader->places);
	free(reader->lines);
	return good;
}

bool
trace_read_text(const char *shown, const char *text, size_t length,
    const struct budget *budget, struct trace *out, struct trace_error *error)
{
	struct trace trace = {
		.name = name_of_path(shown), .device = -1, .next_device = -1
	};
	struct reader reader = { .path = shown,
		.trace = &trace,
		.budget = *budget,
		.error = error };

	if (!read_trace(&reader, text, length)) {
		trace_drop(&trace);
		return false;
	}
	*out = trace;
	return true;
}

bool
trace_read_device(
    const char *path, int device, struct trace *out, struct trace_error *error)
{
	const char *shown = strcmp(path, "-") == 0 ? "stdin" : path;
	struct trace trace = {
		.name = name_of_path(shown), .device = device, .next_device = -1
	};
	struct reader reader = { .path = shown,
		.trace = &trace,
		.budget = file_text_budget(),
		.error = error };
	char why[SNAPSHOT_WHY];
	char *text = NULL;
	size_t length = 0;
	bool good;

	good =
	    read_rows_text(path, &trace, &reader.budget, &text, &length, why);
	if (good)
		good = read_trace(&reader, text, length);
	else
		snprintf(
		    error->text, sizeof(error->text), "%.240s: %s", shown, why);
	free(text);
	if (good)
		*out = trace;
	else
		trace_drop(&trace);
	return good;
}

void
trace_drop(struct trace *trace)
{
	free(trace->name);
	free(trace->rows);
	free(trace->addrs);
	free(trace->blocks);
	*trace = (struct trace){ 0 };
}
