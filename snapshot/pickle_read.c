/*
 * The pickle machine: a table of operations, a stack with marks, and the memo.
 *
 * Containers are filled while they are on the stack. They are referred to by
 * number, so the memo can refer to them too, without a copy. Marks may nest as
 * deep as containers; nothing recurses.
 */
#include "snapshot/pickle_read.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/meta.h"
#include "base/os.h"
#include "base/status.h"
#include "snapshot/build.h"
#include "snapshot/tuning.h"

enum { LINE_MAX_BYTES = 64, /* digits of a number in protocol 0 */ };

struct machine {
	struct source *source;
	struct builder *builder;
	struct value *stack;
	size_t depth;
	size_t stack_room;
	struct value *memo;
	size_t memo_count;
	size_t memo_room;
	size_t marks[PICKLE_MARKS]; /* stack depths */
	size_t mark_count;
	uint64_t start; /* offset of the current operation */
	bool stopped;
};

typedef enum weir_status (*operation)(
    struct machine *machine, uint64_t argument);

static enum weir_status
no_pickle_memory(void)
{
	return status_set(
	    WEIR_EHOSTMEM, "no host memory for reading a snapshot");
}

static enum weir_status
cut_off(const struct machine *machine)
{
	return status_set(WEIR_EINVAL,
	    "cut off: the file ends at offset %" PRIu64 ", inside the pickle",
	    source_offset(machine->source) + source_left(machine->source));
}

/* ---- The stack ------------------------------------------------------- */

static enum weir_status
grow_values(struct value **values, size_t *room, size_t count)
{
	size_t wider = *room * 3 / 2 + 256;
	struct value *moved = meta_alloc(wider * sizeof(*moved));

	if (moved == NULL)
		return no_pickle_memory();
	if (count > 0)
		memcpy(moved, *values, count * sizeof(*moved));
	meta_free(*values, *room * sizeof(*moved));
	*values = moved;
	*room = wider;
	return WEIR_OK;
}

static enum weir_status
push_value(struct machine *machine, struct value value)
{
	if (machine->depth == machine->stack_room) {
		enum weir_status status = grow_values(
		    &machine->stack, &machine->stack_room, machine->depth);

		if (status != WEIR_OK)
			return status;
	}
	machine->stack[machine->depth++] = value;
	return WEIR_OK;
}

/* The stack depth that operations may not go below. */
static size_t
floor_of_machine(const struct machine *machine)
{
	return machine->mark_count == 0 ?
	    0 :
	    machine->marks[machine->mark_count - 1];
}

/* Check that there are `n` values above the last mark. */
static enum weir_status
need_values(const struct machine *machine, size_t n)
{
	if (machine->depth - floor_of_machine(machine) >= n)
		return WEIR_OK;
	return status_set(WEIR_EINVAL, "the stack has too few values for it");
}

static enum weir_status
op_mark(struct machine *machine, uint64_t argument)
{
	(void)argument;
	if (machine->mark_count == PICKLE_MARKS)
		return status_set(
		    WEIR_EINVAL, "nested more than %d deep", PICKLE_MARKS);
	machine->marks[machine->mark_count++] = machine->depth;
	return WEIR_OK;
}

/* Remove the last mark and the values above it; *items points to those values.
 */
static enum weir_status
take_marked(struct machine *machine, struct value **items, size_t *count)
{
	size_t mark;

	*items = NULL;
	*count = 0;
	if (machine->mark_count == 0)
		return status_set(WEIR_EINVAL, "there is no mark for it");
	mark = machine->marks[--machine->mark_count];
	*items = machine->stack + mark;
	*count = machine->depth - mark;
	machine->depth = mark;
	return WEIR_OK;
}

static enum weir_status
op_pop(struct machine *machine, uint64_t argument)
{
	enum weir_status status;

	(void)argument;
	if (machine->mark_count > 0 &&
	    machine->marks[machine->mark_count - 1] == machine->depth) {
		machine->mark_count--;
		return WEIR_OK;
	}
	status = need_values(machine, 1);
	if (status == WEIR_OK)
		machine->depth--;
	return status;
}

