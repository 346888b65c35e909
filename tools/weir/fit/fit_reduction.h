/*
 * Workspaces of PyTorch's reductions, such as the sum of a bias's gradient.
 *
 * A reduction that several blocks of threads share puts their parts into a
 * workspace, and has a counter for each column of blocks behind it. It takes
 * more blocks for more rows, until the device runs no more at once. So the
 * workspace grows as the rows do up to a size, and then stays, until each
 * thread has as many values as it may have.
 */
#ifndef TOOLS_WEIR_FIT_FIT_REDUCTION_H
#define TOOLS_WEIR_FIT_FIT_REDUCTION_H

#include "tools/weir/fit/fit_run.h"

/* The bytes of an allocation of a run that would have `bytes` if it went on to
 * grow: fewer, for the workspace of a reduction. */
double fit_reduction_bytes(
    const struct fit_run *run, uint32_t alloc, double bytes);

#endif
