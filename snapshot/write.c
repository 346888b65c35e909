/*
 * Keys and words that occur again are in one table, each with its memo.
 */
#include "snapshot/write.h"

#include <stdio.h>
#include <string.h>

#include "base/meta.h"
#include "base/status.h"
#include "snapshot/frames.h"
#include "snapshot/tuning.h"
#include "stacks/text.h"

/* X(name): the keys and words as written, except those that occur once. */
#define WORDS(X)                                                               \
	X(device)                                                              \
	X(address)                                                             \
	X(total_size)                                                          \
	X(stream)                                                              \
	X(segment_type)                                                        \
	X(allocated_size)                                                      \
	X(active_size)                                                         \
	X(requested_size)                                                      \
	X(segment_pool_id)                                                     \
	X(is_expandable)                                                       \
	X(frames)                                                              \
	X(blocks)                                                              \
	X(small)                                                               \
	X(large)                                                               \
	X(size)                                                                \
	X(state)                                                               \
	X(active_allocated)                                                    \
	X(active_pending_free)                                                 \
	X(inactive)                                                            \
	X(cached)                                                              \
	X(heap)                                                                \
	X(epoch)                                                               \
	X(action)                                                              \
	X(addr)                                                                \
	X(device_free)                                                         \
	X(time_us)                                                             \
	X(compile_context)                                                     \
	X(user_metadata)                                                       \
	X(pool_id)                                                             \
	X(thread_id)                                                           \
	X(seq)                                                                 \
	X(block_size)                                                          \
	X(served_by)                                                           \
	X(name)                                                                \
	X(stage)                                                               \
	X(START)                                                               \
	X(END)

enum word {
#define WORD_ENUM(name) WORD_##name,
	WORDS(WORD_ENUM)
#undef WORD_ENUM
	    WORD_COUNT
};

static const char *const words[] = {
#define WORD_NAME(name) #name,
	WORDS(WORD_NAME)
#undef WORD_NAME
};

struct snapshot_file {
	struct writer w;
	struct frames *frames;
	struct clock_point began;
	struct clock_point now;
	memo words[WORD_COUNT];
	memo actions[TRACE_ACTION_COUNT];
	memo no_pool;
	memo no_context; /* "N/A" */
	memo texts[TEXTS_MAX];
};

/* ---- Words ------------------------------------------------------------- */

static void
key(struct snapshot_file *s, enum word word)
{
	writer_key(&s->w, words[word], &s->words[word]);
}

static void
put_word(struct snapshot_file *s, enum word word)
{
	writer_word(&s->w, words[word], &s->words[word]);
}

static void
put_interned(struct snapshot_file *s, uint32_t id)
{
	writer_word(&s->w, text_get(id), &s->texts[id]);
}

static void
put_time(struct snapshot_file *s, uint64_t ticks)
{
	writer_uint(&s->w, clock_epoch_ns(&s->began, &s->now, ticks) / 1000);
}

/* The default stream is written as 0. WEIR_STREAM_ANY is written as -1, because
 * some readers cannot store numbers of more than 63 bits. */
static void
write_stream(struct snapshot_file *s, uint64_t stream)
{
	if (stream == (uint64_t)(uintptr_t)WEIR_STREAM_LEGACY)
		stream = 0;
	writer_int(&s->w, (int64_t)stream);
}

/* As in PyTorch, the first number names a graph's pool and the second a user's.
 */
static void
put_pool(struct snapshot_file *s, struct trace_pool pool)
{
	bool none = pool.graph == 0 && pool.user == 0;

	if (none && writer_again(&s->w, s->no_pool))
		return;
	writer_pair(&s->w, pool.graph, pool.user);
	if (none)
		writer_keep(&s->w, &s->no_pool);
}

/* ---- Beginning and end ------------------------------------------------- */

