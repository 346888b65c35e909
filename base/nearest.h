/*
 * How similar two words are, to find the word that a user meant.
 */
#ifndef BASE_NEAREST_H
#define BASE_NEAREST_H

#include <stddef.h>

/*
 * The number of insertions, deletions and substitutions between a word of
 * `length` bytes and another. Of longer words the first 63 bytes are compared,
 * and the difference of the remaining lengths is added. Allocates no memory.
 */
size_t nearest_distance(const char *word, size_t length, const char *other);

#endif
