#include "tools/weir/fit/fit_program.h"

#include <stdlib.h>
#include <string.h>

#include "tools/weir/fit/fit_sites.h"
#include "tools/weir/fit/fit_sizes.h"
#include "tools/weir/fit/tuning.h"
#include "tools/weir/progress.h"
#include "tools/weir/tool.h"

static double
sum_bytes(const struct fit_run *run)
{
	double sum = 0;

	for (uint32_t i = 0; i < run->count; i++)
		sum += (double)run->allocs[i].bytes;
	return sum;
}

/* List the allocations of all recordings. False without memory. */
static bool
list_runs(struct fit_program *program)
{
	struct snapshot *snapshots[FIT_RUNS];
	uint64_t *keys[FIT_RUNS] = { NULL };
	unsigned runs = program->numbers.runs;
	bool good;

	for (unsigned r = 0; r < runs; r++)
		snapshots[r] = program->runs[r].snapshot;
	good = fit_sites_find(snapshots, runs, keys);
	for (unsigned r = 0; good && r < runs; r++)
		good = fit_run_list(&program->runs[r], keys[r]);
	for (unsigned r = 0; r < runs; r++)
		free(keys[r]);
	return good;
}

static bool
compare_runs(struct fit_program *program)
{
	struct fit_numbers *numbers = &program->numbers;
	double most = -1;

	for (unsigned r = 0; r < numbers->runs; r++)
		if (sum_bytes(&program->runs[r]) > most) {
			most = sum_bytes(&program->runs[r]);
			program->pattern = r;
		}
	for (unsigned r = 0; r < numbers->runs; r++) {
		if (r == program->pattern)
			continue;
		program->match[r] = fit_match(numbers, program->pattern,
		    &program->runs[program->pattern], r, &program->runs[r]);
		if (program->match[r] == NULL)
			return false;
	}
	if (!fit_loops_find(numbers, program->runs, program->pattern,
		program->match, &program->loops))
		return false;
	program->sizes = fit_sizes_new(
	    numbers, program->runs, program->pattern, program->match);
	return program->sizes != NULL;
}

bool
fit_program_read(struct fit_program *program, const struct fit_numbers *numbers,
    char *const *paths)
{
	*program = (struct fit_program){ .numbers = *numbers };
	for (unsigned r = 0; r < numbers->runs; r++)
		if (!fit_run_load(paths[r], &program->runs[r])) {
			fit_program_drop(program);
			return false;
		}
	if (list_runs(program) && compare_runs(program))
		return true;
	complain("out of memory");
	fit_program_drop(program);
	return false;
}

void
fit_program_drop(struct fit_program *program)
{
	fit_sizes_free(program->sizes);
	fit_loops_drop(&program->loops);
	for (unsigned r = 0; r < FIT_RUNS; r++) {
		free(program->match[r]);
		if (program->runs[r].snapshot != NULL)
			fit_run_drop(&program->runs[r]);
	}
	*program = (struct fit_program){ 0 };
}

void
fit_formula(
    const struct fit_program *program, uint32_t alloc, struct fit_value *out)
{
	fit_sizes_find(program->sizes, alloc, out);
}

/* ---- A forecast ------------------------------------------------------ */

/* An end of a block: its free or its completion. */
struct ending {
	uint32_t gap;
	uint32_t order;
	uint32_t block;
	char action;
};

struct forecaster {
	struct fit_program *program;
	const struct fit_run *pattern;
	struct fit_forecast *out;
	struct ending *endings;
	uint32_t ending_count;
};

static int
compare_endings(const void *a, const void *b)
{
	const struct ending *first = a;
	const struct ending *second = b;

	if (first->gap != second->gap)
		return first->gap < second->gap ? -1 : 1;
	if (first->order != second->order)
		return first->order < second->order ? -1 : 1;
	if (first->block != second->block)
		return first->block < second->block ? -1 : 1;
	return second->action - first->action; /* 'f' before 'c' */
}

static void
add_ending(struct forecaster *f, char action, uint32_t gap, uint32_t order,
    uint32_t block)
{
	f->endings[f->ending_count++] =
	    (struct ending){ gap, order, block, action };
}

/* The size of a block in a loop whose sizes grow from round to round, as those
 * of a cache do that gets longer. False if they do not. */
static bool
grown_size(const struct forecaster *f, struct fit_place place, double *bytes)
{
	const struct fit_loop *loop;
	struct fit_value first;
	struct fit_value second;
	uint32_t offset;
	uint64_t before;
	int64_t step;

	if (place.loop == UINT32_MAX)
		return false;
	loop = &f->program->loops.items[place.loop];
	offset = loop->first + (place.alloc - loop->first) % loop->period;
	if (loop->rounds < 3)
		return false;
	step = (int64_t)(f->pattern->allocs[offset + loop->period].bytes -
	    f->pattern->allocs[offset].bytes);
	before = f->pattern->allocs[offset].bytes;
	for (uint32_t i = 1; i < loop->rounds; i++) {
		uint64_t now =
		    f->pattern->allocs[offset + i * loop->period].bytes;

		if ((int64_t)(now - before) != step)
			return false;
		before = now;
	}
	if (step == 0)
		return false;
	fit_formula(f->program, offset, &first);
	fit_formula(f->program, offset + loop->period, &second);
	*bytes = first.value + (second.value - first.value) * place.round;
	return true;
}

