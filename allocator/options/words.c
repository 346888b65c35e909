/*
 * Parses and prints the words of an option's text.
 */
#include "allocator/options/words.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "allocator/options.h"
#include "base/os.h"

bool
word_is(struct word word, const char *text)
{
	return strlen(text) == word.length &&
	    strncmp(word.at, text, word.length) == 0;
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

	for (size_t i = 0; i < sizeof(yes) / sizeof(yes[0]); i++) {
		if (word_is(word, yes[i]) || word_is(word, no[i])) {
			*out = word_is(word, yes[i]);
			return true;
		}
	}
	return false;
}

bool
word_count(struct word word, uint64_t *out)
{
	char text[32];
	char *end;

	if (!word_copy(word, text, sizeof(text)) ||
	    strspn(text, "0123456789") != word.length)
		return false;
	errno = 0;
	*out = strtoull(text, &end, 10);
	return errno == 0;
}

bool
word_number(struct word word, double *out)
{
	char text[64];
	char *end;

	if (!word_copy(word, text, sizeof(text)))
		return false;
	*out = os_parse_real(text, &end);
	return *end == '\0' && isfinite(*out);
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
