#include "tools/weir/reading/snapshot_faults.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/weir/reading/snapshot_lives.h"
#include "tools/weir/reading/torch_sizes.h"

/* ---- Segments -------------------------------------------------------- */

/* Page-locked blocks need not be multiples of TORCH_GRANULE: PyTorch rounds
 * them to powers of two, and small ones too. */
static void
verify_block(const struct snapshot_segment *segment,
    const struct snapshot_block *block, uint64_t end, struct faults *faults)
{
	uint32_t device = segment->device;

	if (block->address > end)
		add_fault(faults, "I-1", device, block->address,
		    "a gap of %" PRIu64 " bytes before this block",
		    block->address - end);
	if (block->address < end)
		add_fault(faults, "I-1", device, block->address,
		    "overlaps the block before by %" PRIu64 " bytes",
		    end - block->address);
	if (block->bytes == 0)
		add_fault(faults, "I-1", device, block->address,
		    "a block of 0 bytes");
	if (block->bytes % TORCH_GRANULE != 0 && !faults->host)
		add_fault(faults, "I-1", device, block->address,
		    "%" PRIu64 " bytes are no multiple of %d", block->bytes,
		    TORCH_GRANULE);
	if (block->state != SNAPSHOT_INACTIVE &&
	    block->requested_bytes > block->bytes)
		add_fault(faults, "I-11", device, block->address,
		    "%" PRIu64 " bytes were asked for in a block of %" PRIu64,
		    block->requested_bytes, block->bytes);
}

static void
verify_reported_sum(const struct snapshot_segment *segment, const char *name,
    bool is_reported, uint64_t reported, uint64_t counted,
    struct faults *faults)
{
	if (is_reported && reported != counted)
		add_fault(faults, "I-3", segment->device, segment->address,
		    "%s is %" PRIu64 " in the file, but its blocks have "
		    "%" PRIu64,
		    name, reported, counted);
}

/* Is the block free in a pool? */
static bool
is_free(const struct snapshot_block *block)
{
	return block->state == SNAPSHOT_INACTIVE && !block->cached &&
	    !block->kept_apart;
}

/* Would the allocator have merged two neighbours? weir merges free blocks of
 * one heap and one epoch, PyTorch those of one stream. */
static bool
must_be_one(const struct snapshot_block *a, const struct snapshot_block *b)
{
	return is_free(a) && is_free(b) && a->stream == b->stream &&
	    a->heap == b->heap && a->epoch == b->epoch;
}

static void
verify_segment(const struct snapshot *snapshot,
    const struct snapshot_segment *segment, struct faults *faults)
{
	const struct snapshot_block *blocks =
	    snapshot->blocks + segment->first_block;
	uint64_t end = segment->address;
	struct sums sums = { 0 };

	for (uint32_t i = 0; i < segment->block_count; i++) {
		verify_block(segment, &blocks[i], end, faults);
		if (i > 0 && must_be_one(&blocks[i - 1], &blocks[i]))
			add_fault(faults, "I-5", segment->device,
			    blocks[i].address,
			    "free, and so is the block before");
		end = blocks[i].address + blocks[i].bytes;
	}
	if (end != segment->address + segment->bytes)
		add_fault(faults, "I-1", segment->device, segment->address,
		    "the blocks end at %" PRIx64 ", the segment at %" PRIx64,
		    end, segment->address + segment->bytes);
	sums_add(&sums, snapshot, segment);
	verify_reported_sum(segment, "allocated_size",
	    segment->reports_allocated, segment->reported_allocated_bytes,
	    sums.allocated, faults);
	verify_reported_sum(segment, "active_size", segment->reports_active,
	    segment->reported_active_bytes, sums.allocated + sums.pending,
	    faults);
	verify_reported_sum(segment, "requested_size",
	    segment->reports_requested, segment->reported_requested_bytes,
	    sums.requested, faults);
}

static void
verify_overlaps(const struct snapshot *snapshot, const struct view_args *args,
    struct faults *faults)
{
	uint32_t count;
	const struct snapshot_segment **sorted =
	    segments_sorted(snapshot, args, &count);

	if (sorted == NULL) {
		faults->failed = true;
		return;
	}
	for (uint32_t i = 1; i < count; i++)
		if (sorted[i]->device == sorted[i - 1]->device &&
		    sorted[i]->address - sorted[i - 1]->address <
			sorted[i - 1]->bytes)
			add_fault(faults, "I-8", sorted[i]->device,
			    sorted[i]->address,
			    "overlaps the segment at %" PRIx64,
			    sorted[i - 1]->address);
	free((void *)sorted);
}

/* ---- The trace ------------------------------------------------------- */

/* Does the snapshot show the memory at an address? One of a stream or of a pool
 * has the events of all memory, but not all segments. */
static bool
is_shown(const struct snapshot *snapshot, uint32_t device, uint64_t address)
{
	const char *partial =
	    setting_value(snapshot, "allocator_settings.weir_partial");

	if (partial == NULL || strcmp(partial, "True") != 0)
		return true;
	for (uint32_t i = 0; i < snapshot->segment_count; i++)
		if (snapshot->segments[i].device == device &&
		    address - snapshot->segments[i].address <
			snapshot->segments[i].bytes)
			return true;
	return false;
}

/* Compare the end of a block's life in the trace with the block of the
 * snapshot that has its address. */
static void
verify_life(const struct snapshot *snapshot, uint32_t device,
    const struct life *life, struct faults *faults)
{
	const struct snapshot_block *block;

	if (life->lost) {
		if (!is_shown(snapshot, device, life->address))
			return;
		add_fault(faults, "I-14", device, life->address,
		    "allocated in the trace and not freed, but no block in "
		    "use has this address");
		return;
	}
	if (life->block == LIFE_NONE)
		return;
	block = &snapshot->blocks[life->block];
	if (life->requested != LIFE_NONE && block->state == SNAPSHOT_ACTIVE)
		add_fault(faults, "I-14", device, life->address,
		    "freed in the trace, and still allocated");
	if (life->alloc != LIFE_NONE && life->bytes != block->requested_bytes)
		add_fault(faults, "I-14", device, life->address,
		    "the trace asked for %" PRIu64 " bytes, the block says "
		    "%" PRIu64,
		    life->bytes, block->requested_bytes);
}

static void
verify_trace(
    const struct snapshot *snapshot, uint32_t device, struct faults *faults)
{
	struct lives lives;

	if (!lives_find(snapshot, device, &lives)) {
		faults->failed = true;
		return;
	}
	for (uint32_t i = 0; i < lives.count; i++)
		verify_life(snapshot, device, &lives.items[i], faults);
	lives_drop(&lives);
}

/* Check all segments and their blocks. */
static void
verify_memory(const struct snapshot *snapshot, const struct view_args *args,
    struct faults *faults)
{
	for (uint32_t i = 0; i < snapshot->segment_count; i++)
		if (view_has(args, snapshot->segments[i].device))
			verify_segment(
			    snapshot, &snapshot->segments[i], faults);
	verify_overlaps(snapshot, args, faults);
}

void
faults_find(const struct snapshot *snapshot, const struct view_args *args,
    struct faults *faults)
{
	struct snapshot host = snapshot_host(snapshot);

	verify_memory(snapshot, args, faults);
	faults->host = true;
	verify_memory(&host, args, faults);
	for (uint32_t d = 0; d < snapshot->trace_count; d++)
		if (view_has(args, d) && snapshot->traces[d].count > 0)
			verify_trace(snapshot, d, faults);
}
