/*
 * Each stack is reduced to a path: its site, and the frames of the program that
 * call it. In the order of these paths the stacks of a site are neighbours, and
 * the frames that two stacks share are the least that neighbours between them
 * share.
 */
#include "tools/weir/reading/snapshot_callers.h"

#include <stdlib.h>
#include <string.h>

#include "tools/weir/reading/snapshot_sites.h"

struct path {
	const uint32_t *frames; /* the site first */
	uint32_t count;
	uint32_t at[CALLERS]; /* index of a caller; 0: none */
	bool both;            /* the text needs both callers */
	bool inner;           /* it needs the framework's function, too */
};

struct callers {
	const struct snapshot *snapshot;
	struct path *paths; /* of each stack */
	uint32_t *frames;
};

/* ---- Paths ------------------------------------------------------------- */

/* Write the path of a stack to `frames`. */
static void
trace_path(const struct snapshot *snapshot, const uint8_t *grades,
    uint32_t stack, uint32_t *frames, struct path *path)
{
	const struct snapshot_stack *at = &snapshot->stacks[stack];
	const uint32_t *from = snapshot->stack_frames + at->first;
	uint32_t first = 0;

	path->frames = frames;
	for (uint32_t i = 1; i < at->count; i++)
		if (grades[from[i]] > grades[from[first]])
			first = i;
	if (at->count == 0 || grades[from[first]] == SITE_NOISE)
		return;
	for (uint32_t i = first; i < at->count; i++)
		if (grades[from[i]] == grades[from[first]])
			frames[path->count++] = from[i];
}

static bool
trace_paths(struct callers *callers)
{
	const struct snapshot *snapshot = callers->snapshot;
	uint8_t *grades = calloc((size_t)snapshot->frame_count + 1, 1);
	uint32_t *frames = callers->frames;

	if (grades == NULL)
		return false;
	for (uint32_t i = 0; i < snapshot->frame_count; i++)
		grades[i] = (uint8_t)site_grade(snapshot, i);
	for (uint32_t i = 0; i < snapshot->stack_count; i++) {
		trace_path(snapshot, grades, i, frames, &callers->paths[i]);
		frames += callers->paths[i].count;
	}
	free(grades);
	return true;
}

/* The number of frames that two paths share at their beginning. */
static uint32_t
shared_frames(const struct path *a, const struct path *b)
{
	uint32_t least = a->count < b->count ? a->count : b->count;
	uint32_t n = 0;

	while (n < least && a->frames[n] == b->frames[n])
		n++;
	return n;
}

static int
compare_paths(const void *a, const void *b)
{
	const struct path *one = *(const struct path *const *)a;
	const struct path *other = *(const struct path *const *)b;
	uint32_t n = shared_frames(one, other);

	if (n < one->count && n < other->count)
		return one->frames[n] < other->frames[n] ? -1 : 1;
	return one->count < other->count ? -1 : one->count > other->count;
}

/* ---- Where paths part -------------------------------------------------- */

/* Set the near caller of the paths of one site. A path that is the beginning of
 * all others is sorted before them, and has no frame that could tell it apart.
 */
static void
part_group(struct path **paths, size_t count)
{
	while (count > 1) {
		uint32_t n = shared_frames(paths[0], paths[count - 1]);

		if (n < paths[0]->count) {
			for (size_t i = 0; i < count; i++)
				paths[i]->at[CALLER_NEAR] = n;
			return;
		}
		paths++;
		count--;
	}
}

/* The frame of `path` at which it parts from a neighbour in the order; 0 if it
 * has none, because one of the two is the beginning of the other. */
static uint32_t
parting(const struct path *path, const struct path *neighbour)
{
	uint32_t n = shared_frames(path, neighbour);

	return n < path->count && n < neighbour->count ? n : 0;
}

/* Set the far caller of `count` equal paths between two neighbours, which may
 * be NULL. */
