/*
 * Parses and prints the words of an option's text.
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
	/* Read it by the rules of PyTorch's parser: True and False are the only
	 * bools, and a number may have a sign before it and any text after it,
	 * as for std::stoull() and std::stod(). */
	bool pytorch;
};

bool word_is(struct word word, const char *text);

/* Is it a space, or another character of C's isspace()? */
bool word_blank(char c);

/* The word without blanks, in `text`. False if it does not fit. */
bool word_squeeze(struct word word, char *text, size_t size, struct word *out);

/* The word as a terminated string; false if it is empty or does not fit. */
bool word_copy(struct word word, char *text, size_t size);

/* Parse a word. word_bool() takes True, False and other words for them,
 * word_count() a whole decimal number, word_number() any finite number. False
 * if the word is none; *out is then not set. */
bool word_bool(struct word word, bool *out);
bool word_count(struct word word, uint64_t *out);
bool word_number(struct word word, double *out);

static inline bool
word_is_power_of_two(uint64_t n)
{
	return n != 0 && (n & (n - 1)) == 0;
}

/* Parse a size in MiB into bytes. False if it is below `least`. A size that is
 * too large for bytes becomes the largest whole number of MiB, so that it can
 * be printed and parsed again. */
bool word_mib(struct word word, size_t least, size_t *out);

/* Parse a size in MiB, or "unlimited". A size that is too large for bytes is
 * unlimited too. */
bool word_unlimited(struct word word, size_t *out);

/* Print bytes as MiB, or "unlimited". */
void word_print_mib(size_t bytes, char *text, size_t size);

#endif
