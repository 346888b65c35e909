/*
 * The rows of a trace, and the queues of streams that determine their times.
 *
 * Each host writes its rows by its own clock, and `c` rows have future times.
 * All rows are sorted by time at the end. Rows of the same time keep the order
 * in which they were made.
 */
#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/weir/progress.h"
#include "tools/weir/replay/workload.h"
#include "tools/weir/tool.h"
#include "tools/weir/tuning.h"

enum {
	/* The duration of a call on the host. */
	ALLOC_US = 1,
	LAUNCH_US = 5,
	WAIT_US = 2,
	/* The most that the host may be ahead of a stream. */
	AHEAD_US = 8000,
};

/* The first address. Addresses are names: each is used once. */
#define FIRST_ADDRESS UINT64_C(0x7f0000000000)

struct row {
	uint64_t time_us;
	uint64_t seq;
	uint64_t address;
	uint64_t size;
	unsigned stream;
	char action;
};

struct workload {
	struct row *rows;
	size_t count;
	size_t capacity;
	uint64_t seed;
	uint64_t random;
	uint64_t next_address;
	uint64_t allocating; /* a bit for each stream that has allocated */
	bool incomplete;     /* memory was lacking for a row */
};

struct workload *
workload_new(uint64_t seed)
{
	struct workload *workload = calloc(1, sizeof(*workload));

	if (workload == NULL)
		return NULL;
	workload->seed = seed;
	workload->random = seed;
	workload->next_address = FIRST_ADDRESS;
	return workload;
}

void
workload_free(struct workload *workload)
{
	if (workload == NULL)
		return;
	free(workload->rows);
	free(workload);
}

size_t
workload_rows(const struct workload *workload)
{
	/* Without memory, agents must end that run until there are enough
	 * rows. */
	return workload->incomplete ? SIZE_MAX : workload->count;
}

static void
add_workload_row(struct workload *workload, struct row row)
{
	if (workload->incomplete)
		return;
	if (workload->count == workload->capacity) {
		size_t capacity =
		    workload->capacity == 0 ? 4096 : 2 * workload->capacity;
		void *rows = realloc(workload->rows, capacity * sizeof(row));

		if (rows == NULL) {
			workload->incomplete = true;
			return;
		}
		workload->rows = rows;
		workload->capacity = capacity;
	}
	row.seq = workload->count;
	workload->rows[workload->count++] = row;
}

/* ---- Choices --------------------------------------------------------- */

static uint64_t
next_random(struct work_host *host)
{
	return random_next(
	    host->repeats ? &host->random : &host->workload->random);
}

uint64_t
work_random(struct work_host *host, uint64_t low, uint64_t high)
{
	return low + next_random(host) % (high - low + 1);
}

uint64_t
work_length(struct work_host *host, uint64_t low, uint64_t high, uint64_t step)
{
	unsigned doublings = 0;
	uint64_t length;

	while (low << (doublings + 1) <= high)
		doublings++;
	low <<= work_random(host, 0, doublings);
	length = work_random(host, low, 2 * low < high ? 2 * low : high);
	return (length + step - 1) / step * step;
}

bool
work_chance(struct work_host *host, uint64_t n)
{
	return next_random(host) % n == 0;
}

/* ---- Actions of the host --------------------------------------------- */

/* An action on a block: that of the device, or its capital letter for
 * page-locked memory. */
static char
action_on(const struct work_block *block, char action)
{
	return block->pinned ? (char)toupper(action) : action;
}

static void
add_block_event(
    struct work_host *host, char action, const struct work_block *block)
{
	add_workload_row(host->workload,
	    (struct row){ .action = action_on(block, action),
		.address = block->address,
		.size = block->size,
		.stream = block->own->number,
		.time_us = host->now_us });
}

static struct work_block
new_block(struct work_host *host, struct work_block block)
{
	block.address = host->workload->next_address;
	host->workload->next_address += (block.size + 511) / 512 * 512;
	host->now_us += ALLOC_US;
	add_block_event(host, 'a', &block);
	return block;
}

struct work_block
work_alloc(
    struct work_host *host, const struct work_stream *stream, uint64_t size)
{
	host->workload->allocating |= UINT64_C(1) << stream->number;
	return new_block(
	    host, (struct work_block){ .size = size, .own = stream });
}

struct work_block
work_pin(
    struct work_host *host, const struct work_stream *stream, uint64_t size)
{
	return new_block(host,
	    (struct work_block){ .size = size, .own = stream, .pinned = true });
}

void
work_free(struct work_host *host, const struct work_block *block)
{
	uint64_t done_us = host->now_us + ALLOC_US;
	struct row row = { .address = block->address, .size = block->size };

	host->now_us = done_us;
	row.time_us = host->now_us;
	for (unsigned i = 0; i < block->n_uses; i++) {
		row.action = action_on(block, 'r');
		row.stream = block->uses[i].stream;
		add_workload_row(host->workload, row);
		if (block->uses[i].done_us > done_us)
			done_us = block->uses[i].done_us;
	}
	add_block_event(host, 'f', block);
	row.action = action_on(block, 'c');
	row.stream = block->own->number;
	row.time_us = done_us;
	add_workload_row(host->workload, row);
}

