/*
 * Builds a snapshot from the values of a file, whatever the file's format.
 *
 * A reader (snapshot/pickle_read.h, or the tools' JSON reader) makes values:
 * numbers, strings, and containers that it fills. A container is complete when
 * it is put into another one. Then it becomes a row of the snapshot, as its
 * keys or items say: a frame, an event, a block or a list of segments. It needs
 * only the memory of that row and cannot change. So the file is never in memory
 * as a tree of objects, and nothing here recurses.
 *
 * The keys of a dict decide its kind: "action" makes it an event, "blocks" a
 * segment, "state" a block, "filename" a frame, "stage" an annotation,
 * "segments" the snapshot. Unknown keys are ignored, except in the snapshot
 * itself, where they become settings.
 *
 * Host memory: about 64 bytes at most for each value that the reader makes.
 */
#ifndef SNAPSHOT_BUILD_H
#define SNAPSHOT_BUILD_H

#include "snapshot/model.h"

enum value_kind {
	VALUE_UNSET, /* no value */
	VALUE_NONE,
	VALUE_BOOL,      /* in natural: 0 or 1 */
	VALUE_INTEGER,   /* in integer: below 2^63 */
	VALUE_NATURAL,   /* in natural: from 2^63 on */
	VALUE_REAL,      /* in real */
	VALUE_STRING,    /* id: number of a string of the snapshot */
	VALUE_POOL,      /* id: a pool, from a tuple of two integers */
	VALUE_FRAME,     /* id: a frame, from a list read as a stack */
	VALUE_STACK,     /* id: a stack; from builder_stack() */
	VALUE_CONTAINER, /* id: a list or dict */
	VALUE_OPAQUE,    /* bytes, or an integer of more than 64 bits */
};

struct value {
	enum value_kind kind;
	uint32_t id;
	union {
		int64_t integer;
		uint64_t natural;
		double real;
	};
};

struct builder;

/*
 * Create an empty builder; NULL without host memory, with a message.
 *
 * @param references  a container may be put into several others, as in pickles.
 *                    If false, the memory of a container is used again once it
 *                    has become a row
 */
struct builder *builder_new(bool references);

/* Free the builder and everything in it that was not taken. NULL does nothing.
 */
void builder_free(struct builder *builder);

/*
 * Take the snapshot out of the builder. `top` is the file's value: a dict with
 * "segments" or "device_traces", or a list of segments.
 *
 * @return WEIR_OK; WEIR_EINVAL if it is something else, with a message
 */
enum weir_status builder_finish(
    struct builder *builder, struct value top, struct snapshot **out);

/*
 * The calls below return WEIR_OK; WEIR_EINVAL for a value that no snapshot
 * contains, with a message that lacks the place, which the reader adds; or
 * WEIR_EHOSTMEM.
 */

/* Add a string; NULs and bytes that are not UTF-8 become U+FFFD. */
enum weir_status builder_string(struct builder *builder, const char *text,
    size_t length, struct value *out);

enum weir_status builder_list(struct builder *builder, struct value *out);
enum weir_status builder_dict(struct builder *builder, struct value *out);

/* Append items to a list. */
enum weir_status builder_append(struct builder *builder, struct value list,
    const struct value *items, size_t count);

/* Put pairs into a dict: keys and values alternate. */
enum weir_status builder_set(struct builder *builder, struct value dict,
    const struct value *pairs, size_t count);

/* Make a tuple: a list that is complete at once. */
enum weir_status builder_tuple(struct builder *builder,
    const struct value *items, size_t count, struct value *out);

/* Turn a list of frames into a stack; any other list becomes the empty stack.
 * The list may not be used again. */
enum weir_status builder_stack(
    struct builder *builder, struct value list, struct value *out);

#endif
