/*
 * Words of an option's text, and what they say.
 */
#ifndef ALLOCATOR_OPTIONS_WORDS_H
#define ALLOCATOR_OPTIONS_WORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MIB ((size_t)1 << 20)

/* A value in the text: [at, at + length), not terminated. */
struct word {
	const char *at;
	size_t length;
};

bool word_is(struct word word, const char *text);

/* The word as a terminated string; false if it is empty or does not fit. */
bool word_copy(struct word word, char *text, size_t size);

/* Parse a word. False, and *out is not set, if it is none of these: True or
 * False, and other words for them; a whole number in decimal; a number. */
bool word_bool(struct word word, bool *out);
bool word_count(struct word word, uint64_t *out);
bool word_number(struct word word, double *out);

/* Parse a size in MiB into bytes, `least` at least. A number too large for
 * bytes is the most that is a whole number of MiB, so that it reads back as
 * one. */
bool word_mib(struct word word, size_t least, size_t *out);

/* Parse a size in MiB, or the word for no bound. A huge number is none either.
 */
bool word_unlimited(struct word word, size_t *out);

/* Print bytes as MiB, or as the word for no bound. */
void word_print_mib(size_t bytes, char *text, size_t size);

#endif
