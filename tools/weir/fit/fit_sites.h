/*
 * Call sites as numbers that are equal in all recordings of a program.
 *
 * A site is the functions of its stack and their lines. A recording may be of
 * another machine, so that only the last folder of a file's path counts. The
 * source may have changed between two recordings, which moves lines: where most
 * lines of a function differ, its first recorded line is that of the other
 * recording, and so on; or its lines do not count, if their number differs.
 */
#ifndef TOOLS_WEIR_FIT_FIT_SITES_H
#define TOOLS_WEIR_FIT_FIT_SITES_H

#include "tools/weir/reading/snapshot_file.h"

/*
 * Find the numbers of all stacks.
 *
 * @param snapshots  `count` of them, FIT_RUNS at most
 * @param keys       for each snapshot: a number for each of its stacks, which
 *                   the caller frees
 * @return false without memory; then `keys` has what was made, or NULL
 */
bool fit_sites_find(
    struct snapshot *const *snapshots, unsigned count, uint64_t **keys);

/* True for a stack that does not tell an allocation from others: an empty one,
 * or one that ends in generated code. */
bool fit_site_vague(const struct snapshot *snapshot, uint32_t stack);

#endif
