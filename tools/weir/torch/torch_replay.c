#include "tools/weir/torch/torch_replay.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/weir/progress.h"
#include "tools/weir/reading/snapshot_file.h"
#include "tools/weir/reading/snapshot_moment.h"
#include "tools/weir/reading/snapshot_view.h"
#include "tools/weir/tool.h"

#define MIB UINT64_C(1048576)

struct playing {
	const struct recording *recording;
	struct torch_model *model;
	struct torch_block **blocks; /* of the model, by block; or NULL */
	/* By older block: where another block begins that may follow it, by
	 * the rows; or 0. */
	uint64_t *followers;
	bool segments; /* the rows of segments are PyTorch's */
	bool freeing;  /* the row before freed a segment, too */
	struct torch_played *out;
};

/* ---- What is older than the recording -------------------------------- */

/* The last older block below an address, or RECORDING_NONE. */
static uint32_t
older_below(const struct recording *recording, uint64_t address)
{
	uint32_t first = 0;
	uint32_t count = recording->older_count;

	while (count > 0) {
		uint32_t half = count / 2;

		if (recording->blocks[first + half].address < address) {
			first += half + 1;
			count -= half + 1;
		} else {
			count = half;
		}
	}
	return first == 0 ? RECORDING_NONE : first - 1;
}

static void
note_follower(uint64_t *follower, uint64_t address)
{
	if (*follower == 0 || address < *follower)
		*follower = address;
}

/* Note which blocks of the rows begin close behind an older block that is still
 * there. */
static void
note_followers(struct playing *playing)
{
	const struct recording *recording = playing->recording;

	for (uint32_t i = 0; i < recording->row_count; i++) {
		const struct recording_row *row = &recording->rows[i];
		uint64_t address;
		uint32_t id;

		if (row->action != 'a')
			continue;
		address = recording->blocks[row->index].address;
		id = older_below(recording, address);
		if (id != RECORDING_NONE && recording->blocks[id].done > i &&
		    address - recording->blocks[id].address >=
			recording->blocks[id].bytes)
			note_follower(&playing->followers[id], address);
	}
}

/* The size of an older block. PyTorch leaves rests of up to 1 MiB in large
 * blocks, so that a smaller gap belongs to the block before it. */
static uint64_t
older_size(const struct playing *playing,
    const struct recording_segment *segment, uint32_t id)
{
	const struct recording *recording = playing->recording;
	const struct recording_block *block = &recording->blocks[id];
	uint64_t end = segment->address + segment->bytes;
	uint64_t size = (block->bytes + 511) / 512 * 512;

	if (id + 1 < recording->older_count &&
	    recording->blocks[id + 1].address < end)
		end = recording->blocks[id + 1].address;
	if (playing->followers[id] != 0 && playing->followers[id] < end)
		end = playing->followers[id];
	if (!segment->small && end - block->address - size <= MIB)
		return end - block->address;
	return size;
}

static bool
add_older(struct playing *playing)
{
	const struct recording *recording = playing->recording;
	uint32_t id = 0;

	for (uint32_t i = 0; i < recording->older_segments; i++) {
		const struct recording_segment *segment =
		    &recording->segments[i];

		if (!torch_model_add_segment(playing->model, segment->address,
			segment->bytes, segment->stream, segment->pool,
			segment->small))
			return false;
		while (id < recording->older_count &&
		    recording->blocks[id].address < segment->address)
			id++;
		for (; id < recording->older_count &&
		     recording->blocks[id].address <
			 segment->address + segment->bytes;
		     id++)
			playing->blocks[id] = torch_model_add_block(
			    playing->model, recording->blocks[id].address,
			    recording->blocks[id].bytes,
			    older_size(playing, segment, id));
	}
	return true;
}

/* Allocate older blocks for which the recording has no segment. */
static void
add_homeless(struct playing *playing)
{
	const struct recording *recording = playing->recording;

	for (uint32_t i = 0; i < recording->older_count; i++)
		if (playing->blocks[i] == NULL)
			playing->blocks[i] = torch_model_alloc(playing->model,
			    recording->blocks[i].bytes,
			    recording->blocks[i].stream,
			    recording->blocks[i].pool);
}

/* ---- Rows ------------------------------------------------------------ */

static void
play_alloc(struct playing *playing, uint32_t row, uint32_t id)
{
	const struct recording_block *block = &playing->recording->blocks[id];
	const struct torch_figures *figures =
	    torch_model_figures(playing->model);
	uint64_t allocated = figures->allocated.peak;
	uint64_t reserved = figures->reserved.peak;

	playing->out->allocs++;
	playing->blocks[id] = torch_model_alloc(
	    playing->model, block->bytes, block->stream, block->pool);
	if (figures->allocated.peak > allocated)
		playing->out->allocated_row = row;
	if (figures->reserved.peak > reserved)
		playing->out->reserved_row = row;
}

