/*
 * The order of attempts to serve a request is PyTorch's:
 *
 *	a free block; collection of old cached blocks, with a limit and a
 *	threshold; memory of the driver; large cached blocks are freed, with
 *	max_split_size; all cached blocks are freed; out of memory
 *
 * After the last attempt to free memory PyTorch asks the driver alone and does
 * not look at the blocks that were completed meanwhile. The model does so too.
 */
#include "tools/weir/torch/torch_model.h"

#include <stdlib.h>

#include "tools/weir/torch/torch_block.h"

#define MIB UINT64_C(1048576)
#define SMALL_MAX MIB
#define SMALL_SEGMENT (2 * MIB)
#define LARGE_LEAST (10 * MIB) /* from here on a segment fits its request */

/*
 * Addresses of segments, which decide among free blocks of one size. As seen of
 * cudaMalloc on H200: a process has a first range, of about this size, that is
 * filled upwards. What it has no room for lies below all that came before.
 */
#define FIRST_RANGE (512 * MIB)
#define FIRST_ADDRESS (UINT64_C(1) << 51)

struct torch_model *
torch_model_new(const struct torch_conf *conf, uint64_t device_bytes)
{
	struct torch_model *model = calloc(1, sizeof(*model));

	if (model == NULL)
		return NULL;
	model->conf = *conf;
	model->device_bytes = device_bytes;
	model->allowed_bytes = UINT64_MAX;
	if (conf->memory_fraction < 1 && device_bytes != UINT64_MAX)
		model->allowed_bytes =
		    (uint64_t)(conf->memory_fraction * (double)device_bytes);
	/* Far from the addresses of recordings. */
	model->lowest_address = FIRST_ADDRESS;
	model->next_range = FIRST_ADDRESS + FIRST_RANGE;
	list_init(&model->waiting);
	tree_init(&model->segments,
	    TREE_KEY(struct torch_segment, node, address, address));
	return model;
}

void
torch_model_free(struct torch_model *model)
{
	if (model == NULL)
		return;
	while (model->segments.root != NULL) {
		struct torch_segment *segment = CONTAINER_OF(
		    model->segments.root, struct torch_segment, node);
		struct torch_block *block = segment->head;

		while (block->next != NULL) {
			struct torch_block *next = block->next;

			free(block);
			block = next;
		}
		block->segment = segment;
		torch_segment_free(model, block);
	}
	for (size_t i = 0; i < model->heap_count; i++)
		free(model->heaps[i]);
	free(model->heaps);
	free(model);
}

/* ---- Free blocks ----------------------------------------------------- */

/* The bytes to which a block of an expandable segment can grow. */
static uint64_t
growable(const struct torch_block *block)
{
	const struct torch_block *next = block->next;

	return block->bytes +
	    (next != NULL && next->state == TORCH_UNMAPPED ? next->bytes : 0);
}

static struct torch_block *
next_free(const struct torch_block *block)
{
	struct tree_node *node = tree_next(&block->node);

	return node == NULL ? NULL :
			      CONTAINER_OF(node, struct torch_block, node);
}

/* Choose another block than the best fit, for the sake of expandable
 * segments. */
static struct torch_block *
choose_expandable(const struct torch_model *model, struct torch_block *block)
{
	if (block->segment->page == 0)
		return block;
	if (!model->conf.expandable) {
		while (block != NULL && block->segment->page != 0)
			block = next_free(block);
		return block;
	}
	for (;;) {
		struct torch_block *next = next_free(block);

		if (next == NULL || next->segment->page == 0 ||
		    growable(next) >= growable(block))
			return block;
		block = next;
	}
}

static bool
collects(const struct torch_model *model)
{
	return model->allowed_bytes != UINT64_MAX &&
	    model->conf.gc_threshold > 0;
}

/* Take the block that PyTorch would choose out of its heap, or NULL. */
static struct torch_block *
take_free(struct torch_model *model, struct torch_heap *heap, uint64_t bytes)
{
	const struct torch_conf *conf = &model->conf;
	struct torch_block key = { .bytes = bytes };
	struct tree_node *node;
	struct torch_block *block;

	if (!heap->small && heap->pool == 0)
		model->searches += collects(model);
	node = tree_lower_bound(&heap->free, &key.node);
	if (node == NULL)
		return NULL;
	block = choose_expandable(
	    model, CONTAINER_OF(node, struct torch_block, node));
	if (block == NULL)
		return NULL;
	if (bytes < conf->max_split && block->bytes >= conf->max_split)
		return NULL;
	if (bytes >= conf->max_split &&
	    block->bytes >= bytes + conf->max_non_split_rounding)
		return NULL;
	torch_heap_take(block);
	return block;
}

