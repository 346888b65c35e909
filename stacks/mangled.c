/*
 * An upper bound of the length of a demangled C++ name.
 *
 * Note [Expanded names]
 *
 * A mangled name numbers its parts in the order in which they end. S_, S0_, S1_
 * and so on refer to parts; T_, T0_ and so on refer to arguments of the
 * template that is being declared. A part that is referred to at offset p by
 * number x
 *
 * - ended before p, so it has at most p characters of its own, and
 * - contains references to parts with smaller numbers only, at offsets below p.
 *
 * So it expands to at most p characters and the expansions of all these
 * references, whether it contains them or not. The sum over all references
 * bounds the expansion of the name. The same recurrence bounds how many
 * references to arguments the expanded name has; each argument is at most as
 * long as all of the rest.
 *
 * Text that only looks like a reference, as in the name LIST_OF, is counted
 * too. It can only increase the bound.
 *
 * The bound omits two factors, which many names of programs have and which make
 * the bound useless: arguments with references to arguments of a declaration
 * around theirs, and expansions of packs.
 */
#include "stacks/mangled.h"

#include <stddef.h>
#include <string.h>

enum {
	LENGTH_MAX = 1024,
	REFERENCES_MAX = 256,
	ARGUMENT = -1,
	/* No name has as many parts. A demangler may cut a larger number to
	 * fewer bits, so it may stand for any part. */
	ANY_PART = 4 * LENGTH_MAX,
};

static const double expansion_max = 256 << 20;

struct reference {
	int number;       /* of a part, or ARGUMENT */
	double size;      /* bound of the expansion, in mangled characters */
	double arguments; /* bound of its references to arguments */
};

/* Add the earlier references that the part of `out` may contain. */
static void
add_contained(
    struct reference *out, const struct reference *earlier, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (earlier[i].number < out->number ||
		    earlier[i].number == ANY_PART) {
			out->size += earlier[i].size;
			out->arguments += earlier[i].arguments;
		}
}

/* The value of a digit of base 36, or -1. */
static int
digit_value(char digit)
{
	if (digit >= '0' && digit <= '9')
		return digit - '0';
	return digit >= 'A' && digit <= 'Z' ? digit - 'A' + 10 : -1;
}

/* Read the reference that begins at `text`: S_ or T_, perhaps with digits
 * before the underscore. False if there is none. */
static bool
read_reference(const char *text, int *number)
{
	int value = 0;
	size_t i = 1;

	if (text[0] != 'S' && text[0] != 'T')
		return false;
	for (; digit_value(text[i]) >= 0; i++) {
		value = value * 36 + digit_value(text[i]);
		if (value >= ANY_PART)
			value = ANY_PART - 1;
	}
	if (text[i] != '_')
		return false;
	*number = text[0] == 'T' ? ARGUMENT : value + (i > 1);
	return true;
}

bool
mangled_name_is_bounded(const char *name)
{
	struct reference references[REFERENCES_MAX];
	size_t length = strnlen(name, LENGTH_MAX + 1);
	double size = (double)length;
	double arguments = 0;
	size_t count = 0;
	int number;

	if (length > LENGTH_MAX)
		return false;
	for (size_t at = 0; at < length; at++) {
		struct reference *next = &references[count];

		if (!read_reference(name + at, &number))
			continue;
		*next = (struct reference){ .number = number,
			.size = (double)at,
			.arguments = number == ARGUMENT };
		if (number != ARGUMENT)
			add_contained(next, references, count);
		size += next->size;
		arguments += next->arguments;
		if (++count == REFERENCES_MAX ||
		    size * (1 + arguments) > expansion_max)
			return false;
	}
	return true;
}
