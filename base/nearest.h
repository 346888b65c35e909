/*
 * How near a word is to another, to find the one that a person meant.
 */
#ifndef BASE_NEAREST_H
#define BASE_NEAREST_H

#include <stddef.h>

/*
 * Insertions, deletions and substitutions between a word of `length` bytes and
 * another. Of longer words the first 63 bytes are compared, and what is behind
 * them counts by the difference of its lengths. Takes no memory.
 */
size_t nearest_distance(const char *word, size_t length, const char *other);

#endif
