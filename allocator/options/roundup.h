/*
 * Parses and prints roundup_power2_divisions.
 */
#ifndef ALLOCATOR_OPTIONS_ROUNDUP_H
#define ALLOCATOR_OPTIONS_ROUNDUP_H

#include "allocator/options.h"
#include "allocator/options/words.h"

/* Set the divisions of the classes. False if the word is no number of divisions
 * and no list; options are then unchanged. */
bool roundup_parse(struct options *options, struct word word);

/* Print the list that sets the classes. The first entry stands for all classes
 * up to its own, and > for the last ones. */
void roundup_print(const struct options *options, char *text, size_t size);

#endif
