/*
 * Options, statistics and limits by name, for watchers.
 */
#ifndef ALLOCATOR_API_CTL_H
#define ALLOCATOR_API_CTL_H

#include <stdbool.h>

#include "trace/watch.h"

/* The values of <weir/ctl.h> that a request of WATCH_LIST asks for, or the one
 * of WATCH_SET, set; false: `text` says why not. */
bool ctl_answer(const struct watch_ctl_request *request,
    struct watch_ctl_reply *reply, char text[WATCH_TEXT]);

#endif