static enum weir_status
op_pop_mark(struct machine *machine, uint64_t argument)
{
	struct value *items;
	size_t count;

	(void)argument;
	return take_marked(machine, &items, &count);
}

static enum weir_status
op_dup(struct machine *machine, uint64_t argument)
{
	enum weir_status status = need_values(machine, 1);

	(void)argument;
	if (status != WEIR_OK)
		return status;
	return push_value(machine, machine->stack[machine->depth - 1]);
}

static enum weir_status
op_stop(struct machine *machine, uint64_t argument)
{
	(void)argument;
	machine->stopped = true;
	if (machine->depth == 1 && machine->mark_count == 0)
		return WEIR_OK;
	return status_set(
	    WEIR_EINVAL, "%zu values are left, not 1", machine->depth);
}

static enum weir_status
op_proto(struct machine *machine, uint64_t argument)
{
	(void)machine;
	if (argument <= 5)
		return WEIR_OK;
	return status_set(WEIR_EINVAL,
	    "a pickle of protocol %" PRIu64 "; 0 to 5 are known", argument);
}

/* The contents of a frame are read like any other bytes. */
static enum weir_status
op_frame(struct machine *machine, uint64_t argument)
{
	(void)machine;
	(void)argument;
	return WEIR_OK;
}

/* ---- The memo -------------------------------------------------------- */

/* Python numbers memos from 0 on, so no number is larger than the count of
 * bytes read so far. */
static enum weir_status
op_put(struct machine *machine, uint64_t index)
{
	enum weir_status status = need_values(machine, 1);

	if (status == WEIR_OK && index > machine->start)
		status = status_set(
		    WEIR_EINVAL, "memo %" PRIu64 " in so short a file", index);
	while (status == WEIR_OK && index >= machine->memo_room)
		status = grow_values(
		    &machine->memo, &machine->memo_room, machine->memo_count);
	if (status != WEIR_OK)
		return status;
	for (; machine->memo_count <= index; machine->memo_count++)
		machine->memo[machine->memo_count] =
		    (struct value){ .kind = VALUE_UNSET };
	machine->memo[index] = machine->stack[machine->depth - 1];
	return WEIR_OK;
}

static enum weir_status
op_memoize(struct machine *machine, uint64_t argument)
{
	(void)argument;
	return op_put(machine, machine->memo_count);
}

static enum weir_status
op_get(struct machine *machine, uint64_t index)
{
	if (index >= machine->memo_count ||
	    machine->memo[index].kind == VALUE_UNSET)
		return status_set(
		    WEIR_EINVAL, "memo %" PRIu64 " was never set", index);
	return push_value(machine, machine->memo[index]);
}

/* ---- Numbers and texts ----------------------------------------------- */

static enum weir_status
op_none(struct machine *machine, uint64_t argument)
{
	(void)argument;
	return push_value(machine, (struct value){ .kind = VALUE_NONE });
}

static enum weir_status
op_true(struct machine *machine, uint64_t argument)
{
	(void)argument;
	return push_value(
	    machine, (struct value){ .kind = VALUE_BOOL, .natural = 1 });
}

static enum weir_status
op_false(struct machine *machine, uint64_t argument)
{
	(void)argument;
	return push_value(machine, (struct value){ .kind = VALUE_BOOL });
}

static enum weir_status
push_integer(struct machine *machine, int64_t integer)
{
	return push_value(machine,
	    (struct value){ .kind = VALUE_INTEGER, .integer = integer });
}

static enum weir_status
op_natural(struct machine *machine, uint64_t argument)
{
	return push_integer(machine, (int64_t)argument);
}

static enum weir_status
op_binint(struct machine *machine, uint64_t argument)
{
	return push_integer(machine, (int32_t)(uint32_t)argument);
}

static enum weir_status
op_binfloat(struct machine *machine, uint64_t argument)
{
	uint64_t bits = __builtin_bswap64(argument);
	struct value value = { .kind = VALUE_REAL };

	memcpy(&value.real, &bits, sizeof(bits));
	return push_value(machine, value);
}