static bool
splits(const struct torch_model *model, const struct torch_block *block,
    uint64_t bytes)
{
	uint64_t rest = block->bytes - bytes;

	if (block->heap->small || model->conf.expandable)
		return rest >= 512;
	return bytes < model->conf.max_split && rest > SMALL_MAX;
}

/* ---- Memory of the driver -------------------------------------------- */

static void
free_whole_block(struct torch_model *model, struct torch_block *block)
{
	torch_heap_take(block);
	model->figures.reserved.now -= block->bytes;
	model->figures.segments.now--;
	model->figures.device_frees++;
	torch_segment_free(model, block);
}

static bool
is_releasable(const struct torch_block *block)
{
	return block->segment->page == 0 && torch_block_whole(block);
}

static uint64_t
segment_size(const struct torch_model *model, uint64_t bytes)
{
	if (bytes <= SMALL_MAX)
		return SMALL_SEGMENT;
	if (bytes < LARGE_LEAST)
		return model->conf.large_segment;
	return (bytes + 2 * MIB - 1) / (2 * MIB) * (2 * MIB);
}

/* True if no segment has any of these addresses. */
static bool
is_vacant(struct torch_model *model, uint64_t address, uint64_t bytes)
{
	struct torch_segment key = { .address = address };
	struct tree_node *node = tree_lower_bound(&model->segments, &key.node);
	struct tree_node *before =
	    node == NULL ? tree_last(&model->segments) : tree_prev(node);
	const struct torch_segment *segment;

	if (node != NULL) {
		segment = CONTAINER_OF(node, struct torch_segment, node);
		if (segment->address < address + bytes)
			return false;
	}
	if (before == NULL)
		return true;
	segment = CONTAINER_OF(before, struct torch_segment, node);
	return segment->address + segment->bytes <= address;
}

static uint64_t
choose_address(struct torch_model *model, uint64_t bytes)
{
	uint64_t address = model->expected_address;

	if (model->expected_bytes == bytes) {
		model->expected_bytes = 0;
		if (is_vacant(model, address, bytes))
			return address;
	}
	if (bytes <= FIRST_RANGE - model->first_range_used) {
		address = FIRST_ADDRESS + model->first_range_used;
		model->first_range_used += bytes;
		return address;
	}
	model->lowest_address -= bytes;
	return model->lowest_address;
}

/* Get a block of the driver's memory, which is in no heap. NULL if memory is
 * short. */
static struct torch_block *
grow(struct torch_model *model, struct torch_heap *heap, uint64_t bytes)
{
	uint64_t size = segment_size(model, bytes);
	uint64_t held = model->figures.reserved.now;
	struct torch_block *block;

	/* A file may ask for more than there are addresses. */
	if (bytes > TORCH_RANGE ||
	    model->next_range > UINT64_MAX - TORCH_RANGE ||
	    model->lowest_address < FIRST_ADDRESS / 2 + TORCH_RANGE)
		return NULL;
	if (model->allowed_bytes != UINT64_MAX &&
	    held + size > model->allowed_bytes)
		return NULL;
	if (model->conf.limits_requests && held + size > model->device_bytes)
		return NULL;
	if (model->conf.expandable)
		return torch_expand(model, heap, bytes);
	if (held + size > model->device_bytes)
		return NULL;
	block =
	    torch_segment_new(model, heap, choose_address(model, size), size);
	if (block == NULL)
		return NULL;
	torch_peak_add(&model->figures.reserved, size);
	torch_peak_add(&model->figures.segments, 1);
	model->figures.device_allocs++;
	return block;
}

/* The ages of the blocks of a heap that can be freed. */
struct ages {
	uint64_t sum;
	uint64_t count;
};

static void
sum_ages(const struct torch_model *model, const struct torch_heap *heap,
    struct ages *ages)
{
	for (struct tree_node *node = tree_first(&heap->free); node != NULL;
	     node = tree_next(node)) {
		const struct torch_block *block =
		    CONTAINER_OF(node, struct torch_block, node);

		if (!is_releasable(block))
			continue;
		ages->sum += model->searches - block->age_base;
		ages->count++;
	}
}

/* Free the blocks that are at least as old as the mean. */
static bool
free_aged(struct torch_model *model, struct torch_heap *heap, struct ages ages)
{
	struct tree_node *node = tree_first(&heap->free);
	bool freed = false;

	while (node != NULL) {
		struct torch_block *block =
		    CONTAINER_OF(node, struct torch_block, node);

		node = tree_next(node);
		if (!is_releasable(block) ||
		    (model->searches - block->age_base) * ages.count < ages.sum)
			continue;
		free_whole_block(model, block);
		freed = true;
	}
	return freed;
}

