/*
 * Options, statistics and limits by name, for watchers.
 */
#ifndef ALLOCATOR_API_CTL_H
#define ALLOCATOR_API_CTL_H

#include <stdbool.h>

#include "trace/watch.h"

/* Answer a watcher's request: list the values of <weir/ctl.h> for WATCH_LIST,
 * set one for WATCH_SET. False: `text` gives the reason. */
bool ctl_answer(const struct watch_ctl_request *request,
    struct watch_ctl_reply *reply, char text[WATCH_TEXT]);

#endif
