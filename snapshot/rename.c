/*
 * Names for the frames of a file that was written where no helper was. Each
 * named frame becomes one frame or, with inlined calls, several; so stacks are
 * built anew, and all that refers to them is changed.
 */
#include <string.h>

#include "base/meta.h"
#include "snapshot/rows.h"
#include "stacks/names.h"

/* The places of an old frame: `count` from `first` on. */
struct renamed_frame {
	uint32_t first;
	uint32_t count;
};

struct renaming {
	struct builder *builder;
	uint32_t old_frames;
	uint32_t old_stacks;
	uint32_t query_count;
	struct name_query *queries;
	uint32_t *asked; /* the frame of each query */
	struct renamed_frame *renamed;
	struct name_place *places;
	uint32_t place_count;
	uint32_t place_room;
	uint32_t *stacks; /* the new number of each stack */
	bool incomplete;  /* memory was lacking */
};

/* Names of another build of a file would be wrong, so a frame must say which
 * one it is of. */
static bool
wants_names(const struct snapshot_frame *frame)
{
	return frame->module != 0 && frame->build_id != 0;
}

static enum weir_status
renaming_begin(struct renaming *r)
{
	const struct snapshot *snapshot = r->builder->snapshot;

	r->queries = meta_alloc((r->query_count + 1) * sizeof(*r->queries));
	r->asked = meta_alloc((r->query_count + 1) * sizeof(*r->asked));
	r->renamed = meta_zalloc((r->old_frames + 1) * sizeof(*r->renamed));
	r->stacks = meta_alloc((r->old_stacks + 1) * sizeof(*r->stacks));
	if (r->queries == NULL || r->asked == NULL || r->renamed == NULL ||
	    r->stacks == NULL)
		return build_no_memory();
	for (uint32_t i = 0, n = 0; i < r->old_frames; i++) {
		const struct snapshot_frame *frame = &snapshot->frames[i];

		if (!wants_names(frame))
			continue;
		r->asked[n] = i;
		r->queries[n++] = (struct name_query){
			.module = snapshot_text(snapshot, frame->module),
			.build_id = snapshot_text(snapshot, frame->build_id),
			.offset = frame->offset - 1,
		};
	}
	return WEIR_OK;
}

static void
renaming_end(struct renaming *r)
{
	meta_free(r->queries, (r->query_count + 1) * sizeof(*r->queries));
	meta_free(r->asked, (r->query_count + 1) * sizeof(*r->asked));
	meta_free(r->renamed, (r->old_frames + 1) * sizeof(*r->renamed));
	meta_free(r->stacks, (r->old_stacks + 1) * sizeof(*r->stacks));
	meta_free(r->places, r->place_room * sizeof(*r->places));
}

/* Keep the places; the snapshot's texts, which the queries refer to, must not
 * move yet. */
static void
keep_places(void *user, size_t i, const struct name_place *places, size_t n)
{
	struct renaming *r = user;

	if (r->place_count + n > r->place_room) {
		uint32_t room = 2 * r->place_room + 64;
		struct name_place *moved = meta_alloc(room * sizeof(*moved));

		if (moved == NULL) {
			r->incomplete = true;
			return;
		}
		if (r->place_count > 0)
			memcpy(
			    moved, r->places, r->place_count * sizeof(*moved));
		meta_free(r->places, r->place_room * sizeof(*r->places));
		r->places = moved;
		r->place_room = room;
	}
	memcpy(&r->places[r->place_count], places, n * sizeof(*places));
	r->renamed[r->asked[i]] =
	    (struct renamed_frame){ r->place_count, (uint32_t)n };
	r->place_count += (uint32_t)n;
}

