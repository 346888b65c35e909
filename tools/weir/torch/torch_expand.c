/*
 * Expandable segments: a range of addresses whose pages are mapped from its
 * start on as blocks need them. A page is 2 MiB for small blocks, and as large
 * as a large segment otherwise.
 */
#include "tools/weir/torch/torch_block.h"

#define SMALL_PAGE (UINT64_C(2) << 20)

static struct torch_block *
new_range(struct torch_model *model, struct torch_heap *heap)
{
	struct torch_block *block =
	    torch_segment_new(model, heap, model->next_range, TORCH_RANGE);

	if (block == NULL)
		return NULL;
	model->next_range += TORCH_RANGE;
	block->segment->page =
	    heap->small ? SMALL_PAGE : model->conf.large_segment;
	block->state = TORCH_UNMAPPED;
	torch_heap_put(model, block);
	return block;
}

/* True if the run of free and unmapped blocks from `block` on is large enough.
 */
static bool
run_fits(const struct torch_block *block, uint64_t bytes)
{
	uint64_t sum = 0;

	for (; block != NULL && sum < bytes; block = block->next) {
		if (block->state != TORCH_FREE &&
		    block->state != TORCH_UNMAPPED)
			return false;
		sum += block->bytes;
	}
	return sum >= bytes;
}

/* The block with which the first run of at least `bytes` begins. */
static struct torch_block *
find_run(struct torch_model *model, struct torch_heap *heap, uint64_t bytes)
{
	struct tree_node *node = tree_first(&heap->unmapped);

	for (; node != NULL; node = tree_next(node)) {
		struct torch_block *block =
		    CONTAINER_OF(node, struct torch_block, node);

		if (block->prev != NULL && block->prev->state == TORCH_FREE)
			block = block->prev;
		if (run_fits(block, bytes))
			return block;
	}
	return new_range(model, heap);
}

/* Map at least the first `bytes` of an unmapped block, in whole pages. The
 * result is in its heap, merged with its free neighbours. */
static struct torch_block *
map_block(struct torch_model *model, struct torch_block *block, uint64_t bytes)
{
	uint64_t page = block->segment->page;
	uint64_t mapped = (bytes + page - 1) / page * page;
	struct torch_block *low = block;

	if (mapped > block->bytes)
		mapped = block->bytes;
	if (model->figures.reserved.now + mapped > model->device_bytes)
		return NULL;
	torch_heap_take(block);
	if (mapped < block->bytes) {
		low = torch_block_cut(model, block, mapped);
		torch_heap_put(model, block);
		if (low == NULL)
			return NULL;
	}
	low->state = TORCH_FREE;
	torch_block_merge(low);
	torch_heap_put(model, low);
	torch_peak_add(&model->figures.reserved, mapped);
	model->figures.device_allocs++;
	return low;
}

struct torch_block *
torch_expand(struct torch_model *model, struct torch_heap *heap, uint64_t bytes)
{
	struct torch_block *block = find_run(model, heap, bytes);

	if (block != NULL && block->state == TORCH_UNMAPPED)
		block = map_block(
		    model, block, bytes < block->bytes ? bytes : block->bytes);
	while (block != NULL && block->bytes < bytes) {
		struct torch_block *next = block->next;
		uint64_t missing = bytes - block->bytes;

		block = map_block(
		    model, next, missing < next->bytes ? missing : next->bytes);
	}
	if (block != NULL)
		torch_heap_take(block);
	return block;
}

/* The whole pages of a block; none if *start >= *end. Pages are counted from
 * the start of the range. */
static void
whole_pages(const struct torch_block *block, uint64_t *start, uint64_t *end)
{
	uint64_t page = block->segment->page;
	uint64_t base = block->segment->address;
	uint64_t first = block->address - base;

	*start = base + (first + page - 1) / page * page;
	*end = base + (first + block->bytes) / page * page;
}

/* Cut the parts outside whole pages off the block, as free blocks. False
 * without host memory. */
static bool
cut_to_pages(struct torch_model *model, struct torch_block **block)
{
	struct torch_block *part;
	uint64_t start;
	uint64_t end;

	whole_pages(*block, &start, &end);
	if (start > (*block)->address) {
		part =
		    torch_block_cut(model, *block, start - (*block)->address);
		if (part == NULL)
			return false;
		torch_heap_put(model, part);
	}
	if (end < (*block)->address + (*block)->bytes) {
		part = torch_block_cut(model, *block, end - start);
		if (part == NULL)
			return false;
		torch_heap_put(model, *block);
		*block = part;
	}
	return true;
}

void
torch_unmap(struct torch_model *model, struct torch_block *block)
{
	uint64_t start;
	uint64_t end;

	whole_pages(block, &start, &end);
	if (start >= end)
		return;
	torch_heap_take(block);
	if (!cut_to_pages(model, &block)) {
		torch_heap_put(model, block);
		return;
	}
	model->figures.reserved.now -= block->bytes;
	model->figures.device_frees++;
	block->state = TORCH_UNMAPPED;
	torch_block_merge(block);
	if (torch_block_whole(block))
		torch_segment_free(model, block);
	else
		torch_heap_put(model, block);
}