enum weir_status
snapshot_write_begin(struct out *file, enum weir_snapshot_format format,
    struct snapshot_file **out)
{
	struct snapshot_file *s = meta_zalloc(sizeof(*s));
	if (s != NULL)
		s->frames = frames_new(history_stacks(), HISTORY_STACKS);
	if (s == NULL || s->frames == NULL) {
		meta_free(s, sizeof(*s));
		return status_set(WEIR_EHOSTMEM,
		    "%s: no host memory for a snapshot", file->path);
	}
	frames_name_all(s->frames);
	s->began = history_began();
	s->now = clock_now();
	writer_begin(&s->w, file, format == WEIR_SNAPSHOT_JSON);
	writer_dict(&s->w);
	*out = s;
	return WEIR_OK;
}

static void
drop_file(struct snapshot_file *s)
{
	frames_delete(s->frames);
	meta_free(s, sizeof(*s));
}

enum weir_status
snapshot_write_close(struct snapshot_file *s)
{
	writer_close(&s->w);
	writer_end(&s->w);
	if (!frames_complete(s->frames)) {
		enum weir_status status = status_set(WEIR_EHOSTMEM,
		    "%s: no host memory to name stacks", s->w.out->path);
		snapshot_write_abandon(s);
		return status;
	}
	enum weir_status status = out_close(s->w.out);
	drop_file(s);
	return status;
}

void
snapshot_write_abandon(struct snapshot_file *s)
{
	out_abandon(s->w.out);
	drop_file(s);
}

/* ---- Segments ---------------------------------------------------------- */

void
snapshot_write_segments(struct snapshot_file *s)
{
	writer_name(&s->w, "segments");
	writer_list(&s->w);
}

void
snapshot_write_segments_end(struct snapshot_file *s)
{
	writer_close(&s->w);
}

void
snapshot_write_host_segments(struct snapshot_file *s)
{
	writer_name(&s->w, "host_segments");
	writer_list(&s->w);
}

void
snapshot_write_host_segments_end(struct snapshot_file *s)
{
	writer_close(&s->w);
	writer_name(&s->w, "host_traces");
	writer_list(&s->w);
	writer_close(&s->w);
}

static void
write_block(struct snapshot_file *s, const struct trace_block *block)
{
	static const enum word states[] = { WORD_active_allocated,
		WORD_active_pending_free, WORD_inactive };

	writer_dict(&s->w);
	key(s, WORD_address);
	writer_uint(&s->w, block->addr);
	key(s, WORD_size);
	writer_uint(&s->w, block->size);
	key(s, WORD_requested_size);
	writer_uint(&s->w, block->requested);
	key(s, WORD_state);
	put_word(s, states[block->state]);
	key(s, WORD_stream);
	write_stream(s, block->stream);
	key(s, WORD_cached);
	writer_bool(&s->w, block->cached);
	if (block->free) {
		key(s, WORD_heap);
		writer_uint(&s->w, block->heap);
		key(s, WORD_epoch);
		writer_uint(&s->w, block->epoch);
	}
	key(s, WORD_frames);
	frames_write(s->frames, &s->w, block->stack);
	writer_close(&s->w);
}

void
snapshot_write_segment(
    struct snapshot_file *s, const struct trace_segment *segment)
{
	writer_dict(&s->w);
	key(s, WORD_device);
	writer_int(&s->w, segment->device);
	key(s, WORD_address);
	writer_uint(&s->w, segment->addr);
	key(s, WORD_total_size);
	writer_uint(&s->w, segment->size);
	key(s, WORD_allocated_size);
	writer_uint(&s->w, segment->allocated);
	key(s, WORD_active_size);
	writer_uint(&s->w, segment->active);
	key(s, WORD_requested_size);
	writer_uint(&s->w, segment->requested);
	key(s, WORD_stream);
	write_stream(s, segment->stream);
	key(s, WORD_segment_type);
	put_word(s, segment->small ? WORD_small : WORD_large);
	key(s, WORD_segment_pool_id);
	put_pool(s, segment->pool);
	key(s, WORD_is_expandable);
	writer_bool(&s->w, segment->expandable);
	key(s, WORD_frames);
	frames_write(s->frames, &s->w, segment->stack);
	key(s, WORD_blocks);
	writer_list(&s->w);
	for (size_t i = 0; i < segment->block_count; i++)
		write_block(s, &segment->blocks[i]);
	writer_close(&s->w);
	writer_close(&s->w);
}

