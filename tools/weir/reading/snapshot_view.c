/*
 * Sums and texts of the subcommands that read snapshots.
 */
#include "tools/weir/reading/snapshot_view.h"
#include "base/utf8.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/weir/reading/snapshot_sites.h"

/* ---- Sums ------------------------------------------------------------ */

void
sums_add(struct sums *sums, const struct snapshot *snapshot,
    const struct snapshot_segment *segment)
{
	const struct snapshot_block *blocks =
	    snapshot->blocks + segment->first_block;
	bool idle = true;

	sums->segments++;
	sums->reserved += segment->bytes;
	sums->blocks += segment->block_count;
	for (uint32_t i = 0; i < segment->block_count; i++) {
		uint64_t bytes = blocks[i].bytes;

		if (blocks[i].state == SNAPSHOT_INACTIVE) {
			sums->free += bytes;
			sums->free_blocks++;
			if (bytes > sums->largest_free)
				sums->largest_free = bytes;
			continue;
		}
		idle = false;
		sums->requested += blocks[i].requested_bytes;
		if (blocks[i].state == SNAPSHOT_ACTIVE)
			sums->allocated += bytes;
		else
			sums->pending += bytes;
	}
	if (idle) {
		sums->idle += segment->bytes;
		sums->idle_segments++;
	}
}

struct sums
sums_of(const struct snapshot *snapshot, int device)
{
	struct sums sums = { 0 };

	for (uint32_t i = 0; i < snapshot->segment_count; i++)
		if (device == VIEW_ALL_DEVICES ||
		    snapshot->segments[i].device == (uint32_t)device)
			sums_add(&sums, snapshot, &snapshot->segments[i]);
	return sums;
}

static void
sums_join(struct sums *sums, const struct sums *more)
{
	sums->segments += more->segments;
	sums->blocks += more->blocks;
	sums->reserved += more->reserved;
	sums->allocated += more->allocated;
	sums->pending += more->pending;
	sums->requested += more->requested;
	sums->free += more->free;
	sums->free_blocks += more->free_blocks;
	if (more->largest_free > sums->largest_free)
		sums->largest_free = more->largest_free;
	sums->idle += more->idle;
	sums->idle_segments += more->idle_segments;
}

static int
compare_groups(const void *a, const void *b)
{
	const struct group *one = a;
	const struct group *other = b;

	if (one->device != other->device)
		return one->device < other->device ? -1 : 1;
	if (one->stream != other->stream)
		return one->stream < other->stream ? -1 : 1;
	if (one->pool != other->pool)
		return one->pool < other->pool ? -1 : 1;
	return (int)other->small - (int)one->small;
}

struct group *
groups_of(const struct snapshot *snapshot, const struct view_args *args,
    size_t *count)
{
	struct group *groups =
	    calloc((size_t)snapshot->segment_count + 1, sizeof(*groups));
	size_t n = 0;
	size_t kept = 0;

	*count = 0;
	if (groups == NULL) {
		complain("out of memory");
		return NULL;
	}
	for (uint32_t i = 0; i < snapshot->segment_count; i++) {
		const struct snapshot_segment *segment = &snapshot->segments[i];
		struct group *group = &groups[n];

		if (!view_has(args, segment->device))
			continue;
		*group = (struct group){
			.device = segment->device,
			.stream = segment->stream,
			.pool = segment->pool,
			.small = segment->small,
		};
		sums_add(&group->sums, snapshot, segment);
		n++;
	}
	qsort(groups, n, sizeof(*groups), compare_groups);
	for (size_t i = 0; i < n; i++) {
		if (kept > 0 &&
		    compare_groups(&groups[kept - 1], &groups[i]) == 0)
			sums_join(&groups[kept - 1].sums, &groups[i].sums);
		else
			groups[kept++] = groups[i];
	}
	*count = kept;
	return groups;
}

int
segment_order(const void *a, const void *b)
{
	const struct snapshot_segment *one =
	    *(const struct snapshot_segment *const *)a;
	const struct snapshot_segment *other =
	    *(const struct snapshot_segment *const *)b;

	if (one->device != other->device)
		return one->device < other->device ? -1 : 1;
	if (one->address != other->address)
		return one->address < other->address ? -1 : 1;
	return one->bytes < other->bytes ? -1 : one->bytes > other->bytes;
}

const char *
setting_value(const struct snapshot *snapshot, const char *name)
{
	for (uint32_t i = 0; i < snapshot->setting_count; i++)
		if (strcmp(snapshot_text(snapshot, snapshot->settings[i].name),
			name) == 0)
			return snapshot_text(
			    snapshot, snapshot->settings[i].value);
	return NULL;
}