static void
play_free(struct playing *playing, uint32_t id)
{
	struct torch_block *block = playing->blocks[id];

	if (block == NULL)
		return;
	torch_model_release(playing->model, block);
	torch_block_watch(block, &playing->blocks[id]);
}

/* Free the segment that the recording frees. If the model has another one, the
 * program called empty_cache(). */
static void
play_segment_free(struct playing *playing, uint32_t id)
{
	const struct recording_segment *segment =
	    &playing->recording->segments[id];

	if (!playing->segments)
		return;
	if (!segment->expandable &&
	    torch_model_free_segment(playing->model, segment->address))
		return;
	if (!playing->freeing)
		torch_model_empty_cache(playing->model);
}

static void
play_row(struct playing *playing, uint32_t i)
{
	const struct recording_row *row = &playing->recording->rows[i];
	const struct recording_segment *segment;

	switch (row->action) {
	case 'a':
		play_alloc(playing, i, row->index);
		break;
	case 'f':
		play_free(playing, row->index);
		break;
	case 'c':
		torch_model_complete(
		    playing->model, playing->blocks[row->index]);
		playing->blocks[row->index] = NULL;
		break;
	case 'S':
		segment = &playing->recording->segments[row->index];
		torch_model_expect(
		    playing->model, segment->address, segment->bytes);
		break;
	case 's':
	case 'u':
		play_segment_free(playing, row->index);
		break;
	default: /* mappings are the model's own */
		break;
	}
	playing->freeing = row->action == 's' || row->action == 'u';
}

/* True if the rows of segments are PyTorch's. A trace in CSV without them gets
 * a mapping for each block. */
static bool
has_segments(const struct recording *recording)
{
	uint32_t blocks = 0;
	uint32_t maps = 0;

	for (uint32_t i = 0; i < recording->row_count; i++) {
		blocks += recording->rows[i].action == 'a';
		maps += recording->rows[i].action == 'm';
	}
	return maps == 0 || maps != blocks;
}

/* The most bytes that the recording's allocator held. Of a file without a
 * final state, the rows of segments tell. */
static uint64_t
recorded_peak(const struct recording *recording)
{
	uint64_t held = 0;
	uint64_t peak;

	for (uint32_t i = 0; i < recording->older_segments; i++)
		held += recording->segments[i].bytes;
	peak = held;
	for (uint32_t i = 0; i < recording->row_count; i++) {
		const struct recording_row *row = &recording->rows[i];

		if (strchr("Smsu", row->action) == NULL)
			continue;
		if (strchr("Sm", row->action) != NULL)
			held += recording->segments[row->index].bytes;
		else
			held -= recording->segments[row->index].bytes;
		if (held > peak && held <= INT64_MAX)
			peak = held;
	}
	held = moment_held_peak(recording->snapshot, recording->device);
	return held > peak ? held : peak;
}

bool
torch_replay(const struct recording *recording, const struct torch_conf *conf,
    uint64_t device_bytes, bool until_oom, struct held_curve *curve,
    struct torch_played *out)
{
	struct playing playing = { .recording = recording, .out = out };
	struct progress progress;
	bool good;

	*out = (struct torch_played){ 0 };
	playing.segments = has_segments(recording);
	playing.model = torch_model_new(conf, device_bytes);
	playing.blocks =
	    calloc((size_t)recording->block_count + 1, sizeof(void *));
	playing.followers = calloc(
	    (size_t)recording->older_count + 1, sizeof(*playing.followers));
	good = playing.model != NULL && playing.blocks != NULL &&
	    playing.followers != NULL;
	/* With expandable segments a program has no others. */
	if (good && !conf->expandable) {
		note_followers(&playing);
		add_older(&playing);
	}
	if (good)
		add_homeless(&playing);
	progress_begin(&progress, PROGRESS_AFTER_MS);
	for (uint32_t i = 0; good && i < recording->row_count; i++) {
		if (i % PROGRESS_STEPS == 0)
			progress_part(
			    &progress, "playing rows", i, recording->row_count);
		play_row(&playing, i);
		if (curve != NULL)
			held_curve_add(curve,
			    (uint64_t)(recording->rows[i].time_us -
				recording->rows[0].time_us),
			    torch_model_figures(playing.model)->reserved.now);
		if (until_oom && torch_model_figures(playing.model)->ooms > 0)
			break;
	}
	progress_end(&progress);
	if (good) {
		out->figures = *torch_model_figures(playing.model);
		good = !torch_model_failed(playing.model);
	}
	if (playing.segments)
		out->recorded_reserved = recorded_peak(recording);
	if (!good)
		complain("out of memory");
	torch_model_free(playing.model);
	free(playing.blocks);
	free(playing.followers);
	return good;
}

