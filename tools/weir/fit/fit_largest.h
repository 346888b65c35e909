/*
 * The largest value of a number with which the program fits the device.
 *
 * A value fits if a replay of its forecast has no failed request, with the
 * device's memory as the limit: an allocator that is short frees its cached
 * memory and tries again. So a program may fit whose peak of held bytes would
 * be above the limit without it.
 */
#ifndef TOOLS_WEIR_FIT_FIT_LARGEST_H
#define TOOLS_WEIR_FIT_FIT_LARGEST_H

#include "tools/weir/fit/fit_judge.h"

/*
 * Search the largest whole value for each allocator, and set the fields
 * `largest...` of its setting. Fragmentation can make a value fail below
 * one that fits: the search begins at the largest value whose live bytes fit
 * the limit, and goes down from there, until the values just below fit as
 * well. What may be live more than is forecast is kept back of the limit. The
 * replays are bounded (tools/weir/fit/tuning.h).
 *
 * @param name    the number, in program->numbers; its asked value is where the
 *                search begins, and is kept
 * @param judged  whose settings are searched
 * @return false, and a complaint, on failure
 */
bool fit_largest(struct fit_program *program, unsigned name, uint64_t limit,
    struct fit_judgement *judged);

#endif
