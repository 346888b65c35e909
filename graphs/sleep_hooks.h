/*
 * The program's functions that are called before a sleep and after the wake.
 */
#ifndef GRAPHS_SLEEP_HOOKS_H
#define GRAPHS_SLEEP_HOOKS_H

#include <weir/sleep.h>

/* Call `before` of all hooks, unless a sleep that has not ended has called
 * them. A failure of one is returned, and `after` of those before it has been
 * called. The caller holds no lock, here and below. */
enum weir_status sleep_hooks_before(void);

/* Call `after` of all hooks, the latest first, if sleep_hooks_before() has
 * called `before` and no device sleeps. */
void sleep_hooks_after(void);

#endif
