/*
 * The settings of PyTorch's allocator that PYTORCH_CUDA_ALLOC_CONF names, as
 * PyTorch 2.11 reads them.
 */
#ifndef TOOLS_WEIR_TORCH_TORCH_CONF_H
#define TOOLS_WEIR_TORCH_TORCH_CONF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Size classes of roundup_power2_divisions: [0] is for requests below 2 MiB,
 * [k] for those from 2^k MiB on, and the last one for all above. */
enum { TORCH_CLASSES = 16 };

struct torch_conf {
	bool expandable;
	uint64_t large_segment; /* bytes; 20 MiB by default */
	/* Blocks of this size and above are never split. UINT64_MAX: no limit.
	 */
	uint64_t max_split;
	uint64_t max_non_split_rounding;
	uint64_t divisions[TORCH_CLASSES]; /* 0: no rounding to a power of 2 */
	double gc_threshold;               /* 0: no collection */
	double memory_fraction;            /* of the device's memory */
	/* The device's memory is limited as a fraction is: a request fails that
	 * would exceed the limit as a whole, even if an expandable segment
	 * needs to map a part of it only. */
	bool limits_requests;
};

enum { TORCH_CONF_WHY = 256 };

/* Set the defaults. */
void torch_conf_init(struct torch_conf *conf);

/*
 * Read "key:value,key:value". Keys of page-locked memory and of locks are
 * accepted and have no effect on device memory. False, and `why` names the key
 * or the value, if PyTorch would refuse the text, or if a key is not modelled.
 */
bool torch_conf_parse(
    const char *text, struct torch_conf *conf, char why[TORCH_CONF_WHY]);

/* The size of the block that serves a request, before a split. */
uint64_t torch_round_size(const struct torch_conf *conf, uint64_t bytes);

#endif
