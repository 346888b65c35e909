/*
 * Formulas of sizes, for allocations that no other recording has: another
 * allocation of the same site and size, or of the same size, shows how it
 * grows.
 */
#ifndef TOOLS_WEIR_FIT_FIT_SIZES_H
#define TOOLS_WEIR_FIT_FIT_SIZES_H

#include "tools/weir/fit/fit_match.h"

struct fit_sizes;

/* NULL without memory. */
struct fit_sizes *fit_sizes_new(const struct fit_numbers *numbers,
    const struct fit_run *runs, unsigned pattern, uint32_t *const *match);
void fit_sizes_free(struct fit_sizes *sizes);

/* The formula of an allocation of the pattern, for what `numbers` ask. */
void fit_sizes_find(
    struct fit_sizes *sizes, uint32_t alloc, struct fit_value *out);

/* The numbers that are asked have changed. */
void fit_sizes_ask(struct fit_sizes *sizes, const double *ask);

#endif
