/*
 * A writer of dictionaries, lists, numbers and texts, as Python's pickle or as
 * JSON.
 *
 * Values are written in order, each once, and none is stored, so the output may
 * have any length. In a dictionary each value follows its key; a list may have
 * any number of values.
 *
 * The pickle has protocol 4 and uses only the opcodes that the viewer in the
 * browser knows: no classes, no calls, lists in batches of 1,000. Keys, words
 * and stacks that occur again are written once and then referred to by a
 * number, their memo. JSON has no memos, so there they are repeated.
 */
#ifndef SNAPSHOT_WRITER_H
#define SNAPSHOT_WRITER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/out.h"
#include "snapshot/tuning.h"

struct writer_level {
	bool dict;
	bool any;       /* a value has been written */
	unsigned batch; /* number of values in the open batch */
};

struct writer {
	struct out *out;
	bool json;
	uint32_t memos; /* number assigned so far */
	int depth;
	struct writer_level level[WRITER_DEPTH];
};

/* The memo of a value that may occur again; 0 before it has been written. */
typedef uint32_t memo;

void writer_begin(struct writer *w, struct out *out, bool json);
void writer_end(struct writer *w);

void writer_dict(struct writer *w);
void writer_list(struct writer *w);
/* End the innermost dictionary or list. */
void writer_close(struct writer *w);

/* Write a key; always pass the same `m` for the same text. */
void writer_key(struct writer *w, const char *key, memo *m);
/* Write a key that occurs once. */
void writer_name(struct writer *w, const char *key);

void writer_uint(struct writer *w, uint64_t value);
void writer_int(struct writer *w, int64_t value);
void writer_real(struct writer *w, double value);
void writer_bool(struct writer *w, bool value);
/* Write a text; bytes that are not UTF-8 become U+FFFD. */
void writer_text(struct writer *w, const char *text);
/* Write a text that may occur again. */
void writer_word(struct writer *w, const char *text, memo *m);
/* Write two numbers as one value. */
void writer_pair(struct writer *w, uint64_t a, uint64_t b);

/* Write a list or dictionary that may occur again. If it has been written
 * already, its memo is written and true is returned. Else the caller writes it
 * and then calls writer_keep(). */
bool writer_again(struct writer *w, memo m);
void writer_keep(struct writer *w, memo *m);

#endif