/* Free old blocks of the default large pool, until no more than the threshold
 * is held. */
static void
collect_old(struct torch_model *model)
{
	uint64_t most =
	    (uint64_t)(model->conf.gc_threshold * (double)model->allowed_bytes);
	bool freed = true;

	while (freed && model->figures.reserved.now > most) {
		struct ages ages = { 0, 0 };

		freed = false;
		for (size_t i = 0; i < model->heap_count; i++)
			if (!model->heaps[i]->small &&
			    model->heaps[i]->pool == 0)
				sum_ages(model, model->heaps[i], &ages);
		for (size_t i = 0; i < model->heap_count; i++)
			if (!model->heaps[i]->small &&
			    model->heaps[i]->pool == 0)
				freed |=
				    free_aged(model, model->heaps[i], ages);
	}
}

/* Free cached blocks that are too large to be split, largest first, so that
 * one of `bytes` fits. */
static bool
free_large(struct torch_model *model, struct torch_heap *heap, uint64_t bytes)
{
	uint64_t least = model->conf.max_split;
	struct torch_block key = { .bytes = bytes > least ? bytes : least };
	struct tree_node *node;
	uint64_t sum = 0;

	if (least == UINT64_MAX)
		return false;
	node = tree_lower_bound(&heap->free, &key.node);
	if (node != NULL) {
		struct torch_block *block =
		    CONTAINER_OF(node, struct torch_block, node);

		if (!is_releasable(block))
			return false;
		free_whole_block(model, block);
		return true;
	}
	node = tree_last(&heap->free);
	while (node != NULL && sum < key.bytes) {
		struct torch_block *block =
		    CONTAINER_OF(node, struct torch_block, node);

		node = tree_prev(node);
		if (block->bytes < least)
			break;
		if (!is_releasable(block))
			continue;
		sum += block->bytes;
		free_whole_block(model, block);
	}
	return sum >= key.bytes;
}

static void
free_cached(struct torch_model *model, struct torch_heap *heap)
{
	struct tree_node *node = tree_first(&heap->free);

	while (node != NULL) {
		struct torch_block *block =
		    CONTAINER_OF(node, struct torch_block, node);

		node = tree_next(node);
		if (is_releasable(block))
			free_whole_block(model, block);
	}
}

/* Unmap what is free in expandable segments. Unmapping makes other blocks, so
 * that the blocks are gathered first. */
static void
unmap_cached(struct torch_model *model, struct torch_heap *heap)
{
	struct torch_block **blocks =
	    calloc(heap->free.count + 1, sizeof(struct torch_block *));
	size_t count = 0;

	if (blocks == NULL) {
		model->failed = true;
		return;
	}
	for (struct tree_node *node = tree_first(&heap->free); node != NULL;
	     node = tree_next(node)) {
		struct torch_block *block =
		    CONTAINER_OF(node, struct torch_block, node);

		if (block->segment->page != 0)
			blocks[count++] = block;
	}
	for (size_t i = 0; i < count; i++)
		torch_unmap(model, blocks[i]);
	free(blocks);
}

void
torch_model_empty_cache(struct torch_model *model)
{
	while (!list_empty(&model->waiting))
		torch_model_complete(model,
		    CONTAINER_OF(
			model->waiting.next, struct torch_block, waiting));
	for (size_t i = 0; i < model->heap_count; i++) {
		/* A private pool keeps its memory as long as its graphs are. */
		if (model->heaps[i]->pool != 0)
			continue;
		free_cached(model, model->heaps[i]);
		unmap_cached(model, model->heaps[i]);
	}
}

/* ---- Requests -------------------------------------------------------- */

static struct torch_block *
find_block(struct torch_model *model, struct torch_heap *heap, uint64_t bytes)
{
	struct torch_block *block = take_free(model, heap, bytes);

	if (block == NULL) {
		if (collects(model))
			collect_old(model);
		block = grow(model, heap, bytes);
	}
	if (block == NULL && free_large(model, heap, bytes))
		block = grow(model, heap, bytes);
	/* A private pool serves captures, during which PyTorch's allocator
	 * frees no cached memory. */
	if (block == NULL && heap->pool == 0) {
		torch_model_empty_cache(model);
		model->figures.retries++;
		block = grow(model, heap, bytes);
	}
	model->figures.ooms += block == NULL;
	return block;
}

static void
use_block(struct torch_model *model, struct torch_block *block, uint64_t bytes)
{
	block->state = TORCH_USED;
	block->requested = bytes;
	block->slot = NULL;
	torch_peak_add(&model->figures.requested, bytes);
	torch_peak_add(&model->figures.allocated, block->bytes);
	torch_peak_add(&model->figures.active, block->bytes);
}

