/*
 * A program that several recordings show at different sizes, and the recording
 * that it would make at another size.
 *
 * The recording with the most bytes is the pattern. Each allocation of it has a
 * formula for its size, found from the allocations of the other recordings that
 * match it. Parts that repeat more often in larger recordings are loops
 * (fit_loops.h).
 */
#ifndef TOOLS_WEIR_FIT_FIT_PROGRAM_H
#define TOOLS_WEIR_FIT_FIT_PROGRAM_H

#include "tools/weir/fit/fit_loops.h"
#include "tools/weir/fit/fit_match.h"

struct fit_program {
	struct fit_numbers numbers;
	struct fit_run runs[FIT_RUNS];
	unsigned pattern; /* a run */
	/* For each other run: its allocation for each one of the pattern. */
	uint32_t *match[FIT_RUNS];
	struct fit_loops loops;
	struct fit_sizes *sizes; /* formulas that are known by size */
};

/* Read the recordings of `numbers`, from paths, and compare them. False, and a
 * complaint, on failure. */
bool fit_program_read(struct fit_program *program,
    const struct fit_numbers *numbers, char *const *paths);
void fit_program_drop(struct fit_program *program);

/* A recording that no program has made. */
struct fit_forecast {
	struct recording recording;
	uint32_t *origin; /* by block: allocation of the pattern */
	double *error;    /* by block: bytes that its size may be off */
};

/* Make the recording for what the program's numbers ask. False, and a
 * complaint, without memory. */
bool fit_forecast_make(struct fit_program *program, struct fit_forecast *out);

/* The number of allocations of such a recording; UINT32_MAX for more. */
uint32_t fit_forecast_length(struct fit_program *program);
void fit_forecast_drop(struct fit_forecast *forecast);

/* The formula of an allocation of the pattern. */
void fit_formula(
    const struct fit_program *program, uint32_t alloc, struct fit_value *out);

#endif