void
work_launch(
    struct work_host *host, struct work_stream *stream, uint64_t duration_us)
{
	host->now_us += LAUNCH_US;
	if (stream->done_us < host->now_us)
		stream->done_us = host->now_us;
	stream->done_us += duration_us;
	add_workload_row(host->workload,
	    (struct row){ .action = 'k',
		.size = duration_us,
		.stream = stream->number,
		.time_us = host->now_us });
	if (stream->done_us > host->now_us + AHEAD_US)
		host->now_us = stream->done_us - AHEAD_US;
}

void
work_use(struct work_block *block, const struct work_stream *stream)
{
	unsigned i = 0;

	while (i < block->n_uses && block->uses[i].stream != stream->number)
		i++;
	if (i == WORK_USES)
		return;
	if (i == block->n_uses)
		block->n_uses++;
	block->uses[i].stream = stream->number;
	block->uses[i].done_us = stream->done_us;
}

void
work_wait(struct work_host *host, struct work_stream *stream,
    const struct work_stream *other)
{
	host->now_us += WAIT_US;
	add_workload_row(host->workload,
	    (struct row){ .action = 'w',
		.size = other->number,
		.stream = stream->number,
		.time_us = host->now_us });
	if (stream->done_us < other->done_us)
		stream->done_us = other->done_us;
}

void
work_synchronize(struct work_host *host, const struct work_stream *stream)
{
	if (host->now_us < stream->done_us)
		host->now_us = stream->done_us;
}

void
work_await(struct work_host *host, const struct work_stream *stream)
{
	work_synchronize(host, stream);
	host->now_us += WAIT_US;
	add_workload_row(host->workload,
	    (struct row){ .action = 'h',
		.stream = stream->number,
		.time_us = host->now_us });
}

void
work_end(struct work_host *host, const struct work_stream *stream)
{
	host->now_us += WAIT_US;
	add_workload_row(host->workload,
	    (struct row){ .action = 'e',
		.stream = stream->number,
		.time_us = host->now_us });
}

void
work_round(struct work_host *host, unsigned first_stream, unsigned n)
{
	/* The threads of a program differ. */
	host->random = host->workload->seed + first_stream;
	host->repeats = true;
	for (unsigned i = first_stream; i < first_stream + n; i++)
		if ((host->workload->allocating >> i & 1) != 0)
			add_workload_row(host->workload,
			    (struct row){ .action = 'n',
				.stream = i,
				.time_us = host->now_us });
}

/* ---- Writing --------------------------------------------------------- */

static int
by_time(const void *left, const void *right)
{
	const struct row *a = left;
	const struct row *b = right;

	if (a->time_us != b->time_us)
		return a->time_us < b->time_us ? -1 : 1;
	return a->seq < b->seq ? -1 : a->seq > b->seq;
}

/* The allocations of one kind of memory, and the peak of its live bytes. */
struct live_sums {
	size_t allocs;
	uint64_t live;
	uint64_t peak;
};

/* Sum up the rows that allocate and free by these actions. */
static struct live_sums
count_live(const struct workload *workload, char allocs, char frees)
{
	struct live_sums sums = { 0 };

	for (size_t i = 0; i < workload->count; i++) {
		const struct row *row = &workload->rows[i];

		if (row->action == allocs) {
			sums.allocs++;
			sums.live += row->size;
		} else if (row->action == frees) {
			sums.live -= row->size;
		}
		if (sums.live > sums.peak)
			sums.peak = sums.live;
	}
	return sums;
}

/* Sort the rows. From SORT_SHOWN rows on this takes a second or more. */
static void
sort_rows(struct workload *workload)
{
	struct progress progress;

	progress_begin(&progress, 0);
	if (workload->count >= SORT_SHOWN)
		progress_show(&progress, "sorting %zu rows", workload->count);
	qsort(workload->rows, workload->count, sizeof(struct row), by_time);
	progress_end(&progress);
}

static void
write_workload_rows(const struct workload *workload, FILE *out)
{
	struct progress progress;

	progress_begin_output(&progress, out);
	for (size_t i = 0; i < workload->count; i++) {
		const struct row *row = &workload->rows[i];

		if (i % PROGRESS_STEPS == 0)
			progress_part(
			    &progress, "writing rows", i, workload->count);
		fprintf(out, "%c,%" PRIx64 ",%" PRIu64 ",%u,%" PRIu64 "\n",
		    row->action, row->address, row->size, row->stream,
		    row->time_us);
	}
	progress_end(&progress);
}

bool
workload_write(struct workload *workload, const char *name, FILE *out)
{
	struct live_sums device;
	struct live_sums pinned;

	if (workload->incomplete)
		return false;
	sort_rows(workload);
	device = count_live(workload, 'a', 'f');
	pinned = count_live(workload, 'A', 'F');
	fprintf(out,
	    "# {\"name\": \"%s\", \"peak_alloc\": %" PRIu64
	    ", \"allocs\": %zu, \"rows\": %zu",
	    name, device.peak, device.allocs, workload->count);
	if (pinned.allocs > 0)
		fprintf(out,
		    ", \"pinned_peak_alloc\": %" PRIu64
		    ", \"pinned_allocs\": %zu",
		    pinned.peak, pinned.allocs);
	fputs("}\naction,addr,size,stream,time_us\n", out);
	write_workload_rows(workload, out);
	return true;
}
