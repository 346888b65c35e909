/*
 * The sums are an array that is indexed by the numbers of stacks. Equal stacks
 * of one snapshot have the same number.
 */
#include "tools/weir/reading/snapshot_holders.h"

#include <stdlib.h>

#include "tools/weir/tool.h"

/* FNV-1a, of 64 bits. */
static uint64_t
hash_frame_text(uint64_t hash, const char *text)
{
	for (; *text != '\0'; text++)
		hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
	return (hash ^ 0xff) * UINT64_C(0x100000001b3);
}

static uint64_t
stack_key(const struct snapshot *snapshot, uint32_t stack)
{
	const struct snapshot_stack *frames = &snapshot->stacks[stack];
	uint64_t hash = UINT64_C(0xcbf29ce484222325);

	for (uint32_t i = 0; i < frames->count; i++) {
		const struct snapshot_frame *frame =
		    &snapshot
			 ->frames[snapshot->stack_frames[frames->first + i]];

		hash =
		    hash_frame_text(hash, snapshot_text(snapshot, frame->name));
		hash =
		    hash_frame_text(hash, snapshot_text(snapshot, frame->file));
		hash = (hash ^ frame->line) * UINT64_C(0x100000001b3);
	}
	return hash;
}

static int
compare_holders(const void *a, const void *b)
{
	const struct holder *one = a;
	const struct holder *other = b;

	if (one->bytes != other->bytes)
		return one->bytes > other->bytes ? -1 : 1;
	/* The order does not depend on the sort. */
	return one->stack < other->stack ? -1 : one->stack > other->stack;
}

static int
compare_keys(const void *a, const void *b)
{
	uint64_t one = (*(const struct holder *const *)a)->key;
	uint64_t other = (*(const struct holder *const *)b)->key;

	return one < other ? -1 : one > other;
}

static void
add_holders_of(struct holder *all, const struct snapshot *snapshot,
    const struct snapshot_segment *segment)
{
	for (uint32_t i = 0; i < segment->block_count; i++) {
		const struct snapshot_block *block =
		    &snapshot->blocks[segment->first_block + i];
		struct holder *holder = &all[block->stack];

		if (block->state == SNAPSHOT_INACTIVE)
			continue;
		holder->blocks++;
		holder->bytes += block->bytes;
		holder->requested += block->requested_bytes;
		if (block->bytes > holder->largest)
			holder->largest = block->bytes;
	}
}

bool
holders_find(const struct snapshot *snapshot, int device, struct holders *out)
{
	struct holder *all = calloc(snapshot->stack_count, sizeof(*all));

	*out = (struct holders){ .items = all };
	out->by_key = calloc(snapshot->stack_count, sizeof(*out->by_key));
	if (all == NULL || out->by_key == NULL) {
		complain("out of memory");
		holders_drop(out);
		return false;
	}
	for (uint32_t i = 0; i < snapshot->segment_count; i++)
		if (device < 0 ||
		    snapshot->segments[i].device == (uint32_t)device)
			add_holders_of(all, snapshot, &snapshot->segments[i]);
	for (uint32_t i = 0; i < snapshot->stack_count; i++) {
		if (all[i].blocks == 0)
			continue;
		all[out->count] = all[i];
		all[out->count].stack = i;
		all[out->count].key = stack_key(snapshot, i);
		out->count++;
	}
	qsort(all, out->count, sizeof(*all), compare_holders);
	for (size_t i = 0; i < out->count; i++)
		out->by_key[i] = &all[i];
	qsort((void *)out->by_key, out->count, sizeof(*out->by_key),
	    compare_keys);
	return true;
}

const struct holder *
holders_get(const struct holders *holders, uint64_t key)
{
	struct holder wanted = { .key = key };
	const struct holder *pointer = &wanted;
	const struct holder **found = NULL;

	if (holders->count > 0)
		found = bsearch((const void *)&pointer,
		    (const void *)holders->by_key, holders->count,
		    sizeof(*holders->by_key), compare_keys);
	return found == NULL ? NULL : *found;
}

void
holders_drop(struct holders *holders)
{
	free((void *)holders->by_key);
	free(holders->items);
	*holders = (struct holders){ 0 };
}
