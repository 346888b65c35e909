/*
 * A recording that is played through the model of PyTorch's allocator.
 */
#ifndef TOOLS_WEIR_TORCH_TORCH_REPLAY_H
#define TOOLS_WEIR_TORCH_TORCH_REPLAY_H

#include "tools/weir/fit/recording.h"
#include "tools/weir/reading/held_curve.h"
#include "tools/weir/torch/torch_model.h"

struct torch_played {
	struct torch_figures figures;
	uint64_t allocs;
	/* The first rows at which the peaks were reached. */
	uint32_t allocated_row;
	uint32_t reserved_row;
	/* The recording's own peak of reserved bytes; 0: it does not say. */
	uint64_t recorded_reserved;
};

/*
 * Play a recording on a device of `device_bytes`, UINT64_MAX for no limit. A
 * request that fails is counted, and its block does not exist; `until_oom` ends
 * the replay there. Where the recording freed segments, which
 * torch.cuda.empty_cache() does, the model frees them too. Segments
 * that are older than the recording are the model's, unless it has expandable
 * segments. Then older blocks are allocated first. False, and a complaint,
 * without memory.
 *
 * @param curve  gets the reserved memory through time; NULL for none
 */
bool torch_replay(const struct recording *recording,
    const struct torch_conf *conf, uint64_t device_bytes, bool until_oom,
    struct held_curve *curve, struct torch_played *out);

/* `weir replay --as`: play all devices' traces of a file with the settings
 * `conf`, and print the figures. Returns an enum tool_exit. */
struct torch_request {
	const char *path;
	const char *as; /* "torch", or "torch,KEY:VALUE..." */
	uint64_t limit_bytes;
	int device; /* -1: all */
	bool json;
};
int torch_replay_file(const struct torch_request *request);

/* True if a text asks for PyTorch's allocator and its settings are good. False
 * and `why` otherwise. */
bool torch_as_parse(
    const char *as, struct torch_conf *conf, char why[TORCH_CONF_WHY]);

#endif
