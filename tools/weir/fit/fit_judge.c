#include "tools/weir/fit/fit_judge.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/weir/fit/fit_sizes.h"
#include "tools/weir/fit/tuning.h"
#include "tools/weir/reading/snapshot_view.h"
#include "tools/weir/replay/trial.h"
#include "tools/weir/tool.h"

const char *
fit_kind_name(enum fit_kind kind)
{
	static const char *const names[] = {
#define FIT_KIND(name, text) [name] = (text),
		FIT_KINDS(FIT_KIND)
#undef FIT_KIND
	};

	return names[kind];
}

/* ---- Kinds ----------------------------------------------------------- */

static bool
stack_mentions(
    const struct snapshot *snapshot, uint32_t stack, const char *const *words)
{
	const struct snapshot_stack *frames = &snapshot->stacks[stack];

	for (uint32_t i = 0; i < frames->count; i++) {
		const struct snapshot_frame *frame =
		    &snapshot
			 ->frames[snapshot->stack_frames[frames->first + i]];

		for (const char *const *word = words; *word != NULL; word++)
			if (strstr(snapshot_text(snapshot, frame->file),
				*word) != NULL ||
			    strstr(snapshot_text(snapshot, frame->name),
				*word) != NULL)
				return true;
	}
	return false;
}

static int
compare_sizes(const void *a, const void *b)
{
	uint64_t first = *(const uint64_t *)a;
	uint64_t second = *(const uint64_t *)b;

	return first < second ? -1 : first > second;
}

/* Words that a stack has. */
enum {
	STACK_OPTIMISER = 1,
	STACK_BACKWARD = 2,
	STACK_MODULE = 4,
};

/* Facts about a stack. */
struct stack_facts {
	unsigned words;
	uint32_t made;  /* allocations of the recording */
	uint32_t freed; /* of these, before the last allocation */
};

/* tools/viewer/src/kinds.js has the same rules. */
struct sorter {
	const struct fit_run *pattern;
	struct stack_facts *stacks;
	uint32_t older_count;
	uint64_t *parameters; /* their sizes, sorted */
	uint32_t parameter_count;
};

static unsigned
words_of_stack(const struct snapshot *snapshot, uint32_t stack)
{
	static const char *const optimisers[] = { "optim", "Optimizer", NULL };
	static const char *const backwards[] = { "Engine::", "backward", NULL };
	static const char *const modules[] = { "_call_impl", NULL };
	unsigned words = 0;

	if (stack_mentions(snapshot, stack, optimisers))
		words |= STACK_OPTIMISER;
	if (stack_mentions(snapshot, stack, backwards))
		words |= STACK_BACKWARD;
	if (stack_mentions(snapshot, stack, modules))
		words |= STACK_MODULE;
	return words;
}

static bool
is_freed(const struct fit_run *pattern, uint32_t id)
{
	return pattern->allocs[id].end < pattern->count;
}

/* Allocations of the recording in an allocation's life. */
static uint32_t
allocations_lived(const struct sorter *sorter, uint32_t id)
{
	const struct fit_run *pattern = sorter->pattern;
	uint32_t end =
	    is_freed(pattern, id) ? pattern->allocs[id].end : pattern->count;

	return end - (pattern->allocs[id].older ? sorter->older_count : id);
}

/* True for a block that lives for most of the recording, or to its end if its
 * stack keeps most of its blocks. A recording that ends within a step ends with
 * live activations, which the steps before have freed. */
static bool
is_lasting(const struct sorter *sorter, uint32_t id)
{
	const struct fit_run *pattern = sorter->pattern;
	const struct fit_alloc *alloc = &pattern->allocs[id];
	const struct stack_facts *facts = &sorter->stacks[alloc->stack];

	if (allocations_lived(sorter, id) >
	    (pattern->count - sorter->older_count) / 2)
		return true;
	if (is_freed(pattern, id))
		return false;
	return alloc->older || alloc->stack == 0 ||
	    2 * (uint64_t)facts->freed <= facts->made;
}