static void
part_equals(struct path **paths, size_t count, const struct path *before,
    const struct path *after)
{
	uint32_t far = paths[0]->at[CALLER_NEAR];
	const struct path *const neighbours[] = { before, after };

	for (int i = 0; i < 2; i++) {
		uint32_t n = neighbours[i] == NULL ?
		    0 :
		    parting(paths[0], neighbours[i]);

		if (n > far)
			far = n;
	}
	for (size_t i = 0; i < count; i++)
		paths[i]->at[CALLER_FAR] = far;
}

static void
part_sorted(struct path **paths, size_t count)
{
	size_t end;

	for (size_t i = 0; i < count; i = end) {
		for (end = i + 1; end < count &&
		     paths[end]->frames[0] == paths[i]->frames[0];)
			end++;
		part_group(paths + i, end - i);
	}
	for (size_t i = 0; i < count; i = end) {
		for (end = i + 1; end < count &&
		     compare_paths((const void *)&paths[i],
			 (const void *)&paths[end]) == 0;)
			end++;
		part_equals(paths + i, end - i, i > 0 ? paths[i - 1] : NULL,
		    end < count ? paths[end] : NULL);
	}
}

static bool
part_paths(struct callers *callers)
{
	uint32_t stacks = callers->snapshot->stack_count;
	struct path **sorted = calloc((size_t)stacks + 1, sizeof(*sorted));
	size_t count = 0;

	if (sorted == NULL)
		return false;
	for (uint32_t i = 0; i < stacks; i++)
		if (callers->paths[i].count > 0)
			sorted[count++] = &callers->paths[i];
	qsort((void *)sorted, count, sizeof(struct path *), compare_paths);
	part_sorted(sorted, count);
	free((void *)sorted);
	return true;
}

/* ---- The calls --------------------------------------------------------- */

struct callers *
callers_new(const struct snapshot *snapshot)
{
	struct callers *callers = calloc(1, sizeof(*callers));

	if (callers == NULL)
		goto failed;
	callers->snapshot = snapshot;
	callers->paths =
	    calloc((size_t)snapshot->stack_count + 1, sizeof(struct path));
	callers->frames =
	    calloc((size_t)snapshot->stack_frame_count + 1, sizeof(uint32_t));
	if (callers->paths != NULL && callers->frames != NULL &&
	    trace_paths(callers) && part_paths(callers))
		return callers;

failed:
	complain("out of memory");
	callers_free(callers);
	return NULL;
}

void
callers_free(struct callers *callers)
{
	if (callers == NULL)
		return;
	free(callers->paths);
	free(callers->frames);
	free(callers);
}

uint32_t
caller_place(const struct callers *callers, uint32_t stack, enum caller which)
{
	return callers->paths[stack].at[which];
}

/* The frame of a caller. UINT32_MAX if no other stack has this site, or if the
 * stack ends before the others part. */
static uint32_t
caller_frame(const struct callers *callers, uint32_t stack, enum caller which)
{
	const struct path *path = &callers->paths[stack];

	return path->at[which] == 0 ? UINT32_MAX :
				      path->frames[path->at[which]];
}

/* A number for the site and the near caller of a stack. */
static uint64_t
near_name(const struct callers *callers, uint32_t stack)
{
	const struct path *path = &callers->paths[stack];
	uint32_t site = path->count > 0 ? path->frames[0] : UINT32_MAX;

	return (uint64_t)site << 32 | caller_frame(callers, stack, CALLER_NEAR);
}

static int
compare_names(const void *a, const void *b)
{
	uint64_t one = *(const uint64_t *)a;
	uint64_t other = *(const uint64_t *)b;

	return one < other ? -1 : one > other;
}

/* A number for the text of a stack. */
static uint64_t
text_name(const struct callers *callers, uint32_t stack)
{
	char text[CALLERS_TEXT];
	uint64_t hash = 0;

	callers_text(callers, stack, text);
	for (const char *c = text; *c != '\0'; c++)
		hash = (hash ^ (unsigned char)*c) * UINT64_C(1099511628211);
	return hash;
}

/* True if sorted names have a name more than once. */
static bool
is_common(const uint64_t *names, size_t count, uint64_t name)
{
	const uint64_t *found =
	    bsearch(&name, names, count, sizeof(*names), compare_names);

	return (found > names && found[-1] == name) ||
	    (found + 1 < names + count && found[1] == name);
}