struct torch_block *
torch_model_alloc(
    struct torch_model *model, uint64_t bytes, uint64_t stream, uint32_t pool)
{
	uint64_t size = torch_round_size(
	    &model->conf, bytes <= TORCH_RANGE ? bytes : 2 * TORCH_RANGE);
	struct torch_heap *heap =
	    torch_heap_of(model, pool, size <= SMALL_MAX, stream);
	struct torch_block *block;
	struct torch_block *rest;

	if (heap == NULL || model->failed)
		return NULL;
	block = find_block(model, heap, size);
	if (block == NULL)
		return NULL;
	if (splits(model, block, size)) {
		rest = block;
		block = torch_block_cut(model, rest, size);
		torch_heap_put(model, rest);
		if (block == NULL)
			return NULL;
	}
	use_block(model, block, bytes);
	return block;
}

void
torch_model_release(struct torch_model *model, struct torch_block *block)
{
	block->state = TORCH_WAITS;
	model->figures.allocated.now -= block->bytes;
	list_push_back(&model->waiting, &block->waiting);
}

void
torch_model_complete(struct torch_model *model, struct torch_block *block)
{
	if (block == NULL)
		return;
	list_remove(&block->waiting);
	model->figures.active.now -= block->bytes;
	model->figures.requested.now -= block->requested;
	if (block->slot != NULL)
		*block->slot = NULL;
	block->slot = NULL;
	block->state = TORCH_FREE;
	torch_block_merge(block);
	torch_heap_put(model, block);
}

void
torch_block_watch(struct torch_block *block, struct torch_block **slot)
{
	block->slot = slot;
}

uint64_t
torch_block_address(const struct torch_block *block)
{
	return block->address;
}

/* ---- Recordings ------------------------------------------------------ */

void
torch_model_expect(struct torch_model *model, uint64_t address, uint64_t bytes)
{
	model->expected_address = address;
	model->expected_bytes = bytes;
}

bool
torch_model_free_segment(struct torch_model *model, uint64_t address)
{
	struct torch_segment key = { .address = address };
	struct tree_node *node = tree_lower_bound(&model->segments, &key.node);
	struct torch_segment *segment;

	if (node == NULL)
		return false;
	segment = CONTAINER_OF(node, struct torch_segment, node);
	if (segment->address != address || segment->head->state != TORCH_FREE ||
	    !is_releasable(segment->head))
		return false;
	free_whole_block(model, segment->head);
	return true;
}

bool
torch_model_add_segment(struct torch_model *model, uint64_t address,
    uint64_t bytes, uint64_t stream, uint32_t pool, bool small)
{
	struct torch_heap *heap = torch_heap_of(model, pool, small, stream);
	struct torch_block *block;

	if (heap == NULL || bytes == 0 || !is_vacant(model, address, bytes))
		return false;
	block = torch_segment_new(model, heap, address, bytes);
	if (block == NULL)
		return false;
	block->segment->rest = block;
	torch_heap_put(model, block);
	torch_peak_add(&model->figures.reserved, bytes);
	torch_peak_add(&model->figures.segments, 1);
	return true;
}

static struct torch_segment *
segment_around(const struct torch_model *model, uint64_t address)
{
	struct torch_segment key = { .address = address + 1 };
	struct tree_node *node = tree_lower_bound(&model->segments, &key.node);

	node = node == NULL ? tree_last(&model->segments) : tree_prev(node);
	return node == NULL ? NULL :
			      CONTAINER_OF(node, struct torch_segment, node);
}

struct torch_block *
torch_model_add_block(
    struct torch_model *model, uint64_t address, uint64_t bytes, uint64_t size)
{
	struct torch_segment *segment = segment_around(model, address);
	struct torch_block *rest = segment == NULL ? NULL : segment->rest;
	struct torch_block *block = rest;

	if (rest == NULL || address < rest->address ||
	    address - rest->address + size > rest->bytes)
		return NULL;
	torch_heap_take(rest);
	if (address > rest->address) {
		struct torch_block *gap =
		    torch_block_cut(model, rest, address - rest->address);

		if (gap != NULL)
			torch_heap_put(model, gap);
	}
	segment->rest = NULL;
	if (size < rest->bytes) {
		block = torch_block_cut(model, rest, size);
		torch_heap_put(model, rest);
		segment->rest = rest;
	}
	if (block != NULL)
		use_block(model, block, bytes);
	return block;
}

const struct torch_figures *
torch_model_figures(const struct torch_model *model)
{
	return &model->figures;
}

bool
torch_model_failed(const struct torch_model *model)
{
	return model->failed;
}