/* Check that the next `length` bytes have arrived. */
static enum weir_status
have(struct machine *machine, uint64_t length)
{
	struct source *source = machine->source;
	enum weir_status status = WEIR_OK;

	if (source_left(source) >= length)
		return WEIR_OK;
	/* Memory is only allocated for bytes that have arrived. */
	status =
	    source_fill(source, length > SIZE_MAX ? SIZE_MAX : (size_t)length);
	if (status == WEIR_OK && source_left(source) < length)
		status = cut_off(machine);
	return status;
}

/* Read an integer of `length` bytes, the lowest first, in two's complement. */
static enum weir_status
op_long(struct machine *machine, uint64_t length)
{
	const uint8_t *bytes;
	uint8_t sign;
	uint64_t word = 0;
	size_t n = length > 8 ? 8 : (size_t)length;
	struct value value = { .kind = VALUE_INTEGER };
	enum weir_status status = have(machine, length);

	if (status != WEIR_OK)
		return status;
	bytes = machine->source->at;
	machine->source->at += length;
	if (length == 0)
		return push_value(machine, value);
	sign = (bytes[length - 1] & 0x80) != 0 ? 0xff : 0;
	for (size_t i = 8; i > 0; i--)
		word = word << 8 | (i > n ? sign : bytes[i - 1]);
	value.natural = word;
	for (uint64_t i = 8; i < length; i++)
		if (bytes[i] != sign)
			value.kind = VALUE_OPAQUE;
	if (length > 8 && sign == 0 && value.integer < 0 &&
	    value.kind == VALUE_INTEGER)
		value.kind = VALUE_NATURAL;
	else if (length > 8 && sign != 0 && value.integer >= 0)
		value.kind = VALUE_OPAQUE;
	return push_value(machine, value);
}

static enum weir_status
op_text(struct machine *machine, uint64_t length)
{
	enum weir_status status = have(machine, length);
	struct value value;

	if (status == WEIR_OK)
		status = builder_string(machine->builder,
		    (const char *)machine->source->at, (size_t)length, &value);
	if (status != WEIR_OK)
		return status;
	machine->source->at += length;
	return push_value(machine, value);
}

/* A value of bytes. Snapshots contain none. */
static enum weir_status
op_bytes(struct machine *machine, uint64_t length)
{
	enum weir_status status = have(machine, length);

	if (status != WEIR_OK)
		return status;
	machine->source->at += length;
	return push_value(machine, (struct value){ .kind = VALUE_OPAQUE });
}

/* ---- Lines, of protocol 0 -------------------------------------------- */

/* Find the length of the next line, which is buffered with its newline. */
static enum weir_status
have_line(struct machine *machine, size_t *length)
{
	struct source *source = machine->source;
	size_t seen = 0;

	for (;;) {
		const uint8_t *newline = NULL;
		enum weir_status status;

		if (source_left(source) > seen)
			newline = memchr(source->at + seen, '\n',
			    source_left(source) - seen);
		if (newline != NULL) {
			*length = (size_t)(newline - source->at);
			return WEIR_OK;
		}
		seen = source_left(source);
		status = source_fill(source, seen + 1);
		if (status != WEIR_OK)
			return status;
		if (source_left(source) == seen)
			return cut_off(machine);
	}
}

/* Read a line that holds a number, as text, and move past it. */
static enum weir_status
take_line(struct machine *machine, char text[LINE_MAX_BYTES])
{
	size_t length;
	enum weir_status status = have_line(machine, &length);

	if (status != WEIR_OK)
		return status;
	if (length >= LINE_MAX_BYTES)
		return status_set(
		    WEIR_EINVAL, "a number of %zu characters", length);
	memcpy(text, machine->source->at, length);
	text[length] = '\0';
	machine->source->at += length + 1;
	return WEIR_OK;
}

static enum weir_status
no_number(const char *text)
{
	return status_set(WEIR_EINVAL, "'%s' is not a number", text);
}

