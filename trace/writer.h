/*
 * Dictionaries, lists, numbers and texts, as Python's pickle or as JSON.
 *
 * Values are written in order, each once, and none is kept, so the output may
 * have any length. In a dictionary a value follows its key; a list takes any
 * number.
 *
 * The pickle is of protocol 4 and uses the few codes that the viewer in the
 * browser knows: no classes, no calls, lists in batches of 1,000. Keys, words
 * and stacks that come again are written once and then named by a number, their
 * memo. JSON has no memos and repeats them.
 */
#ifndef TRACE_WRITER_H
#define TRACE_WRITER_H

#include <stdbool.h>
#include <stdint.h>

#include "trace/out.h"

enum { WRITER_DEPTH = 16 };

struct writer_level {
	bool dict;
	bool any;       /* a value has been written */
	unsigned batch; /* values of the batch that is open */
};

struct writer {
	struct out *out;
	bool json;
	uint32_t memos; /* given so far */
	int depth;
	struct writer_level level[WRITER_DEPTH];
};

/* A value that may come again: 0 before it has been written. */
typedef uint32_t memo;

void writer_begin(struct writer *w, struct out *out, bool json);
void writer_end(struct writer *w);

void writer_dict(struct writer *w);
void writer_list(struct writer *w);
/* The end of the innermost dictionary or list. */
void writer_close(struct writer *w);

/* A key; keep `m` for the same text. */
void writer_key(struct writer *w, const char *key, memo *m);
/* A key that comes once. */
void writer_name(struct writer *w, const char *key);

void writer_uint(struct writer *w, uint64_t value);
void writer_int(struct writer *w, int64_t value);
void writer_real(struct writer *w, double value);
void writer_bool(struct writer *w, bool value);
/* Bytes that are not UTF-8 become U+FFFD. */
void writer_text(struct writer *w, const char *text);
/* A text that may come again. */
void writer_word(struct writer *w, const char *text, memo *m);
/* Two numbers as one value. */
void writer_pair(struct writer *w, uint64_t a, uint64_t b);

/* A list or dictionary that may come again: if it has been written, write its
 * memo, and true. Else the caller writes it, then calls writer_keep(). */
bool writer_again(struct writer *w, memo m);
void writer_keep(struct writer *w, memo *m);

#endif
