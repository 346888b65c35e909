/*
 * The known word that is nearest to an unknown one. Complaints about an unknown
 * command, flag or value suggest it.
 */
#ifndef TOOLS_WEIR_GUESS_H
#define TOOLS_WEIR_GUESS_H

#include <argp.h>
#include <stdbool.h>
#include <stddef.h>

#include "tools/weir/tuning.h"

struct guess {
	const char *word;
	const char *nearest; /* or NULL */
	size_t distance;
};

/* Begin with the unknown word. */
void guess_begin(struct guess *guess, const char *word);

/* Try a known word, which must outlive the guess. */
void guess_try(struct guess *guess, const char *word);

/* "; did you mean 'view'?" if at most half of the unknown word's letters
 * differ, in upper or lower case; "" otherwise. Returns `text`. */
const char *guess_text(const struct guess *guess, char text[GUESS_TEXT]);

/* guess_text() with the nearest of `words`. NULL ends the list. */
const char *guess_of(
    const char *word, const char *const words[], char text[GUESS_TEXT]);

/*
 * Find the first long flag of a command line that the parser does not have.
 * Call this before argp parses, which would complain without a suggestion.
 *
 * @param in_order  the first argument that is no flag ends the flags
 * @return the argument, with the nearest flag in `text` ("" if none is near);
 *         or NULL if the parser has all flags
 */
const char *guess_unknown_flag(const struct argp *parser, char **argv,
    bool in_order, char text[GUESS_TEXT]);

#endif
