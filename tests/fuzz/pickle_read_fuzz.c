/*
 * Arbitrary bytes as a pickled snapshot: read, or refused with a reason. Each
 * number in the snapshot is inside its array.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "snapshot/pickle_read.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
expect(bool holds)
{
	if (!holds)
		abort();
}

static void
check_events(const struct snapshot *snapshot)
{
	const struct snapshot_events *events = &snapshot->events;
	uint32_t next = 0;

	for (uint32_t d = 0; d < snapshot->trace_count; d++) {
		expect(snapshot->traces[d].first == next);
		next += snapshot->traces[d].count;
		for (uint32_t i = snapshot->traces[d].first; i < next; i++)
			expect(events->device[i] == d);
	}
	expect(next == events->count);
	for (uint32_t i = 0; i < events->count; i++) {
		expect(events->action[i] < snapshot->action_count);
		expect(events->bytes[i] <= WEIR_SIZE_MAX);
		expect(events->time_us[i] >= 0);
		expect(events->stack[i] < snapshot->stack_count);
		expect(events->pool[i] < snapshot->pool_count);
		expect(events->context[i] < snapshot->string_count);
		expect(events->metadata[i] < snapshot->string_count);
	}
}

static void
check_segments(const struct snapshot *snapshot)
{
	for (uint32_t i = 0; i < snapshot->segment_count; i++) {
		const struct snapshot_segment *segment = &snapshot->segments[i];

		expect(segment->address + segment->bytes >= segment->address);
		expect(segment->first_block <= snapshot->block_count &&
		    segment->block_count <=
			snapshot->block_count - segment->first_block);
		expect(segment->stack < snapshot->stack_count);
		expect(segment->pool < snapshot->pool_count);
		for (uint32_t b = 0; b < segment->block_count; b++) {
			const struct snapshot_block *block =
			    &snapshot->blocks[segment->first_block + b];

			expect(block->state < SNAPSHOT_STATES);
			expect(block->stack < snapshot->stack_count);
			expect(block->bytes <= WEIR_SIZE_MAX);
			expect(block->address + block->bytes >= block->address);
		}
	}
}

static void
check_names(const struct snapshot *snapshot)
{
	for (uint32_t i = 0; i < snapshot->string_count; i++)
		expect(
		    snapshot->strings[i] + strlen(snapshot_text(snapshot, i)) <
		    snapshot->text_bytes);
	for (uint32_t i = 0; i < snapshot->stack_count; i++)
		expect(snapshot->stacks[i].first + snapshot->stacks[i].count <=
		    snapshot->stack_frame_count);
	for (uint32_t i = 0; i < snapshot->stack_frame_count; i++)
		expect(snapshot->stack_frames[i] < snapshot->frame_count);
	for (uint32_t i = 0; i < snapshot->frame_count; i++)
		expect(snapshot->frames[i].name < snapshot->string_count &&
		    snapshot->frames[i].file < snapshot->string_count);
	for (uint32_t i = 0; i < snapshot->setting_count; i++)
		expect(snapshot->settings[i].name < snapshot->string_count &&
		    snapshot->settings[i].value < snapshot->string_count);
	for (uint32_t i = 0; i < snapshot->annotation_count; i++)
		expect(snapshot->annotations[i].name < snapshot->string_count &&
		    snapshot->annotations[i].stage < snapshot->string_count);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct snapshot *snapshot = NULL;
	struct source source;

	source_of_memory(&source, data, size);
	if (pickle_read(&source, &snapshot) == WEIR_OK) {
		check_segments(snapshot);
		check_events(snapshot);
		check_names(snapshot);
		snapshot_free(snapshot);
	} else if (weir_last_error()[0] == '\0') {
		abort();
	}
	return 0;
}
