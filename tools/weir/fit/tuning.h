/*
 * The numbers of this folder that were chosen and can be chosen otherwise.
 */
#ifndef TOOLS_WEIR_FIT_TUNING_H
#define TOOLS_WEIR_FIT_TUNING_H

#include <stdint.h>

/* Allocations of a forecast. Each takes about 200 bytes. */
enum { FIT_FORECAST_MAX = 1u << 26 };

/* Allocations of a forecast that `--largest` replays, and of all replays for
 * one allocator: some seconds. A program that is asked with more has a few
 * times as many as are asked. */
enum {
	FIT_SEARCHED_MAX = 1u << 18,
	FIT_SEARCHED_TIMES = 4,
	FIT_PLAYED_TIMES = 16, /* FIT_SEARCHED_MAX, or what is asked */
};

/* The largest value of a number that `--largest` searches. */
#define FIT_VALUE_MAX (UINT64_C(1) << 40)

/* Replays that `--largest` makes for one allocator. A search of values up to
 * FIT_VALUE_MAX needs at most twice their 40 bits. */
enum { FIT_REPLAYS_MAX = 80 };

/* The share of the limit that `--largest` keeps back at most for what is not
 * known: half of 5 %, so that an answer is seldom more than that too low. */
#define FIT_RESERVE_MOST 0.025

/* Bytes that `--largest` keeps back for weir: a page of 2 MiB for small and for
 * large blocks. Where a program's blocks lie depends on when its work is done,
 * and a page with one block more is held. */
enum { FIT_WEIR_PAGES = 2 * 2 << 20 };

/* Values below an answer that must fit, too: one, and one more for so many that
 * the answer has. */
enum { FIT_BELOW_SHARE = 50 };

/* Microseconds of work that each request brings in the replays of weir: none;
 * as long as the host takes for a request of PyTorch's and what is around it;
 * and so much that streams fall far behind. */
#define FIT_WORKS_US 200, 2000

/* Allocations after which the life of a workspace has ended. */
enum { FIT_SHORT_LIFE = 3 };

/* Sites without a formula that are listed: they fit a screen. */
enum { FIT_SITES_SHOWN = 8 };

/* The share of the peak that one recording alone has, from which recordings are
 * suspected to be of different programs. Kernels of one size need less. */
#define FIT_ALONE_SHARE 0.03

/* Neighbours on each side by which the place of an allocation is known, and
 * the life, in allocations, from which lives count as equal. */
enum { FIT_AROUND = 2, FIT_LONG_LIFE = 64 };

/* Loops in a recording. */
enum {
	LOOP_FEW = 3,          /* allocations that match by chance */
	LOOP_WINDOW = 6,       /* allocations that must repeat together */
	LOOP_PERIODS = 4096,   /* periods that are tried */
	LOOPS_COMPARED = 2000, /* loops whose changes are compared */
	LOOP_SHAPES = 16,      /* loops that others are compared with */
	LOOP_PHASES = 256,     /* offsets at which rounds are compared */
};

/* How well two allocations agree that have the same call site: their sizes
 * also fit, they do not, or the site says little. */
enum { AGREE_ALL = 10, AGREE_STACK = 8, AGREE_LIFE = 6, AGREE_VAGUE = 3 };

/* Two recordings that are aligned. */
enum {
	MATCH_RATIOS = 64, /* ratios of sizes that are expected */
	MATCH_AHEAD = 12,  /* allocations that must agree after a difference */
	MATCH_NEAR_BOTH = 40, /* ... in both lists */
	MATCH_NEAR = 96,      /* allocations that are searched one by one */
	MATCH_WINDOW = 128,   /* allocations aligned in a long list */
	MATCH_ALIGNED = 3000, /* the longest lists aligned as a whole */
	MATCH_ANCHORS = 4096, /* allocations of a call site that are anchors */
	MATCH_GAP_COST = 5,   /* of each gap, in agreements */
	MATCH_GRAM = 5,       /* call sites that are searched together */
	MATCH_GRAM_TRIES = 32,
};

/* Bytes of a page. Tensors mostly have whole pages, and what a kernel needs
 * besides, such as its weights, leaves the same rest at each size. */
#define FIT_PAGE 4096.0

/* Formulas of sizes. */
enum {
	SIZES_KEPT = 8192,    /* sizes whose formula is remembered */
	SIZE_TWINS = 16,      /* allocations of one size that are asked */
	SIZE_GROUP_MANY = 16, /* ... and a mean */
	SIZE_GROUP_LEAST = 3, /* allocations that show a spread */
	/* Equal sizes that show that theirs is no chance, and those that are
	 * asked. */
	SIZE_REPEATS_LEAST = 3,
	SIZE_REPEATS_MOST = 32,
};

/* The share of the sizes of a place that have a formula, below which they
 * depend on data. */
#define SIZE_AGREED_SHARE 0.67

/* The share by which means of data may differ. If they are of few sizes, it is
 * so many times what a mean is off by chance, which one in twenty exceeds; but
 * not as much as a number's growth. */
#define SIZE_MEAN_SLACK 0.2
#define SIZE_MEAN_CHANCES 2.0
#define SIZE_MEAN_SLACK_MOST 0.5

/*
 * Workspaces of PyTorch's reductions (aten/src/ATen/native/cuda/Reduce.cuh). A
 * thread first gets 16 values; once the device runs no more blocks at once,
 * more values, up to 256; and then there are more blocks. Each of the 2048
 * threads of a multiprocessor has up to 128 sums of 4 bytes in the workspace.
 * H100 and H200 have 132 multiprocessors; most large GPUs have 108 to 160.
 */
enum {
	REDUCTION_COUNTER = 4,          /* bytes */
	REDUCTION_COLUMNS_MAX = 16384,  /* of 128 outputs each */
	REDUCTION_BLOCK = 32 * 128 * 4, /* bytes of the sums of a block */
	REDUCTION_BYTES_MAX = 132 * 2048 * 128 * 4,
	REDUCTION_GROWTH = 256 / 16,
};

#endif