/* ---- Events ------------------------------------------------------------ */

void
snapshot_write_traces(struct snapshot_file *s)
{
	/* The time now; no later event is written. */
	s->now = clock_now();
	writer_name(&s->w, "device_traces");
	writer_list(&s->w);
}

void
snapshot_write_traces_end(struct snapshot_file *s)
{
	writer_close(&s->w);
}

void
snapshot_write_trace(struct snapshot_file *s)
{
	writer_list(&s->w);
}

void
snapshot_write_trace_end(struct snapshot_file *s)
{
	writer_close(&s->w);
}

static void
put_origin(struct snapshot_file *s, const struct trace_event *event)
{
	key(s, WORD_compile_context);
	if (event->compile == TEXT_NONE)
		writer_word(&s->w, "N/A", &s->no_context);
	else
		put_interned(s, event->compile);
	key(s, WORD_user_metadata);
	put_interned(s, event->metadata);
	key(s, WORD_thread_id);
	writer_uint(&s->w, event->thread);
}

/* "wait for stream 0x7f10, grown 64.00 MiB" */
static void
put_served(struct snapshot_file *s, const struct trace_event *event)
{
	struct served served = history_served(event);
	char text[SERVED_TEXT];

	key(s, WORD_served_by);
	writer_text(&s->w, served_text(&served, text));
}

static void
put_event(
    struct snapshot_file *s, const struct trace_event *event, uint64_t seq)
{
	enum trace_action action = (enum trace_action)event->action;

	writer_dict(&s->w);
	key(s, WORD_action);
	writer_word(&s->w, trace_action_name(action), &s->actions[action]);
	key(s, action == TRACE_oom ? WORD_device_free : WORD_addr);
	writer_uint(&s->w, event->addr);
	key(s, WORD_size);
	writer_uint(&s->w, event->size);
	key(s, WORD_stream);
	write_stream(s, event->stream);
	key(s, WORD_time_us);
	put_time(s, event->ticks);
	put_origin(s, event);
	key(s, WORD_pool_id);
	put_pool(s, event->pool);
	key(s, WORD_seq);
	writer_uint(&s->w, seq);
	if (event->granules != 0) {
		key(s, WORD_block_size);
		writer_uint(&s->w, event->granules * (uint64_t)WEIR_GRANULE);
	}
	if (event->served_by != SERVED_own)
		put_served(s, event);
	if (event->stack != 0) {
		key(s, WORD_frames);
		frames_write(s->frames, &s->w, event->stack);
	}
	writer_close(&s->w);
}

void
snapshot_write_events(struct snapshot_file *s, const struct trace_event *events,
    size_t n, uint64_t first)
{
	for (size_t i = 0; i < n; i++)
		put_event(s, &events[i], first + i);
}

/* ---- All else ---------------------------------------------------------- */

static void
put_roundup(struct snapshot_file *s, const uint32_t *roundup)
{
	char name[16];

	writer_name(&s->w, "roundup_power2_divisions");
	writer_dict(&s->w);
	for (unsigned i = 0; i < TRACE_ROUNDUP_CLASSES; i++) {
		snprintf(name, sizeof(name), "%u", 1u << i);
		writer_name(&s->w, name);
		writer_uint(&s->w, roundup[i]);
	}
	writer_close(&s->w);
}

static void
name_bool(struct snapshot_file *s, const char *name, bool value)
{
	writer_name(&s->w, name);
	writer_bool(&s->w, value);
}

static void
name_uint(struct snapshot_file *s, const char *name, uint64_t value)
{
	writer_name(&s->w, name);
	writer_uint(&s->w, value);
}

static void
name_text(struct snapshot_file *s, const char *name, const char *value)
{
	writer_name(&s->w, name);
	writer_text(&s->w, value);
}

