/*
 * The causes of a failure, with a function for each kind.
 */
#include "tools/weir/snapshot_verdict.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "tools/weir/snapshot_holders.h"
#include "tools/weir/snapshot_moment.h"
#include "tools/weir/snapshot_sites.h"

enum { SMALL = 1 << 20, MIB = 1 << 20, SETTING = 512 };

/* ---- Settings of the snapshot ------------------------------------------ */

static const char *
setting_of_device(
    const struct snapshot *snapshot, const char *name, uint32_t device)
{
	char path[128];

	snprintf(
	    path, sizeof(path), "allocator_settings.%s.%" PRIu32, name, device);
	return setting_value(snapshot, path);
}

/* True if weir wrote the snapshot. */
static bool
is_weir(const struct snapshot *snapshot)
{
	static const char ours[] = "allocator_settings.weir_";

	for (uint32_t i = 0; i < snapshot->setting_count; i++)
		if (strncmp(snapshot_text(snapshot, snapshot->settings[i].name),
			ours, sizeof(ours) - 1) == 0)
			return true;
	return setting_value(snapshot, "weir.version") != NULL;
}

static bool
is_set(const struct snapshot *snapshot, const char *name)
{
	const char *value = setting_value(snapshot, name);

	return value != NULL && strcmp(value, "True") == 0;
}

static bool
has_expandable_segments(const struct snapshot *snapshot)
{
	if (is_set(snapshot, "allocator_settings.expandable_segments"))
		return true;
	for (uint32_t i = 0; i < snapshot->segment_count; i++)
		if (snapshot->segments[i].expandable)
			return true;
	return false;
}

static void
find_limit(const struct snapshot *snapshot, struct verdict *verdict)
{
	const char *bytes =
	    setting_of_device(snapshot, "weir_limit_bytes", verdict->device);
	const char *source =
	    setting_of_device(snapshot, "weir_limit_sources", verdict->device);

	verdict->limited =
	    bytes != NULL && count_parse(bytes, UINT64_MAX, &verdict->limit);
	verdict->limit_source = source != NULL ? source : "";
}

/* Bytes of new memory that the limit allows. */
static uint64_t
limit_headroom(const struct verdict *verdict)
{
	uint64_t held = verdict->all.reserved;

	if (!verdict->limited)
		return UINT64_MAX;
	return verdict->limit > held ? verdict->limit - held : 0;
}

/* Bytes that the driver could still give under the limit. */
static uint64_t
new_memory(const struct verdict *verdict)
{
	uint64_t headroom = limit_headroom(verdict);
	uint64_t free = verdict->free_known ? verdict->device_free : 0;

	return free < headroom ? free : headroom;
}

/* ---- The request ------------------------------------------------------- */

bool
verdict_last_failure(
    const struct snapshot *snapshot, int device, struct verdict *out)
{
	const struct snapshot_events *events = &snapshot->events;

	for (uint32_t i = events->count; i > 0; i--) {
		uint32_t event = i - 1;
		struct snapshot_trace trace;

		if (events->action[event] != SNAPSHOT_OOM ||
		    (device >= 0 && events->device[event] != (uint32_t)device))
			continue;
		trace = snapshot->traces[events->device[event]];
		*out = (struct verdict){
			.device = events->device[event],
			.stream = events->stream[event],
			.bytes = events->bytes[event],
			.event = event,
			.later = trace.first + trace.count - event - 1,
			.device_free = events->address[event],
			.free_known = true,
		};
		return true;
	}
	return false;
}

static void
sum_up(struct verdict *verdict)
{
	const struct snapshot *moment = verdict->moment;
	bool small = verdict->bytes <= SMALL;

	for (uint32_t i = 0; i < moment->segment_count; i++) {
		const struct snapshot_segment *segment = &moment->segments[i];

		sums_add(&verdict->all, moment, segment);
		sums_add(segment->pool != 0                ? &verdict->pools :
			segment->stream != verdict->stream ? &verdict->others :
			segment->small == small            ? &verdict->own :
							     &verdict->kind,
		    moment, segment);
	}
}

/* ---- Causes ------------------------------------------------------------ */