const struct snapshot_segment **
segments_sorted(const struct snapshot *snapshot, const struct view_args *args,
    uint32_t *count)
{
	const struct snapshot_segment **sorted =
	    calloc((size_t)snapshot->segment_count + 1, sizeof(*sorted));

	*count = 0;
	if (sorted == NULL)
		return NULL;
	for (uint32_t i = 0; i < snapshot->segment_count; i++)
		if (view_has(args, snapshot->segments[i].device))
			sorted[(*count)++] = &snapshot->segments[i];
	qsort((void *)sorted, *count, sizeof(*sorted), segment_order);
	return sorted;
}

/* ---- Text ------------------------------------------------------------ */

void
print_frames(const struct snapshot *snapshot, const struct view_args *args,
    uint32_t stack, int indent)
{
	const struct snapshot_stack *at = &snapshot->stacks[stack];
	char text[VIEW_TEXT];

	for (uint32_t i = 0; i < at->count && i < args->frames; i++)
		printf("%*s%s\n", indent, "",
		    frame_text(
			snapshot, snapshot->stack_frames[at->first + i], text));
}

void
add_frames(struct table *table, unsigned columns, const struct view_args *args,
    const struct snapshot *snapshot, uint32_t stack)
{
	const struct snapshot_stack *at = &snapshot->stacks[stack];
	char text[VIEW_TEXT];

	for (uint32_t i = 0; i < at->count && i < args->frames; i++) {
		for (unsigned c = 1; c < columns; c++)
			table_add(table, "%s", "");
		table_add(table, "    %s",
		    frame_text(
			snapshot, snapshot->stack_frames[at->first + i], text));
	}
}

const char *
plain_text(const char *from, char text[VIEW_TEXT])
{
	utf8_copy_plain(text, VIEW_TEXT, from);
	return text;
}

bool
frame_is_noise(const struct snapshot *snapshot, uint32_t frame)
{
	return site_grade(snapshot, frame) == SITE_NOISE;
}

/* The last part of a path: "a.py" for "C:\dir\a.py" and "/dir/a.py". */
static const char *
base_name(const char *path)
{
	const char *base = path;

	for (; *path != '\0'; path++)
		if (*path == '/' || *path == '\\')
			base = path + 1;
	return base;
}

/* The number of bytes of a text to print: at most `most`, and no character is
 * cut. */
static int
fitting_bytes(const char *text, size_t most)
{
	size_t length = strnlen(text, most + 1);

	if (length > most)
		for (length = most;
		     length > 0 && ((unsigned char)text[length] & 0xc0) == 0x80;
		     length--)
			;
	return (int)length;
}

const char *
frame_text(
    const struct snapshot *snapshot, uint32_t frame, char text[VIEW_TEXT])
{
	const struct snapshot_frame *at = &snapshot->frames[frame];
	const char *name = snapshot_text(snapshot, at->name);
	const char *file = base_name(snapshot_text(snapshot, at->file));
	char function[SITE_FUNCTION];
	char line[VIEW_TEXT];

	/* A name of C++ that does not fit loses its parameters. */
	if (strlen(name) > 120) {
		site_function(name, function);
		if (function[0] != '\0')
			name = function;
	}
	if (snapshot_line(at) > 0)
		snprintf(line, sizeof(line), "%.*s (%.*s:%" PRIu32 ")",
		    fitting_bytes(name, 120), name, fitting_bytes(file, 100),
		    file, at->line);
	else if (file[0] != '\0' && strcmp(file, "??") != 0)
		snprintf(line, sizeof(line), "%.*s (%.*s)",
		    fitting_bytes(name, 120), name, fitting_bytes(file, 100),
		    file);
	else
		snprintf(
		    line, sizeof(line), "%.*s", fitting_bytes(name, 120), name);
	return plain_text(line, text);
}

/* The text for a stack without a frame of the program: a frame of a library or
 * a framework. */
static const char *
foreign_text(
    const struct snapshot *snapshot, uint32_t frame, char text[VIEW_TEXT])
{
	const struct snapshot_frame *at = &snapshot->frames[frame];
	const char *framework = site_framework(snapshot, frame);
	const char *file = base_name(snapshot_text(snapshot, at->file));
	char function[SITE_FUNCTION];
	char line[VIEW_TEXT];

	site_function(snapshot_text(snapshot, at->name), function);
	snprintf(line, sizeof(line), "(no frame of the program; in %s%s%.*s",
	    framework == NULL ? "" : framework, framework == NULL ? "" : ": ",
	    fitting_bytes(function, 120), function);
	if (snapshot_line(at) > 0)
		snprintf(line + strlen(line), sizeof(line) - strlen(line),
		    " (%.*s:%" PRIu32 ")", fitting_bytes(file, 60), file,
		    at->line);
	snprintf(line + strlen(line), sizeof(line) - strlen(line), ")");
	return plain_text(line, text);
}

