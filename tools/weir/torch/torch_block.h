/*
 * The blocks, heaps and segments of the model of PyTorch's allocator, which its
 * files share: torch_block.c keeps the lists and merges, torch_expand.c maps
 * and unmaps expandable segments, and torch_model.c decides.
 *
 *	segment --head--> block <-> block <-> block	in order of address
 *	heap    --free--> blocks by (size, address)
 *	        --unmapped--> blocks by address		expandable segments only
 */
#ifndef TOOLS_WEIR_TORCH_TORCH_BLOCK_H
#define TOOLS_WEIR_TORCH_TORCH_BLOCK_H

#include "base/list.h"
#include "base/tree.h"
#include "tools/weir/torch/torch_model.h"

/* The addresses that an expandable segment gets, and the most bytes of a
 * request that is served: more than any device has memory. */
#define TORCH_RANGE (UINT64_C(1) << 44)

enum torch_state {
	TORCH_FREE,
	TORCH_UNMAPPED,
	TORCH_USED,
	TORCH_WAITS, /* freed, while other streams use it */
};

/* The free blocks of one pool, kind of size, and stream. */
struct torch_heap {
	uint64_t stream;
	uint32_t pool;
	bool small;
	struct tree free;
	struct tree unmapped;
};

/* Memory from one cudaMalloc, or one reserved range of addresses. */
struct torch_segment {
	struct tree_node node;
	uint64_t address;
	uint64_t bytes; /* the whole range, if expandable */
	uint64_t page;  /* of an expandable segment; 0 for others */
	struct torch_heap *heap;
	struct torch_block *head;
	/* The free end of a segment that is older than the recording. */
	struct torch_block *rest;
};

struct torch_block {
	struct tree_node node;
	uint64_t bytes;
	uint64_t address;
	uint64_t requested;
	uint64_t age_base; /* the pool's count of searches at its free */
	enum torch_state state;
	struct torch_heap *heap;
	struct torch_segment *segment;
	struct torch_block *prev;
	struct torch_block *next;
	struct torch_block **slot;
	struct list waiting; /* TORCH_WAITS */
};

struct torch_model {
	struct torch_conf conf;
	uint64_t device_bytes;
	uint64_t allowed_bytes; /* UINT64_MAX: no limit */
	struct torch_figures figures;
	struct torch_heap **heaps;
	size_t heap_count;
	struct tree segments; /* by address */
	struct list waiting;
	uint64_t searches;         /* counted while collection is on */
	uint64_t first_range_used; /* bytes */
	uint64_t lowest_address;
	uint64_t next_range; /* an expandable segment's */
	uint64_t expected_address;
	uint64_t expected_bytes;
	bool failed; /* host memory was short */
};

/* ---- torch_block.c --------------------------------------------------- */

void torch_peak_add(struct torch_peak *peak, uint64_t n);

/* The heap, which is made at its first use. NULL without host memory. */
struct torch_heap *torch_heap_of(
    struct torch_model *model, uint32_t pool, bool small, uint64_t stream);

/* Put a block that is TORCH_FREE or TORCH_UNMAPPED into its heap, or take it
 * out. */
void torch_heap_put(struct torch_model *model, struct torch_block *block);
void torch_heap_take(struct torch_block *block);

/* Cut the first `bytes` off a block that is in no heap; the block is the rest.
 * NULL without host memory. */
struct torch_block *torch_block_cut(
    struct torch_model *model, struct torch_block *block, uint64_t bytes);

/* Merge a block, which is in no heap, with neighbours of its state. */
void torch_block_merge(struct torch_block *block);

/* True if no other block is in its segment. */
static inline bool
torch_block_whole(const struct torch_block *block)
{
	return block->prev == NULL && block->next == NULL;
}

/* A segment with one block, which is in no heap. NULL without host memory. */
struct torch_block *torch_segment_new(struct torch_model *model,
    struct torch_heap *heap, uint64_t address, uint64_t bytes);
/* Free a segment whose one block is in no heap. */
void torch_segment_free(struct torch_model *model, struct torch_block *block);

/* ---- torch_expand.c -------------------------------------------------- */

/* Map memory for a block of at least `bytes`, which is in no heap then. NULL if
 * memory is short. */
struct torch_block *torch_expand(
    struct torch_model *model, struct torch_heap *heap, uint64_t bytes);

/* Unmap the whole pages of a free block of an expandable segment. */
void torch_unmap(struct torch_model *model, struct torch_block *block);

#endif
