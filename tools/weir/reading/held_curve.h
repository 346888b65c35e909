/*
 * Held memory through time, in equal parts of the time. A part has the most
 * bytes that were held in it, so that no peak is lost.
 */
#ifndef TOOLS_WEIR_READING_HELD_CURVE_H
#define TOOLS_WEIR_READING_HELD_CURVE_H

#include <jansson.h>
#include <stdint.h>

#include "tools/weir/tuning.h"

struct held_curve {
	uint64_t span_us;
	uint64_t now; /* bytes held at the latest time */
	unsigned part;
	uint64_t most[HELD_CURVE_PARTS];
};

/* Begin a curve of `span_us`, with nothing held. */
void held_curve_begin(struct held_curve *curve, uint64_t span_us);

/* From `time_us` on, `bytes` are held. Times do not go back: an earlier time
 * counts as the latest one. */
void held_curve_add(struct held_curve *curve, uint64_t time_us, uint64_t bytes);

/* The bytes of the parts, as an array. The last bytes stay held to the end. */
json_t *held_curve_json(const struct held_curve *curve);

#endif