/* Add the block at a place, and its ends. */
static void
forecast_block(struct forecaster *f, uint32_t at)
{
	const struct fit_loops *loops = &f->program->loops;
	struct fit_place place = fit_loops_place(loops, at);
	const struct fit_alloc *alloc = &f->pattern->allocs[place.alloc];
	struct recording *recording = &f->out->recording;
	struct recording_block *block = &recording->blocks[at];
	struct fit_value value;
	uint32_t end;
	uint32_t done;

	fit_formula(f->program, fit_loops_sized(loops, place), &value);
	grown_size(f, place, &value.value);
	f->out->origin[at] = place.alloc;
	f->out->error[at] = value.error;
	*block = (struct recording_block){
		/* No real addresses, but one of its own for each block. */
		.address = (UINT64_C(1) << 40) + (uint64_t)at * 512,
		.bytes = value.value < 1 ? 1 : (uint64_t)(value.value + 0.5),
		.stream = alloc->stream,
		.pool = alloc->pool,
		.stack = alloc->stack,
		.begin = RECORDING_NONE,
		.freed = RECORDING_NONE,
		.done = RECORDING_NONE,
	};
	if (alloc->end == FIT_NEVER)
		return;
	end = fit_loops_end(loops, f->pattern, place, at, alloc->end);
	add_ending(f, 'f', end, alloc->order, at);
	if (alloc->done == FIT_NEVER)
		return;
	done = end;
	if (alloc->done > alloc->end)
		done = end + (alloc->done - alloc->end);
	add_ending(f, 'c', done, alloc->order, at);
}

static void
forecast_row(
    struct recording *recording, char action, uint32_t index, int64_t time_us)
{
	recording->rows[recording->row_count++] =
	    (struct recording_row){ action, index, time_us };
}

static void
forecast_ends(struct forecaster *f, uint32_t *next, uint32_t gap, int64_t now)
{
	struct recording *recording = &f->out->recording;

	for (; *next < f->ending_count && f->endings[*next].gap <= gap;
	     ++*next) {
		const struct ending *ending = &f->endings[*next];
		struct recording_block *block =
		    &recording->blocks[ending->block];

		if (ending->action == 'f')
			block->freed = recording->row_count;
		else
			block->done = recording->row_count;
		forecast_row(recording, ending->action, ending->block, now);
	}
}

static void
forecast_rows(struct forecaster *f)
{
	struct recording *recording = &f->out->recording;
	const struct fit_run *pattern = f->pattern;
	uint32_t emptied = 0;
	uint32_t next = 0;
	int64_t now = 0;

	for (uint32_t at = 0; at < recording->block_count; at++) {
		uint32_t origin = f->out->origin[at];

		forecast_ends(f, &next, at, now);
		for (; emptied < pattern->emptied_count &&
		     pattern->emptied[emptied] <= origin;
		     emptied++)
			forecast_row(recording, 's', 0, now);
		if (pattern->allocs[origin].time_us > now)
			now = pattern->allocs[origin].time_us;
		recording->blocks[at].begin = recording->row_count;
		forecast_row(recording, 'a', at, now);
	}
	forecast_ends(f, &next, UINT32_MAX, now);
}

static bool
forecast_room(struct forecaster *f, uint32_t count)
{
	struct fit_forecast *out = f->out;
	size_t n = (size_t)count + 1;

	out->recording.blocks = calloc(n, sizeof(*out->recording.blocks));
	out->recording.rows = calloc(
	    3 * n + f->pattern->emptied_count, sizeof(*out->recording.rows));
	/* Rows that empty the cache name a segment that does not exist. */
	out->recording.segments = calloc(1, sizeof(*out->recording.segments));
	out->origin = calloc(n, sizeof(*out->origin));
	out->error = calloc(n, sizeof(*out->error));
	f->endings = calloc(2 * n, sizeof(*f->endings));
	return out->recording.blocks != NULL && out->recording.rows != NULL &&
	    out->recording.segments != NULL && out->origin != NULL &&
	    out->error != NULL && f->endings != NULL;
}

uint32_t
fit_forecast_length(struct fit_program *program)
{
	return fit_loops_ask(&program->loops, &program->numbers,
	    &program->runs[program->pattern]);
}

bool
fit_forecast_make(struct fit_program *program, struct fit_forecast *out)
{
	struct forecaster f = {
		.program = program,
		.pattern = &program->runs[program->pattern],
		.out = out,
	};
	uint32_t count =
	    fit_loops_ask(&program->loops, &program->numbers, f.pattern);
	bool good;

	*out = (struct fit_forecast){ 0 };
	out->recording.snapshot = f.pattern->snapshot;
	out->recording.device = f.pattern->device;
	if (count > FIT_FORECAST_MAX) {
		complain("the forecast has more than %u allocations",
		    FIT_FORECAST_MAX);
		return false;
	}
	fit_sizes_ask(program->sizes, program->numbers.ask);
	good = forecast_room(&f, count);
	if (good) {
		out->recording.block_count = count;
		for (uint32_t at = 0; at < count; at++)
			forecast_block(&f, at);
		qsort(f.endings, f.ending_count, sizeof(*f.endings),
		    compare_endings);
		forecast_rows(&f);
	} else {
		complain("out of memory");
		fit_forecast_drop(out);
	}
	free(f.endings);
	return good;
}

void
fit_forecast_drop(struct fit_forecast *forecast)
{
	recording_drop(&forecast->recording);
	free(forecast->origin);
	free(forecast->error);
	*forecast = (struct fit_forecast){ 0 };
}
