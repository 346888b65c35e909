/*
 * A model of the caching allocator of PyTorch 2.11, without a device.
 *
 * The model decides as PyTorch does: rounding, best fit, splits, merges,
 * segments, expandable segments, the order of attempts when memory is short,
 * and PyTorch's known faults. Its figures are those of torch.cuda.memory_stats.
 *
 * A block belongs to a stream and a pool. Its caller says when it is freed, and
 * when the work of other streams on it is done.
 */
#ifndef TOOLS_WEIR_TORCH_TORCH_MODEL_H
#define TOOLS_WEIR_TORCH_TORCH_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "tools/weir/torch/torch_conf.h"

struct torch_model;
struct torch_block; /* valid until its completion */

struct torch_peak {
	uint64_t now;
	uint64_t peak;
};

/* Sums in bytes, except counts. */
struct torch_figures {
	struct torch_peak requested; /* as requested, until the completion */
	struct torch_peak allocated; /* rounded, until the free */
	struct torch_peak active;    /* rounded, until the completion */
	struct torch_peak reserved;  /* from the driver */
	struct torch_peak segments;  /* count; none is expandable */
	uint64_t device_allocs;      /* calls of cudaMalloc, and mappings */
	uint64_t device_frees;       /* calls of cudaFree, and unmappings */
	uint64_t retries;            /* after all cached blocks were freed */
	uint64_t ooms;
};

/* Make a model of a device with `device_bytes` of memory for PyTorch;
 * UINT64_MAX: no limit. NULL without host memory. */
struct torch_model *torch_model_new(
    const struct torch_conf *conf, uint64_t device_bytes);
void torch_model_free(struct torch_model *model);

/*
 * Allocate. NULL if memory is short, which is counted. After a lack of host
 * memory torch_model_failed() is true, and all calls return NULL.
 *
 * @param bytes   at least 1
 * @param stream  any number; blocks never change their stream
 * @param pool    0 is the default pool, others are private pools
 */
struct torch_block *torch_model_alloc(
    struct torch_model *model, uint64_t bytes, uint64_t stream, uint32_t pool);

/* The program frees a block. Other streams may still use it. */
void torch_model_release(struct torch_model *model, struct torch_block *block);

/* The work on a released block is done. NULL does nothing. */
void torch_model_complete(struct torch_model *model, struct torch_block *block);

/* Set *slot to NULL at the block's completion. A retry and
 * torch_model_empty_cache() wait for the work of all released blocks. */
void torch_block_watch(struct torch_block *block, struct torch_block **slot);

/* The program's torch.cuda.empty_cache(). */
void torch_model_empty_cache(struct torch_model *model);

/* The next cudaMalloc of this size returns this address, unless memory is
 * there already. Replays of recordings use it, because the address decides
 * among free blocks of one size. */
void torch_model_expect(
    struct torch_model *model, uint64_t address, uint64_t bytes);

/* cudaFree of the segment at an address, as recorded. False if the model has no
 * such free segment. */
bool torch_model_free_segment(struct torch_model *model, uint64_t address);

/* Add a segment that is older than the recording, and the blocks in use in it,
 * at rising addresses. `size` is that of the block, at least `bytes`, which
 * were requested. False or NULL if they do not fit. */
bool torch_model_add_segment(struct torch_model *model, uint64_t address,
    uint64_t bytes, uint64_t stream, uint32_t pool, bool small);
struct torch_block *torch_model_add_block(
    struct torch_model *model, uint64_t address, uint64_t bytes, uint64_t size);

uint64_t torch_block_address(const struct torch_block *block);

const struct torch_figures *torch_model_figures(
    const struct torch_model *model);
bool torch_model_failed(const struct torch_model *model);

#endif
