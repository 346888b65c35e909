/*
 * The table of options.
 */
#ifndef ALLOCATOR_OPTIONS_TABLE_H
#define ALLOCATOR_OPTIONS_TABLE_H

#include "allocator/options.h"
#include "allocator/options/words.h"

/* How the value of a row is stored, parsed and printed. */
enum option_kind {
	OPTION_BOOL,
	OPTION_MIB,     /* a size_t in bytes, as MiB; `other` is SIZE_MAX */
	OPTION_REAL,    /* a double */
	OPTION_COUNT,   /* a uint64_t; `other` is UINT64_MAX */
	OPTION_POWER,   /* an OPTION_COUNT that is a power of two */
	OPTION_WORD,    /* an int, one of `words` */
	OPTION_FILE,    /* a path below `most` bytes; `other` is "" */
	OPTION_ROUNDUP, /* the classes: roundup.h */
};

struct option_word {
	const char *word; /* NULL ends a list */
	int value;
};

/* One row of the table. Bounds are in the row's unit, both inclusive. */
struct entry {
	const char *key;
	const char *type;
	enum option_kind kind;
	size_t offset; /* in struct options */
	double least;
	double most;
	const struct option_word *words;
	const char *other; /* a word besides numbers or paths; NULL: none */
	const char *fallback;
	const char *range;
	const char *help;
	bool pytorch; /* PyTorch has it, too */
	/* For an option that is heeded before the first allocation only: the
	 * path of <weir/ctl.h> to set after it, or "". NULL: it may be set at
	 * any time. */
	const char *instead;
};

/* Set an option from a word. False if the word is not in range; options are
 * then unchanged. */
bool entry_parse(
    const struct entry *entry, struct options *options, struct word word);

/* Print the value, as entry_parse() takes it. If a path does not fit, its end
 * is printed, by which paths differ. */
void entry_print(const struct entry *entry, const struct options *options,
    char *text, size_t size);

/* Do both have the same value? Equal texts mean equal values, except for
 * numbers with more digits than are printed. */
bool entry_is_same(const struct entry *entry, const struct options *a,
    const struct options *b);

extern const struct entry option_entries[];
extern const size_t option_entry_count;

/* The row of a key, or NULL. */
const struct entry *entry_find(struct word key);

/* The row of a key in PyTorch's variables, where some options have a second
 * name; or NULL. */
const struct entry *entry_find_pytorch(struct word key);

/* Is it a key of PyTorch's that means nothing to weir? */
bool entry_is_foreign(struct word key);

#endif
