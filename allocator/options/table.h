/*
 * The table of options.
 */
#ifndef ALLOCATOR_OPTIONS_TABLE_H
#define ALLOCATOR_OPTIONS_TABLE_H

#include "allocator/options.h"
#include "allocator/options/words.h"

/* One row of the table. */
struct entry {
	const char *key;
	const char *type;
	const char *fallback;
	const char *range;
	const char *help;
	/* Set it from a word; false if the word is not in range. */
	bool (*parse)(struct options *options, struct word word);
	void (*print)(const struct options *options, char *text, size_t size);
};

extern const struct entry option_entries[];
extern const size_t option_entry_count;

/* The row of a key, or NULL. */
const struct entry *entry_find(struct word key);

/* The row of a key in PyTorch's variables, where some options have a second
 * name; or NULL. */
const struct entry *entry_find_pytorch(struct word key);

/* Is it an option of PyTorch's too? */
bool entry_is_pytorch(const struct entry *entry);

/* Is it a key of PyTorch's that means nothing to weir? */
bool entry_is_foreign(struct word key);

#endif
