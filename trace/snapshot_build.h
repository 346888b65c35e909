/*
 * Making a snapshot from the values of a file, whatever the file's form.
 *
 * A reader (trace/pickle_read.h, the tools' one of JSON) makes values: numbers,
 * strings, and containers that it fills. A container that is put into another
 * is complete. From then on it is a row of the snapshot, a frame, an event, a
 * block or a list of segments, as its keys or items say; it takes the room of
 * that row and cannot change. So the file is never in memory as a tree of
 * objects, and nothing here recurses.
 *
 * The keys of a dict decide its kind: "action" makes it an event, "blocks" a
 * segment, "state" a block, "filename" a frame, "stage" an annotation,
 * "segments" the snapshot. Unknown keys are ignored, except in the snapshot
 * itself, where they become settings.
 *
 * Host memory: at most some 64 bytes for each value that the reader makes.
 */
#ifndef TRACE_SNAPSHOT_BUILD_H
#define TRACE_SNAPSHOT_BUILD_H

#include "trace/snapshot_model.h"

enum value_kind {
	VALUE_UNSET, /* no value at all */
	VALUE_NONE,
	VALUE_BOOL,      /* natural: 0 or 1 */
	VALUE_INTEGER,   /* integer, below 2^63 */
	VALUE_NATURAL,   /* natural, from 2^63 on */
	VALUE_REAL,      /* real */
	VALUE_STRING,    /* id: string of the snapshot */
	VALUE_POOL,      /* id: two integers that were a tuple */
	VALUE_FRAME,     /* id: of a list that was taken for a stack */
	VALUE_STACK,     /* id: of frames; from builder_stack() */
	VALUE_CONTAINER, /* id: of a list or dict */
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
 * An empty builder; NULL without host memory, told by status_set().
 *
 * @param references  a container may be put into more than one, as in pickles.
 *                    If not, what is left of it once it has become a row is
 *                    used again
 */
struct builder *builder_new(bool references);

/* End it, with all that was built and not taken. NULL does nothing. */
void builder_free(struct builder *builder);

/*
 * Take the snapshot that `top` is: a dict with "segments" or "device_traces",
 * or a list of segments. The builder keeps nothing of it.
 *
 * @return WEIR_OK; WEIR_EINVAL if it is something else, and what
 */
enum weir_status builder_finish(
    struct builder *builder, struct value top, struct snapshot **out);

/*
 * The calls below return WEIR_OK; WEIR_EINVAL for what no snapshot contains,
 * told by status_set() and without the place, which the reader knows; or
 * WEIR_EHOSTMEM.
 */

/* A string of the snapshot; bytes that are no UTF-8, and NULs, become U+FFFD.
 */
enum weir_status builder_string(struct builder *builder, const char *text,
    size_t length, struct value *out);

enum weir_status builder_list(struct builder *builder, struct value *out);
enum weir_status builder_dict(struct builder *builder, struct value *out);

/* Put items at the end of a list. */
enum weir_status builder_append(struct builder *builder, struct value list,
    const struct value *items, size_t count);

/* Put pairs, a key and its value in turns, into a dict. */
enum weir_status builder_set(struct builder *builder, struct value dict,
    const struct value *pairs, size_t count);

/* A tuple: a list that is complete at once. */
enum weir_status builder_tuple(struct builder *builder,
    const struct value *items, size_t count, struct value *out);

/* The stack that a list of frames is; the empty one for any other list. The
 * list is not used again. */
enum weir_status builder_stack(
    struct builder *builder, struct value list, struct value *out);

#endif
