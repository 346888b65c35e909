/*
 * The allocations of one recording that are those of another one.
 */
#ifndef TOOLS_WEIR_FIT_FIT_MATCH_H
#define TOOLS_WEIR_FIT_FIT_MATCH_H

#include "tools/weir/fit/fit_run.h"
#include "tools/weir/fit/fit_size.h"

enum { FIT_UNMATCHED = UINT32_MAX };

/*
 * Match two recordings by call site, order and size. Sizes match if they are
 * equal, or if they grow as a product of the named numbers does.
 *
 * @param large, small  numbers of the recordings in `numbers`, and theirs
 * @return for each allocation of `large`: the one of `small`, or FIT_UNMATCHED;
 *         NULL without memory. The caller frees it.
 */
uint32_t *fit_match(const struct fit_numbers *numbers, unsigned large,
    const struct fit_run *large_run, unsigned small,
    const struct fit_run *small_run);

#endif
