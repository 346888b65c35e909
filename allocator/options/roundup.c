/*
 * Parses and prints roundup_power2_divisions.
 */
#include "allocator/options/roundup.h"

#include <stdio.h>
#include <string.h>

/* The class of a key in MiB. */
static bool
roundup_class(struct word word, size_t *out)
{
	uint64_t mib;

	if (!word_count(word, &mib) || !word_is_power_of_two(mib))
		return false;
	size_t log = (size_t)__builtin_ctzll(mib);
	*out = log < ROUNDUP_CLASSES ? log : ROUNDUP_CLASSES - 1;
	return true;
}

/* More divisions than `most` round no size of a device up. */
static bool
roundup_value(struct word word, uint32_t *out)
{
	static const uint32_t most = UINT32_C(1) << 31;
	uint64_t n;

	if (!word_count(word, &n) || (n != 0 && !word_is_power_of_two(n)))
		return false;
	*out = n < most ? (uint32_t)n : most;
	return true;
}

/* Cut the next token of a list off *rest: one of "[]:,", or the text up to
 * the next of them, without the blanks around it. Empty at the end. */
static struct word
next_token(struct word *rest)
{
	struct word token = *rest;
	size_t blanks = 0;
	size_t n = 0;

	while (blanks < rest->length && word_blank(rest->at[blanks]))
		blanks++;
	token.at += blanks;
	token.length -= blanks;
	while (n < token.length && strchr("[]:,", token.at[n]) == NULL)
		n++;
	if (n == 0 && token.length > 0)
		n = 1;
	*rest = token;
	rest->at += n;
	rest->length -= n;
	token.length = n;
	while (n > 0 && word_blank(token.at[n - 1]))
		token.length = --n;
	return token;
}

/* Apply one entry of a list, "key:value", to the classes. *last is the class of
 * the entry before, or ROUNDUP_CLASSES for the first entry that has a class. */
static bool
set_roundup_entry(
    uint32_t *classes, struct word key, struct word text, size_t *last)
{
	size_t first = *last % ROUNDUP_CLASSES + 1;
	size_t class;
	uint32_t value;

	if (!roundup_value(text, &value))
		return false;
	if (word_is(key, ">")) {
		for (size_t i = first; i < ROUNDUP_CLASSES; i++)
			classes[i] = value;
		return true;
	}
	if (!roundup_class(key, &class))
		return false;
	for (size_t i = 0; *last == ROUNDUP_CLASSES && i < class; i++)
		classes[i] = value;
	classes[class] = value;
	*last = class;
	return true;
}

/*
 * [256:1,512:2,>:4]: each key is the lower bound of a class in MiB. Sizes below
 * the first key have its value, and > has the value for all classes above the
 * last key, or above 1 MiB if there is none. Classes that no entry names are
 * not rounded; in PyTorch's variable they keep the value that an earlier list
 * gave them. So reads PyTorch's parser, whatever its manual says; it does not
 * look at the separators either.
 */
static bool
set_roundup_list(struct options *o, struct word word)
{
	uint32_t classes[ROUNDUP_CLASSES] = { 0 };
	size_t last = ROUNDUP_CLASSES;
	struct word rest = word;

	if (word.pytorch)
		memcpy(classes, o->roundup, sizeof(classes));
	next_token(&rest); /* the bracket */
	for (;;) {
		struct word key = next_token(&rest);
		if (word_is(key, "]"))
			break;
		struct word colon = next_token(&rest);
		struct word value = next_token(&rest);
		if ((!word.pytorch && !word_is(colon, ":")) ||
		    !set_roundup_entry(classes, key, value, &last))
			return false;
		struct word after = rest;
		struct word comma = next_token(&after);
		if (word_is(comma, "]"))
			continue;
		if (!word.pytorch && !word_is(comma, ","))
			return false;
		rest = after;
	}
	if (next_token(&rest).length != 0)
		return false;
	memcpy(o->roundup, classes, sizeof(classes));
	return true;
}

static bool
set_roundup_all(struct options *o, struct word word)
{
	uint32_t value;

	if (!roundup_value(word, &value))
		return false;
	for (size_t i = 0; i < ROUNDUP_CLASSES; i++)
		o->roundup[i] = value;
	return true;
}

bool
roundup_parse(struct options *o, struct word word)
{
	bool list = word.length > 0 && word.at[0] == '[';

	if (list ? !set_roundup_list(o, word) : !set_roundup_all(o, word))
		return false;
	o->rounds = false;
	for (size_t i = 0; i < ROUNDUP_CLASSES; i++)
		o->rounds = o->rounds || o->roundup[i] != 0;
	return true;
}

void
roundup_print(const struct options *o, char *text, size_t size)
{
	const uint32_t *classes = o->roundup;
	size_t first = 0;
	size_t tail = ROUNDUP_CLASSES - 1;

	while (first < tail && classes[first + 1] == classes[0])
		first++;
	while (tail > 0 && classes[tail - 1] == classes[ROUNDUP_CLASSES - 1])
		tail--;
	if (tail == 0) {
		snprintf(text, size, "%u", classes[0]);
		return;
	}
	size_t used = (size_t)snprintf(
	    text, size, "[%zu:%u", (size_t)1 << first, classes[0]);
	for (size_t i = first + 1; i < ROUNDUP_CLASSES && used < size; i++) {
		bool rest = i == tail && tail < ROUNDUP_CLASSES - 1;

		used += rest ? (size_t)snprintf(text + used, size - used,
				   ",>:%u", classes[i]) :
			       (size_t)snprintf(text + used, size - used,
				   ",%zu:%u", (size_t)1 << i, classes[i]);
		if (rest)
			break;
	}
	if (used < size)
		snprintf(text + used, size - used, "]");
}
