/*
 * Prints the samples of a watched process, for people and for programs.
 */
#ifndef TOOLS_WEIR_WATCH_SHOW_H
#define TOOLS_WEIR_WATCH_SHOW_H

#include <stdbool.h>

#include "trace/watch.h"

/* The name of a process, as the system has it; "?" if it has none. Control
 * characters become '?'. */
void watch_program(uint32_t pid, char name[32]);

/*
 * Print one sample. Rates are of the time since `before`, which is NULL for the
 * first; then there are none.
 *
 * @param redraw  clear the terminal first
 */
void watch_show_text(const struct watch_reply *now,
    const struct watch_reply *before, bool redraw);

/* Print a sample as one line of JSON. False without memory. */
bool watch_show_json(
    const struct watch_reply *now, const struct watch_reply *before);

#endif