/* Write a dict of the options that are set, with their values or their sources.
 */
static void
put_set_options(struct snapshot_file *s, const char *name,
    const struct trace_settings *settings, bool sources)
{
	writer_name(&s->w, name);
	writer_dict(&s->w);
	for (size_t i = 0; i < settings->option_count; i++) {
		const struct trace_option *option = &settings->options[i];

		if (option->source != NULL)
			name_text(s, option->key,
			    sources ? option->source : option->value);
	}
	writer_close(&s->w);
}

/* Write a dict of the limits, with the devices' numbers as keys. */
static void
put_limits(
    struct snapshot_file *s, const struct trace_device *devices, size_t n)
{
	static const char *const names[] = { "weir_device_bytes",
		"weir_limit_bytes", "weir_limit_sources" };

	for (int part = 0; part < 3; part++) {
		writer_name(&s->w, names[part]);
		writer_dict(&s->w);
		for (size_t i = 0; i < n; i++) {
			char key[16];

			snprintf(key, sizeof(key), "%d", devices[i].device);
			if (part == 0)
				name_uint(s, key, devices[i].total_bytes);
			else if (devices[i].limit_bytes == UINT64_MAX)
				continue;
			else if (part == 1)
				name_uint(s, key, devices[i].limit_bytes);
			else
				name_text(s, key, devices[i].limit_source);
		}
		writer_close(&s->w);
	}
}

/* A number of a device by its name; 0: it has none. */
static uint64_t
number_of(const struct trace_device *device, const char *name)
{
	for (size_t i = 0; i < device->number_count; i++)
		if (strcmp(device->numbers[i].name, name) == 0)
			return device->numbers[i].value;
	return 0;
}

/* Write a dict of how long streams waited inside, by device: a reader of the
 * events cannot see it (tools/weir/plan). */
static void
put_waits(struct snapshot_file *s, const struct trace_device *devices, size_t n)
{
	writer_name(&s->w, "weir_gpu_wait_ns");
	writer_dict(&s->w);
	for (size_t i = 0; i < n; i++) {
		char key[16];

		snprintf(key, sizeof(key), "%d", devices[i].device);
		name_uint(s, key, number_of(&devices[i], "gpu_wait_ns"));
	}
	writer_close(&s->w);
}

/* Write a dict of where page-locked memory comes from, by device. */
static void
put_pinned_sources(
    struct snapshot_file *s, const struct trace_device *devices, size_t n)
{
	writer_name(&s->w, "weir_pinned_sources");
	writer_dict(&s->w);
	for (size_t i = 0; i < n; i++) {
		char key[16];

		snprintf(key, sizeof(key), "%d", devices[i].device);
		if (devices[i].pinned_source != NULL)
			name_text(s, key, devices[i].pinned_source);
	}
	writer_close(&s->w);
}

void
snapshot_write_settings(struct snapshot_file *s,
    const struct trace_settings *settings, const struct trace_device *devices,
    size_t n)
{
	bool unsplit = settings->max_split_size == UINT64_MAX;

	writer_name(&s->w, "allocator_settings");
	writer_dict(&s->w);
	name_text(s, "PYTORCH_CUDA_ALLOC_CONF", settings->conf);
	writer_name(&s->w, "max_split_size");
	writer_int(&s->w, unsplit ? -1 : (int64_t)settings->max_split_size);
	writer_name(&s->w, "garbage_collection_threshold");
	writer_real(&s->w, settings->garbage_collection_threshold);
	name_bool(s, "expandable_segments", settings->expandable_segments);
	name_uint(s, "pinned_num_register_threads", settings->pinned_threads);
	/* weir never calls the driver under its lock. */
	name_bool(s, "release_lock_on_cudamalloc", true);
	name_bool(
	    s, "pinned_use_cuda_host_register", settings->pinned_register);
	name_bool(s, "graph_capture_record_stream_reuse", false);
	put_roundup(s, settings->roundup);
	name_uint(s, "trace_alloc_max_entries",
	    history_is_kept() ? history_settings().capacity : 0);
	name_bool(s, "trace_alloc_overflowed", settings->overflowed);
	if (settings->partial)
		name_bool(s, "weir_partial", true);
	put_set_options(s, "weir_options", settings, false);
	put_set_options(s, "weir_option_sources", settings, true);
	put_limits(s, devices, n);
	put_waits(s, devices, n);
	put_pinned_sources(s, devices, n);
	writer_close(&s->w);
}

