/*
 * The inside of a builder, shared by its parts: containers (snapshot_build.c),
 * the rows that dicts become (snapshot_rows.c), and what is stored only once
 * (snapshot_tables.c). Each calls those after it.
 */
#ifndef SNAPSHOT_ROWS_H
#define SNAPSHOT_ROWS_H

#include "snapshot/build.h"
#include "snapshot/intern.h"

/* X(NAME, text): the keys and words that the builder looks for. They are
 * strings 1 and up of every snapshot, in this order. */
#define BUILD_WORDS(X)                                                         \
	X(KEY_ACTION, "action")                                                \
	X(KEY_ACTIVE_SIZE, "active_size")                                      \
	X(KEY_ADDR, "addr")                                                    \
	X(KEY_ADDRESS, "address")                                              \
	X(KEY_ALLOCATED_SIZE, "allocated_size")                                \
	X(KEY_BLOCKS, "blocks")                                                \
	X(KEY_BUILD_ID, "build_id")                                            \
	X(KEY_CACHED, "cached")                                                \
	X(KEY_COMPILE_CONTEXT, "compile_context")                              \
	X(KEY_DEVICE, "device")                                                \
	X(KEY_DEVICE_FREE, "device_free")                                      \
	X(KEY_DEVICE_TRACES, "device_traces")                                  \
	X(KEY_EPOCH, "epoch")                                                  \
	X(KEY_EXTERNAL_ANNOTATIONS, "external_annotations")                    \
	X(KEY_FILENAME, "filename")                                            \
	X(KEY_FRAMES, "frames")                                                \
	X(KEY_HEAP, "heap")                                                    \
	X(KEY_HISTORY, "history")                                              \
	X(KEY_HOST_SEGMENTS, "host_segments")                                  \
	X(KEY_HOST_TRACES, "host_traces")                                      \
	X(KEY_IS_EXPANDABLE, "is_expandable")                                  \
	X(KEY_LINE, "line")                                                    \
	X(KEY_MODULE, "module")                                                \
	X(KEY_NAME, "name")                                                    \
	X(KEY_OFFSET, "offset")                                                \
	X(KEY_POOL_ID, "pool_id")                                              \
	X(KEY_REAL_SIZE, "real_size")                                          \
	X(KEY_REQUESTED_SIZE, "requested_size")                                \
	X(KEY_SEGMENT_POOL_ID, "segment_pool_id")                              \
	X(KEY_SEGMENT_TYPE, "segment_type")                                    \
	X(KEY_SEGMENTS, "segments")                                            \
	X(KEY_SERVED_BY, "served_by")                                          \
	X(KEY_SIZE, "size")                                                    \
	X(KEY_STAGE, "stage")                                                  \
	X(KEY_STATE, "state")                                                  \
	X(KEY_STREAM, "stream")                                                \
	X(KEY_TIME_US, "time_us")                                              \
	X(KEY_TOTAL_SIZE, "total_size")                                        \
	X(KEY_USER_METADATA, "user_metadata")                                  \
	X(WORD_INACTIVE, "inactive")                                           \
	X(WORD_ACTIVE, "active_allocated")                                     \
	X(WORD_PENDING, "active_pending_free")                                 \
	X(WORD_AWAITING, "active_awaiting_free")                               \
	X(WORD_SMALL, "small")

enum build_word {
	WORD_EMPTY,
#define BUILD_WORD(name, text) name,
	BUILD_WORDS(BUILD_WORD)
#undef BUILD_WORD
	    BUILD_WORD_END,
	KEY_END = WORD_INACTIVE, /* all keys are below this */
};

/* The kind of a container. Rows and lists of rows are in the same order. */
enum object_kind {
	OBJECT_LIST, /* has items, or is empty */
	OBJECT_DICT, /* has items: keys and values alternate */
	OBJECT_FRAME,
	OBJECT_STACK, /* `first` is the stack */
	OBJECT_POOL,  /* `first` is the pool */
	OBJECT_EVENT, /* from here on: `first` is the row */
	OBJECT_BLOCK,
	OBJECT_SEGMENT,
	OBJECT_ANNOTATION,
	OBJECT_EVENTS, /* from here on: `count` rows from `first` on */
	OBJECT_BLOCKS,
	OBJECT_SEGMENTS,
	OBJECT_ANNOTATIONS,
	OBJECT_MIXED, /* a list without anything known */
	OBJECT_FREE,  /* not in use */
};

struct object {
	uint8_t kind;
	bool complete; /* it is in another container or cannot grow */
	bool reopened; /* a list that grew after it was read as a stack */
	uint8_t room;  /* log2 of the item capacity, if any */
	uint32_t count;
	union {
		struct value *items;
		uint32_t first; /* of a free object: the next free one */
	};
};

enum { BUILD_ROOMS = 33 };

struct builder {
	struct snapshot *snapshot;
	bool references; /* a container may be in several others */
	uint64_t seed;
	struct intern strings;
	struct intern frames;
	struct intern stacks;
	struct intern pools;
	struct object *objects;
	uint32_t object_count;
	size_t object_room;
	/* Number of blocks in segments so far. */
	uint32_t blocks_used;
	uint32_t free_object; /* index + 1; 0: none */
	/* Free lists, by log2 of the capacity. */
	struct value *free_items[BUILD_ROOMS];
	uint32_t *scratch; /* frames of a stack */
	size_t scratch_room;
};

/* The object of a VALUE_CONTAINER. */
static inline struct object *
build_object(struct builder *builder, struct value value)
{
	return &builder->objects[value.id];
}

/* Set WEIR_EHOSTMEM, and return it. */
enum weir_status build_no_memory(void);

/* ---- snapshot_tables.c -------------------------------------------------- */

enum weir_status build_frame(
    struct builder *builder, struct snapshot_frame frame, uint32_t *out);
enum weir_status build_stack(struct builder *builder, const uint32_t *frames,
    size_t count, uint32_t *out);
enum weir_status build_pool(
    struct builder *builder, struct snapshot_pool pool, uint32_t *out);

/* ---- snapshot_rows.c ---------------------------------------------------- */

/*
 * Make a row from the pairs of a dict, whose keys decide its kind; *row is its
 * number. If the keys fit no kind, *kind is OBJECT_DICT and there is no row.
 */
enum weir_status build_row(struct builder *builder, const struct value *pairs,
    size_t count, enum object_kind *kind, uint32_t *row);

/* The value of a key in the pairs of a dict; NULL if it is absent. */
const struct value *build_get(
    const struct value *pairs, size_t count, enum build_word key);

/* Finish the snapshot from its top container, which is complete. */
enum weir_status build_whole(struct builder *builder, const struct object *top);

/* ---- rename.c ----------------------------------------------------------- */

/* Ask for the names of frames that the file has none for (stacks/names.h), when
 * all else of the snapshot is complete. */
enum weir_status build_names(struct builder *builder);

#endif
