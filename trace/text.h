/*
 * Texts that events name: each is kept once, for ever, and has a small number.
 */
#ifndef TRACE_TEXT_H
#define TRACE_TEXT_H

#include <stdint.h>

#include <weir/weir.h>

enum {
	TEXT_NONE,  /* "" */
	TEXT_OTHER, /* stands for those beyond the bounds */
	TEXT_FIRST, /* the first real one */
	TEXTS_MAX = 65000,
	TEXT_BYTES_MAX = 16 << 20, /* of all together */
};

/* The number of a text; NULL is "". WEIR_EHOSTMEM. */
enum weir_status text_intern(const char *text, uint32_t *out);

/* The text of a number, for ever. */
const char *text_get(uint32_t id);

/* Numbers given so far are below this. */
uint32_t text_count(void);

#endif
