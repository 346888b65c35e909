/*
 * The figures of replayed traces, as text for people.
 */
#ifndef TOOLS_WEIR_REPLAY_TABLE_H
#define TOOLS_WEIR_REPLAY_TABLE_H

#include <jansson.h>
#include <stdbool.h>

/*
 * Print an array of the objects that `weir replay --json` prints: a table of
 * memory and one of calls and time, a line a trace, and more of one that is
 * alone. False if memory for that is lacking.
 */
bool replay_print(const json_t *all);

#endif
