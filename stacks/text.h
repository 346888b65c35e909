/*
 * The texts that events refer to: each is stored once, for ever, and has a
 * small number.
 */
#ifndef STACKS_TEXT_H
#define STACKS_TEXT_H

#include <stdint.h>

#include <weir/weir.h>

enum {
	TEXT_NONE,  /* "" */
	TEXT_OTHER, /* stands for all texts beyond the limits */
	TEXT_FIRST, /* the first number of a stored text */
	TEXTS_MAX = 65000,
	TEXT_BYTES_MAX = 16 << 20, /* of all texts together */
};

/* The number of a text; NULL counts as "". WEIR_EHOSTMEM. */
enum weir_status text_intern(const char *text, uint32_t *out);

/* The text with a number; it is never freed. */
const char *text_get(uint32_t id);

/* All numbers assigned so far are below this. */
uint32_t text_count(void);

#endif
