/*
 * Parses and prints the words of an option's text.
 */
#include "allocator/options/words.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "allocator/options.h"
#include "base/assert.h"
#include "base/os.h"

bool
word_is(struct word word, const char *text)
{
	return strlen(text) == word.length &&
	    strncmp(word.at, text, word.length) == 0;
}

bool
word_blank(char c)
{
	return c == ' ' || (c >= '\t' && c <= '\r');
}

bool
word_squeeze(struct word word, char *text, size_t size, struct word *out)
{
	size_t used = 0;

	ASSERT(size > 0);
	for (size_t i = 0; i < word.length; i++) {
		if (word_blank(word.at[i]))
			continue;
		if (used == size)
			return false;
		text[used++] = word.at[i];
	}
	*out = word;
	out->at = text;
	out->length = used;
	return true;
}

bool
word_copy(struct word word, char *text, size_t size)
{
	if (word.length == 0 || word.length >= size)
		return false;
	memcpy(text, word.at, word.length);
	text[word.length] = '\0';
	return true;
}

bool
word_bool(struct word word, bool *out)
{
	static const char *const yes[] = { "True", "true", "1", "on", "yes" };
	static const char *const no[] = { "False", "false", "0", "off", "no" };

	const size_t n = word.pytorch ? 1 : sizeof(yes) / sizeof(yes[0]);

	for (size_t i = 0; i < n; i++) {
		if (word_is(word, yes[i]) || word_is(word, no[i])) {
			*out = word_is(word, yes[i]);
			return true;
		}
	}
	return false;
}

/* Cut the number that std::stoull() would read off the word's begin. */
static struct word
cut_number(struct word word, bool *negative)
{
	bool sign = word.length > 0 && (*word.at == '-' || *word.at == '+');
	size_t n = 0;

	*negative = sign && *word.at == '-';
	word.at += sign;
	word.length -= sign;
	while (n < word.length && word.at[n] >= '0' && word.at[n] <= '9')
		n++;
	word.length = n;
	return word;
}

bool
word_count(struct word word, uint64_t *out)
{
	bool negative = false;
	uint64_t n = 0;

	if (word.pytorch)
		word = cut_number(word, &negative);
	if (word.length == 0)
		return false;
	for (size_t i = 0; i < word.length; i++) {
		unsigned digit = (unsigned char)word.at[i] - (unsigned)'0';

		if (digit > 9 || n > (UINT64_MAX - digit) / 10)
			return false;
		n = n * 10 + digit;
	}
	*out = negative ? -n : n;
	return true;
}

bool
word_number(struct word word, double *out)
{
	char text[64];
	char *end;

	if (!word_copy(word, text, sizeof(text)))
		return false;
	*out = os_parse_real(text, &end);
	return end != text && (word.pytorch || *end == '\0') && isfinite(*out);
}

bool
word_mib(struct word word, size_t least, size_t *out)
{
	uint64_t n;

	if (!word_count(word, &n))
		return false;
	size_t bytes = (n < SIZE_MAX / MIB ? n : SIZE_MAX / MIB) * MIB;
	if (bytes < least)
		return false;
	*out = bytes;
	return true;
}

bool
word_unlimited(struct word word, size_t *out)
{
	uint64_t n;

	if (!word_is(word, "unlimited") &&
	    !(word_count(word, &n) && n > SIZE_MAX / MIB))
		return word_mib(word, 0, out);
	*out = OPTION_UNLIMITED;
	return true;
}

void
word_print_mib(size_t bytes, char *text, size_t size)
{
	if (bytes == OPTION_UNLIMITED)
		snprintf(text, size, "unlimited");
	else
		snprintf(text, size, "%zu", bytes / MIB);
}
