/*
 * Loops of a program that go round more often in larger recordings: layers,
 * words of an answer, pictures of a batch.
 *
 * In the pattern a loop is `rounds` times `period` allocations from `first` on.
 * A forecast repeats it more or less often, and so has other numbers for the
 * allocations after it.
 */
#ifndef TOOLS_WEIR_FIT_FIT_LOOPS_H
#define TOOLS_WEIR_FIT_FIT_LOOPS_H

#include "tools/weir/fit/fit_match.h"

struct fit_loop {
	uint32_t first;  /* allocation of the pattern */
	uint32_t period; /* allocations in a round */
	uint32_t rounds; /* in the pattern */
	/* The rounds in each recording; 0: not known. */
	double seen[FIT_RUNS];
	bool doubtful;  /* no formula gives exactly these */
	uint32_t asked; /* rounds in the forecast */
	uint32_t begin; /* first allocation in the forecast */
	/* Loops of one shape, such as those of all steps: the next one, in a
	 * circle; where the round begins in this one that begins alike in all,
	 * and the number of whole rounds from there. */
	uint32_t next;
	uint32_t start;
	uint32_t turns;
	/* By offset from `start`: sizes that differ by chance. The circle has
	 * one array. */
	bool *chance;
};

struct fit_loops {
	struct fit_loop *items; /* in order, without overlap */
	uint32_t count;
};

/* Find the loops of the pattern from what the other runs lack. False without
 * memory. */
bool fit_loops_find(const struct fit_numbers *numbers,
    const struct fit_run *runs, unsigned pattern, uint32_t *const *match,
    struct fit_loops *out);

void fit_loops_drop(struct fit_loops *loops);

/* Decide how often each loop goes round in the forecast. Returns the number of
 * allocations of the forecast; UINT32_MAX if there are more. */
uint32_t fit_loops_ask(struct fit_loops *loops,
    const struct fit_numbers *numbers, const struct fit_run *pattern);

/* Where an allocation of a forecast comes from. */
struct fit_place {
	uint32_t alloc; /* of the pattern */
	uint32_t loop;  /* or UINT32_MAX */
	uint32_t round; /* in the forecast */
};
struct fit_place fit_loops_place(const struct fit_loops *loops, uint32_t at);

/* The allocation of the pattern whose size a place of a forecast has: that of
 * the place; but if the sizes differ by chance from round to round, all rounds
 * of the pattern take turns, with those of other loops of the same shape. So
 * the mean of many rounds is that of all data that was seen. */
uint32_t fit_loops_sized(const struct fit_loops *loops, struct fit_place place);

/* The gap of the forecast at which a block ends that is at `place` and whose
 * pattern ends in the gap `end` of the pattern. */
uint32_t fit_loops_end(const struct fit_loops *loops,
    const struct fit_run *pattern, struct fit_place place, uint32_t at,
    uint32_t end);

#endif
