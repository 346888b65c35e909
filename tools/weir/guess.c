/*
 * The nearest word, by the number of letters that differ.
 */
#include "tools/weir/guess.h"

#include <ctype.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/nearest.h"
#include "tools/weir/tuning.h"

static void
to_lower(const char *from, char to[GUESS_WORD])
{
	size_t i;

	for (i = 0; i + 1 < GUESS_WORD && from[i] != '\0'; i++)
		to[i] = (char)tolower((unsigned char)from[i]);
	to[i] = '\0';
}

void
guess_begin(struct guess *guess, const char *word)
{
	*guess = (struct guess){ .word = word, .distance = SIZE_MAX };
}

void
guess_try(struct guess *guess, const char *word)
{
	char unknown[GUESS_WORD];
	char known[GUESS_WORD];
	size_t distance;

	to_lower(guess->word, unknown);
	to_lower(word, known);
	distance = nearest_distance(unknown, strlen(unknown), known);
	if (distance >= guess->distance)
		return;
	guess->distance = distance;
	guess->nearest = word;
}

const char *
guess_text(const struct guess *guess, char text[GUESS_TEXT])
{
	size_t length = strnlen(guess->word, GUESS_WORD - 1);

	text[0] = '\0';
	if (guess->nearest != NULL && 2 * guess->distance <= length)
		snprintf(
		    text, GUESS_TEXT, "; did you mean '%s'?", guess->nearest);
	return text;
}

const char *
guess_of(const char *word, const char *const words[], char text[GUESS_TEXT])
{
	struct guess guess;

	guess_begin(&guess, word);
	for (size_t i = 0; words[i] != NULL; i++)
		guess_try(&guess, words[i]);
	return guess_text(&guess, text);
}

/* ---- Flags ------------------------------------------------------------- */

/* The flags that argp adds to every command. */
static const struct argp_option common_flags[] = {
	{ "help", '?', NULL, 0, NULL, 0 },
	{ "usage", 0, NULL, 0, NULL, 0 },
	{ 0 },
};

/* The i-th table of flags: the common flags, the parser's own, and those of its
 * children. NULL after the last one. */
static const struct argp_option *
table_of(const struct argp *parser, size_t i)
{
	static const struct argp_option none[] = { { 0 } };

	if (i == 0)
		return common_flags;
	if (i == 1)
		return parser->options != NULL ? parser->options : none;
	for (size_t c = 0; parser->children != NULL; c++) {
		if (parser->children[c].argp == NULL)
			return NULL;
		if (c == i - 2)
			return parser->children[c].argp->options;
	}
	return NULL;
}

static bool
is_end(const struct argp_option *flag)
{
	return flag->name == NULL && flag->key == 0;
}

/* The first flag whose long name begins with the `length` letters of `word`;
 * or, if `word` is NULL, the flag with the letter `key`. */
static const struct argp_option *
find_flag(const struct argp *parser, const char *word, size_t length, int key)
{
	const struct argp_option *flag;

	for (size_t i = 0; (flag = table_of(parser, i)) != NULL; i++)
		for (; !is_end(flag); flag++)
			if (word != NULL ? flag->name != NULL &&
				    strncmp(flag->name, word, length) == 0 :
					   flag->key == key)
				return flag;
	return NULL;
}

static bool
wants_value(const struct argp_option *flag)
{
	return flag != NULL && flag->arg != NULL &&
	    (flag->flags & OPTION_ARG_OPTIONAL) == 0;
}

/* True if the next argument is the value of the last letter, as in "-n 5" and
 * "-jn 5". */
static bool
short_takes_next(const struct argp *parser, const char *letters)
{
	for (; *letters != '\0'; letters++) {
		const struct argp_option *flag =
		    find_flag(parser, NULL, 0, *letters);

		if (flag != NULL && flag->arg != NULL)
			return wants_value(flag) && letters[1] == '\0';
	}
	return false;
}

/* Write the suggestion for an unknown flag. Returns the argument. */
static const char *
guess_flag(const struct argp *parser, const char *argument, size_t length,
    char text[GUESS_TEXT])
{
	const struct argp_option *flag;
	struct guess guess;
	char word[GUESS_WORD];

	snprintf(word, sizeof(word), "%.*s", (int)length, argument + 2);
	guess_begin(&guess, word);
	for (size_t i = 0; (flag = table_of(parser, i)) != NULL; i++)
		for (; !is_end(flag); flag++)
			if (flag->name != NULL)
				guess_try(&guess, flag->name);
	text[0] = '\0';
	if (guess.nearest != NULL && 2 * guess.distance <= strlen(word))
		snprintf(
		    text, GUESS_TEXT, "; did you mean '--%s'?", guess.nearest);
	return argument;
}

const char *
guess_unknown_flag(const struct argp *parser, char **argv, bool in_order,
    char text[GUESS_TEXT])
{
	for (size_t i = 1; argv[i] != NULL; i++) {
		const char *argument = argv[i];
		const struct argp_option *flag;
		size_t length;
		bool takes_next;

		if (argument[0] != '-' || argument[1] == '\0') {
			if (in_order)
				return NULL;
			continue;
		}
		if (strcmp(argument, "--") == 0)
			return NULL;
		if (argument[1] == '-') {
			length = strcspn(argument + 2, "=");
			flag = find_flag(parser, argument + 2, length, 0);
			if (flag == NULL)
				return guess_flag(
				    parser, argument, length, text);
			takes_next =
			    wants_value(flag) && argument[2 + length] == '\0';
		} else {
			takes_next = short_takes_next(parser, argument + 1);
		}
		if (takes_next && argv[i + 1] != NULL)
			i++;
	}
	return NULL;
}
