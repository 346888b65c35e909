/*
 * The names of one address.
 */
#ifndef TESTS_STACKS_NAMED_H
#define TESTS_STACKS_NAMED_H

#include "stacks/names.h"

struct named {
	struct name_place places[NAME_PLACES_MAX];
	size_t n;
	char module[256];
	uint64_t offset;
	bool asked; /* the helper has named it */
};

/* Name a return address, by the command of this build unless WEIR_COMMAND names
 * another one. */
struct named name_word(const void *word);

#endif
