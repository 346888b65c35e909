/*
 * The causes of a failure, with a function for each kind.
 */
#include "tools/weir/reading/snapshot_verdict.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "tools/weir/reading/snapshot_holders.h"
#include "tools/weir/reading/snapshot_moment.h"
#include "tools/weir/reading/snapshot_settings.h"
#include "tools/weir/reading/snapshot_sites.h"
#include "tools/weir/reading/torch_sizes.h"

enum { MIB = 1 << 20 };

/* ---- Settings of the snapshot ------------------------------------------ */

static void
find_limit(const struct snapshot *snapshot, struct verdict *verdict)
{
	const char *bytes =
	    settings_of_device(snapshot, "weir_limit_bytes", verdict->device);
	const char *source =
	    settings_of_device(snapshot, "weir_limit_sources", verdict->device);

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
	bool small = verdict->bytes <= TORCH_SMALL_MAX;

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

/* ---- Causes and remedies ----------------------------------------------- */

/* The price of a remedy. Remedies are offered in this order. */
enum price {
	PRICE_NONE,   /* the program runs as before */
	PRICE_LITTLE, /* a call, or a small part of the time */
	PRICE_CODE,   /* the program has to be changed */
	PRICE_TIME,   /* the program may take far longer */
	PRICE_UNKNOWN /* no remedy is known */
};

static const char map_calls[] =
    "nothing but calls of the driver while memory is mapped";

static const char others_lose[] =
    "nothing here; other processes on the device have that much less";

/* Add a cause. Returns it, without a remedy. */
static json_t *add_cause(json_t *causes, const char *name, uint64_t bytes,
    const char *format, ...) __attribute__((format(printf, 4, 5)));

static json_t *
add_cause(
    json_t *causes, const char *name, uint64_t bytes, const char *format, ...)
{
	json_t *one = json_object();
	va_list args;

	va_start(args, format);
	json_object_set_new(one, "cause", json_string(name));
	put_number(one, "bytes", bytes);
	json_object_set_new(one, "text", json_vsprintf(format, args));
	json_object_set_new(one, "setting", json_null());
	json_object_set_new(one, "remedies", json_array());
	put_number(one, "price", PRICE_UNKNOWN);
	va_end(args);
	json_array_append_new(causes, one);
	return one;
}

/* Add a remedy to a cause, after those that cost less. `setting` may be NULL.
 * `cost` continues "costs". */
static void
add_remedy(json_t *cause, enum price price, uint64_t gives, const char *setting,
    const char *cost)
{
	json_t *remedies = json_object_get(cause, "remedies");
	json_t *one = json_object();
	json_t *copy = setting != NULL ? json_string(setting) : json_null();

	if (json_array_size(remedies) == 0) {
		json_object_set(cause, "setting", copy);
		put_number(cause, "price", price);
	}
	json_object_set_new(one, "setting", copy);
	put_number(one, "gives_bytes", gives);
	json_object_set_new(one, "text",
	    json_sprintf("gives up to %s; costs %s", size_text(gives), cost));
	json_array_append_new(remedies, one);
}

/* Offer weir in place of PyTorch's allocator. Without --torch PyTorch would
 * still keep its own pools, and weir would not see its requests. */
static void
offer_weir(json_t *cause, uint64_t gives)
{
	add_remedy(cause, PRICE_LITTLE, gives, "weir run --torch -- PROGRAM",
	    "about 1 % of the time");
}

/* Offer the ways to put free pieces of memory together: `own` bytes of the
 * stream, and `all` bytes of all streams. */
static void
offer_mapping(
    const struct snapshot *snapshot, json_t *cause, uint64_t own, uint64_t all)
{
	char setting[SETTINGS_LINE];
	bool weir = settings_of_weir(snapshot);

	if (!settings_expandable(snapshot))
		add_remedy(cause, PRICE_NONE, weir ? all : own,
		    weir ? settings_weir_line(snapshot, "expandable_segments",
			       "True", setting) :
			   settings_torch_line(
			       snapshot, "expandable_segments:True", setting),
		    map_calls);
	else if (weir &&
	    setting_value(
		snapshot, "allocator_settings.weir_options.handle_mb") == NULL)
		add_remedy(cause, PRICE_LITTLE, all,
		    settings_weir_line(snapshot, "handle_mb", "2", setting),
		    "more calls of the driver where new memory is taken: "
		    "pieces of 2 MiB are put together, however few are free "
		    "in a row");
	if (!weir)
		offer_weir(cause, all);
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
add_limit(const struct snapshot *snapshot, struct verdict *verdict)
{
	uint64_t headroom = limit_headroom(verdict);
	uint64_t need = verdict->all.reserved + verdict->bytes;
	uint64_t mib = (need + TORCH_LARGE_SEGMENT) / MIB;
	char setting[SETTINGS_LINE];
	char megabytes[24];
	json_t *cause;

	if (!limit_binds(verdict))
		return;
	snprintf(megabytes, sizeof(megabytes), "%" PRIu64, mib);
	if (strcmp(verdict->limit_source, "memory_limit_mb") == 0)
		settings_weir_line(
		    snapshot, "memory_limit_mb", megabytes, setting);
	else if (strcmp(verdict->limit_source, "per_process_memory_fraction") ==
	    0)
		settings_weir_line(
		    snapshot, "per_process_memory_fraction", "1", setting);
	else
		snprintf(setting, sizeof(setting),
		    "weir_limit_set(%" PRIu32 ", (size_t)%" PRIu64 " << 20);",
		    verdict->device, mib);
	cause = add_cause(verdict->causes, "limit",
	    verdict->device_free - headroom,
	    "The limit is the cause, not the device: %s are held of the %s "
	    "that %s allows. The limit allows %s more, and the driver has %s "
	    "free.",
	    size_text(verdict->all.reserved), size_text(verdict->limit),
	    verdict->limit_source[0] != '\0' ? verdict->limit_source :
					       "a limit",
	    size_text(headroom), size_text(verdict->device_free));
	add_remedy(cause, PRICE_NONE, verdict->device_free - headroom, setting,
	    others_lose);
}

/* Add a limit of PyTorch as a cause if the driver had enough free memory.
 * PyTorch's snapshots do not have the limit itself. */
static void
add_torch_limit(const struct snapshot *snapshot, struct verdict *verdict)
{
	uint64_t bytes = verdict->bytes;
	uint64_t segment = bytes <= TORCH_SMALL_MAX ? TORCH_SMALL_SEGMENT :
	    bytes < TORCH_OWN_LEAST                 ? TORCH_LARGE_SEGMENT :
						      bytes + TORCH_SEGMENT_STEP;

	if (settings_of_weir(snapshot) || !verdict->free_known ||
	    verdict->device_free < segment)
		return;
	add_remedy(
	    add_cause(verdict->causes, "limit", verdict->device_free,
		"The driver had %s free, which is enough: a limit of the "
		"process may be the cause (set_per_process_memory_fraction).",
		size_text(verdict->device_free)),
	    PRICE_NONE, verdict->device_free,
	    "torch.cuda.set_per_process_memory_fraction(1.0)", others_lose);
}

/* Add fragmentation as a cause: the stream has enough free memory, but in
 * pieces. */
static void
add_pieces(const struct snapshot *snapshot, struct verdict *verdict)
{
	const struct sums *own = &verdict->own;
	json_t *cause;

	if (settings_of_weir(snapshot) && verdict->stream == UINT64_MAX) {
		add_cause(verdict->causes, "fragmentation", own->free,
		    "Fragmentation: memory of no stream has %s free, but in "
		    "%" PRIu64 " pieces of at most %s. cudaMalloc's memory "
		    "lies in segments of the driver, which cannot be put "
		    "together; memory of a stream (cudaMallocAsync) can.",
		    size_text(own->free), own->free_blocks,
		    size_text(own->largest_free));
		return;
	}
	cause = add_cause(verdict->causes, "fragmentation", own->free,
	    "Fragmentation: the stream's own pool has %s free, but in "
	    "%" PRIu64 " pieces of at most %s%s",
	    size_text(own->free), own->free_blocks,
	    size_text(own->largest_free),
	    settings_expandable(snapshot) ?
		", between blocks that are in use. Expandable segments are on; "
		"only whole free pieces of physical memory can be put "
		"together." :
		". Expandable segments map such pieces together.");
	offer_mapping(
	    snapshot, cause, own->free, own->free + verdict->others.free);
}

/* Add memory that the allocator holds for nobody. */
static void
add_idle(const struct snapshot *snapshot, struct verdict *verdict)
{
	const struct sums *const parts[] = { &verdict->own, &verdict->kind,
		&verdict->others };
	uint64_t idle = 0;
	uint64_t segments = 0;

	for (size_t i = 0; i < 3; i++) {
		idle += parts[i]->idle;
		segments += parts[i]->idle_segments;
	}
	if (idle == 0)
		return;
	add_remedy(
	    add_cause(verdict->causes, "idle", idle,
		"Nothing is in use in %" PRIu64 " segment%s: %s can go back "
		"to the driver.",
		segments, segments == 1 ? "" : "s", size_text(idle)),
	    PRICE_LITTLE, idle,
	    settings_of_weir(snapshot) ?
		"weir_trim(WEIR_DEVICE_ALL, 0, NULL);" :
		"torch.cuda.empty_cache()",
	    "calls of the driver, now and where the memory is taken again");
}

static void
find_own_causes(const struct snapshot *snapshot, struct verdict *verdict)
{
	const struct sums *own = &verdict->own;
	json_t *causes = verdict->causes;

	if (own->largest_free >= verdict->bytes)
		add_cause(causes, "fits", own->largest_free,
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
		add_cause(causes, "kind", verdict->kind.free,
		    "%s are free on the stream in the pool of %s blocks, "
		    "which does not serve this size.",
		    size_text(verdict->kind.free),
		    verdict->bytes <= TORCH_SMALL_MAX ? "large" : "small");
	add_idle(snapshot, verdict);
}

/* weir waits for all streams and takes their free memory before a request
 * fails, with any policy. So what is left is in pieces of physical memory that
 * have live blocks, and a policy helps by keeping memory in fewer pieces. */
static void
add_other_streams(const struct snapshot *snapshot, struct verdict *verdict)
{
	const struct sums *others = &verdict->others;
	const char *prefer =
	    setting_value(snapshot, "allocator_settings.weir_options.prefer");
	bool weir = settings_of_weir(snapshot);
	char setting[SETTINGS_LINE];
	json_t *cause;

	if (others->free == 0)
		return;
	cause = add_cause(verdict->causes, "other streams", others->free,
	    "Other streams have %s free, at most %s in a piece.%s",
	    size_text(others->free), size_text(others->largest_free),
	    weir ? "" :
		   " PyTorch's allocator does not reuse it for this stream, "
		   "because each stream has a pool of its own; weir in its "
		   "place (--torch) does.");
	if (!weir) {
		if (settings_expandable(snapshot) ||
		    others->largest_free < TORCH_LARGE_SEGMENT)
			offer_weir(cause, verdict->own.free + others->free);
		else
			offer_mapping(snapshot, cause, others->free,
			    verdict->own.free + others->free);
		return;
	}
	offer_mapping(snapshot, cause, 0, verdict->own.free + others->free);
	if (prefer == NULL || strcmp(prefer, "memory") != 0)
		add_remedy(cause, PRICE_TIME, others->free,
		    settings_weir_line(snapshot, "prefer", "memory", setting),
		    "time: streams wait for each other, and programs of "
		    "several busy streams took up to 2.7 times as long");
}

static void
find_other_causes(const struct snapshot *snapshot, struct verdict *verdict)
{
	const struct sums *all = &verdict->all;
	json_t *causes = verdict->causes;

	add_other_streams(snapshot, verdict);
	if (all->pending > 0)
		add_remedy(
		    add_cause(causes, "pending", all->pending,
			"%s are freed, but streams that were recorded on them "
			"still use them.",
			size_text(all->pending)),
		    PRICE_LITTLE, all->pending,
		    settings_of_weir(snapshot) ?
			"weir_stream_synchronize(NULL);" :
			"torch.cuda.synchronize()",
		    "a wait of the host until the streams are done");
	if (verdict->pools.free > 0)
		add_remedy(
		    add_cause(causes, "private pools", verdict->pools.free,
			"Private pools of graphs hold %s, of which %s are free "
			"and serve those graphs only.",
			size_text(verdict->pools.reserved),
			size_text(verdict->pools.free)),
		    PRICE_CODE, verdict->pools.reserved, NULL,
		    "a change of the program: graphs are deleted, and captured "
		    "again where they are needed");
	if (rounding_of(all) >= verdict->bytes)
		add_cause(causes, "rounding", rounding_of(all),
		    "Rounding takes %s in blocks that are in use; see "
		    "roundup_power2_divisions.",
		    size_text(rounding_of(all)));
}

enum { HOLDER_TEXT = CALLERS_TEXT + 64 };

/* Write the largest holder: " Most is held by forward (model.py:12): 3.00
 * GiB." */
static void
name_holder(const struct verdict *verdict, char text[HOLDER_TEXT])
{
	struct holders holders;
	char site[CALLERS_TEXT];

	text[0] = '\0';
	if (!holders_find(verdict->moment, (int)verdict->device, &holders))
		return;
	if (holders.count > 0)
		snprintf(text, HOLDER_TEXT, " Most is held by %s: %s.",
		    callers_text(
			verdict->callers, holders.items[0].stack, site),
		    size_text(holders.items[0].bytes));
	holders_drop(&holders);
}

/* Add that the free memory is enough, but lies in pieces. */
static void
add_scattered(const struct snapshot *snapshot, struct verdict *verdict,
    uint64_t free, const char *also)
{
	const struct sums *own = &verdict->own;
	uint64_t mapped = own->free + verdict->others.free;
	json_t *cause = add_cause(verdict->causes, "scattered", free,
	    "In all %s are free%s: enough, but in pieces that cannot be put "
	    "together.",
	    size_text(free), also);

	/* If the stream's own pool has enough, fragmentation is listed with
	 * the same remedy. */
	if (own->free < verdict->bytes && own->free > 0 &&
	    verdict->stream != UINT64_MAX &&
	    mapped + new_memory(verdict) >= verdict->bytes)
		offer_mapping(snapshot, cause, own->free, mapped);
}

/* Sum up all free memory, and compare it with the request. */
static void
find_total(const struct snapshot *snapshot, struct verdict *verdict)
{
	uint64_t free =
	    verdict->all.free + verdict->all.pending + new_memory(verdict);
	const char *also = !verdict->free_known ? "" :
	    verdict->limited ? ", with the driver's memory up to the limit" :
			       ", with the driver's free memory";
	char holder[HOLDER_TEXT];

	if (free >= verdict->bytes) {
		if (verdict->own.largest_free < verdict->bytes &&
		    new_memory(verdict) < verdict->bytes)
			add_scattered(snapshot, verdict, free, also);
		return;
	}
	name_holder(verdict, holder);
	add_cause(verdict->causes, "full", verdict->bytes - free,
	    "In all %s are free%s: %s too little, even in one piece. Free "
	    "something, or %s.%s",
	    size_text(free), also, size_text(verdict->bytes - free),
	    limit_binds(verdict) ? "raise the limit" : "use a larger device",
	    holder);
}

/* Put the causes in the order of their remedies' prices; causes of one price
 * keep their order. A free block that fits comes first: then no remedy is
 * needed. */
static void
sort_causes(struct verdict *verdict)
{
	json_t *sorted = json_array();
	json_t *one;
	size_t i;

	for (int price = PRICE_NONE; price <= PRICE_UNKNOWN; price++)
		json_array_foreach(verdict->causes, i, one)
		{
			int of_cause = (int)json_integer_value(
			    json_object_get(one, "price"));

			if (strcmp(json_string_value(
				       json_object_get(one, "cause")),
				"fits") == 0)
				of_cause = PRICE_NONE;
			if (of_cause == price)
				json_array_append(sorted, one);
		}
	json_array_foreach(sorted, i, one)
	{
		json_object_del(one, "price");
	}
	json_decref(verdict->causes);
	verdict->causes = sorted;
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
	add_limit(snapshot, verdict);
	add_torch_limit(snapshot, verdict);
	find_own_causes(snapshot, verdict);
	find_other_causes(snapshot, verdict);
	find_total(snapshot, verdict);
	sort_causes(verdict);
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
verdict_site(const struct snapshot *snapshot, const struct verdict *verdict,
    char text[CALLERS_TEXT])
{
	return callers_text(
	    verdict->callers, snapshot->events.stack[verdict->event], text);
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
