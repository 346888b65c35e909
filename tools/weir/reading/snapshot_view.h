/*
 * The subcommands that read snapshots share this header: their flags, sums over
 * segments, and texts of stacks, pools, streams and sizes.
 */
#ifndef TOOLS_WEIR_READING_SNAPSHOT_VIEW_H
#define TOOLS_WEIR_READING_SNAPSHOT_VIEW_H

#include <argp.h>
#include <jansson.h>

#include "tools/weir/reading/snapshot_file.h"
#include "tools/weir/tool.h"
#include "tools/weir/tuning.h"

/* ---- Flags: view_args.c ---------------------------------------------- */

enum { VIEW_ALL_DEVICES = -1 };

struct callers;

struct view_args {
	bool json;
	int device;              /* or VIEW_ALL_DEVICES */
	unsigned long frames;    /* of each stack that are printed */
	struct callers *callers; /* of the snapshot; set by view_run() */
	char **paths;            /* of the snapshots; NULL ends the list */
	unsigned least; /* the least and the most snapshots that are allowed */
	unsigned most;
};

/* A child parser for --json, --device and the snapshots. Its input is a struct
 * view_args with `least` and `most` set. */
extern const struct argp view_argp;
/* The list of children for struct argp: view_argp and the end. */
extern const struct argp_child view_children[2];

/* The flag of subcommands that print stacks, and the call that parses it. */
#define VIEW_FRAMES_FLAG                                                       \
	{                                                                      \
		"frames", 'f', "N", 0, "print N frames of each stack", 0       \
	}
void view_parse_frames(
    struct view_args *args, const char *value, const struct argp_state *state);

/* Parse a key that is no flag of the subcommand itself. The input of the
 * subcommand's parser begins with a struct view_args. */
error_t view_parse_flag(int key, char *value, struct argp_state *state);

/*
 * Run a subcommand of one snapshot: parse the command line into `args`, load
 * the snapshot, and call `report`. The parser's input begins with `args`.
 * Returns the result of `report`, an enum tool_exit.
 */
int view_run(const struct argp *parser, int argc, char **argv,
    struct view_args *args,
    int (*report)(
	const struct snapshot *snapshot, const struct view_args *args));

/* True if the snapshot has this device; always for VIEW_ALL_DEVICES. */
bool view_has_device(const struct snapshot *snapshot, int device);
/* Complain that the snapshot lacks a device, and name the devices it has. */
void view_complain_of_device(
    const struct snapshot *snapshot, int device, const char *path);

/* Parse a whole number of at least 1. Another value is a usage error and ends
 * the command. */
unsigned long view_count(
    const char *flag, const char *value, const struct argp_state *state);

/* ---- Sums: snapshot_view.c ------------------------------------------- */

/* Sums over some segments, in bytes. */
struct sums {
	uint64_t segments;
	uint64_t blocks;
	uint64_t reserved;
	uint64_t allocated; /* in the hands of callers */
	uint64_t pending;   /* freed, and in use on the device */
	uint64_t requested; /* of allocated and pending blocks */
	uint64_t free;      /* of inactive blocks */
	uint64_t free_blocks;
	uint64_t largest_free;
	uint64_t idle; /* of segments with nothing in use */
	uint64_t idle_segments;
};

void sums_add(struct sums *sums, const struct snapshot *snapshot,
    const struct snapshot_segment *segment);

/* The sums of a device, or of all for VIEW_ALL_DEVICES. */
struct sums sums_of(const struct snapshot *snapshot, int device);

/* Bytes of blocks in use beyond the requested bytes. */
static inline uint64_t
rounding_of(const struct sums *sums)
{
	uint64_t active = sums->allocated + sums->pending;

	return active > sums->requested ? active - sums->requested : 0;
}

/* True if the command line selects this device. */
static inline bool
view_has(const struct view_args *args, uint32_t device)
{
	return args->device == VIEW_ALL_DEVICES ||
	    (uint32_t)args->device == device;
}

