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

/* Allocations after which the life of a workspace has ended. */
enum { FIT_SHORT_LIFE = 3 };

/* Sites without a formula that are listed: they fit a screen. */
enum { FIT_SITES_SHOWN = 8 };

#endif