/* The kind of a block that lasts. */
static enum fit_kind
lasting_kind(const struct fit_alloc *alloc, unsigned words)
{
	if (words & STACK_OPTIMISER)
		return FIT_OPTIMISER;
	if (words & STACK_BACKWARD)
		return FIT_GRADIENTS;
	/* A module's call makes no parameters. What it makes may be alive at
	 * the end of a recording that ends within a step. */
	return alloc->older || !(words & STACK_MODULE) ? FIT_PARAMETERS :
							 FIT_ACTIVATIONS;
}

/* The kind of an allocation of the pattern, by its life and its stack. */
static enum fit_kind
kind_of(const struct sorter *sorter, uint32_t id)
{
	const struct fit_alloc *alloc = &sorter->pattern->allocs[id];
	unsigned words = sorter->stacks[alloc->stack].words;

	if (alloc->pool != 0)
		return FIT_GRAPHS;
	if (is_lasting(sorter, id))
		return lasting_kind(alloc, words);
	if ((words & STACK_OPTIMISER) ||
	    allocations_lived(sorter, id) <= FIT_SHORT_LIFE)
		return FIT_WORKSPACES;
	if ((alloc->stack == 0 || (words & STACK_BACKWARD)) &&
	    bsearch(&alloc->bytes, sorter->parameters, sorter->parameter_count,
		sizeof(uint64_t), compare_sizes) != NULL)
		return FIT_GRADIENTS;
	return FIT_ACTIVATIONS;
}

static void
note_stacks(struct sorter *sorter)
{
	const struct fit_run *pattern = sorter->pattern;

	for (uint32_t i = 0; i < pattern->snapshot->stack_count; i++)
		sorter->stacks[i].words = words_of_stack(pattern->snapshot, i);
	for (uint32_t i = 0; i < pattern->count; i++) {
		struct stack_facts *facts =
		    &sorter->stacks[pattern->allocs[i].stack];

		sorter->older_count += pattern->allocs[i].older;
		if (pattern->allocs[i].older)
			continue;
		facts->made++;
		facts->freed += is_freed(pattern, i);
	}
}

static void
sorter_drop(struct sorter *sorter)
{
	free(sorter->stacks);
	free(sorter->parameters);
}

static bool
sorter_make(struct sorter *sorter, const struct fit_run *pattern)
{
	*sorter = (struct sorter){ .pattern = pattern };
	sorter->stacks = calloc((size_t)pattern->snapshot->stack_count + 1,
	    sizeof(*sorter->stacks));
	sorter->parameters =
	    calloc((size_t)pattern->count + 1, sizeof(uint64_t));
	if (sorter->stacks == NULL || sorter->parameters == NULL) {
		sorter_drop(sorter);
		return false;
	}
	note_stacks(sorter);
	for (uint32_t i = 0; i < pattern->count; i++)
		if (is_lasting(sorter, i) &&
		    kind_of(sorter, i) == FIT_PARAMETERS)
			sorter->parameters[sorter->parameter_count++] =
			    pattern->allocs[i].bytes;
	qsort(sorter->parameters, sorter->parameter_count, sizeof(uint64_t),
	    compare_sizes);
	return true;
}

/* ---- The peak -------------------------------------------------------- */

/* The row at which most bytes are live. */
static uint32_t
find_peak(const struct fit_forecast *forecast, uint64_t *peak)
{
	const struct recording *recording = &forecast->recording;
	uint64_t live = 0;
	uint32_t at = 0;

	*peak = 0;
	for (uint32_t i = 0; i < recording->row_count; i++) {
		const struct recording_row *row = &recording->rows[i];

		if (row->action == 'a')
			live += recording->blocks[row->index].bytes;
		else if (row->action == 'f')
			live -= recording->blocks[row->index].bytes;
		if (live > *peak) {
			*peak = live;
			at = i;
		}
	}
	return at;
}

/* True for a block that is live at a row. */
static bool
is_live_at(const struct recording_block *block, uint32_t row)
{
	return block->begin <= row &&
	    (block->freed == RECORDING_NONE || block->freed > row);
}

/* Find the peak of live bytes, with its range. Returns its row. */
static uint32_t
find_peak_range(const struct fit_forecast *forecast, struct fit_range *range)
{
	const struct recording *recording = &forecast->recording;
	uint32_t peak = find_peak(forecast, &range->value);
	double error = 0;

	for (uint32_t i = 0; i < recording->block_count; i++)
		if (is_live_at(&recording->blocks[i], peak))
			error += forecast->error[i];
	range->low =
	    (double)range->value > error ? range->value - (uint64_t)error : 0;
	range->high = range->value + (uint64_t)error;
	return peak;
}

