/*
 * The needs of a forecast: the peak of live bytes and where it is, and the
 * bytes that each allocator would hold.
 */
#ifndef TOOLS_WEIR_FIT_FIT_JUDGE_H
#define TOOLS_WEIR_FIT_FIT_JUDGE_H

#include <stdio.h>

#include "tools/weir/fit/fit_program.h"
#include "tools/weir/torch/torch_replay.h"

/* X(NAME, text): the kinds of blocks at the peak. */
#define FIT_KINDS(X)                                                           \
	X(FIT_PARAMETERS, "parameters")                                        \
	X(FIT_GRADIENTS, "gradients")                                          \
	X(FIT_OPTIMISER, "optimiser")                                          \
	X(FIT_ACTIVATIONS, "activations")                                      \
	X(FIT_WORKSPACES, "workspaces")                                        \
	X(FIT_GRAPHS, "graphs")

enum fit_kind {
#define FIT_KIND(name, text) name,
	FIT_KINDS(FIT_KIND)
#undef FIT_KIND
	    FIT_KIND_COUNT,
};

const char *fit_kind_name(enum fit_kind kind);

enum { FIT_SETTINGS = 16 }; /* allocators, at most */

/* An allocator: weir, or a model of PyTorch's. */
struct fit_setting {
	const char *name;   /* "weir", "torch", "torch,KEY:VALUE" */
	uint64_t held;      /* the peak, in bytes; 0: not known */
	uint64_t allocated; /* the peak of rounded live bytes; 0 for weir */
	/* Requests before which cached memory was freed, of PyTorch's; waits of
	 * the host, of weir. Both cost time. */
	uint64_t retries;
	uint64_t ooms;
	/* The largest value of a number that fits; 0: none, or not asked. Its
	 * retries, the largest value without any, and whether larger values
	 * that were not searched may fit. */
	uint64_t largest;
	uint64_t largest_retries;
	uint64_t largest_calm;
	bool largest_open;
};

/* Bytes that are forecast, and how many they may be. */
struct fit_range {
	uint64_t value;
	uint64_t low;
	uint64_t high;
};

struct fit_judgement {
	struct fit_range live; /* the peak of requested live bytes */
	uint32_t peak_block;   /* whose allocation reaches the peak */
	uint64_t by_kind[FIT_KIND_COUNT]; /* at the peak */
	uint32_t unsure;                  /* allocations without a formula */
	uint64_t unsure_bytes;            /* of them at the peak */
	uint64_t alone_bytes; /* at the peak, in one recording only */
	uint64_t older_bytes; /* at the peak, older than the recording */
	struct fit_setting settings[FIT_SETTINGS];
	unsigned setting_count;
};

/* Find the peak of a forecast. False, and a complaint, without memory. */
bool fit_judge(const struct fit_program *program,
    const struct fit_forecast *forecast, struct fit_judgement *out);

/* The peak of requested live bytes of a forecast. */
struct fit_range fit_live_peak(const struct fit_forecast *forecast);

/* Play the forecast through the allocator of a setting, with a limit of bytes
 * (UINT64_MAX: none); to its end, or `until_oom`. False, and a complaint, on
 * failure. */
bool fit_judge_setting(const struct fit_forecast *forecast, uint64_t limit,
    bool until_oom, struct fit_setting *setting);

/* Write a forecast as a trace that `weir replay` plays. */
void fit_forecast_csv(
    const struct fit_forecast *forecast, const char *name, FILE *out);

#endif
