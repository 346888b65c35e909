/*
 * Printing the samples of a watched process, as text and as JSON.
 */
#ifndef TOOLS_WEIR_LIVE_WATCH_SHOW_H
#define TOOLS_WEIR_LIVE_WATCH_SHOW_H

#include <jansson.h>
#include <stdbool.h>

#include "trace/watch.h"

/* Write the system's name of a process; "?" if it has none. Control characters
 * become '?'. */
void watch_program(uint32_t pid, char name[32]);

/*
 * Print one sample. Rates are of the time since `before`. The first sample has
 * no rates: `before` is NULL. From the second call on, a chart shows the
 * samples of all calls.
 *
 * @param redraw  clear the terminal first
 */
void watch_show_text(const struct watch_reply *now,
    const struct watch_reply *before, bool redraw);

/* A sample as an object. Rates are null if `before` is NULL. */
json_t *watch_json(
    const struct watch_reply *now, const struct watch_reply *before);

/* Print a sample as one line of JSON. False without memory. */
bool watch_show_json(
    const struct watch_reply *now, const struct watch_reply *before);

#endif