struct fit_range
fit_live_peak(const struct fit_forecast *forecast)
{
	struct fit_range range;

	find_peak_range(forecast, &range);
	return range;
}

bool
fit_judge(const struct fit_program *program,
    const struct fit_forecast *forecast, struct fit_judgement *out)
{
	const struct fit_run *pattern = &program->runs[program->pattern];
	const struct recording *recording = &forecast->recording;
	uint32_t peak = find_peak_range(forecast, &out->live);
	struct sorter sorter;

	if (!sorter_make(&sorter, pattern)) {
		complain("out of memory");
		return false;
	}
	memset(out->by_kind, 0, sizeof(out->by_kind));
	out->peak_block =
	    recording->row_count == 0 ? 0 : recording->rows[peak].index;
	out->unsure = 0;
	out->unsure_bytes = 0;
	out->alone_bytes = 0;
	out->older_bytes = 0;
	for (uint32_t i = 0; i < recording->block_count; i++) {
		const struct recording_block *block = &recording->blocks[i];
		struct fit_value value;

		fit_formula(program, forecast->origin[i], &value);
		out->unsure += value.grade == FIT_UNKNOWN;
		if (!is_live_at(block, peak))
			continue;
		out->by_kind[kind_of(&sorter, forecast->origin[i])] +=
		    block->bytes;
		if (value.grade == FIT_UNKNOWN)
			out->unsure_bytes += block->bytes;
		if (value.alone)
			out->alone_bytes += block->bytes;
		if (pattern->allocs[forecast->origin[i]].older)
			out->older_bytes += block->bytes;
	}
	sorter_drop(&sorter);
	return true;
}

/* ---- Allocators ------------------------------------------------------ */

/* Streams of a trace that are also told apart by their pools. */
static unsigned
csv_stream(const struct recording_block *block)
{
	return (unsigned)((block->stream * 7 + block->pool * 61) %
	    TRACE_STREAMS_MAX);
}

/* Say once that a stream's requests are of a private pool. `told` has a flag
 * for each stream. */
static void
tell_pool(const struct recording_block *block, bool *told, FILE *out)
{
	unsigned stream = csv_stream(block);

	if (block->pool == 0 || told[stream])
		return;
	told[stream] = true;
	fprintf(out, "p,0,%" PRIu32 ",%u,0\n", block->pool % TRACE_POOLS_MAX,
	    stream);
}

/* Write the trace. If `work_us` is above 0, each request is followed by so much
 * work of its stream. Streams that are captured have none. */
static void
write_csv(const struct fit_forecast *forecast, const char *name,
    unsigned work_us, FILE *out)
{
	const struct recording *recording = &forecast->recording;
	bool told[TRACE_STREAMS_MAX] = { false };

	fputs("# {\"name\": \"", out);
	json_escaped(name, strlen(name), out);
	fputs("\"}\naction,addr,size,stream,time_us\n", out);
	for (uint32_t i = 0; i < recording->block_count; i++)
		tell_pool(&recording->blocks[i], told, out);
	for (uint32_t i = 0; i < recording->row_count; i++) {
		const struct recording_row *row = &recording->rows[i];
		const struct recording_block *block;
		int64_t time = row->time_us - recording->rows[0].time_us;

		if (row->action == 's')
			continue;
		block = &recording->blocks[row->index];
		/* Another stream uses a block that waits. */
		if (row->action == 'f' && block->done != i + 1)
			fprintf(out, "r,%" PRIx64 ",0,%u,%" PRId64 "\n",
			    block->address, csv_stream(block) == 0 ? 7 : 0,
			    time);
		fprintf(out, "%c,%" PRIx64 ",%" PRIu64 ",%u,%" PRId64 "\n",
		    row->action, block->address, block->bytes,
		    csv_stream(block), time);
		if (row->action == 'a' && work_us > 0 && block->pool == 0)
			fprintf(out, "k,0,%u,%u,%" PRId64 "\n", work_us,
			    csv_stream(block), time);
	}
}

