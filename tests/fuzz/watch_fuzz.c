/*
 * Messages of `weir watch`: whatever bytes come, a request or reply without a
 * fault is in its bounds.
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

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	/* As large as what came, so that a look beyond it is seen. */
	struct watch_reply *copy = malloc(size + 1);

	if (copy == NULL)
		return 0;
	memcpy(copy, bytes, size);
	if (watch_request_fault(copy, size) == NULL &&
	    size != sizeof(struct watch_request))
		abort();
	if (watch_reply_fault(copy, size, WATCH_STATS) == NULL)
		look_at_reply(copy, size);
	free(copy);
	return 0;
}