/* Add a cause; `setting` may be NULL. */
static void add_cause(json_t *causes, const char *name, uint64_t bytes,
    const char *setting, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

static void
add_cause(json_t *causes, const char *name, uint64_t bytes, const char *setting,
    const char *format, ...)
{
	json_t *one = json_object();
	va_list args;

	va_start(args, format);
	json_object_set_new(one, "cause", json_string(name));
	put_number(one, "bytes", bytes);
	json_object_set_new(one, "text", json_vsprintf(format, args));
	json_object_set_new(one, "setting",
	    setting != NULL ? json_string(setting) : json_null());
	va_end(args);
	json_array_append_new(causes, one);
}

/* The snapshot's PYTORCH_CUDA_ALLOC_CONF with one more option. */
static const char *
torch_setting(
    const struct snapshot *snapshot, const char *option, char text[SETTING])
{
	const char *conf = setting_value(
	    snapshot, "allocator_settings.PYTORCH_CUDA_ALLOC_CONF");
	char plain[VIEW_TEXT] = "";

	if (conf != NULL)
		plain_text(conf, plain);
	snprintf(text, SETTING, "export PYTORCH_CUDA_ALLOC_CONF=%s%s%s", plain,
	    plain[0] != '\0' ? "," : "", option);
	return text;
}

/* True if the limit allows less memory than the driver has free. */
static bool
limit_binds(const struct verdict *verdict)
{
	return verdict->limited && verdict->free_known &&
	    verdict->device_free > limit_headroom(verdict);
}

/* Add the limit as a cause, with a limit that would have served the request. */
static void
add_limit(struct verdict *verdict)
{
	uint64_t headroom = limit_headroom(verdict);
	uint64_t need = verdict->all.reserved + verdict->bytes;
	uint64_t mib = (need + 20 * (uint64_t)MIB) / MIB;
	char setting[SETTING];

	if (!limit_binds(verdict))
		return;
	if (strcmp(verdict->limit_source, "memory_limit_mb") == 0)
		snprintf(setting, sizeof(setting),
		    "export WEIR_CONF=memory_limit_mb:%" PRIu64, mib);
	else if (strcmp(verdict->limit_source, "per_process_memory_fraction") ==
	    0)
		snprintf(setting, sizeof(setting),
		    "export WEIR_CONF=per_process_memory_fraction:1");
	else
		snprintf(setting, sizeof(setting),
		    "weir_limit_set(%" PRIu32 ", (size_t)%" PRIu64 " << 20);",
		    verdict->device, mib);
	add_cause(verdict->causes, "limit", verdict->device_free - headroom,
	    setting,
	    "The limit is the cause, not the device: %s are held of the %s "
	    "that %s allows. The limit allows %s more, and the driver has %s "
	    "free. A higher limit gives up to %s.",
	    size_text(verdict->all.reserved), size_text(verdict->limit),
	    verdict->limit_source[0] != '\0' ? verdict->limit_source :
					       "a limit",
	    size_text(headroom), size_text(verdict->device_free),
	    size_text(verdict->device_free - headroom));
}

/* Add a limit of PyTorch as a cause if the driver had enough free memory.
 * PyTorch's snapshots do not have the limit itself. */
static void
add_torch_limit(const struct snapshot *snapshot, struct verdict *verdict)
{
	uint64_t bytes = verdict->bytes;
	uint64_t segment = bytes <= SMALL ? 2 * (uint64_t)MIB :
	    bytes < 10 * (uint64_t)MIB    ? 20 * (uint64_t)MIB :
					    bytes + 2 * (uint64_t)MIB;

	if (!is_weir(snapshot) && verdict->free_known &&
	    verdict->device_free >= segment)
		add_cause(verdict->causes, "limit", verdict->device_free,
		    "torch.cuda.set_per_process_memory_fraction(1.0)",
		    "The driver had %s free, which is enough: a limit of the "
		    "process may be the cause "
		    "(set_per_process_memory_fraction). Without that limit "
		    "up to %s are available.",
		    size_text(verdict->device_free),
		    size_text(verdict->device_free));
}

/* Add fragmentation as a cause: the stream has enough free memory, but in
 * pieces. */
static void
add_pieces(const struct snapshot *snapshot, struct verdict *verdict)
{
	const struct sums *own = &verdict->own;
	bool weir = is_weir(snapshot);
	char setting[SETTING];

	if (weir && verdict->stream == UINT64_MAX)
		add_cause(verdict->causes, "fragmentation", own->free, NULL,
		    "Fragmentation: memory of no stream has %s free, but in "
		    "%" PRIu64 " pieces of at most %s. cudaMalloc's memory "
		    "lies in segments of the driver, which cannot be put "
		    "together; memory of a stream (cudaMallocAsync) can.",
		    size_text(own->free), own->free_blocks,
		    size_text(own->largest_free));
	else if (has_expandable_segments(snapshot))
		add_cause(verdict->causes, "fragmentation", own->free,
		    weir &&
			    setting_value(snapshot,
				"allocator_settings.weir_options.handle_mb") ==
				NULL ?
			"export WEIR_CONF=handle_mb:2" :
			NULL,
		    "Fragmentation: the stream's own pool has %s free, but in "
		    "%" PRIu64 " pieces of at most %s, between blocks that "
		    "are in use. Expandable segments are on; only whole free "
		    "pieces of physical memory can be put together.",
		    size_text(own->free), own->free_blocks,
		    size_text(own->largest_free));
	else
		add_cause(verdict->causes, "fragmentation", own->free,
		    weir ? "export WEIR_CONF=expandable_segments:True" :
			   torch_setting(
			       snapshot, "expandable_segments:True", setting),
		    "Fragmentation: the stream's own pool has %s free, but in "
		    "%" PRIu64 " pieces of at most %s. Expandable segments "
		    "map such pieces together: up to %s.",
		    size_text(own->free), own->free_blocks,
		    size_text(own->largest_free), size_text(own->free));
}

static void
find_own_causes(const struct snapshot *snapshot, struct verdict *verdict)
{
	const struct sums *own = &verdict->own;
	json_t *causes = verdict->causes;
	uint64_t idle = own->idle + verdict->kind.idle + verdict->others.idle;
	uint64_t idle_segments = own->idle_segments +
	    verdict->kind.idle_segments + verdict->others.idle_segments;

	if (own->largest_free >= verdict->bytes)
		add_cause(causes, "fits", own->largest_free, NULL,
		    "A free block of %s in the stream's own pool is large "
		    "enough%s",
		    size_text(own->largest_free),
		    verdict->event == UINT32_MAX ?
			"." :
			": the allocator did not search again, or the trace "
			"is not complete.");
	else if (own->free >= verdict->bytes)
		add_pieces(snapshot, verdict);
	if (verdict->kind.free >= verdict->bytes)
		add_cause(causes, "kind", verdict->kind.free, NULL,
		    "%s are free on the stream in the pool of %s blocks, "
		    "which does not serve this size.",
		    size_text(verdict->kind.free),
		    verdict->bytes <= SMALL ? "large" : "small");
	if (idle > 0)
		add_cause(causes, "idle", idle,
		    is_weir(snapshot) ? "weir_trim(WEIR_DEVICE_ALL, 0, NULL);" :
					"torch.cuda.empty_cache()",
		    "Nothing is in use in %" PRIu64 " segment%s: giving %s "
		    "back to the driver gives %s.",
		    idle_segments, idle_segments == 1 ? "" : "s",
		    idle_segments == 1 ? "it" : "them", size_text(idle));
}

static void
add_other_streams(const struct snapshot *snapshot, struct verdict *verdict)
{
	const struct sums *others = &verdict->others;
	bool waits = false;

	if (others->free == 0)
		return;
	if (!is_weir(snapshot)) {
		add_cause(verdict->causes, "other streams", others->free,
		    "weir run --conf prefer:memory -- PROGRAM",
		    "Other streams have %s free, at most %s in a piece. "
		    "PyTorch's allocator does not reuse it, because each "
		    "stream has a pool of its own. Use one stream, or weir, "
		    "which reuses it.",
		    size_text(others->free), size_text(others->largest_free));
		return;
	}
	const char *prefer =
	    setting_value(snapshot, "allocator_settings.weir_options.prefer");

	waits = prefer != NULL && strcmp(prefer, "memory") == 0;
	add_cause(verdict->causes, "other streams", others->free,
	    waits ? NULL : "export WEIR_CONF=prefer:memory",
	    "Other streams have %s free, at most %s in a piece%s.",
	    size_text(others->free), size_text(others->largest_free),
	    waits ? "" : "; prefer:memory waits for them");
}

static void
find_other_causes(const struct snapshot *snapshot, struct verdict *verdict)
{
	const struct sums *all = &verdict->all;
	json_t *causes = verdict->causes;
	bool weir = is_weir(snapshot);

	add_other_streams(snapshot, verdict);
	if (all->pending > 0)
		add_cause(causes, "pending", all->pending,
		    weir ? "weir_stream_synchronize(NULL);" :
			   "torch.cuda.synchronize()",
		    "%s are freed, but streams that were recorded on them "
		    "still use them; waiting for these streams gives them "
		    "back.",
		    size_text(all->pending));
	if (verdict->pools.free > 0)
		add_cause(causes, "private pools", verdict->pools.free, NULL,
		    "Private pools of graphs hold %s, of which %s are free "
		    "and serve those graphs only; deleting the graphs gives "
		    "up to %s.",
		    size_text(verdict->pools.reserved),
		    size_text(verdict->pools.free),
		    size_text(verdict->pools.reserved));
	if (rounding_of(all) >= verdict->bytes)
		add_cause(causes, "rounding", rounding_of(all), NULL,
		    "Rounding takes %s in blocks that are in use; see "
		    "roundup_power2_divisions.",
		    size_text(rounding_of(all)));
}

/* Write the largest holder: " Most is held by forward (model.py:12): 3.00
 * GiB." */
static void
name_holder(const struct verdict *verdict, char text[2 * VIEW_TEXT])
{
	struct holders holders;
	char site[VIEW_TEXT];

	text[0] = '\0';
	if (!holders_find(verdict->moment, (int)verdict->device, &holders))
		return;
	if (holders.count > 0)
		snprintf(text, 2 * VIEW_TEXT, " Most is held by %s: %s.",
		    site_text(verdict->moment, holders.items[0].stack, site),
		    size_text(holders.items[0].bytes));
	holders_drop(&holders);
}

/* Sum up all free memory, and compare it with the request. */
static void
find_total(struct verdict *verdict)
{
	uint64_t free =
	    verdict->all.free + verdict->all.pending + new_memory(verdict);
	const char *also = !verdict->free_known ? "" :
	    verdict->limited ? ", with the driver's memory up to the limit" :
			       ", with the driver's free memory";
	char holder[2 * VIEW_TEXT];

	if (free >= verdict->bytes) {
		if (verdict->own.largest_free < verdict->bytes &&
		    new_memory(verdict) < verdict->bytes)
			add_cause(verdict->causes, "scattered", free, NULL,
			    "In all %s are free%s: enough, but in pieces that "
			    "cannot be put together.",
			    size_text(free), also);
		return;
	}
	name_holder(verdict, holder);
	add_cause(verdict->causes, "full", verdict->bytes - free, NULL,
	    "In all %s are free%s: %s too little, even in one piece. Free "
	    "something, or %s.%s",
	    size_text(free), also, size_text(verdict->bytes - free),
	    limit_binds(verdict) ? "raise the limit" : "use a larger device",
	    holder);
}

/* ---- The call ---------------------------------------------------------- */

bool
verdict_find(const struct snapshot *snapshot, struct verdict *verdict)
{
	verdict->causes = json_array();
	verdict->moment = moment_new(snapshot, verdict->device, verdict->event);
	if (verdict->causes == NULL || verdict->moment == NULL)
		return false;
	sum_up(verdict);
	find_limit(snapshot, verdict);
	add_limit(verdict);
	add_torch_limit(snapshot, verdict);
	find_own_causes(snapshot, verdict);
	find_other_causes(snapshot, verdict);
	find_total(verdict);
	return true;
}

void
verdict_drop(struct verdict *verdict)
{
	json_decref(verdict->causes);
	moment_free(verdict->moment);
	verdict->causes = NULL;
	verdict->moment = NULL;
}

const char *
verdict_headline(const struct verdict *verdict, char text[VIEW_TEXT])
{
	char stream[VIEW_TEXT];
	int n = snprintf(text, VIEW_TEXT,
	    "a request of %s on %s of device %" PRIu32 " %s",
	    size_text(verdict->bytes), stream_phrase(verdict->stream, stream),
	    verdict->device,
	    verdict->event == UINT32_MAX ? "is judged" : "failed");

	if (verdict->free_known)
		n += snprintf(text + n, VIEW_TEXT - (size_t)n,
		    "; the driver had %s free",
		    size_text(verdict->device_free));
	if (verdict->limited)
		snprintf(text + n, VIEW_TEXT - (size_t)n,
		    "%s the limit was %s (%.*s)",
		    verdict->free_known ? " and" : ";",
		    size_text(verdict->limit), 40, verdict->limit_source);
	return text;
}