static void
put_annotation(struct snapshot_file *s, const struct trace_annotation *note)
{
	writer_dict(&s->w);
	key(s, WORD_name);
	put_interned(s, note->name);
	key(s, WORD_stage);
	put_word(s, note->end ? WORD_END : WORD_START);
	key(s, WORD_device);
	writer_int(&s->w, note->device);
	key(s, WORD_time_us);
	put_time(s, note->ticks);
	writer_close(&s->w);
}

void
snapshot_write_annotations(struct snapshot_file *s)
{
	struct trace_annotation notes[WRITE_NOTES];
	uint64_t from = 0;
	size_t n;

	writer_name(&s->w, "external_annotations");
	writer_list(&s->w);
	while ((n = history_annotations(&from, notes, WRITE_NOTES)) > 0) {
		for (size_t i = 0; i < n; i++)
			put_annotation(s, &notes[i]);
		from += n;
	}
	writer_close(&s->w);
}

static void
put_device(struct snapshot_file *s, const struct trace_device *device)
{
	writer_dict(&s->w);
	writer_name(&s->w, "device");
	writer_int(&s->w, device->device);
	name_uint(s, "events_recorded", device->recorded);
	name_uint(s, "events_dropped", device->dropped);
	writer_name(&s->w, "statistics");
	writer_dict(&s->w);
	for (size_t i = 0; i < device->number_count; i++) {
		writer_name(&s->w, device->numbers[i].name);
		/* "No bound" is written as -1, as in PyTorch. */
		writer_int(&s->w, (int64_t)device->numbers[i].value);
	}
	writer_close(&s->w);
	writer_close(&s->w);
}

static void
put_history(struct snapshot_file *s)
{
	static const char *const levels[] = { "none", "state", "alloc", "all" };
	static const char *const stacks[] = { "all", "python" };
	struct history_settings settings = history_settings();

	writer_name(&s->w, "history");
	writer_dict(&s->w);
	name_bool(s, "on", history_is_kept());
	name_text(s, "level", levels[settings.level]);
	name_text(s, "stacks", stacks[settings.stacks]);
	name_uint(s, "max_entries", settings.capacity);
	writer_name(&s->w, "skip");
	writer_list(&s->w);
	for (unsigned i = 0; i < TRACE_ACTION_COUNT; i++)
		if ((settings.skip & 1u << i) != 0)
			writer_text(
			    &s->w, trace_action_name((enum trace_action)i));
	writer_close(&s->w);
	name_uint(s, "stacks_lost",
	    history_stacks() != NULL ? stack_table_lost(history_stacks()) : 0);
	writer_close(&s->w);
}

void
snapshot_write_weir(struct snapshot_file *s,
    const struct trace_settings *settings, const struct trace_device *devices,
    size_t n)
{
	writer_name(&s->w, "weir");
	writer_dict(&s->w);
	name_text(s, "version", weir_version());
	writer_name(&s->w, "time_us");
	writer_uint(&s->w, s->now.epoch_ns / 1000);
	if (frames_lack(s->frames) != NULL)
		name_text(s, "names_lack", frames_lack(s->frames));
	put_history(s);
	writer_name(&s->w, "options");
	writer_dict(&s->w);
	for (size_t i = 0; i < settings->option_count; i++)
		name_text(
		    s, settings->options[i].key, settings->options[i].value);
	writer_close(&s->w);
	writer_name(&s->w, "devices");
	writer_list(&s->w);
	for (size_t i = 0; i < n; i++)
		put_device(s, &devices[i]);
	writer_close(&s->w);
	writer_close(&s->w);
}
