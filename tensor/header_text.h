/*
 * Reads the JSON of a safetensors header: characters, texts and numbers.
 *
 * It accepts the JSON that serde_json accepts, which the format's reference
 * reads headers with, and there is no other parser of a header in weir. After a
 * failure every call fails, and the first failure is kept.
 */
#ifndef TENSOR_HEADER_TEXT_H
#define TENSOR_HEADER_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "tensor/tuning.h"

struct reader {
	const char *text;
	size_t size;
	size_t at;
	/* Where decoded texts go: as much room as there is text, because
	 * decoding makes no text longer. */
	char *texts;
	size_t texts_used;
	enum weir_status status; /* WEIR_OK until something fails */
	char wrong[256];         /* description of the failure */
};

/* Fail, unless something has failed before. Returns false. */
bool header_fail(struct reader *r, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
bool header_no_memory(struct reader *r);

/* The next character that is not blank; -1 at the end. */
int header_peek(struct reader *r);

/* Go past a character that has to come next. */
bool header_expect(struct reader *r, char c);

/* After the beginning of an object or a member: does another member follow? */
bool header_next_member(struct reader *r, bool *first);

/*
 * Read a text, which stays in `texts`, ended by NUL; NULL if it is malformed.
 * U+0000, which no C text holds, becomes the bytes C0 80, which are no UTF-8:
 * so different texts stay different.
 */
const char *header_read_text(struct reader *r);

/* Read a whole number from 0. */
bool header_read_number(struct reader *r, uint64_t *out);

/* Go past a value of any kind, which lies in `depth` objects and arrays. */
bool header_skip_value(struct reader *r, int depth);

/* Go past `null` if it comes next. */
bool header_skip_null(struct reader *r);

#endif
