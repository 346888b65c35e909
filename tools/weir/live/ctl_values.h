/*
 * Values of a watched process by name, for `weir ctl` and the live page.
 */
#ifndef TOOLS_WEIR_LIVE_CTL_VALUES_H
#define TOOLS_WEIR_LIVE_CTL_VALUES_H

#include <jansson.h>
#include <stddef.h>

#include "tools/weir/live/watch_link.h"

/* Rows of values. The caller frees `row`. */
struct ctl_rows {
	struct watch_ctl_row *row;
	size_t count;
	size_t capacity;
};

/* Append the rows at and below a path; "" is all. A complaint was made for
 * WATCH_FAILED. */
enum watch_answer ctl_list(int fd, const char *path, struct ctl_rows *rows);

/* Set a value. `word` is PATH=VALUE. A complaint was made for WATCH_FAILED. */
enum watch_answer ctl_set(int fd, const char *word);

/* A row as `weir ctl --json` prints it. */
json_t *ctl_row_json(const struct watch_ctl_row *row);

#endif
