/*
 * Shared by the subcommands that look at snapshots: their flags, sums over
 * segments, and how a stack is named in a line.
 */
#ifndef TOOLS_WEIR_SNAPSHOT_VIEW_H
#define TOOLS_WEIR_SNAPSHOT_VIEW_H

#include <argp.h>
#include <jansson.h>

#include "tools/weir/snapshot_file.h"
#include "tools/weir/tool.h"

/* ---- Flags ----------------------------------------------------------- */

enum { VIEW_ALL_DEVICES = -1 };

struct view_args {
	bool json;
	int device;     /* or VIEW_ALL_DEVICES */
	char **paths;   /* up to NULL */
	unsigned least; /* snapshots to be named; 0 and 0: one */
	unsigned most;
};

/* A child parser for --json, --device and the snapshots; its input is a
 * struct view_args with `least` and `most` set. */
extern const struct argp view_argp;
/* {view_argp}, ended, for struct argp. */
extern const struct argp_child view_children[2];

/* Parse the keys that are not flags of the subcommand itself, for a parser
 * whose input begins with a struct view_args. */
error_t view_take_flag(int key, char *value, struct argp_state *state);

/*
 * Run a subcommand of one snapshot: parse the command line into `args`, which
 * the parser's input begins with, load the snapshot, and call `tell`. Returns
 * what `tell` returns, of enum tool_exit.
 */
int view_run(const struct argp *parser, int argc, char **argv,
    struct view_args *args,
    int (*tell)(const struct snapshot *snapshot, const struct view_args *args));

/* True if the snapshot has this device; always for VIEW_ALL_DEVICES. */
bool view_has_device(const struct snapshot *snapshot, int device);
/* Say which devices the snapshot has, where the one asked for is not there. */
void view_complain_of_device(
    const struct snapshot *snapshot, int device, const char *path);

/* A whole number of at least 1, or the usage and exit. */
unsigned long view_count(
    const char *flag, const char *value, const struct argp_state *state);

/* ---- Sums ------------------------------------------------------------ */

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

/* Bytes of blocks in use that nobody asked for. */
static inline uint64_t
rounding_of(const struct sums *sums)
{
	uint64_t active = sums->allocated + sums->pending;

	return active > sums->requested ? active - sums->requested : 0;
}

/* True if this device was asked for. */
static inline bool
view_has(const struct view_args *args, uint32_t device)
{
	return args->device == VIEW_ALL_DEVICES ||
	    (uint32_t)args->device == device;
}

/* Segments of one device, stream, pool and kind together. */
struct group {
	uint32_t device;
	uint64_t stream;
	uint32_t pool;
	bool small;
	struct sums sums;
};

/* The groups of a snapshot, in order; the caller frees them. NULL, and a
 * complaint, without memory; an empty snapshot has one that is not counted. */
struct group *groups_of(const struct snapshot *snapshot,
    const struct view_args *args, size_t *count);

/* The order of two segments, each a pointer to a pointer: by device, address,
 * size. */
int segment_order(const void *a, const void *b);

/* The segments that were asked for, in that order; the caller frees them. NULL
 * without memory. */
const struct snapshot_segment **segments_sorted(const struct snapshot *snapshot,
    const struct view_args *args, uint32_t *count);

/* ---- Text ------------------------------------------------------------ */

enum { VIEW_TEXT = 256 };

/* "forward (model.py:12)": the frame that a person looks for, innermost of
 * those that are not the allocator's, Python's or the recorder's own.
 * Control characters become '?'. Returns `text`. */
const char *site_text(
    const struct snapshot *snapshot, uint32_t stack, char text[VIEW_TEXT]);

/* "forward (model.py:12)", of one frame. Returns `text`. */
const char *frame_text(
    const struct snapshot *snapshot, uint32_t frame, char text[VIEW_TEXT]);

/* A copy of a text: control characters become '?', a long text is cut. */
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

/* "12.3 %" of a whole; "-" of nothing. */
const char *share_text(uint64_t part, uint64_t whole, char text[VIEW_TEXT]);

/* True for frames of the recorder, the interpreter and the system. */
bool frame_is_noise(const struct snapshot *snapshot, uint32_t frame);

/* bytes_format() into a row of texts that the next eight calls keep. */
const char *size_text(uint64_t bytes);

/* Print the heading of the part on page-locked host memory. */
void print_host_heading(void);

/* ---- JSON ------------------------------------------------------------ */

/* An object with that of page-locked host memory under "host", if there is
 * one. */
json_t *put_host(json_t *object, json_t *host);

void put_number(json_t *object, const char *key, uint64_t number);
/* The sums by their names: reserved_bytes and so on. */
void put_sums(json_t *object, const struct sums *sums);
/* A list of {name, filename, line}. */
json_t *stack_json(const struct snapshot *snapshot, uint32_t stack);
/* The version of what --json prints (docs/json.md): it rises when a key goes or
 * changes its meaning, and not when one comes. */
enum { JSON_VERSION = 1 };

/* Print with a newline and drop it, an object with its version: what a
 * subcommand returns then. */
int print_json(json_t *json);

#endif