static enum weir_status
op_int_line(struct machine *machine, uint64_t argument)
{
	char text[LINE_MAX_BYTES];
	char *end;
	long long number;
	enum weir_status status = take_line(machine, text);

	if (status != WEIR_OK)
		return status;
	if (strcmp(text, "00") == 0 || strcmp(text, "01") == 0)
		return text[1] == '1' ? op_true(machine, argument) :
					op_false(machine, argument);
	errno = 0;
	number = strtoll(text, &end, 10);
	if (errno == ERANGE && text[0] != '-') {
		uint64_t natural;

		errno = 0;
		natural = strtoull(text, &end, 10);
		if (errno == 0 && (*end == '\0' || strcmp(end, "L") == 0))
			return push_value(machine,
			    (struct value){
				.kind = VALUE_NATURAL, .natural = natural });
	}
	if (errno == ERANGE)
		return push_value(
		    machine, (struct value){ .kind = VALUE_OPAQUE });
	if (end == text || (*end != '\0' && strcmp(end, "L") != 0))
		return no_number(text);
	return push_integer(machine, number);
}

static enum weir_status
op_float_line(struct machine *machine, uint64_t argument)
{
	char text[LINE_MAX_BYTES];
	char *end;
	struct value value = { .kind = VALUE_REAL };
	enum weir_status status = take_line(machine, text);

	(void)argument;
	if (status != WEIR_OK)
		return status;
	value.real = os_parse_real(text, &end);
	if (end == text || *end != '\0')
		return no_number(text);
	return push_value(machine, value);
}

static enum weir_status
read_index(struct machine *machine, uint64_t *index)
{
	char text[LINE_MAX_BYTES];
	char *end;
	enum weir_status status = take_line(machine, text);

	if (status != WEIR_OK)
		return status;
	*index = strtoull(text, &end, 10);
	if (end == text || *end != '\0' || text[0] == '-')
		return no_number(text);
	return WEIR_OK;
}

static enum weir_status
op_put_line(struct machine *machine, uint64_t argument)
{
	enum weir_status status = read_index(machine, &argument);

	return status == WEIR_OK ? op_put(machine, argument) : status;
}

static enum weir_status
op_get_line(struct machine *machine, uint64_t argument)
{
	enum weir_status status = read_index(machine, &argument);

	return status == WEIR_OK ? op_get(machine, argument) : status;
}

