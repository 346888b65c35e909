/*
 * Playing a trace: each row in turn, at its time.
 *
 * Rows of a block that could not be allocated are passed over. The peaks that
 * weir does not keep (live, pending, and what the driver counts) are taken
 * after each row that can raise them.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <weir/stream.h>
#include <weir/weir.h>

#include "tools/weir/player.h"
#include "tools/weir/stage.h"
#include "tools/weir/tool.h"

/* Rows between two checks: a check walks all memory. */
enum { CHECK_INTERVAL = 1000 };

struct player {
	const struct trace *trace;
	const struct play_choices *choices;
	struct figures *figures;
	struct stage *stage;
	weir_stream *streams; /* by the trace's number */
	void **addresses;     /* by block; NULL: not allocated */
	uint64_t *sizes;      /* by block; bytes asked for */
	void **marks;         /* by block; of the last write with --check */
	uint64_t live_bytes;
	uint64_t device_allocs; /* when the driver was last asked */
};

static uint64_t
host_time_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* The trace's time in nanoseconds of the stage. */
static uint64_t
scaled_ns(const struct player *player, uint64_t time_us)
{
	return (uint64_t)((double)time_us * 1000 / player->choices->speed);
}

static void
raise_to(uint64_t *peak, uint64_t value)
{
	if (value > *peak)
		*peak = value;
}

/* Take the peaks that are not kept by weir. */
static bool
observe(struct player *player)
{
	struct weir_stats stats = { .struct_size = sizeof(stats) };
	uint64_t held;

	if (weir_stats(0, &stats) != WEIR_OK) {
		complain("%s", weir_last_error());
		return false;
	}
	raise_to(&player->figures->peak_live_bytes, player->live_bytes);
	raise_to(&player->figures->peak_pending_bytes, stats.pending_bytes);
	if (stats.num_device_alloc == player->device_allocs)
		return true;
	player->device_allocs = stats.num_device_alloc;
	if (!stage_driver_held(player->stage, &held))
		return false;
	raise_to(&player->figures->peak_held_driver_bytes, held);
	return true;
}

static bool
check(struct player *player, size_t row)
{
	char text[4096];
	size_t faults = weir_check(text, sizeof(text));

	if (faults == 0)
		return true;
	player->figures->faults += faults;
	complain("%s: %zu faults after %zu rows:\n%s", player->trace->name,
	    faults, row, text);
	return false;
}

/*
 * With --check each stream writes to the blocks it uses, so that the simulated
 * device sees it if memory has another owner too soon.
 */
static bool
touch(struct player *player, uint32_t block, weir_stream stream)
{
	const struct trace_block *about = &player->trace->blocks[block];
	bool shared = about->recorded || about->unnamed_use;

	return !player->choices->check ||
	    stage_touch(player->stage, stream, player->addresses[block],
		player->sizes[block], shared ? &player->marks[block] : NULL);
}

/* ---- Rows ------------------------------------------------------------ */

static bool
play_alloc(struct player *player, const struct trace_row *row)
{
	void *address = weir_malloc(row->size, player->streams[row->stream]);

	player->figures->allocs++;
	if (address == NULL && weir_last_status() != WEIR_ENOMEM) {
		complain("%s", weir_last_error());
		return false;
	}
	if (address == NULL) {
		player->figures->ooms++;
		return true;
	}
	player->addresses[row->block] = address;
	player->sizes[row->block] = row->size;
	player->live_bytes += row->size;
	if (!touch(player, row->block, player->streams[row->stream]))
		return false;
	return observe(player);
}

/* `stream` uses the block when it has done what it is to wait for. */
static bool
play_use(struct player *player, uint32_t block, weir_stream stream)
{
	void *address = player->addresses[block];

	if (!touch(player, block, stream))
		return false;
	if (weir_record_stream(address, stream) == WEIR_OK)
		return true;
	complain("%s", weir_last_error());
	return false;
}

/* `stream` uses the block until the time the trace says. */
static bool
play_record(struct player *player, const struct trace_row *row)
{
	uint64_t until_us = player->trace->blocks[row->block].used_until_us;
	weir_stream stream = player->streams[row->stream];

	if (player->addresses[row->block] == NULL)
		return true;
	return stage_occupy(
		   player->stage, stream, scaled_ns(player, until_us)) &&
	    play_use(player, row->block, stream);
}

/* The same where the trace does not tell which stream it was. */
static bool
play_unnamed_use(struct player *player, const struct trace_row *row)
{
	const struct trace_block *block = &player->trace->blocks[row->block];
	weir_stream stream;

	return stage_busy_stream(player->stage,
		   scaled_ns(player, block->used_until_us), &stream) &&
	    play_use(player, row->block, stream);
}

static bool
play_free(struct player *player, const struct trace_row *row)
{
	void *address = player->addresses[row->block];

	if (address == NULL)
		return true;
	if (player->trace->blocks[row->block].unnamed_use &&
	    !play_unnamed_use(player, row))
		return false;
	if (weir_free(address) != WEIR_OK) {
		complain("%s", weir_last_error());
		return false;
	}
	stage_unmark(player->stage, &player->marks[row->block]);
	player->addresses[row->block] = NULL;
	player->live_bytes -= player->sizes[row->block];
	return observe(player);
}