/* A place without a name or a file keeps those that the frame has. */
static enum weir_status
build_place(struct renaming *r, const struct snapshot_frame *old,
    const struct name_place *place, uint32_t *out)
{
	struct snapshot_frame frame = {
		.name = old->name, .file = old->file, .line = place->line
	};
	struct value text;
	enum weir_status status = WEIR_OK;

	if (place->function[0] != '\0') {
		status = builder_string(r->builder, place->function,
		    strlen(place->function), &text);
		frame.name = text.id;
	}
	if (status == WEIR_OK && place->file[0] != '\0') {
		status = builder_string(
		    r->builder, place->file, strlen(place->file), &text);
		frame.file = text.id;
	}
	return status == WEIR_OK ? build_frame(r->builder, frame, out) : status;
}

/* Has a frame of the stack got names? */
static bool
is_renamed(const struct renaming *r, const struct snapshot_stack *stack)
{
	const uint32_t *frames =
	    r->builder->snapshot->stack_frames + stack->first;

	for (uint32_t i = 0; i < stack->count; i++)
		if (r->renamed[frames[i]].count > 0)
			return true;
	return false;
}

static enum weir_status
rename_stack(struct renaming *r, struct snapshot_stack stack, uint32_t *frames,
    uint32_t *out)
{
	struct snapshot *snapshot = r->builder->snapshot;
	enum weir_status status = WEIR_OK;
	size_t n = 0;

	for (uint32_t i = 0; i < stack.count; i++) {
		uint32_t id = snapshot->stack_frames[stack.first + i];
		struct renamed_frame renamed = r->renamed[id];
		struct snapshot_frame old = snapshot->frames[id];

		if (renamed.count == 0)
			frames[n++] = id;
		for (uint32_t k = 0; k < renamed.count; k++) {
			status = build_place(r, &old,
			    &r->places[renamed.first + k], &frames[n++]);
			if (status != WEIR_OK)
				return status;
		}
	}
	return build_stack(r->builder, frames, n, out);
}

static enum weir_status
rename_stacks(struct renaming *r)
{
	struct snapshot *snapshot = r->builder->snapshot;
	enum weir_status status = WEIR_OK;

	for (uint32_t i = 0; i < r->old_stacks && status == WEIR_OK; i++) {
		struct snapshot_stack stack = snapshot->stacks[i];
		size_t bytes =
		    (size_t)stack.count * NAME_PLACES_MAX * sizeof(uint32_t);
		uint32_t *frames;

		r->stacks[i] = i;
		if (!is_renamed(r, &stack))
			continue;
		frames = meta_alloc(bytes);
		if (frames == NULL)
			return build_no_memory();
		status = rename_stack(r, stack, frames, &r->stacks[i]);
		meta_free(frames, bytes);
	}
	return status;
}

static void
refer_to_renamed(struct snapshot *snapshot, const uint32_t *stacks)
{
	for (uint32_t i = 0; i < snapshot->events.count; i++)
		snapshot->events.stack[i] = stacks[snapshot->events.stack[i]];
	for (uint32_t i = 0; i < snapshot->block_count; i++)
		snapshot->blocks[i].stack = stacks[snapshot->blocks[i].stack];
	for (uint32_t i = 0; i < snapshot->segment_count + snapshot->host_count;
	     i++)
		snapshot->segments[i].stack =
		    stacks[snapshot->segments[i].stack];
}

enum weir_status
build_names(struct builder *builder)
{
	struct snapshot *snapshot = builder->snapshot;
	struct names names = { 0 };
	struct renaming r = { .builder = builder,
		.old_frames = snapshot->frame_count,
		.old_stacks = snapshot->stack_count };

	for (uint32_t i = 0; i < snapshot->frame_count; i++)
		r.query_count += wants_names(&snapshot->frames[i]);
	if (r.query_count == 0)
		return WEIR_OK;
	enum weir_status status = renaming_begin(&r);
	if (status == WEIR_OK) {
		names_ask(
		    &names, r.queries, r.query_count, false, keep_places, &r);
		status = r.incomplete ? build_no_memory() : rename_stacks(&r);
	}
	if (status == WEIR_OK)
		refer_to_renamed(snapshot, r.stacks);
	renaming_end(&r);
	return status;
}
