/*
 * Playing a trace: each row in turn, at its time.
 *
 * Rows of a block that could not be allocated are skipped. weir keeps no peak
 * of live bytes, of pending bytes and of the bytes that the driver counts. The
 * player samples these after each row that can raise them.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <weir/graph.h>
#include <weir/host.h>
#include <weir/stream.h>
#include <weir/weir.h>

#include "tools/weir/progress.h"
#include "tools/weir/reading/held_curve.h"
#include "tools/weir/replay/player.h"
#include "tools/weir/replay/rounds.h"
#include "tools/weir/replay/stage.h"
#include "tools/weir/tool.h"
#include "tools/weir/tuning.h"
#include "tools/weir/verbs/explain.h"

/* A stream, by its number in the trace. */
struct played_stream {
	weir_stream handle;     /* NULL: the stream does not exist now */
	size_t blocks;          /* allocated blocks of this stream */
	struct weir_pool *pool; /* of its requests; NULL: of the device */
};

/* A block of the trace, while it is allocated. */
struct played {
	void *address;             /* NULL: not allocated */
	uint64_t size;             /* bytes requested */
	struct played_stream *own; /* its stream; NULL if that has ended, and
				      for page-locked memory */
	void *mark; /* event after the last write, if other streams use it */
};

struct player {
	const struct trace *trace;
	const struct play_choices *choices;
	struct figures *figures;
	struct stage *stage;
	struct played_stream *streams; /* by the trace's number */
	struct weir_pool **pools;      /* by the trace's number; or NULL */
	struct played *blocks;
	struct explain *explain; /* NULL without play_choices.explain */
	struct rounds *rounds;
	struct held_curve *curve; /* NULL without play_choices.curve */
	uint64_t row_us;          /* time of the row that is played */
	uint64_t random;
	uint64_t behind_ns; /* rows are played so much later than their time */
	uint64_t live_bytes;
	uint64_t pinned_live_bytes;
	uint64_t early_pinned_calls;
	uint64_t device_allocs; /* at the latest query of the driver's count */
	uint64_t early_map_calls; /* in the first tenth of the rows */
	uint64_t large_requests;  /* so far */
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

/* The time at which a row is played, with its random delay, in ns of the
 * stage. */
static uint64_t
late_ns(struct player *player, uint64_t time_us)
{
	uint64_t most = (uint64_t)(player->choices->late_us * 1000);

	return scaled_ns(player, time_us) +
	    (most > 0 ? random_next(&player->random) % (most + 1) : 0);
}

static void
raise_peak(uint64_t *peak, uint64_t value)
{
	if (value > *peak)
		*peak = value;
}

/* Raise the peaks that weir does not keep. */
static bool
observe(struct player *player)
{
	struct weir_stats stats = { .struct_size = sizeof(stats) };
	uint64_t held;

	if (weir_stats(0, &stats) != WEIR_OK) {
		complain("%s", weir_last_error());
		return false;
	}
	raise_peak(&player->figures->peak_live_bytes, player->live_bytes);
	raise_peak(&player->figures->peak_pending_bytes, stats.pending_bytes);
	if (player->curve != NULL)
		held_curve_add(player->curve, player->row_us,
		    stats.reserved_bytes.all.current);
	if (stats.num_device_alloc == player->device_allocs)
		return true;
	player->device_allocs = stats.num_device_alloc;
	if (!stage_driver_held(player->stage, &held))
		return false;
	raise_peak(&player->figures->peak_held_driver_bytes, held);
	return true;
}

static bool
check_arena(struct player *player, size_t row)
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

/* ---- Uses of blocks -------------------------------------------------- */

/* The pattern of block i. Its number is i + 1, so that no number is 0. */
static struct stage_block
pattern_of(const struct player *player, uint32_t i)
{
	return (struct stage_block){ .address = player->blocks[i].address,
		.size = player->blocks[i].size,
		.number = i + 1 };
}

/* Report that the player queued work on a stream. weir wants reports of all
 * work, which only a trace with rows of work allows. */
static bool
report_work(const struct player *player, weir_stream stream)
{
	if (!player->trace->has_work || player->choices->unreported ||
	    weir_stream_report_work(stream) == WEIR_OK)
		return true;
	complain("%s", weir_last_error());
	return false;
}

/*
 * With --touch, a block's own stream writes a pattern to the whole block at its
 * allocation. Other streams verify the pattern when their use of the block is
 * done, and the stream that frees the block verifies it at the free. This adds
 * no order between streams that the program does not make: a stream other than
 * the block's own may free it only after all uses, so each use of such a block
 * waits for the one before.
 *
 * Page-locked memory belongs to the host, which writes its pattern and verifies
 * it at the free; streams verify it at their records.
 *
 * With --check alone, each stream writes to the blocks that it uses, so that
 * the simulated device finds memory that has a new owner too soon.
 */
static bool
use_first(struct player *player, uint32_t i)
{
	const struct trace_block *about = &player->trace->blocks[i];
	struct played *block = &player->blocks[i];
	struct stage_block pattern = pattern_of(player, i);
	bool shared =
	    about->recorded || about->unnamed_use || about->freed_elsewhere;
	void **mark = shared ? &block->mark : NULL;
	weir_stream stream = block->own->handle;

	if (player->choices->touch)
		return stage_write(player->stage, stream, &pattern, mark) &&
		    report_work(player, stream);
	return !player->choices->check ||
	    (stage_touch(
		 player->stage, stream, block->address, block->size, mark) &&
		report_work(player, stream));
}

static bool
use_elsewhere(struct player *player, uint32_t i, weir_stream stream)
{
	const struct trace_block *about = &player->trace->blocks[i];
	struct played *block = &player->blocks[i];
	struct stage_block pattern = pattern_of(player, i);

	if (player->choices->touch)
		return stage_verify(player->stage, stream, &pattern,
			   block->mark, about->freed_elsewhere) &&
		    report_work(player, stream);
	return !player->choices->check ||
	    (stage_touch(player->stage, stream, block->address, block->size,
		 &block->mark) &&
		report_work(player, stream));
}

static bool
use_last(struct player *player, uint32_t i)
{
	struct stage_block pattern = pattern_of(player, i);
	struct played_stream *own = player->blocks[i].own;

	if (player->choices->touch && player->trace->blocks[i].pinned)
		stage_host_verify(player->stage, &pattern);
	return !player->choices->touch || own == NULL ||
	    (stage_verify(player->stage, own->handle, &pattern, NULL, false) &&
		report_work(player, own->handle));
}

/* ---- Rows ------------------------------------------------------------ */

/* The stream that has this number in the trace now. A stream is created if none
 * exists; NULL, and a complaint, if that fails. */
static weir_stream
player_stream(struct player *player, size_t number)
{
	weir_stream *stream = &player->streams[number].handle;

	if (*stream == NULL && weir_stream_create(0, 0, stream) != WEIR_OK)
		complain("%s", weir_last_error());
	return *stream;
}

/* The trace's number of a stream, by its handle; the count of streams if no
 * stream has the handle. */
static unsigned
trace_stream_number(const void *closure, uint64_t handle)
{
	const struct player *player = closure;
	unsigned i = 0;

	while (i < player->trace->stream_count &&
	    (uint64_t)(uintptr_t)player->streams[i].handle != handle)
		i++;
	return i;
}

/* Call weir_malloc(), and record how it served the request. *address is NULL if
 * memory ran out. False, and a complaint, on another failure. */
static bool
request(struct player *player, const struct trace_row *row, weir_stream stream,
    void **address)
{
	struct weir_pool *pool = player->streams[row->stream].pool;
	struct explain_call call = {
		.row = (size_t)(row - player->trace->rows) + 1,
		.size = row->size,
		.stream = row->stream,
		.number = trace_stream_number,
		.closure = player
	};
	uint64_t began_ns = 0;

	explain_begin(player->explain);
	if (player->explain != NULL)
		began_ns = stage_now_ns(player->stage);
	*address = pool == NULL ? weir_malloc(row->size, stream) :
				  weir_pool_malloc(pool, row->size, stream);
	call.failed = *address == NULL;
	if (call.failed && weir_last_status() != WEIR_ENOMEM) {
		complain("%s", weir_last_error());
		return false;
	}
	if (player->explain != NULL)
		call.host_ns = stage_now_ns(player->stage) - began_ns;
	return explain_end(player->explain, &call);
}

/* Begin a round of all streams, if the choices say that it begins with the next
 * large request. */
static void
begin_round_if(struct player *player)
{
	uint64_t request = player->large_requests++;
	uint64_t first = player->choices->round_first;

	if (player->choices->round_length == 0 || request < first ||
	    (request - first) % player->choices->round_length != 0)
		return;
	for (unsigned i = 0; i < player->trace->stream_count; i++)
		rounds_begin(player->rounds, i);
}

static bool
play_alloc(struct player *player, const struct trace_row *row)
{
	weir_stream stream = player_stream(player, row->stream);
	void *address;

	if (row->size > ROUNDS_LARGE_ABOVE)
		begin_round_if(player);
	if (stream == NULL || !request(player, row, stream, &address))
		return false;
	player->figures->allocs++;
	if (address == NULL) {
		player->figures->ooms++;
		return true;
	}
	player->blocks[row->block] = (struct played){ .address = address,
		.size = row->size,
		.own = &player->streams[row->stream] };
	player->streams[row->stream].blocks++;
	player->live_bytes += row->size;
	if (!rounds_add(player->rounds, row->stream, row->size, address)) {
		complain("out of memory");
		return false;
	}
	return use_first(player, row->block) && observe(player);
}

/* Allocate page-locked memory. */
static bool
play_host_alloc(struct player *player, const struct trace_row *row)
{
	struct played *block = &player->blocks[row->block];
	struct stage_block pattern;

	player->figures->pinned_allocs++;
	*block = (struct played){ .size = row->size,
		.address = weir_host_malloc_on(0, row->size, 0) };
	if (block->address == NULL && weir_last_status() != WEIR_EHOSTMEM) {
		complain("%s", weir_last_error());
		return false;
	}
	if (block->address == NULL) {
		player->figures->ooms++;
		return true;
	}
	player->pinned_live_bytes += row->size;
	raise_peak(&player->figures->pinned_peak_live_bytes,
	    player->pinned_live_bytes);
	pattern = pattern_of(player, row->block);
	if (player->choices->touch)
		stage_host_write(player->stage, &pattern);
	return true;
}

/* Use the block on `stream` once the stream's waits are over, and record the
 * use. */
static bool
play_use(struct player *player, uint32_t block, weir_stream stream)
{
	void *address = player->blocks[block].address;
	enum weir_status status;

	if (!use_elsewhere(player, block, stream))
		return false;
	status = player->trace->blocks[block].pinned ?
	    weir_host_record(address, stream) :
	    weir_record_stream(address, stream);
	if (status == WEIR_OK)
		return true;
	complain("%s", weir_last_error());
	return false;
}

/* Play a use of a block on another stream. It lasts until the time that the
 * trace states; in a trace with rows of work, until the stream's work is
 * done. */
static bool
play_record(struct player *player, const struct trace_row *row)
{
	uint64_t until_us = player->trace->blocks[row->block].used_until_us;
	weir_stream stream = player_stream(player, row->stream);

	if (player->blocks[row->block].address == NULL)
		return true;
	if (stream == NULL)
		return false;
	if (!player->trace->has_work &&
	    !stage_occupy(player->stage, stream, late_ns(player, until_us)))
		return false;
	return play_use(player, row->block, stream);
}

/* Play a use on a stream that the trace does not name. */
static bool
play_unnamed_use(struct player *player, const struct trace_row *row)
{
	const struct trace_block *block = &player->trace->blocks[row->block];
	weir_stream stream;

	return stage_busy_stream(player->stage,
		   late_ns(player, block->used_until_us), &stream) &&
	    play_use(player, row->block, stream);
}

/* Free a block on its own stream. */
static bool
free_on_own_stream(struct player *player, uint32_t block)
{
	if (!use_last(player, block))
		return false;
	if (weir_free(player->blocks[block].address) == WEIR_OK)
		return true;
	complain("%s", weir_last_error());
	return false;
}

/* Free a block on another stream than its own, as cudaFreeAsync() can. */
static bool
free_on_other_stream(struct player *player, const struct trace_row *row)
{
	weir_stream stream = player_stream(player, row->stream);

	if (stream == NULL || !use_elsewhere(player, row->block, stream))
		return false;
	if (weir_free_async(player->blocks[row->block].address, stream) ==
	    WEIR_OK)
		return true;
	complain("%s", weir_last_error());
	return false;
}

static bool
play_free(struct player *player, const struct trace_row *row)
{
	struct played *block = &player->blocks[row->block];

	if (block->address == NULL)
		return true;
	if (player->trace->blocks[row->block].unnamed_use &&
	    !play_unnamed_use(player, row))
		return false;
	if (!(player->trace->blocks[row->block].freed_elsewhere ?
		    free_on_other_stream(player, row) :
		    free_on_own_stream(player, row->block)))
		return false;
	stage_unmark(player->stage, &block->mark);
	block->address = NULL;
	if (block->own != NULL)
		block->own->blocks--;
	player->live_bytes -= block->size;
	return observe(player);
}

static bool
play_host_free(struct player *player, const struct trace_row *row)
{
	struct played *block = &player->blocks[row->block];

	if (block->address == NULL)
		return true;
	if (player->trace->blocks[row->block].unnamed_use &&
	    !play_unnamed_use(player, row))
		return false;
	if (!use_last(player, row->block))
		return false;
	if (weir_host_free(block->address) != WEIR_OK) {
		complain("%s", weir_last_error());
		return false;
	}
	stage_unmark(player->stage, &block->mark);
	block->address = NULL;
	player->pinned_live_bytes -= block->size;
	return true;
}

static bool
play_wait(struct player *player, const struct trace_row *row)
{
	weir_stream stream = player_stream(player, row->stream);
	weir_stream other = player_stream(player, row->size);

	return stream != NULL && other != NULL &&
	    stage_order(player->stage, stream, other);
}

static bool
play_work(struct player *player, const struct trace_row *row)
{
	weir_stream stream = player_stream(player, row->stream);

	return stream != NULL &&
	    stage_work(player->stage, stream, scaled_ns(player, row->size)) &&
	    report_work(player, stream);
}

/* Let the host wait for a stream. In the program, the time of each later row
 * follows from the end of the wait. */
static bool
play_host_wait(struct player *player, const struct trace_row *row)
{
	uint64_t due_ns = scaled_ns(player, row->time_us) + player->behind_ns;
	weir_stream stream = player_stream(player, row->stream);

	if (stream == NULL)
		return false;
	if (weir_stream_synchronize(stream) != WEIR_OK) {
		complain("%s", weir_last_error());
		return false;
	}
	uint64_t now_ns = stage_now_ns(player->stage);

	if (now_ns > due_ns)
		player->behind_ns += now_ns - due_ns;
	return true;
}

/* Let the requests of a stream be those of a private pool, made as weir's
 * adapter makes those of PyTorch's graphs. */
static bool
play_pool(struct player *player, const struct trace_row *row)
{
	struct weir_pool **pool = &player->pools[row->size];

	if (row->size > 0 && *pool == NULL &&
	    weir_pool_create(0, NULL, WEIR_POOL_KEEP | WEIR_POOL_SEGMENTS,
		pool) != WEIR_OK) {
		complain("%s", weir_last_error());
		return false;
	}
	player->streams[row->stream].pool = *pool;
	return true;
}

/* End a stream. The stream verifies its blocks now that outlive it. */
static bool
play_end(struct player *player, const struct trace_row *row)
{
	struct played_stream *stream = &player->streams[row->stream];
	weir_stream handle = stream->handle;

	if (handle == NULL)
		return true;
	for (uint32_t i = 0; stream->blocks > 0; i++) {
		struct played *block = &player->blocks[i];

		if (block->address == NULL || block->own != stream)
			continue;
		if (!use_last(player, i))
			return false;
		block->own = NULL;
		stream->blocks--;
	}
	stream->handle = NULL;
	if (weir_stream_destroy(handle) == WEIR_OK)
		return true;
	complain("%s", weir_last_error());
	return false;
}

static bool
play_row(struct player *player, const struct trace_row *row)
{
	stage_wait_until(
	    player->stage, late_ns(player, row->time_us) + player->behind_ns);
	switch (row->action) {
	case 'a':
		return play_alloc(player, row);
	case 'r':
	case 'R':
		return play_record(player, row);
	case 'f':
		return play_free(player, row);
	case 'A':
		return play_host_alloc(player, row);
	case 'F':
		return play_host_free(player, row);
	case 'w':
		return play_wait(player, row);
	case 'k':
		return play_work(player, row);
	case 'h':
		return play_host_wait(player, row);
	case 'e':
		return play_end(player, row);
	case 'p':
		return play_pool(player, row);
	case 'n':
		rounds_begin(player->rounds, row->stream);
		return true;
	default:
		return true;
	}
}

static bool
host_stats(struct weir_stats *stats)
{
	*stats = (struct weir_stats){ .struct_size = sizeof(*stats) };
	if (weir_host_stats(0, stats) == WEIR_OK)
		return true;
	complain("%s", weir_last_error());
	return false;
}

/* The driver calls that took, gave back and mapped page-locked memory. */
static uint64_t
pinned_calls(const struct weir_stats *stats)
{
	return stats->num_device_alloc + stats->num_device_free +
	    stats->num_map_calls + stats->num_unmap_calls;
}

/* Note the counts of the first tenth of the rows, in which pools grow and
 * programs get their addresses. */
static bool
end_early_part(struct player *player)
{
	struct weir_stats stats = { .struct_size = sizeof(stats) };
	struct weir_stats host;

	if (weir_stats(0, &stats) != WEIR_OK) {
		complain("%s", weir_last_error());
		return false;
	}
	if (!host_stats(&host))
		return false;
	player->early_map_calls = stats.num_map_calls;
	player->early_pinned_calls = pinned_calls(&host);
	rounds_reset(player->rounds);
	return true;
}

/* Show the progress of a playback that lasts longer than a second. A search for
 * a limit (--fit) shows its own progress. */
static void
show_rows(struct progress *progress, const struct player *player, size_t done)
{
	const struct trace *trace = player->trace;
	size_t rest = trace->row_count - done;

	if (done % PLAYER_PROGRESS_ROWS != 0 || done == 0 ||
	    player->choices->until_oom || !progress_due(progress))
		return;
	progress_show(progress, "playing %s: row %zu of %zu, about %.0f s left",
	    trace->name, done, trace->row_count,
	    (double)progress_taken_ms(progress) / 1000 * (double)rest /
		(double)done);
}

static bool
play_rows(struct player *player)
{
	const struct trace *trace = player->trace;
	uint64_t start = host_time_ns();
	struct progress progress;
	size_t i;

	if (!stage_start(player->stage))
		return false;
	progress_begin(&progress, PROGRESS_AFTER_MS);
	for (i = 0; i < trace->row_count; i++) {
		show_rows(&progress, player, i);
		if (i == trace->row_count / 10 && !end_early_part(player))
			return false;
		player->row_us = trace->rows[i].time_us;
		if (!play_row(player, &trace->rows[i])) {
			progress_end(&progress);
			complain("%s: stopped at row %zu of %zu", trace->name,
			    i + 1, trace->row_count);
			return false;
		}
		if (player->choices->check &&
		    (i + 1) % PLAYER_CHECK_ROWS == 0 &&
		    !check_arena(player, i + 1))
			return false;
		if (player->choices->until_oom && player->figures->ooms > 0)
			break;
	}
	progress_end(&progress);
	player->figures->seconds = (double)(host_time_ns() - start) / 1e9;
	player->figures->events = i;
	return true;
}

/* ---- Before and after ------------------------------------------------ */

/*
 * Turn decay off unless the user has set it. The simulated device runs on the
 * trace's clock, but memory decays by the host's clock, so that the result
 * would depend on the speed of this machine.
 */
static bool
disable_decay(void)
{
	struct weir_option option;

	for (size_t i = 0; weir_option_at(i, &option) == WEIR_OK; i++)
		if (strcmp(option.key, "decay_ms") == 0 &&
		    option.source == WEIR_OPTION_DEFAULT)
			return weir_options_set("decay_ms:off") == WEIR_OK;
	return true;
}

static bool
prepare_playback(struct player *player)
{
	const struct trace *trace = player->trace;
	uint64_t limit = player->choices->limit_bytes;

	player->streams =
	    calloc(trace->stream_count + 1, sizeof(struct played_stream));
	player->pools = calloc(trace->pool_count + 1, sizeof(*player->pools));
	player->blocks = calloc(trace->block_count + 1, sizeof(struct played));
	player->rounds = rounds_new(trace->stream_count);
	if (player->streams == NULL || player->pools == NULL ||
	    player->blocks == NULL || player->rounds == NULL) {
		complain("out of memory");
		return false;
	}
	for (unsigned i = 0; i < trace->stream_count; i++)
		if (player_stream(player, i) == NULL)
			return false;
	if ((stage_simulated(player->stage) && !disable_decay()) ||
	    (limit != UINT64_MAX && weir_limit_set(0, limit) != WEIR_OK)) {
		complain("%s", weir_last_error());
		return false;
	}
	return true;
}

/* Read the figures of page-locked memory. */
static bool
collect_pinned(struct player *player)
{
	struct figures *figures = player->figures;
	struct weir_stats stats;

	figures->has_pinned = player->trace->has_pinned;
	if (!host_stats(&stats))
		return false;
	figures->pinned_peak_held_bytes = stats.reserved_bytes.all.peak;
	figures->pinned_driver_calls = pinned_calls(&stats);
	figures->pinned_driver_calls_late =
	    figures->pinned_driver_calls - player->early_pinned_calls;
	figures->pin_us = stats.pin_ns / 1000;
	figures->unpin_us = stats.unpin_ns / 1000;
	figures->pin_delay_us = stats.pin_delay_ns / 1000;
	return true;
}

static bool
collect(struct player *player)
{
	struct figures *figures = player->figures;
	struct weir_stats stats = { .struct_size = sizeof(stats) };
	struct weir_device_info info = { .struct_size = sizeof(info) };
	struct rounds_count rounds = rounds_count(player->rounds);

	/* This is first, so that the queries below are not counted. */
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
	figures->map_calls = stats.num_map_calls;
	figures->map_calls_late = stats.num_map_calls - player->early_map_calls;
	figures->unmap_calls = stats.num_unmap_calls;
	figures->remapped_bytes = stats.remapped_bytes;
	figures->host_waits = stats.num_host_waits;
	figures->gpu_waits = stats.num_gpu_waits;
	figures->planned_allocs = stats.num_planned;
	figures->measured_wait_us = stats.gpu_wait_ns / 1000;
	figures->measured_delay_us = stats.gpu_delay_ns / 1000;
	figures->repeats = rounds.any;
	figures->repeated_allocs = rounds.compared;
	figures->moved_allocs = rounds.changed;
	figures->repeated_large_allocs = rounds.large_compared;
	figures->moved_large_allocs = rounds.large_changed;
	figures->simulated = info.simulated;
	memcpy(figures->device, info.name, sizeof(figures->device));
	return collect_pinned(player);
}

/* Wait until all work has ended, and read the duration and the delays. */
static bool
finish_playback(struct player *player)
{
	uint64_t stalled_ns;
	uint64_t delayed_ns;

	if (!stage_finish(player->stage, &stalled_ns, &delayed_ns))
		return false;
	player->figures->gpu_stall_us = stalled_ns / 1000;
	player->figures->gpu_wait_us = delayed_ns / 1000;
	player->figures->duration_us = stage_now_ns(player->stage) / 1000;
	return true;
}

/* The number of the row that allocates a block, from 1. */
static size_t
alloc_row(const struct trace *trace, uint32_t block)
{
	size_t i = 0;

	while (i < trace->row_count && trace->rows[i].block != block)
		i++;
	return i + 1;
}

/* Print the results of the checks of --touch. */
static bool
report_mismatches(struct player *player)
{
	uint64_t words;
	uint32_t number;

	if (!player->choices->touch)
		return true;
	if (!stage_mismatches(player->stage, &words, &number))
		return false;
	player->figures->mismatches = words;
	if (words != 0)
		complain("%s: %" PRIu64 " words of blocks were changed by "
			 "others, first of the block of row %zu",
		    player->trace->name, words,
		    alloc_row(player->trace, number - 1));
	return true;
}

/* Complain if memory is still held that a trim should have given back. */
static void
expect_all_back(
    struct player *player, const struct weir_stats *stats, const char *what)
{
	if (stats->reserved_bytes.all.current == 0)
		return;
	player->figures->faults++;
	complain("%s: %" PRIu64
		 " bytes%s are still held after all was freed and trimmed",
	    player->trace->name, stats->reserved_bytes.all.current, what);
}

/* Free the blocks that are still allocated. With --check, check that all memory
 * goes back to the driver. */
static bool
clean_up(struct player *player)
{
	struct weir_stats stats = { .struct_size = sizeof(stats) };
	struct weir_stats host = { .struct_size = sizeof(host) };
	bool good = true;

	for (size_t i = 0; i < player->trace->block_count; i++) {
		struct played *block = &player->blocks[i];

		if (block->address != NULL && !use_last(player, (uint32_t)i))
			return false;
		stage_unmark(player->stage, &block->mark);
		if (weir_free(block->address) != WEIR_OK)
			good = false;
	}
	for (unsigned i = 0; i < player->trace->pool_count; i++)
		weir_pool_release(player->pools[i]);
	if (weir_device_synchronize(0) != WEIR_OK ||
	    weir_trim(0, 0, NULL) != WEIR_OK ||
	    weir_host_trim(0, 0, NULL) != WEIR_OK ||
	    weir_stats(0, &stats) != WEIR_OK ||
	    weir_host_stats(0, &host) != WEIR_OK)
		good = false;
	if (!good) {
		complain("%s", weir_last_error());
		return false;
	}
	if (!player->choices->check)
		return true;
	expect_all_back(player, &stats, "");
	expect_all_back(player, &host, " of page-locked memory");
	check_arena(player, player->trace->row_count);
	return true;
}

/* Begin to record how requests are served, if the user wants that. */
static bool
begin_explain(struct player *player)
{
	if (!player->choices->explain)
		return true;
	player->explain = explain_new();
	if (player->explain == NULL)
		complain("out of memory");
	return player->explain != NULL;
}

static bool
begin_curve(struct player *player)
{
	if (!player->choices->curve)
		return true;
	player->curve = malloc(sizeof(*player->curve));
	if (player->curve == NULL)
		complain("out of memory");
	else
		held_curve_begin(player->curve, player->trace->end_us);
	return player->curve != NULL;
}

static void
end_curve(struct player *player)
{
	if (player->curve != NULL)
		player->figures->curve = held_curve_json(player->curve);
	free(player->curve);
}

static void
end_explain(struct player *player)
{
	if (player->explain == NULL)
		return;
	player->figures->ways = explain_ways(player->explain);
	player->figures->costliest =
	    explain_costliest(player->explain, player->choices->costliest);
	explain_free(player->explain);
}

void
figures_drop(struct figures *figures)
{
	json_decref(figures->driver_calls);
	json_decref(figures->curve);
	json_decref(figures->ways);
	json_decref(figures->costliest);
	figures->driver_calls = NULL;
	figures->curve = NULL;
	figures->ways = NULL;
	figures->costliest = NULL;
}

bool
play(const struct trace *trace, const struct play_choices *choices,
    struct figures *out)
{
	struct player player = { .random = choices->seed,
		.trace = trace,
		.choices = choices,
		.figures = out };
	bool good = false;

	*out = (struct figures){ 0 };
	player.stage = stage_open();
	if (player.stage != NULL) {
		good = prepare_playback(&player) && begin_explain(&player) &&
		    begin_curve(&player) && play_rows(&player) &&
		    collect(&player) && finish_playback(&player) &&
		    clean_up(&player) && report_mismatches(&player);
		if (choices->check || choices->touch)
			out->faults += stage_violations(player.stage);
		stage_close(player.stage);
	}
	end_explain(&player);
	end_curve(&player);
	rounds_free(player.rounds);
	free(player.streams);
	free(player.pools);
	free(player.blocks);
	if (!good)
		figures_drop(out);
	return good;
}