static bool
play_row(struct player *player, const struct trace_row *row)
{
	stage_wait_until(player->stage, scaled_ns(player, row->time_us));
	switch (row->action) {
	case 'a':
		return play_alloc(player, row);
	case 'r':
		return play_record(player, row);
	case 'f':
		return play_free(player, row);
	default:
		return true;
	}
}

static bool
play_rows(struct player *player)
{
	const struct trace *trace = player->trace;
	uint64_t start = host_time_ns();

	if (!stage_start(player->stage))
		return false;
	for (size_t i = 0; i < trace->row_count; i++) {
		if (!play_row(player, &trace->rows[i])) {
			complain("%s: stopped at row %zu of %zu", trace->name,
			    i + 1, trace->row_count);
			return false;
		}
		if (player->choices->check && (i + 1) % CHECK_INTERVAL == 0 &&
		    !check(player, i + 1))
			return false;
	}
	player->figures->seconds = (double)(host_time_ns() - start) / 1e9;
	player->figures->events = trace->row_count;
	return true;
}

/* ---- Before and after ------------------------------------------------ */

static bool
prepare(struct player *player)
{
	const struct trace *trace = player->trace;
	uint64_t limit = player->choices->limit_bytes;

	player->streams = calloc(trace->stream_count + 1, sizeof(weir_stream));
	player->addresses = calloc(trace->block_count + 1, sizeof(void *));
	player->sizes = calloc(trace->block_count + 1, sizeof(uint64_t));
	player->marks = calloc(trace->block_count + 1, sizeof(void *));
	if (player->streams == NULL || player->addresses == NULL ||
	    player->sizes == NULL || player->marks == NULL) {
		complain("out of memory");
		return false;
	}
	for (unsigned i = 0; i < trace->stream_count; i++)
		if (weir_stream_create(0, 0, &player->streams[i]) != WEIR_OK) {
			complain("%s", weir_last_error());
			return false;
		}
	if (limit != UINT64_MAX && weir_limit_set(0, limit) != WEIR_OK) {
		complain("%s", weir_last_error());
		return false;
	}
	return true;
}

static bool
collect(struct player *player)
{
	struct figures *figures = player->figures;
	struct weir_stats stats = { .struct_size = sizeof(stats) };
	struct weir_device_info info = { .struct_size = sizeof(info) };

	/* First, so that what is asked next is not among them. */
	figures->driver_calls = stage_driver_calls(player->stage);
	if (weir_stats(0, &stats) != WEIR_OK ||
	    weir_device_info(0, &info) != WEIR_OK) {
		complain("%s", weir_last_error());
		return false;
	}
	figures->peak_active_bytes = stats.active_bytes.all.peak;
	figures->peak_held_bytes = stats.reserved_bytes.all.peak;
	figures->device_allocs = stats.num_device_alloc;
	figures->device_frees = stats.num_device_free;
	figures->host_waits = stats.num_host_waits;
	figures->gpu_waits = stats.num_gpu_waits;
	figures->simulated = info.simulated;
	memcpy(figures->device, info.name, sizeof(figures->device));
	return true;
}

/* Free what the trace left, and see all memory go back to the driver. */
static bool
clean_up(struct player *player)
{
	struct weir_stats stats = { .struct_size = sizeof(stats) };
	bool good = true;

	for (size_t i = 0; i < player->trace->block_count; i++) {
		stage_unmark(player->stage, &player->marks[i]);
		if (weir_free(player->addresses[i]) != WEIR_OK)
			good = false;
	}
	if (weir_device_synchronize(0) != WEIR_OK ||
	    weir_trim(0, 0, NULL) != WEIR_OK ||
	    weir_stats(0, &stats) != WEIR_OK)
		good = false;
	if (!good) {
		complain("%s", weir_last_error());
		return false;
	}
	if (!player->choices->check)
		return true;
	if (stats.reserved_bytes.all.current != 0) {
		player->figures->faults++;
		complain("%s: %" PRIu64 " bytes are still held after all was "
			 "freed and trimmed",
		    player->trace->name, stats.reserved_bytes.all.current);
		return false;
	}
	player->figures->faults += stage_violations(player->stage);
	return check(player, player->trace->row_count) &&
	    player->figures->faults == 0;
}

bool
play(const struct trace *trace, const struct play_choices *choices,
    struct figures *out)
{
	struct player player = {
		.trace = trace, .choices = choices, .figures = out
	};
	bool good = false;

	*out = (struct figures){ 0 };
	player.stage = stage_open();
	if (player.stage != NULL) {
		good = prepare(&player) && play_rows(&player) &&
		    collect(&player) && clean_up(&player);
		stage_close(player.stage);
	}
	free(player.streams);
	free(player.addresses);
	free(player.sizes);
	free(player.marks);
	if (!good) {
		json_decref(out->driver_calls);
		out->driver_calls = NULL;
	}
	return good;
}
