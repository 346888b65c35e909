#include "tools/weir/torch/torch_block.h"

#include <stdlib.h>

void
torch_peak_add(struct torch_peak *peak, uint64_t n)
{
	peak->now += n;
	if (peak->now > peak->peak)
		peak->peak = peak->now;
}

static struct torch_heap *
new_torch_heap(
    struct torch_model *model, uint32_t pool, bool small, uint64_t stream)
{
	struct torch_heap *heap = calloc(1, sizeof(*heap));
	void *moved = realloc(
	    model->heaps, (model->heap_count + 1) * sizeof(*model->heaps));

	if (moved != NULL)
		model->heaps = moved;
	if (heap == NULL || moved == NULL) {
		model->failed = true;
		free(heap);
		return NULL;
	}
	heap->stream = stream;
	heap->pool = pool;
	heap->small = small;
	tree_init(
	    &heap->free, TREE_KEY(struct torch_block, node, bytes, address));
	tree_init(&heap->unmapped,
	    TREE_KEY(struct torch_block, node, address, address));
	model->heaps[model->heap_count++] = heap;
	return heap;
}

struct torch_heap *
torch_heap_of(
    struct torch_model *model, uint32_t pool, bool small, uint64_t stream)
{
	for (size_t i = 0; i < model->heap_count; i++) {
		struct torch_heap *heap = model->heaps[i];

		if (heap->stream == stream && heap->pool == pool &&
		    heap->small == small)
			return heap;
	}
	return new_torch_heap(model, pool, small, stream);
}

static struct tree *
tree_of(struct torch_block *block)
{
	return block->state == TORCH_FREE ? &block->heap->free :
					    &block->heap->unmapped;
}

void
torch_heap_put(struct torch_model *model, struct torch_block *block)
{
	block->age_base = model->searches;
	tree_insert(tree_of(block), &block->node);
}

void
torch_heap_take(struct torch_block *block)
{
	tree_remove(tree_of(block), &block->node);
}

struct torch_block *
torch_block_cut(
    struct torch_model *model, struct torch_block *block, uint64_t bytes)
{
	struct torch_block *low = malloc(sizeof(*low));

	if (low == NULL) {
		model->failed = true;
		return NULL;
	}
	*low = (struct torch_block){
		.bytes = bytes,
		.address = block->address,
		.state = block->state,
		.heap = block->heap,
		.segment = block->segment,
		.prev = block->prev,
		.next = block,
	};
	list_init(&low->waiting);
	if (low->prev != NULL)
		low->prev->next = low;
	else
		low->segment->head = low;
	block->prev = low;
	block->address += bytes;
	block->bytes -= bytes;
	return low;
}

/* Take a free neighbour into the block. */
static void
absorb(struct torch_block *block, struct torch_block *other)
{
	if (other == NULL || other->state != block->state)
		return;
	torch_heap_take(other);
	if (other == block->prev) {
		block->address = other->address;
		block->prev = other->prev;
		if (block->prev != NULL)
			block->prev->next = block;
		else
			block->segment->head = block;
	} else {
		block->next = other->next;
		if (block->next != NULL)
			block->next->prev = block;
	}
	block->bytes += other->bytes;
	free(other);
}

void
torch_block_merge(struct torch_block *block)
{
	absorb(block, block->prev);
	absorb(block, block->next);
}

struct torch_block *
torch_segment_new(struct torch_model *model, struct torch_heap *heap,
    uint64_t address, uint64_t bytes)
{
	struct torch_segment *segment = calloc(1, sizeof(*segment));
	struct torch_block *block = calloc(1, sizeof(*block));

	if (segment == NULL || block == NULL) {
		model->failed = true;
		free(segment);
		free(block);
		return NULL;
	}
	segment->address = address;
	segment->bytes = bytes;
	segment->heap = heap;
	segment->head = block;
	tree_insert(&model->segments, &segment->node);
	block->address = address;
	block->bytes = bytes;
	block->heap = heap;
	block->segment = segment;
	block->state = TORCH_FREE;
	list_init(&block->waiting);
	return block;
}

void
torch_segment_free(struct torch_model *model, struct torch_block *block)
{
	tree_remove(&model->segments, &block->segment->node);
	free(block->segment);
	free(block);
}
