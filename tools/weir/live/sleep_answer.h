/*
 * Requests to put a process to sleep or to wake it, and what it answers.
 */
#ifndef TOOLS_WEIR_LIVE_SLEEP_ANSWER_H
#define TOOLS_WEIR_LIVE_SLEEP_ANSWER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trace/watch.h"

struct json_t;

/* The request that sets sleep.state to `value`, and the one for all values of
 * sleep. */
struct watch_ctl_request sleep_change_request(const char *value);
struct watch_ctl_request sleep_list_request(void);

/* A number of a process's answer, by the name after "sleep."; 0 if the answer
 * lacks it. */
uint64_t sleep_number(const struct watch_ctl_reply *reply, const char *name);

bool sleep_is_asleep(const struct watch_ctl_reply *reply);

/* Why memory stays on the device: the name of its number, and a text. The last
 * row has no name. */
struct sleep_reason {
	const char *name;
	const char *text;
};
extern const struct sleep_reason sleep_reasons[];

/* Add all values of an answer to an object. */
void sleep_add_json(struct json_t *object, const struct watch_ctl_reply *reply);

#endif
