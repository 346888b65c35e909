/*
 * The round of a recording whose placement is worth repeating.
 */
#ifndef TOOLS_WEIR_PLAN_PLAN_STEADY_H
#define TOOLS_WEIR_PLAN_PLAN_STEADY_H

#include "tools/weir/plan/plan_rounds.h"

/*
 * Find the round whose requests lay in the fewest bytes, of those that the next
 * round repeated, address by address, and that took no longer than the steady
 * rounds do on average; the latest of equal ones. A round is steady if it took
 * about as long as the median: in the first ones the host runs ahead of the
 * device. If there is none, it is the last round but one: of the last one it is
 * not known what comes to lie in its memory.
 *
 * @param out  the round, from 0 on
 * @return false, and a complaint, without memory
 */
bool plan_steady_round(const struct trace *trace,
    const struct plan_requests *requests, uint32_t *out);

#endif
