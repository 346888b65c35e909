/*
 * The figures of replayed traces, as text for people.
 */
#ifndef TOOLS_WEIR_REPLAY_REPLAY_TABLE_H
#define TOOLS_WEIR_REPLAY_REPLAY_TABLE_H

#include <jansson.h>
#include <stdbool.h>

/*
 * Print an array of the objects that `weir replay --json` prints: a table of
 * memory and a table of calls and time, with one line for each trace. More
 * figures follow if there is one trace only. False without memory.
 */
bool replay_print(const json_t *all);

#endif
