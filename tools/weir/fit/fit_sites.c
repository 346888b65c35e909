#include "tools/weir/fit/fit_sites.h"

#include <stdlib.h>
#include <string.h>

#include "tools/weir/fit/fit_size.h"

/* A frame of a recording. */
struct site_frame {
	uint64_t function; /* its name and file */
	uint32_t run;
	uint32_t line;
	uint32_t frame; /* of the snapshot */
};

/* The frames of one function in one recording, by line. */
struct function_lines {
	const struct site_frame *frames;
	uint32_t count;
	uint32_t distinct; /* lines */
};

static uint64_t
mix_site(uint64_t hash, uint64_t with)
{
	hash = (hash ^ with) * UINT64_C(0x9e3779b97f4a7c15);
	return hash ^ hash >> 29;
}

static uint64_t
mix_site_text(uint64_t hash, const char *text)
{
	for (; *text != '\0'; text++)
		hash = mix_site(hash, (unsigned char)*text);
	return hash;
}

/* True for code that a compiler wrote for this size, in a file of its own. */
static bool
is_generated(const char *file)
{
	return strstr(file, "torchinductor") != NULL ||
	    strstr(file, "<eval_with_key>") != NULL;
}

/* The name of a file and of its folder. */
static const char *
path_tail(const char *path)
{
	const char *tail = path + strlen(path);
	unsigned slashes = 0;

	while (tail > path) {
		if (tail[-1] == '/' && ++slashes == 2)
			break;
		tail--;
	}
	return tail;
}

static uint64_t
function_of(const struct snapshot *snapshot, const struct snapshot_frame *frame)
{
	const char *file = snapshot_text(snapshot, frame->file);
	uint64_t hash = mix_site_text(1, snapshot_text(snapshot, frame->name));

	if (is_generated(file))
		return hash;
	return mix_site_text(mix_site(hash, 1), path_tail(file));
}

static int
compare_site_frames(const void *a, const void *b)
{
	const struct site_frame *first = a;
	const struct site_frame *second = b;

	if (first->function != second->function)
		return first->function < second->function ? -1 : 1;
	if (first->run != second->run)
		return first->run < second->run ? -1 : 1;
	if (first->line != second->line)
		return first->line < second->line ? -1 : 1;
	return 0;
}

/* List the frames of all recordings, by function, recording and line. NULL
 * without memory. */
static struct site_frame *
list_site_frames(
    struct snapshot *const *snapshots, unsigned count, size_t *length)
{
	struct site_frame *list;
	size_t n = 0;

	for (unsigned r = 0; r < count; r++)
		n += snapshots[r]->frame_count;
	list = calloc(n + 1, sizeof(*list));
	*length = n;
	n = 0;
	for (unsigned r = 0; list != NULL && r < count; r++)
		for (uint32_t i = 0; i < snapshots[r]->frame_count; i++) {
			const struct snapshot_frame *frame =
			    &snapshots[r]->frames[i];
			const char *file =
			    snapshot_text(snapshots[r], frame->file);

			list[n++] = (struct site_frame){
				.function = function_of(snapshots[r], frame),
				.run = r,
				.line = is_generated(file) ? 0 : frame->line,
				.frame = i,
			};
		}
	if (list != NULL)
		qsort(list, *length, sizeof(*list), compare_site_frames);
	return list;
}

/* True if fewer than half of the lines of two recordings are equal. */
static bool
lines_differ(const struct function_lines *a, const struct function_lines *b)
{
	uint32_t least = a->distinct < b->distinct ? a->distinct : b->distinct;
	uint32_t common = 0;
	uint32_t i = 0;
	uint32_t k = 0;

	while (i < a->count && k < b->count) {
		uint32_t first = a->frames[i].line;
		uint32_t second = b->frames[k].line;

		common += first == second;
		i += first <= second;
		k += second <= first;
	}
	return 2 * common < least;
}

/* True if the lines of a function have moved between recordings; *ranked: and
 * all of these have as many. */