/* Read "\uXXXX" or "\UXXXXXXXX" at `text`; false if it is neither. */
static bool
read_unicode_escape(
    const uint8_t *text, size_t length, uint32_t *code, size_t *used)
{
	size_t digits;

	if (length < 6 || text[0] != '\\' || (text[1] != 'u' && text[1] != 'U'))
		return false;
	digits = text[1] == 'u' ? 4 : 8;
	if (length < 2 + digits)
		return false;
	*code = 0;
	for (size_t i = 0; i < digits; i++) {
		uint8_t c = text[2 + i];
		uint32_t digit = c >= '0' && c <= '9'  ? (uint32_t)c - '0' :
		    (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10u :
							 16;

		if (digit == 16)
			return false;
		*code = *code << 4 | digit;
	}
	*used = 2 + digits;
	return true;
}

/* Write a code point as UTF-8, even if it is invalid. */
static size_t
write_code(char *to, uint32_t code)
{
	if (code < 0x80) {
		to[0] = (char)code;
		return 1;
	}
	if (code < 0x800) {
		to[0] = (char)(0xc0 | code >> 6);
		to[1] = (char)(0x80 | (code & 0x3f));
		return 2;
	}
	if (code < 0x10000) {
		to[0] = (char)(0xe0 | code >> 12);
		to[1] = (char)(0x80 | (code >> 6 & 0x3f));
		to[2] = (char)(0x80 | (code & 0x3f));
		return 3;
	}
	to[0] = (char)(0xf0 | (code >> 18 & 7));
	to[1] = (char)(0x80 | (code >> 12 & 0x3f));
	to[2] = (char)(0x80 | (code >> 6 & 0x3f));
	to[3] = (char)(0x80 | (code & 0x3f));
	return 4;
}

/* Read a text in Latin-1, with escapes for all other characters. */
static enum weir_status
op_unicode_line(struct machine *machine, uint64_t argument)
{
	struct value value;
	size_t length;
	size_t room;
	size_t written = 0;
	const uint8_t *line;
	char *text;
	enum weir_status status = have_line(machine, &length);

	(void)argument;
	if (status != WEIR_OK)
		return status;
	room = 2 * length + 4;
	text = meta_alloc(room);
	if (text == NULL)
		return no_pickle_memory();
	line = machine->source->at;
	for (size_t i = 0; i < length;) {
		uint32_t code = line[i];
		size_t used = 1;

		(void)read_unicode_escape(line + i, length - i, &code, &used);
		written += write_code(text + written, code);
		i += used;
	}
	machine->source->at += length + 1;
	status = builder_string(machine->builder, text, written, &value);
	meta_free(text, room);
	return status == WEIR_OK ? push_value(machine, value) : status;
}

/* ---- Containers ------------------------------------------------------ */

static enum weir_status
op_empty_list(struct machine *machine, uint64_t argument)
{
	struct value list;
	enum weir_status status = builder_list(machine->builder, &list);

	(void)argument;
	return status == WEIR_OK ? push_value(machine, list) : status;
}

static enum weir_status
op_empty_dict(struct machine *machine, uint64_t argument)
{
	struct value dict;
	enum weir_status status = builder_dict(machine->builder, &dict);

	(void)argument;
	return status == WEIR_OK ? push_value(machine, dict) : status;
}

/* Make a tuple of the `n` topmost values. */
static enum weir_status
op_tuple_of(struct machine *machine, uint64_t n)
{
	enum weir_status status = need_values(machine, n);
	struct value tuple;

	if (status != WEIR_OK)
		return status;
	machine->depth -= n;
	status = builder_tuple(
	    machine->builder, machine->stack + machine->depth, n, &tuple);
	return status == WEIR_OK ? push_value(machine, tuple) : status;
}

static enum weir_status
op_empty_tuple(struct machine *machine, uint64_t argument)
{
	(void)argument;
	return op_tuple_of(machine, 0);
}

static enum weir_status
op_tuple1(struct machine *machine, uint64_t argument)
{
	(void)argument;
	return op_tuple_of(machine, 1);
}

static enum weir_status
op_tuple2(struct machine *machine, uint64_t argument)
{
	(void)argument;
	return op_tuple_of(machine, 2);
}

static enum weir_status
op_tuple3(struct machine *machine, uint64_t argument)
{
	(void)argument;
	return op_tuple_of(machine, 3);
}

static enum weir_status
op_tuple(struct machine *machine, uint64_t argument)
{
	struct value *items;
	struct value tuple;
	size_t count;
	enum weir_status status = take_marked(machine, &items, &count);

	(void)argument;
	if (status == WEIR_OK)
		status = builder_tuple(machine->builder, items, count, &tuple);
	return status == WEIR_OK ? push_value(machine, tuple) : status;
}

static enum weir_status
op_list(struct machine *machine, uint64_t argument)
{
	struct value *items;
	struct value list;
	size_t count;
	enum weir_status status = take_marked(machine, &items, &count);

	(void)argument;
	if (status == WEIR_OK)
		status = builder_list(machine->builder, &list);
	if (status == WEIR_OK)
		status = builder_append(machine->builder, list, items, count);
	return status == WEIR_OK ? push_value(machine, list) : status;
}

static enum weir_status
op_dict(struct machine *machine, uint64_t argument)
{
	struct value *items;
	struct value dict;
	size_t count;
	enum weir_status status = take_marked(machine, &items, &count);

	(void)argument;
	if (status == WEIR_OK)
		status = builder_dict(machine->builder, &dict);
	if (status == WEIR_OK)
		status = builder_set(machine->builder, dict, items, count);
	return status == WEIR_OK ? push_value(machine, dict) : status;
}

static enum weir_status
op_append(struct machine *machine, uint64_t argument)
{
	enum weir_status status = need_values(machine, 2);

	(void)argument;
	if (status != WEIR_OK)
		return status;
	machine->depth--;
	return builder_append(machine->builder,
	    machine->stack[machine->depth - 1], machine->stack + machine->depth,
	    1);
}

static enum weir_status
op_appends(struct machine *machine, uint64_t argument)
{
	struct value *items;
	size_t count;
	enum weir_status status = take_marked(machine, &items, &count);

	(void)argument;
	if (status == WEIR_OK)
		status = need_values(machine, 1);
	if (status != WEIR_OK)
		return status;
	return builder_append(
	    machine->builder, machine->stack[machine->depth - 1], items, count);
}

static enum weir_status
op_setitem(struct machine *machine, uint64_t argument)
{
	enum weir_status status = need_values(machine, 3);

	(void)argument;
	if (status != WEIR_OK)
		return status;
	machine->depth -= 2;
	return builder_set(machine->builder, machine->stack[machine->depth - 1],
	    machine->stack + machine->depth, 2);
}

static enum weir_status
op_setitems(struct machine *machine, uint64_t argument)
{
	struct value *items;
	size_t count;
	enum weir_status status = take_marked(machine, &items, &count);

	(void)argument;
	if (status == WEIR_OK)
		status = need_values(machine, 1);
	if (status != WEIR_OK)
		return status;
	return builder_set(
	    machine->builder, machine->stack[machine->depth - 1], items, count);
}

/* ---- The table ------------------------------------------------------- */

/* Reasons for refusing an operation. */
static const char imports[] = "would import an object: refused";
static const char builds[] = "would call or build an object: refused";
static const char refers[] = "refers to something outside: refused";
static const char shares[] = "has no place in a snapshot: refused";

/* Indexed by opcode. An operation's argument is in the bytes after it, the
 * lowest first. An operation that has a name and no function is refused. */
static const struct {
	const char *name;
	operation run;
	uint8_t argument_bytes;
	const char *refused;
} operations[256] = {
	['('] = { "MARK", op_mark, 0, NULL },
	[')'] = { "EMPTY_TUPLE", op_empty_tuple, 0, NULL },
	['.'] = { "STOP", op_stop, 0, NULL },
	['0'] = { "POP", op_pop, 0, NULL },
	['1'] = { "POP_MARK", op_pop_mark, 0, NULL },
	['2'] = { "DUP", op_dup, 0, NULL },
	['B'] = { "BINBYTES", op_bytes, 4, NULL },
	['C'] = { "SHORT_BINBYTES", op_bytes, 1, NULL },
	['F'] = { "FLOAT", op_float_line, 0, NULL },
	['G'] = { "BINFLOAT", op_binfloat, 8, NULL },
	['I'] = { "INT", op_int_line, 0, NULL },
	['J'] = { "BININT", op_binint, 4, NULL },
	['K'] = { "BININT1", op_natural, 1, NULL },
	['L'] = { "LONG", op_int_line, 0, NULL },
	['M'] = { "BININT2", op_natural, 2, NULL },
	['N'] = { "NONE", op_none, 0, NULL },
	['P'] = { "PERSID", NULL, 0, refers },
	['Q'] = { "BINPERSID", NULL, 0, refers },
	['R'] = { "REDUCE", NULL, 0, builds },
	['S'] = { "STRING", NULL, 0, shares },
	['T'] = { "BINSTRING", op_text, 4, NULL },
	['U'] = { "SHORT_BINSTRING", op_text, 1, NULL },
	['V'] = { "UNICODE", op_unicode_line, 0, NULL },
	['X'] = { "BINUNICODE", op_text, 4, NULL },
	[']'] = { "EMPTY_LIST", op_empty_list, 0, NULL },
	['a'] = { "APPEND", op_append, 0, NULL },
	['b'] = { "BUILD", NULL, 0, builds },
	['c'] = { "GLOBAL", NULL, 0, imports },
	['d'] = { "DICT", op_dict, 0, NULL },
	['e'] = { "APPENDS", op_appends, 0, NULL },
	['g'] = { "GET", op_get_line, 0, NULL },
	['h'] = { "BINGET", op_get, 1, NULL },
	['i'] = { "INST", NULL, 0, builds },
	['j'] = { "LONG_BINGET", op_get, 4, NULL },
	['l'] = { "LIST", op_list, 0, NULL },
	['o'] = { "OBJ", NULL, 0, builds },
	['p'] = { "PUT", op_put_line, 0, NULL },
	['q'] = { "BINPUT", op_put, 1, NULL },
	['r'] = { "LONG_BINPUT", op_put, 4, NULL },
	['s'] = { "SETITEM", op_setitem, 0, NULL },
	['t'] = { "TUPLE", op_tuple, 0, NULL },
	['u'] = { "SETITEMS", op_setitems, 0, NULL },
	['}'] = { "EMPTY_DICT", op_empty_dict, 0, NULL },
	[0x80] = { "PROTO", op_proto, 1, NULL },
	[0x81] = { "NEWOBJ", NULL, 0, builds },
	[0x82] = { "EXT1", NULL, 0, imports },
	[0x83] = { "EXT2", NULL, 0, imports },
	[0x84] = { "EXT4", NULL, 0, imports },
	[0x85] = { "TUPLE1", op_tuple1, 0, NULL },
	[0x86] = { "TUPLE2", op_tuple2, 0, NULL },
	[0x87] = { "TUPLE3", op_tuple3, 0, NULL },
	[0x88] = { "NEWTRUE", op_true, 0, NULL },
	[0x89] = { "NEWFALSE", op_false, 0, NULL },
	[0x8a] = { "LONG1", op_long, 1, NULL },
	[0x8b] = { "LONG4", op_long, 4, NULL },
	[0x8c] = { "SHORT_BINUNICODE", op_text, 1, NULL },
	[0x8d] = { "BINUNICODE8", op_text, 8, NULL },
	[0x8e] = { "BINBYTES8", op_bytes, 8, NULL },
	[0x8f] = { "EMPTY_SET", NULL, 0, shares },
	[0x90] = { "ADDITEMS", NULL, 0, shares },
	[0x91] = { "FROZENSET", NULL, 0, shares },
	[0x92] = { "NEWOBJ_EX", NULL, 0, builds },
	[0x93] = { "STACK_GLOBAL", NULL, 0, imports },
	[0x94] = { "MEMOIZE", op_memoize, 0, NULL },
	[0x95] = { "FRAME", op_frame, 8, NULL },
	[0x96] = { "BYTEARRAY8", NULL, 0, shares },
	[0x97] = { "NEXT_BUFFER", NULL, 0, shares },
	[0x98] = { "READONLY_BUFFER", NULL, 0, shares },
};

static enum weir_status
run_operation(struct machine *machine)
{
	struct source *source = machine->source;
	uint64_t argument = 0;
	uint8_t code = *source->at;
	size_t bytes = operations[code].argument_bytes;
	enum weir_status status;

	machine->start = source_offset(source);
	if (operations[code].name == NULL)
		return status_set(WEIR_EINVAL,
		    "byte 0x%02x at offset %" PRIu64 " is no opcode of a "
		    "pickle",
		    code, machine->start);
	if (operations[code].run == NULL)
		return status_set(WEIR_EINVAL,
		    "opcode %s at offset %" PRIu64 " %s", operations[code].name,
		    machine->start, operations[code].refused);
	status = have(machine, 1 + bytes);
	if (status != WEIR_OK)
		return status;
	for (size_t i = bytes; i > 0; i--)
		argument = argument << 8 | source->at[i];
	source->at += 1 + bytes;
	status = operations[code].run(machine, argument);
	if (status == WEIR_EINVAL)
		status_prefix("opcode %s at offset %" PRIu64,
		    operations[code].name, machine->start);
	return status;
}

static enum weir_status
run_pickle(struct machine *machine)
{
	while (!machine->stopped) {
		enum weir_status status = have(machine, 1);

		if (status == WEIR_OK)
			status = run_operation(machine);
		if (status != WEIR_OK)
			return status;
	}
	return WEIR_OK;
}

enum weir_status
pickle_read(struct source *source, struct snapshot **out)
{
	struct machine machine = { .source = source };
	enum weir_status status;

	machine.builder = builder_new(true);
	if (machine.builder == NULL)
		return WEIR_EHOSTMEM;
	status = grow_values(&machine.stack, &machine.stack_room, 0);
	if (status == WEIR_OK)
		status = run_pickle(&machine);
	if (status == WEIR_OK)
		status = builder_finish(machine.builder, machine.stack[0], out);
	builder_free(machine.builder);
	meta_free(machine.stack, machine.stack_room * sizeof(*machine.stack));
	meta_free(machine.memo, machine.memo_room * sizeof(*machine.memo));
	return status;
}
