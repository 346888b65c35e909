/*
 * Messages of `weir watch` of arbitrary bytes: a request or reply without a
 * fault is within its bounds.
 */
#include <stdlib.h>
#include <string.h>

#include "trace/watch.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void
look_at_reply(const struct watch_reply *reply, size_t size)
{
	if (size != watch_reply_size(reply->device_count) ||
	    strlen(reply->text) >= WATCH_TEXT ||
	    strlen(reply->weir) >= sizeof(reply->weir))
		abort();
	for (uint32_t i = 0; i < reply->device_count; i++)
		if (reply->devices[i].stream_count > WATCH_ROWS ||
		    reply->devices[i].pool_count > WATCH_ROWS)
			abort();
}

/* A request for an option, or one of the other requests. */
static void
look_at_request(const void *bytes, size_t size)
{
	const struct watch_ctl_request *ctl = bytes;

	if (size == sizeof(struct watch_request))
		return;
	if (size != sizeof(*ctl) ||
	    memchr(ctl->path, '\0', sizeof(ctl->path)) == NULL ||
	    memchr(ctl->value, '\0', sizeof(ctl->value)) == NULL)
		abort();
}

static void
look_at_rows(const struct watch_ctl_reply *reply, size_t size)
{
	if (size != watch_ctl_reply_size(reply->row_count))
		abort();
	for (uint32_t i = 0; i < reply->row_count; i++)
		if (strlen(reply->rows[i].path) >= sizeof(reply->rows->path) ||
		    strlen(reply->rows[i].help) >= sizeof(reply->rows->help))
			abort();
}

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	/* In a copy of about its size, AddressSanitizer finds an access beyond
	 * the message. */
	struct watch_reply *copy = malloc(size + 1);

	if (copy == NULL)
		return 0;
	memcpy(copy, bytes, size);
	if (watch_request_fault(copy, size) == NULL)
		look_at_request(copy, size);
	if (watch_ctl_reply_fault(copy, size) == NULL)
		look_at_rows((const struct watch_ctl_reply *)copy, size);
	if (watch_reply_fault(copy, size, WATCH_STATS) == NULL)
		look_at_reply(copy, size);
	free(copy);
	return 0;
}
