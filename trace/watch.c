/*
 * Looking at messages before they are believed.
 */
#include "trace/watch.h"

#include <string.h>

static const char *
fault_of(uint32_t magic, uint32_t version)
{
	if (magic != WATCH_MAGIC)
		return "it is not of weir";
	if (version != WATCH_VERSION)
		return "it is of another version of weir";
	return NULL;
}

const char *
watch_request_fault(const void *bytes, size_t n)
{
	struct watch_request request;
	const char *fault;

	if (n < 2 * sizeof(uint32_t))
		return "it is cut";
	memset(&request, 0, sizeof(request));
	memcpy(&request, bytes, n < sizeof(request) ? n : sizeof(request));
	fault = fault_of(request.magic, request.version);
	if (fault != NULL)
		return fault;
	if (n != sizeof(request))
		return "it has a wrong size";
	if (request.kind >= WATCH_KINDS || request.json > 1)
		return "it asks for what there is not";
	return NULL;
}

static bool
is_text(const char *text, size_t size)
{
	return memchr(text, '\0', size) != NULL;
}

static const char *
devices_fault(const struct watch_reply *reply)
{
	for (uint32_t i = 0; i < reply->device_count; i++) {
		const struct watch_device *device = &reply->devices[i];

		if (device->stream_count > WATCH_ROWS ||
		    device->pool_count > WATCH_ROWS)
			return "a device has too many rows";
	}
	return NULL;
}

const char *
watch_reply_fault(const void *bytes, size_t n, enum watch_kind to)
{
	const struct watch_reply *reply = bytes;
	const char *fault;

	if (n < watch_reply_size(0))
		return "it is cut";
	fault = fault_of(reply->magic, reply->version);
	if (fault != NULL)
		return fault;
	if (reply->device_count > WATCH_DEVICES ||
	    n != watch_reply_size(reply->device_count))
		return "it has a wrong size";
	if (reply->kind != (uint32_t)to)
		return "it answers something else";
	if (!is_text(reply->text, sizeof(reply->text)) ||
	    !is_text(reply->weir, sizeof(reply->weir)))
		return "a text in it does not end";
	return devices_fault(reply);
}