void
fit_forecast_csv(
    const struct fit_forecast *forecast, const char *name, FILE *out)
{
	write_csv(forecast, name, 0, out);
}

/* Raise the figures of a setting to those of a playback. */
static void
raise_figures(const json_t *figures, struct fit_setting *setting)
{
	const struct {
		const char *key;
		uint64_t *most;
	} raised[] = {
		{ "peak_held_bytes", &setting->held },
		{ "ooms", &setting->ooms },
		{ "host_waits", &setting->retries },
	};

	for (size_t i = 0; i < sizeof(raised) / sizeof(raised[0]); i++) {
		uint64_t value = (uint64_t)json_integer_value(
		    json_object_get(figures, raised[i].key));

		if (value > *raised[i].most)
			*raised[i].most = value;
	}
}

/* Play the forecast through weir, with so much work for each request. */
static bool
play_weir(const struct fit_forecast *forecast, unsigned work_us,
    const struct trial_choices *choices, struct fit_setting *setting)
{
	char path[] = "/tmp/weir-fit-XXXXXX";
	int fd = mkstemp(path);
	FILE *file = fd < 0 ? NULL : fdopen(fd, "w");
	json_t *figures = NULL;
	bool good;

	if (file == NULL) {
		complain("cannot write a file in /tmp");
		if (fd >= 0)
			close(fd);
		return false;
	}
	write_csv(forecast, "forecast", work_us, file);
	good = fclose(file) == 0 &&
	    trial_run(path, choices, &figures) == TOOL_DONE;
	unlink(path);
	if (good)
		raise_figures(figures, setting);
	json_decref(figures);
	return good;
}

/* True if all memory but that of captures is of one stream, and no other stream
 * uses it. Otherwise the recording tells when the work of streams was done. */
static bool
has_one_stream(const struct fit_forecast *forecast)
{
	const struct recording *recording = &forecast->recording;
	const struct recording_block *first = NULL;

	for (uint32_t i = 0; i < recording->block_count; i++) {
		const struct recording_block *block = &recording->blocks[i];

		if (block->pool != 0)
			continue;
		if (first == NULL)
			first = block;
		if (block->stream != first->stream ||
		    (block->freed != RECORDING_NONE &&
			block->done != block->freed + 1))
			return false;
	}
	return true;
}

/* A recording of one stream tells when the host asked, and not how long the
 * device worked, on which it depends where weir puts blocks. So the forecast is
 * played with a stream that is behind the host by more and less, and the most
 * counts. */
static bool
judge_weir(const struct fit_forecast *forecast, uint64_t limit, bool until_oom,
    struct fit_setting *setting)
{
	static const unsigned work_us[] = { 0, FIT_WORKS_US };
	size_t plays =
	    has_one_stream(forecast) ? sizeof(work_us) / sizeof(work_us[0]) : 1;
	struct trial_choices choices = { .play = { .limit_bytes = limit,
					     .speed = 1,
					     .seed = 1,
					     .until_oom = until_oom },
		.device = -1 };

	for (size_t i = 0; i < plays; i++) {
		if (!play_weir(forecast, work_us[i], &choices, setting))
			return false;
		if (until_oom && setting->ooms > 0)
			break;
	}
	return true;
}

bool
fit_judge_setting(const struct fit_forecast *forecast, uint64_t limit,
    bool until_oom, struct fit_setting *setting)
{
	struct torch_played played;
	struct torch_conf conf;
	char why[TORCH_CONF_WHY];

	if (strcmp(setting->name, "weir") == 0)
		return judge_weir(forecast, limit, until_oom, setting);
	if (!torch_as_parse(setting->name, &conf, why)) {
		complain("%s", why);
		return false;
	}
	/* A limit of the device lets no request fail that one of PyTorch's own
	 * does not. */
	conf.limits_requests = true;
	if (!torch_replay(
		&forecast->recording, &conf, limit, until_oom, NULL, &played))
		return false;
	setting->held = played.figures.reserved.peak;
	setting->allocated = played.figures.allocated.peak;
	setting->retries = played.figures.retries;
	setting->ooms = played.figures.ooms;
	return true;
}