/* ---- The command ----------------------------------------------------- */

bool
torch_as_parse(
    const char *as, struct torch_conf *conf, char why[TORCH_CONF_WHY])
{
	torch_conf_init(conf);
	if (strncmp(as, "torch", 5) != 0 || (as[5] != '\0' && as[5] != ',')) {
		snprintf(why, TORCH_CONF_WHY,
		    "--as is torch, or torch,KEY:VALUE, not '%.100s'", as);
		return false;
	}
	return as[5] == '\0' || torch_conf_parse(as + 6, conf, why);
}

static json_t *
played_json(const char *name, const struct torch_request *request,
    const struct torch_played *played)
{
	const struct torch_figures *figures = &played->figures;
	json_t *json = json_object();

	json_object_set_new(json, "name", json_of_text(name));
	json_object_set_new(json, "as", json_of_text(request->as));
	put_number(json, "allocs", played->allocs);
	put_number(json, "peak_requested_bytes", figures->requested.peak);
	put_number(json, "peak_allocated_bytes", figures->allocated.peak);
	put_number(json, "peak_active_bytes", figures->active.peak);
	put_number(json, "peak_reserved_bytes", figures->reserved.peak);
	put_number(json, "segments", figures->segments.now);
	put_number(json, "peak_segments", figures->segments.peak);
	put_number(json, "device_allocs", figures->device_allocs);
	put_number(json, "device_frees", figures->device_frees);
	put_number(json, "retries", figures->retries);
	put_number(json, "ooms", figures->ooms);
	if (played->recorded_reserved != 0)
		put_number(
		    json, "recorded_held_bytes", played->recorded_reserved);
	if (request->limit_bytes != UINT64_MAX)
		put_number(json, "limit_bytes", request->limit_bytes);
	return json;
}

static bool
print_played(const char *name, const struct torch_played *played)
{
	const struct torch_figures *figures = &played->figures;
	struct table *table = table_new("lrrrrrrr");

	table_add(table, "trace");
	table_add(table, "allocs");
	table_add(table, "peak allocated");
	table_add(table, "peak reserved");
	table_add(table, "recorded held");
	table_add(table, "segments");
	table_add(table, "retries");
	table_add(table, "ooms");
	table_add(table, "%s", name);
	table_add(table, "%" PRIu64, played->allocs);
	table_add(table, "%s", size_text(figures->allocated.peak));
	table_add(table, "%s", size_text(figures->reserved.peak));
	table_add(table, "%s",
	    played->recorded_reserved == 0 ?
		"-" :
		size_text(played->recorded_reserved));
	table_add(table, "%" PRIu64, figures->segments.now);
	table_add(table, "%" PRIu64, figures->retries);
	table_add(table, "%" PRIu64, figures->ooms);
	bool printed = table_print(table, true);

	table_free(table);
	return printed;
}

static int
replay_device(const struct snapshot *snapshot, uint32_t device,
    const struct torch_request *request, const struct torch_conf *conf)
{
	const char *slash = strrchr(request->path, '/');
	struct torch_played played;
	struct recording recording;
	char name[VIEW_TEXT];
	bool good;

	plain_text(slash == NULL ? request->path : slash + 1, name);
	if (snapshot->trace_count > 1)
		snprintf(name + strlen(name), sizeof(name) - strlen(name),
		    ", device %" PRIu32, device);
	if (!recording_make(snapshot, device, &recording))
		return TOOL_FAILED;
	good = torch_replay(
	    &recording, conf, request->limit_bytes, false, NULL, &played);
	recording_drop(&recording);
	if (!good)
		return TOOL_FAILED;
	if (!request->json)
		return print_played(name, &played) ? TOOL_DONE : TOOL_FAILED;
	return print_json(played_json(name, request, &played));
}

int
torch_replay_file(const struct torch_request *request)
{
	struct snapshot *snapshot;
	struct torch_conf conf;
	char why[TORCH_CONF_WHY];
	int status = TOOL_DONE;
	bool any = false;

	if (!torch_as_parse(request->as, &conf, why)) {
		complain("%s", why);
		return TOOL_USAGE;
	}
	snapshot = snapshot_or_trace_load(request->path);
	if (snapshot == NULL)
		return TOOL_FAILED;
	for (uint32_t d = 0; status == TOOL_DONE && d < snapshot->trace_count;
	     d++) {
		if (snapshot->traces[d].count == 0 ||
		    (request->device >= 0 && (uint32_t)request->device != d))
			continue;
		any = true;
		status = replay_device(snapshot, d, request, &conf);
	}
	if (!any) {
		complain("%s has no trace of %s", request->path,
		    request->device >= 0 ? "this device" : "any device");
		status = TOOL_FAILED;
	}
	snapshot_free(snapshot);
	return status;
}