const char *
site_text(const struct snapshot *snapshot, uint32_t stack, char text[VIEW_TEXT])
{
	uint32_t frame;
	enum site_grade grade = site_find(snapshot, stack, &frame);

	if (snapshot->stacks[stack].count == 0)
		return strcpy(text, "(no stack)");
	if (frame == UINT32_MAX)
		return strcpy(text, "(no frame of the program)");
	if (grade <= SITE_FRAMEWORK)
		return foreign_text(snapshot, frame, text);
	return frame_text(snapshot, frame, text);
}

const char *
pool_text(const struct snapshot *snapshot, uint32_t pool, char text[VIEW_TEXT])
{
	const struct snapshot_pool *id = &snapshot->pools[pool];

	if (id->first == 0 && id->second == 0)
		return "default";
	snprintf(text, VIEW_TEXT, "(%" PRId64 ", %" PRId64 ")", id->first,
	    id->second);
	return text;
}

const char *
stream_text(uint64_t stream, char text[VIEW_TEXT])
{
	if (stream == UINT64_MAX)
		return strcpy(text, "no stream");
	snprintf(text, VIEW_TEXT, "%" PRIx64, stream);
	return text;
}

const char *
stream_phrase(uint64_t stream, char text[VIEW_TEXT])
{
	char name[VIEW_TEXT];

	if (stream == UINT64_MAX)
		return strcpy(text, "no stream");
	snprintf(text, VIEW_TEXT, "stream %.32s", stream_text(stream, name));
	return text;
}

const char *
plural_text(uint64_t count, const char *noun, char text[VIEW_TEXT])
{
	char number[VIEW_TEXT];

	snprintf(text, VIEW_TEXT, "%.32s %.64s%s", count_text(count, number),
	    noun, count == 1 ? "" : "s");
	return text;
}

const char *
count_text(uint64_t count, char text[VIEW_TEXT])
{
	char digits[24];
	int length = snprintf(digits, sizeof(digits), "%" PRIu64, count);
	char *to = text;

	for (int i = 0; i < length; i++) {
		if (i > 0 && (length - i) % 3 == 0)
			*to++ = ',';
		*to++ = digits[i];
	}
	*to = '\0';
	return text;
}

const char *
share_text(uint64_t part, uint64_t whole, char text[VIEW_TEXT])
{
	if (whole == 0)
		return "-";
	snprintf(
	    text, VIEW_TEXT, "%.1f %%", 100 * (double)part / (double)whole);
	return text;
}

const char *
size_text(uint64_t bytes)
{
	static char texts[8][32];
	static unsigned next;
	char *text = texts[next++ % 8];

	return bytes_format(bytes, text, sizeof(texts[0]));
}

void
print_host_heading(void)
{
	puts("\npage-locked host memory:");
}

/* ---- JSON ------------------------------------------------------------ */

json_t *
put_host(json_t *object, json_t *host)
{
	if (host != NULL)
		json_object_set_new(object, "host", host);
	return object;
}

void
put_number(json_t *object, const char *key, uint64_t number)
{
	json_object_set_new(object, key, json_integer((json_int_t)number));
}

void
put_sums(json_t *object, const struct sums *sums)
{
	put_number(object, "segments", sums->segments);
	put_number(object, "blocks", sums->blocks);
	put_number(object, "reserved_bytes", sums->reserved);
	put_number(object, "allocated_bytes", sums->allocated);
	put_number(object, "active_bytes", sums->allocated + sums->pending);
	put_number(object, "pending_bytes", sums->pending);
	put_number(object, "requested_bytes", sums->requested);
	put_number(object, "free_bytes", sums->free);
	put_number(object, "free_blocks", sums->free_blocks);
	put_number(object, "largest_free_bytes", sums->largest_free);
	put_number(object, "idle_bytes", sums->idle);
	put_number(object, "idle_segments", sums->idle_segments);
}

json_t *
stack_json(const struct snapshot *snapshot, uint32_t stack)
{
	const struct snapshot_stack *frames = &snapshot->stacks[stack];
	json_t *list = json_array();

	for (uint32_t i = 0; i < frames->count; i++) {
		const struct snapshot_frame *frame =
		    &snapshot
			 ->frames[snapshot->stack_frames[frames->first + i]];

		json_array_append_new(list,
		    json_pack("{s:s, s:s, s:I}", "name",
			snapshot_text(snapshot, frame->name), "filename",
			snapshot_text(snapshot, frame->file), "line",
			(json_int_t)snapshot_line(frame)));
	}
	return list;
}

int
print_json(json_t *json)
{
	int status = TOOL_DONE;

	if (json_is_object(json))
		put_number(json, "format_version", JSON_VERSION);
	if (json == NULL || !json_print(json, JSON_INDENT(2), stdout)) {
		complain(
		    "cannot print: out of memory, or the output is closed");
		status = TOOL_FAILED;
	}
	putchar('\n');
	json_decref(json);
	return status;
}