static bool
has_moved(const struct function_lines *lines, unsigned count, bool *ranked)
{
	bool moved = false;

	*ranked = true;
	for (unsigned i = 0; i < count; i++)
		for (unsigned k = 0; k < i; k++) {
			moved |= lines_differ(&lines[i], &lines[k]);
			*ranked &= lines[i].distinct == lines[k].distinct;
		}
	return moved;
}

/* Split the frames of one function by recording. Returns the recordings. */
static unsigned
split_by_run(const struct site_frame *frames, size_t length,
    struct function_lines lines[FIT_RUNS])
{
	unsigned runs = 0;

	for (size_t i = 0; i < length; i++) {
		bool begins = i == 0 || frames[i].run != frames[i - 1].run;

		if (begins)
			lines[runs++] =
			    (struct function_lines){ &frames[i], 0, 0 };
		lines[runs - 1].count++;
		lines[runs - 1].distinct +=
		    begins || frames[i].line != frames[i - 1].line;
	}
	return runs;
}

/* Write the numbers of the frames of one function. `keys` is by recording and
 * frame. */
static void
number_function(
    const struct site_frame *frames, size_t length, uint64_t *const *keys)
{
	struct function_lines lines[FIT_RUNS];
	unsigned runs = split_by_run(frames, length, lines);
	bool ranked;
	bool moved = has_moved(lines, runs, &ranked);

	for (unsigned r = 0; r < runs; r++) {
		uint32_t rank = 0;

		for (uint32_t i = 0; i < lines[r].count; i++) {
			const struct site_frame *frame = &lines[r].frames[i];
			uint32_t line = frame->line;

			rank += i > 0 && line != frame[-1].line;
			if (moved)
				line = ranked ? rank : 0;
			keys[frame->run][frame->frame] =
			    mix_site(frame->function, line);
		}
	}
}

/* Number the frames of all recordings. False without memory. */
static bool
number_frames(
    struct snapshot *const *snapshots, unsigned count, uint64_t *const *keys)
{
	size_t length;
	struct site_frame *list = list_site_frames(snapshots, count, &length);
	size_t end;

	if (list == NULL)
		return false;
	for (size_t i = 0; i < length; i = end) {
		end = i + 1;
		while (end < length && list[end].function == list[i].function)
			end++;
		number_function(&list[i], end - i, keys);
	}
	free(list);
	return true;
}

static uint64_t *
number_stacks(const struct snapshot *snapshot, const uint64_t *frame_keys)
{
	uint64_t *keys =
	    calloc((size_t)snapshot->stack_count + 1, sizeof(*keys));

	for (uint32_t s = 0; keys != NULL && s < snapshot->stack_count; s++) {
		const struct snapshot_stack *stack = &snapshot->stacks[s];

		keys[s] = 1;
		for (uint32_t i = 0; i < stack->count; i++)
			keys[s] = mix_site(keys[s],
			    frame_keys[snapshot
					   ->stack_frames[stack->first + i]]);
	}
	return keys;
}

bool
fit_sites_find(
    struct snapshot *const *snapshots, unsigned count, uint64_t **keys)
{
	uint64_t *frame_keys[FIT_RUNS] = { NULL };
	bool good = true;

	for (unsigned r = 0; r < count; r++) {
		keys[r] = NULL;
		frame_keys[r] = calloc((size_t)snapshots[r]->frame_count + 1,
		    sizeof(*frame_keys[r]));
		good &= frame_keys[r] != NULL;
	}
	good = good && number_frames(snapshots, count, frame_keys);
	for (unsigned r = 0; good && r < count; r++) {
		keys[r] = number_stacks(snapshots[r], frame_keys[r]);
		good = keys[r] != NULL;
	}
	for (unsigned r = 0; r < count; r++)
		free(frame_keys[r]);
	return good;
}

bool
fit_site_vague(const struct snapshot *snapshot, uint32_t stack)
{
	const struct snapshot_stack *frames = &snapshot->stacks[stack];

	for (uint32_t i = 0; i < frames->count && i < 4; i++) {
		const struct snapshot_frame *frame =
		    &snapshot
			 ->frames[snapshot->stack_frames[frames->first + i]];

		if (is_generated(snapshot_text(snapshot, frame->file)))
			return true;
	}
	return frames->count == 0;
}
