/*
 * Requests of weir sleep and weir wake, and their answers.
 */
#include "tools/weir/live/sleep_answer.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* All paths of an answer begin so: the process is asked for them only. */
static const char prefix[] = "sleep.";

const struct sleep_reason sleep_reasons[] = {
	{ "stays_segment", "driver segments" },
	{ "stays_pinned", "pinned, exported" },
	{ "stays_refused", "driver refused" },
	{ "stays_shared", "program's, shared" },
	{ "stays_odd", "program's, odd" },
	{ NULL, NULL },
};

struct watch_ctl_request
sleep_change_request(const char *value)
{
	struct watch_ctl_request request = { .magic = WATCH_MAGIC,
		.version = WATCH_VERSION,
		.kind = WATCH_SET,
		.path = "sleep.state" };

	snprintf(request.value, sizeof(request.value), "%s", value);
	return request;
}

struct watch_ctl_request
sleep_list_request(void)
{
	return (struct watch_ctl_request){ .magic = WATCH_MAGIC,
		.version = WATCH_VERSION,
		.kind = WATCH_LIST,
		.path = "sleep" };
}

/* The text of a value, or "". */
static const char *
find_text(const struct watch_ctl_reply *reply, const char *name)
{
	size_t length = strlen(prefix);

	for (uint32_t i = 0; i < reply->row_count; i++)
		if (strncmp(reply->rows[i].path, prefix, length) == 0 &&
		    strcmp(reply->rows[i].path + length, name) == 0)
			return reply->rows[i].text;
	return "";
}

uint64_t
sleep_number(const struct watch_ctl_reply *reply, const char *name)
{
	return strtoull(find_text(reply, name), NULL, 10);
}

bool
sleep_is_asleep(const struct watch_ctl_reply *reply)
{
	return strcmp(find_text(reply, "state"), "asleep") == 0;
}

void
sleep_add_json(json_t *object, const struct watch_ctl_reply *reply)
{
	for (uint32_t i = 0; i < reply->row_count; i++) {
		const struct watch_ctl_row *row = &reply->rows[i];
		const char *name = row->path + strlen(prefix);

		if (strncmp(row->path, prefix, strlen(prefix)) != 0)
			continue;
		json_object_set_new(object, name,
		    strcmp(name, "state") == 0 ?
			json_string(row->text) :
			json_integer(
			    (json_int_t)strtoull(row->text, NULL, 10)));
	}
}