bool
callers_tell_apart(
    struct callers *callers, const uint32_t *stacks, size_t count)
{
	uint64_t *names = calloc(2 * (count + 1), sizeof(*names));
	uint64_t *texts;

	if (names == NULL) {
		complain("out of memory");
		return false;
	}
	texts = names + count + 1;
	for (size_t i = 0; i < count; i++)
		names[i] = near_name(callers, stacks[i]);
	qsort(names, count, sizeof(*names), compare_names);
	for (size_t i = 0; i < count; i++)
		callers->paths[stacks[i]].both =
		    is_common(names, count, near_name(callers, stacks[i]));
	for (size_t i = 0; i < count; i++)
		names[i] = texts[i] = text_name(callers, stacks[i]);
	qsort(names, count, sizeof(*names), compare_names);
	for (size_t i = 0; i < count; i++)
		callers->paths[stacks[i]].inner =
		    is_common(names, count, texts[i]);
	free(names);
	return true;
}

/* The innermost frame of a grade among those that the site of a stack calls;
 * UINT32_MAX if there is none. */
static uint32_t
called_frame(
    const struct callers *callers, uint32_t stack, enum site_grade grade)
{
	const struct snapshot *snapshot = callers->snapshot;
	const struct snapshot_stack *at = &snapshot->stacks[stack];
	const struct path *path = &callers->paths[stack];

	for (uint32_t i = 0; i < at->count && path->count > 0; i++) {
		uint32_t frame = snapshot->stack_frames[at->first + i];

		if (frame == path->frames[0])
			break;
		if (site_grade(snapshot, frame) == grade)
			return frame;
	}
	return UINT32_MAX;
}

/* Write ", in PyTorch: at::native::silu" or ", in forward (layer.py:5)". */
static void
write_inner(
    const struct callers *callers, uint32_t stack, char *text, size_t size)
{
	const struct snapshot *snapshot = callers->snapshot;
	uint32_t frame = called_frame(callers, stack, SITE_LIBRARY);
	char function[SITE_FUNCTION];
	char plain[VIEW_TEXT];

	if (frame != UINT32_MAX) {
		snprintf(
		    text, size, ", in %s", frame_text(snapshot, frame, plain));
		return;
	}
	frame = called_frame(callers, stack, SITE_FRAMEWORK);
	if (frame == UINT32_MAX)
		return;
	site_function(
	    snapshot_text(snapshot, snapshot->frames[frame].name), function);
	snprintf(text, size, ", in %s: %s", site_framework(snapshot, frame),
	    plain_text(function, plain));
}

const char *
callers_text(
    const struct callers *callers, uint32_t stack, char text[CALLERS_TEXT])
{
	const struct path *path = &callers->paths[stack];
	int n = snprintf(text, CALLERS_TEXT, "%s",
	    site_text(callers->snapshot, stack, (char[VIEW_TEXT]){ 0 }));

	for (int i = 0; i < CALLERS; i++) {
		char caller[VIEW_TEXT];

		if (path->at[i] == 0 ||
		    (i > 0 && (!path->both || path->at[i] == path->at[i - 1])))
			continue;
		frame_text(
		    callers->snapshot, path->frames[path->at[i]], caller);
		n += snprintf(text + n, CALLERS_TEXT - (size_t)n,
		    ", called by %s", caller);
	}
	if (path->inner)
		write_inner(callers, stack, text + n, CALLERS_TEXT - (size_t)n);
	return text;
}

void
put_site(json_t *object, const struct callers *callers, uint32_t stack)
{
	uint32_t caller = caller_frame(callers, stack, CALLER_NEAR);
	char text[VIEW_TEXT];

	json_object_set_new(object, "site",
	    json_string(site_text(callers->snapshot, stack, text)));
	json_object_set_new(object, "caller",
	    caller == UINT32_MAX ?
		json_null() :
		json_string(frame_text(callers->snapshot, caller, text)));
}