/* Sums over the segments of one device, stream, pool and kind. */
struct group {
	uint32_t device;
	uint64_t stream;
	uint32_t pool;
	bool small;
	struct sums sums;
};

/* The groups of a snapshot, sorted. The caller frees them. NULL, and a
 * complaint, without memory. The result for an empty snapshot is not NULL, and
 * *count is 0. */
struct group *groups_of(const struct snapshot *snapshot,
    const struct view_args *args, size_t *count);

/* Compare two segments by device, address and size. Each argument is a pointer
 * to a pointer. */
int segment_order(const void *a, const void *b);

/* The segments of the selected devices, in the order of segment_order(). The
 * caller frees them. NULL without memory. */
const struct snapshot_segment **segments_sorted(const struct snapshot *snapshot,
    const struct view_args *args, uint32_t *count);

/* The value of a setting of the snapshot, "allocator_settings.max_split_size";
 * NULL if it has none of this name. */
const char *setting_value(const struct snapshot *snapshot, const char *name);

/* ---- Text ------------------------------------------------------------ */

/* The site of a stack (snapshot_sites.h), such as "forward (model.py:12)".
 * Control characters become '?'. Returns `text`. */
const char *site_text(
    const struct snapshot *snapshot, uint32_t stack, char text[VIEW_TEXT]);

/* A frame, such as "forward (model.py:12)". Returns `text`. */
const char *frame_text(
    const struct snapshot *snapshot, uint32_t frame, char text[VIEW_TEXT]);

/* Print the first frames of a stack, as many as --frames asks for, indented by
 * `indent`. */
void print_frames(const struct snapshot *snapshot, const struct view_args *args,
    uint32_t stack, int indent);
/* Add them as rows, in the last of `columns` columns. */
void add_frames(struct table *table, unsigned columns,
    const struct view_args *args, const struct snapshot *snapshot,
    uint32_t stack);

/* A copy of a text. Control characters become '?', and a long text is cut. */
const char *plain_text(const char *from, char text[VIEW_TEXT]);

/* "default", or "(1, 0)". */
const char *pool_text(
    const struct snapshot *snapshot, uint32_t pool, char text[VIEW_TEXT]);

/* The handle of a stream: "0", "7f00a0", or "no stream" for memory that
 * belongs to none. */
const char *stream_text(uint64_t stream, char text[VIEW_TEXT]);
/* A stream in a sentence: "stream 0", or "no stream". */
const char *stream_phrase(uint64_t stream, char text[VIEW_TEXT]);

/* "1 block", "2,000 blocks". */
const char *plural_text(uint64_t count, const char *noun, char text[VIEW_TEXT]);

/* "1,048,576". */
const char *count_text(uint64_t count, char text[VIEW_TEXT]);

/* A share in percent, such as "12.3 %"; "-" if `whole` is 0. */
const char *share_text(uint64_t part, uint64_t whole, char text[VIEW_TEXT]);

/* True for frames of the recorder, the interpreter and the system. */
bool frame_is_noise(const struct snapshot *snapshot, uint32_t frame);

/* bytes_format() into one of eight static texts. The eighth next call reuses
 * the text. */
const char *size_text(uint64_t bytes);

/* Print the heading of the part on page-locked host memory. */
void print_host_heading(void);

/* ---- JSON ------------------------------------------------------------ */

/* Put the object of page-locked host memory under "host", unless it is NULL.
 * Returns `object`. */
json_t *put_host(json_t *object, json_t *host);

void put_number(json_t *object, const char *key, uint64_t number);
/* Put all sums: reserved_bytes and so on. */
void put_sums(json_t *object, const struct sums *sums);
/* A list of {name, filename, line}. */
json_t *stack_json(const struct snapshot *snapshot, uint32_t stack);
/* Print JSON with a newline, and release it. An object gets its version.
 * Returns the exit status of the subcommand. */
int print_json(json_t *json);

#endif
