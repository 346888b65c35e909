/*
 * Values of options by the kind of their row.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "allocator/options/roundup.h"
#include "allocator/options/table.h"
#include "base/assert.h"
#include "base/os.h"

static const void *
value_in(const struct entry *entry, const struct options *options)
{
	return (const char *)options + entry->offset;
}

static bool
is_within(const struct entry *entry, double value)
{
	ASSERT(entry->least <= entry->most);
	return entry->least <= value && value <= entry->most;
}

static bool
parse_mib(const struct entry *entry, struct word word, size_t *out)
{
	size_t bytes;

	if (entry->other != NULL ? !word_unlimited(word, &bytes) :
				   !word_mib(word, 0, &bytes))
		return false;
	size_t mib = bytes / MIB;
	if (!is_within(entry, (double)mib))
		return false;
	*out = bytes;
	return true;
}

static bool
parse_count(const struct entry *entry, struct word word, uint64_t *out)
{
	uint64_t n;

	if (entry->other != NULL && word_is(word, entry->other)) {
		*out = UINT64_MAX;
		return true;
	}
	if (!word_count(word, &n) || !is_within(entry, (double)n) ||
	    (entry->kind == OPTION_POWER && !word_is_power_of_two(n)))
		return false;
	*out = n;
	return true;
}

static bool
parse_real(const struct entry *entry, struct word word, double *out)
{
	double value;

	if (!word_number(word, &value) || !is_within(entry, value))
		return false;
	*out = value;
	return true;
}

static bool
parse_choice(const struct entry *entry, struct word word, int *out)
{
	ASSERT(entry->words != NULL);
	for (const struct option_word *w = entry->words; w->word != NULL; w++)
		if (word_is(word, w->word)) {
			*out = w->value;
			return true;
		}
	return false;
}

static bool
parse_file(const struct entry *entry, struct word word, char *out)
{
	ASSERT(entry->other != NULL);
	if (!word_is(word, entry->other))
		return word_copy(word, out, (size_t)entry->most);
	out[0] = '\0';
	return true;
}

bool
entry_parse(
    const struct entry *entry, struct options *options, struct word word)
{
	void *value = (char *)options + entry->offset;

	ASSERT(entry->offset < sizeof(*options));
	switch (entry->kind) {
	case OPTION_BOOL:
		return word_bool(word, value);
	case OPTION_MIB:
		return parse_mib(entry, word, value);
	case OPTION_REAL:
		return parse_real(entry, word, value);
	case OPTION_COUNT:
	case OPTION_POWER:
		return parse_count(entry, word, value);
	case OPTION_WORD:
		return parse_choice(entry, word, value);
	case OPTION_FILE:
		return parse_file(entry, word, value);
	case OPTION_ROUNDUP:
		return roundup_parse(options, word);
	}
	return false;
}

static const char *
choice_word(const struct entry *entry, int value)
{
	const struct option_word *w = entry->words;

	while (w->word != NULL && w->value != value)
		w++;
	return w->word;
}

static void
print_count(const struct entry *entry, uint64_t n, char *text, size_t size)
{
	if (entry->other != NULL && n == UINT64_MAX)
		snprintf(text, size, "%s", entry->other);
	else
		snprintf(text, size, "%" PRIu64, n);
}

static void
print_file(const char *path, const char *none, char *text, size_t size)
{
	size_t length = strlen(path);

	if (length < size)
		snprintf(text, size, "%s", length == 0 ? none : path);
	else
		snprintf(text, size, "...%s", path + length - (size - 4));
}

void
entry_print(const struct entry *entry, const struct options *options,
    char *text, size_t size)
{
	const void *value = value_in(entry, options);

	switch (entry->kind) {
	case OPTION_BOOL:
		snprintf(
		    text, size, "%s", *(const bool *)value ? "True" : "False");
		return;
	case OPTION_MIB:
		word_print_mib(*(const size_t *)value, text, size);
		return;
	case OPTION_REAL:
		os_format_real(*(const double *)value, 6, text, size);
		return;
	case OPTION_COUNT:
	case OPTION_POWER:
		print_count(entry, *(const uint64_t *)value, text, size);
		return;
	case OPTION_WORD:
		snprintf(
		    text, size, "%s", choice_word(entry, *(const int *)value));
		return;
	case OPTION_FILE:
		print_file(value, entry->other, text, size);
		return;
	case OPTION_ROUNDUP:
		roundup_print(options, text, size);
		return;
	}
}

bool
entry_is_same(
    const struct entry *entry, const struct options *a, const struct options *b)
{
	char one[OPTION_PATH];
	char other[OPTION_PATH];

	if (entry->kind == OPTION_REAL)
		return *(const double *)value_in(entry, a) ==
		    *(const double *)value_in(entry, b);
	entry_print(entry, a, one, sizeof(one));
	entry_print(entry, b, other, sizeof(other));
	return strcmp(one, other) == 0;
}

const char *
options_source_name(unsigned source)
{
	static const char key[] = "pinned_source";

	return choice_word(
	    entry_find((struct word){ .at = key, .length = sizeof(key) - 1 }),
	    (int)source);
}
